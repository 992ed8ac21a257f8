"""Which transport to take: the one that was asked for, or the fastest here."""

import os
import sys
from typing import Any

from ..errors import InputError
from .pooled import Pooled
from .serial import Serial, Transport
from .site import Site
from .store import Store


def choose(site: Site, store: Store, name: str, workers: int | None) -> tuple[Transport, dict[str, Any]]:
    """Return a transport and why it was taken."""
    if name == "serial":
        return Serial(site, store), {"why": "asked for"}
    if name == "pooled":
        return Pooled(site, store, workers), {"why": "asked for"}
    if name != "auto":
        raise InputError(f"transport must be auto, serial or pooled, got '{name}'")
    many = (workers or os.cpu_count() or 1) > 1 and site.task.device.type == "cpu" and sys.platform == "linux"
    return (
        (Pooled(site, store, workers), {"why": "several cores"}) if many else (Serial(site, store), {"why": "one core"})
    )
