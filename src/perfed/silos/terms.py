"""How a deployment runs: its silos, how long a round may take, and how many answers it needs."""

from dataclasses import dataclass, field
from pathlib import Path

from ..disk import get_yaml
from ..errors import InputError, suggest
from ..runs.choice import record


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a deployment runs: its silos, how long a round may take, and how many answers it needs."""

    silos: int
    deadline: float = 600.0  # seconds until a round closes with whoever answered
    least: int = 1  # answers without which a round cannot close
    poll: float = 0.25
    again: float = 3.0
    gone: float = 60.0  # seconds after which a round does not wait for a silo that is not at the link
    samples: int = 0  # most training samples that a silo may say it has, since averages weigh by them; 0: no bound
    seeded_private: bool = False  # private parts from the public seed: comparisons only
    added: int = 0  # silos that came after the deployment was made; their numbers follow the first ones'
    removed: tuple[int, ...] = ()  # numbers of silos that left; nobody else gets them
    names: dict[str, int] = field(default_factory=dict)  # of the silos that came later

    @staticmethod
    def load(path: Path) -> "Terms":
        """Return the terms in a YAML file."""
        found = get_yaml(path)
        for name in found:
            if name not in Terms.__dataclass_fields__:
                raise suggest(f"entry in '{path}'", str(name), Terms.__dataclass_fields__)
        terms: Terms = record(Terms, found, "")
        if terms.added < 0 or not set(terms.removed) <= set(range(terms.silos + terms.added)):
            raise InputError(f"'{path}': removed silos must be among the {terms.silos + terms.added} there have been")
        if terms.samples < 0:
            raise InputError(f"'{path}': samples is a number of training samples, 0 for no bound, got {terms.samples}")
        if terms.silos < 1 or not 1 <= terms.least <= terms.silos or terms.deadline <= 0:
            raise InputError(f"'{path}': silos and least must be at least 1, least at most silos, deadline positive")
        return terms

    @property
    def numbers(self) -> list[int]:
        """The silos whose keys are known: those of the start and those that came later, without those that left."""
        return [i for i in range(self.silos + self.added) if i not in self.removed]

    @property
    def later(self) -> list[int]:
        """The silos that came later and have not left."""
        return [i for i in self.numbers if i >= self.silos]
