"""A user's own code: found by ``file.py:Name`` or ``package.module:Name``, kept beside the run, refused when it changed."""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from .. import trees
from ..disk import put, writing
from ..errors import InputError, PerfedError, RunError, suggest

KEPT = ("method", "model", "data", "metrics")  # what may be a user's own, and the names of the copies


def is_own(name: str) -> bool:
    """Return whether a name means code of the user's own."""
    return ":" in name


def find(reference: str, what: str) -> Any:
    """Return what ``file.py:Name`` or ``package.module:Name`` names.

    Args:
        reference: the file or the module, a colon, and the name in it.
        what: what it is for, such as "method"; for the sentence where it is not there.
    """
    place, _, name = reference.rpartition(":")
    module = _module(place, reference, what)
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise suggest(f"{what} in '{place}'", name, public)
    return getattr(module, name)


def _module(place: str, reference: str, what: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        if not path.is_file():
            raise InputError(f"there is no file '{place}' for {what}={reference}")
        return _load(path.resolve())
    except PerfedError:
        raise
    except ModuleNotFoundError as missing:
        hint = "" if path.suffix == ".py" else "; a file is written with its ending, such as my_method.py:MyMethod"
        raise InputError(f"{what}={reference}: there is no module '{missing.name}'{hint}") from missing
    except Exception as broken:
        raise InputError(f"{what}={reference}: '{place}' cannot be imported: {type(broken).__name__}: {broken}") from broken


def _load(path: Path) -> ModuleType:
    """Return a file as a module; files beside it can be imported by it, and the same file is loaded once."""
    name = f"perfed_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def source_of(reference: str) -> Path | None:
    """Return the file that ``file.py:Name`` or ``package.module:Name`` comes from, where there is one."""
    place = reference.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    try:
        found = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        return None
    return Path(found.origin) if found is not None and found.origin and found.origin.endswith(".py") else None


def keep(references: Mapping[str, str], folder: Path) -> dict[str, dict[str, str]]:
    """Copy the source of each reference into a run's folder; return what is noted of it."""
    noted = {}
    for what, reference in references.items():
        source = source_of(reference)
        if source is None or not source.is_file():
            noted[what] = {"from": reference}
            continue
        content = source.read_bytes()
        with writing(folder):
            folder.mkdir(exist_ok=True)
        put(folder / f"{what}.py", content)
        noted[what] = {"from": reference, "file": f"{what}.py", "sha256": hashlib.sha256(content).hexdigest()}
    return noted


def unchanged(references: Mapping[str, str], noted: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return where each reference is to be loaded from; code that is not what the run was begun with is refused.

    A file that is no longer where it was is taken from the copy that the run kept.
    """
    found = {}
    for what, reference in references.items():
        told, source = noted.get(what) or {}, source_of(reference)
        copy = folder / str(told.get("file"))
        if source is not None and source.is_file():
            if "sha256" in told and hashlib.sha256(source.read_bytes()).hexdigest() != told["sha256"]:
                raise RunError(f"'{source}' is not what the run was begun with: {_difference(copy, source)}")
            found[what] = reference
        elif copy.is_file():
            if hashlib.sha256(copy.read_bytes()).hexdigest() != told.get("sha256"):
                raise RunError(f"'{copy}', the run's copy of its {what}, was changed; its SHA-256 is not the recorded one")
            found[what] = f"{copy}:{reference.rpartition(':')[2]}"
        else:
            found[what] = reference
    return found


def _difference(before: Path, after: Path) -> str:
    """Name the first line that differs, and how many do."""
    if not before.is_file():
        return "the copy is gone too"
    old, new = (path.read_text(encoding="utf-8", errors="replace").splitlines() for path in (before, after))
    changes = [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ")]
    if not changes:
        return "line ends or spaces at the end of the file differ"
    shown = [line.strip() for line in changes[:2]]
    return f"{len(changes)} lines differ, the first is `{'` and `'.join(shown)}`; the run's copy is '{before}'"


def described(thing: Any) -> dict[str, Any]:
    """Return what is known of an object, to be recorded in its place and compared when it is given again."""
    if isinstance(thing, nn.Module):
        from .states import fingerprint

        tensors = dict(thing.named_parameters()) | dict(thing.named_buffers())
        count = sum(leaf.numel() for leaf in thing.parameters())
        return {"class": _called(type(thing)), "parameters": count, "tensors": fingerprint(trees.apart(tensors)).hex()}
    if hasattr(thing, "digest") and callable(thing.digest):
        return {"class": _called(type(thing)), "digest": thing.digest()}
    if is_dataclass(thing) and not isinstance(thing, type):
        fields = {
            name: value if isinstance(value, int | float | bool | None) else str(value) for name, value in asdict(thing).items()
        }
        return {"class": _called(type(thing)), "fields": fields, "source": _source_hash(type(thing))}
    return {"function": _called(thing), "source": _source_hash(thing)}


def same(known: Mapping[str, Any], thing: Any, what: str) -> None:
    """Refuse an object that is not the one a run was begun with."""
    now = described(thing)
    for name in {*known, *now}:
        if known.get(name) != now.get(name):
            raise RunError(
                f"this {what} is not the one the run was begun with: its {name} was {known.get(name)}, is {now.get(name)}"
            )


def _called(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', type(thing).__name__)}"


def _source_hash(thing: Any) -> str | None:
    try:
        return hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (OSError, TypeError):  # typed into a console: there is no file
        return None


def takes(maker: Any, name: str) -> bool:
    """Return whether a user's function has a parameter of this name, or takes any."""
    try:
        own = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return False
    return name in own or any(p.kind is p.VAR_KEYWORD for p in own.values())


def called_with(maker: Any, what: str, offered: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Call a user's function with those of ``offered`` that it takes by name, and with its own options."""
    try:
        takes = dict(inspect.signature(maker).parameters)
    except (TypeError, ValueError):
        takes = {}
    anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    for name in options:
        if name not in takes and not anything:
            raise suggest(f"option of {what}", name, takes or ["none"])
    given = {name: value for name, value in offered.items() if name in takes} | dict(options)
    lacking = [
        n for n, p in takes.items() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and n not in given
    ]
    if lacking:
        raise InputError(
            f"{what} {getattr(maker, '__name__', maker)} needs {', '.join(lacking)}; a maker may take {' and '.join(offered)}, "
            "everything else needs a default or is given as an option"
        )
    return maker(**given)
