"""Descent: the steps of torch.optim, for one client and for clients along an axis, and nothing else moves."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from perfed import keys, trees
from perfed.local import Batch, Budget, Shard, descend, pieces
from perfed.local.descend import holding
from perfed.local.losses import proximal
from perfed.task import Task, cross_entropy
from perfed.trees import Params

BUDGETS = {
    "sgd": Budget(lr=0.1),
    "momentum": Budget(lr=0.1, momentum=0.9),
    "decay": Budget(lr=0.1, weight_decay=0.05),
    "momentum and decay": Budget(lr=0.1, momentum=0.5, weight_decay=0.05),
    "adam": Budget(lr=0.05, optimizer="adam"),
    "adam and decay": Budget(lr=0.05, optimizer="adam", weight_decay=0.05),
}
SIZES = (11, 3, 8)
X = keys.normal(keys.key(0, "x"), (40, 5))
Y = keys.bits(keys.key(0, "y"), 40) % 3


class Net(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 6), *([nn.BatchNorm1d(6)] if norm else []), nn.Tanh())
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def net(norm: bool = False) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Net(norm)


def shard(client: int, batch_size: int = 4) -> Shard:
    rows = torch.arange(SIZES[client]) + sum(SIZES[:client])
    return Shard(X, Y, rows, lambda x, key: x, keys.key(0, client), batch_size, 3)


def optimiser(params: Any, budget: Budget) -> torch.optim.Optimizer:
    if budget.optimizer == "adam":
        return torch.optim.Adam(params, lr=budget.lr, weight_decay=budget.weight_decay)
    return torch.optim.SGD(params, lr=budget.lr, momentum=budget.momentum, weight_decay=budget.weight_decay)


def by_torch(module: nn.Module, batches: Iterator[Batch], budget: Budget) -> dict[str, Tensor]:
    """The usual loop; names as the task has them."""
    module.train()
    steps = optimiser(module.parameters(), budget)
    for batch in batches:
        steps.zero_grad()
        F.cross_entropy(module(batch.x), batch.y).backward()
        steps.step()
    state = {f"~{k}": v for k, v in module.named_buffers()}
    return {k: v.detach() for k, v in {**dict(module.named_parameters()), **state}.items()}


def stacked(task: Task, budget: Budget, epochs: int) -> Params:
    """All clients at once, padded to the largest."""
    most = max(SIZES)
    rows = torch.stack([F.pad(shard(i).rows, (0, most - SIZES[i])) for i in range(3)])
    clients = torch.stack([keys.key(0, i) for i in range(3)])

    def one(start: Params, rows: Tensor, size: Tensor, key: Tensor) -> Params:
        data = Shard(X, Y, rows, lambda x, key: x, key, 4, 3, size=size)
        return descend(task.loss, start, data.epochs(epochs), budget)

    return vmap(one)(trees.repeat(task.params(), 3), rows, torch.tensor(SIZES), clients)


def gap(a: Params, b: Params) -> float:
    assert a.keys() == b.keys()
    return max(float((a[k].double() - b[k].double()).abs().max()) for k in a)


@pytest.mark.parametrize("name", BUDGETS)
def test_steps_are_those_of_torch_optim(name: str) -> None:
    task, budget = Task.of(net(), (5,), 3), BUDGETS[name]
    for epochs in (1, 3):
        found = descend(task.loss, task.params(), shard(0).epochs(epochs), budget)
        expected = by_torch(net(), shard(0).epochs(epochs), budget)
        assert gap(found, expected) <= (1e-6 if "adam" in name else 0)  # to the last bit where the arithmetic is the same


@pytest.mark.parametrize("name", BUDGETS)
def test_stacked_clients_take_the_steps_they_would_take_alone_whatever_the_padding(name: str) -> None:
    task, budget = Task.of(net(), (5,), 3), BUDGETS[name]
    found = stacked(task, budget, 3)
    for i in range(3):  # 3, 1 and 2 batches an epoch: the shorter clients end epochs on pure padding
        assert gap(trees.pick(found, i), by_torch(net(), shard(i).epochs(3), budget)) < 3e-6


def test_optimiser_state_begins_anew() -> None:
    task, budget = Task.of(net(), (5,), 3), BUDGETS["momentum"]
    batches = list(shard(0).epochs(1))
    halves = descend(task.loss, descend(task.loss, task.params(), batches[:2], budget), batches[2:], budget)
    assert gap(halves, descend(task.loss, task.params(), batches, budget)) > 1e-3


def test_batchnorm_statistics_are_carried_along() -> None:
    task = Task.of(net(True), (5,), 3)
    found = descend(task.loss, task.params(), shard(0).epochs(2), Budget(lr=0.1))
    expected = by_torch(net(True), shard(0).epochs(2), Budget(lr=0.1))
    assert gap(found, expected) == 0 and int(found["~body.1.num_batches_tracked"]) == 6
    assert all(trees.is_state(k) == k.startswith("~body.1") for k in found)


def test_batchnorm_statistics_are_carried_along_when_stacked() -> None:
    """Clients of one size: statistics of padded batches would count the padding."""
    task, budget = Task.of(net(True), (5,), 3), Budget(lr=0.1)
    rows = torch.stack([torch.arange(8), torch.arange(20, 28)])
    clients = torch.stack([keys.key(0, i) for i in range(2)])

    def one(start: Params, rows: Tensor, key: Tensor) -> Params:
        return descend(task.loss, start, Shard(X, Y, rows, lambda x, key: x, key, 4, 3).epochs(2), budget)

    found = vmap(one)(trees.repeat(task.params(), 2), rows, clients)
    for i in range(2):
        alone = Shard(X, Y, rows[i], lambda x, key: x, clients[i], 4, 3)
        assert gap(trees.pick(found, i), by_torch(net(True), alone.epochs(2), budget)) < 3e-6


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_neither_the_start_nor_what_is_closed_over_changes(name: str) -> None:
    task = Task.of(net(True), (5,), 3)
    body, head = task.split(task.params())
    before = trees.clone((body, head))

    def loss(w: Params, batch: Batch) -> Tensor:
        return cross_entropy(task.still.classify(w, task.still.features(body, batch.x)), batch)

    moved = descend(loss, head, shard(0).epochs(2), BUDGETS[name])
    assert trees.equal((body, head), before) and gap(moved, head) > 1e-3
    assert not any(leaf.requires_grad for leaf in trees.leaves(moved))


def test_what_is_frozen_still_passes_slopes_on() -> None:
    task = Task.of(net(), (5,), 3)
    body, head = task.split(task.params())
    found = descend(lambda w, b: task.loss(w | head, b), body, shard(0).epochs(1), Budget(lr=0.1))
    module = net()
    module.head.requires_grad_(False)
    assert gap(found, task.split(by_torch(module, shard(0).epochs(1), Budget(lr=0.1)))[0]) == 0


@pytest.mark.parametrize("out_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["sgd", "momentum"])
def test_sparse_slopes_of_an_embedding_equal_dense_ones(name: str, out_decay: float) -> None:
    tokens = keys.bits(keys.key(1), 60).reshape(12, 5) % 20
    data = Shard(tokens, Y[:12], torch.arange(12), lambda x, key: x, keys.key(0), 4, 3)
    start = {"words": keys.normal(keys.key(2), (20, 6)), "out": keys.normal(keys.key(3), (3, 6))}
    found = []
    for sparse in (True, False):

        def loss(w: Params, batch: Batch, sparse: bool = sparse) -> Tensor:
            z = F.embedding(batch.x, w["words"], sparse=sparse).mean(1)
            return F.cross_entropy(z @ w["out"].T, batch.y)

        decay = {"words": 0.0, "out": out_decay}.__getitem__
        found.append(descend(loss, start, data.epochs(3), BUDGETS[name], decay=decay))
    assert gap(*found) < 1e-6 and gap(found[0], start) > 1e-2
    unseen = sorted(set(range(20)) - set(tokens.flatten().tolist()))
    assert unseen and torch.equal(found[0]["words"][unseen], start["words"][unseen])


def test_whole_numbers_and_unused_leaves_stay() -> None:
    start = {"w": torch.ones(3, 5), "n": torch.tensor(7), "spare": torch.ones(2)}
    budget = Budget(lr=0.1, momentum=0.9, weight_decay=0.1)
    found = descend(lambda w, b: F.cross_entropy(b.x @ w["w"].T, b.y), start, shard(0).epochs(1), budget)
    assert found["n"].item() == 7 and torch.equal(found["spare"], start["spare"]) and not torch.equal(found["w"], start["w"])


def test_single_leaves_may_have_another_decay() -> None:
    start = ({"w": torch.ones(3, 5)}, torch.ones(3))
    budget = Budget(lr=0.1, weight_decay=0.5)

    def loss(w: tuple[Params, Tensor], batch: Batch) -> Tensor:
        return 0.0 * (w[0]["w"].sum() + w[1].sum())

    found = descend(loss, start, list(shard(0).epochs(1))[:1], budget, decay=lambda path: {"0/w": 0.5, "1": 0.0}[path])
    assert torch.allclose(found[0]["w"], torch.full((3, 5), 0.95)) and torch.equal(found[1], start[1])


def test_without_batches_the_answer_is_a_copy_of_the_start() -> None:
    start = {"w": torch.ones(2)}
    found = descend(lambda w, b: w["w"].sum(), start, [], Budget())
    assert torch.equal(found["w"], start["w"]) and found["w"].data_ptr() != start["w"].data_ptr()


def test_training_works_where_gradients_are_switched_off() -> None:
    task = Task.of(net(), (5,), 3)
    with torch.no_grad():
        found = descend(task.loss, task.params(), shard(0).epochs(1), Budget(lr=0.1))
    assert trees.equal(found, descend(task.loss, task.params(), shard(0).epochs(1), Budget(lr=0.1)))


def test_stacked_clients_may_share_their_start() -> None:
    task, budget = Task.of(net(), (5,), 3), Budget(lr=0.1)
    start = task.params()  # no client axis: only the samples have one
    rows = torch.stack([torch.arange(8), torch.arange(20, 28)])
    clients = torch.stack([keys.key(0, i) for i in range(2)])

    def one(rows: Tensor, key: Tensor) -> Params:
        return descend(task.loss, start, Shard(X, Y, rows, lambda x, key: x, key, 4, 3).epochs(1), budget)

    found = vmap(one)(rows, clients)
    for i in range(2):
        alone = Shard(X, Y, rows[i], lambda x, key: x, clients[i], 4, 3)
        assert gap(trees.pick(found, i), by_torch(net(), alone.epochs(1), budget)) < 3e-6
    assert trees.equal(start, task.params())


LONG = 2 * pieces.SIZE + 77  # a leaf that moves piece by piece


def spring_case(kind: str) -> tuple[Callable[[Params, Batch], Tensor], Params, Params]:
    """A loss with a long leaf, one with a sparse slope, running state and a leaf that the loss does not use; start and anchor."""
    rows = LONG // 8 + 1
    sizes = {"long": (LONG,), "words": (rows, 8), "short": (5,), "spare": (3,), "~seen": ()}
    start, anchor = ({k: keys.normal(keys.fold(keys.key(i), k), size) for k, size in sizes.items()} for i in (1, 2))

    def loss(w: Params, batch: Batch) -> Tensor:
        tokens = (batch.x.abs() * 1000).long() % rows
        z = F.embedding(tokens, w["words"], sparse=kind == "sparse").sum((1, 2))
        return z.square().sum() + w["long"].sin().sum() + (batch.x @ w["short"]).square().sum()

    return loss, start, anchor


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["sgd", "decay", "momentum and decay", "adam"])
def test_a_spring_takes_the_steps_of_a_loss_with_the_spring_in_it_to_the_bit(name: str, kind: str) -> None:
    budget = BUDGETS[name]
    loss, start, anchor = spring_case(kind)
    batches = list(shard(0).epochs(1))
    written = descend(lambda w, b: loss(w, b) + 0.7 * proximal(w, anchor), start, batches, budget)
    given = descend(loss, start, batches, budget, spring=(0.7, anchor))
    for leaf in start:
        assert torch.equal(given[leaf], written[leaf]), leaf
    assert torch.equal(given["~seen"], start["~seen"]) and not torch.equal(given["spare"], start["spare"])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_long_leaf_decays_by_pieces_as_it_does_at_once_to_the_bit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, start, _ = spring_case(kind)
    batches, moved = list(shard(0).epochs(1)), []
    monkeypatch.setattr(pieces, "decayed", lambda p, *rest, do=pieces.decayed: (moved.append(p.shape), do(p, *rest)))
    by_pieces = descend(loss, start, batches, BUDGETS["decay"])
    monkeypatch.setattr(pieces, "are_long", lambda *leaves: False)
    at_once = descend(loss, start, batches, BUDGETS["decay"])
    assert len(moved) == len(batches) * (1 if kind == "sparse" else 2) and trees.equal(by_pieces, at_once)
    assert not torch.equal(by_pieces["long"], descend(loss, start, batches, Budget(lr=BUDGETS["decay"].lr))["long"])


def test_what_is_held_stays_also_on_a_spring() -> None:
    loss, start, anchor = spring_case("dense")
    with holding([start["long"]]):
        found = descend(loss, start, shard(0).epochs(1), Budget(lr=0.1), spring=(0.7, anchor))
    assert torch.equal(found["long"], start["long"])
    rest, near = ({k: v for k, v in tree.items() if k != "long"} for tree in (start, anchor))
    free = lambda w, b: loss(w | {"long": start["long"]}, b)  # noqa: E731
    other = descend(free, rest, shard(0).epochs(1), Budget(lr=0.1), spring=(0.7, near))
    assert all(torch.equal(found[k], other[k]) for k in other)
