"""FedAvg: one step at each client, then the mean weighted by samples."""

import byhand


def test_one_round_is_the_weighted_mean_of_one_step_each() -> None:
    from perfed.methods.fedavg import FedAvg

    ends = [byhand.step(byhand.START, byhand.slopes(byhand.START, x, y)) for x, y in zip(byhand.X, byhand.Y, strict=True)]
    play = byhand.Play(FedAvg(budget=byhand.BUDGET)).round()
    byhand.close(play.ups[0], ends[0])
    byhand.close(play.ups[1], ends[1])
    byhand.close(play.server, byhand.mean(*ends))


def test_everyone_serves_the_common_model() -> None:
    from perfed.methods.fedavg import FedAvg

    play = byhand.Play(FedAvg(budget=byhand.BUDGET)).round()
    assert (play.logits(0, byhand.X[0]) == play.logits(1, byhand.X[0])).all()
