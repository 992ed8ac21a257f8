"""The page of a served model in a real browser: a form that fits the model, the keyboard, a phone, a token."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from perfed.serving.predict import load
from perfed.serving.route import Answering
from perfed.serving.serve import ModelServer, model_server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
SECRET = "a-token-of-some-length"


@pytest.fixture
def served(exported: Path) -> Iterator[ModelServer]:
    with model_server(Answering(load(exported)), token=SECRET) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield found
        found.shutdown()


def test_a_person_can_try_the_model(served: ModelServer, tmp_path: Path) -> None:
    page = Browser(tmp_path / "profile")
    try:
        page.open(f"http://127.0.0.1:{served.server_port}/")
        page.until("!document.getElementById('token').hidden && document.activeElement.id === 'secret'")
        page.call("Input.insertText", text=SECRET)
        page.press("Enter", 13)  # the keyboard is enough
        page.value("document.getElementById('token').requestSubmit()")
        page.until("!document.getElementById('ask').hidden")
        labels = page.value("[...document.querySelectorAll('#fields label')].map((e) => e.textContent)")
        assert labels == ["age", "pressure", "sex", "smoker"]
        assert page.value("[...document.querySelectorAll('#field-2 option')].map((e) => e.value)") == ["", "f", "m", "other"]
        page.value("document.getElementById('field-0').focus()")
        page.call("Input.insertText", text="85.5")
        page.value("document.getElementById('field-2').value = 'm'; document.getElementById('ask').requestSubmit()")
        page.until("document.querySelectorAll('.bars .who').length === 2")
        assert page.value("document.querySelector('h2').textContent").startswith("ill")
        assert page.value("document.activeElement.id") == "answer"
        widths = page.value("[...document.querySelectorAll('.bars i')].map((e) => e.getBoundingClientRect().width)")
        assert widths[0] > widths[1] > 0
        page.size(390, 844, phone=True)
        assert page.value("document.documentElement.scrollWidth") <= 390
        small = (
            "[...document.querySelectorAll('button, input, select')].filter((e) => e.offsetParent && e.offsetHeight < 36).length"
        )
        assert page.value(small) == 0  # big enough for a thumb
        assert page.complaints() == []
    finally:
        page.close()
