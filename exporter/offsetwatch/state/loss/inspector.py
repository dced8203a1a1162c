"""Inputs of loss accounting (state/loss/flow.py), joined for each inspection of a flow.

They are the response of its upstream cluster with the positions known before, the syncs since the
last inspection, and the activity of its connector.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from offsetwatch.model.observations import LogEndsRead
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.connect.connect_cluster import ConnectClusterState, PersistedConnectCluster
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.flow import FlowInspection, LossAccounting, classify_activity
from offsetwatch.state.memo import Memo
from offsetwatch.state.mirror.offset_syncs import SyncBook, SyncsSinceLastPoll
from offsetwatch.state.mirror.replicated_partitions import (
    PartitionsByFlow,
    ReplicatedPartition,
    upstream_of,
)
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
        self._report: Memo[LossReport] = Memo()

    def look(
        self,
        log_ends: LogEndsRead,
        known: PartitionsByFlow,
        flows: Mapping[MirrorFlow, ConnectClusterState],
        syncs: Mapping[KafkaTopic, SyncBook],
        shared: SharedSyncs,
        now: float,
    ) -> None:
        """Inspect all flows of a cluster that responded with its log ends.

        known    the positions of its flows that were known before the request
        shared   by offset-syncs topic, the partitions whose syncs may be of another flow
        """
        for flow, cluster in flows.items():
            found = known.get(flow)
            if not found:
                continue
            book = None if flow.offset_syncs is None else syncs.get(flow.offset_syncs)
            not_ours = shared.get(flow.offset_syncs, frozenset())
            inspected = self.fates.look(
                FlowInspection(
                    now=now,
                    flow=flow,
                    known={
                        position.upstream: position.copied
                        for position in _select_topics(found, log_ends.ids)
                    },
                    bounds=log_ends.bounds,
                    ids=log_ends.ids,
                    doing=classify_activity(
                        cluster.by_name.get(flow.connector), live=cluster.listing_live(now)
                    ),
                    came=() if book is None else book.gaps.came,
                    news_of=partial(_find_syncs, book, not_ours),
                    patience_s=self._patience_s,
                )
            )
            if book is not None:
                book.gaps.forget(inspected.difference(not_ours))

    def told(self, flows: tuple[MirrorFlow, ...]) -> LossReport:
        """Return the losses of these flows and the recreations of their topics.

        Returns the same tuples while nothing changes.
        """
        return self._report.get(
            self.fates.version,
            *flows,
            make=lambda: (self.fates.losses_of(flows), self.fates.recreations_of(flows)),
        )

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
) -> Iterator[ReplicatedPartition]:
    """Yield the positions in these topics (None: all); `found` is sorted by partition."""
    if topics is None:
        yield from found
        return
    for topic in topics:
        first = bisect_left(found, TopicPartition(topic, -1), key=upstream_of)
        for index in range(first, len(found)):
            if found[index].upstream.topic != topic:
                break
            yield found[index]


def _find_syncs(
    book: SyncBook | None, not_ours: Collection[TopicPartition], partition: TopicPartition
) -> SyncsSinceLastPoll | None:
    """Return the syncs of a partition since its last inspection; None without any to use."""
    if book is None or partition in not_ours:
        return None
    newest = book.seen(partition)
    return book.gaps.since(partition, None if newest is None else newest.offset)
