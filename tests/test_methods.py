"""What is known of a method stands in its file: title, needs, passes over the data, views for analyses."""

import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch

from perfed import methods, testing
from perfed.errors import InputError, MethodError
from perfed.local import Budget
from perfed.method import VIEWS, Method
from perfed.methods import CATALOGUE, find
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedcp import FedCP
from perfed.methods.fedpick import FedPick
from perfed.report.names import position, title
from perfed.transport import Site

TITLES = {
    "fedavgft": "FedAvg+FT",
    "scaffold": "SCAFFOLD",
    "moon": "MOON",
    "perfedavg": "Per-FedAvg",
    "pfedme": "pFedMe",
    "apple": "APPLE",
    "lgfedavg": "LG-FedAvg",
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_title_is_the_class_name_or_what_the_class_says(name: str) -> None:
    assert find(name).title == methods.title(name) == title(name) == TITLES.get(name, CATALOGUE[name])


def test_titles_wait_for_nothing_heavy() -> None:
    code = "import sys; from perfed.report.names import title; print(title('pfedme'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pFedMe", "False"]


def test_tables_list_methods_as_the_catalogue_does() -> None:
    assert [position(name) for name in ("majority", "local", "fedavg", "fedcp", "fedpick")] == [0, 1, 2, 26, 30]
    assert position("mine") == len(CATALOGUE) + 1 and title("mine") == "mine"
    with pytest.raises(InputError, match="did you mean 'fedcp'"):
        methods.title("fedcpp")


@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    """A method of one's own."""


def test_a_method_of_ones_own_is_called_by_its_class() -> None:
    assert Mine.title == Mine().title == "Mine" and FedAvg.title == "FedAvg"


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_needs_batchnorm_refuses_a_network_without(name: str) -> None:
    kind = find(name)
    if kind.needs:
        with pytest.raises(MethodError, match=kind.needs):
            kind().check(testing.task(), [30, 30], 2)
    else:
        replace(kind(), budget=Budget(batch_size=10)).check(testing.task(norm=True), [30, 30], 2)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("fedavg", {}, 3),
        ("ditto", {}, 3 + 3),
        ("ditto", {"personal_epochs": 2}, 3 + 2),
        ("dualfed", {}, 3 + 3),  # one stage after the other
        ("dualfed", {"training": "simultaneous"}, 3),
        ("fedala", {"most_epochs": 10}, 3 + 10),
        ("fedavgft", {"tune_epochs": 4}, 3 + 4),
        ("fedbabu", {}, 3 + 10),
        ("fedetf", {}, 3),  # no fine-tuning unless asked for
        ("fedetf", {"personal": 2, "personal_epochs": 3}, 3 + 2 * (3 + 3)),  # class vectors, then projection
        ("fedrep", {"head_epochs": 5}, 3 + 5),
        ("pfedme", {"steps": 5}, 3 * 5),  # on each batch
    ],
)
def test_passes_over_the_data_are_counted_by_hand(name: str, options: dict[str, object], count: int) -> None:
    assert replace(find(name)(**options), budget=Budget(epochs=3)).passes == count


def test_a_method_has_the_views_that_it_defines() -> None:
    assert FedAvg.views == frozenset() and FedCP.views == {"heads", "pieces", "policies"}
    assert set().union(*(find(name).views for name in CATALOGUE)) == set(VIEWS)  # each is somebody's
    assert methods.showing("heads") == ["FedCP", "DualFed", "FedPick"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_that_a_method_lacks_is_refused_in_a_sentence(view: str) -> None:
    given = {"critical_masks": 1, "pieces": 2, "teams": 2}.get(view, 4)
    with pytest.raises(MethodError, match="FedAvg does not show its"):
        getattr(FedAvg(), view)(*[None] * given)


@pytest.mark.parametrize(
    ("method", "view", "said"),
    [(FedCP(blend="sum"), "policies", "has no policy network"), (FedPick(selection="none"), "selected", "has no selector")],
)
def test_a_view_is_refused_where_a_variant_has_nothing_to_show(method: Method, view: str, said: str) -> None:  # type: ignore[type-arg]
    site, server, first = Site.of(method, testing.task(), testing.federation(2))
    with pytest.raises(MethodError, match=said):
        getattr(method, view)(site.task.served, server, first.mine, torch.zeros(2, testing.FEATURES))


@pytest.mark.parametrize("name", methods.CATALOGUE)
def test_heads_are_what_is_served(name: str) -> None:
    kind = find(name)
    if "heads" not in kind.views:
        return
    site, server, first = Site.of(kind(), testing.task(), testing.federation(2))
    x = site.federation.x[:5]
    with torch.no_grad():
        served = site.method.predict(site.task.served, server, first.mine, x)
        heads = site.method.heads(site.task.served, server, first.mine, x)
    assert len(heads) == 2 and torch.allclose(sum(heads.values()), served, atol=1e-6)
