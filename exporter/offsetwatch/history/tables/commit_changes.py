"""Change that each commit made, as Arrow batches, by the daemon's offset order. No Spark, no I/O.

It runs on Spark executors, inside silver.py's mapInArrow. Most commits move a single number of a
connector that orders by it, and Arrow compares those at once; only the others are decoded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from offsetwatch.decode.dialects import (
    DIALECTS_BY_CLASS,
    MIRROR_SOURCE,
    compare_offsets,
    resolve_dialect,
)
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.offsets import Order, SourceOffset

FIRST_COMMIT = "first"  # nothing of this source partition lies before it in the log
RESET = "reset"  # a tombstone that took an offset back
PREVIOUS_COLUMNS = ("before", "before_offset", "before_pos")
"""Columns that a commit has beside its own: is there an earlier one, and what did it say?"""
CLASS = "class_name"
"""And the class of its connector, which says what offsets mean; null where nothing tells it."""

_MIRROR_CLASSES = pa.array(
    [name for name, own in DIALECTS_BY_CLASS.items() if own is MIRROR_SOURCE]
)
_NULL = "null"  # the text of a value that holds JSON null: no offset


def compute_changes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch with `change` in place of CLASS and PREVIOUS_COLUMNS."""
    for batch in batches:
        names = [name for name in batch.schema.names if name not in {*PREVIOUS_COLUMNS, CLASS}]
        arrays = [batch[name] for name in names]
        yield pa.RecordBatch.from_arrays([*arrays, _change(batch)], names=[*names, "change"])


def _change(rows: pa.RecordBatch) -> pa.Array:
    # Their one number is all the order they have (decode/dialects.py).
    mirrors = pc.or_(pc.is_null(rows[CLASS]), pc.is_in(rows[CLASS], value_set=_MIRROR_CLASSES))
    by_number = pc.and_(pc.equal(rows["dialect"], MIRROR_SOURCE.name), mirrors)
    differ = pc.fill_null(pc.not_equal(rows["pos"], rows["before_pos"]), fill_value=False)
    ahead = pc.greater(rows["pos"], rows["before_pos"])
    orders = pc.if_else(ahead, Order.AHEAD.value, Order.BEHIND.value)
    known = pc.if_else(pc.and_(by_number, differ), orders, pa.scalar(None, pa.string()))
    if not known.null_count:
        return known
    columns = ("dialect", "source_offset", "tombstone", "error", "before", "before_offset", CLASS)
    others = zip(*(rows[name].to_pylist() for name in columns), strict=True)
    changes = [
        change if change is not None else change_of(*row)
        for change, row in zip(known.to_pylist(), others, strict=True)
    ]
    return pa.array(changes, pa.string())


def change_of(
    dialect: str,
    source_offset: str | None,
    tombstone: bool,  # noqa: FBT001 - columns of a row
    error: str | None,
    before: bool | None,  # noqa: FBT001
    before_offset: str | None,
    class_name: str | None = None,
) -> str | None:
    """Return the change that a commit made: an Order, FIRST_COMMIT or RESET; None if undecodable.

    `dialect` is the shape of its source partition.
    """
    if error is not None:
        return None
    if tombstone:
        return Order.SAME.value if _decode_offset(before_offset) is None else RESET
    now = _decode_offset(source_offset)
    if before is None and now is not None:
        return FIRST_COMMIT
    means = resolve_dialect(dialect, class_name or "")
    return compare_offsets(means, _decode_offset(before_offset), now).value


def _decode_offset(text: str | None) -> SourceOffset | None:
    if text is None or text == _NULL:
        return None
    offset = decode_value(text.encode())
    return offset if isinstance(offset, SourceOffset) else None
