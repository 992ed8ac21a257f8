"""Images from gradients: the two searches behind the attack, and the gradients they match."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError

Leaves = Mapping[str, Tensor]
Network = Callable[[dict[str, Tensor], Tensor], Tensor]  # parameters and images in, outputs out
Mismatch = Callable[[Sequence[Tensor], Tensor, float], Tensor]  # of a gradient, images, and how far the search is
Gradients = Callable[..., Sequence[Tensor]]  # of dummy images and, if these are unknown, dummy outputs

SMOOTHNESS = 0.01  # weight of the total variation at the start
NEAR = 2e-3  # mismatch below which the search by signs begins no second time
STARTS = 2  # of the search by signs
EDGE = 1e-4  # how near black and white a search may begin: at the very edge it has no slope


@dataclass(frozen=True)
class Recovery:
    """What an inversion found; ``mismatch`` is 0 for pictures that explain the update fully."""

    images: Tensor
    mismatch: float
    seed: int
    outputs: Tensor | None = None  # what the network made of them, where that was searched for too


def label_gradient(
    network: Network, at: Leaves, labels: Tensor, precision: torch.dtype = torch.float64, among: Collection[str] | None = None
) -> Gradients:
    """Return the gradient of the cross-entropy as a function of images, for an attacker who knows the labels.

    ``among`` names the leaves whose gradient is known; the others take part as they are.
    """
    weights, rest = _weights(at, precision, among)

    def gradient(images: Tensor) -> Sequence[Tensor]:
        return _slopes(functional.cross_entropy(network(weights | rest, images), labels), weights)

    return gradient


def output_gradient(
    network: Network, at: Leaves, precision: torch.dtype = torch.float64, among: Collection[str] | None = None
) -> Gradients:
    """Return the gradient of the squared error to dummy outputs (GPFL, Eq. 12), for logits or features alike.

    The dummy outputs are free, so this covers every loss and every unknown head behind the network.
    """
    weights, rest = _weights(at, precision, among)

    def gradient(images: Tensor, outputs: Tensor) -> Sequence[Tensor]:
        return _slopes(functional.mse_loss(network(weights | rest, images), outputs), weights)

    return gradient


def _slopes(loss: Tensor, weights: dict[str, Tensor]) -> Sequence[Tensor]:
    """Return the slope of every weight; zero for one that the loss does not pass through."""
    found: Sequence[Tensor] = torch.autograd.grad(
        loss, list(weights.values()), create_graph=True, allow_unused=True, materialize_grads=True
    )
    return found


def invert(
    gradient_of: Gradients,
    target: Sequence[Tensor],
    shape: Sequence[int],
    steps: int = 300,
    seed: int = 0,
    *,
    outputs: Sequence[int] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Recovery:
    """Find images whose gradient is ``target``, by L-BFGS on the squared difference (DLG; Zhu et al., 2019).

    ``outputs`` is the shape of dummy outputs to find along with the images. Works well on smooth networks.
    """
    scale = _power(target)

    def mismatch(gradient: Sequence[Tensor], _images: Tensor, _progress: float) -> Tensor:
        return _power([one - other for one, other in zip(gradient, target, strict=True)]) / scale

    search = _Search(gradient_of, mismatch, target, shape, outputs, seed, bounds)
    search.descend(steps)
    return search.found()


def invert_by_direction(
    gradient_of: Gradients,
    target: Sequence[Tensor],
    shape: Sequence[int],
    steps: int = 800,
    seed: int = 0,
    *,
    outputs: Sequence[int] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Recovery:
    """Find images whose gradient points along ``target``, by Adam with a total-variation prior that fades out.

    After Geiping et al. (2020). Slower than ``invert``, but it copes with ReLU and max-pooling, and with a target of
    unknown length.
    """
    search = _Search(gradient_of, _apart(target, bounds), target, shape, outputs, seed, bounds)
    search.follow(steps)
    return search.found()


def invert_by_signs(
    gradient_of: Gradients,
    target: Sequence[Tensor],
    shape: Sequence[int],
    steps: int = 800,
    seed: int = 0,
    *,
    outputs: Sequence[int] | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Recovery:
    """Find images as ``invert_by_direction`` does, but by the signs of the slopes and on the pixels themselves.

    Slopes of a deep network with max-pooling differ by orders of magnitude from pixel to pixel; their signs do not. A second
    start is made where the first does not explain the target.
    """
    found: list[Recovery] = []
    for start in range(STARTS):
        search = _Pixels(gradient_of, _apart(target, bounds), target, shape, outputs, seed + 1000 * start, bounds)
        search.follow(steps)
        found.append(search.found())
        if found[-1].mismatch < NEAR:
            break
    return min(found, key=lambda recovery: recovery.mismatch)


def polished(
    gradient_of: Gradients, target: Sequence[Tensor], found: Recovery, steps: int, bounds: tuple[float, float] = (0.0, 1.0)
) -> Recovery:
    """Go on from what was found, by L-BFGS on the direction alone, without a prior: what is nearly right becomes exact."""
    length = _power(target).sqrt()

    def mismatch(gradient: Sequence[Tensor], _images: Tensor, _progress: float) -> Tensor:
        return 1 - _cosine(gradient, target, length)

    outputs = None if found.outputs is None else found.outputs.shape
    search = _Search(gradient_of, mismatch, target, found.images.shape, outputs, found.seed, bounds)
    low, high = bounds
    with torch.no_grad():
        shares = ((found.images.to(search.dummies[0]) - low) / (high - low)).clamp(EDGE, 1 - EDGE)
        search.dummies[0].copy_(shares.logit())
        if found.outputs is not None:
            search.dummies[1].copy_(found.outputs)
    search.descend(steps)
    return search.found()


def _cosine(gradient: Sequence[Tensor], target: Sequence[Tensor], length: Tensor) -> Tensor:
    product = sum(((one * other).sum() for one, other in zip(gradient, target, strict=True)), length.new_zeros(()))
    return product / (length * _power(gradient).sqrt()).clamp(min=1e-30)


def _apart(target: Sequence[Tensor], bounds: tuple[float, float]) -> Mismatch:
    """Return how far a gradient points from the target, with a prior for smooth images that fades out."""
    length = _power(target).sqrt()

    def mismatch(gradient: Sequence[Tensor], images: Tensor, progress: float) -> Tensor:
        cosine = _cosine(gradient, target, length)
        return 1 - cosine + SMOOTHNESS * (1 - progress) * _variation(images) / (bounds[1] - bounds[0])

    return mismatch


class _Search:
    """Dummy images and outputs, the mismatch they reach, and the best of them so far."""

    scale, reach, least = 1.0, 0.15, 1e-3  # of Adam's steps: twice the reach at first, the least at the end

    def __init__(
        self,
        gradient_of: Gradients,
        mismatch: Mismatch,
        target: Sequence[Tensor],
        shape: Sequence[int],
        outputs: Sequence[int] | None,
        seed: int,
        bounds: tuple[float, float],
    ) -> None:
        if not float(_power(target)) > 0:
            raise InputError("the update is zero or not finite everywhere, so there is nothing to invert")
        if bounds[0] >= bounds[1]:
            raise InputError(f"bounds must be the smallest and the largest pixel, got {bounds}")
        generator, dtype, place = torch.Generator().manual_seed(seed), target[0].dtype, target[0].device
        shapes = [shape] if outputs is None else [shape, outputs]
        drawn = [torch.randn(tuple(size), generator=generator, dtype=dtype) for size in shapes]
        self.dummies = [dummy.to(place).requires_grad_() for dummy in drawn]
        self.gradient_of, self.mismatch, self.seed, self.bounds = gradient_of, mismatch, seed, bounds
        self.progress, self.best, self.images = 0.0, math.inf, self._images().detach()
        self.outputs: Tensor | None = self.dummies[1].detach().clone() if outputs is not None else None

    def _images(self) -> Tensor:
        low, high = self.bounds
        return low + (high - low) * self.dummies[0].sigmoid()

    def step(self) -> float:
        """Set the dummies' gradients and remember the images if they are the best so far."""
        images = self._images()
        value = self.mismatch(self.gradient_of(images, *self.dummies[1:]), images, self.progress)
        for dummy, slope in zip(self.dummies, torch.autograd.grad(value, self.dummies), strict=True):
            dummy.grad = slope
        reached = float(value.detach())
        if reached < self.best:
            self.best, self.images = reached, images.detach()
            self.outputs = self.dummies[1].detach().clone() if len(self.dummies) > 1 else None
        return reached

    def descend(self, steps: int) -> None:
        """Follow the mismatch by L-BFGS."""
        if steps < 1:
            self.step()
            return
        optimiser = torch.optim.LBFGS(
            self.dummies,
            max_iter=steps,
            history_size=50,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-14,
            tolerance_change=1e-16,
        )
        optimiser.step(self.step)  # type: ignore[no-untyped-call]

    def follow(self, steps: int) -> None:
        """Follow the mismatch by Adam, with steps that become smaller."""
        optimiser = torch.optim.Adam(self.dummies)
        for number in range(steps):
            self.progress = number / max(steps - 1, 1)
            for group in optimiser.param_groups:
                group["lr"] = self.scale * (self.reach * (1 + math.cos(math.pi * self.progress)) + self.least)
            self.step()
            self._move(optimiser)

    def _move(self, optimiser: torch.optim.Optimizer) -> None:
        optimiser.step()

    def found(self) -> Recovery:
        return Recovery(self.images.float(), self.best, self.seed, self.outputs)


class _Pixels(_Search):
    """A search on the pixels themselves, begun anywhere between their bounds, by the signs of their slopes."""

    reach, least = 0.05, 1e-4

    def _images(self) -> Tensor:
        return self.dummies[0].clone()

    def follow(self, steps: int) -> None:
        (low, high), images = self.bounds, self.dummies[0]
        self.scale = high - low
        with torch.no_grad():
            images.copy_(low + (high - low) * torch.special.ndtr(images))
        super().follow(steps)

    def _move(self, optimiser: torch.optim.Optimizer) -> None:
        images = self.dummies[0]
        assert images.grad is not None
        images.grad.sign_()
        optimiser.step()
        with torch.no_grad():
            images.clamp_(*self.bounds)


def matched(at: Leaves, among: Collection[str] | None = None) -> list[str]:
    """Return the leaves whose gradient is matched: running statistics ("~") have none, and some are known to nobody."""
    return [name for name in at if not name.startswith("~") and (among is None or name in among)]


def _weights(at: Leaves, precision: torch.dtype, among: Collection[str] | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return parameters to take gradients of, and what only takes part."""
    leaves = {name: leaf.detach().clone().to(precision) for name, leaf in at.items()}
    weights = {name: leaves[name].requires_grad_() for name in matched(at, among)}
    return weights, {name: leaf for name, leaf in leaves.items() if name not in weights}


def _power(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([tensor.square().sum() for tensor in tensors]).sum()


def _variation(images: Tensor) -> Tensor:
    across = (images[..., 1:] - images[..., :-1]).abs().mean()
    return across + (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
