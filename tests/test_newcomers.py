"""What a client who comes later is sent and does, by hand where a method says something of its own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import perfed
from perfed import listing, trees
from perfed.errors import MethodError
from perfed.local import Budget, holding
from perfed.methods import CATALOGUE, find, newcomer
from perfed.testing import federation, play
from perfed.transport import Newcomers

DOCS = Path(__file__).parents[1] / "docs"
BUDGET = Budget(lr=0.1, batch_size=8)


def joined(name: str, norm: bool = False, epochs: int = 2, budget: Budget = BUDGET, **options: Any) -> tuple[Any, Any, Any, Any]:
    """Return the newcomers, the server, what the newcomer was sent and what it has after joining."""
    data = federation(4)
    played = play(find(name)(budget=budget, **options), data.only([0, 1, 2]), norm=norm, count=2)
    new = Newcomers.of(played.site, data.only([3]), epochs)
    return new, played.server, new.welcome(played.server), new.join(played.server, 0, 2)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_method_says_what_a_newcomer_gets_and_does(name: str) -> None:
    assert len(newcomer(name)) == 3
    assert listing.joins(name) in (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_that_the_classes_make() -> None:
    assert listing.newcomers() in (DOCS / "newcomers.md").read_text(encoding="utf-8")


def test_what_is_held_is_neither_trained_nor_moved() -> None:
    start = {"a": torch.tensor(1.0), "b": torch.tensor(1.0), "~seen": torch.tensor(0.0)}
    batch = perfed.Batch(torch.zeros(1), torch.zeros(1).long(), None, torch.tensor(0))

    def loss(w: trees.Params, batch: perfed.Batch) -> Tensor:
        w["~seen"].add_(1)
        return (w["a"] + w["b"] - 5) ** 2

    with holding([start["a"], start["~seen"]]):
        ended = perfed.descend(loss, start, [batch] * 2, Budget(lr=0.25))
    assert ended["a"] is start["a"] and ended["~seen"] is start["~seen"] and float(start["~seen"]) == 0
    assert float(ended["b"]) == 3.25  # 1 + 0.25 · 2 · 3 = 2.5, then 2.5 + 0.25 · 2 · 1.5


def test_fedpers_newcomer_fits_a_head_to_the_body_that_is_there() -> None:
    new, body, (down, head), (same, fitted) = joined("fedper", epochs=3)
    assert all(same[name] is body[name] for name in body)
    weight, bias = head["head.weight"].clone().requires_grad_(), head["head.bias"].clone().requires_grad_()
    for batch in new.site.federation.shard(0, 2, 8, False).epochs(3):
        seen = new.site.task.features(down, batch.x)
        loss = torch.nn.functional.cross_entropy(seen @ weight.T + bias, batch.y)
        slopes = torch.autograd.grad(loss, (weight, bias))
        with torch.no_grad():
            weight -= 0.1 * slopes[0]
            bias -= 0.1 * slopes[1]
    torch.testing.assert_close(fitted["head.weight"], weight.detach())
    torch.testing.assert_close(fitted["head.bias"], bias.detach())


@pytest.mark.parametrize("asked", [{"steps": 2}, {"balance": "weights"}])
def test_a_newcomer_keeps_to_the_steps_and_the_balance_of_the_budget(asked: dict[str, Any]) -> None:
    budget = replace(BUDGET, **asked)
    new, _, (down, head), (_, fitted) = joined("fedper", epochs=1, budget=budget)
    shard = replace(new.site.federation.shard(0, 2, 8, False), length=budget.steps, balance=budget.balance)
    batches = list(shard.epochs(1))
    assert len(batches) == 2 if budget.steps else any(len(set(batch.mask.tolist())) > 1 for batch in batches)
    expected = perfed.descend(lambda own, batch: new.site.task.loss(down | own, batch), head, batches, budget)
    assert all(torch.equal(fitted[name], expected[name]) for name in head)


def test_fedreps_head_is_fitted_as_often_as_a_newcomer_may_look() -> None:
    new, _, (down, head), (_, fitted) = joined("fedrep", epochs=3)
    often = replace(new.site.method, head_epochs=3)
    assert trees.equal(fitted, often.local(new.site.task, down, head, new.site.federation.shard(0, 2, 8, False))[1])


def test_fedbns_newcomer_fits_batchnorm_alone() -> None:
    _, _, (down, _), (fitted, _) = joined("fedbn", norm=True)
    moved = {name for name in down if not torch.equal(down[name], fitted[name])}
    assert moved == {"body.1.weight", "body.1.bias", "~body.1.running_mean", "~body.1.running_var", "~body.1.num_batches_tracked"}


def test_under_a_policy_that_averages_statistics_a_newcomer_moves_none() -> None:
    _, _, (down, _), (fitted, _) = joined("fedavg", norm=True)
    assert trees.equal(down, fitted)


def test_fedamps_newcomer_is_sent_the_mean_of_the_mixtures_and_begins_there() -> None:
    new, clouds, (down, _), (_, mine) = joined("fedamp")
    wanted = sum(cloud["head.weight"].double() for cloud in clouds) / 3
    torch.testing.assert_close(down["head.weight"].double(), wanted, atol=1e-7, rtol=0)
    alone = new.site.method.local(new.site.task, down, down, new.site.federation.shard(0, 2, 8, False))[1]
    assert not torch.equal(mine["head.weight"], down["head.weight"]) and mine.keys() == alone.keys()


def test_fedcacs_newcomer_keeps_what_is_critical_and_the_mean_of_the_rest() -> None:
    _, server, (down, masks), (fitted, critical) = joined("fedcac", critical=0.5)
    wanted = sum(model["head.weight"].double() for model in server.models) / 3
    torch.testing.assert_close(down["head.weight"].double(), wanted, atol=1e-7, rtol=0)
    assert not any(mask.any() for mask in masks.values())
    for name, mask in critical.items():
        assert torch.equal(fitted[name][~mask], down[name][~mask]) and not torch.equal(fitted[name][mask], down[name][mask])


def test_apples_newcomer_has_the_mean_core_and_an_even_relation_to_all() -> None:
    _, server, (down, relation), (fitted, learned) = joined("apple")
    share = server.sizes / server.sizes.sum()
    wanted = sum(part * core["head.weight"].double() for part, core in zip(share, server.cores, strict=True))
    torch.testing.assert_close(down.own["head.weight"].double(), wanted, atol=1e-7, rtol=0)
    assert relation.tolist() == [0.25] * 4 and len(learned) == 4 and len(fitted.others) == 3
    assert not torch.equal(fitted.own["head.weight"], down.own["head.weight"])


def test_fedfomos_newcomer_is_offered_what_the_others_gained_most_from() -> None:
    new, server, (down, _), _ = joined("fedfomo", models=2)
    best = server.affinity.sum(0).argsort(descending=True, stable=True)[:2].tolist()
    for sent, place in zip(down.models, best, strict=True):
        assert trees.equal(sent, server.models[place])
    grown = new.site.method.admit(server)
    assert grown.affinity.shape == (4, 4) and grown.chosen.shape == (4, 2) and not bool(grown.fresh[3])


def test_lgfedavgs_newcomer_begins_with_the_body_of_the_warm_up() -> None:
    _, server, (down, _), (fitted, mine) = joined("lgfedavg", warmup=1, rounds=3)
    assert trees.equal(down.checkpoint, server.body) and trees.equal(fitted.head, server.head)
    assert bool(mine.begun) and not trees.equal(mine.body, server.body)


def test_a_method_that_sends_everyone_something_else_must_say_what_a_newcomer_gets() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Own(find("fedavg")):  # type: ignore[misc]
        def send(self, server: Any, client: int) -> Any:
            return server

    data = federation(3)
    played = play(Own(budget=BUDGET), data.only([0, 1]), count=1)
    with pytest.raises(MethodError, match="Own sends every client a message of its own and does not say what a newcomer gets"):
        Newcomers.of(played.site, data.only([2]), 1).join(played.server, 0, 1)


@pytest.mark.parametrize("name", ["scaffold", "fedamp", "fedfomo", "fedcac", "lgfedavg", "feddbe", "spherefed", "fedper"])
def test_a_server_that_admitted_a_newcomer_goes_on_with_it(name: str) -> None:
    data = federation(4)
    method = replace(find(name)(), budget=BUDGET)
    played = play(method, data.only([0, 1, 2]), count=1)
    server = method.admit(played.server)
    mine = method.init(played.site.task, 4)[1]
    site = replace(played.site, federation=data)
    ups = [site.train(i, method.send(server, i), perfed.transport.Private(mine, {}), 2)[0] for i in (1, 3)]
    merged = method.merge(server, perfed.Uploads([1, 3], [10, 20], ups))
    assert trees.finite(method.send(merged, 3))
