"""How alike, how separated and how spread out representations are (DualFed Figures 4 to 6, GPFL Figure 2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class ClientCKA:
    """Linear CKA between clients' models: row i holds the inputs of client i, column j the model of client j."""

    matrix: tuple[tuple[float, ...], ...]
    mean: float  # over ordered pairs of different clients

    @property
    def one(self) -> bool:
        """Whether all clients see with one and the same network, so that every pair is 1 by construction."""
        return min(min(row) for row in self.matrix) > 1 - 1e-9


def cka(first: Tensor, second: Tensor) -> float:
    """Return linear CKA of two representations (samples × features) of the same inputs (Kornblith et al., 2019)."""
    if len(first) != len(second):
        raise InputError(f"CKA compares representations of the same inputs, got {len(first)} and {len(second)} samples")
    x, y = (_centred(rows) for rows in (first, second))
    samples, features = len(x), max(x.shape[1], y.shape[1])
    if samples < features:  # the same three numbers from samples × samples matrices, which are smaller here
        x, y = x @ x.T, y @ y.T
        shared, own = (x * y).sum(), x.norm() * y.norm()
    else:
        shared, own = (y.T @ x).square().sum(), (x.T @ x).norm() * (y.T @ y).norm()
    return float(shared / own)


def client_cka(represent: Callable[[int, int], Tensor], clients: int) -> ClientCKA:
    """Compare clients' models in pairs: ``represent(model, owner)`` is that model's view of the owner's test inputs."""
    if clients < 2:
        raise InputError(f"client-wise CKA compares at least two clients, got {clients}")
    matrix = np.ones((clients, clients))
    for owner in range(clients):
        own = represent(owner, owner)
        for model in range(clients):
            if model != owner:
                matrix[owner, model] = cka(own, represent(model, owner))
    pairs = matrix[~np.eye(clients, dtype=bool)]
    return ClientCKA(tuple(tuple(row) for row in matrix.tolist()), float(pairs.mean()))


def remarks(found: Mapping[str, ClientCKA]) -> list[str]:
    """Say where CKA says nothing about the clients."""
    return [
        f"{name}: all clients share this part of the network, so CKA is 1 by construction and tells nothing about them"
        for name, own in found.items()
        if own.one
    ]


def separation(features: Tensor, labels: Tensor) -> float:
    """Return class separation R² = 1 − d_within / d_total in cosine distance (Kornblith et al., 2021).

    With U_k the mean of the unit vectors of class k, d_within = 1 − mean ‖U_k‖² and d_total = 1 − ‖mean U_k‖².
    1 means every class has collapsed to a direction of its own; 0 that classes are no tighter than the whole.
    """
    if len(features) != len(labels) or not len(labels):
        raise InputError(f"separation needs one label per sample, got {len(features)} samples and {len(labels)} labels")
    unit = torch.nn.functional.normalize(features.double(), dim=1)
    means = torch.stack([unit[labels == label].mean(0) for label in sorted(set(labels.tolist()))])
    within = 1 - float(means.square().sum(1).mean())
    total = 1 - float(means.mean(0).square().sum())
    return 1 - within / total if total > 1e-12 else 0.0  # one single direction for everything separates nothing


def embed(features: Tensor, seed: int = 0, perplexity: float = 30.0) -> NDArray[np.float32]:
    """Return a t-SNE map (samples × 2) that is the same for the same features and seed."""
    if not 0 < perplexity < len(features):
        raise InputError(f"perplexity must lie between 0 and the number of samples ({len(features)}), got {perplexity}")
    from sklearn.manifold import TSNE

    mapper = TSNE(2, perplexity=perplexity, init="pca", learning_rate="auto", random_state=seed)
    return np.asarray(mapper.fit_transform(features.detach().double().numpy()), dtype=np.float32)


def _centred(rows: Tensor) -> Tensor:
    centred = rows.double() - rows.double().mean(0)
    if float(centred.norm()) <= 1e-12 * max(float(rows.double().norm()), 1e-300):
        raise InputError("CKA is not defined for a representation that is the same for every input")
    return centred
