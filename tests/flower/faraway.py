"""Silos in this process: the carrier hands every message to a silo's own code, through bytes and back."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from perfed.disk import get_json
from perfed.runs import parse as setting
from perfed.runs import run as experiment
from perfed.silos.config import SiloConfig
from perfed.silos.exchange import Place, Reply
from perfed.silos.messages import Ask, SiloAnswer, pack, unpack
from perfed.silos.silo import Silo

EXPERIMENT: dict[str, Any] = {
    "method": "fedavg",
    "data": {"name": "digits", "fraction": 0.3},
    "partition": "dirichlet",
    "model": {"name": "mlp", "hidden": 16},
    "clients": 3,
    "rounds": 2,
    "budget": {"epochs": 1, "batch_size": 32, "lr": 0.05},
}
POLICY: dict[str, Any] = {
    "methods": ["fedavg", "fedrep"],
    "data": ["digits"],
    "epochs": 3,
    "steps": 1000,
    "parameters": 1_000_000,
    "rounds": 5,
    "daily": 1000,
    "scores": True,
    "labels": True,
    "seeded_private": True,
}


def folders(place: Path, silos: int = 3, policy: dict[str, Any] | None = None, **experiment: Any) -> Path:
    """Write a deployment without certificates; return its folder."""
    (place / "server").mkdir(parents=True)
    settings = EXPERIMENT | {"clients": silos} | experiment
    (place / "server" / "experiment.yaml").write_text(yaml.safe_dump(settings))
    terms = {"silos": silos, "deadline": 5, "poll": 0.01, "again": 0.01, "seeded_private": True}
    (place / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    name = settings["method"]["name"] if isinstance(settings["method"], dict) else settings["method"]
    for i in range(silos):
        folder = place / f"silo-{i}"
        folder.mkdir()
        (folder / "silo.yaml").write_text(
            yaml.safe_dump({"client": i, "data": {"digits": {"name": "digits", "fraction": 0.3, "rows": "split"}}})
        )
        allowed = POLICY | {"methods": [name]} | (policy or {})
        (folder / "policy.yaml").write_text(yaml.safe_dump(allowed))
    return place


def serial(place: Path, out: Path, *overrides: str) -> Path:
    """Run the same experiment here, one client after another; return the folder of its first seed."""
    settings = setting.load(place / "server" / "experiment.yaml", [f"out={out}", "transport=serial", *overrides])
    return experiment.run(settings).path / "seed-0"


def final(seed: Path) -> dict[str, Any]:
    return dict(get_json(seed / "final.json"))


def lines(seed: Path) -> list[dict[str, Any]]:
    """Return what the rounds gave, without how long they took and the hashes over that."""
    found, other = [json.loads(text) for text in (seed / "rounds.jsonl").read_text().splitlines()], ("absent", "missing", "chain")
    return [{k: v for k, v in line.items() if not k.startswith("seconds") and k not in other} for line in found]


def silo(place: Path, client: int) -> Silo:
    return Silo(SiloConfig.load(place / f"silo-{client}" / "silo.yaml"))


class Here:
    """A carrier without a network; ``tamper`` changes what comes back, ``garble`` its bytes, ``away`` says who is not there."""

    def __init__(
        self,
        place: Path,
        silos: int = 3,
        tamper: Callable[[Ask, SiloAnswer], list[SiloAnswer | str]] | None = None,
        away: Callable[[int], bool] = lambda client: False,
        garble: Callable[[Ask, str, bytes], tuple[str, bytes]] = lambda ask, head, body: (head, body),
    ) -> None:
        self.place, self.silos, self.tamper, self.away, self.garble = place, silos, tamper, away, garble
        self.asked: list[Ask] = []
        self.waiting: dict[str, list[Reply]] = {}
        self.silo_of = cache(lambda client: silo(place, client))

    def nodes(self) -> dict[int, Place]:
        return {i: Place(100 + i) for i in range(self.silos) if not self.away(i)}

    def push(self, asks: Sequence[tuple[Place, Ask]], seconds: float) -> list[str | None]:
        sent: list[str | None] = []
        for place, ask in asks:
            ask = unpack(Ask, *pack(ask))
            self.asked.append(ask)
            name = f"message {len(self.asked)}"
            reply = Reply.of(name, *self.garble(ask, *pack(self.silo_of(place.node - 100).answer(ask))))
            if self.tamper and reply.answer is not None:
                told = self.tamper(ask, reply.answer)
                self.waiting[name] = [Reply(name, None, a) if isinstance(a, str) else Reply(name, a) for a in told]
            else:
                self.waiting[name] = [reply]
            sent.append(name)
        return sent

    def pull(self, messages: Sequence[str], wait: float) -> list[Reply]:
        found: list[Reply] = []
        for name in messages:
            found += self.waiting.pop(name, [])
        return found
