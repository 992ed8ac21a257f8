"""The page on a phone: nothing runs out of the side, and figures stay large enough to be read."""

from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from perfed.report.page import write


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_phone_needs_no_sideways_scrolling(make_run, tmp_path: Path) -> None:
    for method in ("local", "fedavg", "fedcp"):
        make_run(f"three/{method}", method, clients=12, rounds=12, seeds=(0, 1))
    page = write([tmp_path / "three"], tmp_path / "page.html")
    browser = Browser(tmp_path / "profile", 390, 844)
    try:
        browser.size(390, 844, phone=True)
        browser.open(page.as_uri())
        assert browser.value("document.documentElement.scrollWidth") == 390
        assert browser.value("Math.min(...[...document.querySelectorAll('figure svg')].map((e) => e.clientWidth))") >= 700
        assert browser.complaints() == []
    finally:
        browser.close()
