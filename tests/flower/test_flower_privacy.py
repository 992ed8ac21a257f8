"""Noise at silos: from the operating system, so that nobody who knows the seed can take it off; what was spent is kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from faraway import Here, final, folders, lines, serial, silo

from perfed.errors import InputError
from perfed.privacy import epsilon
from perfed.silos.conductor import Conductor
from perfed.silos.policy import SitePolicy


@pytest.mark.parametrize("level", ["client", "sample"])
def test_silos_draw_noise_that_no_seed_repeats(level: str, tmp_path: Path) -> None:
    noise = {"name": level, "noise": 3.0, "delta": 1e-4}
    seeds = []
    for number in range(2):
        place = folders(tmp_path / str(number), silos=2, rounds=1, method="fedavg", privacy=noise)
        seeds.append(Conductor(place / "server", Here(place)).conduct() / "seed-0")
    digests = {final(seed)["digest"] for seed in seeds} | {final(serial(tmp_path / "0", tmp_path / "runs"))["digest"]}
    assert len(digests) == 3
    spent = lines(seeds[0])[-1]["privacy"]["epsilon"]
    if level == "client":
        assert spent == pytest.approx(epsilon([(1.0, 3.0, 1)], 1e-4), abs=1e-6)
    assert spent > 0 and json.loads((seeds[0] / "spent.json").read_text())["rounds"] == [1, 1]


def spent(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / "silo-0" / "state" / "privacy.json").read_text()))


def test_a_silo_keeps_its_own_account_over_experiments_and_refuses_to_go_beyond_it(tmp_path: Path) -> None:
    most = epsilon([(1.0, 3.0, 3)], 1e-5) + 1e-9
    allowed = {"privacy": "required", "epsilon": most, "delta": 1e-5}
    place = folders(tmp_path, silos=2, rounds=2, policy=allowed, privacy={"name": "client", "noise": 3.0, "delta": 1e-3})
    carrier = Here(place)
    Conductor(place / "server", carrier).conduct()
    once = spent(place)
    assert once["uploads"] == [[1.0, 3.0, 2]] and once["epsilon"] == epsilon([(1.0, 3.0, 2)], 1e-5) and once["without"] == 0
    again = [ask for ask in carrier.asked if ask.client == 0 and ask.train is not None]
    assert silo(place, 0).answer(again[-1]).refused == "" and spent(place) == once  # the same upload is counted once
    other = replace(again[0], experiment="ab" * 16)  # another experiment of the same settings, after a restart
    assert silo(place, 0).answer(other).refused == "" and spent(place)["uploads"] == [[1.0, 3.0, 3]]
    last = replace(again[0], experiment="cd" * 16)
    assert silo(place, 0).answer(last).refused == "epsilon" and spent(place)["uploads"] == [[1.0, 3.0, 3]]


def test_a_silo_that_requires_noise_takes_no_part_without_it(tmp_path: Path) -> None:
    place = folders(tmp_path, silos=2, rounds=1)
    carrier = Here(place)
    Conductor(place / "server", carrier).conduct()
    assert spent(place)["without"] == 1 and spent(place)["epsilon"] == 0.0
    file = place / "silo-0" / "policy.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"privacy": "required"}))
    assert silo(place, 0).answer(carrier.asked[0]).refused == "noise"
    (place / "silo-0" / "state" / "privacy.json").write_text('{"uploads": [[1.0, -3.0, 2]], "without": 0, "last": ""}')
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"privacy": "allowed"}))
    asked = next(ask for ask in carrier.asked if ask.client == 0 and ask.train == 1)
    assert silo(place, 0).answer(replace(asked, experiment="ef" * 16)).refused == "state"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"privacy": "yes"}, "allowed or required"),
        ({"privacy": "required", "epsilon": -1}, "0 for no bound"),
        ({"privacy": "required", "delta": 1}, "between 0 and 1"),
        ({"epsilon": 3}, "add privacy: required"),
    ],
)
def test_a_policy_of_noise_that_cannot_be_right_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        SitePolicy.of(given)
