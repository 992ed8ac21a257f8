"""What private starts cost: accuracy on the digits after 12 and 30 rounds, for every way in which private parts may begin."""

import argparse
from collections.abc import Iterator
from hashlib import sha256

from perfed.evaluate.scores import columns
from perfed.evaluate.summary import average
from perfed.rounds import Protocol, Span, rounds
from perfed.runs import parse
from perfed.runs.assemble import assemble
from perfed.runs.seed import Seed
from perfed.silos import start
from perfed.transport import Serial, one_thread

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto")
STARTS = {
    "seeded": "from the public seed, as in one process; the server knows it",
    "entropy": "each silo its own draw",
    "shared": "one draw for all silos, unknown to the server",
    "new": "the same, but what a method starts as a copy of what is sent is that copy: what silos do",
    "pass": "the public start, then a training of one's own whose answer nobody sees",
}
SHOWN = (12, 30)


def drawn(*what: object) -> int:
    """Return a number that stands for one from the operating system's entropy; the same in every run of this script."""
    return int.from_bytes(sha256(repr(what).encode()).digest()[:7], "little")


def begin(one: Seed, way: str) -> None:
    """Give every client its private start."""
    made = one.made
    for i in range(len(made.federation)):
        other = assemble(made.experiment, drawn(made.seed, i if way == "entropy" else "all"), made.federation)
        if way in ("entropy", "shared"):
            one.store[i] = other.first
        elif way == "new":
            one.store[i] = start.first(made, other)
        elif way == "pass":
            _, one.store[i], _ = made.site.train(i, made.method.send(made.server, i), one.store[i], 0)


def accuracies(method: str, way: str, seed: int, overrides: list[str]) -> Iterator[tuple[int, float]]:
    """Yield rounds with the accuracy over all clients' test samples."""
    asked = parse.load(None, [f"method={method}", "data=digits", f"rounds={SHOWN[-1]}", *overrides])
    with one_thread():
        one = Seed(assemble(asked, seed))
        made, count = one.made, len(one.made.federation)
        begin(one, way)
        protocol, span = Protocol(every=1, parts=("test",)), Span(seed, count, asked.rounds)
        for done in rounds(made.method, made.server, Serial(made.site, one.store), asked.sampling, protocol, span):
            if done.number in SHOWN:
                yield done.number, average(columns(done.scores["test"]))


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--methods", default=",".join(METHODS))
    ask.add_argument("--starts", default=",".join(STARTS))
    ask.add_argument("--seeds", type=int, default=3)
    ask.add_argument("overrides", nargs="*", default=["clients=10", "budget.lr=0.05"])
    given = ask.parse_args()
    print("| method | start |" + "".join(f" after {n} |" for n in SHOWN) + " each seed |")
    for method in given.methods.split(","):
        for way in given.starts.split(","):
            found = [dict(accuracies(method, way, seed, given.overrides)) for seed in range(given.seeds)]
            means = "".join(f" {100 * sum(f[n] for f in found) / len(found):.1f} |" for n in SHOWN)
            each = "; ".join(" ".join(f"{100 * f[n]:.1f}" for n in SHOWN) for f in found)
            print(f"| {method} | {way} |{means} {each} |", flush=True)


if __name__ == "__main__":
    main()
