"""Brings together what a look at a flow needs (state/loss/flow.py): the answer of its upstream
cluster with the positions known before, the syncs since the last look, and what its connector is
doing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from offsetwatch.model.log_readings import LogEndsRead
from offsetwatch.model.observations import TailRead
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.connect.connect_cluster import ConnectClusterState, PersistedConnectCluster
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.flow import FlowInspection, LossAccounting, classify_activity
from offsetwatch.state.loss.sync_gaps import SyncGapTracker, SyncsSinceLastPoll
from offsetwatch.state.mirror.replicated_partitions import (
    PartitionsByFlow,
    ReplicatedPartition,
    SyncBook,
    upstream_of,
)
from offsetwatch.state.snapshot import Loss, TopicRecreation

LossReport = tuple[tuple[Loss, ...], tuple[TopicRecreation, ...]]
SharedSyncs = Mapping[KafkaTopic | None, frozenset[TopicPartition]]


class LossInspector:
    """See the module. `patience_s` is a flush: what is copied is committed within it."""

    def __init__(self, patience_s: float) -> None:
        self.fates = LossAccounting()
        self._sites: dict[str, PersistedConnectCluster] = {}
        self._patience_s = patience_s
        self._syncs: dict[KafkaTopic, tuple[SyncBook, SyncGapTracker]] = {}
        self._made: tuple[tuple[int, tuple[MirrorFlow, ...]], LossReport] | None = None

    def synced(self, read: TailRead, book: SyncBook) -> None:
        """A tail read syncs; `book` does not know of them yet."""
        _, trail = self._syncs.get(read.topic, (book, SyncGapTracker()))
        self._syncs[read.topic] = (book, trail)
        trail.apply(book.newest, read.sync_records(), whole=read.whole)

    def look(
        self,
        log_ends: LogEndsRead,
        known: PartitionsByFlow,
        flows: Mapping[MirrorFlow, ConnectClusterState],
        shared: SharedSyncs,
        now: float,
    ) -> None:
        """Look at all flows of a cluster that has answered.

        known    the positions of its flows that were known before it was asked
        shared   by offset-syncs topic, the partitions whose syncs may be of another flow
        """
        for flow, cluster in flows.items():
            found = known.get(flow)
            if found:
                not_ours = shared.get(flow.offset_syncs, frozenset())
                copied = {
                    topic.upstream: topic.copied for topic in _select_topics(found, log_ends.ids)
                }
                self._look(flow, cluster, copied, log_ends, not_ours, now)

    def _look(
        self,
        flow: MirrorFlow,
        cluster: ConnectClusterState,
        known: Mapping[TopicPartition, int | None],
        log_ends: LogEndsRead,
        not_ours: Collection[TopicPartition],
        now: float,
    ) -> None:
        topic = flow.offset_syncs
        read = None if topic is None else self._syncs.get(topic)

        def news_of(partition: TopicPartition) -> SyncsSinceLastPoll | None:
            if read is None or partition in not_ours:
                return None
            book, trail = read
            newest = book.seen(partition)
            return trail.since(partition, None if newest is None else newest.offset)

        told = self.fates.look(
            FlowInspection(
                now=now,
                flow=flow,
                known=known,
                bounds=log_ends.bounds,
                ids=log_ends.ids,
                doing=classify_activity(
                    cluster.by_name.get(flow.connector), live=cluster.listing_live(now)
                ),
                came=() if read is None else read[1].came,
                news_of=news_of,
                patience_s=self._patience_s,
            )
        )
        if read is not None:
            read[1].forget(told.difference(not_ours))

    def told(self, flows: tuple[MirrorFlow, ...]) -> LossReport:
        """What these flows lost, and which of their topics were made anew; the same tuples while
        nothing changes.
        """
        state = (self.fates.version, flows)
        if self._made is None or self._made[0] != state:
            self._made = (state, (self.fates.losses_of(flows), self.fates.recreations_of(flows)))
        return self._made[1]

    # --- over a restart --------------------------------------------------------------------------

    def remembered(self, sites: dict[str, PersistedConnectCluster]) -> bytes | None:
        """What became of all records so far, and `sites`; None while that is nothing new."""
        if not self.fates.changed and sites == self._sites:
            return None
        self._sites = sites
        self.fates.forget_unseen()
        self.fates.changed = self.fates.urgent = False
        return persistence.encode_losses(self.fates, sites)

    def recall(self, remembered: bytes) -> Mapping[str, PersistedConnectCluster]:
        """Go on from there, and return what it holds of Connect clusters. Raises ValueError, having
        changed nothing, for what is no memory.
        """
        self._sites = persistence.restore_losses(self.fates, remembered)
        return self._sites


def _select_topics(
    found: tuple[ReplicatedPartition, ...], topics: Collection[str] | None
) -> Iterable[ReplicatedPartition]:
    """Those of these topics, of positions in the order of their partitions; None: all."""
    if topics is None:
        return found
    return chain.from_iterable(_select_topic(found, topic) for topic in topics)


def _select_topic(
    found: tuple[ReplicatedPartition, ...], topic: str
) -> Iterator[ReplicatedPartition]:
    for place in range(bisect_left(found, TopicPartition(topic, -1), key=upstream_of), len(found)):
        if found[place].upstream.topic != topic:
            return
        yield found[place]
