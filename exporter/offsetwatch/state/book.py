"""Book of all current facts, from which snapshots are made. The only mutable object of the core.

One thread owns it (loop.py). `apply` takes observations in the order in which they were made.
`snapshot` leaves out everything whose input is stale or not caught up, so that no old value is
shown as current.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import is_

from offsetwatch.model.connect.connectors import Connector, StateHistory
from offsetwatch.model.log_readings import LogEndsRead, LogEndsRequested, ProbeRoundRead
from offsetwatch.model.observations import (
    CONNECT_REST,
    AssignmentConfirmed,
    BaselinesRead,
    BrokerAddressesRead,
    ConnectorsListed,
    ControlRequestsCounted,
    GroupOffsetsRead,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    ListingTopicsFound,
    NotificationsFailed,
    Observation,
    OffsetsPolled,
    OffsetsTopicCompared,
    OffsetsTopicFound,
    OffsetsTopicLost,
    PartitionsAssigned,
    PipelineStatusRead,
    RestOffsetsRead,
    RestOffsetsRequested,
    SinkOffsetsRead,
    TailRead,
    TopicFactsRead,
    TopicsChecked,
)
from offsetwatch.model.remediation import RemediationReported, ReplicaReported
from offsetwatch.model.series_limits import DroppedSeries, SeriesGroup
from offsetwatch.model.topology import InternalTopicRole, MirrorFlow, SinkGroup, Topology
from offsetwatch.state.baseline_view import BaselinesBook
from offsetwatch.state.budgets.connector_series import ConnectorSeriesBudget
from offsetwatch.state.budgets.total_series import (
    UNLIMITED_SERIES,
    ClusterConnectors,
    SeriesLimits,
    TotalSeriesBudget,
)
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings, ConnectClusterState
from offsetwatch.state.connect.rest_consistency import RestConsistencyChecks
from offsetwatch.state.connect.sinks import Sinks
from offsetwatch.state.failover.groups import FailoverGroups
from offsetwatch.state.history_pipeline import PipelineBook
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.internal_topic_facts import InternalTopicFacts
from offsetwatch.state.mirror.flows import (
    BrokerAddresses,
    build_mirror_flows,
    build_sink_groups,
    merge_named_flows,
)
from offsetwatch.state.mirror.replication import Replication
from offsetwatch.state.readiness import Readiness
from offsetwatch.state.snapshot import ConnectorView, RestConnector, Snapshot, SourcePartitionView
from offsetwatch.state.snapshot_index import IndexParts
from offsetwatch.state.tuple_memo import TupleMemo


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
        sites: tuple[ConnectClusterSettings, ...],
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
        self._sites = {
            cluster.name: ConnectClusterState(
                cluster, self._inputs, source_partitions_max, interval_s
            )
            for cluster in sites
        }
        self._wants_connector = {cluster.name: cluster.wants_connector for cluster in sites}
        self._topic_doubts: dict[str, str | None] = {}
        self._named_flows = flows
        self._replication = Replication(self._sites, self._inputs, interval_s)
        self._failover = FailoverGroups(
            self._inputs,
            self._replication,
            lambda site, topic: self._sites[site].of.wants_topic(topic),
        )
        self._sinks = Sinks(self._sites, self._inputs)
        self._probes: Counter[str] = Counter()
        self._probes_skipped: Counter[str] = Counter()
        self._facts = InternalTopicFacts(self._sites)
        self._pipeline = PipelineBook(pipeline_fresh_s)
        self._usual = BaselinesBook()
        self._notifications_failed: tuple[tuple[str, int], ...] = ()
        self._control = ControlRequestsCounted((), ())
        self._remedies: RemediationReported | None = None
        self._replica: ReplicaReported | None = None
        self._checks = RestConsistencyChecks(self._sites)
        self._index_parts: IndexParts = {}
        self._joined: TupleMemo[SourcePartitionView] = TupleMemo()
        self._histories: TupleMemo[StateHistory] = TupleMemo()
        self._budget = ConnectorSeriesBudget(series.per_connector)
        self._series = TotalSeriesBudget(series)
        self._readiness = Readiness(
            self._sites, self._inputs, self._replication, self._failover, self._sinks
        )
        self._connectors: tuple[list[tuple[Connector, ...]], tuple[ConnectorView, ...]] = ([], ())
        self._rebuild_topology()

    # --- taking in -------------------------------------------------------------------------------

    def apply(self, seen: Observation, now: float) -> None:
        """Apply one observation."""
        match seen:
            case TailRead():
                self._apply_tail(seen, now)
            case InputSucceeded() | InputFailed() | InputRetired():
                self._inputs.apply(seen)
                if isinstance(seen, InputRetired):
                    for cluster in self._sites.values():
                        cluster.retire(seen.input)
            case LogEndsRequested() | LogEndsRead() | ProbeRoundRead():
                self._apply_ends(seen, now)
            case SinkOffsetsRead():
                self._sinks.read(seen, now)
            case RestOffsetsRequested() | RestOffsetsRead() | OffsetsPolled():
                self._apply_rest_offsets(seen, now)
            case TopicFactsRead() | PipelineStatusRead() | BaselinesRead() | GroupOffsetsRead():
                self._apply_aside(seen)
            case (
                NotificationsFailed()
                | ControlRequestsCounted()
                | RemediationReported()
                | ReplicaReported()
            ):
                self._apply_aside(seen)
            case PartitionsAssigned() | AssignmentConfirmed():
                self._apply_assignment(seen, now)
            case _:
                self._apply_discovery(seen, now)

    def _apply_rest_offsets(
        self, seen: RestOffsetsRequested | RestOffsetsRead | OffsetsPolled, now: float
    ) -> None:
        match seen:
            case RestOffsetsRequested():
                self._checks.asked(seen, now)
            case RestOffsetsRead():
                self._checks.read(seen, now)
            case OffsetsPolled():
                self._sinks.polled(seen)
                self._sites[seen.connect_cluster].polled(seen)

    def prepare(self) -> None:
        """Build views ahead of the next snapshot.

        It may be called at any time, and is never required.
        """
        for cluster in self._sites.values():
            cluster.prepare()

    def _apply_aside(
        self,
        seen: TopicFactsRead
        | PipelineStatusRead
        | BaselinesRead
        | NotificationsFailed
        | ControlRequestsCounted
        | RemediationReported
        | ReplicaReported
        | GroupOffsetsRead,
    ) -> None:
        """Apply an observation that no other state depends on."""
        match seen:
            case TopicFactsRead():
                self._facts.read(seen)
                self._find_status_topics()
            case PipelineStatusRead():
                self._pipeline.read(seen)
            case BaselinesRead():
                self._usual.read(seen)
            case NotificationsFailed():
                self._notifications_failed = seen.counts
            case ControlRequestsCounted():
                self._control = seen
            case RemediationReported():
                self._remedies = seen
            case ReplicaReported():
                self._replica = seen
            case GroupOffsetsRead():
                self._failover.read(seen)

    def _find_status_topics(self) -> None:
        beside = self._facts.topics(InternalTopicRole.STATUS)
        changed = [cluster.found_status(beside) for cluster in self._sites.values()]
        if any(changed):
            self._rebuild_topology()

    def _read_list(self, connectors_listed: ConnectorsListed, now: float) -> None:
        others = [
            cluster.runs
            for name, cluster in self._sites.items()
            if name != connectors_listed.connect_cluster
        ]
        elsewhere = frozenset(name for runs in others for name in runs)
        self._sites[connectors_listed.connect_cluster].read_list(connectors_listed, now, elsewhere)

    def _apply_discovery(self, seen: Observation, now: float) -> None:
        """Apply an observation that may change the topology, and rebuild that."""
        match seen:
            case ConnectorsListed():
                self._read_list(seen, now)
            case OffsetsTopicFound():
                self._sites[seen.connect_cluster].home = seen.topic
            case OffsetsTopicLost():
                self._sites[seen.connect_cluster].home = None
                self._topic_doubts.pop(seen.connect_cluster, None)
            case OffsetsTopicCompared():
                self._topic_doubts[seen.connect_cluster] = seen.doubt
            case ListingTopicsFound():
                self._sites[seen.topics.connect_cluster].listing_topics = seen.topics
            case TopicsChecked():
                self._failover.topics_seen(seen)
            case BrokerAddressesRead():
                self._brokers.see(seen.kafka, seen.addresses, now)
                self._addresses = {
                    kafka: configured | self._brokers.of(kafka)
                    for kafka, configured in self._configured.items()
                }
            case _:
                raise AssertionError(seen)
        self._rebuild_topology()

    def _apply_assignment(self, seen: PartitionsAssigned | AssignmentConfirmed, now: float) -> None:
        of = (seen.connect_cluster, seen.connector)
        if isinstance(seen, AssignmentConfirmed):
            self._replication.confirm(*of, now)
        else:
            self._replication.assign(*of, seen.partitions, now)

    def _apply_ends(
        self, seen: LogEndsRequested | LogEndsRead | ProbeRoundRead, now: float
    ) -> None:
        """Apply log ends, and the results of probes."""
        match seen:
            case LogEndsRequested():
                self._replication.ends_asked(seen, now)
            case LogEndsRead():
                self._replication.ends_read(seen, now)
            case ProbeRoundRead():
                self._replication.probed(seen)
                self._sinks.probed(seen)
                self._probes.update(dict(seen.made))
                self._probes_skipped.update(dict(seen.skipped))

    def _apply_tail(self, read: TailRead, now: float) -> None:
        self._inputs.of(read.input).read(read)
        relisted = [cluster.apply(read, now) for cluster in self._sites.values()]
        if any(relisted):
            self._rebuild_topology()
        if read.listing_records():
            self._watch_checkpoint_tasks()
        self._replication.apply(read, now)
        self._failover.apply(read)

    def _watch_checkpoint_tasks(self) -> None:
        for cluster in self._sites.values():
            if cluster.checkpoint_tasks_changed():
                self._replication.checkpoint_task_restarted(cluster.name)

    def _rebuild_topology(self) -> None:
        found: list[MirrorFlow] = []
        sinks: list[SinkGroup] = []
        for name, site in sorted(self._sites.items()):
            site.settle(self._addresses)
            if site.listed is None:
                continue
            found.extend(build_mirror_flows(name, site.of.kafka, site.listed, self._addresses))
            sinks.extend(build_sink_groups(name, site.of.kafka, site.listed, self._addresses))
        wanted = [
            flow
            for flow in self._named_flows
            if self._sites[flow.connect_cluster].of.wants_connector(flow.connector)
        ]
        sites = [cluster for _, cluster in sorted(self._sites.items())]
        flows = merge_named_flows(wanted, found)
        self._failover.follow(flows)
        checkpoints, heartbeats = self._failover.topics()
        self._topology = Topology(
            offsets_topics=tuple(topic for cluster in sites for topic in cluster.topics()),
            flows=flows,
            sinks=tuple(sinks),
            listings=tuple(cluster.listing_topics for cluster in sites if cluster.listing_topics),
            elsewhere=tuple(key for cluster in sites for key in cluster.elsewhere()),
            statuses=tuple(
                status_topic for cluster in sites for status_topic in cluster.status_topics()
            ),
            checkpoints=checkpoints,
            heartbeats=heartbeats,
        )
        self._watch_checkpoint_tasks()
        self._replication.follow(self._topology.flows)
        self._sinks.follow(self._topology.sinks)
        for flow in self._topology.flows:
            site = self._sites[flow.connect_cluster]
            if not site.of.rest:
                told = site.assigned(flow.connector)
                self._replication.assign(flow.connect_cluster, flow.connector, told)

    # --- giving out ------------------------------------------------------------------------------

    def snapshot(self, now: float) -> Snapshot:
        """Return a snapshot of all facts that are valid at `now`."""
        self._settle_checks(now)
        by_rest = self._choose_stores(now)
        waiting_for = self._readiness.waiting_for(self._topology, now)
        sites = [cluster for _, cluster in sorted(self._sites.items())]
        sources = self._joined.of(tuple(cluster.views(now) for cluster in sites))
        layout = tuple(cluster.layout for cluster in sites)
        by_topic = frozenset(
            (flow.connect_cluster, flow.connector)
            for flow in self._topology.flows
            if self._sites[flow.connect_cluster].of.by_topic
        )
        mirrored = self._replication.views(now)
        within = self._budget.within(sources, layout, mirrored, self._topology.flows, by_topic)
        losses, recreations = self._replication.fates(now)
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
            ready=not waiting_for,
            waiting_for=waiting_for,
            topic_problems=self._facts.problems(now, self._topology),
            by_topic=within.by_topic,
            not_exported=within.not_exported,
            partial=self._replication.partial(),
            pipeline=self._pipeline.view(now),
            usual=self._usual.view(now),
            losses=losses,
            recreations=recreations,
            histories=self._histories.of(tuple(cluster.histories(now) for cluster in sites)),
            probes=tuple(sorted(self._probes.items())),
            probes_skipped=tuple(sorted(self._probes_skipped.items())),
            notifications_failed=self._notifications_failed,
            hooks_received=self._control.hooks,
            control_refused=self._control.refused,
            remedies=self._remedies,
            replica=self._replica,
            groups=self._failover.groups(now),
            groups_to_ask=self._failover.to_ask(),
            checkpoints=self._failover.checkpoints(now),
            heartbeats=self._failover.heartbeats(now),
            by_rest=by_rest,
            topic_doubts=dict(self._topic_doubts),
            rest_checks=self._checks.views(),
            lists=tuple(view for cluster in sites if (view := cluster.list_view()) is not None),
            wants_connector=self._wants_connector,
            index_parts=self._index_parts,
        )
        return self._bounded(snapshot, within.left_out, layout)

    def _bounded(
        self,
        snapshot: Snapshot,
        left_out: tuple[DroppedSeries, ...],
        layout: tuple[object, ...],
    ) -> Snapshot:
        """Return the snapshot reduced by `series_max`, with the counts of dropped entries."""
        listed = tuple(
            ClusterConnectors(name, connect_cluster.listed or ())
            for name, connect_cluster in sorted(self._sites.items())
        )
        beyond = self._series.left_out(snapshot, listed, layout)
        by_topic = snapshot.by_topic
        for dropped_series in beyond:
            if dropped_series.group is SeriesGroup.PARTITIONS:
                by_topic |= {(cluster, connector) for cluster, connector in dropped_series.owners}
        return replace(
            snapshot,
            by_topic=by_topic,
            left_out=(*left_out, *beyond),
            dropped=self._dropped(),
        )

    # --- over a restart --------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """Return whether something was counted since `remembered` was last called."""
        return self._replication.looks.fates.urgent

    def remembered(self) -> bytes | None:
        """Return the state that must survive a restart; None while nothing has changed."""
        return self._replication.looks.remembered(
            {
                name: memory
                for name, cluster in self._sites.items()
                if (memory := cluster.remembered(self._kafka_of(cluster))) is not None
            }
        )

    def recall(self, remembered: bytes) -> None:
        """Restore what another process saved.

        Raises ValueError for a document that no `remembered` returned.
        """
        for name, memory in self._replication.looks.recall(remembered).items():
            if name in self._sites:
                self._sites[name].recall(memory, self._kafka_of(self._sites[name]))

    # --- details ---------------------------------------------------------------------------------

    def _kafka_of(self, cluster: ConnectClusterState) -> frozenset[str]:
        """Return the configured addresses of its Kafka cluster; empty without one."""
        return (
            frozenset()
            if cluster.of.kafka is None
            else self._configured.get(cluster.of.kafka, frozenset())
        )

    def _choose_stores(self, now: float) -> tuple[RestConnector, ...]:
        sites = [cluster for _, cluster in sorted(self._sites.items())]
        for cluster in sites:
            cluster.choose_stores(now)
        self._sinks.choose_stores()
        sources = [
            rest_connector for cluster in sites for rest_connector in cluster.rest_connectors()
        ]
        return (*sources, *self._sinks.by_rest())

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
        for cluster in self._sites.values():
            dropped.update(cluster.dropped())
        return tuple(sorted(dropped.items()))

    def _connector_views(self, now: float) -> tuple[ConnectorView, ...]:
        """Return the views of all connectors; the same tuple while no cluster has another list."""
        sites = [cluster for _, cluster in sorted(self._sites.items())]
        lists = [(cluster.listing_live(now) and cluster.listed) or () for cluster in sites]
        before, views = self._connectors
        if len(before) != len(lists) or not all(map(is_, before, lists)):
            views = self._made_connector_views(zip(sites, lists, strict=True))
            self._connectors = (lists, views)
        return views

    @staticmethod
    def _made_connector_views(
        lists: Iterable[tuple[ConnectClusterState, tuple[Connector, ...]]],
    ) -> tuple[ConnectorView, ...]:
        return tuple(
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
            for cluster, connectors in lists
            for connector in connectors
        )
