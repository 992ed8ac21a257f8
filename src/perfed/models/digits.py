"""The digits CNN of FedBN, which FedPick cuts after its convolutions."""

from collections.abc import Sequence

from torch import nn

from ..errors import suggest
from .network import Network, image, norm_conv

HEADS = ("linear", "single", "stack")


def digits_cnn(shape: Sequence[int], classes: int, *, head: str = "linear", bias: bool = True) -> Network:
    """Three 5×5 convolutions and three linear layers with BatchNorm.

    ``head`` says where the head begins: ``linear`` at the last layer (512 features); ``stack`` after the convolutions,
    the head being all three linear layers (FedPick); ``single`` after the convolutions too, with one linear layer in
    place of the three. ``bias=False`` leaves out what BatchNorm cancels anyway.
    """
    if head not in HEADS:
        raise suggest("head of digits_cnn", head, HEADS)
    channels, height, width = image(shape, "digits_cnn", 4)
    convolutions: list[nn.Module] = [
        *norm_conv(channels, 64, 5, padding=2, bias=bias),
        nn.MaxPool2d(2),
        *norm_conv(64, 64, 5, padding=2, bias=bias),
        nn.MaxPool2d(2),
        *norm_conv(64, 128, 5, padding=2, bias=bias),
        nn.Flatten(),
    ]
    flat = 128 * (height // 4) * (width // 4)
    if head == "single":
        return Network(nn.Sequential(*convolutions), nn.Linear(flat, classes))
    hidden = [*norm_linear(flat, 2048, bias), *norm_linear(2048, 512, bias)]
    last = nn.Linear(512, classes)
    if head == "stack":
        return Network(nn.Sequential(*convolutions), nn.Sequential(*hidden, last))
    return Network(nn.Sequential(*convolutions, *hidden), last)


def norm_linear(inputs: int, outputs: int, bias: bool) -> list[nn.Module]:
    """Return a linear layer, BatchNorm and ReLU."""
    return [nn.Linear(inputs, outputs, bias=bias), nn.BatchNorm1d(outputs), nn.ReLU()]
