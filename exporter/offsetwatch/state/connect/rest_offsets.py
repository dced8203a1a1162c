"""Source offsets of a Connect cluster from its REST API, where no topic can be read.

REST returns what a task would load now: no record, no raw key and no time. So there are no commits
here, a change is dated by the poll that found it, and a change that was undone between two polls is
not known. A null offset is no reset; a reset removes the partition from the list. REST looks a
partition up under the key of a HashMap, and the task may have written another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

from offsetwatch.decode.dialects import (
    compare_offsets,
    describe_offset,
    is_treated_as_absent,
    read_position,
    resolve_dialect,
)
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.source_offsets import decode_key, decode_value, format_namesake_label
from offsetwatch.model.observations import TAIL, InputId, OffsetsPolled, build_rest_offsets_input
from offsetwatch.model.offsets import (
    FLOAT_EXACT_MAX,
    MirrorPartition,
    Order,
    SourceKey,
    SourceOffset,
    Undecodable,
)
from offsetwatch.state.connect.source_offsets import accept_all
from offsetwatch.state.key_budget import KeyBudget
from offsetwatch.state.memo import Memo
from offsetwatch.state.mirror.lag import UNDATED, MirrorPosition
from offsetwatch.state.snapshot import InputView, RestConnector, Snapshot, SourcePartitionView

# A source partition that is missing from so many answers in a row was reset: one answer may come
# from a worker that has not read its topic to the end.
RESET_AFTER_POLLS: Final = 3


class _Partition(msgspec.Struct, gc=False):
    """Newest offset of one source partition.

    missing    number of responses in a row without it
    untold     it is listed without an offset, or an incomplete response lacks it
    """

    key: SourceKey
    offset: SourceOffset | None = None
    advanced_at: float | None = None
    advances: int = 0
    rewinds: int = 0
    resets: int = 0
    missing: int = 0
    untold: bool = False
    namesake: bool = False
    view: SourcePartitionView | None = None


class RestOffsets:
    """Newest response for each connector, at most `partitions_max` source partitions in all.

    Their identities take no more than a KeyBudget of that many keys. `wants_topic` selects upstream
    topics of MirrorMaker 2.
    """

    def __init__(
        self,
        connect_cluster: str,
        partitions_max: int,
        wants_topic: Callable[[str], bool] = accept_all,
    ) -> None:
        self._connect_cluster = connect_cluster
        self._wants_topic = wants_topic
        self._of: dict[str, dict[str, _Partition]] = {}
        self._labels: dict[str, dict[str, _Partition]] = {}
        self._mirrors: dict[str, dict[MirrorPartition, _Partition]] = {}
        self._classes: dict[str, str] = {}
        self._budget = KeyBudget(partitions_max)
        self._uncounted: set[str] = set()
        self._cut: set[str] = set()  # those whose last answer had entries that could not be read
        self._exported: Memo[tuple[SourcePartitionView, ...]] = Memo()
        self.dropped: Counter[str] = Counter()
        self.version = 0
        self.layout: object = object()
        """Another one whenever other source partitions are shown, or with more or fewer fields."""

    # --- taking in -------------------------------------------------------------------------------

    def read(self, polled: OffsetsPolled, *, counted: bool = True) -> None:
        """Apply a response. `counted`: no topic has counted this connector's changes so far."""
        known = self._of.get(polled.connector)
        first, of = known is None, {} if known is None else known
        self._of[polled.connector] = of
        if not counted:
            self._uncounted.add(polled.connector)
        (self._cut.discard if polled.whole else self._cut.add)(polled.connector)
        answered: set[str] = set()
        for identity, text in polled.offsets:
            partition = of.get(identity) or self._added(polled.connector, identity)
            if partition is None:
                continue
            answered.add(identity)
            partition.missing = 0
            self._apply(partition, _decode_offset(text), polled.at, first=first)
        for identity, partition in of.items():
            if identity not in answered:
                self._miss(partition, certain=polled.whole)
        self.version += 1

    def classify(self, classes: Mapping[str, str]) -> None:
        """Set the classes of connectors, by name: the meaning of offsets depends on the class."""
        changed = {name for name in self._of if classes.get(name) != self._classes.get(name)}
        self._classes = dict(classes)
        for name in changed:
            for partition in self._of[name].values():
                partition.view = None
        if changed:
            self.version += 1

    def keep(self, connectors: Collection[str]) -> None:
        """Forget all other connectors: their offsets come from a topic now, or they are gone."""
        gone = self._of.keys() - set(connectors)
        for name in gone:
            partitions = self._of.pop(name)
            self._budget.remove(sum(map(len, partitions)), len(partitions))
            self._labels.pop(name, None)
            self._mirrors.pop(name, None)
            self._uncounted.discard(name)
            self._cut.discard(name)
        if gone:
            self.version += 1
            self.layout = object()

    def _added(self, connector: str, identity: str) -> _Partition | None:
        if not self._budget.admits(len(identity)):
            self.dropped["source_partitions_max"] += 1
            return None
        key = decode_key(b"[%b,%b]" % (encode_sorted(connector), identity.encode()))
        if isinstance(key, Undecodable):
            self.dropped["rest_undecodable"] += 1
            return None
        partition = self._of[connector][identity] = _Partition(key)
        self._budget.add(len(identity))
        namesake = self._labels.setdefault(connector, {}).setdefault(key.label, partition)
        if namesake is not partition:
            namesake.namesake = partition.namesake = True
            namesake.view = None
        if key.mirror is not None:
            self._mirrors.setdefault(connector, {})[key.mirror] = partition
        self.layout = object()
        return partition

    def _apply(
        self, partition: _Partition, offset: SourceOffset | None, moment: float, *, first: bool
    ) -> None:
        before = partition.offset
        if before is None or offset is None or len(before.numbers) != len(offset.numbers):
            self.layout = object()
        was_untold, partition.untold = partition.untold, offset is None
        partition.offset, partition.view = offset, None
        if (None if before is None else before.text) == (None if offset is None else offset.text):
            return
        if offset is not None and any(
            not -FLOAT_EXACT_MAX <= number <= FLOAT_EXACT_MAX for _, number in offset.numbers
        ):
            self.dropped["inexact"] += 1
        if first or offset is None or was_untold:
            return  # since when it is so is not known
        partition.advanced_at = moment
        partition.advances += 1
        class_name = self._classes.get(partition.key.connector, "")
        dialect = resolve_dialect(partition.key.dialect, class_name)
        if compare_offsets(dialect, before, offset) is Order.BEHIND:
            partition.rewinds += 1

    def _miss(self, partition: _Partition, *, certain: bool) -> None:
        """Apply a response without a partition; not `certain`: some of it is undecodable."""
        partition.untold = not certain
        if partition.offset is None:
            return
        partition.missing = partition.missing + 1 if certain else 1
        partition.view = None
        self.layout = object()
        if partition.missing >= RESET_AFTER_POLLS:
            partition.offset, partition.missing = None, 0
            partition.resets += 1

    # --- giving out ------------------------------------------------------------------------------

    def missing(self, connector: str) -> int:
        """Return how many source partitions the last responses lack without a reset yet."""
        return sum(partition.missing > 0 for partition in self._of.get(connector, {}).values())

    def views(self, connectors: frozenset[str]) -> tuple[SourcePartitionView, ...]:
        """Return the views of these connectors' partitions; the same tuple while unchanged."""
        return self._exported.get(
            self.version,
            connectors,
            make=lambda: tuple(
                partition.view or self._view(partition)
                for name in sorted(connectors & self._of.keys())
                for _, partition in sorted(self._of[name].items())
                if self._is_exported(partition)
            ),
        )

    def mirrored(self, connector: str, source: str) -> dict[MirrorPartition, MirrorPosition]:
        """Return the committed offsets of a MirrorSourceConnector under this source alias."""
        positions: dict[MirrorPartition, MirrorPosition] = {}
        for mirror, partition in self._mirrored(connector, source):
            offset = read_position(partition.key.dialect, partition.offset)
            if offset is not None and self._is_exported(partition):
                positions[mirror] = MirrorPosition(offset=offset, at=UNDATED)
        return positions

    def claimed(self, connector: str, source: str) -> tuple[MirrorPartition, ...]:
        """Return the upstream partitions that the connector has an offset for, shown or not."""
        mirrors = self._mirrored(connector, source)
        return tuple(mirror for mirror, partition in mirrors if _has_resumable_offset(partition))

    def uncommitted(self, connector: str, mirror: MirrorPartition) -> bool:
        """Return whether the connector certainly has no offset for this upstream partition."""
        known = self._mirrors.get(connector, {}).get(mirror)
        if not self._is_complete(connector):
            return False
        return known is None or not (_has_resumable_offset(known) or known.untold)

    def has_unknown_positions(self, connector: str, source: str) -> bool:
        """Return whether the connector may have a position that is not known."""
        if not self._is_complete(connector):
            return True
        return any(
            partition.missing > 0
            or partition.untold
            or (
                _has_resumable_offset(partition)
                and read_position(partition.key.dialect, partition.offset) is None
            )
            for _, partition in self._mirrored(connector, source)
        )

    def _is_complete(self, connector: str) -> bool:
        """Return whether a partition that is not known is certainly not in the last response."""
        answered = connector in self._of and connector not in self._cut
        return answered and "source_partitions_max" not in self.dropped

    def _mirrored(
        self, connector: str, source: str
    ) -> Iterator[tuple[MirrorPartition, _Partition]]:
        for mirror, partition in self._mirrors.get(connector, {}).items():
            if mirror.cluster == source:
                yield mirror, partition

    def _is_exported(self, partition: _Partition) -> bool:
        mirror = partition.key.mirror
        return not partition.missing and (mirror is None or self._wants_topic(mirror.topic))

    def _view(self, partition: _Partition) -> SourcePartitionView:
        key, offset = partition.key, partition.offset
        dialect, event_at, broken = describe_offset(
            key.dialect, offset, self._classes.get(key.connector, "")
        )
        counted = key.connector not in self._uncounted
        partition.view = view = SourcePartitionView(
            connect_cluster=self._connect_cluster,
            connector=key.connector,
            identity=key.identity,
            label=format_namesake_label(key.label, key.identity)
            if partition.namesake
            else key.label,
            dialect=dialect,
            offset=offset,
            event_at=event_at,
            poisoned=broken,
            kafka_partition=None,
            log_offset=None,
            committed_at=None,
            advanced_at=None if offset is None else partition.advanced_at,
            commits=None,
            advances=partition.advances if counted else None,
            rewinds=partition.rewinds if counted else None,
            resets=partition.resets if counted else None,
            variants=0,
            from_rest=True,
            read_at=partition.advanced_at,
        )
        return view


def _has_resumable_offset(partition: _Partition) -> bool:
    offset = partition.offset
    return offset is not None and not is_treated_as_absent(partition.key.dialect, offset)


def _decode_offset(text: str | None) -> SourceOffset | None:
    """Return the offset in a response; None for one that no task would write."""
    decoded = None if text is None else decode_value(text.encode())
    if not isinstance(decoded, SourceOffset) or decoded.is_null:
        return None
    return decoded


def find_polled_connectors(snapshot: Snapshot, view: InputView) -> tuple[RestConnector, ...]:
    """Return the source connectors whose offsets come from REST now instead of from this tail."""
    if view.id.kind != TAIL:
        return ()
    # While its topic is looked for, a tail has the Connect cluster's name alone.
    clusters = {view.id.connect_cluster} | {
        topic.connect_cluster
        for topic in snapshot.topology.offsets_topics
        if InputId.of_tail(topic.at) == view.id
    }
    live = {input_name.id for input_name in snapshot.inputs if input_name.live}
    return tuple(
        connector
        for connector in snapshot.by_rest
        if connector.connect_cluster in clusters
        and not connector.sink
        and build_rest_offsets_input(connector.connect_cluster, connector.connector) in live
    )


def is_replaced_by_rest(snapshot: Snapshot, view: InputView) -> bool:
    """Return whether a tail was never read and REST provides the offsets it would read.

    A standalone worker keeps its offsets in a file, and a managed Connect does not expose its
    topic.
    """
    return view.last_success_at is None and bool(find_polled_connectors(snapshot, view))
