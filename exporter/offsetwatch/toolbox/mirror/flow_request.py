"""Targets of a flow's reset, and the offset of each partition that follows from them.

    no target         the start of each log: everything is copied again
    an offset N       record N is the next one to be copied
    a moment          the first record of that moment, or later, is
    a time span       the first record that is older (or younger) by it than the current one

MM2 stores the offset of the LAST record copied. So N is stored as N - 1, and the start of a log as
no offset: otherwise the very first record could not be requested (KAFKA-13988).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from offsetwatch.model.connectors import ConnectorSettings, MirrorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.mirror.copy_costs import CopyCost, compute_copy_cost
from offsetwatch.toolbox.mirror.pairs import (
    build_upstream_partition,
    format_offset,
    format_partition,
    format_partition_name,
    parse_mirror_pairs,
)
from offsetwatch.toolbox.suggestions import find_nearest
from offsetwatch.toolbox.validation import ReadableRange, ValidationProblem

OffsetForTimeLookup = Callable[
    [Mapping[TopicPartition, float]], Mapping[TopicPartition, int | None]
]
"""Maps Unix seconds of each partition to its first record at or after; None if all are earlier."""

RecordTimeLookup = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, float]]
"""Maps an offset of each partition to the timestamp of its first record from there on.

Timestamps are Unix seconds; partitions without such a record or timestamp are left out.
"""


@dataclass(frozen=True, slots=True)
class FlowResetTarget:
    """The target of a reset; at most one field is set, none for the start of each log.

    offset      the next record to be copied
    at          Unix seconds
    by_s        seconds from each partition's current record: negative is backwards
    """

    offset: int | None = None
    at: float | None = None
    by_s: float | None = None

    @property
    def complete(self) -> bool:
        """Return whether everything is to be copied again."""
        return self.offset is None and self.at is None and self.by_s is None


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """The partitions that a request concerns, with notes about others.

    stored      each with its current offset: None for none, or for one that is no number
    gone        of these, those that do not exist upstream (any more)
    blank       of these, those that have no offset at all
    notes       what stays unchanged, a sentence each
    """

    stored: Mapping[MirrorPartition, int | None]
    gone: frozenset[MirrorPartition] = frozenset()
    blank: frozenset[MirrorPartition] = frozenset()
    notes: tuple[str, ...] = ()
    problems: tuple[ValidationProblem, ...] = ()

    def upstream(self) -> frozenset[TopicPartition]:
        """Return the upstream partitions whose logs have to be known."""
        return frozenset(
            build_upstream_partition(partition)
            for partition in self.stored
            if partition not in self.gone
        )


@dataclass(frozen=True, slots=True)
class FlowOffsets:
    """The requested offset of each partition concerned, and its costs in records."""

    pairs: tuple[PartitionOffset, ...] = ()
    counts: tuple[CopyCost, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[ValidationProblem, ...] = ()


def find_flow_connectors(
    source: str, target: str, listed: Mapping[str, ConnectorSettings]
) -> tuple[str, ...] | ValidationProblem:
    """Return the MirrorSourceConnectors that copy between two aliases, usually one.

    If there are none, return the problem with the flows that exist.
    """
    flows: dict[str, list[str]] = {}
    for name, connector in sorted(listed.items()):
        if connector.mirror is not None:
            flows.setdefault(f"{connector.mirror.source}->{connector.mirror.target}", []).append(
                name
            )
    wanted = f"{source}->{target}"
    if wanted in flows:
        return tuple(flows[wanted])
    return ValidationProblem(
        where=f"--flow {wanted}",
        wrong="no MirrorSourceConnector here copies it",
        right=f"there is: {', '.join(flows)}" if flows else "there is none at all",
    )


# --- which partitions ----------------------------------------------------------------------------


def select_partitions(
    mirror: MirrorSettings,
    present: Collection[PartitionOffset],
    topics: Mapping[str, int],
    wanted: frozenset[str] | None,
    *,
    complete: bool,
    alone: bool = True,
) -> PartitionSelection:
    """Select the partitions that have an offset; for named topics, all.

    topics      upstream: name -> number of partitions
    wanted      upstream topics; None for all
    complete    offsets of partitions that no longer exist are removed as well
    alone       no other connector copies this flow: otherwise it is unknown which connector has a
                partition without an offset
    """
    offsets = {
        partition: stored
        for partition, stored in parse_mirror_pairs(present).items()
        if partition.cluster == mirror.source
    }
    ours = {format_partition(offset) for offset in offsets}
    has_offset = {pair.partition for pair in present if pair.offset is not None}
    strangers = len(has_offset - ours)
    notes = []
    if strangers:
        notes.append(
            f"{strangers} offset(s) of other shapes, or of another alias than {mirror.source}, are "
            "left alone: no task of this flow reads them"
        )
    problems = tuple(
        _find_unknown_topics(mirror, wanted, {*topics, *(offset.topic for offset in offsets)})
    )
    if wanted is not None:
        offsets = {
            partition: stored for partition, stored in offsets.items() if partition.topic in wanted
        }
        for topic in wanted & topics.keys() if alone else ():
            for number in range(topics[topic]):
                offsets.setdefault(MirrorPartition(mirror.source, topic, number), None)
    gone = frozenset(
        partition for partition in offsets if partition.partition >= topics.get(partition.topic, 0)
    )
    if gone and not complete:
        names = ", ".join(sorted({partition.topic for partition in gone}))
        notes.append(f"{len(gone)} partition(s) that are not upstream are left alone: of {names}")
        offsets = {
            partition: stored for partition, stored in offsets.items() if partition not in gone
        }
        gone = frozenset()
    return PartitionSelection(
        stored=dict(sorted(offsets.items(), key=lambda of: (of[0].topic, of[0].partition))),
        gone=gone,
        blank=frozenset(offset for offset in offsets if format_partition(offset) not in has_offset),
        notes=tuple(notes),
        problems=problems,
    )


def _suggest_topic(topic: str, known: Collection[str]) -> str:
    meant = find_nearest(topic, known)
    rule = "name topics as they are called upstream, without the alias in front"
    return f"did you mean {meant}?" if meant else rule


def _find_unknown_topics(
    mirror: MirrorSettings, wanted: frozenset[str] | None, known: Collection[str]
) -> list[ValidationProblem]:
    return [
        ValidationProblem(
            where=f"--topics {topic}",
            wrong=f"no such topic upstream ({mirror.source}), and no offset of one",
            right=_suggest_topic(topic, known),
        )
        for topic in sorted((wanted or frozenset()) - set(known))
    ]


# --- which offsets -------------------------------------------------------------------------------


def compute_flow_offsets(
    mirror: MirrorSettings,
    chosen: PartitionSelection,
    target: FlowResetTarget,
    logs: Mapping[TopicPartition, ReadableRange],
    *,
    moments: OffsetForTimeLookup,
    record_times: RecordTimeLookup,
) -> FlowOffsets:
    """Compute an offset for each chosen partition, or the reason why there is none."""
    here = {
        partition: logs[build_upstream_partition(partition)]
        for partition in chosen.stored
        if build_upstream_partition(partition) in logs
    }
    problems = [
        ValidationProblem(
            where=format_partition_name(partition),
            wrong="its log start and end are unknown now",
            right="it may have no leader: try again, or leave its topic out (--topics)",
        )
        for partition in chosen.stored
        if partition not in here and partition not in chosen.gone
    ]
    ahead = _find_next_records(chosen, target, here, moments, record_times)
    pairs = [
        PartitionOffset(format_partition(partition), None)
        for partition in chosen.gone - chosen.blank
    ]
    counts = []
    for partition, log in here.items():
        following = ahead.get(partition)
        problem = _check_next_record(partition, following, log, mirror)
        if problem is not None or following is None:
            problems += [] if problem is None else [problem]
            continue
        stored = _compute_stored_offset(following, log, mirror)
        if not target.complete and chosen.stored[partition] == following - 1:
            stored = following - 1
        if stored is not None or partition not in chosen.blank:
            pairs.append(PartitionOffset(format_partition(partition), format_offset(stored)))
        counts.append(
            compute_copy_cost(mirror, partition, log, before=chosen.stored[partition], after=stored)
        )
    return FlowOffsets(
        pairs=tuple(sorted(pairs)),
        counts=tuple(counts),
        notes=tuple(_describe_log_gaps(chosen, here)),
        problems=tuple(problems),
    )


def _describe_log_gaps(
    chosen: PartitionSelection, logs: Mapping[MirrorPartition, ReadableRange]
) -> Iterator[str]:
    """Yield existing problems of logs and offsets that no reset fixes."""
    for partition, log in logs.items():
        stored = chosen.stored[partition]
        if stored is not None and stored + 1 > log.end:
            yield (
                f"{format_partition_name(partition)}: its offset {stored} lies beyond the end "
                "of its "
                f"log ({log.end}), "
                "which was truncated or recreated: MirrorMaker begins elsewhere at its next start, "
                "whatever is done here"
            )
        elif stored is not None and 0 <= stored + 1 < log.start:
            yield (
                f"{format_partition_name(partition)}: records {stored + 1} to {log.start - 1} are "
                "gone from its log and "
                "were never copied"
            )


def _find_next_records(
    chosen: PartitionSelection,
    target: FlowResetTarget,
    logs: Mapping[MirrorPartition, ReadableRange],
    moments: OffsetForTimeLookup,
    record_times: RecordTimeLookup,
) -> dict[MirrorPartition, int | None]:
    """Return the next record to copy of each partition; None if the moment's record is unknown."""
    if target.complete:
        return {partition: log.start for partition, log in logs.items()}
    if target.offset is not None:
        return dict.fromkeys(logs, target.offset)
    times: Mapping[TopicPartition, float]
    if target.at is not None:
        times = {build_upstream_partition(partition): target.at for partition in logs}
    else:
        assert target.by_s is not None
        by_s = target.by_s
        held = {partition: log for partition, log in logs.items() if log.start < log.end}
        told = record_times(
            {
                build_upstream_partition(partition): _find_current_record(
                    chosen.stored[partition], held[partition]
                )
                for partition in held
            }
        )
        times = {where: moment + by_s for where, moment in told.items()}
    found = moments(times)
    return {
        partition: _limit_to_end(found[build_upstream_partition(partition)], log)
        if build_upstream_partition(partition) in times
        else log.end
        if log.start == log.end
        else None
        for partition, log in logs.items()
    }


def _find_current_record(stored: int | None, log: ReadableRange) -> int:
    """Return a partition's current record: the last one copied, or the first that remains."""
    return log.start if stored is None else max(stored, log.start)


def _limit_to_end(found: int | None, log: ReadableRange) -> int:
    """Return the log end instead of None or a later offset: the moment is after the last record."""
    return log.end if found is None else min(found, log.end)


def _check_next_record(
    partition: MirrorPartition, following: int | None, log: ReadableRange, mirror: MirrorSettings
) -> ValidationProblem | None:
    if following is None:
        return ValidationProblem(
            where=format_partition_name(partition),
            wrong="no record has the time of its position",
            right="say --to-time, or leave its topic out (--topics)",
        )
    if following > log.end:
        return ValidationProblem(
            where=format_partition_name(partition),
            wrong=f"the next record cannot be {following}: its log ends at {log.end}",
            right=f"at most {log.end}; MirrorMaker would begin at the start of the log again",
        )
    if following <= log.start == 0 and not mirror.from_start and log.end > 0:
        return ValidationProblem(
            where=format_partition_name(partition),
            wrong="it cannot be set to its first record: without an offset this connector begins "
            "at the end of the log (auto.offset.reset)",
            right="set source.consumer.auto.offset.reset to earliest first",
        )
    return None


def _compute_stored_offset(
    following: int, log: ReadableRange, mirror: MirrorSettings
) -> int | None:
    if following > log.start:
        return following - 1
    # Where no offset means the end of the log, the start has to be named.
    return None if mirror.from_start or log.start == 0 else log.start - 1
