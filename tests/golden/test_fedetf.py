"""FedETF: features are projected, normalised and compared with the fixed corners of a simplex."""

import byhand
import nudge
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedetf import FedETF
from perfed.task import Task

Arrays = dict[str, np.ndarray]
COUNTS = [np.array([1, 2]), np.array([1, 1])]


def turned(p: Arrays, x: np.ndarray) -> np.ndarray:
    u = nudge.linear(p, "projection", byhand.features(p, x))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def visit(p: Arrays, v: np.ndarray, client: int) -> Arrays:
    """One step down the balanced softmax: the logarithm of a client's class counts is added to its scores."""
    x, y = byhand.X[client], byhand.Y[client]

    def loss(q: Arrays) -> float:
        return nudge.cross_entropy(q["scale"] * (turned(q, x) @ v.T) + np.log(COUNTS[client]), y)

    return nudge.stepped(loss, p, byhand.LR)


def start(play: byhand.Play) -> tuple[Arrays, np.ndarray]:
    p = nudge.arrays(*play.server)
    return p, play.site.task.parts["simplex"].start["simplex.weight"].numpy().astype(np.float64)


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(FedETF(budget=byhand.BUDGET))
    p, v = start(play)
    assert float(p["scale"]) == 1.0
    for _ in (1, 2):
        p = {k: np.asarray(a) for k, a in byhand.mean(visit(p, v, 0), visit(p, v, 1)).items()}
        play.round()
        found = play.server.body | play.server.projection | play.server.scale
        byhand.close(found, p, atol=1e-5)
        np.testing.assert_allclose(play.logits(0, byhand.X[1]), turned(p, byhand.X[1]) @ v.T, atol=2e-5)  # without the scale
    assert abs(float(p["scale"]) - 1) > 1e-3  # the scale is learned


@pytest.mark.parametrize(("classes", "directions"), [(3, 0), (3, 8), (5, 6)])
def test_class_vectors_are_a_simplex(classes: int, directions: int) -> None:
    net = byhand.net()
    net.head = torch.nn.Linear(3, classes)
    task = Task.of(net, (2,), classes)
    FedETF(directions=directions).init(task, 2)
    v = task.parts["simplex"].start["simplex.weight"].numpy()
    assert v.shape == (classes, directions or classes)
    expected = np.where(np.eye(classes) > 0, 1, -1 / (classes - 1))  # unit length, and as far apart as can be
    np.testing.assert_allclose(v @ v.T, expected, atol=1e-6)


def test_the_simplex_is_alike_everywhere_and_never_moves() -> None:
    play = byhand.Play(FedETF(budget=byhand.BUDGET))
    _, v = start(play)
    play.round()
    assert (start(play)[1] == v).all() and (start(byhand.Play(FedETF()))[1] == v).all()
    assert set(play.transport.ledger.close()[0]) == {"body", "projection", "scale"}


def test_a_class_the_client_lacks_leaves_the_loss_finite() -> None:
    """A client of one class has nothing to tell apart: its balanced softmax is constant and nothing moves."""
    data = byhand.federation()
    data = data.__class__(**{**vars(data), "y": torch.tensor([1, 1, 1, 1, 0])})
    play = byhand.Play(FedETF(budget=byhand.BUDGET), data=data)
    before = trees.clone(play.server)
    play.round((0,))
    assert trees.equal(play.ups[0], before)


def test_personal_tuning_by_hand() -> None:
    """Class vectors first, then the projection, on the plain cross-entropy; the body and the scale stay."""
    method = FedETF(personal=2, personal_epochs=1, vector_lr=0.3, projection_lr=0.2, budget=byhand.BUDGET)
    play = byhand.Play(method).round()
    p, v = start(play)
    x, y = byhand.X[0], byhand.Y[0]

    def loss(q: Arrays) -> float:
        return nudge.cross_entropy(q["scale"] * (turned(q, x) @ q["simplex"].T), y)

    p["simplex"] = v
    for _ in (1, 2):
        p = nudge.stepped(loss, p, 0.3, ("simplex",))
        p = nudge.stepped(loss, p, 0.2, ("projection",))
    data = play.site.federation.shard(0, 1, 8, False)
    down, mine = method.adapt(play.site.task, play.server, play.mine(0), data)
    byhand.close(down.projection, p, "projection", atol=1e-5)
    np.testing.assert_allclose(mine["simplex.weight"].numpy(), p["simplex"], atol=1e-5)
    assert trees.equal(down.body, play.server.body) and play.mine(0) == {}


def test_personal_tuning_changes_tests_not_training() -> None:
    budget, data = Budget(lr=0.1, batch_size=8), testing.federation(3)
    one, two = (testing.play(FedETF(personal=n, budget=budget), data) for n in (1, 0))
    assert trees.equal(one.states(), two.states())
    assert one.history[-1].scores != two.history[-1].scores


def test_fewer_directions_than_classes_are_refused() -> None:
    with pytest.raises(MethodError, match="classes ≤ directions"):
        FedETF(directions=1).check(byhand.task(), [3, 2], 2)
