"""Offsets from public reports: what each says of its class, position, time, snapshot and order.

Of each group in `source-offsets.json` the offsets are of one source partition, in the order in
which they were written, each with its order relative to the one before (`order`), and with
`ordered` where it has none at all. A source without an address is a public repository, named by a
text that is in it. A group with `derived` is not as it was found, and says what was changed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from offsetwatch.decode.dialects import (
    build_order_key,
    compare_offsets,
    detect_shape,
    find_own_dialect,
    read_event_time,
    refine_dialect,
    resolve_dialect,
    select_positions,
)
from offsetwatch.decode.offset_order import is_snapshot
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import Order, SourceOffset

ROOT = Path(__file__).parents[3]
GROUPS = json.loads((ROOT / "tests/golden/source-offsets.json").read_text())
BACK = {"ahead": "behind", "unordered": "unordered"}  # unless a row says otherwise (`back`)
ROWS = [(group, row) for group in GROUPS for row in group["offsets"]]


def decode(fields: dict) -> SourceOffset:
    offset = decode_value(json.dumps(fields).encode())
    assert isinstance(offset, SourceOffset)
    return offset


def describe(group: dict) -> str:
    return f"{group['class'].rpartition('.')[2]}-{group['source'][-40:]}-{group.get('note', '')}"


@pytest.mark.parametrize("group", GROUPS, ids=describe)
def test_a_class_and_the_partitions_that_it_writes_have_their_dialect(group):
    own = find_own_dialect(group["class"])
    assert own == (None if group["dialect"] == "generic" else group["dialect"])
    if "partition" in group:
        shape = detect_shape(group["partition"]).name
        assert resolve_dialect(shape, group["class"]) == group["dialect"]


@pytest.mark.parametrize(
    ("group", "row"), ROWS, ids=lambda part: describe(part) if "class" in part else ""
)
def test_an_offset_has_the_positions_the_time_and_the_snapshot_of_its_class(group, row):
    offset = decode(row["offset"])
    assert dict(select_positions(group["dialect"], offset)) == row["positions"]
    assert read_event_time(group["dialect"], offset) == row["at"]
    assert is_snapshot(row["offset"]) == row["snapshot"]


@pytest.mark.parametrize(
    ("group", "row"), ROWS, ids=lambda part: describe(part) if "class" in part else ""
)
def test_the_shape_of_an_offset_does_not_contradict_its_class(group, row):
    shape = refine_dialect("debezium", decode(row["offset"])).name
    another = group["dialect"] == "generic" and shape == "debezium_oracle"  # XStream has an scn too
    assert shape in {"debezium", group["dialect"]} or another


@pytest.mark.parametrize("group", GROUPS, ids=describe)
def test_offsets_are_in_the_order_in_which_they_were_written(group):
    offsets = [decode(row["offset"]) for row in group["offsets"]]
    expected = [Order(row["order"]) for row in group["offsets"][1:]]
    assert [compare_offsets(group["dialect"], *pair) for pair in pairwise(offsets)] == expected
    backwards = [Order(row.get("back", BACK[row["order"]])) for row in group["offsets"][1:]]
    pairs = [(after, before) for before, after in pairwise(offsets)]
    assert [compare_offsets(group["dialect"], *pair) for pair in pairs] == backwards
    keys = [build_order_key(group["dialect"], offset) for offset in offsets]
    assert [key is not None for key in keys] == [
        row.get("ordered", True) for row in group["offsets"]
    ]


def test_the_page_of_connectors_says_how_many_offsets_its_orders_were_checked_on():
    page = (ROOT / "docs/connectors.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| (\d+)(?: \+ (\d+))? \|$", page, re.MULTILINE)
    found = Counter(group["class"] for group, _ in ROWS if "derived" not in group)
    derived = Counter(group["class"] for group, _ in ROWS if "derived" in group)
    expected = {name: (found[name], derived[name]) for name in found | derived}
    assert {name: (int(real), int(more or 0)) for name, real, more in rows} == expected
