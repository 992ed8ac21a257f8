"""Networks with a body and a head: the catalogue, and how a user's own module joins it."""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn

from perfed.errors import InputError, suggest
from perfed.models.alexnet import alexnet_bn
from perfed.models.cnn import cnn, cnn_bn
from perfed.models.digits import digits_cnn
from perfed.models.mlp import amazon_mlp, mlp
from perfed.models.network import Network, wrap
from perfed.models.resnet import resnet8, resnet10, resnet18
from perfed.models.sensors import harcnn
from perfed.models.text import fasttext

__all__ = ["MODELS", "Network", "build", "options_of", "wrap"]

MODELS: dict[str, Callable[..., Network]] = {
    "alexnet_bn": alexnet_bn,
    "amazon_mlp": amazon_mlp,
    "cnn": cnn,
    "cnn_bn": cnn_bn,
    "digits_cnn": digits_cnn,
    "fasttext": fasttext,
    "harcnn": harcnn,
    "mlp": mlp,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet8": resnet8,
}


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
    if not isinstance(classes, int) or classes < 2:
        raise InputError(f"a classifier needs at least 2 classes, got {classes}")
    if name == "fasttext":
        options["vocabulary"] = vocabulary
    if seed is None:
        return MODELS[name](tuple(shape), classes, **options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](tuple(shape), classes, **options)


def options_of(name: str) -> list[str]:
    """Return the names of the options of model ``name``."""
    return [option for option in signature(MODELS[name]).parameters if option not in ("shape", "classes", "vocabulary")]
