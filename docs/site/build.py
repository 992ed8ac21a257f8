"""Put the site's pages together below build/pages: ``python docs/site/build.py``; zensical turns them into build/docs.

A page is a file of docs/ as it stands there, with three changes. Where it says ``<!-- generated: NAME -->``,
what the package says of itself is put in. Formulas are drawn. Links to files outside docs/ lead to copies, for
the site stands alone.
"""

import re
import shutil
import sys
from pathlib import Path

import api
import commands
import formulas
import gains
import methods
import settings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUT = ROOT / "build" / "pages"
GENERATED = {"api": api.page, "commands": commands.page, "gains": gains.page, "methods": methods.page, "settings": settings.page}
GUESTS = {  # files of the project that are pages too
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(?<!`)(!?\[[^\]]*\]\()([^)\s#]*)(#[^)\s]*)?(\))")


def main(out: Path = OUT) -> None:
    """Write every page and every file that pages show."""
    shutil.rmtree(out, ignore_errors=True)
    pages = [*(path.relative_to(ROOT) for path in sorted(DOCS.rglob("*.md"))), *map(Path, sorted(GUESTS))]
    for page in pages:
        if page == Path("README.md"):
            continue  # the site's home is docs/index.md; links to the README lead there
        _write(out, page)
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".png", ".svg", ".css"):
            _copy(path, out / path.relative_to(DOCS))


def place(source: Path) -> Path:
    """Return where a file of the project, named from its root, stands on the site."""
    if str(source) in GUESTS:
        return Path(GUESTS[str(source)])
    if source.parts[0] == "docs":
        return Path(*source.parts[1:])
    return Path("source") / source if source.suffix == ".md" else Path("source") / source.with_name(source.name + ".txt")


def _write(out: Path, page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"<!-- generated: (\w+) -->", lambda found: GENERATED[found[1]](), text)
    text = LINK.sub(lambda link: link[1] + _target(out, page, link[2]) + (link[3] or "") + link[4], text)
    path = out / place(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(formulas.drawn(text), encoding="utf-8")


def _target(out: Path, page: Path, link: str) -> str:
    """Return a link as it must read on the site; a file outside docs/ is copied."""
    if not link or re.match(r"\w+:", link):
        return link
    aim = ((ROOT / page).parent / link).resolve().relative_to(ROOT)
    if (ROOT / aim).is_dir():
        aim = aim / ("index.md" if (ROOT / aim / "index.md").exists() else "README.md")
    there = place(aim)
    if there.parts[0] == "source":
        _copy(ROOT / aim, out / there)
    up = len(place(page).parts) - 1
    return "../" * up + there.as_posix()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
