"""Two hundred hellos and answers of a broken or dishonest silo: each costs only that silo its place."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faraway import Here, final, folders

from perfed.rounds import Protocol, Span, rounds
from perfed.runs import parse as setting
from perfed.runs.assemble import assemble
from perfed.runs.folder import RunFolder
from perfed.runs.seed import Seed
from perfed.runs.states import fingerprint
from perfed.sampling import Sampling
from perfed.silos.conductor import Conductor
from perfed.silos.messages import FORMAT, Ask, SiloAnswer, unpack
from perfed.transport import Serial

DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 5_000
RAW = ("", "no JSON", "null", "[]", "{}", DEEP, f'{{"format": {DEEP}}}', f'{{"format": {DIGITS}}}', "x" * (1 << 20) + "y")

COUNTS = (-2, 2**63, 1e3, "many", None, True, [], {})
FACTS: dict[str, tuple[Any, ...]] = {
    "sizes": ([1, 2], [1, 2, -3], [2**62, 1, 1], ["1", 2, 3], [1.0, 2, 3], [True, 1, 1], "three", None, {}),
    "classes": ([], ["one"], "0123456789", [1, 2, 3], ["a", "a"], ["x"] * 10, [["0"]], None, list(map(str, range(100_000)))),
    "shape": ([1, 10**6, 10**6], [-64], ["64"], [64.0], [0], "64", None, [1] * 9, [[64]], [True]),
    "dtype": ("float64", "complex64", "int64x", "load", "__class__", "", 3, None, []),
    "words": (0, -1, "all", 2**40, 1.5, [], True),
    "name": ("a\nb", "x" * 1000, 7, None, ["a"], "\x1b[31m"),
    "labels": ("all", [1, 2], [-1] * 10, [2**63 - 1] * 10, [1.5] * 10, {"0": 1}),
    "majority": ("most", [3], [5, 3], [1, 2, 3], [-1, 2], [None, 1], 4),
    "columns": ("all", [["a"]], [[1, 2]], 3),
    "patients": ("Ann",),
    "start": ("", "0" * 31, "g" * 32, 7, None, ["0" * 32]),
}
HEAD: dict[str, tuple[Any, ...]] = {
    "client": (7, *COUNTS),
    "base": (9, *COUNTS),
    "experiment": ("", "00" * 16, "x" * 5000, 1, None, ["a"]),
    "facts": ("none", None, [], {}, {"sizes": [1, 1, 1]}, 3),
    "refused": (1, None, [], {"why": "so"}, "Ann has a cough", "x" * 2000),
    "scores": (
        "all",
        1,
        None,
        [[1, 2]],
        [{"count": "1"}],
        [{"count": 2, "accuracy": 1.5}],
        [{"count": 2, "loss": "0"}],
        [{"count": 10**8, "accuracy": 0.1}] * 3,
    ),
    "after": ("later", 3, [1], {"accuracy": 0.5}, {"count": 1, "accuracy": "x"}, {}, True),
    "digest": ("ff", "g" * 64, 7, None, "F" * 64),
    "seconds": ("long", 3, None, {"train": "x"}, {"train": None}, {"x" * 50: 1}, {str(i): 1 for i in range(20)}, []),
    "train": (7, -1, "1", 1.0, True, [], {}),
    "score": (7, -1, "1", True, []),
}
TEXTS = (
    '"seconds": NaN',
    '"seconds": {"a": Infinity}',
    '"after": {"count": 1, "loss": -Infinity}',
    '"after": {"count": 1, "loss": 1e999}',
    '"base": 1e400',
)


def cases() -> list[Callable[[str], str]]:
    """Return changes of a head, every one of which makes it wrong."""

    def field(name: str, value: Any) -> Callable[[str], str]:
        return lambda head: json.dumps(json.loads(head) | {name: value})

    def fact(name: str, value: Any) -> Callable[[str], str]:
        return lambda head: json.dumps((h := json.loads(head)) | {"facts": h["facts"] | {name: value}})

    def without(name: str) -> Callable[[str], str]:
        return lambda head: json.dumps({k: v for k, v in json.loads(head).items() if k != name})

    found: list[Callable[[str], str]] = [(lambda head, raw=raw: raw) for raw in RAW]
    found += [field(name, value) for name, values in HEAD.items() for value in values]
    found += [fact(name, value) for name, values in FACTS.items() for value in values]
    found += [without(name) for name in ("format", "experiment", "facts", "scores", "client")]
    found += [field("format", FORMAT + 1), field("extra", 1)]
    found += [(lambda head, text=text: head[:-1] + f", {text}}}") for text in TEXTS]
    random.Random(0).shuffle(found)
    return found


CASES = cases()


def test_there_are_two_hundred_of_them() -> None:
    assert len(CASES) + len(CASES) > 200 and len(CASES) > 140


def test_a_malformed_hello_costs_only_its_silo_its_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever silo it is, the first one too; and what the honest ones agreed on stands."""
    place = folders(tmp_path / "deployment", rounds=1)
    honest, told = Here(place), {}

    def hello(ask: Ask, head: str, body: bytes) -> tuple[str, bytes]:
        told[ask.client] = head, body
        return head, body

    honest.garble = hello
    study = Conductor(place / "server", honest)
    ask = Ask(
        verb="hello",
        experiment="ab" * 16 + "-0",
        client=0,
        clients=3,
        seed=0,
        settings=json.loads(json.dumps(study.settings.plain(), default=str)),
        version=__import__("perfed").__version__,
        seeded=True,
    )
    expected = study._silos(RunFolder(tmp_path / "honest").add_seed(0), ask)
    for number, change in enumerate(CASES):
        liar, folder = number % 3, RunFolder(tmp_path / f"case-{number}").add_seed(0)
        carrier = Here(place)
        carrier.silo_of = lambda client: Told(told[client])  # type: ignore[assignment]
        carrier.garble = lambda ask, head, body, liar=liar, change=change: (  # type: ignore[misc]
            (change(head), body) if ask.client == liar else (head, body)
        )
        study.carrier = carrier
        found = study._silos(folder, ask)
        assert found == [None if i == liar else facts for i, facts in enumerate(expected)], number
        (noted,) = [json.loads(text) for text in folder.refusals.read_text().splitlines()]
        assert noted["client"] == liar and 10 < len(noted["why"]) < 600 and "\n" not in noted["why"]
    assert not [r for r in caplog.records if r.exc_info]


class Told:
    """A silo that repeats what it said."""

    def __init__(self, said: tuple[str, bytes]) -> None:
        self.said = unpack(SiloAnswer, *said)

    def answer(self, ask: Ask) -> Any:
        return self.said


def test_malformed_answers_leave_the_honest_silos_result_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    count = len(CASES)
    small = {"model": {"name": "mlp", "hidden": 4}, "budget": {"epochs": 1, "batch_size": 128, "lr": 0.05}}
    place = folders(tmp_path / "deployment", rounds=count, every=count, policy={"rounds": count}, suspend=0, **small)

    def garble(ask: Ask, head: str, body: bytes) -> tuple[str, bytes]:
        wrong = ask.client == 2 and ask.verb == "work" and ask.train
        return (CASES[ask.train - 1](head), body) if wrong and ask.train else (head, body)

    run = Conductor(place / "server", Here(place, garble=garble)).conduct()
    assert final(run / "seed-0")["server"] == of_two(place, tmp_path)
    noted = [json.loads(text) for text in (run / "seed-0" / "refused.jsonl").read_text().splitlines()]
    assert [n["client"] for n in noted] == [2] * count
    assert not [r for r in caplog.records if r.exc_info]


def of_two(place: Path, out: Path) -> str:
    """Return the digest of the server's state after the same rounds of clients 0 and 1 alone, in one process."""

    class Two(Sampling):
        def participants(self, seed: int, number: int, clients: int) -> list[int]:
            return [0, 1]

    settings = setting.load(place / "server" / "experiment.yaml", [f"out={out}"])
    one = Seed(assemble(settings, 0))
    protocol, serial = Protocol(every=settings.rounds), Serial(one.made.site, one.store)
    loop = rounds(one.made.method, one.server, serial, Two(), protocol, Span(0, 3, settings.rounds))
    return fingerprint([done.server for done in loop][-1]).hex()
