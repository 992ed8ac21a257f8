"""Small CNNs for the embedded 8×8 digits: a training step takes well under a millisecond."""

from collections.abc import Sequence

from torch import nn

from .network import Network, norm_conv


def small_cnn(shape: Sequence[int], classes: int, *, features: int = 64, norm: bool = False) -> Network:
    """Two padded 3×3 convolutions of 16 and 32 channels with poolings, and two linear layers."""
    channels, height, width = shape
    body = nn.Sequential(
        *_conv(channels, 16, norm),
        nn.MaxPool2d(2),
        *_conv(16, 32, norm),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), features),
        nn.ReLU(),
    )
    return Network(body, nn.Linear(features, classes))


def _conv(inputs: int, outputs: int, norm: bool) -> list[nn.Module]:
    if norm:
        return norm_conv(inputs, outputs, 3, padding=1, bias=False)
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
