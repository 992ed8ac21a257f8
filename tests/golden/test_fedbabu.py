"""FedBABU: the body learns against one fixed head; both are tuned only before serving."""

import byhand
import numpy as np
import pytest
import torch

from perfed import trees
from perfed.errors import MethodError
from perfed.methods.fedbabu import FedBABU

Arrays = dict[str, np.ndarray]


def part(g: Arrays, name: str) -> Arrays:
    return {k: v for k, v in g.items() if k.startswith(name)}


def visit(p: Arrays, client: int, moved: str = "body") -> Arrays:
    return byhand.step(p, part(byhand.slopes(p, byhand.X[client], byhand.Y[client]), moved))


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(FedBABU(budget=byhand.BUDGET))
    start = byhand.START
    for _ in (1, 2):
        start = byhand.mean(visit(start, 0), visit(start, 1))
        play.round()
        byhand.close(play.server, start, "body")


def test_the_head_is_the_common_start_for_everyone_and_for_good() -> None:
    play = byhand.Play(FedBABU(budget=byhand.BUDGET)).round().round()
    for i in (0, 1):
        for k, v in part(byhand.START, "head").items():
            assert torch.equal(play.mine(i)[k], torch.tensor(v, dtype=torch.float32))
    assert play.transport.ledger.close()[0] == {"body": 2 * 2 * 9 * 4}  # and never crosses


@pytest.mark.parametrize(("tune", "moved"), [("all", ""), ("head", "head"), ("body", "body")])
def test_clients_are_tested_after_fine_tuning(tune: str, moved: str) -> None:
    play = byhand.Play(FedBABU(tune=tune, tune_epochs=3, budget=byhand.BUDGET)).round()
    common = byhand.mean(visit(byhand.START, 0), visit(byhand.START, 1))
    before = trees.clone((play.server, play.store[0], play.store[1]))
    scores = play.transport.score(play.server, (0, 1), 1, ("test",))
    for i, (score,) in enumerate(scores):
        p = common
        for _ in range(3):
            p = visit(p, i, moved)
        assert abs(score["loss"] - byhand.loss(p, byhand.X[i], byhand.Y[i])) < 1e-5
        assert abs(score["loss"] - byhand.loss(common, byhand.X[i], byhand.Y[i])) > 1e-2
    assert trees.equal(before, (play.server, play.store[0], play.store[1]))  # tuned models are thrown away


def test_testing_does_not_change_what_is_trained() -> None:
    tested, plain = (byhand.Play(FedBABU(budget=byhand.BUDGET)) for _ in range(2))
    for _ in (1, 2):
        tested.round()
        plain.round()
        tested.transport.score(tested.server, (0, 1), tested.number, ("test",))
    assert trees.equal(tested.server, plain.server)


def test_no_fine_tuning_is_refused() -> None:
    with pytest.raises(MethodError, match="random head"):
        FedBABU(tune_epochs=0)
