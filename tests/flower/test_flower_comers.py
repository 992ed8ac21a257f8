"""A fourth silo over Flower: it comes into a running experiment, and to a model when one is over. Minutes, so by marker only.

Into a running experiment with the quick silo only: the server lets it in the same way, and rounds of SuperNodes take minutes.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from faraway import final, lines
from loopback import Loopback
from test_flower_loopback import deployed

from perfed.data import load
from perfed.disk import get_json
from perfed.silos.config import SiloConfig
from perfed.silos.flower import membership, operate
from perfed.silos.flower.status import status
from perfed.silos.silo import Silo

pytest.importorskip("flwr")
pytestmark = pytest.mark.flower


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Loopback]:
    yield from deployed(tmp_path / "d", getattr(request, "param", False))


def oslo(place: Loopback) -> None:
    """Add a silo with pictures of its own, and start it."""
    samples, rows = load("digits"), torch.arange(3, 600, 7)
    np.savez(place.folder / "own.npz", x=samples.x[rows].numpy(), y=samples.y[rows].numpy(), classes=np.array(samples.classes))
    own = membership.add(place.folder, "Oslo", {"name": f"npz:{place.folder / 'own.npz'}"}, {"scores": True})
    new = operate.silo(own, place.mark, place.ordinary)
    place.children += new
    for child in new:
        child.start()


@pytest.mark.parametrize("place", [False, True], ids=["quick", "supernode"], indirect=True)
def test_a_fourth_silo_comes_when_the_experiment_is_over_and_has_its_model(place: Loopback) -> None:
    experiment = place.server / "experiment.yaml"
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | {"rounds": 2}))
    run = operate.follow(place.server, place.mark, place.children)
    before = final(run / "seed-0")
    oslo(place)
    notes = run / "seed-0" / "newcomers.json"
    for _ in range(20):  # until its process has loaded and is at the link
        operate.follow(place.server, place.mark, place.children)
        if notes.exists():
            break
    assert get_json(notes)["3"]["name"] == "Oslo" and final(run / "seed-0") == before
    told = status(place.folder)["silos"][3]
    assert (told["name"], told["state"]) == ("Oslo", "online") and "joined after round 2" in told["note"], told
    model, _, _ = Silo(SiloConfig.load(place.folder / "silo-3" / "silo.yaml")).model()
    assert model.name == "Oslo" and model.number == 2


def test_a_fourth_silo_comes_into_a_running_experiment_and_leaves_it(place: Loopback) -> None:
    experiment = place.server / "experiment.yaml"
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | {"rounds": 100}))
    for policy in place.folder.glob("silo-*/policy.yaml"):
        policy.write_text(yaml.safe_dump(yaml.safe_load(policy.read_text()) | {"rounds": 100, "daily": 1000}))
    steps = iter(["come", "leave"])
    step = next(steps)

    def on_line(seed: int, line: dict[str, object]) -> None:
        nonlocal step
        if step == "come" and line["round"] == 1:
            oslo(place)
            step = next(steps)
        elif step == "leave" and 3 in line["participants"]:  # type: ignore[operator]
            membership.remove(place.folder, "Oslo")
            step = "left"

    run = operate.follow(place.server, place.mark, place.children, on_line)
    counts = [len(line["participants"]) for line in lines(run / "seed-0")]
    assert step == "left" and max(counts) == 4 and counts[1] == counts[-1] == 3
