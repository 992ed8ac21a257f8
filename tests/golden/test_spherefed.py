"""SphereFed: normalised features are fitted to fixed orthonormal class vectors; at the end these may be calibrated."""

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.spherefed import SphereFed
from perfed.task import Task

Arrays = dict[str, np.ndarray]
TARGET = np.eye(2)


def vectors(the_task: Task) -> np.ndarray:
    return the_task.parts["sphere"].start["sphere.weight"].numpy().astype(np.float64)


def sphere(p: Arrays, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z = byhand.features(p, x)
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return z / length, length


def visit(p: Arrays, w: np.ndarray, client: int) -> Arrays:
    """One step down the squared error, summed over classes and averaged over samples."""
    x, y = byhand.X[client], byhand.Y[client]
    h, length = sphere(p, x)
    back = 2 * (h @ w.T - TARGET[y]) / len(y) @ w
    back = (back - h * (h * back).sum(1, keepdims=True)) / length  # through the normalisation
    g = byhand.chain(p, x, byhand.features(p, x), np.zeros((len(y), 2)), back)
    return byhand.step(p, {k: v for k, v in g.items() if k.startswith("body")})


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(SphereFed(budget=byhand.BUDGET))
    w, p = vectors(play.site.task), byhand.START
    for _ in (1, 2):
        p = byhand.mean(visit(p, w, 0), visit(p, w, 1))
        play.round()
        byhand.close(play.server.body, p, "body")
        np.testing.assert_allclose(play.logits(0, byhand.X[1]), sphere(p, byhand.X[1])[0] @ w.T, atol=1e-5)
    assert play.transport.ledger.close()[0] == {"body": 2 * 2 * 9 * 4}  # the classifier never crosses


def test_class_vectors_are_orthonormal_alike_everywhere_and_never_move() -> None:
    play = byhand.Play(SphereFed(budget=byhand.BUDGET))
    w = vectors(play.site.task)
    np.testing.assert_allclose(w @ w.T, np.eye(2), atol=1e-6)
    play.round()
    assert (vectors(play.site.task) == w).all()
    assert (vectors(byhand.Play(SphereFed()).site.task) == w).all()  # drawn from the seed, not by each client
    other = Task.of(byhand.net(), (2,), 2, seed=1)
    SphereFed().init(other, 2)
    assert not np.allclose(vectors(other), w)


def test_only_the_direction_of_a_feature_counts() -> None:
    play = byhand.Play(SphereFed(budget=byhand.BUDGET))
    before = play.logits(0, byhand.X[0])
    tripled = trees.map(lambda v: 3 * v, play.server.body)
    play.server = play.server._replace(body=tripled)
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), before, atol=1e-6)


def test_calibration_solves_the_least_squares_of_all_clients() -> None:
    play = byhand.Play(SphereFed(calibrate=True, ridge=0.3, rounds=2, budget=byhand.BUDGET)).round()
    w = vectors(play.site.task)
    p = byhand.mean(visit(byhand.START, w, 0), visit(byhand.START, w, 1))
    body = trees.clone(play.server.body)
    play.round()
    assert trees.equal(play.server.body, body)  # the round that calibrates does not train
    h = np.concatenate([sphere(p, x)[0] for x in byhand.X])
    y = TARGET[np.concatenate(byhand.Y)]
    best = np.linalg.solve(h.T @ h + 0.3 * np.eye(3), h.T @ y)
    byhand.close(play.ups[1].statistics, {"gram": h[3:].T @ h[3:], "cross": h[3:].T @ y[3:]})
    np.testing.assert_allclose(play.server.head["sphere.weight"].numpy(), best.T, atol=1e-5)
    np.testing.assert_allclose(play.logits(1, byhand.X[0]), sphere(p, byhand.X[0])[0] @ best, atol=1e-5)


def test_a_classifier_calibrated_for_another_body_is_forgotten() -> None:
    play = byhand.Play(SphereFed(calibrate=True, rounds=2, budget=byhand.BUDGET)).round().round()
    assert play.method.send(play.server, 0).head
    play.round()
    assert play.method.send(play.server, 0).head == {}


def test_until_the_last_round_calibration_changes_nothing() -> None:
    budget = Budget(lr=0.1, batch_size=8)
    for norm in (False, True):
        one = testing.play(SphereFed(calibrate=True, rounds=4, budget=budget), testing.federation(), norm=norm)
        two = testing.play(SphereFed(budget=budget), testing.federation(), norm=norm)
        assert trees.equal(one.states(), two.states())
        assert [r.scores for r in one.history] == [r.scores for r in two.history]


def test_a_projection_is_trained_and_averaged_with_the_body() -> None:
    play = byhand.Play(SphereFed(projection=True, budget=byhand.BUDGET))
    start = trees.clone(play.server.body)
    play.round()
    assert "projection.weight" in play.ups[0].body
    assert not torch.equal(start["projection.weight"], play.server.body["projection.weight"])
    p = {k: v.numpy() for k, v in play.server.body.items()}
    z = byhand.features(p, byhand.X[0]) @ p["projection.weight"].T + p["projection.bias"]
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), z @ vectors(play.site.task).T, atol=1e-5)


def test_more_classes_than_features_cannot_be_orthogonal() -> None:
    with pytest.raises(MethodError, match="needs 4 orthogonal class vectors in 3 features"):
        net = byhand.net()
        net.head = torch.nn.Linear(3, 4)
        SphereFed().check(Task.of(net, (2,), 4), [3, 2], 2)
