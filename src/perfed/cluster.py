"""A Ray cluster: found, joined, or started for a while. Ray is imported here, and only when it is asked for."""

import os
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .errors import RunError, extra

START = "`ray start --head --disable-usage-stats` starts one, and engine.address=local one for this study alone"


class NoCluster(RunError):
    """Nobody answers where a Ray cluster should be."""


LOOPBACK = "127.0.0.2"  # Ray turns 127.0.0.1 into the machine's address in its network, and listens there
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what asks for no GPU sees those that there are, as everywhere
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # workers are what was installed, however this process was started
}


def imported() -> Any:
    """Return Ray with its usage statistics off, or say which extra brings it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return extra("ray", "ray")


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Belong to a cluster for a while; what was started for this is ended, what was there before stays.

    Args:
        address: ``auto`` for the cluster that this machine belongs to, ``local`` for one of this process's own, or ``HOST:PORT``.
    """
    ray = imported()
    if ray.is_initialized():  # the caller belongs to one: that is meant
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "namespace": "perfed"}
    if address == "local":
        quiet |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    elif (host := address.rpartition(":")[0]).startswith("127."):  # this machine is known by that name there
        quiet["_node_ip_address"] = host
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as wrong:
        where = "here" if address == "auto" else f"at {address}"
        raise NoCluster(f"there is no Ray cluster {where} ({_first(wrong)}); {START}") from wrong
    try:
        yield ray
    finally:
        ray.shutdown()


def _first(wrong: Exception) -> str:
    """Return the first sentence of an error."""
    return (str(wrong).strip().splitlines() or [type(wrong).__name__])[0].rstrip(".")


def head(ray: Any) -> tuple[str, int]:
    """Return where the cluster's head is."""
    host, _, port = str(ray.get_runtime_context().gcs_address).rpartition(":")
    return host.strip("[]"), int(port)


def answers(place: tuple[str, int], seconds: float = 1.0) -> bool:
    """Return whether anybody listens there; asked by hand, for Ray ends this process when its head is gone for a minute."""
    try:
        socket.create_connection(place, seconds).close()
    except OSError:
        return False
    return True


def ring(ray: Any, bell: str) -> None:
    """Ring a bell that everybody in the cluster can look at; it is a note at the head, and no process."""
    ray.experimental.internal_kv._internal_kv_put(bell, b"rung", namespace="perfed")


def rung(ray: Any, bell: str) -> bool:
    """Return whether a bell was rung."""
    return bool(ray.experimental.internal_kv._internal_kv_exists(bell, namespace="perfed"))


def forget(ray: Any, bell: str) -> None:
    """Take a bell away."""
    ray.experimental.internal_kv._internal_kv_del(bell, namespace="perfed")


def machines(ray: Any) -> list[dict[str, float]]:
    """Return what each machine has that is there now; Ray waits for a head that is gone, so ask only one that answers."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def cpus(there: Iterable[Mapping[str, float]]) -> float:
    """Return how many CPUs machines have together."""
    return float(sum(own.get("CPU", 0.0) for own in there))


def fits(there: Iterable[Mapping[str, float]], wanted: Mapping[str, float]) -> bool:
    """Return whether one of the machines has as much as is wanted, free or not."""
    return any(all(own.get(what, 0.0) >= much for what, much in wanted.items()) for own in there)
