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

from offsetwatch.decode.dialects import MIRROR_SOURCE, select_positions
from offsetwatch.model.connectors import STATES, Task
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.model.history_documents import QUANTILES, PipelineStatus
from offsetwatch.model.remediation import FOLLOWER_MODE
from offsetwatch.serve.metrics import catalog
from offsetwatch.serve.metrics.metric import (
    INPUT,
    TAIL,
    Family,
    LabelColumns,
    Labels,
    MetricSpec,
    build_family,
    build_family_of_counts,
    build_family_of_rows,
)
from offsetwatch.serve.metrics.mirror_families import MIRROR_GROUPS, FamilyGroup
from offsetwatch.serve.metrics.source_end_families import SOURCE_END_GROUPS
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
    yield build_family_of_counts(
        catalog.WEB_RELOAD_SUCCESSFUL,
        ((status.listener, int(status.successful)) for status in last.web),
    )
    yield build_family_of_counts(
        catalog.WEB_RELOAD_FAILURES, ((status.listener, status.failures) for status in last.web)
    )
    yield build_family_of_counts(catalog.READ_REFUSED, last.refused)


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
    yield build_family_of_rows(
        catalog.INPUT_ERRORS,
        (
            ((*key, reason), count)
            for key, view in zip(labels, views, strict=True)
            for reason, count in view.errors
        ),
    )


def collect_tails(snapshot: Snapshot) -> Iterator[Family]:
    """Yield how far the internal topics were read, and their records by kind."""
    tails: list[tuple[Labels, TailView]] = [
        (attrgetter(*TAIL)(view.id), view.tail) for view in snapshot.inputs if view.tail is not None
    ]
    yield build_family_of_rows(
        catalog.TAIL_RECORDS,
        (
            ((*key, record), count)
            for key, tail in tails
            for record, count in (
                ("value", tail.values),
                ("tombstone", tail.tombstones),
                ("undecodable", tail.undecodable),
            )
        ),
    )
    yield build_family_of_rows(
        catalog.TAIL_CAUGHT_UP, ((key, int(tail.caught_up)) for key, tail in tails)
    )
    yield build_family_of_rows(catalog.TAIL_BEHIND, ((key, tail.behind) for key, tail in tails))


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
            state_values = _expand_state_set(task.state)
            labels = (*row_key, str(task.number))
            for column, label in zip(task_states, labels, strict=False):
                column.extend([label] * len(state_values))
            task_states[-1].extend([state for state, _ in state_values])
            task_state_is += [on for _, on in state_values]
        tasks += [((*row_key, state), count) for state, count in _count_tasks(view)]
    yield build_family_of_rows(catalog.CONNECTOR_STATE, states)
    yield build_family_of_rows(catalog.CONNECTOR_TASKS, tasks)
    yield build_family(
        catalog.TASK_STATE, LabelColumns(*task_states) if task_state_is else [], task_state_is
    )
    yield build_family_of_rows(
        catalog.CONNECTOR_INFO,
        (
            ((view.connect_cluster, view.name, view.kind.value, view.class_name, view.version), 1)
            for view in views
        ),
    )


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

    def select_tasks(view: ConnectorView) -> Sequence[Task]:
        key = (view.connect_cluster, view.name)
        if key in none:
            return ()
        if key in not_running:
            return [task for task in view.tasks if task.state != "running"]
        return view.tasks

    return select_tasks


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
    """Yield the positions in every source offset."""
    views = _select_exported(snapshot)
    positions = [select_positions(view.dialect, view.offset) for view in views]
    fields = list(chain.from_iterable(positions))
    each = list(map(len, positions))
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
    polled = (key for key in snapshot.index.rest_connectors if key not in gone)
    yield build_family_of_rows(catalog.FROM_REST, ((key, 1) for key in polled))
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
    yield build_family_of_rows(
        catalog.PROGRESS,
        (
            (
                (judgement.connect_cluster, judgement.connector, verdict.value),
                int(judgement.verdict is verdict),
            )
            for judgement in snapshot.judgements
            if judgement.scope is Scope.CONNECTOR
            and (judgement.connect_cluster, judgement.connector) not in without
            for verdict in Verdict
        ),
    )
    counts = Counter(
        (
            finding.connect_cluster,
            finding.connector or "",
            finding.name.value,
            finding.severity.value,
        )
        for finding in snapshot.findings
    )
    yield build_family_of_rows(catalog.FINDINGS, counts.items())
    yield build_family_of_counts(catalog.NOTIFICATIONS_FAILED, snapshot.notifications_failed)


def collect_control(snapshot: Snapshot) -> Iterator[Family]:
    """Yield alerts and refused requests of the control listener."""
    yield build_family_of_counts(catalog.HOOKS_RECEIVED, snapshot.hooks_received)
    yield build_family_of_counts(catalog.CONTROL_REFUSED, snapshot.control_refused)


def collect_topic_problems(snapshot: Snapshot) -> Iterator[Family]:
    """Yield problems with the configuration of internal topics."""
    yield build_family_of_rows(
        catalog.TOPIC_PROBLEM,
        (
            ((problem.at.kafka, problem.at.topic, problem.problem), 1)
            for problem in snapshot.topic_problems
        ),
    )


def collect_pipeline(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the status of the history pipeline.

    Without its status file there is only the number of unreadable ones.
    """
    view = snapshot.pipeline
    status = view.status or PipelineStatus()
    feeds = status.feeds
    yield build_family(catalog.HISTORY_BATCH_AT, [()], [status.batch_at])
    yield build_family_of_counts(
        catalog.HISTORY_BEHIND, ((feed.kafka, feed.behind) for feed in feeds)
    )
    yield build_family_of_rows(
        catalog.HISTORY_RECORDS,
        (
            ((feed.kafka, record), count)
            for feed in feeds
            for record, count in (("decoded", feed.decoded), ("undecodable", feed.undecodable))
        ),
    )
    errors = dict(status.errors)
    if view.unreadable:
        errors["status_unreadable"] = view.unreadable
    yield build_family_of_counts(catalog.HISTORY_ERRORS, errors.items())
    yield build_family_of_counts(catalog.HISTORY_GAPS, ((feed.kafka, feed.gaps) for feed in feeds))
    yield build_family_of_counts(catalog.HISTORY_TABLE_AT, status.tables)


def collect_baselines(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the baselines of listed connectors, from the history pipeline."""
    view = snapshot.baselines
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


MODES: Final = ("observe", "propose", "auto")


def collect_remediation(snapshot: Snapshot) -> Iterator[Family]:
    """Yield what remediation did and holds; nothing of that where it does not run."""
    yield from _collect_replica(snapshot)
    reported = snapshot.remedies
    if reported is None:
        return
    if reported.mode != FOLLOWER_MODE:
        yield build_family_of_counts(
            catalog.REMEDIATION_MODE, ((mode, int(mode == reported.mode)) for mode in MODES)
        )
    yield build_family_of_counts(catalog.REMEDIATION_PLANS, reported.plans)
    yield build_family_of_rows(
        catalog.REMEDIATION_ACTIONS, ((row[:4], row[4]) for row in reported.actions)
    )
    yield build_family_of_rows(
        catalog.REMEDIATION_BLOCKED, ((row[:4], row[4]) for row in reported.blocked)
    )
    yield build_family_of_rows(
        catalog.REMEDIATION_STOPPED_SINCE, ((row[:2], row[2]) for row in reported.stopped_by_us)
    )
    yield build_family(catalog.REMEDIATION_HEARTBEAT, [()], [reported.at])


def _collect_replica(snapshot: Snapshot) -> Iterator[Family]:
    """Yield whether this replica leads, and its journal position; nothing without replicas."""
    replica = snapshot.replica
    if replica is not None:
        yield build_family(catalog.REMEDIATION_LEADER, [()], [int(replica.leading)])
        yield build_family(catalog.REMEDIATION_JOURNAL_SEQ, [()], [replica.seq])


def collect_dropped_series(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the number of series that are not exported, by reason."""
    yield build_family_of_counts(catalog.SERIES_DROPPED, snapshot.dropped)


# Each group with all metrics that it gives, where these grow with what is watched.
GROUPS: Final[Mapping[FamilyGroup, tuple[MetricSpec, ...]]] = {
    collect_saved_state: (),
    collect_inputs: (),
    collect_tails: (),
    collect_connectors: (),
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
    **SOURCE_END_GROUPS,
    **MIRROR_GROUPS,
    collect_sink_partitions: (catalog.SINK_LAG, catalog.SINK_LAG_SECONDS),
    collect_verdicts_and_findings: (
        catalog.PROGRESS,
        catalog.FINDINGS,
        catalog.NOTIFICATIONS_FAILED,
    ),
    collect_control: (),
    collect_topic_problems: (),
    collect_pipeline: (),
    collect_baselines: (),
    collect_remediation: (),
    collect_dropped_series: (),
}


def is_any_metric(_spec: MetricSpec) -> bool:
    """Return True: a scrape that names no metrics gets all."""
    return True


def collect_families(
    snapshot: Snapshot,
    build: BuildInfo,
    last: ConfigReloadStatus,
    is_requested: Callable[[MetricSpec], bool] = is_any_metric,
) -> Iterator[Family]:
    """Return every requested family of one snapshot. A family may have no rows."""
    groups = (
        group for group, metrics in GROUPS.items() if not metrics or any(map(is_requested, metrics))
    )
    families = chain(
        (collect_build_info(build),), collect_reload(last), *(group(snapshot) for group in groups)
    )
    return (family for family in families if is_requested(family.spec))
