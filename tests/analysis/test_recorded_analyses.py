"""Analyses that read the lines of rounds.jsonl, on lines small enough to work out by hand."""

import json
from dataclasses import asdict

import pytest

from perfed.analysis.communication import cost_to_target, full_model_mib, payload_mib
from perfed.analysis.convergence import convergence
from perfed.analysis.fairness import fairness, gains
from perfed.analysis.series import best, scored
from perfed.analysis.stability import drop, participation, swing
from perfed.analysis.timing import timing
from perfed.errors import InputError, RunError

MIB = 2**20


def scores(correct, count, loss=None):
    accuracy = [right / n if right is not None and n else None for right, n in zip(correct, count, strict=True)]
    return {"count": count, "accuracy": accuracy, "loss": loss or [0.0] * len(count)}


def line(number, correct, count=(10, 30), *, up=0, down=0, **rest):
    return {
        "round": number,
        "participants": [],
        "bytes_up": up,
        "bytes_down": down,
        "test": scores(correct, list(count)),
    } | rest


def is_strict_json(result):
    return json.loads(json.dumps(asdict(result), allow_nan=False))


# Two clients with 10 and 30 samples: weighted accuracies 0.25, 0.75, 0.7; means 1/3, 0.7333, 0.8.
LINES = [
    line(0, [5, 5]),
    line(1, [7, 23], up=MIB, down=2 * MIB),
    line(2, [10, 18], up=MIB, down=MIB),
]


def test_the_best_round_is_the_first_with_the_highest_weighted_accuracy():
    assert best(LINES)["round"] == 1
    assert best([*LINES, line(3, [0, 30])])["round"] == 1
    assert best([line(0, [10, 30]), *LINES[1:]])["round"] == 1  # the initial model is no result
    assert best(LINES[:1])["round"] == 0


def test_fairness_is_the_population_spread_in_the_best_round():
    result = fairness(LINES)
    assert result.round == 1
    assert result.weighted == 30 / 40
    assert result.mean == pytest.approx((0.7 + 23 / 30) / 2)
    assert result.std == pytest.approx((23 / 30 - 0.7) / 2)
    assert result.cv == pytest.approx((23 / 30 - 0.7) / 2 / 0.75)
    assert (result.worst, result.best) == (0.7, pytest.approx(23 / 30))
    assert is_strict_json(result)["round"] == 1


def test_the_published_coefficient_of_variation_divides_by_the_reported_accuracy():
    # GPFL, Table 3: HAR 8.42 [8.98] means a reported accuracy of 93.76 %.
    accuracies = [0.9376 - 0.0842, 0.9376 + 0.0842]
    counted = [round(value * 10_000) for value in accuracies]
    result = fairness([line(1, counted, (10_000, 10_000))])
    assert 100 * result.std == pytest.approx(8.42)
    assert 100 * result.cv == pytest.approx(8.98, abs=0.005)


def test_the_worst_decile_of_twenty_clients_is_the_mean_of_the_worst_two():
    result = fairness([line(1, list(range(20, 0, -1)), [100] * 20)])
    assert result.worst_decile == pytest.approx(0.015)


def test_clients_without_test_samples_do_not_count_towards_fairness():
    result = fairness([line(1, [5, 0, 10], (10, 0, 10))])
    assert (result.mean, result.std) == (0.75, 0.25)


def test_gains_say_who_gains_who_loses_and_in_which_order():
    result = gains([0.9, 0.5, 0.7], [0.8, 0.5, 0.9])
    assert result.gains == pytest.approx((0.1, 0.0, -0.2))
    assert result.order == (0, 1, 2)
    assert (result.gained, result.even, result.lost) == (1, 1, 1)
    assert result.mean == pytest.approx(-0.1 / 3)
    is_strict_json(result)


def test_gains_of_different_splits_are_refused():
    with pytest.raises(InputError, match="same clients"):
        gains([0.5], [0.5, 0.6])


# DualFed's Table 8: ResNet-18 without its last layer, the projector and, where it is sent, a classifier of 7 classes.
ENCODER, PROJECTOR, CLASSIFIER = 11_176_512, 264_448, 7 * 512 + 7
BATCHNORM = 9_600 + 2 * (256 + 512)  # scales and shifts of the encoder and the projector


@pytest.mark.parametrize(
    ("parameters", "rounds", "published"),
    [
        (ENCODER + PROJECTOR + CLASSIFIER, 22, 1920.93),  # FedAvg, PACS
        (ENCODER + PROJECTOR, 19, 1658.47),  # FedPer, PACS
        (ENCODER + PROJECTOR + CLASSIFIER - BATCHNORM, 17, 1482.91),  # FedBN, PACS
        (ENCODER + PROJECTOR + CLASSIFIER, 7, 611.21),  # DualFed, PACS
    ],
)
def test_the_papers_counting_gives_the_published_costs(parameters, rounds, published):
    assert full_model_mib(parameters, rounds) == pytest.approx(published, abs=0.01)  # the table does not round evenly
    reached_late = [line(number, [9 if number >= rounds else 0], (10,)) for number in range(40)]
    cost = cost_to_target(reached_late, 0.85, count="paper", parameters=parameters)
    assert (cost.reached, cost.rounds) == (True, rounds)
    assert cost.mib == pytest.approx(published, abs=0.01)


def test_the_payload_is_what_all_clients_sent_and_received_until_the_target():
    assert payload_mib(LINES, 1) == 3
    cost = cost_to_target(LINES, 0.75)
    assert (cost.rounds, cost.mib) == (2, 5)
    assert str(cost) == "5.00 MiB in 2 rounds"
    assert cost_to_target(LINES, 0.75, rule="weighted").mib == 3


def test_a_target_never_reached_is_said_instead_of_a_number():
    cost = cost_to_target(LINES, 0.9)
    assert (cost.reached, cost.rounds, cost.mib) == (False, None, None)
    assert str(cost) == "not reached: best 0.8000 of 0.9000 in 2 rounds"
    assert is_strict_json(cost)["mib"] is None


def test_costs_refuse_percentages_unknown_rules_and_a_missing_model_size():
    with pytest.raises(InputError, match="85 % is 0.85"):
        cost_to_target(LINES, 85)
    with pytest.raises(InputError, match="did you mean 'weighted'"):
        cost_to_target(LINES, 0.5, rule="weigthed")
    with pytest.raises(InputError, match="did you mean 'paper'"):
        cost_to_target(LINES, 0.5, count="papers")
    with pytest.raises(InputError, match="number of trainable parameters"):
        cost_to_target(LINES, 0.5, count="paper")


def test_participation_counts_shares_and_visits():
    rounds = [line(0, [1, 1]), line(1, [1, 1], participants=[0, 1, 2, 3]), line(2, [1, 1], participants=[2])]
    result = participation(rounds, 4)
    assert (result.least, result.mean, result.most) == (0.25, 0.625, 1.0)
    assert result.visits == (1, 1, 2, 1)
    is_strict_json(result)
    with pytest.raises(InputError, match="number of clients"):
        participation(rounds, 3)


def test_swing_is_the_spread_and_the_largest_fall_of_the_last_rounds():
    result = swing(LINES, last=2)
    assert result.rounds == 2
    assert (result.mean, result.std, result.largest_fall) == pytest.approx((0.725, 0.025, 0.05))
    assert swing(LINES[:2]).largest_fall == 0


def test_drop_repeats_the_subtraction_of_fedcp_table_7():
    result = drop([0.4836], [0.4171])  # pFedMe: the text says it falls by 6.65
    assert 100 * result.drop == pytest.approx(6.65)
    assert drop([0.4, 0.6], [0.5]).full_std == pytest.approx(0.1)


def test_convergence_compares_the_participants_with_the_state_they_started_from():
    lines = [
        {"round": 0, "test": scores([1, 2, 3], [10, 10, 10], [3.0, 2.0, 1.0])},
        {
            "round": 1,
            "test": scores([5, 5, 5], [10, 10, 10], [0.5, 0.5, 0.5]),
            "after": scores([4, None, 8], [10, None, 10], [1.0, None, 0.5]),
        },
        {
            "round": 2,
            "test": scores([5, 5, 5], [10, 10, 10], [0.5, 0.5, 0.5]),
            "after": scores([6, 6, None], [10, 10, None], [0.495, 0.495, None]),
        },
    ]
    result = convergence(lines)
    assert result.rounds == (1, 2)
    assert result.accuracy_before == pytest.approx((0.2, 0.5))  # clients 0 and 2 of round 0
    assert result.accuracy_after == pytest.approx((0.6, 0.6))
    assert result.loss_before == pytest.approx((2.0, 0.5))
    assert result.loss_after == pytest.approx((0.75, 0.495))
    assert result.settled(0.01) == 2
    assert result.settled(0.001) is None
    is_strict_json(result)


def test_a_diverged_loss_is_none_and_never_settled():
    lines = [
        {"round": 0, "test": scores([1], [10], [None])},
        {"round": 1, "test": scores([1], [10]), "after": scores([1], [10])},
    ]
    result = convergence(lines)
    assert result.loss_before == (None,)
    assert result.settled() is None


def test_a_run_without_after_scores_says_what_to_record():
    with pytest.raises(RunError, match="after=true"):
        convergence(LINES)
    with pytest.raises(RunError, match="no 'validation' scores; run it again with validation"):
        scored(LINES, "validation")


def test_timing_leaves_the_initial_model_out():
    lines = [
        {"round": 0, "seconds": 50.0, "seconds_train": 0.0, "seconds_test": 50.0},
        {"round": 1, "seconds": 4.0, "seconds_train": 2.0, "seconds_test": 1.0},
        {"round": 2, "seconds": 2.0, "seconds_train": 1.0, "seconds_test": 1.0},
        {"round": 3, "seconds": 3.0, "seconds_train": 1.5, "seconds_test": 1.0},
    ]
    result = timing(lines)
    assert (result.rounds, result.total, result.mean, result.median, result.slowest) == (3, 9, 3, 3, 4)
    assert (result.train, result.test, result.rest) == (1.5, 1.0, 0.5)
    with pytest.raises(RunError, match="no rounds yet"):
        timing(lines[:1])
