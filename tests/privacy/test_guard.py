"""Clipping, noise and draws, number by number."""

import math

import pytest
import torch

from perfed import Batch, Budget, keys
from perfed.errors import MethodError
from perfed.local import descend
from perfed.local.guard import Guard, Keyed, System, lengths, shortened, shortening
from perfed.testing import federation, task


def test_ten_thousand_moves_are_clipped_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    clip = 0.7
    one, other = torch.randn(10_000, 3, 4, generator=generator), torch.randn(10_000, 5, generator=generator)
    scale = 10 ** (4 * torch.rand(10_000, generator=generator) - 3)  # from a thousandth to ten times as long
    one, other = one * scale[:, None, None], other * scale[:, None]
    before = lengths([one, other])
    factor = shortening(before, clip)
    after = lengths([(one * factor[:, None, None].float()), (other * factor[:, None].float())])
    assert bool((after <= clip).all())
    assert bool((factor[before <= clip] == 1).all()) and 2000 < int((before <= clip).sum()) < 8000
    assert bool((after[before > clip] >= clip * (1 - 2e-6)).all())
    for row in range(0, 10_000, 997):  # one by one it is the same
        short = shortened([one[row], other[row]], clip)
        assert float(lengths([leaf[None] for leaf in short])[0]) <= clip
        if before[row] <= clip:
            assert torch.equal(short[0], one[row]) and torch.equal(short[1], other[row])


def test_a_move_without_a_length_is_none() -> None:
    broken = [torch.tensor([1.0, math.nan]), torch.tensor([math.inf])]
    assert all(torch.equal(leaf, torch.zeros_like(leaf)) for leaf in shortened(broken, 1.0))


@pytest.mark.parametrize("source", [Keyed(keys.key(3, "noise")), System()], ids=["keys", "operating system"])
def test_a_million_draws_have_the_deviation_that_was_asked_for(source: Keyed | System) -> None:
    drawn = source.normal("w", (1000, 1000)).double()
    assert float(drawn.std()) == pytest.approx(1, rel=0.01)
    assert abs(float(drawn.mean())) < 0.01
    assert float((drawn.abs() > 1.959964).double().mean()) == pytest.approx(0.05, abs=0.002)
    again = source.normal("w", (1000, 1000)).double()
    assert torch.equal(drawn, again) == isinstance(source, Keyed)


def guard(noise: float, promised: int = 10, clip: float = 1.0) -> Guard:
    return Guard(clip, noise, Keyed(keys.key(0, "test")), promised)


def test_every_sample_comes_with_the_same_chance_and_by_itself() -> None:
    own, counts, sizes = guard(1.0, 4000), torch.zeros(40), []
    for _ in range(4000):
        places = own.drawn(40, 10)
        counts[places] += 1
        sizes.append(len(places))
    assert float(counts.mean()) == pytest.approx(1000, rel=0.02)
    assert bool((counts - 1000).abs().max() < 5 * math.sqrt(4000 * 0.25 * 0.75))
    assert float(torch.tensor(sizes).double().var()) == pytest.approx(40 * 0.25 * 0.75, rel=0.1)  # binomial, not fixed
    with pytest.raises(MethodError, match="more steps than the 4000"):
        own.drawn(40, 10)


def test_a_step_is_the_sum_of_clipped_slopes_over_the_expected_size() -> None:
    # slopes of (w − x)² / 2 at w = 0 are −x: 3, 0.5 and −4, of which 1, 0.5 and −1 count
    x, budget = torch.tensor([[-3.0], [-0.5], [4.0]]), Budget(lr=0.1, batch_size=2)
    batch = Batch(x, torch.zeros(3).long(), None, keys.key(0), guard=guard(1e-12))
    found = descend(lambda w, b: 0.5 * (w["w"] - b.x[:, 0]).square().mean(), {"w": torch.tensor(0.0)}, [batch], budget)
    assert float(found["w"]) == pytest.approx(-0.1 * (1 + 0.5 - 1) / 2, abs=1e-6)


def test_an_empty_batch_is_a_step_of_noise_alone() -> None:
    batch = Batch(torch.zeros(0, 1), torch.zeros(0).long(), None, keys.key(0), guard=guard(2.0, clip=3.0))
    batch.guard.next()  # type: ignore[union-attr]
    found = descend(
        lambda w, b: (w["w"] - b.x[:, 0]).square().mean(), {"w": torch.tensor(0.0)}, [batch], Budget(lr=1.0, batch_size=4)
    )
    drawn = float(Keyed(keys.key(0, "test")).normal("1 0", ()))
    assert float(found["w"]) == pytest.approx(-2.0 * 3.0 * drawn / 4)


@pytest.mark.filterwarnings("ignore")
def test_steps_equal_those_of_opacus_but_for_the_noise() -> None:
    """With hardly any noise, one step is that of opacus' optimiser on the same samples."""
    opacus = pytest.importorskip("opacus")
    net, data = task(), federation(2)
    start, x, y = net.params(), data.inputs(data.x[:6], None), data.y[:6]
    batch = Batch(x, y, None, keys.key(0), guard=guard(1e-12, clip=0.05))
    ours = descend(net.loss, start, [batch], Budget(lr=0.5, batch_size=6))
    module = torch.nn.ModuleDict({"body": net.body.skeleton.training, "head": net.head.skeleton.training})
    with torch.no_grad():
        for name, leaf in module.named_parameters():
            leaf.copy_(start[name])
    wrapped = opacus.GradSampleModule(torch.nn.Sequential(module["body"], module["head"]))
    optimiser = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.5), noise_multiplier=0.0, max_grad_norm=0.05, expected_batch_size=6
    )
    torch.nn.functional.cross_entropy(wrapped(x), y).backward()
    optimiser.step()
    theirs = [leaf.detach() for leaf in wrapped.parameters()]
    for mine, other in zip(ours.values(), theirs, strict=True):
        assert torch.allclose(mine, other, atol=2e-6)
