"""How much faster is our `/metrics` writer than prometheus-client's, over the same families?

`python -m bench.render [SERIES]` prints a table; the reference is prometheus-client. Both sides
start from a snapshot and end in the bytes that are sent, ours in pieces as the listener sends them,
so making the families is inside every figure. Cold: no series was ever written before. Warm: every
series is known, and every offset, timestamp and counter has changed.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from rich.console import Console
from rich.table import Table

from offsetwatch.daemon import tuning
from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.serve.metrics.exposition import (
    OPENMETRICS_1_0_0,
    TEXT_0_0_4,
    Exposition,
    Format,
    collect_process_families,
)
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    ConnectorView,
    MirrorPartitionView,
    Snapshot,
    SourcePartitionView,
    SyncView,
)

SERIES = 100_000
ROUNDS = 5
PARTITIONS_PER_TOPIC = 12
PARTITIONS_PER_CONNECTOR = 120
SERIES_PER_PARTITION = 15
RELOADED = ConfigReloadStatus(successful=True, at=0.0)
BUILD = BuildInfo(version="0", revision="bench", python="3")


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds, best of ROUNDS; `series` is how many were written."""

    form: str
    series: int
    size_bytes: int
    reference_s: float
    cold_s: float
    warm_s: float


class Reference(Collector):
    """The same rows through prometheus-client: what its users would write."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Every family with at least one row."""
        for family in (
            *collect_families(self._snapshot, BUILD, RELOADED),
            *collect_process_families(self._process),
        ):
            spec = family.spec
            make = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
            metric = make(spec.name, spec.help, labels=spec.labels)
            for labels, number in family.rows():
                metric.add_metric(labels, number)
            if metric.samples:
                yield metric


def world(series: int, tick: int) -> Snapshot:
    """A MirrorMaker 2 installation with about this many series; each tick moves every number."""
    sources, mirrors, syncs = [], [], []
    count = max(1, series // SERIES_PER_PARTITION)
    moment = 1_763_712_000.123 + 61.257 * tick
    for n in range(count):
        topic = f"shop.orders.{n // PARTITIONS_PER_TOPIC}"
        partition, connector = n % PARTITIONS_PER_TOPIC, f"mirror-{n // PARTITIONS_PER_CONNECTOR}"
        offset = 1_000_003 * (n % 997) + 7919 * tick
        mirror = MirrorPartitionView(
            connect_cluster="lab",
            connector=connector,
            source="west",
            target="east",
            topic=topic,
            partition=partition,
            committed=offset,
            committed_at=moment,
            synced=offset,
            replicated=offset,
            log_start=offset // 2,
            log_end=offset + n % 300 + tick,
            lag=n % 300 + tick - 1,
            ahead=tick,
        )
        mirrors.append(mirror)
        sources.append(_source_partition(mirror, moment + n / 1000, tick))
        syncs.append(
            SyncView("lab", "west", "east", topic, partition, offset, offset - 5, moment + n)
        )
    connectors = tuple(
        ConnectorView(
            connect_cluster="lab",
            name=f"mirror-{n}",
            kind=ConnectorKind.MIRROR,
            class_name="org.apache.kafka.connect.mirror.MirrorSourceConnector",
            version="4.3.1",
            state="running",
            tasks=tuple(Task(number, "running") for number in range(4)),
        )
        for n in range(1 + count // PARTITIONS_PER_CONNECTOR)
    )
    return replace(
        EMPTY_SNAPSHOT,
        at=moment,
        connectors=connectors,
        source_partitions=tuple(sources),
        mirror_partitions=tuple(mirrors),
        syncs=tuple(syncs),
    )


def _source_partition(mirror: MirrorPartitionView, moment: float, tick: int) -> SourcePartitionView:
    topic, partition, offset = mirror.topic, mirror.partition, mirror.committed
    assert offset is not None
    return SourcePartitionView(
        connect_cluster=mirror.connect_cluster,
        connector=mirror.connector,
        identity=f'{{"cluster":"west","partition":{partition},"topic":"{topic}"}}',
        label=f"cluster=west,partition={partition},topic={topic}",
        dialect="mirror_source",
        offset=SourceOffset(text=f'{{"offset":{offset}}}', numbers=(("offset", offset),)),
        kafka_partition=partition,
        log_offset=offset,
        committed_at=round(moment, 3),
        advanced_at=round(moment - 1, 3),
        commits=offset % 5000 + tick,
        advances=offset % 4000 + tick,
        rewinds=tick,
        resets=tick,
        variants=0,
    )


def measure(series: int = SERIES, rounds: int = ROUNDS) -> list[Result]:
    """Both formats, both writers: prometheus-client's as its users find Python, and ours then by
    the daemon's settings of memory.
    """
    worlds = [world(series, tick) for tick in range(rounds + 1)]
    Exposition(BUILD, lambda: RELOADED).render(
        worlds[0], TEXT_0_0_4
    )  # the first large buffers cost page faults
    registry = CollectorRegistry()
    registry.register(Reference(worlds[0]))
    references = [
        (form, min(_seconds(partial(generate, registry)) for _ in range(rounds)))
        for form, generate in (
            (TEXT_0_0_4, generate_latest),
            (OPENMETRICS_1_0_0, generate_openmetrics),
        )
    ]
    before = gc.get_threshold()
    tuning.tune_memory()
    try:
        return [_measure(form, worlds, reference_s) for form, reference_s in references]
    finally:
        gc.set_threshold(*before)


def _measure(form: Format, worlds: list[Snapshot], reference_s: float) -> Result:
    exposition = Exposition(BUILD, lambda: RELOADED)
    body = exposition.render(worlds[0], form)  # now every series is known
    rounds = worlds[1:]
    return Result(
        form="OpenMetrics" if form.openmetrics else "text",
        series=exposition.series(),
        size_bytes=len(body),
        reference_s=reference_s,
        cold_s=min(
            _seconds(lambda: list(Exposition(BUILD, lambda: RELOADED).parts(worlds[0], form)))
            for _ in rounds
        ),
        warm_s=min(_warm_s(exposition, moved, form) for moved in rounds),
    )


def _warm_s(exposition: Exposition, snapshot: Snapshot, form: Format) -> float:
    return _seconds(lambda: list(exposition.parts(snapshot, form)))


def _seconds(call: Callable[[], object]) -> float:
    gc.collect()  # or one side pays for the other's litter
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("series", type=int, nargs="?", default=SERIES)
    show(parser.parse_args().series)


def show(series: int) -> None:
    """Print the table of so many series."""
    table = Table(title="/metrics, and how many times faster than prometheus-client")
    for heading in ("format", "series", "MB", "case", "ms", "times"):
        remaining = heading in {"format", "case"}
        table.add_column(heading, justify="left" if remaining else "right", no_wrap=True)
    for result in measure(series):
        size = f"{result.size_bytes / 1e6:.1f}"
        for case, seconds in (
            ("prometheus-client", result.reference_s),
            ("cold", result.cold_s),
            ("warm", result.warm_s),
        ):
            times = f"{result.reference_s / seconds:.1f}"
            milliseconds = f"{1000 * seconds:.1f}"
            table.add_row(result.form, str(result.series), size, case, milliseconds, times)
    Console().print(table)


if __name__ == "__main__":
    main()
