"""Server rules: means in client order and double precision, whole numbers rounded."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from perfed import trees
from perfed.server import Uploads, average, average_uniform, broadcast, combine, mean, mix


class Pair(NamedTuple):
    a: dict[str, Tensor]
    b: Tensor


def w(*values: float) -> dict[str, Tensor]:
    return {"w": torch.tensor(values)}


def test_a_mean_by_hand() -> None:
    found = mean([Pair(w(1.0, 2.0), torch.tensor(0.0)), Pair(w(5.0, 0.0), torch.tensor(4.0))], [3, 1])
    assert isinstance(found, Pair) and found.a["w"].tolist() == [2.0, 1.5] and found.b.item() == 1.0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.integers(0, 2**31))
def test_identical_clients_average_to_themselves_exactly(sizes: list[int], seed: int) -> None:
    own = {"w": torch.randn(50, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed % 13 - 6), "n": torch.tensor(seed)}
    assert trees.equal(mean([own] * len(sizes), sizes), own)


def test_sums_are_taken_in_double_precision() -> None:
    """In single precision 1 + 1e-8 is 1, and a hundred such crumbs would be lost one by one."""
    answers = [w(1.0)] + [w(1e-6)] * 100
    assert combine([1.0] * 101, answers)["w"].item() == torch.tensor(1.0001).item()
    lost = torch.tensor(1.0)
    for _ in range(100):
        lost = lost + torch.tensor(1e-8)
    assert lost == 1 and combine([1.0] + [1e-2] * 100, answers)["w"].item() == torch.tensor(1.000001).item()


def test_answers_are_added_in_the_order_they_are_given() -> None:
    values = [1e16, 1.0, -1e16]  # in double precision the order shows
    forward = combine([1.0] * 3, [{"w": torch.tensor(v, dtype=torch.float64)} for v in values])
    turned = combine([1.0] * 3, [{"w": torch.tensor(v, dtype=torch.float64)} for v in (1e16, -1e16, 1.0)])
    assert forward["w"].item() == 0 and turned["w"].item() == 1


def test_whole_numbers_are_rounded_not_cut() -> None:
    found = mean([{"n": torch.tensor([1, 5])}, {"n": torch.tensor([2, 6])}], [1, 2])
    assert found["n"].tolist() == [2, 6] and found["n"].dtype == torch.int64  # 1.67 and 5.67


def test_a_mean_keeps_the_type_of_its_leaves() -> None:
    assert mean([{"h": torch.ones(2).bfloat16()}] * 3, [1, 1, 1])["h"].dtype == torch.bfloat16


def test_a_weight_of_zero_is_left_out_even_if_the_answer_is_not_finite() -> None:
    assert combine([1.0, 0.0], [w(2.0), w(float("nan"))])["w"].item() == 2.0


def test_mix_gives_one_tree_per_row() -> None:
    found = mix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), [w(1.0), w(3.0)])
    assert [t["w"].item() for t in found] == [1.0, 2.0]


def test_a_mean_changes_no_answer() -> None:
    answers = [w(1.0), w(2.0)]
    mean(answers, [1, 1])
    assert [a["w"].item() for a in answers] == [1.0, 2.0]


def test_nothing_to_combine_is_an_error_and_so_is_a_missing_weight() -> None:
    with pytest.raises(ValueError, match="no client answered"):
        combine([], [])
    with pytest.raises(ValueError, match="shorter|longer"):
        mean([w(1.0), w(2.0)], [1])


def test_the_dull_verbs() -> None:
    assert broadcast(None, "state", 3) == "state"
    assert average(None, w(0.0), Uploads([0, 4], [3, 1], [w(1.0), w(5.0)]))["w"].item() == 2.0
    assert average_uniform(None, w(0.0), Uploads([0, 4], [3, 1], [w(1.0), w(5.0)]))["w"].item() == 3.0


def arriving(log: list[int]) -> Iterator[dict[str, Tensor]]:
    for i in range(3):
        log.append(i)
        yield w(float(i))


def test_answers_are_taken_in_as_they_arrive() -> None:
    log: list[int] = []
    ups = Uploads([0, 1, 2], [1, 1, 2], arriving(log))
    assert len(ups) == 3 and log == [] and ups.sizes.tolist() == [1, 1, 2] and ups.sizes.dtype == torch.float64
    assert next(iter(ups))["w"].item() == 0 and log == [0]
    with pytest.raises(RuntimeError, match="already consumed"):
        iter(ups)


def test_trees_may_be_visited_again() -> None:
    ups = Uploads([0, 1, 2], [1, 1, 2], arriving([]))
    assert len(ups.trees) == 3 and [t["w"].item() for t in ups] == [0, 1, 2] == [t["w"].item() for t in ups]


def test_uploads_seen_through_a_field_keep_ids_and_sizes() -> None:
    seen = Uploads([2, 5], [1, 3], [w(1.0), w(2.0)]).each(lambda t: t["w"] + 1)
    assert seen.ids == [2, 5] and seen.sizes.tolist() == [1, 3] and [x.item() for x in seen] == [2, 3]


def test_draining_lets_every_client_finish() -> None:
    log: list[int] = []
    ups = Uploads([0, 1, 2], [1, 1, 1], arriving(log))
    ups.drain()
    ups.drain()
    assert log == [0, 1, 2]


def test_mixing_in_pieces_is_combining_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    answers = [
        {"w": torch.randn(3, 5, generator=draw), "n": torch.randint(0, 9, (4,), generator=draw), "s": torch.tensor(2.5)}
        for _ in range(4)
    ]
    matrix = torch.rand(3, 4, generator=draw, dtype=torch.float64)
    monkeypatch.setattr("perfed.server.rules._PIECE", 8)  # two numbers of each answer at a time
    monkeypatch.setattr("perfed.server.rules._LEAST", 1)
    for row, found in zip(matrix, mix(matrix, answers), strict=True):
        expected = combine(row.tolist(), answers)
        assert torch.equal(found["n"], expected["n"]) and found["s"].shape == ()
        assert torch.allclose(found["w"], expected["w"], rtol=1e-7, atol=0)


def test_mixing_leaves_out_what_weighs_nothing_even_where_it_is_no_number() -> None:
    found = mix(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [{"w": torch.ones(2)}, {"w": torch.tensor([float("nan"), 2.0])}])
    assert found[0]["w"].tolist() == [1.0, 1.0] and found[1]["w"].isnan().tolist() == [True, False]
