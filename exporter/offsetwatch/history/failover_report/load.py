"""Loader of all inputs of a failover report from the tables: records and samples. No JVM.

The records come from records.py. The samples begin a day before the window, as they date records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from offsetwatch.errors import HistoryError
from offsetwatch.history.failover_report import records as moves_records
from offsetwatch.history.failover_report.inputs import (
    STALE_S,
    FailoverInputs,
    LoggedCheckpoint,
    ReportGroupPartition,
    SampledLogBounds,
    Series,
)
from offsetwatch.history.failover_report.records import ReportWindow, iterate_tuples, query_rows
from offsetwatch.history.failover_report.replay import RATE_WINDOW_S
from offsetwatch.history.tables import pipeline_status, reader
from offsetwatch.history.tables.flows import read_flows
from offsetwatch.history.tables.log_queries import convert_to_datetime, quote_text, quote_value
from offsetwatch.history.tables.schemas import BRONZE_GROUP_OFFSETS, BRONZE_LOG_ENDS, Table
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import (
    find_remote_topic,
    format_routers,
    locate_checkpoints,
    resolve_checkpoint_topic,
)

__all__ = ["ReportWindow", "load_inputs"]

LOOK_BACK_S: Final = 86_400.0
# Of one kind and one cluster: a thousand partitions over five days, and half a gigabyte.
SAMPLES_MAX: Final = 8_000_000


def load_inputs(base: Path, flow: MirrorFlow, window: ReportWindow) -> FailoverInputs:
    """Return the inputs of a report on a flow.

    Raises HistoryError where the tables are missing, damaged, or hold nothing of the flow.
    """
    if flow.upstream is None or flow.downstream is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: which configured Kafka clusters it reads from and "
            "writes to is not known, so nothing of it was sampled"
        )
    if flow.offset_syncs is None:
        raise HistoryError(
            f"{flow.source}->{flow.target}: it emits no offset syncs, or on a Kafka cluster that "
            "is not configured: the position after a failover is unknown"
        )
    read_until, records = _records(base, flow, window)
    samples = _Samples(base, window)
    upstream = samples.ends(flow.upstream)
    downstream = samples.ends(flow.downstream)
    if not upstream:
        raise HistoryError(
            f"no sample of {flow.upstream}'s log ends is of that time: `history run` takes one "
            "each time, or each minute while it goes on"
        )
    found = replace(records, read_until=read_until)
    copied = {sync.where.topic for sync in found.syncs} | {
        commit.where.topic for commit in found.commits
    }
    found.checkpoints = list(_rename_checkpoints(flow, found.checkpoints, copied))
    remote = _name_copies(
        flow,
        {
            *(partition.topic for partition in downstream),
            *(said.where.topic for said in found.checkpoints),
        },
        copied,
    )
    if flow.routers and copied and not remote:
        raise HistoryError(
            f"{flow.source}->{flow.target}: a transform ({format_routers(flow)}) writes its copies "
            "to topics with unknown names: the position after a failover is unknown. Name them: "
            "flows[].copies"
        )
    source = {name: topic for topic, name in remote.items()}
    found.remote = remote
    found.here = {
        partition: ends for partition, ends in upstream.items() if partition.topic in remote
    }
    found.there = {
        TopicPartition(source[partition.topic], partition.partition): ends
        for partition, ends in downstream.items()
        if partition.topic in source
    }
    found.positions = samples.positions(flow.upstream, {topic: topic for topic in remote})
    found.own = samples.positions(flow.downstream, source)
    found.not_ours = _find_shared_partitions(base, flow)
    return found


def _rename_checkpoints(
    flow: MirrorFlow, checkpoints: Iterable[LoggedCheckpoint], copied: Collection[str]
) -> Iterator[LoggedCheckpoint]:
    """Yield checkpoints by the topics that hold the copies; leave out those of unknown topics."""
    for said in checkpoints:
        found = resolve_checkpoint_topic(flow, said.where.topic, copied)
        if found is not None:
            yield replace(said, where=TopicPartition(found[1], said.where.partition))


def _name_copies(
    flow: MirrorFlow, names: Collection[str], copied: Collection[str]
) -> dict[str, str]:
    """Return upstream topic -> name of its copy on the target, of topics that the flow copies.

    Two that share a topic there are left out.
    """
    found = {topic: find_remote_topic(flow, topic, names) for topic in copied}
    times = Counter(found.values())
    return {
        topic: name
        for topic, name in found.items()
        if name is not None and name in names and times[name] == 1
    }


def _find_shared_partitions(base: Path, flow: MirrorFlow) -> frozenset[TopicPartition]:
    """Return partitions that another flow copies too, with its syncs in the same topic.

    A sync does not name its flow.
    """
    others = {
        (mirror_flow.connect_cluster, mirror_flow.connector)
        for mirror_flow in read_flows(base)
        if mirror_flow.offset_syncs == flow.offset_syncs
    } - {(flow.connect_cluster, flow.connector)}
    if not others:
        return frozenset()
    return frozenset(
        TopicPartition(row.topic, row.partition)
        for row in reader.read_flow_progress(base)
        if (row.connect_cluster, row.connector) in others
    )


class _Samples:
    """Samples of the tables, from before the window on."""

    def __init__(self, base: Path, window: ReportWindow) -> None:
        self._base = base
        self._window = window

    def ends(self, kafka: str) -> dict[TopicPartition, Series[SampledLogBounds]]:
        query = f"""
            SELECT at, topic, partition, log_start, log_end FROM records
            WHERE kafka = {quote_text(kafka)} AND {self._between(LOOK_BACK_S)}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[TopicPartition, Series[SampledLogBounds]] = {}
        for item, topic, partition, start, end in self._rows(BRONZE_LOG_ENDS, query):
            series = found.setdefault(TopicPartition(topic, partition), Series())
            series.add(item, SampledLogBounds(start, end))
        return found

    def positions(
        self, kafka: str, topics: dict[str, str]
    ) -> dict[ReportGroupPartition, Series[int]]:
        """Return committed offsets by group and upstream partition.

        topics    names on this Kafka cluster -> upstream names
        """
        named = ", ".join(quote_text(group) for group in sorted(self._window.groups))
        of_groups = f"AND group_id IN ({named})" if named else ""
        query = f"""
            SELECT at, group_id, topic, partition, committed FROM records
            WHERE kafka = {quote_text(kafka)}
              AND {self._between(RATE_WINDOW_S + STALE_S)} {of_groups}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[ReportGroupPartition, Series[int]] = {}
        for item, group, topic, partition, offset in self._rows(BRONZE_GROUP_OFFSETS, query):
            if topic in topics:
                found.setdefault((group, topics[topic], partition), Series()).add(item, offset)
        return found

    def _between(self, before_s: float) -> str:
        since = convert_to_datetime(self._window.since - before_s)
        until = convert_to_datetime(self._window.until)
        return (
            f"day >= {quote_value(since.date())} AND day <= {quote_value(until.date())} "
            f"AND at >= {quote_value(since)} AND at <= {quote_value(until)}"
        )

    def _rows(self, table: Table, query: str) -> Iterator[tuple[Any, ...]]:
        rows = query_rows(self._base, table, query)
        if rows.num_rows > SAMPLES_MAX:
            raise HistoryError(
                f"more than {SAMPLES_MAX} samples of {table.path} are of that time: ask for a "
                "shorter one, or name groups"
            )
        return iterate_tuples(rows)


def _records(base: Path, flow: MirrorFlow, window: ReportWindow) -> tuple[float, FailoverInputs]:
    """Return the time until which all records are known, and the records."""
    syncs, checkpoints = flow.offset_syncs, locate_checkpoints(flow)
    assert syncs is not None
    assert checkpoints is not None
    home = _find_offsets_topic(base, flow)
    kafkas = {syncs.kafka, checkpoints.kafka, *(set() if home is None else {home.kafka})}
    found = FailoverInputs(
        flow=flow,
        remote={},
        syncs=list(moves_records.read_syncs(base, syncs, window)),
        checkpoints=list(moves_records.read_checkpoints(base, checkpoints, window)),
        commits=[] if home is None else list(moves_records.read_commits(base, flow, home, window)),
        restarts=moves_records.read_restarts(base, flow.connect_cluster, window),
    )
    _refuse_backlog(base, kafkas)
    return moves_records.compute_complete_until(base, kafkas), found


def _refuse_backlog(base: Path, kafkas: Collection[str]) -> None:
    """Raise HistoryError while the pipeline has a backlog on one of these Kafka clusters.

    During catch-up, the time of the last batch does not show how far it has read.
    """
    status = pipeline_status.read_status(base)
    for feed in () if status is None else status.feeds:
        if feed.kafka in kafkas and feed.behind:
            raise HistoryError(
                f"the pipeline is {feed.behind} records behind on {feed.kafka}: let it catch up "
                "first (history run), or what it has not read yet would be missing from the report"
            )


def _find_offsets_topic(base: Path, flow: MirrorFlow) -> KafkaTopic | None:
    """Return the connector's offsets topic: its own, or its Connect cluster's; None if unknown."""
    topics = {
        topic.connector: topic.at
        for topic in reader.read_topics(base)
        if topic.connect_cluster == flow.connect_cluster
    }
    home = topics.get(flow.connector, topics.get(None))
    return home if home is not None and home.topic else None
