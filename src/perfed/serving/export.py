"""A client's model as a file that holds no sample: tensors (safetensors), ONNX, or PyTorch's exported program."""

import json
import logging
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.export import ExportedProgram

from .. import trees
from ..disk import hash_file, put, writing
from ..errors import InputError, RunError, extra
from ..trees import Params
from .card import describe, measured, noise
from .files import CARD, KEY, read_onnx, read_program, read_tensors
from .markdown import card_page
from .personal import BATCH, PersonalModel, scores_of
from .rebuild import OwnCode, fixed, plan

TOLERANCE = 1e-4  # of a score, relative to the largest
UNPICKLES = "torch may run code that is in a .pt2 file when it loads one: hand on .onnx or .safetensors instead"


class _Stored(nn.Module):
    """The model as a function of samples as they are stored: scaling and normalising are part of it.

    It holds the tensors named ``used``: what a client received of others and serves nothing with stays out of the file.
    """

    def __init__(self, model: PersonalModel, used: Container[str] | None = None) -> None:
        super().__init__()
        self._whole = (model,)  # not a submodule, whose tensors would all be taken along
        for name, tensor in model.tensors():
            if used is None or name in used:
                self.register_buffer(name, tensor.detach().cpu())

    @torch.no_grad()
    def forward(self, samples: Tensor) -> Tensor:
        (model,) = self._whole
        own: dict[str, Any] = self._buffers
        every = model.tensors()
        leaves = [own[name] if name in own else torch.empty(like.shape, dtype=like.dtype) for name, like in every]
        return model.scores(leaves, model.inputs(samples, None))


def export(
    model: PersonalModel,
    path: Path | str,
    classes: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
    samples: tuple[Tensor, Tensor] | None = None,
) -> dict[str, Any]:
    """Write a client's model to a file, read it back, compare, and write a model card in Markdown beside it.

    A ``.safetensors`` file is used by ``perfed predict`` and ``perfed serve``; an ``.onnx`` file by any ONNX runtime too, without
    perfed. A ``.pt2`` file is PyTorch's own; torch may run code that is in such a file when it loads one.

    Args:
        model: what ``run.model(3)`` returns.
        path: a file that ends in ``.safetensors``, ``.onnx`` or ``.pt2``.
        classes: the labels' names in order; by default those of the data that it was trained on.
        about: what else is noted in the file.
        samples: stored samples and labels to compare on and to score; without them the comparison is on noise.

    Returns:
        What the file says of itself, its size, how far its scores are from the model's, and how many samples it got right.

    Raises:
        InputError: the path ends in something else, or the network has no name by which tensors could find it.
        RunError: the model has diverged, or the file does not score as the model does.

    Example:
        >>> import perfed, tempfile
        >>> model = perfed.run(method="fedper", clients=3, rounds=1, progress=False).model(0)
        >>> card = perfed.export(model, tempfile.mkdtemp() + "/client-0.safetensors")
        >>> card["method"], card["round"], card["apart"]
        ('FedPer', 1, 0.0)
    """
    path, about = Path(path), dict(about or {})
    if path.suffix not in WAYS:
        raise InputError(f"a model's file ends in {', '.join(WAYS)}, got '{path.name}'")
    x, y = (noise(model.stored), None) if samples is None else (samples[0].cpu(), samples[1].cpu())
    expected = scores_of(model, x)
    if not expected.isfinite().all():
        raise RunError(f"{model.name}'s model has diverged: its scores are no numbers")
    with writing(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters, about themselves
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            half = Path(folder) / path.name
            example = torch.zeros_like(x[:1]).expand(3, *x.shape[1:])  # is kept in the file: nobody's sample
            names = _used(_program(_Stored(model), example))
            used = {name: tensor.detach().cpu() for name, tensor in model.tensors() if name in names}
            card = describe(model, used, classes, about)
            scored = None if y is None or card["task"] != "classification" else measured(expected, y, card["classes"])
            if scored is not None:
                card["scores"] = {name: scored[name] for name in ("count", "right", "accuracy", "interval")}
            write, read = WAYS[path.suffix]
            write(model, used, half, card)
            back = read(half, model)
            scores = torch.cat([back(part) for part in torch.split(x, BATCH)])
            apart = float((scores - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
            if not apart <= TOLERANCE:
                raise RunError(f"'{path}' was not written: its scores differ from the model's by {apart:.1g} of the largest")
            half.replace(path)
    put(path.with_name(f"{path.name}.md"), card_page(about | card | {"scores": scored}, path.name, hash_file(path)).encode())
    found = {k: v for k, v in card.items() if k != "rebuild"} | {"file": str(path), "bytes": path.stat().st_size, "apart": apart}
    return found | {"checked": len(x), "right": None if scored is None else scored["right"]}


def _program(net: nn.Module, example: Tensor) -> ExportedProgram:
    return torch.export.export(net.eval(), (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))


def _traced(model: PersonalModel, used: Params) -> ExportedProgram:
    """Return the model as a program of stored samples, with the tensors that it uses."""
    example = torch.zeros(3, *model.stored.shape[1:], dtype=model.stored.dtype)
    return _program(_Stored(model, used), example)


def _used(program: ExportedProgram) -> set[str]:
    """Return the buffers that anything is computed from."""
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.users]
    named = program.graph_signature.inputs_to_buffers
    return {named[node.name] for node in inputs if node.name in named}


def _write_tensors(model: PersonalModel, used: Params, path: Path, card: dict[str, Any]) -> None:
    card["rebuild"] = plan(model, used)
    tensors = trees.apart(used | {name: tensor.detach().cpu() for name, tensor in fixed(model).items()})
    save_file(tensors, path, metadata={KEY: json.dumps(card)})


def _write_program(model: PersonalModel, used: Params, path: Path, card: dict[str, Any]) -> None:
    torch.export.save(_traced(model, used), path, extra_files={CARD: json.dumps(card)})


def _write_onnx(model: PersonalModel, used: Params, path: Path, card: dict[str, Any]) -> None:
    for module in ("onnx", "onnxscript"):
        extra(module, "onnx")
    for name in ("torch.onnx", "onnxscript"):
        logging.getLogger(name).setLevel(logging.ERROR)  # they miss torchvision, which nobody asked for
    made = torch.onnx.export(_traced(model, used), dynamo=True, input_names=["samples"], output_names=["scores"], verbose=False)
    assert made is not None
    made.model.metadata_props[KEY] = json.dumps(card)
    made.save(path, external_data=False)


Write = Callable[[PersonalModel, Params, Path, dict[str, Any]], None]
Read = Callable[[Path, PersonalModel], Callable[[Tensor], Tensor]]
WAYS: dict[str, tuple[Write, Read]] = {  # the first is the default
    ".safetensors": (_write_tensors, lambda path, model: read_tensors(path, OwnCode.behind(model))[0]),
    ".onnx": (_write_onnx, lambda path, _: read_onnx(path)[0]),
    ".pt2": (_write_program, lambda path, _: read_program(path)[0]),
}
