"""How many clients are computed at once: as many as were measured to fit, and results hardly depend on it."""

import logging
import mmap
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.methods import find
from perfed.testing import federation, gap, play
from perfed.transport import Stacked, room
from perfed.transport.room import Room

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MIB = 1 << 20


class Machine:
    """A device with so much free, on which the clients of a chunk take so much each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int, each: int) -> None:
        self.each, self.count = each, 0
        monkeypatch.setattr(room, "free", lambda device: free)
        monkeypatch.setattr(room, "_begin", lambda device: 7)
        monkeypatch.setattr(room, "_peak", lambda device: 7 + self.count * self.each)

    def compute(self, made: Room, guess: int, clients: int) -> int:
        """Compute a chunk; return how large it was."""
        self.count = made.most("trains", guess, clients)
        with made.measured("trains", self.count):
            pass
        return self.count


def test_a_gpu_begins_with_two_clients_and_takes_what_fits_half_of_it(monkeypatch: Any, caplog: Any) -> None:
    there, made = Machine(monkeypatch, 1000 * MIB, 10 * MIB), Room(GPU, usual=MIB)
    with caplog.at_level(logging.INFO, "perfed"):
        assert [there.compute(made, MIB, 500) for _ in range(3)] == [2, 32, 32]  # of 50 that fit, the power of two below
    assert caplog.messages == ["transport=stacked trains up to 32 clients at once: one takes 10 MiB of 1,000 MiB that are free"]


def test_a_processor_takes_what_is_usual_unless_memory_is_short(monkeypatch: Any) -> None:
    plenty, made = Machine(monkeypatch, 100_000 * MIB, 10 * MIB), Room(CPU, usual=256 * MIB)
    assert [plenty.compute(made, 4 * MIB, 500) for _ in range(2)] == [64, 64]
    short, made = Machine(monkeypatch, 200 * MIB, 10 * MIB), Room(CPU, usual=256 * MIB)
    assert [short.compute(made, 4 * MIB, 500) for _ in range(2)] == [2, 8]


def test_what_is_measured_is_real(monkeypatch: Any) -> None:
    monkeypatch.setattr(room, "free", lambda device: 10_000 * MIB)
    made = Room(CPU, usual=1 << 40)
    made.most("trains", 1, 1)
    with made.measured("trains", 1), mmap.mmap(-1, 64 * MIB) as taken:  # new pages, where torch may use old ones again
        for at in range(0, 64 * MIB, mmap.PAGESIZE):
            taken[at] = 1
    assert made._bound["trains"] <= 64  # of 78 that fit, the power of two below; fewer where a former peak cannot be forgotten


@pytest.mark.parametrize("few", [1, 3])
def test_results_hardly_depend_on_how_many_are_computed_at_once(few: int, monkeypatch: Any) -> None:
    usual = play(find("fedcp")(), federation(7), make=Stacked).states()
    monkeypatch.setattr(Room, "most", lambda self, what, each, clients: self._guessed.setdefault(what, each) and few)
    assert gap(usual, play(find("fedcp")(), federation(7), make=Stacked).states()) <= 1e-5


def test_the_command_line_says_it_in_one_line(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(room, "free", lambda device: 4 << 30)
    job = ["run", "transport=stacked", "clients=4", "rounds=2", "data.fraction=0.1", f"out={tmp_path}"]
    said = CliRunner().invoke(app, job).stderr.splitlines()
    assert sum("transport=stacked trains up to" in line for line in said) == 1
