"""Which parameters are sensitive, and whether sharing them follows the data (FedCAC, Figure 1 and Eq. 5 to 8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

Leaves = Mapping[str, Tensor]


@dataclass(frozen=True)
class Likeness:
    """Overlap of critical parameters beside similarity of labels, and how well one tells the other."""

    overlap: tuple[tuple[float, ...], ...]
    similarity: tuple[tuple[float, ...], ...]
    correlation: float | None  # Pearson's, over ordered pairs of different clients; None if either is constant


@dataclass(frozen=True)
class Angles:
    """Angles in degrees between clients' updates in one round."""

    matrix: tuple[tuple[float, ...], ...]
    mean: float  # over pairs of different clients


def sensitivity(before: Leaves, after: Leaves) -> dict[str, Tensor]:
    """Return |Δθ · θ| of every parameter, with θ after local training (Eq. 5); running statistics have none."""
    return {name: ((after[name] - before[name]) * after[name]).abs() for name in _parameters(after)}


def overlap(masks: Sequence[Leaves]) -> Tensor:
    """Return O with O_ij = 1 − ‖M_i − M_j‖₁ / (2 ‖M_i‖₁): for masks of equal size, the share both hold critical.

    The paper prints the distance without "1 −" and over all parameters; taken literally, it would choose the clients
    that are least alike.
    """
    flat = torch.stack([_flat(mask) for mask in masks])
    sizes = flat.sum(1)
    distance = sizes[:, None] + sizes[None, :] - 2 * flat @ flat.T
    return torch.where(sizes[:, None] > 0, 1 - distance / (2 * sizes[:, None]).clamp(min=1), 0.0)


def label_similarity(counts: Sequence[Sequence[int]] | NDArray[np.int64]) -> Tensor:
    """Return for every pair of clients how much of their label distributions they share (1 − total variation)."""
    table = torch.as_tensor(np.asarray(counts), dtype=torch.float64)
    shares = table / table.sum(1, keepdim=True)
    return torch.minimum(shares[:, None], shares[None]).sum(2)


def likeness(masks: Sequence[Leaves], counts: Sequence[Sequence[int]] | NDArray[np.int64]) -> Likeness:
    """Set the overlap of clients' masks beside the similarity of their labels."""
    if len(masks) != len(counts) or len(masks) < 2:
        raise InputError(f"likeness needs masks and labels of the same clients, got {len(masks)} and {len(counts)}")
    shared, similar = overlap(masks), label_similarity(counts)
    pairs = ~torch.eye(len(masks), dtype=torch.bool)
    return Likeness(_rows(shared), _rows(similar), _correlation(shared[pairs], similar[pairs]))


def collaborators(shared: Tensor, number: int, narrowing: int) -> tuple[tuple[int, ...], ...]:
    """Return with whom each client shares its critical parameters in round ``number`` (Eq. 8).

    The threshold rises from the mean overlap to the largest one over ``narrowing`` (β) rounds; later nobody shares.
    """
    clients = len(shared)
    if narrowing < 1 or number < 1 or clients < 2:
        raise InputError(f"round {number}, narrowing {narrowing}, clients {clients}: must be at least 1, 1 and 2")
    if number > narrowing:
        return ((),) * clients
    pairs = shared[~torch.eye(clients, dtype=torch.bool)].double()
    mean, most = float(pairs.mean()), float(pairs.max())
    threshold = mean + number / narrowing * (most - mean) - 1e-9  # rounding must not lose the closest pair
    return tuple(
        tuple(other for other in range(clients) if other != client and float(shared[client, other]) >= threshold)
        for client in range(clients)
    )


def collaborators_per_round(shared: Mapping[int, Tensor], narrowing: int) -> dict[int, tuple[int, ...]]:
    """Count each client's collaborators in every recorded round."""
    return {number: tuple(len(team) for team in collaborators(shared[number], number, narrowing)) for number in sorted(shared)}


def angle(first: Leaves, second: Leaves) -> float:
    """Return the angle between two updates in degrees: 0 the same way, 90 unrelated, 180 against each other."""
    one, other = _flat(first), _flat(second)
    lengths = float(one.norm()), float(other.norm())
    if not all(lengths):
        raise InputError("an update of length zero has no direction")
    # half-angle form: exact for nearly parallel updates, where the arc cosine loses half the digits
    one, other = one / lengths[0], other / lengths[1]
    return float(torch.rad2deg(2 * torch.atan2((one - other).norm(), (one + other).norm())))


def angles(updates: Sequence[Leaves]) -> Angles:
    """Return the angles between all clients' updates of one round."""
    if len(updates) < 2:
        raise InputError(f"angles need the updates of at least two clients, got {len(updates)}")
    matrix = np.zeros((len(updates), len(updates)))
    for i, one in enumerate(updates):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = angle(one, updates[j])
    pairs = matrix[~np.eye(len(updates), dtype=bool)]
    return Angles(tuple(tuple(row) for row in matrix.tolist()), float(pairs.mean()))


def _parameters(leaves: Leaves) -> list[str]:
    return [name for name in sorted(leaves) if not name.startswith("~")]  # "~" marks running statistics


def _flat(leaves: Leaves) -> Tensor:
    return torch.cat([leaves[name].double().flatten() for name in _parameters(leaves)])


def _rows(matrix: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


def _correlation(first: Tensor, second: Tensor) -> float | None:
    if float(first.std(correction=0)) < 1e-12 or float(second.std(correction=0)) < 1e-12:
        return None
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1])
