"""How long the truth check of every connector takes, one of five workers hanging.

The poll of the daemon, over its own client, with its own loop behind it, which holds as many
connectors and ticks meanwhile. The baselines ask one worker that is well for one connector after
the other: `kept` over one connection of the same client, `httpx` over a client that is made for
each question. They take turns, so that a drifting speed cancels out of the ratio. The workers are
fakes that answer after some milliseconds (`fake_workers`), of which what httpx costs is on top.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass

from bench.fake_workers import ANSWER_S, serving
from bench.growth import exponent
from bench.ticking import Ticks, ticking
from offsetwatch.clients.connect.keep_alive import KeepAliveConnection
from offsetwatch.clients.connect.offsets_sweep import ConnectSweep
from offsetwatch.clients.connect.reader import ConnectReader, body_bytes_max, offsets_path
from offsetwatch.clients.http.auth import TlsContext
from offsetwatch.clock import SystemClock
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.ingest import connect_rest
from offsetwatch.ingest.polls import Batch, poll_rest_offsets
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.loop import Loop
from offsetwatch.model.connect.connectors import Connector, ConnectorKind, Task
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    ConnectorsListed,
    InputId,
    InputSucceeded,
    OffsetsTopicFound,
    RestOffsetsRead,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings

CONNECTORS = 5000
GROWTH = (16, 4, 1)
WORKERS = 5
HANGING = 1
TIMEOUT_S = 10.0
TICK_S = 0.25  # four times as often as the default, so that a sweep meets more than a few
PUT_S = 5.0
ASKED_BY_HTTPX = 500  # at most, and extrapolated: each costs the same
GOAL_S = 5.0
TOPIC = KafkaTopic("east", "connect-offsets")


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of seconds for all `connectors`; `ticks` are those of the daemon's loop, quiet and
    beside the sweep.
    """

    connectors: int
    sweep_s: float
    kept_s: float
    httpx_s: float
    cpu_s: float
    quiet: Ticks
    beside: Ticks

    def line(self) -> str:
        """As printed."""
        return (
            f"REST sweep   {self.connectors} connectors, {WORKERS} workers, {HANGING} hanging: "
            f"{self.sweep_s:.2f} s ({self.cpu_s:.2f} s of CPU), one after the other "
            f"{self.kept_s:.2f} s, ratio {self.kept_s / self.sweep_s:.1f}; over httpx "
            f"{self.httpx_s:.1f} s, ratio {self.httpx_s / self.sweep_s:.1f}"
        )


def _names(connectors: int) -> list[str]:
    return [f"files-{number:05}" for number in range(connectors)]


def loop_of(connectors: int) -> Loop:
    """The daemon's loop with a book in which the truth check of each will find what REST says."""
    clock = SystemClock()
    stale_s = dict.fromkeys((TAIL, CONNECT_REST, GROUPS, LOG_ENDS), 3600.0)
    book = Book(
        sites=(ConnectClusterSettings(name="bench", kafka="east"),),
        kafkas={"east": frozenset({"east:9092"})},
        stale_after_s=stale_s,
        source_partitions_max=10 * connectors,
    )
    loop = Loop(book, SnapshotJudge(JudgeSettings()), clock, TICK_S)
    now = clock.now()
    listed = tuple(
        Connector(
            name=name,
            kind=ConnectorKind.SOURCE,
            class_name="org.example.Files",
            version="4.3.1",
            state="running",
            tasks=(Task(0, "running"),),
        )
        for name in _names(connectors)
    )
    records = tuple(_record(name, number, now) for number, name in enumerate(_names(connectors)))
    loop.step(
        now,
        (
            ConnectorsListed(connect_cluster="bench", connectors=listed),
            InputSucceeded(InputId(CONNECT_REST, connect_cluster="bench"), now),
            OffsetsTopicFound(connect_cluster="bench", topic=TOPIC),
            TailRead(
                input=InputId.of_tail(TOPIC),
                topic=TOPIC,
                at=now,
                records=records,
                positions=(),
                caught_up=True,
                behind=0,
                as_of=now,
                undecodable=(),
                whole=True,
                frozen=(),
            ),
        ),
    )
    return loop


def _record(name: str, number: int, at: float) -> SourceRecord:
    raw = build_connect_key(name, {"filename": "/data/in.txt"})
    key = decode_key(raw)
    assert isinstance(key, SourceKey)
    assert raw is not None
    return SourceRecord(
        key=key,
        raw_key=raw,
        offset=decode_value(b'{"position":17}'),
        partition=0,
        log_offset=number,
        at=at,
        advanced_at=at,
        live=False,
    )


def sweep_s(urls: tuple[str, ...], connectors: int, loop: Loop) -> float:
    """The poll. Not one may be missing, or twice."""
    read: list[str] = []

    def put(batch: Batch) -> bool:
        read.extend(seen.connector for seen in batch if isinstance(seen, RestOffsetsRead))
        taken = loop.put(batch, PUT_S)
        assert taken, "the loop did not keep up"
        return taken

    sweep = ConnectSweep("bench", urls, TIMEOUT_S)
    began = time.perf_counter()
    poll_rest_offsets(sweep, _names(connectors), put, lambda: False)
    took_s = time.perf_counter() - began
    assert sorted(read) == _names(connectors)
    return took_s


def kept_s(url: str, connectors: int) -> float:
    """The same client, one question after the other."""

    async def ask() -> None:
        connection = KeepAliveConnection(url, TIMEOUT_S, TlsContext(None).get, asyncio.Lock())
        for name in _names(connectors):
            status, body = await connection.get(
                offsets_path(name), {"Accept": "application/json"}, body_bytes_max
            )
            assert status == 200
            connect_rest.parse_readable_offsets("bench", name, body)
        connection.close()

    began = time.perf_counter()
    asyncio.run(ask())
    return time.perf_counter() - began


def httpx_s(url: str, connectors: int) -> float:
    """As a command asks for one."""
    reader = ConnectReader("bench", (url,), TIMEOUT_S)
    asked = min(connectors, ASKED_BY_HTTPX)
    began = time.perf_counter()
    for name in _names(asked):
        connect_rest.parse_readable_offsets("bench", name, reader.offsets(name))
    return (time.perf_counter() - began) * connectors / asked


def _result(urls: tuple[str, ...], connectors: int, rounds: int) -> Result:
    loop = loop_of(connectors)
    sweeps, kept, httpx, cpu = [], [], [], []
    with ticking(loop) as quiet:
        time.sleep(3.0)
    beside = Ticks()
    for _ in range(rounds):
        kept.append(kept_s(urls[-1], connectors))
        httpx.append(httpx_s(urls[-1], connectors))
        began = time.process_time()
        with ticking(loop) as ticks:
            sweeps.append(sweep_s(urls, connectors, loop))
        cpu.append(time.process_time() - began)
        beside.took_s += ticks.took_s
        beside.late_s += ticks.late_s
    return Result(
        connectors=connectors,
        sweep_s=statistics.median(sweeps),
        kept_s=statistics.median(kept),
        httpx_s=statistics.median(httpx),
        cpu_s=statistics.median(cpu),
        quiet=quiet,
        beside=beside,
    )


def results(connectors: int = CONNECTORS, rounds: int = 3) -> list[Result]:
    """At a sixteenth, a quarter and all of them."""
    with serving(WORKERS, HANGING) as urls:
        return [_result(urls, connectors // part, rounds) for part in GROWTH]


def measure(connectors: int = CONNECTORS, rounds: int = 3) -> list[str]:
    """The lines to print."""
    found = results(connectors, rounds)
    whole = found[-1]
    grows = exponent({at.connectors: at.sweep_s for at in found})
    return [
        *(at.line() for at in found),
        (
            f"             each worker's answer takes {1000 * ANSWER_S:.0f} ms; "
            f"goal {GOAL_S:.0f} s, grows with the power {grows:.2f}"
        ),
        f"             the daemon's loop with {whole.connectors} connectors: {whole.quiet.line()}",
        f"             and beside the sweep: {whole.beside.line()}",
    ]


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connectors", type=int, default=CONNECTORS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for line in measure(given.connectors, given.rounds):
        print(line)


if __name__ == "__main__":
    main()
