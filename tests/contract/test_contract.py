"""Every method of the catalogue passes every check of the contract, without and with BatchNorm."""

from dataclasses import replace
from typing import Any

import pytest

from perfed.local import Budget
from perfed.methods import CATALOGUE, find
from perfed.testing import CHECKS, check_hyper_parameters

BUDGET = Budget(lr=0.1, batch_size=8)
NEEDS_NORM = {"fedbn"}
OPTIONS: dict[str, dict[str, Any]] = {  # fields under which a method learns the small problem in few rounds
    "dualfed": {"contrast": 1.0, "projector_norm": False},  # BatchNorm over batches of two magnifies rounding a millionfold
    "fedcac": {"narrowing": 10},
    "lgfedavg": {"warmup": 1},  # or the few rounds of a check would all be FedAvg
    "pfedme": {"spring": 5.0, "personal_lr": 0.1},  # 15 · 0.1 would overshoot
    "spherefed": {"projection": True},  # eight features after a ReLU reach too little of the sphere
}


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
