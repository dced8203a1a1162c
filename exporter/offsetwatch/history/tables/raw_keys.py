"""Raw keys under which the tables hold one source partition, and the one that its task looks up.

The rule is the daemon's (state/connect/raw_keys.py), applied to rows. The tables do not store the
header of our own writes, so a record that offsetwatch wrote counts as one of the connector's here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import SourceKey, SourceOffset, Undecodable
from offsetwatch.state.connect.raw_keys import SpellingInUse, collect_spellings

EVIDENCE_RECORDS_MAX: Final = (
    4  # so many of the newest records under each raw key are enough to judge by
)


def find_keys_in_use(rows: Iterable[Mapping[str, Any]]) -> dict[str, SpellingInUse]:
    """Return for each source partition of one connector the raw key that its task looks up.

    Each row is a record of an offsets topic with key, source_offset, tombstone, error, kpartition,
    koffset, and kts in Unix seconds.
    """
    in_order = sorted(rows, key=lambda row: (row["kpartition"], row["koffset"]))
    records = [record for row in in_order if (record := _build_record(row)) is not None]
    spellings = collect_spellings(records)
    return {
        identity: spellings.in_use(identity)
        for identity in {record.key.identity for record in records}
    }


def _build_record(row: Mapping[str, Any]) -> SourceRecord | None:
    key = decode_key(row["key"])
    if not isinstance(key, SourceKey):
        return None
    offset: SourceOffset | Undecodable | None = None
    if row["error"] is not None:
        offset = Undecodable(row["error"])
    elif not row["tombstone"]:
        offset = decode_value(row["source_offset"].encode())
    return SourceRecord(
        key=key,
        raw_key=row["key"],
        offset=offset,
        partition=row["kpartition"],
        log_offset=row["koffset"],
        at=row["kts"],
        advanced_at=None,
        live=False,
    )
