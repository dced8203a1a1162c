"""All current facts, and the snapshots made of them. The only mutable object of the core.

One thread owns it (loop.py). `apply` takes observations in the order in which they were made;
`snapshot` leaves out everything whose input is stale or not caught up, so that nothing freezes at
an old value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.model.connectors import Connector, ConnectorKind
from exporter.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    BrokersSeen,
    ConnectorsListed,
    EndsAsked,
    EndsRead,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    Observation,
    OffsetsTopicFound,
    RestOffsetsAsked,
    RestOffsetsRead,
    SinkOffset,
    SinkOffsetsRead,
    SourceRecord,
    SyncRecord,
    TailRead,
    TopicFactsRead,
)
from exporter.model.offsets import MirrorPartition
from exporter.model.topology import (
    KafkaTopic,
    MirrorFlow,
    OffsetsTopic,
    SinkGroup,
    TopicPartition,
    Topology,
)
from exporter.state.checks import Checks
from exporter.state.facts import FactsBook
from exporter.state.flows import mirror_flows, sink_groups
from exporter.state.inputs import Inputs, TailState
from exporter.state.lag import Seen, sink_lag
from exporter.state.mirrors import EndsBook, Position, SyncBook, positions, sync_views
from exporter.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
    SyncView,
)
from exporter.state.sources import SourceBook


@dataclass(frozen=True, slots=True)
class ConnectSite:
    """A configured Connect cluster: its name and the Kafka cluster that holds its topics."""

    name: str
    kafka: str


class Book:
    """See the module. `stale_after_s` is by input kind; `kafkas` maps cluster names to
    addresses.
    """

    def __init__(
        self,
        *,
        sites: tuple[ConnectSite, ...],
        kafkas: Mapping[str, frozenset[str]],
        stale_after_s: dict[str, float],
        source_partitions_max: int,
    ) -> None:
        self._sites = {site.name: site for site in sites}
        self._addresses = dict(kafkas)
        self._inputs = Inputs(stale_after_s)
        self._sources = {site.name: SourceBook(site.name, source_partitions_max) for site in sites}
        self._listed: dict[str, tuple[Connector, ...]] = {}
        self._offsets_topics: dict[str, KafkaTopic] = {}
        self._syncs: dict[KafkaTopic, SyncBook] = {}
        self._ends = EndsBook()
        self._sinks: dict[str, tuple[SinkOffset, ...]] = {}
        self._facts = FactsBook(self._sources)
        self._checks = Checks(self._sources)
        self._topology = Topology(offsets_topics=(), flows=())

    # --- taking in -------------------------------------------------------------------------------

    def apply(self, seen: Observation, now: float) -> None:
        """Take in one observation."""
        match seen:
            case TailRead():
                self._apply_tail(seen, now)
            case InputSucceeded() | InputFailed() | InputRetired():
                self._inputs.apply(seen)
            case ConnectorsListed():
                self._listed[seen.connect_cluster] = seen.connectors
                self._rebuild_topology()
            case OffsetsTopicFound():
                self._offsets_topics[seen.connect_cluster] = seen.topic
                self._rebuild_topology()
            case BrokersSeen():
                known = self._addresses.get(seen.kafka, frozenset())
                self._addresses[seen.kafka] = known | seen.addresses
                self._rebuild_topology()
            case EndsAsked():
                known_now = {
                    at.where: at.replicated
                    for at in self._positions(seen.kafka)
                    if self._flow_shown(at.flow, now)
                }
                self._ends.asked(seen.kafka, seen.number, known_now)
            case EndsRead():
                self._ends.read(seen.kafka, seen.number, seen.bounds)
            case SinkOffsetsRead():
                self._sinks[seen.connect_cluster] = seen.offsets
            case RestOffsetsAsked():
                self._checks.asked(seen, now)
            case RestOffsetsRead():
                self._checks.read(seen, now)
            case TopicFactsRead():
                self._facts.read(seen)

    def _apply_tail(self, read: TailRead, now: float) -> None:
        state = self._inputs.of(read.input)
        if state.tail is None:
            state.tail = TailState(read.topic)
        progressed = state.tail.apply(read)
        for name, topic in self._offsets_topics.items():
            if topic == read.topic:
                self._sources[name].apply(
                    tuple(record for record in read.records if isinstance(record, SourceRecord)),
                    whole=read.whole,
                )
        syncs = tuple(record for record in read.records if isinstance(record, SyncRecord))
        if syncs or read.topic in self._syncs:
            self._syncs.setdefault(read.topic, SyncBook()).apply(syncs, whole=read.whole)
        if read.behind == 0 or progressed:
            state.succeeded(now)

    def _rebuild_topology(self) -> None:
        flows: list[MirrorFlow] = []
        sinks: list[SinkGroup] = []
        for name, connectors in sorted(self._listed.items()):
            site = self._sites[name]
            flows.extend(mirror_flows(name, site.kafka, connectors, self._addresses))
            sinks.extend(sink_groups(name, site.kafka, connectors, self._addresses))
        topics = tuple(
            OffsetsTopic(connect_cluster=name, at=topic)
            for name, topic in sorted(self._offsets_topics.items())
        )
        self._topology = Topology(offsets_topics=topics, flows=tuple(flows), sinks=tuple(sinks))

    # --- giving out ------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """Everything that is known and still true at `now`."""
        self._settle_checks(now)
        waiting_for = self._waiting_for()
        dropped: dict[str, int] = {}
        for source in self._sources.values():
            for reason, count in source.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
        return Snapshot(
            at=now,
            inputs=self._inputs.views(now),
            connectors=self._connector_views(now),
            source_partitions=self._source_views(now),
            mirror_partitions=self._mirror_views(now),
            syncs=self._sync_views(now),
            sink_partitions=self._sink_views(now),
            dropped=tuple(sorted(dropped.items())),
            topology=self._topology,
            ready=not waiting_for,
            waiting_for=waiting_for,
            topic_problems=self._facts.problems(
                now, self._topology, self._listed, lambda name: self._sources_shown(name, now)
            ),
        )

    def _settle_checks(self, now: float) -> None:
        """Count the REST offsets that the tail did not show within their time."""
        for check in self._checks.settle(now, lambda name: self._sources_shown(name, now)):
            state = self._inputs.of(InputId(check.connect_cluster, CONNECT_REST))
            state.errors["offsets_differ"] += 1
            state.last_error = (
                f"REST and topic disagree on {check.connector} {check.identity}: "
                f"REST says {check.text}"
            )

    def _waiting_for(self) -> tuple[str, ...]:
        """What is not caught up, in words for a person."""
        missing: list[str] = []
        for name in sorted(self._sites):
            if name not in self._listed:
                missing.append(self._explain(InputId(name, CONNECT_REST), "first answer"))
            elif self._has_sources(name) and name not in self._offsets_topics:
                missing.append(self._explain(InputId(name, TAIL), "its offsets topic"))
            elif self._has_sinks(name):
                missing.extend(self._unasked(InputId(name, GROUPS)))
        for topic in self._topology.tailed():
            state = self._inputs.find(InputId(str(topic), TAIL))
            if state is not None and state.last_reason == "not_found":
                continue  # there is nothing to catch up with
            if state is None or state.tail is None or not state.tail.caught_up:
                missing.append(self._explain(InputId(str(topic), TAIL), "the end of the topic"))
        for kafka in sorted({flow.upstream for flow in self._topology.flows if flow.upstream}):
            missing.extend(self._ends_missing(kafka))
        return tuple(missing)

    def _ends_missing(self, kafka: str) -> tuple[str, ...]:
        """Log ends are waited for once there are positions to compare them with; a failure will
        do.
        """
        ends = InputId(kafka, LOG_ENDS)
        state = self._inputs.find(ends)
        known = {at.where for at in self._positions(kafka)}
        if not known or self._ends.answered(kafka, known):
            return self._unasked(ends)
        if state is not None and state.last_reason is not None:
            return ()
        return (self._explain(ends, "the log ends of its mirrored partitions"),)

    def _explain(self, input_id: InputId, what: str) -> str:
        state = self._inputs.find(input_id)
        error = f" ({state.last_error})" if state is not None and state.last_error else ""
        return f"{input_id.kind} {input_id.input}: waiting for {what}{error}"

    def _unasked(self, input_id: InputId) -> tuple[str, ...]:
        state = self._inputs.find(input_id)
        asked = state is not None and state.asked
        return () if asked else (self._explain(input_id, "a first attempt"),)

    def _has_sources(self, name: str) -> bool:
        kinds = {connector.kind for connector in self._listed.get(name, ())}
        return bool(kinds & {ConnectorKind.SOURCE, ConnectorKind.MIRROR})

    def _has_sinks(self, name: str) -> bool:
        return any(connector.sink is not None for connector in self._listed.get(name, ()))

    def _connector_views(self, now: float) -> tuple[ConnectorView, ...]:
        return tuple(
            ConnectorView(
                connect_cluster=name,
                name=connector.name,
                kind=connector.kind,
                class_name=connector.class_name,
                version=connector.version,
                state=connector.state,
                tasks=connector.tasks,
                dedicated_offsets_topic=connector.dedicated_offsets_topic,
            )
            for name, connectors in sorted(self._listed.items())
            if self._inputs.live(InputId(name, CONNECT_REST), now)
            for connector in connectors
        )

    def _sources_shown(self, name: str, now: float) -> bool:
        """A tail that is live and caught up, and a list of connectors to tell orphans by.

        A deleted connector's offsets stay in the topic, so without any list nothing can be shown.
        An
        old list will do: which connectors exist is no measurement that goes stale by the minute.
        """
        topic = self._offsets_topics.get(name)
        if topic is None or name not in self._listed:
            return False
        return self._inputs.live(InputId(str(topic), TAIL), now)

    def _source_views(self, now: float) -> tuple[SourcePartitionView, ...]:
        views: list[SourcePartitionView] = []
        for name in sorted(self._sites):
            if self._sources_shown(name, now):
                listed = frozenset(connector.name for connector in self._listed[name])
                views.extend(self._sources[name].views(listed))
        return tuple(views)

    def _positions(self, upstream: str | None = None) -> tuple[Position, ...]:
        """Positions of all flows, or of those that read from one Kafka cluster."""
        found: list[Position] = []
        shared = self._shared_syncs()
        for flow in self._topology.flows:
            if upstream is not None and flow.upstream != upstream:
                continue
            syncs = None if flow.offset_syncs is None else self._syncs.get(flow.offset_syncs)
            not_ours = shared.get(flow.offset_syncs, frozenset())
            found.extend(positions(flow, self._committed(flow), syncs, not_ours))
        return tuple(sorted(found, key=lambda at: at.upstream))

    def _committed(self, flow: MirrorFlow) -> dict[MirrorPartition, Seen]:
        return self._sources[flow.connect_cluster].mirrored(flow.connector, flow.source)

    def _shared_syncs(self) -> dict[KafkaTopic | None, frozenset[TopicPartition]]:
        """By offset-syncs topic, the partitions that several flows have a position in.

        A sync does not say whose it is (two flows under one pair of aliases write to one topic), so
        there the progress of one flow could hide that the other stands still.
        """
        flows = Counter(flow.offset_syncs for flow in self._topology.flows)
        found: dict[KafkaTopic | None, frozenset[TopicPartition]] = {}
        for topic in [topic for topic, count in flows.items() if topic is not None and count > 1]:
            claims = Counter(
                TopicPartition(at.topic, at.partition)
                for flow in self._topology.flows
                if flow.offset_syncs == topic
                for at in self._committed(flow)
            )
            found[topic] = frozenset(where for where, count in claims.items() if count > 1)
        return found

    def _mirror_views(self, now: float) -> tuple[MirrorPartitionView, ...]:
        ends_live = {
            flow.upstream: self._inputs.live(InputId(flow.upstream, LOG_ENDS), now)
            for flow in self._topology.flows
            if flow.upstream is not None
        }
        return tuple(
            self._ends.view(at, live=ends_live.get(at.flow.upstream or "", False))
            for at in self._positions()
            if self._flow_shown(at.flow, now)
        )

    def _flow_shown(self, flow: MirrorFlow, now: float) -> bool:
        """Both tails must be sound: without the syncs the best progress would be understated."""
        if not self._sources_shown(flow.connect_cluster, now):
            return False
        if flow.offset_syncs is None:
            return True
        tail = InputId(str(flow.offset_syncs), TAIL)
        state = self._inputs.find(tail)
        if state is not None and state.last_reason == "not_found":
            return (
                True  # no such topic yet: there are no syncs, and the committed offset is the best
            )
        return self._inputs.live(tail, now)

    def _sync_views(self, now: float) -> tuple[SyncView, ...]:
        views: dict[tuple[str, str, str, str, int], SyncView] = {}
        for flow in self._topology.flows:
            topic = flow.offset_syncs
            if topic is None or topic not in self._syncs:
                continue
            if self._inputs.live(InputId(str(topic), TAIL), now):
                for view in sync_views(flow, self._syncs[topic]):
                    where = (view.connect_cluster, view.source, view.target)
                    views.setdefault((*where, view.topic, view.partition), view)
        return tuple(views.values())

    def _sink_views(self, now: float) -> tuple[SinkPartitionView, ...]:
        views: list[SinkPartitionView] = []
        for name, offsets in sorted(self._sinks.items()):
            if not self._inputs.live(InputId(name, GROUPS), now):
                continue
            listed = {connector.name for connector in self._listed.get(name, ())}
            views.extend(
                SinkPartitionView(
                    connect_cluster=name,
                    connector=at.connector,
                    topic=at.topic,
                    partition=at.partition,
                    committed=at.committed,
                    log_end=at.log_end,
                    lag=None if at.log_end is None else sink_lag(at.committed, at.log_end),
                )
                for at in offsets
                if at.connector in listed
            )
        return tuple(views)
