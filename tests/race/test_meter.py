"""Client-steps are counted before they are taken: the batches that every method then visits."""

from typing import Any

import pytest

from perfed.local.shard import Shard
from perfed.methods import CATALOGUE, find
from perfed.runs.race.meter import Meter
from perfed.sampling import Sampling
from perfed.testing import federation, play
from perfed.transport.site import Site

APART = {  # methods whose batches are not what their passes say, and by which factor at most
    "perfedavg": (0.4, 1.0),  # takes batches two by two
    "pfedme": (0.2, 0.2),  # takes five steps on each batch: five passes
    "apfl": (1.0, 1.4),  # looks at one more batch to move its share
    "fedfomo": (0.6, 1.0),  # a fifth of the samples judges models instead
    "fedala": (0.4, 0.95),  # blends on four fifths of the samples, not at all in the first round; the second takes longer
    "dualfed": (0.7, 1.0),  # its projector's BatchNorm leaves a batch of one out
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_round_visits_the_batches_that_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visited, real, train = dict[tuple[int, int], int](), Shard.epochs, Site.train
    now: list[tuple[int, int]] = [(0, 0)]

    def epochs(self: Shard, *given: Any, **named: Any) -> Any:
        for batch in real(self, *given, **named):
            visited[now[0]] = visited.get(now[0], 0) + 1
            yield batch

    def trained(self: Site, client: int, down: Any, private: Any, number: int) -> Any:
        now[0] = (number, client)
        found = train(self, client, down, private, number)
        now[0] = (0, 0)
        return found

    monkeypatch.setattr(Shard, "epochs", epochs)
    monkeypatch.setattr(Site, "train", trained)
    method, data = find(name)(), federation(3)
    play(method, data, norm=find(name).needs == "BatchNorm", count=3)
    counted = Meter(data.sizes, Sampling(), 0, method.budget.batch_size, find(name).needs == "BatchNorm")
    low, high = APART.get(name, (1.0, 1.0))
    for number in (1, 3):
        seen = sum(count for (when, _), count in visited.items() if when == number)
        assert low <= seen / (method.fitted * counted.visits(1)) <= high


def test_passes_before_a_test_are_counted_once_where_a_run_ends() -> None:
    meter, method = Meter([20, 30], Sampling(), 0, 10, False), find("fedavgft")(tune_epochs=3)  # type: ignore[call-arg]
    assert (meter.spent(method, 0, 4), meter.spent(method, 4, 8, served=True)) == (4 * 5, 4 * 5 + 3 * 5)
    assert meter.rounds(method, 4 * 5 + 3 * 5, served=True) == 4


def test_only_those_who_take_part_are_counted() -> None:
    half = Sampling(ratio=0.5)
    meter = Meter([10, 20, 30, 40], half, 7, 10, False)
    batches = [1, 2, 3, 4]
    expected = [sum(batches[client] for client in half.participants(7, number, 4)) for number in (1, 2, 3)]
    assert [meter.visits(count) for count in (1, 2, 3)] == [expected[0], sum(expected[:2]), sum(expected)]
    assert meter.rounds(find("fedavg")(), sum(expected)) == 3


def test_a_batch_of_one_that_batchnorm_cannot_train_on_is_not_counted() -> None:
    assert Meter([21, 20], Sampling(), 0, 10, True).batches == [2, 2]
    assert Meter([21, 20], Sampling(), 0, 10, False).batches == [3, 2]
