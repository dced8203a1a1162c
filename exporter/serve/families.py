"""Snapshot -> metric families: one small function per group. exposition.py calls them each scrape.

Families are made fresh each time and read nothing but the snapshot, so a subject that is gone from
there is gone from the output. A family is two columns, label sets and numbers, because the encoder
handles 100,000 series column by column several times faster than one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.decode.dialects import MIRROR_SOURCE
from exporter.model.connectors import STATES
from exporter.model.offsets import FLOAT_EXACT_MAX
from exporter.model.pipeline import PipelineStatus
from exporter.serve import catalog
from exporter.serve.catalog import Spec
from exporter.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    Snapshot,
    SourcePartitionView,
    SyncView,
)

Labels = tuple[str, ...]


class Family(NamedTuple):
    """A metric and its rows: the n-th label set belongs to the n-th number. Not to be changed."""

    spec: Spec
    labels: list[Labels]
    numbers: list[float]

    def rows(self) -> Iterator[tuple[Labels, float]]:
        """The rows one by one."""
        return zip(self.labels, self.numbers, strict=True)


@dataclass(frozen=True, slots=True)
class Build:
    """What this program is, for `build_info`."""

    version: str
    revision: str
    python: str


@dataclass(frozen=True, slots=True)
class Reload:
    """How reading the configuration went last, and when it last went well (Unix seconds)."""

    successful: bool
    at: float


def reload(last: Reload) -> Iterator[Family]:
    """The configuration in use."""
    yield Family(catalog.RELOAD_SUCCESSFUL, [()], [int(last.successful)])
    yield Family(catalog.RELOAD_AT, [()], [last.at])


def family(spec: Spec, labels: list[Labels], numbers: Sequence[float | None]) -> Family:
    """A family without the rows that have no number, or none that a sample could hold exactly.

    The book has already counted the inexact ones; a rounded offset would be a wrong offset.
    """
    kept = [
        number
        for number in numbers
        if number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX
    ]
    if len(kept) == len(numbers):
        return Family(spec, labels, kept)
    shown = [
        at
        for at, number in zip(labels, numbers, strict=True)
        if number is not None and -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX
    ]
    return Family(spec, shown, kept)


def build_info(build: Build) -> Family:
    """Who is talking."""
    return Family(catalog.BUILD_INFO, [(build.version, build.revision, build.python)], [1])


def inputs(snapshot: Snapshot) -> Iterator[Family]:
    """The health of everything we read."""
    views = snapshot.inputs
    labels: list[Labels] = [(view.id.input, view.id.kind) for view in views]
    yield family(catalog.INPUT_UP, labels, [int(view.up) for view in views])
    yield family(catalog.INPUT_LAST_SUCCESS, labels, [view.last_success_at for view in views])
    errors = [(at, *error) for at, view in zip(labels, views, strict=True) for error in view.errors]
    yield family(
        catalog.INPUT_ERRORS,
        [(*at, reason) for at, reason, _ in errors],
        [count for _, _, count in errors],
    )


def tails(snapshot: Snapshot) -> Iterator[Family]:
    """How far we have read the internal topics."""
    found = [(view.id.input, view.tail) for view in snapshot.inputs if view.tail is not None]
    labels: list[Labels] = [(name,) for name, _ in found]
    records = [
        ((name, record), count)
        for name, tail in found
        for record, count in (
            ("value", tail.values),
            ("tombstone", tail.tombstones),
            ("undecodable", tail.undecodable),
        )
    ]
    yield family(catalog.TAIL_RECORDS, [at for at, _ in records], [count for _, count in records])
    yield family(catalog.TAIL_CAUGHT_UP, labels, [int(tail.caught_up) for _, tail in found])
    yield family(catalog.TAIL_BEHIND, labels, [tail.behind for _, tail in found])


def connectors(snapshot: Snapshot) -> Iterator[Family]:
    """Connectors and tasks as Connect's REST API shows them."""
    states: list[tuple[Labels, int]] = []
    task_states: list[tuple[Labels, int]] = []
    tasks: list[tuple[Labels, int]] = []
    for view in snapshot.connectors:
        at = (view.connect_cluster, view.name)
        states += [((*at, state), on) for state, on in _state_set(view.state)]
        for task in view.tasks:
            number = str(task.number)
            task_states += [((*at, number, state), on) for state, on in _state_set(task.state)]
        tasks += [((*at, state), count) for state, count in _task_counts(view)]
    for spec, rows in (
        (catalog.CONNECTOR_STATE, states),
        (catalog.TASK_STATE, task_states),
        (catalog.CONNECTOR_TASKS, tasks),
    ):
        yield family(spec, [at for at, _ in rows], [number for _, number in rows])
    infos: list[Labels] = [
        (view.connect_cluster, view.name, view.kind.value, view.class_name, view.version)
        for view in snapshot.connectors
    ]
    yield family(catalog.CONNECTOR_INFO, infos, [1] * len(infos))


def _state_set(state: str) -> list[tuple[str, int]]:
    """Every known state as 0 or 1; a state that Connect may invent later is a row of its own."""
    rows = [(known, int(known == state)) for known in STATES]
    return rows if state in STATES else [*rows, (state, 1)]


def _task_counts(view: ConnectorView) -> Iterable[tuple[str, int]]:
    counts = dict.fromkeys(STATES, 0)
    for task in view.tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
    return counts.items()


def source_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """Source offsets. A forgotten source partition keeps its counters and loses the rest."""
    views = _exported(snapshot)
    labels: list[Labels] = [(view.connect_cluster, view.connector, view.label) for view in views]
    fields = [
        ((*at, name), number)
        for at, view in zip(labels, views, strict=True)
        if view.offset is not None
        for name, number in view.offset.numbers
    ]
    yield family(catalog.POSITION, [at for at, _ in fields], [number for _, number in fields])
    committed = [None if view.offset is None else view.committed_at for view in views]
    advanced = [None if view.offset is None else view.advanced_at for view in views]
    yield family(catalog.LAST_COMMIT, labels, committed)
    yield family(catalog.LAST_ADVANCE, labels, advanced)
    yield family(catalog.COMMITS, labels, [view.commits for view in views])
    yield family(catalog.ADVANCES, labels, [view.advances for view in views])
    yield family(catalog.REWINDS, labels, [view.rewinds for view in views])
    yield family(catalog.RESETS, labels, [view.resets for view in views])
    yield family(catalog.EVENT_TIME, labels, [view.event_at for view in views])


def _exported(snapshot: Snapshot) -> Sequence[SourcePartitionView]:
    """Without those beyond their connector's budget, and those that are summed up by topic."""
    if not snapshot.by_topic and not snapshot.not_exported:
        return snapshot.source_partitions
    return [
        view
        for view in snapshot.source_partitions
        if (view.connect_cluster, view.connector, view.identity) not in snapshot.not_exported
        and (
            view.dialect != MIRROR_SOURCE.name
            or (view.connect_cluster, view.connector) not in snapshot.by_topic
        )
    ]


def mirror_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """Replicated upstream partitions, but for those that are summed up by topic."""
    views: Sequence[MirrorPartitionView] = snapshot.mirror_partitions
    if snapshot.by_topic:
        views = [view for view in views if _flow_of(view) not in snapshot.by_topic]
    labels: list[Labels] = [
        (
            view.connect_cluster,
            view.connector,
            view.source,
            view.target,
            view.topic,
            str(view.partition),
        )
        for view in views
    ]
    yield family(catalog.LOG_START, labels, [view.log_start for view in views])
    yield family(catalog.LOG_END, labels, [view.log_end for view in views])
    yield family(catalog.REPLICATED, labels, [_shown_position(view) for view in views])
    yield family(catalog.LAG, labels, [view.lag for view in views])
    yield family(catalog.AHEAD, labels, [view.ahead for view in views])


def _flow_of(view: MirrorPartitionView) -> tuple[str, str]:
    return (view.connect_cluster, view.connector)


def _shown_position(view: MirrorPartitionView) -> int | None:
    """The offset that the shown log end and lag belong to, so that the three always add up.

    A newer one is known between two readings of the log end, and would look ahead of it.
    """
    return view.replicated if view.lag_position is None else view.lag_position


def mirrored_topics(snapshot: Snapshot) -> Iterator[Family]:
    """Lag by topic. Where one partition's is not known there is no sum: it would be too small."""
    lags: dict[Labels, list[int | None]] = {}
    whole = snapshot.by_topic - snapshot.partial
    for view in snapshot.mirror_partitions if whole else ():
        if _flow_of(view) in whole:
            at = (view.connect_cluster, view.connector, view.source, view.target, view.topic)
            lags.setdefault(at, []).append(view.lag)
    known = {at: [lag for lag in found if lag is not None] for at, found in lags.items()}
    sums = [sum(known[at]) if len(known[at]) == len(found) else None for at, found in lags.items()]
    yield family(catalog.TOPIC_LAG, list(lags), sums)


def syncs(snapshot: Snapshot) -> Iterator[Family]:
    """The newest offset syncs, but for those of flows that are summed up by topic."""
    views: Sequence[SyncView] = snapshot.syncs
    if snapshot.by_topic:
        apart = {
            (flow.connect_cluster, flow.source, flow.target)
            for flow in snapshot.topology.flows
            if (flow.connect_cluster, flow.connector) not in snapshot.by_topic
        }
        views = [
            view for view in views if (view.connect_cluster, view.source, view.target) in apart
        ]
    labels: list[Labels] = [
        (view.connect_cluster, view.source, view.target, view.topic, str(view.partition))
        for view in views
    ]
    yield family(catalog.SYNC_UPSTREAM, labels, [view.upstream_offset for view in views])
    yield family(catalog.SYNC_DOWNSTREAM, labels, [view.downstream_offset for view in views])
    yield family(catalog.SYNC_AT, labels, [view.at for view in views])


def sink_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """What sink connectors have left to do."""
    views = snapshot.sink_partitions
    labels: list[Labels] = [
        (view.connect_cluster, view.connector, view.topic, str(view.partition)) for view in views
    ]
    yield family(catalog.SINK_LAG, labels, [view.lag for view in views])


def topic_problems(snapshot: Snapshot) -> Iterator[Family]:
    """What is wrong with how internal topics are made."""
    labels: list[Labels] = [
        (found.at.kafka, found.at.topic, found.problem) for found in snapshot.topic_problems
    ]
    yield family(catalog.TOPIC_PROBLEM, labels, [1] * len(labels))


def pipeline(snapshot: Snapshot) -> Iterator[Family]:
    """The history pipeline. Without its file there is nothing but the count of those unreadable."""
    view = snapshot.pipeline
    status = view.status or PipelineStatus()
    kafkas: list[Labels] = [(feed.kafka,) for feed in status.feeds]
    yield family(catalog.HISTORY_BATCH_AT, [()], [status.batch_at])
    yield family(catalog.HISTORY_BEHIND, kafkas, [feed.behind for feed in status.feeds])
    yield family(
        catalog.HISTORY_RECORDS,
        [(*at, record) for at in kafkas for record in ("decoded", "undecodable")],
        [number for feed in status.feeds for number in (feed.decoded, feed.undecodable)],
    )
    errors = dict(status.errors)
    if view.unreadable:
        errors["status_unreadable"] = view.unreadable
    yield family(catalog.HISTORY_ERRORS, [(reason,) for reason in errors], list(errors.values()))
    yield family(catalog.HISTORY_GAPS, kafkas, [feed.gaps for feed in status.feeds])
    layers: list[Labels] = [(layer,) for layer, _ in status.tables]
    yield family(catalog.HISTORY_TABLE_AT, layers, [at for _, at in status.tables])


def dropped(snapshot: Snapshot) -> Iterator[Family]:
    """What is not shown."""
    reasons: list[Labels] = [(reason,) for reason, _ in snapshot.dropped]
    yield family(catalog.SERIES_DROPPED, reasons, [count for _, count in snapshot.dropped])


GROUPS: tuple[Callable[[Snapshot], Iterator[Family]], ...] = (
    inputs,
    tails,
    connectors,
    source_partitions,
    mirror_partitions,
    mirrored_topics,
    syncs,
    sink_partitions,
    topic_problems,
    pipeline,
    dropped,
)


def collect(snapshot: Snapshot, build: Build, last: Reload) -> Iterator[Family]:
    """Every family of one snapshot. A family may have no rows."""
    yield build_info(build)
    yield from reload(last)
    for group in GROUPS:
        yield from group(snapshot)
