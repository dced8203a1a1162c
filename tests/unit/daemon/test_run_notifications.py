"""A whole daemon that finds something and tells somebody, over a restart."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from lab.http import NO_AUTHORITIES
from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch import config
from offsetwatch.clients.kafka import clients, inspector
from offsetwatch.daemon.run import Daemon
from tests.fakes.endpoint import Endpoint, endpoint

DEADLINE_S = 120.0
FAILED = re.compile(r'offsetwatch_notifications_failed_total\{reason="unreachable"\} [1-9]')
TEXT = """
kafka:
  east: {{bootstrap: "127.0.0.1:1"}}
connect:
  - name: lab
    kafka: east
    url: "http://127.0.0.1:1"
    poll: {{state_s: 1.0, timeout_s: 0.5}}
listen: "127.0.0.1:{port}"
tick_s: 0.05
ends_s: 0.5
state_dir: "{folder}/state"
judge: {{interval_s: 1.0}}
notify:
  webhooks: [{{name: on-call, url: "{url}"}}]
  alertmanagers: [{{url: "http://127.0.0.1:1"}}]
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clients, inspector):
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.2)


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as built:
        yield built


@contextmanager
def running(folder: Path, hook: Endpoint, port: int) -> Iterator[None]:
    path = folder / "offsetwatch.yaml"
    path.write_text(TEXT.format(port=port, folder=folder, url=hook.url))
    daemon = Daemon(config.load(path), path)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(daemon.serve()))
    thread.start()
    try:
        yield
    finally:
        daemon.stop()
        thread.join(DEADLINE_S)
    assert codes == [0]


def metrics(port: int) -> str:
    """Return the answer of /metrics, or raise NotYet while the daemon does not listen yet."""
    try:
        return httpx.get(
            f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S, verify=NO_AUTHORITIES
        ).text
    except httpx.TransportError as exc:
        raise NotYet(str(exc)) from exc


def test_an_unreachable_input_is_notified_once_over_a_restart(tmp_path: Path, hook: Endpoint):
    port = free_port()
    rest = {("new", "input_down", "connect_rest lab")}

    def check() -> None:
        results = {
            (finding["status"], finding["name"], finding["subject"]) for finding in hook.findings()
        }
        if not rest <= results:
            raise NotYet(str(results))

    def counted() -> None:
        if not FAILED.search(metrics(port)):
            raise NotYet("no failed notification")

    def check_findings() -> None:
        if "offsetwatch_findings{" not in metrics(port):
            raise NotYet("no finding")

    with running(tmp_path, hook, port):
        until("somebody is told", check, timeout_s=DEADLINE_S)
        until("that the other one is not there is counted", counted, timeout_s=DEADLINE_S)
    before = [finding["subject"] for finding in hook.findings()]
    with running(tmp_path, hook, port):
        until("it is found again", check_findings, timeout_s=DEADLINE_S)
        until("a look after that", counted, timeout_s=DEADLINE_S)
    after = [finding["subject"] for finding in hook.findings()]
    assert len(after) == len(set(after))
    assert set(before) <= set(after)
