"""What a seed's rounds have spent of differential privacy: counted round by round, over kills and resumes, until it is enough."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ..disk import put
from ..errors import InputError, RunError
from ..privacy import Spending
from .assemble import Assembled
from .folder import SeedFolder

Participants = Callable[[int], Sequence[int]]  # of a round


class Allowance:
    """Counts what is spent; without ``privacy=`` it is empty and says nothing.

    In simulation a round that is done again gives the same bits, so what was spent follows from the rounds alone. At silos noise
    is drawn anew, so there the count is kept in a file and a round that is done again counts again.
    """

    def __init__(self, made: Assembled, folder: SeedFolder | None, participants: Participants, *, away: bool) -> None:
        self.asked, self.participants = made.experiment.privacy, participants
        self.file = folder.note("spent") if folder is not None and away else None
        self.spending: Spending | None = None
        if not self.asked.on:
            return
        sizes, batch = made.federation.sizes, made.method.budget.batch_size
        steps = [made.site.guarded_steps(client) for client in range(len(sizes))] if self.asked.name == "sample" else [1]
        self.spending = Spending.of(self.asked, sizes, batch, steps)
        first = self.spending.epsilon(participants(1))
        if self.asked.stop is not None and first > self.asked.stop:
            raise InputError(
                f"privacy.stop={self.asked.stop:g} is less than one round spends, ε = {first:.3g}; "
                "raise privacy.noise, or take fewer steps a round (budget.epochs, budget.batch_size)"
            )

    def restore(self, first: int) -> None:
        """Take over what was spent up to round ``first``, or what the file says where noise is drawn anew."""
        if self.spending is None:
            return
        if self.file is None or not self.file.exists():
            for number in range(1, first + 1):
                self.spending.took_part(self.participants(number))
            return
        try:
            counts = json.loads(self.file.read_text(encoding="utf-8"))["rounds"]
            counts = [int(count) for count in counts]
        except (ValueError, TypeError, KeyError) as damaged:
            raise RunError(f"'{self.file}' is damaged: {damaged}; without it nobody knows what was spent") from damaged
        self.spending.rounds = counts + [0] * (len(self.spending.rates) - len(counts))

    def counted(self, number: int, participants: Sequence[int]) -> dict[str, Any]:
        """Count a round and return what its line says."""
        if self.spending is None:
            return {}
        self.spending.took_part(participants)
        if self.file is not None:
            put(self.file, json.dumps({"round": number, "rounds": self.spending.rounds}).encode())
        return {"privacy": {"epsilon": round(self.spending.epsilon(), 6), "delta": self.asked.delta}}

    def empty(self, number: int) -> dict[str, Any] | None:
        """Return why no round after ``number`` is begun, where that would spend more than was granted."""
        if self.spending is None or self.asked.stop is None:
            return None
        after = self.spending.epsilon(self.participants(number + 1))
        if after <= self.asked.stop:
            return None
        why = f"privacy.stop={self.asked.stop:g}: round {number + 1} would spend ε = {after:.3f}"
        return {"round": number, "why": why, "epsilon": round(self.spending.epsilon(), 6)}
