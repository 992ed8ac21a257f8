"""No link of a page leads nowhere, no page is out of reach, and no picture lacks words for those who cannot see it."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from reading import PAGES, ROOT, headings, links, name, prose


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in links(page):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), f"{link} is not there"
        assert target.is_relative_to(ROOT), f"{link} leaves the project"
        if anchor:
            assert anchor in headings(target), f"{link or 'the page'} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pictures_have_words(page: Path) -> None:
    assert not re.findall(r"!\[\s*\]\(", prose(page))


def below(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, dict):
        return [page for part in entry.values() for page in below(part)]
    return [page for part in entry for page in below(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = below(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    docs = ROOT / "docs"
    guests = {"changelog.md", "conduct.md", "contributing.md", "security.md"}
    assert sorted(listed) == sorted({str(page.relative_to(docs)) for page in docs.rglob("*.md")} | guests)
