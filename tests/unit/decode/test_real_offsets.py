"""Offsets from public reports: what each says of its position, its time and its order.

Of each group in `source-offsets.json` the offsets are in the order in which they were written, each
with its source. Those without an address are of public repositories, by a text that is in them.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from offsetwatch.decode.dialects import (
    build_order_key,
    compare_offsets,
    find_own_dialect,
    read_event_time,
    refine_dialect,
    select_positions,
)
from offsetwatch.decode.offset_order import is_snapshot
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import Order, SourceOffset

GROUPS = json.loads((Path(__file__).parents[2] / "golden" / "source-offsets.json").read_text())
ROWS = [(group["class"], row) for group in GROUPS for row in group["offsets"]]
# A set of GTIDs that lacks a server is not behind: a filter may leave it out.
ONE_WAY = {"a failover adds a second server"}
UNORDERED = {"no commit, no order", "the first transaction has no commit before it"}


def decode(fields: dict) -> SourceOffset:
    offset = decode_value(json.dumps(fields).encode())
    assert isinstance(offset, SourceOffset)
    return offset


@pytest.mark.parametrize(("class_name", "row"), ROWS, ids=str)
def test_an_offset_has_the_positions_the_time_and_the_snapshot_of_its_class(class_name, row):
    dialect, offset = find_own_dialect(class_name), decode(row["offset"])
    assert dict(select_positions(dialect, offset)) == row["positions"]
    assert read_event_time(dialect, offset) == row["at"]
    assert is_snapshot(row["offset"]) == row["snapshot"]


@pytest.mark.parametrize(("class_name", "row"), ROWS, ids=str)
def test_the_shape_of_an_offset_does_not_contradict_its_class(class_name, row):
    shape = refine_dialect("debezium", decode(row["offset"])).name
    assert shape in {"debezium", find_own_dialect(class_name)}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['class']}-{group['note']}")
def test_offsets_are_in_the_order_in_which_they_were_written(group):
    dialect = find_own_dialect(group["class"])
    offsets = [decode(row["offset"]) for row in group["offsets"]]
    ordered = [build_order_key(dialect, offset) is not None for offset in offsets]
    assert ordered == [group["note"] not in UNORDERED] * len(offsets)
    for before, after in pairwise(offsets):
        assert compare_offsets(dialect, before, after) is Order.AHEAD
        back = compare_offsets(dialect, after, before)
        assert back is Order.BEHIND or (back is Order.UNORDERED and group["note"] in ONE_WAY)
