"""Audit of a mirror: the records that are lost, duplicated, reordered or altered.

It has three steps, each only for what the step before left open. First both sides are read once and
made into blocks (chunking.py); blocks that are equal, in the same order, are done with. Then the
records between them are read again and classified (differences.py). Last, downstream records of
unknown origin are searched for in the whole of both logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from operator import attrgetter
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from offsetwatch.formatting import format_count
from offsetwatch.history.audit.chunking import BLOCK_RECORDS_MAX, Block
from offsetwatch.history.audit.differences import (
    AlignmentResult,
    AuditFinding,
    DifferenceWindow,
    HashedRecord,
    MirrorDifference,
    MirrorDifferenceKind,
    Span,
    align_slice,
    classify_records,
    group_differences,
    merge_findings,
)
from offsetwatch.history.audit.explanations import (
    CompactionFacts,
    DifferenceExplainer,
    PlannedReposition,
    Transforms,
)
from offsetwatch.history.audit.scope import AuditScope, PartitionCoverage
from offsetwatch.history.audit.sequence_alignment import AlignmentGap, align_sequences, find_gaps
from offsetwatch.history.audit.spark_reader import (
    DOWNSTREAM,
    UPSTREAM,
    AuditReadRange,
    Lookups,
    SparkReadOptions,
    read_blocks,
    read_records,
)
from offsetwatch.history.spark.session import spark_session
from offsetwatch.model.topology import TopicPartition

# At a time, records that are looked at one by one: some 200 bytes of memory each.
RECORDS_MAX: Final = 1_000_000
# Some ten million records take a minute: from there on it pays to compile well.
LONG_RECORDS_MIN: Final = 2_000_000
# Of both sides, what small topics are put together to.
BATCH_RECORDS_MAX: Final = 1_000_000
BATCH_TOPICS_MAX: Final = 50

# Of one slice, gaps that are read apart: each is a read of its own.
GAPS_MAX: Final = 32
# Of what lies before all that matches, so many records, and so many times those of the other side.
HEAD_RECORDS: Final = 2 * BLOCK_RECORDS_MAX
HEAD_TIMES: Final = 4

AuditProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """Inputs of an audit.

    clusters    options of Spark's Kafka source for both sides
    """

    pinned: AuditScope
    clusters: SparkReadOptions
    skips: tuple[PlannedReposition, ...] = ()
    transforms: Transforms = field(default_factory=Transforms)
    master: str = "local[2]"
    heap: str = "1g"
    records_max: int = RECORDS_MAX


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """Result for one upstream partition.

    up_records, down_records    records that were read and compared
    up_unjudged                 upstream records whose copies downstream retention may have deleted
    """

    reach: PartitionCoverage
    up_records: int
    down_records: int
    up_unjudged: int
    findings: tuple[AuditFinding, ...]


class _Repeat(NamedTuple):
    """A downstream block, and the upstream one that it repeats."""

    source: Block
    block: Block


@dataclass(frozen=True, slots=True)
class _DifferingBlocks:
    """A gap between blocks that are equal on both sides.

    down    runs of blocks: blocks that repeat matching ones are cut out
    """

    of: int
    gap: AlignmentGap
    up: tuple[Block, ...]
    down: tuple[tuple[Block, ...], ...]
    up_before: int | None

    @property
    def records(self) -> int:
        """Return the number of records on both sides."""
        return sum(block.records for run in (self.up, *self.down) for block in run)


def audit(spec: AuditSpec, progress: AuditProgressCallback) -> tuple[PartitionAudit, ...]:
    """Read both sides, some topics at a time, and compare them. Raises HistoryError."""
    reaches = spec.pinned.reaches
    audits = [PartitionAudit(reach, 0, 0, 0, ()) for reach in reaches if not reach.slices]
    batches = _batches([reach for reach in reaches if reach.slices])
    if batches:
        short = sum(map(_size, reaches)) < LONG_RECORDS_MIN
        with spark_session(master=spec.master, heap=spec.heap, short=short) as spark:
            for number, batch in enumerate(batches, start=1):
                topics = sorted({reach.at.topic for reach in batch})
                named = topics[0] if len(topics) == 1 else f"{topics[0]} to {topics[-1]}"
                progress(f"part {number} of {len(batches)}: {named}")
                audits += _Batch(spec, spark, batch, progress).results()
    return tuple(sorted(audits, key=lambda result: result.reach.at))


def _size(reach: PartitionCoverage) -> int:
    return sum(size for piece in reach.slices for size in piece.records)


def _batches(reaches: Sequence[PartitionCoverage]) -> list[list[PartitionCoverage]]:
    """Return batches of whole topics, small ones together: each Spark query has a fixed cost."""
    by_topic: dict[str, list[PartitionCoverage]] = defaultdict(list)
    for reach in reaches:
        by_topic[reach.at.topic].append(reach)
    batches: list[list[PartitionCoverage]] = []
    size = topics = 0
    for _, partitions in sorted(by_topic.items()):
        more = sum(map(_size, partitions))
        if not batches or size + more > BATCH_RECORDS_MAX or topics == BATCH_TOPICS_MAX:
            batches.append([])
            size = topics = 0
        batches[-1] += partitions
        size, topics = size + more, topics + 1
    return batches


class _Batch:
    """Audit of some topics. A slice is known by its number."""

    def __init__(
        self,
        spec: AuditSpec,
        spark: SparkSession,
        reaches: Sequence[PartitionCoverage],
        progress: AuditProgressCallback,
    ) -> None:
        self._spec = spec
        self._spark = spark
        self._reaches = reaches
        self._progress = progress
        self._slices = [piece for reach in reaches for piece in reach.slices]
        self._cut_up: dict[int, int] = {}  # slice -> records of its head that are not looked at
        self._cut_down: set[int] = set()

    def results(self) -> Iterator[PartitionAudit]:
        """Yield the result for every partition."""
        parts = []
        for number, piece in enumerate(self._slices):
            topic, index = piece.at.topic, piece.at.partition
            parts += [
                AuditReadRange(number, UPSTREAM, topic, index, piece.up, piece.up_end),
                AuditReadRange(number, DOWNSTREAM, piece.remote, index, piece.down, piece.down_end),
            ]
        blocks = read_blocks(self._spark, self._spec.clusters, parts)
        findings: dict[int, list[AuditFinding]] = defaultdict(list)
        repeats: dict[int, list[_Repeat]] = defaultdict(list)
        alignments: dict[int, AlignmentResult] = {}
        by_partition: dict[TopicPartition, list[AlignmentResult]] = defaultdict(list)
        for number, windows in self._windows(blocks, findings, repeats).items():
            piece = self._slices[number]
            if number in self._cut_down:
                # Copies may be in the head that was cut off: no upstream record counts as lost.
                piece = replace(piece, up_head=False)
            alignments[number] = align_slice(piece, windows)
            by_partition[piece.at].append(alignments[number])
        remotes = {piece.at: piece.remote for piece in self._slices}
        spec = self._spec
        lookups = Lookups(self._spark, spec.clusters, spec.pinned, remotes, self._progress)
        elsewhere = lookups.elsewhere(by_partition)
        differences: dict[int, tuple[MirrorDifference, ...]] = {}
        faulty: dict[TopicPartition, list[MirrorDifference]] = defaultdict(list)
        for number, alignment in alignments.items():
            partition = self._slices[number].at
            differences[number] = tuple(classify_records(alignment, elsewhere.get(partition, {})))
            faulty[partition] += differences[number]
        newest = lookups.newest(faulty)
        for number, piece in enumerate(self._slices):
            why = DifferenceExplainer(
                piece.at, spec.skips, spec.transforms, newest.get(piece.at, CompactionFacts())
            )
            apart = [_build_repeat_finding(repeat, why) for repeat in repeats[number]]
            grouped = group_differences(differences.get(number, ()), why)
            findings[number] += merge_findings((*apart, *grouped))
        numbers = count()
        for reach in self._reaches:
            mine = list(islice(numbers, len(reach.slices)))
            up_records, down_records = (
                sum(block.records for number in mine for block in blocks.get((number, side), ()))
                for side in (UPSTREAM, DOWNSTREAM)
            )
            yield PartitionAudit(
                reach=reach,
                up_records=up_records,
                down_records=down_records,
                up_unjudged=sum(self._cut_up.get(number, 0) for number in mine)
                + sum(alignments[number].up_unjudged for number in mine if number in alignments),
                findings=tuple(finding for number in mine for finding in findings[number]),
            )

    def _windows(
        self,
        blocks: Mapping[tuple[int, int], list[Block]],
        whole: dict[int, list[AuditFinding]],
        repeats: dict[int, list[_Repeat]],
    ) -> dict[int, list[DifferenceWindow]]:
        """Return the records that differ, as windows by slice number.

        Add to `whole` findings for gaps that are too large for that, and to `repeats` the blocks
        that are downstream twice.
        """
        differing: list[_DifferingBlocks] = []
        for number, piece in enumerate(self._slices):
            up, down = blocks.get((number, UPSTREAM), []), blocks.get((number, DOWNSTREAM), [])
            regions = _find_differing_blocks(
                number, up, down, repeats[number], down_head=piece.down_head
            )
            differing += map(self._without_head, regions)
        compared: list[_DifferingBlocks] = []
        budget = self._spec.records_max
        for region in sorted(differing, key=attrgetter("records")):
            if region.records <= budget:
                budget -= region.records
                compared.append(region)
            else:
                whole[region.of].append(_build_coarse_finding(region))
        compared.sort(key=attrgetter("of", "gap"))
        records = self._records(compared)
        windows: dict[int, list[DifferenceWindow]] = defaultdict(list)
        for number, region in enumerate(compared):
            up_records, down_records = (
                records.get((number, side), []) for side in (UPSTREAM, DOWNSTREAM)
            )
            windows[region.of].append(DifferenceWindow(up_records, down_records, region.up_before))
        return dict(windows)

    def _without_head(self, region: _DifferingBlocks) -> _DifferingBlocks:
        """Return the gap with only the end of a head (before the first match) that is not judged.

        The head may be most of a log.
        """
        piece = self._slices[region.of]
        if region.up_before is not None or (piece.up_head and piece.down_head):
            return region
        up, down = region.up, tuple(block for run in region.down for block in run)
        if not piece.up_head:
            up = _take_last_blocks(region.up, down)
            cut = region.up[: len(region.up) - len(up)]
            self._cut_up[region.of] = sum(block.records for block in cut)
        if not piece.down_head:
            blocks = down
            down = _take_last_blocks(blocks, up)
            if len(down) < len(blocks):
                self._cut_down.add(region.of)
        return replace(region, up=up, down=(down,) if down else ())

    def _records(
        self, compared: Sequence[_DifferingBlocks]
    ) -> dict[tuple[int, int], list[HashedRecord]]:
        parts = []
        for number, region in enumerate(compared):
            piece = self._slices[region.of]
            index = piece.at.partition
            runs = [(UPSTREAM, piece.at.topic, region.up)]
            runs += [(DOWNSTREAM, piece.remote, run) for run in region.down]
            parts += [
                AuditReadRange(number, side, topic, index, run[0].first, run[-1].last + 1)
                for side, topic, run in runs
                if run
            ]
        if parts:
            self._progress(
                f"  both differ in regions of "
                f"{format_count(sum(region.records for region in compared), 'record')}"
            )
        return read_records(self._spark, self._spec.clusters, parts)


def _take_last_blocks(blocks: tuple[Block, ...], other: Sequence[Block]) -> tuple[Block, ...]:
    """Return the last blocks, as far back as the copies of the other side's may lie."""
    remaining = HEAD_RECORDS + HEAD_TIMES * sum(block.records for block in other)
    for number in range(len(blocks) - 1, -1, -1):
        remaining -= blocks[number].records
        if remaining <= 0:
            return blocks[number:]
    return blocks


def _find_differing_blocks(
    of: int,
    up: Sequence[Block],
    down: Sequence[Block],
    repeats: list[_Repeat],
    *,
    down_head: bool,
) -> Iterator[_DifferingBlocks]:
    """Yield the gaps between equal blocks; add downstream blocks that repeat one to `repeats`."""
    runs = align_sequences([block.digest for block in up], [block.digest for block in down])
    matched = {block.digest: block for run in runs for block in up[run.up : run.up + run.length]}
    for gap in _merge_gaps(tuple(find_gaps(runs, len(up), len(down)))):
        # What is put together holds blocks that match, and they are none that repeat; before all
        # that matches there may lie whatever was copied of records that are gone.
        unjudged = gap.up == 0 and not down_head
        holds_match = any(gap.up <= run.up < gap.up_end for run in runs)
        cut = {} if unjudged or holds_match else matched
        remaining: list[list[Block]] = [[]]
        for block in down[gap.down : gap.down_end]:
            if block.digest in cut:
                repeats.append(_Repeat(cut[block.digest], block))
                remaining.append([])
            else:
                remaining[-1].append(block)
        yield _DifferingBlocks(
            of=of,
            gap=gap,
            up=tuple(up[gap.up : gap.up_end]),
            down=tuple(tuple(run) for run in remaining if run),
            up_before=up[gap.up - 1].last if gap.up else None,
        )


def _build_repeat_finding(repeat: _Repeat, why: DifferenceExplainer) -> AuditFinding:
    source = Span(repeat.source.first, repeat.source.last)
    there = Span(repeat.block.first, repeat.block.last)
    kind = MirrorDifferenceKind.DUPLICATED
    explained = why.find_plan(kind, source)
    return AuditFinding(
        kind, repeat.block.records, source, there, explained, certain=bool(explained)
    )


def _merge_gaps(gaps: Sequence[AlignmentGap]) -> Iterator[AlignmentGap]:
    """Yield at most GAPS_MAX gaps; of more, neighbours merge with the equal blocks between them."""
    size = -(-len(gaps) // GAPS_MAX)
    for number in range(0, len(gaps), max(1, size)):
        first, last = gaps[number], gaps[min(number + size, len(gaps)) - 1]
        yield AlignmentGap(first.up, last.up_end, first.down, last.down_end)


def _build_coarse_finding(region: _DifferingBlocks) -> AuditFinding:
    blocks = [block for run in region.down for block in run]
    records = max(sum(block.records for block in side) for side in (region.up, blocks))
    up = Span(region.up[0].first, region.up[-1].last) if region.up else None
    down = Span(blocks[0].first, blocks[-1].last) if blocks else None
    return AuditFinding(MirrorDifferenceKind.DIFFERENT, records, up, down)
