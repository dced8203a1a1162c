"""Scope of an audit, resolved before it reads a record: topics, log bounds, anchors.

The order of the reads matters. The caller knows already what is replicated. Then come the offset
syncs, then the log ends downstream, then those upstream. So every record below a downstream end was
copied from below the upstream end, and every record reported as replicated lies below the
downstream end.

A sync gives the downstream offset of a single record. It is an anchor: the record at its upstream
offset is the one at its downstream offset. Records before the first anchor, or before the part that
retention has left of either side, cannot have a counterpart: they are not comparable, and never
lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.kafka.whole_topic import read_whole_topic
from offsetwatch.decode.mirror_maker import decode_sync
from offsetwatch.errors import HistoryError
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.mm2_names import find_copy_conflict, find_remote_topic, format_routers

# Between syncs that are kept of one line. A sync that is left out costs as many records that are
# read and not judged; all of them would be one for every hundred records of a topic.
ANCHOR_SPACING: Final = 1000
# A sample is taken in pieces of so many records at least, and of so many pieces of a partition at
# most: each is a read of its own.
PIECE_RECORDS_MIN: Final = 5000
PIECES_MAX: Final = 32


class Anchors:
    """Offset syncs of one partition, in the order of their topic.

    Of syncs close together on one line (the same difference between both offsets), only the first
    and the last are retained.
    """

    def __init__(self) -> None:
        self._anchors: list[tuple[int, int]] = []

    def add(self, upstream: int, downstream: int) -> None:
        """Add one sync, newer than those before."""
        new = (upstream, downstream)
        if self._anchors and downstream < self._anchors[-1][1]:
            self._anchors.clear()  # the downstream topic was cut or recreated
        near = self._anchors[-2:]
        on_one_line = len({up - down for up, down in (*near, new)}) == 1
        if (
            len(near) == 2
            and on_one_line
            and (near[0][0] <= near[1][0] <= upstream <= near[0][0] + ANCHOR_SPACING)
        ):
            self._anchors[-1] = new
        else:
            self._anchors.append(new)

    def within(self, up: LogBounds, down: LogBounds) -> tuple[tuple[int, int], ...]:
        """Return the anchors whose record still exists on both sides."""
        return tuple(
            (upstream, downstream)
            for upstream, downstream in self._anchors
            if up.start <= upstream < up.end and down.start <= downstream < down.stable_end
        )


@dataclass(frozen=True, slots=True)
class AuditPartition:
    """Facts about one partition that are known before its records are read.

    remote          the downstream topic
    replicated      the last upstream record that MM2 reports as replicated; None if none
    from_start      the flow begins a partition at the start of its log
    committed       the flow reads committed records only
    """

    at: TopicPartition
    remote: str
    up: LogBounds
    down: LogBounds
    anchors: tuple[tuple[int, int], ...]
    replicated: int | None
    from_start: bool
    committed: bool

    @property
    def up_end(self) -> int:
        """Return the offset after the last record that the flow could have read."""
        return self.up.stable_end if self.committed else self.up.end


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets [up, up_end) upstream to compare with [down, down_end) of the downstream topic.

    judged          [first, end) upstream: the rest is read only to begin and end at an anchor
    up_head         an upstream record before the first that is found downstream is lost; else it
                    cannot be compared
    down_head       likewise of downstream records, which were not written for this range else
    """

    at: TopicPartition
    remote: str
    up: int
    up_end: int
    down: int
    down_end: int
    judged: tuple[int, int]
    up_head: bool = True
    down_head: bool = True

    @property
    def records(self) -> tuple[int, int]:
        """Return the most records that are read upstream and downstream."""
        return self.up_end - self.up, self.down_end - self.down


@dataclass(frozen=True, slots=True)
class PartitionCoverage:
    """Coverage of one partition by the audit, known without reading its records.

    requested   upstream offsets that were requested and may exist
    deleted     requested offsets that upstream retention has deleted
    pending     offsets that are not replicated yet
    """

    at: TopicPartition
    remote: str
    requested: int
    deleted: int
    pending: int
    slices: tuple[Slice, ...]


def compute_coverage(
    known: AuditPartition, first: int | None, end: int | None
) -> PartitionCoverage:
    """Return the whole range as one slice; `first` and `end` bound it upstream, None: no bound."""
    requested_end = known.up_end if end is None else min(end, known.up_end)
    following = known.up.start if known.replicated is None else known.replicated + 1
    judged_end = max(min(requested_end, following), known.up.start)
    judged_first = max(known.up.start, first or 0)
    coverage = PartitionCoverage(
        at=known.at,
        remote=known.remote,
        requested=max(0, requested_end - judged_first),
        deleted=max(0, min(known.up.start, requested_end) - (first or 0)),
        pending=max(0, requested_end - max(judged_end, judged_first)),
        slices=(),
    )
    if judged_first >= judged_end:
        return coverage
    head = _head(known, judged_first, bounded=first is not None)
    tail = None
    if end is not None and end < following:  # where the flow last passed it
        tail = _find_in_first_run(known.anchors[::-1], lambda anchor: anchor[0] >= judged_end)
    up_end, down_end = (known.up_end, known.down.stable_end) if tail is None else tail
    slice_ = replace(head, up_end=up_end, down_end=down_end, judged=(judged_first, judged_end))
    return replace(coverage, slices=(slice_,))


def sample_coverage(
    known: AuditPartition, whole: PartitionCoverage, share: float, seed: int
) -> PartitionCoverage:
    """Return a share of the range, in pieces between anchors, chosen by the seed alone."""
    (of,) = whole.slices or (None,)
    if of is None:
        return whole
    first, end = of.judged
    size = max(PIECE_RECORDS_MIN, int((end - first) * share / PIECES_MAX))
    chosen: list[Slice] = []
    for one, other in _pieces(known.anchors, first, end, size):
        if _draw(seed, known.at, one[0]) >= share:
            continue
        (up, down), (up_end, down_end) = one, other
        slice_ = Slice(of.at, of.remote, up, up_end, down, down_end, judged=(up, up_end))
        if chosen and (chosen[-1].up_end, chosen[-1].down_end) == one:
            last = chosen.pop()
            slice_ = replace(slice_, up=last.up, down=last.down, judged=(last.up, up_end))
        chosen.append(slice_)
    return replace(whole, slices=tuple(chosen[:PIECES_MAX]))


def _head(known: AuditPartition, first: int, *, bounded: bool) -> Slice:
    """Return a slice with its start set, but not its end."""
    # Where the flow first passed it: so the audit also reads what the flow copied again later.
    anchor = _find_in_first_run(known.anchors, lambda anchor: anchor[0] <= first)
    slice_ = Slice(known.at, known.remote, 0, 0, 0, 0, judged=(first, first))
    if anchor is not None:
        return replace(slice_, up=anchor[0], down=anchor[1])
    # A downstream log that was never cut holds all that was ever written for this partition.
    all_there = known.down.start == 0 and known.from_start
    nothing_before = first == 0 if bounded else known.up.start == 0
    return replace(
        slice_, up=first, down=known.down.start, up_head=all_there, down_head=nothing_before
    )


def _find_in_first_run(
    anchors: Iterable[tuple[int, int]], fits: Callable[[tuple[int, int]], bool]
) -> tuple[int, int] | None:
    """Return the last anchor of the first run of anchors that fit."""
    first_match = None
    for anchor in anchors:
        if fits(anchor):
            first_match = anchor
        elif first_match is not None:
            break
    return first_match


def _pieces(
    anchors: Iterable[tuple[int, int]], first: int, end: int, size: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield pairs of anchors about `size` records apart, between which both offsets increase."""
    begin = None
    for anchor in anchors:
        if begin is not None and (anchor[0] <= begin[0] or anchor[1] <= begin[1]):
            begin = None  # the flow was set back: what was copied twice is for a full audit
        if not first <= anchor[0] <= end:
            continue
        if begin is None:
            begin = anchor
        elif anchor[0] - begin[0] >= size:
            yield begin, anchor
            begin = anchor


def _draw(seed: int, partition: TopicPartition, offset: int) -> float:
    """Return a number of at least 0 and below 1, always the same for the same arguments."""
    name = f"{seed}/{partition.topic}/{partition.partition}/{offset}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=6).digest(), "big") / 2**48


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """Bounds of an audit: upstream offsets, upstream timestamps (Unix seconds), or neither.

    share, seed    of a sample; a share of 1 is everything
    """

    first: int | None = None
    end: int | None = None
    since: float | None = None
    until: float | None = None
    share: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AuditScope:
    """Ranges to read, and everything that is known about them without reading them.

    up, down        log bounds of each upstream partition, and of its copy by the upstream name
    compacted       topics compacted upstream, and downstream, by upstream names; those of unknown
                    policy are not in it
    notes           messages for the user
    """

    flow: MirrorFlow
    reaches: tuple[PartitionCoverage, ...]
    up: Mapping[TopicPartition, LogBounds]
    down: Mapping[TopicPartition, LogBounds]
    compacted: tuple[frozenset[str], frozenset[str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditClients:
    """librdkafka client properties of the clusters, by their configured names."""

    kafka: Mapping[str, Mapping[str, str]] = field(repr=False)  # may hold passwords

    def admin(self, name: str) -> KafkaInspector:
        """Return an inspector of one of the clusters."""
        return KafkaInspector(name, self.kafka[name])


def resolve_scope(
    flow: MirrorFlow,
    replicated: Mapping[TopicPartition, int | None],
    topics: Collection[str],
    bounds: AuditBounds,
    sides: AuditClients,
    named: Mapping[str, str] = MappingProxyType({}),
) -> AuditScope:
    """Resolve the topics, log bounds and anchors of an audit.

    replicated      upstream partitions of the flow, each with the last record that is replicated
    topics          upstream names; empty for all
    named           names of the copies of upstream topics, where the user gives them

    Raises HistoryError for what cannot be audited, ClientError.
    """
    if flow.upstream is None or flow.downstream is None:
        side = "source" if flow.upstream is None else "target"
        raise HistoryError(
            f"{flow.connector}: its {side} cluster is not among those configured under kafka"
        )
    requested = sorted(where for where in replicated if not topics or where.topic in topics)
    missing = sorted({*topics} - {where.topic for where in requested})
    if missing:
        raise HistoryError(f"{flow.connector} does not copy {', '.join(missing)}")
    if not requested:
        raise HistoryError(f"{flow.connector} has copied nothing that could be audited")
    upstream, downstream = sides.admin(flow.upstream), sides.admin(flow.downstream)
    anchors = _anchors(flow, frozenset(requested), sides)
    names, _ = downstream.topics()
    copies_of = _copies(flow, {where.topic for where in replicated}, names, named)
    remotes = {
        topic: _resolve_copy(flow, topic, names, copies_of)
        for topic in {where.topic for where in requested}
    }
    there = [where for where in requested if where.partition < names[remotes[where.topic]]]
    notes = tuple(
        f"{where.topic}-{where.partition}: {remotes[where.topic]} has no such partition: not "
        "audited"
        for where in requested
        if where not in there
    )
    copies = {where: TopicPartition(remotes[where.topic], where.partition) for where in there}
    own_names = {where.topic: where.topic for where in there}
    compacted_up = _find_compacted_topics(upstream, own_names)
    compacted_down = _find_compacted_topics(downstream, remotes)
    down = downstream.bounds(list(copies.values()), stable=True)
    up = upstream.bounds(there, stable=True)
    readable = [partition for partition in there if partition in up and copies[partition] in down]
    notes += tuple(
        f"{partition.topic}-{partition.partition}: its log end is unknown now: not audited"
        for partition in there
        if partition not in readable
    )
    firsts, ends = _resolve_bounds(upstream, readable, bounds)
    reaches = []
    for partition in readable:
        known = AuditPartition(
            at=partition,
            remote=copies[partition].topic,
            up=up[partition],
            down=down[copies[partition]],
            anchors=anchors[partition].within(up[partition], down[copies[partition]])
            if partition in anchors
            else (),
            replicated=replicated[partition],
            from_start=flow.from_start,
            committed=flow.read_committed is not False,
        )
        whole = compute_coverage(known, firsts.get(partition), ends.get(partition))
        if bounds.share < 1.0:
            whole = sample_coverage(known, whole, bounds.share, bounds.seed)
        reaches.append(whole)
    return AuditScope(
        flow=flow,
        reaches=tuple(reaches),
        up=up,
        down={partition: down[copies[partition]] for partition in readable},
        compacted=(compacted_up, compacted_down),
        notes=notes,
    )


def _copies(
    flow: MirrorFlow, topics: Collection[str], names: Collection[str], named: Mapping[str, str]
) -> dict[str, str | None]:
    """Return upstream topic -> name of its copy; None where it is unknown. Raises HistoryError."""
    unknown = sorted(named.keys() - topics)
    if unknown:
        raise HistoryError(f"--copy-topic: {flow.connector} does not copy {', '.join(unknown)}")
    return {topic: named.get(topic) or find_remote_topic(flow, topic, names) for topic in topics}


def _resolve_copy(
    flow: MirrorFlow, topic: str, names: Collection[str], copies: Mapping[str, str | None]
) -> str:
    remote = copies[topic]
    if remote is None:
        why = f"the name that {flow.connector} gives it on {flow.downstream} is unknown"
        two = find_copy_conflict(flow, topic)
        if two is not None:
            why = (
                f"its copy is {two[0]} by the configuration (flows, copies) and {two[1]} by "
                f"{flow.connector}'s own"
            )
        elif flow.routers:
            why = (
                f"copies of {flow.source}->{flow.target} have other names, which a transform of "
                f"{flow.connector} gives ({format_routers(flow)})"
            )
        raise HistoryError(
            f"{topic}: {why}; name its copy: --copy-topic {topic}=NAME, or flows[].copies"
        )
    if remote not in names:
        raise HistoryError(f"{topic}: there is no topic {remote} on {flow.downstream}")
    others = sorted(other for other, copy in copies.items() if copy == remote and other != topic)
    if others:
        raise HistoryError(
            f"{topic}: {remote} on {flow.downstream} has the copies of {', '.join(others)} too, "
            "and no record says of which topic it is a copy: not audited"
        )
    return remote


def _anchors(
    flow: MirrorFlow, partitions: frozenset[TopicPartition], sides: AuditClients
) -> dict[TopicPartition, Anchors]:
    """Return the offset syncs of these partitions.

    Without any, both logs are compared from their start.
    """
    anchors: dict[TopicPartition, Anchors] = {}
    syncs: KafkaTopic | None = flow.offset_syncs
    if syncs is None:
        return anchors
    admin = sides.admin(syncs.kafka)
    if syncs.topic not in admin.topics()[0]:
        return anchors
    for record in read_whole_topic(
        admin, lambda: TailReader(syncs.kafka, sides.kafka[syncs.kafka]), syncs.topic
    ):
        sync = decode_sync(record.key, record.value)
        if isinstance(sync, Undecodable):
            continue
        partition = TopicPartition(sync.topic, sync.partition)
        if partition in partitions:
            anchors.setdefault(partition, Anchors()).add(
                sync.upstream_offset, sync.downstream_offset
            )
    return anchors


def _find_compacted_topics(admin: KafkaInspector, names: Mapping[str, str]) -> frozenset[str]:
    """Return upstream names of compacted topics; `names` has their names on this cluster."""
    policies = admin.policies(set(names.values()))
    return frozenset(
        topic for topic, name in names.items() if "compact" in (policies.get(name) or "").split(",")
    )


def _resolve_bounds(
    upstream: KafkaInspector, partitions: Collection[TopicPartition], bounds: AuditBounds
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the first and end upstream offsets of each partition, where a bound was requested."""
    firsts = {} if bounds.first is None else dict.fromkeys(partitions, bounds.first)
    ends = {} if bounds.end is None else dict.fromkeys(partitions, bounds.end)
    if bounds.since is not None:
        offsets = upstream.offsets_at(dict.fromkeys(partitions, bounds.since))
        # None: all records are older, and nothing of the partition is asked for.
        firsts = {
            partition: 2**63 - 1 if offset is None else offset
            for partition, offset in offsets.items()
        }
    if bounds.until is not None:
        offsets = upstream.offsets_at(dict.fromkeys(partitions, bounds.until))
        ends = {partition: offset for partition, offset in offsets.items() if offset is not None}
    return firsts, ends
