"""Record batches byte by byte, and a request that has a broker store them: what no client writes.

librdkafka's in-process broker stores what it is given without a look at sums or records, as a disk
does that has gone bad.
"""

from __future__ import annotations

import socket
import struct

_APPEND_TIME = 8


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ 0x82F63B78 if number & 1 else number >> 1  # noqa: PLW2901
        table.append(number)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    result = 0xFFFFFFFF
    for byte in data:
        result = _TABLE[(result ^ byte) & 255] ^ (result >> 8)
    return result ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    number = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def sized(part: bytes | None) -> bytes:
    return varint(-1) if part is None else varint(len(part)) + part


def record(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...] = (),
    *,
    delta: int = 0,
) -> bytes:
    body = b"\0" + varint(0) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    body += b"".join(sized(name) + sized(part) for name, part in headers)
    return varint(len(body)) + body


def batch(
    *records: bytes,
    timestamp_ms: int = 1_800_000_000_000,
    append_time: bool = False,
    codec: int = 0,
    payload: bytes | None = None,
    crc_flipped: int = 0,
    magic: int = 2,
) -> bytes:
    """A batch; `payload` stands in place of the records' bytes, `crc_flipped` spoils the sum."""
    data = b"".join(records) if payload is None else payload
    attributes = codec | (_APPEND_TIME if append_time else 0)
    counts = (attributes, len(records) - 1, timestamp_ms, timestamp_ms, -1, -1, -1, len(records))
    summed = struct.pack(">hiqqqhii", *counts) + data
    inner = struct.pack(">ibI", 0, magic, crc32c(summed) ^ crc_flipped) + summed
    return struct.pack(">qi", 0, len(inner)) + inner


def store(bootstrap: str, topic: str, partition: int, stored: bytes) -> int:
    """Have the broker append a batch to a topic that is there; the offset it was given."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    data = struct.pack(">iii", 1, partition, len(stored)) + stored
    body = struct.pack(">hhii", -1, -1, 5000, 1) + name + data
    request = struct.pack(">hhih", 0, 3, 1, 1) + b"t" + body  # Produce, version 3
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        answer = _receive(connection, size)
    _, error, offset = struct.unpack_from(">ihq", answer, 4 + 4 + len(name) + 4)
    assert error == 0, error
    return int(offset)


def _receive(connection: socket.socket, size: int) -> bytes:
    result = b""
    while len(result) < size:
        result += connection.recv(size - len(result))
    return result
