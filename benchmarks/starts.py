"""What private starts cost: accuracy on the digits after 12 and 30 rounds, for every way in which private parts may begin."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from perfed.build import samples_of, split_of, task_of
from perfed.job import Job

from perfed import settings as setting
from perfed.rounds import Protocol, rounds
from perfed.transport import Private, Serial, one_thread

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto")
STARTS = ("seeded", "entropy", "shared", "pass")
SHOWN = (12, 30)


def start(job: Job, way: str, secrets: list[int]) -> None:
    """Give every client its private start."""
    for i in range(len(job.federation)):
        if way in ("entropy", "shared"):
            secret = secrets[i] if way == "entropy" else secrets[0]
            job.store[i] = Private(job.method.init(task_of(job.settings, job.federation, secret), len(job.federation))[1], {})
        elif way == "pass":  # common start, then a training of one's own whose answer nobody sees
            _, job.store[i], _ = job.site.train(i, job.method.send(job.server, i), job.store[i], 0)


def accuracies(method: str, way: str, overrides: list[str]) -> Iterator[tuple[int, float]]:
    """Yield rounds with the accuracy over all clients' test samples."""
    settings = setting.load(None, [f"method={method}", "data=digits", f"rounds={SHOWN[-1]}", *overrides])
    seed, samples = settings.seeds[0], samples_of(settings)
    with tempfile.TemporaryDirectory() as place, one_thread():
        job = Job(settings, seed, Path(place), samples, split_of(settings, samples, seed))
        start(job, way, [int.from_bytes(os.urandom(7), "little") for _ in range(len(job.federation))])
        loop = rounds(
            job.method,
            job.server,
            Serial(job.site, job.store),
            settings.sampling,
            Protocol(every=1, parts=("test",)),
            seed=seed,
            clients=len(job.federation),
            count=settings.rounds,
        )
        for done in loop:
            if done.number in SHOWN:
                scores = done.scores["test"]
                yield done.number, sum(s.correct for s in scores) / sum(s.count for s in scores)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--methods", default=",".join(METHODS))
    ask.add_argument("overrides", nargs="*", default=["clients=10", "budget.lr=0.05"])
    given = ask.parse_args()
    print("| method | start |" + "".join(f" after {n} |" for n in SHOWN))
    for method in given.methods.split(","):
        for way in STARTS:
            found = dict(accuracies(method, way, given.overrides))
            print(f"| {method} | {way} |" + "".join(f" {100 * found[n]:.1f} |" for n in SHOWN), flush=True)


if __name__ == "__main__":
    main()
