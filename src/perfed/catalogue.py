"""What there is: every method with its fields and messages, and what this machine can do."""

import ast
import inspect
import os
import platform
import shutil
from dataclasses import MISSING, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from . import methods, trees
from .build import federation_of, method_of, samples_of, split_of, task_of
from .errors import install
from .method import Method
from .settings import Settings, build
from .transport import Serial, Site, Store
from .trees import Tree


def everything() -> list[dict[str, Any]]:
    """Return every method: name, paper, fields, what goes up, down and stays private."""
    return [_entry(name) for name in sorted(methods.CATALOGUE)]


def describe(name: str, model: str = "mlp", data: str = "digits") -> dict[str, Any]:
    """Return one method in full, with the leaves of its messages for a model."""
    kind = methods.find(name)
    leaves = _leaves(name, model, data)
    return _entry(name) | {"idea": inspect.cleandoc(kind.__doc__ or ""), "model": model, "data": data, "leaves": leaves}


def _entry(name: str) -> dict[str, Any]:
    kind = methods.find(name)
    model = "cnn_bn" if name == "fedbn" else "mlp"
    found = {way: sorted({leaf["field"] for leaf in leaves}) for way, leaves in _leaves(name, model, "digits").items()}
    paper = (inspect.getdoc(inspect.getmodule(kind)) or "").splitlines()[0]
    return {"name": name, "title": kind.__name__, "paper": paper, "fields": meanings(kind), **found}


def meanings(kind: type[Method[Any, Any, Any, Any]]) -> list[dict[str, Any]]:
    """Return a method's own fields with default, type and the meaning that stands beside them in the source."""
    source = inspect.getsource(kind)
    lines, comments = source.splitlines(), {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comments[node.target.id] = lines[(node.end_lineno or 1) - 1].partition("# ")[2]
    out = []
    for field in fields(kind):
        if field.name in ("budget", "norm"):
            continue
        default = field.default if field.default is not MISSING else None
        out.append(
            {
                "name": field.name,
                "default": default,
                "meaning": comments.get(field.name, ""),
                "type": str(field.type).replace("typing.", "").removeprefix("<class '").removesuffix("'>"),
            }
        )
    norm = next(f.default for f in fields(kind) if f.name == "norm")
    return [
        *out,
        {
            "name": "norm",
            "default": norm,
            "type": "str",
            "meaning": "who owns BatchNorm: all averaged, local_stats, local_all (set as norm=)",
        },
    ]


def _leaves(name: str, model: str, data: str) -> dict[str, list[dict[str, Any]]]:
    """Return what one client receives, answers and keeps, found by one tiny round."""
    settings = build(
        {
            "method": name,
            "model": model,
            "data": data,
            "clients": 3,
            "rounds": 1000,
            "partition": "iid",
            "budget": {"batch_size": 2000},
        }
    )
    samples = samples_of(settings)
    return traffic(settings, samples)


def traffic(settings: Settings, samples: Any) -> dict[str, list[dict[str, Any]]]:
    """Return names, shapes and bytes of what crosses and what stays for the first client of an experiment."""
    federation, vocabulary = federation_of(settings, samples, split_of(settings, samples, 0), 0)
    method, task = method_of(settings), task_of(settings, federation, 0, vocabulary)
    site, server, first = Site.of(method, task, federation)
    store = Store(first, len(federation))
    down = method.send(server, 0)
    up = next(iter(Serial(site, store).train(server, [0], 1, set(), False)))
    private = store[0]
    found = {
        "down": dict(site.withheld.crossing(down)),
        "up": dict(site.withheld.crossing(up)),
        "private": dict(trees.named(private.mine)) | {f"kept/{k}": v for k, v in private.kept.items()},
    }
    return {way: [_leaf(path, leaf) for path, leaf in leaves.items()] for way, leaves in found.items()}


def _leaf(path: str, leaf: Tree) -> dict[str, Any]:
    field = path.split("/")[0] if "/" in path else path.removeprefix(trees.STATE).split(".")[0]
    return {
        "name": path,
        "field": field,
        "shape": "×".join(map(str, leaf.shape)) or "1",
        "type": str(leaf.dtype).removeprefix("torch."),
        "bytes": trees.size_of(leaf),
    }


def checkup() -> dict[str, Any]:
    """Return what this machine and installation can do."""
    import torch

    checks = [
        _check("python", platform.python_version() >= "3.11", platform.python_version()),
        _check("torch", True, torch.__version__),
        _check("cores", True, f"{os.cpu_count()}; one worker process each, one torch thread per worker"),
        _check(
            "cuda",
            torch.cuda.is_available(),
            "device=cuda works" if torch.cuda.is_available() else "no GPU: device=cpu",
            need=False,
        ),
        _check(
            "bf16",
            torch.cpu._is_avx512_bf16_supported(),
            "precision=bf16 pays off only with bf16 instructions",
            need=False,
        ),
        _check("disk", shutil.disk_usage(".").free > 2**30, f"{shutil.disk_usage('.').free >> 30} GiB free here"),
        _check(
            "data",
            bool(os.environ.get("PERFED_DATA")),
            os.environ.get("PERFED_DATA") or "PERFED_DATA is not set; embedded data only",
            need=False,
        ),
    ]
    extras = {"pillow": "images", "scipy": "test", "flwr": "flower", "cryptography": "flower", "onnxscript": "onnx"}
    for package, extra in extras.items():
        try:
            checks.append(_check(package, True, version(package)))
        except PackageNotFoundError:
            checks.append(_check(package, False, install(extra), need=False))
    return {"ok": all(c["state"] != "missing" for c in checks), "checks": checks}


def _check(what: str, fine: bool, note: str, *, need: bool = True) -> dict[str, str]:
    return {"what": what, "state": "ok" if fine else "missing" if need else "absent", "note": note}
