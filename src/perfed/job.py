"""One seed of an experiment: its clients, its states, its record on disk."""

import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from .build import federation_of, method_of, task_of
from .data import Samples
from .partition import Split
from .record import Lines, keep_state, load_state, save_state
from .rounds import Protocol, Round, line_of, rounds
from .settings import Settings
from .transport import Private, Site, Store, Transport
from .trees import Tree

OnRound = Callable[[int, Round], None]  # seed, what the round produced


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
        self.site, self.server, first = Site.of(self.method, task, self.federation, (*settings.metrics, settings.choose))
        self.store = Store(first, len(self.federation), int(settings.memory * 2**30))
        self.template = Private(first.mine, dict(self.site.withheld.start))
        self.lines = Lines(folder / "rounds.jsonl")
        self.first = 0

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        if (self.folder / "checkpoint.json").exists():
            self.first, self.server = load_state(self.folder, self.server, self.store, self.template)
            self.lines.cut(self.first)
        else:
            self.lines.path.unlink(missing_ok=True)

    def train(self, transport: Transport, on_round: OnRound | None) -> Tree:
        """Run the rounds that are left; every line is on disk before the next round."""
        s, saved = self.settings, time.monotonic()
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
                self.lines.append(line_of(done, perf_counter() - began, len(self.federation)))
                began, last = perf_counter(), done
                if done.number and (time.monotonic() - saved >= s.checkpoint or done.number == s.rounds):
                    self._save(done)
                    saved = time.monotonic()
                if s.snapshots and done.number % s.snapshots == 0:
                    keep_state(self.folder / "snapshots", done.number, done.server, self.store)
                if on_round:
                    on_round(self.seed, done)
        except KeyboardInterrupt:
            if last is not None and last.number:
                self._save(last)
            raise
        return last.server if last is not None else self.server

    def _save(self, done: Round) -> None:
        self.lines.sync()
        save_state(self.folder, done.number, done.server, self.store)
