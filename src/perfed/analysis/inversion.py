"""Images from gradients: the two searches behind the attack, and the gradients they match."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError

Leaves = Mapping[str, Tensor]
Network = Callable[[dict[str, Tensor], Tensor], Tensor]  # parameters and images in, outputs out
Gradients = Callable[..., Sequence[Tensor]]  # of dummy images and, if these are unknown, dummy outputs

SMOOTHNESS = 0.01  # weight of the total variation at the start


@dataclass(frozen=True)
class Recovery:
    """What an inversion found; ``mismatch`` is 0 for pictures that explain the update fully."""

    images: Tensor
    mismatch: float
    seed: int


def label_gradient(network: Network, at: Leaves, labels: Tensor, precision: torch.dtype = torch.float64) -> Gradients:
    """Return the gradient of the cross-entropy as a function of images, for an attacker who knows the labels."""
    weights, rest = _weights(at, precision)

    def gradient(images: Tensor) -> Sequence[Tensor]:
        loss = functional.cross_entropy(network(weights | rest, images), labels)
        return torch.autograd.grad(loss, list(weights.values()), create_graph=True)

    return gradient


def output_gradient(network: Network, at: Leaves, precision: torch.dtype = torch.float64) -> Gradients:
    """Return the gradient of the squared error to dummy outputs (GPFL, Eq. 12), for logits or features alike.

    The dummy outputs are free, so this covers every loss and every unknown head behind the network.
    """
    weights, rest = _weights(at, precision)

    def gradient(images: Tensor, outputs: Tensor) -> Sequence[Tensor]:
        loss = functional.mse_loss(network(weights | rest, images), outputs)
        return torch.autograd.grad(loss, list(weights.values()), create_graph=True)

    return gradient


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
    optimiser = torch.optim.LBFGS(
        search.dummies,
        max_iter=steps,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-14,
        tolerance_change=1e-16,
    )
    optimiser.step(search.step)  # type: ignore[no-untyped-call]
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
    length = _power(target).sqrt()

    def mismatch(gradient: Sequence[Tensor], images: Tensor, progress: float) -> Tensor:
        product = sum(((one * other).sum() for one, other in zip(gradient, target, strict=True)), length.new_zeros(()))
        cosine = product / (length * _power(gradient).sqrt()).clamp(min=1e-30)
        return 1 - cosine + SMOOTHNESS * (1 - progress) * _variation(images) / (bounds[1] - bounds[0])

    search = _Search(gradient_of, mismatch, target, shape, outputs, seed, bounds)
    optimiser = torch.optim.Adam(search.dummies)
    for number in range(steps):
        search.progress = number / max(steps - 1, 1)
        for group in optimiser.param_groups:
            group["lr"] = 0.15 * (1 + math.cos(math.pi * search.progress)) + 1e-3
        search.step()
        optimiser.step()
    return search.found()


class _Search:
    """Dummy images and outputs, the mismatch they reach, and the best of them so far."""

    def __init__(
        self,
        gradient_of: Gradients,
        mismatch: Callable[[Sequence[Tensor], Tensor, float], Tensor],
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
        generator, dtype = torch.Generator().manual_seed(seed), target[0].dtype
        shapes = [shape] if outputs is None else [shape, outputs]
        self.dummies = [torch.randn(tuple(size), generator=generator, dtype=dtype).requires_grad_() for size in shapes]
        self.gradient_of, self.mismatch, self.seed, self.bounds = gradient_of, mismatch, seed, bounds
        self.progress, self.best, self.images = 0.0, math.inf, self._images().detach()

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
        return reached

    def found(self) -> Recovery:
        return Recovery(self.images.float(), self.best, self.seed)


def _weights(at: Leaves, precision: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return parameters to take gradients of, and running statistics ("~") that only take part."""
    leaves = {name: leaf.detach().to(precision) for name, leaf in at.items()}
    weights = {name: leaf.requires_grad_() for name, leaf in leaves.items() if not name.startswith("~")}
    return weights, {name: leaf for name, leaf in leaves.items() if name.startswith("~")}


def _power(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([tensor.square().sum() for tensor in tensors]).sum()


def _variation(images: Tensor) -> Tensor:
    across = (images[..., 1:] - images[..., :-1]).abs().mean()
    return across + (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
