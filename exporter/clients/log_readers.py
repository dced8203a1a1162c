"""Where logs begin and end, asked for as a consumer asks (ListOffsets), without reading.

Not over the admin API: of 10,000 partitions that took three times the processor time, for Futures
and objects that nobody needs. Called by kafka.py.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from exporter.clients.kafka_errors import translate
from exporter.errors import ClientError, NotFound, TimedOut, Unsettled
from exporter.model.topology import TopicPartition

LATEST: Final = -1  # the timestamp by which ListOffsets is asked for the end of a log
EARLIEST: Final = -2  # and for its start
ASK_S_MAX: Final = 10.0  # for all partitions
# For a question: then it is asked once more, of those that are led, and may take all the rest.
BATCH_S_MAX: Final = 3.0
# By one question: librdkafka's time goes by the square of them. It has one question under way on a
# connection, whoever asks: to brokers that are far away 50,000 partitions would be as far as 500
# times there and back, and that is worth more than the time.
PARTITIONS_ASKED: Final = 100
PARTITIONS_ASKED_FAR: Final = 1000
FAR_S: Final = 0.01  # each question of a round took longer

Told = int | ClientError


class _Question(NamedTuple):
    """Some of the partitions, and the same as librdkafka is asked for them."""

    of: Sequence[TopicPartition]
    wanted: list[ck.TopicPartition]


class LogReaders:
    """A client for each isolation level, made when it is first needed. Any thread.

    `made` makes a consumer of such settings, and raises Denied while there is no token. Errors of
    connections go where `error_cb` of the settings says, when `poll` is called.
    """

    def __init__(
        self, name: str, settings: dict[str, Any], made: Callable[[dict[str, Any]], ck.Consumer]
    ) -> None:
        self._name = name
        self._made = made
        self._settings = {
            **settings,
            "group.id": f"offsetwatch-{uuid.uuid4()}",  # required; never joined
            "enable.auto.commit": False,
        }
        self._readers: dict[bool, ck.Consumer] = {}
        # Of the partitions that are asked for again and again, as long as it is the same tuple: to
        # say it all anew for each round was an eighth of what a round takes.
        self._last: tuple[Sequence[TopicPartition], int, list[_Question]] = ((), 0, [])
        self._far = False
        self._making = threading.Lock()
        self._unsettled = False

    def ask(
        self, partitions: Sequence[TopicPartition], offset: int, *, committed: bool
    ) -> list[Told]:
        """Of each partition its LATEST or EARLIEST offset, or why it has none: NotFound, or
        Unsettled while nobody leads it. Raises KafkaException or ClientError where a broker does
        not answer or refuses.
        """
        reader = self._reader(committed=committed)
        until = time.monotonic() + ASK_S_MAX
        # Left to itself, librdkafka waits all the time it has for a leader that there is not, and
        # goes on naming a leader epoch that is over until its metadata is minutes old.
        idle = self._leaderless(reader, until) if self._unsettled else frozenset()
        self._unsettled = bool(idle)
        found: list[Told] = []
        quickest_s = math.inf
        for some in self._questions(partitions, offset):
            began = time.monotonic()
            try:
                found += self._batch(reader, some, idle, min(BATCH_S_MAX, _left(until)))
            except ck.KafkaException as exc:
                if not isinstance(translate(self._name, exc.args[0]), TimedOut):
                    raise
                idle = self._leaderless(reader, until)
                self._unsettled = True
                found += self._batch(reader, some, idle, _left(until))
            quickest_s = min(quickest_s, time.monotonic() - began)
            # At once: a round that takes too long and ends here is not to be asked for like this
            # again. Where one question is all of it, it makes no difference.
            if len(partitions) > PARTITIONS_ASKED:
                self._far = quickest_s > FAR_S
        return found

    def _questions(self, partitions: Sequence[TopicPartition], offset: int) -> list[_Question]:
        size = PARTITIONS_ASKED_FAR if self._far else PARTITIONS_ASKED
        known, known_size, questions = self._last
        if partitions is known and size == known_size and offset == LATEST:
            return questions
        parts = (partitions[first : first + size] for first in range(0, len(partitions), size))
        questions = [_Question(some, _wanted(some, offset)) for some in parts]
        if isinstance(partitions, tuple) and offset == LATEST:  # another sequence may change
            self._last = (partitions, size, questions)
        return questions

    def poll(self) -> None:
        """Have errors of connections told."""
        for reader in list(self._readers.values()):
            reader.poll(0)

    def _reader(self, *, committed: bool) -> ck.Consumer:
        with self._making:
            if committed not in self._readers:
                level = "read_committed" if committed else "read_uncommitted"
                self._readers[committed] = self._made({**self._settings, "isolation.level": level})
            return self._readers[committed]

    def _leaderless(self, reader: ck.Consumer, until: float) -> frozenset[TopicPartition]:
        """The partitions that nobody leads."""
        found = reader.list_topics(timeout=_left(until))
        return frozenset(
            TopicPartition(name, at.id)
            for name, topic in found.topics.items()
            for at in topic.partitions.values()
            if at.leader < 0
        )

    def _batch(
        self,
        reader: ck.Consumer,
        some: _Question,
        idle: frozenset[TopicPartition],
        limit_s: float,
    ) -> list[Told]:
        if not idle or idle.isdisjoint(some.of):  # an empty set would look at each, too
            return self._asked(reader, some.wanted, limit_s)
        led = [at not in idle for at in some.of]
        told = iter(self._asked(reader, list(compress(some.wanted, led)), limit_s))
        nobody = Unsettled(self._name, "nobody leads it")
        return [next(told) if at else nobody for at in led]

    def _asked(
        self, reader: ck.Consumer, wanted: list[ck.TopicPartition], limit_s: float
    ) -> list[Told]:
        if not wanted:
            return []
        try:
            found = reader.offsets_for_times(wanted, timeout=limit_s)
        except ck.KafkaException as exc:  # it is of all of them, and need not be of the others
            return [self._why_not(exc.args[0])] * len(wanted)
        offsets: list[int] = [at.offset for at in found]
        if min(offsets) >= 0 and all(at.error is None for at in found):
            return [*offsets]
        return [self._one(at) for at in found]

    def _one(self, at: ck.TopicPartition) -> Told:
        """An offset that is one: while a broker goes or comes, librdkafka may answer with a
        negative number and without an error.
        """
        if at.error is not None:
            return self._why_not(at.error)
        if at.offset >= 0:
            return int(at.offset)
        self._unsettled = True
        return Unsettled(self._name, "the broker gave no offset")

    def _why_not(self, error: ck.KafkaError) -> ClientError:
        found = translate(self._name, error)
        if not isinstance(found, NotFound | Unsettled):
            raise ck.KafkaException(error)
        self._unsettled |= isinstance(found, Unsettled)
        return found


def _wanted(partitions: Sequence[TopicPartition], offset: int) -> list[ck.TopicPartition]:
    return [ck.TopicPartition(at.topic, at.partition, offset) for at in partitions]


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())
