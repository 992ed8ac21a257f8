"""`python -m benchmarks.attacks`: what rules cost without an attack and are worth under one, as a page.

Everything is measured with admission=structure, so that the rules stand alone; the last rows show what admission does by itself.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from perfed.attacks import ATTACKS
from perfed.evaluate.attacked import attacked
from perfed.evaluate.summary import average
from perfed.runs.experiment import Experiment
from perfed.runs.run import rehearse

RULES = ("mean", "median", "trimmed:0.2", "krum:0.2", "multikrum:0.2", "mix+trimmed:0.2", "geometric", "clipped")
SPLITS: dict[str, dict[str, Any]] = {
    "near-IID (Dirichlet 100)": {"name": "dirichlet", "alpha": 100.0},
    "skewed (Dirichlet 0.3)": {"name": "dirichlet", "alpha": 0.3},
}
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "attacks.md"


def asked(split: str, attack: str, seeds: int, **more: Any) -> Experiment:
    """Return one cell's experiment."""
    return Experiment(
        **{
            "data": "digits",
            "partition": SPLITS[split],
            "clients": 20,
            "rounds": 30,
            "every": 30,
            "seeds": tuple(range(seeds)),
            "budget": {"lr": 0.1},
            "transport": "serial",
            "attack": attack,
            "suspend": 0,
        }
        | more
    )


def measured(experiment: Experiment) -> tuple[float, float | None]:
    """Return the honest clients' accuracy after the last round in per cent, and how often a backdoor opens, over seeds."""
    lines = {seed: one.lines for seed, one in rehearse(experiment).items()}
    found = attacked(lines)
    if found is None:
        return 100 * sum(average(own[-1]["test"]) for own in lines.values()) / len(lines), None
    opens = found["backdoor"]["mean"]
    return 100 * found["honest"]["mean"], None if opens is None else 100 * opens


def row(name: str, split: str, seeds: int, attacks: list[str], **more: Any) -> str:
    """Return a row: one cell per attack."""
    cells = []
    for attack in attacks:
        honest, opens = measured(asked(split, attack, seeds, **more))
        cells.append(f"{honest:.1f}" + ("" if opens is None else f" ({opens:.0f})"))
    return f"| {name} | {' | '.join(cells)} |"


def page(seeds: int, personal: list[str]) -> Iterator[str]:
    """Yield the page, line by line, as it is measured."""
    attacks = list(ATTACKS)
    head = [f"| | {' | '.join(attacks)} |", f"|---|{'---:|' * len(attacks)}"]
    yield "# Attacks: what rules cost and what they are worth\n"
    yield (
        f"Embedded digits, 20 clients of whom 4 attack, the small MLP, 30 rounds, lr 0.1, {seeds} seed{'s' * (seeds > 1)}, "
        "`python -m benchmarks.attacks`.\nA figure is the honest clients' accuracy after the last round, in per cent; behind a "
        "backdoor's stands how often it opens at them.\n"
        "The column `none` is what a rule costs: nobody attacks, and all clients count. "
        "Rules stand alone (`admission=structure`); [what each attack does](../robust.md#simulated-attacks)."
    )
    for split in SPLITS:
        yield f"\n## FedAvg, {split}\n"
        yield from head
        for rule in RULES:
            yield row(f"`{rule}`", split, seeds, attacks, method={"name": "fedavg", "rule": rule}, admission="structure")
        for level in ("bounds", "strict"):
            yield row(f"mean, `admission={level}`", split, seeds, attacks, method="fedavg", admission=level)
    split = list(SPLITS)[1]
    few = ["none", "sign", "inner", "labels", "backdoor"]
    yield f"\n## Personalised methods, {split}\n"
    yield from (f"| | {' | '.join(few)} |", f"|---|{'---:|' * len(few)}")
    for name in personal:
        for rule in ("mean", "multikrum:0.2", "mix+trimmed:0.2"):
            yield row(f"{name}, `{rule}`", split, seeds, few, method={"name": name, "rule": rule}, admission="structure")


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description="Measure rules and admission under attack.")
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--methods", default="fedper,fedrep,fedcp,gpfl", help="personalised methods, with commas between")
    ask.add_argument("--out", type=Path, default=PAGE)
    given = ask.parse_args()
    torch.set_num_threads(1)
    lines = []
    for line in page(given.seeds, given.methods.split(",")):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        lines.append(line)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
