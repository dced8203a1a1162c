"""Inputs of loss accounting (state/loss/flow.py), joined for each inspection of a flow.

They are the response of its upstream cluster with the positions known before, the syncs since the
last inspection, and the activity of its connector.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from offsetwatch.model.observations import LogEndsRead, TailRead
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.connect.connect_cluster import ConnectClusterState, PersistedConnectCluster
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.flow import FlowInspection, LossAccounting, classify_activity
from offsetwatch.state.mirror.replicated_partitions import (
    PartitionsByFlow,
    ReplicatedPartition,
    SyncBook,
    upstream_of,
)
from offsetwatch.state.mirror.sync_gaps import SyncGapTracker, SyncsSinceLastPoll
from offsetwatch.state.snapshot import Loss, TopicRecreation

LossReport = tuple[tuple[Loss, ...], tuple[TopicRecreation, ...]]
SharedSyncs = Mapping[KafkaTopic | None, frozenset[TopicPartition]]


class LossInspector:
    """Loss inspector of all flows: it joins the inputs and owns the accounts.

    `patience_s` is one flush: copied records are committed within it.
    """

    def __init__(self, patience_s: float) -> None:
        self.fates = LossAccounting()
        self._sites: dict[str, PersistedConnectCluster] = {}
        self._patience_s = patience_s
        self._syncs: dict[KafkaTopic, tuple[SyncBook, SyncGapTracker]] = {}
        self._made: tuple[tuple[int, tuple[MirrorFlow, ...]], LossReport] | None = None

    def synced(self, read: TailRead, book: SyncBook) -> None:
        """Apply the syncs that a tail read. `book` does not have them yet."""
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
        """Inspect all flows of a cluster that responded with its log ends.

        known    the positions of its flows that were known before the request
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
        """Return the losses of these flows and the recreations of their topics.

        Returns the same tuples while nothing changes.
        """
        state = (self.fates.version, flows)
        if self._made is None or self._made[0] != state:
            self._made = (state, (self.fates.losses_of(flows), self.fates.recreations_of(flows)))
        return self._made[1]

    # --- over a restart --------------------------------------------------------------------------

    def remembered(self, sites: dict[str, PersistedConnectCluster]) -> bytes | None:
        """Return the encoded accounts and `sites` for a restart; None while unchanged."""
        if not self.fates.changed and sites == self._sites:
            return None
        self._sites = sites
        self.fates.forget_unseen()
        self.fates.changed = self.fates.urgent = False
        return persistence.encode_losses(self.fates, sites)

    def recall(self, remembered: bytes) -> Mapping[str, PersistedConnectCluster]:
        """Restore the accounts, and return the state of Connect clusters in the document.

        Raises ValueError for an invalid document, having changed nothing.
        """
        self._sites = persistence.restore_losses(self.fates, remembered)
        return self._sites


def _select_topics(
    found: tuple[ReplicatedPartition, ...], topics: Collection[str] | None
) -> Iterable[ReplicatedPartition]:
    """Return the positions in these topics (None: all); `found` is sorted by partition."""
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
