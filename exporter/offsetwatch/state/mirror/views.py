"""Cache of the views of replicated partitions, from one log-ends response to the next.

For most partitions of most flows a response changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import is_

from offsetwatch.model.log_readings import Follower
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.loss.flow import LossAccounting
from offsetwatch.state.mirror.oldest_record_age import OldestRecordAges
from offsetwatch.state.mirror.replicated_partitions import (
    LogEndsBook,
    ReplicatedPartition,
    find_partition_index,
)
from offsetwatch.state.snapshot import MirrorPartitionView


@dataclass(frozen=True, slots=True)
class _FlowViews:
    """Views of one flow and what they were built from.

    version     of the log ends, and whether these are live
    at_rest     the response was requested with these very positions
    waiting     indexes of the views that a response may change even if its bounds are the same
    """

    found: tuple[ReplicatedPartition, ...]
    version: tuple[int, bool]
    at_rest: bool
    waiting: frozenset[int]
    views: tuple[MirrorPartitionView, ...]


class MirrorViews:
    """Views of the replicated partitions of all flows, rebuilt only where something changed."""

    def __init__(self, ends: LogEndsBook, ages: OldestRecordAges, fates: LossAccounting) -> None:
        self._ends, self._ages, self._fates = ends, ages, fates
        self._made: dict[MirrorFlow, _FlowViews] = {}

    def keep(self, flows: Iterable[MirrorFlow]) -> None:
        """Forget the views of all other flows."""
        for flow in self._made.keys() - set(flows):
            del self._made[flow]

    def forget(self) -> None:
        """Drop all views. Rebuilt ones are equal."""
        self._made.clear()

    def probed(self, partition: Iterable[Follower]) -> None:
        """Rebuild the views of these partitions, for which probes gave new information."""
        for flow, made in self._made.items():
            self._made[flow] = self._renewed(flow, made, partition)

    def _renewed(
        self, flow: MirrorFlow, made: _FlowViews, partition: Iterable[Follower]
    ) -> _FlowViews:
        """Rebuild the views of probed partitions: a few of up to 100,000."""
        found, views, live = made.found, made.views, made.version[1]
        renewed: list[MirrorPartitionView] = []
        for connect_cluster, connector, item in partition:
            of = (
                connect_cluster,
                connector,
                item.cluster if isinstance(item, MirrorPartition) else "",
            )
            if of != (flow.connect_cluster, flow.connector, flow.source):
                continue
            where = TopicPartition(item.topic, item.partition)
            place = find_partition_index(found, where)
            if place is not None:
                told = self._fates.told(flow, where)
                renewed = renewed or list(views)
                renewed[place] = self._ends.view(found[place], self._ages, live=live, told=told)
        return replace(made, views=tuple(renewed)) if renewed else made

    def of(
        self, flow: MirrorFlow, found: tuple[ReplicatedPartition, ...], *, live: bool
    ) -> tuple[MirrorPartitionView, ...]:
        """Return the views of these positions of a flow; `live`: with log ends."""
        made, ends = self._made.get(flow), self._ends
        version = (ends.version(flow.upstream), live)
        if made is None or made.found is not found or made.version != version:
            made = self._anew(flow, found, made, version)
            self._made[flow] = made
        return made.views

    def _anew(
        self,
        flow: MirrorFlow,
        found: tuple[ReplicatedPartition, ...],
        made: _FlowViews | None,
        version: tuple[int, bool],
    ) -> _FlowViews:
        """Build the views of a flow, reusing those in `made`.

        For most partitions a response changes nothing. Only those that it may have changed are
        compared.
        """
        fates, ends, ages = self._fates, self._ends, self._ages
        number, live = version
        news = fates.news_of(flow)
        before = made if made is not None and made.found is found and live else None
        at_rest = ends.known(flow.upstream).get(flow) is found
        views: list[MirrorPartitionView | None] = [None] * len(found)
        if before is not None:
            views = [*before.views]
        places: Iterable[int] = range(len(found))
        waiting = set()
        changed = ends.changed(flow.upstream)
        if (
            before is not None
            and changed is not None
            and at_rest
            and before.at_rest
            and before.version == (number - 1, True)
        ):
            told = (find_partition_index(found, where) for where in changed | news)
            places = before.waiting.union(place for place in told if place is not None)
        for place in places:
            partition, old = found[place], views[place]
            fate = fates.told(flow, partition.upstream)
            if old is None or not ends.still(old, partition, fate):
                views[place] = old = ends.view(partition, ages, live=live, told=fate)
            if not _is_caught_up(old):
                waiting.add(place)
        same = before is not None and all(map(is_, before.views, views))
        return _FlowViews(
            found=found,
            version=version,
            at_rest=at_rest,
            waiting=frozenset(waiting),
            views=before.views
            if before is not None and same
            else tuple(view for view in views if view is not None),
        )


def _is_caught_up(view: MirrorPartitionView) -> bool:
    """Return whether a partition is fully replicated by the log end that it is paired with.

    The views of others change with time.
    """
    position, end = view.lag_position, view.log_end
    return position is not None and end is not None and end == position + 1
