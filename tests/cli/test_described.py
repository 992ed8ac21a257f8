"""Describing methods costs shapes, not training, and needs no data."""

import json
import subprocess
import sys

import pytest

from perfed import listing, models
from perfed.data import CATALOGUE
from perfed.data.facts import DataFacts, facts
from perfed.errors import InputError
from perfed.methods import CATALOGUE as METHOD_CATALOGUE
from perfed.runs import describe as catalogue

METHODS = sorted(METHOD_CATALOGUE)


@pytest.mark.parametrize("name", METHODS)
def test_shapes_alone_give_what_a_round_gives(name: str) -> None:
    round_, shapes = (catalogue.traffic(name, "cnn_bn", DataFacts("image", (1, 8, 8), 10), device) for device in ("cpu", "meta"))
    assert round_ == shapes


@pytest.mark.parametrize("name", METHODS)
def test_the_list_says_what_a_round_gives(name: str) -> None:
    assert listing.crossing(name) == catalogue.crossing(name)


@pytest.mark.parametrize("name", METHODS)
def test_fields_read_from_the_source_are_those_of_the_class(name: str) -> None:
    from dataclasses import MISSING, fields

    from perfed.methods import find

    own = {f.name: None if f.default is MISSING else f.default for f in fields(find(name)) if f.name != "budget"}
    assert {f["name"]: f["default"] for f in listing.meanings(name)} == own


@pytest.mark.parametrize("data", ["ag_news", "amazon", "domainnet"])
def test_every_network_is_described_for_every_data_set_or_refused_by_name(data: str) -> None:
    known = facts(data)
    for model in models.MODELS:
        if known.kind not in models.TAKES[model]:
            with pytest.raises(InputError, match=f"for {known.kind} there are"):
                catalogue.traffic("fedper", model, known)
            continue
        try:
            found = catalogue.traffic("fedper", model, known)
        except InputError as small:  # pictures with too few pixels
            assert "at least" in str(small) or "pixels" in str(small)
            continue
        assert found["private"] and (model == "logistic" or (found["up"] and found["down"]))  # which is all head


def test_bytes_of_a_network_that_fills_gigabytes() -> None:
    found = catalogue.traffic("fedavg", "digits_cnn", facts("domainnet"))
    widest = {leaf["shape"]: leaf["bytes"] for leaf in found["up"]}
    assert widest["2048×524288"] == 2048 * 524_288 * 4  # 128 channels of 64×64 pixels to 2,048 features


def test_the_catalogue_knows_what_the_readers_give() -> None:
    from perfed.data import load

    for name in ("digits", "digits_domains", "optdigits"):
        samples = load(name, fraction=0.1)
        assert facts(name) == (samples.kind, samples.shape, len(samples.classes)), name
        if name != "optdigits":
            assert facts(name, {"size": 12}).shape == load(name, fraction=0.1, size=12).shape
    assert all(facts(name).classes == entry.classes for name, entry in CATALOGUE.items())


def test_it_describes_for_data_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFED_DATA", "/nowhere")
    assert catalogue.describe("fedper", None, "cifar100")["model"] == "cnn"
    assert catalogue.describe("fedper", None, "ag_news")["model"] == "fasttext"
    assert catalogue.describe("fedper", None, "har")["model"] == "harcnn"


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True).stdout


def test_the_list_of_methods_waits_for_nothing_heavy() -> None:
    code = "import sys; from perfed.cli.commands import app; app(['methods', '--json'], standalone_mode=False); "
    printed = fresh(code + "print('torch' in sys.modules)").rpartition("]")
    assert len(json.loads(printed[0] + "]")) == len(METHODS) and printed[2].strip() == "False"


def test_a_method_on_networks_for_pictures_fits_in_little_memory() -> None:
    """It trained a round on batches of 2,000 and took 22 GB; later torch's compiler was imported for its shapes."""
    code = (
        "import sys; from pathlib import Path; from perfed.runs.describe import describe\n"
        "describe('fedcp', 'cnn', 'cifar10'); describe('fedcp', 'alexnet_bn', 'domainnet')\n"
        "print('torch._dynamo' in sys.modules, int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) >> 10)"
    )
    imported, peak = fresh(code).split()
    assert imported == "False"
    assert int(peak) < 350  # MiB, of which two thirds are torch


def test_the_compiler_is_itself_again_after_shapes_were_asked_for() -> None:
    code = (
        "import torch; from perfed.local.private import without_compiler\n"
        "with without_compiler(): torch.zeros(2, device='meta') + 1\n"
        "import torch._dynamo; torch.zeros(2, device='meta') + 1\n"
        "print(hasattr(torch._dynamo, 'optimize'), torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())"
    )
    assert fresh(code).split() == ["True", "2.0"]
