"""FedCP: a policy splits features between two heads; the vector is a constant, the received head stays as it is."""

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
from perfed.local import Batch, Budget
from perfed.local.losses import mmd, paired_discrepancy
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedcp import FedCP, Model
from perfed.methods.fedper import FedPer
from perfed.task import Task

TWO = replace(byhand.BUDGET, epochs=2)  # the first step cannot tell whether features are aligned: they still agree
WIDTHS = (10.0, 15.0, 20.0, 50.0)


def direction(weight: np.ndarray) -> np.ndarray:
    v = weight.sum(0)
    return v / np.linalg.norm(v)


def shares(p: Arrays, z: np.ndarray, v: np.ndarray) -> np.ndarray:
    a = nudge.relu(nudge.layer_norm(p, "policy.1", nudge.linear(p, "policy.0", z * v)))
    own, common = np.exp(a[:, :3]), np.exp(a[:, 3:])
    return own / (own + common)


def scores(p: Arrays, head: Arrays, z: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = shares(p, z, v)
    return nudge.linear(p, "head", s * z) + nudge.linear(head, "head", (1 - s) * z)


def discrepancy(a: np.ndarray, b: np.ndarray) -> float:
    """Every ordered pair, the diagonal too, every width, one after the other."""
    total = 0.0
    for p in range(len(a)):
        for q in range(len(a)):
            for w in WIDTHS:
                k = [np.exp(-((m - n) ** 2).sum() / (2 * w)) for m, n in ((a[p], a[q]), (b[p], b[q]), (a[p], b[q]))]
                total += k[0] + k[1] - 2 * k[2]
    return total / len(a) ** 2


def by_hand(start: Arrays, received: Arrays, x: np.ndarray, y: np.ndarray, align: float, moving_vector: bool = False) -> Arrays:
    """Two steps of one client: ``start`` holds its own head, ``received`` the common body and head."""
    v, z0 = direction(start["head.weight"]), byhand.features(received, x)

    def loss(p: Arrays) -> float:
        z = byhand.features(p, x)
        fit = nudge.cross_entropy(scores(p, received, z, direction(p["head.weight"]) if moving_vector else v), y)
        return fit + align * discrepancy(z, z0)

    for _ in range(2):
        start = nudge.stepped(loss, start, byhand.LR)
    return start


def states(play: byhand.Play, client: int = 0) -> tuple[Arrays, Arrays]:
    """What a client would start its round from, and the body and head it would receive."""
    server = play.server
    return nudge.arrays(server.body, play.mine(client), server.policy), nudge.arrays(server.body, server.head)


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(FedCP(align=5.0, budget=TWO))
    for _ in range(2):  # in the second round the two heads differ
        begun = [states(play, i) for i in (0, 1)]
        ends = [by_hand(p, r, x, y, 5.0) for (p, r), x, y in zip(begun, byhand.X, byhand.Y, strict=True)]
        play.round()
        for i in (0, 1):
            received, blended = begun[i][1], {}
            for k in ("head.weight", "head.bias"):
                blended[k] = (received[k] + ends[i][k]) / 2
            byhand.close(play.ups[i].body, ends[i], "body")
            byhand.close(play.ups[i].policy, ends[i], "policy", atol=2e-6)
            byhand.close(play.ups[i].head, blended)
            byhand.close(play.mine(i), ends[i], "head")
        wanted = byhand.mean(*ends)
        byhand.close(play.server.body, wanted, "body")
        byhand.close(play.server.policy, wanted, "policy", atol=2e-6)
        own = byhand.mean(*({k: e[k] for k in ("head.weight", "head.bias")} for e in ends))
        byhand.close(play.server.head, {k: (begun[0][1][k] + own[k]) / 2 for k in own})


def test_clients_serve_their_own_head_beside_the_common_one() -> None:
    play = byhand.Play(FedCP(budget=TWO)).round()
    for i in (0, 1):
        p, received = states(play, i)
        z = byhand.features(p, byhand.X[0])
        np.testing.assert_allclose(play.logits(i, byhand.X[0]), scores(p, received, z, direction(p["head.weight"])), atol=1e-6)


def test_the_vector_is_the_personal_heads() -> None:
    play = byhand.Play(FedCP())
    own = play.mine(0) | {"head.weight": torch.tensor([[0.5, -1.0, 0.25], [1.0, 2.0, -0.75]])}
    found = play.method.predict(play.site.task.served, play.server, own, torch.tensor(byhand.X[0], dtype=torch.float32))
    p, received = nudge.arrays(play.server.body, own, play.server.policy), nudge.arrays(play.server.head)
    z = byhand.features(p, byhand.X[0])
    np.testing.assert_allclose(found.numpy(), scores(p, received, z, direction(p["head.weight"])), atol=1e-6)
    assert abs(found.numpy() - scores(p, received, z, direction(received["head.weight"]))).max() > 1e-3


def test_cross_entropy_never_turns_the_vector_of_one_linear_layer() -> None:
    """The errors of a softmax add up to zero over the classes, and so do the steps of the rows: all clients keep one vector."""
    play = byhand.Play(FedCP(budget=TWO)).round().round()
    for i in (0, 1):
        np.testing.assert_allclose(play.mine(i)["head.weight"].sum(0), byhand.START["head.weight"].sum(0), atol=1e-6)
    assert not torch.allclose(play.mine(0)["head.weight"], play.mine(1)["head.weight"], atol=1e-3)


def test_the_vector_is_a_constant_of_the_round() -> None:
    play = byhand.Play(FedCP(budget=TWO)).round()
    p, received = states(play)
    right = by_hand(p, received, byhand.X[0], byhand.Y[0], 5.0)
    wrong = by_hand(p, received, byhand.X[0], byhand.Y[0], 5.0, moving_vector=True)
    assert abs(right["head.weight"] - wrong["head.weight"]).max() > 1e-4
    play.round()
    byhand.close(play.mine(0), right, "head")


def test_the_first_round_has_the_vector_of_the_initial_head_and_not_a_random_one() -> None:
    play = byhand.Play(FedCP())
    vector = play.method._vector(play.site.task, play.mine(0))
    np.testing.assert_allclose(vector.numpy(), direction(byhand.START["head.weight"]), atol=1e-6)


def test_the_head_of_several_layers_is_multiplied_out() -> None:
    net = nn.Module()
    net.body, net.head = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    task = Task.of(net, (2,), 2)
    p = nudge.arrays(task.head.params())
    vector = FedCP()._vector(task, task.head.params())
    np.testing.assert_allclose(vector.numpy(), direction(p["head.2.weight"] @ p["head.0.weight"]), atol=1e-6)


def test_training_leaves_the_received_modules_alone() -> None:
    play = byhand.Play(FedCP(budget=TWO)).round()
    before = trees.clone(play.server)
    up, private, whole = play.site.train(0, play.server, play.store[0], 2)
    assert trees.equal(before, play.server)
    after = play.method.after(play.server, whole)
    assert trees.equal(after.head, before.head)  # right after training the client still serves the head it received,
    assert not torch.equal(up.head["head.weight"], before.head["head.weight"])  # not the blend it has just uploaded
    assert not torch.equal(up.head["head.weight"], private.mine["head.weight"])


@pytest.mark.parametrize("policy", ["softmax", "gumbel_train", "gumbel_always"])
def test_testing_twice_gives_the_same(policy: Any) -> None:
    play = byhand.Play(FedCP(policy=policy, budget=TWO)).round()
    assert (play.logits(0, byhand.X[0]) == play.logits(0, byhand.X[0])).all()


def test_noise_is_where_it_is_asked_for() -> None:
    plays = {policy: byhand.Play(FedCP(policy=policy, budget=TWO)) for policy in ("softmax", "gumbel_train", "gumbel_always")}
    played, x = byhand.Play(FedCP(budget=TWO)).round(), torch.tensor(byhand.X[0], dtype=torch.float32)
    task = played.site.task.served
    plain, train, always = (plays[k].method.predict(task, played.server, played.mine(0), x) for k in plays)
    assert torch.equal(plain, train) and not torch.allclose(plain, always, atol=1e-3)
    for k in plays:
        plays[k].round().round()  # in the first round the two heads begin alike
    plain, train, always = (plays[k].mine(0)["head.weight"] for k in plays)
    assert torch.equal(train, always) and not torch.allclose(plain, train, atol=1e-4)


def test_shares_lie_between_nothing_and_all_and_their_first_half_is_personal() -> None:
    play = byhand.Play(FedCP())
    task, z = play.site.task.served, torch.tensor([[0.5, 1.0, 2.0], [0.0, 0.1, 0.2]])
    vector = torch.ones(3)
    s = play.method.personal(task, play.server.policy, vector, z, None)
    assert s.shape == z.shape and bool(((s > 0) & (s < 1)).all())
    up = torch.tensor([20.0] * 3 + [0.0] * 3)
    tilted = play.server.policy | {"policy.1.weight": torch.zeros(6), "policy.1.bias": up}
    assert bool((play.method.personal(task, tilted, vector, z, None) > 0.999).all())


def whole(rows: int) -> Batch:
    return Batch(torch.zeros(rows, 1), torch.zeros(rows, dtype=torch.int64), None, torch.tensor(0))


def test_the_discrepancy_is_a_sum_over_widths_and_a_mean_over_all_pairs() -> None:
    a, b = np.array([[0.0, 1.0], [2.0, -1.0], [3.0, 0.5]]), np.array([[1.0, 1.0], [0.0, -2.0], [4.0, 0.0]])
    one, two = torch.tensor(a), torch.tensor(b)
    assert float(mmd(one, two, whole(3))) == pytest.approx(discrepancy(a, b), abs=1e-12)
    assert float(mmd(one, two, whole(3))) == float(mmd(two, one, whole(3))) > 0
    assert float(mmd(one, one, whole(3))) == 0
    paired = np.mean([8 - 2 * sum(np.exp(-((p - q) ** 2).sum() / (2 * w)) for w in WIDTHS) for p, q in zip(a, b, strict=True)])
    assert float(paired_discrepancy(one, two, whole(3))) == pytest.approx(paired, abs=1e-12)


def test_parts_can_be_taken_away() -> None:
    z = byhand.features(byhand.START, byhand.X[0])
    both = 2 * nudge.linear(byhand.START, "head", z)  # at the start the two heads are equal
    np.testing.assert_allclose(byhand.Play(FedCP(blend="sum")).logits(0, byhand.X[0]), both, atol=1e-6)
    np.testing.assert_allclose(byhand.Play(FedCP(blend="personal")).logits(0, byhand.X[0]), both / 2, atol=1e-6)
    seen = {}
    for context in ("both", "client", "sample", "none"):
        play = byhand.Play(FedCP(context=context))
        given = torch.tensor(z, dtype=torch.float32)
        vector = play.method._vector(play.site.task, play.mine(0))
        seen[context] = play.method.personal(play.site.task, play.server.policy, vector, given, None)
    for context in ("client", "none"):  # every sample alike
        assert torch.equal(seen[context][0], seen[context][1])
    assert len({tuple(s[0].tolist()) for s in seen.values()}) == 4


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 512 * 1024 + 1024 + 2048),
        ({"layers": 2}, 512 * 1024 + 1024 + 2048 + 262_656),
        ({"layers": 4}, 512 * 1024 + 1024 + 2048 + 3 * 262_656),
        ({"layer_norm": "batch"}, 512 * 1024 + 1024 + 2048),
        ({"layer_norm": "group"}, 512 * 1024 + 1024 + 2048),
    ],
)
def test_the_policy_network_has_the_size_of_the_paper(options: dict[str, Any], count: int) -> None:
    assert sum(p.numel() for p in FedCP(**options)._network(512).parameters()) == count


class Headed(nn.Module):
    """A head with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(testing.FEATURES, 8), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, testing.CLASSES))


@pytest.mark.parametrize("blend", ["policy", "sum"])
def test_what_is_served_does_not_depend_on_who_else_is_in_the_batch(blend: Any) -> None:
    torch.manual_seed(0)
    task = Task.of(Headed(), (testing.FEATURES,), testing.CLASSES)
    data = testing.federation(3)
    played = testing.play(FedCP(blend=blend, budget=Budget(lr=0.1, batch_size=8)), data, the_task=task, count=2)
    x = data.x[data.test[0]]
    assert torch.allclose(testing.served(played, 0, x)[:1], testing.served(played, 0, x[:1]), atol=1e-5)


def test_the_frozen_body_counts_no_batches() -> None:
    played = testing.play(FedCP(budget=Budget(lr=0.1, batch_size=8)), testing.federation(2), norm=True, count=1)
    assert int(played.store[0].kept["~body.1.num_batches_tracked"]) == 3  # 23 samples, once


def test_without_policy_alignment_and_common_head_it_is_fedper() -> None:
    budget = Budget(lr=0.1, batch_size=8)
    for norm in (False, True):
        testing.check_reduces(
            FedCP(blend="personal", align=0.0, budget=budget),
            FedPer(budget=budget),
            lambda p: (p.server.body, tuple(p.privates)),
            lambda p: (p.server, tuple(p.privates)),
            norm=norm,
        )


def test_with_all_shares_personal_no_alignment_and_no_bias_it_is_fedper() -> None:
    """A bias of the common head would be added to features of zero, so there is none."""

    def task() -> Task:
        torch.manual_seed(0)
        net = testing.Net()
        net.head = nn.Linear(8, testing.CLASSES, bias=False)
        return Task.of(net, (testing.FEATURES,), testing.CLASSES)

    class Tilted(FedCP):
        def init(self, task: Task, clients: int) -> tuple[Model, Any]:
            server, mine = super().init(task, clients)
            bias = torch.tensor([200.0] * 8 + [0.0] * 8)
            return server._replace(policy=server.policy | {"policy.1.weight": torch.zeros(16), "policy.1.bias": bias}), mine

    budget, data = Budget(lr=0.1, batch_size=8), testing.federation()
    one = testing.play(Tilted(align=0.0, budget=budget), data, the_task=task())
    two = testing.play(FedPer(budget=budget), data, the_task=task())
    assert trees.equal((one.server.body, tuple(one.privates)), (two.server, tuple(two.privates)))
    three = testing.play(FedAvg(norm="local_stats", budget=budget), data, the_task=task())
    assert not trees.equal(one.server.body, task().split(three.server)[0])


def test_refusals() -> None:
    with pytest.raises(MethodError, match="align"):
        FedCP(align=-1.0)
    with pytest.raises(MethodError, match="1 to 4 layers"):
        FedCP(layers=5)


def test_a_step_over_one_sample_tells_the_server_the_head_and_the_features_whatever_the_start() -> None:
    """Why no secret start hides pictures (docs/starts.md)."""
    made = testing.play(FedCP(budget=Budget(lr=0.1, batch_size=1)), testing.federation(2), count=1)
    task, shard = made.site.task, made.site.shard(0, 1)
    down, one = made.site.method.send(made.server, 0), replace(shard, rows=shard.rows[:1])
    start = {name: torch.randn(leaf.shape, generator=torch.Generator().manual_seed(3)) for name, leaf in down.head.items()}
    up, own = made.site.method.local(task, down, start, one)
    told = {name: 2 * up.head[name] - down.head[name] for name in own}
    torch.testing.assert_close(told, own)
    weight, bias = (down.policy[f"policy.0.{name}"] - up.policy[f"policy.0.{name}"] for name in ("weight", "bias"))
    row = bias.abs().argmax()
    seen = task.features(down.body, one.inputs(one.x[one.rows], None))[0]
    vector = torch.nn.functional.normalize(told["head.weight"].sum(0), dim=0)
    torch.testing.assert_close(weight[row] / bias[row], vector * seen, rtol=1e-3, atol=1e-4)
