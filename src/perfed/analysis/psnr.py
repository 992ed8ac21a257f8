"""How close a recovered picture is to the original: peak signal-to-noise ratio in decibels."""

from math import log10

import numpy as np
from torch import Tensor

from ..errors import InputError, suggest

CEILING = 100.0  # dB; an exact copy would be infinite, and nobody sees a difference this far up
COUNTINGS = ("pfllib", "range")


def psnr(truth: Tensor, guess: Tensor, data_range: float = 1.0) -> float:
    """Return 10 log₁₀(data_range² / mse) of one picture; ``data_range`` is the largest possible minus the smallest."""
    if data_range <= 0:
        raise InputError(f"data_range must be positive, got {data_range}; it is 1 for pixels in [0, 1], 2 for [-1, 1]")
    return _decibels(data_range**2, _error(truth, guess))


def batch_psnr(truth: Tensor, guess: Tensor, data_range: float = 1.0) -> float:
    """Return the mean PSNR of a batch, with guesses paired to originals so that the total error is least.

    A gradient is the same for any order of the batch, so the order of what is recovered means nothing.
    """
    from scipy.optimize import linear_sum_assignment

    errors = np.array([[_error(one, other) for other in guess] for one in truth])
    rows, columns = linear_sum_assignment(errors)
    pairs = zip(rows, columns, strict=True)
    return float(np.mean([psnr(truth[row], guess[column], data_range) for row, column in pairs]))


def pfllib_psnr(truth: Tensor, guess: Tensor) -> float:
    """Return PSNR as FedCP Table 9 and GPFL Table 5 were counted: 20 log₁₀(1 / √(mse / 3)) over the whole batch.

    The 3 adds 4.77 dB, pixels in [-1, 1] are held against a range of 1, and batches are compared in the order given.
    """
    return _decibels(3.0, _error(truth, guess))


def measure(truth: Tensor, guess: Tensor, counting: str = "range", data_range: float = 1.0) -> float:
    """Return the PSNR of a batch by the counting ``range`` (correct) or ``pfllib`` (for comparison with the papers)."""
    if counting not in COUNTINGS:
        raise suggest("PSNR counting", counting, COUNTINGS)
    return pfllib_psnr(truth, guess) if counting == "pfllib" else batch_psnr(truth, guess, data_range)


def _error(truth: Tensor, guess: Tensor) -> float:
    if truth.shape != guess.shape:
        raise InputError(f"PSNR compares pictures of one shape, got {tuple(truth.shape)} and {tuple(guess.shape)}")
    return float((truth.double() - guess.double()).square().mean())


def _decibels(power: float, error: float) -> float:
    return min(10 * log10(power / error), CEILING) if error > 0 else CEILING
