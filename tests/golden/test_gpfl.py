"""GPFL: embeddings guide general features, a head of one's own classifies personal ones, the valve bends both."""

from dataclasses import replace
from typing import Any

import byhand
import nudge
import numpy as np
import pytest
import torch
from nudge import Arrays
from torch import nn

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedper import FedPer
from perfed.methods.gpfl import GPFL
from perfed.task import Task

LR = 0.1
ONE = replace(byhand.BUDGET, lr=LR)
TWO = replace(ONE, epochs=2)
TABLE = "embedding.weight"
SHARES = [np.array([1 / 3, 2 / 3]), np.array([1 / 2, 1 / 2])]  # of byhand's labels
ADDED = (*(f"{n}.{i}.{k}" for n in ("gamma", "beta") for i in (0, 2) for k in ("weight", "bias")), TABLE)


def bent(p: Arrays, z: np.ndarray, condition: np.ndarray) -> np.ndarray:
    scale, shift = (nudge.layer_norm(p, f"{n}.2", nudge.relu(nudge.linear(p, f"{n}.0", condition))) for n in ("gamma", "beta"))
    return nudge.relu((scale + 1) * z + shift)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def by_hand(
    p: Arrays,
    x: np.ndarray,
    y: np.ndarray,
    shares: np.ndarray,
    magnitude: float,
    decay: float,
    *,
    table: np.ndarray | None = None,
) -> Arrays:
    """Two steps of one client; the received table is frozen, and ``table`` is where conditions come from, if another."""
    received = p[TABLE].copy()
    source = received if table is None else table
    general, own = source.mean(0), shares @ source

    def loss(p: Arrays) -> float:
        z = byhand.features(p, x)
        guided = bent(p, z, general)
        total = nudge.cross_entropy(nudge.linear(p, "head", bent(p, z, own)), y)
        total += nudge.cross_entropy(unit(guided) @ unit(p[TABLE]).T, y)
        return total + magnitude * float(np.sqrt(((guided - received[y]) ** 2).sum()))  # over the batch, not squared

    for _ in range(2):
        p = nudge.stepped(loss, p, LR, decay=dict.fromkeys(ADDED, decay))
    return p


def states(play: byhand.Play, client: int) -> Arrays:
    server = play.server
    return nudge.arrays(server.body, play.mine(client).head, server.valve, server.embeddings)


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(GPFL(magnitude=0.5, decay=0.1, budget=TWO))
    for _ in range(2):
        begun = [states(play, i) for i in (0, 1)]
        ends = [by_hand(p, x, y, a, 0.5, 0.1) for p, x, y, a in zip(begun, byhand.X, byhand.Y, SHARES, strict=True)]
        play.round()
        for i in (0, 1):
            for found, names in (
                (play.ups[i].body, "body"),
                (play.ups[i].valve, ("gamma", "beta")),
                (play.ups[i].embeddings, "emb"),
            ):
                byhand.close(found, ends[i], names, atol=3e-6)  # type: ignore[arg-type]
            byhand.close(play.mine(i).head, ends[i], "head", atol=3e-6)
        wanted = byhand.mean(*ends)
        byhand.close(
            play.server.body | play.server.valve | play.server.embeddings,
            {k: wanted[k] for k in (*ADDED, "body.0.weight")},
            atol=3e-6,
        )


def test_only_the_personal_route_is_served() -> None:
    play = byhand.Play(GPFL(budget=TWO)).round()
    for i in (0, 1):
        p = states(play, i)
        z = bent(p, byhand.features(p, byhand.X[0]), SHARES[i] @ p[TABLE])  # the table received next, not the trained one
        np.testing.assert_allclose(play.logits(i, byhand.X[0]), nudge.linear(p, "head", z), atol=2e-6)


def test_decay_shrinks_valve_and_embeddings_alone() -> None:
    """One step from the same start, a run without it is η μ θ ahead."""
    ups = {}
    for mu in (0.0, 0.1):
        play = byhand.Play(GPFL(decay=mu, budget=ONE))
        start = trees.clone(play.server)
        play.round()
        ups[mu] = (play.ups[0], play.mine(0).head)
    (free, head), (held, head_too) = ups[0.0], ups[0.1]
    assert trees.equal((free.body, head), (held.body, head_too))
    for a, b, s in ((free.valve, held.valve, start.valve), (free.embeddings, held.embeddings, start.embeddings)):
        for k in a:
            torch.testing.assert_close(a[k] - b[k], LR * 0.1 * s[k], atol=1e-6, rtol=0)


def test_embeddings_of_categories_a_client_lacks_still_move() -> None:
    played = testing.play(GPFL(decay=0.0, budget=Budget(lr=0.1, batch_size=8)), testing.federation(2, one_class=True), count=1)
    first = testing.task().part("embedding", lambda: nn.Embedding(testing.CLASSES, 8)).start[TABLE]
    up, _, _ = played.site.train(0, played.history[0].server, played.store.first, 1)
    assert bool(((up.embeddings[TABLE] - first).abs().amax(1) > 1e-6).all())


def test_even_shares_make_the_personal_condition_the_general_one() -> None:
    play = byhand.Play(GPFL())
    mine = play.mine(1)._replace(shares=torch.tensor([0.5, 0.5]))
    general, own = play.method._conditions(play.site.task, play.server, mine)
    torch.testing.assert_close(general, own)
    torch.testing.assert_close(general, play.server.embeddings[TABLE].mean(0))
    halved = GPFL(divide=True)._conditions(play.site.task, play.server, mine)
    torch.testing.assert_close(halved[1], own / 2)  # Eq. (7) as printed: U = 2
    assert torch.equal(halved[0], general)


def test_shares_are_those_of_all_training_samples_and_known_before_training() -> None:
    play = byhand.Play(GPFL(budget=TWO))
    data = play.site.federation.shard(0, 0, 2, False)
    _, mine = play.method.adapt(play.site.task, play.server, play.mine(0), data)
    np.testing.assert_allclose(mine.shares.numpy(), SHARES[0], atol=1e-7)
    for i in (0, 1):
        np.testing.assert_allclose(play.round().mine(i).shares.numpy(), SHARES[i], atol=1e-7)


def test_stale_embeddings_are_the_clients_own_of_last_time() -> None:
    play = byhand.Play(GPFL(source="stale", magnitude=0.5, budget=TWO)).round()
    byhand.close(play.ups[0].embeddings, {TABLE: play.mine(0).table[TABLE].double().numpy()})
    private = play.store[0]
    other = torch.tensor([[2.0, -1.0, 0.5], [0.25, 1.0, -2.0]])  # unlike the received table, to see which one counts
    play.store[0] = private._replace(mine=private.mine._replace(table={TABLE: other}))
    p = states(play, 0)
    right = by_hand(p, byhand.X[0], byhand.Y[0], SHARES[0], 0.5, 0.1, table=other.double().numpy())
    wrong = by_hand(p, byhand.X[0], byhand.Y[0], SHARES[0], 0.5, 0.1)
    assert abs(right["body.0.weight"] - wrong["body.0.weight"]).max() > 1e-3
    play.round()
    byhand.close(play.ups[0].body, right, "body", atol=3e-6)


def test_the_received_table_is_frozen_while_the_trained_one_moves() -> None:
    play = byhand.Play(GPFL(magnitude=0.5, budget=TWO)).round()
    before = trees.clone(play.server)
    play.site.train(0, play.server, play.store[0], 2)
    assert trees.equal(before, play.server)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ("batch", lambda gap: np.sqrt((gap**2).sum())),
        ("sample", lambda gap: np.mean([np.linalg.norm(row) for row in gap])),
        ("square", lambda gap: np.mean(gap**2)),
    ],
)
def test_the_magnitude_loss_in_three_readings(distance: Any, expected: Any) -> None:
    play = byhand.Play(GPFL(distance=distance, magnitude=1.0))
    play_without = byhand.Play(GPFL(magnitude=0.0))
    from perfed.methods.gpfl import Model

    z, batch = torch.tensor([[1.0, 0.5, 2.0], [0.25, 1.5, 0.0]]), play.site.federation.shard(1, 0, 8, False)
    batch = next(batch.epochs(1))
    m = Model(play.server, {})
    found = play.method._guidance(z, m, play.server, batch) - play_without.method._guidance(z, m, play.server, batch)
    gap = z.numpy() - play.server.embeddings[TABLE].numpy()[batch.y.numpy()]
    assert float(found) == pytest.approx(float(expected(gap)), abs=1e-5)
    masked = batch._replace(mask=torch.tensor([1.0, 0.0]))
    found = play.method._guidance(z, m, play.server, masked) - play_without.method._guidance(z, m, play.server, masked)
    assert float(found) == pytest.approx(float(expected(gap[:1])), abs=1e-5)


def test_norms_can_be_penalised_as_printed() -> None:
    start = byhand.Play(GPFL()).server
    ups = [byhand.Play(GPFL(penalty="norms", decay=mu, budget=ONE)).round().ups[0] for mu in (0.0, 0.1)]
    length = np.sqrt(sum((v.double() ** 2).sum() for v in start.valve.values()))
    for k, v in start.valve.items():
        torch.testing.assert_close(ups[0].valve[k] - ups[1].valve[k], LR * 0.1 * v / length, atol=1e-6, rtol=0)
    table = start.embeddings[TABLE]
    moved = ups[0].embeddings[TABLE] - ups[1].embeddings[TABLE]
    torch.testing.assert_close(moved, LR * 0.1 * table / table.norm(), atol=1e-6, rtol=0)


def test_without_personal_input_every_client_has_the_same_two_constants() -> None:
    play = byhand.Play(GPFL(personal_input=False, budget=TWO)).round()
    conditions = [play.method._conditions(play.site.task, play.server, play.mine(i)) for i in (0, 1)]
    assert trees.equal(conditions[0], conditions[1]) and not torch.equal(*conditions[0])
    again = byhand.Play(GPFL(personal_input=False))
    assert trees.equal(again.method._conditions(again.site.task, again.server, again.mine(0)), conditions[0])


def test_parts_can_be_taken_away() -> None:
    valveless = byhand.Play(GPFL(valve=False, budget=ONE))
    assert valveless.server.valve == {} and valveless.server.embeddings
    np.testing.assert_allclose(valveless.logits(0, byhand.X[0]), byhand.logits(byhand.START, byhand.X[0]), atol=1e-6)
    alone = byhand.Play(GPFL(embeddings=False, budget=ONE)).round()
    assert alone.server.embeddings == {} and alone.server.valve
    assert all(trees.finite(p.round().server) for p in (valveless, alone))


def test_the_valve_has_the_size_of_the_paper() -> None:
    net = nn.Module()
    net.body, net.head = nn.Sequential(nn.Linear(2, 512), nn.ReLU()), nn.Linear(512, 10)
    server, _ = GPFL().init(Task.of(net, (2,), 10), 2)
    assert sum(v.numel() for v in server.valve.values()) == 527_360
    assert server.embeddings[TABLE].shape == (10, 512)


@pytest.mark.parametrize("norm", [False, True])
def test_without_valve_and_embeddings_it_is_fedper(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8, momentum=0.5)
    testing.check_reduces(
        GPFL(valve=False, embeddings=False, budget=budget),
        FedPer(budget=budget),
        lambda p: (p.server.body, tuple((q.mine.head, q.kept) for q in p.privates)),
        lambda p: (p.server, tuple((q.mine, q.kept) for q in p.privates)),
        norm=norm,
    )


def test_refusals() -> None:
    with pytest.raises(MethodError, match="magnitude"):
        GPFL(magnitude=-1.0)
    with pytest.raises(MethodError, match="decay"):
        GPFL(decay=-0.1)


def test_the_valve_may_begin_nearly_shut() -> None:
    """LayerNorm gives γ and β of order one, whatever comes in; scaled by 0.1, features pass almost as they are."""
    conditions = torch.tensor([0.3, -1.0, 2.0, 0.5, -0.2, 1.0, 0.0, 0.7])
    bends = []
    for scale in (1.0, 0.1):
        task = testing.task()
        valve = GPFL(valve_start=scale).init(task, 2)[0].valve
        made = GPFL(valve_start=scale)
        bends.append([made._bend(task, name)(valve, conditions) for name in ("gamma", "beta")])
        z = torch.rand(4, 8)
        gamma, beta = bends[-1]
        assert torch.equal(made._bent(task, valve, z, conditions), torch.relu((gamma + 1) * z + beta))
    for whole, tenth in zip(*bends, strict=True):
        assert torch.allclose(0.1 * whole, tenth, atol=1e-6) and float(whole.square().mean()) == pytest.approx(1, abs=0.05)
    with pytest.raises(MethodError, match="valve_start"):
        GPFL(valve_start=0.0)
