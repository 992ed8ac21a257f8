"""Two silos and two rounds on Flower: TLS, node keys, the same bits as serial, nobody else contacted, nothing left."""

import os
from pathlib import Path

import pytest
from faraway import final, lines, serial
from loopback import Loopback, strangers

from perfed.silos.flower.processes import marked

pytest.importorskip("flwr")


def test_two_silos_on_flower_give_the_bits_of_serial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    place = Loopback(tmp_path / "d", 2)
    place.experiment(method="fedrep", rounds=2)
    try:
        place.start()
        seed = place.run()
    finally:
        place.stop()
    reference = serial(tmp_path / "d", tmp_path / "runs")
    assert final(seed)["digest"] == final(reference)["digest"]
    assert lines(seed) == lines(reference)
    assert place.watched.read_text()
    assert strangers(place.watched) == set()
    assert marked(place.mark) == []
