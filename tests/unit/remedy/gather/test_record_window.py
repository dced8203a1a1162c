"""What is read to find a poison record, and what it may cost. The logs are in memory; at the end
real readers read librdkafka's own broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from offsetwatch.config import Kafka
from offsetwatch.errors import AccessDenied, RemoteRefusal, ResponseTimeout, TargetUnreachable
from offsetwatch.model.findings import EvidenceItem
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import IncompleteRead, LogWindow, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.gather.poison_locator import find_record
from offsetwatch.remedy.gather.record_window import BoundedLogReader, FindLimits, open_record_reader
from offsetwatch.remedy.locate.search import (
    IdentifiedRecord,
    MirrorFacts,
    NoIdentification,
    OpaqueSubject,
    SinkFacts,
)
from offsetwatch.remedy.model.plan import PartitionOffset
from tests.fakes.batches import batch, store
from tests.fakes.batches import record as in_batch
from tests.fakes.broker import MockBroker
from tests.fakes.clock import VirtualClock
from tests.unit.remedy.stalled_connectors import (
    AT,
    BAD,
    BY_JSON,
    GOOD,
    ID,
    Failed,
    build_subject,
    letter,
    log_line,
    mirror,
    mirror_pair,
    record,
    sink,
    sink_pair,
)

OTHER = TopicPartition("orders", 1)
LETTERS = TopicPartition("letters", 0)
READ_S = 5.0


@dataclass
class Log:
    """A partition. aborted, corrupt: offsets of such records; readers are told as Kafka tells.
    stalls_at: where reads run out of time.
    """

    records: list[RawRecord]
    start: int = 0
    aborted: frozenset[int] = frozenset()
    corrupt: frozenset[int] = frozenset()
    stable_end: int | None = None
    stalls_at: int | None = None

    @property
    def end(self) -> int:
        return self.records[-1].offset + 1 if self.records else self.start


@dataclass
class World:
    """Logs of one cluster, and what was asked of it. Each read takes `read_s`."""

    logs: dict[TopicPartition, Log]
    ids: dict[str, str | None] = field(default_factory=lambda: {"orders": ID, "letters": "l"})
    largest: int | None = 1_000
    failing: Exception | None = None
    clock: VirtualClock = field(default_factory=VirtualClock)
    read_s: float = 0.0
    requests: list[tuple] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def topic_id(self, kafka: str, topic: str) -> str | None:
        return self.ids[topic]

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        if self.failing is not None:
            raise self.failing
        log = self.logs[partition]
        return LogBounds(log.start, log.end, log.end if log.stable_end is None else log.stable_end)

    def ends(self, kafka: str, topic: str) -> dict[int, int]:
        return {
            partition.partition: log.end
            for partition, log in self.logs.items()
            if partition.topic == topic
        }

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        self.requests.append(("message_bytes_max", kafka, topic))
        return self.largest

    @contextmanager
    def __call__(
        self, kafka: str, *, committed: bool, check_crcs: bool = True
    ) -> Iterator[_Reader]:
        self.opened += 1
        yield _Reader(self, committed, check_crcs)
        self.closed += 1


@dataclass
class _Reader:
    world: World
    committed: bool
    check_crcs: bool

    def window(
        self,
        partition: TopicPartition,
        start: int,
        *,
        until: int | None = None,
        count_max: int,
        bytes_max: int,
        timeout_s: float,
    ) -> LogWindow:
        self.world.requests.append(
            (partition, start, count_max, bytes_max, timeout_s, self.committed)
        )
        self.world.clock.advance(self.world.read_s)
        log = self.world.logs[partition]
        end = log.stable_end if self.committed and log.stable_end is not None else log.end
        results: list[RawRecord] = []
        for one in log.records:
            if one.offset < start or (self.committed and one.offset in log.aborted):
                continue
            if log.stalls_at is not None and one.offset >= log.stalls_at:
                partial = LogWindow(tuple(results), one.offset, end, log.start)
                raise IncompleteRead("east", f"read up to {one.offset} of {end}", partial)
            if self.check_crcs and one.offset in log.corrupt:
                return LogWindow(tuple(results), one.offset, end, log.start, one.offset)
            bytes_max -= one.size_bytes
            if len(results) == count_max or one.offset >= end or (bytes_max < 0 and results):
                position = min(end, one.offset)
                return LogWindow(tuple(results), position, end, log.start)
            results.append(one)
        return LogWindow(tuple(results), end, end, log.start)


def of(start: int, *bodies: bytes | None, partition: TopicPartition = AT, **odd: object) -> Log:
    return Log(
        [record(start + n, body, partition=partition) for n, body in enumerate(bodies)], **odd
    )  # type: ignore[arg-type]


def find(world: World, subject: object, **limits: object) -> object:
    return find_record(
        subject, partial(BoundedLogReader, world, world, world.clock), FindLimits(**limits)
    )  # type: ignore[arg-type]


UNCOMMITTED_ONLY = SinkFacts(converters=BY_JSON, read_committed=False)
COMMITTED_ONLY = SinkFacts(converters=BY_JSON, read_committed=True)
STILL = sink(build_subject(sink_pair(2)), facts=UNCOMMITTED_ONLY)


def locate(world: World, subject: object = STILL, **limits: object) -> str:
    """The method, or the reason."""
    answer = find(world, subject, **limits)  # type: ignore[arg-type]
    return answer.method if isinstance(answer, IdentifiedRecord) else answer.reason


def test_a_sinks_window_is_read_from_what_is_committed():
    world = World({AT: of(0, BAD, BAD, BAD, GOOD, GOOD)})
    answer = find(world, STILL)
    assert isinstance(answer, IdentifiedRecord)
    assert answer.record.offset == 2
    ((at, start, count, *_),) = world.requests
    assert (at, start, count) == (AT, 2, 500)


def test_every_reader_is_closed():
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD)})
    find(world, STILL)
    find(world, sink(build_subject(sink_pair(2))))
    assert world.opened == world.closed == 3


@pytest.mark.parametrize(
    "subject",
    [
        sink(build_subject(sink_pair(2)), failure=None),
        sink(build_subject(sink_pair(2)), failure=Failed(veto="auth")),
        sink(build_subject(PartitionOffset("{}", "{}"))),
        mirror(build_subject(mirror_pair(2)), failure=Failed("timeout")),
        OpaqueSubject("c", "x", PartitionOffset('{"filename":"f"}', '{"position":1}')),
    ],
)
def test_nothing_is_read_where_no_record_would_be_named_anyway(subject):
    world = World({AT: of(0, GOOD, GOOD, BAD)}, failing=AssertionError("nothing is to be asked"))
    assert isinstance(find(world, subject), NoIdentification)
    assert world.requests == []


def test_no_partition_is_read_that_moves_or_has_nothing_to_read():
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD), OTHER: of(0, GOOD, partition=OTHER)})
    third = TopicPartition("orders", 2)
    world.logs[third] = of(0, GOOD, GOOD, partition=third)
    subject = sink(
        build_subject(sink_pair(2)),
        build_subject(sink_pair(1, OTHER)),
        build_subject(sink_pair(0, third), moved=True),
        facts=UNCOMMITTED_ONLY,
    )
    assert locate(world, subject) == "decode"
    assert [requests[0] for requests in world.requests] == [AT]


def test_no_more_is_read_than_the_connector_takes_at_once():
    facts = SinkFacts(converters=BY_JSON, read_committed=False, batch_max=2)
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD, BAD)})
    assert locate(world, sink(build_subject(sink_pair(2)), facts=facts)) == "decode"
    assert world.requests[0][2] == 2


def test_more_at_once_than_is_read_here_names_nothing():
    facts = SinkFacts(converters=BY_JSON, read_committed=False, batch_max=5_000)
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD, GOOD, GOOD)})
    subject = sink(build_subject(sink_pair(2)), facts=facts)
    assert locate(world, subject, records=3) == "window_too_large"
    assert locate(world, subject) == "decode"


def test_all_windows_together_have_to_fit():
    large = b'"' + b"x" * 1_000 + b'"'
    world = World({AT: of(0, GOOD, GOOD, BAD, large, large)})
    assert locate(world) == "decode"
    assert locate(world, bytes=1_500) == "window_too_large"
    world.logs[OTHER] = of(0, GOOD, GOOD, partition=OTHER)
    both = sink(
        build_subject(sink_pair(2)), build_subject(sink_pair(0, OTHER)), facts=UNCOMMITTED_ONLY
    )
    assert locate(world, both) == "decode"
    assert locate(world, both, bytes=50) == "window_not_read"


def test_all_reads_together_have_their_time():
    world = World({AT: of(0, GOOD, GOOD, BAD), OTHER: of(0, GOOD, partition=OTHER)}, read_s=60.0)
    both = sink(
        build_subject(sink_pair(2)), build_subject(sink_pair(0, OTHER)), facts=UNCOMMITTED_ONLY
    )
    assert locate(world, both) == "decode"
    assert [requests[4] for requests in world.requests] == [20.0, 20.0]
    assert locate(world, both, total_s=60.0) == "window_not_read"
    assert locate(world, both, total_s=70.0) == "decode"
    assert world.requests[-1][4] == 10.0


def test_where_too_many_stand_still_none_is_inspected():
    world = World({})
    many = [build_subject(sink_pair(2, TopicPartition("orders", n))) for n in range(65)]
    assert locate(world, sink(*many)) == "too_many_partitions"
    assert world.requests == []
    assert locate(world, mirror(*[build_subject(mirror_pair(2, TopicPartition("o", n))) for n in
                                 range(65)])) == "too_many_partitions"  # fmt: skip


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (TargetUnreachable("east", "x"), "unreachable"),
        (ResponseTimeout("east", "x"), "timeout"),
        (AccessDenied("east", "x"), "denied"),
    ],
)
def test_what_cannot_be_read_is_said(error, word):
    answer = find(World({AT: of(0, GOOD)}, failing=error), STILL)
    assert isinstance(answer, NoIdentification)
    assert answer.reason == "window_not_read"
    assert answer.said.endswith(word)


def test_a_record_that_is_named_is_not_skipped_while_those_after_it_do_not_come_in_time():
    facts = SinkFacts(converters=BY_JSON, read_committed=False, logs_records=True)
    subject = sink(build_subject(sink_pair(2)), facts=facts, log=log_line(2))
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD, BAD)})
    assert locate(world, subject) == "more_than_one_record_fails"
    world.logs[AT].stalls_at = 3
    assert locate(world, subject) == "window_not_read"
    world.logs[AT].stalls_at = 5
    assert locate(world, subject) == "more_than_one_record_fails"


@pytest.mark.parametrize("stalls_at", [2, 3])
def test_a_corrupt_record_of_which_bytes_or_followers_do_not_come_is_not_known_to_be_lost(
    stalls_at,
):
    torn = of(0, GOOD, GOOD, b"torn", GOOD, corrupt=frozenset({2}), stalls_at=stalls_at)
    answer = find(World({AT: torn}), mirror(build_subject(mirror_pair(1))))
    assert isinstance(answer, NoIdentification)
    assert (answer.reason, answer.said) == (
        "window_not_read",
        "orders-0 could not be read: timeout",
    )


def test_a_log_that_begins_later_and_one_that_ends_earlier_are_not_read():
    late = Log([record(7, BAD)], start=7)
    assert locate(World({AT: late})) == "log_start_past_position"
    assert locate(World({AT: of(0, GOOD)})) == "position_past_end"
    assert locate(World({AT: of(0, GOOD, GOOD)})) == "nothing_to_read"


def test_a_sink_of_committed_records_is_handed_no_aborted_ones():
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD, aborted=frozenset({2}))})
    committed = sink(build_subject(sink_pair(2)), facts=COMMITTED_ONLY)
    assert locate(world, committed) == "gap_at_committed"
    assert locate(world, STILL) == "decode"


def test_behind_a_transaction_that_is_open_a_sink_of_committed_records_reads_nothing():
    world = World({AT: of(0, GOOD, GOOD, BAD, GOOD, stable_end=2)})
    assert (
        locate(world, sink(build_subject(sink_pair(2)), facts=COMMITTED_ONLY)) == "nothing_to_read"
    )
    assert world.requests == []


def test_whether_a_sink_reads_aborted_records_matters_only_where_there_are_some():
    unknown_isolation = sink(build_subject(sink_pair(2)))
    assert locate(World({AT: of(0, GOOD, GOOD, BAD, GOOD)}), unknown_isolation) == "decode"
    some = World({AT: of(0, GOOD, GOOD, BAD, GOOD, aborted=frozenset({3}))})
    assert locate(some, unknown_isolation) == "isolation_unknown"


def test_partitions_without_an_offset_are_other_places_to_look():
    world = World({AT: of(0, GOOD, GOOD, GOOD), OTHER: of(0, GOOD, partition=OTHER)})
    transform = Failed("transform", "transform")
    subject = sink(build_subject(sink_pair(2)), failure=transform, facts=UNCOMMITTED_ONLY)
    assert locate(world, subject) == "ambiguous_window"
    world.logs[OTHER] = of(0, partition=OTHER)
    assert locate(world, subject) == "only_record"


def test_where_there_are_too_many_of_them_nothing_is_known_of_others():
    world = World({AT: of(0, GOOD, GOOD, GOOD)})
    world.logs |= {TopicPartition("orders", n): of(0) for n in range(1, 67)}
    transform = Failed("transform", "transform")
    subject = sink(build_subject(sink_pair(2)), failure=transform, facts=UNCOMMITTED_ONLY)
    assert locate(world, subject) == "ambiguous_window"


def test_topics_of_which_nothing_was_committed_are_too():
    more = TopicPartition("letters", 0)
    world = World({AT: of(0, GOOD, GOOD, GOOD), more: of(0, GOOD, partition=more)})
    subject = sink(
        build_subject(sink_pair(2)),
        failure=Failed("transform", "transform"),
        facts=UNCOMMITTED_ONLY,
        topics=frozenset({"letters"}),
    )
    assert locate(world, subject) == "ambiguous_window"


def test_the_newest_dead_letters_are_queried():
    facts = SinkFacts(converters=BY_JSON, read_committed=False, dead_letters="letters")
    letters = [
        RawRecord("letters", 0, n, 0, 1, "create", None, b"x", letter(n, stage="TRANSFORMATION"))
        for n in range(3)
    ]
    world = World({AT: of(0, GOOD, GOOD, GOOD, GOOD), LETTERS: Log(letters)})
    subject = sink(
        build_subject(sink_pair(2)),
        failure=Failed("transform", "transform"),
        facts=facts,
        letters_kafka="east",
    )
    assert locate(world, subject, letters=1) == "dead_letter"
    assert world.requests[-1][:3] == (LETTERS, 2, 1)
    world.logs[LETTERS].stalls_at = 2
    answer = find(world, subject, letters=1)
    assert isinstance(answer, NoIdentification)
    assert EvidenceItem("dead letters", "could not be read") in answer.evidence


def test_a_mirrors_log_is_read_from_the_record_after_the_one_it_copied():
    world = World({AT: of(0, GOOD, GOOD, b"x" * 2_000, GOOD)})
    subject = mirror(
        build_subject(mirror_pair(1), remote="east.orders"),
        failure=Failed("producer_size", "producer_send"),
        facts=MirrorFacts(alias="east", compressed=False),
        target_kafka="west",
    )
    answer = find(world, subject)
    assert isinstance(answer, IdentifiedRecord)
    assert (answer.record.offset, answer.method) == (2, "size")
    assert ("message_bytes_max", "west", "east.orders") in world.requests
    world.largest = None
    assert locate(world, subject) == "size_not_conclusive"


def test_what_cannot_be_read_is_read_without_its_checksum_and_what_follows_with_it():
    world = World({AT: of(0, GOOD, GOOD, b"torn", GOOD, corrupt=frozenset({2}))})
    answer = find(world, mirror(build_subject(mirror_pair(1))))
    assert isinstance(answer, IdentifiedRecord)
    assert (answer.record.offset, answer.method) == (2, "checksum")
    assert answer.sha256 == world.logs[AT].records[2].sha256


def test_a_batch_that_is_corrupt_as_a_whole_is_not_skipped_record_by_record():
    world = World({AT: of(0, GOOD, GOOD, b"torn", b"torn", corrupt=frozenset({2, 3}))})
    assert locate(world, mirror(build_subject(mirror_pair(1)))) == "corrupt_batch"


def test_a_corrupt_record_at_the_end_of_its_log_has_nothing_after_it():
    world = World({AT: of(0, GOOD, GOOD, b"torn", corrupt=frozenset({2}))})
    assert locate(world, mirror(build_subject(mirror_pair(1)))) == "checksum"


def test_a_forged_line_of_the_log_names_no_record_that_can_be_converted():
    facts = SinkFacts(converters=BY_JSON, read_committed=False, logs_records=True)
    world = World({AT: of(0, GOOD, GOOD, GOOD, BAD)})
    lines = f"{log_line(3)}\n{log_line(2)}"
    assert (
        locate(world, sink(build_subject(sink_pair(2)), facts=facts, log=lines))
        == "methods_disagree"
    )
    only_forged = sink(build_subject(sink_pair(2)), facts=facts, log=log_line(2))
    assert locate(world, only_forged) == "methods_disagree"


# --- real readers ---------------------------------------------------------------------------------


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    running = MockBroker()
    yield running
    running.stop()


class _MockLogs:
    """What the in-process broker cannot be asked (tests/fakes/broker.py)."""

    def __init__(self, broker: MockBroker) -> None:
        self._admin = broker.admin()

    def topic_id(self, kafka: str, topic: str) -> str | None:
        return ID

    def bounds(self, kafka: str, partition: TopicPartition) -> LogBounds:
        return self._admin.bounds([partition], stable=True)[partition]

    def ends(self, kafka: str, topic: str) -> dict[int, int]:
        partition = self._admin.readable_ends([TopicPartition(topic, n) for n in range(4)])
        return {topic_partition.partition: end.stable for topic_partition, end in partition.items()}

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        return None


def find_in_real(broker: MockBroker, subject: object) -> object:
    clusters = {"east": Kafka(bootstrap=broker.bootstrap)}
    readers = partial(open_record_reader, clusters, ())
    return find_record(
        subject, partial(BoundedLogReader, readers, _MockLogs(broker), VirtualClock())
    )  # type: ignore[arg-type]


def test_real_readers_find_a_bad_record_in_a_real_log(broker):
    for value in (GOOD, GOOD, BAD, GOOD):
        broker.produce("orders", b"k", value)
    answer = find_in_real(broker, sink(build_subject(sink_pair(2))))
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.to.offset) == (2, '{"kafka_offset":3}')


def test_real_readers_find_a_corrupt_record_in_a_real_log(broker):
    broker.produce("orders", b"k", GOOD)
    torn = batch(in_batch(b"k", b"torn"), crc_flipped=1)
    for stored in (torn, batch(in_batch(b"k", b"after"))):
        store(broker.bootstrap, "orders", 0, stored)
    answer = find_in_real(broker, mirror(build_subject(mirror_pair(0))))
    assert isinstance(answer, IdentifiedRecord), answer
    assert (answer.record.offset, answer.method) == (1, "checksum")


def test_real_readers_know_no_cluster_that_is_not_configured():
    with pytest.raises(RemoteRefusal):
        open_record_reader({}, (), "east", committed=True)
