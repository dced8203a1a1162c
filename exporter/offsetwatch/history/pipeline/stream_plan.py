"""Plan of one Kafka cluster's stream: what to read, and how the stream goes on. Needs no JVM."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.errors import HistoryError, LeaderNotAvailable, NotFound
from offsetwatch.history.pipeline import checkpoints, commits
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.schemas import BRONZE_RECORDS
from offsetwatch.history.tables.stream_generations import (
    StreamGeneration,
    StreamPlan,
    StreamSource,
    plan,
)
from offsetwatch.model.log_readings import LogBounds
from offsetwatch.model.topology import TopicPartition

# To compile quickly rather than well costs less time and CPU for 700,000 offsets; where it no
# longer does was not looked for.
LONG_OFFSETS_MIN: Final = 1_000_000
LEADER_TRIES = 20
LEADER_PAUSE_S = 0.5


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
            _source(feed),
            _read_generation(base, feed.kafka),
            reader.read_bronze_next_offsets(base, feed.kafka),
        )
    except HistoryError as exc:
        raise HistoryError(f"kafka {feed.kafka}: {exc}") from exc


def is_short_read(plans: Iterable[StreamPlan]) -> bool:
    """Check whether so little is unread that Spark need not compile well."""
    return sum(plan.unread for plan in plans) < LONG_OFFSETS_MIN


def _read_generation(base: Path, kafka: str) -> StreamGeneration | None:
    held = checkpoints.read_generation(base, kafka)
    if held is None or held.batch is None:
        return held
    bronze = reader.has_tables(base, (BRONZE_RECORDS,))
    taken_in = bronze and commits.IdempotentWrite(*held.batch).done(base, BRONZE_RECORDS)
    return held if taken_in else held.without_its_batch()


def _source(feed: Feed) -> StreamSource:
    """Return what there is to read now.

    Raises HistoryError for a topic that was created again a moment ago: its records would be stored
    under the wrong id.
    """
    admin = KafkaAdmin(feed.kafka, dict(feed.properties))
    places: list[TopicPartition] = []
    for topic, role in sorted(feed.by_topic.items()):
        topic_id, partitions = read_topic_shape(admin, topic)
        if topic_id != role.topic_id:
            raise HistoryError(
                f"{topic} was created again just now (id {role.topic_id or 'unknown'}, now "
                f"{topic_id or 'unknown'}): run again"
            )
        places += [TopicPartition(topic, number) for number in range(partitions)]
    bounds = _bounds(admin, places)
    return StreamSource(
        topics={topic: role.topic_id for topic, role in feed.by_topic.items()},
        starts={
            (partition.topic, partition.partition): bounds[partition].start for partition in places
        },
        ends={
            (partition.topic, partition.partition): bounds[partition].end for partition in places
        },
    )


def read_topic_shape(admin: KafkaAdmin, topic: str) -> tuple[str, int]:
    """Return the id of a topic, and its number of partitions. Raises NotFound, ClientError."""
    try:
        return admin.shape(topic)
    except NotFound as exc:
        raise NotFound(admin.name, f"there is no topic {topic}") from exc


def _bounds(admin: KafkaAdmin, places: list[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Return the log bounds of every partition; wait for partitions without a leader.

    All partitions lack one for a moment after a topic is created.
    """
    for _ in range(LEADER_TRIES):
        bounds = admin.bounds(places, stable=False)
        missing = [partition for partition in places if partition not in bounds]
        if not missing:
            return bounds
        time.sleep(LEADER_PAUSE_S)
    raise LeaderNotAvailable(
        admin.name, f"{missing[0].topic} partition {missing[0].partition} has no leader"
    )
