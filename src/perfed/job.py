"""One seed of an experiment: its clients, its states, its record on disk."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from .build import federation_of, method_of, task_of
from .data import Samples
from .partition import Split
from .record import Lines, keep_state, load_state, save_state
from .rounds import Protocol, Round, rounds
from .settings import Settings
from .transport import Private, Score, Site, Store, Transport
from .trees import Tree

OnRound = Callable[[int, Round], None]  # seed, what the round produced
Stop = Callable[[Sequence[dict[str, Any]]], dict[str, Any] | None]  # a seed's lines so far → why it is to end here, if so


class Job:
    """One seed of a run: everything in memory that its rounds need."""

    def __init__(self, settings: Settings, seed: int, folder: Path, samples: Samples, split: Split) -> None:
        self.settings, self.seed, self.folder = settings, seed, folder
        self.federation, vocabulary = federation_of(settings, samples, split, seed)
        if vocabulary is not None and not (folder / "vocabulary.json").exists():
            vocabulary.save(folder / "vocabulary.json")
        task = task_of(settings, self.federation, seed, vocabulary)
        self.method = method_of(settings)
        self.method.check(task, self.federation.sizes, settings.sampling.fewest(len(self.federation)))
        self.site, self.server, first = Site.of(self.method, task, self.federation)
        self.store = Store(first, len(self.federation), int(settings.memory * 2**30))
        self.template = Private(first.mine, dict(self.site.withheld.start))
        self.lines = Lines(folder / "rounds.jsonl")
        self.first = 0
        self.stopped: dict[str, Any] | None = None  # why it ended before its last round

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        if (self.folder / "checkpoint.json").exists():
            self.first, self.server = load_state(self.folder, self.server, self.store, self.template)
            self.lines.cut(self.first)
        else:
            self.lines.path.unlink(missing_ok=True)

    def train(self, transport: Transport, on_round: OnRound | None, stop: Stop | None = None) -> Tree:
        """Run the rounds that are left, or until ``stop`` has a reason; every line is on disk before the next round."""
        s, saved = self.settings, time.monotonic()
        lines = self.lines.read() if stop else []
        self.stopped = stop(lines) if stop and lines else None
        if self.stopped:  # it ended here before, and was interrupted before that was written down
            return self.server
        protocol = Protocol(s.every, s.after, ("test", "validation") if any(map(len, self.federation.validation)) else ("test",))
        began = perf_counter()
        last: Round | None = None
        try:
            for done in rounds(
                self.method,
                self.server,
                transport,
                s.sampling,
                protocol,
                seed=self.seed,
                clients=len(self.federation),
                count=s.rounds,
                first=self.first,
            ):
                lines.append(line_of(done, perf_counter() - began, len(self.federation)))
                self.lines.append(lines[-1])
                began, last = perf_counter(), done
                self.stopped = stop(lines) if stop else None
                due = time.monotonic() - saved >= s.checkpoint or done.number == s.rounds
                if done.number and (due or self.stopped):
                    self._save(done)
                    saved = time.monotonic()
                if s.snapshots and done.number % s.snapshots == 0:
                    keep_state(self.folder / "snapshots", done.number, done.server, self.store)
                if on_round:
                    on_round(self.seed, done)
                if self.stopped:
                    break
        except KeyboardInterrupt:
            if last is not None and last.number:
                self._save(last)
            raise
        return last.server if last is not None else self.server

    def _save(self, done: Round) -> None:
        self.lines.sync()
        save_state(self.folder, done.number, done.server, self.store)


def line_of(done: Round, seconds: float, clients: int) -> dict[str, Any]:
    """Return a round as a line of the record."""
    line: dict[str, Any] = {
        "round": done.number,
        "participants": done.participants,
        "seconds": round(seconds, 6),
        "seconds_train": round(done.seconds_train, 6),
        "seconds_test": round(done.seconds_test, 6),
        "bytes_up": sum(done.up.values()),
        "bytes_down": sum(done.down.values()),
        "up": done.up,
        "down": done.down,
    }
    for part, scores in done.scores.items():
        line[part] = _columns(scores)
    if done.after:
        line["after"] = _columns([done.after.get(i) for i in range(clients)])
    return line


def round_of(line: dict[str, Any], server: Tree) -> Round:
    """Return a line of the record as the round it was."""
    scores = {
        part: [Score(c, n, float("nan") if z is None else z) for c, n, z in zip(*own.values(), strict=True)]
        for part in ("test", "validation")
        if (own := line.get(part))
    }
    return Round(
        line["round"],
        server,
        line["participants"],
        line["up"],
        line["down"],
        scores,
        seconds_train=line["seconds_train"],
        seconds_test=line["seconds_test"],
    )


def _columns(scores: Sequence[Score | None]) -> dict[str, list[Any]]:
    loss = [None if s is None or s.loss != s.loss or abs(s.loss) == float("inf") else round(s.loss, 6) for s in scores]
    return {
        "correct": [None if s is None else s.correct for s in scores],
        "count": [None if s is None else s.count for s in scores],
        "loss": loss,
    }
