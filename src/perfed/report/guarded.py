"""What a run spent of differential privacy, in the words of tables and pages."""

from collections.abc import Mapping, Sequence
from typing import Any


def guarded(name: str, settings: Mapping[str, Any], rounds: Mapping[Any, Sequence[Mapping[str, Any]]]) -> str:
    """Return what a run spent of differential privacy, in words; nothing where no noise was added."""
    spent = [lines[-1]["privacy"] for lines in rounds.values() if lines and "privacy" in lines[-1]]
    asked = settings.get("privacy")
    if not spent or not isinstance(asked, Mapping):
        return ""
    return noised(name, {**asked, "epsilon": max(float(own["epsilon"]) for own in spent)})


def noised(name: str, spent: Mapping[str, Any]) -> str:
    """Return what a run promises, from its settings of privacy and the ε that it spent."""
    whom = {"client": "all of a client's data", "sample": "each sample of a client"}[str(spent["name"])]
    return (
        f"{name}: uploads are differentially private, ε = {spent['epsilon']:.2f} at δ = {spent['delta']:g} for {whom} "
        f"(clip {spent['clip']:g}, noise {spent['noise']:g}); scores, sizes and what stays at home are not noised."
    )
