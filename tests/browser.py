"""A real browser for tests of pages: headless Chromium, driven over a pipe, with no further package.

``python tests/browser.py page.html picture.png --width 360 --dark`` takes a picture of a page.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT = 60.0  # seconds for one answer; a loaded machine is slow to start


class Browser:
    """One running browser; ``start`` makes it.

    After a page is open, ``complaints`` holds what its console, its exceptions and its security policy
    said, and ``requests`` every address that it asked for.
    """

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(
        self,
        page: Path,
        width: int = 1400,
        height: int = 900,
        *,
        dark: bool = False,
        media: str = "screen",
    ) -> None:
        """Load a page in a new tab of that size; ``media`` is ``"screen"`` or ``"print"``."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.complaints, self.requests = [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._call("Page.navigate", url=page.resolve().as_uri())
        self._wait("Page.loadEventFired")

    def evaluate(self, javascript: str) -> Any:
        """The value of an expression in the open page."""
        answer = self._call(
            "Runtime.evaluate", expression=javascript, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def screenshot(self, png: Path, *, whole: bool = True) -> None:
        """A picture of the whole page, or of the window."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        png.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda received: received.get("id") == self._count, method)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _wait(self, event: str) -> None:
        self._until(lambda received: received.get("method") == event, event)

    def _until(self, wanted: Any, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while True:
            received = self._receive(deadline, what)
            self._note(received)
            if wanted(received):
                return received

    def _receive(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._back, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError(
                    f"no answer from the browser to {what} (exit: {self._process.poll()})"
                )
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, received: dict[str, Any]) -> None:
        method, params = received.get("method"), received.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{params['type']}: {params['args']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {params['exceptionDetails']['text']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@contextmanager
def start() -> Iterator[Browser]:
    """A browser for as long as the context lasts; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    there, to = os.pipe()
    back, here = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:

        def connect() -> None:  # Chromium reads commands from descriptor 3 and answers on 4
            high = [fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 20) for pipe in (there, here)]
            for target, descriptor in zip((3, 4), high, strict=True):
                os.dup2(descriptor, target)

        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(here)
        try:
            yield Browser(process, to, back)
        finally:
            os.close(to)  # it leaves when nobody can command it any more
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(back)


def main() -> None:
    parser = argparse.ArgumentParser(description="Take a picture of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("png", type=Path)
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    with start() as browser:
        browser.open(arguments.page, arguments.width, arguments.height, dark=arguments.dark)
        browser.screenshot(arguments.png)


if __name__ == "__main__":
    main()
