"""
Records that a sink cannot take, singly and by the dozen, first in their batch and in the middle of
it; and a sink that fails at one record although nothing is wrong with that.

What a sink has written stands in its file, or in the database: each record as one line.
"""

import json
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from lab.cluster.connector_configs import Config
from lab.cluster.lab import Lab
from lab.cluster.plugins import DATABASE_SINK, REGISTRY_CONVERTER
from lab.errors import LabError
from lab.processes.ports import LOOPBACK
from lab.stories import cluster_actions, sinks
from lab.stories.flow import DEADLINE_S, failed_again, task_trace
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet, until


def good(first: int, n: int) -> list[str]:
    """Records that a sink takes, numbered from `first`."""
    return [json.dumps({"n": number}) for number in range(first, first + n)]


def line(record: str) -> str:
    """What FileStreamSink makes of one: a map of Java's."""
    return f"{{n={json.loads(record)['n']}}}"


def one_bad(
    sink: Sink, *, after: list[str] | None = None, observed: Callable[[], object] = lambda: None
) -> int:
    """
    One record that is no JSON, and `after` it; its offset.

    All before it must have been committed: then it is the first of its batch, and what is committed
    is the poison. Returns when the task has failed again; `observed` is called in between.
    """
    poison = cluster_actions.bounds(sink.lab.east, sink.topic)[1]
    if sink.committed() != poison:
        raise LabError(f"committed {sink.committed()}, the poison would be at {poison}")
    cluster_actions.produce_texts(sink.lab.east, sink.topic, [NOT_JSON, *(after or [])])
    fails(sink, observed=observed)
    return poison


def at_once(sink: Sink, records: list[str]) -> None:
    """
    These records to a sink that stands still meanwhile: it gets all of them in one batch, and fails
    in it.

    A converter fails for its whole batch, so the first of it stays committed.
    """
    sink.lab.stop_connector(sink.connector)
    cluster_actions.produce_texts(sink.lab.east, sink.topic, records)
    sink.lab.resume(sink.connector)
    fails(sink)


def fails(sink: Sink, *, restarts: int = 1, observed: Callable[[], object] = lambda: None) -> None:
    """Wait until it fails, call `observed`, start it again, and wait until it fails again."""
    task_trace(sink.lab, sink.connector)
    observed()
    failed_again(sink.lab, sink.connector, restarts=restarts)


def delivered(sink: Sink, expected: list[str]) -> list[str]:
    """Wait until the file of a sink has at least so many lines as there are records: its lines."""

    def probe() -> list[str]:
        observed = sink.path.read_text().splitlines() if sink.path.exists() else []
        if len(observed) < len(expected):
            raise NotYet(f"{len(observed)} lines of {len(expected)}")
        return observed

    return until(f"all records in {sink.path}", probe, timeout_s=DEADLINE_S)


# ---- something else is away --------------------------------------------------------------------


class Server:
    """
    A server on loopback that takes lines, says `ok` to each, and keeps them: a database, or a
    schema registry that nobody asks anything. A context manager; away() and back() in between.

    Its port stays the same, so that whoever comes while it is away is refused.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._server: _Listener | None = _Listener(self, 0)
        self.port = int(self._server.server_address[1])
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._serve()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.away()

    def away(self) -> None:
        """From now on connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._thread is not None:
            self._thread.join()
        self._server = self._thread = None

    def back(self) -> None:
        """On the same port, with all that it had."""
        self._server = _Listener(self, self.port)
        self._serve()

    def _serve(self) -> None:
        assert self._server is not None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="lab-server", daemon=True
        )
        self._thread.start()


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, of: Server, port: int) -> None:
        self.of = of
        super().__init__((LOOPBACK, port), _Taker)


class _Taker(socketserver.StreamRequestHandler):
    server: _Listener

    def handle(self) -> None:
        for report in self.rfile:
            self.server.of.lines.append(report.decode().rstrip("\n"))
            self.wfile.write(b"ok\n")


@dataclass(frozen=True, slots=True)
class Dependent:
    """
    A sink that needs a server for each record: one that it writes to (`put`), or one that its
    converter asks. A lab with plugins has what it takes.
    """

    sink: Sink
    server: Server
    stage: str

    @property
    def config(self) -> Config:
        """With converters that take everything."""
        if self.stage == "put":
            return {
                "connector.class": DATABASE_SINK,
                "tasks.max": "1",
                "topics": self.sink.topic,
                "port": str(self.server.port),
            }
        return {
            **self.sink.config(),
            "value.converter": REGISTRY_CONVERTER,
            "value.converter.port": str(self.server.port),
        }


def begin(lab: Lab, name: str, server: Server, stage: str, *, records: int = 5) -> Dependent:
    """Make topic and connector, and let it take the first records while the server is there."""
    dependent = Dependent(Sink(lab, name), server, stage)
    sink = dependent.sink
    lab.create_topic("east", sink.topic)
    cluster_actions.produce_texts(lab.east, sink.topic, good(0, records))
    lab.create(sink.connector, dependent.config)
    lab.wait_running(sink.connector)
    sinks.await_commits(sink)
    return dependent


def away(dependent: Dependent, records: list[str], *, restarts: int = 3) -> int:
    """
    The server goes, records come, and restarts help nothing: the sink fails each time at the very
    next record, the first of its batch. That record's offset, with which nothing is wrong.
    """
    sink = dependent.sink
    following = cluster_actions.bounds(sink.lab.east, sink.topic)[1]
    dependent.server.away()
    cluster_actions.produce_texts(sink.lab.east, sink.topic, records)
    task_trace(sink.lab, sink.connector)
    count = failed_again(sink.lab, sink.connector, restarts=restarts)
    trace = task_trace(sink.lab, sink.connector)
    if "java.net.ConnectException" not in trace or sink.committed() != following:
        raise LabError(f"failed {count} times, at {sink.committed()}, with {trace[:500]}")
    return following
