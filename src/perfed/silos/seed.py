"""One seed at the server: the method without data, the silos' versions, the record."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..federation import Federation
from ..rounds import Round
from ..runs.assemble import assemble
from ..runs.experiment import Experiment
from ..runs.folder import SeedFolder
from ..runs.seed import Desk, OnRound, Seed, Stop
from ..runs.states import fingerprint
from ..sampling import Sampling
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


@dataclass(frozen=True, kw_only=True)
class Present(Sampling):
    """Participation among those who have not left; numbers stay as they are."""

    gone: tuple[int, ...] = ()

    def participants(self, seed: int, number: int, clients: int) -> list[int]:
        there = [i for i in range(clients) if i not in self.gone]
        return [there[place] for place in super().participants(seed, number, len(there))]


class SeedAtServer(Desk):
    """One seed at the server: the method without data, the silos' versions, and what they add to the record."""

    often = True  # line and checkpoint are on disk before the next round is asked for

    def __init__(
        self, settings: Experiment, terms: Terms, seed: int, folder: SeedFolder, silos: list[dict[str, Any] | None]
    ) -> None:
        self.folder, self.gone, self.settings = folder, terms.removed, settings
        facts = next(s for s in silos if s is not None)
        sizes = [s["sizes"] if s else [0, 0, 0] for s in silos]
        train = [own[0] for own in sizes]
        smallest = min(n for n in train if n)
        federation = _faraway(facts, [n or smallest for n in train], [own[1] for own in sizes], seed)
        self.made = assemble(settings, seed, federation, words=facts["words"])
        agreed, tested = {k: facts.get(k) for k in AGREED}, [own[1:] for own in sizes]
        self.known = Known([0] * len(silos), [""] * len(silos), train, tested, agreed)
        self.one = Seed(self.made, folder, self)
        self.transport: Remote | None = None

    def participants(self, number: int) -> list[int]:
        made = self.made
        drawn = self.drawn(made.experiment.sampling).participants(made.seed, number, len(made.federation))
        return [i for i in drawn if i not in self.one.door.suspended]

    def drawn(self, asked: Sampling) -> Sampling:
        return Present(**asdict(asked), gone=self.gone) if self.gone else asked

    def restore(self) -> None:
        """Go back to the last checkpoint; silos that came since it was written are given their places."""
        held, members = self.folder.shape("server/versions"), len(self.known.versions)
        if held is None or held[0] == members:
            self.one.restore()
            return
        sizes, method = self.known.sizes, self.made.method
        self.known.versions, self.known.digests = [0] * held[0], [""] * held[0]
        self.known.sizes = sizes[: held[0]]
        self.one.server = method.init(self.made.site.task, held[0])[0]
        self.one.restore()
        for i in range(held[0], members):
            self.one.server = method.admit(self.one.server)
            self.known.versions.append(0)
            self.known.digests.append("")
            self.known.sizes.append(sizes[i])

    def train(self, transport: Remote, on_round: OnRound | None, stop: Stop | None = None) -> Tree:
        """Run the rounds that are left, or until ``stop`` has a reason."""
        self.transport = transport
        self.one.train(transport, on_round, stop)
        return self.one.server

    def said(self, done: Round) -> dict[str, Any]:
        """Return who was absent and why, and what the silos spent; refusals go into a file of their own."""
        assert self.transport is not None
        for client, why in [
            *self.transport.refused,
            *((i, why) for i, why in done.refused.items() if i not in self.transport.faults),
        ]:
            keep.note(self.folder.refusals, round=done.number, client=client, why=why)
        self.transport.refused.clear()
        line: dict[str, Any] = {"absent": self.transport.absent} if done.number else {}
        if self.transport.missing:
            line["missing"] = {str(i): why for i, why in self.transport.missing.items()}
        return line | {"seconds_silos": {str(i): spent for i, spent in self.transport.seconds.items()}}

    def kept(self, server: Tree) -> Saved:
        """Return the server's state with the version of every silo's private state that goes with it."""
        digests = [list(bytes.fromhex(d or "00" * 32)) for d in self.known.digests]
        return Saved(
            server,
            torch.tensor(self.known.versions),
            torch.tensor(self.known.sizes),
            torch.tensor(digests, dtype=torch.uint8),
        )

    def back(self, found: Tree) -> Tree:
        """Return the server's state in a checkpoint, and take over the versions that go with it."""
        self.known.versions, self.known.sizes = found.versions.tolist(), found.sizes.tolist()
        digests = [bytes(row.tolist()).hex() for row in found.digests]
        self.known.digests = [d if d.strip("0") else "" for d in digests]
        return found.server

    def digest(self, server: Tree) -> tuple[str, list[str] | None]:
        """Return the digest of the server's state, with every private one where the silos let it be known."""
        whole = hashlib.sha256(fingerprint(server))
        if not all(self.known.digests):
            return whole.hexdigest(), None
        for private in self.known.digests:
            whole.update(bytes.fromhex(private))
        return whole.hexdigest(), list(self.known.digests)


def _faraway(facts: dict[str, Any], sizes: list[int], validation: list[int], seed: int) -> Federation:
    """Return a federation whose samples are elsewhere: only shapes and sizes are right."""
    x = torch.zeros(2, *facts["shape"], dtype=getattr(torch, facts["dtype"]))
    rows, checks = (tuple(torch.zeros((), dtype=torch.int64).expand(n) for n in own) for own in (sizes, validation))
    none = tuple(torch.zeros(0, dtype=torch.int64) for _ in sizes)
    return Federation(
        x,
        torch.zeros(2, dtype=torch.int64),
        rows,
        checks,
        none,
        inputs=lambda x, key: x,
        classes=len(facts["classes"]),
        names=tuple(f"silo {i}" for i in range(len(sizes))),
        seed=seed,
        goal=facts["task"],
    )
