"""FedProx: the slope of the loss plus μ (w − w_received)."""

import byhand
import pytest
import torch

from perfed import testing
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.local.losses import proximal
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedprox import FedProx

Arrays = dict[str, byhand.np.ndarray]


def two_steps(received: Arrays, client: int, spring: float) -> Arrays:
    p, x, y = received, byhand.X[client], byhand.Y[client]
    for _ in range(2):
        g = byhand.slopes(p, x, y)
        p = byhand.step(p, {k: g[k] + spring * (p[k] - received[k]) for k in p})
    return p


def test_two_rounds_of_two_steps_pull_towards_the_model_of_their_own_round() -> None:
    """An un-squared distance, or an anchor that moves along or stays at the start, gives other numbers."""
    play = byhand.Play(FedProx(spring=0.8, budget=Budget(lr=byhand.LR, batch_size=8, epochs=2)))
    received = byhand.START
    for _ in range(2):
        ends = [two_steps(received, i, 0.8) for i in (0, 1)]
        received = byhand.mean(*ends)
        play.round()
        byhand.close(play.ups[0], ends[0])
        byhand.close(play.ups[1], ends[1])
        byhand.close(play.server, received)


def test_the_spring_is_half_the_squared_distance_of_all_tensors_together() -> None:
    a, b = {"x": torch.tensor([3.0, 0.0]), "y": torch.tensor([4.0])}, {"x": torch.zeros(2), "y": torch.zeros(1)}
    assert float(proximal(a, b)) == 12.5  # the sum of norms would be 7, the norm 5


def test_statistics_have_no_spring() -> None:
    a, b = {"x": torch.ones(1), "~s": torch.full((1,), 9.0)}, {"x": torch.zeros(1), "~s": torch.zeros(1)}
    assert float(proximal(a, b)) == 0.5


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_spring_it_is_fedavg_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8, epochs=2)
    loose = byhand.forced(FedProx(budget=budget), spring=0.0)
    testing.check_reduces(loose, FedAvg(budget=budget), lambda p: p.server, lambda p: p.server, norm=norm)


def test_a_spring_of_zero_is_refused() -> None:
    with pytest.raises(MethodError, match="FedAvg"):
        FedProx(spring=0.0)
