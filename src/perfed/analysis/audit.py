"""The privacy audit of a run: attacks on what its method really uploads, each beside a control that must succeed."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import InputError, PerfedError, suggest
from ..report.names import title as title_of
from ..report.sections import Section
from . import privacy
from .attack import NEEDED
from .leakage import Leakage, labels
from .membership import CAUGHT, Membership, membership
from .result import Options
from .subject import Subject

ATTACKS = ("dlg", "direction", "signs")
CLEAR, BLURRED = 20.0, 10.0  # dB above which a picture is recognised, and below which nothing of it is seen


@dataclass(frozen=True)
class Profile:
    """What a run must not exceed."""

    inversion: float  # dB, by any attack in any scope
    membership: float  # area under the curve


PROFILES = {"hospital": Profile(inversion=10.0, membership=0.6)}


@dataclass(frozen=True)
class Inverted:
    """The most that one attack recovered, over scopes, and its control."""

    attack: str
    psnr: float
    scope: str
    control: float
    passed: bool


@dataclass(frozen=True)
class Findings:
    """What was found, what could not be tried and why, and what it comes to in words."""

    method: str
    privacy: dict[str, Any]
    inversion: list[Inverted]
    membership: Membership | None
    labels: Leakage | None
    untried: dict[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> float | None:
        """The most that was recovered by an attack whose control succeeded, in dB."""
        return max((own.psnr for own in self.inversion if own.passed), default=None)

    def plain(self) -> dict[str, Any]:
        """Return the audit as JSON has it."""
        return asdict(self) | {"seen": self.seen, "says": self.says()}

    def says(self) -> list[str]:
        """Return the verdict, a sentence per attack."""
        said = [f"{name}: not tried, because {why}" for name, why in self.untried.items()]
        return [*self._inverted(), *self._members(), *self._labels(), *said]

    def _inverted(self) -> list[str]:
        if not self.inversion:
            return []
        weak = [own for own in self.inversion if not own.passed]
        said = [
            f"Inversion by {own.attack}: the attack is weak here. It recovers even an undefended picture at only "
            f"{own.control:.1f} dB ({NEEDED:.0f} needed), so its {own.psnr:.1f} dB show no safety."
            for own in weak
        ]
        if self.seen is None:
            return said
        words = (
            "a picture is recognised from its upload"
            if self.seen > CLEAR
            else "nothing of a picture is seen"
            if self.seen <= BLURRED
            else "traces of a picture are seen"
        )
        return [
            f"Inversion: {words}, {self.seen:.1f} dB at most, where an undefended one comes back at {NEEDED:.0f} or more.",
            *said,
        ]

    def _members(self) -> list[str]:
        found = self.membership
        if found is None:
            return []
        if not found.passed:
            return [
                f"Membership: the attack is weak here. It reaches {found.control:.2f} where labels were learned by heart "
                f"({CAUGHT} needed)."
            ]
        most = max(found.shadows, found.threshold)
        words = "can hardly be told" if most < 0.55 else "can be told now and then" if most < 0.7 else "can be told"
        return [
            f"Membership: who was in the training data {words}: area under the curve {found.shadows:.2f} by shadow models, "
            f"{found.threshold:.2f} by the loss alone; guessing has 0.50, labels learned by heart {found.control:.2f}."
        ]

    def _labels(self) -> list[str]:
        found = self.labels
        if found is None:
            return []
        outright = [f"Labels: the upload lists a client's classes outright, as {found.classes}."] if found.classes else []
        if found.distance is None:
            return outright or ["Labels: the upload shows no classifier and no mask to read shares of classes off."]
        if not found.passed:
            return [*outright, f"Labels: the attack is weak here. It misses even one undefended step by {found.control:.2f}."]
        near = found.distance / max(found.guess, 1e-9)
        words = (
            "can be read off"
            if near < 0.5
            else "are better known than by guessing them even"
            if near < 0.9
            else "are no better known than by guessing them even"
        )
        return [
            *outright,
            f"Labels: shares of classes {words} ({found.source}): {found.distance:.2f} apart from the truth, "
            f"guessing {found.guess:.2f}, one undefended step {found.control:.2f}.",
        ]


def audit(subject: Subject, client: int = 0, steps: int = 800, models: int = 16) -> Findings:
    """Attack what a run's method uploads; what cannot be tried on this run is said."""
    subject.chosen(client)
    untried: dict[str, str] = {}
    inverted: list[Inverted] = []
    for attack in ATTACKS:
        try:
            inverted.append(_inverted(subject, Options(client=client, attack=attack, steps=steps)))
        except PerfedError as wrong:
            untried["Inversion"] = str(wrong)
    members, leaked = None, None
    try:
        members = membership(subject.last, client, models)
    except PerfedError as wrong:
        untried["Membership"] = str(wrong)
    try:
        leaked = labels(subject.start, list(range(min(len(subject.names), 10))))
    except PerfedError as wrong:
        untried["Labels"] = str(wrong)
    asked = asdict(subject.run.experiment.privacy)
    last = subject.lines[-1].get("privacy", {})
    return Findings(subject.method, asked | last, inverted, members, leaked, untried)


def _inverted(subject: Subject, options: Options) -> Inverted:
    found = privacy.attack(subject, options)
    worst = max(found.values["scopes"], key=lambda scope: scope["mean"])
    control = found.values["control"]
    return Inverted(options.attack, worst["mean"], worst["scope"], control["psnr"], control["passed"])


def held_to(found: Findings, name: str) -> list[str]:
    """Return what of a profile is not shown, in words; nothing where all of it is."""
    if name not in PROFILES:
        raise suggest("profile", name, PROFILES)
    asked, failed = PROFILES[name], []
    if found.seen is None:
        why = found.untried.get("Inversion", "no attack passed its control")
        failed.append(f"inversion at most {asked.inversion:g} dB is not shown: {why}")
    elif found.seen > asked.inversion:
        failed.append(f"inversion reaches {found.seen:.1f} dB, {asked.inversion:g} are allowed")
    if found.membership is None or not found.membership.passed:
        why = found.untried.get("Membership", "the attack did not pass its control")
        failed.append(f"membership at most {asked.membership:g} is not shown: {why}")
    elif (most := max(found.membership.shadows, found.membership.threshold)) > asked.membership:
        failed.append(f"membership reaches {most:.2f}, {asked.membership:g} are allowed")
    return failed


def page(found: Findings, title: str, profile: str = "", failed: list[str] | None = None) -> str:
    """Return the audit as one page."""
    from ..report.page import compose
    from ..report.sections import Notes

    sections = [Section("found", "What uploads give away", [("notes", Notes(found.says(), warn=False)), ("grid", _rows(found))])]
    if profile:
        asked = PROFILES[profile]
        wanted = (
            f"Asked for: inversion at most {asked.inversion:g} dB and membership at most {asked.membership:g}, each by an attack"
        )
        said = [
            f"{wanted} whose control succeeded. {'Not all of it is shown.' if failed else 'All of it is shown.'}",
            *(failed or []),
        ]
        sections.insert(0, Section("profile", f"Profile {profile}", [("notes", Notes(said, warn=bool(failed)))]))
    return compose(title, _lead(found), sections)


def _rows(found: Findings) -> list[list[str]]:
    """Return every attack, what it found beside its control, and how the figure is read."""
    rows = [["Attack", "Found", "Control", "Control succeeded", "How to read it"]]
    for own in found.inversion:
        read = f"100 dB is the picture itself, above {CLEAR:.0f} it is recognised, up to {BLURRED:.0f} nothing is seen"
        rows.append(
            [f"inversion, {own.attack} ({own.scope})", f"{own.psnr:.1f} dB", f"{own.control:.1f} dB", _yes(own.passed), read]
        )
    if (who := found.membership) is not None:
        read = "area under the curve: 0.5 is guessing, 1 is certainty"
        rows += [["membership, shadow models", f"{who.shadows:.3f}", f"{who.control:.3f}", _yes(who.passed), read]]
        rows += [["membership, loss threshold", f"{who.threshold:.3f}", "–", "–", read]]
    if (leak := found.labels) is not None:
        apart = "–" if leak.distance is None else f"{leak.distance:.3f}"
        read = f"distance from the truth: 0 is the truth, {leak.guess:.2f} is guessing them even"
        rows += [["shares of classes", apart, f"{leak.control:.3f}", _yes(leak.passed), read]]
    return rows


def _yes(passed: bool) -> str:
    return "yes" if passed else "no: the attack is weak here"


def _lead(found: Findings) -> str:
    spent = found.privacy.get("epsilon")
    noise = f"under privacy={found.privacy['name']}, ε = {spent:.2f}" if spent is not None else "without noise on uploads"
    what = "what a curious server can find out from what is uploaded, by attacks that were shown to work"
    return f"{title_of(found.method)} {noise}: {what}."


def checked(models: int, steps: int) -> None:
    """Refuse an audit too small to say anything."""
    if models < 4:
        raise InputError(f"--shadows must be at least 4, got {models}: every sample needs models with and without it")
    if steps < 1:
        raise InputError(f"--steps must be at least 1, got {steps}")


__all__ = ["PROFILES", "Findings", "audit", "checked", "held_to", "page"]
