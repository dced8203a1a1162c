"""A listener that serves whatever world a test sets, and one browser for all of them."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import bcrypt
import pytest

from offsetwatch.serve.http.read_listener import LoopHeartbeat, PageFacts, ReadServer
from offsetwatch.serve.metrics.families import ConfigReloadStatus
from offsetwatch.state.snapshot import Snapshot
from tests.browser import worlds
from tests.browser.chromium import Chromium, chromium
from tests.unit.serve.worlds import BUILD

USER, PASSWORD = "ada", "a-password-of-tests"


class ServedListener:
    """The listener of a daemon, and what that daemon sees."""

    def __init__(self, web_config: Path | None = None) -> None:
        self.web_config = web_config
        self.now: Snapshot = worlds.full()
        self.alive = True
        self.boards_url: str | None = None
        self.port = _free_port()
        self.server = self._server()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def die(self) -> None:
        self.server.stop()

    def come_back(self) -> None:
        self.server = self._server()

    def _server(self) -> ReadServer:
        server = ReadServer(
            f"127.0.0.1:{self.port}",
            lambda: self.now,
            LoopHeartbeat(lambda: self.alive),
            build=BUILD,
            page_facts=PageFacts(
                options="--config /etc/offsetwatch/offsetwatch.yaml",
                boards_url=lambda: self.boards_url,
            ),
            reload=Future,
            reloaded=lambda: ConfigReloadStatus(successful=True, at=worlds.NOW),
            web_config=self.web_config,
        )
        server.start()
        return server


@pytest.fixture
def listener() -> Iterator[ServedListener]:
    built = ServedListener()
    yield built
    built.die()


@pytest.fixture
def guarded(tmp_path) -> Iterator[ServedListener]:
    """It asks for a password: PASSWORD, of USER."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    file = tmp_path / "web.yaml"
    file.write_text(f"basic_auth_users: {{{USER}: '{hashed}'}}\n")
    built = ServedListener(file)
    yield built
    built.die()


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(browser) -> Iterator[Chromium]:
    """Nothing that a test does may be refused by the page's policy, or go wrong in its script."""
    browser.errors.clear()
    yield browser
    browser.call("Page.navigate", url="about:blank")
    assert browser.errors == []


def _free_port() -> int:
    """Below 32768, where no outgoing connection can take it between our look and our use."""
    for _ in range(200):
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    pytest.fail("no free port")
