"""Trees: arithmetic leaf by leaf that keeps shapes, names and order."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from perfed import trees


class Pair(NamedTuple):
    body: dict[str, Tensor]
    head: Tensor


def pair(scale: float = 1.0) -> Pair:
    return Pair({"w": scale * torch.tensor([1.0, 2.0]), "~mean": scale * torch.tensor([3.0])}, scale * torch.tensor(4.0))


def test_map_keeps_the_kind_of_every_branch() -> None:
    doubled = trees.map(lambda a, b: a + b, (pair(), ()), (pair(), ()))
    assert isinstance(doubled, tuple) and isinstance(doubled[0], Pair) and doubled[1] == ()
    assert trees.equal(doubled[0], pair(2))


@pytest.mark.parametrize(
    ("one", "two"),
    [({"a": torch.ones(1)}, {"b": torch.ones(1)}), ((torch.ones(1),), (torch.ones(1), torch.ones(1)))],
)
def test_map_refuses_trees_that_differ(one: object, two: object) -> None:
    with pytest.raises(ValueError, match="trees differ"):
        trees.map(torch.add, one, two)


def test_map_refuses_what_is_no_tree() -> None:
    with pytest.raises(TypeError, match="not list"):
        trees.map(torch.neg, [torch.ones(1)])


def test_names_are_paths_and_plain_tuples_count() -> None:
    assert [k for k, _ in trees.named((pair(), {"x": torch.ones(1)}))] == ["0/body/w", "0/body/~mean", "0/head", "1/x"]
    assert [k for k, _ in trees.named(torch.ones(1))] == [""]


def test_rebuild_undoes_leaves() -> None:
    assert trees.equal(trees.rebuild(pair(), trees.leaves(pair(3))), pair(3))


def test_running_state_is_told_by_the_last_part_of_its_path() -> None:
    assert trees.is_state("body/~norm.mean") and trees.is_state("~x") and not trees.is_state("~x/weight")
    params = pair().body
    assert list(trees.weights(params)) == ["w"] and list(trees.state(params)) == ["~mean"]


def test_clone_shares_nothing_and_remembers_no_gradient() -> None:
    start = {"w": torch.ones(2, requires_grad=True)}
    copy = trees.clone(start)
    copy["w"].add_(1)
    assert not copy["w"].requires_grad and torch.equal(start["w"], torch.ones(2))


def test_lerp_goes_part_of_the_way_and_rounds_whole_numbers() -> None:
    start, end = {"w": torch.tensor([0.0, 4.0]), "n": torch.tensor(10)}, {"w": torch.tensor([1.0, 0.0]), "n": torch.tensor(13)}
    found = trees.lerp(start, end, 0.25)
    assert found["w"].tolist() == [0.25, 3.0] and found["n"].item() == 11 and found["n"].dtype == torch.int64


def test_where_takes_leaf_by_leaf_by_a_tree_of_masks() -> None:
    mask = {"w": torch.tensor([True, False])}
    assert trees.where(mask, {"w": torch.tensor([1.0, 1.0])}, {"w": torch.tensor([2.0, 2.0])})["w"].tolist() == [1.0, 2.0]


def test_dot_and_distance_by_hand() -> None:
    assert trees.dot(pair(), pair(2)).item() == 2 * (1 + 4 + 9 + 16)
    assert trees.square_distance(pair(), pair(3)).item() == 4 * (1 + 4 + 9 + 16)


def test_stack_pick_put_and_repeat() -> None:
    stacked = trees.stack([pair(1), pair(2), pair(3)])
    assert stacked.body["w"].shape == (3, 2) and stacked.head.shape == (3,)
    assert trees.equal(trees.pick(stacked, 1), pair(2))
    swapped = trees.put(stacked, 1, pair(7))
    assert trees.equal(trees.pick(swapped, 1), pair(7)) and trees.equal(trees.pick(swapped, 2), pair(3))
    assert trees.equal(trees.pick(stacked, 1), pair(2))  # and the old one is as it was
    assert trees.equal(trees.repeat(pair(), 2), trees.stack([pair(), pair()]))


def test_flat_is_all_leaves_in_order() -> None:
    assert trees.flat(pair()).tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "other",
    [
        {"w": torch.tensor([1.0, 2.0000002])},
        {"w": torch.tensor([1.0, 2.0], dtype=torch.float64)},
        {"v": torch.tensor([1.0, 2.0])},
        {"w": torch.tensor([[1.0, 2.0]])},
        {},
    ],
)
def test_equal_means_every_bit_type_shape_and_name(other: dict[str, Tensor]) -> None:
    own = {"w": torch.tensor([1.0, 2.0])}
    assert trees.equal(own, {"w": torch.tensor([1.0, 2.0])}) and not trees.equal(own, other)


def test_finite_looks_at_floating_point_leaves() -> None:
    assert trees.finite({"n": torch.tensor([1]), "x": torch.tensor([1.0])})
    assert not trees.finite({"x": torch.tensor([1.0, float("nan")])}) and not trees.finite({"x": torch.tensor([-float("inf")])})


def test_bytes_on_the_wire() -> None:
    tree = {"f": torch.zeros(3), "b": torch.zeros(9).bool(), "h": torch.zeros(2).bfloat16(), "e": torch.zeros(0)}
    assert trees.nbytes(tree) == 12 + 2 + 4 + 0


def test_apart_separates_what_shares_memory() -> None:
    whole = torch.arange(6.0)
    found = trees.apart({"a": whole, "b": whole, "c": whole[2:4], "d": whole.view(2, 3).T})
    assert len({v.untyped_storage().data_ptr() for v in found.values()}) == 4
    assert found["c"].tolist() == [2.0, 3.0] and found["d"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert all(v.is_contiguous() and v.untyped_storage().nbytes() == 4 * v.numel() for v in found.values())


def test_select_takes_bits_as_they_are() -> None:
    one = torch.tensor([[1.0, -0.0, torch.inf, torch.nan], [1e-45, 3.0, -torch.inf, 0.0]])
    other, mask = -2 * one, torch.tensor([[True, False, True, False], [False, True, False, True]])
    for kind in (torch.float32, torch.float64):
        found, expected = trees.select(mask, one.to(kind), other.to(kind)), torch.where(mask, one.to(kind), other.to(kind))
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
