"""Snapshots for these tests, and what `/metrics` must say of one, written out the slow way."""

from __future__ import annotations

from offsetwatch.model.connectors import STATES, ConnectorKind, Task
from offsetwatch.model.findings import (
    EvidenceItem,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.model.history_documents import HOURS, Baseline, FeedStatus, PipelineStatus
from offsetwatch.model.observations import CONNECT_REST, TAIL, InputId
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.remediation import RemediationReported, ReplicaReported
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic, Topology
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, WebConfigStatus
from offsetwatch.serve.metrics.metric import INPUT
from offsetwatch.state.history_documents import BaselinesView, PipelineView
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    CheckpointView,
    ConnectorView,
    GroupView,
    HeartbeatView,
    InputView,
    Loss,
    MirrorPartitionView,
    RestConnector,
    SinkPartitionView,
    Snapshot,
    SourceEndView,
    SourcePartitionView,
    SyncView,
    TailView,
    TopicProblem,
    TopicRecreation,
)
from tests.changed import replace

BUILD = BuildInfo(version="1.2.3", revision="abc123", python="3.11.7")
RELOADED = ConfigReloadStatus(
    successful=True,
    at=1_763_712_000.0,
    web=(
        WebConfigStatus("control", successful=True, failures=0),
        WebConfigStatus("read", False, 2),
    ),
    refused=(("handshake", 3), ("unauthorised", 1)),
)
FORGOTTEN = SourcePartitionView(
    connect_cluster="lab",
    connector="files",
    identity='{"filename":"/gone"}',
    label="filename=/gone",
    dialect="file_stream",
    offset=None,
    kafka_partition=3,
    log_offset=12,
    committed_at=None,
    advanced_at=None,
    commits=4,
    advances=3,
    rewinds=0,
    resets=1,
    variants=0,
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def source(
    identity: str, label: str, offset: SourceOffset | None, **changes
) -> SourcePartitionView:
    return replace(
        FORGOTTEN,
        identity=identity,
        label=label,
        offset=offset,
        committed_at=1_763_712_000.123,
        advanced_at=1_763_711_940.5,
        **changes,
    )


def number(field: str, value: float, text: str | None = None) -> SourceOffset:
    return SourceOffset(text=text or f'{{"{field}":{value}}}', numbers=((field, value),))


def connector(name: str, state: str = "running", tasks: tuple[Task, ...] = ()) -> ConnectorView:
    return ConnectorView(
        connect_cluster="lab",
        name=name,
        kind=ConnectorKind.SOURCE,
        class_name="org.example.Files",
        version="4.3.1",
        state=state,
        tasks=tasks,
    )


MIRROR = MirrorPartitionView(
    connect_cluster="lab",
    connector="mirror",
    source="west",
    target="east",
    topic="orders",
    partition=7,
    committed=99,
    committed_at=1_763_712_000.0,
    synced=120,
    replicated=120,
    log_start=0,
    log_end=500,
    lag=379,
    ahead=0,
    caught_up=False,
    behind_since=1_763_711_906.5,
    behind_from="record",
    headroom=121,
    headroom_s=3600.5,
    lost=(("retention", 7), ("recreated", 0)),
)
# A flow that is exported by topic.
WIDE = replace(MIRROR, connector="wide", source="north")

SYNC = SyncView(
    connect_cluster="lab",
    source="west",
    target="east",
    topic="orders",
    partition=7,
    upstream_offset=120,
    downstream_offset=118,
    at=1_763_712_001.25,
)
GROUP = GroupView(
    connect_cluster="lab",
    source="west",
    target="east",
    group="billing",
    topic="orders",
    partition=7,
    upstream=2700,
    best=2700,
    start_offset=1,
    start_offset_from="checkpoint",
    translated=1,
    reread=2699,
    skip=0,
    checkpoint_at=1_763_711_940.25,
)
JUDGED = Judgement(
    scope=Scope.CONNECTOR,
    connect_cluster="lab",
    connector="mirror",
    subject="",
    verdict=Verdict.SILENT,
    rule=7,
    reason="379 records wait and nothing was copied for 3 minutes, while all tasks run",
    since=1_763_711_906.5,
    evidence=(EvidenceItem("lag", 379, "records"),),
)
FOUND = Finding(
    name=FindingName.MM2_SILENT_STALL,
    severity=Severity.CRITICAL,
    connect_cluster="lab",
    connector="mirror",
    subject="orders-7",
    summary="MirrorMaker copies nothing of orders-7, and claims to run",
    since=1_763_711_906.5,
    evidence=(EvidenceItem("lag", 379, "records"),),
)
SOURCE_END = SourceEndView(
    connect_cluster="lab",
    connector="files",
    identity='{"db":"shop"}',
    label="db=shop",
    source="shop",
    kind="postgresql",
    read_at=1_763_712_000.0,
    end="0/1234",
    server="7/1",
    fields=(("lsn", 4660),),
    position=4000,
    end_position=4660,
    lag=660,
    lag_bytes=660,
    caught_up=False,
    behind_since=1_763_711_946.5,
    headroom_bytes=1_000_000,
    connected=True,
)
BINLOG_END = SourceEndView(
    **{
        **{name: getattr(SOURCE_END, name) for name in SourceEndView.__struct_fields__},
        "label": "db=shop,binlog",
        "identity": '{"db":"binlog"}',
        "kind": "mysql",
        "fields": (),
        "lag_transactions": 12,
        "caught_up": True,
        "connected": False,
        "headroom_bytes": None,
        "ahead": 3,
    }
)
SNAPSHOT_END = SourceEndView(
    *("lab", "files", '{"db":"new"}', "db=new", "shop", "postgresql", 1_763_712_000.0),
    in_snapshot=True,
)
ROWS_END = SourceEndView(
    *("lab", "files", '{"table":"t"}', "table=t", "rows", "sql", 1_763_712_000.0),
    fields=(("incrementing", 9),),
    position=9,
    end_position=9,
    lag=0,
    lag_rows=0,
    caught_up=True,
)
SINK = SinkPartitionView(
    connect_cluster="lab",
    connector="out",
    topic="orders",
    partition=0,
    committed=10,
    log_end=25,
    lag=15,
    caught_up=False,
    behind_since=1_763_711_996.5,
    behind_from="record",
)
OFFSETS_INPUT = InputView(
    id=InputId(TAIL, kafka="east", topic="connect-offsets"),
    up=True,
    live=True,
    last_success_at=1_763_712_005.75,
    errors=(("timeout", 2), ("unreachable", 1)),
    last_error=None,
    tail=TailView(
        topic=KafkaTopic("east", "connect-offsets"),
        caught_up=True,
        behind=3,
        values=40,
        tombstones=2,
        undecodable=1,
        positions=((0, 123), (1, 9_007_199_254_740_993)),
    ),
)


REMEDIES = RemediationReported(
    at=1_800_000_100.0,
    mode="propose",
    plans=(("proposed", 1), ("approved", 0), ("running", 0), ("parked", 2)),
    actions=(("lab", "orders", "skip_one", "succeeded", 3),),
    blocked=(("lab", "orders", "skip_one", "repeated", 4),),
    stopped_by_us=(("lab", "orders", 1_800_000_050.0),),
)


REPLICA = ReplicaReported(leading=True, leader="replica-1", since=1_800_000_000.0, seq=42)


# By the hour of the snapshot below it advances once a minute, and at no other.
USUAL = Baseline(
    connect_cluster="lab",
    connector="files",
    since=1_758_000_000.0,
    until=1_763_000_000.0,
    advances=5000,
    per_hour=tuple(60.0 if hour == 4 * 24 + 8 else 0.0 for hour in range(HOURS)),
    pause_advances=7.5,
    pause_s=None,
    quantiles=(0.5, 1.5, 4.0),
    commit_s=(60.0, 61.0, 120.0),
    lag=tuple((3.0, 40.0, 500.0) for _ in range(HOURS)),
)


def full() -> Snapshot:
    """Something of everything, with the gaps that real snapshots have."""
    never = InputView(
        id=InputId(CONNECT_REST, connect_cluster="lab"),
        up=False,
        live=False,
        last_success_at=None,
        errors=(("denied", 5),),
        last_error="lab: 403",
        tail=None,
    )
    bootstrapping = InputView(
        id=InputId(TAIL, kafka="west", topic="mm2-offset-syncs.east.internal"),
        up=True,
        live=False,
        last_success_at=1_763_712_004.0,
        errors=(),
        last_error=None,
        tail=TailView(
            topic=KafkaTopic("west", "mm2-offset-syncs.east.internal"),
            caught_up=False,
            behind=None,
            values=0,
            tombstones=0,
            undecodable=0,
            positions=(),
        ),
    )
    mirrored = source(
        '{"cluster":"west","partition":7,"topic":"orders"}',
        "cluster=west,partition=7,topic=orders",
        number("offset", 99),
        connector="mirror",
        commits=7,
    )
    two_fields = SourceOffset(
        text='{"lsn":9007199254740993,"snapshot":true,"ts_ms":1763712000123,"x":0.1}',
        numbers=(("lsn", 9_007_199_254_740_993), ("ts_ms", 1_763_712_000_123), ("x", 0.1)),
    )
    return replace(
        EMPTY_SNAPSHOT,
        at=1_763_712_006.5,
        ready=True,
        waiting_for=(),
        pipeline=PipelineView(
            PipelineStatus(
                batch_at=1_763_712_001.25,
                feeds=(
                    FeedStatus("east", decoded=120, undecodable=3, behind=17, gaps=1),
                    FeedStatus("west", decoded=7),
                ),
                errors=(("reading", 2),),
                tables=(("bronze", 1_763_712_001.25), ("gold", 1_763_711_940.0)),
            ),
            unreadable=1,
        ),
        by_rest=(RestConnector("lab", "idle", sink=True),),
        baselines=BaselinesView(valid=True, of={("lab", "files"): USUAL, ("lab", "gone"): USUAL}),
        inputs=(OFFSETS_INPUT, never, bootstrapping),
        connectors=(
            connector("files", tasks=(Task(0, "running"), Task(1, "failed"), Task(2, "running"))),
            replace(connector("idle", state="stopped"), kind=ConnectorKind.SINK),
            replace(connector("mirror"), kind=ConnectorKind.MIRROR),
        ),
        source_partitions=(
            mirrored,
            FORGOTTEN,
            replace(
                source('{"db":"shop"}', "db=shop", two_fields),
                advanced_at=None,
                event_at=1_763_711_999.5,
            ),
        ),
        mirror_partitions=(
            MIRROR,
            replace(
                MIRROR,
                partition=8,
                log_start=None,
                log_end=None,
                lag=None,
                ahead=None,
                caught_up=None,
                behind_since=None,
                headroom=None,
                headroom_s=None,
            ),
            replace(
                MIRROR,
                partition=9,
                replicated=600,
                lag=0,
                ahead=101,
                caught_up=True,
                behind_since=None,
                lost=(),
            ),
            replace(WIDE, partition=0, lag=3),
            replace(WIDE, partition=1, lag=4),
            replace(WIDE, topic="payments", partition=0, lag=3),
            replace(WIDE, topic="payments", partition=1, lag=None, behind_since=None),
        ),
        recreations=(
            TopicRecreation(
                "lab", "mirror", "west", "east", "orders", 2, 1_763_711_000.0, "abc", "def"
            ),
        ),
        losses=(
            Loss(
                "lab", "mirror", "west", "east", "orders", 7, "retention", 93, 99, 1_763_711_900.0
            ),
            Loss("lab", "gone", "west", "east", "orders", 7, "altered", 3, 4, 1_763_711_900.0),
        ),
        groups=(GROUP, replace(GROUP, partition=8, best=None, reread=None, skip=None)),
        checkpoints=(CheckpointView("lab", "west", "east", "billing", 1_763_711_940.25),),
        heartbeats=(HeartbeatView("lab", "west", "east", 1_763_712_005.5),),
        judgements=(
            JUDGED,
            replace(JUDGED, scope=Scope.FLOW, subject="west->east"),
            replace(JUDGED, connector="files", verdict=Verdict.OK),
        ),
        findings=(FOUND, replace(FOUND, subject="orders-8")),
        saved_at=1_763_711_990.75,
        probes=(("lag", 12),),
        probes_skipped=(("budget", 3), ("denied", 1)),
        notifications_failed=(("unreachable", 2),),
        hooks_received=(("duplicate", 4), ("new", 3)),
        control_refused=(("unauthorised", 5),),
        remedies=REMEDIES,
        replica=REPLICA,
        syncs=(SYNC, replace(SYNC, source=WIDE.source)),
        by_topic=frozenset({(WIDE.connect_cluster, WIDE.connector)}),
        source_ends=(SOURCE_END, BINLOG_END, SNAPSHOT_END, ROWS_END),
        sink_partitions=(SINK, replace(SINK, partition=1, log_end=None, lag=None)),
        dropped=(("inexact", 6), ("source_partitions_max", 2)),
        topic_problems=(
            TopicProblem(
                at=KafkaTopic("east", "connect-offsets"), problem="oversize", detail="too long"
            ),
        ),
        topology=Topology(
            offsets_topics=(OffsetsTopic("lab", KafkaTopic("east", "connect-offsets")),),
            flows=(
                MirrorFlow(
                    connect_cluster="lab",
                    connector="mirror",
                    source="west",
                    target="east",
                    upstream="west",
                    offset_syncs=KafkaTopic("west", "mm2-offset-syncs.east.internal"),
                ),
                MirrorFlow(
                    connect_cluster="lab",
                    connector=WIDE.connector,
                    source=WIDE.source,
                    target="east",
                    upstream=None,
                    offset_syncs=None,
                ),
            ),
        ),
    )


class _Collected:
    """Samples, kept if they have a number that a float64 holds exactly."""

    def __init__(self) -> None:
        self.samples: Samples = {}

    def add(self, name: str, value: float | None, **labels: str) -> None:
        if value is None or abs(value) > 2**53:
            return
        key = ("offsetwatch_" + name, frozenset(labels.items()))
        self.samples.setdefault(key, float(value))


def expected(snapshot: Snapshot) -> Samples:
    """Every sample that this snapshot calls for, without `process_*`."""
    out = _Collected()
    out.add("config_last_reload_successful", RELOADED.successful)
    out.add("config_last_reload_timestamp_seconds", RELOADED.at)
    for file in RELOADED.web:
        entry = {"listener": file.listener}
        out.add("web_config_last_reload_successful", file.successful, **entry)
        out.add("web_config_reload_failures_total", file.failures, **entry)
    for reason, count in RELOADED.refused:
        out.add("read_refused_total", count, reason=reason)
    out.add("build_info", 1, version="1.2.3", revision="abc123", python="3.11.7")
    out.add("state_saved_timestamp_seconds", snapshot.saved_at)
    _expect_inputs(out, snapshot)
    _expect_connectors(out, snapshot)
    _expect_sources(out, snapshot)
    _expect_flows(out, snapshot)
    _expect_readiness(out, snapshot)
    for sink in snapshot.sink_partitions:
        out.add(
            "sink_lag_records",
            sink.lag,
            connect_cluster=sink.connect_cluster,
            connector=sink.connector,
            topic=sink.topic,
            partition=str(sink.partition),
        )
        out.add(
            "sink_lag_seconds",
            None if sink.behind_since is None else max(0, snapshot.at - sink.behind_since),
            connect_cluster=sink.connect_cluster,
            connector=sink.connector,
            topic=sink.topic,
            partition=str(sink.partition),
        )
    _expect_judged(out, snapshot)
    for problem in snapshot.topic_problems:
        entry = {"kafka": problem.at.kafka, "topic": problem.at.topic, "problem": problem.problem}
        out.add("internal_topic_problem", 1, **entry)
    _expect_pipeline(out, snapshot.pipeline)
    if snapshot.baselines.valid is not None:
        out.add("history_baselines_valid", snapshot.baselines.valid)
    if snapshot.baselines.of and any(view.name == "files" for view in snapshot.connectors):
        for percentile, seconds in (("50", 30.0), ("90", 90.0), ("99", 240.0)):
            entry = {"connect_cluster": "lab", "connector": "files", "percentile": percentile}
            out.add("expected_advance_interval_seconds", seconds, **entry)
        for percentile, seconds in (("50", 60.0), ("90", 61.0), ("99", 120.0)):
            entry = {"connect_cluster": "lab", "connector": "files", "percentile": percentile}
            out.add("expected_commit_interval_seconds", seconds, **entry)
        for percentile, records in (("50", 3.0), ("90", 40.0), ("99", 500.0)):
            entry = {"connect_cluster": "lab", "connector": "files", "percentile": percentile}
            out.add("expected_lag_records", records, **entry)
    for reason, count in snapshot.dropped:
        out.add("series_dropped_total", count, reason=reason)
    return out.samples


def _expect_judged(out: _Collected, snapshot: Snapshot) -> None:
    for judgement in snapshot.judgements:
        if judgement.scope is Scope.CONNECTOR:
            for verdict in Verdict:
                out.add(
                    "connector_progress",
                    verdict == judgement.verdict,
                    connect_cluster=judgement.connect_cluster,
                    connector=judgement.connector,
                    verdict=verdict.value,
                )
    for finding in snapshot.findings:
        same = [
            other
            for other in snapshot.findings
            if (other.name, other.connector) == (finding.name, finding.connector)
        ]
        out.add(
            "findings",
            len(same),
            connect_cluster=finding.connect_cluster,
            connector=finding.connector or "",
            finding=finding.name.value,
            severity=finding.severity.value,
        )
    for reason, count in snapshot.notifications_failed:
        out.add("notifications_failed_total", count, reason=reason)
    for reason, count in snapshot.hooks_received:
        out.add("hooks_received_total", count, reason=reason)
    for reason, count in snapshot.control_refused:
        out.add("control_refused_total", count, reason=reason)
    if snapshot.replica is not None:
        out.add("remediation_leader", snapshot.replica.leading)
        out.add("remediation_journal_seq", snapshot.replica.seq)
    _expect_remedies(out, snapshot.remedies)


def _expect_remedies(out: _Collected, observed: RemediationReported | None) -> None:
    if observed is None:
        return
    for mode in ("observe", "propose", "auto"):
        out.add("remediation_mode", mode == observed.mode, mode=mode)
    for state, count in observed.plans:
        out.add("remediation_plans", count, state=state)
    for cluster, connector, action, result, count in observed.actions:
        entry = {"connect_cluster": cluster, "connector": connector, "action": action}
        out.add("remediation_actions_total", count, **entry, result=result)
    for cluster, connector, action, guard, count in observed.blocked:
        entry = {"connect_cluster": cluster, "connector": connector, "action": action}
        out.add("remediation_blocked_total", count, **entry, guard=guard)
    for cluster, connector, since in observed.stopped_by_us:
        out.add(
            "remediation_stopped_since_timestamp_seconds",
            since,
            connect_cluster=cluster,
            connector=connector,
        )
    out.add("remediation_engine_heartbeat_timestamp_seconds", observed.at)


def _expect_readiness(out: _Collected, snapshot: Snapshot) -> None:
    for group in snapshot.groups:
        entry = {
            "connect_cluster": group.connect_cluster,
            "source": group.source,
            "target": group.target,
            "group": group.group,
        }
        where = {"topic": group.topic, "partition": str(group.partition)}
        out.add("mm2_group_failover_reread_records", group.reread, **entry, **where)
        out.add("mm2_group_failover_skip_records", group.skip, **entry, **where)
    for mark in snapshot.checkpoints:
        out.add(
            "mm2_checkpoint_last_timestamp_seconds",
            mark.at,
            connect_cluster=mark.connect_cluster,
            source=mark.source,
            target=mark.target,
            group=mark.group,
        )
    for beat in snapshot.heartbeats:
        out.add(
            "mm2_heartbeat_last_timestamp_seconds",
            beat.at,
            connect_cluster=beat.connect_cluster,
            source=beat.source,
            target=beat.target,
        )
    counts = {_topic_of(view): 0 for view in snapshot.mirror_partitions}
    counts |= {_topic_of(again): again.count for again in snapshot.recreations}
    for topic, count in counts.items():
        out.add("mm2_topic_recreations_total", count, **dict(topic))
    for reason, count in snapshot.probes:
        out.add("probe_reads_total", count, reason=reason)
    for reason, count in snapshot.probes_skipped:
        out.add("probe_reads_skipped_total", count, reason=reason)


def _expect_pipeline(out: _Collected, view: PipelineView) -> None:
    if view.unreadable:
        out.add("history_errors_total", view.unreadable, reason="status_unreadable")
    if view.status is None:
        return
    out.add("history_last_batch_timestamp_seconds", view.status.batch_at)
    for feed in view.status.feeds:
        kafka = feed.kafka
        out.add("history_behind_records", feed.behind, kafka=kafka)
        out.add("history_gaps", feed.gaps, kafka=kafka)
        out.add("history_records_total", feed.decoded, kafka=kafka, record="decoded")
        out.add("history_records_total", feed.undecodable, kafka=kafka, record="undecodable")
    for reason, count in view.status.errors:
        out.add("history_errors_total", count, reason=reason)
    for table, moment in view.status.tables:
        out.add("history_table_timestamp_seconds", moment, table=table)


def _expect_inputs(out: _Collected, snapshot: Snapshot) -> None:
    for view in snapshot.inputs:
        entry = {name: getattr(view.id, name) for name in INPUT}
        out.add("input_up", view.up, **entry)
        out.add("input_last_success_timestamp_seconds", view.last_success_at, **entry)
        for reason, count in view.errors:
            out.add("input_errors_total", count, **entry, reason=reason)
        if view.tail is not None:
            of = {"kafka": view.id.kafka, "topic": view.id.topic}
            out.add("tail_records_total", view.tail.values, **of, record="value")
            out.add("tail_records_total", view.tail.tombstones, **of, record="tombstone")
            out.add("tail_records_total", view.tail.undecodable, **of, record="undecodable")
            out.add("tail_caught_up", view.tail.caught_up, **of)
            out.add("tail_behind_records", view.tail.behind, **of)


def _expect_connectors(out: _Collected, snapshot: Snapshot) -> None:
    for view in snapshot.connectors:
        entry = {"connect_cluster": view.connect_cluster, "connector": view.name}
        for state in (*STATES, view.state):
            out.add("connector_state", state == view.state, **entry, state=state)
        for state in (*STATES, *(task.state for task in view.tasks)):
            count = sum(task.state == state for task in view.tasks)
            out.add("connector_tasks", count, **entry, state=state)
        for task in view.tasks:
            for state in (*STATES, task.state):
                on = state == task.state
                out.add("task_state", on, **entry, task=str(task.number), state=state)
        info = {"kind": view.kind.value, "class": view.class_name, "version": view.version}
        out.add("connector_info", 1, **entry, **info)


def _expect_sources(out: _Collected, snapshot: Snapshot) -> None:
    for polled in snapshot.by_rest:
        entry = {"connect_cluster": polled.connect_cluster, "connector": polled.connector}
        out.add("connector_offsets_from_rest", 1, **entry)
    for view in snapshot.source_partitions:
        entry = {
            "connect_cluster": view.connect_cluster,
            "connector": view.connector,
            "source_partition": view.label,
        }
        for field, value in view.offset.numbers if view.offset is not None else ():
            out.add("source_offset_position", value, **entry, field=field)
        if view.offset is not None:
            out.add("source_offset_last_commit_timestamp_seconds", view.committed_at, **entry)
            out.add("source_offset_last_advance_timestamp_seconds", view.advanced_at, **entry)
            out.add("source_position_timestamp_seconds", view.event_at, **entry)
        out.add("source_offset_commits_total", view.commits, **entry)
        out.add("source_offset_advances_total", view.advances, **entry)
        out.add("source_offset_rewinds_total", view.rewinds, **entry)
        out.add("source_offset_resets_total", view.resets, **entry)
    for end in snapshot.source_ends:
        entry = {"connect_cluster": "lab", "connector": "files", "source_partition": end.label}
        for field, value in end.fields:
            out.add("source_end_position", value, **entry, field=field)
        out.add("source_lag_bytes", end.lag_bytes, **entry)
        out.add("source_lag_transactions", end.lag_transactions, **entry)
        out.add("source_lag_rows", end.lag_rows, **entry)
        age = None if end.behind_since is None else snapshot.at - end.behind_since
        out.add("source_lag_seconds", 0 if end.caught_up else age, **entry)
        out.add("source_caught_up", end.caught_up, **entry)
        out.add("source_retention_headroom_bytes", end.headroom_bytes, **entry)
        if end.kind == "postgresql":
            out.add("source_slot_active", end.connected, **entry)
        if end.kind != "sql":
            out.add("source_snapshot_in_progress", end.in_snapshot, **entry)
        if end.end_position is not None:
            out.add("source_ahead", end.ahead, **entry)


def _expect_flows(out: _Collected, snapshot: Snapshot) -> None:
    wide = [view for view in snapshot.mirror_partitions if view.connector == WIDE.connector]
    if wide:  # of payments one partition's lag is not known
        summed = {"connect_cluster": "lab", "connector": WIDE.connector, "source": WIDE.source}
        lag = sum(view.lag for view in wide if view.topic == WIDE.topic)
        summed |= {"target": "east", "topic": WIDE.topic}
        out.add("mm2_topic_replication_lag_records", lag, **summed)
        ages = [snapshot.at - view.behind_since for view in wide if view.topic == WIDE.topic]
        out.add("mm2_topic_replication_lag_seconds", max(ages), **summed)
    for view in snapshot.mirror_partitions:
        if (view.connect_cluster, view.connector) in snapshot.by_topic:
            continue
        entry = {
            "connect_cluster": view.connect_cluster,
            "connector": view.connector,
            "source": view.source,
            "target": view.target,
            "topic": view.topic,
            "partition": str(view.partition),
        }
        out.add("mm2_source_log_start_offset", view.log_start, **entry)
        out.add("mm2_source_log_end_offset", view.log_end, **entry)
        out.add("mm2_replicated_offset", view.replicated, **entry)
        out.add("mm2_replication_lag_records", view.lag, **entry)
        out.add("mm2_ahead_records", view.ahead, **entry)
        age = None if view.behind_since is None else max(0, snapshot.at - view.behind_since)
        out.add("mm2_replication_lag_seconds", 0 if view.caught_up else age, **entry)
        out.add("mm2_caught_up", view.caught_up, **entry)
        out.add("mm2_retention_headroom_records", view.headroom, **entry)
        out.add("mm2_retention_headroom_seconds", view.headroom_s, **entry)
        for cause, count in view.lost:
            out.add("mm2_lost_records_total", count, **entry, cause=cause)
    for sync in snapshot.syncs:
        if sync.source == WIDE.source:
            continue
        entry = {
            "connect_cluster": sync.connect_cluster,
            "source": sync.source,
            "target": sync.target,
            "topic": sync.topic,
            "partition": str(sync.partition),
        }
        out.add("mm2_offset_sync_upstream_offset", sync.upstream_offset, **entry)
        out.add("mm2_offset_sync_downstream_offset", sync.downstream_offset, **entry)
        out.add("mm2_offset_sync_last_timestamp_seconds", sync.at, **entry)


def _topic_of(at: MirrorPartitionView | TopicRecreation) -> tuple[tuple[str, str], ...]:
    names = ("connect_cluster", "connector", "source", "target", "topic")
    return tuple((name, getattr(at, name)) for name in names)
