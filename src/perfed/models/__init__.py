"""Networks with a body and a head: the catalogue, and how a user's own module joins it."""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn

from ..errors import InputError, suggest
from .alexnet import alexnet_bn
from .cnn import cnn, cnn_bn
from .digits import digits_cnn
from .efficientnet import efficientnet_lite0
from .mlp import amazon_mlp, logistic, mlp
from .network import Network, wrap
from .pretrained import OPTIONS, prepared
from .resnet import resnet8, resnet10, resnet18
from .sensors import harcnn
from .text import fasttext

__all__ = ["MODELS", "OPTIONS", "Network", "build", "fits", "options_of", "prepared", "usual", "wrap"]

MODELS: dict[str, Callable[..., Network]] = {
    "alexnet_bn": alexnet_bn,
    "amazon_mlp": amazon_mlp,
    "cnn": cnn,
    "cnn_bn": cnn_bn,
    "digits_cnn": digits_cnn,
    "efficientnet_lite0": efficientnet_lite0,
    "fasttext": fasttext,
    "harcnn": harcnn,
    "logistic": logistic,
    "mlp": mlp,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet8": resnet8,
}

TAKES: dict[str, tuple[str, ...]] = {  # network → kinds of data it is for; mlp flattens whatever is made of numbers
    "alexnet_bn": ("image",),
    "amazon_mlp": ("features",),
    "cnn": ("image",),
    "cnn_bn": ("image",),
    "digits_cnn": ("image",),
    "efficientnet_lite0": ("image", "signal"),
    "fasttext": ("tokens",),
    "harcnn": ("signal",),
    "logistic": ("features", "image", "signal"),
    "mlp": ("features", "image", "signal"),
    "resnet10": ("image", "signal"),
    "resnet18": ("image", "signal"),
    "resnet8": ("image", "signal"),
}
SMALL = 16  # pixels of either side up to which a perceptron is the usual network for pictures


def usual(kind: str, shape: Sequence[int]) -> str:
    """Return the network that is taken for data of a kind where none is named."""
    if kind == "image":
        return "mlp" if max(shape[-2:]) <= SMALL else "cnn"
    return {"features": "mlp", "signal": "harcnn", "tokens": "fasttext"}[kind]


def fits(name: str, kind: str) -> None:
    """Refuse a network of the catalogue that is not for data of this kind."""
    if kind not in TAKES.get(name, (kind,)):
        others = ", ".join(model for model, kinds in TAKES.items() if kind in kinds)
        raise InputError(
            f"model {name} is for {' and '.join(TAKES[name])}, and this data is {kind}; for {kind} there are {others}"
        )


def build(
    name: str, *, shape: Sequence[int], classes: int, vocabulary: Any = None, seed: int | None = None, **options: Any
) -> nn.Module:
    """Return the network ``name`` for inputs of ``shape`` (without the batch).

    ``vocabulary`` is its size or anything with a length, for token inputs. With a ``seed`` the weights depend on it
    alone.
    """
    if name not in MODELS:
        raise suggest("model", name, MODELS)
    for option in options:
        if option not in options_of(name):
            raise suggest(f"option of model {name}", option, options_of(name) or ["none"])
    if not shape or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(f"the shape of an input is a list of positive whole numbers, got {tuple(shape)}")
    if not isinstance(classes, int) or classes < 1:
        raise InputError(f"a network needs at least one score, got {classes}")
    if name == "fasttext":
        options["vocabulary"] = vocabulary
    later = {option: options.pop(option) for option in OPTIONS if option in options}
    if seed is None:
        return prepared(MODELS[name](tuple(shape), classes, **options), name, **later)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return prepared(MODELS[name](tuple(shape), classes, **options), name, **later)


def options_of(name: str) -> list[str]:
    """Return the names of the options of model ``name``: its own, and those that every network has."""
    own = [option for option in signature(MODELS[name]).parameters if option not in ("shape", "classes", "vocabulary")]
    return [*own, *OPTIONS]
