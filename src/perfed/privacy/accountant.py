"""How much noisy answers give away, added up: Rényi differential privacy of the sampled Gaussian mechanism.

One step takes every sample with chance q, adds up their clipped parts and Gaussian noise of deviation σ times the clip. Its Rényi
divergence of order α is log A(α) / (α − 1), with A the α-th moment of the ratio of two densities (Mironov, Talwar, Zhang 2019):
a finite sum for whole orders, and a one-dimensional integral for the others. Steps add up; the best order gives ε
(Balle et al. 2020, Canonne et al. 2020). Answers that are always given (q = 1) have α / 2σ².
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

# those of opacus and dp-accounting together, and some beyond them for little noise and few steps, or much and many
ORDERS: tuple[float, ...] = (
    *(1 + x / 100 for x in range(1, 10)),
    *(1 + x / 10 for x in range(1, 100)),
    *map(float, range(11, 65)),
    *map(float, (72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 768, 1024)),
)
_WIDE = 14.0  # deviations beyond which a density has nothing left in double precision


@lru_cache(maxsize=4096)
def curve(rate: float, noise: float) -> tuple[float, ...]:
    """Return the Rényi divergence of one step, for every order.

    Args:
        rate: q, the chance of a sample to take part in a step; 1 where everything always does.
        noise: σ, deviation of the noise as a multiple of the clip.

    Returns:
        One number per order of `ORDERS`.

    Raises:
        InputError: If the rate is no chance, or there is no noise.
    """
    if not 0 <= rate <= 1 or not noise > 0:
        raise InputError(f"a step has a rate in [0, 1] and noise above 0, got {rate:g} and {noise:g}")
    if rate == 0:
        return (0.0,) * len(ORDERS)
    if rate == 1:
        return tuple(order / (2 * noise**2) for order in ORDERS)
    return tuple(max(0.0, _moment(rate, noise, order)) / (order - 1) for order in ORDERS)


def epsilon(steps: Iterable[tuple[float, float, int]], delta: float) -> float:
    """Return ε of all steps together.

    Args:
        steps: Rate, noise and number of steps of each kind.
        delta: The chance that the promise fails.

    Returns:
        The least ε over all orders; 0 where there was no step.

    Example:
        >>> from perfed.privacy import epsilon
        >>> round(epsilon([(0.01, 1.0, 1000)], 1e-5), 2)
        2.09
    """
    total = np.zeros(len(ORDERS))
    for rate, noise, count in steps:
        total += count * np.asarray(curve(rate, noise))
    if not total.any():
        return 0.0
    orders = np.asarray(ORDERS)
    found = total + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(found.min()))


def noise_for(target: float, rate: float, steps: int, delta: float) -> float:
    """Return the least noise with which so many steps spend no more than ε = ``target``, to a thousandth.

    Args:
        target: The ε that may be spent.
        rate: The chance of a sample to take part in a step; 1 for answers, each of which is a step.
        steps: How many there will be in all.
        delta: The chance that the promise fails.

    Returns:
        A multiple of the clip, for ``privacy.noise``.

    Example:
        >>> from perfed.privacy import epsilon, noise_for
        >>> 7.9 < epsilon([(1.0, noise_for(8.0, 1.0, 30, 1e-5), 30)], 1e-5) <= 8.0
        True
    """
    low, high = 0.05, 1.0
    while epsilon([(rate, high, steps)], delta) > target:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon([(rate, middle, steps)], delta) > target else (low, middle)
    return high


def _moment(rate: float, noise: float, order: float) -> float:
    """Return log A(α)."""
    return _sum(rate, noise, int(order)) if float(order).is_integer() else _integral(rate, noise, order)


def _sum(rate: float, noise: float, order: int) -> float:
    """Return log Σ_k C(α, k) (1 − q)^(α − k) q^k exp((k² − k) / 2σ²)."""
    k = np.arange(order + 1, dtype=np.float64)
    ways = np.array([math.lgamma(order + 1) - math.lgamma(i + 1) - math.lgamma(order - i + 1) for i in range(order + 1)])
    return _log_sum(ways + (order - k) * math.log1p(-rate) + k * math.log(rate) + (k * k - k) / (2 * noise**2))


def _integral(rate: float, noise: float, order: float) -> float:
    """Return log ∫ N(x; 0, σ²) ((1 − q) + q exp((2x − 1) / 2σ²))^α dx.

    The trapezoid rule on a smooth function that dies out on both sides is exact to rounding.
    """
    low, high = -_WIDE * noise, order + _WIDE * noise
    width = noise / 64
    x = np.arange(low, high + width, width)
    lift = (2 * x - 1) / (2 * noise**2)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + lift)
    density = -(x**2) / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi))
    return _log_sum(density + order * ratio) + math.log(width)


def _log_sum(terms: NDArray[np.float64]) -> float:
    most = float(terms.max())
    return most + math.log(float(np.exp(terms - most).sum()))
