"""What the pages of the project hold: their code blocks, their commands, their links and where links may lead."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")),
    ]
)
FENCE = re.compile(r"^( *)```([\w+-]*)(?: title=\"([^\"]*)\")?[^\n]*\n(.*?)^\1```", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    title: str
    text: str


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    return [
        Block(found[2], found[3] or "", re.sub(f"^{found[1]}", "", found[4], flags=re.M)) for found in FENCE.finditer(read(page))
    ]


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return FENCE.sub("", read(page))


def commands(page: Path) -> Iterator[list[str]]:
    """Yield every command that starts with ``perfed``, as a shell would take it apart: in blocks, and in the text."""
    for block in blocks(page):
        if block.language in ("", "sh", "shell", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                yield from taken_apart(line.strip())
    for line in re.findall(r"(?<!`)`(perfed [^`]+)`", prose(page)):
        yield from taken_apart(line.replace("\\|", "|"))


def taken_apart(line: str) -> Iterator[list[str]]:
    """Yield the perfed commands of a line, without comments, redirections and what other programs get."""
    for part in re.split(r" \|\| | && | > | 2> |; ", re.split(r"\s#\s", line)[0]):
        command = part.removeprefix("nohup ").rstrip("& ")
        if command.startswith("perfed "):
            yield shlex.split(command)[1:]


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub makes them."""
    found: dict[str, int] = {}
    anchors = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        anchors.add(anchor if anchor not in found else f"{anchor}-{found[anchor]}")
        found[anchor] = found.get(anchor, 0) + 1
    return anchors


def links(page: Path) -> list[tuple[str, str]]:
    """Return file and anchor of every link and picture that leads into the project."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [(link.partition("#")[0], link.partition("#")[2]) for link in found if not re.match(r"\w+:", link)]
