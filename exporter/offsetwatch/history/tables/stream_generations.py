"""Generations of a Kafka cluster's stream: where a new one begins, and which gaps it leaves. Pure.

A checkpoint is disposable, as bronze knows what it holds. If it is unusable, the next generation
begins right behind the newest record of each log in bronze. Records between there and the current
start of the log are permanently lost, and are recorded as a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from offsetwatch.errors import HistoryError

StreamPartition = tuple[str, int]
"""A topic and one of its partitions, on the Kafka cluster that is spoken of."""
LogPartition = tuple[str, str, int]
"""A topic, its id, and a partition: a log, of which there is only ever one."""


class GapReason(StrEnum):
    """Reasons why records are missing from bronze."""

    LOG_START_MOVED = "log_start_moved"
    TOPIC_CREATED_AGAIN = "topic_created_again"
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"


@dataclass(frozen=True, slots=True, order=True)
class BronzeGap:
    """Offsets from `from_offset` to below `to_offset` that were not read and will not be.

    to_offset is None where it is unknown: the topic was deleted.
    """

    topic: str
    topic_id: str
    kpartition: int
    from_offset: int
    to_offset: int | None
    reason: GapReason

    def __str__(self) -> str:
        end = "its end" if self.to_offset is None else str(self.to_offset)
        return (
            f"{self.topic} (id {self.topic_id or 'unknown'}) partition {self.kpartition} from "
            f"offset {self.from_offset} to {end}: {self.reason.value.replace('_', ' ')}"
        )


@dataclass(frozen=True, slots=True)
class StreamGeneration:
    """The newest generation, by its files.

    topics      the topics it reads, with their ids
    starts      where it began
    committed   the next offsets after its finished batches; None if its checkpoint is gone or
                unreadable
    planned     the end of the batch that may be unfinished
    batch       that batch: the id of the stream, and its number; None if unknown. Bronze knows
                whether it was applied (`without_its_batch` if not)
    """

    number: int
    topics: Mapping[str, str]
    starts: Mapping[StreamPartition, int]
    committed: Mapping[StreamPartition, int] | None
    planned: Mapping[StreamPartition, int]
    batch: tuple[str, int] | None = None

    def without_its_batch(self) -> StreamGeneration:
        """Return the generation for a bronze that has not applied the batch.

        Records in bronze beyond `committed` are then another generation's, and that batch would
        store them twice.
        """
        return replace(self, planned=self.committed or {})


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Topics to read with their ids, and the current start and end of each partition."""

    topics: Mapping[str, str]
    starts: Mapping[StreamPartition, int]
    ends: Mapping[StreamPartition, int]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A plan for how the stream goes on.

    unread  how many offsets lie between what bronze holds and the current ends of the logs
    why     why a new generation begins; None if the existing one goes on
    """

    number: int
    topics: Mapping[str, str]
    starts: Mapping[StreamPartition, int]
    unread: int
    gaps: tuple[BronzeGap, ...] = ()
    why: str | None = None


def plan(
    source: StreamSource, held: StreamGeneration | None, stored: Mapping[LogPartition, int]
) -> StreamPlan:
    """Return a plan to go on with the newest generation, or to begin the next.

    `stored` is the next offset of every log in bronze. Raises HistoryError if a log is shorter than
    what was read of it: its offsets are other records now, and there is no telling which.
    """
    nexts = {
        (topic, partition): stored[topic, source.topics[topic], partition]
        for topic, partition in source.starts
        if (topic, source.topics[topic], partition) in stored
    }
    for (topic, partition), offset in sorted(nexts.items()):
        end = source.ends[topic, partition]
        if offset > end:
            raise HistoryError(
                f"{topic} partition {partition} ends at offset {end}, but it was read up to "
                f"{offset}: it lost its end, and what was read is not what it holds"
            )
    begins = {key: max(start, nexts.get(key, start)) for key, start in source.starts.items()}
    unread = sum(source.ends[key] - begin for key, begin in begins.items())
    why = _explain_new_generation(source, held, stored)
    if why is None:
        assert held is not None
        return StreamPlan(number=held.number, topics=held.topics, starts=held.starts, unread=unread)
    return StreamPlan(
        number=0 if held is None else held.number + 1,
        topics=dict(source.topics),
        starts=begins,
        unread=unread,
        gaps=(
            *_find_start_gaps(source, {**_select_previous_starts(source, held), **nexts}),
            *_find_replaced_gaps(source, stored),
        ),
        why=why,
    )


def _select_previous_starts(
    source: StreamSource, held: StreamGeneration | None
) -> dict[StreamPartition, int]:
    """Return the starts of partitions that the generation read, of topics with the same id.

    A gap also counts in a partition without a record in bronze.
    """
    if held is None:
        return {}
    return {
        (topic, partition): offset
        for (topic, partition), offset in held.starts.items()
        if (topic, partition) in source.starts and source.topics[topic] == held.topics.get(topic)
    }


def _explain_new_generation(
    source: StreamSource, held: StreamGeneration | None, stored: Mapping[LogPartition, int]
) -> str | None:
    """Return what keeps the newest generation from going on; None if nothing does."""
    if held is None:
        return "it is the first"
    for topic, topic_id in sorted(held.topics.items()):
        if topic not in source.topics:
            return f"{topic} is no longer to be read"
        if source.topics[topic] != topic_id:
            return f"{topic} was created again"
    new = sorted(source.topics.keys() - held.topics.keys())
    if new:
        return f"{new[0]} is to be read too"
    if held.committed is None:
        return "the checkpoint is gone or cannot be read"
    if held.committed and not stored:
        return "the records that it had read are gone"
    for (topic, partition), offset in sorted({**held.starts, **held.committed}.items()):
        if source.starts.get((topic, partition), 0) > offset:
            return f"the log of {topic} partition {partition} begins behind what was read of it"
    for (topic, topic_id, partition), offset in sorted(stored.items()):
        if source.topics.get(topic) != topic_id:
            continue
        if max(held.planned.get((topic, partition), 0), held.starts.get((topic, partition), 0)) < (
            offset
        ):
            return f"the checkpoint is older than what was read of {topic} partition {partition}"
    return None


def _find_start_gaps(
    source: StreamSource, read_to: Mapping[StreamPartition, int]
) -> tuple[BronzeGap, ...]:
    return tuple(
        BronzeGap(
            topic=topic,
            topic_id=source.topics[topic],
            kpartition=partition,
            from_offset=offset,
            to_offset=source.starts[topic, partition],
            reason=GapReason.LOG_START_MOVED,
        )
        for (topic, partition), offset in sorted(read_to.items())
        if source.starts[topic, partition] > offset
    )


def _find_replaced_gaps(
    source: StreamSource, stored: Mapping[LogPartition, int]
) -> tuple[BronzeGap, ...]:
    """Return the unread ends of topics that were created again under the same name."""
    return tuple(
        BronzeGap(
            topic=topic,
            topic_id=topic_id,
            kpartition=partition,
            from_offset=offset,
            to_offset=None,
            reason=GapReason.TOPIC_CREATED_AGAIN,
        )
        for (topic, topic_id, partition), offset in sorted(stored.items())
        if topic in source.topics and source.topics[topic] != topic_id
    )
