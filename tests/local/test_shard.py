"""Shards: every sample once an epoch, in an order that only the key decides, padded or not."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from perfed import keys
from perfed.local import Batch, Shard
from perfed.local import shard as module


def plain(x: Tensor, key: Tensor | None) -> Tensor:
    return x.float()


def shard(count: int = 23, batch_size: int = 5, **more: object) -> Shard:
    x = torch.arange(100)[:, None]
    made = {"inputs": plain, "key": keys.key(0, 1, 2), "classes": 4} | more
    return Shard(x, torch.arange(100) % 4, torch.arange(50, 50 + count), batch_size=batch_size, **made)  # type: ignore[arg-type]


def seen(batches: object) -> list[list[int]]:
    return [b.x[:, 0].int().tolist() for b in batches]  # type: ignore[attr-defined]


def test_an_epoch_visits_every_sample_once_in_batches() -> None:
    batches = list(shard().epochs(1))
    assert [len(b.y) for b in batches] == [5, 5, 5, 5, 3]
    assert sorted(sum(seen(batches), [])) == list(range(50, 73))
    assert all(b.mask is None and torch.equal(b.y, b.x[:, 0].long() % 4) for b in batches)


def test_the_order_depends_on_key_stream_and_epoch_alone() -> None:
    both = seen(shard().epochs(2))
    assert both[:5] != both[5:] and seen(shard().epochs(1)) == both[:5]
    assert seen(shard().epochs(1, "head")) != both[:5]
    assert seen(replace(shard(), key=keys.key(0, 1, 3)).epochs(1)) != both[:5]
    assert sum(seen(shard(batch_size=7).epochs(1)), []) == sum(both[:5], [])  # the batch size only cuts it


@pytest.mark.parametrize("length", [None, 7])
def test_stored_order_is_that_of_the_rows_in_every_pass(length: int | None) -> None:
    found = seen(shard(length=length, stored=True).epochs(2))
    once = [list(range(at, min(at + 5, 73))) for at in range(50, 73, 5)]
    assert found == (once * 3)[: 2 * (length or 5)]
    assert seen(shard(21, even=True, stored=True).epochs(1)) == once[:4]
    assert len({int(batch.key) for batch in shard(stored=True).epochs(2)}) == 10


def test_every_step_has_a_key_of_its_own() -> None:
    found = [int(b.key) for b in shard().epochs(3)] + [int(b.key) for b in shard().epochs(3, "head")]
    assert len(set(found)) == 30


@pytest.mark.parametrize(("count", "sizes"), [(21, [5, 5, 5, 5]), (22, [5, 5, 5, 5, 2]), (20, [5, 5, 5, 5]), (1, [1])])
def test_where_batchnorm_asks_for_it_only_a_remainder_of_one_is_left_out(count: int, sizes: list[int]) -> None:
    assert [len(b.y) for b in shard(count, even=True).epochs(1)] == sizes
    left = {i for e in range(40) for i in set(range(50, 50 + count)) - set(sum(seen(_epoch(count, e)), []))}
    assert not left or len(left) > 5  # not the same sample every time


def _epoch(count: int, number: int) -> list[Batch]:
    return list(replace(shard(count, even=True), key=keys.key(number)).epochs(1))


def test_large_epochs_are_read_in_blocks_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = seen(shard().epochs(1))
    monkeypatch.setattr(module, "_BLOCK", 10)
    asked: list[int] = []

    def counting(x: Tensor, key: Tensor | None) -> Tensor:
        asked.append(len(x))
        return x.float()

    assert seen(shard(inputs=counting).epochs(1)) == whole and asked == [10, 10, 3]


def test_only_augmented_inputs_get_a_key_and_each_epoch_another() -> None:
    given: list[Tensor | None] = []

    def noting(x: Tensor, key: Tensor | None) -> Tensor:
        given.append(key)
        return x.float()

    list(shard(inputs=noting, augment=True).epochs(2))
    assert len({int(k) for k in given if k is not None}) == 2
    given.clear()
    list(shard(inputs=noting).epochs(1))
    list(shard(inputs=noting, augment=True).passes())  # tests are never augmented
    assert given == [None, None]


def test_padded_clients_visit_what_they_would_visit_alone() -> None:
    sizes, most = [3, 8, 5], 8
    rows = torch.stack([F.pad(torch.arange(s), (0, most - s)) + 10 * i for i, s in enumerate(sizes)])
    clients = torch.stack([keys.key(0, i) for i in range(3)])

    def visit(rows: Tensor, size: Tensor, key: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
        padded = replace(shard(batch_size=3), rows=rows, size=size, key=key)
        batches = list(padded.epochs(1)) + list(padded.passes())
        return [b.x[:, 0] for b in batches], [b.mask for b in batches if b.mask is not None], padded.counts, padded.total

    x, mask, counts, total = vmap(visit)(rows, torch.tensor(sizes), clients)
    for i, size in enumerate(sizes):
        alone = replace(shard(batch_size=3), rows=torch.arange(size) + 10 * i, key=clients[i])
        real = [part[i][m[i] > 0].int().tolist() for part, m in zip(x, mask, strict=True)]
        expected = [*seen(alone.epochs(1)), [], []]  # short clients end in batches of pure padding
        assert real[:3] == expected[:3] and real[3] == seen(alone.passes())[0]
        assert torch.equal(counts[i], alone.counts) and torch.equal(total[i], alone.total)


def test_passes_give_every_sample_in_stored_order() -> None:
    many = replace(shard(), rows=torch.arange(100).repeat(25))
    assert [len(b.y) for b in many.passes()] == [1000, 1000, 500]
    assert seen(many.passes())[0][:150] == [*range(100), *range(50)]


def test_counts_and_total_by_hand() -> None:
    assert shard(5).counts.tolist() == [1, 1, 2, 1] and shard(5).total.item() == 5  # 50 … 54 modulo 4


def test_a_mean_leaves_padding_out() -> None:
    values, key = torch.tensor([1.0, 2.0, 60.0]), torch.tensor(0)
    assert Batch(values, values, None, key).mean(values).item() == 21
    assert Batch(values, values, torch.tensor([1.0, 1.0, 0.0]), key).mean(values).item() == 1.5
    assert Batch(values, values, torch.zeros(3), key).mean(values).item() == 0


@pytest.mark.parametrize("augment", [False, True])
def test_what_something_frozen_sees_comes_along_with_its_sample(augment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfed.local.shard._SEEN", 4)
    x = torch.arange(22.0).reshape(11, 2)
    inputs = lambda x, key: x if key is None else x + keys.uniform(key, (1,))  # noqa: E731
    shard = Shard(x, torch.arange(11), torch.tensor([9, 3, 1, 4, 10, 0, 7]), inputs, keys.key(5), 3, 11, augment=augment)
    asked: list[int] = []

    def see(x: Tensor) -> Tensor:
        asked.append(len(x))
        return x.sum(1)

    plain = list(shard.epochs(2))
    seen = list(shard.epochs(2, see=see))
    assert all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and a.seen is None for a, b in zip(plain, seen, strict=True))
    assert all(torch.equal(batch.seen, batch.x.sum(1)) for batch in seen)
    assert asked == ([4, 3, 4, 3] if augment else [4, 3])  # once for both passes, unless pictures change


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("count", [1, 2, 8, 9, 16, 17])
def test_steps_are_the_batches_of_one_pass(count: int, even: bool) -> None:
    own = Shard(torch.zeros(20, 2), torch.zeros(20).long(), torch.arange(count), lambda x, key: x, keys.key(0), 8, 2, even=even)
    assert own.steps == len(list(own.epochs(1))) == len(list(own.epochs(3))) // 3
