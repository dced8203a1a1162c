"""Connectors come and go, and what they committed stays: whose offsets are of an earlier life?

A connector that is deleted and created again under its name begins where the earlier one was.
Called by memory.py; rules read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from exporter.model.connectors import DELETED
from exporter.state.snapshot import Snapshot, SourcePartitionView

LEFT_OVER_MAX: Final = 1_000  # source partitions of one connector; nobody reads a longer list

_ALIVE: Final = frozenset({"running", "paused", "stopped", "failed"})
# MM2's checkpoint and heartbeat connectors store a 0 and never read it.
_CONSTANT: Final = frozenset({"mirror_checkpoint", "mirror_heartbeat"})

Who = tuple[str, str]  # Connect cluster, connector


class Life(msgspec.Struct):
    """One life of a connector.

    born        it did not exist before; 0.0 if it was there when we first looked
    left_over   offsets that were there when it came, by source partition: not its own. None until
                its offsets could be looked at
    """

    born: float = 0.0
    left_over: dict[str, str] | None = None


class Told(msgspec.Struct, frozen=True):
    """A life on disk."""

    who: Who
    life: Life


@dataclass(slots=True)
class Lives:
    """See the module. `of` holds the connectors that are listed."""

    of: dict[Who, Life] = field(default_factory=dict)
    _absent_at: dict[str, float] = field(default_factory=dict)

    def observe(
        self,
        snapshot: Snapshot,
        listed: Mapping[str, frozenset[str]],
        sources: Mapping[Who, Iterable[SourcePartitionView]],
    ) -> None:
        """Take in a snapshot. `listed`: the connectors of each Connect cluster that lists them;
        `sources`: the source partitions of each connector whose offsets can be seen.
        """
        deleted = _deleted(snapshot)
        for cluster, names in listed.items():
            for who in [who for who in self.of if who[0] == cluster and who[1] not in names]:
                del self.of[who]
            for name in names:
                self._meet((cluster, name), deleted.get((cluster, name), 0.0))
            self._absent_at[cluster] = snapshot.at
        for who, life in self.of.items():
            if life.born and life.left_over is None and who in sources:
                life.left_over = _older(sources[who], life.born)

    def _meet(self, who: Who, deleted_at: float) -> None:
        """A connector is listed, and was last deleted then, if that was seen."""
        life = self.of.get(who)
        if life is None:
            # It came after the last list without it; that was never read if we have just begun.
            self.of[who] = Life(born=max(self._absent_at.get(who[0], 0.0), deleted_at))
        elif deleted_at > life.born and who[0] in self._absent_at:
            self.of[who] = Life(born=deleted_at)

    def remembered(self) -> tuple[Told, ...]:
        """Those whose earlier lives still matter."""
        return tuple(Told(who, life) for who, life in sorted(self.of.items()) if life.left_over)

    def recall(self, told: tuple[Told, ...]) -> None:
        """Go on from there."""
        self.of = {at.who: at.life for at in told}


def _deleted(snapshot: Snapshot) -> dict[Who, float]:
    """When connectors that live again were last deleted, as far as a status topic told.

    A list may be older than the deletion, and a worker may call one unassigned that is gone: it
    lives again once one says that it runs, or might.
    """
    found: dict[Who, float] = {}
    for history in snapshot.histories:
        if history.task is None:
            ended = 0.0
            for change in history.changes:
                if change.state == DELETED:
                    ended = change.at
                elif ended and change.state in _ALIVE:
                    found[history.connect_cluster, history.connector] = ended
    return found


def _older(sources: Iterable[SourcePartitionView], born: float) -> dict[str, str]:
    found = {
        view.label: view.offset.text
        for view in sources
        if view.offset is not None
        and view.committed_at is not None
        and view.committed_at < born
        and view.dialect not in _CONSTANT
    }
    return dict(list(found.items())[:LEFT_OVER_MAX])
