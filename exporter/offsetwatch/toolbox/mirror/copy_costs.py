"""Offsets of a MirrorSourceConnector, and the costs of moving them: records copied again or never.

MM2's offset is that of the LAST record it copied, so it continues at the next one. Without an
offset it begins by its consumer's auto.offset.reset, and also, without an error, where the log does
not have the next record any more, or not yet (MirrorSourceTask.initializeConsumer, KAFKA-13988).

Log offsets are counted, including those of transaction markers and compacted records: the count is
an upper bound. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.decode.dialects import parse_mirror_partition
from offsetwatch.decode.json_text import encode_sorted, is_flat_map, parse_json
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import MirrorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.validation import ValidationProblem


def build_upstream_partition(partition: MirrorPartition) -> TopicPartition:
    """Build the upstream partition."""
    return TopicPartition(partition.topic, partition.partition)


def format_partition(partition: MirrorPartition) -> str:
    """Format the source partition as MirrorSourceConnector does, in JSON with sorted keys."""
    return encode_sorted(
        {"cluster": partition.cluster, "partition": partition.partition, "topic": partition.topic}
    ).decode()


def format_offset(stored: int | None) -> str | None:
    """Format the offset as MirrorSourceConnector does."""
    return None if stored is None else f'{{"offset":{stored}}}'


def parse_mirror_pairs(pairs: Collection[PartitionOffset]) -> dict[MirrorPartition, int | None]:
    """Parse the pairs that have the shape of a MirrorSourceConnector's.

    The number is None for no offset, and for one that MM2 could not read.
    """
    topics = {}
    for pair in pairs:
        fields = parse_json(pair.partition.encode())
        partition = parse_mirror_partition(fields) if is_flat_map(fields) else None
        if partition is not None:
            offset = parse_json((pair.offset or "null").encode())
            number = offset.get("offset") if is_flat_map(offset) else None
            whole = isinstance(number, int) and not isinstance(number, bool)
            topics[partition] = number if whole else None
    return topics


def format_partition_name(partition: MirrorPartition) -> str:
    """Format topic and partition, for users."""
    return f"{partition.topic}-{partition.partition}"


UPPER_BOUND_NOTE: Final = (
    "counted in log offsets: transaction markers, and records that compaction took, make it the "
    "most that there can be"
)


_AGAIN: Final = "copied again: they will be DUPLICATES downstream"
_SKIPPED: Final = "skipped: they will be LOST downstream, unless they are there already"


@dataclass(frozen=True, slots=True)
class CopyCost:
    """The cost of moving one upstream partition.

    before, after   the next record to be copied, now and after the move
    again           records copied once more: duplicates downstream
    skipped         records that are not copied: lost downstream, unless they are there already
    """

    partition: MirrorPartition
    before: int
    after: int

    @property
    def again(self) -> int:
        """The records copied again; see the class."""
        return max(0, self.before - self.after)

    @property
    def skipped(self) -> int:
        """The records never copied; see the class."""
        return max(0, self.after - self.before)


def find_next_record(stored: int | None, log: ReadableRange, *, from_start: bool) -> int:
    """Return the next record that a task reads if it starts with this offset.

    `from_start` is what its consumer does where that record does not exist; otherwise it waits for
    new records.
    """
    if stored is not None and stored >= 0 and log.start <= stored + 1 <= log.end:
        return stored + 1
    return log.start if from_start else log.end


def compute_copy_cost(
    mirror: MirrorSettings,
    partition: MirrorPartition,
    log: ReadableRange,
    *,
    before: int | None,
    after: int | None,
) -> CopyCost:
    """Compute the cost of giving a partition the offset `after` in place of `before`."""
    return CopyCost(
        partition=partition,
        before=find_next_record(before, log, from_start=mirror.from_start),
        after=find_next_record(after, log, from_start=mirror.from_start),
    )


def describe_costs(counts: Collection[CopyCost]) -> tuple[str, ...]:
    """Describe all costs in sum, for users; empty if nothing is copied again or skipped."""
    costs = []
    for records, effect in (
        ([count.again for count in counts if count.again], _AGAIN),
        ([count.skipped for count in counts if count.skipped], _SKIPPED),
    ):
        if records:
            number, where = _count(sum(records), "record"), _count(len(records), "partition")
            costs.append(f"at most {number} of {where} will be {effect}")
    return (*costs, UPPER_BOUND_NOTE) if costs else ()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def find_skips(counts: Collection[CopyCost]) -> tuple[ValidationProblem, ...]:
    """Return every partition that would move forward: skipping records needs explicit consent."""
    return tuple(
        ValidationProblem(
            where=format_partition_name(count.partition),
            wrong=(
                f"it would continue at {count.after} in place of {count.before}: at most "
                f"{format_count(count.skipped, 'record')} would never be copied, LOST downstream "
                "unless already there"
            ),
            right=f"at most {count.before}, or say --allow-skip",
        )
        for count in counts
        if count.skipped
    )


def recheck_costs(
    mirror: MirrorSettings,
    counts: Collection[CopyCost],
    now: Collection[PartitionOffset],
    requested: Collection[PartitionOffset],
    logs: Mapping[TopicPartition, ReadableRange],
    *,
    whole: bool,
) -> tuple[str, ...]:
    """Return why a plan no longer holds once the connector has stopped; empty if it holds.

    The connector or its logs may have advanced. `whole`: the plan removes every offset of the flow.
    """
    stored, after = parse_mirror_pairs(now), parse_mirror_pairs(requested)
    costs = [
        f"{format_partition_name(partition)}: has come to have an offset meanwhile, and would "
        "keep it"
        for partition, offset in stored.items()
        if whole
        and partition.cluster == mirror.source
        and offset is not None
        and partition not in after
    ]
    for planned in counts:
        partition, name = planned.partition, format_partition_name(planned.partition)
        log, value = logs.get(build_upstream_partition(partition)), after.get(partition)
        if log is None:
            costs.append(f"{name}: its log start and end are no longer known")
            continue
        if value is not None and not log.start <= value + 1 <= log.end:
            costs.append(
                f"{name}: its log now holds records {log.start} to {log.end - 1}, and {value + 1} "
                "was to be the next one copied"
            )
            continue
        cost = compute_copy_cost(mirror, partition, log, before=stored.get(partition), after=value)
        if planned.skipped == 0 and cost.skipped:
            costs.append(
                f"{name}: it now stands at {cost.before}, so {cost.after} would skip "
                f"{format_count(cost.skipped, 'record')}"
            )
        elif planned.again == 0 and cost.again:
            costs.append(
                f"{name}: it has got as far as {cost.before} meanwhile, so {cost.after} "
                f"would copy {format_count(cost.again, 'record')} again"
            )
    return tuple(costs)
