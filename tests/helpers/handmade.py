"""Run folders made by hand: the format of docs/architecture.md, section 5, with accuracies that are known."""

import json
from pathlib import Path

import numpy as np
import yaml


def write_run(
    folder: Path,
    method: str = "fedavg",
    *,
    seeds: tuple[int, ...] = (0,),
    clients: int = 4,
    classes: int = 3,
    rounds: int = 5,
    level: float = 0.8,
    validation: bool = True,
    options: dict | None = None,
    correct: dict[int, list[list[int]]] | None = None,
) -> Path:
    """Write a run whose clients climb to about ``level``, or with ``correct`` answers of 100 by seed and round."""
    folder.mkdir(parents=True)
    settings = {
        "method": {"name": method, **(options or {})},
        "model": "mlp",
        "data": "digits",
        "partition": {"name": "dirichlet", "alpha": 0.1},
        "clients": clients,
        "rounds": rounds,
        "seeds": list(seeds),
        "budget": {"lr": 0.05, "epochs": 1, "batch_size": 10},
        "out": str(folder.parent),
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    manifest = {
        "command": ["perfed", "run", f"method={method}", "partition.alpha=0.1"],
        "versions": {"perfed": "0.1.0", "torch": "2.13.0"},
        "machine": "x86_64, 2 cores",
        "commit": "0123456789abcdef",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for seed in seeds:
        _write_seed(folder / f"seed-{seed}", seed, clients, classes, rounds, level, validation, (correct or {}).get(seed))
    return folder


def _write_seed(folder, seed, clients, classes, rounds, level, validation, correct):
    folder.mkdir()
    draw = np.random.default_rng(seed)
    labels = draw.multinomial(150, draw.dirichlet([0.3] * classes, clients))
    count = [100] * clients
    described = {
        "names": [f"client {number}" for number in range(clients)],
        "train": [40] * clients,
        "validation": [10 * validation] * clients,
        "test": count,
        "labels": labels.tolist(),
        "classes": [f"class {number}" for number in range(classes)],
        "majority": {"correct": [int(row.max() / 1.5) for row in labels], "count": count},
    }
    (folder / "clients.json").write_text(json.dumps(described))
    own = np.random.default_rng([seed, *folder.parent.name.encode()])  # methods suit different clients
    offset = draw.normal(0, 0.08, clients) + own.normal(0, 0.05, clients)
    lines = []
    for number in range(rounds + 1):
        climb = 0.1 + (level - 0.1) * (1 - np.exp(-4 * number / rounds))
        scores = np.clip(climb + offset * (number > 0) + draw.normal(0, 0.01, clients), 0, 1)
        right = correct[number] if correct else (scores * 100).round().astype(int).tolist()
        line = {
            "round": number,
            "participants": list(range(clients)) if number else [],
            "seconds": 0.5,
            "seconds_train": 0.4,
            "seconds_test": 0.1,
            "bytes_up": 1024 * clients * bool(number),
            "bytes_down": 2048 * clients * bool(number),
            "up": {"body": 1024 * clients * bool(number)},
            "down": {"model": 2048 * clients * bool(number)},
            "test": {"count": count, "accuracy": [r / 100 for r in right], "loss": (1 - scores).tolist()},
        }
        if validation:
            some = [r // 10 / 10 for r in right]
            line["validation"] = {"count": [10] * clients, "accuracy": some, "loss": [0.1] * clients}
        lines.append(json.dumps(line) + "\n")
    (folder / "rounds.jsonl").write_text("".join(lines))
