"""What is no accuracy is not called so: every text names the score that it shows, and less is better where it is."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import perfed
from perfed import Samples, shelf
from perfed.evaluate.metrics import Metric, known
from perfed.evaluate.summary import choose
from perfed.progress import word
from perfed.report import sections
from perfed.report.main_score import MainScore
from perfed.report.read import Record, gather, options
from perfed.report.tables import comparison, short
from perfed.watch import tell
from perfed.watch.find import Group

WORDS = {"regression": "R²", "multilabel": "right labels", "survival": "concordance"}


def away(scores: Any, y: Any) -> float:
    return float((scores[:, 0] - y).abs().mean())


def made(task: str) -> Samples:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=random)
    score = x @ torch.tensor([1.0, -2.0, 0.5, 0.0])
    y = {
        "regression": score,
        "multilabel": torch.stack([x[:, 0] > 0, x[:, 1] > 0], 1).float(),
        "survival": torch.stack([(-score / 2).exp(), torch.ones(60)], 1),
    }[task]
    return Samples.of(x, y, group=[i % 3 for i in range(60)], task=task)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("tasks")
    found = {}
    for task in WORDS:
        more: dict[str, Any] = {"metrics": ["mae", Metric("away", away, "distance", higher=False)], "choose": "away"}
        asked: dict[str, Any] = {"data": made(task), "rounds": 2, "progress": False, "transport": "serial", "out": out / task}
        asked |= {"protocol": "pflbench", **(more if task == "regression" else {})}
        found[task] = perfed.compare(["fedavg"], **asked).path
    return found


def records(path: Path) -> list[Record]:
    return gather([path])


@pytest.mark.parametrize("task", WORDS)
def test_tables_and_pages_name_the_score_that_they_show(folders: dict[str, Path], task: str) -> None:
    runs, name = records(folders[task]), WORDS[task]
    table = comparison(runs, **options(runs))
    assert table.columns[0].title == f"{name}, weighted %" and f"best, weighted {name}" in short(table)[0]
    assert table.rows[0].name == {"regression": "Mean", "multilabel": "Majority labels", "survival": "Coin"}[task]
    said = [
        part[1].caption if hasattr(part[1], "caption") else str(part[1])
        for section in sections.sections(runs, table, **options(runs))
        if section.anchor in ("results", "curves", "gains", "clients")
        for part in section.parts
        if part[0] in ("soft", "figure", "heading")
    ]
    said += [*table.notes, sections.lead(table, MainScore.of(runs)), sections.sections(runs, table, **options(runs))[4].title]
    assert any(name in text or name[0].upper() + name[1:] in text for text in said)
    assert not [text for text in said if "accuracy" in text.lower() or "frequent label" in text]
    assert ("Helped and hurt are not counted" in " ".join(table.notes)) == (task != "multilabel")


@pytest.mark.parametrize("task", WORDS)
def test_lists_progress_and_the_live_page_name_it_too(folders: dict[str, Path], task: str) -> None:
    path, name = folders[task], WORDS[task]
    own = shelf.entry(path)
    assert own.scored == name and f"{name}, best" in shelf.results(shelf.runs(path)[0])
    assert tell.whole(Group(path.name, path, tuple(shelf.runs(path)), True))["score"] == name
    heard: list[str] = []
    perfed.run(
        method="local",
        data=made(task),
        rounds=1,
        progress=False,
        transport="serial",
        on_round=lambda seed, done: heard.append(word(done).named),
    )
    assert heard == [name] * 2
    assert perfed.open(path).runs["fedavg"].main == {"R²": "r2", "concordance": "concordance"}.get(name, "label_accuracy")


def test_less_is_better_where_it_is_also_of_one_s_own_metrics_and_after_reading_them_back(folders: dict[str, Path]) -> None:
    known.__globals__["_OWN"].pop("away")  # another process
    (fed, _) = records(folders["regression"])
    assert fed.settings["choose"] == "away" and not known("away").higher
    lines = fed.rounds[0]
    best = choose(lines, "best", by="away")
    assert best is not None
    mean = [sum(line["test"]["away"]) / 3 for line in lines[1:]]
    assert best["round"] == 1 + mean.index(min(mean))
    table = comparison([fed, *records(folders["regression"])[1:]], **options([fed]))
    (place,) = [n for n, column in enumerate(table.columns) if column.key == "away.last"]
    shown = {row.cells[place].mark: float(row.cells[place].text) for row in table.rows[1:]}
    assert shown["best"] <= min(shown.values()) and table.columns[place].above == "distance"


def test_a_score_below_zero_has_no_coefficient_of_variation() -> None:
    from perfed.evaluate.summary import figures

    found = figures({"count": [5, 5], "r2": [-0.5, 0.1]})
    assert found is not None and found["cv"] is None and math.isclose(float(found["weighted"] or 0), -0.2)


def test_the_page_lists_every_client_s_auc_with_its_interval(tmp_path: Path) -> None:
    from perfed.report.intervals import rows

    asked: dict[str, Any] = {"clients": 3, "rounds": 1, "progress": False, "transport": "serial", "out": tmp_path}
    random = torch.Generator().manual_seed(0)
    x = torch.randn(120, 4, generator=random)
    data = Samples.of(x, (x[:, 0] > 0).long(), group=[i % 3 for i in range(120)])
    done = perfed.run(data=data, method="fedavg", metrics=["auc", "auc_interval"], **(asked | {"clients": None}))
    assert done.path is not None
    runs = records(done.path)
    found = rows(runs, "last", options(runs))
    last = runs[0].rounds[0][-1]["test"]
    low, high = last["auc_interval"][1]
    assert found[2][2] == f"{100 * last['auc'][1]:.0f} [{100 * low:.0f}, {100 * high:.0f}]" and len(found) == 4
    assert found[2][2] in done.report().read_text() and rows([Record(**_without(runs[0]))], "last", {}) == []


def _without(run: Record) -> dict[str, Any]:
    """The same record without intervals."""
    cut = {0: [line | {"test": {k: v for k, v in line["test"].items() if k != "auc_interval"}} for line in run.rounds[0]]}
    return {"path": run.path, "settings": run.settings, "manifest": run.manifest, "rounds": cut, "clients": run.clients}
