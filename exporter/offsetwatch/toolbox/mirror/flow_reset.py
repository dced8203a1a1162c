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

from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import ConnectorSettings, MirrorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import DeleteTopic, FrozenOffsets, PartitionOffset
from offsetwatch.toolbox.change import (
    Author,
    ConnectorChangeRequest,
    PreparedChange,
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
from offsetwatch.toolbox.offset_locations import StoredPairsLocation
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.suggestions import find_nearest
from offsetwatch.toolbox.validation import OffsetsRequest, ValidationFacts, ValidationProblem

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

    def __str__(self) -> str:
        if self.offset is not None:
            return f"to record {self.offset}"
        if self.at is not None:
            return f"to Unix second {self.at:g}"
        return "to the log starts" if self.by_s is None else f"by {self.by_s:g} s"


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
            flow = f"{connector.mirror.source}->{connector.mirror.target}"
            flows.setdefault(flow, []).append(name)
    requested = f"{source}->{target}"
    if requested in flows:
        return tuple(flows[requested])
    return ValidationProblem(
        where=f"--flow {requested}",
        wrong="no MirrorSourceConnector here copies it",
        right=f"there is: {', '.join(flows)}" if flows else "there is none at all",
    )


# --- which partitions ----------------------------------------------------------------------------


def select_partitions(
    mirror: MirrorSettings,
    present: Collection[PartitionOffset],
    topics: Mapping[str, int],
    selected: frozenset[str] | None,
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
    has_offset = {pair.partition for pair in present if pair.offset is not None}
    others = len(has_offset - {format_partition(partition) for partition in offsets})
    notes = []
    if others:
        notes.append(
            f"left alone: {format_count(others, 'offset')} of other shapes, or of another alias "
            f"than {mirror.source}, as no task of this flow reads these"
        )
    problems: tuple[ValidationProblem, ...] = ()
    if selected is not None:
        known = {*topics, *(partition.topic for partition in offsets)}
        problems = tuple(_find_unknown_topics(mirror.source, selected - known, known))
        offsets = {
            partition: stored
            for partition, stored in offsets.items()
            if partition.topic in selected
        }
        for topic in selected & topics.keys() if alone else ():
            for number in range(topics[topic]):
                offsets.setdefault(MirrorPartition(mirror.source, topic, number), None)
    gone = frozenset(
        partition for partition in offsets if partition.partition >= topics.get(partition.topic, 0)
    )
    if gone and not complete:
        names = ", ".join(sorted({partition.topic for partition in gone}))
        notes.append(
            f"left alone: {format_count(len(gone), 'partition')} that do not exist upstream, of "
            f"{names}"
        )
        for partition in gone:
            del offsets[partition]
        gone = frozenset()
    return PartitionSelection(
        stored=dict(sorted(offsets.items(), key=lambda item: (item[0].topic, item[0].partition))),
        gone=gone,
        blank=frozenset(
            partition for partition in offsets if format_partition(partition) not in has_offset
        ),
        notes=tuple(notes),
        problems=problems,
    )


def _find_unknown_topics(
    source: str, unknown: Collection[str], known: Collection[str]
) -> Iterator[ValidationProblem]:
    rule = "name topics as they are called upstream, without the alias in front"
    for topic in sorted(unknown):
        meant = find_nearest(topic, known)
        yield ValidationProblem(
            where=f"--topics {topic}",
            wrong=f"no such topic upstream ({source}), and no offset of one",
            right=f"did you mean {meant}?" if meant else rule,
        )


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
        flaw = _check_next_record(following, log, mirror)
        if following is None or flaw is not None:
            if flaw is not None:
                problems.append(ValidationProblem(format_partition_name(partition), *flaw))
            continue
        before = chosen.stored[partition]
        stored: int | None = max(following, log.start) - 1
        if not target.complete and before == following - 1:
            stored = before
        elif following <= log.start and (mirror.from_start or log.start == 0):
            stored = None  # but where that means the end of the log, the start has to be named
        if stored is not None or partition not in chosen.blank:
            pairs.append(PartitionOffset(format_partition(partition), format_offset(stored)))
        counts.append(compute_copy_cost(mirror, partition, log, before=before, after=stored))
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
        stored, name = chosen.stored[partition], format_partition_name(partition)
        if stored is None:
            continue
        if stored + 1 > log.end:
            yield (
                f"{name}: its offset {stored} lies beyond the end of its log ({log.end}), which "
                "was truncated or recreated: MirrorMaker begins elsewhere at its next start, "
                "whatever is done here"
            )
        elif 0 <= stored + 1 < log.start:
            yield (
                f"{name}: records {stored + 1} to {log.start - 1} are gone from its log and were "
                "never copied"
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
    offsets = moments(times)
    following: dict[MirrorPartition, int | None] = {}
    for partition, log in logs.items():
        upstream = build_upstream_partition(partition)
        if upstream not in times:
            following[partition] = log.end if log.start == log.end else None
            continue
        offset = offsets[upstream]  # None or later if the moment is after the last record
        following[partition] = log.end if offset is None else min(offset, log.end)
    return following


def _check_next_record(
    following: int | None, log: ReadableRange, mirror: MirrorSettings
) -> tuple[str, str] | None:
    """Return why the next record cannot be `following`, and what is right; None if it can."""
    if following is None:
        return (
            "no record has the time of its position",
            "say --to-time, or leave its topic out (--topics)",
        )
    if following > log.end:
        return (
            f"the next record cannot be {following}: its log ends at {log.end}",
            f"at most {log.end}; MirrorMaker would begin at the start of the log again",
        )
    if following <= log.start == 0 and not mirror.from_start and log.end > 0:
        wrong = (
            "it cannot be set to its first record: without an offset this connector begins at the "
            "end of the log (auto.offset.reset)"
        )
        return wrong, "set source.consumer.auto.offset.reset to earliest first"
    return None


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
    watch_s     as in ConnectorChangeRequest
    """

    flow: str
    to: FlowResetTarget
    topics: frozenset[str] | None = None
    allow_skip: bool = False
    allow_new: bool = False
    alone: bool = True
    watch_s: float = 0.0


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
    mirror, complete = known.mirror, request.to.complete
    if mirror is None or known.topics is None or upstream is None:
        return FlowChange(PreparedChange(connector, (_report_unreadable_flow(request, known),)))
    chosen = select_partitions(
        mirror, present, known.topics, request.topics, complete=complete, alone=request.alone
    )
    offsets = compute_flow_offsets(
        mirror,
        chosen,
        request.to,
        store.gather_facts(connector, present, chosen.upstream()).logs,
        moments=store.kafkas.at(upstream).offsets_at,
        record_times=lambda starts: read_record_times(
            store.kafkas, upstream, starts, committed=mirror.read_committed is not False
        ),
    )
    problems = (*chosen.problems, *offsets.problems)
    if not request.allow_skip:
        problems = (*problems, *find_skips(offsets.counts))
    notes = (*chosen.notes, *offsets.notes, *describe_costs(offsets.counts))
    if clearing is not None:
        problems, notes = (*problems, *clearing.problems), (*notes, *clearing.notes)
    elif mirror.syncs_topic is not None:
        retained = "are retained: MirrorMaker writes new ones as it copies"
        notes = (*notes, f"the offset syncs in {mirror.syncs_topic} {retained}")
    if problems:
        return FlowChange(PreparedChange(connector, problems, notes=notes), offsets.counts)
    step = None if clearing is None else clearing.step
    prepared = prepare_change(
        store,
        ConnectorChangeRequest(
            OffsetsRequest(
                connector,
                offsets.pairs,
                StoredPairsLocation(f"--flow {request.flow}"),
                allow_new=request.allow_new,
            ),
            verb=f"set the flow {request.flow} {request.to}"
            + (", clear its syncs" if step else ""),
            also=() if step is None else (step,),
            watch_s=request.watch_s,
        ),
        author,
    )

    def recheck(frozen: FrozenOffsets) -> tuple[str, ...]:
        logs = store.gather_facts(connector, frozen.pairs, chosen.upstream()).logs
        whole = complete and request.topics is None
        now = recheck_costs(mirror, offsets.counts, frozen.pairs, offsets.pairs, logs, whole=whole)
        # What both would say is said once, in records.
        return now or (() if prepared.recheck is None else prepared.recheck(frozen))

    notes = (*prepared.notes, *notes)
    return FlowChange(replace(prepared, notes=notes, recheck=recheck), offsets.counts)


def _report_unreadable_flow(request: FlowResetRequest, known: ValidationFacts) -> ValidationProblem:
    wrong, right = f"the configuration of {known.connector} cannot be read", ""
    if known.mirror is not None:
        wrong = "the logs that it copies from cannot be read"
        right = "name its source cluster under kafka"
    return ValidationProblem(f"--flow {request.flow}", wrong, "; ".join(known.unknown) or right)
