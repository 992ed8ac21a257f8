"""Small enough to be read: files of at most 350 lines, functions of at most 50, at most 7 parameters outside the public face."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "perfed"
FILE, FUNCTION, PARAMETERS = 350, 50, 7
FACE = (
    "api.py",
    "racing.py",
    "__init__.py",
    "cli/",
    "data/samples.py:of",
)  # what people call may take more


def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((f"{path.relative_to(SRC).as_posix()}:{node.name}", node))
    return found


def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end, without the docstring, which may explain."""
    said = node.body[0] if ast.get_docstring(node) is not None else None
    return (node.end_lineno or 0) - node.lineno + 1 - (0 if said is None else (said.end_lineno or 0) - said.lineno + 1)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len(named) - (named[:1] != [] and named[0].arg in ("self", "cls"))


def test_files() -> None:
    large = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > FILE
    }
    assert large == set()


def test_functions() -> None:
    assert {name for name, node in functions() if lines(node) > FUNCTION} == set()


def test_parameters() -> None:
    many = {name for name, node in functions() if parameters(node) > PARAMETERS and not name.startswith(FACE)}
    assert many == set()
