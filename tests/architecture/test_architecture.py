"""The tree's own rules: imports point one way, no method imports another, only the command line prints."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "perfed"
FILES = sorted(SRC.rglob("*.py"))

# Each entry may import those to its right and those on later lines, never one before it.
LAYERS = [
    ["__main__", "cli"],
    ["silos", "papers", "testing", "analysis", "watch"],
    ["api", "racing", "keywords", "results", "report", "shelf"],
    ["runs", "serving", "trackers"],
    ["progress", "rounds", "sampling", "attacks", "transport", "privacy", "evaluate", "advice", "reference", "listing"],
    ["methods", "method", "wire", "server", "federation", "task"],
    ["machine", "local", "partition", "models", "data"],
    ["cluster", "trees", "keys", "chain", "disk", "shapes", "units", "errors", "sources", "words", "httpd"],
]
ORDER = [name for names in LAYERS for name in names]
LEVEL = {name: place for place, name in enumerate(ORDER)}


def unit(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> set[tuple[str, ...]]:
    """The perfed modules that a file imports, as parts below the package; what only type checkers see does not count."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(sub)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for sub in ast.walk(node)
    }
    here = path.relative_to(SRC).parts[:-1]
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("perfed.")}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [*here[: len(here) - (node.level - 1)], *module]
            elif module[:1] == ["perfed"]:
                base = module[1:]
            else:
                continue
            found |= {tuple(base)} if base else {(alias.name,) for alias in node.names}
            found |= {(*base, alias.name) for alias in node.names} if base in (["methods"],) else set()
    return {parts for parts in found if parts}


def test_every_module_has_its_place() -> None:
    units = {unit(path) for path in FILES} - {"__init__"}
    assert units == set(LEVEL), sorted(units ^ set(LEVEL))


@pytest.mark.parametrize("path", [p for p in FILES if unit(p) != "__init__"], ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_one_way(path: Path) -> None:
    own = unit(path)
    for parts in imports(path):
        if parts[0] != own and parts[0] in LEVEL:
            assert LEVEL[parts[0]] > LEVEL[own], f"{own} imports {'.'.join(parts)}"


@pytest.mark.parametrize("path", [p for p in FILES if unit(p) == "methods" and p.stem != "__init__"], ids=lambda p: p.stem)
def test_no_method_imports_another(path: Path) -> None:
    assert not [parts for parts in imports(path) if parts[0] == "methods"]


def test_only_transport_and_what_is_above_it_know_the_wire() -> None:
    users = {unit(path) for path in FILES for parts in imports(path) if parts[0] == "wire" and unit(path) != "wire"}
    assert users <= {"transport", "testing", "silos", "catalogue"}, users


def test_data_and_partition_never_import_methods() -> None:
    for path in FILES:
        if unit(path) in ("data", "partition"):
            assert not {parts[0] for parts in imports(path)} & {"method", "methods"}


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if unit(path) != "cli":
            calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], path


def test_nothing_is_unpickled() -> None:
    for path in FILES:
        if unit(path) == "testing":  # checks that methods survive pickling
            continue
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text and "allow_pickle=True" not in text, path
        assert "torch.load(" not in text or "weights_only=True" in text, path


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    for path in FILES:
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert said and len(said.splitlines()[0]) > 10, path


@pytest.mark.parametrize("module", ["cli.commands", "silos.flower.link"])
def test_help_and_the_link_wait_for_nothing_heavy(module: str) -> None:
    heavy = ("torch", "numpy", "pandas", "sklearn", "matplotlib", "flwr")
    code = f"import sys, perfed.{module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_imports_itself_one_way() -> None:
    """Relative imports throughout: a second way would be a second dialect."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level or (node.module or "").split(".")[0] != "perfed", f"{path}:{node.lineno}"


def test_no_class_name_has_two_meanings() -> None:
    """A method's own states (Server, Up, Down, Mine, Model) are the paper's words, and each file's own."""
    homes: dict[str, Path] = {}
    for path in FILES:
        if unit(path) == "methods":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name not in homes, f"{node.name} in {path} and {homes[node.name]}"
                homes[node.name] = path


def test_the_run_folders_file_names_are_known_to_one_package() -> None:
    names = ("rounds.jsonl", "clients.json", "final.json", "manifest.json", "settings.yaml", "compare.json", "checkpoint.json")
    for path in FILES:
        if unit(path) == "runs":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings may speak of them
        used = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in names and id(n) not in said]
        assert not used, f"{path}:{used[0].lineno} spells {used[0].value}"


def test_write_then_rename_and_locks_are_in_one_place() -> None:
    allowed = {"disk.py", "data/download.py"}  # a download resumes: its half-written file is the point
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if path.relative_to(SRC).as_posix() not in allowed:
            assert "fcntl" not in text and "os.fsync" not in text.replace("os.fsync(file.fileno())  # a line", ""), path
