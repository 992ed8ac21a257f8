"""For which methods a server that saw nothing but the sum of all answers could do its part: the list in docs/privacy.md."""

import re
from dataclasses import replace
from pathlib import Path

import torch

from perfed import Budget, Uploads, mean, methods, trees
from perfed.methods import CATALOGUE, find
from perfed.testing import federation, task
from perfed.transport import Site

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
OPTIONS = {"dualfed": {"contrast": 0.1, "projector_norm": False}, "lgfedavg": {"warmup": 1, "rounds": 3}}


def needs_only_a_sum(name: str) -> bool:
    """Return whether the server ends where it would if every client had answered the mean of all answers."""
    method = find(name)(**OPTIONS.get(name, {}))
    method = replace(method, budget=Budget(lr=0.05, batch_size=5))
    site, server, first = Site.of(method, task(norm=name == "fedbn"), federation(3))
    ups = [site.train(client, method.send(server, client), first, 1)[0] for client in range(3)]
    if not trees.leaves(ups[0]):
        return False  # nothing is sent
    weights = [float(size) for size in site.federation.sizes]
    if getattr(method, "rule", "mean") == "uniform":
        weights = [1.0] * 3
    middle = mean(ups, weights)
    whole, alike = (method.merge(server, Uploads([0, 1, 2], site.federation.sizes, own)) for own in (ups, [middle] * 3))
    return all(
        torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6)
        for a, b in zip(trees.leaves(whole), trees.leaves(alike), strict=True)
    )


def test_the_page_names_those_whose_server_needs_only_a_sum() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"could serve, by what the server computes: ([^.]*)\.", text)
    assert found
    said = {part.strip() for part in found.group(1).replace(" and ", ", ").split(",")}
    assert said == {methods.title(name) for name in CATALOGUE if needs_only_a_sum(name)}
