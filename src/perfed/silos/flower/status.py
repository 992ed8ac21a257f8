"""What an operator wants to see: which silos are there, what they last did, how far the run is, how long certificates last."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ...disk import get_json
from ...errors import InputError
from ...runs import parse
from ...runs.folder import RunFolder, SeedFolder
from ..arrivals import joined
from ..keep import busy
from ..terms import Terms
from . import certificates
from .link import credential
from .operate import Follower, healthy
from .wire import Headers, client

_RECENT = 5  # rounds whose seconds tell what is left


def status(folder: Path) -> dict[str, Any]:
    """Return the state of a deployment, seen from its server's folder."""
    server = folder / "server" if (folder / "server").is_dir() else folder
    if not (server / "server.yaml").is_file():
        raise InputError(f"'{folder}' is no deployment's server; `perfed deploy status` is for its operator")
    terms = Terms.load(server / "server.yaml")
    settings = parse.load(server / "experiment.yaml", elsewhere=True).but(clients=terms.silos)
    run = Follower(server, settings, None).run
    up = healthy(server)
    nodes = _nodes(server) if up else {}
    seeds = [_seed(RunFolder(run).seed(seed), settings.rounds) for seed in settings.seeds] if run else []
    current = next((s for s in seeds if not s["finished"]), seeds[-1] if seeds else None)
    return {
        "link": "up" if up else "not reached",
        "run": str(run) if run else None,
        "version": __version__,
        "state": _state(busy(server), seeds),
        "round": current["round"] if current else None,
        "rounds": settings.rounds,
        "seconds_left": current["seconds_left"] if current else None,
        "certificate_days": round(certificates.days_left(server / "server.crt"), 1),
        "silos": [_silo(i, nodes.get(f"silo-{i}"), current) for i in terms.numbers],
    }


def _state(running: bool, seeds: list[dict[str, Any]]) -> str:
    if running or not seeds:
        return "running" if running else "not started"
    return "finished" if all(s["finished"] for s in seeds) else "stopped"


def _nodes(server: Path) -> dict[str, Any]:
    """Return what the link knows of its nodes, by name."""
    from flwr.proto.control_pb2 import ListNodesRequest
    from flwr.supercore.control import ControlHttpClient

    with client(ControlHttpClient, server, Headers(credential(server))) as control:
        return {node.name: node for node in control.ListNodes(ListNodesRequest()).nodes_info}


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines(keepends=True) if text.endswith("\n")]


def _seed(folder: SeedFolder, rounds: int) -> dict[str, Any]:
    lines = folder.lines.read()
    number = lines[-1]["round"] if lines else None
    recent = [line["seconds"] for line in lines[-_RECENT:]]
    left = None if number is None else round((rounds - number) * sum(recent) / len(recent), 1)
    facts = get_json(folder.silos) if folder.silos.exists() else []
    return {
        "round": number,
        "seconds_left": left,
        "finished": folder.finished(),
        "lines": lines,
        "facts": facts,
        "refused": _lines(folder.refusals),
        "joined": joined(folder),
    }


def _silo(number: int, node: Any, seed: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is known of one silo."""
    found: dict[str, Any] = {"silo": number, "state": node.status if node else "unknown", "since": None}
    if node:
        moment = node.last_activated_at if node.status == "online" else node.last_deactivated_at
        found["since"] = _ago(moment)
    later = seed["joined"].get(str(number), {}) if seed else {}
    facts = (seed["facts"][number] if seed and number < len(seed["facts"]) else None) or later
    answered = [line["round"] for line in seed["lines"] if str(number) in line.get("seconds_silos", {})] if seed else []
    missing = [line for line in seed["lines"] if str(number) in line.get("missing", {})] if seed else []
    refused = [line for line in seed["refused"] if line["client"] == number] if seed else []
    notes = [f"joined after round {later['round']} and has its model"] if later else []
    notes += [f"missing in round {line['round']}: {line['missing'][str(number)]}" for line in missing[-1:]]
    notes += [f"refused in round {line['round']}: {line['why']}" for line in refused[-1:] if line["why"] not in "".join(notes)]
    return found | {
        "name": facts.get("name"),
        "samples": facts.get("sizes"),
        "torch": facts.get("torch"),
        "last_answer": answered[-1] if answered else None,
        "missed": len(missing),
        "note": "; ".join(notes),
    }


def _ago(moment: str) -> float | None:
    """Return the seconds since a moment."""
    try:
        return round((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds(), 1)
    except (ValueError, TypeError):
        return None
