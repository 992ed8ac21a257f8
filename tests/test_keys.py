"""Keys: the same numbers in a loop, under vmap and on every machine."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from perfed import keys

SEEDS = st.integers(-(2**63), 2**63 - 1)


def test_bits_are_those_of_splitmix64() -> None:
    """The first outputs of the published generator from seed 0, without the sign bit."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert keys.bits(torch.tensor(0), 3).tolist() == [z & (2**63 - 1) for z in published]


@given(SEEDS, st.integers(0, 50), st.integers(0, 50))
def test_more_numbers_begin_with_the_fewer(seed: int, few: int, more: int) -> None:
    key = torch.tensor(seed)
    assert keys.bits(key, few + more)[:few].tolist() == keys.bits(key, few).tolist()


@given(SEEDS, SEEDS)
def test_a_key_depends_on_its_seed(one: int, two: int) -> None:
    assert (keys.key(one, "x") == keys.key(two, "x")).item() == (one == two)


def test_a_key_depends_on_everything_folded_in_and_on_the_order() -> None:
    purposes = [(), (0,), (1,), (0, 1), (1, 0), ("a",), ("b",), ("a", 0)]
    assert len({int(keys.key(0, *what)) for what in purposes}) == len(purposes)
    assert keys.key(3, "a", 4).equal(keys.fold(keys.fold(keys.key(3), "a"), 4))


def test_a_folded_tensor_is_the_folded_number() -> None:
    assert keys.fold(keys.key(1), torch.tensor(5)).equal(keys.fold(keys.key(1), 5))
    many = keys.fold(keys.key(1), torch.arange(4))
    assert many.tolist() == [int(keys.fold(keys.key(1), i)) for i in range(4)]


@pytest.mark.parametrize("draw", [keys.uniform, keys.open_uniform, keys.gumbel, keys.normal])
def test_under_vmap_every_client_draws_what_it_would_draw_alone(draw: object) -> None:
    clients = torch.stack([keys.key(0, i) for i in range(3)])
    together = vmap(lambda key: draw(keys.fold(key, "noise"), (4, 2)))(clients)  # type: ignore[operator]
    alone = torch.stack([draw(keys.fold(key, "noise"), (4, 2)) for key in clients])  # type: ignore[operator]
    assert torch.equal(together, alone)


def test_drawing_leaves_torchs_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    keys.normal(keys.key(0), (10,))
    assert torch.equal(before, torch.get_rng_state())


def test_uniform_numbers_fill_the_unit_interval() -> None:
    x = keys.uniform(keys.key(7), (20000,))
    assert x.dtype == torch.float32 and 0 <= x.min() < 0.001 and 0.999 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.002


def test_open_uniform_numbers_are_fit_for_logarithms_at_both_ends() -> None:
    x = keys.open_uniform(keys.key(7), (20000,))
    assert x.dtype == torch.float64 and torch.isfinite(x.log()).all() and torch.isfinite((1 - x).log()).all()
    assert torch.isfinite(keys.gumbel(keys.key(7), (20000,))).all()


def test_gumbel_and_normal_numbers_have_their_moments() -> None:
    g, n = keys.gumbel(keys.key(1), (40000,)), keys.normal(keys.key(1), (40000,))
    assert abs(g.mean() - 0.5772) < 0.02 and abs(g.var() - 1.6449) < 0.05
    assert abs(n.mean()) < 0.02 and abs(n.var() - 1) < 0.03


@given(SEEDS, st.integers(0, 40))
def test_a_permutation_has_every_number_once(seed: int, count: int) -> None:
    assert sorted(keys.permutation(torch.tensor(seed), count).tolist()) == list(range(count))


@given(SEEDS)
def test_a_seed_for_a_generator_is_not_negative(seed: int) -> None:
    assert 0 <= keys.seed_of(torch.tensor(seed)) < 2**63
