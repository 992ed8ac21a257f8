"""A network of two parts, body and head, and how any module is seen as one."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import InputError, suggest
from .foreign import PlainOutput, is_foreign


class Network(nn.Module):
    """``head(body(x))``: the body gives features, the head one score per class."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores."""
        scores: Tensor = self.head(self.body(x))
        return scores


def image(shape: Sequence[int], model: str, least: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width, or say that the network takes images of at least ``least`` pixels."""
    if len(shape) != 3:
        raise InputError(f"{model} takes images (channels, height, width), got inputs of shape {tuple(shape)}")
    channels, height, width = shape
    if min(height, width) < least:
        raise InputError(f"{model} takes images of at least {least}×{least} pixels, got {height}×{width}")
    return channels, height, width


def norm_conv(inputs: int, outputs: int, size: int, *, stride: int = 1, padding: int = 0, bias: bool = True) -> list[nn.Module]:
    """Return convolution, BatchNorm and ReLU."""
    conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding, bias=bias)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]


def wrap(module: nn.Module, head: str | None = None, example: Tensor | None = None) -> nn.Module:
    """Return a copy of ``module`` with children ``body`` and ``head`` that computes the same.

    The head is the last linear layer, or the submodule named ``head`` (such as ``classifier.6``). It must be the last
    step of the module's forward pass; with an ``example`` input this is checked. A classifier of ``transformers`` or
    ``peft`` is taken too; what is frozen in it stays so, its head excepted.
    """
    parts = (getattr(module, "body", None), getattr(module, "head", None))
    if head is None and all(isinstance(part, nn.Module) for part in parts):
        return copy.deepcopy(module)
    foreign = is_foreign(module)
    if foreign:
        module, head = PlainOutput(module), f"inner.{head}" if head is not None else None
    name = _last_linear(module) if head is None else head
    if not name or name not in dict(module.named_modules()):
        raise suggest("submodule", name, [path for path, _ in module.named_modules() if path])
    network = _halves(copy.deepcopy(module), name)
    if example is not None:
        _check(module, network, name, example)
    if foreign:
        network.head.requires_grad_(True)  # peft freezes all that it does not adapt
    return network


def _last_linear(module: nn.Module) -> str:
    if isinstance(module, nn.Linear):
        raise InputError("a single linear layer has no body; put nn.Flatten or nn.Identity before it in an nn.Sequential")
    names: list[str] = [path for path, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not names:
        raise InputError(f"{type(module).__name__} has no linear layer to be its head; name the head's submodule")
    return names[-1]


def _halves(module: nn.Module, name: str) -> Network:
    """Cut a sequence in two; take the head out of anything else and leave an identity in its place."""
    if type(module) is not nn.Sequential:
        owner, _, attribute = name.rpartition(".")
        head = module.get_submodule(name)
        setattr(module.get_submodule(owner), attribute, nn.Identity())
        return Network(module, head)
    top, _, rest = name.partition(".")
    place = [child for child, _ in module.named_children()].index(top)
    layers = list(module.children())
    before, head, after = layers[:place], layers[place], layers[place + 1 :]
    if rest:
        inner = _halves(head, rest)
        before, head = [*before, inner.body], inner.head
    # What follows the head's layer, a softmax say, stays with the head.
    return Network(nn.Sequential(*before), nn.Sequential(head, *after) if after else head)


def _check(module: nn.Module, network: nn.Module, name: str, example: Tensor) -> None:
    before, after = copy.deepcopy(module).eval(), copy.deepcopy(network).eval()
    with torch.no_grad():
        expected = before(example)
        try:
            same = torch.equal(expected, after(example))
        except RuntimeError:  # without the head's layer the shapes no longer fit
            same = False
    if not same:
        raise InputError(
            f"'{name}' is not the last step of {type(module).__name__}: body and head do not compute the same; "
            "name the submodule that gives the scores"
        )
