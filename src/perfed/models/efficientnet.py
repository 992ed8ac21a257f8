"""EfficientNet-Lite0 (Tan & Le, ICML 2019; the edition for mobile processors): 4.7 million weights, ReLU6, no squeezing."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from .network import Network, image

STAGES = (  # repeats, kernel, stride of the first, expansion, channels out
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
WIDTH = 1280  # of the features


class SameConv(nn.Conv2d):
    """A convolution padded so that a step of s leaves ⌈size / s⌉ pixels, the odd one at the right and the bottom."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of the padded maps."""
        across, down = (
            max((-(-size // step) - 1) * step + kernel - size, 0)
            for size, step, kernel in zip(
                (x.shape[3], x.shape[2]), reversed(self.stride), reversed(self.kernel_size), strict=True
            )
        )
        return super().forward(F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2)))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class InvertedBlock(nn.Module):
    """Widen, convolve every channel by itself, narrow; names as in the published file, so that its weights fit."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expands, self.adds = expansion != 1, stride == 1 and inputs == outputs
        if self.expands:
            self._expand_conv = nn.Conv2d(inputs, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SameConv(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv = nn.Conv2d(wide, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps, with the inputs on top where they fit."""
        wide = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        found: Tensor = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(wide)))))
        return found + x if self.adds else found


class LiteEncoder(nn.Module):
    """EfficientNet-Lite0 without its last layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self._conv_stem = SameConv(channels, 32, 3, 2, bias=False)
        self._bn0 = _norm(32)
        blocks, inputs = [], 32
        for repeats, kernel, stride, expansion, outputs in STAGES:
            for number in range(repeats):
                blocks.append(InvertedBlock(inputs, outputs, kernel, stride if number == 0 else 1, expansion))
                inputs = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = nn.Conv2d(inputs, WIDTH, 1, bias=False)
        self._bn1 = _norm(WIDTH)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return one feature per channel, averaged over the last map."""
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))


def efficientnet_lite0(shape: Sequence[int], classes: int) -> Network:
    """EfficientNet-Lite0 for pictures of any size; the published ImageNet weights fit."""
    channels, _, _ = image(shape, "efficientnet_lite0")
    return Network(LiteEncoder(channels), nn.Linear(WIDTH, classes))
