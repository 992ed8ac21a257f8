"""Models' files, read: what they say of themselves, and a function from stored samples to scores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import RunError, extra
from .rebuild import OwnCode, rebuilt

KEY = "perfed"  # under which safetensors' metadata and ONNX's properties have the card
CARD = "perfed.json"  # in a .pt2

Scores = Callable[[Tensor], Tensor]  # of stored samples


def read_tensors(path: Path, own: OwnCode | None = None) -> tuple[Scores, dict[str, Any]]:
    """Return the model of a safetensors file: its network rebuilt by name."""
    try:
        with safe_open(path, framework="pt") as file:
            told = (file.metadata() or {}).get(KEY, "")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RunError(f"'{path}' is damaged: {error}") from error
    card = card_of(told, path)
    if "rebuild" not in card:
        raise RunError(f"'{path}' holds tensors, but not what they belong to; `perfed export` writes files that do")
    model = rebuilt(card, tensors, own or OwnCode())

    @torch.no_grad()
    def scores(x: Tensor) -> Tensor:
        return model.raw(x)

    return scores, card


def read_onnx(path: Path) -> tuple[Scores, dict[str, Any]]:
    """Return the model of an ONNX file."""
    runtime = extra("onnxruntime", "onnx")
    try:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common kind
        raise RunError(f"'{path}' is no ONNX file that can be run: {str(error).splitlines()[0]}") from error
    card = card_of(session.get_modelmeta().custom_metadata_map.get(KEY, ""), path)
    return lambda x: torch.from_numpy(session.run(None, {"samples": x.numpy()})[0]), card


def read_program(path: Path) -> tuple[Scores, dict[str, Any]]:
    """Return the model of a .pt2 file; torch may unpickle what is in it, so only of somebody who is trusted."""
    told = {CARD: ""}
    try:
        net = torch.export.load(path, extra_files=told).module()
    except Exception as error:  # whatever a damaged archive makes of torch
        raise RunError(f"'{path}' is no .pt2 file that can be run: {type(error).__name__}") from error
    return lambda x: net(x), card_of(told[CARD], path)


def card_of(told: str, path: Path) -> dict[str, Any]:
    """Return what a file says of itself; one that says nothing was not written by perfed."""
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RunError(f"'{path}' does not say what it is; `perfed export` writes files that do")
    return found
