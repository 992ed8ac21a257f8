"""Every method of the catalogue passes every check of the contract, without and with BatchNorm."""

from dataclasses import replace
from typing import Any

import pytest

from perfed.local import Budget
from perfed.methods import CATALOGUE, find
from perfed.testing import CHECKS, check_hyper_parameters, check_is_itself

BUDGET = Budget(lr=0.1, batch_size=8)
NEEDS_NORM = {"fedbn"}
OPTIONS: dict[str, dict[str, Any]] = {  # fields under which a method learns the small problem in few rounds
    "dualfed": {"contrast": 1.0, "projector_norm": False},  # BatchNorm over batches of two magnifies rounding a millionfold
    "fedcac": {"narrowing": 10},
    "lgfedavg": {"warmup": 1},  # or the few rounds of a check would all be FedAvg
    "pfedme": {"spring": 5.0, "personal_lr": 0.1},  # 15 · 0.1 would overshoot
    "spherefed": {"projection": True},  # eight features after a ReLU reach too little of the sphere
}
BUDGETS = {  # where a method's defaults refuse the budget above: other steps, the same defaults
    "dualfed": Budget(lr=0.004, batch_size=8),  # 50 · λ · lr samples a batch
    "pfedme": Budget(lr=0.05, batch_size=8),  # ηλ < 1
}
COUNTS = {"lgfedavg": 25}  # its first 20 rounds are FedAvg's


def method(name: str) -> Any:
    return replace(find(name)(**OPTIONS.get(name, {})), budget=BUDGET)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_hyper_parameters(name: str) -> None:
    check_hyper_parameters(method(name))


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("check", sorted(CHECKS))
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_contract(name: str, check: str, norm: bool) -> None:
    if name in NEEDS_NORM and not norm:
        pytest.skip("needs BatchNorm")
    CHECKS[check](method(name), norm)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_at_its_defaults_no_method_is_its_own_degenerate_case(name: str, norm: bool) -> None:
    """The checks above run with the fields that suit a small problem; this one with none but the budget."""
    if name in NEEDS_NORM and not norm:
        pytest.skip("needs BatchNorm")
    check_is_itself(find(name)(budget=BUDGETS.get(name, BUDGET)), norm, count=COUNTS.get(name, 10))


@pytest.mark.parametrize(
    ("name", "options", "is_it", "norm"),
    [
        ("fedprox", {"spring": 1e-4}, "FedAvg", False),
        ("fedcp", {"blend": "personal", "align": 0.0}, "FedPer", False),
        ("gpfl", {"valve": False, "embeddings": False}, "FedPer", True),
        ("fedpick", {"selection": "none"}, "FedBN", True),
    ],
)
def test_a_method_that_is_its_degenerate_case_is_told_so(name: str, options: dict[str, Any], is_it: str, norm: bool) -> None:
    with pytest.raises(AssertionError, match=f"it is {is_it} but for"):
        check_is_itself(find(name)(**options, budget=BUDGET), norm)
