"""Where the contract is tried: what a scenario may ask of a Connect cluster, and the model as one.

The real one is in tests/real/test_contract.py. A scenario asks over REST and waits for what it
wants to see; how time passes meanwhile is the site's affair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from lab.errors import LabError
from lab.waiting import NotYet
from tests.contract import normal
from tests.fakes.connect_model import (
    FILE_SINK,
    FILE_SOURCE,
    MIRROR_SOURCE,
    FakeConnect,
    Timing,
    Trouble,
)

T = TypeVar("T")
Pair = dict[str, Any]

FLUSH_S = 2.0
PATIENCE_S = 60.0
FOR_EVER_S = 200.0  # less than after what a consumer is put out of its group
BAD = "not json"
LARGE = "x" * 3000
REQUEST_BYTES_MAX = 2000


class Answer(NamedTuple):
    """The code, and the body normalised."""

    status: int
    body: Any

    @property
    def said(self) -> str:
        """Connect's own words, normalised."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""


class Work(Protocol):
    """A connector that a scenario has for itself, its configuration, and what it works on.

    grow    so many more records, of which the last may be bad
    fill    so many that are large
    pair    a partition and an offset as REST shows them, None for none; for a source the number of
            lines before it, for a sink the next record, for a mirror the last one
    came    the numbers of the records that came out of it, in order
    jam     before it is created, of a sink: its first task hangs as it starts (`start`), or as it
            delivers (`put`) once it has a lot to deliver; it `hangs` until `free`
    """

    name: str
    config: dict[str, str]

    def grow(self, n: int, *, bad: bool = False) -> None: ...
    def fill(self, n: int) -> None: ...
    def pair(self, at: int | None) -> Pair: ...
    def came(self) -> list[str]: ...
    def jam(self, where: str) -> None: ...
    def hangs(self) -> bool: ...
    def free(self) -> None: ...


class ContractCluster(Protocol):
    """Connectors that it lends do not run before they are created over REST."""

    version: tuple[int, int]

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        """One request; a body of bytes is sent as it is."""

    def until(self, what: str, probe: Callable[[], T]) -> T:
        """What the probe returns once it raises NotYet no longer."""

    def source(self, name: str) -> AbstractContextManager[Work]: ...
    def sink(self, name: str) -> AbstractContextManager[Work]: ...
    def mirror(self, name: str) -> AbstractContextManager[Work]: ...


# --- what both kinds of sites know of connectors --------------------------------------------------


def source_config(file: str, topic: str) -> dict[str, str]:
    return {"connector.class": FILE_SOURCE, "file": file, "topic": topic, "tasks.max": "1"}


def sink_config(file: str, topic: str) -> dict[str, str]:
    return {
        "connector.class": FILE_SINK,
        "file": file,
        "topics": topic,
        "tasks.max": "1",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def mirror_config(name: str, topic: str) -> dict[str, str]:
    """Under an alias of its own, and with a producer that refuses what is large."""
    return {
        "connector.class": MIRROR_SOURCE,
        "topics": topic,
        "tasks.max": "1",
        "source.cluster.alias": f"{name}-w",
        "target.cluster.alias": f"{name}-e",
        "producer.override.max.request.size": str(REQUEST_BYTES_MAX),
    }


def line(name: str, number: int) -> str:
    """Of a file: all are as long."""
    return f"{name} {number:06d}"


def large(number: int) -> str:
    """JSON, of which sixty-odd are more than a pipe holds; its last digits are its number."""
    return f'"{LARGE}{number:06d}"'


def source_pair(file: str, name: str, index: int | None) -> Pair:
    width = len(line(name, 0)) + 1
    offset = None if index is None else {"position": index * width}
    return {"partition": {"filename": file}, "offset": offset}


def sink_pair(topic: str, index: int | None) -> Pair:
    offset = None if index is None else {"kafka_offset": index}
    return {"partition": {"kafka_partition": 0, "kafka_topic": topic}, "offset": offset}


def mirror_pair(name: str, topic: str, offset: int | None) -> Pair:
    partition = {"cluster": f"{name}-w", "partition": 0, "topic": topic}
    return {"partition": partition, "offset": None if offset is None else {"offset": offset}}


# --- the model ------------------------------------------------------------------------------------


class ModelCluster:
    """A FakeConnect as quick as the lab is."""

    def __init__(self, version: str = "4.3.1", **built: Any) -> None:
        self.connect = FakeConnect(version=version, timing=Timing(flush_s=FLUSH_S), **built)
        self.version: tuple[int, int] = (self.connect.version[0], self.connect.version[1])
        self._door = self.connect.door("scenario")

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        sent = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        reply = self._door.request(method, path, sent)
        return Answer(reply.status, normal.body(reply.body.decode()))

    def until(self, what: str, probe: Callable[[], T]) -> T:
        deadline = self.connect.line.now() + PATIENCE_S
        while True:
            try:
                return probe()
            except NotYet as exc:
                if self.connect.line.now() >= deadline:
                    raise LabError(f"{what}: {exc}") from exc
            self.connect.advance(0.1)

    @contextmanager
    def source(self, name: str) -> Iterator[Work]:
        lines = _Lines(self.connect, name)
        yield lines
        forget(self, lines)

    @contextmanager
    def sink(self, name: str) -> Iterator[Work]:
        records = _Records(self.connect, name)
        yield records
        forget(self, records)

    @contextmanager
    def mirror(self, name: str) -> Iterator[Work]:
        copies = _Copies(self.connect, name)
        yield copies
        forget(self, copies)


class _Work:
    """What every kind of work can do on the model."""

    _connect: FakeConnect
    name: str

    def jam(self, where: str) -> None:
        self._connect.behaviour(self.name).hangs.append((where, FOR_EVER_S))

    def hangs(self) -> bool:
        tasks = self._connect.tasks(self.name)
        return bool(tasks) and all(task.freed.waiting for task in tasks)

    def free(self) -> None:
        self._connect.free(self.name)

    def fill(self, n: int) -> None:
        raise AssertionError(f"nobody fills this kind of work with {n}")


class _Lines(_Work):
    def __init__(self, connect: FakeConnect, name: str) -> None:
        self._connect, self.name, self._have = connect, name, 0
        self._file, self._topic = f"/data/{name}.in", f"{name}-lines"
        self.config = source_config(self._file, self._topic)
        connect.broker.create_topic(self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        assert not bad, "no line is"
        lines = [line(self.name, self._have + number) for number in range(n)]
        self._have += n
        self._connect.files.append(self._file, *lines)

    def pair(self, offset: int | None) -> Pair:
        return source_pair(self._file, self.name, offset)

    def came(self) -> list[str]:
        records = self._connect.broker.log(self._topic, 0).records
        return [(record.value or b"").decode() for record in records]


class _Records(_Work):
    def __init__(self, connect: FakeConnect, name: str) -> None:
        self._connect, self.name, self._have = connect, name, 0
        self._topic = f"{name}-topic"
        self.config = sink_config(f"/data/{name}.out", self._topic)
        connect.broker.create_topic(self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        for number in range(n):
            is_bad = bad and number == n - 1
            value = BAD if is_bad else str(self._have)
            troubles = (Trouble("value_converter"),) if is_bad else ()
            self._connect.broker.produce(self._topic, value.encode(), troubles=troubles)
            self._have += 1

    def fill(self, n: int) -> None:
        for _ in range(n):
            self._connect.broker.produce(self._topic, large(self._have).encode())
            self._have += 1

    def pair(self, offset: int | None) -> Pair:
        return sink_pair(self._topic, offset)

    def came(self) -> list[str]:
        log = self._connect.broker.log(self._topic, 0)
        values = {record.at: (record.value or b"").decode().strip('"') for record in log.records}
        return [values[item] for item in self._connect.delivered[self.name]]


class _Copies(_Work):
    def __init__(self, connect: FakeConnect, name: str) -> None:
        self._connect, self.name, self._have = connect, name, 0
        self._topic = f"{name}-topic"
        self._west = connect.upstreams["west"]
        connect.upstreams[f"{name}-w"] = self._west
        self._west.create_topic(self._topic)
        self.config = mirror_config(name, self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        for number in range(n):
            value = LARGE if bad and number == n - 1 else str(self._have)
            self._west.produce(self._topic, value.encode())
            self._have += 1

    def pair(self, offset: int | None) -> Pair:
        return mirror_pair(self.name, self._topic, offset)

    def came(self) -> list[str]:
        remote = self._connect.broker.topics.get(f"{self.name}-w.{self._topic}")
        records = remote.logs[0].records if remote is not None else ()
        return [(record.value or b"").decode() for record in records]


def forget(cluster: ContractCluster, work: Work) -> None:
    """Take a connector away, and its offsets, of one that was deleted too: those who come later see
    nothing of it.
    """
    path = f"/connectors/{quote(work.name, safe='')}"

    def gone() -> None:
        if cluster.request("GET", f"{path}/config").status == 404:
            body = {"name": work.name, "config": work.config, "initial_state": "STOPPED"}
            cluster.request("POST", "/connectors", body)
        cluster.request("PUT", f"{path}/stop")
        reset = cluster.request("DELETE", f"{path}/offsets")
        if reset.status != 200 or cluster.request("DELETE", path).status != 204:
            raise NotYet(str(reset))

    cluster.until(f"{work.name} gone", gone)


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()
