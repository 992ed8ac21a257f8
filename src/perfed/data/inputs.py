"""How stored samples become a network's inputs: scaled, normalised, and in training changed at random by a key."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import keys
from ..errors import InputError, suggest

KINDS = ("features", "image", "signal", "tokens")
Values = float | Sequence[float] | Literal["usual"] | None


class Stored(Protocol):
    """The part of ``data.Samples`` that decides how inputs are made."""

    @property
    def kind(self) -> str: ...
    @property
    def x(self) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Stored samples → network inputs; with a key, pictures are flipped, rotated and shifted at random.

    Random numbers come from the key alone, one per picture and purpose, so every transport sees the same pictures.
    """

    kind: str = "image"
    mean: Values = "usual"  # one value, or one per channel; None leaves pictures in [0, 1]; usual is 0.5 for these, else None
    std: Values = "usual"
    size: int | None = None  # resize pictures to size × size
    flip: bool = False  # mirror half of the pictures left to right
    rotate: float = 0.0  # by up to so many degrees either way; corners turn black
    crop: int = 0  # pad by so many black pixels, then cut the old size out at random

    def __post_init__(self) -> None:
        """Refuse values that cannot be right."""
        if self.kind not in KINDS:
            raise suggest("kind of samples", self.kind, KINDS)
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values == "usual":
                values = 0.5 if self.kind == "image" else None
            values = [values] if isinstance(values, int | float) else values
            try:
                object.__setattr__(self, name, None if values is None else tuple(map(float, values)))
            except (TypeError, ValueError) as error:
                raise InputError(f"{name} is one number, or a list of one per channel, not {values!r}") from error
        if (self.mean is None) != (self.std is None):
            raise InputError("mean and std go together: give both, or neither to leave values as they are")
        if self.scale and not all(math.isfinite(value) and value > 0 for value in self.scale[1]):
            raise InputError(f"std must be positive, got {list(self.scale[1])}")
        if not 0 <= self.rotate <= 180:
            raise InputError(f"rotate must be from 0 to 180 degrees, got {self.rotate:g}; the papers use 30")
        if self.crop < 0 or (self.size is not None and self.size < 1):
            raise InputError(f"crop and size are numbers of pixels, got crop={self.crop}, size={self.size}")
        if self.kind != "image" and (self.augments or self.size is not None):
            raise InputError(f"flip, rotate, crop and size are for pictures, this data is of kind {self.kind}")
        if self.kind == "tokens" and self.scale:
            raise InputError("mean and std are for numbers, this data is of kind tokens; leave them out")

    @property
    def augments(self) -> bool:
        """Whether a key changes anything."""
        return self.flip or self.rotate > 0 or self.crop > 0

    def shape(self, stored: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a network input for samples stored in shape ``stored``."""
        return tuple(stored) if self.size is None else (stored[0], self.size, self.size)

    def __call__(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        """Return inputs for a batch, augmented if there is a key."""
        if self.kind == "tokens":
            return x.long()
        if self.kind != "image":
            return self.normalised(x.float())
        if key is not None and self.augments:
            x = self.augmented(x, key)
        # Channels last, in a way that also works under vmap; arithmetic then keeps the order.
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).float() / 255
        if self.size is not None and x.shape[-2:] != (self.size, self.size):
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", antialias=True)
        return channels_last(self.normalised(x))

    def normalised(self, x: Tensor) -> Tensor:
        """Return (x − mean) / std, per channel where there are several values."""
        if self.scale is None:
            return x
        if all(len(values) == 1 for values in self.scale):
            return (x - self.scale[0][0]) / self.scale[1][0]
        self.refuse_other_channels(x.shape[1])
        mean, std = (torch.tensor(values, device=x.device).view(-1, *[1] * (x.ndim - 2)) for values in self.scale)
        return (x - mean) / std

    @property
    def scale(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and deviation, or nothing if values stay as they are."""
        return (self.mean, self.std) if isinstance(self.mean, tuple) and isinstance(self.std, tuple) else None

    def refuse_other_channels(self, channels: int) -> None:
        """Refuse a mean or deviation for another number of channels."""
        for name, values in (("mean", self.mean), ("std", self.std)):
            if isinstance(values, tuple) and len(values) not in (1, channels):
                raise InputError(f"{name} has {len(values)} values for samples with {channels} channels")

    def augmented(self, x: Tensor, key: Tensor) -> Tensor:
        """Return stored pictures mirrored, then rotated, then shifted, each by its own random numbers."""
        count = x.shape[0]
        if self.flip:
            chosen = keys.uniform(keys.fold(key, "flip"), (count,)) < 0.5
            x = torch.where(chosen[:, None, None, None], x.flip(3), x)
        if self.rotate > 0 or self.crop > 0:
            turn, down, right = (keys.uniform(keys.fold(key, name), (count,)) for name in ("rotate", "down", "right"))
            angle = (2 * turn - 1) * math.radians(self.rotate)
            offsets = [torch.floor(part * (2 * self.crop + 1)) - self.crop for part in (down, right)]
            x = moved(x, angle, offsets[0], offsets[1])
        return x


def moved(x: Tensor, angle: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Return pictures rotated about their centres and then cut out ``down`` and ``right`` pixels off.

    Every pixel takes the value of the nearest one it comes from; what comes from outside is black.
    """
    count, channels, height, width = x.shape
    row = torch.arange(height, device=x.device)[None, :, None] + down[:, None, None]
    column = torch.arange(width, device=x.device)[None, None, :] + right[:, None, None]
    inside = within(row, height) & within(column, width)
    y0, x0 = (height - 1) / 2, (width - 1) / 2
    cos, sin = torch.cos(angle)[:, None, None], torch.sin(angle)[:, None, None]
    source_row = torch.round(y0 + cos * (row - y0) + sin * (column - x0))
    source_column = torch.round(x0 - sin * (row - y0) + cos * (column - x0))
    inside = inside & within(source_row, height) & within(source_column, width)
    place = source_row.clamp(0, height - 1) * width + source_column.clamp(0, width - 1)
    index = place.long().reshape(count, 1, height * width).expand(-1, channels, -1)
    found = x.reshape(count, channels, height * width).gather(2, index).reshape(x.shape)
    return found * inside[:, None]


def channels_last(x: Tensor) -> Tensor:
    """Return pictures, whose channels lie last already, with strides that say so also where there is one channel.

    One channel lies first and last at once and torch takes it for first, which makes pooling ten times as slow.
    """
    return x.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2) if x.shape[1] == 1 else x


def within(place: Tensor, size: int) -> Tensor:
    """Return where a coordinate lies inside a picture of ``size`` pixels."""
    return (place >= 0) & (place <= size - 1)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a user may say of inputs; the rest follows from the data. The last three change pictures in training only."""

    mean: Values = "usual"
    std: Values = "usual"
    size: int | None = None
    flip: bool = True
    rotate: float = 30.0
    crop: int = 0


def inputs_for(samples: Stored, augment: bool = False, **wishes: Any) -> Inputs:
    """Return how ``samples`` become inputs, by ``Wishes``; ``augment`` switches the random changes on."""
    asked = Wishes(**wishes)
    if augment and samples.kind != "image":
        raise InputError(f"augmentation is for pictures, this data is of kind {samples.kind}; leave it off")
    found = Inputs(kind=samples.kind, mean=asked.mean, std=asked.std, size=asked.size)
    if augment:
        found = replace(found, flip=asked.flip, rotate=asked.rotate, crop=asked.crop)
    if samples.kind != "tokens":
        found.refuse_other_channels(samples.x.shape[1])
    return found
