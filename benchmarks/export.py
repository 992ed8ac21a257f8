"""The measured work as files, so that any other library can do exactly the same."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from perfed.federation import Federation

from .work import BUDGET


def export(federation: Federation, folder: Path, figures: list[dict[str, Any]] | None = None) -> None:
    """Write one npz per client with ``train_x``, ``train_y``, ``test_x``, ``test_y``, and `work.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for client in range(len(federation)):
        arrays = {
            f"{part}_{name}": getattr(federation, name)[getattr(federation, part)[client]].numpy()
            for part in ("train", "test")
            for name in ("x", "y")
        }
        np.savez(folder / f"client-{client}.npz", **arrays)
    what = {
        "what": "uint8 pictures of shape channels × height × width, to be scaled to [0, 1] and then by (x − 0.5) / 0.5",
        "network": "5×5 convolutions to 32 and 64 channels, ReLU and 2×2 pooling after each, linear 512 with ReLU, linear head",
        "clients": len(federation),
        "classes": federation.classes,
        "train": federation.sizes,
        "test": [len(rows) for rows in federation.test],
        "evaluation": "every client, after every round, on its own test samples",
        **asdict(BUDGET),
        "figures": figures or [],
    }
    (folder / "work.json").write_text(json.dumps(what, indent=2) + "\n", encoding="utf-8")
