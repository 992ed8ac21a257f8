"""More than classes: several labels, numbers, times to an event; each with its loss, its scores and its refusals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import perfed
from perfed import Batch, Samples
from perfed.analysis.catalogue import analyse
from perfed.errors import DataError, InputError
from perfed.evaluate import batched, measures
from perfed.evaluate.summary import summarise
from perfed.local.losses import absolute_each, binary_each, cox_each, huber_each, squared_each
from perfed.methods import CATALOGUE, find
from perfed.testing import federation
from perfed.testing import task as net

GROUPS = [i % 3 for i in range(90)]


def made(task: str) -> Samples:
    random = torch.Generator().manual_seed(0)
    x, noise = torch.randn(90, 4, generator=random), torch.rand(90, generator=random)
    score = x @ torch.tensor([1.0, -2.0, 0.5, 0.0])
    time = (-score / 2).exp() * -(noise.log())
    y = {
        "regression": score + 0.1 * noise,
        "multilabel": torch.stack([x[:, 0] > 0, x[:, 1] > 0], 1).float(),
        "survival": torch.stack([time.clamp(max=2.0), (time < 2).float()], 1),
    }[task]
    return Samples.of(x, y, group=GROUPS, task=task)


def test_losses_of_single_samples_by_hand() -> None:
    z, y = torch.tensor([[0.5], [3.0]]), torch.tensor([1.0, 1.0])
    assert squared_each(z, y).tolist() == [0.25, 4.0]
    assert absolute_each(z, y).tolist() == [0.5, 2.0]
    assert huber_each(z, y).tolist() == [0.125, 1.5]
    both = binary_each(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
    assert both.item() == pytest.approx((math.log(2) + math.log(1 + math.exp(2))) / 2)


def test_coxs_likelihood_by_hand_and_padding_counts_nothing() -> None:
    risk, y = torch.tensor([[1.0], [0.0], [2.0]]), torch.tensor([[3.0, 1.0], [1.0, 1.0], [5.0, 0.0]])
    first = math.log(math.exp(1) + math.exp(0) + math.exp(2)) - 0.0  # all are at risk when the second has its event
    later = math.log(math.exp(1) + math.exp(2)) - 1.0
    batch = Batch(torch.zeros(3, 1), y, None, torch.tensor(0))
    task = perfed.Task.of(perfed.testing.Net(), (6,), classes=3)
    from dataclasses import replace

    cox = replace(task, goal="survival")
    assert cox.fit(risk, batch).item() == pytest.approx((first + later) / 2)
    padded = Batch(torch.zeros(4, 1), torch.cat([y, y[:1]]), torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(0))
    assert cox.fit(torch.cat([risk, torch.tensor([[9.0]])]), padded).item() == pytest.approx((first + later) / 2)
    nobody = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    assert cox_each(risk[:2], nobody).tolist() == [0.0, 0.0]


def test_scores_by_hand() -> None:
    z, y = torch.tensor([[1.0], [2.0], [4.0]]).double(), torch.tensor([1.0, 3.0, 5.0])
    assert measures.r2(z, y) == pytest.approx(1 - 2 / 8)
    assert measures.rmse(z, y) == pytest.approx(math.sqrt(2 / 3)) and measures.absolute(z, y).tolist() == [0, 1, 1]
    assert math.isnan(measures.r2(z, torch.ones(3)))
    labels = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert measures.label_accuracy(torch.tensor([[2.0, 1.0], [-1.0, -1.0]]), labels).tolist() == [0.5, 1.0]
    assert batched.label_auc(torch.tensor([[2.0, 1.0], [-1.0, -1.0]]).double(), labels) == 1.0  # the second label nobody has


def test_concordance_by_hand() -> None:
    y = torch.tensor([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [3.0, 0.0]])
    # known pairs: the first before each other; the third before the fourth, who was seen as long without the event
    assert measures.concordance(torch.tensor([[4.0], [1.0], [3.0], [2.0]]), y) == 1.0
    assert measures.concordance(torch.tensor([[0.0], [1.0], [3.0], [3.0]]), y) == pytest.approx(0.5 / 4)
    assert math.isnan(measures.concordance(torch.zeros(2, 1), torch.tensor([[1.0, 0.0], [2.0, 0.0]])))


def test_an_interval_of_the_auc_covers_it_as_often_as_it_says() -> None:
    random, held = np.random.default_rng(0), 0
    for _ in range(200):
        y = torch.from_numpy((random.random(60) < 0.4).astype(np.int64))
        shown = torch.from_numpy(random.normal(size=60)) + y  # the true area is Φ(1/√2) = 0.760
        low, high = batched.alone("auc_interval")(torch.stack([torch.zeros(60).double(), shown], 1), y)
        held += low <= 0.7602 <= high
    assert 180 <= held <= 199
    assert all(math.isnan(v) for v in batched.alone("auc_interval")(torch.zeros(3, 2), torch.zeros(3).long()))


@pytest.mark.parametrize("task", ["regression", "multilabel", "survival"])
def test_a_method_that_never_names_classes_learns_it(task: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"data": made(task), "rounds": 8, "budget": {"lr": 0.05}, "progress": False, "transport": "serial"}
    done = perfed.run(method="fedper", out=tmp_path, **asked)
    guess = done.summary["majority"]["weighted"]["mean"]
    assert done.accuracy > guess + 0.1
    assert done.model(0).raw(made(task).x[:5]).shape == (5, 2 if task == "multilabel" else 1)
    assert done.report().exists()
    stacked = perfed.run(method="fedper", **(asked | {"transport": "stacked"}))
    assert stacked.accuracy == pytest.approx(done.accuracy, abs=1e-3)


@pytest.mark.parametrize("task", ["regression", "multilabel", "survival"])
@pytest.mark.parametrize("name", [name for name in CATALOGUE if not find(name).names_classes and name != "fedbn"])
def test_every_method_that_never_names_classes_takes_every_task(name: str, task: str) -> None:
    asked: dict[str, Any] = {"method.warmup": 1} if name == "lgfedavg" else {}
    budget = {"batch_size": 8}
    done = perfed.run(method=name, data=made(task), rounds=2, budget=budget, progress=False, transport="serial", **asked)
    assert math.isfinite(done.accuracy)


def test_padding_counts_nothing_where_models_of_others_are_tried() -> None:
    each = [
        perfed.run(method="fedfomo", data=made("survival"), rounds=3, transport=t, progress=False) for t in ("serial", "stacked")
    ]
    assert each[0].accuracy == pytest.approx(each[1].accuracy, abs=1e-3)


def test_the_page_lists_the_score_that_chose_and_the_summary_too(tmp_path: Path) -> None:
    done = perfed.run(method="fedavg", data=made("survival"), rounds=2, progress=False, out=tmp_path)
    assert done.summary["choose"] == "concordance"
    page = done.report().read_text()
    assert ">concordance<" in page and ">concordance, loss<" in page and ">accuracy<" not in page


def test_analyses_of_classes_say_that_there_are_none(tmp_path: Path) -> None:
    samples = made("survival")
    np.savez(tmp_path / "own.npz", x=samples.x.numpy(), y=samples.y.numpy(), group=GROUPS)
    asked: dict[str, Any] = {"data": {"name": f"npz:{tmp_path / 'own.npz'}", "task": "survival"}, "rounds": 1, "progress": False}
    run = perfed.run(method="fedavg", out=tmp_path, **asked).path
    assert run is not None
    analyse(run, "fairness")
    for name in ("attack", "classifiers", "gradcam", "probe", "separation", "tsne"):
        with pytest.raises(InputError, match=f"{name} tells classes apart, and this run is for survival"):
            analyse(run, name)


def test_large_numbers_are_warned_of_and_a_runaway_is_said() -> None:
    from dataclasses import replace

    from perfed.keywords import asked_for
    from perfed.runs.assemble import SharedData
    from perfed.runs.settle import introduced, settled

    large = replace(made("regression"), y=made("regression").y * 1000)
    asked = settled(asked_for(None, {"method": "fedavg", "data": large}), large)
    assert "written in a larger unit, such as thousands" in introduced(asked, SharedData.of(asked, large))
    found = [{"r2": [0.1], "loss": [1.0]}, {"r2": [None], "loss": [None]}]
    lines = [{"round": number, "test": {"count": [3]} | scores} for number, scores in enumerate(found)]
    with pytest.raises(InputError, match="the loss is no number since round 1.*labels in a larger unit"):
        summarise({0: lines})


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_numbers_have_three_losses(loss: str) -> None:
    done = perfed.run(method="fedavg", data=made("regression"), loss=loss, rounds=6, budget={"lr": 0.05}, progress=False)
    assert done.accuracy > 0.5 and done.summary["metrics"]["loss"]["last"]["weighted"]["mean"] < 2


def test_methods_that_name_classes_say_why_they_cannot() -> None:
    naming = {name for name in CATALOGUE if find(name).names_classes}
    assert naming == {"dualfed", "fedetf", "fedpick", "fedproto", "fedrod", "gpfl", "spherefed"}
    with pytest.raises(InputError, match="FedProto is for classification, not for regression: its messages are a prototype"):
        perfed.run(method="fedproto", data=made("regression"), rounds=1, progress=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "cox"}, "loss=cox is not for regression; there are squared, absolute, huber"),
        ({"metrics": ["auc"]}, "auc is measured for classification, not for regression; there are loss, r2, mae, rmse"),
        ({"budget": {"balance": "weights"}}, "budget.balance is for classes, and this data is for regression"),
    ],
)
def test_what_does_not_fit_the_task_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        perfed.run(method="fedavg", data=made("regression"), rounds=1, progress=False, **given)


@pytest.mark.parametrize(
    ("y", "task", "said"),
    [
        ([0.5, 1.5], "survival", "labels are float32 N×2"),
        ([[1.0], [0.0]], "regression", "labels are float32, one number per sample"),
        ([1.0, math.nan], "regression", "a label is not a finite number"),
        ([[0, 1], [1, 2]], "multilabel", "the label of sample 1 is 2, neither 0 nor 1"),
        ([[3.0, 1], [1.0, 7]], "survival", "the event of sample 1 is 7, neither 0 nor 1"),
        ([[3.0, 1], [-1.0, 1]], "survival", "the time of sample 1 is -1, before the start"),
        ([0.5, 1.5], "classification", "whole numbers or names; task=regression predicts numbers"),
    ],
)
def test_labels_have_the_form_of_their_task(y: list[Any], task: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Samples.of([[1.0], [2.0]], y, task=task)


def rare(shard: Any) -> Tensor:
    return torch.cat([batch.y for batch in shard.epochs(40)])


def test_rare_classes_weigh_or_are_drawn_as_much_as_others() -> None:
    from dataclasses import replace

    whole = federation(2)
    shard = replace(whole.shard(0, 1, 5, False), rows=whole.train[0], y=(torch.arange(len(whole.y)) % 4 == 0).long(), classes=2)
    batch = next(replace(shard, balance="weights").epochs(1))
    counts = shard.counts
    assert batch.mask is not None
    assert batch.mask.tolist() == pytest.approx([float(counts.max() / counts[y]) for y in batch.y.tolist()])
    assert next(shard.epochs(1)).mask is None
    drawn = rare(replace(shard, balance="samples")).float().mean()
    assert abs(float(drawn) - 0.5) < 0.05 < abs(float(rare(shard).float().mean()) - 0.5)
    assert net().classes == 3


def test_a_pass_may_be_so_many_batches() -> None:
    shard = federation(2).shard(0, 1, 10, False)
    from dataclasses import replace

    sizes = [len(batch.y) for batch in replace(shard, length=5).epochs(2)]
    assert sizes == [10, 10, 3, 10, 10, 3, 10, 10, 3, 10]
