"""Pictures that were given as arrays: uint8 N×C×H×W, or whatever is that without a loss."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..errors import DataError
from . import mapped


def pixels(x: Tensor) -> Tensor:
    """Return images as uint8 N×C×H×W; floats are accepted only where 0..1 or 0..255 is lossless."""
    if x.dim() == 3:
        x = x.unsqueeze(1)
    if x.dim() != 4:
        raise DataError(f"x is {plain(x)}, but images have the axes N×H×W, N×C×H×W or N×H×W×C")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    if x.dtype == torch.uint8:
        return x
    for factor in (255, 1):  # what ToTensor does to uint8 images is undone exactly; whole numbers stay
        whole = mapped.changed(x, partial(scaled, factor=factor))
        if whole is not None:
            return whole
    raise DataError(
        f"x is {plain(x)} with values from {float(x.min()):g} to {float(x.max()):g}, but images are uint8 "
        "(or floats that are k/255): leave normalisation to the model, or say kind='signal'"
    )


def scaled(x: Tensor, factor: int) -> Tensor | None:
    """Return ``factor · x`` as uint8, or None where that would lose something."""
    values = x.double() * factor
    whole = values.round()
    fits = float(whole.min()) >= 0 and float(whole.max()) <= 255 and bool(((values - whole).abs() < 1e-3).all())
    return whole.to(torch.uint8) if fits else None


def plain(x: Tensor) -> str:
    """Return dtype and shape in words."""
    return f"{str(x.dtype).removeprefix('torch.')} {'×'.join(str(size) for size in x.shape) or 'scalar'}"
