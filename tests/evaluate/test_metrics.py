"""A metric is one function and one catalogue line; every transport, the record and the summary carry it by name."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from perfed.errors import InputError
from perfed.evaluate import metrics
from perfed.evaluate.metrics import Metric, defined, find, measure, measure_each, select
from perfed.evaluate.others import others
from perfed.evaluate.scores import UNSEEN, Score, columns, current, rows
from perfed.evaluate.summary import summarise
from perfed.local import Budget
from perfed.methods import find as find_method
from perfed.rounds import Round, line_of
from perfed.runs import parse as setting
from perfed.runs import run as experiment
from perfed.testing import federation, task
from perfed.transport import Pooled, Serial, Site, Stacked, Store


def margin(scores: Tensor, y: Tensor) -> float:
    """How far the label's score is above the mean score, on average; undefined where there is one class only."""
    own = scores.gather(1, y[:, None])[:, 0]
    return float((own - scores.mean(1)).mean()) if len(y.unique()) > 1 else math.nan


def scored(make: Any, *own: Any) -> list[list[Score]]:
    site, server, first = Site.of(find_method("fedavg")(budget=Budget()), task(), federation(one_class=True), own)
    transport = make(site, Store(first, len(site.federation)))
    try:
        return list(transport.score(server, range(len(site.federation)), 0, ("test", "validation")))
    finally:
        transport.close()


def test_accuracy_and_loss_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    found = measure(select(()), logits, torch.tensor([0, 1, 1]))
    surprise = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(-1)), math.log(1 + math.exp(3))]
    assert found.count == 3 and found["accuracy"] == 2 / 3
    assert found["loss"] == pytest.approx(sum(surprise) / 3, abs=1e-15)


def test_without_samples_nothing_is_defined() -> None:
    found = measure(select([margin]), torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert found == Score(0, {"accuracy": None, "loss": None, "margin": None}) and math.isnan(found["accuracy"])


def test_numbers_that_are_not_finite_are_none_also_inside_lists() -> None:
    own = Metric("odd", lambda scores, y: [1.0, float("nan"), [float("inf")]])
    found = measure([own, *select(())], torch.tensor([[float("nan"), 1.0]]), torch.tensor([1]))
    assert found.values["odd"] == [1.0, None, [None]] and found.values["loss"] is None
    with pytest.raises(TypeError, match="list of numbers"):
        found["odd"]


def test_own_functions_and_metrics_are_taken_as_they_are_and_names_are_checked() -> None:
    assert [m.name for m in select(["loss", margin, Metric("twice", margin)])] == ["accuracy", "loss", "margin", "twice"]
    with pytest.raises(InputError, match="did you mean 'accuracy'"):
        find("acuracy")


def test_every_transport_measures_an_own_metric_the_same() -> None:
    serial = scored(Serial, margin)
    assert serial == scored(lambda site, store: Pooled(site, store, 2), margin)
    assert serial[0][0].values["margin"] is None and serial[1][0]["margin"] == serial[1][0]["margin"]  # client 0 has one class
    for one, other in zip(serial, scored(Stacked, margin), strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.count == b.count and a["accuracy"] == b["accuracy"]
            assert b.plain() == pytest.approx(a.plain(), abs=1e-5)  # the scores themselves are equal to rounding


def test_serial_and_pooled_measure_every_metric_to_the_same_bits() -> None:
    every = [name for name, metric in metrics.CATALOGUE.items() if "classification" in metric.goals]
    assert scored(Serial, *every) == scored(lambda site, store: Pooled(site, store, 2), *every)


def test_clients_side_by_side_are_measured_as_one_by_one() -> None:
    chosen, sizes = select([margin]), [7, 0, 4]
    logits, y = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(1)), torch.arange(21).reshape(3, 7) % 5
    together = measure_each(chosen, logits, y, sizes)
    for i, n in enumerate(sizes):
        alone = measure(chosen, logits[i, :n], y[i, :n])
        assert together[i].plain() == pytest.approx(alone.plain(), abs=1e-12)


def test_one_function_and_one_catalogue_line_reach_record_and_summary(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setitem(metrics.CATALOGUE, "margin", Metric("margin", margin, "margin", unit="", digits=3))
    monkeypatch.setattr(metrics, "ALWAYS", ("accuracy", "loss", "margin"))
    asked = {"method": "fedavg", "clients": 3, "rounds": 2, "transport": "serial", "out": str(tmp_path), "name": "own"}
    done = experiment.run(setting.build(asked))
    line = json.loads((done.path / "seed-0" / "rounds.jsonl").read_text().splitlines()[-1])
    assert list(line["test"]) == ["count", "accuracy", "loss", "margin"] and len(line["validation"]["margin"]) == 3
    block = done.summary["metrics"]
    assert list(block) == ["loss", "margin"] and block["margin"].keys() == done.summary["accuracy"].keys()
    assert block["margin"]["last"]["mean"]["mean"] == pytest.approx(sum(line["test"]["margin"]) / 3)


OLD = {"round": 3, "participants": [1], "seconds_train": 0.1, "seconds_test": 0.1, "up": {}, "down": {}}
OLD |= {"test": {"correct": [10, 0, 4], "count": [13, 0, 6], "loss": [0.5, None, None]}}
OLD |= {"after": {"correct": [None, None, 5], "count": [None, None, 6], "loss": [None, None, 0.25]}}


def test_lines_of_the_first_version_are_read() -> None:
    new = current(OLD)
    assert new["test"] == {"count": [13, 0, 6], "accuracy": [10 / 13, None, 4 / 6], "loss": [0.5, None, None]}
    assert new["after"]["count"] == [None, None, 6] and new["after"]["accuracy"] == [None, None, 5 / 6]
    assert current(new) == new and new["round"] == 3


def test_a_round_becomes_the_line_it_is_recorded_by() -> None:
    tested = [score or UNSEEN for score in rows(current(OLD)["test"])]
    done = Round(3, (), [2], scores={"test": tested}, after={2: Score(6, {"accuracy": 5 / 6, "loss": 0.25})})
    line = line_of(done, 0.2, 3)
    assert line["test"] == current(OLD)["test"] and line["after"] == current(OLD)["after"]


def test_columns_and_rows_are_each_others_inverse() -> None:
    found = [Score(4, {"accuracy": 0.75, "loss": 0.123456789}), None, Score(0, {"accuracy": None, "loss": None})]
    assert rows(columns(found)) == found
    assert columns(found, {"loss": 6})["loss"] == [0.123457, None, None]


def test_other_metrics_have_blocks_of_the_same_form_at_the_same_rounds() -> None:
    lines = [
        {"round": n, "test": {"count": [10, 30], "accuracy": own, "loss": [1.0, 2.0 - n], "matrix": [[[1]], [[2]]]}}
        for n, own in enumerate([(0.1, 0.1), (0.5, 0.9), (0.5, 0.5)])
    ]
    found = others({0: lines})
    expected = {"round": 1, "weighted": 1.0, "mean": 1.0, "std": 0.0, "cv": 0.0, "pooled": 1.0, "undefined": 0}
    assert found["loss"]["best"]["seeds"]["0"] == expected
    assert found["matrix"]["last"]["seeds"]["0"] == {"round": 2, "pooled": None, "mean": [[1.5]]}  # of one's own: who knows


def pair(auc: Any, matrices: Any = None) -> dict[str, Any]:
    part = {"count": [10, 30], "accuracy": [0.5, 0.5], "loss": [1.0, 1.0], "auc": auc, "f1": [0.5, 0.9]}
    return part | ({"confusion": matrices} if matrices else {})


def test_a_client_for_which_a_metric_is_undefined_leaves_its_mean_and_is_counted() -> None:
    lines = [{"round": 1, "test": pair([None, 0.8])}]
    entry = others({0: lines})["auc"]["last"]["seeds"]["0"]
    assert entry["mean"] == entry["weighted"] == 0.8 and entry["undefined"] == 1 and entry["pooled"] is None
    nobody = others({0: [{"round": 1, "test": pair([None, None])}]})
    assert nobody["auc"]["last"] is None and nobody["f1"]["last"]["mean"]["mean"] == pytest.approx(0.7)


def test_confusion_matrices_give_the_figures_of_all_samples() -> None:
    matrices = [[[4, 1], [5, 0]], [[10, 0], [5, 15]]]
    found = others({0: [{"round": 1, "test": pair([0.5, 0.5], matrices)}]})
    assert found["confusion"]["last"]["seeds"]["0"]["pooled"] == [[14, 1], [10, 15]]
    both = [2 * 14 / (15 + 24), 2 * 15 / (25 + 16)]
    assert found["f1"]["last"]["pooled"] == {"mean": pytest.approx(sum(both) / 2), "std": 0.0}
    assert found["f1"]["last"]["weighted"]["mean"] == pytest.approx((10 * 0.5 + 30 * 0.9) / 40)


def test_another_metric_chooses_the_round_also_one_of_which_less_is_better() -> None:
    lines = [{"round": n, "test": pair(own) | {"loss": losses}} for n, own, losses in CHOICE]
    assert summarise({0: lines})["best"]["seeds"]["0"]["round"] == 1  # all are equally accurate: the first
    assert summarise({0: lines}, choose="auc")["best"]["seeds"]["0"]["round"] == 3
    assert summarise({0: lines}, choose="auc", report="mean")["best"]["seeds"]["0"]["round"] == 2
    assert summarise({0: lines}, choose="loss", metric="loss")["best"]["weighted"]["mean"] == pytest.approx(0.3)
    own = summarise({0: lines}, choose="loss", metric="loss", best="per_client")["best"]
    assert own["mean"]["mean"] == pytest.approx((0.1 + 0.3) / 2)
    with pytest.raises(InputError, match="'auc' is undefined for every client"):
        summarise({0: [{"round": 1, "test": pair([None, None])}]}, choose="auc")


# round, AUC and loss of two clients with 10 and 30 samples
CHOICE = [(1, [0.5, 0.5], [0.3, 0.3]), (2, [1.0, 0.6], [0.1, 0.9]), (3, [0.5, 0.8], [0.4, 0.4])]


def test_settings_name_metrics_and_the_one_that_chooses() -> None:
    usual = setting.build({})
    assert usual.metrics == ("accuracy", "loss") and usual.choose == "accuracy"
    assert setting.load(None, ["metrics=auc, f1"]).metrics == ("auc", "f1")
    assert setting.build({"metrics": ["accuracy", "loss"]}).digest() == usual.digest()
    assert setting.build({"metrics": "auc"}).digest() != usual.digest()
    for raw, said in (
        ({"metrics": "auk"}, "did you mean 'auc'"),
        ({"choose": "brie"}, "did you mean 'brier'"),
        ({"choose": "confusion"}, "no single number"),
    ):
        with pytest.raises(InputError, match=said):
            setting.build(raw)


def test_a_metric_that_no_clients_labels_define_cannot_choose() -> None:
    one, two = torch.zeros(4, dtype=torch.int64), torch.arange(4) % 2
    defined("auc", [one, two], 2)
    defined("accuracy", [one], 2)
    with pytest.raises(InputError, match="choose=auc is undefined for every client"):
        defined("auc", [one, two[:0]], 2)
