"""Explanations of differences in a mirror: our plans, compaction, the connector's transforms.

Pure, but for the journal that it is given. An explanation by a plan or by compaction is certain. A
filter that may have dropped a record is only possible: the finding is reported with it, and remains
a finding unless the user decides otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from offsetwatch.decode.dialects import parse_mirror_partition
from offsetwatch.decode.java.hash_map import trim_blanks, values_of
from offsetwatch.decode.json_text import is_flat_map, parse_json
from offsetwatch.history.audit.differences import MirrorDifference, MirrorDifferenceKind, Span
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.journal.journal import JournalEntry
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanEnded,
    PlanOpened,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    Copy,
    PartitionOffset,
    Plan,
    PlanStatus,
    Reset,
    Write,
)
from offsetwatch.remedy.model.quarantine import compute_receipt_id

_UNDONE_ENDINGS: Final = frozenset({PlanStatus.RESTORED, PlanStatus.UNCHANGED})
_CONNECT_TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
_FILTER: Final = f"{_CONNECT_TRANSFORMS}Filter"
_BYTE_ARRAY_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class PlannedReposition:
    """A move of the flow by a plan, past upstream records `first` to `last`.

    again    the flow moved back before them
    """

    at: TopicPartition
    first: int
    last: int
    again: bool
    said: str


@dataclass(frozen=True, slots=True)
class Transforms:
    """Effects of a connector's configuration on the records that it copies.

    names       classes of its transforms
    drops       one of them may leave a record out
    alters      one of them may change it
    routes      one of them may write it to another topic: what it copied before it was configured
                so is in the topic of the old name
    headers     the converter that its headers go through, if that is not the one that leaves bytes
                as they are: `the worker's` if it names none of its own. Connect's own default
                writes text where bytes were
    """

    names: tuple[str, ...] = ()
    drops: bool = False
    alters: bool = False
    headers: str = ""
    routes: bool = False

    @property
    def said(self) -> str:
        """Return the short class names of the transforms, for display."""
        return ", ".join(name.rpartition(".")[2] for name in self.names)


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """Facts about one partition, where either topic is compacted.

    upstream    hash of a key -> offset of its newest record there
    """

    up: bool = False
    down: bool = False
    upstream: Mapping[int, int] = field(default_factory=dict)


def parse_transforms(config: Mapping[str, object]) -> Transforms:
    """Return the effects of a connector's configuration; nothing else of it is retained."""
    aliases = values_of(str(config.get("transforms") or ""))
    names = tuple(
        trim_blanks(str(config.get(f"transforms.{alias}.type") or alias))
        for alias in aliases
        if alias
    )
    # A transform that is not known may do anything.
    converter = trim_blanks(str(config.get("header.converter") or "the worker's"))
    return Transforms(
        names=names,
        drops=any(name == _FILTER or not name.startswith(_CONNECT_TRANSFORMS) for name in names),
        alters=any(name != _FILTER for name in names),
        headers="" if converter == _BYTE_ARRAY_CONVERTER else converter.rpartition(".")[2],
    )


def find_repositions(
    entries: Iterable[JournalEntry], store_names: frozenset[str], connector: str, alias: str
) -> tuple[PlannedReposition, ...]:
    """Return the ranges that plans for this connector made it skip, or copy again.

    places      names of the Connect cluster in the journal: its name, its offsets topics
    alias       of the flow's source: a connector may have offsets of others
    """
    plans: dict[str, Plan] = {}
    backups: dict[str, tuple[PartitionOffset, ...]] = {}
    done: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        match entry.record:
            case PlanOpened(plan=plan):
                if plan.subject.connector == connector and plan.subject.store in store_names:
                    plans[entry.plan_id] = plan
            case OffsetsBackedUp(frozen=frozen):
                backups[entry.plan_id] = frozen.pairs
            case StepVerified(index=index, undoing=False):
                done[entry.plan_id].add(index)
            case PlanEnded(ending=ending) if ending in _UNDONE_ENDINGS:
                plans.pop(entry.plan_id, None)
            case _:
                pass
    return tuple(
        reposition
        for plan_id, plan in plans.items()
        if plan_id in backups
        for reposition in _find_plan_repositions(plan, backups[plan_id], done[plan_id], alias)
    )


class DifferenceExplainer:
    """Explanations of the differences in one partition."""

    def __init__(
        self,
        partition: TopicPartition,
        repositions: Iterable[PlannedReposition],
        transforms: Transforms,
        compaction: CompactionFacts,
    ) -> None:
        own = [each for each in repositions if each.at == partition]
        self._by_kind = {
            MirrorDifferenceKind.LOST: [each for each in own if not each.again],
            MirrorDifferenceKind.DUPLICATED: [each for each in own if each.again],
        }
        self._transforms = transforms
        self._compaction = compaction

    def __call__(self, item: MirrorDifference) -> tuple[str, bool]:
        """Return the explanation and whether it is certain; ("", False) if there is none."""
        span = None if item.up is None else Span(item.up.offset, item.up.offset)
        certain = self.find_plan(item.kind, span) or self._explain_by_compaction(item)
        if certain:
            return certain, True
        lost = item.kind is MirrorDifferenceKind.LOST
        altered = item.kind is MirrorDifferenceKind.ALTERED
        transforms = self._transforms
        if lost and transforms.drops:
            return f"a filter, possibly ({transforms.said})", False
        if lost and transforms.routes:
            return f"in a topic of another name, possibly ({transforms.said})", False
        if altered and transforms.alters:
            return f"a transform, possibly ({transforms.said})", False
        bodies = [record and record.body for record in (item.up, item.down)]
        if altered and transforms.headers and None not in bodies and bodies[0] == bodies[1]:
            return f"its header converter, possibly ({transforms.headers})", False
        return "", False

    def find_plan(self, kind: MirrorDifferenceKind, span: Span | None) -> str:
        """Return the plan that skipped or repeated these upstream offsets; "" if none did."""
        for reposition in self._by_kind.get(kind, ()):
            if span and reposition.first <= span.first and span.last <= reposition.last:
                return reposition.said
        return ""

    def _explain_by_compaction(self, item: MirrorDifference) -> str:
        """Return the explanation by compaction; "" if there is none.

        If a key has a newer record, compaction may delete the older ones; if the key was deleted,
        the tombstone too.
        """
        newest = self._compaction
        if item.kind is MirrorDifferenceKind.LOST and newest.down:
            assert item.up is not None
            if newest.upstream.get(item.up.key, -1) > item.up.offset:
                return "compacted downstream: its key has a newer record"
            return "compacted downstream: a tombstone" if item.up.tombstone else ""
        if item.kind is MirrorDifferenceKind.ADDED and newest.up:
            assert item.down is not None
            if item.down.key in newest.upstream or item.down.tombstone:
                return "compacted upstream: its key has another record there by now"
        return ""


def _find_plan_repositions(
    plan: Plan, before: tuple[PartitionOffset, ...], done: set[int], alias: str
) -> Iterator[PlannedReposition]:
    """Yield the ranges that the steps of a plan moved a position over.

    MM2 stores the last record that it has copied; None means that it begins again.
    """
    receipt = "".join(
        f", copied to {step.to} as {compute_receipt_id(step.skip_key, step.sha256)}"
        for step in plan.steps
        if isinstance(step, Copy)
    )
    said = f"plan {plan.plan_id} ({plan.verb}){receipt}"
    stored = dict(_positions(before, alias))
    for number, step in enumerate(plan.steps):
        if number not in done:
            continue
        if isinstance(step, Alter | Write):
            then = dict(_positions(step.pairs, alias))
        elif isinstance(step, Reset):
            then = dict.fromkeys(stored)
        else:
            continue
        for partition, position in then.items():
            before_step = stored.get(partition)
            old, new = (-1 if each is None else each for each in (before_step, position))
            if new != old:
                again = old > new
                text = f"copied again by {said}" if again else f"skipped by {said}"
                first, last = min(old, new) + 1, max(old, new)
                yield PlannedReposition(partition, first, last, again=again, said=text)


def _positions(
    pairs: Iterable[PartitionOffset], alias: str
) -> Iterator[tuple[TopicPartition, int | None]]:
    for pair in pairs:
        fields = parse_json(pair.partition.encode())
        partition = parse_mirror_partition(fields) if is_flat_map(fields) else None
        if partition is None or partition.cluster != alias:
            continue
        stored = None if pair.offset is None else parse_json(pair.offset.encode())
        number = stored.get("offset") if isinstance(stored, dict) else None
        known = isinstance(number, int) and not isinstance(number, bool)
        if pair.offset is None or known:
            yield TopicPartition(partition.topic, partition.partition), number if known else None
