"""Every public name says what it takes, what it gives, and shows it in an example that runs."""

import ast
import doctest
import inspect
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import perfed
from perfed import api


def members(name: str) -> dict[str, Any]:
    """A public name, and, of a class, its public methods; properties say in a sentence what they are."""
    found = getattr(perfed, name)
    if not inspect.isclass(found):
        return {name: found}
    bases = [base for base in found.__mro__ if base.__module__.startswith("perfed")]
    own = {k: v for base in bases for k, v in vars(base).items() if not k.startswith("_")}
    methods = {k: getattr(found, k) for k, v in own.items() if inspect.isfunction(inspect.unwrap(getattr(v, "__func__", v)))}
    return {name: found} | {f"{name}.{k}": v for k, v in methods.items()}


def parameters(found: Any) -> list[str]:
    """What is to be given, without self."""
    if inspect.isclass(found) and issubclass(found, tuple):
        return list(found._fields)  # type: ignore[attr-defined]
    return [p for p in inspect.signature(found).parameters if p not in ("self", "cls")]


def section(doc: str, title: str) -> str:
    """The text below a heading such as ``Args:``."""
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n)*)", doc + "\n", re.M)
    return found[1] if found else ""


def refuses(found: Any) -> bool:
    """Whether a function raises something of its own, or a class does when it is made."""
    made = (
        [vars(found)[name] for name in ("__init__", "__post_init__") if name in vars(found)]
        if inspect.isclass(found)
        else [found]
    )
    written = [inspect.unwrap(each) for each in made]
    sources = [dedent(inspect.getsource(each)) for each in written if not each.__code__.co_filename.startswith("<")]
    return any(isinstance(node, ast.Raise) for source in sources for node in ast.walk(ast.parse(source)))


def wrong(name: str, found: Any) -> list[str]:
    doc = inspect.cleandoc(found.__doc__ or "")
    lacks = [] if doc else [f"{name} has no docstring"]
    said = re.findall(r"^    \*{0,2}(\w+): ", section(doc, "Args"), re.M)
    if said != parameters(found):
        lacks.append(f"{name} takes {parameters(found)} and documents {said}")
    gives = None if inspect.isclass(found) else inspect.signature(found).return_annotation
    if gives not in (None, "None") and not section(doc, "Returns").strip():
        lacks.append(f"{name} does not say what it returns")
    if refuses(found) and not section(doc, "Raises").strip():
        lacks.append(f"{name} does not say what it raises")
    if ">>> " not in section(doc, "Example"):
        lacks.append(f"{name} has no example")
    return lacks


@pytest.mark.parametrize("name", perfed.__all__)
def test_parameters_result_and_an_example_are_documented(name: str) -> None:
    assert [lack for each, found in members(name).items() for lack in wrong(each, found)] == []


def once(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb that works once for equal arguments: examples of one class look at one comparison, which takes a while."""
    known: dict[str, Any] = {}

    def shared(*given: Any, **named: Any) -> Any:
        asked = repr((given, named))
        if asked not in known:
            known[asked] = verb(*given, **named)
        return known[asked]

    return shared


@pytest.mark.parametrize("name", perfed.__all__)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # nothing stays behind
    monkeypatch.setattr(api, "compare", once(api.compare))
    for each, found in members(name).items():
        for example in doctest.DocTestFinder(recurse=False).find(found, each, globs={}):
            said: list[str] = []
            failed, _ = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(example, out=said.append)
            assert not failed, "".join(said)
