"""Protocol of readers of offsets: over REST, through Strimzi, or from a worker's storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from offsetwatch.remedy.model.plan import PartitionOffset

ReadProgressCallback = Callable[[int, int | None], None]
"""Called during long reads with the records read so far, and their total; None if unknown."""


class HistoricOffset(NamedTuple):
    """A historic record (`--from-beginning`): its pair, and when and where it was written.

    at          Unix seconds; None in a file
    """

    connector: str
    pair: PartitionOffset
    at: float | None
    kpartition: int | None
    koffset: int | None


class OffsetReader(Protocol):
    """A reader of the offsets of connectors. Raises ClientError."""

    @property
    def name(self) -> str:
        """The Connect cluster's name, `kafka/topic`, or a path, for users."""

    def connectors(self) -> tuple[str, ...]:
        """Return the names of all connectors that are known or have offsets here, sorted."""

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """Return the offsets that a task would receive now, by partition; without removed ones."""

    def notes(self, connector: str) -> tuple[str, ...]:
        """Return notes about the connector's offsets, a sentence each.

        They are about keys in other bytes, a value that is no offset, or a dedicated topic that
        hides the worker's.
        """

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Yield every record that still exists, in log order.

        Raises RemoteRefusal where only current offsets are available.
        """

    def close(self) -> None:
        """Close connections."""
