"""The reference of settings, read from the package's own."""

import re

from source import cell, code, table

from perfed import methods, reference
from perfed.reference import Setting

HEADINGS = {
    "What is trained": ("method", "model", "norm", "precision", "rounds", "seeds"),
    "On whose data": ("data", "partition", "clients", "validation", "test", "split", "split_seed", "augment"),
    "What is measured": ("metrics", "choose", "every", "after", "report", "best", "series"),
    "Where and how it runs": ("transport", "workers", "device", "memory", "out", "name", "checkpoint", "snapshots"),
}
PARTS = {
    "budget": "What a client may spend in a round; the same for every method of a comparison.",
    "sampling": "Who takes part in a round.",
    "privacy": "Noise on what clients upload ([Privacy](../privacy.md)).",
    "join": "What a client may spend that comes later, and when clients that were kept out of training are tested.",
    "inputs": "How stored samples become what a network sees ([Networks](../models.md#inputs)).",
    "text": "How texts become numbers ([Networks](../models.md#texts)).",
    "partition": "Who owns which sample ([Partitions](../partitions.md)).",
    "data": "How a data set is read ([Data](../data.md)).",
    "model": "Options of a network ([Networks](../models.md)).",
}


def page() -> str:
    """Return the whole reference."""
    everything = {setting.path: setting for setting in reference.everything()}
    top = [setting for setting in everything.values() if "." not in setting.path]
    named = [name for names in HEADINGS.values() for name in names]
    rest = tuple(setting.path for setting in top if setting.path not in named)
    parts = []
    for heading, names in (HEADINGS | ({"More": rest} if rest else {})).items():
        parts.append(f"## {heading}\n\n{_table([everything[name] for name in names if name in everything])}")
    for part, said in PARTS.items():
        below = [setting for path, setting in everything.items() if path.startswith(f"{part}.")]
        parts.append(f"## {part}\n\n{said}\n\n{_table(below, whose=part in reference.CHOICES)}")
    return "\n\n".join([*parts, _methods()])


def _methods() -> str:
    parts = ["## method\n\nDefaults are the papers' values. Every method's page says where it departs from its paper."]
    for name in methods.CATALOGUE:
        found = list(reference.options("method", name).values())
        said = _table(found) if found else "No fields of its own."
        parts.append(f"### method={name}\n\n[{methods.title(name)}](../methods/{name}.md).\n\n{said}")
    return "\n\n".join(parts)


def _table(found: list[Setting], *, whose: bool = False) -> str:
    return table(["setting", "type", "default", "meaning"], [_row(setting, whose=whose) for setting in found])


def _row(setting: Setting, *, whose: bool) -> list[str]:
    said = re.sub(r"^None: ", "by default ", setting.meaning)
    said = said[:1].upper() + said[1:] if said[:1].isascii() else said  # a Greek letter is a name
    default = "" if setting.default is None else reference.plain(setting.default)
    whom = f" *Of {', '.join(setting.applies)}.*" if whose and setting.applies else ""
    return [code(setting.path), cell(setting.type.replace(" | ", " or ")), code(default), cell(said) + whom]
