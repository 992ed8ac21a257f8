"""One seed of a run on disk: its files' names, and how each is written, read and locked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import chain
from ..data.columns import Columns
from ..data.text import Vocabulary
from ..disk import get_object, hash_file, locked, put, put_json, writing
from ..errors import RunError, Taken
from ..partition import Split
from ..transport import Private, Store
from ..trees import Tree
from . import forms, proof
from .lines import ORIGIN, Lines
from .states import GOES_ON, read_state, shape_of, write_state


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
                raise Taken(f"'{self.path}' is being trained by another process; wait for it or end it")
            yield

    @property
    def clients(self) -> dict[str, Any]:
        """Who the clients are: names, sizes, labels, classes, and the majority's scores."""
        return forms.formed(self.path / "clients.json", forms.CLIENTS)

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

    def columns(self) -> tuple[Columns, ...] | None:
        """Return what was decided for the columns of a table, client by client, where there was something to decide."""
        path = self.path / "columns.json"
        if not path.exists():
            return None
        found = get_object(path)
        different = [Columns.of_json(own) for own in found["columns"]]
        return tuple(different[place] for place in found["clients"])

    def keep_columns(self, columns: Sequence[Columns]) -> None:
        """Write what was decided, once where clients share it."""
        path, different = self.path / "columns.json", list(dict.fromkeys(columns))
        if not path.exists():
            places = {own: place for place, own in enumerate(different)}
            put_json(path, {"columns": [own.as_json() for own in different], "clients": [places[own] for own in columns]})

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
    def machines(self) -> list[dict[str, Any]]:
        """Where the rounds were run: the machines in turn, each with the round after which it took over."""
        path = self.path / "machines.json"
        return list(get_object(path)["machines"]) if path.exists() else []

    def add_machine(self, kind: Mapping[str, Any], after: int) -> None:
        """Note that the rounds after ``after`` are run on this machine."""
        known = [own for own in self.machines if own["after"] < after]
        if not known or any(known[-1].get(name, value) != value for name, value in kind.items()):
            put_json(self.path / "machines.json", {"machines": [*known, {"after": after, **kind}]})

    @property
    def final(self) -> dict[str, Any] | None:
        """The digest, the rounds and the seconds of a finished seed."""
        path = self.path / "final.json"
        return proof.unbroken(path, forms.formed(path, forms.FINAL, "rounds")) if path.exists() else None

    def put_final(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / "final.json", proof.sealed(self.path, self.lines, found), kept=GOES_ON)

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
    def done(self) -> int:
        """The rounds that were run and will not be run again."""
        return int(final["rounds"]) if (final := self.final) else self.reached or 0

    @property
    def goes_on(self) -> bool:
        """Whether the seed can be trained further: a record that is kept without states has no split."""
        return (self.path / "split.safetensors").exists()

    def keep_record(self, target: "SeedFolder") -> None:
        """Copy what tables and pages read of the seed, without its states and the names of machines: it is to be given away."""
        for name in (
            "clients.json",
            "columns.json",
            "final.json",
            "transport.json",
            ORIGIN,
            *sorted({note.name for folder in (self, target) for note in folder.path.glob("attack-*.json")}),
        ):
            if (self.path / name).exists():
                put(target.path / name, (self.path / name).read_bytes())
            else:  # of a former copy: the run has gone on since
                (target.path / name).unlink(missing_ok=True)
        self.lines.pack(target.lines)

    @property
    def states(self) -> list[Path]:
        """The files of the last checkpoint."""
        return sorted(self.path.glob("checkpoint-*.safetensors"))

    def save(self, number: int, server: Tree, store: Store) -> None:
        """Write the state after round ``number``: first the tensors under a new name, then the note that points to them."""
        self.lines.sync()
        path = self.path / f"checkpoint-{number}.safetensors"
        write_state(path, server, store)
        self._put_note(number, path)
        self._only(path)

    def _put_note(self, number: int | None, path: Path | None) -> None:
        """Write which file holds the state after which round, and what that round's line ends in."""
        found: dict[str, Any] = {"round": number, "file": path and path.name}
        if path is not None:
            found["sha256"] = hash_file(path)
        if number is not None and (link := self.lines.link(number)):
            found[chain.FIELD] = link
            found["seal"] = chain.seal(found)
        put_json(self.path / "checkpoint.json", found, kept=GOES_ON)

    def _only(self, path: Path | None) -> None:
        for old in self.path.glob("checkpoint-*.safetensors*"):
            if old != path:
                old.unlink()

    def load(self, server: Tree, store: Store, template: Private) -> tuple[int, Tree]:
        """Return round and server of the last checkpoint, and fill ``store``."""
        note = self._note()
        if note is None:
            raise RunError(f"'{self.path}' has no checkpoint yet; let it finish a round")
        self.stateful()
        path = self.path / str(note["file"])
        if hash_file(path) != note.get("sha256"):
            raise RunError(f"checkpoint '{path}' is damaged: its SHA-256 is not the recorded one")
        return int(note["round"]), read_state(path, server, store, template)

    def stateful(self) -> None:
        """Refuse to use a state that is not there any more."""
        note = self._note()
        if note is not None and not (self.path / str(note.get("file"))).is_file():
            raise RunError(f"'{self.path}' has no state any more: it was run with keep=none, or its states were cleaned away")

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor in the last checkpoint, or nothing where there is no checkpoint."""
        note = self._note()
        return None if note is None else shape_of(self.path / str(note.get("file")), name)

    def _note(self) -> dict[str, Any] | None:
        path = self.path / "checkpoint.json"
        return proof.unbroken(path, get_object(path)) if path.exists() else None

    def begin(self) -> None:
        """Begin the record anew, chained to the hashes of what the seed begins with."""
        self.lines.forget()
        proof.begin(self.path, self.number)

    def unfinish(self) -> None:
        """Forget that the seed was finished: it goes on to more rounds."""
        if self.final is not None:
            self.lines.links()  # refuses what does not fit, while the final note is there
            (self.path / "final.json").unlink()

    def keep_best(self, number: int, server: Tree, store: Store) -> None:
        """Keep the state after round ``number`` as the best so far, beside the one that the last checkpoint knows."""
        with writing(self.path / "best", GOES_ON):
            (self.path / "best").mkdir(exist_ok=True)
        write_state(self._best(number), server, store)

    def _best(self, number: int) -> Path:
        return self.path / "best" / f"round-{number}.safetensors"

    def forget_best(self, but: int | None) -> None:
        """Delete the states that were best before round ``but``."""
        for old in (self.path / "best").glob("round-*.safetensors*"):
            if but is None or old != self._best(but):
                old.unlink()

    def settle_best(self, number: int) -> None:
        """Let the best state take the last one's place; rounds after it can be had again by going on from it."""
        path = self.path / f"checkpoint-{number}.safetensors"
        if self._best(number).exists():
            self._best(number).replace(path)
        self._put_note(number, path)
        self._only(path)
        self.forget_best(None)
        (self.path / "best").rmdir()

    def forget_states(self) -> None:
        """Delete the last checkpoint: no models, and no more rounds."""
        self._put_note(self.reached, None)
        self._only(None)

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
    def newcomers(self) -> Path:
        """Where a deployment keeps which silos joined when the experiment was over."""
        return self.path / "newcomers.json"

    @property
    def silos(self) -> Path:
        """Where a deployment keeps what every silo said of itself."""
        return self.path / "silos.json"

    def note(self, name: str) -> Path:
        """Return where a result of this seed's own is kept, such as an attack's."""
        return self.path / f"{name}.json"


def kinds_of(seeds: Iterable[SeedFolder]) -> list[str]:
    """Return the kinds of machines that seeds ran on; where there are several, bits may differ between them."""
    told = [own for place in seeds for own in place.machines]
    names = ["kernels"] * all("kernels" in own for own in told)  # older records lack it
    kinds = ([own["processor"], own["system"], f"torch {own['torch']}", *(own[name] for name in names)] for own in told)
    return list(dict.fromkeys(", ".join(kind) for kind in kinds))
