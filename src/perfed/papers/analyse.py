"""The analyses that a recipe asks for, on the runs of its cells."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..analysis import privacy
from ..analysis.catalogue import analyse as study
from ..analysis.catalogue import finite, save
from ..analysis.result import Options
from ..analysis.subject import Subject
from ..disk import put_json
from ..errors import PerfedError
from ..runs.folder import RunFolder
from .plan import Plan
from .run import Work
from .values import attacked

# The others are read off the table (fairness, timing, communication, stability, sweep) or drawn on every page (curves).
DRAWN = (
    "angle", "cka", "classifiers", "collaborators", "convergence", "distribution", "feature_overlap", "fisher", "gradcam",
    "masks", "overlap", "pir", "policy", "probe", "selection", "sensitivity", "separation", "sparsity", "tsne",
)  # fmt: skip
ATTACK = Options(batches=2)


def analyse(work: Work) -> Iterator[str]:
    """Do a recipe's analyses on its finished cells, once; yield what could not be done and why."""
    seen: set[tuple[str, str]] = set()
    for plan in work.plans:
        if plan.settings is None or work.left(plan.key, plan.settings):
            continue
        for name in work.recipe.analysis:
            if name in DRAWN and (plan.key, name) not in seen:
                seen.add((plan.key, name))
                yield from _draw(work, plan, name)
    if "attack" in work.recipe.analysis:
        yield from _attack(work)


def _draw(work: Work, plan: Plan, name: str) -> Iterator[str]:
    title = f"{name}--{plan.row.id}--{plan.column.id}"
    place, run = work.folder / "figures" / f"{title}.json", work.path(plan)
    if place.exists() and place.stat().st_mtime > RunFolder(run).ended:
        return
    try:
        save(study(run, name), work.folder / "figures", title)
    except PerfedError as wrong:
        yield f"{name} of {plan.name}: {wrong}"


def _attack(work: Work) -> Iterator[str]:
    """Attack what the cells' methods upload; one control serves all cells with the same network and data."""
    controls: dict[str, privacy.Checked] = {}
    for plan in work.plans:
        if plan.settings is None or plan.reading.scope is None or work.left(plan.key, plan.settings):
            continue
        subject = Subject(work.path(plan))
        place = attacked(work.path(plan), subject.number, plan.reading)
        if place.exists():
            continue
        options = replace(ATTACK, scope=plan.reading.scope)
        try:
            shared = f"{plan.settings.model.plain()} {plan.settings.data.plain()} {plan.settings.budget.lr}"
            if shared not in controls:
                controls[shared] = privacy.control(subject.start, 0, options)
            found = privacy.attack(subject, options, controls[shared])
        except PerfedError as wrong:
            yield f"attack on {plan.name}: {wrong}"
            continue
        save(found, work.folder / "figures", f"attack--{plan.row.id}--{plan.column.id}")
        put_json(Path(place), finite(found.values))
