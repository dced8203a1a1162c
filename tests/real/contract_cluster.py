"""A lab as a site of the contract: connectors that scenarios have for themselves, over HTTP."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from lab import Lab
from lab.cluster.connector_configs import mm2_source
from lab.http import NO_AUTHORITIES
from lab.kills import sample_connectors
from lab.stories import cluster_actions
from lab.waiting import until
from tests.contract import normal
from tests.contract.clusters import (
    BAD,
    LARGE,
    PATIENCE_S,
    Answer,
    Pair,
    Work,
    forget,
    large,
    line,
    mirror_config,
    mirror_pair,
    sink_config,
    sink_pair,
    source_config,
    source_pair,
)

T = TypeVar("T")


class LabCluster:
    """See Site. Any number of scenarios may use it at the same time."""

    def __init__(self, lab: Lab, version: str) -> None:
        self._lab = lab
        major, minor, *_ = version.split(".")
        self.version = (int(major), int(minor))
        # No connection is kept: asked by many threads at once, httpcore may close one that it has
        # just given to somebody ("Bad file descriptor").
        one_each = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(
            timeout=100.0, trust_env=False, limits=one_each, verify=NO_AUTHORITIES
        )

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        answer = self._http.request(
            method,
            self._lab.connect_urls[0] + path,
            content=sent,
            headers={"Content-Type": "application/json"},
        )
        return Answer(answer.status_code, normal.body(answer.text))

    def until(self, what: str, probe: Callable[[], T]) -> T:
        return until(what, probe, timeout_s=PATIENCE_S)

    def source(self, name: str) -> AbstractContextManager[Work]:
        return self._lent(_Lines(self._lab, name))

    def sink(self, name: str) -> AbstractContextManager[Work]:
        return self._lent(_Records(self._lab, name))

    def mirror(self, name: str) -> AbstractContextManager[Work]:
        return self._lent(_Copies(self._lab, name))

    @contextmanager
    def _lent(self, work: _Work) -> Iterator[Work]:
        try:
            yield work
        finally:
            work.free()
            forget(self, work)
            work.close()


class _Work:
    """What only sinks can do."""

    name: str
    config: dict[str, str]

    def jam(self, where: str) -> None:
        raise AssertionError(f"nobody jams this kind of work in {where}")

    def hangs(self) -> bool:
        return False

    def free(self) -> None:
        """Nothing hangs."""

    def close(self) -> None:
        """Nothing is held."""

    def fill(self, n: int) -> None:
        raise AssertionError(f"nobody fills this kind of work with {n}")

    def grow(self, n: int, *, bad: bool = False) -> None:
        raise AssertionError((n, bad))

    def pair(self, offset: int | None) -> Pair:
        raise AssertionError(offset)

    def came(self) -> list[str]:
        raise AssertionError(self.name)


class _Pipe:
    """A file that a sink hangs on: as it opens it while nobody has it open to read, or as it writes
    once it is full.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path, self._open = path, -1
        self._came = bytearray()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def open(self) -> None:
        """To read, and to write: so that it never seems to have been left by all writers."""
        if self._open < 0:
            self._open = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)

    @property
    def full(self) -> bool:
        poll = select.poll()
        poll.register(self._open, select.POLLOUT)
        return not poll.poll(0)

    def drain(self) -> None:
        """From now on."""
        self.open()
        if not self._reader.is_alive():
            self._reader.start()

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._open, select.POLLIN)
        while not self._ended.is_set():
            if poll.poll(100):
                self._came += os.read(self._open, 1 << 20)

    def lines(self) -> list[str]:
        return self._came.decode().split("\n")[:-1]

    def close(self) -> None:
        self._ended.set()
        if self._reader.is_alive():
            self._reader.join(10)
        if self._open >= 0:
            os.close(self._open)


class _Lines(_Work):
    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name, self._have = lab, name, 0
        self._file, self._topic = lab.directory / f"{name}.in", f"{name}-lines"
        self._file.touch()
        self.config = source_config(str(self._file), self._topic)
        lab.create_topic("east", self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        assert not bad, "no line is"
        with self._file.open("a") as handle:
            handle.writelines(f"{line(self.name, self._have + number)}\n" for number in range(n))
        self._have += n

    def pair(self, offset: int | None) -> Pair:
        return source_pair(str(self._file), self.name, offset)

    def came(self) -> list[str]:
        return sample_connectors.records(self._lab.east, self._topic).get(0, [])


class _Records(_Work):
    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name, self._have = lab, name, 0
        self._file: Path = lab.directory / f"{name}.out"
        self._topic = f"{name}-topic"
        self._pipe: _Pipe | None = None
        self.config = sink_config(str(self._file), self._topic)
        lab.create_topic("east", self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        texts = [str(self._have + number) for number in range(n)]
        if bad:
            texts[-1] = BAD
        self._have += n
        cluster_actions.produce_texts(self._lab.east, self._topic, texts)

    def fill(self, n: int) -> None:
        texts = [large(self._have + number) for number in range(n)]
        self._have += n
        cluster_actions.produce_texts(self._lab.east, self._topic, texts)

    def pair(self, offset: int | None) -> Pair:
        return sink_pair(self._topic, offset)

    def jam(self, where: str) -> None:
        self._pipe = _Pipe(self._file)
        if where == "put":
            self._pipe.open()

    def hangs(self) -> bool:
        return self._pipe is not None and self._pipe.full

    def free(self) -> None:
        if self._pipe is not None:
            self._pipe.drain()

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()

    def came(self) -> list[str]:
        if self._pipe is not None:
            return self._pipe.lines()
        return self._file.read_text().splitlines() if self._file.exists() else []


class _Copies(_Work):
    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name, self._have = lab, name, 0
        self._topic = f"{name}-topic"
        self.config = {
            **mm2_source(upstream=lab.west, downstream=lab.east),
            # Else it would copy the heartbeats of any other MirrorMaker, whatever its topics are.
            "heartbeats.replication.enabled": "false",
            **mirror_config(name, self._topic),
        }
        lab.create_topic("west", self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        texts = [str(self._have + number) for number in range(n)]
        if bad:
            texts[-1] = LARGE
        self._have += n
        cluster_actions.produce_texts(self._lab.west, self._topic, texts)

    def pair(self, offset: int | None) -> Pair:
        return mirror_pair(self.name, self._topic, offset)

    def came(self) -> list[str]:
        try:
            copies = sample_connectors.records(self._lab.east, f"{self.name}-w.{self._topic}")
        except KeyError:
            return []  # MirrorMaker has not made the topic yet
        return copies.get(0, [])
