"""ε as other accountants count it, and by hand where a hand can."""

import math

import numpy as np
import pytest

from perfed.errors import InputError
from perfed.privacy import ORDERS, Privacy, Spending, curve, epsilon

# rate, noise, steps, δ: from few to many steps, from little to much noise
GRID = [
    (0.01, 1.0, 1000, 1e-5), (0.01, 1.1, 10000, 1e-5), (0.001, 0.8, 10000, 1e-6), (0.05, 1.5, 500, 1e-5),
    (0.1, 2.0, 300, 1e-5), (0.02, 0.7, 200, 1e-4), (0.004, 1.0, 15000, 1e-5), (0.2, 4.0, 1000, 1e-5),
    (0.5, 3.0, 100, 1e-3), (0.25, 1.0, 10, 1e-3), (0.01, 2.0, 20000, 1e-7), (0.03, 1.3, 1500, 1e-3),
    (0.0133, 0.9, 1500, 1e-3), (0.0465, 2.5, 1500, 1e-4), (0.15, 1.0, 50, 1e-5), (0.003, 0.6, 3000, 1e-5),
    (1.0, 1.0, 1, 1e-5), (1.0, 5.0, 100, 1e-5), (1.0, 10.0, 50, 1e-3), (1.0, 2.0, 10, 1e-6),
]  # fmt: skip
# ε of this grid by opacus 1.6.0's RDP accountant, where it is not installed
KNOWN = [
    2.1014, 5.632, 1.7036, 4.1438, 4.5643, 4.6364, 2.9663, 8.3169, 6.961, 4.6575,
    4.1865, 3.8666, 3.0027, 3.0461, 8.5768, 4.9522, 4.7285, 10.7255, 2.3305, 8.8469,
]  # fmt: skip


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_epsilon_is_within_a_hundredth_of_opacus(setting: tuple[float, float, int, float]) -> None:
    opacus = pytest.importorskip("opacus.accountants")
    rate, noise, steps, delta = setting
    theirs = opacus.RDPAccountant()
    theirs.history = [(noise, rate, steps)]
    assert epsilon([(rate, noise, steps)], delta) == pytest.approx(theirs.get_epsilon(delta), rel=0.01)


@pytest.mark.parametrize("setting", GRID, ids=str)
def test_epsilon_is_within_a_hundredth_of_dp_accounting(setting: tuple[float, float, int, float]) -> None:
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    rate, noise, steps, delta = setting
    theirs = rdp.RdpAccountant()
    event = accounting.GaussianDpEvent(noise)
    event = event if rate == 1 else accounting.PoissonSampledDpEvent(rate, event)
    theirs.compose(accounting.SelfComposedDpEvent(event, steps))
    assert epsilon([(rate, noise, steps)], delta) == pytest.approx(theirs.get_epsilon(delta), rel=0.01)


@pytest.mark.parametrize(("setting", "theirs"), list(zip(GRID, KNOWN, strict=True)), ids=str)
def test_epsilon_is_what_both_said(setting: tuple[float, float, int, float], theirs: float) -> None:
    rate, noise, steps, delta = setting
    assert epsilon([(rate, noise, steps)], delta) == pytest.approx(theirs, rel=0.01)


def test_without_sampling_the_divergence_is_that_of_two_bells() -> None:
    assert curve(1.0, 2.0) == pytest.approx([order / 8 for order in ORDERS])


def test_the_second_moment_by_hand() -> None:
    # Σ_k C(2, k) (1 − q)^(2 − k) q^k e^((k² − k) / 2σ²) = 1 + q² (e^(1/σ²) − 1)
    q, sigma = 0.3, 1.7
    assert curve(q, sigma)[ORDERS.index(2.0)] == pytest.approx(math.log1p(q * q * math.expm1(1 / sigma**2)), rel=1e-12)


def test_orders_in_between_lie_on_the_curve_of_the_whole_ones() -> None:
    found = dict(zip(ORDERS, curve(0.05, 1.1), strict=True))
    for low, middle, high in ((2.0, 2.5, 3.0), (5.0, 5.5, 6.0)):
        logs = [(order - 1) * found[order] for order in (low, middle, high)]
        assert logs[0] < logs[1] < (logs[0] + logs[2]) / 2  # the moments' logarithm is convex
    assert all(np.diff([found[order] for order in sorted(found)]) >= -1e-12)


def test_no_step_spends_nothing_and_every_step_spends_more() -> None:
    assert epsilon([], 1e-5) == 0
    assert epsilon([(0.1, 1.0, 0)], 1e-5) == 0
    spent = [epsilon([(0.1, 1.0, steps)], 1e-5) for steps in range(1, 30)]
    assert spent == sorted(spent) and spent[0] > 0
    with pytest.raises(InputError, match=r"rate in \[0, 1\]"):
        curve(1.5, 1.0)


def test_who_took_part_most_often_decides() -> None:
    privacy = Privacy("client", noise=4.0)
    spending = Spending.of(privacy, [10, 20, 30], 10, [1])
    assert spending.epsilon() == 0
    spending.took_part([0, 1])
    spending.took_part([1])
    assert spending.epsilon() == epsilon([(1.0, 4.0, 2)], 1e-5)
    assert spending.epsilon([2]) == spending.epsilon() < spending.epsilon([1])


def test_the_smaller_the_client_the_more_a_step_says_of_its_samples() -> None:
    spending = Spending.of(Privacy("sample", noise=2.0), [20, 200], 10, [2, 20])
    spending.took_part([0, 1])
    assert spending.rates == [0.5, 0.05]
    assert spending.epsilon() == max(epsilon([(0.5, 2.0, 2)], 1e-5), epsilon([(0.05, 2.0, 20)], 1e-5))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "clients"}, "must be none, client or sample"),
        ({"name": "client", "clip": 0}, "privacy.clip must be positive"),
        ({"name": "client", "noise": -1}, "privacy.noise must be positive"),
        ({"name": "client", "delta": 1}, "privacy.delta must be between"),
        ({"name": "sample", "stop": 0}, "privacy.stop must be a positive"),
        ({"clip": 2.0}, "have no effect without privacy=client"),
    ],
)
def test_what_cannot_be_right_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Privacy(**given)  # type: ignore[arg-type]
