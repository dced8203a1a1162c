"""Rows of bronze/source_ends and the samples that they are of."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from offsetwatch.clock import to_utc
from offsetwatch.history.tables.schemas import BRONZE_SOURCE_ENDS
from offsetwatch.model.offsets import INT64_MAX, INT64_MIN
from offsetwatch.model.source_ends import SourceEndSample

_COLUMN_NAMES: Final = {"read_at": "at", "end": "source_end"}  # where they are not the field's name


def build_row(sample: SourceEndSample) -> tuple[object, ...]:
    """Return the row of a sample. A number that does not fit 64 bits is null."""
    at, since = to_utc(sample.read_at), sample.behind_since
    values = {
        _COLUMN_NAMES.get(name, name): value
        for name, value in msgspec.structs.asdict(sample).items()
    }
    values |= {
        "at": at,
        "behind_since": None if since is None else to_utc(since),
        "day": at.date(),
    }
    return tuple(_fit(values[name]) for name in BRONZE_SOURCE_ENDS.names)


def _fit(value: object) -> object:
    is_beyond = isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX
    return None if is_beyond else value


def build_sample(row: dict[str, Any]) -> SourceEndSample:
    """Return the sample of a row, with times in Unix seconds."""
    return SourceEndSample(
        **{name: row[_COLUMN_NAMES.get(name, name)] for name in SourceEndSample.__struct_fields__}
    )
