"""Log starts and ends of partitions, requested by a consumer (ListOffsets), without reading.

The admin API is not used: it took three times the processor time for 10,000 partitions, because of
Futures and objects.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import ClusterMetadata

from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.errors import (
    ClientError,
    LeaderNotAvailable,
    NotFound,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.model.topology import TopicPartition

LATEST: Final = -1  # the timestamp by which ListOffsets is asked for the end of a log
EARLIEST: Final = -2  # and for its start
ASK_S_MAX: Final = 10.0  # for all partitions
# For a question: then it is asked once more, of those that are led, and may take all the rest.
BATCH_S_MAX: Final = 3.0
# By one question: librdkafka's time goes by the square of them. It has one question under way on a
# connection, whoever asks: to brokers that are far away 50,000 partitions would be as far as 500
# times there and back, and that is worth more than the time.
PARTITIONS_PER_REQUEST: Final = 100
PARTITIONS_PER_REQUEST_FAR: Final = 1000
FAR_ROUND_TRIP_S: Final = 0.01  # each question of a round took longer
# Where librdkafka refuses a whole question, it is asked in halves, to find the partition that it is
# about: 14 more questions for one of a hundred.
SPLITS_MAX: Final = 64  # of all questions of a round
EXCLUSION_S: Final = 60.0  # how long a partition that was found so is left out of questions

OffsetOrError = int | ClientError
_CLUSTER_ERROR_CODES: Final = {
    ck.KafkaError._AUTHENTICATION,  # noqa: SLF001
    ck.KafkaError.SASL_AUTHENTICATION_FAILED,
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


class _ListOffsetsBatch(NamedTuple):
    """Batch of partitions, and the same partitions as arguments of librdkafka."""

    partitions: Sequence[TopicPartition]
    arguments: list[ck.TopicPartition]


class LogBoundsReader:
    """Reader of log bounds, with one client for each isolation level, created at first use.

    Thread-safe. `create` returns a consumer of such settings, and raises AccessDenied while there
    is no token. Connection errors go to `error_cb` of the settings when `poll` is called.
    """

    def __init__(
        self, name: str, settings: dict[str, Any], create: Callable[[dict[str, Any]], ck.Consumer]
    ) -> None:
        self._name = name
        self._create = create
        self._settings = {
            **settings,
            "group.id": f"offsetwatch-{uuid.uuid4()}",  # required; never joined
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
        self._readers: dict[bool, ck.Consumer] = {}
        # Of the partitions that are asked for again and again, as long as it is the same tuple: to
        # say it all anew for each round was an eighth of what a round takes.
        self._last: tuple[Sequence[TopicPartition], int, list[_ListOffsetsBatch]] = ((), 0, [])
        self._far = False
        self._creating = threading.Lock()
        self._unsettled = False
        self._excluded: dict[TopicPartition, tuple[ClientError, float]] = {}
        self._splits = 0
        self._timed_out: ck.KafkaException | None = None

    def request(
        self, partitions: Sequence[TopicPartition], offset: int, *, committed: bool
    ) -> list[OffsetOrError]:
        """Return the LATEST or EARLIEST offset of each partition, or its error.

        The error is NotFound, LeaderNotAvailable without a leader, or the broker's. Raises
        KafkaException or ClientError if no broker answers, or the cluster denies access.
        """
        reader = self._reader(committed=committed)
        until = time.monotonic() + ASK_S_MAX
        self._splits, self._timed_out = 0, None
        # Left to itself, librdkafka waits all the time it has for a leader that there is not, and
        # goes on naming a leader epoch that is over until its metadata is minutes old.
        idle = self._leaderless(self._leaders(reader, until)) if self._unsettled else {}
        self._unsettled = bool(idle)
        idle = {**self._list_excluded(), **idle}
        answers: list[OffsetOrError] = []
        silent: set[int] = set()  # brokers
        quickest_s = math.inf
        for batch in self._build_batches(partitions, offset):
            began = time.monotonic()
            try:
                answers += self._request_batch(
                    reader, batch, idle, min(BATCH_S_MAX, _compute_remaining_s(until))
                )
            except ck.KafkaException as exc:
                if not isinstance(client_error_from(self._name, exc.args[0]), ResponseTimeout):
                    raise
                leaders = self._leaders(reader, until)
                idle = {**self._list_excluded(), **self._leaderless(leaders)}
                self._unsettled = True
                answers += self._request_by_leader(reader, batch, idle, leaders, silent, until)
            quickest_s = min(quickest_s, time.monotonic() - began)
            # At once: a round that takes too long and ends here is not to be asked for like this
            # again. Where one question is all of it, it makes no difference.
            if len(partitions) > PARTITIONS_PER_REQUEST:
                self._far = quickest_s > FAR_ROUND_TRIP_S
        if self._timed_out is not None and not any(isinstance(answer, int) for answer in answers):
            raise self._timed_out
        return answers

    def _build_batches(
        self, partitions: Sequence[TopicPartition], offset: int
    ) -> list[_ListOffsetsBatch]:
        size = PARTITIONS_PER_REQUEST_FAR if self._far else PARTITIONS_PER_REQUEST
        known, known_size, batches = self._last
        if partitions is known and size == known_size and offset == LATEST:
            return batches
        arguments = [
            ck.TopicPartition(partition.topic, partition.partition, offset)
            for partition in partitions
        ]
        batches = [
            _ListOffsetsBatch(partitions[first : first + size], arguments[first : first + size])
            for first in range(0, len(partitions), size)
        ]
        if isinstance(partitions, tuple) and offset == LATEST:  # another sequence may change
            self._last = (partitions, size, batches)
        return batches

    def metadata(self, timeout_s: float) -> ClusterMetadata:
        """Return the metadata of the brokers and of one topic, the least that can be requested.

        It is the topic whose log ends were read last; before there is one, all topics are
        requested. Raises KafkaException.
        """
        partitions = self._last[0]
        topic = partitions[0].topic if partitions else None
        result: ClusterMetadata = self._reader(committed=False).list_topics(
            topic, timeout=timeout_s
        )
        return result

    def poll(self) -> None:
        """Deliver connection errors to the callbacks."""
        for reader in list(self._readers.values()):
            reader.poll(0)

    def close(self) -> None:
        """Close every client."""
        with self._creating:
            while self._readers:
                self._readers.popitem()[1].close()

    def _reader(self, *, committed: bool) -> ck.Consumer:
        with self._creating:
            if committed not in self._readers:
                level = "read_committed" if committed else "read_uncommitted"
                self._readers[committed] = self._create(
                    {**self._settings, "isolation.level": level}
                )
            return self._readers[committed]

    @staticmethod
    def _leaders(reader: ck.Consumer, until: float) -> dict[TopicPartition, int]:
        """Return the leader of each partition; negative for none."""
        metadata = reader.list_topics(timeout=_compute_remaining_s(until))
        return {
            TopicPartition(name, partition.id): partition.leader
            for name, topic in metadata.topics.items()
            for partition in topic.partitions.values()
        }

    def _leaderless(
        self, leaders: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ClientError]:
        leaderless = LeaderNotAvailable(self._name, "it has no leader")
        return {partition: leaderless for partition, leader in leaders.items() if leader < 0}

    def _list_excluded(self) -> dict[TopicPartition, ClientError]:
        if self._excluded:
            now = time.monotonic()
            self._excluded = {
                partition: exclusion
                for partition, exclusion in self._excluded.items()
                if exclusion[1] > now
            }
        return {partition: error for partition, (error, _) in self._excluded.items()}

    def _request_by_leader(
        self,
        reader: ck.Consumer,
        batch: _ListOffsetsBatch,
        idle: Mapping[TopicPartition, ClientError],
        leaders: Mapping[TopicPartition, int],
        silent: set[int],
        until: float,
    ) -> list[OffsetOrError]:
        """Request offsets from each leader apart: a hanging broker fails only its partitions."""
        indices: dict[int, list[int]] = {}
        for index, partition in enumerate(batch.partitions):
            indices.setdefault(leaders.get(partition, -1), []).append(index)
        hangs = ResponseTimeout(self._name, "the broker that leads it does not answer")
        bounds: list[OffsetOrError] = [hangs] * len(batch.partitions)
        groups = [(leader, own) for leader, own in indices.items() if leader not in silent]
        for number, (leader, own) in enumerate(groups):
            part = _ListOffsetsBatch(
                [batch.partitions[index] for index in own],
                [batch.arguments[index] for index in own],
            )
            try:
                answers = self._request_batch(
                    reader, part, idle, _compute_remaining_s(until) / (len(groups) - number)
                )
            except ck.KafkaException as exc:
                if not isinstance(client_error_from(self._name, exc.args[0]), ResponseTimeout):
                    raise
                self._timed_out = exc
                silent.add(leader)
            else:
                for index, answer in zip(own, answers, strict=True):
                    bounds[index] = answer
        return bounds

    def _request_batch(
        self,
        reader: ck.Consumer,
        batch: _ListOffsetsBatch,
        idle: Mapping[TopicPartition, ClientError],
        limit_s: float,
    ) -> list[OffsetOrError]:
        """Request the partitions that are not in `idle`, whose errors are known."""
        if not idle or idle.keys().isdisjoint(batch.partitions):  # slow even for an empty one
            return self._request(reader, batch.arguments, limit_s)
        led = [partition not in idle for partition in batch.partitions]
        answers = iter(self._request(reader, list(compress(batch.arguments, led)), limit_s))
        return [
            next(answers) if is_led else idle[partition]
            for partition, is_led in zip(batch.partitions, led, strict=True)
        ]

    def _request(
        self, reader: ck.Consumer, arguments: list[ck.TopicPartition], limit_s: float
    ) -> list[OffsetOrError]:
        if not arguments:
            return []
        try:
            searched = reader.offsets_for_times(arguments, timeout=limit_s)
        except ck.KafkaException as exc:
            return self._request_halves(reader, arguments, limit_s, exc.args[0])
        offsets: list[int] = [partition.offset for partition in searched]
        if min(offsets) >= 0 and all(partition.error is None for partition in searched):
            return [*offsets]
        return [self._convert_answer(partition) for partition in searched]

    def _convert_answer(self, partition: ck.TopicPartition) -> OffsetOrError:
        """Return a partition's offset or error.

        While a broker starts or stops, librdkafka may return a negative offset without an error.
        """
        if partition.error is not None:
            return self._convert_error(partition.error)
        if partition.offset >= 0:
            return int(partition.offset)
        self._unsettled = True
        return LeaderNotAvailable(self._name, "the broker gave no offset")

    def _request_halves(
        self,
        reader: ck.Consumer,
        arguments: list[ck.TopicPartition],
        limit_s: float,
        error: ck.KafkaError,
    ) -> list[OffsetOrError]:
        """Return offsets after a refused request, which need not concern all its partitions."""
        why = self._convert_error(error)
        if isinstance(why, NotFound | LeaderNotAvailable):  # of all of them
            return [why] * len(arguments)
        unreachable = isinstance(why, ResponseTimeout | TargetUnreachable)
        if unreachable or error.code() in _CLUSTER_ERROR_CODES:
            raise ck.KafkaException(error)
        if len(arguments) == 1:
            partition = TopicPartition(arguments[0].topic, arguments[0].partition)
            self._excluded[partition] = (why, time.monotonic() + EXCLUSION_S)
            return [why]
        self._splits += 1
        if self._splits > SPLITS_MAX:
            return [why] * len(arguments)
        half = len(arguments) // 2
        return [
            *self._request(reader, arguments[:half], limit_s),
            *self._request(reader, arguments[half:], limit_s),
        ]

    def _convert_error(self, error: ck.KafkaError) -> ClientError:
        translated = client_error_from(self._name, error)
        self._unsettled |= isinstance(translated, LeaderNotAvailable)
        return translated


def _compute_remaining_s(until: float) -> float:
    return max(0.0, until - time.monotonic())
