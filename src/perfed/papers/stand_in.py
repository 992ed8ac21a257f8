"""Data that is here in place of data that is not."""

from collections.abc import Sequence

from ..data.catalogue import CATALOGUE
from ..data.entry import Entry
from ..data.locate import how, locate
from ..errors import DataError, suggest
from ..partition import PARTITIONS
from .paper import Settings

# What may take a set's place, best first; the last is always embedded.
STAND_INS: dict[str, tuple[str, ...]] = {
    "ag_news": ("digits",),
    "amazon": ("digits_domains",),
    "cifar10": ("cifar100", "fashion_mnist", "digits"),
    "cifar100": ("cifar10", "tiny_imagenet", "fashion_mnist", "digits"),
    "digits_five": ("digits_domains",),
    "domainnet": ("pacs", "office_home", "digits_domains"),
    "fashion_mnist": ("mnist", "digits"),
    "har": ("digits_domains",),
    "mnist": ("fashion_mnist", "digits"),
    "office_caltech": ("pacs", "office_home", "digits_domains"),
    "office_home": ("pacs", "domainnet", "digits_domains"),
    "pacs": ("office_home", "domainnet", "digits_domains"),
    "tiny_imagenet": ("cifar100", "cifar10", "digits"),
}
GREY = ("digits", "digits_domains", "fashion_mnist", "mnist")
PIXELS = {"ag_news": 8, "amazon": 8, "cifar10": 32, "cifar100": 32, "fashion_mnist": 28, "har": 8, "mnist": 28}
LEAST = {"alexnet_bn": 64, "resnet10": 32, "resnet18": 32, "resnet8": 32}  # pixels below which a network has no picture left


def here(name: str, domains: Sequence[str] | None = None, root: str | None = None) -> bool:
    """Say whether a data set (or, of one, ``domains``) is on this machine."""
    entry = CATALOGUE[name]
    if entry.parts:
        return all(locate(CATALOGUE[part], root) is not None for part in domains or entry.parts)
    return locate(entry, root, tuple(domains or ())) is not None


def parts_here(name: str, domains: Sequence[str] | None = None) -> list[str]:
    """Return the sets that make up ``name`` (or, of them, ``domains``) and are here."""
    return [part for part in domains or CATALOGUE[name].parts if here(name, [part])]


def editions(name: str, domains: Sequence[str] | None = None) -> list[str]:
    """Return what the files here lack of the published ones, in the catalogue's words."""
    entry = CATALOGUE[name]
    said = []
    for part in [CATALOGUE[part] for part in domains or entry.parts] if entry.parts else [entry]:
        found = locate(part, None)
        if found is not None and part.layouts and found.layout is not part.layouts[0] and _less(found.layout.edition):
            said.append(f"{part.name} here: {found.layout.edition}")
    return said


def sizes(entry: Entry) -> tuple[int, int]:
    """Return how many training and test samples the files here have, or were published where none are here."""
    found = None if entry.parts else locate(entry, None)
    return (found.layout.sizes if found else None) or (entry.train, entry.test)


def _less(edition: str) -> bool:
    """Whether an edition has fewer or smaller samples than the published one, not only other files."""
    return any(mark.isdigit() for mark in edition)


def missing(settings: Settings) -> str | None:
    """Return what an experiment lacks, where to get it and what could stand in; None if its data is here."""
    name = str(settings["data"])
    domains = settings.get("data.domains")
    if ":" in name:  # the reader's own
        return None
    if name not in CATALOGUE:
        raise suggest("data set", name, CATALOGUE)
    if here(name, domains, settings.get("data.root")):
        return None
    entry = CATALOGUE[name]
    wanted = [CATALOGUE[part] for part in domains or entry.parts] if entry.parts else [entry]
    absent = [part for part in wanted if locate(part, None) is None]
    ways = "; ".join(f"{part.name}: {how(part)}" for part in absent)
    return f"{name} is not here ({ways}); --stand-in takes {_offer(entry)} instead"


def _offer(entry: Entry) -> str:
    some = parts_here(entry.name) if entry.parts else []
    return f"{', '.join(some)} of it" if len(some) > 1 else substitute(entry.name)


def substitute(name: str) -> str:
    """Return the best stand-in that is here."""
    for other in STAND_INS.get(name, ()):
        if here(other):
            return other
    raise DataError(f"nothing can stand in for {name}")


def replaced(settings: Settings) -> tuple[Settings, str]:
    """Return an experiment on data that is here, and what stands in for what; unchanged if nothing is missing."""
    name = str(settings["data"])
    if here(name, settings.get("data.domains")):
        return settings, ""
    entry = CATALOGUE[name]
    some = parts_here(name, settings.get("data.domains")) if entry.parts else []
    if len(some) > 1:
        gone = [part for part in settings.get("data.domains") or entry.parts if part not in some]
        return settings | {"data.domains": some, "clients": len(some)}, f"{name} without {', '.join(gone)}"
    other = CATALOGUE[substitute(name)]
    return _moved(settings, entry, other), f"{other.name} stands in for {name}"


def _moved(settings: Settings, old: Entry, new: Entry) -> Settings:
    moved = {key: value for key, value in settings.items() if not key.startswith("data.")}
    moved |= {"data": new.name}
    embedded = any(not layout.files for layout in new.layouts)
    if new.kind != old.kind:
        moved = {key: value for key, value in moved.items() if not key.startswith(("model.", "text."))} | {"model": "mlp"}
    elif "size" in new.options:
        pixels = settings.get("data.size") or PIXELS.get(old.name, 64)
        if embedded:  # 8×8 pixels gain nothing by being blown up further than the network needs
            pixels = min(pixels, LEAST.get(str(settings["model"]), 28))
        moved["data.size"] = pixels
    if PARTITIONS[str(moved["partition"])].by_group:
        moved["clients"] = len(new.groups)
    classes = moved.get("partition.classes_per_client")
    if classes is not None:
        moved["partition.classes_per_client"] = max(2, min(new.classes, round(classes * new.classes / old.classes)))
    if new.name in GREY:
        for key in ("inputs.mean", "inputs.std"):
            if isinstance(moved.get(key), list):
                del moved[key]
    return moved
