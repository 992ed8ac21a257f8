"""Local: each client descends from its own model, alone."""

import byhand

from perfed import testing
from perfed.local import Budget
from perfed.methods.local import Local


def steps(client: int, count: int) -> dict[str, byhand.np.ndarray]:
    p, x, y = byhand.START, byhand.X[client], byhand.Y[client]
    for _ in range(count):
        p = byhand.step(p, byhand.slopes(p, x, y))
    return p


def test_two_rounds_are_two_steps_from_the_clients_own_model() -> None:
    """A model that was reset every round would have made one."""
    play = byhand.Play(Local(budget=byhand.BUDGET)).round().round()
    byhand.close(play.mine(0), steps(0, 2))
    byhand.close(play.mine(1), steps(1, 2))
    byhand.np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(steps(1, 2), byhand.X[1]), atol=1e-6)


def test_every_round_has_as_many_passes_as_in_federated_methods() -> None:
    play = byhand.Play(Local(budget=Budget(lr=byhand.LR, batch_size=8, epochs=3))).round()
    byhand.close(play.mine(0), steps(0, 3))


def test_nothing_is_communicated() -> None:
    played = testing.play(Local(), testing.federation())
    assert all(not r.up and not r.down for r in played.history)


def test_a_client_that_was_absent_made_no_step() -> None:
    play = byhand.Play(Local(budget=byhand.BUDGET)).round().round((0,))
    byhand.close(play.mine(0), steps(0, 2))
    byhand.close(play.mine(1), steps(1, 1))
