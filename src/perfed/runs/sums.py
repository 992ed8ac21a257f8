"""What a run came to: its figures from the lines of its seeds, and its digest."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..evaluate.attacked import attacked
from ..evaluate.newcomers import newcomers
from ..evaluate.others import others
from ..evaluate.refusals import refusals
from ..evaluate.rising import rising
from ..evaluate.summary import main, majority, runaway, summarise, tested
from .experiment import Experiment


def summed(asked: Experiment, lines: Mapping[int, list[dict[str, Any]]], who: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a run from the lines of its seeds."""
    total = {way: sum(line[f"bytes_{way}"] for own in lines.values() for line in own) for way in ("up", "down")}
    options = {"report": asked.report, "best": asked.best, "series": asked.series, "choose": asked.choose}
    own = _main(lines, asked.series)
    rise = rising(lines, report=asked.report, series=asked.series)
    new, hurt = newcomers(lines, asked.report), attacked(lines, asked.report)
    return {
        "rounds": asked.rounds,
        "seeds": list(asked.seeds),
        "seconds": round(sum(line["seconds"] for own in lines.values() for line in own), 3),
        "choose": own if asked.choose == "accuracy" else asked.choose,
        "main": own,  # what stands under accuracy: for other tasks than classes another score
        "accuracy": summarise(lines, **options),
        "metrics": others(lines, **options),
        "majority": majority(who),
        **({"privacy": _spent(asked, lines)} if asked.privacy.on else {}),
        **({"unseen": new} if new else {}),
        **({"attack": hurt} if hurt else {}),
        **({"refused": out} if (out := refusals(lines)) else {}),
        "runaway": {str(seed): since for seed, own in lines.items() if (since := runaway(own)) is not None},
        "rising": rise._asdict() if rise else None,
        "bytes_up": total["up"],
        "bytes_down": total["down"],
    }


def _spent(asked: Experiment, lines: Mapping[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what noise was asked for and what was spent, by the seed that spent most."""
    spent = [float(own[-1]["privacy"]["epsilon"]) for own in lines.values() if own and "privacy" in own[-1]]
    return {"epsilon": max(spent, default=0.0), **asdict(asked.privacy)}


def digests(found: Mapping[int, str]) -> dict[str, Any]:
    """Return the digest of a run, and that of every seed."""
    whole = list(found.values())
    joined = whole[0] if len(whole) == 1 else hashlib.sha256("".join(whole).encode()).hexdigest()
    return {"digest": joined, "digests": {str(seed): own for seed, own in found.items()}}


def _main(lines: Mapping[int, list[dict[str, Any]]], series: str) -> str:
    found = next((line for own in lines.values() for line in tested(own, series)), None)
    return main(found[series]) if found is not None else "accuracy"
