"""What an analysis is asked and what it answers."""

from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Options:
    """What a reader may choose; every analysis uses some of it."""

    client: int | None = None  # one client instead of all
    target: float | None = None  # an accuracy to reach, as a fraction
    reference: Path | None = None  # another run to compare with
    samples: int = 200  # of every client, at most
    scope: str | None = None  # what the attack works on
    images: int = 1  # per attacked batch
    batches: int = 1  # attacked
    attack: str = "direction"
    steps: int = 2000
    whole: bool = False  # attack the upload of a whole round, not of one step


@dataclass(frozen=True)
class Result:
    """Values for machines, sentences and a table for people, a figure for both."""

    values: dict[str, Any]
    says: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    figure: "Figure | None" = None


def plain(record: Any) -> Any:
    """Return a record of an analysis as JSON has it."""
    if is_dataclass(record) and not isinstance(record, type):
        return plain(asdict(record))
    if isinstance(record, dict):
        return {str(key): plain(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [plain(value) for value in record]
    return record


def percent(value: float | None) -> str:
    """Return a fraction in per cent."""
    return "–" if value is None else f"{100 * value:.2f}"
