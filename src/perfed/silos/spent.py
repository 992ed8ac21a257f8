"""What this site's own uploads have given away: its account of ε, over all experiments and restarts."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RunError
from ..privacy.accountant import epsilon
from ..privacy.spending import rate_of
from ..transport import Site
from . import keep
from .policy import SitePolicy
from .refusals import Refused


class Charge(NamedTuple):
    """What one upload costs: noisy steps, each with the chance of a sample to take part in it, and the noise."""

    rate: float
    noise: float
    steps: int


def cost_of(site: Site) -> Charge | None:
    """Return what an upload of a site costs; nothing where it is not noised, which no number covers."""
    privacy = site.privacy
    if not privacy.on:
        return None
    if privacy.name == "client":
        return Charge(1.0, privacy.noise, 1)
    return Charge(rate_of(site.federation.sizes[0], site.method.budget.batch_size), privacy.noise, site.guarded_steps(0))


class Account:
    """The file ``privacy.json`` beside a silo's states; what is in it is only added to.

    All uploads are counted together, whatever their experiment: they speak of the same people. An answer that was noised as a
    whole protects every sample in it too, so both kinds add up to one ε per sample.
    """

    def __init__(self, state: Path) -> None:
        self.path, self.lock = state / "privacy.json", state / "privacy.lock"

    def spent(self, delta: float, more: Charge | None = None) -> float:
        """Return ε so far, and with one more upload."""
        counted = [Charge(rate, noise, steps) for rate, noise, steps in self._read()["uploads"]]
        return epsilon([*counted, *([more] if more else [])], delta)

    def admit(self, policy: SitePolicy, cost: Charge | None) -> None:
        """Refuse an upload that would go beyond what the policy lets this site give away."""
        if policy.epsilon and cost is not None and (after := self.spent(policy.delta, cost)) > policy.epsilon:
            now = self.spent(policy.delta)
            raise Refused(
                "epsilon", f"ε = {now:.3g} is spent, another upload makes {after:.3g}; {policy.epsilon:g} are allowed here"
            )

    def add(self, policy: SitePolicy, request: str, cost: Charge | None) -> float:
        """Count an upload before it leaves, once per request; return ε so far."""
        with keep.locked(self.lock):
            found = self._read()
            if found["last"] != request:
                uploads, without = dict[tuple[float, float], int](), found["without"] + (cost is None)
                for rate, noise, steps in [*found["uploads"], *([cost] if cost else [])]:
                    uploads[rate, noise] = uploads.get((rate, noise), 0) + steps
                found |= {"uploads": [[*kind, steps] for kind, steps in uploads.items()], "without": without, "last": request}
            found |= {"epsilon": epsilon([(r, n, s) for r, n, s in found["uploads"]], policy.delta), "delta": policy.delta}
            keep.put(self.path, json.dumps(found, indent=1).encode())
            return float(found["epsilon"])

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"uploads": [], "without": 0, "last": ""}
        try:
            found = dict(json.loads(self.path.read_text()))
            fine = all(len(row) == 3 and min(row) > 0 for row in found["uploads"]) and found["without"] >= 0 and "last" in found
        except (OSError, ValueError, KeyError, TypeError) as damaged:
            raise RunError(f"the account of ε in '{self.path}' cannot be read: {damaged}") from damaged
        if not fine:
            raise RunError(f"the account of ε in '{self.path}' is damaged")
        return found
