"""Plan of one Kafka cluster's stream: what to read, and how the stream goes on. Needs no JVM.

A checkpoint is disposable, as bronze knows what it holds. If it is unusable, the next generation
begins right behind the newest record of each log in bronze. Records between there and the current
start of the log are permanently lost, and are recorded as a gap.

`_ckpt/<kafka>/g<N>` is Spark's own folder; beside it `g<N>.json` holds the topics and the start of
that generation. Of Spark's files only those that hold its progress are read; where they are not as
expected, the checkpoint counts as lost, which costs nothing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.disk import replace_file
from offsetwatch.errors import HistoryError, LeaderNotAvailable, NotFound
from offsetwatch.history.pipeline import commits
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.reader import BronzeGap, GapReason, LogPartition
from offsetwatch.history.tables.schemas import BRONZE_RECORDS
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition

# To compile quickly rather than well costs less time and CPU for 700,000 offsets; where it no
# longer does was not looked for.
LONG_OFFSETS_MIN: Final = 1_000_000
LEADER_TRIES = 20
LEADER_PAUSE_S = 0.5
StreamPartition = tuple[str, int]
"""A topic and one of its partitions, on the Kafka cluster that is spoken of."""

SparkOffsets = dict[str, dict[str, int]]
"""Topic -> partition -> offset, as Spark's Kafka source has it."""

_GENERATION = re.compile(r"g(\d+)(\.json)?")


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
    source: StreamSource, generation: StreamGeneration | None, stored: Mapping[LogPartition, int]
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
    why = _explain_new_generation(source, generation, stored)
    if why is None:
        assert generation is not None
        return StreamPlan(
            number=generation.number,
            topics=generation.topics,
            starts=generation.starts,
            unread=unread,
        )
    # A gap also counts in a partition without a record in bronze, of topics with the same id.
    read_to = nexts
    if generation is not None:
        read_to = {
            (topic, partition): offset
            for (topic, partition), offset in generation.starts.items()
            if (topic, partition) in source.starts
            and source.topics[topic] == generation.topics.get(topic)
        } | nexts
    moved = (
        BronzeGap(
            *(topic, source.topics[topic], partition, offset, source.starts[topic, partition]),
            GapReason.LOG_START_MOVED,
        )
        for (topic, partition), offset in sorted(read_to.items())
        if source.starts[topic, partition] > offset
    )
    # The unread ends of topics that were created again under the same name.
    replaced = (
        BronzeGap(topic, topic_id, partition, offset, None, GapReason.TOPIC_CREATED_AGAIN)
        for (topic, topic_id, partition), offset in sorted(stored.items())
        if topic in source.topics and source.topics[topic] != topic_id
    )
    return StreamPlan(
        number=0 if generation is None else generation.number + 1,
        topics=dict(source.topics),
        starts=begins,
        unread=unread,
        gaps=(*moved, *replaced),
        why=why,
    )


def _explain_new_generation(
    source: StreamSource, generation: StreamGeneration | None, stored: Mapping[LogPartition, int]
) -> str | None:
    """Return what keeps the newest generation from going on; None if nothing does."""
    if generation is None:
        return "it is the first"
    for topic, topic_id in sorted(generation.topics.items()):
        if topic not in source.topics:
            return f"{topic} is no longer to be read"
        if source.topics[topic] != topic_id:
            return f"{topic} was created again"
    new = sorted(source.topics.keys() - generation.topics.keys())
    if new:
        return f"{new[0]} is to be read too"
    if generation.committed is None:
        return "the checkpoint is gone or cannot be read"
    if generation.committed and not stored:
        return "the records that it had read are gone"
    for (topic, partition), offset in sorted({**generation.starts, **generation.committed}.items()):
        if source.starts.get((topic, partition), 0) > offset:
            return f"the log of {topic} partition {partition} begins behind what was read of it"
    for (topic, topic_id, partition), offset in sorted(stored.items()):
        if source.topics.get(topic) != topic_id:
            continue
        key = (topic, partition)
        if max(generation.planned.get(key, 0), generation.starts.get(key, 0)) < offset:
            return f"the checkpoint is older than what was read of {topic} partition {partition}"
    return None


@dataclass(frozen=True, slots=True)
class Feed:
    """A Kafka cluster as the stream reads it.

    properties    librdkafka's, for metadata queries; `options` are the same for Spark
    by_topic      kind and owner of every topic to be read
    """

    kafka: str
    properties: Mapping[str, str] = field(repr=False)  # may hold passwords
    options: Mapping[str, str] = field(repr=False)
    by_topic: Mapping[str, RecordedTopic]
    offsets_per_trigger_max: int


def plan_stream(base: Path, feed: Feed) -> StreamPlan:
    """Return how this cluster's stream goes on. Needs no JVM. Raises HistoryError, ClientError."""
    try:
        return plan(
            _read_source(feed),
            _read_generation(base, feed.kafka),
            reader.read_bronze_next_offsets(base, feed.kafka),
        )
    except HistoryError as exc:
        raise HistoryError(f"kafka {feed.kafka}: {exc}") from exc


def is_short_read(plans: Iterable[StreamPlan]) -> bool:
    """Check whether so little is unread that Spark need not compile well."""
    return sum(plan.unread for plan in plans) < LONG_OFFSETS_MIN


def _read_generation(base: Path, kafka: str) -> StreamGeneration | None:
    generation = read_generation(base, kafka)
    if generation is None or generation.batch is None:
        return generation
    bronze = reader.has_tables(base, (BRONZE_RECORDS,))
    applied = bronze and commits.IdempotentWrite(*generation.batch).done(base, BRONZE_RECORDS)
    return generation if applied else generation.without_its_batch()


def _read_source(feed: Feed) -> StreamSource:
    """Return what there is to read now.

    Raises HistoryError for a topic that was created again a moment ago: its records would be stored
    under the wrong id.
    """
    admin = KafkaAdmin(feed.kafka, dict(feed.properties))
    partitions: list[TopicPartition] = []
    for topic, role in sorted(feed.by_topic.items()):
        topic_id, count = read_topic_shape(admin, topic)
        if topic_id != role.topic_id:
            raise HistoryError(
                f"{topic} was created again just now (id {role.topic_id or 'unknown'}, now "
                f"{topic_id or 'unknown'}): run again"
            )
        partitions += [TopicPartition(topic, number) for number in range(count)]
    bounds = _read_bounds(admin, partitions)
    return StreamSource(
        topics={topic: role.topic_id for topic, role in feed.by_topic.items()},
        starts={(log.topic, log.partition): bounds[log].start for log in partitions},
        ends={(log.topic, log.partition): bounds[log].end for log in partitions},
    )


def read_topic_shape(admin: KafkaAdmin, topic: str) -> tuple[str, int]:
    """Return the id of a topic, and its number of partitions. Raises NotFound, ClientError."""
    try:
        return admin.shape(topic)
    except NotFound as exc:
        raise NotFound(admin.name, f"there is no topic {topic}") from exc


def _read_bounds(
    admin: KafkaAdmin, partitions: list[TopicPartition]
) -> dict[TopicPartition, LogBounds]:
    """Return the log bounds of every partition; wait for partitions without a leader.

    All partitions lack one for a moment after a topic is created.
    """
    for _ in range(LEADER_TRIES):
        bounds = admin.bounds(partitions, stable=False)
        missing = [partition for partition in partitions if partition not in bounds]
        if not missing:
            return bounds
        time.sleep(LEADER_PAUSE_S)
    raise LeaderNotAvailable(
        admin.name, f"{missing[0].topic} partition {missing[0].partition} has no leader"
    )


def find_checkpoint_folder(base: Path, kafka: str, number: int) -> Path:
    """Return Spark's folder for the progress of a generation; a cluster's name may hold a slash."""
    return _find_cluster_folder(base, kafka) / f"g{number}"


def read_generation(base: Path, kafka: str) -> StreamGeneration | None:
    """Return the newest generation; None if there was none yet."""
    path = _find_cluster_folder(base, kafka)
    names = [] if not path.is_dir() else [entry.name for entry in path.iterdir()]
    matches = [_GENERATION.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in matches if match is not None]
    if not numbers:
        return None
    number = max(numbers)
    try:
        document = json.loads((path / f"g{number}.json").read_text(encoding="utf-8"))
        topics, starts = dict(document["topics"]), parse_spark_offsets(document["starts"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        topics, starts = {}, {}  # lost or damaged: the next generation begins
    checkpoint = find_checkpoint_folder(base, kafka, number)
    committed, planned = _read_progress(checkpoint)
    return StreamGeneration(
        number=number,
        topics=topics,
        starts=starts,
        committed=committed,
        planned=planned or {},
        batch=None if planned is None else _read_newest_batch(checkpoint),
    )


def write_generation(base: Path, kafka: str, plan: StreamPlan) -> None:
    """Write the file of a generation, before Spark starts it. Raises HistoryError."""
    path = _find_cluster_folder(base, kafka)
    document = {"topics": dict(plan.topics), "starts": format_spark_offsets(plan.starts)}
    text = json.dumps(document, indent=1, sort_keys=True).encode()
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = path / f"g{plan.number}.json"
        replace_file(file, lambda partial: partial.write(text), durable=False)
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc}") from exc


def format_spark_offsets(offsets: Mapping[StreamPartition, int]) -> SparkOffsets:
    """Return offsets in the format of Spark's Kafka source."""
    by_topic: SparkOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def parse_spark_offsets(offsets: SparkOffsets) -> dict[StreamPartition, int]:
    """Return the offsets of Spark's format; the reverse of format_spark_offsets."""
    return {
        (topic, int(partition)): offset
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    }


def _find_cluster_folder(base: Path, kafka: str) -> Path:
    return base / "_ckpt" / quote(kafka, safe="")


def _read_progress(
    checkpoint: Path,
) -> tuple[dict[StreamPartition, int] | None, dict[StreamPartition, int] | None]:
    """Return the offsets of the last batch that is done, and of the newest one; None if unknown."""
    planned = _find_newest_number(checkpoint / "offsets")
    if planned is None:
        return None, None
    done = _find_newest_number(checkpoint / "commits")
    try:
        end = _read_batch(checkpoint, planned)
        # The first batch begins where the generation does.
        return ({} if done is None else _read_batch(checkpoint, done)), end
    except (OSError, ValueError, TypeError, AttributeError):
        return None, None


def _read_newest_batch(checkpoint: Path) -> tuple[str, int] | None:
    number = _find_newest_number(checkpoint / "offsets")
    try:
        query = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if number is None else (str(query), number)


def _find_newest_number(log: Path) -> int | None:
    if not log.is_dir():
        return None
    return max((int(file.name) for file in log.iterdir() if file.name.isdecimal()), default=None)


def _read_batch(checkpoint: Path, number: int) -> dict[StreamPartition, int]:
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return parse_spark_offsets(json.loads(lines[-1]))
