"""Blocks: the same for the same records, whatever stands before them and however they arrive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from offsetwatch.history.audit import chunking
from offsetwatch.history.audit.chunking import (
    BLOCK_RECORDS_MAX,
    BLOCK_RECORDS_MIN,
    Block,
    BlockBuilder,
    build_blocks,
)

COUNT = 60_000


@pytest.fixture(scope="module")
def hashes() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**64, COUNT, dtype=np.uint64)


def cut(hashes: np.ndarray, *, parts: int = 1, first: int = 0) -> list[Block]:
    offsets = np.arange(first, first + len(hashes), dtype=np.int64)
    at_work, results = BlockBuilder(), []
    for own, theirs in zip(
        np.array_split(offsets, parts), np.array_split(hashes, parts), strict=True
    ):
        results += at_work.take(own, theirs)
    return results + list(at_work.rest())


def digests(block: list[Block]) -> list[int]:
    return [row.digest for row in block]


def test_every_record_is_in_one_block_and_blocks_are_within_their_sizes(hashes) -> None:
    block = cut(hashes)
    assert sum(row.records for row in block) == COUNT
    assert [row.first for row in block[1:]] == [row.last + 1 for row in block[:-1]]
    assert all(BLOCK_RECORDS_MIN <= row.records <= BLOCK_RECORDS_MAX for row in block[:-1])
    assert len(block) > 5


@pytest.mark.parametrize("parts", [2, 7, 1000])
def test_blocks_do_not_depend_on_how_records_arrive(hashes, parts: int) -> None:
    assert cut(hashes, parts=parts) == cut(hashes)


def test_one_record_less_changes_its_own_block_and_no_other(hashes) -> None:
    before, after = cut(hashes), cut(np.delete(hashes, 30_000))
    assert sum(one not in digests(before) for one in digests(after)) == 1


def test_offsets_make_no_difference_to_what_a_block_is_known_by(hashes) -> None:
    assert digests(cut(hashes, first=500)) == digests(cut(hashes))


def test_two_records_that_change_places_change_the_number(hashes) -> None:
    swapped = hashes.copy()
    swapped[[100, 101]] = hashes[[101, 100]]
    assert digests(cut(swapped))[0] != digests(cut(hashes))[0]
    assert digests(cut(swapped))[1:] == digests(cut(hashes))[1:]


def test_the_same_record_over_and_over_ends_its_blocks_at_their_bounds() -> None:
    never = cut(np.ones(2 * BLOCK_RECORDS_MAX + 5, dtype=np.uint64))
    assert [block.records for block in never] == [BLOCK_RECORDS_MAX, BLOCK_RECORDS_MAX, 5]
    always = cut(np.zeros(2 * BLOCK_RECORDS_MIN, dtype=np.uint64))
    assert [alway.records for alway in always] == [BLOCK_RECORDS_MIN, BLOCK_RECORDS_MIN]


def test_each_slice_and_side_has_blocks_of_its_own(hashes) -> None:
    def batch(number: int, side: int, values: np.ndarray) -> pa.RecordBatch:
        count = len(values)
        return pa.RecordBatch.from_pydict(
            {
                "slice": pa.array([number] * count, pa.int32()),
                "side": pa.array([side] * count, pa.int32()),
                "offset": pa.array(range(count), pa.int64()),
                "hash": pa.array(values.view(np.int64)),
            }
        )

    parts = [batch(0, 0, hashes[:700]), batch(0, 1, hashes[:700]), batch(1, 1, hashes[:0])]
    together = pa.Table.from_batches([*parts, batch(2, 1, hashes[:100])]).combine_chunks()
    results = [
        row for rows in build_blocks(iter(together.to_batches())) for row in rows.to_pylist()
    ]
    assert [(item["slice"], item["side"]) for item in results] == [(0, 0), (0, 1), (2, 1)]
    assert [item["records"] for item in results] == [700, 700, 100]
    assert results[0]["digest"] == results[1]["digest"]
    assert list(results[0]) == list(chunking.NAMES)
