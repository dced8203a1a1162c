"""Offset ranges that an audit reads on both sides, and the part of them that it judges. Pure.

All inputs are known before the audit reads a record: the log bounds, the position that MM2 reports
as replicated, and the offset syncs, which give the downstream offsets of single records. A sync is
an anchor: the record at its upstream offset is the one at its downstream offset.

Records before the first anchor, or before the part that retention has left of either side, cannot
have a counterpart: they are not comparable, and never lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from offsetwatch.model.log_readings import LogBounds
from offsetwatch.model.topology import TopicPartition

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
        self._kept: list[tuple[int, int]] = []

    def add(self, upstream: int, downstream: int) -> None:
        """Add one sync, newer than those before."""
        new = (upstream, downstream)
        if self._kept and downstream < self._kept[-1][1]:
            self._kept.clear()  # the downstream topic was cut or made anew: what was there is gone
        if len(self._kept) >= 2 and self._spare(self._kept[-2], self._kept[-1], new):
            self._kept[-1] = new
        else:
            self._kept.append(new)

    def _spare(self, before: tuple[int, int], last: tuple[int, int], new: tuple[int, int]) -> bool:
        lines = {up - down for up, down in (before, last, new)}
        return len(lines) == 1 and before[0] <= last[0] <= new[0] <= before[0] + ANCHOR_SPACING

    def within(self, up: LogBounds, down: LogBounds) -> tuple[tuple[int, int], ...]:
        """Return the anchors whose record still exists on both sides."""
        return tuple(
            item
            for item in self._kept
            if up.start <= item[0] < up.end and down.start <= item[1] < down.stable_end
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

    wanted      upstream offsets that were requested and may exist
    deleted     requested offsets that upstream retention has deleted
    pending     offsets that are not replicated yet
    """

    at: TopicPartition
    remote: str
    wanted: int
    deleted: int
    pending: int
    slices: tuple[Slice, ...]


def compute_coverage(
    known: AuditPartition, first: int | None, end: int | None
) -> PartitionCoverage:
    """Return the whole range as one slice; `first` and `end` bound it upstream, None: no bound."""
    asked_end = known.up_end if end is None else min(end, known.up_end)
    following = known.up.start if known.replicated is None else known.replicated + 1
    judged_end = max(min(asked_end, following), known.up.start)
    judged_first = max(known.up.start, first or 0)
    found = PartitionCoverage(
        at=known.at,
        remote=known.remote,
        wanted=max(0, asked_end - judged_first),
        deleted=max(0, min(known.up.start, asked_end) - (first or 0)),
        pending=max(0, asked_end - max(judged_end, judged_first)),
        slices=(),
    )
    if judged_first >= judged_end:
        return found
    head = _head(known, judged_first, bounded=first is not None)
    tail = (
        None if end is None or end >= following else _find_anchor_after(known.anchors, judged_end)
    )
    up_end, down_end = (known.up_end, known.down.stable_end) if tail is None else tail
    made = replace(head, up_end=up_end, down_end=down_end, judged=(judged_first, judged_end))
    return replace(found, slices=(made,))


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
        made = Slice(
            at=of.at,
            remote=of.remote,
            up=one[0],
            up_end=other[0],
            down=one[1],
            down_end=other[1],
            judged=(one[0], other[0]),
        )
        if chosen and (chosen[-1].up_end, chosen[-1].down_end) == one:
            last = chosen.pop()
            made = replace(made, up=last.up, down=last.down, judged=(last.up, other[0]))
        chosen.append(made)
    return replace(whole, slices=tuple(chosen[:PIECES_MAX]))


def _head(known: AuditPartition, first: int, *, bounded: bool) -> Slice:
    """Return a slice with its start set, but not its end."""
    anchor = _find_anchor_before(known.anchors, first)
    made = Slice(
        at=known.at, remote=known.remote, up=0, up_end=0, down=0, down_end=0, judged=(first, first)
    )
    if anchor is not None:
        return replace(made, up=anchor[0], down=anchor[1])
    # A downstream log that was never cut holds all that was ever written for this partition.
    all_there = known.down.start == 0 and known.from_start
    nothing_before = first == 0 if bounded else known.up.start == 0
    return replace(
        made, up=first, down=known.down.start, up_head=all_there, down_head=nothing_before
    )


def _find_anchor_before(anchors: Sequence[tuple[int, int]], first: int) -> tuple[int, int] | None:
    """Return the nearest anchor at or below `first`, where the flow first passed it.

    So the audit also reads what the flow copied again later.
    """
    found = None
    for anchor in anchors:
        if anchor[0] <= first:
            found = anchor
        elif found is not None:
            break
    return found


def _find_anchor_after(anchors: Sequence[tuple[int, int]], end: int) -> tuple[int, int] | None:
    """Return the nearest anchor at or above `end`, where the flow last passed it."""
    found = None
    for anchor in reversed(anchors):
        if anchor[0] >= end:
            found = anchor
        elif found is not None:
            break
    return found


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
