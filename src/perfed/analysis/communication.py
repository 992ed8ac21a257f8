"""What it costs in bytes to reach a target accuracy (DualFed, Table 8)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError, suggest
from ..evaluate.scores import Line
from .series import average, scored, weighted

MIB = 2**20
RULES = {"mean": average, "weighted": weighted}


@dataclass(frozen=True)
class Cost:
    """What it took to reach ``target``; ``reached`` is False and the costs are None if it never was."""

    target: float
    reached: bool
    rounds: int | None
    mib: float | None
    best: float  # the highest accuracy of the run
    rounds_run: int
    count: str

    def __str__(self) -> str:
        if self.mib is None:
            return f"not reached: best {self.best:.4f} of {self.target:.4f} in {self.rounds_run} rounds"
        return f"{self.mib:.2f} MiB in {self.rounds} rounds"


def cost_to_target(
    lines: Sequence[Line],
    target: float,
    *,
    rule: str = "mean",
    count: Literal["payload", "paper"] = "payload",
    parameters: int | None = None,
    part: str = "test",
) -> Cost:
    """Count MiB until the accuracy first reaches ``target``.

    ``payload`` adds up the bytes all clients really sent and received. ``paper`` is DualFed's counting: one
    client that moves every trainable parameter of its model (``parameters``) up and down in every round.
    """
    if not 0 < target <= 1:
        raise InputError(f"target must be a fraction in (0, 1], got {target}; 85 % is 0.85")
    if rule not in RULES:
        raise suggest("accuracy rule", rule, RULES)
    if count not in ("paper", "payload"):
        raise suggest("counting", count, ("paper", "payload"))
    tested = scored(lines, part)
    scores = [(RULES[rule](line, part), int(line["round"])) for line in tested]
    rounds = next((number for score, number in scores if score >= target), None)
    if rounds is None:
        mib = None
    elif count == "paper":
        mib = full_model_mib(parameters, rounds)
    else:
        mib = payload_mib(lines, rounds)
    best = max(score for score, _ in scores)
    return Cost(target, rounds is not None, rounds, mib, best, int(tested[-1]["round"]), count)


def payload_mib(lines: Sequence[Line], rounds: int) -> float:
    """Return what all clients together sent and received until the end of round ``rounds``, in MiB."""
    return sum(int(line["bytes_up"]) + int(line["bytes_down"]) for line in lines if int(line["round"]) <= rounds) / MIB


def full_model_mib(parameters: int | None, rounds: int) -> float:
    """Return 2 × 4 bytes × parameters × rounds in MiB: every entry of DualFed's Table 8 is of this form."""
    if parameters is None or parameters < 1:
        raise InputError(f"count='paper' needs the number of trainable parameters, got {parameters}")
    return 2 * 4 * parameters * rounds / MIB
