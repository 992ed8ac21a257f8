"""PACS through the first blocks of a pretrained EfficientNet-Lite0, once; what is trained is the rest of the network.

What is frozen makes the same of a picture in every round, so it need not be computed in every round:

    python examples/studies/late_blocks.py efficientnet-lite0-57934424.pth pacs_late 96 15
    perfed run data=npz:pacs_late/maps.npz model=examples/studies/late_blocks.py:late model.blocks=1 \
        model.weights=pacs_late/late.safetensors partition=domains method=dualfed

writes and trains the last block and the final convolution, from ImageNet's weights, on pictures of 96 pixels.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from perfed.data import load
from perfed.models import Network, build
from perfed.models.efficientnet import LiteEncoder


class Late(nn.Module):
    """The last blocks of an encoder and its final convolution."""

    def __init__(self, encoder: LiteEncoder, blocks: int) -> None:
        super().__init__()
        self._blocks = nn.ModuleList(list(encoder._blocks)[-blocks:])
        self._conv_head, self._bn1 = encoder._conv_head, encoder._bn1

    def forward(self, x: Tensor) -> Tensor:
        """Return one feature per channel of the maps that the first blocks made."""
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))


def late(classes: int, blocks: int = 1) -> Network:
    """Return the network that is trained: so many of the last blocks."""
    body = Late(LiteEncoder(3), blocks)
    return Network(body, nn.Linear(body._conv_head.out_channels, classes))


def main(weights: str, out: str, pixels: str, frozen: str) -> None:
    """Write the maps that the first ``frozen`` blocks make of PACS, and the weights of what comes after them."""
    samples, place = load("pacs"), Path(out)
    network = build("efficientnet_lite0", shape=samples.x.shape[1:], classes=7, weights=weights)
    encoder: LiteEncoder = network.get_submodule("body").eval()  # type: ignore[assignment]
    maps = []
    with torch.no_grad():
        for part in samples.x.split(64):
            x = F.interpolate((part.float() - 127) / 128, (int(pixels), int(pixels)), mode="bilinear")  # the network's own scale
            x = F.relu6(encoder._bn0(encoder._conv_stem(x)))
            for block in encoder._blocks[: int(frozen)]:
                x = block(x)
            maps.append(x)
    place.mkdir(parents=True, exist_ok=True)
    about = {"y": samples.y.numpy(), "group": samples.group.numpy(), "classes": samples.classes, "groups": samples.groups}
    np.savez(place / "maps.npz", x=torch.cat(maps).numpy(), **about)
    save_file(Late(encoder, len(encoder._blocks) - int(frozen)).state_dict(), place / "late.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
