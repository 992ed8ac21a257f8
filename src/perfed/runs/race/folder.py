"""A race on disk: its plan, what was drawn and how everybody stands, the candidates' runs, and the comparison at its end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ... import chain
from ...disk import get_object, hash_file, locked, put_json, writing
from ...errors import RunError
from ...partition import Split
from .. import proof
from ..folder import CompareFolder, RunFolder

PLAN, STANDINGS = "race.json", "standings.json"


class RaceFolder:
    """A race's folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @staticmethod
    def there(path: Path | str) -> bool:
        """Return whether a folder holds a race."""
        return (Path(path) / PLAN).is_file()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the race for this process."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / "lock") as held:
            if not held:
                raise RunError(f"'{self.path}' is being raced by another process; wait for it or end it")
            yield

    @property
    def noted(self) -> dict[str, Any]:
        """What decides the race, where it came from, and the hashes of data and code."""
        return get_object(self.path / PLAN)

    def begin(self, noted: Mapping[str, Any]) -> None:
        """Write the plan: from here on the race can be resumed."""
        put_json(self.path / PLAN, noted)

    @property
    def shares(self) -> Path:
        """Where it stands who owns what."""
        return self.path / "split.safetensors"

    def split(self) -> Split:
        """Return who owns what."""
        return Split.load(self.shares)

    def put_split(self, split: Split) -> None:
        with writing(self.shares):
            split.save(self.shares)

    @property
    def standings(self) -> dict[str, Any]:
        """What was drawn, and how everybody stood at the end of each rung so far."""
        path = self.path / STANDINGS
        return get_object(path) if path.exists() else {"drawn": {}, "rungs": []}

    def put_standings(self, found: Mapping[str, Any]) -> None:
        put_json(self.path / STANDINGS, found)

    def candidate(self, racer: str, number: int) -> RunFolder:
        """Return the run of one candidate, whether it is there or not."""
        return RunFolder(self.path / "candidates" / f"{racer}-{number:02d}")

    @property
    def final(self) -> CompareFolder:
        """The comparison on fresh seeds."""
        return CompareFolder(self.path / "final")

    @property
    def tested(self) -> bool:
        """Whether the comparison on fresh seeds was begun."""
        return CompareFolder.there(self.final.path)

    @property
    def runs(self) -> list[RunFolder]:
        """All runs of the race: candidates, then those on fresh seeds."""
        return [*RunFolder.inside(self.path / "candidates"), *RunFolder.inside(self.final.path)]

    @property
    def code(self) -> Path:
        """Where copies of the user's own code are."""
        return self.path / "code"

    @property
    def summary(self) -> dict[str, Any]:
        """What `perfed race --json` prints."""
        path = self.path / "summary.json"
        return proof.fitting(path, get_object(path), self._parts())

    @property
    def summed(self) -> bool:
        """Whether the race came to its end."""
        return (self.path / "summary.json").is_file()

    def put_summary(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Write the summary; return it as it was written."""
        written = proof.stamped(found, self._parts())
        put_json(self.path / "summary.json", written)
        return written

    def unsum(self) -> None:
        """Forget the summaries: there is more to come."""
        for folder in (self.path, self.final.path):
            (folder / "summary.json").unlink(missing_ok=True)

    def _parts(self) -> dict[str, Any]:
        """Return the hashes that the summary stands on; nothing where something is of a version before chains."""
        finals = {
            run.path.name: {str(number): (seed.final or {}).get("seal", "") for number, seed in run.seeds.items()}
            for run in RunFolder.inside(self.path / "candidates")
        }
        tested = self.final.summary.get(chain.FIELD) if self.final.summed else None
        if tested is None:
            return {}
        files = {name: hash_file(self.path / name) for name in (PLAN, STANDINGS) if (self.path / name).exists()}
        return {"candidates": finals, "final": tested} | files

    @property
    def page(self) -> Path:
        """Where the report goes."""
        return self.path / "report.html"
