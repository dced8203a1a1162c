"""An exception that nobody expected ends one input for a while, and nothing else."""

from __future__ import annotations

import struct
import threading
from itertools import pairwise
from typing import Any

import confluent_kafka as ck
import httpx
import msgspec
import pytest
import structlog
import yaml

from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch.clients.kafka import clients
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, parse
from offsetwatch.daemon import monitor
from offsetwatch.daemon.monitor import ClusterMonitor
from offsetwatch.daemon.supervisor import RETRY_FIRST_S, RETRY_MAX_S, UNEXPECTED_REASON, Supervisor
from offsetwatch.model.observations import (
    CONNECT_REST,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    build_source_end_input,
)
from offsetwatch.model.source_ends import SourceEnd, SourceEndRequest, SqlEnd
from tests.fakes.clock import VirtualClock

REST = InputId(CONNECT_REST, connect_cluster="lab")
SURPRISES: list[Exception] = [
    OverflowError("x"),
    ValueError("x"),
    RecursionError("x"),
    MemoryError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    UnicodeEncodeError("idna", "x", 0, 1, "x"),
    KeyError("x"),
    IndexError("x"),
    TypeError("x"),
    AttributeError("x"),
    AssertionError("x"),
    ZeroDivisionError("x"),
    OSError(28, "full"),
    ConnectionResetError("x"),
    TimeoutError("x"),
    EOFError("x"),
    BufferError("x"),
    SystemError("x"),
    struct.error("x"),
    httpx.InvalidURL("x"),
    httpx.ReadError("x"),
    httpx.DecodingError("x"),
    httpx.StreamConsumed(),
    ck.KafkaException(ck.KafkaError(ck.KafkaError._FATAL)),
    msgspec.DecodeError("x"),
    msgspec.ValidationError("x"),
    yaml.YAMLError("x"),
    ExceptionGroup("x", [ValueError("y")]),
]
every_surprise = pytest.mark.parametrize(
    "surprise", SURPRISES, ids=[type(error).__name__ for error in SURPRISES]
)


class Guarded:
    """A job that raises what it is given, and what the loop is told of it."""

    def __init__(self, **how: bool) -> None:
        self.clock = VirtualClock()
        self.error: Exception | None = None
        self.runs = 0
        self.observations: list[Any] = []
        supervisor = Supervisor(self.observations.extend, self.clock.now)
        self.run = supervisor.guard("a job", self._job, lambda: [REST], **how)

    def _job(self) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error.with_traceback(None)  # others raise the same objects


@every_surprise
def test_whatever_a_job_raises_is_counted_as_its_inputs_error(surprise: Exception):
    job = Guarded()
    job.error = surprise
    job.run()
    (failed,) = job.observations
    assert (failed.input, failed.reason, failed.partial) == (REST, UNEXPECTED_REASON, False)
    assert type(surprise).__name__ in failed.detail
    assert "_job:" in failed.detail


def test_it_is_started_again_ever_more_slowly_and_at_once_after_a_success():
    job = Guarded()
    job.error = OverflowError("x")
    begun = []
    for _ in range(300):
        before = job.runs
        job.run()
        begun += [job.clock.now()] if job.runs > before else []
        job.clock.advance(1.0)
    pauses = [later - earlier for earlier, later in pairwise(begun)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == RETRY_MAX_S
    job.clock.advance(RETRY_MAX_S)
    job.error = None
    for expected in (job.runs + 1, job.runs + 2):
        job.run()
        assert job.runs == expected
    job.error = OverflowError("x")
    job.run()
    job.clock.advance(RETRY_FIRST_S)
    job.run()
    assert job.runs == expected + 2


def test_its_trace_is_logged_once_for_each_place():
    job = Guarded()
    with structlog.testing.capture_logs() as logs:
        for error in (OverflowError("x"), OverflowError("y"), KeyError("z")):
            job.error = error
            job.run()
            job.clock.advance(RETRY_MAX_S)
    assert [log["event"] for log in logs] == [
        "unexpected_error",
        "unexpected_error_again",
        "unexpected_error",
    ]
    assert [("exc_info" in log) for log in logs] == [True, False, True]


def test_an_input_that_nothing_else_speaks_of_is_forgotten_when_it_works_again():
    job = Guarded(partial=True, retires=True)
    job.error = KeyError("x")
    job.run()
    job.error = None
    job.clock.advance(RETRY_MAX_S)
    job.run()
    failed, retired = job.observations
    assert failed == InputFailed(REST, UNEXPECTED_REASON, failed.detail, partial=True)
    assert retired == InputRetired(REST)


@every_surprise
def test_a_thread_that_dies_is_begun_again_until_it_is_ordered_to_stop(surprise: Exception):
    reports: list[Any] = []
    waited: list[float] = []
    runs = [surprise, surprise, None]

    def run() -> None:
        error = runs.pop(0)
        if error is not None:
            raise error

    clock = VirtualClock()

    def stopped(seconds: float) -> bool:
        waited.append(seconds)
        clock.advance(seconds)
        return False

    Supervisor(reports.extend, clock.now).keep("a tail", run, stopped, lambda: [REST])
    assert runs == []
    assert waited == [0.0, 1.0, 2.0]
    assert [item.reason for item in reports] == [UNEXPECTED_REASON] * 2


def test_a_thread_that_is_to_stop_is_not_begun_again():
    stop = threading.Event()

    def run() -> None:
        stop.set()
        raise KeyError("x")

    Supervisor(lambda _: None).keep("a tail", run, stop.wait)


# --- the daemon's inputs --------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there, and to be told so takes librdkafka ten seconds."""
    monkeypatch.setattr(monitor, "poll_brokers", lambda _: ())


@pytest.fixture(autouse=True)
def short_requests(monkeypatch):
    """A stop waits for requests that are under way, and here no broker answers any."""
    monkeypatch.setattr(clients, "REQUEST_TIMEOUT_S", 0.5)


def config(**settings: Any) -> Config:
    document: dict[str, Any] = {
        "kafka": {"east": {"bootstrap": f"127.0.0.1:{free_port()}"}},
        "connect": [
            {"name": name, "kafka": "east", "url": "http://127.0.0.1:1", "poll": {"state_s": 1}}
            for name in ("lab", "other")
        ],
        "tick_s": 0.1,
        **settings,
    }
    return parse(document, {})


@pytest.mark.parametrize("surprise", [OverflowError("x"), MemoryError(), RecursionError("x")])
def test_a_surprise_in_one_cluster_ends_neither_the_daemon_nor_the_others(surprise, monkeypatch):
    failing = threading.Event()
    failing.set()

    def poll(states, clock):
        input_id = InputId(CONNECT_REST, connect_cluster=states.name)
        if states.name == "lab" and failing.is_set():
            raise surprise
        return (InputSucceeded(input_id, clock.now()),)

    monkeypatch.setattr(monitor, "poll_connectors", poll)
    edge = ClusterMonitor(config(), SystemClock())
    edge.start()
    try:
        until("lab is counted down, other up", lambda: expect(edge, lab=False), timeout_s=20.0)
        assert edge.alive()
        failing.clear()
        until("lab is back", lambda: expect(edge, lab=True), timeout_s=20.0)
        assert not edge.failed
    finally:
        edge.stop()


def expect(edge: ClusterMonitor, *, lab: bool) -> None:
    observed = {item.id: item for item in edge.snapshot.inputs}
    view, other = observed.get(REST), observed.get(InputId(CONNECT_REST, connect_cluster="other"))
    if view is None or other is None or (view.up, other.up) != (lab, True):
        raise NotYet(str(observed))
    if dict(view.errors).get(UNEXPECTED_REASON, 0) < 1:
        raise NotYet(str(view))


def test_a_surprise_in_discovery_is_named_and_over_when_it_works_again(monkeypatch):
    failing = threading.Event()
    failing.set()

    def inspect(discovery, connect, snapshot) -> None:
        if connect.name == "lab" and failing.is_set():
            raise struct.error("x")

    monkeypatch.setattr(monitor.Discovery, "inspect", inspect)
    edge = ClusterMonitor(config(), SystemClock())
    input_id = InputId(monitor.TAIL, connect_cluster="lab")

    def named() -> None:
        if [view.last_reason for view in edge.snapshot.inputs if view.id == input_id] != [
            UNEXPECTED_REASON
        ]:
            raise NotYet

    def over() -> None:
        if any(view.id == input_id for view in edge.snapshot.inputs):
            raise NotYet

    edge.start()
    try:
        until("discovery is named", named, timeout_s=20.0)
        failing.clear()
        until("discovery works again", over, timeout_s=20.0)
        assert edge.alive()
    finally:
        edge.stop()


def test_the_loop_alone_ends_the_process(monkeypatch):
    def dies(stopped) -> None:
        raise KeyError("x")

    edge = ClusterMonitor(config(), SystemClock())
    monkeypatch.setattr(edge._loop, "run", dies)
    edge.start()
    try:
        until("the loop is dead", lambda: ended(edge), timeout_s=20.0)
        assert not edge.alive()
    finally:
        edge.stop()


def ended(edge: ClusterMonitor) -> None:
    if not edge.failed:
        raise NotYet


class BlockedReader:
    """A database that does not answer until the end of the test."""

    def __init__(self) -> None:
        self.requested, self.released = threading.Event(), threading.Event()

    def read(self, request: SourceEndRequest) -> SourceEnd:
        self.requested.set()
        self.released.wait(20.0)
        return SqlEnd({})

    def close(self) -> None:
        self.released.set()


class EmptyReader(BlockedReader):
    def read(self, request: SourceEndRequest) -> SourceEnd:
        return SqlEnd({})


def test_databases_that_hang_delay_nothing_else(monkeypatch):
    blocked = {name: BlockedReader() for name in "abcdefghij"}
    monkeypatch.setattr(
        monitor,
        "build_source_reader",
        lambda source: blocked.get(source.name) or EmptyReader(),
    )
    sources = [
        {"name": name, "kind": "sql", "dsn": "oracle://db/x", "connectors": [{"connect": "lab"}]}
        for name in (*blocked, "quick")
    ]
    monkeypatch.setattr(monitor, "poll_connectors", answer)
    edge = ClusterMonitor(config(sources=sources), SystemClock())

    def others_are_up() -> None:
        up = {view.id for view in edge.snapshot.inputs if view.up}
        if not {REST, build_source_end_input("quick")} <= up:
            raise NotYet(str(up))
        if not all(reader.requested.is_set() for reader in blocked.values()):
            raise NotYet

    edge.start()
    try:
        until("others are read beside them", others_are_up, timeout_s=20.0)
    finally:
        for reader in blocked.values():
            reader.close()
        edge.stop()


def answer(states, clock):
    return (InputSucceeded(InputId(CONNECT_REST, connect_cluster=states.name), clock.now()),)
