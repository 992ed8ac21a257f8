"""What makes transports fast changes neither results nor counts."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from perfed import trees
from perfed.local import Budget
from perfed.methods import find
from perfed.sampling import Sampling
from perfed.server import Uploads
from perfed.testing import federation, gap, play, task
from perfed.transport import Pooled, Serial, Site, Stacked, Store

BUDGET = Budget(lr=0.1, batch_size=8)


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedcac", "local"])
@pytest.mark.parametrize("make", [Pooled, Stacked])
def test_every_transport_counts_the_same_bytes_also_where_answers_are_lost(name: str, make: Any) -> None:
    method, sampling = find(name)(budget=BUDGET), Sampling(ratio=0.8, drop=0.5)
    runs = [play(method, federation(), count=3, make=m, sampling=sampling) for m in (Serial, make)]
    assert [(r.up, r.down) for r in runs[0].history] == [(r.up, r.down) for r in runs[1].history]


def test_clients_in_small_chunks_equal_clients_in_one() -> None:
    method = find("fedper")(budget=BUDGET)
    one = play(method, federation(), make=Stacked)
    several = play(method, federation(), make=lambda site, store: Stacked(site, store, room=1))
    assert gap(one.states(), several.states()) <= 1e-6


def test_batchnorm_that_a_method_inserts_keeps_unequal_clients_apart() -> None:
    method = find("dualfed")(budget=Budget(lr=0.005, batch_size=8), contrast=1.0, temperature=1.0)
    data = federation(sizes=[24, 16, 24, 16])  # whole batches: the statistics of few samples would magnify rounding
    serial, stacked = (play(method, data, count=2, make=make) for make in (Serial, Stacked))
    assert gap(serial.states(), stacked.states()) <= 1e-5


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "ditto", "apfl", "fedavgft", "fedproto", "apple"])
def test_clients_that_go_through_their_samples_at_their_own_pace_stand_along_one_axis_too(name: str) -> None:
    method = find(name)(budget=Budget(lr=0.1, batch_size=8, steps=7, epochs=2))
    data = federation(sizes=[23, 8, 3, 17])  # 3, 1, 1 and 3 batches a pass, the last of them short
    serial, stacked = (play(method, data, count=2, make=make) for make in (Serial, Stacked))
    assert gap(serial.states(), stacked.states()) <= 1e-5


def test_rare_classes_weigh_more_also_along_an_axis_at_everyone_s_own_pace() -> None:
    method = find("fedavg")(budget=Budget(lr=0.1, batch_size=8, steps=7, balance="weights"))
    plain = find("fedavg")(budget=Budget(lr=0.1, batch_size=8, steps=7))
    serial, stacked, other = (
        play(m, federation(sizes=[23, 8, 3]), count=2, make=make)
        for m, make in ((method, Serial), (method, Stacked), (plain, Stacked))
    )
    assert gap(serial.states(), stacked.states()) <= 1e-5 < gap(other.states(), stacked.states())


@pytest.mark.parametrize("steps", [None, 7])
def test_samples_in_stored_order_stand_along_one_axis_too(steps: int | None) -> None:
    plain = Budget(lr=0.1, batch_size=8, steps=steps, epochs=2)
    method, other = (find("fedavg")(budget=each) for each in (replace(plain, order="stored"), plain))
    data = federation(sizes=[23, 8, 3])
    serial, stacked = (play(method, data, count=2, make=make) for make in (Serial, Stacked))
    assert gap(serial.states(), stacked.states()) <= 1e-5
    assert gap(serial.states(), play(other, data, count=2).states()) > 1e-4


def test_padding_counts_the_steps_that_small_clients_wait() -> None:
    site, server, first = Site.of(find("fedavg")(budget=BUDGET), task(), federation(sizes=[32, 8, 8, 9]))
    together = Stacked(site, Store(first, 4))
    assert together.padding(server, range(4)) == 4 * 4 / (4 + 1 + 1 + 2)  # batches of 8; all wait for the first
    assert Stacked(site, Store(first, 4), room=1).padding(server, range(4)) == 1


def test_a_pool_hands_answers_over_in_client_order_while_others_still_train() -> None:
    site, server, first = Site.of(find("fedavg")(budget=BUDGET), task(), federation(8))
    pool = Pooled(site, Store(first, 8), 2)
    try:
        ups: Uploads[Any] = pool.train(server, range(8), 1, set(), False)
        coming = iter(ups)
        early = [next(coming) for _ in range(3)]
        rest = list(coming)
    finally:
        pool.close()
    expected = [site.train(i, server, first, 1)[0] for i in range(8)]
    assert all(trees.equal(a, b) for a, b in zip(early + rest, expected, strict=True))


def test_sizes_are_counted_once() -> None:
    data = federation(3)
    assert data.sizes is data.sizes and data.sizes == [len(rows) for rows in data.train]


def test_stacked_training_leaves_the_server_s_state_alone() -> None:
    site, server, first = Site.of(find("fedavg")(budget=BUDGET), task(True), federation(sizes=[24] * 3))
    before = trees.clone(server)
    Stacked(site, Store(first, 3)).train(server, range(3), 1, set(), False).drain()
    assert trees.equal(before, server) and not any(leaf.requires_grad for leaf in trees.leaves(server))
    assert torch.is_grad_enabled()
