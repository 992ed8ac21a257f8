"""One seed at the server: the method without data, the silos' versions, the record."""

import hashlib
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..federation import Federation
from ..rounds import Protocol, line_of, rounds
from ..runs.assemble import assemble
from ..runs.experiment import Experiment
from ..runs.folder import SeedFolder
from ..runs.seed import OnRound
from ..runs.states import fingerprint
from ..transport import Private, Store
from ..trees import Tree
from . import keep
from .facts import AGREED
from .remote import Known, Remote
from .terms import Terms


class Saved(NamedTuple):
    """What a checkpoint holds: the server's state, and which version of every silo's private state goes with it."""

    server: Tree
    versions: Tensor
    sizes: Tensor
    digests: Tensor


class SeedAtServer:
    """One seed at the server: the method without data, the silos' versions, the record."""

    def __init__(
        self, settings: Experiment, terms: Terms, seed: int, folder: SeedFolder, silos: list[dict[str, Any] | None]
    ) -> None:
        self.settings, self.terms, self.seed, self.folder = settings, terms, seed, folder
        facts = next(s for s in silos if s is not None)
        sizes = [s["sizes"][0] if s else 0 for s in silos]
        smallest = min(n for n in sizes if n)
        self.federation = _faraway(facts, [n or smallest for n in sizes], seed)
        self.parts = ("test", "validation") if any(s and s["sizes"][1] for s in silos) else ("test",)
        made = assemble(settings, seed, self.federation, words=facts["words"])
        self.method, self.site, self.server, self.first = made.method, made.site, made.server, made.first
        agreed = {k: facts.get(k) for k in AGREED}
        self.known = Known([0] * terms.silos, [""] * terms.silos, sizes, agreed)
        self.lines, self.start = folder.lines, 0

    def participants(self, number: int) -> list[int]:
        return self.settings.sampling.participants(self.seed, number, len(self.federation))

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        if self.folder.reached is None:
            self.lines.forget()
            return
        nothing = Private((), {})
        like = self._saved(self.server)
        self.start, found = self.folder.load(like, Store(nothing, 0), nothing)
        self.server = found.server
        self.known.versions, self.known.sizes = found.versions.tolist(), found.sizes.tolist()
        digests = [bytes(row.tolist()).hex() for row in found.digests]
        self.known.digests = [d if d.strip("0") else "" for d in digests]
        self.lines.cut(self.start)

    def train(self, transport: Remote, on_round: OnRound | None) -> Tree:
        """Run the rounds that are left; line and checkpoint are on disk before the next round is asked for."""
        s, server, began = self.settings, self.server, perf_counter()
        loop = rounds(
            self.method,
            server,
            transport,
            s.sampling,
            Protocol(s.every, s.after, self.parts),
            seed=self.seed,
            clients=len(self.federation),
            count=s.rounds,
            first=self.start,
        )
        for done in loop:
            server = done.server
            line = line_of(done, perf_counter() - began, len(self.federation))
            if done.number:
                line["absent"] = transport.absent
            if transport.missing:
                line["missing"] = {str(i): why for i, why in transport.missing.items()}
            line["seconds_silos"] = {str(i): spent for i, spent in transport.seconds.items()}
            self.lines.append(line)
            for client, why in transport.refused:
                keep.note(self.folder.refusals, round=done.number, client=client, why=why)
            transport.refused.clear()
            if done.number:
                self.folder.save(done.number, self._saved(server), Store(Private((), {}), 0))
            if on_round:
                on_round(self.seed, done)
            began = perf_counter()
        return server

    def _saved(self, server: Tree) -> Saved:
        digests = [list(bytes.fromhex(d or "00" * 32)) for d in self.known.digests]
        return Saved(
            server,
            torch.tensor(self.known.versions),
            torch.tensor(self.known.sizes),
            torch.tensor(digests, dtype=torch.uint8),
        )

    def digest(self, server: Tree) -> tuple[str, list[str] | None]:
        """Return the digest of the server's state, with every private one where the silos let it be known."""
        whole = hashlib.sha256(fingerprint(server))
        if not all(self.known.digests):
            return whole.hexdigest(), None
        for private in self.known.digests:
            whole.update(bytes.fromhex(private))
        return whole.hexdigest(), list(self.known.digests)


def _faraway(facts: dict[str, Any], sizes: list[int], seed: int) -> Federation:
    """Return a federation whose samples are elsewhere: only shapes and sizes are right."""
    x = torch.zeros(2, *facts["shape"], dtype=getattr(torch, facts["dtype"]))
    rows = tuple(torch.zeros((), dtype=torch.int64).expand(n) for n in sizes)
    none = tuple(torch.zeros(0, dtype=torch.int64) for _ in sizes)
    return Federation(
        x,
        torch.zeros(2, dtype=torch.int64),
        rows,
        none,
        none,
        inputs=lambda x, key: x,
        classes=len(facts["classes"]),
        names=tuple(f"silo {i}" for i in range(len(sizes))),
        seed=seed,
    )
