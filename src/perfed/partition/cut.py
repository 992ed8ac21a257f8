"""How a client's own samples are cut into training, validation and test parts."""

import math

import numpy as np

from ..errors import InputError
from .owned import Owned
from .split import Indices


def check_fractions(validation: float, test: float) -> None:
    """Refuse fractions that leave nothing to train on."""
    for name, value in (("validation", validation), ("test", test)):
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise InputError(f"{name} must be from 0 to below 1, got {value!r}; 0.25 is a quarter of each client's samples")
    if validation + test >= 1:
        raise InputError(f"validation={validation:g} and test={test:g} leave nothing to train on; keep their sum below 1")


def part_sizes(samples: int, validation: float, test: float) -> tuple[int, int, int]:
    """Return how many of ``samples`` go to train, validation and test.

    A part that was asked for gets at least one sample where there are enough: first train, then test, then validation.
    """
    held = _rounded(samples * test, test > 0 and samples >= 2)
    wanted = 2 + (test > 0)
    checked = _rounded(samples * validation, validation > 0 and samples >= wanted)
    checked = min(checked, max(0, samples - held - 1))
    return samples - checked - held, checked, held


def _rounded(share: float, forced: bool) -> int:
    return max(int(forced), math.floor(share + 0.5))


Parts = tuple[list[Indices], list[Indices], list[Indices]]


def cut(owned: Owned, validation: float, test: float, rng: np.random.Generator) -> Parts:
    """Return every client's training, validation and test samples, cutting at random what the partition left whole."""
    if owned.test is not None and owned.validation is not None:
        return owned.train, owned.validation, owned.test
    train, checks, tests = [], [], []
    for client, pool in enumerate(owned.train):
        fraction = test if owned.test is None else 0.0
        _, checked, held = part_sizes(len(pool), validation, fraction)
        order = rng.permutation(pool)
        tests.append(np.sort(order[:held]) if owned.test is None else owned.test[client])
        checks.append(np.sort(order[held : held + checked]))
        train.append(np.sort(order[held + checked :]))
    return train, checks, tests
