"""Gradients by nudging: central differences of a loss written in plain numpy and double precision."""

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def arrays(*params: Any) -> Arrays:
    """The leaves of some dicts of tensors as one dict of double-precision arrays."""
    return {k: v.detach().numpy().astype(np.float64) for tree in params for k, v in tree.items()}


def slopes(loss: Callable[[Arrays], float], p: Arrays, names: tuple[str, ...] | None = None, size: float = 1e-5) -> Arrays:
    """The gradient of ``loss`` at ``p`` in every entry of the arrays whose name begins with one of ``names``."""
    found = {}
    for k, v in p.items():
        if k.startswith("~") or (names is not None and not k.startswith(names)):
            continue
        g = np.zeros_like(v)
        for i in np.ndindex(v.shape):
            up, down = v.copy(), v.copy()
            up[i] += size
            down[i] -= size
            g[i] = (loss(p | {k: up}) - loss(p | {k: down})) / (2 * size)
        found[k] = g
    return found


def stepped(
    loss: Callable[[Arrays], float],
    p: Arrays,
    lr: float,
    names: tuple[str, ...] | None = None,
    decay: dict[str, float] | None = None,
) -> Arrays:
    """``p`` after one step downhill; arrays that are not named stay, those in ``decay`` shrink as well."""
    decay = decay or {}
    g = slopes(loss, p, names)
    return {k: v - lr * (g[k] + decay.get(k, 0.0) * v) if k in g else v for k, v in p.items()}


def linear(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def layer_norm(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    middle, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - middle) / np.sqrt(spread + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def batch_norm(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def log_softmax(s: np.ndarray) -> np.ndarray:
    top = s.max(1, keepdims=True)
    return s - top - np.log(np.exp(s - top).sum(1, keepdims=True))


def cross_entropy(s: np.ndarray, y: np.ndarray) -> float:
    return float(-log_softmax(s)[np.arange(len(y)), y].mean())


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
