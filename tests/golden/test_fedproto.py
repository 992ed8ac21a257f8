"""FedProto: prototypes go up and come back averaged; features are pulled towards them; the nearest one decides."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedproto import FedProto, Prototypes
from perfed.methods.local import Local

Arrays = dict[str, np.ndarray]


def centres(p: Arrays, client: int) -> np.ndarray:
    z, y = byhand.features(p, byhand.X[client]), byhand.Y[client]
    return np.stack([z[y == c].mean(0) for c in (0, 1)])


def test_two_rounds_by_hand() -> None:
    """Prototypes are of features seen while training; owners weigh alike, though 2 and 1 samples are behind class 1."""
    play = byhand.Play(FedProto(pull=1.5, budget=byhand.BUDGET)).round()
    own = [centres(byhand.START, i) for i in (0, 1)]
    w = [byhand.step(byhand.START, byhand.slopes(byhand.START, x, y)) for x, y in zip(byhand.X, byhand.Y, strict=True)]
    common = (own[0] + own[1]) / 2
    for i in (0, 1):
        np.testing.assert_allclose(play.ups[i].centres, own[i], atol=1e-6)
        byhand.close(play.mine(i), w[i])  # nothing to be pulled towards yet
    np.testing.assert_allclose(play.server.centres, common, atol=1e-6)
    play.round()
    for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
        z = byhand.features(w[i], x)
        error = (byhand.softmax(byhand.logits(w[i], x)) - np.eye(2)[y]) / len(y)
        pull = 1.5 * 2 * (z - common[y]) / 3 / len(y)  # the slope of a mean over three features and the batch
        byhand.close(play.mine(i), byhand.step(w[i], byhand.chain(w[i], x, z, error, pull)))
        np.testing.assert_allclose(play.ups[i].centres, centres(w[i], i), atol=1e-6)


def test_prototypes_are_of_the_last_epoch_alone() -> None:
    """Two epochs of one batch: the features of the first, of a network that is gone, would pull the mean back."""
    play = byhand.Play(FedProto(budget=replace(byhand.BUDGET, epochs=2))).round()
    for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
        after = byhand.step(byhand.START, byhand.slopes(byhand.START, x, y))
        np.testing.assert_allclose(play.ups[i].centres, centres(after, i), atol=1e-6)
        assert not np.allclose(centres(after, i), centres(byhand.START, i), atol=1e-3)


def test_the_nearest_prototype_decides_and_not_the_classifier() -> None:
    play = byhand.Play(FedProto(budget=byhand.BUDGET)).round()
    z = byhand.features({k: v.double().numpy() for k, v in play.mine(0).items()}, byhand.X[0])
    far = ((z[:, None] - play.server.centres.numpy()[None]) ** 2).mean(2)
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), -far, atol=1e-5)
    blind = play.mine(0) | {k: torch.zeros_like(v) for k, v in play.mine(0).items() if k.startswith("head")}
    x = torch.tensor(byhand.X[0], dtype=torch.float32)
    served = play.method.predict(play.site.task.served, play.server, blind, x)
    np.testing.assert_array_equal(served, play.logits(0, byhand.X[0]))


def test_a_class_without_a_prototype_is_never_chosen() -> None:
    task, method = testing.task(), FedProto()
    x = testing.federation().x[:50]
    known = Prototypes(torch.stack([torch.full((8,), 9.0), torch.zeros(8), torch.full((8,), 5.0)]), torch.tensor([1.0, 0.0, 1.0]))
    logits = method.predict(task.served, known, task.params(), x)  # the features are nearest to zero, which is no prototype
    assert torch.isfinite(logits).all() and not (logits.argmax(1) == 1).any()
    nothing = method.predict(task.served, method.init(task, 2)[0], task.params(), x)
    assert (nothing == 0).all()


def test_a_sample_whose_class_has_no_prototype_is_not_pulled() -> None:
    """Only class 0 is known: for client 1's sample of class 1 the loss is the cross-entropy alone."""
    data = replace(byhand.federation(), train=(torch.tensor([0]), torch.tensor([3])))
    play = byhand.Play(FedProto(pull=2.0, budget=byhand.BUDGET), data=data).round((0,))
    assert play.server.known.tolist() == [1.0, 0.0]
    play.round((1,))
    x, y = byhand.X[1][:1], byhand.Y[1][:1]
    byhand.close(play.mine(1), byhand.step(byhand.START, byhand.slopes(byhand.START, x, y)))


def test_a_class_that_nobody_brings_this_round_keeps_its_prototype() -> None:
    data = replace(byhand.federation(), train=(torch.tensor([0]), torch.tensor([3])))
    play = byhand.Play(FedProto(budget=byhand.BUDGET), data=data).round((0,))
    before = play.server.centres[0].clone()
    play.round((1,))
    assert torch.equal(play.server.centres[0], before) and play.server.known.tolist() == [1.0, 1.0]


def test_nothing_but_prototypes_is_exchanged_and_they_hold_no_graph() -> None:
    play = byhand.Play(FedProto(budget=byhand.BUDGET)).round()
    assert [path for path, _ in trees.named(play.ups[0])] == ["centres", "known"]
    assert not any(leaf.requires_grad or leaf.grad_fn for leaf in trees.leaves((play.ups[0], play.server)))
    assert set(play.mine(0)) == set(byhand.START)


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_pull_the_models_are_locals_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    loose = byhand.forced(FedProto(budget=budget), pull=0.0)

    def own(played: testing.Played) -> trees.Tree:
        return tuple(p.mine for p in played.privates)

    testing.check_reduces(loose, Local(budget=budget), own, own, norm=norm)


def test_a_pull_of_zero_is_refused() -> None:
    with pytest.raises(MethodError, match="Local"):
        FedProto(pull=0.0)
