"""ResNets with the ImageNet stem: 8 and 10 layers as in FedCAC, 18 layers as in FedCP, GPFL and DualFed."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .network import Network, image


class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut; names as in torchvision, so that its weights fit."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find to the shortcut."""
        found = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(found + (x if self.downsample is None else self.downsample(x)))


class Encoder(nn.Module):
    """A ResNet without its last layer."""

    def __init__(self, channels: int, depths: Sequence[int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.stages = len(depths)
        self.width = 64
        for stage, depth in enumerate(depths):
            outputs = 64 * 2**stage
            first = Block(self.width, outputs, 1 if stage == 0 else 2)
            self.width = outputs
            rest = [Block(outputs, outputs, 1) for _ in range(depth - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(first, *rest))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return one feature per channel, averaged over the last map."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return x.mean(dim=(2, 3))


def resnet8(shape: Sequence[int], classes: int) -> Network:
    """One block of 64, 128 and 256 channels each."""
    return _resnet(shape, classes, "resnet8", (1, 1, 1))


def resnet10(shape: Sequence[int], classes: int) -> Network:
    """One block of 64, 128, 256 and 512 channels each."""
    return _resnet(shape, classes, "resnet10", (1, 1, 1, 1))


def resnet18(shape: Sequence[int], classes: int) -> Network:
    """Two blocks of 64, 128, 256 and 512 channels each; torchvision's weights fit."""
    return _resnet(shape, classes, "resnet18", (2, 2, 2, 2))


def _resnet(shape: Sequence[int], classes: int, name: str, depths: Sequence[int]) -> Network:
    channels, _, _ = image(shape, name)
    encoder = Encoder(channels, depths)
    return Network(encoder, nn.Linear(encoder.width, classes))
