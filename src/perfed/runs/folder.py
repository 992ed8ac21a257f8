"""A run on disk: the only place that knows its files' names, and how each is written, read and locked."""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import chain
from ..disk import get_object, get_yaml, hash_file, put, put_json, put_yaml, writing
from ..errors import RunError
from . import forms, parse, proof
from .experiment import Experiment
from .lines import FINAL
from .lines import Lines as Lines
from .place import SeedFolder as SeedFolder

SETTINGS, MANIFEST, COMPARISON = "settings.yaml", "manifest.json", "compare.json"


class RunFolder:
    """A run's folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder('{self.path}')"

    @staticmethod
    def there(path: Path | str) -> bool:
        """Return whether a folder holds a run."""
        return (Path(path) / SETTINGS).is_file()

    @staticmethod
    def inside(path: Path) -> list["RunFolder"]:
        """Return the runs directly inside a folder, by name."""
        return [RunFolder(note.parent) for note in sorted(path.glob(f"*/{SETTINGS}"))]

    @cached_property
    def experiment(self) -> Experiment:
        """What the run was asked for; settings that were changed since it began are refused."""
        if not self.there(self.path) or not (self.path / MANIFEST).is_file():
            inside = [found.path.name for found in self.inside(self.path)]
            hint = f", but holds {', '.join(inside)}: name one" if inside else f": it has no {SETTINGS} and {MANIFEST}"
            raise RunError(f"'{self.path}' is no run{hint}")
        raw = get_yaml(self.path / SETTINGS)
        found = parse.recorded(raw)
        manifest = self.manifest
        earlier = {known["settings"] for known in manifest.get("earlier", ())}  # as it stood before the run was extended
        if found.digest() not in {manifest.get("settings"), *earlier}:
            raise RunError(f"'{self.path / SETTINGS}' was changed after the run began; start a new run instead")
        return parse.of_its_version(raw, found)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they stand in the file, unchecked: for reading runs that cannot be trained here."""
        return get_yaml(self.path / SETTINGS)

    def put_experiment(self, experiment: Experiment) -> None:
        put_yaml(self.path / SETTINGS, experiment.plain())
        self.__dict__.pop("experiment", None)

    @property
    def complete(self) -> bool:
        """Whether the folder was made to the end: the manifest comes last."""
        return (self.path / MANIFEST).is_file()

    @property
    def manifest(self) -> dict[str, Any]:
        """Versions, machine, command, and the hashes of data, splits and settings."""
        return forms.formed(self.path / MANIFEST, forms.MANIFEST)

    def put_manifest(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / MANIFEST, found)

    @property
    def summary(self) -> dict[str, Any]:
        """What `perfed run --json` prints."""
        path = self.path / "summary.json"
        return proof.fitting(path, get_object(path), self._parts())

    @property
    def summed(self) -> bool:
        """Whether the summary is there."""
        return (self.path / "summary.json").is_file()

    def put_summary(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "summary.json", proof.stamped(found, self._parts()))

    def _parts(self) -> dict[str, Any]:
        return proof.run_parts(self.path, {number: seed.path for number, seed in self.seeds.items()})

    def unsum(self) -> None:
        """Forget the summary, and that of the comparison around it: there is more to come."""
        (self.path / "summary.json").unlink(missing_ok=True)
        if CompareFolder.there(self.path.parent):
            (self.path.parent / "summary.json").unlink(missing_ok=True)

    def fits(self) -> None:
        """Refuse a record that is not the one that was written."""
        for number, seed in self.seeds.items():
            proof.seed(seed.path, number)
        if self.summed and all((seed.path / FINAL).exists() for seed in self.seeds.values()):
            self.summary  # noqa: B018

    @property
    def page(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"

    @property
    def analyses(self) -> Path:
        """Where analyses go."""
        return self.path / "analysis"

    @property
    def models(self) -> Path:
        """Where exported models go."""
        return self.path / "models"

    @property
    def newcomers(self) -> Path:
        """Where models of clients go that joined when the run was over."""
        return self.path / "newcomers"

    @property
    def code(self) -> Path:
        """Where copies of the user's own code are."""
        return self.path / "code"

    def seed(self, number: int) -> SeedFolder:
        """Return one seed's folder."""
        return SeedFolder(self.path / f"seed-{number}")

    @property
    def seeds(self) -> dict[int, SeedFolder]:
        """The seeds that have a folder."""
        found = {int(path.name[5:]): SeedFolder(path) for path in self.path.glob("seed-*") if path.name[5:].isdigit()}
        return dict(sorted(found.items()))

    @property
    def ended(self) -> float:
        """When the last seed was finished, in seconds since the epoch."""
        return max(path.stat().st_mtime for path in self.path.glob("seed-*/final.json"))

    def keep_record(self, target: "RunFolder", home: Path) -> None:
        """Copy what tables and pages read of the run, without its states and without the place of ``home`` on this machine.

        Where the place stands in the record, the copy is another record: it has a chain of its own, which names the end of
        the one that was copied.
        """
        kept = {number: seed for number, seed in self.seeds.items() if seed.lines.read(0)}
        for number, seed in kept.items():
            seed.keep_record(target.add_seed(number))
        if not self.summed:
            (target.path / "summary.json").unlink(missing_ok=True)  # of a former copy: the run has gone on since
        changed = [
            self._copy(name, target, home, get, write)
            for name, get, write in (
                (SETTINGS, get_yaml, put_yaml),
                (MANIFEST, get_object, put_json),
                ("summary.json", get_object, put_json),
            )
            if (self.path / name).exists()
        ]
        if not any(changed):
            return
        for number in kept:
            proof.anew(target.seed(number).path)
        if target.summed:
            summary = get_object(target.path / "summary.json")
            target.put_summary({key: value for key, value in summary.items() if key != chain.FIELD})

    def _copy(self, name: str, target: "RunFolder", home: Path, get: Callable[[Path], Any], write: Callable[..., None]) -> bool:
        """Copy a file byte by byte, or without the place of ``home`` if it stands there; return whether it does."""
        found = get(self.path / name)
        told = nameless(found, home)
        if told == found:
            put(target.path / name, (self.path / name).read_bytes())
        else:
            write(target.path / name, told)
        return bool(told != found)

    def add_seed(self, number: int) -> SeedFolder:
        """Make one seed's folder."""
        made = self.seed(number)
        with writing(made.path):
            made.path.mkdir(parents=True, exist_ok=True)
        return made

    def adopt(self, other: "RunFolder", seeds: Sequence[int]) -> None:
        """Take seeds over from another run's folder, which goes away."""
        for number in seeds:
            shutil.rmtree(self.seed(number).path, ignore_errors=True)  # left by a call that ended right here
            other.seed(number).path.rename(self.seed(number).path)
        shutil.rmtree(other.path)


_PLACES = {"out": 2, "run": 3}  # what in a record is a place, and how many names of it stay


def nameless(content: Any, home: Path, what: str = "") -> Any:
    """Return a record's content with folders' names where their places on this machine stood; ``what`` is the key of a text."""
    if isinstance(content, dict):
        return {key: nameless(value, home, key) for key, value in content.items()}
    if isinstance(content, list):
        return [nameless(value, home, what) for value in content]
    if isinstance(content, str):
        for place in {str(home.absolute()), str(home.resolve())}:
            content = content.replace(place, home.resolve().name)
        if what in _PLACES and Path(content).is_absolute():  # where it was when the run began
            return "/".join(Path(content).parts[-_PLACES[what] :]).lstrip("/")
        if what == "command" and "/" in content:
            return _without_places(content)
    return content


def _without_places(command: str) -> str:
    """Return a command with the last names of the places that it gives in full."""
    try:
        before = shlex.split(command)
    except ValueError:  # a quote without its other half
        before = command.split(" ")
    words = []
    for word in before:
        option, mark, place = word.partition("=") if "=" in word else ("", "", word)
        words.append(f"{option}{mark}{Path(place).name}" if Path(place).is_absolute() else word)
    return command if words == before else shlex.join(words)


class CompareFolder:
    """A comparison's folder: runs beside each other, and what they were compared by."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @staticmethod
    def there(path: Path | str) -> bool:
        """Return whether a folder holds a comparison."""
        return (Path(path) / COMPARISON).is_file()

    @property
    def runs(self) -> list[RunFolder]:
        """The runs that are compared, in the order in which they were asked for."""
        return [RunFolder(self.path / name) for name in get_object(self.path / COMPARISON)["runs"]]

    def begin(self, runs: Sequence[RunFolder], command: str) -> None:
        """Note which runs are compared."""
        put_json(self.path / COMPARISON, {"runs": [found.path.name for found in runs], "command": command})

    @property
    def summary(self) -> dict[str, Any]:
        """What `perfed compare --json` prints."""
        path = self.path / "summary.json"
        return proof.fitting(path, get_object(path), self.parts())

    @property
    def summed(self) -> bool:
        """Whether the summary is there."""
        return (self.path / "summary.json").is_file()

    def put_summary(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Write the summary; return it as it was written."""
        written = proof.stamped(found, self.parts())
        put_json(self.path / "summary.json", written)
        return written

    def parts(self) -> dict[str, Any]:
        """Return the hashes that the summary stands on; nothing where a run is of a version before chains."""
        below = {run.path.name: run.summary.get(chain.FIELD) for run in self.runs if run.summed}
        return {} if not below or None in below.values() else {"runs": below, COMPARISON: hash_file(self.path / COMPARISON)}

    @property
    def page(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"


def fresh(out: Path, stem: str, name: str | None) -> Path:
    """Return a folder that is not there yet: ``name`` where one was given, else the stem, numbered where it is taken."""
    if RunFolder.there(out) or (out / MANIFEST).exists():
        raise RunError(f"'{out}' is itself a run; `out` is the folder in which run folders are made")
    folder, number = out / (name or stem), 1
    with writing(folder):
        if name is not None:
            if folder.exists() and any(folder.iterdir()):
                further = f"`perfed resume {folder}` finishes it, another name starts a new one"
                raise RunError(f"'{folder}' already holds a run; {further}")
            return folder
        while folder.exists():
            number += 1
            folder = out / f"{stem}-{number}"
    return folder
