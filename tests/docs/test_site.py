"""The site is built strictly, stands alone, and its links lead to pages and headings that were built."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from reading import ROOT

from perfed import Experiment, methods, reference

pytest.importorskip("zensical")
LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}


class Page(HTMLParser):
    """What a built page loads, where it leads, and which places in it can be reached."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.loads += [given[key] for of, key in LOADS if of == tag and key in given and given.get("rel") not in ("next", "prev")]
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.places |= {given[key] for key in ("id", "name") if key in given}


def built(place: Path) -> dict[Path, Page]:
    config = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    (place / "zensical.toml").write_text(config.replace('"build/pages"', '"pages"').replace('"build/docs"', '"site"'), "utf-8")
    for command in (
        [str(ROOT / "docs" / "site" / "build.py"), str(place / "pages")],
        ["-m", "zensical", "build", "--strict"],
    ):
        done = subprocess.run([sys.executable, *command], cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    site = place / "site"
    return {path.relative_to(site): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_the_site_is_whole_and_stands_alone(tmp_path: Path) -> None:
    pages = built(tmp_path)
    check_generated(tmp_path / "pages")
    assert {Path("index.html"), Path("reference/settings.html"), Path("tutorial/1-first-run.html")} <= set(pages)
    for path, page in pages.items():
        assert not [load for load in page.loads if re.match(r"(\w+:)?//", load)], path
        for link in page.links if path.name != "404.html" else []:
            if re.match(r"\w+:|/", link):
                continue
            aim, _, anchor = unquote(link).partition("#")
            target = (tmp_path / "site" / path.parent / aim).resolve() if aim not in ("", ".") else tmp_path / "site" / path
            assert target.exists(), f"{path}: {link}"
            if anchor and target.suffix == ".html":
                assert anchor in pages[target.relative_to(tmp_path / "site")].places, f"{path}: {link}"


def check_generated(pages: Path) -> None:
    """Every setting, command and method is on the pages that the package writes, and every setting says what it means."""
    settings = (pages / "reference" / "settings.md").read_text(encoding="utf-8")
    plain = [name for name in Experiment.model_fields if name not in reference.GROUPS]
    assert all(f"| `{name}` |" in settings for name in [*plain, "budget.lr", "sampling.drop", "partition.alpha", "method.align"])
    assert not re.findall(r"^\| `[\w.]+` \|.*\|  \|$", settings, re.M), "a setting without a meaning"
    assert all(f"### method={name}" in settings for name in methods.CATALOGUE)
    assert "## perfed deploy init" in (pages / "reference" / "commands.md").read_text(encoding="utf-8")
    assert "### perfed.federate" in (pages / "reference" / "api.md").read_text(encoding="utf-8")
    assert not [page for page in pages.rglob("*.md") if "<!-- generated" in page.read_text(encoding="utf-8")]
