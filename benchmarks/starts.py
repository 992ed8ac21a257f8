"""What private starts cost: accuracy on the digits after 12 and 30 rounds, for every way in which private parts may begin."""

import argparse
import os
from collections.abc import Iterator

from perfed.evaluate.scores import columns
from perfed.evaluate.summary import average
from perfed.rounds import Protocol, Span, rounds
from perfed.runs import parse
from perfed.runs.assemble import assemble
from perfed.runs.seed import Seed
from perfed.transport import Serial, one_thread

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto")
STARTS = ("seeded", "entropy", "shared", "pass")
SHOWN = (12, 30)


def start(one: Seed, way: str, secrets: list[int]) -> None:
    """Give every client its private start."""
    made = one.made
    for i in range(len(made.federation)):
        if way in ("entropy", "shared"):
            secret = secrets[i] if way == "entropy" else secrets[0]
            one.store[i] = assemble(made.experiment, secret, made.federation).first
        elif way == "pass":  # common start, then a training of one's own whose answer nobody sees
            _, one.store[i], _ = made.site.train(i, made.method.send(made.server, i), one.store[i], 0)


def accuracies(method: str, way: str, overrides: list[str]) -> Iterator[tuple[int, float]]:
    """Yield rounds with the accuracy over all clients' test samples."""
    asked = parse.load(None, [f"method={method}", "data=digits", f"rounds={SHOWN[-1]}", *overrides])
    seed = asked.seeds[0]
    with one_thread():
        one = Seed(assemble(asked, seed))
        made, count = one.made, len(one.made.federation)
        start(one, way, [int.from_bytes(os.urandom(7), "little") for _ in range(count)])
        protocol, span = Protocol(every=1, parts=("test",)), Span(seed, count, asked.rounds)
        for done in rounds(made.method, made.server, Serial(made.site, one.store), asked.sampling, protocol, span):
            if done.number in SHOWN:
                yield done.number, average(columns(done.scores["test"]))


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
