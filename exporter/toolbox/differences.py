"""What a request would change: offsets now against offsets wanted. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from exporter.model.offsets import Order
from exporter.remedy.plan import Pair


class Kind(StrEnum):
    """What happens to one partition's offset."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One partition whose offset is not the same.

    before, after   JSON, or None for none
    order           of `after` against `before`, where the connector keeps an order and has both
    """

    partition: str
    before: str | None
    after: str | None
    order: Order | None = None

    @property
    def kind(self) -> Kind:
        """See Kind."""
        if self.before is None:
            return Kind.ADDED
        return Kind.REMOVED if self.after is None else Kind.CHANGED

    @property
    def pair(self) -> Pair:
        """What is to be asked for."""
        return Pair(self.partition, self.after)


def changes(now: tuple[Pair, ...], wanted: tuple[Pair, ...]) -> tuple[Change, ...]:
    """What asking for `wanted` would change, in the order of `wanted`; what it does not name stays.

    Numbers are compared with their types: 5 and 5.0 are not the same to a connector.
    """
    raise NotImplementedError
