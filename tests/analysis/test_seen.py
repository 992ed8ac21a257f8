"""An attacker works on what really crosses: leaves by their whole paths, and the client's own parts where they are known."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfed import trees
from perfed.analysis.exchanged import update
from perfed.analysis.inversion import label_gradient, matched
from perfed.analysis.privacy import natural, target
from perfed.analysis.seen import seen
from perfed.analysis.subject import State, model
from perfed.data.inputs import Inputs
from perfed.federation import Federation
from perfed.methods import find
from perfed.task import Task
from perfed.transport import Site

RATE = 0.05


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Sigmoid())
        self.head = nn.Linear(8, 3)


@pytest.fixture(scope="module")
def pictures() -> Federation:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (6, 1, 4, 4), generator=generator, dtype=torch.uint8)
    rows = (torch.tensor([0]), torch.tensor([1, 2]))
    none = (torch.zeros(0, dtype=torch.int64),) * 2
    return Federation(x, torch.tensor([2, 0, 1, 2, 0, 1]), rows, none, none, inputs=Inputs(), classes=3, names=("a", "b"), seed=0)


def started(name: str, pictures: Federation, **options: object) -> State:
    torch.manual_seed(1)
    kind = find(name)
    method = kind(**options)
    method = replace(method, budget=replace(method.budget, lr=RATE, batch_size=2))
    task = Task.of(Net(), (1, 4, 4), 3, seed=0)
    site, server, first = Site.of(method, task, pictures)
    return State(0, site, server, {}, first)


def agreement(state: State, scope: str) -> float:
    """Return the cosine between the update that the attacker works on and the gradient of the true picture."""
    aim = target(state, state.site, 0, scope)
    picture = state.site.federation.x[:1].double() / 255
    names = matched(aim.at, aim.update)
    slopes = label_gradient(aim.network, aim.at, torch.tensor([2]), among=names)(picture)
    one = torch.cat([aim.update[name].flatten() for name in names])
    other = torch.cat([slope.detach().flatten() for slope in slopes])
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedcac", "ditto", "fedamp", "fedfomo", "fedprox", "fedala", "apple"])
def test_the_true_picture_explains_what_is_attacked_where_the_whole_model_is_uploaded(name: str, pictures: Federation) -> None:
    state = started(name, pictures)
    assert natural(state, 0) == ["model"]
    assert agreement(state, "model") > 0.9999


@pytest.mark.parametrize("name", ["fedper", "fedbabu", "fedrep"])
def test_and_where_the_head_stays_but_is_known_as_in_simulation(name: str, pictures: Federation) -> None:
    state = started(name, pictures)
    assert natural(state, 0) == ["extractor", "known"]
    assert agreement(state, "known") > (0.99 if name == "fedrep" else 0.9999)  # its head moves before its body


def test_half_a_step_of_fedcps_head_is_seen_as_the_whole_step(pictures: Federation) -> None:
    state = started("fedcp", pictures)
    assert natural(state, 0)[0] == "upload"
    assert agreement(state, "upload") > 0.9999


def test_scaffolds_control_variates_and_fedcacs_masks_are_not_taken_for_the_model(pictures: Federation) -> None:
    for name, path in (("scaffold", "model/"), ("fedcac", "params/")):
        state = started(name, pictures)
        shown = seen(state.site, state.site.method.send(state.server, 0), state.replay(0).up)
        start = state.site.task.params()
        assert shown.keys() == start.keys()
        assert all(pair.path == path + leaf for leaf, pair in shown.items())
        assert all(torch.equal(pair.received, start[leaf]) for leaf, pair in shown.items())


def test_an_update_of_scaffold_is_the_models_and_not_zero(pictures: Federation) -> None:
    answer = started("scaffold", pictures).replay(0)
    moved = update(answer)
    assert float(trees.dot({k: moved[f"model/{k}"] for k in answer.down.model}, answer.up.change)) < 0  # against the gradient
    assert float(moved["model/head.bias"].abs().sum()) > 0


def test_a_clients_own_parameters_come_before_what_it_was_sent(pictures: Federation) -> None:
    for name in ("ditto", "apfl"):  # both have a model of their own beside the common one
        state = started(name, pictures)
        down, mine = state.site.method.send(state.server, 0), trees.map(lambda leaf: leaf + 1, state.first.mine)
        own = mine if name == "ditto" else mine.own
        assert torch.equal(model(state.site, down, mine)["head.bias"], own["head.bias"])
    state = started("scaffold", pictures)
    down = state.site.method.send(state.server, 0)
    assert torch.equal(model(state.site, down, state.first.mine)["head.bias"], down.model["head.bias"])
