"""The loop: who trains, what the server makes of it, how everyone does with the result, and the line that records it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from .evaluate.metrics import DECIMALS
from .evaluate.scores import Score, columns
from .method import Method
from .sampling import Sampling
from .server import Uploads
from .server.admission import Admission
from .transport import Transport, one_thread
from .trees import Tree


@dataclass(frozen=True)
class Protocol:
    """When and on what clients are scored."""

    every: int = 1  # rounds between tests; the last round is always tested
    after: bool = False  # also right after local training
    parts: tuple[str, ...] = ("test", "validation")


@dataclass(frozen=True)
class Round:
    """What one round produced; round 0 is the start."""

    number: int
    server: Tree
    participants: list[int]
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    scores: dict[str, list[Score]] = field(default_factory=dict)  # part → one per client
    after: dict[int, Score] = field(default_factory=dict)
    seconds_train: float = 0.0
    seconds_test: float = 0.0
    epsilon: float | None = None  # what was spent of differential privacy so far, where noise is added
    refused: dict[int, str] = field(default_factory=dict)  # participants whose answer was not merged, and why
    usual: dict[str, Any] = field(default_factory=dict)  # what was usual among the answers that were


@dataclass(frozen=True)
class Span:
    """Which rounds are run: from what they are drawn, over how many clients, up to which, and after which."""

    seed: int
    clients: int
    count: int
    first: int = 0


def rounds(
    method: Method[Any, Any, Any, Any],
    server: Tree,
    transport: Transport,
    sampling: Sampling,
    protocol: Protocol,
    span: Span,
    door: Admission | None = None,
) -> Iterator[Round]:
    """Run rounds ``first`` + 1 … ``count`` of a span and yield what each produced; from the start yield round 0 too.

    ``door`` decides which answers are merged; without one the usual bounds hold.
    """
    seed, clients, count, first = span.seed, span.clients, span.count, span.first
    everyone, door = range(clients), door or Admission()
    if first == 0:
        yield _tested(Round(0, server, []), transport, protocol, everyone)
    for number in range(first + 1, count + 1):
        began = perf_counter()
        drawn = sampling.participants(seed, number, clients)
        ids = [i for i in drawn if i not in door.suspended]
        lost = sampling.dropped(seed, number, drawn) & set(ids)
        ups = transport.train(server, ids, number, lost, protocol.after) if ids else Uploads[Any]([], [], [])
        with one_thread():
            verdict = door.merged(method, server, ups, number)
        server, refused = verdict.server, verdict.refused | getattr(transport, "faults", {})
        door.count(ids, refused)
        up, down = transport.ledger.close()
        done = Round(number, server, ids, up, down, after=transport.after, refused=refused, usual=verdict.usual)
        done = replace(done, seconds_train=perf_counter() - began)
        if number % protocol.every == 0 or number == count:
            done = _tested(done, transport, protocol, everyone)
        yield done


def _tested(done: Round, transport: Transport, protocol: Protocol, everyone: range) -> Round:
    began = perf_counter()
    rows = transport.score(done.server, everyone, done.number, protocol.parts)
    scores = {part: [row[i] for row in rows] for i, part in enumerate(protocol.parts)}
    return replace(done, scores=scores, seconds_test=perf_counter() - began)


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
    if done.refused:
        line["refused"] = {str(client): why for client, why in sorted(done.refused.items())}
    if done.usual:
        line["usual"] = done.usual
    for part, scores in done.scores.items():
        line[part] = columns(scores, DECIMALS)
    if done.after:
        line["after"] = columns([done.after.get(i) for i in range(clients)], DECIMALS)
    return line
