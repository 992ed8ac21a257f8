"""Pretrained weights out of a local file, for any network: tensors by name, and never code."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from ..errors import DataError


def load(network: nn.Module, path: Path, model: str) -> None:
    """Copy a file's tensors into a network of body and head.

    The names are those of the whole network (``body.…``, ``head.…``) or of the body alone, as its publisher wrote them. The
    body must be there whole. A head that fits is taken; the publisher's own last layer is not.
    """
    stored, whole = read(path), network.state_dict()
    named = any(name.startswith("body.") for name in stored)
    wanted = {name if named else name.removeprefix("body."): name for name in whole if name.startswith("body.")}
    for name, own in wanted.items():
        if name not in stored:
            if not name.endswith("num_batches_tracked"):  # files from before 2018 have no such counter
                raise DataError(f"{path} has no '{name}'; expected the weights of {model}")
        elif stored[name].shape != whole[own].shape:
            found, right = tuple(stored[name].shape), tuple(whole[own].shape)
            raise DataError(f"{path}: '{name}' has shape {found}, expected {right} as in {model}")
        else:
            whole[own] = stored[name]
    rest = sorted(set(stored) - set(wanted))
    heads = [name for name in rest if named and name in whole]
    odd = _odd([name for name in rest if name not in heads], {name.partition(".")[0] for name in wanted})
    if odd:
        raise DataError(f"{path} has '{odd[0]}', which {model} has not; expected the weights of {model}")
    if heads and all(stored[name].shape == whole[name].shape for name in heads):
        whole |= {name: stored[name] for name in heads}
    network.load_state_dict(whole)


def _odd(rest: list[str], inside: set[str]) -> list[str]:
    """Return what a network has no place for; a single layer that is not inside its body is the publisher's last one."""
    within = [name for name in rest if name.partition(".")[0] in inside]
    return within or (rest if len({name.rpartition(".")[0] for name in rest}) > 1 else [])


def read(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file or of a state dict, read without running anything."""
    if not path.is_file():
        raise DataError(f"no file of weights at {path}; give the path of a safetensors file or a state dict (.pth)")
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


def hashed(path: Path) -> str:
    """Return the SHA-256 of a file, by which a run knows its weights again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
