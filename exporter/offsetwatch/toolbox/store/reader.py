"""Where offsets are read: one Connect cluster over REST, or its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from offsetwatch.remedy.model.plan import PartitionOffset

ReadProgressCallback = Callable[[int, int | None], None]
"""Called during long reads: records read so far, and how many there are if that is known."""


class HistoricOffset(NamedTuple):
    """One record of the past (`--from-beginning`): the pair it set, when and where it was written.

    at          Unix seconds; None in a file
    """

    connector: str
    pair: PartitionOffset
    at: float | None
    kpartition: int | None
    koffset: int | None


class OffsetReader(Protocol):
    """Raises ClientError."""

    @property
    def name(self) -> str:
        """For people: the Connect cluster's name, `kafka/topic`, or a path."""

    def connectors(self) -> tuple[str, ...]:
        """Names of all that have offsets here, or are known here, sorted."""

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        """What a task of it would be handed now, in order of the partitions; none for removed."""

    def notes(self, connector: str) -> tuple[str, ...]:
        """What is odd about it here, in a sentence each: keys in other bytes, a value that is no
        offset, a topic of its own that hides the worker's.
        """

    def from_beginning(self, connectors: frozenset[str] | None) -> Iterator[HistoricOffset]:
        """Every record that is still there, in the order of the log. Raises RemoteRefusal where a
        place has no past to show.
        """

    def close(self) -> None:
        """Let go of connections."""
