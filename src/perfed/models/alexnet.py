"""AlexNet with BatchNorm and without dropout (FedBN, FedPick)."""

from collections.abc import Sequence

from torch import nn

from .digits import norm_linear
from .network import Network, image, norm_conv


def alexnet_bn(shape: Sequence[int], classes: int, *, bias: bool = True) -> Network:
    """Five convolutions and two linear layers, each with BatchNorm, and a linear head on 4096 features."""
    channels, _, _ = image(shape, "alexnet_bn", 63)
    body = nn.Sequential(
        *norm_conv(channels, 64, 11, stride=4, padding=2, bias=bias),
        nn.MaxPool2d(3, 2),
        *norm_conv(64, 192, 5, padding=2, bias=bias),
        nn.MaxPool2d(3, 2),
        *norm_conv(192, 384, 3, padding=1, bias=bias),
        *norm_conv(384, 256, 3, padding=1, bias=bias),
        *norm_conv(256, 256, 3, padding=1, bias=bias),
        nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(),
        *norm_linear(9216, 4096, bias),
        *norm_linear(4096, 4096, bias),
    )
    return Network(body, nn.Linear(4096, classes))
