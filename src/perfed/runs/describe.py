"""What there is: every method with its fields and messages."""

import ast
import inspect
from dataclasses import MISSING, fields
from typing import Any

from .. import methods, trees
from ..method import Method
from ..transport import Serial
from ..trees import Tree
from .assemble import assemble
from .experiment import Experiment


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
    model = "cnn_bn" if kind.needs == "BatchNorm" else "mlp"
    found = {way: sorted({leaf["field"] for leaf in leaves}) for way, leaves in _leaves(name, model, "digits").items()}
    paper = (inspect.getdoc(inspect.getmodule(kind)) or "").splitlines()[0]
    return {"name": name, "title": kind.title, "paper": paper, "fields": meanings(kind), **found}


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
    budget = {"batch_size": 2000}
    return traffic(Experiment(method=name, model=model, data=data, clients=3, rounds=1000, partition="iid", budget=budget))


def traffic(experiment: Experiment) -> dict[str, list[dict[str, Any]]]:
    """Return names, shapes and bytes of what crosses and what stays for the first client of an experiment."""
    made = assemble(experiment, 0)
    site, store = made.site, made.store()
    down = made.method.send(made.server, 0)
    up = next(iter(Serial(site, store).train(made.server, [0], 1, set(), False)))
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
