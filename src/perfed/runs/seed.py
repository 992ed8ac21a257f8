"""One seed of an experiment in training: its states, and its rounds on disk or in memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from ..attacks import Forger, stamped
from ..errors import InputError, RunError
from ..evaluate.attacked import PART as BACKDOOR
from ..evaluate.newcomers import PART as UNSEEN
from ..evaluate.summary import choose as chosen
from ..rounds import Protocol, Round, Span, line_of, rounds
from ..sampling import Sampling
from ..server.admission import Admission
from ..serving.personal import Trained
from ..transport import Site, Transport, choose, one_thread
from ..trees import Tree
from .assemble import Assembled
from .folder import SeedFolder
from .purse import Allowance
from .states import digest, read_state

OnRound = Callable[[int, Round], None]  # seed, what the round produced
Stop = Callable[[Sequence[dict[str, Any]]], dict[str, Any] | None]  # a seed's lines so far → why it is to end here, if so

_PAUSE, _SHARE = 30.0, 0.05  # seconds between checkpoints where nobody said how many; of the time, what writing may take


def pause_after(asked: float | None, spent: float) -> float:
    """Return the seconds to the next checkpoint after one that took so many to write: those asked for, or few writes in all."""
    return max(_PAUSE, spent * (1 / _SHARE - 1)) if asked is None else asked


class Desk:
    """What a seed writes down besides its rounds; a deployment's server has more to say, and states that are elsewhere."""

    often: bool = False  # whether every round ends in a checkpoint

    def said(self, done: Round) -> dict[str, Any]:
        """Return what is added to a round's line."""
        return {}

    def kept(self, server: Tree) -> Tree:
        """Return what a checkpoint holds of the server."""
        return server

    def drawn(self, asked: Sampling) -> Sampling:
        """Return who takes part in a round, where not everyone is there any more."""
        return asked

    def back(self, found: Tree) -> Tree:
        """Return the server's state in what a checkpoint holds."""
        return found


class Seed:
    """Everything that one seed's rounds need; without a folder nothing is written, and the rounds stay in memory."""

    def __init__(self, made: Assembled, folder: SeedFolder | None = None, desk: Desk | None = None) -> None:
        self.made, self.folder, self.desk, self.away = made, folder, desk or Desk(), desk is not None
        self.server, self.store, self.first = made.server, made.store(), 0
        self.history: list[dict[str, Any]] = []  # the rounds, where there is no folder for them
        self.stopped: dict[str, Any] | None = None  # why it ended before its last round
        self.best: Mapping[str, Any] | None = None  # the validated round so far, where its state is kept
        self.purse = Allowance(made, folder, self._participants, away=self.away)
        self.door = self._door()
        self._stamped: Site | None = None  # the clients with marked tests, where there is a backdoor
        if desk is not None and made.experiment.keep != "last":
            raise InputError(f"keep={made.experiment.keep} has no effect here: the states of silos stay with them")
        if made.experiment.keep == "best" and not any(map(len, made.federation.validation)):
            raise InputError(
                "keep=best keeps the state that is best on validation data, and there is none; validation=0.1 sets some aside"
            )
        if folder is not None and made.federation.vocabulary is not None:
            folder.keep_vocabulary(made.federation.vocabulary)
        if folder is not None and made.federation.columns is not None:
            folder.keep_columns(made.federation.columns)

    def _participants(self, number: int) -> list[int]:
        asked = self.desk.drawn(self.made.experiment.sampling)
        return asked.participants(self.made.seed, number, len(self.made.federation))

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        self._restore()
        self.purse.restore(self.first)

    def _restore(self) -> None:
        if self.folder is None:
            return
        if self.folder.reached is None:
            self.folder.begin()
            return
        self.first, found = self.folder.load(self.desk.kept(self.server), self.store, self.made.template)
        self.server = self.desk.back(found)
        self.folder.lines.cut(self.first)
        self.door = self._door()
        if self.made.experiment.keep == "best":
            self.best = self._chosen(self.folder.lines.read())
            if self.best and self.best["round"] == self.first:  # a finished run's best state is its checkpoint
                self.folder.keep_best(self.first, self.server, self.store)

    def _door(self) -> Admission:
        """Return who decides which answers are merged, with what the rounds so far say."""
        asked = self.made.experiment
        door = Admission(asked.admission, asked.suspend, self.made.federation.sizes, noised=asked.privacy.name == "client")
        door.recall(self.lines[: self.first + 1] if self.first else [])
        return door

    def at(self, number: int | None = None) -> Trained:
        """Return the seed as it stands after its last checkpoint, or after round ``number`` where that state was kept."""
        if self.folder is None:
            if number not in (None, self.first):
                raise RunError(f"only the last state is kept in memory, after round {self.first}; a run with a folder keeps more")
            return Trained(self.made.site, self.server, self.store, self.first)
        store, like = self.made.store(), self.made.server
        if number is None or (number == self.folder.reached and number not in self.folder.snapshots):
            reached, server = self.folder.load(like, store, self.made.template)
        elif number in (kept := self.folder.snapshots):
            reached, server = number, read_state(kept[number], like, store, self.made.template)
        else:
            raise RunError(f"'{self.folder.path}' kept no state after round {number}; run it with snapshots=N to keep every Nth")
        return Trained(self.made.site, server, store, reached)

    def transport(self, name: str, why: str = "") -> tuple[Transport, dict[str, Any]]:
        """Return a transport for this seed and why it was taken; ``why`` where that is known already."""
        asked = self.made.experiment
        found, reason = choose(self.made.site, self.store, name, asked.workers, asked.engine.address, asked.devices)
        return found, {"why": why} if why else reason

    def train(self, transport: Transport, on_round: OnRound | None = None, stop: Stop | None = None) -> str:
        """Run the rounds that are left, each recorded before the next; return the digest of what was reached.

        ``stop`` looks at the rounds so far; when it has a reason, the seed ends there.
        """
        asked, saved, pause = self.made.experiment, time.monotonic(), pause_after(self.made.experiment.checkpoint, 0.0)
        began, last = perf_counter(), self.first
        lines = list(self.lines) if stop else []
        self.stopped = (stop(lines) if stop and lines else None) or (self.purse.empty(self.first) if self.first else None)
        if self.stopped:  # it ended here before, and was interrupted before that was written down
            return digest(self.server, self.store)
        try:
            for done in map(self._marked, map(self._joined, self._rounds(transport))):
                line = line_of(done, perf_counter() - began, len(self.made.federation)) | self.desk.said(done)
                line |= self.purse.counted(done.number, done.participants)
                line |= {"attackers": list(self.made.attackers)} if self.made.attackers else {}
                self._record(line)
                began, last, self.server = perf_counter(), done.number, done.server
                self._keep_best(line)
                if stop:
                    lines.append(line)
                    self.stopped = stop(lines)
                self.stopped = self.stopped or (self.purse.empty(done.number) if done.number < asked.rounds else None)
                due = self.desk.often or time.monotonic() - saved >= pause or done.number == asked.rounds
                if done.number and (due or self.stopped):
                    before = time.monotonic()
                    self._save(done.number)
                    saved = time.monotonic()
                    pause = pause_after(asked.checkpoint, saved - before)
                if self.folder is not None and asked.snapshots and done.number % asked.snapshots == 0:
                    self.folder.keep(done.number, done.server, self.store)
                if on_round:
                    spent = line.get("privacy", {}).get("epsilon")
                    on_round(self.made.seed, done if spent is None else replace(done, epsilon=spent))
                if self.stopped:
                    break
        except KeyboardInterrupt:
            if last > self.first and not self.desk.often:  # what was saved after the round stands
                self._save(last)
            raise
        self.first = last
        return digest(self.server, self.store)

    def _rounds(self, transport: Transport) -> Any:
        asked, federation = self.made.experiment, self.made.federation
        there = tuple(part for part in ("test", "validation") if any(map(len, getattr(federation, part))))
        if self.away and "test" not in there:  # a server has no test samples; silos do
            there = ("test", *there)
        attack, who = asked.attack, self.made.attackers
        carrier = Forger(transport, self.made.method, attack, who, self.made.seed) if who else transport
        return rounds(
            self.made.method,
            self.server,
            carrier,
            self.desk.drawn(asked.sampling),
            Protocol(asked.every, asked.after, there or ("test",)),
            Span(self.made.seed, len(federation), asked.rounds, self.first),
            self.door,
        )

    def _joined(self, done: Round) -> Round:
        """Return a round with the scores of those who were kept out of training and join now, where that is due."""
        new, asked = self.made.newcomers, self.made.experiment
        if new is None or not asked.join.due(done.number, asked.rounds) or not any(map(len, new.site.federation.test)):
            return done  # in a race nobody has test samples before its end
        began = perf_counter()
        scores = done.scores | {UNSEEN: [own for (own,) in new.score(done.server, done.number)]}
        return replace(done, scores=scores, seconds_test=done.seconds_test + perf_counter() - began)

    def _marked(self, done: Round) -> Round:
        """Return a tested round with how often honest clients' models take marked samples for what the attackers call them."""
        if self.made.experiment.attack.name != "backdoor" or not done.scores:
            return done
        if self._stamped is None:
            self._stamped = replace(self.made.site, federation=stamped(self.made.federation))
        send, site = self.made.method.send, self._stamped
        with one_thread():
            everyone = range(len(self.made.federation))
            rows = [site.score(i, send(done.server, i), self.store[i], done.number, ("test",))[0] for i in everyone]
        return replace(done, scores=done.scores | {BACKDOOR: rows})

    def _chosen(self, lines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        asked = self.made.experiment
        return chosen(lines, "validation", report=asked.report, series=asked.series, by=asked.choose)

    def _keep_best(self, line: dict[str, Any]) -> None:
        """Keep the state of the round that is best so far; the one that the last checkpoint knows stays until the next."""
        if self.folder is None or self.made.experiment.keep != "best" or line["round"] == 0:
            return
        self.best = self._chosen([self.best, line] if self.best else [line])
        if self.best is line:
            self.folder.keep_best(line["round"], self.server, self.store)

    def settle(self) -> None:
        """Leave on disk what is asked for, once the seed is finished and that is written down."""
        keep = self.made.experiment.keep
        if self.folder is not None and keep == "best" and self.best:
            self.folder.settle_best(self.best["round"])
        elif self.folder is not None and keep == "none":
            self.folder.forget_states()

    def _record(self, line: dict[str, Any]) -> None:
        if self.folder is None:
            self.history.append(line)
        else:
            self.folder.lines.append(line)

    def _save(self, number: int) -> None:
        if self.folder is not None:
            self.folder.save(number, self.desk.kept(self.server), self.store)
            if self.best:
                self.folder.forget_best(self.best["round"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The rounds that were recorded."""
        return self.history if self.folder is None else self.folder.lines.read()
