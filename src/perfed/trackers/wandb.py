"""Weights & Biases: a run per seed in the project `perfed`; without a key it writes offline, for `wandb sync` later."""

import logging
import multiprocessing
import os
from collections.abc import Mapping
from typing import Any

from .tracker import About

PROJECT = "perfed"


class WandB:
    """Writes through wandb; a seed that goes on goes on in its own run."""

    def __init__(self, about: About) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE")
        if mode is None and not _key():
            mode = "offline"  # it would ask for one, and the run would wait for ever
            logging.getLogger("perfed").warning("track=wandb: no key is set, so it writes offline; `wandb sync` sends it later")
        settings = wandb.Settings(silent=True, disable_git=True, console="off")
        self.run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=about.name,
            group=about.group or None,
            id=about.id,
            resume="allow",
            dir=str(about.folder),
            config={"seed": about.seed, **about.settings},
            mode=mode,
            reinit="create_new",
            settings=settings,
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the numbers of a round."""
        self.run.log(dict(numbers), step=step)

    def close(self) -> None:
        """End the run; its own process goes on writing for a moment."""
        self.run.finish()
        if multiprocessing.parent_process() is not None:  # a forked process ends without waiting for that
            import wandb

            wandb.teardown()


def _key() -> bool:
    """Whether a key is set in the environment or was left by `wandb login`."""
    import netrc
    from pathlib import Path

    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return any("wandb" in host for host in netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc")).hosts)
    except (OSError, netrc.NetrcParseError):
        return False


begin = WandB
