"""Which features matter, how many are idle, and which a client selects (FedPick, Figures 1, 2, 7, 9 and 10)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError

RATIOS = tuple(tenth / 10 for tenth in range(1, 11))


@dataclass(frozen=True)
class Contrast:
    """Mean Fisher score of what was selected and of what was rejected, over features with a finite score."""

    selected: float
    rejected: float
    infinite: int  # features, of either kind, that are constant within every class but differ between classes


@dataclass(frozen=True)
class Probe:
    """Accuracy of a nearest-neighbour classifier on the features with the highest Fisher scores."""

    ratios: tuple[float, ...]
    kept: tuple[int, ...]
    accuracies: tuple[float, ...]
    neighbours: int


@dataclass(frozen=True)
class Redundancy:
    """Sparsity ratio before and after aggregation; a fall means that aggregation made features busier."""

    before: float
    after: float
    change: float


@dataclass(frozen=True)
class Overlap:
    """Overlapped ratio of important features for every pair of domains."""

    matrix: tuple[tuple[float, ...], ...]
    mean: float  # over pairs of different domains


def fisher(features: Tensor, labels: Tensor) -> Tensor:
    """Return the Fisher score of every feature: variance between classes over variance within (Eq. 5 to 7).

    A constant feature scores 0. The variance is used once; the paper calls σ a variance and squares it again.
    """
    if len(features) != len(labels) or not len(labels):
        raise InputError(f"Fisher scores need one label per sample, got {len(labels)} labels for {len(features)}")
    rows = features.double()
    between = torch.zeros(rows.shape[1], dtype=torch.float64)
    within = torch.zeros_like(between)
    for label in set(labels.tolist()):
        members = rows[labels == label]
        between += len(members) * (members.mean(0) - rows.mean(0)).square()
        within += len(members) * members.var(0, correction=0)
    rounding = 1e-24 * rows.square().sum(0)  # what is left of a constant feature after subtracting its mean
    score = torch.where(between <= rounding, 0.0, between / within)
    return torch.where((between > rounding) & (within <= rounding), torch.inf, score)


def contrast(features: Tensor, masks: Tensor, labels: Tensor) -> Contrast:
    """Compare the Fisher scores of z ⊙ m and z ⊙ (1 − m), the two parts a selector makes of the features."""
    kept, left = fisher(features * masks, labels), fisher(features * (1 - masks), labels)
    infinite = int(kept.isinf().sum() + left.isinf().sum())
    return Contrast(_finite_mean(kept), _finite_mean(left), infinite)


def probe(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], ratios: Sequence[float] = RATIOS, neighbours: int = 10
) -> Probe:
    """Keep the top share of features by Fisher score on ``train`` and classify ``test`` by its nearest neighbours.

    ``train`` and ``test`` are (features, labels).
    """
    if len(train[0]) < neighbours:
        raise InputError(f"{neighbours} neighbours need at least {neighbours} training samples, got {len(train[0])}")
    if not all(0 < ratio <= 1 for ratio in ratios):
        raise InputError(f"ratios must lie in (0, 1], got {list(ratios)}")
    from sklearn.neighbors import KNeighborsClassifier

    order = fisher(*train).argsort(descending=True, stable=True)
    kept, scores = [], []
    for ratio in ratios:
        top = order[: max(1, round(ratio * len(order)))]
        model = KNeighborsClassifier(n_neighbors=neighbours)
        model.fit(train[0][:, top].double().numpy(), train[1].numpy())
        kept.append(len(top))
        scores.append(float(model.score(test[0][:, top].double().numpy(), test[1].numpy())))
    return Probe(tuple(ratios), tuple(kept), tuple(scores), neighbours)


def sparsity(features: Tensor, threshold: float = 1e-5) -> float:
    """Return the share of components of the L2-normalised features that are at most ``threshold`` (Eq. 3 and 4)."""
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    return float((unit <= threshold).double().mean())


def redundancy(before: Tensor, after: Tensor, threshold: float = 1e-5) -> Redundancy:
    """Compare the sparsity of the same inputs' features before and after the models were merged."""
    first, second = sparsity(before, threshold), sparsity(after, threshold)
    return Redundancy(first, second, second - first)


def selection_ratio(masks: Tensor) -> float:
    """Return the share of features selected, over all samples (rows) of a client."""
    return float(masks.double().mean())


def important(masks: Tensor, share: float = 0.5) -> frozenset[int]:
    """Return the ``share`` of features selected most often; of equally frequent ones those that come first."""
    if not 0 < share <= 1:
        raise InputError(f"share must lie in (0, 1], got {share}; the paper takes the top 0.5")
    order = masks.double().sum(0).argsort(descending=True, stable=True)
    return frozenset(order[: max(1, round(share * len(order)))].tolist())


def overlapped_ratio(first: frozenset[int], second: frozenset[int]) -> float:
    """Return how many features two domains share over how many either holds important (Jaccard)."""
    return len(first & second) / len(first | second)


def overlaps(masks: Sequence[Tensor], share: float = 0.5) -> Overlap:
    """Compare the important features of every pair of domains, given each domain's masks (samples × features)."""
    if len(masks) < 2:
        raise InputError(f"overlaps compare at least two domains, got {len(masks)}")
    sets = [important(rows, share) for rows in masks]
    matrix = tuple(tuple(overlapped_ratio(one, other) for other in sets) for one in sets)
    pairs = [matrix[i][j] for i in range(len(sets)) for j in range(i)]
    return Overlap(matrix, sum(pairs) / len(pairs))


def _finite_mean(scores: Tensor) -> float:
    finite = scores[scores.isfinite()]
    return float(finite.mean()) if len(finite) else 0.0
