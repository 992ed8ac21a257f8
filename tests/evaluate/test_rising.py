"""Curves that still rise are told from curves that are flat or only noisy."""

import numpy as np
import pytest

from perfed.evaluate.rising import rising


def lines(curve, validation=None):
    found = [{"round": number, "test": score(value)} for number, value in enumerate(curve)]
    for line, value in zip(found, validation if validation is not None else [], strict=False):
        line["validation"] = score(value)
    return found


def score(value):
    return {"count": [1000], "accuracy": [value], "loss": [0.1]}


def noise(seed, rounds, size=0.01):
    return np.random.default_rng(seed).normal(0, size, rounds)


def test_a_line_that_climbs_still_rises_by_its_slope():
    found = rising({0: lines(0.1 + 0.004 * np.arange(101))})
    assert found.rise == pytest.approx(0.04)  # ten rounds of 0.4 points each
    assert (found.tests, found.curve) == (10, "test")


def test_a_flat_line_does_not():
    assert rising({0: lines([0.8] * 101)}) is None
    assert rising({0: lines(0.9 - 0.002 * np.arange(101))}) is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_rise_unless_by_rare_chance(seed):
    found = rising({s: lines(0.8 + noise(100 * seed + s, 201)) for s in range(3)})
    assert found is None or found.rise < 0.01


def test_a_rise_below_a_tenth_of_a_point_is_nobodys_concern():
    assert rising({0: lines(0.8 + 0.00001 * np.arange(501))}) is None


def test_a_rise_in_noise_is_found_with_more_seeds():
    climb = 0.5 + 0.0006 * np.arange(101)  # 0.6 points from a tenth to the next
    many = {seed: lines(climb + noise(seed, 101)) for seed in range(30)}
    assert rising(many).rise == pytest.approx(0.006, abs=0.003)


def test_validation_data_decide_where_there_are_any():
    climb, flat = 0.1 + 0.004 * np.arange(101), [0.8] * 101
    assert rising({0: lines(climb, flat)}) is None
    assert rising({0: lines(flat, climb)}).curve == "validation"


def test_short_runs_say_nothing_and_the_start_is_no_part_of_the_curve():
    assert rising({0: lines([0.0, 0.5, 0.6, 0.7, 0.8, 0.9])}) is None  # five tests after the start
    assert rising({0: lines([0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])}).rise == pytest.approx(0.3)
    assert rising({}) is None
