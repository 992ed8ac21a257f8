"""Losses of single samples, and what methods add to them: distances between features, predictions and parameters."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import trees
from ..trees import Tree
from .shard import Batch

WIDTHS = (10.0, 15.0, 20.0, 50.0)  # variances of the kernels in the FedCP family


def proximal(w: Tree, anchor: Tree) -> Tensor:
    """Return half the squared distance of two sets of parameters, running state left out.

    A method that holds what it trains near something gives `descend` a ``spring`` instead, which costs less.
    """
    return 0.5 * trees.square_distance(_weights(w), _weights(anchor))


def _weights(tree: Tree) -> tuple[Tensor, ...]:
    return tuple(x for path, x in trees.named(tree) if not trees.is_state(path))


def mmd(a: Tensor, b: Tensor, batch: Batch, widths: tuple[float | Tensor, ...] = WIDTHS) -> Tensor:
    """Return the squared maximum mean discrepancy of two clouds: a V-statistic over all ordered pairs."""
    gap = (_kernels(a, a, widths) + _kernels(b, b, widths)) - 2 * _kernels(a, b, widths)
    if batch.mask is None:
        return gap.mean()
    pair = batch.mask[:, None] * batch.mask[None, :]
    return (gap * pair).sum() / pair.sum().clamp(min=1)


def _kernels(a: Tensor, b: Tensor, widths: tuple[float | Tensor, ...]) -> Tensor:
    square = (a[:, None] - b[None, :]).square().sum(-1)
    return torch.stack([torch.exp(-square / (2 * w)) for w in widths]).sum(0)


def mmd_scaled(a: Tensor, b: Tensor, batch: Batch, kernels: int = 5) -> Tensor:
    """Return the discrepancy of two clouds under kernels as wide as their points are apart, halved and doubled."""
    both = torch.cat([a, b]).detach()
    real = torch.ones_like(both[:, 0]) if batch.mask is None else batch.mask.repeat(2)
    square = (both[:, None] - both[None, :]).square().sum(-1) * real[:, None] * real[None, :]
    count = real.sum()
    spread = square.sum() / (count * (count - 1)).clamp(min=1) + 1e-8
    return mmd(a, b, batch, tuple(spread * 2.0 ** (i - kernels // 2) / 2 for i in range(kernels)))


def cross_entropy_each(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's cross-entropy; under vmap torch's own would be taken apart in Python at every call."""
    return -logits.log_softmax(1).gather(1, y[:, None])[:, 0]


def binary_each(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's binary cross-entropy, averaged over its labels."""
    return (F.softplus(logits) - logits * y).mean(1)


def squared_each(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's squared error."""
    return (logits[:, 0] - y).square()


def absolute_each(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's absolute error."""
    return (logits[:, 0] - y).abs()


def huber_each(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's error, squared and halved up to 1, straight beyond."""
    off = absolute_each(logits, y)
    return torch.where(off < 1, 0.5 * off.square(), off - 0.5)


def cox_each(logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return each sample's part of Cox's negative partial log-likelihood over these samples: zero where no event was seen.

    At risk with a sample are those whose time is not before its own (Breslow's way with ties). The mean over the batch is per
    event: parts are scaled by samples over events.
    """
    risk, time, event = logits[:, 0], y[:, 0], y[:, 1]
    there = torch.ones_like(risk) if mask is None else (mask > 0).to(risk.dtype)
    at_risk = (time[None, :] >= time[:, None]) & (there[None, :] > 0)
    total = risk[None, :].masked_fill(~at_risk, -torch.inf).logsumexp(1)
    parts = torch.where(event * there > 0, total - risk, torch.zeros_like(risk))
    return parts * there.sum() / (event * there).sum().clamp(min=1)


def balanced(logits: Tensor, counts: Tensor, batch: Batch) -> Tensor:
    """Return the balanced-softmax cross-entropy; a class the client lacks is left out of the denominator."""
    prior = torch.where(counts > 0, counts, 1.0).log() + torch.where(counts > 0, 0.0, -torch.inf)
    return batch.mean(cross_entropy_each(logits + prior, batch.y))


def supervised_contrast(u: Tensor, batch: Batch, temperature: float) -> Tensor:
    """Return the supervised contrastive loss of one view; anchors without a partner count as zero."""
    u = F.normalize(u, dim=1)
    other = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
    if batch.mask is not None:
        other = other & (batch.mask > 0)[None, :]
    sim = (u @ u.T / temperature).masked_fill(~other, -1e9)
    alike = other & (batch.y[:, None] == batch.y[None, :])
    chance = (sim - torch.logsumexp(sim, 1, keepdim=True)).masked_fill(~alike, 0.0)
    return batch.mean(-chance.sum(1) / (alike.sum(1) + 1e-6))


def divergence(p: Tensor, q: Tensor, batch: Batch) -> Tensor:
    """Return KL(p ‖ q) of two rows of logits, averaged over the batch."""
    p, q = F.log_softmax(p, 1), F.log_softmax(q, 1)
    return batch.mean((p.exp() * (p - q)).sum(1))


def negative_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Return Σ q log q of softmax outputs, averaged over the batch."""
    q = F.log_softmax(logits, 1)
    return batch.mean((q.exp() * q).sum(1))


def paired_discrepancy(a: Tensor, b: Tensor, batch: Batch, widths: tuple[float, ...] = WIDTHS) -> Tensor:
    """Return how unlike paired rows are under the kernels, averaged over the batch; zero where they are equal."""
    square = (a - b).square().sum(-1)
    like = torch.stack([torch.exp(-square / (2 * w)) for w in widths]).sum(0)
    return batch.mean(2 * len(widths) - 2 * like)


def pooled(a: Tensor, b: Tensor) -> Tensor:
    """Return the logarithm of the mean of two rows of probabilities, given as logits."""
    return torch.logaddexp(F.log_softmax(a, 1), F.log_softmax(b, 1)) - math.log(2)
