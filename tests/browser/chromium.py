"""One Chromium and one page in it, driven over a pipe by the DevTools protocol.

No driver program and no port: two file descriptors, and messages that end in a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.waiting import until

PROGRAM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING: Final = "no chromium here: apt-get install chromium"
DEADLINE_S: Final = 60.0  # a machine with other things to do starts a browser slowly
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)
_KEYS: Final = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowDown": (40, ""),
    "ArrowUp": (38, ""),
    "/": (191, "/"),
}


class Chromium:
    """A page.

    errors   what its console was told of errors and refusals
    heard    the names of all events so far
    """

    def __init__(self, to: int, frm: int) -> None:
        self._to = to
        self._frm = frm
        self._last = 0
        self._rest = b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.heard: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Ask for something and wait for the answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        sent = json.dumps(message).encode() + b"\0"
        while sent:
            sent = sent[os.write(self._to, sent) :]
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _read(self, deadline: float) -> Any:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._frm], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"chromium said nothing for {DEADLINE_S} s"
            result = os.read(self._frm, 1 << 20)
            assert result, "chromium has ended"
            self._rest += result
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        self.heard.add(event.get("method", ""))
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                # What no answer looks like; the page is told, and says so itself.
                if params["entry"]["source"] != "network":
                    self.errors.append(params["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, f"{script}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true of the page."""
        until(
            lambda: self.run(f"Boolean({script})"),
            script,
            timeout_s=DEADLINE_S,
            evidence=lambda: str(self.run("document.body.innerText"))[:4000],
        )

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Go to a page, in a window of this size, and wait until all of it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        # The address is the new one before the first element is: what a slow machine shows then
        # is a document without a body.
        there = f"location.href.startsWith({json.dumps(url)})"
        self.until(f"{there} && document.readyState === 'complete'")

    def let_pass(self, seconds: float) -> None:
        """So much time, for the page alone and at once. From then on its clock stands still."""
        self.call("Emulation.setVirtualTimePolicy", policy="advance", budget=seconds * 1000)
        deadline = time.monotonic() + DEADLINE_S
        while "Emulation.virtualTimeBudgetExpired" not in self.heard:
            self._note(self._read(deadline))

    def press(self, key: str) -> None:
        """A key, down and up."""
        code, text = _KEYS.get(key, (ord(key.upper()[0]), key))
        entry = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **entry)
        self.call("Input.dispatchKeyEvent", type="keyUp", **entry)

    def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """A browser with an empty profile of its own, ended by its own process group."""
    assert PROGRAM is not None, MISSING
    theirs_in, to = os.pipe()
    frm, theirs_out = os.pipe()
    # Out of the way of 3 and 4, which the browser's ends become.
    inputs = [fcntl.fcntl(index, fcntl.F_DUPFD_CLOEXEC, 10) for index in (theirs_in, theirs_out)]
    for number in (theirs_in, theirs_out):
        os.close(number)
    log = str(profile / "chromium.log")
    pid = os.posix_spawn(
        PROGRAM,
        [PROGRAM, *_FLAGS, f"--user-data-dir={profile / 'profile'}", "about:blank"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, inputs[0], 3),
            (os.POSIX_SPAWN_DUP2, inputs[1], 4),
        ],
        setpgroup=0,
    )
    for number in inputs:
        os.close(number)
    try:
        yield Chromium(to, frm)
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for number in (to, frm):
            os.close(number)
