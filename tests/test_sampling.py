"""Participation: who trains in a round, and whose answer is lost."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfed.errors import InputError
from perfed.sampling import Sampling


def test_by_default_everyone_takes_part_and_nobody_drops_out() -> None:
    assert Sampling().participants(0, 1, 5) == [0, 1, 2, 3, 4] and Sampling().dropped(0, 1, [0, 1]) == set()


@pytest.mark.parametrize(("ratio", "clients", "count"), [(0.29, 100, 29), (0.1, 20, 2), (0.5, 5, 2), (0.01, 20, 1), (1.0, 3, 3)])
def test_a_ratio_is_rounded_down_to_at_least_one(ratio: float, clients: int, count: int) -> None:
    assert len(Sampling(ratio=ratio).participants(0, 1, clients)) == count == Sampling(ratio=ratio).fewest(clients)


@given(st.integers(0, 2**31), st.integers(1, 1000), st.integers(1, 60), st.floats(0.01, 1))
def test_participants_are_different_clients_in_order(seed: int, number: int, clients: int, ratio: float) -> None:
    ids = Sampling(ratio=ratio).participants(seed, number, clients)
    assert ids == sorted(set(ids)) and set(ids) <= set(range(clients))


def test_who_takes_part_depends_on_seed_and_round_alone() -> None:
    sampling = Sampling(ratio=0.3)
    assert sampling.participants(1, 2, 20) == Sampling(ratio=0.3, drop=0.5).participants(1, 2, 20)
    assert len({tuple(sampling.participants(s, n, 20)) for s in (0, 1) for n in range(5)}) == 10


def test_every_client_has_the_same_chance() -> None:
    seen = Counter(i for n in range(1, 1001) for i in Sampling(ratio=0.2).participants(0, n, 10))
    assert sum(seen.values()) == 2000 and all(150 < seen[i] < 250 for i in range(10))


def test_a_range_of_ratios_is_used_from_end_to_end() -> None:
    sampling = Sampling(ratio=0.5, ratio_min=0.1)
    counts = Counter(len(sampling.participants(0, n, 20)) for n in range(1, 501))
    assert set(counts) == set(range(2, 11)) and min(counts.values()) > 25 and sampling.fewest(20) == 2


def test_answers_are_lost_at_the_given_rate() -> None:
    lost = [len(Sampling(drop=0.25).dropped(0, n, list(range(40)))) for n in range(1, 101)]
    assert 0.22 < sum(lost) / 4000 < 0.28


@given(st.integers(0, 10**6), st.lists(st.integers(0, 30), min_size=1, unique=True))
def test_somebody_always_answers(number: int, ids: list[int]) -> None:
    lost = Sampling(drop=0.99).dropped(0, number, sorted(ids))
    assert lost < set(ids)


def test_a_clients_luck_does_not_depend_on_who_else_is_there() -> None:
    sampling = Sampling(drop=0.5)
    for number in range(1, 30):
        everyone, few = sampling.dropped(3, number, list(range(10))), sampling.dropped(3, number, [2, 5, 7])
        assert few == everyone & {2, 5, 7} or len(everyone & {2, 5, 7}) == 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"ratio": 0.0}, "ratio must be"),
        ({"ratio": 1.5}, "ratio must be"),
        ({"ratio": 0.5, "ratio_min": 0.6}, "ratio_min"),
        ({"drop": 1.0}, "drop"),
    ],
)
def test_impossible_ratios_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Sampling(**wrong)
