"""Book of all current facts, from which snapshots are made. The only mutable object of the core.

One thread owns it (loop.py). `apply` takes observations in the order in which they were made.
`snapshot` leaves out everything whose input is stale or not caught up, so that no old value is
shown as current.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from offsetwatch.model.connectors import StateHistory
from offsetwatch.model.observations import (
    CONNECT_REST,
    AssignmentConfirmed,
    BaselinesRead,
    BrokerAddressesRead,
    ConnectorsListed,
    ControlRequestsCounted,
    Discovery,
    GroupOffsetsRead,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    ListingTopicsFound,
    LogEndsRead,
    LogEndsRequested,
    NotificationsFailed,
    Observation,
    OffsetsPolled,
    OffsetsTopicCompared,
    OffsetsTopicFound,
    OffsetsTopicLost,
    PartitionsAssigned,
    PipelineStatusRead,
    ProbeRoundRead,
    RestOffsetsRead,
    RestOffsetsRequested,
    SinkOffsetsRead,
    SourceEndRead,
    TailRead,
    TopicFactsRead,
    TopicsChecked,
)
from offsetwatch.model.remediation import (
    RemediationObservation,
    RemediationReported,
    ReplicaReported,
)
from offsetwatch.model.topology import InternalTopicRole, MirrorFlow, SinkGroup, Topology
from offsetwatch.state.connect.connect_cluster import (
    ConnectClusterSettings,
    ConnectClusterState,
    PersistedConnectCluster,
)
from offsetwatch.state.connect.rest_consistency import RestConsistencyChecks
from offsetwatch.state.connect.sinks import Sinks
from offsetwatch.state.failover import FailoverGroups
from offsetwatch.state.history_documents import BaselinesBook, PipelineBook
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.internal_topics import (
    FOREIGN_COMMIT_RECENT_S,
    ForeignWriter,
    find_present_problems,
)
from offsetwatch.state.loss.persistence import encode_losses, restore_losses
from offsetwatch.state.memo import Memo, TupleMemo
from offsetwatch.state.mirror.flows import (
    BrokerAddresses,
    build_mirror_flows,
    build_sink_groups,
    merge_named_flows,
)
from offsetwatch.state.mirror.replication import Replication
from offsetwatch.state.readiness import Readiness
from offsetwatch.state.series_budget import (
    UNLIMITED_SERIES,
    ConnectorSeriesBudget,
    SeriesLimits,
    TotalSeriesBudget,
)
from offsetwatch.state.snapshot import (
    ConnectorView,
    RestConnector,
    SeriesGroup,
    Snapshot,
    SourcePartitionView,
)
from offsetwatch.state.snapshot_index import IndexParts
from offsetwatch.state.sources.source_ends import SourceEnds, SourceSettings


class Book:
    """Book of all current facts.

    kafkas          the addresses of every Kafka cluster, by its configured name
    flows           the flows that the configuration names; they replace discovered ones
    stale_after_s   by input kind
    interval_s      time within which copied records are committed: one flush
    pipeline_fresh_s    how long the history pipeline's report of its own lag is believed
    """

    def __init__(
        self,
        *,
        clusters: tuple[ConnectClusterSettings, ...],
        kafkas: Mapping[str, frozenset[str]],
        stale_after_s: dict[str, float],
        source_partitions_max: int,
        series: SeriesLimits = UNLIMITED_SERIES,
        pipeline_fresh_s: float = 600.0,
        interval_s: float = 60.0,
        flows: tuple[MirrorFlow, ...] = (),
    ) -> None:
        self._configured = dict(kafkas)
        self._addresses = dict(kafkas)
        self._brokers = BrokerAddresses()
        self._inputs = Inputs(stale_after_s)
        self._clusters = {
            cluster.name: ConnectClusterState(
                cluster, self._inputs, source_partitions_max, interval_s
            )
            for cluster in sorted(clusters, key=lambda cluster: cluster.name)
        }
        self._wants_connector = {cluster.name: cluster.wants_connector for cluster in clusters}
        self._topic_doubts: dict[str, str | None] = {}
        self._named_flows = flows
        self._replication = Replication(self._clusters, self._inputs, interval_s)
        self._failover = FailoverGroups(
            self._inputs,
            self._replication,
            lambda name, topic: self._clusters[name].of.wants_topic(topic),
        )
        self._sinks = Sinks(self._clusters, self._inputs)
        self._interval_s = interval_s
        self._source_ends = SourceEnds((), self._inputs, interval_s)
        self._probes: Counter[str] = Counter()
        self._probes_skipped: Counter[str] = Counter()
        self._facts: dict[str, TopicFactsRead] = {}
        self._pipeline = PipelineBook(pipeline_fresh_s)
        self._baselines = BaselinesBook()
        self._notifications_failed: tuple[tuple[str, int], ...] = ()
        self._control = ControlRequestsCounted((), ())
        self._remedies: RemediationReported | None = None
        self._replica: ReplicaReported | None = None
        self._checks = RestConsistencyChecks(self._clusters)
        self._index_parts: IndexParts = {}
        self._joined: TupleMemo[SourcePartitionView] = TupleMemo()
        self._histories: TupleMemo[StateHistory] = TupleMemo()
        self._budget = ConnectorSeriesBudget(series.per_connector)
        self._series = TotalSeriesBudget(series)
        self._readiness = Readiness(
            self._clusters, self._inputs, self._replication, self._failover, self._sinks
        )
        self._connectors: Memo[tuple[ConnectorView, ...]] = Memo()
        self._layout: Memo[object] = Memo()
        self._remembered_clusters: dict[str, PersistedConnectCluster] = {}
        self._topology = Topology(offsets_topics=(), flows=())
        self._handlers: dict[type, Callable[[Any, float], None]] = {
            TailRead: self._apply_tail,
            InputSucceeded: _without_now(self._inputs.apply),
            InputFailed: _without_now(self._inputs.apply),
            InputRetired: _without_now(self._retire),
            LogEndsRequested: self._replication.request_log_ends,
            LogEndsRead: self._replication.apply_log_ends,
            ProbeRoundRead: _without_now(self._apply_probes),
            PartitionsAssigned: lambda assigned, now: self._replication.assign(
                assigned.connect_cluster,
                assigned.connector,
                assigned.partitions,
                now,
                tasks=assigned.tasks,
            ),
            AssignmentConfirmed: self._replication.confirm,
            SinkOffsetsRead: self._sinks.read,
            RestOffsetsRequested: self._checks.request,
            RestOffsetsRead: self._checks.read,
            OffsetsPolled: _without_now(self._apply_polled_offsets),
            GroupOffsetsRead: _without_now(self._failover.read),
            SourceEndRead: lambda read, _now: self._source_ends.read(read),
            TopicFactsRead: _without_now(self._apply_topic_facts),
            PipelineStatusRead: _without_now(self._pipeline.read),
            BaselinesRead: _without_now(self._baselines.read),
            NotificationsFailed: _without_now(self._replace_report),
            ControlRequestsCounted: _without_now(self._replace_report),
            RemediationReported: _without_now(self._replace_report),
            ReplicaReported: _without_now(self._replace_report),
            ConnectorsListed: self._apply_list,
            OffsetsTopicFound: self._apply_offsets_topic,
            OffsetsTopicLost: self._apply_offsets_topic,
            OffsetsTopicCompared: self._apply_offsets_topic,
            ListingTopicsFound: _without_now(self._apply_listing_topics),
            TopicsChecked: _without_now(self._failover.apply_topics),
            BrokerAddressesRead: self._apply_addresses,
        }
        self._rebuild_topology()

    # --- taking in -------------------------------------------------------------------------------

    def apply(self, observation: Observation, now: float) -> None:
        """Apply an observation that arrived at `now`; a discovery rebuilds the topology."""
        handler = self._handlers.get(type(observation))
        assert handler is not None, observation
        handler(observation, now)
        if isinstance(observation, Discovery):
            self._rebuild_topology()

    def watch_sources(self, sources: Iterable[SourceSettings]) -> None:
        """Set the sources whose ends are read, before the first observation."""
        self._source_ends = SourceEnds(sources, self._inputs, self._interval_s)

    @property
    def source_ends(self) -> SourceEnds:
        """Return the ends of the sources, which have a document of their own over a restart."""
        return self._source_ends

    def prepare(self) -> None:
        """Build views ahead of the next snapshot. It is never required."""
        for cluster in self._clusters.values():
            cluster.prepare()

    def _apply_tail(self, read: TailRead, now: float) -> None:
        self._inputs.of(read.input).read(read)
        listed_again = [cluster.apply(read, now) for cluster in self._clusters.values()]
        if any(listed_again):
            self._rebuild_topology()
        if read.listing_records():
            self._watch_checkpoint_tasks()
        self._replication.apply(read, now)
        self._failover.apply(read)

    def _watch_checkpoint_tasks(self) -> None:
        for cluster in self._clusters.values():
            if cluster.checkpoint_tasks_changed():
                self._replication.checkpoint_task_restarted(cluster.name)

    def _retire(self, retired: InputRetired) -> None:
        self._inputs.retire(retired.input)
        for cluster in self._clusters.values():
            cluster.retire(retired.input)
        self._replication.retire(retired.input)
        self._failover.retire(retired.input)

    def _apply_polled_offsets(self, polled: OffsetsPolled) -> None:
        self._sinks.polled(polled)
        self._clusters[polled.connect_cluster].polled(polled)

    def _apply_probes(self, probes: ProbeRoundRead) -> None:
        self._replication.apply_probes(probes)
        self._sinks.apply_probes(probes)
        self._probes.update(dict(probes.made))
        self._probes_skipped.update(dict(probes.skipped))

    def _apply_topic_facts(self, read: TopicFactsRead) -> None:
        self._facts[read.kafka] = read
        statuses = frozenset(
            topic.at
            for facts in self._facts.values()
            for topic in facts.facts
            if topic.role is InternalTopicRole.STATUS
        )
        changed = [cluster.find_status_topic(statuses) for cluster in self._clusters.values()]
        if any(changed):
            self._rebuild_topology()

    def _apply_list(self, answer: ConnectorsListed, now: float) -> None:
        elsewhere = frozenset(
            connector
            for name, cluster in self._clusters.items()
            if name != answer.connect_cluster
            for connector in cluster.runs
        )
        self._clusters[answer.connect_cluster].read_list(answer, now, elsewhere)

    def _apply_offsets_topic(
        self, discovery: OffsetsTopicFound | OffsetsTopicLost | OffsetsTopicCompared, now: float
    ) -> None:
        name = discovery.connect_cluster
        match discovery:
            case OffsetsTopicFound():
                self._clusters[name].set_offsets_topic(discovery.topic, now)
            case OffsetsTopicLost():
                self._clusters[name].set_offsets_topic(None, now)
                self._topic_doubts.pop(name, None)
            case OffsetsTopicCompared():
                self._topic_doubts[name] = discovery.doubt

    def _apply_listing_topics(self, listing: ListingTopicsFound) -> None:
        self._clusters[listing.topics.connect_cluster].listing_topics = listing.topics

    def _apply_addresses(self, read: BrokerAddressesRead, now: float) -> None:
        self._brokers.see(read.kafka, read.addresses, now)
        for cluster in self._clusters.values():
            if cluster.of.kafka == read.kafka and read.cluster_id is not None:
                cluster.identify_home(read.cluster_id)
        self._addresses = self._collect_addresses()

    def _collect_addresses(self) -> dict[str, frozenset[str]]:
        """Return the addresses of every Kafka cluster: the configured ones and its brokers'."""
        return {
            kafka: configured | self._brokers.of(kafka)
            for kafka, configured in self._configured.items()
        }

    def _replace_report(
        self, report: NotificationsFailed | ControlRequestsCounted | RemediationObservation
    ) -> None:
        match report:
            case NotificationsFailed():
                self._notifications_failed = report.counts
            case ControlRequestsCounted():
                self._control = report
            case RemediationReported():
                self._remedies = report
            case ReplicaReported():
                self._replica = report

    def _rebuild_topology(self) -> None:
        listed_flows: list[MirrorFlow] = []
        sinks: list[SinkGroup] = []
        for name, connect_state in self._clusters.items():
            connect_state.settle(self._addresses)
            if connect_state.listed is not None:
                listed_flows += build_mirror_flows(
                    name, connect_state.of.kafka, connect_state.listed, self._addresses
                )
                sinks += build_sink_groups(
                    name, connect_state.of.kafka, connect_state.listed, self._addresses
                )
        named = [
            flow
            for flow in self._named_flows
            if self._wants_connector[flow.connect_cluster](flow.connector)
        ]
        clusters = self._clusters.values()
        flows = merge_named_flows(named, listed_flows)
        if flows == self._topology.flows:
            flows = self._topology.flows  # the same objects, for what is built from them
        self._by_topic = frozenset(
            flow.connector_key for flow in flows if self._clusters[flow.connect_cluster].of.by_topic
        )
        self._failover.follow(flows)
        checkpoints, heartbeats = self._failover.topics()
        self._topology = Topology(
            offsets_topics=tuple(topic for cluster in clusters for topic in cluster.topics()),
            flows=flows,
            sinks=tuple(sinks),
            listings=tuple(
                cluster.listing_topics for cluster in clusters if cluster.listing_topics
            ),
            elsewhere=tuple(key for cluster in clusters for key in cluster.elsewhere()),
            statuses=tuple(topic for cluster in clusters for topic in cluster.status_topics()),
            checkpoints=checkpoints,
            heartbeats=heartbeats,
        )
        self._watch_checkpoint_tasks()
        self._replication.follow(self._topology.flows)
        self._sinks.follow(self._topology.sinks)
        for flow in self._topology.flows:
            connect_state = self._clusters[flow.connect_cluster]
            if not connect_state.of.rest:
                self._replication.assign(
                    flow.connect_cluster, flow.connector, connect_state.assigned(flow.connector)
                )

    # --- giving out ------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """Return a snapshot of all facts that are valid at `now`."""
        self._expire(now)
        self._settle_checks(now)
        by_rest = self._choose_stores(now)
        awaited = self._readiness.find_awaited_inputs(self._topology, now)
        clusters = self._clusters.values()
        sources = self._joined.of(tuple(cluster.views(now) for cluster in clusters))
        layout = self._layout.get(*(cluster.layout for cluster in clusters), make=object)
        mirrored = self._replication.views(now)
        connectors = {name: cluster.by_name for name, cluster in self._clusters.items()}
        source_names = self._source_ends.names(sources, connectors)
        within = self._budget.select(
            *(sources, layout, mirrored, self._topology.flows, self._by_topic),
            with_ends=source_names,
        )
        losses, recreations = self._replication.loss_report(now)
        # A copy: readers of an earlier snapshot go on to build parts of that one.
        self._index_parts = dict(self._index_parts)
        snapshot = Snapshot(
            at=now,
            inputs=self._inputs.views(now),
            connectors=self._connector_views(now),
            source_partitions=sources,
            mirror_partitions=mirrored,
            syncs=self._replication.sync_views(now),
            sink_partitions=self._sinks.views(now),
            dropped=(),
            topology=self._topology,
            ready=not awaited,
            waiting_for=tuple(awaited.values()),
            awaited=frozenset(awaited),
            topic_problems=find_present_problems(
                self._facts.values(), self._topology, self._find_foreign_writers(now), now
            ),
            by_topic=within.by_topic,
            not_exported=within.not_exported,
            partial=self._replication.partial(),
            outdated_assignments=self._replication.outdated_assignments(),
            assignment_doubts=self._replication.assignment_doubts(),
            pipeline=self._pipeline.view(now),
            baselines=self._baselines.view(now),
            losses=losses,
            recreations=recreations,
            histories=self._histories.of(tuple(cluster.histories(now) for cluster in clusters)),
            probes=tuple(sorted(self._probes.items())),
            probes_skipped=tuple(sorted(self._probes_skipped.items())),
            notifications_failed=self._notifications_failed,
            hooks_received=self._control.hooks,
            control_refused=self._control.refused,
            remedies=self._remedies,
            replica=self._replica,
            groups=self._failover.groups(now),
            groups_to_ask=self._failover.requests(),
            checkpoints=self._failover.checkpoints(now),
            heartbeats=self._failover.heartbeats(now),
            by_rest=by_rest,
            topic_doubts=dict(self._topic_doubts),
            rest_checks=self._checks.results,
            state_doubts={
                (cluster.name, name): doubt
                for cluster in clusters
                for name, doubt in cluster.state_doubts().items()
            },
            source_ends=self._source_ends.views(sources, connectors, now),
            source_names=source_names,
            source_requests=self._source_ends.requests(sources, connectors),
            lists=tuple(view for cluster in clusters if (view := cluster.list_view()) is not None),
            wants_connector=self._wants_connector,
            missing_topics=self._sinks.missing_topics(now),
            index_parts=self._index_parts,
        )
        listed = tuple((name, cluster.listed or ()) for name, cluster in self._clusters.items())
        beyond = self._series.left_out(snapshot, listed, layout)
        by_topic = within.by_topic
        for dropped in beyond:
            if dropped.group is SeriesGroup.PARTITIONS:
                by_topic |= {(cluster, connector) for cluster, connector in dropped.owners}
        return replace(
            snapshot,
            by_topic=by_topic,
            left_out=(*within.left_out, *beyond),
            dropped=self._dropped(),
        )

    # --- over a restart --------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """Return whether something was counted since `remembered` was last called."""
        return self._replication.losses.urgent

    def remembered(self) -> bytes | None:
        """Return the state that must survive a restart; None while nothing has changed."""
        clusters = {
            name: memory
            for name, cluster in self._clusters.items()
            if (memory := cluster.remembered(self._kafka_of(cluster))) is not None
        }
        losses = self._replication.losses
        if not losses.changed and clusters == self._remembered_clusters:
            return None
        self._remembered_clusters = clusters
        losses.forget_unused_topics()
        losses.changed = losses.urgent = False
        return encode_losses(losses, clusters)

    def recall(self, remembered: bytes) -> None:
        """Restore what another process saved. Raise ValueError for another document."""
        self._remembered_clusters = restore_losses(self._replication.losses, remembered)
        for name, memory in self._remembered_clusters.items():
            if name in self._clusters:
                self._clusters[name].recall(memory, self._kafka_of(self._clusters[name]))

    # --- details ---------------------------------------------------------------------------------

    def _kafka_of(self, cluster: ConnectClusterState) -> frozenset[str]:
        """Return the configured addresses of its Kafka cluster; empty without one."""
        return (
            frozenset()
            if cluster.of.kafka is None
            else self._configured.get(cluster.of.kafka, frozenset())
        )

    def _find_foreign_writers(self, now: float) -> Iterator[ForeignWriter]:
        """Yield the foreign writers of the offsets topics that are live."""
        connectors = {
            name: cluster.runs
            for name, cluster in self._clusters.items()
            if cluster.listed is not None
        }
        for topic in self._topology.offsets_topics:
            cluster = self._clusters[topic.connect_cluster]
            if cluster.listed is None or not cluster.sound(topic.at, now):
                continue
            writers = cluster.committing(topic.at, since=now - FOREIGN_COMMIT_RECENT_S)
            for foreign in writers - cluster.runs:
                for home, theirs in connectors.items():
                    if foreign in theirs:
                        yield ForeignWriter(at=topic.at, connector=foreign, home=home)

    def _expire(self, now: float) -> None:
        """Drop what is too old to be used of configurations and of brokers' addresses."""
        self._replication.expire(now)
        expired = [cluster.expire(now) for cluster in self._clusters.values()]
        addresses = self._addresses
        if self._brokers.expire(now):
            addresses = self._collect_addresses()
        if any(expired) or addresses != self._addresses:
            self._addresses = addresses
            self._rebuild_topology()

    def _choose_stores(self, now: float) -> tuple[RestConnector, ...]:
        clusters = self._clusters.values()
        for cluster in clusters:
            cluster.choose_stores(now)
        self._sinks.choose_stores()
        sources = [connector for cluster in clusters for connector in cluster.rest_connectors()]
        return (*sources, *self._sinks.by_rest)

    def _settle_checks(self, now: float) -> None:
        """Count the REST offsets that the tail did not confirm within their time."""
        for check in self._checks.settle(now):
            state = self._inputs.of(InputId(CONNECT_REST, connect_cluster=check.connect_cluster))
            state.errors["offsets_differ"] += 1
            state.last_error = (
                f"REST and topic disagree on {check.connector} {check.identity}: "
                f"REST says {check.text}"
            )

    def _dropped(self) -> tuple[tuple[str, int], ...]:
        dropped = Counter(self._budget.dropped())
        dropped.update(self._series.dropped())
        dropped.update(self._replication.dropped())
        dropped.update(self._failover.dropped())
        for cluster in self._clusters.values():
            dropped.update(cluster.dropped())
        return tuple(sorted(dropped.items()))

    def _connector_views(self, now: float) -> tuple[ConnectorView, ...]:
        """Return the views of all connectors; the same tuple while no cluster has another list."""
        clusters = self._clusters.values()
        lists = [(cluster.listing_live(now) and cluster.listed) or () for cluster in clusters]
        return self._connectors.get(
            *lists,
            make=lambda: tuple(
                ConnectorView(
                    connect_cluster=cluster.name,
                    name=connector.name,
                    kind=connector.kind,
                    class_name=connector.class_name,
                    version=connector.version,
                    state=connector.state,
                    tasks=connector.tasks,
                    dedicated_offsets_topic=connector.dedicated_offsets_topic,
                    failure=connector.failure,
                )
                for cluster, connectors in zip(clusters, lists, strict=True)
                for connector in connectors
            ),
        )


def _without_now(apply: Callable[[Any], None]) -> Callable[[Any, float], None]:
    return lambda observation, _now: apply(observation)
