"""Every public name says what it takes, what it gives, and shows it in an example that runs."""

import doctest
import inspect
import re
from typing import Any

import pytest

import perfed

# Names whose docstrings are still to be written: nothing may be added, and what is written must leave.
TODO = {"Samples", "Sampling", "Settings", "Split", "Trained", "compare", "export", "federate", "open", "train"}


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


def wrong(name: str, found: Any) -> list[str]:
    doc = inspect.cleandoc(found.__doc__ or "")
    lacks = [] if doc else [f"{name} has no docstring"]
    said = re.findall(r"^    (\w+): ", section(doc, "Args"), re.M)
    if said != parameters(found):
        lacks.append(f"{name} takes {parameters(found)} and documents {said}")
    gives = None if inspect.isclass(found) else inspect.signature(found).return_annotation
    if gives not in (None, "None") and not section(doc, "Returns").strip():
        lacks.append(f"{name} does not say what it returns")
    if ">>> " not in section(doc, "Example"):
        lacks.append(f"{name} has no example")
    return lacks


@pytest.mark.parametrize("name", [name for name in perfed.__all__ if name not in TODO])
def test_parameters_result_and_an_example_are_documented(name: str) -> None:
    assert [lack for each, found in members(name).items() for lack in wrong(each, found)] == []


def test_what_is_still_to_be_written_is_really_lacking() -> None:
    assert set(perfed.__all__) >= TODO
    done = {name for name in TODO if not [lack for each, found in members(name).items() for lack in wrong(each, found)]}
    assert not done, f"documented now, take them off the list: {sorted(done)}"


@pytest.mark.parametrize("name", perfed.__all__)
def test_examples_run(name: str) -> None:
    for each, found in members(name).items():
        for example in doctest.DocTestFinder(recurse=False).find(found, each, globs={}):
            said: list[str] = []
            failed, _ = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(example, out=said.append)
            assert not failed, "".join(said)
