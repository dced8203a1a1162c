"""A tail on a fake Kafka, driven in the test's own thread, in the clock's own time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from offsetwatch.ingest.tail import Tail
from offsetwatch.ingest.topic_readers import SourceOffsetsTopicReader, TopicReader
from offsetwatch.ingest.unreadable_partitions import OpenTransactions
from offsetwatch.model.observations import InputFailed, TailRead
from offsetwatch.model.topology import KafkaTopic
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader

TOPIC = KafkaTopic("east", "connect-offsets")
ROUNDS_MAX = 5_000

Story = Iterator[Callable[[TailRead | InputFailed], bool]]


@dataclass
class Following:
    """Runs a tail through a story.

    A story is a generator: each `yield` hands over the condition on an observation that it waits
    for; what stands between two yields happens to the cluster at that moment. When the story ends
    the tail is told to stop.
    """

    kafka: FakeKafka
    topic: KafkaTopic = TOPIC
    role_of: Callable[[], TopicReader] = SourceOffsetsTopicReader
    open_reader: Callable[[], FakeReader] | None = None
    observations: list[TailRead | InputFailed] = field(default_factory=list)
    progress: list[TailRead] = field(default_factory=list)
    readers: list[FakeReader] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    admins: list[FakeAdmin] = field(default_factory=list)

    def run(self, story: Story) -> list[TailRead | InputFailed]:
        """Everything that the tail put into the queue, but for the progress of a bootstrap."""
        self._story = story
        self._condition = next(story)
        self._over = False
        self._rounds = 0
        Tail(
            self.topic,
            admin=self._admin(),
            open_reader=self._open,
            transactions=OpenTransactions(
                lambda: FakeReader(self.kafka, committed=False), self.kafka.clock
            ),
            role_of=self.role_of,
            put=self._put,
            stopped=self._stopped,
            clock=self.kafka.clock,
        ).run()
        return self.observations

    def reads(self) -> list[TailRead]:
        return [observed for observed in self.observations if isinstance(observed, TailRead)]

    def failures(self) -> list[str]:
        return [
            observed.reason for observed in self.observations if isinstance(observed, InputFailed)
        ]

    def stop(self) -> None:
        """Tell the tail to stop, whatever the story waits for."""
        self._over = True

    def _admin(self) -> FakeAdmin:
        self.admins.append(FakeAdmin(self.kafka))
        return self.admins[-1]

    def _open(self) -> FakeReader:
        self.readers.append(self.open_reader() if self.open_reader else FakeReader(self.kafka))
        return self.readers[-1]

    def _put(self, batch, _timeout_s) -> bool:
        for tail in batch:
            if isinstance(tail, TailRead) and not tail.caught_up:
                self.progress.append(tail)
                continue
            self.observations.append(tail)
            if not self._over and self._condition(tail):
                self._condition = next(self._story, None)
                self._over = self._condition is None
        return True

    def _stopped(self, seconds: float) -> bool:
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise AssertionError(f"the story did not go on; seen: {self.observations[-3:]}")
        if seconds:
            self.waited_s.append(seconds)
            self.kafka.clock.advance(seconds)
        return self._over


def whole(observed: TailRead | InputFailed) -> bool:
    return isinstance(observed, TailRead) and observed.whole


def checked(observed: TailRead | InputFailed) -> bool:
    return isinstance(observed, TailRead) and observed.behind is not None and not observed.whole


def live(observed: TailRead | InputFailed) -> bool:
    return isinstance(observed, TailRead) and bool(observed.records) and not observed.whole


def failed(reason: str) -> Callable[[TailRead | InputFailed], bool]:
    return lambda observed: isinstance(observed, InputFailed) and observed.reason == reason
