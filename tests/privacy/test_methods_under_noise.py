"""What noise on uploads does to every method: what leaves is noised, what stays is not, and the rest is refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from perfed import Budget, Privacy, keys, methods, trees
from perfed.errors import InputError, MethodError
from perfed.local.guard import Keyed
from perfed.methods import CATALOGUE, find
from perfed.privacy import check
from perfed.testing import federation, task
from perfed.transport import Site

OPTIONS: dict[str, dict[str, Any]] = {
    "dualfed": {"contrast": 0.1, "projector_norm": False},
    "lgfedavg": {"warmup": 1, "rounds": 3},
}


def made(name: str, privacy: Privacy, **network: Any) -> tuple[Site, Any, Any]:
    method = find(name)(**OPTIONS.get(name, {}))
    method = replace(method, budget=Budget(lr=0.05, batch_size=5))
    net = task(norm=name == "fedbn", **network)
    site, server, first = Site.of(method, net, federation(2))
    check(privacy, method, net, server, frozenset(site.withheld.start))
    return replace(site, privacy=privacy), server, first


def allowed(level: str) -> list[str]:
    return [name for name in CATALOGUE if f"{methods.guarded(name)[('client', 'sample').index(level)]}".startswith("yes: ")]


@pytest.mark.parametrize("name", allowed("client"))
def test_what_leaves_is_noised_and_what_stays_is_the_same_to_the_bit(name: str) -> None:
    plain, server, first = made(name, Privacy())
    noisy = replace(plain, privacy=Privacy("client", clip=0.3, noise=0.5))
    down = plain.method.send(server, 0)
    up, private, whole = plain.train(0, down, first, 1)
    again, kept, same = noisy.train(0, down, first, 1)
    assert trees.equal(private, kept) and trees.equal(whole, same)
    leaves = dict(plain.withheld.crossing(up))
    assert leaves.keys() == dict(noisy.withheld.crossing(again)).keys()
    moved = {path: dict(trees.named(again))[path] for path, leaf in leaves.items() if leaf.is_floating_point()}
    assert all(not torch.equal(moved[path], leaves[path]) for path in moved)


@pytest.mark.parametrize("name", allowed("client"))
def test_without_its_noise_an_answer_is_within_the_clip_of_one_that_learned_nothing(name: str) -> None:
    clip = 0.01
    site, server, first = made(name, Privacy("client", clip=clip, noise=0.5))
    down = site.method.send(server, 0)
    up, _, _ = site.train(0, down, first, 1)
    still = site.method.unmoved(site.task, down)
    source = Keyed(keys.fold(site.shard(0, 1).key, "privacy"))
    sent, left = dict(trees.named(up)), 0.0
    for path, leaf in site.withheld.crossing(still):
        drawn = 0.5 * clip * source.normal(path, tuple(leaf.shape))
        left += float((sent[path].double() - leaf.double() - drawn.double()).square().sum())
    assert 0 < left**0.5 <= clip * (1 + 1e-4)


@pytest.mark.parametrize("name", allowed("sample"))
def test_the_accountant_is_told_of_every_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    site, server, first = made(name, Privacy("sample", clip=0.5, noise=1.0))
    original = Site._guarded

    def watched(self: Site, data: Any) -> Any:
        found = original(self, data)
        taken.append(found.guard)
        return found

    monkeypatch.setattr(Site, "_guarded", watched)
    plain, _, _ = replace(site, privacy=Privacy()).train(0, site.method.send(server, 0), first, 1)
    up, private, _ = site.train(0, site.method.send(server, 0), first, 1)
    assert taken[0].taken == taken[0].promised == site.guarded_steps(0)
    assert trees.finite(up)
    noised = [not torch.equal(a, b) for a, b in zip(trees.leaves(up), trees.leaves(plain), strict=True) if a.is_floating_point()]
    assert all(noised)
    again, same, _ = site.train(0, site.method.send(server, 0), first, 1)
    assert trees.equal(up, again) and trees.equal(private, same)


def test_dittos_personal_model_stays_exact_under_sample_noise() -> None:
    site, server, first = made("ditto", Privacy("sample"))
    _, noisy, _ = site.train(0, server, first, 1)
    _, plain, _ = replace(site, privacy=Privacy()).train(0, server, first, 1)
    assert trees.equal(noisy, plain)


@pytest.mark.parametrize("level", ["client", "sample"])
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_method_says_what_noise_means_for_it_or_is_refused_with_the_reason(name: str, level: str) -> None:
    said = methods.guarded(name)[("client", "sample").index(level)]
    assert said.startswith(("yes: ", "no: ")) and len(said) > 20
    if said.startswith("no: "):
        with pytest.raises(MethodError, match="is refused for"):
            made(name, Privacy(level))


def test_scaffolds_change_follows_from_what_was_let_go() -> None:
    site, server, first = made("scaffold", Privacy("client", clip=0.1, noise=1.0))
    down = site.method.send(server, 0)
    up, _, _ = site.train(0, down, first, 1)
    steps = site.shard(0, 1).steps
    for name, control in down.control.items():
        expected = (down.model[name] - up.model[name]) / (0.05 * steps) - control
        assert torch.allclose(up.change[name], expected, atol=1e-5)


def test_fedcacs_mask_is_that_of_the_noised_parameters() -> None:
    site, server, first = made("fedcac", Privacy("client", clip=0.1, noise=1.0))
    down = site.method.send(server, 0)
    up, private, _ = site.train(0, down, first, 1)
    sensitivity = ((up.params["head.weight"] - down["head.weight"]) * up.params["head.weight"]).abs()
    half = sensitivity >= sensitivity.flatten().topk(sensitivity.numel() // 2).values[-1]
    assert torch.equal(up.critical["head.weight"], half)
    assert not torch.equal(up.critical["head.weight"], private.mine["head.weight"])


def test_batchnorm_is_refused_with_the_reason() -> None:
    for level, norm, says in (("sample", "local_stats", "mixes the samples"), ("client", "all", "no statistics")):
        method = replace(find("fedavg")(), norm=norm)
        net = task(norm=True)
        site, server, _ = Site.of(method, net, federation(2))
        with pytest.raises(InputError, match=says):
            check(Privacy(level), method, net, server, frozenset(site.withheld.start))  # type: ignore[arg-type]
    method = replace(find("fedavg")(), norm="local_stats")
    net = task(norm=True)
    site, server, first = Site.of(method, net, federation(2))
    check(Privacy("client"), method, net, server, frozenset(site.withheld.start))
    up, private, _ = replace(site, privacy=Privacy("client")).train(0, server, first, 1)
    assert all(torch.equal(leaf, site.withheld.start[name]) for name, leaf in up.items() if name in site.withheld.start)


def test_what_cannot_be_promised_besides_is_refused() -> None:
    net = task()
    with pytest.raises(InputError, match="budget.balance=weights"):
        method = replace(find("fedavg")(), budget=Budget(balance="weights"))
        check(Privacy("sample"), method, net, net.params(), frozenset())
    with pytest.raises(InputError, match="budget.order=stored: there every sample takes part"):
        method = replace(find("fedavg")(), budget=Budget(order="stored"))
        check(Privacy("sample"), method, net, net.params(), frozenset())
    with pytest.raises(MethodError, match="sums over features without noise"):
        check(Privacy("client"), find("spherefed")(calibrate=True), net, (), frozenset())
