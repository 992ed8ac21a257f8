"""Gradient inversion: what a curious server can see in an upload (FedCP Table 9, GPFL Table 5)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError, suggest
from .inversion import (
    Gradients,
    Leaves,
    Network,
    Recovery,
    invert,
    invert_by_direction,
    invert_by_signs,
    label_gradient,
    matched,
    output_gradient,
    polished,
)
from .psnr import measure

# Near its solution L-BFGS compares gradients closer than float32 resolves; Adam does not need the extra digits.
ATTACKS: dict[str, tuple[Callable[..., Recovery], torch.dtype]] = {
    "direction": (invert_by_direction, torch.float32),
    "dlg": (invert, torch.float64),
    "signs": (invert_by_signs, torch.float32),
}
NEEDED = 40.0  # dB at which the positive control counts as recovered
EXPLAINED = 1e-5  # mismatch below which the cross-entropy of the known labels explains the update
POLISH = 200  # steps of the last search, in double precision
MATCHED = 1e-7  # relative mismatch below which another start is pointless


@dataclass(frozen=True)
class Control:
    """Whether the attack recovers one undefended sample from one step of FedAvg."""

    passed: bool
    psnr: float
    needed: float
    mismatch: float
    attack: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """PSNR of what was recovered from a method's uploads, beside the control that says what it is worth."""

    scope: str
    counting: str
    psnr: tuple[float, ...]  # one per attacked batch
    mean: float
    control: Control
    conclusion: str


def leaked(received: Leaves, uploaded: Leaves, rate: float = 1.0) -> dict[str, Tensor]:
    """Return (received − uploaded) / rate of every uploaded parameter: after one step of SGD, the gradient itself."""
    names = [name for name in uploaded if not name.startswith("~")]  # running statistics have no gradient
    unknown = sorted(set(names) - set(received))
    if unknown:
        raise InputError(f"'{unknown[0]}' was uploaded but never received, so its update is not known")
    return {name: (received[name].detach().double() - uploaded[name].detach().double()) / rate for name in names}


@dataclass(frozen=True)
class Effort:
    """How an attacker searches: by which attack, for how many steps, from which draw, for pixels between which bounds."""

    attack: str = "dlg"
    steps: int = 300
    seed: int = 0
    bounds: tuple[float, float] = (0.0, 1.0)


EFFORT = Effort()


def recover(
    network: Network,
    at: Leaves,
    update: Leaves,
    shape: Sequence[int],
    outputs: int,
    effort: Effort = EFFORT,
    labels: Tensor | None = None,
) -> Recovery:
    """Attack an upload: only the ``update`` and the network it belongs to are known, and the ``labels`` if they are given.

    ``network`` maps the uploaded parameters to whatever they end in: logits, features, or a pseudo-model's logits, of
    width ``outputs``. ``at`` is where gradients are taken: the received model, or the uploaded one as in PFLlib. Leaves of
    which there is no update take part as they are. Without labels the outputs are searched for too, as the papers do; with
    them that is tried as well where the cross-entropy does not explain the update, for the loss may be another.
    """
    found: list[Recovery] = []
    if labels is not None:
        found.append(_searched(network, at, update, shape, effort, labels))
    if not found or found[0].mismatch > EXPLAINED:
        found.append(_searched(network, at, update, shape, effort, outputs))
    return min(found, key=lambda recovery: recovery.mismatch)


def _searched(network: Network, at: Leaves, update: Leaves, shape: Sequence[int], effort: Effort, ends: Tensor | int) -> Recovery:
    """Search with known labels, or for outputs of some width, and polish what was found in double precision."""
    (search, precision), names = _named(effort.attack), matched(at, update)

    def ready(kind: torch.dtype) -> tuple[Gradients, list[Tensor]]:
        target = [update[name].to(kind) for name in names]
        if isinstance(ends, Tensor):
            return label_gradient(network, at, ends, kind, names), target
        return output_gradient(network, at, kind, names), target

    wide = None if isinstance(ends, Tensor) else (shape[0], ends)
    found = search(*ready(precision), shape, effort.steps, effort.seed, outputs=wide, bounds=effort.bounds)
    return polished(*ready(torch.float64), found, min(effort.steps // 4, POLISH), effort.bounds)


def one_step(network: Network, params: Leaves, images: Tensor, labels: Tensor, rate: float) -> dict[str, Tensor]:
    """Return what an undefended FedAvg client uploads after one step of SGD, in the model's own precision."""
    gradient = label_gradient(network, params, labels)(images.double())
    names = [name for name in params if not name.startswith("~")]
    slopes = dict(zip(names, gradient, strict=True))
    return {name: params[name].detach() - rate * slopes[name].detach().to(params[name].dtype) for name in names}


def control(
    network: Network, params: Leaves, image: Tensor, label: int, effort: Effort = EFFORT, *, rate: float = 0.05, starts: int = 3
) -> Control:
    """Attack the easiest upload there is: one sample, one step of undefended FedAvg, known label and learning rate."""
    if starts < 1:
        raise InputError(f"starts must be at least 1, got {starts}")
    (search, precision), begun = _named(effort.attack), perf_counter()
    labels, uploaded = torch.tensor([label]), one_step(network, params, image[None], torch.tensor([label]), rate)
    target = [leaf.to(precision) for leaf in leaked(params, uploaded, rate).values()]
    gradient_of = label_gradient(network, params, labels, precision)
    found: list[Recovery] = []
    for start in range(starts):
        found.append(search(gradient_of, target, (1, *image.shape), effort.steps, effort.seed + start, bounds=effort.bounds))
        if found[-1].mismatch < MATCHED:
            break
    best = min(found, key=lambda recovery: recovery.mismatch)
    reached = measure(image[None], best.images, data_range=effort.bounds[1] - effort.bounds[0])
    return Control(reached >= NEEDED, reached, NEEDED, best.mismatch, effort.attack, perf_counter() - begun)


def judge(
    originals: Sequence[Tensor],
    recovered: Sequence[Tensor],
    checked: Control,
    *,
    scope: str,
    counting: str = "range",
    data_range: float = 1.0,
) -> Verdict:
    """Measure recovered batches and say what the figure is worth in the light of the control."""
    pairs = list(zip(originals, recovered, strict=True))
    if not pairs:
        raise InputError("there is no recovered batch to judge")
    values = tuple(measure(truth, guess, counting, data_range) for truth, guess in pairs)
    mean = sum(values) / len(values)
    if checked.passed:
        conclusion = f"the attack recovers an undefended sample at {checked.psnr:.1f} dB and this upload at {mean:.1f} dB"
    else:
        conclusion = (
            f"the attack, not the method, is weak: it recovers even an undefended sample at only {checked.psnr:.1f} dB "
            f"({checked.needed:.0f} needed), so {mean:.1f} dB does not show that the method protects anything"
        )
    return Verdict(scope, counting, values, mean, checked, conclusion)


def smooth_network(shape: Sequence[int], classes: int, seed: int = 0) -> tuple[Network, dict[str, Tensor]]:
    """Return a small sigmoid network for images of ``shape`` and its parameters: what gradient inversion is best at."""
    channels, height, width = shape
    stride = 2 if min(height, width) > 16 else 1
    rows, columns = (math.ceil(math.ceil(size / stride) / stride) for size in (height, width))
    sizes = {
        "first.weight": (12, channels, 5, 5),
        "first.bias": (12,),
        "second.weight": (12, 12, 5, 5),
        "second.bias": (12,),
        "head.weight": (classes, 12 * rows * columns),
        "head.bias": (classes,),
    }
    fans = {"first": channels * 25, "second": 300, "head": 12 * rows * columns}
    generator = torch.Generator().manual_seed(seed)
    params = {
        name: (2 * torch.rand(size, generator=generator) - 1) / math.sqrt(fans[name.split(".")[0]])
        for name, size in sizes.items()
    }

    def network(weights: dict[str, Tensor], images: Tensor) -> Tensor:
        hidden = images
        for layer in ("first", "second"):
            weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
            hidden = functional.conv2d(hidden, weight, bias, stride=stride, padding=2).sigmoid()
        return functional.linear(hidden.flatten(1), weights["head.weight"], weights["head.bias"])

    return network, params


def _named(attack: str) -> tuple[Callable[..., Recovery], torch.dtype]:
    if attack not in ATTACKS:
        raise suggest("attack", attack, ATTACKS)
    return ATTACKS[attack]
