"""The 4-layer CNN of FedAvg, FedCP and GPFL, plain or with BatchNorm."""

from collections.abc import Sequence

from torch import nn

from .network import Network, image, norm_conv
from .small import small_cnn

LEAST = 16  # below, two 5×5 convolutions and two poolings leave nothing


def cnn(shape: Sequence[int], classes: int, *, features: int | None = None) -> Network:
    """Two 5×5 convolutions and two linear layers; on pictures smaller than 16×16 the small CNN."""
    return _cnn(shape, classes, features, "cnn", norm=False)


def cnn_bn(shape: Sequence[int], classes: int, *, features: int | None = None) -> Network:
    """The same with BatchNorm after each convolution, which then has no bias."""
    return _cnn(shape, classes, features, "cnn_bn", norm=True)


def _cnn(shape: Sequence[int], classes: int, features: int | None, name: str, norm: bool) -> Network:
    channels, height, width = image(shape, name, 4)
    if min(height, width) < LEAST:
        return small_cnn((channels, height, width), classes, features=features or 64, norm=norm)
    wide = features or 512
    left = [((size - 4) // 2 - 4) // 2 for size in (height, width)]
    body = nn.Sequential(
        *conv(channels, 32, 5, norm),
        nn.MaxPool2d(2),
        *conv(32, 64, 5, norm),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * left[0] * left[1], wide),
        nn.ReLU(),
    )
    return Network(body, nn.Linear(wide, classes))


def conv(inputs: int, outputs: int, size: int, norm: bool) -> list[nn.Module]:
    """Return an unpadded convolution and ReLU, with BatchNorm between them if asked for."""
    if norm:
        return norm_conv(inputs, outputs, size, bias=False)
    return [nn.Conv2d(inputs, outputs, size), nn.ReLU()]
