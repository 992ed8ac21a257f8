"""Where a table's numbers come from: machine, versions, seeds, hours, and the code that began each run."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..report.read import read
from ..units import spoken

if TYPE_CHECKING:
    from .show import Shown


def origin(found: Sequence["Shown"]) -> list[str]:
    """Say it in two sentences, from the runs' own records; nothing where nothing was run."""
    runs = [read(path) for path in dict.fromkeys(a.run for a in found if a.run is not None and a.ours.rounds)]
    if not runs:
        return []
    machines = Counter(_machine(run.manifest) for run in runs)
    seeds = sorted({seed for run in runs for seed in run.rounds})
    seconds = sum(sum(run.total("seconds")) for run in runs)
    commits = Counter(str(run.manifest.get("commit") or "an unknown commit")[:7] for run in runs)
    code = ", ".join(f"{commit} ({count} {'run' if count == 1 else 'runs'})" for commit, count in commits.items())
    numbers = ", ".join(map(str, seeds))
    return [
        f"Measured on {'; '.join(machines)}: seeds {numbers}, {spoken(seconds)} of rounds in {len(runs)} runs.",
        f"Begun with the code of {code}.",
    ]


def _machine(manifest: object) -> str:
    known = manifest if isinstance(manifest, dict) else {}
    machine, versions = known.get("machine", {}), known.get("versions", {})
    parts = [machine.get("processor") or machine.get("system"), f"{machine['cores']} cores" if machine.get("cores") else ""]
    parts.append(f"torch {versions['torch']}" if versions.get("torch") else "")
    return ", ".join(part for part in parts if part) or "an unknown machine"
