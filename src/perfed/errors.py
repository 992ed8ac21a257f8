"""Everything perfed raises on purpose.

PerfedError
├── InputError        a setting, name or value that cannot be right (the command line exits with 2)
│   └── MethodError   a method was asked for what it cannot do
├── DataError         a file of samples, a split or a download that is not what it should be
├── RunError          a run's folder that is damaged, taken or cannot be written
├── WireError         a message with the wrong names, shapes, types or values
└── MissingExtra      an optional dependency is not installed
"""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType


class PerfedError(Exception):
    """What perfed says in one sentence instead of a traceback."""


class InputError(PerfedError, ValueError):
    """A setting, name or value cannot be right."""


class MethodError(InputError):
    """A method was asked for what it cannot do."""


class DataError(PerfedError):
    """A file of samples, a split or a download is not what it should be."""


class RunError(PerfedError):
    """A run's folder is damaged, taken or cannot be written."""


class Taken(RunError):
    """A folder is held by another process."""


class WireError(PerfedError):
    """A message has the wrong names, shapes, types or values."""


class MissingExtra(PerfedError, ImportError):
    """An optional dependency is not installed."""


def suggest(kind: str, name: str, valid: Iterable[str]) -> InputError:
    """Return the error for an unknown ``name``, with the nearest valid one."""
    known = sorted(valid)
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
    return InputError(f"no {kind} '{name}'; {hint}")


def install(extra: str) -> str:
    """Return the command that brings an extra: from the source tree or the file that perfed itself was installed from."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    tree = Path(__file__).resolve().parents[2]
    try:
        told = json.loads(distribution("perfed").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # run from a tree that was never installed
        told = {"url": tree.as_uri(), "dir_info": {"editable": True}}
    url = str(told.get("url", ""))
    if "dir_info" not in told:
        return f'pip install "perfed[{extra}]{f" @ {url}" if url else ""}"'
    place = Path(url2pathname(urlsplit(url).path))
    flag = "-e " if told["dir_info"].get("editable") else ""
    return f'pip install {flag}"{"." if place == Path.cwd() else place}[{extra}]"'


def extra(module: str, name: str) -> ModuleType:
    """Import an optional ``module`` or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise MissingExtra(f"{module} is not installed; {install(name)}") from missing
