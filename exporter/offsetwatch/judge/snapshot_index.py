"""Index of one snapshot for the rules: its parts by connector, and which inputs are unavailable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Final, Protocol, TypeVar

from offsetwatch.judge.findings.incarnations import SnapshotFreshness
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.connect.connectors import ConnectorKind, StateChange
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import CONNECT_REST, GROUPS, InputId, build_rest_offsets_input
from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.failover.groups import build_groups_input
from offsetwatch.state.mirror.mm2_names import locate_checkpoints
from offsetwatch.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    Snapshot,
    SourcePartitionView,
    SyncView,
)

ConnectorKey = tuple[str, str]  # Connect cluster, connector

_PAUSE_STATES: Final = frozenset({"stopped", "paused"})


class _SupportsConnectorKey(Protocol):
    @property
    def connect_cluster(self) -> str: ...
    @property
    def connector(self) -> str: ...


T = TypeVar("T", bound=_SupportsConnectorKey)


class SnapshotIndex:
    """Index of one snapshot by connector.

    listed     connectors of each Connect cluster that lists them now
    marked     source partitions with a condition that does not come from the connector itself
    hidden     connectors whose verdict is unknown because an input is unavailable

    Parts that are the same objects as in the index `before` are taken from there.
    """

    def __init__(self, snapshot: Snapshot, before: SnapshotIndex | None = None) -> None:
        self.snapshot = snapshot
        self.sight = InputVisibility(snapshot)
        self.connectors: dict[ConnectorKey, ConnectorView] = self.sight.connectors
        self.listed = self._lists()
        self.flows: dict[ConnectorKey, MirrorFlow] = self.sight.flows
        self.inputs = {view.id: view for view in snapshot.inputs}
        self.sources: dict[ConnectorKey, list[SourcePartitionView]]
        self.marked: dict[ConnectorKey, list[SourcePartitionView]]
        self.mirrors: dict[ConnectorKey, list[MirrorPartitionView]]
        if before is not None and before.snapshot.source_partitions is snapshot.source_partitions:
            self.sources, self.marked = before.sources, before.marked
        else:
            self.sources = _group_by_connector(snapshot.source_partitions)
            self.marked = _group_by_connector(filter(_is_marked, snapshot.source_partitions))
        if before is not None and before.snapshot.mirror_partitions is snapshot.mirror_partitions:
            self.mirrors = before.mirrors
        else:
            self.mirrors = _group_by_connector(snapshot.mirror_partitions)
        self.sinks = _group_by_connector(snapshot.sink_partitions)
        self.by_verdict: dict[tuple[Scope, Verdict], list[Judgement]]
        self.hidden: frozenset[ConnectorKey]
        if before is not None and before.snapshot.judgements is snapshot.judgements:
            self.by_verdict, self.hidden = before.by_verdict, before.hidden
        else:
            self.by_verdict = _group_by_verdict(snapshot.judgements)
            self.hidden = frozenset(
                (judged.connect_cluster, judged.connector)
                for judged in snapshot.judgements
                if judged.scope is Scope.CONNECTOR and judged.rule == UNAVAILABLE_INPUT_RULE
            )
        self.newest_syncs: dict[str, dict[tuple[str, str, str, int], SyncView]] = {}
        if before is not None and before.snapshot.syncs is snapshot.syncs:
            self.newest_syncs = before.newest_syncs
        else:
            for sync in snapshot.syncs:
                of = (sync.source, sync.target, sync.topic, sync.partition)
                self.newest_syncs.setdefault(sync.connect_cluster, {})[of] = sync
        self._flows_of = Counter(flow.offset_syncs for flow in snapshot.topology.flows)

    def _lists(self) -> dict[str, frozenset[str]]:
        topology = self.snapshot.topology
        clusters = {listing.connect_cluster for listing in topology.listings}
        inputs = self.snapshot.inputs
        clusters |= {view.id.connect_cluster for view in inputs if view.id.kind == CONNECT_REST}
        names: dict[str, set[str]] = {
            cluster: set() for cluster in clusters if self.sight.states_of(cluster)[0]
        }
        for cluster, name in self.connectors:
            if cluster in names:
                names[cluster].add(name)
        return {cluster: frozenset(found) for cluster, found in names.items()}

    def read(self) -> SnapshotFreshness:
        """Return how current the lists of connectors and the offsets topics are."""
        listed_at = {cluster: self._listed_at(cluster) for cluster in self.listed}
        topics = {offsets_topic.at for offsets_topic in self.snapshot.topology.offsets_topics}
        return SnapshotFreshness(
            listed_at={
                cluster: moment for cluster, moment in listed_at.items() if moment is not None
            },
            positions={
                str(topic): dict(view.tail.positions)
                for topic in topics
                if (view := self.inputs.get(InputId.of_tail(topic))) is not None
                and view.tail is not None
            },
            topic_of=self.sight.offsets_topic,
        )

    def _listed_at(self, cluster: str) -> float | None:
        rest = self.inputs.get(InputId(CONNECT_REST, connect_cluster=cluster))
        if rest is not None:
            return rest.last_success_at
        topics = {
            topic
            for listing in self.snapshot.topology.listings
            if listing.connect_cluster == cluster
            for topic in listing.topics()
        }
        tails = [self.inputs.get(InputId.of_tail(topic)) for topic in topics]
        moments = [None if view is None else view.last_success_at for view in tails]
        return min((moment for moment in moments if moment is not None), default=None)

    def syncs(self, cluster: str) -> dict[tuple[str, str, str, int], SyncView]:
        """Return the newest offset syncs of a Connect cluster by aliases, topic and partition."""
        return self.newest_syncs.get(cluster, {})

    def has_own_syncs(self, flow: MirrorFlow) -> bool:
        """Check whether no other known flow writes to the offset-syncs topic of this flow."""
        return flow.offset_syncs is not None and self._flows_of[flow.offset_syncs] == 1

    def rests(self) -> dict[ConnectorKey, float]:
        """Return the connectors that an operator stopped or paused, and when that ended.

        An operator may have written the offsets that were committed before that time. The time is
        inf for a connector that is paused or stopped now, by the newest record on it.
        """
        found = {key: inf for key, view in self.connectors.items() if view.state in _PAUSE_STATES}
        for history in self.snapshot.histories:
            if history.task is None:
                key = (history.connect_cluster, history.connector)
                # A status topic is followed; the states were polled a while ago.
                found[key] = _find_pause_end(history.changes)
        return found

    def judged(self, scope: Scope, verdict: Verdict) -> Sequence[Judgement]:
        """Return the judgements of this scope with this verdict."""
        return self.by_verdict.get((scope, verdict), ())

    def rewound(self) -> set[ConnectorKey]:
        """Return the connectors with a partition whose verdict is rewound."""
        return {
            (judged.connect_cluster, judged.connector)
            for scope in Scope
            for judged in self.judged(scope, Verdict.REWOUND)
        }

    def is_sink(self, key: ConnectorKey) -> bool:
        """Check whether a connector is a sink."""
        view = self.connectors.get(key)
        return view is not None and view.kind is ConnectorKind.SINK

    def positions(self, wanted: Iterable[ConnectorKey]) -> dict[ConnectorKey, dict[str, str]]:
        """Return the committed positions of these connectors, by partition.

        Connectors whose positions cannot be read now are left out.
        """
        return {key: self._positions(key) for key in wanted if not self.blind(key)}

    def _positions(self, key: ConnectorKey) -> dict[str, str]:
        if self.is_sink(key):
            return {
                f"{sink.topic}-{sink.partition}": str(sink.committed)
                for sink in self.sinks.get(key, ())
            }
        if key in self.mirrors:
            return {
                f"{mirror.topic}-{mirror.partition}": str(mirror.replicated)
                for mirror in sorted(self.mirrors[key], key=lambda partition: -(partition.lag or 0))
            }
        return {
            source.label: source.offset.text
            for source in self.sources.get(key, ())
            if source.offset is not None
        }

    def blind(self, key: ConnectorKey) -> bool:
        """Check whether an input that this connector's progress depends on is unavailable."""
        cluster, connector = key
        if self.sight.absent(cluster, connector, sink=self.is_sink(key)) is not None:
            return True
        return self.sight.unmirrored(cluster, connector) is not None

    def blind_to_state(self, key: ConnectorKey) -> bool:
        """Check whether the state of a connector is unavailable although an input could report it.

        A key without a connector stands for the states of the whole Connect cluster.
        """
        if not key[1]:
            return self.sight.states_of(key[0])[1] is not None
        return self.sight.state_of(*key) is not None

    def believed(self) -> dict[str, frozenset[str]]:
        """Return those of `listed` whose missing connectors count as deleted."""
        return {
            name: names for name, names in self.listed.items() if self.sight.believes_list(name)
        }

    def blind_to_ends(self, kafka: str | None) -> bool:
        """Check whether the log ends of a Kafka cluster are unavailable."""
        return kafka is not None and self.sight.endless(kafka) is not None

    def blind_to_groups(self, cluster: str) -> bool:
        """Check whether the groups of this Connect cluster's sinks are unavailable."""
        polled = [
            rest_connector
            for rest_connector in self.snapshot.by_rest
            if rest_connector.sink and rest_connector.connect_cluster == cluster
        ]
        inputs = [InputId(GROUPS, connect_cluster=cluster)]
        inputs += [
            build_rest_offsets_input(cluster, rest_connector.connector) for rest_connector in polled
        ]
        return any(
            (view := self.inputs.get(input_id)) is not None and not view.live for input_id in inputs
        )

    def blind_to_failover(self, flow: MirrorFlow) -> bool:
        """Check whether an input of a flow's failover cost is unavailable.

        These inputs are its offset syncs, its checkpoints and its consumer groups.
        """
        topics = (flow.offset_syncs, locate_checkpoints(flow))
        view = self.inputs.get(build_groups_input(flow.key))
        groupless = view is not None and not view.live
        return groupless or any(
            topic is not None and self.blind_to_topic(topic) for topic in topics
        )

    def blind_to_topic(self, topic: KafkaTopic) -> bool:
        """Check whether a topic that is followed is unavailable."""
        view = self.inputs.get(InputId.of_tail(topic))
        return view is not None and not view.live


def _is_marked(view: SourcePartitionView) -> bool:
    odd = view.shadow is not None or view.variants > 0 or view.poisoned
    return odd or view.restarted is not None


def _find_pause_end(changes: tuple[StateChange, ...]) -> float:
    if changes[-1].state in _PAUSE_STATES:
        return inf
    ends = (
        after.at for state_change, after in pairwise(changes) if state_change.state in _PAUSE_STATES
    )
    return max(ends, default=0.0)


def _group_by_verdict(
    judgements: Iterable[Judgement],
) -> dict[tuple[Scope, Verdict], list[Judgement]]:
    found: dict[tuple[Scope, Verdict], list[Judgement]] = {}
    for judged in judgements:
        found.setdefault((judged.scope, judged.verdict), []).append(judged)
    return found


def _group_by_connector(views: Iterable[T]) -> dict[ConnectorKey, list[T]]:
    found: dict[ConnectorKey, list[T]] = {}
    for view in views:
        found.setdefault((view.connect_cluster, view.connector), []).append(view)
    return found
