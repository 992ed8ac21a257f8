"""A model as plain values and tensors, and back: the network and the method by name; nothing in a file is ever executed."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import methods, models, trees
from ..data.inputs import Inputs as Preparation
from ..errors import InputError, PerfedError, RunError
from ..task import Task
from ..trees import Params, Tree
from .personal import AnyMethod, Made, PersonalModel

FIXED = "fixed/"  # names of tensors that a method inserts and never trains


@dataclass(frozen=True)
class OwnCode:
    """The user's own network and method, for models that were made with them."""

    network: Callable[[dict[str, Any], dict[str, Any]], nn.Module] | nn.Module | None = None  # of what it is offered, and options
    method: type[AnyMethod] | None = None
    task: Task | None = None  # the network itself, where it is in memory

    @staticmethod
    def behind(model: PersonalModel) -> "OwnCode":
        """Return the code of a model's own that no file names, to read back what was just written."""
        own = _method(model.method)["name"].startswith("own:"), ":" in str(model.task.named.get("name", ":"))
        return OwnCode(method=type(model.method) if own[0] else None, task=model.task if own[1] else None)


def plan(model: PersonalModel, used: Params) -> dict[str, Any]:
    """Return what rebuilds a model from the tensors that it uses; others are noted by their form alone."""
    task, method = model.task, model.method
    if not task.named:
        raise InputError("this network is an object without a name, so no file of tensors rebuilds it; export it as .onnx")
    if not isinstance(model.inputs, Preparation):
        raise InputError("these samples are prepared by a function of your own, which no file of tensors holds; use .onnx")
    return {
        "method": _method(method),
        "network": {
            **task.named,
            "name": task.named["name"].rpartition("/")[2],
            "shape": list(model.inputs.shape(model.stored.shape[1:])),
            "classes": task.classes,
        },
        "seed": task.seed,
        "precision": task.precision,
        "states": form(model.like),
        "unused": {n: [str(t.dtype)[6:], list(t.shape)] for n, t in model.tensors() if n not in used},
    }


def fixed(model: PersonalModel) -> Params:
    """Return the tensors of inserted modules that are no part of any state, such as a classifier that is never trained."""
    own = {path.rpartition("/")[2] for path, _ in trees.named(model.like)}
    parts = model.task.parts
    return {f"{FIXED}{part}/{n}": t for part in parts for n, t in parts[part].start.items() if n not in own}


def rebuilt(card: Mapping[str, Any], tensors: Params, own: OwnCode) -> PersonalModel:
    """Return the model that a card and its tensors describe; one that does not fit together is refused."""
    try:
        return _rebuilt(card, tensors, own)
    except PerfedError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as wrong:
        raise RunError(f"the file does not hold together: {type(wrong).__name__}: {wrong}") from wrong


def _rebuilt(card: Mapping[str, Any], tensors: Params, own: OwnCode) -> PersonalModel:
    told = card["rebuild"]
    method = _made_method(told["method"], own)
    prepared: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in card["preprocessing"].items()}
    task = own.task or _task(told, prepared["kind"] == "tokens", own, str(card.get("task", "classification")))
    empty = {n: torch.zeros(shape, dtype=getattr(torch, kind)) for n, (kind, shape) in told["unused"].items()}
    like = _tree(told["states"], sys.modules[type(method).__module__])
    names = [path.replace(".", "_") for path, _ in trees.named(like)]
    # a copy is aligned: sums over unaligned memory round differently
    leaves = [empty[n] if n in empty else tensors[n].clone() for n in names]
    stored = torch.empty(0, *card["input"]["shape"][1:], dtype=getattr(torch, card["input"]["type"]))
    made = Made(method, task, Preparation(**prepared), stored)
    model = PersonalModel.again(made, trees.rebuild(like, leaves), str(card["client"]), int(card["round"]))
    _set_fixed(model, tensors)
    return model


def _task(told: Mapping[str, Any], tokens: bool, own: OwnCode, goal: str) -> Task:
    asked = told["network"]
    made = Task.of(
        _network(asked, own, goal),
        tuple(asked["shape"]),
        int(asked["classes"]),
        seed=int(told["seed"]),
        precision=told["precision"],
        example=torch.zeros(2, *asked["shape"], dtype=torch.int64) if tokens else None,
    )
    return replace(made, named={k: asked[k] for k in ("name", "options", "words")})


def _set_fixed(model: PersonalModel, tensors: Params) -> None:
    """Lay stored tensors over those that inserted modules were drawn with: another version of torch may draw others."""
    kept: dict[str, Params] = {}
    for name, tensor in tensors.items():
        if name.startswith(FIXED):
            _, part, leaf = name.split("/", 2)
            kept.setdefault(part, {})[leaf] = tensor.clone()
    with torch.no_grad():
        model.raw(torch.zeros(2, *model.stored.shape[1:], dtype=model.stored.dtype))  # inserts the modules
    parts = model.task.parts
    for part, leaves in kept.items():
        parts[part] = replace(parts[part], start=parts[part].start | leaves)
    model.task = model.task.hollow()  # what it was drawn with is nobody's


def _method(method: AnyMethod) -> dict[str, Any]:
    """Return a method's name and those of its fields that are not as usual; what it may spend is over."""
    kind = type(method)
    home, usual = kind.__module__.rpartition(".")[2], kind()
    options = {
        f.name: getattr(method, f.name)
        for f in fields(method)
        if f.name != "budget" and getattr(method, f.name) != getattr(usual, f.name)
    }
    built_in = methods.CATALOGUE.get(home) == kind.__name__ and kind is methods.find(home)
    return {"name": home if built_in else f"own:{kind.__name__}", "options": options}


def _made_method(told: Mapping[str, Any], own: OwnCode) -> AnyMethod:
    name = str(told["name"])
    options: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in told["options"].items()}
    if not name.startswith("own:"):
        return methods.find(name)(**options)
    if own.method is None:
        wanted = name.removeprefix("own:")
        raise InputError(f"the model was trained by a method of somebody's own; give its code: --method FILE.py:{wanted}")
    return own.method(**options)


def _network(asked: Mapping[str, Any], own: OwnCode, goal: str) -> nn.Module:
    name, shape, classes = str(asked["name"]), tuple(asked["shape"]), int(asked["classes"])
    if ":" not in name:
        options = asked["options"] | ({"paired": False} if name == "logistic" and goal != "classification" else {})
        return models.build(name, shape=shape, classes=classes, vocabulary=asked["words"], **options)
    if own.network is None:
        raise InputError(f"the network is code of somebody's own, which no file brings along; give it: --network {name}")
    given = {"shape": shape, "classes": classes, "vocabulary": asked["words"]}
    made = own.network if isinstance(own.network, nn.Module) else own.network(given, asked["options"])
    return made if isinstance(getattr(made, "body", None), nn.Module) else models.wrap(made)


def form(tree: Tree) -> Any:
    """Return a tree's form as plain values: dicts and tuples by their keys, a tensor as nothing."""
    if isinstance(tree, Tensor):
        return None
    if isinstance(tree, dict):
        return {"dict": {k: form(v) for k, v in tree.items()}}
    return {"tuple": [form(v) for v in tree], "name": type(tree).__name__ if hasattr(tree, "_fields") else ""}


def _tree(told: Any, home: Any) -> Tree:
    """Return an empty tree of a form; its named tuples are those of the method's own module, and no other class."""
    if told is None:
        return torch.empty(0)
    if "dict" in told:
        return {str(k): _tree(v, home) for k, v in told["dict"].items()}
    branches = [_tree(v, home) for v in told["tuple"]]
    if not told["name"]:
        return tuple(branches)
    kind = getattr(home, str(told["name"]), None)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and len(getattr(kind, "_fields", ())) == len(branches)):
        raise RunError(f"the file names a state '{told['name']}' that the method does not have")
    return kind(*branches)
