"""FedCAC: harmless parameters are averaged over all, critical ones over those whose critical positions agree."""

from typing import Any

import byhand
import numpy as np
import pytest
import torch
from nudge import Arrays

from perfed import keys, testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedcac import FedCAC
from perfed.methods.local import Local
from perfed.task import Task

BUDGET = Budget(lr=0.1, batch_size=8)


def critical(new: np.ndarray, old: np.ndarray, share: float = 0.5) -> np.ndarray:
    """The positions of the largest |(θ₁ − θ₀) θ₁|, counted out one by one."""
    s = np.abs((new - old) * new).ravel()
    count = round(share * s.size - 0.5) if (share * s.size) % 1 else int(share * s.size)
    order = sorted(range(s.size), key=lambda i: -s[i])
    chosen = np.zeros(s.size, dtype=bool)
    chosen[order[:count]] = True
    if count and s[order[count - 1]] <= 1e-10:  # too few moved: all that did
        chosen = s > 1e-20
    return chosen.reshape(new.shape)


def trained(start: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    return byhand.step(start, byhand.slopes(start, x, y))


def test_two_rounds_by_hand() -> None:
    """In round 1 = β the two collaborate; in round 2 critical parameters are each client's own."""
    weight, bias = np.array([[0.25, -0.5, 0.75], [-0.125, 0.6, 0.25]]), np.array([0.05, -0.2])  # opposite ones would tie
    start = byhand.START | {"head.weight": weight, "head.bias": bias}
    net = byhand.net()
    net.load_state_dict({k: torch.tensor(v, dtype=torch.float32) for k, v in start.items()})
    play = byhand.Play(FedCAC(narrowing=1, budget=byhand.BUDGET), Task.of(net, (2,), 2))
    starts = [start, start]
    for number in (1, 2):
        ends = [trained(p, x, y) for p, x, y in zip(starts, byhand.X, byhand.Y, strict=True)]
        masks = [{k: critical(e[k], p[k]) for k in e} for e, p in zip(ends, starts, strict=True)]
        middle = {k: (ends[0][k] + ends[1][k]) / 2 for k in ends[0]}  # uniform, though client 0 has more samples
        count = [sum(int(m.sum()) for m in mask.values()) for mask in masks]
        shared = sum(int((masks[0][k] & masks[1][k]).sum()) for k in middle)
        overlap = [1 - (count[0] + count[1] - 2 * shared) / (2 * n) for n in count]
        play.round()
        for i in (0, 1):
            together = number == 1 and overlap[i] >= max(overlap) - 1e-9
            custom = middle if together else ends[i]
            starts[i] = {k: np.where(masks[i][k], custom[k], middle[k]) for k in middle}
            byhand.close(play.ups[i].params, ends[i])
            byhand.close(play.server.models[i], starts[i])
            for k, mask in masks[i].items():
                assert (play.ups[i].critical[k].numpy() == mask).all(), (number, i, k)
                assert torch.equal(play.mine(i)[k], play.ups[i].critical[k])
    assert not trees.equal(play.server.models[0], play.server.models[1])


def test_after_the_first_round_nothing_falls_back_to_the_initial_model() -> None:
    play = byhand.Play(FedCAC(narrowing=1, collaboration="none", budget=byhand.BUDGET)).round()
    up = play.ups[0]
    for k, mask in up.critical.items():
        assert torch.equal(play.server.models[0][k][mask], up.params[k][mask])
        moved = mask & (up.params[k] != torch.tensor(byhand.START[k], dtype=torch.float32))
        assert bool(moved.any()) == bool(mask.any())


def bits(*rows: str) -> list[dict[str, torch.Tensor]]:
    return [{"w": torch.tensor([c == "1" for c in row])} for row in rows]


def test_overlap_is_the_share_that_both_hold_critical() -> None:
    a, b = "1" * 10 + "0" * 10, "0" * 4 + "1" * 10 + "0" * 6  # ten of twenty each, six of them common
    found = FedCAC().overlaps(bits(a, b, a, "0" * 10 + "1" * 10, "0" * 20))
    assert found.dtype is torch.float64
    assert found[0].tolist() == pytest.approx([1, 0.6, 1, 0, 0.5])  # the printed formula would give 0.2 for 0.6
    assert found[4].tolist() == [0, 0, 0, 0, 0]  # no critical position, nothing to agree on
    assert float(FedCAC(overlap="jaccard").overlaps(bits(a, b))[0, 1]) == pytest.approx(6 / 14)


def test_the_most_alike_work_together_and_ever_fewer_of_them() -> None:
    masks = bits("11110000", "11101000", "11001100", "00001111")
    method = FedCAC(narrowing=10)
    teams = [method.teams(masks, number) for number in range(1, 12)]
    assert all(bool((later <= earlier).all()) for earlier, later in zip(teams, teams[1:], strict=False))
    assert teams[0].tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]]  # mean 11/24, 1/12 of it later
    assert teams[9].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]  # t = β: those at the top
    assert teams[10].tolist() == torch.eye(4).tolist()  # t > β


def test_at_the_last_round_of_narrowing_rounding_cannot_part_the_closest_pair() -> None:
    """Fifty critical positions each, of which pairs share 44, 6 and 1: mean + (largest − mean) rounds above the largest."""
    own = [range(50), range(6, 56), [*range(5), 6, *range(100, 144)]]
    masks = [{"w": torch.zeros(150, dtype=torch.bool).index_fill(0, torch.tensor(list(rows)), True)} for rows in own]
    found = FedCAC().overlaps(masks)[~torch.eye(3, dtype=torch.bool)]
    assert found.mean() + (found.max() - found.mean()) > found.max()
    assert FedCAC(narrowing=7).teams(masks, 7).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_two_clients_with_equal_masks_stop_after_narrowing_too() -> None:
    """The mean and the largest overlap are then the same, and the formula alone would let them go on for ever."""
    masks = bits("1100", "1100")
    assert FedCAC(narrowing=5).teams(masks, 5).tolist() == [[1, 1], [1, 1]]
    assert FedCAC(narrowing=5).teams(masks, 6).tolist() == [[1, 0], [0, 1]]


def test_collaboration_with_the_closest_or_with_nobody() -> None:
    masks = bits("11110000", "11101000", "11001100", "00001111")
    closest = FedCAC(collaboration="closest", closest=1, narrowing=1)
    assert closest.teams(masks, 500).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert bool((FedCAC(collaboration="closest", closest=9).teams(masks, 1) == 1).all())
    assert FedCAC(collaboration="none").teams(masks, 1).tolist() == torch.eye(4).tolist()
    assert FedCAC().teams(masks[:1], 1).tolist() == [[1.0]]  # all others dropped out


def chosen(s: list[float], share: float, **options: Any) -> list[int]:
    """Which entries are critical when their sensitivities are ``s``: θ₁ = 1, θ₀ = 1 − s."""
    new, sensitivity = torch.ones(len(s), dtype=torch.float64), torch.tensor(s, dtype=torch.float64)
    old = new - sensitivity
    found = FedCAC(critical=share, **options)._critical(new, old, keys.key(0))
    return [i for i, yes in enumerate(found.tolist()) if yes]


def test_the_count_is_a_floor_without_float_traps() -> None:
    assert 0.29 * 100 < 29
    for size, share, count in (
        (100, 0.29, 29),
        (100, 0.57, 57),
        (10, 0.3, 3),
        (7, 0.5, 3),
        (3, 0.34, 1),
        (3, 0.33, 0),
        (1, 0.5, 0),
    ):
        assert chosen([0.001 * (i + 1) for i in range(size)], share) == list(range(size - count, size))


def test_ties_at_the_cut_are_all_critical_or_the_first_of_them() -> None:
    assert chosen([0.5, 0.25, 0.5, 0.5, 0.125], 0.4) == [0, 2, 3]
    assert chosen([0.5, 0.25, 0.5, 0.5, 0.125], 0.4, ties="first") == [0, 2]


def test_where_too_little_moved_everything_that_moved_is_critical() -> None:
    new = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    method, key = FedCAC(), keys.key(0)
    old = new - torch.tensor([0.5, 1e-12, 0, 0, 0, 0], dtype=torch.float64)  # the third largest of six is 0
    assert method._critical(new, old, key).tolist() == [True, True, False, False, False, False]
    assert method._critical(new, new, key).tolist() == [True] * 6  # nothing moved
    tiny = torch.full((6,), 1e-11, dtype=torch.float64)
    assert method._critical(tiny, tiny * 0.5, key).tolist() == [True] * 6  # all below 1e-20, though none is zero


def test_other_choices_have_the_same_count() -> None:
    s = [0.4, 0.1, 0.3, 0.2, 0.6, 0.5, 0.7]
    assert chosen(s, 0.5, choice="reversed") == [1, 2, 3]  # the lowest ⌊0.5 · 7⌋
    assert chosen(s[:1], 0.5, choice="reversed") == []
    assert len(chosen(s, 0.5, choice="random")) == 3
    new = torch.ones(1000)
    drawn = [FedCAC(choice="random")._critical(new, new, keys.key(i)) for i in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2]) and int(drawn[0].sum()) == 500


def test_harmless_parameters_can_be_treated_as_critical_ones() -> None:
    play = byhand.Play(FedCAC(harmless="as_critical", collaboration="none", budget=byhand.BUDGET)).round()
    assert all(trees.equal(play.server.models[i], play.ups[i].params) for i in (0, 1))


def test_averages_are_uniform_unless_samples_are_to_weigh() -> None:
    ends = [trained(byhand.START, x, y) for x, y in zip(byhand.X, byhand.Y, strict=True)]
    play = byhand.Play(FedCAC(critical=0.0, rule="weighted", budget=byhand.BUDGET)).round()
    byhand.close(play.server.models[0], byhand.mean(*ends))
    play = byhand.Play(FedCAC(critical=0.0, budget=byhand.BUDGET)).round()
    byhand.close(play.server.models[0], byhand.mean(*ends, wa=0.5))


def test_the_mask_covers_parameters_of_batchnorm_but_no_statistics() -> None:
    played = testing.play(FedCAC(budget=BUDGET), testing.federation(3), norm=True, count=2)
    mask = played.privates[0].mine
    assert "body.1.weight" in mask and not any(k.startswith("~") for k in mask)
    for private in played.privates:  # statistics are each client's own: the server has the common start of them
        assert not torch.equal(private.kept["~body.1.running_mean"], played.server.models[0]["~body.1.running_mean"])
    custom = testing.play(FedCAC(norm="all", narrowing=1, budget=BUDGET), testing.federation(3), norm=True, count=2)
    means = [model["~body.1.running_mean"] for model in custom.server.models]
    assert not torch.equal(means[0], means[1])  # customised: taken from the team's model, here of oneself alone


def test_absent_clients_keep_model_and_mask() -> None:
    play = byhand.Play(FedCAC(budget=byhand.BUDGET)).round()
    kept = trees.clone((play.server.models[1], play.mine(1)))
    play.round((0,))
    assert trees.equal((play.server.models[1], play.mine(1)), kept)
    assert int(play.server.round) == 2


def test_right_after_training_the_trained_model_is_tested() -> None:
    play = byhand.Play(FedCAC(budget=byhand.BUDGET)).round()
    assert trees.equal(play.method.after(play.server.models[0], play.ups[0]), play.ups[0].params)


@pytest.mark.parametrize("norm", [False, True])
def test_with_nothing_critical_it_is_fedavg(norm: bool) -> None:
    testing.check_reduces(
        FedCAC(critical=0.0, rule="weighted", budget=BUDGET),
        FedAvg(norm="local_stats", budget=BUDGET),
        lambda p: (p.server.models[0], p.server.models[3], tuple(q.kept for q in p.privates)),
        lambda p: (p.server, p.server, tuple(q.kept for q in p.privates)),
        norm=norm,
    )


def test_with_everything_critical_and_nobody_to_share_with_it_is_local() -> None:
    testing.check_reduces(
        FedCAC(critical=1.0, ties="first", collaboration="none", budget=BUDGET),
        Local(budget=BUDGET),
        lambda p: p.server.models,
        lambda p: tuple(q.mine for q in p.privates),
    )


def test_identical_clients_get_the_mean() -> None:
    play = byhand.Play(FedCAC(budget=byhand.BUDGET)).round()
    from perfed.server import Uploads

    merged = play.method.merge(play.server, Uploads([0, 1], [3, 3], [play.ups[0], play.ups[0]]))
    assert trees.equal(merged.models[0], play.ups[0].params) and trees.equal(merged.models[1], play.ups[0].params)


def test_refusals() -> None:
    with pytest.raises(MethodError, match=r"critical .* in \[0, 1\]"):
        FedCAC(critical=1.5)
    with pytest.raises(MethodError, match="narrowing"):
        FedCAC(narrowing=0)
    with pytest.raises(MethodError, match="closest"):
        FedCAC(closest=0)
    with pytest.raises(MethodError, match="at least 2 participants"):
        FedCAC().check(byhand.task(), [3, 2], 1)
