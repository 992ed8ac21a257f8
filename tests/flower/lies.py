"""Answers that cannot be right: what a broken or dishonest silo might send, and what the server should say of it."""

from collections.abc import Callable
from dataclasses import replace

import torch

from perfed import trees
from perfed.silos.messages import SiloAnswer
from perfed.wire import encode


def _other_names(up: trees.Params) -> trees.Params:
    return {f"{k}x": v for k, v in up.items()}


def _other_shapes(up: trees.Params) -> trees.Params:
    return {k: v[None] for k, v in up.items()}


def _other_types(up: trees.Params) -> trees.Params:
    return {k: v.double() for k, v in up.items()}


def _not_a_number(up: trees.Params) -> trees.Params:
    return {k: torch.full_like(v, torch.nan) for k, v in up.items()}


def _infinite(up: trees.Params) -> trees.Params:
    return {k: torch.full_like(v, torch.inf) for k, v in up.items()}


BODIES = [
    (_other_names, "wrong names"),
    (_other_shapes, "should be"),
    (_other_types, "should be|at most"),
    (_not_a_number, "NaN or infinite"),
    (_infinite, "NaN or infinite"),
]
VALUES = [
    (lambda up: {k: 1e3 * v for k, v in up.items()}, "times as long"),
    (lambda up: {k: 1e30 * v for k, v in up.items()}, "times as long"),
    (lambda up: {k: -v for k, v in up.items()}, "cosine|times as long"),
    (lambda up: {k: torch.zeros_like(v) for k, v in up.items()}, "zero where something was sent"),
    (lambda up: {k: torch.full_like(v, 0.5) for k, v in up.items()}, "times as long|one number"),
    (
        lambda up: {k: torch.randn(v.shape, generator=torch.Generator().manual_seed(0)) for k, v in up.items()},
        "times as long|cosine",
    ),
]
HEADS: list[tuple[Callable[[SiloAnswer], SiloAnswer], str]] = [
    (lambda a: replace(a, train=7), "train 7"),
    (lambda a: replace(a, client=0), "client 0"),
    (lambda a: replace(a, base=9), "base 9"),
    (lambda a: replace(a, experiment="00" * 16), "experiment"),
    (lambda a: replace(a, body=a.body[:-1]), "SHA-256"),
    (lambda a: replace(a, facts=a.facts | {"sizes": [0, 0, 0]}), "no training samples|counts"),
    (lambda a: replace(a, facts=a.facts | {"classes": ["one"]}), "classes"),
    (lambda a: replace(a, facts=a.facts | {"sizes": [10**9, *a.facts["sizes"][1:]]}), "registered|counts"),
]

CHANGES: list[tuple[str, Callable[[SiloAnswer, trees.Params], SiloAnswer], str]] = [
    *((f.__name__, lambda a, up, f=f: replace(a, body=encode(f(up))), said) for f, said in BODIES),  # type: ignore[misc]
    *((said, lambda a, up, f=f: f(a), said) for f, said in HEADS),  # type: ignore[misc]
    *((f"values {i}", lambda a, up, f=f: replace(a, body=encode(f(up))), said) for i, (f, said) in enumerate(VALUES)),  # type: ignore[misc]
]
