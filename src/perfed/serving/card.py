"""What a model's file says of itself: what it takes, what it gives, where it comes from, and how it scored."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..data.inputs import Inputs as Preparation
from ..trees import Params, fingerprint
from .personal import PersonalModel

FORMAT = 2  # of the card; 1 had no preprocessing, no columns and no scores
SURE = 1.959964  # deviations of 95 %
ASIDE = ("samples", "record", "command", "chosen")  # for the card in Markdown alone: a file that is handed on names no paths
OUTPUT = {
    "classification": "one score per class; the largest is the answer",
    "multilabel": "one score per label; above 0 it is the answer",
    "regression": "one number",
    "survival": "one number: the higher, the earlier",
}
STORED = {
    "image": "pictures with channels first, values 0 to 255",
    "signal": "signals with channels first, as measured",
    "features": "numbers in the order of the data set's columns",
    "tokens": "places of words in `vocabulary`; 0 fills a short text, 1 is any other word",
}


def describe(model: PersonalModel, used: Params, classes: Sequence[str], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model's file says of itself, besides its scores."""
    inputs, facts = model.inputs, model.facts
    kind = getattr(inputs, "kind", "")
    found: dict[str, Any] = {
        "perfed": __version__,
        "format": FORMAT,
        "task": facts.get("task", "classification"),
        "method": type(model.method).__name__,
        "client": model.name,
        "round": model.number,
        "data": facts.get("data", {}) | dict(about.get("data", {})),
        **{name: value for name, value in about.items() if name not in ("data", *ASIDE)},
        "input": {
            "shape": ["batch", *model.stored.shape[1:]],
            "type": str(model.stored.dtype).removeprefix("torch."),
            "kind": kind,
            "what": STORED.get(kind, "samples as the data set stores them"),
        },
        "output": OUTPUT[facts.get("task", "classification")],
        "classes": list(classes or facts.get("classes", ())),
        "parameters": {"count": sum(leaf.numel() for leaf in used.values()), "sha256": fingerprint(used).hex()},
    }
    if isinstance(inputs, Preparation):
        found["preprocessing"] = {"kind": kind, "mean": inputs.mean, "std": inputs.std, "size": inputs.size}
    for name in ("vocabulary", "columns"):
        if name in facts and name not in found:
            found[name] = facts[name]
    if kind == "tokens" and "vocabulary" not in found:
        most = model.task.named.get("words")
        found["input"] |= {"below": most, "what": f"numbers of words or characters{f' below {most}' if most else ''}; 0 fills up"}
    return found


def measured(scores: Tensor, labels: Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """Return how many of some samples are right, in all and per class, with Wilson intervals of 95 %."""
    hit = scores.argmax(1) == labels
    each = []
    for place in sorted(set(labels.tolist())):
        own = hit[labels == place]
        name = classes[place] if place < len(classes) else str(place)
        each.append({"class": name, **share(int(own.sum()), len(own))})
    seen = {one["class"] for one in each}
    return {**share(int(hit.sum()), len(hit)), "classes": each, "unseen": [name for name in classes if name not in seen]}


def share(right: int, count: int) -> dict[str, Any]:
    """Return a share with its interval."""
    return {"count": count, "right": right, "accuracy": right / count if count else None, "interval": wilson(right, count)}


def wilson(right: int, count: int) -> list[float] | None:
    """Return where a share lies with 95 % certainty (Wilson, JASA 1927); nothing where nothing was counted."""
    if not count:
        return None
    share, wide = right / count, SURE**2 / count
    middle = (share + wide / 2) / (1 + wide)
    half = SURE * math.sqrt(share * (1 - share) / count + wide / (4 * count)) / (1 + wide)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def noise(like: Tensor, count: int = 64) -> Tensor:
    """Return made-up samples of the stored kind."""
    generator = torch.Generator().manual_seed(0)
    shape = (count, *like.shape[1:])
    if like.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=like.dtype)
    return torch.randint(0, 256 if like.dtype == torch.uint8 else 2, shape, generator=generator).to(like.dtype)
