"""A docstring as Markdown: its sentences, then what it takes, gives, refuses, and an example."""

import inspect
import re
from typing import Any

SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Examples?|Attributes):\n((?:(?:    .*)?\n?)*)", re.M)
TITLES = {"Args": "Takes", "Returns": "Gives", "Yields": "Yields", "Raises": "Refuses", "Attributes": "Has"}
ENTRY = re.compile(r"^(\*{0,2}\w[\w.]*):\s+(.*?)(?=^\*{0,2}\w[\w.]*:\s|\Z)", re.M | re.S)


def markdown(found: Any) -> str:
    """Return what an object says of itself."""
    text = inspect.getdoc(found) or ""
    parts = [SECTION.sub("", text).strip()]
    parts += [_section(part[1], inspect.cleandoc(part[2])) for part in SECTION.finditer(text)]
    return "\n\n".join(part if part.startswith(("```", "**Example")) else ticks(part) for part in parts if part)


def ticks(text: str) -> str:
    """Return text with its code in Markdown's marks."""
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.S)


def _section(name: str, text: str) -> str:
    if name.startswith("Example"):
        return f"**Example**\n\n```pycon\n{text}\n```"
    if name == "Returns":
        return f"**{TITLES[name]}** {text[:1].lower()}{text[1:]}"
    entries = ENTRY.findall(text)
    if not entries:
        return f"**{TITLES[name]}** {text}"
    lines = [f"- `{entry}`: {' '.join(said.split())}" for entry, said in entries]
    return "\n".join([f"**{TITLES[name]}**", "", *lines])
