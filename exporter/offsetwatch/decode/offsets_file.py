"""Reader and writer of a standalone worker's offsets file (FileOffsetBackingStore).

It has raw keys and values, as in an offsets topic. The file is a Java serialization stream of one
`HashMap<byte[],byte[]>`. Its layout has not changed since 0.9 and is given below byte by byte; a
stream of anything else is undecodable. Connect truncates and rewrites the file at every flush, so a
reader may find half of it: that is `truncated`, worth another try, and never "no offsets" (as
Connect itself takes it). A tombstone leaves a null value. Never write the file of a running worker.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from offsetwatch.decode import InvalidRecordError
from offsetwatch.model.offsets import Undecodable

OffsetsFileEntries = tuple[tuple[bytes | None, bytes | None], ...]

_LOAD_FACTOR = struct.pack(">f", 0.75)
_HEAD = b"".join(
    (
        b"\xac\xed\x00\x05",  # stream magic and version
        b"sr\x00\x11java.util.HashMap",  # an object of a class, which takes handle 0x7e0000
        bytes.fromhex("0507dac1c31660d1"),  # its serialVersionUID
        b"\x03\x00\x02",  # serializable with a writeObject method, two fields
        b"F\x00\x0aloadFactor",
        b"I\x00\x09threshold",
        b"xp",  # no annotations, no superclass; the object itself takes handle 0x7e0001
    )
)
_BLOCK = b"w\x08"  # eight bytes that HashMap.writeObject wrote: capacity and count
_BYTES_CLASS = b"ur\x00\x02[B" + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00xp"
_BYTES_CLASS_REFERENCE = b"uq\x00\x7e\x00\x02"  # an array of the class with handle 0x7e0002
_FIRST_ARRAY = 0x7E0003
_NULL, _REFERENCE, _END = b"p", b"q", b"x"
_INT = struct.Struct(">i")


def read_offsets_file(raw: bytes) -> OffsetsFileEntries | Undecodable:
    """Return the entries of an offsets file in file order, which has no meaning.

    Capacity, threshold and load factor are ignored, as in Java. A file of no bytes was read between
    its truncation and its first byte.
    """
    try:
        return _read_entries(_Reader(raw))
    except InvalidRecordError as exc:
        return Undecodable(str(exc))


def write_offsets_file(entries: OffsetsFileEntries) -> bytes:
    """Return the file that Java would write for these entries, byte for byte if no array is shared.

    Raise ValueError for a duplicate key: Java's map could not hold it.
    """
    keys = [key for key, _ in entries]
    if len(set(keys)) != len(keys):
        raise ValueError("a key is there twice")
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    # A map that never held anything has not yet made its table.
    threshold = capacity * 3 // 4 if entries else 0
    out = [_HEAD, _LOAD_FACTOR, _INT.pack(threshold), _BLOCK]
    out += [_INT.pack(capacity), _INT.pack(len(entries))]
    begun = False
    for part in (part for entry in entries for part in entry):
        if part is None:
            out.append(_NULL)
            continue
        out += [_BYTES_CLASS_REFERENCE if begun else _BYTES_CLASS, _INT.pack(len(part)), part]
        begun = True
    return b"".join((*out, _END))


def _read_entries(reader: _Reader) -> OffsetsFileEntries:
    reader.expect(_HEAD, otherwise="not_an_offsets_file")
    reader.take(8)  # load factor and threshold
    reader.expect(_BLOCK, otherwise="map_shape")
    reader.take(4)  # capacity
    count = reader.int32()
    if count < 0:
        raise InvalidRecordError("map_shape")
    entries: dict[bytes | None, bytes | None] = {}
    for _ in range(count):
        key = reader.array()
        entries[key] = reader.array()
    reader.expect(_END, otherwise="map_shape")
    if not reader.at_end():
        raise InvalidRecordError("more_than_a_map")
    if len(entries) != count:
        raise InvalidRecordError("key_twice")
    return tuple(entries.items())


@dataclass(slots=True)
class _Reader:
    """Reader of the stream: its position, and the arrays that a reference may name."""

    raw: bytes
    position: int = 0
    arrays: list[bytes] = field(default_factory=list)

    def take(self, size: int) -> bytes:
        taken = self.raw[self.position : self.position + size]
        if len(taken) < size:
            raise InvalidRecordError("truncated")
        self.position += size
        return taken

    def expect(self, expected: bytes, *, otherwise: str) -> None:
        """Read the expected bytes, or raise with the reason `otherwise`.

        A stream that ends within them is a file that is still being written: `truncated`.
        """
        actual = self.raw[self.position : self.position + len(expected)]
        if not expected.startswith(actual):
            raise InvalidRecordError(otherwise)
        self.take(len(expected))

    def int32(self) -> int:
        (value,) = _INT.unpack(self.take(4))
        return int(value)

    def array(self) -> bytes | None:
        """Return one key or value: null, a byte array, or a reference to an earlier one."""
        kind = self.raw[self.position : self.position + 1]
        if kind == _NULL:
            self.take(1)
            return None
        if kind == _REFERENCE:
            self.take(1)
            index = self.int32() - _FIRST_ARRAY
            if not 0 <= index < len(self.arrays):
                raise InvalidRecordError("reference")
            return self.arrays[index]
        self.expect(_BYTES_CLASS_REFERENCE if self.arrays else _BYTES_CLASS, otherwise="not_bytes")
        length = self.int32()
        if length < 0:
            raise InvalidRecordError("map_shape")
        self.arrays.append(self.take(length))
        return self.arrays[-1]

    def at_end(self) -> bool:
        return self.position == len(self.raw)
