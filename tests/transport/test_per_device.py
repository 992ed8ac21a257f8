"""One worker per device: the bits of serial on processors; what cannot be is refused in a sentence."""

from pathlib import Path
from typing import Any

import pytest

from perfed.errors import InputError
from perfed.runs.array import train_one
from perfed.runs.experiment import Experiment
from perfed.runs.run import rehearse, run
from perfed.runs.states import digest
from perfed.transport import Pooled

SMALL: dict[str, Any] = {"method": "fedper", "clients": 5, "rounds": 2, "partition": "iid"}
SMALL |= {"data": {"name": "digits", "fraction": 0.1}, "model": "cnn", "validation": 0}


def ended(**more: Any) -> str:
    one = rehearse(Experiment(**(SMALL | more)))[0]
    return digest(one.server, one.store)


def test_two_processors_come_to_the_bits_of_two_workers_and_of_serial() -> None:
    found = ended(devices="cpu,cpu")
    assert found == ended(transport="pooled", workers=2) == ended(transport="serial")


def test_there_is_one_worker_per_device_and_the_record_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    start = Pooled._start
    monkeypatch.setattr(Pooled, "_start", lambda self, place, reserve: begun.append(place) or start(self, place, reserve))
    folder = run(Experiment(out=tmp_path, devices=("cpu", "cpu", "cpu"), **SMALL))
    assert begun == ["cpu"] * 3
    assert folder.seed(0).transport == {"name": "pooled", "why": "a process for each of cpu, cpu, cpu"}
    assert folder.settings["devices"] == ["cpu"] * 3


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"transport": "serial"}, "gives transport=pooled a worker on each, and serial has none"),
        ({"transport": "stacked"}, "and stacked has none"),
        ({"transport": "ray"}, "and ray has none"),
        ({"workers": 2}, "leave out workers"),
        ({"device": "cuda"}, "its server is on the CPU; leave out device"),
        ({"engine": "ray"}, "engine.gpus says what a cell gets"),
        ({"devices": "cpu,cuda:0"}, "of two kinds they would round differently"),
    ],
)
def test_what_does_not_go_together_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Experiment(**({"devices": "cpu,cpu"} | more))


@pytest.mark.parametrize(("name", "why"), [("cuda:64", "devices=cuda:64: there is no such device here"), ("gpu", "'cuda'")])
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        run(Experiment(out=tmp_path, devices=name, **SMALL))
    assert not list(tmp_path.iterdir())


def test_a_cell_by_name_has_the_workers_of_its_devices(tmp_path: Path) -> None:
    asked = Experiment(out=tmp_path, devices="cpu,cpu", name="it", **SMALL)
    folder = run(asked, prepare=True)
    with pytest.raises(InputError, match="a worker for each of devices=cpu,cpu; leave out the number of workers"):
        train_one(folder.path, "seed-0", workers=3)
