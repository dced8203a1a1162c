"""What sink connectors have left to do: committed offsets of their groups, log ends, ages.

A group's committed offset is the NEXT record, so a sink at rest behind a transaction marker has a
lag of one for ever, and only a read of the log tells that nothing is left. Called by the book only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.model.observations import GROUPS, InputId, SinkOffset, SinkOffsetsRead
from exporter.model.readings import Follower, ProbesRead
from exporter.model.topology import TopicPartition
from exporter.state.ages import UNKNOWN, Ages, Behind, Stretch
from exporter.state.inputs import Inputs
from exporter.state.lag import sink_lag
from exporter.state.site import Site
from exporter.state.snapshot import SinkPartitionView


class Sinks:
    """The last answer of each Connect cluster's groups."""

    def __init__(self, sites: Mapping[str, Site], inputs: Inputs) -> None:
        self._sites = sites
        self._inputs = inputs
        self._offsets: dict[str, tuple[SinkOffset, ...]] = {}
        self._ages = Ages()

    def read(self, seen: SinkOffsetsRead, now: float) -> None:
        """Committed offsets, and the log ends that were read after them."""
        self._offsets[seen.connect_cluster] = seen.offsets
        found = ((_who(seen.connect_cluster, at), _stretch(at)) for at in seen.offsets)
        asked_at = now if seen.at is None else seen.at
        self._ages.saw(seen.connect_cluster, found, at=asked_at, now=now)

    def probed(self, seen: ProbesRead) -> None:
        """What single reads found."""
        self._ages.told(seen.answers, seen.at)

    def views(self, now: float) -> tuple[SinkPartitionView, ...]:
        """Pictures of all partitions that sinks consume and that can be vouched for now."""
        return tuple(view for name in sorted(self._offsets) for view in self._of(name, now))

    def _of(self, cluster: str, now: float) -> Iterator[SinkPartitionView]:
        if not self._inputs.live(InputId(cluster, GROUPS), now):
            return
        site = self._sites[cluster]
        for at in self._offsets[cluster]:
            if at.connector in site.by_name and site.of.wants_topic(at.topic):
                behind = self._behind(cluster, at)
                yield SinkPartitionView(
                    connect_cluster=cluster,
                    connector=at.connector,
                    topic=at.topic,
                    partition=at.partition,
                    committed=at.committed,
                    log_end=at.log_end,
                    lag=_lag(at),
                    log_start=at.log_start,
                    caught_up=behind.caught_up,
                    behind_since=behind.since,
                    behind_from=behind.told_by,
                    probe_from=behind.probe_from,
                )

    def _behind(self, cluster: str, at: SinkOffset) -> Behind:
        stretch = _stretch(at)
        # A position beyond the end is none in this log: nothing lies "after" it.
        if stretch is None or (at.committed or 0) > stretch.end:
            return UNKNOWN
        return self._ages.behind(cluster, _who(cluster, at), stretch)


def _who(cluster: str, at: SinkOffset) -> Follower:
    return (cluster, at.connector, TopicPartition(at.topic, at.partition))


def _following(at: SinkOffset) -> int | None:
    """Return the next record to read; None where a sink without a commit may begin anywhere."""
    if at.committed is None:
        return at.log_start if at.from_start else None
    return at.committed


def _lag(at: SinkOffset) -> int | None:
    following = _following(at)
    return None if following is None or at.log_end is None else sink_lag(following, at.log_end)


def _stretch(at: SinkOffset) -> Stretch | None:
    """What lies before a sink; None if that is not known, or its log could not be asked for."""
    following = _following(at)
    if following is None or at.log_end is None:
        return None
    start = 0 if at.log_start is None else at.log_start
    return Stretch(
        following=max(following, start), start=start, end=at.log_end, committed=at.committed_only
    )
