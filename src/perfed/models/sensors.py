"""HAR-CNN for windows of motion sensors (GPFL)."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..errors import InputError
from .network import Network

LEAST = 28  # below, two convolutions over 9 steps and two poolings leave nothing


class Rows(nn.Module):
    """Give signals of channels × time the row that 2-D convolutions expect."""

    def forward(self, x: Tensor) -> Tensor:
        """Return N × channels × 1 × time."""
        return x.unsqueeze(2) if x.dim() == 3 else x


def harcnn(shape: Sequence[int], classes: int) -> Network:
    """Two convolutions over 9 steps; the head is a stack of three linear layers."""
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[1] != 1):
        raise InputError(f"harcnn takes signals (channels, time) or (channels, 1, time), got inputs of shape {tuple(shape)}")
    channels, time = shape[0], shape[-1]
    if time < LEAST:
        raise InputError(f"harcnn takes signals of at least {LEAST} steps, got {time}")
    body = nn.Sequential(
        Rows(),
        nn.Conv2d(channels, 32, (1, 9)),
        nn.ReLU(),
        nn.MaxPool2d((1, 2)),
        nn.Conv2d(32, 64, (1, 9)),
        nn.ReLU(),
        nn.MaxPool2d((1, 2)),
        nn.Flatten(),
    )
    left = ((time - 8) // 2 - 8) // 2
    head = nn.Sequential(nn.Linear(64 * left, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, classes))
    return Network(body, head)
