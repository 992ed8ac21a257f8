"""The figures of a run, computed by hand."""

import json

import pytest

from perfed.errors import InputError
from perfed.evaluate.summary import choose, curves, figures, majority, runaway, summarise


def scores(correct, count, loss=None):
    accuracy = [right / n if right is not None and n else None for right, n in zip(correct, count, strict=True)]
    seen = [None if right is None else n for right, n in zip(correct, count, strict=True)]
    return {"count": seen, "accuracy": accuracy, "loss": loss or [0.5] * len(count)}


def line(number, correct, count, validation=None, after=None):
    entry = {"round": number, "test": scores(correct, count)}
    if validation is not None:
        entry["validation"] = scores(validation, [10] * len(validation))
    if after is not None:
        entry["after"] = scores(after, count, [None if c is None else 0.1 for c in after])
    return entry


# Two clients with 10 and 30 test samples; weighted accuracies 0.5, 0.3, 0.75, 0.725 and means 0.5, 0.5, 0.7, 0.65
COUNT = [10, 30]
ROUNDS = [
    line(0, [5, 15], COUNT, [9, 9]),
    line(1, [9, 3], COUNT, [2, 2]),
    line(2, [6, 24], COUNT, [6, 5]),
    line(3, [5, 24], COUNT, [5, 6]),
]


def test_the_figures_of_one_round_by_hand():
    found = figures(scores([9, 3], COUNT))
    # accuracies 0.9 and 0.1: mean 0.5, population deviation 0.4, 12 of 40 correct
    assert found == pytest.approx({"weighted": 0.3, "mean": 0.5, "std": 0.4, "cv": 0.4 / 0.3})


def test_clients_without_samples_or_score_count_nowhere():
    assert figures(scores([9, 0, None], [10, 0, 5])) == {"weighted": 0.9, "mean": 0.9, "std": 0, "cv": 0}
    assert figures(scores([0, None], [0, 5])) is None


def test_nothing_correct_has_no_coefficient_of_variation():
    assert figures(scores([0, 0], [4, 4])) == {"weighted": 0, "mean": 0, "std": 0, "cv": None}


def test_the_three_moments_of_one_seed():
    accuracy = summarise({7: ROUNDS})
    assert accuracy["best"]["seeds"]["7"]["round"] == 2
    assert accuracy["best"]["weighted"] == {"mean": 0.75, "std": 0.0}
    assert accuracy["best"]["mean"]["mean"] == pytest.approx(0.7)
    assert accuracy["best"]["cv"]["mean"] == pytest.approx(0.1 / 0.75)
    assert accuracy["last"]["seeds"]["7"]["weighted"] == 29 / 40
    # rounds 2 and 3 have 11 of 20 validation samples each; the earlier one is taken, and never round 0 with 18
    assert accuracy["validation"]["round"] == {"mean": 2.0, "std": 0.0}


def test_the_average_that_is_reported_chooses_the_best_round():
    rounds = [line(1, [10, 15], COUNT), line(2, [6, 24], COUNT)]  # weighted 0.625, 0.75; mean 0.75, 0.7
    assert summarise({0: rounds})["best"]["seeds"]["0"]["round"] == 2
    assert summarise({0: rounds}, report="mean")["best"]["seeds"]["0"]["round"] == 1


def test_each_clients_own_best_is_optimistic_and_labelled():
    accuracy = summarise({0: ROUNDS}, best="per_client")
    # 9 of 10 in round 1 and 24 of 30 in round 2
    assert accuracy["rule"] == "per_client"
    assert accuracy["best"]["seeds"]["0"] == pytest.approx(
        {"round": None, "weighted": 33 / 40, "mean": 0.85, "std": 0.05, "cv": 0.05 / 0.825}
    )
    assert accuracy["best"]["round"] == {"mean": None, "std": None}
    assert accuracy["last"]["seeds"]["0"]["round"] == 3


def test_over_seeds_the_deviation_is_of_the_population():
    other = [line(1, [10, 30], COUNT, [1, 1])]
    accuracy = summarise({0: ROUNDS, 1: other})
    assert accuracy["best"]["weighted"] == {"mean": 0.875, "std": 0.125}
    assert accuracy["best"]["round"] == {"mean": 1.5, "std": 0.5}


def test_without_validation_data_nothing_is_validated():
    assert summarise({0: ROUNDS, 1: [line(1, [1, 1], COUNT)]})["validation"] is None
    empty = {**line(1, [1, 1], COUNT), "validation": scores([0, 0], [0, 0], [None, None])}
    assert summarise({0: [empty]})["validation"] is None


def test_the_initial_model_is_reported_only_when_alone():
    assert summarise({0: ROUNDS[:1]})["last"]["seeds"]["0"]["round"] == 0


def test_after_training_only_participants_count():
    rounds = [line(0, [5, 5], COUNT), line(1, [5, 5], COUNT, after=[None, 15]), line(2, [5, 5], COUNT, after=[4, None])]
    accuracy = summarise({0: rounds}, series="after")
    assert accuracy["best"]["seeds"]["0"] == {"round": 1, "weighted": 0.5, "mean": 0.5, "std": 0.0, "cv": 0.0}
    assert accuracy["last"]["weighted"]["mean"] == 0.4
    own = summarise({0: rounds}, series="after", best="per_client")["best"]["seeds"]["0"]
    assert own["weighted"] == 19 / 40


def test_the_summary_survives_json():
    accuracy = summarise({0: ROUNDS, 1: ROUNDS})
    assert json.loads(json.dumps(accuracy)) == accuracy


def test_the_majority_class_has_the_same_figures():
    clients = {"majority": {"correct": [9, 3], "count": COUNT}}
    block = majority({0: clients, 1: {"majority": {"correct": [9, 11], "count": COUNT}}})
    assert block["weighted"] == pytest.approx({"mean": 0.4, "std": 0.1})
    assert block["seeds"]["0"]["round"] is None
    assert set(block) == set(summarise({0: ROUNDS})["best"])


def test_curves_begin_with_the_initial_model_and_end_with_the_shortest_seed():
    found = curves({0: ROUNDS, 1: [line(0, [10, 30], COUNT), line(1, [9, 3], COUNT)]})
    assert found["round"] == [0, 1]
    assert found["weighted"] == {"mean": [0.75, 0.3], "std": [0.25, 0.0]}
    assert found["loss"]["mean"] == [0.5, 0.5]


def test_the_loss_is_weighted_by_samples():
    entry = {"round": 1, "test": scores([1, 1], COUNT, [1.0, 0.2])}
    assert curves({0: [entry]})["loss"]["mean"] == [pytest.approx((10 + 6) / 40)]
    entry["test"]["loss"] = [float("nan"), 0.2]
    assert curves({0: [entry]})["loss"]["mean"] == [None]


def test_the_chosen_line_holds_every_client():
    assert choose(ROUNDS, "best")["test"]["accuracy"] == [0.6, 0.8]
    assert choose(ROUNDS[:1] + [line(1, [1, 1], COUNT)], "validation") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"report": "weihgted"}, "did you mean 'weighted'"),
        ({"best": "client"}, "did you mean 'per_client'"),
        ({"series": "after"}, "no round with scores under 'after'"),
    ],
)
def test_wrong_options_are_explained(options, message):
    with pytest.raises(InputError, match=message):
        summarise({0: ROUNDS}, **options)


def test_no_seeds_are_no_summary():
    with pytest.raises(InputError, match="at least one seed"):
        summarise({})


def with_losses(*losses):
    """Rounds 0, 1, … of two clients with 10 and 30 samples."""
    return [{"round": n, "test": scores([5, 15], COUNT, list(own))} for n, own in enumerate(losses)]


def test_a_run_that_ends_out_of_reach_says_since_when():
    # mean losses: 2, then 20 (exactly ten times, still counted in) or 20.5 (over it)
    assert runaway(with_losses((2, 2), (1, 1))) is None
    assert runaway(with_losses((2, 2), (20, 20))) is None
    assert runaway(with_losses((2, 2), (1, 1), (1, 27), (22, 20))) == 2
    assert runaway(with_losses((2, 2), (None, 1), (None, None))) == 1
    assert runaway(with_losses((2, 2), (None, 1), (1, 1))) is None  # it came back
    assert runaway(with_losses((2, 2), (1, 1), (1, None))) == 2


def test_a_curve_has_no_loss_where_a_client_has_none():
    assert curves({0: with_losses((2, 2), (1, 3), (1, None))})["loss"]["mean"] == [2.0, 2.5, None]


def test_clients_without_samples_or_score_do_not_run_away():
    lines = [{"round": 1, "test": scores([5, 0, None], [10, 0, 4], [1.0, None, None])}]
    assert runaway(lines) is None
    assert runaway([]) is None
