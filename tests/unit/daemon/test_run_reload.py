"""A new configuration without a restart: real inputs, and nothing there to reach."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from lab.http import NO_AUTHORITIES
from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch import config
from offsetwatch.clients.kafka import clients, inspector
from offsetwatch.daemon.run import STOPPING_MISTAKES, Daemon
from offsetwatch.disk import hash_file_stamp

DEADLINE_S = 120.0
MODULE = sys.modules[Daemon.__module__]  # its package gives out a function of the same name

TEXT = """
kafka:
  east: {{bootstrap: "127.0.0.1:1"}}
connect:
  - {{name: {name}, kafka: east, url: "http://127.0.0.1:1"}}
listen: "127.0.0.1:{port}"
tick_s: 0.05
state_dir: "{state}"
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clients, inspector):
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(MODULE, "TAKE_OVER_S_MAX", 0.5)
    monkeypatch.setattr(MODULE, "RELOAD_POLL_S", 0.05)


def test_operators_are_notified_the_name_that_was_given_and_not_what_it_leads_to(tmp_path: Path):
    """Kubernetes puts another folder in the place of what a mounted Secret leads to."""
    (tmp_path / "..now").mkdir()
    text = TEXT.format(name="lab", port=free_port(), state=tmp_path / "state")
    (tmp_path / "..now" / "config.yaml").write_text(text)
    named = tmp_path / "config.yaml"
    named.symlink_to("..now/config.yaml")
    daemon = Daemon(config.load(named), named)
    assert daemon._server._page_facts.options == f"--config {named}"


class Running:
    """A daemon whose file can be written anew."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "offsetwatch.yaml"
        self.port = free_port()
        self.write("lab")
        stamp = hash_file_stamp(self.path)
        self.daemon = Daemon(config.load(self.path), self.path, file_stamp=stamp)
        self.codes: list[int] = []

    def write(self, name: str, more: str = "", *, port: int | None = None) -> None:
        """A file that names one Connect cluster."""
        self.path.write_text(
            TEXT.format(name=name, port=port or self.port, state=self.path.parent / "state") + more
        )

    def names(self) -> set[str]:
        """The Connect clusters in the snapshot that is served."""
        inputs = self.daemon.snapshot.inputs
        return {view.id.input for view in inputs if view.id.kind == "connect_rest"}

    def awaits(self, name: str) -> None:
        def probe() -> None:
            if self.names() != {name}:
                raise NotYet(str(self.names()))

        until(f"{name} is watched", probe, timeout_s=DEADLINE_S)

    def reload(self) -> tuple[str, ...]:
        return self.daemon.reload().result(DEADLINE_S)

    def gauge(self) -> str:
        text = httpx.get(
            f"http://127.0.0.1:{self.port}/metrics", timeout=DEADLINE_S, verify=NO_AUTHORITIES
        ).text
        name = "offsetwatch_config_last_reload_successful "
        (line,) = [line for line in text.splitlines() if line.startswith(name)]
        return line.removeprefix(name)


@contextmanager
def serving(running: Running) -> Iterator[Running]:
    thread = threading.Thread(target=lambda: running.codes.append(running.daemon.serve()))
    thread.start()
    try:
        running.awaits("lab")
        yield running
    finally:
        running.daemon.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert running.codes == [0]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(Running(tmp_path)) as built:
        yield built


def threads() -> int:
    """Of those that run pools may begin as they have work, none is counted."""
    gc.collect()
    pools = ("ThreadPoolExecutor", "asyncio")
    return sum(not thread.name.startswith(pools) for thread in threading.enumerate())


def test_a_good_file_swaps_the_inputs(running):
    running.write("prod")
    edge = running.daemon._monitor
    assert running.reload() == ()
    assert running.daemon._monitor is not edge
    assert running.names() <= {"prod"}
    running.awaits("prod")
    assert running.gauge() == "1"


def test_the_stamp_is_that_of_the_file_that_was_read_last(running):
    read_stamp = running.daemon._server._page_facts.file_stamp
    before = read_stamp()
    assert before == hash_file_stamp(running.path)
    running.write("lab", "nonsense: 1\n")
    assert running.reload()
    assert read_stamp() == before
    running.write("lab", "# the same\n")
    assert running.reload() == ()
    assert read_stamp() == hash_file_stamp(running.path) != before


def test_the_address_of_the_boards_follows_a_reload(running):
    running.write("lab", 'notify: {boards_url: "https://grafana.example.com"}\n')
    assert running.reload() == ()
    assert running.daemon._server._page_facts.boards_url() == "https://grafana.example.com"


@pytest.mark.parametrize(
    "text",
    ["kafka: {", "kafka: {}", "[]", "", "listen: 7"],
    ids=["not-yaml", "empty-section", "list", "empty", "shape"],
)
def test_a_bad_file_keeps_the_inputs_and_lowers_the_gauge_until_a_good_one_comes(running, text):
    edge = running.daemon._monitor
    running.path.write_text(text)
    assert running.reload() != ()
    assert running.daemon._monitor is edge
    assert running.gauge() == "0"
    assert running.names() == {"lab"}
    running.write("lab")
    assert running.reload() == ()
    assert running.gauge() == "1"
    assert running.daemon._monitor is edge


def test_a_file_that_is_gone_keeps_the_inputs(running):
    running.path.unlink()
    (mistake,) = running.reload()
    assert "cannot be read" in mistake
    assert running.names() == {"lab"}


def test_a_property_that_the_client_refuses_keeps_the_inputs(running):
    edge, before = running.daemon._monitor, threads()
    text = running.path.read_text().replace(
        '"127.0.0.1:1"}', '"127.0.0.1:1", properties: {socket.timeout.ms: never}}', 1
    )
    running.path.write_text(text)
    assert running.reload() != ()
    assert running.daemon._monitor is edge
    assert threads() <= before


def test_an_unchanged_file_does_nothing(running):
    edge = running.daemon._monitor
    assert running.reload() == ()
    assert running.daemon._monitor is edge


def test_when_it_last_went_well_is_remembered(running):
    at = running.daemon._reloaded.at
    running.path.write_text("")
    running.reload()
    assert running.daemon._reloaded.at == at
    running.write("lab")
    running.reload()
    assert running.daemon._reloaded.at >= at
    assert running.daemon._reloaded.successful


@pytest.mark.parametrize("change", ["listen", "log"])
def test_what_needs_a_restart_is_refused(running, change):
    edge = running.daemon._monitor
    if change == "listen":
        running.write("prod", port=free_port())
    else:
        running.write("prod", "log: {level: debug}\n")
    (mistake,) = running.reload()
    assert mistake.endswith(f"{change}: a change needs a restart")
    assert running.daemon._monitor is edge


def test_a_post_is_answered_with_what_is_wrong_or_that_it_was_done(running):
    url = f"http://127.0.0.1:{running.port}/-/reload"
    running.write("prod")
    assert httpx.post(url, timeout=DEADLINE_S, verify=NO_AUTHORITIES).text == "reloaded\n"
    running.path.write_text("connect: []")
    answer = httpx.post(url, timeout=DEADLINE_S, verify=NO_AUTHORITIES)
    assert answer.status_code == 400
    assert "connect" in answer.text


def test_the_old_inputs_are_stopped_and_no_thread_is_left(running):
    running.awaits("lab")
    for name in ("a", "b", "c"):
        before = set(threading.enumerate())
        running.write(name)
        assert running.reload() == ()
        running.awaits(name)
        of_these_inputs = set(threading.enumerate()) - before
        assert {"clock", "loop"} <= {thread.name for thread in of_these_inputs}
        running.write(f"after-{name}")
        assert running.reload() == ()
        assert not [thread.name for thread in of_these_inputs if thread.is_alive()]


def test_a_cancelled_reload_does_not_stop_the_next_one(running):
    running.daemon.reload().cancel()
    assert running.reload() == ()


def test_who_queries_while_it_stops_is_reported(tmp_path):
    running = Running(tmp_path)
    with serving(running):
        pass
    assert running.daemon.reload().result(DEADLINE_S) == STOPPING_MISTAKES


def test_who_queried_before_it_stopped_is_reported(tmp_path):
    running = Running(tmp_path)
    future: Future = running.daemon.reload()  # nobody takes it out yet
    running.daemon.stop()
    assert future.result(0) == STOPPING_MISTAKES


def test_a_stop_during_a_take_over_stops_both(tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "TAKE_OVER_S_MAX", 10 * DEADLINE_S)
    before = threads()
    running = Running(tmp_path)
    with serving(running):
        edge = running.daemon._monitor
        running.write("prod")
        future = running.daemon.reload()

        def taking_over() -> None:
            if not any(
                thread.name == "loop" and thread not in first for thread in threading.enumerate()
            ):
                raise NotYet

        first = {thread for thread in threading.enumerate() if thread in edge._threads}
        until("the new inputs have started", taking_over, timeout_s=DEADLINE_S)
        running.daemon.stop()
        assert future.result(DEADLINE_S) is not None
    assert not any(thread.name == "loop" for thread in threading.enumerate())
    assert threads() <= before + 1


def test_signals_reload_and_stop(tmp_path):
    """In the main thread, where signals go."""
    running = Running(tmp_path)
    handlers = {
        value: signal.getsignal(value) for value in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
    }
    observed: list[str] = []

    def drive() -> None:
        try:
            running.awaits("lab")
            running.write("prod")
            os.kill(os.getpid(), signal.SIGHUP)
            running.awaits("prod")
            observed.append("prod")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        assert running.daemon.run() == 0
    finally:
        driver.join(DEADLINE_S)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert observed == ["prod"]
