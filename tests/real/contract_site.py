"""A lab as a site of the contract: connectors that scenarios have for themselves, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from lab import Lab, specimens
from lab.connectors import mm2_source
from lab.stories import hands
from lab.waiting import until
from tests.contract import normal
from tests.contract.sites import (
    BAD,
    LARGE,
    PATIENCE_S,
    Answer,
    Pair,
    Work,
    forget,
    line,
    mirror_config,
    mirror_pair,
    sink_config,
    sink_pair,
    source_config,
    source_pair,
)

T = TypeVar("T")


class RealSite:
    """See Site. Any number of scenarios may use it at the same time."""

    def __init__(self, lab: Lab, version: str) -> None:
        self._lab = lab
        major, minor, *_ = version.split(".")
        self.version = (int(major), int(minor))
        self._http = httpx.Client(timeout=100.0, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
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

    @contextmanager
    def source(self, name: str) -> Iterator[Work]:
        made = _Lines(self._lab, name)
        try:
            yield made
        finally:
            forget(self, name)

    @contextmanager
    def sink(self, name: str) -> Iterator[Work]:
        made = _Records(self._lab, name)
        try:
            yield made
        finally:
            forget(self, name)

    @contextmanager
    def mirror(self, name: str) -> Iterator[Work]:
        made = _Copies(self._lab, name)
        try:
            yield made
        finally:
            forget(self, name)


class _Lines:
    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name, self._have = lab, name, 0
        self._file, self._topic = lab.directory / f"{name}.in", f"{name}-lines"
        self._file.touch()
        self.config = source_config(str(self._file), self._topic)
        lab.create_topic("east", self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        assert not bad, "no line is"
        with self._file.open("a") as handle:
            handle.writelines(f"{line(self.name, self._have + at)}\n" for at in range(n))
        self._have += n

    def pair(self, at: int | None) -> Pair:
        return source_pair(str(self._file), self.name, at)

    def came(self) -> list[str]:
        return specimens.records(self._lab.east, self._topic).get(0, [])


class _Records:
    def __init__(self, lab: Lab, name: str) -> None:
        self._lab, self.name, self._have = lab, name, 0
        self._file: Path = lab.directory / f"{name}.out"
        self._topic = f"{name}-topic"
        self.config = sink_config(str(self._file), self._topic)
        lab.create_topic("east", self._topic)

    def grow(self, n: int, *, bad: bool = False) -> None:
        texts = [str(self._have + at) for at in range(n)]
        if bad:
            texts[-1] = BAD
        self._have += n
        hands.produce_texts(self._lab.east, self._topic, texts)

    def pair(self, at: int | None) -> Pair:
        return sink_pair(self._topic, at)

    def came(self) -> list[str]:
        return self._file.read_text().splitlines() if self._file.exists() else []


class _Copies:
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
        texts = [str(self._have + at) for at in range(n)]
        if bad:
            texts[-1] = LARGE
        self._have += n
        hands.produce_texts(self._lab.west, self._topic, texts)

    def pair(self, at: int | None) -> Pair:
        return mirror_pair(self.name, self._topic, at)

    def came(self) -> list[str]:
        return specimens.records(self._lab.east, f"{self.name}-w.{self._topic}").get(0, [])
