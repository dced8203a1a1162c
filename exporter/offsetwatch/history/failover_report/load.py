"""Everything the tables know of one flow in a past window, for moves.py: its records
(records.py), and samples from a day before, by which the age of a record is found. No JVM.
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
    CheckpointSaid,
    Ends,
    Known,
    Member,
    Series,
)
from offsetwatch.history.failover_report.records import Window, query_rows, tuples
from offsetwatch.history.failover_report.replay import PACE_S
from offsetwatch.history.tables import pipeline_status, reader
from offsetwatch.history.tables.flows import stored
from offsetwatch.history.tables.log_queries import exact, literal, quoted
from offsetwatch.history.tables.schemas import BRONZE_GROUP_OFFSETS, BRONZE_LOG_ENDS, Table
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import (
    checkpoints_of,
    copied_topic,
    remote_topic,
    routers_named,
)

__all__ = ["Window", "known"]

LOOK_BACK_S: Final = 86_400.0
# Of one kind and one cluster: a thousand partitions over five days, and half a gigabyte.
SAMPLES_MAX: Final = 8_000_000


def known(base: Path, flow: MirrorFlow, window: Window) -> Known:
    """Raises HistoryError where the tables are missing, damaged, or hold nothing of the flow."""
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
    copied = {at.where.topic for at in found.syncs} | {at.where.topic for at in found.commits}
    found.checkpoints = list(_of_copies(flow, found.checkpoints, copied))
    remote = _remotes(
        flow,
        {*(at.topic for at in downstream), *(said.where.topic for said in found.checkpoints)},
        copied,
    )
    if flow.routers and copied and not remote:
        raise HistoryError(
            f"{flow.source}->{flow.target}: a transform ({routers_named(flow)}) writes its copies "
            "to topics with unknown names: the position after a failover is unknown. Name them: "
            "flows[].copies"
        )
    source = {name: topic for topic, name in remote.items()}
    found.remote = remote
    found.here = {at: ends for at, ends in upstream.items() if at.topic in remote}
    found.there = {
        TopicPartition(source[at.topic], at.partition): ends
        for at, ends in downstream.items()
        if at.topic in source
    }
    found.positions = samples.positions(flow.upstream, {topic: topic for topic in remote})
    found.own = samples.positions(flow.downstream, source)
    found.not_ours = _claimed_twice(base, flow)
    return found


def _of_copies(
    flow: MirrorFlow, checkpoints: Iterable[CheckpointSaid], copied: Collection[str]
) -> Iterator[CheckpointSaid]:
    """Checkpoints by the topics that the copies are in; without those of which that is unknown."""
    for said in checkpoints:
        found = copied_topic(flow, said.where.topic, copied)
        if found is not None:
            yield replace(said, where=TopicPartition(found[1], said.where.partition))


def _remotes(flow: MirrorFlow, names: Collection[str], copied: Collection[str]) -> dict[str, str]:
    """Upstream topics that the flow copies -> what their copies are called on the target. Two that
    share a topic there are left out.
    """
    found = {topic: remote_topic(flow, topic, names) for topic in copied}
    times = Counter(found.values())
    return {
        topic: name
        for topic, name in found.items()
        if name is not None and name in names and times[name] == 1
    }


def _claimed_twice(base: Path, flow: MirrorFlow) -> frozenset[TopicPartition]:
    """Partitions that another flow copies too, whose syncs lie in the same topic: a sync does not
    say whose it is.
    """
    others = {
        (at.connect_cluster, at.connector)
        for at in stored(base)
        if at.offset_syncs == flow.offset_syncs
    } - {(flow.connect_cluster, flow.connector)}
    if not others:
        return frozenset()
    return frozenset(
        TopicPartition(row.topic, row.partition)
        for row in reader.flow_progress(base)
        if (row.connect_cluster, row.connector) in others
    )


class _Samples:
    """What was asked for, from before the window on."""

    def __init__(self, base: Path, window: Window) -> None:
        self._base = base
        self._window = window

    def ends(self, kafka: str) -> dict[TopicPartition, Series[Ends]]:
        query = f"""
            SELECT at, topic, partition, log_start, log_end FROM records
            WHERE kafka = {quoted(kafka)} AND {self._between(LOOK_BACK_S)}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[TopicPartition, Series[Ends]] = {}
        for at, topic, partition, start, end in self._rows(BRONZE_LOG_ENDS, query):
            series = found.setdefault(TopicPartition(topic, partition), Series())
            series.add(at, Ends(start, end))
        return found

    def positions(self, kafka: str, topics: dict[str, str]) -> dict[Member, Series[int]]:
        """By what each of these topics is called upstream."""
        named = ", ".join(quoted(group) for group in sorted(self._window.groups))
        of_groups = f"AND group_id IN ({named})" if named else ""
        query = f"""
            SELECT at, group_id, topic, partition, committed FROM records
            WHERE kafka = {quoted(kafka)} AND {self._between(PACE_S + STALE_S)} {of_groups}
            ORDER BY at LIMIT {SAMPLES_MAX + 1}
            """  # noqa: S608 - quoted
        found: dict[Member, Series[int]] = {}
        for at, group, topic, partition, offset in self._rows(BRONZE_GROUP_OFFSETS, query):
            if topic in topics:
                found.setdefault((group, topics[topic], partition), Series()).add(at, offset)
        return found

    def _between(self, before_s: float) -> str:
        since = exact(self._window.since - before_s)
        until = exact(self._window.until)
        return (
            f"day >= {literal(since.date())} AND day <= {literal(until.date())} "
            f"AND at >= {literal(since)} AND at <= {literal(until)}"
        )

    def _rows(self, table: Table, query: str) -> Iterator[tuple[Any, ...]]:
        rows = query_rows(self._base, table, query)
        if rows.num_rows > SAMPLES_MAX:
            raise HistoryError(
                f"more than {SAMPLES_MAX} samples of {table.path} are of that time: ask for a "
                "shorter one, or name groups"
            )
        return tuples(rows)


def _records(base: Path, flow: MirrorFlow, window: Window) -> tuple[float, Known]:
    """Until when records are known, and what they say."""
    syncs, checkpoints = flow.offset_syncs, checkpoints_of(flow)
    assert syncs is not None
    assert checkpoints is not None
    home = _home(base, flow)
    kafkas = {syncs.kafka, checkpoints.kafka, *(set() if home is None else {home.kafka})}
    found = Known(
        flow=flow,
        remote={},
        syncs=list(moves_records.syncs(base, syncs, window)),
        checkpoints=list(moves_records.checkpoints(base, checkpoints, window)),
        commits=[] if home is None else list(moves_records.commits(base, flow, home, window)),
        restarts=moves_records.restarts(base, flow.connect_cluster, window),
    )
    _refuse_backlog(base, kafkas)
    return moves_records.read_until(base, kafkas), found


def _refuse_backlog(base: Path, kafkas: Collection[str]) -> None:
    """While a pipeline catches up, that a batch was read late says nothing of how far it came."""
    told = pipeline_status.read(base)
    for feed in () if told is None else told.feeds:
        if feed.kafka in kafkas and feed.behind:
            raise HistoryError(
                f"the pipeline is {feed.behind} records behind on {feed.kafka}: let it catch up "
                "first (history run), or what it has not read yet would be missing from the report"
            )


def _home(base: Path, flow: MirrorFlow) -> KafkaTopic | None:
    """Where the connector's offsets are: in a topic of its own, or in its cluster's."""
    topics = {
        at.connector: at.at
        for at in reader.topics(base)
        if at.connect_cluster == flow.connect_cluster
    }
    home = topics.get(flow.connector, topics.get(None))
    return home if home is not None and home.topic else None
