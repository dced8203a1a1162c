"""Reset of a replication flow: the offset of each partition, costs in records, and plans.

Each connector that copies the flow gets one plan. Its target is one of these:

    no target         the start of each log: everything is copied again
    an offset N       record N is the next one to be copied
    a moment          the first record of that moment, or later, is
    a time span       the first record that is older (or younger) by it than the current one

MM2 stores the offset of the LAST record copied. So N is stored as N - 1, and the start of a log as
no offset: otherwise the very first record could not be requested (KAFKA-13988).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from offsetwatch.model.connectors import ConnectorSettings, MirrorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import DeleteTopic, FrozenOffsets, PartitionOffset
from offsetwatch.toolbox.change import (
    Author,
    ConnectorChangeRequest,
    PreparedChange,
    Recheck,
    prepare_change,
)
from offsetwatch.toolbox.connector_facts import read_record_times
from offsetwatch.toolbox.mirror.copy_costs import (
    CopyCost,
    build_upstream_partition,
    compute_copy_cost,
    describe_costs,
    find_skips,
    format_offset,
    format_partition,
    format_partition_name,
    parse_mirror_pairs,
    recheck_costs,
)
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.suggestions import find_nearest
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
)

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


def _find_unknown_topics(
    mirror: MirrorSettings, wanted: frozenset[str] | None, known: Collection[str]
) -> list[ValidationProblem]:
    found = []
    for topic in sorted((wanted or frozenset()) - set(known)):
        meant = find_nearest(topic, known)
        rule = "name topics as they are called upstream, without the alias in front"
        found.append(
            ValidationProblem(
                where=f"--topics {topic}",
                wrong=f"no such topic upstream ({mirror.source}), and no offset of one",
                right=f"did you mean {meant}?" if meant else rule,
            )
        )
    return found


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
                f"{format_partition_name(partition)}: its offset {stored} lies beyond the end of "
                f"its log ({log.end}), which was truncated or recreated: MirrorMaker begins "
                "elsewhere at its next start, whatever is done here"
            )
        elif stored is not None and 0 <= stored + 1 < log.start:
            yield (
                f"{format_partition_name(partition)}: records {stored + 1} to {log.start - 1} are "
                "gone from its log and were never copied"
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
        current = {}
        for partition, log in logs.items():
            if log.start < log.end:  # the last record copied, or the first that remains
                stored = chosen.stored[partition]
                record = log.start if stored is None else max(stored, log.start)
                current[build_upstream_partition(partition)] = record
        times = {where: at + target.by_s for where, at in record_times(current).items()}
    found = moments(times)
    following: dict[MirrorPartition, int | None] = {}
    for partition, log in logs.items():
        upstream = build_upstream_partition(partition)
        if upstream not in times:
            following[partition] = log.end if log.start == log.end else None
            continue
        offset = found[upstream]  # None or later if the moment is after the last record
        following[partition] = log.end if offset is None else min(offset, log.end)
    return following


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


@dataclass(frozen=True, slots=True)
class SyncTopicDeletion:
    """The deletion of the offset-syncs topic.

    step        None where it cannot be done, or nothing is to be deleted
    """

    step: DeleteTopic | None
    notes: tuple[str, ...] = ()
    problems: tuple[ValidationProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowResetRequest:
    """A request to reset a flow.

    flow        `A->B`, for users
    topics      only these, by their upstream names; None for all
    alone       one connector copies the whole flow
    """

    flow: str
    to: FlowResetTarget
    topics: frozenset[str] | None = None
    allow_skip: bool = False
    allow_new: bool = False
    alone: bool = True


@dataclass(frozen=True, slots=True)
class FlowChange:
    """The prepared change of one connector of a flow, and its costs in records."""

    prepared: PreparedChange
    counts: tuple[CopyCost, ...] = ()


def prepare_flow_reset(
    store: OffsetStore,
    connector: str,
    request: FlowResetRequest,
    author: Author,
    *,
    clearing: SyncTopicDeletion | None = None,
) -> FlowChange:
    """Prepare and check the reset."""
    upstream = store.upstream(connector)
    present = store.pairs(connector)
    known = store.gather_facts(connector, present, ())
    mirror = known.mirror
    if mirror is None or known.topics is None or upstream is None:
        return FlowChange(PreparedChange(connector, (_report_unreadable_flow(request, known),)))
    chosen = select_partitions(
        mirror,
        present,
        known.topics,
        request.topics,
        complete=request.to.complete,
        alone=request.alone,
    )
    logs = store.gather_facts(connector, present, chosen.upstream()).logs
    offsets = compute_flow_offsets(
        mirror,
        chosen,
        request.to,
        logs,
        moments=store.kafkas.at(upstream).offsets_at,
        record_times=lambda starts: read_record_times(
            store.kafkas, upstream, starts, committed=mirror.read_committed
        ),
    )
    found = (*chosen.problems, *offsets.problems)
    if not request.allow_skip:
        found = (*found, *find_skips(offsets.counts))
    if clearing is not None:
        found = (*found, *clearing.problems)
    notes = (*chosen.notes, *offsets.notes, *describe_costs(offsets.counts))
    if clearing is not None:
        notes = (*notes, *clearing.notes)
    elif mirror.syncs_topic is not None:
        kept = "are retained: MirrorMaker writes new ones as it copies"
        notes = (*notes, f"the offset syncs in {mirror.syncs_topic} {kept}")
    if found:
        return FlowChange(PreparedChange(connector, found, notes=notes), offsets.counts)
    prepared = prepare_change(
        store, _build_change_request(connector, request, offsets, clearing), author
    )
    return FlowChange(
        replace(
            prepared,
            notes=(*prepared.notes, *notes),
            recheck=_build_recheck(
                store, connector, request, prepared.recheck, mirror, chosen, offsets
            ),
        ),
        offsets.counts,
    )


def _report_unreadable_flow(request: FlowResetRequest, known: ValidationFacts) -> ValidationProblem:
    return ValidationProblem(
        where=f"--flow {request.flow}",
        wrong=f"the configuration of {known.connector} cannot be read"
        if known.mirror is None
        else "the logs that it copies from cannot be read",
        right="; ".join(known.unknown)
        or ("" if known.mirror is None else "name its source cluster under kafka"),
    )


def _build_change_request(
    connector: str,
    request: FlowResetRequest,
    offsets: FlowOffsets,
    clearing: SyncTopicDeletion | None,
) -> ConnectorChangeRequest:
    step = None if clearing is None else clearing.step
    return ConnectorChangeRequest(
        request=OffsetsRequest(
            connector=connector,
            pairs=offsets.pairs,
            where=request.flow,
            allow_new=request.allow_new,
        ),
        verb=f"set the flow {request.flow} {_describe_target(request.to)}"
        + (", clear its syncs" if step else ""),
        also=() if step is None else (step,),
    )


def _describe_target(target: FlowResetTarget) -> str:
    if target.offset is not None:
        return f"to record {target.offset}"
    if target.at is not None:
        return f"to Unix second {target.at:g}"
    return "to the log starts" if target.by_s is None else f"by {target.by_s:g} s"


def _build_recheck(
    store: OffsetStore,
    connector: str,
    request: FlowResetRequest,
    before: Recheck | None,
    mirror: MirrorSettings,
    chosen: PartitionSelection,
    offsets: FlowOffsets,
) -> Recheck:
    whole = request.to.complete and request.topics is None

    def recheck(frozen: FrozenOffsets) -> tuple[str, ...]:
        logs = store.gather_facts(connector, frozen.pairs, chosen.upstream()).logs
        now = recheck_costs(mirror, offsets.counts, frozen.pairs, offsets.pairs, logs, whole=whole)
        # What both would say is said once, in records.
        return now or (() if before is None else before(frozen))

    return recheck
