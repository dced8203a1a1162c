"""What rules have to know of earlier moments, and what of it outlives the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from offsetwatch.judge.findings import failure_history as failures
from offsetwatch.judge.findings import incarnations as lives
from offsetwatch.judge.findings.condition_age import ConditionAges, ConditionKey
from offsetwatch.judge.findings.failure_history import FailureTracker
from offsetwatch.judge.findings.incarnations import IncarnationTracker
from offsetwatch.judge.progress import rewinds as falls
from offsetwatch.judge.progress.rewinds import RewindTracker
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.judge.snapshot_index import SnapshotIndex

MirrorPartitionKey = tuple[
    str, str, str, int
]  # Connect cluster, connector, upstream topic, partition

_Document = TypeVar("_Document")


class RuleMemoryState(msgspec.Struct, frozen=True):
    """All that is remembered."""

    held: tuple[tuple[ConditionKey, float, float], ...]
    failures: tuple[failures.TaskFailureRecord, ...]
    lives: tuple[lives.IncarnationRecord, ...]
    falls: falls.RewindState


def decode_state(document: bytes, kind: type[_Document]) -> _Document:
    """A document of the judge's. Raises ValueError for what is none of that kind."""
    try:
        return msgspec.json.decode(document, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc


@dataclass(slots=True)
class RuleMemory:
    """See the module.

    synced    upstream partitions that had a sync while we looked
    """

    held: ConditionAges = field(default_factory=ConditionAges)
    failures: FailureTracker = field(default_factory=FailureTracker)
    lives: IncarnationTracker = field(default_factory=IncarnationTracker)
    falls: RewindTracker = field(default_factory=RewindTracker)
    synced: set[MirrorPartitionKey] = field(default_factory=set)
    _seen: tuple[object, object] = (None, None)

    def observe(self, look: SnapshotIndex, settings: JudgeSettings) -> None:
        """Take in what is seen now, before the rules ask."""
        snapshot, listed = look.snapshot, look.listed
        positions = look.positions(self.failures.wanted(snapshot))
        believed = look.believed()
        self.failures.observe(snapshot, believed, positions, settings.patience_s)
        self.lives.observe(snapshot, listed, look.sources, look.read(), believed.keys())
        self.falls.observe(look, settings.interval_s, look.rests())
        if self._seen[0] is look.mirrors and self._seen[1] is look.newest_syncs:
            return  # there is no other sync than at the last look
        self._seen = (look.mirrors, look.newest_syncs)
        for key, views in look.mirrors.items():
            for view in views:
                if (view.source, view.target, view.topic, view.partition) in look.syncs(key[0]):
                    self.synced.add((*key, view.topic, view.partition))

    @property
    def urgent(self) -> bool:
        """Would a restart now forget what nothing tells again?"""
        return self.failures.urgent

    def settle(self, blind: Callable[[ConditionKey], bool]) -> None:
        """The rules have asked."""
        self.held.settle(blind)

    def remembered(self) -> RuleMemoryState:
        """What a restart must not forget."""
        return RuleMemoryState(
            held=self.held.remembered(),
            failures=self.failures.remembered(),
            lives=self.lives.remembered(),
            falls=self.falls.remembered(),
        )

    def recall(self, rule_memory: RuleMemoryState) -> None:
        """Go on from there."""
        self.held.recall(rule_memory.held)
        self.failures.recall(rule_memory.failures)
        self.lives.recall(rule_memory.lives)
        self.falls.recall(rule_memory.falls)
