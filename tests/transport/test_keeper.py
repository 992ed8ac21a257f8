"""Clients kept by actors: what travels, who keeps whom, and the bits of serial, with actors that live in this process."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfed import trees
from perfed.errors import PerfedError
from perfed.methods import CATALOGUE, find
from perfed.sampling import Sampling
from perfed.testing.play import federation, play, task
from perfed.transport import ClientsLost, Pooled, Rayed, Serial, Site, rayed
from perfed.transport.crate import opened, packed
from perfed.transport.keeper import part


class Lost(Exception):
    """What Ray raises when an actor is gone."""


class Here:
    """As much of Ray as a transport uses, in this process: an actor is an object, a reference what it refers to."""

    exceptions = SimpleNamespace(RayTaskError=PerfedError, RayError=Lost)

    def __init__(self, cpus: int) -> None:
        self.cpus, self.puts, self.gone = cpus, 0, set[int]()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(self.cpus)}}]

    def put(self, thing: Any) -> Any:
        self.puts += 1
        return thing

    def get(self, thing: Any) -> Any:
        if isinstance(thing, Lost):
            raise thing
        return thing

    def wait(self, streams: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return streams[-1:], streams[:-1]  # the last first: answers come out of turn

    def kill(self, actor: Any) -> None:
        self.gone.add(id(actor))

    def remote(self, **_: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=lambda *given: Actor(self, kind(*given)))


class Actor:
    def __init__(self, ray: Here, made: Any) -> None:
        self.ray, self.made = ray, made

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            return Lost("gone") if id(self) in self.ray.gone else getattr(self.made, name)(*given)

        def stream(*given: Any) -> Any:
            found = call(*given)
            return iter([found]) if isinstance(found, Lost) else found

        return SimpleNamespace(remote=call, options=lambda **_: SimpleNamespace(remote=stream))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    ray = Here(4)

    @contextmanager
    def joined(_address: str) -> Any:
        yield ray

    monkeypatch.setattr(rayed.cluster, "joined", joined)
    return ray


def test_a_crate_gives_back_what_was_packed_to_the_bit() -> None:
    tree = {"a": torch.rand(3, 5), "b": (torch.tensor([True, False]), torch.tensor(7)), "c": {"d": torch.rand(2).bfloat16()}}
    again = opened(packed(tree))
    assert trees.equal(tree, again) and isinstance(again["b"], tuple)
    assert all(leaf.data_ptr() % 64 == 0 for leaf in trees.leaves(again))
    assert opened(packed(())) == ()


def test_an_actor_holds_the_samples_of_its_clients_alone() -> None:
    fed = federation(5)
    site, _, _ = Site.of(find("fedavg")(), task(), fed)
    less = part(site, [1, 3]).federation
    held = sum(len(getattr(fed, name)[i]) for name in ("train", "validation", "test") for i in (1, 3))
    assert len(less.x) == held < len(fed.x) and less.sizes == [0, fed.sizes[1], 0, fed.sizes[3], 0]
    for name in ("train", "validation", "test"):
        for i in (1, 3):
            assert torch.equal(less.x[getattr(less, name)[i]], fed.x[getattr(fed, name)[i]])
    one, two = fed.shard(3, 2, 10, False), less.shard(3, 2, 10, False)
    for a, b in zip(one.epochs(1), two.epochs(1), strict=True):
        assert torch.equal(a.x, b.x) and torch.equal(a.key, b.key)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_method_comes_to_the_bits_of_serial(here: Here, name: str) -> None:
    """Also where answers come out of turn; what is sent to all is laid down once a round."""
    method = find(name)()
    try:
        serial = play(method, federation(5), count=2)
    except PerfedError as refused:
        pytest.skip(str(refused))
    actors = play(method, federation(5), count=2, make=lambda site, store: Rayed(site, store, 3))
    assert trees.equal(serial.states(), actors.states())


def test_clients_whose_answers_are_lost_train_all_the_same(here: Here) -> None:
    """Also those after the last whose answer arrives, whom nobody waits for: they keep what they learned."""
    method, drops = find("fedper")(), Sampling(drop=0.5)
    lost = [drops.dropped(0, number, list(range(5))) for number in range(1, 7)]
    assert any(4 in own and len(own) < 5 for own in lost)
    serial, actors, pooled = (
        play(method, federation(5), count=6, sampling=drops, make=make)
        for make in (Serial, lambda site, store: Rayed(site, store, 3), lambda site, store: Pooled(site, store, 2))
    )
    own = Site.of(method, task(), federation(5))[2]
    trained = {client for number in range(6) for client in range(5)}
    assert all(not trees.equal(serial.privates[client].mine, own.mine) for client in trained)
    assert trees.equal(serial.states(), actors.states()) and trees.equal(serial.states(), pooled.states())


def test_what_all_are_sent_is_laid_down_once(here: Here) -> None:
    rounds = len(play(find("fedavg")(), federation(5), make=lambda site, store: Rayed(site, store, 3)).history) - 1
    assert here.puts == rounds + (rounds + 1)  # to train on, and to be tested with, from the start on


def test_a_lost_actor_is_told_apart_from_a_client_that_fails(here: Here) -> None:
    site, server, first = Site.of(find("fedper")(), task(), federation(5))
    from perfed.transport import Store

    transport = Rayed(site, Store(first, 5), 2)
    here.kill(transport._keepers[1])
    with pytest.raises(ClientsLost, match="`perfed resume` goes on from its checkpoint"):
        transport.train(server, [0, 1, 2, 3, 4], 1, set(), False).drain()
    transport.close()
