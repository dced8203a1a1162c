"""Reader of the journal's topic, which writes its records to the replica's copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from offsetwatch.clients.kafka.clients import KafkaAdmin, parse_end_of_partition
from offsetwatch.clients.kafka.journal_topic import JournalReader
from offsetwatch.errors import (
    JournalDamaged,
    LeaderNotAvailable,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.remedy.model.journal_records import LeadershipTaken
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy

WAIT_S: Final = 0.05  # for a record, and for news of the election: a turn of the thread has both
READ_MAX: Final = 1000
CATCH_UP_S: Final = 60.0  # to the journal's end, once chosen; then others are let try


class JournalTopicFollower:
    """Follower that reads the journal's topic into the copy."""

    def __init__(self, copy: JournalTopicCopy, reader: JournalReader) -> None:
        self.copy = copy
        self._reader = reader
        self._position = copy.place.position
        self.caught_up = False
        self.busy = False
        self.trouble = ""
        self.leader = _find_last_leader(copy, 1)
        self._looked = copy.head[0]

    def read(self, wait_s: float) -> None:
        """Read the records that have arrived. Raises JournalDamaged, ClientError."""
        values: list[bytes | None] = []
        position = self._position
        try:
            messages = self._reader.read(READ_MAX, wait_s)
        except (ResponseTimeout, TargetUnreachable, LeaderNotAvailable) as exc:
            # A connection that comes again by itself. Who leads may go on meanwhile: whether that
            # is so, its writing tells.
            self.trouble, messages = str(exc), []
        else:
            self.trouble = ""
        for message in messages:
            ended = parse_end_of_partition(message)
            if ended is None:
                values.append(message.value())
                offset = message.offset()
                assert offset is not None
                position = offset + 1
            else:
                position = max(position, ended)
                self.caught_up = True
        self.busy = bool(values)
        if values or position > self._position:
            self.copy.take(values, position)
            self._position = position
        head = self.copy.head[0]
        if head > self._looked:
            self.leader = _find_last_leader(self.copy, self._looked + 1) or self.leader
            self._looked = head

    def read_to_end(
        self, kafka: str, properties: Mapping[str, Any], give_up: Callable[[], bool]
    ) -> None:
        """Read to the present end of the topic, to which only the caller can write now."""
        deadline = time.monotonic() + CATCH_UP_S
        admin = KafkaAdmin(kafka, properties)
        try:
            while True:
                found = admin.readable_ends([self._reader.at])[self._reader.at]
                if found.stable == found.high:
                    break
                self._in_time(deadline, give_up)
                self.read(WAIT_S)
        finally:
            admin.close()
        while self._position < found.high:
            self._in_time(deadline, give_up)
            self.read(WAIT_S)
        seq, head = self.copy.place.seq, self.copy.head[0]
        if seq != head:
            raise JournalDamaged(
                f"topic {self._reader.at.topic} ends with record {seq}, and this replica has seen "
                f"{head}: it has lost records. See docs/high-availability.md"
            )

    def _in_time(self, deadline: float, give_up: Callable[[], bool]) -> None:
        if give_up() or time.monotonic() > deadline:
            raise ResponseTimeout("journal", "its end was not reached")


def _find_last_leader(copy: JournalTopicCopy, since: int) -> tuple[str, float] | None:
    found: tuple[str, float] | None = None
    seq = since
    while entries := copy.since(seq, READ_MAX):
        seq = entries[-1].seq + 1
        for entry in entries:
            if isinstance(entry.record, LeadershipTaken):
                found = (entry.record.name, entry.record.at)
    return found
