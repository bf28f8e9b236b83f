"""A headless Chromium over its DevTools pipe, with nothing beyond pytest and the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--mute-audio", "--remote-debugging-pipe"),
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """The browser's program, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def chromium_or_skip() -> str:
    """The browser's program; without one the test is skipped, or fails where none may be skipped."""
    program = find_chromium()
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed, and this test may not be skipped here.")
        pytest.skip("Chromium is not installed.")
    return program


class Page:
    """One page in a fresh browser; `events` holds everything that happened in it.

    Args:
        program: the browser.
        profile: an empty folder for its profile.
    """

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4: keep our ends out of their way.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]

        def place() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._browser = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place,
            pass_fds=(3, 4),
        )
        for end in (*ends, theirs_in, theirs_out):
            os.close(end)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *error: object) -> None:
        self._browser.terminate()
        self._browser.wait(10)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self, seconds: float = 30.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            received = os.read(self._in, 1 << 20)
            if not received:
                raise RuntimeError("the browser has stopped")
            self._buffer += received
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def size(self, width: int, height: int) -> None:
        """Set the size of the view."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.call("Emulation.setDeviceMetricsOverride", **screen)

    def open(self, page: Path) -> None:
        """Open a file and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self.named("Page.loadEventFired"):
            self.events.append(self._receive())

    def named(self, method: str) -> list[dict[str, Any]]:
        """What the events of one kind say."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """The view as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])


def complaints(page: Page) -> list[str]:
    """Everything that the console or the content-security policy has to say."""
    said = page.named("Runtime.consoleAPICalled") + page.named("Runtime.exceptionThrown")
    return [str(entry) for entry in said + page.named("Log.entryAdded")]
