"""Clients kept out of training: nothing of theirs reaches it, they join afterwards, and everywhere alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import perfed
from perfed import keys
from perfed.errors import InputError
from perfed.methods import CATALOGUE
from perfed.report.read import read
from perfed.report.tables import comparison, short
from perfed.runs.assemble import assemble
from perfed.runs.experiment import Experiment
from perfed.runs.seed import Seed
from perfed.runs.states import digest
from perfed.runs.unseen import kept_out
from perfed.testing import Net
from perfed.transport import Serial

OPTIONS: dict[str, dict[str, Any]] = {
    "dualfed": {"contrast": 1.0},
    "fedala": {"most_epochs": 1},
    "fedbabu": {"tune_epochs": 1},
    "lgfedavg": {"warmup": 1},
    "pfedme": {"spring": 5.0, "steps": 1},
}
SMALL = {"rounds": 2, "budget": {"lr": 0.05, "batch_size": 10}, "clients": 5, "partition": "iid", "progress": False}


def samples(scrambled: list[int] | None = None, count: int = 200) -> perfed.Samples:
    """Return samples of which some rows, where asked for, have other values and labels."""
    x = keys.normal(keys.key(0, "x"), (count, 6))
    y = (x @ keys.normal(keys.key(0, "rule"), (6, 3))).argmax(1)
    if scrambled is not None:
        x[scrambled] = 100 * keys.normal(keys.key(1, "x"), (len(scrambled), 6))
        y[scrambled] = (y[scrambled] + 1) % 3
    return perfed.Samples.of(x.numpy(), y.numpy(), kind="features")


def net() -> Net:
    return Net(True)


def trained(name: str, data: perfed.Samples, split: Any) -> Seed:
    asked: dict[str, Any] = {"rounds": 2, "budget": {"lr": 0.05, "batch_size": 6}, "join": {"epochs": 1}}
    method = {"name": name, **OPTIONS.get(name, {})}
    one = Experiment(method=method, data=data, split=split, model=net, unseen=("client 1", "client 3"), **asked)
    seed = Seed(assemble(one, 0))
    seed.train(Serial(seed.made.site, seed.store))
    return seed


@pytest.fixture(scope="module")
def both() -> list[tuple[perfed.Samples, perfed.Split]]:
    """The same split of two sets of samples that differ in all that clients 1 and 3 have."""
    first, split = perfed.federate(samples(count=100), clients=5, partition="iid").source  # type: ignore[misc]
    rows = np.concatenate([split.owned(1), split.owned(3)]).tolist()
    other = samples(rows, count=100)
    as_before = perfed.Split(split.train, split.validation, split.test, split.names, split.settings, other.digest())
    return [(first, split), (other, as_before)]


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_scrambling_what_the_unseen_have_changes_not_one_bit_of_training(name: str, both: Any) -> None:
    one, two = (trained(name, *data) for data in both)
    assert digest(one.server, one.store) == digest(two.server, two.store)
    assert [line["test"] for line in one.lines] == [line["test"] for line in two.lines]
    assert one.lines[-1]["unseen"] != two.lines[-1]["unseen"]


def test_a_share_a_number_or_names_say_who_and_every_method_leaves_out_the_same() -> None:
    names = [f"client {i}" for i in range(10)]
    fifth = kept_out(Experiment(unseen=0.2), names, seed=4)
    assert fifth == kept_out(Experiment(unseen=2, method="fedcp"), names, seed=4) and len(fifth) == 2
    assert kept_out(Experiment(unseen=0.2, split_seed=4), names, seed=9) == fifth != kept_out(Experiment(unseen=2), names, seed=5)
    assert kept_out(Experiment(unseen="client 7, client 2"), names, seed=0) == [2, 7]
    assert kept_out(Experiment(), names, seed=0) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"unseen": 1.0}, "unseen is a share below 1, a number of clients, or their names, got 1.0"),
        ({"unseen": -1}, "unseen is a share below 1"),
        ({"join": {"every": 3}}, "join.every says how often unseen clients are tested; keep some out, such as unseen=0.2"),
        ({"unseen": 1, "join": {"epochs": 0}}, "join.epochs must be at least 1"),
        ({"unseen": 5}, "unseen keeps all 5 clients out of training"),
        ({"unseen": 6}, "unseen=6 keeps more clients out than there are: 5"),
        ({"unseen": "client 9"}, "client in unseen"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        perfed.run(data=samples(), **SMALL, **given)
    assert said in str(refused.value)


def test_those_who_train_alone_end_as_they_would_have_without_it() -> None:
    whole = perfed.run(data=samples(), method="local", transport="serial", **SMALL).accuracies()
    apart = perfed.run(data=samples(), method="local", transport="serial", unseen=2, **SMALL)
    assert len(apart.names) == 3 and {name: whole[name] for name in apart.names} == apart.accuracies()
    assert set(apart.accuracies("unseen")) == set(whole) - set(apart.names)


@pytest.mark.parametrize("method", ["fedper", "fedbn"])
def test_the_unseen_score_alike_on_every_transport(method: str) -> None:
    found = {}
    for transport in ("serial", "pooled", "stacked"):
        more = {"transport": transport, "workers": 2, "unseen": 2, "model": net}
        found[transport] = perfed.run(data=samples(), method=method, **more, **SMALL).rounds[0][-1]["unseen"]
    assert found["serial"] == found["pooled"]
    np.testing.assert_allclose(found["stacked"]["loss"], found["serial"]["loss"], atol=1e-5)


def test_a_run_that_was_stopped_has_the_unseen_score_as_if_it_never_was(tmp_path: Path) -> None:
    asked = SMALL | {"data": samples(), "unseen": 2, "join": {"every": 1, "epochs": 2}, "transport": "serial", "out": tmp_path}
    short_run = perfed.run(**asked, method="fedper", name="short")
    longer = perfed.resume(short_run.folder.path, data=samples(), rounds=4)  # type: ignore[union-attr]
    whole = perfed.run(**(asked | {"rounds": 4}), method="fedper", name="whole")
    assert longer.digest == whole.digest
    assert [line.get("unseen") for line in longer.rounds[0]] == [line.get("unseen") for line in whole.rounds[0]]
    assert [("unseen" in line) for line in whole.rounds[0]] == [False, True, True, True, True]


def test_tables_show_the_unseen_beside_the_seen_and_the_difference(tmp_path: Path) -> None:
    run = perfed.run(data=samples(), method="fedper", unseen=2, out=tmp_path, transport="serial", **SMALL)
    assert run.folder is not None
    record = read(run.folder.path)
    table = comparison([record])
    row = {column.key: cell.value for column, cell in zip(table.columns, table.rows[1].cells, strict=True)}
    last = run.rounds[0][-1]["unseen"]
    right = sum(round(a * c) for a, c in zip(last["accuracy"], last["count"], strict=True))
    assert row["unseen.accuracy"] == right / sum(last["count"]) == run.summary["unseen"]["accuracy"]["mean"]
    assert row["unseen.gap"] == pytest.approx(row["unseen.accuracy"] - row["last.weighted"])
    assert "unseen" in short(table)[0] and any("2 clients that never trained" in note for note in table.notes)
    frame = run.frame()
    assert set(frame[frame.part == "unseen"].client) == set(run.folder.seed(0).clients["unseen"]["names"])


def test_a_vocabulary_never_sees_the_words_of_the_unseen() -> None:
    texts = ["red green blue", "red green blue", "only here word", "only here word"] * 5
    data = perfed.Samples.of(texts, [0, 1, 0, 1] * 5, group=[0, 0, 1, 1] * 5, kind="tokens")
    asked = Experiment(data=data, partition="natural", unseen=("1",), text={"least": 1})
    words = assemble(asked, 0).federation.vocabulary
    assert words is not None and "red" in words.words and "only" not in words.words
    assert torch.is_tensor(assemble(asked, 0).newcomers.site.federation.x)  # type: ignore[union-attr]
