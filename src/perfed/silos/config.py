"""A silo's own configuration: which client it is, where its data are, where its states and its policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, suggest
from ..runs.choice import Choice
from . import start


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where a silo finds the data behind a name: the whole of it, or this client's rows of the experiment's split."""

    source: Choice
    rows: str = "all"  # "all" of it is this silo's; "split": the experiment's split says which
    classes: tuple[str, ...] = ()  # the common list of labels, where this silo has not all of them
    called: str = ""  # the site's own name in tables; none where the split names it


@dataclass(frozen=True, kw_only=True)
class SiloConfig:
    """A silo's own configuration file."""

    folder: Path
    client: int
    data: Mapping[str, DataSource]
    policy: Path = Path("policy.yaml")
    state: Path = Path("state")
    called: str = ""  # the site's own name; without one its folder's
    device: str = "cpu"
    weights: str | None = None  # a file, where a model starts from weights that the server names
    start: str = ""  # what the silos share and the server never has: private parts begin with it

    @staticmethod
    def load(path: Path) -> "SiloConfig":
        """Return the configuration in a YAML file; paths in it are relative to its folder."""
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as wrong:
            raise InputError(f"cannot read the silo's configuration '{path}': {wrong}") from wrong
        known = SiloConfig.__dataclass_fields__.keys() - {"folder", "start"}
        if not isinstance(found, dict) or not isinstance(found.get("data"), dict) or type(found.get("client")) is not int:
            raise InputError(f"'{path}' needs `client: NUMBER` and `data: {{NAME: SOURCE}}`")
        for name in found:
            if name not in known:
                raise suggest(f"entry in '{path}'", str(name), known)
        folder = path.resolve().parent
        called = str(found.get("called", folder.name))
        data = {str(name): _source(entry, folder, called) for name, entry in found.pop("data").items()}
        for name in ("policy", "state"):
            found[name] = folder / str(found.get(name, getattr(SiloConfig, name)))
        return SiloConfig(folder=folder, data=data, start=start.read(folder), **found)


def _source(entry: Any, folder: Path, called: str) -> DataSource:
    entry = {"name": entry} if isinstance(entry, str) else dict(entry)
    rows, classes = entry.pop("rows", "all"), tuple(entry.pop("classes", ()))
    if rows not in ("all", "split"):
        raise InputError(f"rows must be all (the whole source is this silo's) or split, got '{rows}'")
    scheme, mark, rest = str(entry.get("name")).partition(":")
    if mark:
        entry["name"] = f"{scheme}:{folder / rest}"
    return DataSource(source=Choice.model_validate(entry), rows=rows, classes=classes, called=called if rows == "all" else "")
