"""What a client sets aside: a fixed part of its samples, the same alone and among stacked clients."""

import torch
from torch import Tensor

from perfed import keys
from perfed.local import Shard


def shard(rows: Tensor, number: int = 1, size: Tensor | None = None) -> Shard:
    x = torch.arange(100.0)[:, None]
    return Shard(x, torch.arange(100) % 3, rows, lambda x, key: x, keys.key(0, number), 4, 3, size=size)


def test_a_fifth_of_ten_samples_is_two_and_nothing_is_lost() -> None:
    left, aside = shard(torch.arange(20, 30)).hold_out(0.2)
    assert (len(left), len(aside)) == (8, 2)
    assert sorted([*left.rows.tolist(), *aside.rows.tolist()]) == list(range(20, 30))


def test_the_same_samples_are_set_aside_in_every_round() -> None:
    first, second = (shard(torch.arange(30), number).hold_out(0.2)[1].rows for number in (1, 2))
    assert first.tolist() == second.tolist()


def test_with_a_key_every_round_draws_anew() -> None:
    first, second = (shard(torch.arange(30)).hold_out(0.2, keys.key(number))[1].rows for number in (1, 2))
    assert sorted(first.tolist()) != sorted(second.tolist())


def test_whole_shares_are_not_lost_to_rounding() -> None:
    assert len(shard(torch.arange(100)).hold_out(0.29)[1]) == 29


def test_two_samples_give_one_each_and_a_single_one_stays() -> None:
    assert [len(part) for part in shard(torch.arange(2)).hold_out(0.2)] == [1, 1]
    assert [len(part) for part in shard(torch.arange(1)).hold_out(0.2)] == [1, 0]


def test_stacked_clients_set_aside_what_they_would_alone() -> None:
    sizes = [1, 2, 7, 10]
    rows = [torch.cat([torch.arange(n) + 10 * i, torch.zeros(10 - n).long()]) for i, n in enumerate(sizes)]
    padded = torch.stack(rows)

    def both(rows: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        left, aside = shard(rows, size=size).hold_out(0.3)
        assert left.size is not None and aside.size is not None
        return left.rows, left.size, aside.rows, aside.size

    found = torch.func.vmap(both)(padded, torch.tensor(sizes))
    for i, n in enumerate(sizes):
        left, aside = shard(torch.arange(n) + 10 * i).hold_out(0.3)
        left_rows, left_size, aside_rows, aside_size = (part[i] for part in found)
        assert left_rows[:left_size].tolist() == left.rows.tolist()
        assert aside_rows[:aside_size].tolist() == aside.rows.tolist()
