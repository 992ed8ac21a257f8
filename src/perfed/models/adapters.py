"""Low-rank adapters (LoRA; Hu et al., ICLR 2022): a frozen layer learns by a product of two thin matrices beside it."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..errors import InputError


class AdaptedLinear(nn.Linear):
    """A linear layer with ``scale · up · down`` beside its weight; ``up`` begins at zero, so that it begins as the layer was."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.down, self.up = _thin(layer.out_features, layer.in_features, rank, layer.weight)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer makes of inputs, and the adapter's part on top."""
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.down), self.up)


class AdaptedConv(nn.Conv2d):
    """A 1×1 convolution, which is a linear layer at every pixel, with an adapter beside its weight."""

    def __init__(self, layer: nn.Conv2d, rank: int, scale: float) -> None:
        inputs, outputs, bias = layer.in_channels, layer.out_channels, layer.bias is not None
        super().__init__(inputs, outputs, 1, layer.stride, bias=bias, device="meta")  # type: ignore[arg-type]
        self.weight, self.bias = layer.weight, layer.bias
        self.down, self.up = _thin(outputs, inputs, rank, layer.weight)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer makes of inputs, and the adapter's part on top."""
        thin = F.conv2d(x, self.down[:, :, None, None], stride=self.stride)
        return super().forward(x) + self.scale * F.conv2d(thin, self.up[:, :, None, None])


class AdaptedWeight(nn.Module):
    """The same for a weight that its layer does not multiply itself: attention's projections."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        self.down, self.up = _thin(weight.shape[0], weight.shape[1], rank, weight)
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight with the product on top."""
        return weight + self.scale * self.up @ self.down


def _thin(outputs: int, inputs: int, rank: int, like: Tensor) -> tuple[nn.Parameter, nn.Parameter]:
    down = torch.empty(rank, inputs, dtype=like.dtype, device=like.device)
    nn.init.kaiming_uniform_(down, a=math.sqrt(5))
    return nn.Parameter(down), nn.Parameter(torch.zeros(outputs, rank, dtype=like.dtype, device=like.device))


def adapt(body: nn.Module, rank: int, scale: float, only: Sequence[str] = (), most: int | None = None) -> list[str]:
    """Put an adapter beside every linear, attention and 1×1 convolution layer of a body; return their names.

    Args:
        body: Is changed in place.
        rank: Of the product.
        scale: What it is multiplied by.
        only: Adapters go beside layers alone whose names contain one of these.
        most: Weights that all adapters together may have; those beside the last layers are kept.

    Raises:
        InputError: There is no such layer, or not even the last one's adapter is small enough.
    """
    found = _layers(body, only)
    if not found:
        which = f" called {' or '.join(only)}" if only else ""
        raise InputError(f"the body has no linear, attention or 1×1 convolution layer{which} that an adapter could stand beside")
    if most is not None:
        found = _last(found, rank, most)
    for name, layer in found.items():
        if isinstance(layer, nn.MultiheadAttention):
            _attention(layer, rank, scale)
        else:
            _replace(body, name, (AdaptedLinear if isinstance(layer, nn.Linear) else AdaptedConv)(layer, rank, scale))  # type: ignore[arg-type]
    return list(found)


def _layers(body: nn.Module, only: Sequence[str]) -> dict[str, nn.Module]:
    """Return the layers that an adapter can stand beside, by name, in the order in which they were made."""
    found, inside = dict[str, nn.Module](), list[nn.Module]()
    for name, layer in body.named_modules():
        attends = isinstance(layer, nn.MultiheadAttention)
        if attends:
            inside += [layer, *layer.modules()]
        if only and not any(part in name for part in only):
            continue
        linear = type(layer) is nn.Linear and layer not in inside
        if attends or (name and (linear or (isinstance(layer, nn.Conv2d) and _pointwise(layer)))):
            found[name] = layer
    return found


def _last(found: dict[str, nn.Module], rank: int, most: int) -> dict[str, nn.Module]:
    """Return as many of the last layers as have adapters of ``most`` weights together."""
    kept, left = list[str](), most
    for name in reversed(found):
        left -= size_of(found[name], rank)
        if left < 0:
            break
        kept.append(name)
    if not kept:
        last = next(reversed(found))
        raise InputError(
            f"an adapter of rank {rank} beside '{last}' has {size_of(found[last], rank):,} weights, "
            f"and {max(most, 0):,} may be sent beside the head; take a lower model.rank or a larger share in model.adapters"
        )
    return {name: layer for name, layer in found.items() if name in kept}


def size_of(layer: nn.Module, rank: int) -> int:
    """Return how many weights a layer's adapter has: rank times its inputs and outputs together."""
    if isinstance(layer, nn.MultiheadAttention):
        own = [layer.in_proj_weight] if layer.in_proj_weight is not None else [getattr(layer, f"{x}_proj_weight") for x in "qkv"]
        return rank * sum(sum(weight.shape) for weight in (*own, layer.out_proj.weight))
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return rank * (layer.weight.shape[0] + layer.weight.shape[1])


def _pointwise(layer: nn.Conv2d) -> bool:
    usual = layer.groups == 1 and layer.padding in ((0, 0), 0) and layer.padding_mode == "zeros"
    return usual and layer.kernel_size == (1, 1) and layer.dilation == (1, 1)


def _attention(layer: nn.MultiheadAttention, rank: int, scale: float) -> None:
    own = ["in_proj_weight"] if layer.in_proj_weight is not None else ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
    for module, name in [*((layer, each) for each in own), (layer.out_proj, "weight")]:
        made = AdaptedWeight(getattr(module, name), rank, scale)
        parametrize.register_parametrization(module, name, made, unsafe=True)


def _replace(body: nn.Module, name: str, layer: nn.Module) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(body.get_submodule(owner), attribute, layer)
