"""Three silos on this machine with TLS and node keys, then the same experiment in one process: the same bits.

Needs the extra `flower` (in a clone: `pip install -e ".[flower]"`) and takes a minute or two.
"""

import json
import tempfile
from pathlib import Path

from perfed import experiment, settings
from perfed.deploy import layout, operate

OVERRIDES = ["method=fedrep", "data=digits", "model=mlp", "rounds=2", "budget.batch_size=32"]


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "study"
        layout.init(folder, 3, layout.Address(port=18643), OVERRIDES, terms={"seeded_private": True})  # only to compare
        run = operate.local(folder, print, lambda seed, line: print(f"round {line['round']}: {line['seconds']:.1f} s"))
        away = json.loads((run / "summary.json").read_text())

        here = settings.load(None, [*OVERRIDES, "clients=3", "transport=serial", f"out={place}/runs"])
        home = experiment.run(here).summary()
    verdict = "equal" if away["digest"] == home["digest"] else "different"
    print(f"Flower {away['digest'][:16]}, serial {home['digest'][:16]}: {verdict}")


if __name__ == "__main__":
    main()
