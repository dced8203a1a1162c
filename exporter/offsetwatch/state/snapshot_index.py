"""Index of one snapshot: its views by Connect cluster, connector and other keys.

A part is built when it is first read. Later snapshots take it over for as long as they hold the
same views, so that nothing is built twice for the readers of one snapshot, or for one that changed
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offsetwatch.model.connectors import StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import InputId
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, SinkGroup

if TYPE_CHECKING:
    from offsetwatch.state.snapshot import (
        ConnectorListView,
        ConnectorView,
        InputView,
        MirrorPartitionView,
        RestConnector,
        SinkPartitionView,
        Snapshot,
        SourcePartitionView,
        SyncView,
    )

ConnectorKey = tuple[str, str]  # Connect cluster, connector
SyncKey = tuple[str, str, str, int]  # aliases of source and target, topic, partition
IndexParts = dict[str, tuple[object, Any]]  # part -> the views that it was built from, and itself


class _ConnectorPart(Protocol):
    @property
    def connect_cluster(self) -> str: ...
    @property
    def connector(self) -> str: ...


_Views = TypeVar("_Views")
_Part = TypeVar("_Part")
_Item = TypeVar("_Item", bound=_ConnectorPart)


class SnapshotIndex:
    """Index of one snapshot, by `Snapshot.index`. Its parts are shared: never change them."""

    def __init__(self, snapshot: Snapshot, parts: IndexParts) -> None:
        self._snapshot = snapshot
        self._parts = parts

    def _part(self, name: str, views: _Views, build: Callable[[_Views], _Part]) -> _Part:
        known = self._parts.get(name)
        if known is None or known[0] is not views:
            # Two threads may both build it; either result is right.
            known = self._parts[name] = (views, build(views))
        part: _Part = known[1]
        return part

    @property
    def inputs(self) -> Mapping[InputId, InputView]:
        """Return the inputs by id."""
        return self._part(
            "inputs", self._snapshot.inputs, lambda views: {view.id: view for view in views}
        )

    @property
    def connectors(self) -> Mapping[ConnectorKey, ConnectorView]:
        """Return the connectors that Connect lists."""
        return self._part(
            "connectors",
            self._snapshot.connectors,
            lambda views: {(view.connect_cluster, view.name): view for view in views},
        )

    @property
    def unhealthy(self) -> frozenset[ConnectorKey]:
        """Return the connectors that have failed or have a failed task, are stalled or silent.

        There may be 100,000, and most snapshots have the same as the one before.
        """
        failed = self._part("failed", self._snapshot.connectors, _find_failed)
        return failed | self._part("stuck", self._snapshot.judgements, _find_stuck)

    @property
    def lists(self) -> Mapping[str, ConnectorListView]:
        """Return how far the lists of connectors can be believed, by Connect cluster."""
        return self._part(
            "lists",
            self._snapshot.lists,
            lambda views: {view.connect_cluster: view for view in views},
        )

    @property
    def flows(self) -> Mapping[ConnectorKey, MirrorFlow]:
        """Return the flows of MirrorSourceConnectors."""
        return self._part("flows", self._snapshot.topology.flows, _by_connector)

    @property
    def sink_groups(self) -> Mapping[ConnectorKey, SinkGroup]:
        """Return the consumer groups of sinks."""
        return self._part("sink_groups", self._snapshot.topology.sinks, _by_connector)

    @property
    def offsets_topics(self) -> Mapping[tuple[str, str | None], KafkaTopic]:
        """Return the offsets topics by Connect cluster, and connector or None for the shared."""
        return self._part(
            "offsets_topics",
            self._snapshot.topology.offsets_topics,
            lambda topics: {(topic.connect_cluster, topic.connector): topic.at for topic in topics},
        )

    def offsets_topic_of(self, key: ConnectorKey) -> KafkaTopic | None:
        """Return the topic in which Connect looks up a connector's offsets; None if unknown."""
        own = self.offsets_topics.get(key)
        return own if own is not None else self.offsets_topics.get((key[0], None))

    @property
    def rest_connectors(self) -> Mapping[ConnectorKey, RestConnector]:
        """Return the connectors whose offsets are polled over REST."""
        return self._part("rest_connectors", self._snapshot.by_rest, _by_connector)

    @property
    def histories(self) -> Mapping[tuple[str, str, int | None], StateHistory]:
        """Return the state changes by Connect cluster, connector, and task or None."""
        return self._part(
            "histories",
            self._snapshot.histories,
            lambda histories: {
                (history.connect_cluster, history.connector, history.task): history
                for history in histories
            },
        )

    @property
    def source_partitions(self) -> Mapping[ConnectorKey, Sequence[SourcePartitionView]]:
        """Return the source partitions of each connector."""
        return self._part(
            "source_partitions", self._snapshot.source_partitions, _group_by_connector
        )

    @property
    def odd_source_partitions(self) -> Mapping[ConnectorKey, Sequence[SourcePartitionView]]:
        """Return those with a condition that does not come from the connector itself."""
        return self._part(
            "odd_source_partitions",
            self._snapshot.source_partitions,
            lambda views: _group_by_connector(view for view in views if _is_odd(view)),
        )

    @property
    def mirror_partitions(self) -> Mapping[ConnectorKey, Sequence[MirrorPartitionView]]:
        """Return the replicated partitions of each connector."""
        return self._part(
            "mirror_partitions", self._snapshot.mirror_partitions, _group_by_connector
        )

    @property
    def sink_partitions(self) -> Mapping[ConnectorKey, Sequence[SinkPartitionView]]:
        """Return the partitions that each sink consumes."""
        return self._part("sink_partitions", self._snapshot.sink_partitions, _group_by_connector)

    @property
    def syncs(self) -> Mapping[str, Mapping[SyncKey, SyncView]]:
        """Return the newest offset syncs of each Connect cluster."""
        return self._part("syncs", self._snapshot.syncs, _group_syncs)

    def syncs_of(self, cluster: str) -> Mapping[SyncKey, SyncView]:
        """Return the newest offset syncs of a Connect cluster."""
        return self.syncs.get(cluster, {})

    def has_own_syncs(self, flow: MirrorFlow) -> bool:
        """Check whether no other known flow writes to the offset-syncs topic of this flow."""
        counts = self._part(
            "flows_by_syncs",
            self._snapshot.topology.flows,
            lambda flows: Counter(known.offset_syncs for known in flows),
        )
        return flow.offset_syncs is not None and counts[flow.offset_syncs] == 1

    def judgements(self, scope: Scope, verdict: Verdict) -> Sequence[Judgement]:
        """Return the judgements of this scope with this verdict."""
        found = self._part("judgements", self._snapshot.judgements, _group_by_verdict)
        return found.get((scope, verdict), ())


def _by_connector(items: Iterable[_Item]) -> Mapping[ConnectorKey, _Item]:
    return {(item.connect_cluster, item.connector): item for item in items}


def _group_by_connector(items: Iterable[_Item]) -> Mapping[ConnectorKey, Sequence[_Item]]:
    found: dict[ConnectorKey, list[_Item]] = {}
    for item in items:
        found.setdefault((item.connect_cluster, item.connector), []).append(item)
    return found


def _find_failed(views: Iterable[ConnectorView]) -> frozenset[ConnectorKey]:
    return frozenset(
        (view.connect_cluster, view.name)
        for view in views
        if view.state == "failed" or any(task.state == "failed" for task in view.tasks)
    )


def _find_stuck(judgements: Iterable[Judgement]) -> frozenset[ConnectorKey]:
    return frozenset(
        (judgement.connect_cluster, judgement.connector)
        for judgement in judgements
        if judgement.scope is Scope.CONNECTOR
        and judgement.verdict in {Verdict.STALLED, Verdict.SILENT}
    )


def _group_by_verdict(
    judgements: Iterable[Judgement],
) -> Mapping[tuple[Scope, Verdict], Sequence[Judgement]]:
    found: dict[tuple[Scope, Verdict], list[Judgement]] = {}
    for judgement in judgements:
        found.setdefault((judgement.scope, judgement.verdict), []).append(judgement)
    return found


def _group_syncs(syncs: Iterable[SyncView]) -> Mapping[str, Mapping[SyncKey, SyncView]]:
    found: dict[str, dict[SyncKey, SyncView]] = {}
    for sync in syncs:
        key = (sync.source, sync.target, sync.topic, sync.partition)
        found.setdefault(sync.connect_cluster, {})[key] = sync
    return found


def _is_odd(view: SourcePartitionView) -> bool:
    return (
        view.shadow is not None or view.variants > 0 or view.poisoned or view.restarted is not None
    )
