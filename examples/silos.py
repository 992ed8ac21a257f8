"""Three silos on this machine with TLS and node keys, then the same experiment in one process: the same bits.

Needs the extra `flower` (in a clone: `pip install -e ".[flower]"`) and takes a minute or two.
"""

import tempfile
from pathlib import Path

import perfed
from perfed.silos.flower import layout, operate

OVERRIDES = ["method=fedrep", "data=digits", "model=mlp", "rounds=2", "budget.batch_size=32"]


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "study"
        terms = {"seeded_private": True}  # the server knows the private starts: only to compare
        layout.init(folder, 3, layout.Address(port=18643), OVERRIDES, terms=terms, allowed={"scores": True})
        run = operate.local(folder, print, lambda seed, line: print(f"round {line['round']}: {line['seconds']:.1f} s"))
        away = perfed.open(run).digest
        home = perfed.run(method="fedrep", rounds=2, budget={"batch_size": 32}, clients=3, transport="serial").digest
    verdict = "equal" if away == home else "different"
    print(f"Flower {away[:16]}, serial {home[:16]}: {verdict}")


if __name__ == "__main__":
    main()
