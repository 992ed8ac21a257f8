"""Fifty silos on one machine, by the command an operator types: the bits of one process. By marker only."""

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from faraway import final, lines, serial
from loopback import free_port

from perfed.silos.flower import layout, operate
from perfed.silos.flower.processes import marked

pytestmark = pytest.mark.flower

SILOS = 50
SETTINGS = ("method=fedrep", "data=digits", "partition=iid", "model=mlp", "model.hidden=8", "budget.batch_size=32", "rounds=3")


def test_fifty_silos_on_one_machine_give_the_bits_of_serial(tmp_path: Path) -> None:
    terms = {"least": SILOS, "seeded_private": True}
    allowed = {"scores": True, "labels": True, "seeded_private": True, "fewest": 1}
    layout.init(tmp_path / "d", SILOS, layout.Address(port=free_port(1)), SETTINGS, terms=terms, allowed=allowed)
    mark = operate.fresh_mark()
    run = operate.local(tmp_path / "d", mark=mark)
    reference = serial(tmp_path / "d", tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)
    assert len(lines(reference)[-1]["participants"]) == SILOS
    assert marked(mark) == []
