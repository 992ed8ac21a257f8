"""MOON: features are drawn to the received model's and pushed from the client's previous ones."""

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.moon import Moon
from perfed.sampling import Sampling

Arrays = dict[str, np.ndarray]
STEPS = Budget(lr=0.5, batch_size=8, epochs=2)


def cosine(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row by row: the cosine, and its slope in the first argument."""
    la, lb = np.linalg.norm(a, axis=1, keepdims=True), np.linalg.norm(b, axis=1, keepdims=True)
    c = (a * b).sum(1, keepdims=True) / (la * lb)
    return c[:, 0], b / (la * lb) - c * a / la**2


def visit(down: Arrays, previous: Arrays, client: int, mu: float, tau: float, steps: int = 2) -> Arrays:
    x, y = byhand.X[client], byhand.Y[client]
    received, last, w = byhand.features(down, x), byhand.features(previous, x), down
    for _ in range(steps):
        z = byhand.features(w, x)
        (near, to_near), (far, to_far) = cosine(z, received), cosine(z, last)
        # −log( e^(near/τ) / (e^(near/τ) + e^(far/τ)) ), averaged over the batch
        chance = np.exp(near / tau) / (np.exp(near / tau) + np.exp(far / tau))
        extra = mu / len(y) * ((1 - chance) / tau)[:, None] * (to_far - to_near)
        error = byhand.softmax(byhand.logits(w, x))
        error[np.arange(len(y)), y] -= 1
        w = byhand.step(w, byhand.chain(w, x, z, error / len(y), extra))
    return w


@pytest.mark.parametrize(("mu", "tau"), [(1.0, 0.5), (5.0, 0.25)])
def test_three_rounds_by_hand(mu: float, tau: float) -> None:
    play = byhand.Play(Moon(contrast=mu, temperature=tau, budget=STEPS))
    down, previous = byhand.START, [byhand.START, byhand.START]
    for _ in (1, 2, 3):
        ends = [visit(down, previous[i], i, mu, tau) for i in (0, 1)]
        play.round()
        down, previous = byhand.mean(*ends), ends
        byhand.close(play.server, down, atol=5e-6)
        for i in (0, 1):
            byhand.close(play.mine(i), ends[i], "body", atol=5e-6)


def test_paper_values_are_the_defaults() -> None:
    assert (Moon().contrast, Moon().temperature) == (1.0, 0.5)


def test_the_negative_is_the_clients_own_last_model_however_long_ago() -> None:
    play = byhand.Play(Moon(budget=STEPS)).round()
    own = visit(byhand.START, byhand.START, 1, 1.0, 0.5)
    play.round((0,)).round((0,))
    byhand.close(play.mine(1), own, "body", atol=5e-6)
    down = {k: v.numpy().astype(np.float64) for k, v in play.server.items()}
    play.round((1,))
    byhand.close(play.ups[0], visit(down, own, 1, 1.0, 0.5), atol=5e-6)


def test_without_contrast_it_is_fedavg() -> None:
    """Validation refuses μ = 0, so the test sets it behind its back."""
    budget = Budget(lr=0.1, batch_size=8)
    method = Moon(budget=budget)
    object.__setattr__(method, "contrast", 0.0)
    for norm in (False, True):
        testing.check_reduces(method, FedAvg(budget=budget), lambda p: p.server, lambda p: p.server, norm=norm)


def test_comparing_moves_no_statistics() -> None:
    data, budget = testing.federation(sizes=[24] * 3), Budget(lr=0.1, batch_size=8)
    played = testing.play(Moon(budget=budget), data, norm=True, count=2, sampling=Sampling())
    name = "~body.1.num_batches_tracked"
    assert int(played.server[name]) == 6 and int(played.privates[0].mine[name]) == 6  # three batches a round, counted once


def test_the_projection_head_is_trained_shared_and_classified_on() -> None:
    method = Moon(projection=True, budget=STEPS)
    play = byhand.Play(method)
    start = trees.clone(play.server)
    play.round()
    assert all(not torch.equal(play.server[k], v) for k, v in start.items() if k.startswith("projection"))
    w, x = {k: v.numpy() for k, v in play.server.items()}, byhand.X[0]
    z = np.maximum(byhand.features(w, x) @ w["projection.0.weight"].T + w["projection.0.bias"], 0)
    z = z @ w["projection.2.weight"].T + w["projection.2.bias"]
    np.testing.assert_allclose(play.logits(0, x), z @ w["head.weight"].T + w["head.bias"], atol=1e-5)


@pytest.mark.parametrize("wrong", [{"contrast": 0.0}, {"temperature": 0.0}])
def test_what_would_make_it_fedavg_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(MethodError, match="MOON needs"):
        Moon(**wrong)
