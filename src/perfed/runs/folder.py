"""A run on disk: the only place that knows its files' names, and how each is written, read and locked."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ..data.text import Vocabulary
from ..disk import get_object, hash_file, locked, put, put_json, put_yaml, writing
from ..errors import RunError
from ..evaluate.scores import current
from ..partition import Split
from ..transport import Private, Store
from ..trees import Tree
from . import parse
from .experiment import Experiment
from .states import GOES_ON, read_state, write_state

SETTINGS, MANIFEST, COMPARISON = "settings.yaml", "manifest.json", "compare.json"


class Lines:
    """The rounds of one seed, a JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, last: int | None = None) -> list[dict[str, Any]]:
        """Return the lines up to round ``last``.

        A line that was cut off while it was written is the last and has no end: it never was. Any other damage is an error.
        """
        if not self.path.exists():
            return []
        lines = []
        for number, text in enumerate(self.path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1], start=1):
            try:
                lines.append(current(json.loads(text)))
            except (ValueError, RecursionError) as error:
                raise RunError(f"line {number} of '{self.path}' is damaged: {error}") from error
        return [line for line in lines if last is None or line["round"] <= last]

    def append(self, line: Mapping[str, Any]) -> None:
        with writing(self.path, GOES_ON), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def cut(self, last: int) -> None:
        """Forget the rounds after ``last``."""
        kept = self.read(last)
        put(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode(), kept=GOES_ON)

    def forget(self) -> None:
        """Forget all rounds."""
        self.path.unlink(missing_ok=True)

    def sync(self) -> None:
        if self.path.exists():
            with writing(self.path, GOES_ON), self.path.open("rb") as file:
                os.fsync(file.fileno())


class SeedFolder:
    """One seed of a run on disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, int(path.name.removeprefix("seed-"))
        self.lines = Lines(path / "rounds.jsonl")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder for this process; a second one that trains in it would tear its lines and states."""
        with locked(self.path / "lock") as held:
            if not held:
                raise RunError(f"'{self.path}' is being trained by another process; wait for it or end it")
            yield

    @property
    def clients(self) -> dict[str, Any]:
        """Who the clients are: names, sizes, labels, classes, and the majority's scores."""
        return get_object(self.path / "clients.json")

    def put_clients(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "clients.json", found)

    def split(self) -> Split:
        """Return who owns what."""
        return Split.load(self.path / "split.safetensors")

    def put_split(self, split: Split) -> None:
        with writing(self.path):
            split.save(self.path / "split.safetensors")

    def vocabulary(self) -> Vocabulary | None:
        """Return the words of the training texts, where there are texts."""
        path = self.path / "vocabulary.json"
        return Vocabulary.load(path) if path.exists() else None

    def keep_vocabulary(self, vocabulary: Vocabulary) -> None:
        path = self.path / "vocabulary.json"
        if not path.exists():
            vocabulary.save(path)

    @property
    def transport(self) -> dict[str, Any] | None:
        """Which transport the seed was begun with, and why."""
        path = self.path / "transport.json"
        if not path.exists():
            return None
        found = get_object(path)
        if not isinstance(found.get("name"), str):
            raise RunError(f"'{path}' is damaged: it names no transport")
        return found

    def put_transport(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "transport.json", found)

    @property
    def final(self) -> dict[str, Any] | None:
        """The digest, the rounds and the seconds of a finished seed."""
        path = self.path / "final.json"
        return get_object(path) if path.exists() else None

    def put_final(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "final.json", found, kept=GOES_ON)

    def finished(self, rounds: int = 0) -> bool:
        """Return whether the seed has had so many rounds."""
        final = self.final
        return final is not None and final["rounds"] >= rounds

    @property
    def reached(self) -> int | None:
        """The round of the last checkpoint."""
        note = self._note()
        return None if note is None else int(note["round"])

    @property
    def states(self) -> list[Path]:
        """The files of the last checkpoint."""
        return sorted(self.path.glob("checkpoint-*.safetensors"))

    def save(self, number: int, server: Tree, store: Store) -> None:
        """Write the state after round ``number``: first the tensors under a new name, then the note that points to them."""
        self.lines.sync()
        path = self.path / f"checkpoint-{number}.safetensors"
        write_state(path, server, store)
        put_json(self.path / "checkpoint.json", {"round": number, "file": path.name, "sha256": hash_file(path)}, kept=GOES_ON)
        for old in self.path.glob("checkpoint-*.safetensors*"):
            if old != path:
                old.unlink()

    def load(self, server: Tree, store: Store, template: Private) -> tuple[int, Tree]:
        """Return round and server of the last checkpoint, and fill ``store``."""
        note = self._note()
        if note is None:
            raise RunError(f"'{self.path}' has no checkpoint yet; let it finish a round")
        path = self.path / str(note.get("file"))
        if not path.is_file() or hash_file(path) != note.get("sha256"):
            raise RunError(f"checkpoint '{path}' is damaged or missing: its SHA-256 is not the recorded one")
        return int(note["round"]), read_state(path, server, store, template)

    def _note(self) -> dict[str, Any] | None:
        path = self.path / "checkpoint.json"
        return get_object(path) if path.exists() else None

    def keep(self, number: int, server: Tree, store: Store) -> None:
        """Keep the state after round ``number`` for analyses, beside those of other rounds."""
        folder = self.path / "snapshots"
        with writing(folder, GOES_ON):
            folder.mkdir(exist_ok=True)
        write_state(folder / f"round-{number}.safetensors", server, store)

    @property
    def snapshots(self) -> dict[int, Path]:
        """The states that were kept for analyses, by round."""
        found = {int(path.stem[6:]): path for path in (self.path / "snapshots").glob("round-*.safetensors")}
        return dict(sorted(found.items()))

    @property
    def refusals(self) -> Path:
        """Where a deployment notes what it refused."""
        return self.path / "refused.jsonl"

    @property
    def silos(self) -> Path:
        """Where a deployment keeps what every silo said of itself."""
        return self.path / "silos.json"

    def note(self, name: str) -> Path:
        """Return where a result of this seed's own is kept, such as an attack's."""
        return self.path / f"{name}.json"


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
        found = parse.build(parse.read_yaml(self.path / SETTINGS))
        manifest = self.manifest
        earlier = {known["settings"] for known in manifest.get("earlier", ())}  # as it stood before the run was extended
        if found.digest() not in {manifest.get("settings"), *earlier}:
            raise RunError(f"'{self.path / SETTINGS}' was changed after the run began; start a new run instead")
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they stand in the file, unchecked: for reading runs that cannot be trained here."""
        return parse.read_yaml(self.path / SETTINGS)

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
        return get_object(self.path / MANIFEST)

    def put_manifest(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / MANIFEST, found)

    @property
    def summary(self) -> dict[str, Any]:
        """What `perfed run --json` prints."""
        return get_object(self.path / "summary.json")

    @property
    def summed(self) -> bool:
        """Whether the summary is there."""
        return (self.path / "summary.json").is_file()

    def put_summary(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "summary.json", found)

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
        return get_object(self.path / "summary.json")

    def put_summary(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "summary.json", found)

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
