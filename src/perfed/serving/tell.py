"""Predictions as CSV and JSON, and a share of right answers in words."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from .predict import Given, Predictor

SAID = ("method", "client", "round", "run", "seed", "classes", "parameters")  # of the card, beside predictions


def rows_of(model: Predictor, given: Sequence[Given], scores: Sequence[Tensor]) -> list[dict[str, Any]]:
    """Return every sample's place, what was carried over of it, its class and the probabilities."""
    rows = []
    for one, own in zip(given, scores, strict=True):
        for at, answer in enumerate(model.answers(own)):
            row: dict[str, Any] = {"input": one.file, "row": one.rows[at]} | {name: kept[at] for name, kept in one.kept.items()}
            if one.labels is not None:
                row["label"] = one.labels[at]
            rows.append(row | answer)
    return rows


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return predictions as a table: a column per class at the end."""
    flat = [
        {name: _cell(value) for name, value in row.items() if name != "probabilities"}
        | {f"p({name})": round(share, 6) for name, share in row.get("probabilities", {}).items()}
        for row in rows
    ]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(flat)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value as a cell shows it: six digits, several labels with bars between them."""
    return round(value, 6) if isinstance(value, float) else "|".join(value) if isinstance(value, list) else value


def as_json(card: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], checked: Mapping[str, Any] | None) -> str:
    """Return predictions, what the model is, and how it was scored where inputs have labels."""
    found = {"model": {name: card[name] for name in SAID if name in card}, "predictions": rows}
    return json.dumps(found | ({"checked": checked} if checked else {}), indent=1, default=str) + "\n"


def share_said(found: Mapping[str, Any]) -> str:
    """Return a share of right answers in words."""
    low, high = found["interval"]
    return f"{found['right']} of {found['count']} right, {found['accuracy']:.3f} ({low:.3f} to {high:.3f} with 95 % certainty)"


def agrees(checked: Mapping[str, Any]) -> str:
    """Return in words whether two shares can be the same model on the same kind of data."""
    (low, high), (before, above) = checked["now"]["interval"], checked["then"]["interval"]
    if high < before:
        return "it does worse here than the two intervals allow: these inputs may not be like those it was trained on"
    return "it does better here than the two intervals allow" if low > above else "the two agree"
