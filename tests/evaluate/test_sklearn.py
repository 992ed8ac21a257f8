"""Every metric equals scikit-learn's on a thousand random clients, those with one class and with ties among them."""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from torch import Tensor

from perfed.evaluate.batched import BINS
from perfed.evaluate.metrics import CATALOGUE, measure, measure_each, select

CASES = 1000  # of which every run of the tests sees a tenth: scikit-learn takes its time
CLOSE = 1e-12

CLASSIFYING = [name for name, metric in CATALOGUE.items() if "classification" in metric.goals]


def clients() -> Iterator[tuple[Tensor, Tensor]]:
    """Clients of many sizes; every third scores in coarse steps, so that ties abound; every seventh has one class."""
    draw = np.random.default_rng(7)
    for case in range(CASES):
        count, classes = int(draw.integers(1, 60)), int(draw.integers(2, 9))
        own = draw.integers(classes) if case % 7 == 0 else draw.integers(0, int(draw.integers(1, classes)) + 1, count)
        scores = draw.normal(
            0, 10.0 ** draw.uniform(-1, 0.5), (count, classes)
        )  # scikit-learn clips what is less likely than 2e-16
        scores = scores.round() if case % 3 == 0 else scores
        yield torch.from_numpy(scores), torch.from_numpy(np.broadcast_to(own, count).astype(np.int64).copy())


def expected(scores: Tensor, y: Tensor) -> dict[str, object]:
    """What scikit-learn says; one against the rest is taken class by class, since a client need not have all of them."""
    p, labels, classes = scores.softmax(1).numpy(), y.numpy(), scores.shape[1]
    said, there, every = scores.argmax(1).numpy(), np.unique(labels), np.arange(scores.shape[1])
    rest = (labels[:, None] == there, p[:, there])
    areas = sk.roc_auc_score(*rest, average=None) if len(there) > 1 else []
    precise = sk.average_precision_score(*rest, average=None) if len(there) > 1 else []
    held = np.bincount(labels)[there]
    certain = p if classes > 2 else p[:, 1]
    return {
        "accuracy": sk.accuracy_score(labels, said),
        "loss": sk.log_loss(labels, p, labels=every),
        "balanced_accuracy": sk.balanced_accuracy_score(labels, said),
        "f1": sk.f1_score(labels, said, average="macro"),
        "auc": float(np.mean(areas)) if len(areas) else None,
        "auc_weighted": float(np.average(areas, weights=held)) if len(areas) else None,
        "average_precision": float(np.mean(precise)) if len(precise) else None,
        "brier": sk.brier_score_loss(labels, certain, labels=every, scale_by_half=False),
        "ece": calibration(p.max(1), said == labels),
        "recall": [None if math.isnan(r) else r for r in recalls(labels, said, every)],
        "confusion": sk.confusion_matrix(labels, said, labels=every).tolist(),
    }


def recalls(labels: np.ndarray, said: np.ndarray, every: np.ndarray) -> list[float]:
    return [float(r) for r in sk.recall_score(labels, said, labels=every, average=None, zero_division=np.nan)]


def calibration(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error from the points of scikit-learn's calibration curve."""
    if len(np.unique(right)) < 2:  # the curve wants both; the points are the bins' means all the same
        right = np.append(right, not right[0])
        sure = np.append(sure, 0.0)  # in a bin of its own: no confidence of two or more classes is below 1/C
        true, mean = calibration_curve(right, sure, n_bins=BINS)
        true, mean, sure = true[1:], mean[1:], sure[:-1]
    else:
        true, mean = calibration_curve(right, sure, n_bins=BINS)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], sure), minlength=BINS)
    return float((np.abs(true - mean) * counts[counts > 0]).sum() / len(sure))


@pytest.fixture(scope="module")
def cases() -> list[tuple[Tensor, Tensor]]:
    return list(clients())


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_every_metric_equals_scikit_learns(cases: list[tuple[Tensor, Tensor]], step: int) -> None:
    chosen, single = select(CLASSIFYING), 0
    for scores, y in cases[::step]:
        found = measure(chosen, scores, y).values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns of labels that are predicted but not there
            for name, value in expected(scores, y).items():
                if isinstance(value, list):
                    both = [np.array(entry, float) for entry in (found[name], value)]
                    assert np.allclose(*both, rtol=0, atol=CLOSE, equal_nan=True), name
                else:
                    assert found[name] == (None if value is None else pytest.approx(value, rel=CLOSE, abs=CLOSE)), name
        single += len(y.unique()) == 1
    assert single >= CASES // step // 20  # clients of one class were among them


def test_where_a_client_has_every_class_the_multiclass_calls_agree(cases: list[tuple[Tensor, Tensor]]) -> None:
    whole = [(s, y) for s, y in cases if len(y.unique()) == s.shape[1] > 2][:25]
    assert len(whole) == 25
    for scores, y in whole:
        found, p = measure(select(["auc", "auc_weighted"]), scores, y), scores.softmax(1).numpy()
        for name, average in (("auc", "macro"), ("auc_weighted", "weighted")):
            assert found[name] == pytest.approx(sk.roc_auc_score(y, p, multi_class="ovr", average=average), abs=CLOSE)


def test_clients_side_by_side_measure_as_one_by_one_for_every_metric(cases: list[tuple[Tensor, Tensor]]) -> None:
    chosen = select(CLASSIFYING)
    alike = [(s, y) for s, y in cases[:300] if s.shape[1] == 5]
    sizes, most = [len(y) for _, y in alike], max(len(y) for _, y in alike)
    scores, labels = torch.zeros(len(alike), most, 5, dtype=torch.float64), torch.zeros(len(alike), most, dtype=torch.int64)
    for i, (s, y) in enumerate(alike):
        scores[i, : len(y)], labels[i, : len(y)] = s, y
    for (s, y), found in zip(alike, measure_each(chosen, scores, labels, sizes), strict=True):
        alone = measure(chosen, s, y)
        for name, value in alone.values.items():
            if isinstance(value, list):
                assert found.values[name] == value
            else:
                assert found.values[name] == (None if value is None else pytest.approx(value, abs=1e-9))


def test_scores_that_are_no_numbers_rank_nothing() -> None:
    found = measure(select(CLASSIFYING), torch.tensor([[math.nan, 1.0], [0.0, 1.0]]), torch.tensor([0, 1])).values
    for name in ("auc", "auc_weighted", "average_precision", "brier", "ece", "loss"):
        assert found[name] is None, name
