"""Blocks of consecutive records with one digest each, by which both sides are compared. No Spark.

The records alone decide where a block ends, so one record more or less changes only the block that
it is in: the two sides need no common offsets. A block ends with a record whose hash has its lowest
bits all zero (`hash % BLOCK_RECORDS_MEAN == 0`), if it has BLOCK_RECORDS_MIN records by then, and
in any case with BLOCK_RECORDS_MAX.

The digest is a sum, wrapping in 64 bits, of each record's hash mixed with its index in the block
(the finalizer of splitmix64): records in another order give another sum. Two different blocks have
the same digest once in 2^64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_RECORDS_MEAN: Final = 4096  # on average, beyond MIN
BLOCK_RECORDS_MIN: Final = 512
BLOCK_RECORDS_MAX: Final = 16 * BLOCK_RECORDS_MEAN

SCHEMA: Final = "slice INT, side INT, first BIGINT, last BIGINT, records BIGINT, digest BIGINT"
NAMES: Final = ("slice", "side", "first", "last", "records", "digest")
_TYPES: Final = (*[pa.int32()] * 2, *[pa.int64()] * 4)

_Longs = npt.NDArray[np.uint64]
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_INDICES: Final = (np.arange(BLOCK_RECORDS_MAX, dtype=np.uint64) + np.uint64(1)) * _GOLDEN


class Block(NamedTuple):
    """Consecutive records: their first and last offset, their count, their digest."""

    first: int
    last: int
    records: int
    digest: int


class BlockBuilder:
    """Builder of the blocks of one log; it takes the records in order, in parts of any size."""

    def __init__(self) -> None:
        self._first = self._last = self._records = 0
        self._digest = np.uint64(0)

    def take(self, offsets: npt.NDArray[np.int64], hashes: _Longs) -> Iterator[Block]:
        """Yield the blocks that end within these records."""
        ends = np.flatnonzero((hashes & np.uint64(BLOCK_RECORDS_MEAN - 1)) == 0)
        position = 0
        while position < len(hashes):
            end, whole = self._end(ends, position, len(hashes))
            self._add(offsets[position:end], hashes[position:end])
            if whole:
                yield self._finish_block()
            position = end

    def rest(self) -> Iterator[Block]:
        """Yield the last block, which the end of the log ends, if it has records."""
        if self._records:
            yield self._finish_block()

    def _end(self, ends: npt.NDArray[np.intp], position: int, length: int) -> tuple[int, bool]:
        """Return the end of the current block in this part, and whether the block is complete."""
        earliest = position + max(0, BLOCK_RECORDS_MIN - 1 - self._records)
        latest = position + BLOCK_RECORDS_MAX - self._records
        number = int(np.searchsorted(ends, earliest))
        end = int(ends[number]) + 1 if number < len(ends) else length + 1
        if min(end, latest) > length:
            return length, False
        return min(end, latest), True

    def _add(self, offsets: npt.NDArray[np.int64], hashes: _Longs) -> None:
        if not self._records:
            self._first, self._digest = int(offsets[0]), np.uint64(0)
        mixed = hashes + _INDICES[self._records : self._records + len(hashes)]
        mixed ^= mixed >> np.uint64(30)
        mixed *= _MIX_1
        mixed ^= mixed >> np.uint64(27)
        mixed *= _MIX_2
        mixed ^= mixed >> np.uint64(31)
        with np.errstate(over="ignore"):
            self._digest = np.uint64(self._digest + np.add.reduce(mixed))
        self._last = int(offsets[-1])
        self._records += len(hashes)

    def _finish_block(self) -> Block:
        block = Block(self._first, self._last, self._records, int(self._digest.view(np.int64)))
        self._records = 0
        return block


def build_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert batches of columns slice, side, offset, hash to rows of SCHEMA, for mapInArrow.

    A task has the records of one slice and one side at a time, as Spark's Kafka source reads a
    partition of a topic in one task.
    """
    builder = BlockBuilder()
    log: tuple[int, int] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        slices, sides = (batch.column(name).to_numpy() for name in ("slice", "side"))
        turns = np.flatnonzero((np.diff(slices) != 0) | (np.diff(sides) != 0)) + 1
        offsets = batch.column("offset").to_numpy()
        hashes = batch.column("hash").to_numpy().view(np.uint64)
        for first, end in zip((0, *turns), (*turns, len(hashes)), strict=True):
            next_log = int(slices[first]), int(sides[first])
            if next_log != log:
                yield from _build_batches(log, builder.rest())
                builder, log = BlockBuilder(), next_log
            yield from _build_batches(log, builder.take(offsets[first:end], hashes[first:end]))
    yield from _build_batches(log, builder.rest())


def _build_batches(
    log: tuple[int, int] | None, blocks: Iterable[Block]
) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of a slice and side as one batch; nothing without blocks."""
    rows = [(*(log or ()), *block) for block in blocks]
    if rows:
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, kind) for column, kind in zip(columns, _TYPES, strict=True)],
            names=list(NAMES),
        )
