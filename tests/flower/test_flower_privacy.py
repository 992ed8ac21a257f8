"""Noise at silos: from the operating system, so that nobody who knows the seed can take it off; what was spent is kept."""

import json
from pathlib import Path

import pytest
from faraway import Here, final, folders, lines, serial

from perfed.privacy import epsilon
from perfed.silos.conductor import Conductor


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
