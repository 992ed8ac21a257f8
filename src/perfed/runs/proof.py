"""Whether a record is the one that was written: its lines, its notes and what it began with, held against each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .. import chain
from ..disk import get_object, hash_file, put_json
from ..errors import RunError
from . import forms
from .forms import formed
from .lines import FINAL, ORIGIN, Lines

State = Literal["proved", "so far", "before", "disproved"]
BEFORE = "made before chains; cannot be proved"
MANIFEST, SETTINGS, SUMMARY, SPLIT = "manifest.json", "settings.yaml", "summary.json", "split.safetensors"
_LATER = ("settings", "earlier", "splits", "transport", "flops", "stopped")  # of a manifest: what changes as a run goes on
_BESIDE = ("clients.json", "columns.json", "vocabulary.json")  # what is there before the first round
_SEALED = (*_BESIDE, "transport.json", "machines.json", "silos.json")


@dataclass(frozen=True)
class Proof:
    """What could be proved of a record."""

    path: Path
    state: State
    said: str
    lines: int = 0
    head: str = ""  # the hash that stands for all of it: whoever noted it elsewhere knows the record for good

    def plain(self) -> dict[str, Any]:
        """Return the proof as JSON holds it."""
        return self.__dict__ | {"path": str(self.path)}


def begin(seed: Path, number: int) -> None:
    """Write what the chain of a seed begins with: hashes of the manifest, the settings, the data, the split and the clients."""
    manifest = seed.parent / MANIFEST
    if not manifest.is_file():
        return
    noted = formed(manifest, forms.MANIFEST)
    files = _BESIDE if "splits" in noted else ()  # in a deployment silos may still come
    found = {
        "seed": number,
        "manifest": _stable(noted),
        "settings": noted.get("settings"),
        "data": noted.get("data"),
        "split": noted.get("splits", {}).get(str(number)),
        "files": _hashes(seed, files),
    }
    put_json(seed / ORIGIN, found)


def sealed(seed: Path, lines: Lines, final: Mapping[str, Any]) -> dict[str, Any]:
    """Return a seed's final note with the end of its chain in it, and a seal over all it says."""
    if not lines.chained:
        return dict(final)
    whole = dict(final) | {"lines": lines.count, chain.FIELD: lines.head, "files": _hashes(seed, _SEALED)}
    return whole | {"seal": chain.seal(whole)}


def anew(seed: Path) -> None:
    """Chain a copied record anew, around a manifest that was changed; its beginning names the end of its first chain."""
    lines, final = Lines(seed / "rounds.jsonl"), seed / FINAL
    links = lines.links()
    if not lines.chained:
        return
    origin = get_object(seed / ORIGIN) | {"manifest": _stable(formed(seed.parent / MANIFEST, forms.MANIFEST))}
    put_json(seed / ORIGIN, {"copied": links[-1].chain} | origin)  # a copy of a copy names the first
    head = lines.rewrite([link.record for link in links])
    if final.exists():
        note = _without(get_object(final), "seal") | {chain.FIELD: head}
        put_json(final, note | {"seal": chain.seal(note)})


def unbroken(path: Path, final: dict[str, Any]) -> dict[str, Any]:
    """Return a note whose seal holds; those of old records have none."""
    if path.with_name(ORIGIN).exists() and chain.seal(_without(final, "seal")) != final.get("seal"):
        raise RunError(f"the seal of '{path}' is broken: {chain.CHANGED}")
    return final


def seed(folder: Path, number: int) -> tuple[int, str]:
    """Return how many lines a seed's chain has and what it ends in; what does not fit is refused. Old records: no hash."""
    lines = Lines(folder / "rounds.jsonl")
    links, notes = lines.links(), lines.notes()
    if not lines.chained:
        if any(chain.FIELD in note for note in notes.values()):
            raise RunError(f"'{folder / ORIGIN}' is missing: the record in '{folder}' is a chain that begins with it")
        return len(links), ""
    _began(folder, number)
    for name, note in notes.items():
        unbroken(folder / name, note)
    if FINAL in notes:
        _same(folder, notes[FINAL]["files"])
    return len(links), links[-1].chain if links else lines.origin


def _began(folder: Path, number: int) -> None:
    """Refuse a beginning that is not that of the run around it."""
    place = folder.parent / MANIFEST
    origin, manifest = get_object(folder / ORIGIN), formed(place, forms.MANIFEST)
    if origin.get("manifest") != _stable(manifest):
        raise RunError(f"'{place}' is not the one that '{folder.name}' began with: {chain.CHANGED}")
    known = {manifest.get("settings"), *(former.get("settings") for former in manifest.get("earlier", ()))}
    if origin.get("settings") not in known:
        raise RunError(f"the settings in '{place}' are not those that '{folder.name}' began with: {chain.CHANGED}")
    for what, there in (("data", manifest.get("data")), ("split", manifest.get("splits", {}).get(str(number)))):
        if origin.get(what) != there:
            raise RunError(f"the hash of the {what} in '{place}' is not that of '{folder.name}': {chain.CHANGED}")
    if origin.get("seed") != number:
        raise RunError(f"'{folder}' holds the record of seed {origin.get('seed')}")
    _same(folder, origin.get("files") or {})


def _same(folder: Path, files: Mapping[str, str]) -> None:
    whole = (folder / SPLIT).exists()  # a record that is kept without states has no vocabulary and names no machine
    for name, told in files.items():
        path = folder / name
        if not path.exists() and (whole or name not in ("vocabulary.json", "machines.json")):
            raise RunError(f"'{path}' is missing: the record's chain names it")
        if path.exists() and hash_file(path) != told:
            raise RunError(f"'{path}' is not the one that the record's chain names: {chain.CHANGED}")


def stamped(summary: Mapping[str, Any], parts: Any) -> dict[str, Any]:
    """Return a summary with a hash over all that it sums up; ``parts`` are the hashes of what is below, none in old records."""
    if not parts:
        return dict(summary)
    return dict(summary) | {chain.FIELD: chain.seal([summary, parts])}


def fitting(path: Path, summary: dict[str, Any], parts: Any) -> dict[str, Any]:
    """Return a summary that fits what is below it."""
    if parts and chain.seal([_without(summary, chain.FIELD), parts]) != summary.get(chain.FIELD):
        raise RunError(f"'{path}' does not fit the record that it sums up: {chain.CHANGED}")
    if not parts and chain.FIELD in summary:
        raise RunError(f"'{path}' sums up a chained record, and what is below is none: {chain.CHANGED}")
    return summary


def run_parts(folder: Path, seeds: Mapping[int, Path]) -> dict[str, Any]:
    """Return the hashes that a run's summary stands on; nothing where a seed is of a version before chains."""
    finals = {str(number): get_object(path / FINAL).get("seal") for number, path in seeds.items() if (path / FINAL).exists()}
    if not finals or None in finals.values():
        return {}
    return {"seeds": finals} | {name: hash_file(folder / name) for name in (MANIFEST, SETTINGS)}


def _stable(manifest: Mapping[str, Any]) -> str:
    return chain.seal({key: value for key, value in manifest.items() if key not in _LATER})


def _hashes(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {name: hash_file(folder / name) for name in names if (folder / name).exists()}


def _without(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != name}
