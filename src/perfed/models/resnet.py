"""ResNets with the ImageNet stem: 8 and 10 layers as in FedCAC, 18 layers as in FedCP, GPFL and DualFed."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from ..errors import DataError, InputError
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


def resnet18(shape: Sequence[int], classes: int, *, weights: str | Path | None = None, projector: int | None = None) -> Network:
    """Two blocks of 64, 128, 256 and 512 channels each; ``weights`` is a torchvision .pth or a safetensors file.

    ``projector`` is the hidden width of two layers between encoder and classifier, as DualFed's baselines have them;
    they belong to the body.
    """
    network = _resnet(shape, classes, "resnet18", (2, 2, 2, 2))
    if weights is not None:
        load_encoder(network.body, Path(weights), shape[0])
    if projector is None:
        return network
    if isinstance(projector, bool) or not isinstance(projector, int) or projector < 1:
        raise InputError(f"projector must be a hidden width of at least 1, such as 256, got {projector!r}")
    width = 512
    layers = [nn.Linear(width, projector), nn.ReLU(), nn.BatchNorm1d(projector), nn.Linear(projector, width)]
    projected = nn.Sequential(*layers, nn.BatchNorm1d(width))
    return Network(nn.Sequential(OrderedDict(encoder=network.body, projector=projected)), network.head)


def _resnet(shape: Sequence[int], classes: int, name: str, depths: Sequence[int]) -> Network:
    channels, _, _ = image(shape, name)
    encoder = Encoder(channels, depths)
    return Network(encoder, nn.Linear(encoder.width, classes))


def load_encoder(encoder: nn.Module, path: Path, channels: int = 3) -> None:
    """Copy ImageNet weights into ``encoder``; the file's last layer is not used."""
    if channels != 3:
        raise InputError(f"ImageNet weights need pictures with 3 channels, got {channels}; leave weights out")
    stored = {name: tensor for name, tensor in _read(path).items() if not name.startswith("fc.")}
    wanted = encoder.state_dict()
    for name, tensor in wanted.items():
        if name.endswith("num_batches_tracked"):  # files from before 2018 have no such counter
            stored.setdefault(name, tensor)
        elif name not in stored:
            raise DataError(f"{path} has no '{name}'; expected the weights of a torchvision ResNet-18")
        elif stored[name].shape != tensor.shape:
            found, right = tuple(stored[name].shape), tuple(tensor.shape)
            raise DataError(f"{path}: '{name}' has shape {found}, expected {right} as in torchvision's ResNet-18")
    extra = sorted(set(stored) - set(wanted))
    if extra:
        raise DataError(f"{path} has '{extra[0]}', which ResNet-18 has not; expected the weights of a torchvision ResNet-18")
    encoder.load_state_dict(stored)


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise DataError(f"no file of weights at {path}; download torchvision's resnet18 .pth and give its path")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)  # never runs code from the file
    except Exception as problem:  # what the two readers raise on damaged files is not documented
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise DataError(f"{path} is damaged or holds more than weights: {reason}") from problem
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise DataError(f"{path} is not a table of weights by name; save the model's state_dict")
    return {str(name): value.detach() for name, value in found.items()}
