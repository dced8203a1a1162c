"""Snapshot -> metric families: one function per group, called at each scrape.

Families are built again each time and read nothing but the snapshot, so a subject that has gone
from there has gone from the output. If a scrape names its metrics, costly groups without any of
them are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

from offsetwatch.decode.dialects import MIRROR_SOURCE
from offsetwatch.model.connectors import STATES, Task
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.model.history_documents import QUANTILES, PipelineStatus
from offsetwatch.serve.metrics import (
    catalog,
    catalog_mirrors,
    mirror_families,
    remediation_families,
)
from offsetwatch.serve.metrics.metric import INPUT, TAIL, MetricSpec
from offsetwatch.serve.metrics.series_table import Family, LabelColumns, Labels, build_family
from offsetwatch.state.mirror.lag import compute_lag_seconds
from offsetwatch.state.snapshot import (
    ConnectorView,
    SeriesGroup,
    SeriesOwner,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
    TailView,
)


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Versions of this program, for `collect_build_info`."""

    version: str
    revision: str
    python: str


@dataclass(frozen=True, slots=True)
class WebConfigStatus:
    """Outcome of the last read of a listener's web config file, and the number of failed reads."""

    listener: str
    successful: bool
    failures: int


@dataclass(frozen=True, slots=True)
class ConfigReloadStatus:
    """Outcome of the last read of the configuration, and time of the last good one (Unix seconds).

    web         status of the web config files in use
    refused     requests that the read listener refused, by reason
    """

    successful: bool
    at: float
    web: tuple[WebConfigStatus, ...] = ()
    refused: tuple[tuple[str, int], ...] = ()


def collect_reload(last: ConfigReloadStatus) -> Iterator[Family]:
    """Yield the families of configuration reloads, web config files and refused read requests."""
    yield Family(catalog.RELOAD_SUCCESSFUL, [()], [int(last.successful)])
    yield Family(catalog.RELOAD_AT, [()], [last.at])
    listeners: list[Labels] = [(status.listener,) for status in last.web]
    yield build_family(
        catalog.WEB_RELOAD_SUCCESSFUL, listeners, [int(status.successful) for status in last.web]
    )
    yield build_family(
        catalog.WEB_RELOAD_FAILURES, listeners, [status.failures for status in last.web]
    )
    reasons: list[Labels] = [(reason,) for reason, _ in last.refused]
    yield build_family(catalog.READ_REFUSED, reasons, [count for _, count in last.refused])


def collect_build_info(build: BuildInfo) -> Family:
    """Return the family with the versions of this program."""
    return Family(catalog.BUILD_INFO, [(build.version, build.revision, build.python)], [1])


def collect_saved_state(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the time of the state that would survive a restart."""
    yield build_family(catalog.STATE_SAVED_AT, [()], [snapshot.saved_at])


def collect_inputs(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the health of all inputs."""
    views = snapshot.inputs
    labels: list[Labels] = [attrgetter(*INPUT)(view.id) for view in views]
    yield build_family(catalog.INPUT_UP, labels, [int(view.up) for view in views])
    yield build_family(catalog.INPUT_LAST_SUCCESS, labels, [view.last_success_at for view in views])
    errors = [
        (key, *error) for key, view in zip(labels, views, strict=True) for error in view.errors
    ]
    yield build_family(
        catalog.INPUT_ERRORS,
        [(*key, reason) for key, reason, _ in errors],
        [count for _, _, count in errors],
    )


def collect_tails(snapshot: Snapshot) -> Iterator[Family]:
    """Yield how far the internal topics were read, and their records by kind."""
    found: list[tuple[Labels, TailView]] = [
        (attrgetter(*TAIL)(view.id), view.tail) for view in snapshot.inputs if view.tail is not None
    ]
    labels = [key for key, _ in found]
    records = [
        ((*key, record), count)
        for key, tail in found
        for record, count in (
            ("value", tail.values),
            ("tombstone", tail.tombstones),
            ("undecodable", tail.undecodable),
        )
    ]
    yield build_family(
        catalog.TAIL_RECORDS, [key for key, _ in records], [count for _, count in records]
    )
    yield build_family(catalog.TAIL_CAUGHT_UP, labels, [int(tail.caught_up) for _, tail in found])
    yield build_family(catalog.TAIL_BEHIND, labels, [tail.behind for _, tail in found])


def collect_connectors(snapshot: Snapshot) -> Iterator[Family]:
    """Yield connectors and tasks with their states, as Connect's REST API reports them."""
    states: list[tuple[Labels, int]] = []
    # A million of them at 240,000 tasks: a tuple for each would be what a scrape takes most for.
    task_states: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
    task_state_is: list[int] = []
    tasks: list[tuple[Labels, int]] = []
    without = snapshot.left_out_of(SeriesGroup.CONNECTORS)
    views = _exclude_owners(snapshot.connectors, without)
    tasks_of = _build_task_selector(snapshot)
    for view in views:
        row_key = (view.connect_cluster, view.name)
        states += [((*row_key, state), on) for state, on in _expand_state_set(view.state)]
        for task in tasks_of(view):
            found = _expand_state_set(task.state)
            labels = (*row_key, str(task.number))
            for column, label in zip(task_states, labels, strict=False):
                column.extend([label] * len(found))
            task_states[-1].extend([state for state, _ in found])
            task_state_is += [on for _, on in found]
        tasks += [((*row_key, state), count) for state, count in _count_tasks(view)]
    for spec, rows in (
        (catalog.CONNECTOR_STATE, states),
        (catalog.CONNECTOR_TASKS, tasks),
    ):
        yield build_family(spec, [key for key, _ in rows], [number for _, number in rows])
    yield build_family(
        catalog.TASK_STATE, LabelColumns(*task_states) if task_state_is else [], task_state_is
    )
    infos: list[Labels] = [
        (view.connect_cluster, view.name, view.kind.value, view.class_name, view.version)
        for view in views
    ]
    yield build_family(catalog.CONNECTOR_INFO, infos, [1] * len(infos))


def _exclude_owners(
    views: tuple[ConnectorView, ...], without: frozenset[SeriesOwner]
) -> Sequence[ConnectorView]:
    if not without:
        return views
    return [view for view in views if (view.connect_cluster, view.name) not in without]


def _build_task_selector(snapshot: Snapshot) -> Callable[[ConnectorView], Sequence[Task]]:
    """Return a function that selects the tasks of a connector that have series.

    They are all tasks, those that are not running, or none.
    """
    none = snapshot.left_out_of(SeriesGroup.TASKS)
    not_running = snapshot.left_out_of(SeriesGroup.RUNNING_TASKS)
    if not none and not not_running:
        return attrgetter("tasks")

    def shown(view: ConnectorView) -> Sequence[Task]:
        key = (view.connect_cluster, view.name)
        if key in none:
            return ()
        if key in not_running:
            return [task for task in view.tasks if task.state != "running"]
        return view.tasks

    return shown


def _expand_state_set(state: str) -> list[tuple[str, int]]:
    """Return every known state with 0 or 1. A state that is not known gets a row of its own."""
    rows = [(known, int(known == state)) for known in STATES]
    return rows if state in STATES else [*rows, (state, 1)]


def _count_tasks(view: ConnectorView) -> Iterable[tuple[str, int]]:
    counts = dict.fromkeys(STATES, 0)
    for task in view.tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
    return counts.items()


def collect_positions(snapshot: Snapshot) -> Iterator[Family]:
    """Yield every number of every source offset."""
    views = _select_exported(snapshot)
    offsets = [view.offset for view in views]
    fields = list(chain.from_iterable([offset.numbers for offset in offsets if offset is not None]))
    each = [0 if offset is None else len(offset.numbers) for offset in offsets]
    labels = _build_label_columns(views)
    if each.count(1) != len(each):
        labels = labels.repeated(each)
    labels = labels.beside([name for name, _ in fields])
    yield build_family(catalog.POSITION, labels, [number for _, number in fields])


def collect_source_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """Yield source offsets. A source partition without an offset has only its counters."""
    views = _select_exported(snapshot)
    labels = _build_label_columns(views)
    committed = [None if view.offset is None else view.committed_at for view in views]
    advanced = [None if view.offset is None else view.advanced_at for view in views]
    yield build_family(catalog.LAST_COMMIT, labels, committed)
    yield build_family(catalog.LAST_ADVANCE, labels, advanced)
    yield build_family(catalog.COMMITS, labels, [view.commits for view in views])
    yield build_family(catalog.ADVANCES, labels, [view.advances for view in views])
    yield build_family(catalog.REWINDS, labels, [view.rewinds for view in views])
    yield build_family(catalog.RESETS, labels, [view.resets for view in views])
    gone = snapshot.left_out_of(SeriesGroup.CONNECTORS)
    polled: list[Labels] = [
        key
        for rest in snapshot.by_rest
        if (key := (rest.connect_cluster, rest.connector)) not in gone
    ]
    yield build_family(catalog.FROM_REST, polled, [1] * len(polled))
    yield build_family(catalog.EVENT_TIME, labels, [view.event_at for view in views])


def _build_label_columns(views: Sequence[SourcePartitionView]) -> LabelColumns:
    return LabelColumns(
        [view.connect_cluster for view in views],
        [view.connector for view in views],
        [view.label for view in views],
    )


def _select_exported(snapshot: Snapshot) -> Sequence[SourcePartitionView]:
    """Return the source partitions without those beyond a limit, and those exported by topic."""
    without = snapshot.left_out_of(SeriesGroup.SOURCE_PARTITIONS)
    if not snapshot.by_topic and not snapshot.not_exported and not without:
        return snapshot.source_partitions
    return [
        view
        for view in snapshot.source_partitions
        if (view.connect_cluster, view.connector, view.identity) not in snapshot.not_exported
        and (view.connect_cluster, view.connector) not in without
        and (
            view.dialect != MIRROR_SOURCE.name
            or (view.connect_cluster, view.connector) not in snapshot.by_topic
        )
    ]


def collect_sink_partitions(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the lag of sink connectors, in records and in seconds."""
    views: Sequence[SinkPartitionView] = snapshot.sink_partitions
    without = snapshot.left_out_of(SeriesGroup.SINK_PARTITIONS)
    if without:
        views = [
            partition
            for partition in views
            if (partition.connect_cluster, partition.connector) not in without
        ]
    labels = LabelColumns(
        [view.connect_cluster for view in views],
        [view.connector for view in views],
        [view.topic for view in views],
        [str(view.partition) for view in views],
    )
    yield build_family(catalog.SINK_LAG, labels, [view.lag for view in views])
    seconds = [
        compute_lag_seconds(view.behind_since, snapshot.at, caught_up=view.caught_up)
        for view in views
    ]
    yield build_family(catalog.SINK_LAG_SECONDS, labels, seconds)


def collect_verdicts_and_findings(snapshot: Snapshot) -> Iterator[Family]:
    """Yield verdicts on connectors, the number of findings, and failed notifications."""
    without = snapshot.left_out_of(SeriesGroup.CONNECTORS)
    progress = [
        (
            (judgement.connect_cluster, judgement.connector, verdict.value),
            int(judgement.verdict is verdict),
        )
        for judgement in snapshot.judgements
        if judgement.scope is Scope.CONNECTOR
        and (judgement.connect_cluster, judgement.connector) not in without
        for verdict in Verdict
    ]
    yield build_family(catalog.PROGRESS, [key for key, _ in progress], [on for _, on in progress])
    counts = Counter(
        (found.connect_cluster, found.connector or "", found.name.value, found.severity.value)
        for found in snapshot.findings
    )
    yield build_family(catalog.FINDINGS, list(counts), list(counts.values()))
    failed = snapshot.notifications_failed
    labels: list[Labels] = [(reason,) for reason, _ in failed]
    yield build_family(catalog.NOTIFICATIONS_FAILED, labels, [count for _, count in failed])


def collect_control(snapshot: Snapshot) -> Iterator[Family]:
    """Yield alerts and refused requests of the control listener."""
    for spec, counts in (
        (catalog.HOOKS_RECEIVED, snapshot.hooks_received),
        (catalog.CONTROL_REFUSED, snapshot.control_refused),
    ):
        yield build_family(
            spec, [(reason,) for reason, _ in counts], [count for _, count in counts]
        )


def collect_topic_problems(snapshot: Snapshot) -> Iterator[Family]:
    """Yield problems with the configuration of internal topics."""
    labels: list[Labels] = [
        (found.at.kafka, found.at.topic, found.problem) for found in snapshot.topic_problems
    ]
    yield build_family(catalog.TOPIC_PROBLEM, labels, [1] * len(labels))


def collect_pipeline(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the status of the history pipeline.

    Without its status file there is only the number of unreadable ones.
    """
    view = snapshot.pipeline
    status = view.status or PipelineStatus()
    kafkas: list[Labels] = [(feed.kafka,) for feed in status.feeds]
    yield build_family(catalog.HISTORY_BATCH_AT, [()], [status.batch_at])
    yield build_family(catalog.HISTORY_BEHIND, kafkas, [feed.behind for feed in status.feeds])
    yield build_family(
        catalog.HISTORY_RECORDS,
        [(*kafka, record) for kafka in kafkas for record in ("decoded", "undecodable")],
        [number for feed in status.feeds for number in (feed.decoded, feed.undecodable)],
    )
    errors = dict(status.errors)
    if view.unreadable:
        errors["status_unreadable"] = view.unreadable
    yield build_family(
        catalog.HISTORY_ERRORS, [(reason,) for reason in errors], list(errors.values())
    )
    yield build_family(catalog.HISTORY_GAPS, kafkas, [feed.gaps for feed in status.feeds])
    layers: list[Labels] = [(layer,) for layer, _ in status.tables]
    yield build_family(catalog.HISTORY_TABLE_AT, layers, [moment for _, moment in status.tables])


def collect_baselines(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the baselines of listed connectors, from the history pipeline."""
    view = snapshot.usual
    yield build_family(
        catalog.HISTORY_BASELINES, [()], [None if view.valid is None else int(view.valid)]
    )
    labels: list[Labels] = []
    intervals: list[float | None] = []
    commits: list[float | None] = []
    lags: list[float | None] = []
    without = snapshot.left_out_of(SeriesGroup.CONNECTORS)
    for connector in _exclude_owners(snapshot.connectors, without):
        known = view.of.get((connector.connect_cluster, connector.name))
        if known is None:
            continue
        for number, quantile in enumerate(QUANTILES):
            labels.append((connector.connect_cluster, connector.name, f"{100 * quantile:.0f}"))
            intervals.append(known.interval_s(snapshot.at, number))
            commits.append(None if known.commit_s is None else known.commit_s[number])
            lags.append(known.lag_records(snapshot.at, number))
    yield build_family(catalog.EXPECTED_INTERVAL, labels, intervals)
    yield build_family(catalog.EXPECTED_COMMITS, labels, commits)
    yield build_family(catalog.EXPECTED_LAG, labels, lags)


def collect_dropped_series(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the number of series that are not exported, by reason."""
    reasons: list[Labels] = [(reason,) for reason, _ in snapshot.dropped]
    yield build_family(catalog.SERIES_DROPPED, reasons, [count for _, count in snapshot.dropped])


FamilyGroup = Callable[[Snapshot], Iterator[Family]]

GROUPS: tuple[FamilyGroup, ...] = (
    collect_saved_state,
    collect_inputs,
    collect_tails,
    collect_connectors,
    collect_positions,
    collect_source_partitions,
    mirror_families.collect_mirror_partitions,
    mirror_families.collect_mirrored_topics,
    mirror_families.collect_recreations,
    mirror_families.collect_syncs,
    mirror_families.collect_failover_readiness,
    mirror_families.collect_probes,
    collect_sink_partitions,
    collect_verdicts_and_findings,
    collect_control,
    collect_topic_problems,
    collect_pipeline,
    collect_baselines,
    remediation_families.collect_remediation,
    collect_dropped_series,
)


# Those that grow with what is watched, and all that each of them gives.
GROUP_METRICS: Final[Mapping[FamilyGroup, tuple[MetricSpec, ...]]] = {
    collect_positions: (catalog.POSITION,),
    collect_source_partitions: (
        catalog.LAST_COMMIT,
        catalog.LAST_ADVANCE,
        catalog.COMMITS,
        catalog.ADVANCES,
        catalog.REWINDS,
        catalog.RESETS,
        catalog.FROM_REST,
        catalog.EVENT_TIME,
    ),
    mirror_families.collect_mirror_partitions: (
        catalog_mirrors.LOG_START,
        catalog_mirrors.LOG_END,
        catalog_mirrors.REPLICATED,
        catalog_mirrors.LAG,
        catalog_mirrors.AHEAD,
        catalog_mirrors.LAG_SECONDS,
        catalog_mirrors.CAUGHT_UP,
        catalog_mirrors.HEADROOM,
        catalog_mirrors.HEADROOM_SECONDS,
        catalog_mirrors.LOST,
    ),
    mirror_families.collect_mirrored_topics: (
        catalog_mirrors.TOPIC_LAG,
        catalog_mirrors.TOPIC_LAG_SECONDS,
    ),
    mirror_families.collect_recreations: (catalog_mirrors.RECREATIONS,),
    mirror_families.collect_syncs: (
        catalog_mirrors.SYNC_UPSTREAM,
        catalog_mirrors.SYNC_DOWNSTREAM,
        catalog_mirrors.SYNC_AT,
    ),
    collect_sink_partitions: (catalog.SINK_LAG, catalog.SINK_LAG_SECONDS),
    collect_verdicts_and_findings: (
        catalog.PROGRESS,
        catalog.FINDINGS,
        catalog.NOTIFICATIONS_FAILED,
    ),
}


def is_any_metric(_spec: MetricSpec) -> bool:
    """Return True: a scrape that names no metrics gets all."""
    return True


def collect_families(
    snapshot: Snapshot,
    build: BuildInfo,
    last: ConfigReloadStatus,
    wanted: Callable[[MetricSpec], bool] = is_any_metric,
) -> Iterator[Family]:
    """Return every wanted family of one snapshot. A family may have no rows."""
    groups = (
        group
        for group in GROUPS
        if group not in GROUP_METRICS or any(map(wanted, GROUP_METRICS[group]))
    )
    made = chain(
        (collect_build_info(build),), collect_reload(last), *(group(snapshot) for group in groups)
    )
    return (found for found in made if wanted(found.spec))
