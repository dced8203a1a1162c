"""Partitioner of Kafka's Java producer for records with a key: murmur2 modulo partitions.

Connect relies on this partitioner for its offsets (BuiltInPartitioner; before 3.3
DefaultPartitioner, with the same arithmetic). A key written to another partition leaves two
records, which compaction never merges.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED, _MULTIPLIER, _SHIFT = 0x9747B28C, 0x5BD1E995, 24


def murmur2(data: bytes) -> int:
    """Return the hash of Utils.murmur2 as an unsigned 32-bit number."""
    size = len(data)
    digest = (_SEED ^ size) & _MASK
    whole = size - size % 4
    for number in range(0, whole, 4):
        part = int.from_bytes(data[number : number + 4], "little") * _MULTIPLIER & _MASK
        part ^= part >> _SHIFT
        digest = (digest * _MULTIPLIER & _MASK) ^ (part * _MULTIPLIER & _MASK)
    if whole < size:
        digest ^= int.from_bytes(data[whole:], "little")
        digest = digest * _MULTIPLIER & _MASK
    digest ^= digest >> 13
    digest = digest * _MULTIPLIER & _MASK
    return digest ^ digest >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic with so many partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
