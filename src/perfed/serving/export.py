"""A client's model as a file that runs without perfed and holds no sample: PyTorch's exported program, or ONNX."""

import json
import logging
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from .. import __version__
from ..disk import writing
from ..errors import InputError, RunError, extra
from .personal import PersonalModel

CARD = "perfed.json"  # in a .pt2; in ONNX the model's property "perfed"
TOLERANCE = 1e-4  # of a score, relative to the largest
BATCH = 256  # samples at once when a file is compared with the model that it was made of
STORED = {
    "image": "pictures with channels first, values 0 to 255",
    "signal": "signals with channels first, as measured",
    "features": "numbers in the order of the data set's columns",
    "tokens": "places of words in `vocabulary`; 0 fills a short text, 1 is any other word",
}


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
    """Write a client's model to a file that runs without perfed, read it back, and compare.

    Args:
        model: what ``run.model(3)`` returns.
        path: a file that ends in ``.pt2`` or ``.onnx``.
        classes: the labels' names in order.
        about: what else is noted in the file.
        samples: stored samples and labels to compare on; without them the comparison is on noise.

    Returns:
        What the file says of itself, its size, how far its scores are from the model's, and how many samples it got right.

    Raises:
        InputError: the path ends in something else.
        RunError: the model has diverged, or the file does not score as the model does.

    Example:
        >>> import perfed, tempfile
        >>> model = perfed.run(method="fedper", clients=3, rounds=1, progress=False).model(0)
        >>> card = perfed.export(model, tempfile.mkdtemp() + "/client-0.pt2")
        >>> card["method"], card["round"], card["apart"] < 1e-4
        ('FedPer', 1, True)
    """
    path = Path(path)
    if path.suffix not in WAYS:
        raise InputError(f"a model's file ends in {' or '.join(WAYS)}, got '{path.name}'")
    write, read = WAYS[path.suffix]
    x, y = (_noise(model.stored), None) if samples is None else (samples[0].cpu(), samples[1].cpu())
    expected = _scores(model, x)
    if not expected.isfinite().all():
        raise RunError(f"{model.name}'s model has diverged: its scores are no numbers")
    card = {
        "perfed": __version__,
        "method": type(model.method).__name__,
        "client": model.name,
        "round": model.number,
        **(about or {}),
        "input": {"shape": ["batch", *x.shape[1:]], "type": str(x.dtype).removeprefix("torch."), "what": _stored(model)},
        "output": "one score per class; the largest is the answer",
        "classes": list(classes),
        **({} if model.columns is None else {"columns": model.columns.as_json()}),
    }
    with writing(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters, about themselves
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            half = Path(folder) / path.name
            example = torch.zeros_like(x[:1]).expand(3, *x.shape[1:])  # is kept in the file: nobody's sample
            net = _Stored(model, _used(_program(_Stored(model), example)))
            write(_program(net, example), half, card)
            back = read(half)
            scores = torch.cat([back(part) for part in torch.split(x, BATCH)])
            apart = float((scores - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
            if not apart <= TOLERANCE:
                raise RunError(f"'{path}' was not written: its scores differ from the model's by {apart:.1g} of the largest")
            half.replace(path)
    found = card | {"file": str(path), "bytes": path.stat().st_size, "apart": apart}
    right = None if y is None else int((scores.argmax(1) == y).sum())
    return found | {"checked": len(x), "right": right}


@torch.no_grad()
def _scores(model: PersonalModel, x: Tensor) -> Tensor:
    """Return the model's scores as it serves."""
    before = model.training
    place = next((leaf.device for _, leaf in model.tensors()), x.device)
    try:
        return torch.cat([model.eval().raw(part.to(place)).cpu() for part in torch.split(x, BATCH)])
    finally:
        model.train(before)


def _noise(like: Tensor, count: int = 64) -> Tensor:
    """Return made-up samples of the stored kind."""
    generator = torch.Generator().manual_seed(0)
    shape = (count, *like.shape[1:])
    if like.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=like.dtype)
    return torch.randint(0, 256 if like.dtype == torch.uint8 else 2, shape, generator=generator).to(like.dtype)


def _stored(model: PersonalModel) -> str:
    return STORED.get(getattr(model.inputs, "kind", ""), "samples as the data set stores them")


def _program(net: nn.Module, example: Tensor) -> ExportedProgram:
    return torch.export.export(net.eval(), (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))


def _used(program: ExportedProgram) -> set[str]:
    """Return the buffers that anything is computed from."""
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.users]
    named = program.graph_signature.inputs_to_buffers
    return {named[node.name] for node in inputs if node.name in named}


def _write_program(program: ExportedProgram, path: Path, card: dict[str, Any]) -> None:
    torch.export.save(program, path, extra_files={CARD: json.dumps(card)})


def _read_program(path: Path) -> Callable[[Tensor], Tensor]:
    net = torch.export.load(path).module()
    return lambda x: net(x)


def _write_onnx(program: ExportedProgram, path: Path, card: dict[str, Any]) -> None:
    for module in ("onnx", "onnxscript"):
        extra(module, "onnx")
    for name in ("torch.onnx", "onnxscript"):
        logging.getLogger(name).setLevel(logging.ERROR)  # they miss torchvision, which nobody asked for
    made = torch.onnx.export(program, dynamo=True, input_names=["samples"], output_names=["scores"], verbose=False)
    assert made is not None
    made.model.metadata_props["perfed"] = json.dumps(card)
    made.save(path, external_data=False)


def _read_onnx(path: Path) -> Callable[[Tensor], Tensor]:
    session = extra("onnxruntime", "onnx").InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"samples": x.numpy()})[0])


WAYS = {".pt2": (_write_program, _read_program), ".onnx": (_write_onnx, _read_onnx)}
