"""Index of one snapshot: its views by Connect cluster, connector and other keys.

A part is built when it is first read. Later snapshots take it over for as long as they hold the
same views, so that nothing is built twice for the readers of one snapshot, or for one that changed
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from offsetwatch.model.connectors import StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import InputId
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, OffsetsTopic

if TYPE_CHECKING:
    from offsetwatch.state.snapshot import (
        ConnectorListView,
        ConnectorView,
        InputView,
        Snapshot,
        SourceEndView,
        SourcePartitionView,
        SyncView,
    )

ConnectorKey = tuple[str, str]  # Connect cluster, connector
PartitionKey = tuple[str, str, str]  # with the identity of the source partition
SyncKey = tuple[str, str, str, int]  # aliases of source and target, topic, partition
IndexParts = dict[str, tuple[object, Any]]  # part -> the views that it was built from, and itself


class _ConnectorPart(Protocol):
    @property
    def connect_cluster(self) -> str: ...
    @property
    def connector(self) -> str: ...


_Views = TypeVar("_Views")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item", bound=_ConnectorPart)


class _Part(Generic[_Views, _Result]):
    """Part of an index: what is built of the views that `select` returns, while they are the same.

    Two threads may both build it; either result is right.
    """

    def __init__(
        self, select: Callable[[Snapshot], _Views], build: Callable[[_Views], _Result]
    ) -> None:
        self._select = select
        self._build = build

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, index: SnapshotIndex, owner: type) -> _Result:
        views = self._select(index.snapshot)
        known = index.parts.get(self._name)
        if known is None or known[0] is not views:
            known = index.parts[self._name] = (views, self._build(views))
        result: _Result = known[1]
        return result


def _by_connector(items: Iterable[_Item]) -> Mapping[ConnectorKey, _Item]:
    return {(item.connect_cluster, item.connector): item for item in items}


def _group_by_connector(items: Iterable[_Item]) -> Mapping[ConnectorKey, Sequence[_Item]]:
    grouped: dict[ConnectorKey, list[_Item]] = {}
    for item in items:
        grouped.setdefault((item.connect_cluster, item.connector), []).append(item)
    return grouped


def _inputs_by_id(views: tuple[InputView, ...]) -> Mapping[InputId, InputView]:
    return {view.id: view for view in views}


def _by_cluster(views: tuple[ConnectorListView, ...]) -> Mapping[str, ConnectorListView]:
    return {view.connect_cluster: view for view in views}


def _by_owner(
    topics: tuple[OffsetsTopic, ...],
) -> Mapping[tuple[str, str | None], KafkaTopic]:
    return {(topic.connect_cluster, topic.connector): topic.at for topic in topics}


def _by_task(
    histories: tuple[StateHistory, ...],
) -> Mapping[tuple[str, str, int | None], StateHistory]:
    return {
        (history.connect_cluster, history.connector, history.task): history for history in histories
    }


def _count_by_syncs(flows: tuple[MirrorFlow, ...]) -> Counter[KafkaTopic | None]:
    return Counter(flow.offset_syncs for flow in flows)


def _by_name(views: tuple[ConnectorView, ...]) -> Mapping[ConnectorKey, ConnectorView]:
    return {(view.connect_cluster, view.name): view for view in views}


def _find_failed(views: tuple[ConnectorView, ...]) -> frozenset[ConnectorKey]:
    return frozenset(
        (view.connect_cluster, view.name)
        for view in views
        if view.state == "failed" or any(task.state == "failed" for task in view.tasks)
    )


def _find_stuck(judgements: tuple[Judgement, ...]) -> frozenset[ConnectorKey]:
    return frozenset(
        (judgement.connect_cluster, judgement.connector)
        for judgement in judgements
        if judgement.scope is Scope.CONNECTOR
        and judgement.verdict in {Verdict.STALLED, Verdict.SILENT}
    )


def _group_by_verdict(
    judgements: tuple[Judgement, ...],
) -> Mapping[tuple[Scope, Verdict], Sequence[Judgement]]:
    grouped: dict[tuple[Scope, Verdict], list[Judgement]] = {}
    for judgement in judgements:
        grouped.setdefault((judgement.scope, judgement.verdict), []).append(judgement)
    return grouped


def _group_syncs(syncs: tuple[SyncView, ...]) -> Mapping[str, Mapping[SyncKey, SyncView]]:
    grouped: dict[str, dict[SyncKey, SyncView]] = {}
    for sync in syncs:
        key = (sync.source, sync.target, sync.topic, sync.partition)
        grouped.setdefault(sync.connect_cluster, {})[key] = sync
    return grouped


def _select_odd(
    views: tuple[SourcePartitionView, ...],
) -> Mapping[ConnectorKey, Sequence[SourcePartitionView]]:
    return _group_by_connector(
        view
        for view in views
        if view.shadow is not None
        or view.variants > 0
        or view.poisoned
        or view.restarted is not None
    )


def _by_partition(views: tuple[SourceEndView, ...]) -> Mapping[PartitionKey, SourceEndView]:
    return {(view.connect_cluster, view.connector, view.identity): view for view in views}


class SnapshotIndex:
    """Index of one snapshot, by `Snapshot.index`. Its parts are shared: never change them.

    connectors      the connectors that Connect lists
    lists           how far the lists of connectors can be believed, by Connect cluster
    flows           the flows of MirrorSourceConnectors
    offsets_topics  by Connect cluster, and connector or None for the shared one
    rest_connectors     the connectors whose offsets are polled over REST
    histories       state changes by Connect cluster, connector, and task or None
    odd_source_partitions   those with a condition that does not come from the connector itself
    source_ends     source partitions against the ends of their sources, by partition
    syncs           the newest offset syncs of each Connect cluster
    """

    def __init__(self, snapshot: Snapshot, parts: IndexParts) -> None:
        self.snapshot = snapshot
        self.parts = parts

    inputs = _Part(lambda snapshot: snapshot.inputs, _inputs_by_id)
    connectors = _Part(lambda snapshot: snapshot.connectors, _by_name)
    lists = _Part(lambda snapshot: snapshot.lists, _by_cluster)
    flows = _Part(lambda snapshot: snapshot.topology.flows, _by_connector)
    sink_groups = _Part(lambda snapshot: snapshot.topology.sinks, _by_connector)
    offsets_topics = _Part(lambda snapshot: snapshot.topology.offsets_topics, _by_owner)
    rest_connectors = _Part(lambda snapshot: snapshot.by_rest, _by_connector)
    histories = _Part(lambda snapshot: snapshot.histories, _by_task)
    source_partitions = _Part(lambda snapshot: snapshot.source_partitions, _group_by_connector)
    odd_source_partitions = _Part(lambda snapshot: snapshot.source_partitions, _select_odd)
    source_ends = _Part(lambda snapshot: snapshot.source_ends, _by_partition)
    mirror_partitions = _Part(lambda snapshot: snapshot.mirror_partitions, _group_by_connector)
    sink_partitions = _Part(lambda snapshot: snapshot.sink_partitions, _group_by_connector)
    syncs = _Part(lambda snapshot: snapshot.syncs, _group_syncs)
    _failed = _Part(lambda snapshot: snapshot.connectors, _find_failed)
    _stuck = _Part(lambda snapshot: snapshot.judgements, _find_stuck)
    _judgements = _Part(lambda snapshot: snapshot.judgements, _group_by_verdict)
    _flows_by_syncs = _Part(lambda snapshot: snapshot.topology.flows, _count_by_syncs)

    @property
    def unhealthy(self) -> frozenset[ConnectorKey]:
        """Return the connectors that have failed or have a failed task, are stalled or silent.

        There may be 100,000, and most snapshots have the same as the one before.
        """
        return self._failed | self._stuck

    def offsets_topic_of(self, key: ConnectorKey) -> KafkaTopic | None:
        """Return the topic in which Connect looks up a connector's offsets; None if unknown."""
        own = self.offsets_topics.get(key)
        return own if own is not None else self.offsets_topics.get((key[0], None))

    def syncs_of(self, cluster: str) -> Mapping[SyncKey, SyncView]:
        """Return the newest offset syncs of a Connect cluster."""
        return self.syncs.get(cluster, {})

    def has_own_syncs(self, flow: MirrorFlow) -> bool:
        """Check whether no other known flow writes to the offset-syncs topic of this flow."""
        return flow.offset_syncs is not None and self._flows_by_syncs[flow.offset_syncs] == 1

    def judgements(self, scope: Scope, verdict: Verdict) -> Sequence[Judgement]:
        """Return the judgements of this scope with this verdict."""
        return self._judgements.get((scope, verdict), ())
