"""The live page in a real browser: it draws, grows, can be used with the keyboard, and fits a phone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from perfed.watch.serve import WatchServer

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
LOADED = "document.querySelector('main table')"


@pytest.fixture
def page(served: WatchServer, tmp_path: Path) -> Iterator[Browser]:
    found = Browser(tmp_path / "profile")
    found.open(f"http://127.0.0.1:{served.server_port}/#compared")
    found.until(LOADED)
    yield found
    found.close()


def test_the_page_shows_everything_and_logs_no_error(page: Browser) -> None:
    listed = page.value("[...document.querySelectorAll('nav a')].map((e) => e.dataset.id)")
    assert sorted(listed) == ["broken", "compared", "papers/cells/stopped", "silos"]
    assert page.value("document.querySelector('h2').textContent") == "3 methods on digits"
    assert page.value("document.querySelectorAll('.chart polyline').length") == 3
    assert page.value("document.querySelectorAll('main tbody tr').length") == 4  # with the majority class
    assert page.value("document.querySelectorAll('.clients .track i').length") == 4
    assert page.value("document.querySelectorAll('.clients .track b').length") == 4  # what Local has
    assert page.complaints() == []


def test_the_keyboard_is_enough(page: Browser) -> None:
    page.value("document.querySelector('.chart svg').focus()")
    for key, code in (("Home", 36), ("ArrowRight", 39)):
        page.press(key, code)
    assert page.until("document.querySelector('.read').textContent").startswith("round 1: ")
    page.value("document.querySelector('.legend button').focus()")
    page.press(" ", 32)
    page.until("document.querySelectorAll('.chart polyline').length === 2")
    assert page.value("document.activeElement.getAttribute('aria-pressed')") == "false"
    page.value("document.activeElement.blur()")
    listed = page.value("[...document.querySelectorAll('nav a')].map((e) => e.dataset.id)")
    place = listed.index("compared")
    step, key = (1, "j") if place + 1 < len(listed) else (-1, "k")
    page.press(key, ord(key.upper()))
    wanted = json.dumps(listed[place + step])
    page.until(f"document.querySelector('nav a[aria-current=true]').dataset.id === {wanted}")


def test_a_curve_grows_while_one_looks(page: Browser, folder: Path) -> None:
    page.value("location.hash = 'silos'")
    page.until("document.querySelector('h2').textContent === 'FedRep on digits' && document.querySelector('.chart polyline')")
    count = "document.querySelector('.chart polyline').getAttribute('points').split(' ').length"
    assert page.value(count) == 7
    path = folder / "silos" / "seed-0" / "rounds.jsonl"
    line = json.loads(path.read_text().splitlines()[-1]) | {"round": 7, "absent": []}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert page.until(f"{count} === 8")
    page.until("!document.querySelector('.warn')")  # london has answered


def test_names_are_text(page: Browser, folder: Path) -> None:
    path = folder / "silos" / "seed-0" / "clients.json"
    found = json.loads(path.read_text())
    found["names"][0] = "<img src=x onerror=document.title='had'>"
    path.write_text(json.dumps(found))
    (folder / "silos" / "seed-0" / "touched").touch()
    page.value("location.hash = 'silos'")
    page.until("document.querySelector('.clients .who')?.textContent.startsWith('<img')")
    assert page.value("document.querySelectorAll('img').length") == 0 and page.value("document.title") != "had"


def test_a_phone_needs_no_sideways_scrolling(page: Browser) -> None:
    page.size(390, 844, phone=True)
    page.until("document.querySelector('.chart svg').viewBox.baseVal.width < 600")
    assert page.value("document.documentElement.scrollWidth") <= 390
    small = "[...document.querySelectorAll('.legend button, select')].filter((e) => e.getBoundingClientRect().height < 36).length"
    assert page.value(small) == 0  # big enough for a thumb


def test_a_server_that_is_gone_is_said(page: Browser) -> None:
    page.value("window.asked = window.fetch; window.fetch = () => Promise.reject(new Error('gone')); true")
    page.until("document.querySelector('#status.lost')")
    assert "does not answer" in page.value("document.querySelector('#status').textContent")
    page.value("window.fetch = window.asked; true")
    page.until("!document.querySelector('#status.lost')")  # and when it is back
