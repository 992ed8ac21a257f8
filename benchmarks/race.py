"""Does a race find what the full grid finds? ``python -m benchmarks.race [digits|domains|har] [seeds]``.

A race is run, then every candidate that fell out is run to the end as well: that is the full grid, the same candidates
without any falling out. The race's winner is held against the grid's on validation data.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from perfed.evaluate.metrics import known
from perfed.runs import parallel
from perfed.runs.compare import workers
from perfed.runs.race import ask
from perfed.runs.race.folder import RaceFolder
from perfed.runs.race.prepare import ready
from perfed.runs.race.run import Contest, begun_run, contend
from perfed.runs.race.stand import judge, ranked

OUT = Path(__file__).parent / "results" / "race.json"
COMMON = ["methods=fedper", "validation=0.4", "test=0.2", "transport=stacked"]
SCALE = ["inputs.mean=[0,0,0,0,0,0,0.8,0,0.1]", "inputs.std=[0.2,0.1,0.1,0.4,0.4,0.25,0.4,0.4,0.35]"]  # of all windows, rounded
FEDERATIONS = {
    "digits": ["data=digits", "partition.alpha=0.3", "clients=5", "rounds=54", "every=3", "budget.batch_size=20"],
    "domains": ["data=digits_domains", "model=mlp", "rounds=54", "every=3", "budget.batch_size=20"],
    "har": [
        "data=har",
        *SCALE,
        "partition=natural",
        "model=mlp",
        "rounds=54",
        "every=3",
        "budget.batch_size=20",
    ],
}


def study(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return how a race did against its full grid."""
    made = ready(ask.load(None, [*FEDERATIONS[name], *COMMON, f"seed={seed}", f"seeds={seed + 1}"]))
    job = Contest(RaceFolder(folder), made, note=lambda text: print(f"  {text}", flush=True))
    with job.folder.alone():
        contend(job)
        everybody = [one for own in job.everybody.values() for one in own]
        raced, asked = sum(one.steps for one in everybody), made.plan.racers[0].experiment
        shares = [sum(one.steps for one in own) / made.purse.share - 1 for own in job.everybody.values()]
        winner = ranked([one for one in everybody if one.rung == len(made.plan.sizes) - 1], asked)[0]
        whole = 0
        cells, racers = [], {racer.name: racer for racer in made.plan.racers}
        for one in everybody:
            racer = racers[one.racer]
            until = max(one.rounds, made.purse.length(racer, job.method(one, racer)))
            whole += made.purse.meters[racer.name].spent(job.method(one, racer), 0, until, served=True)
            run, setting = begun_run(job, one, racer, until)
            one.rounds = until
            if not run.seed(seed).finished(until):
                cells.append(parallel.Cell(run, setting, seed, made.blind))
        parallel.train(iter(cells), workers(asked, len(cells)))
        for one in everybody:
            judge(one, job.folder.candidate(one.racer, one.number).seed(seed).lines.read(one.rounds), asked)
    best = ranked(everybody, asked)[0]
    assert known(asked.choose).higher and winner.score is not None and best.score is not None
    behind = max(abs(share) for share in shares)
    return {
        "federation": name,
        "seed": seed,
        "race": {"winner": winner.racer, "values": winner.values, "score": winner.score, "steps": raced},
        "grid": {"winner": best.racer, "values": best.values, "score": best.score, "steps": whole},
        "points": 100 * (best.score - winner.score),
        "share": raced / whole,
        "unequal": behind,
    }


def main(names: list[str], seeds: int) -> None:
    """Run the studies that are asked for; each one's figures are kept beside those of the others."""
    for name in names:
        for seed in range(seeds):
            with tempfile.TemporaryDirectory(prefix="perfed-") as folder:
                found = study(name, seed, Path(folder) / "race")
            kept = json.loads(OUT.read_text()) if OUT.exists() else []
            kept = [row for row in kept if (row["federation"], row["seed"]) != (name, seed)] + [found]
            OUT.write_text(json.dumps(kept, indent=1) + "\n")
            print(
                f"{name} seed {seed}: {found['points']:.2f} points behind at {100 * found['share']:.1f} % of the steps",
                flush=True,
            )


if __name__ == "__main__":
    words = sys.argv[1:]
    main([word for word in words if word in FEDERATIONS] or list(FEDERATIONS), next((int(w) for w in words if w.isdigit()), 5))
