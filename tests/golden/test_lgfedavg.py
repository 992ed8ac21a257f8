"""LG-FedAvg: after a warm-up of FedAvg, bodies are personal and heads are averaged."""

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.lgfedavg import LGFedAvg
from perfed.methods.local import Local

Arrays = dict[str, np.ndarray]
BUDGET = Budget(lr=0.1, batch_size=8)


def part(p: Arrays, name: str) -> Arrays:
    return {k: v for k, v in p.items() if k.startswith(name)}


def visit(p: Arrays, client: int) -> Arrays:
    return byhand.step(p, byhand.slopes(p, byhand.X[client], byhand.Y[client]))


def test_three_rounds_by_hand() -> None:
    play = byhand.Play(LGFedAvg(warmup=1, budget=byhand.BUDGET))
    ends = [visit(byhand.START, i) for i in (0, 1)]
    common = byhand.mean(*ends, 1 / 2)  # uniform, though client 0 has more samples
    play.round()
    byhand.close(play.server.body, common, "body")
    byhand.close(play.server.head, common, "head")
    starts = [common, common]  # round 2 begins with the body of the warm-up
    for _ in (2, 3):
        ends = [visit(p, i) for i, p in enumerate(starts)]
        head = part(byhand.mean(*ends, 1 / 2), "head")
        play.round()
        byhand.close(play.server.head, head)
        for i in (0, 1):
            assert play.ups[i].common == {}  # the body stays
            byhand.close(play.mine(i).body, ends[i], "body")
            starts[i] = part(ends[i], "body") | head
            np.testing.assert_allclose(play.logits(i, byhand.X[0]), byhand.logits(starts[i], byhand.X[0]), atol=1e-5)


def test_the_head_is_shared_and_the_body_personal_not_the_other_way_round() -> None:
    play = byhand.Play(LGFedAvg(warmup=1, budget=byhand.BUDGET))
    forms = []
    for _ in (1, 2, 3):
        play.round()
        forms.append(play.transport.ledger.close())
    body, head = 2 * 9 * 4, 2 * 8 * 4
    whole, begin, own = {"common": body, "head": head}, {"checkpoint": body, "head": head}, {"head": head}
    assert forms == [(whole, whole), (own, begin), (own, own)]  # up and down in each round
    assert not trees.equal(play.mine(0).body, play.mine(1).body)


def test_who_comes_late_begins_with_the_warmed_up_body() -> None:
    play = byhand.Play(LGFedAvg(warmup=1, budget=byhand.BUDGET)).round()
    common = byhand.mean(visit(byhand.START, 0), visit(byhand.START, 1), 1 / 2)
    play.round((0,))
    first = visit(common, 0)
    head = part(first, "head")
    waiting = part(common, "body") | head  # until then it serves that body with the shared head
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(waiting, byhand.X[1]), atol=1e-5)
    play.round()  # client 0 goes on with its own body although the checkpoint is still sent along
    byhand.close(play.mine(0).body, visit(part(first, "body") | head, 0), "body")
    byhand.close(play.mine(1).body, visit(waiting, 1), "body")
    assert play.method.send(play.server, 0).checkpoint == {}  # everyone has begun


def test_a_client_whose_answer_was_lost_keeps_its_body() -> None:
    play = byhand.Play(LGFedAvg(warmup=1, budget=byhand.BUDGET)).round()
    ups = play.transport.train(play.server, (0, 1), 2, {1}, False)
    play.server = play.method.merge(play.server, ups)
    ups.drain()
    own = trees.clone(play.mine(1).body)
    assert not bool(play.server.begun[1]) and play.method.send(play.server, 1).checkpoint
    served = {k: v.numpy() for k, v in (own | play.server.head).items()}
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(served, byhand.X[1]), atol=1e-5)


def test_during_the_warm_up_it_is_fedavg() -> None:
    for norm in (False, True):
        testing.check_reduces(
            LGFedAvg(warmup=20, rule="weighted", budget=BUDGET),
            FedAvg(norm="local_stats", budget=BUDGET),
            lambda p: (p.server.body | p.server.head, tuple(q.kept for q in p.privates)),
            lambda p: (p.server, tuple(q.kept for q in p.privates)),
            norm=norm,
        )


def test_alone_without_a_warm_up_it_is_local_training() -> None:
    data = testing.federation(1)
    for norm in (False, True):
        one = testing.play(LGFedAvg(warmup=0, budget=BUDGET), data, norm=norm)
        two = testing.play(Local(budget=BUDGET), data, norm=norm)
        assert trees.equal(one.privates[0].mine.body | one.server.head, two.privates[0].mine)


def test_own_statistics_go_with_the_body_when_it_becomes_personal() -> None:
    data, name = testing.federation(2, sizes=[24, 24]), "~body.1.num_batches_tracked"
    played = testing.play(LGFedAvg(warmup=2, budget=BUDGET), data, norm=True, count=3)
    assert [int(p.mine.body[name]) for p in played.privates] == [9, 9]  # three batches in each of three rounds
    assert torch.equal(played.server.body[name], torch.zeros((), dtype=torch.int64))  # which never left


def test_a_warm_up_is_the_default_and_must_end() -> None:
    assert LGFedAvg().warmup == 20
    with pytest.raises(MethodError, match="FedAvg all the way"):
        LGFedAvg(warmup=10, rounds=10)
