"""Every experiment of the papers is one that perfed accepts: settings, method, network, data and partition."""

from typing import Any

import pytest

from perfed import data, models, papers, partition
from perfed.papers.paper import nested
from perfed.runs.assemble import method_of
from perfed.runs.parse import build


def experiments(name: str) -> list[dict[str, Any]]:
    """Return the different experiments of a recipe."""
    found = {repr(sorted(cell.settings.items())): cell.settings for cell in papers.load(name).cells()}
    return list(found.values())


@pytest.mark.parametrize("name", papers.listing())
def test_perfed_accepts_every_experiment(name: str) -> None:
    for experiment in experiments(name):  # all of a recipe's cells, whatever data is here
        made = build(nested(experiment))
        assert made.clients == experiment["clients"]
        partition.build(made.partition.name, **made.partition.options)
        assert made.model.name in models.MODELS
        assert set(made.model.options) <= {*models.options_of(made.model.name)}
        entry = data.CATALOGUE[made.data.name]
        assert set(made.data.options) <= {*entry.options}
        assert method_of(made).budget.lr == experiment["budget.lr"]


def test_a_client_that_is_read_is_a_domain_of_the_data() -> None:
    for name in papers.listing():
        recipe = papers.load(name)
        for cell in recipe.cells():
            client = recipe.reading(cell.row, cell.column).client
            if client is not None:
                assert client in data.CATALOGUE[cell.settings["data"]].groups
                assert client in cell.settings.get("data.domains", [client])


def test_clients_are_as_many_as_the_domains() -> None:
    for name in papers.listing():
        for experiment in experiments(name):
            if experiment["partition"] in ("domains", "natural", "timeline"):
                domains = experiment.get("data.domains", data.CATALOGUE[experiment["data"]].groups)
                assert experiment["clients"] == len(domains)
