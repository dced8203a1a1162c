"""Raw Kafka records with their exact bytes, and ranges of a log that were read.

A null key, value or header value differs from an empty one. A record's identity is the hash of its
content, independent of its position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from offsetwatch.errors import ResponseTimeout

TimestampType = Literal["create", "append", "none"]
Headers = tuple[tuple[str, bytes | None], ...]

_FORMAT: Final = b"offsetwatch record 1"
_NULL: Final = -1
# What a producer counts beside key, value and headers, at most: the head of a batch, and of a
# record its length (5), attributes (1), timestamp (10) and offset (5).
_BATCH_BYTES: Final = 61
_RECORD_BYTES: Final = 21


@dataclass(frozen=True, slots=True)
class RawRecord:
    """Record as a log holds it.

    leader_epoch    epoch in which it was written, None if the broker does not report it
    timestamp_ms    None if it has none
    timestamp_type  whose clock that was: the producer's (`create`) or the broker's (`append`)
    headers         in their order; a name may be repeated
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int | None
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def sha256(self) -> str:
        """Return the hash of all but the position; each part comes after its length."""
        digest = hashlib.sha256(_FORMAT)
        for part in self._parts():
            length = _NULL if part is None else len(part)
            digest.update(length.to_bytes(8, "big", signed=True))
            digest.update(part or b"")
        return digest.hexdigest()

    def _parts(self) -> Iterator[bytes | None]:
        yield self.key
        yield self.value
        yield None if self.timestamp_ms is None else b"%d" % self.timestamp_ms
        yield self.timestamp_type.encode()
        yield b"%d" % len(self.headers)
        for name, value in self.headers:
            yield encode_header_name(name)
            yield value

    @property
    def size_bytes(self) -> int:
        """Return the size that a producer compares with max.request.size, before compression."""
        return compute_size_bytes(self.key, self.value, self.headers)


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Records in a range of a partition's log, all of them.

    The range ends at the log end, or at the offset or bound that the reader was given. A read that
    ran out of time before that is an IncompleteRead.

    next_offset  first offset that was not read
    log_start    start of the log when it was read
    end          end of the log for that reader: with committed records only, the last stable offset
    corrupt_at   first offset of a batch that fails its checksum or cannot be decoded: nothing from
                 there on was read
    """

    records: tuple[RawRecord, ...]
    next_offset: int
    end: int
    log_start: int
    corrupt_at: int | None = None


class IncompleteRead(ResponseTimeout):
    """Error of a read that ran out of time before the requested end of its window.

    partial     records read until then; nothing is known of the log from its `next_offset` on
    """

    def __init__(self, target: str, detail: str, partial: LogWindow) -> None:
        super().__init__(target, detail)
        self.partial = partial


def encode_header_name(name: str) -> bytes:
    """Return the bytes of a header's name; a name that cannot be sent has distinct bytes, too."""
    return name.encode("utf-8", "surrogatepass")


def compute_size_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size of a record in bytes, as in `RawRecord.size_bytes`."""
    counted = (
        _count_field_bytes(key) + _count_field_bytes(value) + _count_varint_bytes(len(headers))
    )
    counted += sum(
        _count_field_bytes(encode_header_name(name)) + _count_field_bytes(part)
        for name, part in headers
    )
    return _BATCH_BYTES + _RECORD_BYTES + counted


def _count_field_bytes(part: bytes | None) -> int:
    return 1 if part is None else _count_varint_bytes(len(part)) + len(part)


def _count_varint_bytes(number: int) -> int:
    """Return the length in bytes of a non-negative varint: 7 bits to a byte, 1 is the sign."""
    return max(1, -(-(number.bit_length() + 1) // 7)) if number else 1
