"""The tests' own rules: the same examples every time, no assertion about a clock, no draw that depends on who ran before."""

import ast
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))
CLOCKS = {"perf_counter", "monotonic", "time", "process_time"}


def drawn() -> list[int]:
    found: list[int] = []

    @given(st.integers(0, 2**31))
    def look(number: int) -> None:
        found.append(number)

    look()
    return found


def test_property_tests_draw_the_same_examples_every_time() -> None:
    with_profile = settings(settings.get_profile("steady"))
    assert with_profile.derandomize and with_profile.deadline is None and with_profile.database is None
    if settings().derandomize:  # make test-random draws others on purpose
        assert drawn() == drawn()


def test_no_test_asserts_how_long_something_takes() -> None:
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                called = [n.func for n in ast.walk(node.test) if isinstance(n, ast.Call)]
                names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in called}
                assert not names & CLOCKS, f"{path.name}:{node.lineno} asserts on a clock"


def test_torch_starts_every_test_from_the_same_place() -> None:
    first = torch.rand(1)
    assert torch.equal(first, torch.rand(1, generator=torch.Generator().manual_seed(0)))
