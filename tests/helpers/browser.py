"""A headless browser, spoken to through a pipe: open a page, evaluate, press keys, take pictures."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PATIENCE = int(os.environ.get("PERFED_PATIENCE", "300")) * 1000  # milliseconds after which something is wrong
CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


class Browser:
    """Chromium without a window; its DevTools protocol comes through two pipes, so no port is open."""

    def __init__(self, profile: Path, wide: int = 1280, high: int = 900) -> None:
        assert CHROMIUM is not None
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        ]
        options += ["--remote-debugging-pipe", f"--user-data-dir={profile}", f"--window-size={wide},{high}", "--lang=en"]
        # the protocol is on descriptors 3 and 4
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *options, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.reading, self.writing = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.rest, self.session, self.events = 0, b"", None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.size(wide, high)

    def call(self, method: str, **given: Any) -> Any:
        """Ask the browser for something and wait for its answer; what it tells meanwhile is kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": given} | ({"sessionId": self.session} if self.session else {})
        self.writing.write(json.dumps(message).encode() + b"\0")
        self.writing.flush()
        while True:
            found = self._next()
            if found.get("id") == self.number:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.reading.fileno(), 1 << 16)
            assert more, "the browser went away"
            self.rest += more
        text, _, self.rest = self.rest.partition(b"\0")
        return dict(json.loads(text))

    def size(self, wide: int, high: int, phone: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=phone)

    def open(self, address: str) -> None:
        """Open a page and wait until it and its scripts are loaded."""
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, however long a busy machine takes; after minutes it never will be."""
        found = self.value(
            f"""new Promise((done) => {{
                const end = Date.now() + {PATIENCE};
                const look = () => {{
                    let found = null;
                    try {{ found = {expression}; }} catch {{ }}
                    if (found || Date.now() > end) done(found ? (typeof found === "string" ? found : true) : null);
                    else setTimeout(look, 50);
                }};
                look();
            }})"""
        )
        assert found, f"never true: {expression}; the page says: {self.value('document.body.innerText.slice(0, 800)')}"
        return found

    def press(self, key: str, code: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {})
            )

    def picture(self, path: Path, whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[Any]:
        """What the browser logged as an error: refused scripts, exceptions, requests that failed."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"])
            if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def close(self) -> None:
        try:
            self.call("Browser.close")
        finally:
            self.process.wait(60)
            self.reading.close()
            self.writing.close()
