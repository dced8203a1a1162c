"""Rounds of single reads: which, in which order, how many, and what becomes of the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsetwatch.errors import AccessDenied, TargetUnreachable
from offsetwatch.ingest.record_age_poll import (
    DENIED_RETRY_S,
    REPLICATION,
    SINK,
    ProbeBudget,
    ProbeMemory,
    poll_probes,
)
from offsetwatch.model.observations import FirstRecord, NoRecordBefore, ProbeResult, ProbeRoundRead
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import MirrorFlow, SinkGroup, TopicPartition, Topology
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
)
from tests.changed import replace
from tests.fakes.kafka import FakeKafka
from tests.fakes.probes import FakeProbeReader

BUDGET = ProbeBudget(reads_max=10, seconds=2.0)
FLOW = MirrorFlow("lab", "mm2", "west", "east", upstream="west", offset_syncs=None)


def lagging(
    start: int | None, *, topic: str = "orders", partition: int = 0, connector: str = "mm2"
) -> MirrorPartitionView:
    """A view that wants a read from `start` on."""
    return MirrorPartitionView(
        connect_cluster="lab",
        connector=connector,
        source="west",
        target="east",
        topic=topic,
        partition=partition,
        committed=None,
        committed_at=None,
        synced=None,
        replicated=None,
        log_start=None,
        log_end=None,
        lag=None,
        ahead=None,
        probe_from=start,
    )


def build_key(partition: int = 0, *, topic: str = "orders", connector: str = "mm2"):
    return ("lab", connector, MirrorPartition("west", topic, partition))


@dataclass
class ProbedCluster:
    """One Kafka cluster, one reader per isolation level, and what is remembered between rounds."""

    kafka: FakeKafka = field(default_factory=lambda: FakeKafka("west"))
    memory: ProbeMemory = field(default_factory=ProbeMemory)
    budget: ProbeBudget = BUDGET
    flows: tuple[MirrorFlow, ...] = (FLOW,)

    def __post_init__(self) -> None:
        self.readers = {
            number: FakeProbeReader(self.kafka, committed=number) for number in (False, True)
        }
        self.kafka.create("orders", 4)

    def snapshot(self, *views: MirrorPartitionView) -> Snapshot:
        topology = Topology(offsets_topics=(), flows=self.flows)
        return replace(EMPTY_SNAPSHOT, mirror_partitions=views, topology=topology)

    def round(self, *views: MirrorPartitionView, stopped: bool = False) -> ProbeRoundRead | None:
        return self.poll(self.snapshot(*views), stopped=stopped)

    def poll(self, snapshot: Snapshot, *, stopped: bool = False) -> ProbeRoundRead | None:
        results = poll_probes(
            "west",
            self.readers.__getitem__,
            snapshot,
            self.memory,
            self.budget,
            self.kafka.clock,
            lambda: stopped,
        )
        assert len(results) <= 1
        return results[0] if results else None

    @property
    def list_reads(self) -> list[list[int]]:
        """The partitions of each round of reads of all records."""
        return [[start.partition for start in starts] for starts in self.readers[False].rounds]


def test_a_partition_that_wants_nothing_is_not_read():
    cluster = ProbedCluster()
    assert cluster.round(lagging(None)) is None
    assert cluster.list_reads == []


@dataclass
class Counted:
    """Views, and how often they were looked through."""

    views: list[MirrorPartitionView]
    looked: int = 0

    def __iter__(self):
        self.looked += 1
        return iter(self.views)


def test_views_without_a_probe_to_read_are_searched_once():
    cluster = ProbedCluster()
    rests = Counted([lagging(None)])
    snapshot = replace(cluster.snapshot(), mirror_partitions=rests)
    for _ in range(3):
        assert cluster.poll(snapshot) is None
    assert rests.looked == 1
    assert cluster.round(lagging(0)) is not None
    assert cluster.round(lagging(0)) is not None  # somebody does: each round is one


def test_a_flow_that_was_not_known_before_is_searched_for_in_the_same_views():
    cluster = ProbedCluster(flows=())
    unknown = cluster.snapshot(lagging(0))
    assert cluster.poll(unknown) is None
    cluster.flows = (FLOW,)
    assert cluster.poll(replace(unknown, topology=cluster.snapshot().topology)) is not None


def test_the_first_record_is_reported_with_the_offset_it_was_searched_for_from():
    cluster = ProbedCluster()
    began = cluster.kafka.clock.now()
    cluster.kafka.mark("orders")
    cluster.kafka.produce("orders", b"k", b"v", at=1_700_000_000.5)
    read = cluster.round(lagging(0))
    assert read == ProbeRoundRead(
        kafka="west",
        at=began,
        answers=(ProbeResult(build_key(), 0, FirstRecord(offset=1, at=1_700_000_000.5)),),
        made=((REPLICATION, 1),),
    )


def test_where_there_is_no_record_the_end_is_reported():
    cluster = ProbedCluster()
    cluster.kafka.produce("orders", b"k", b"v")
    cluster.kafka.mark("orders")
    assert cluster.round(lagging(1)).answers == (ProbeResult(build_key(), 1, NoRecordBefore(2)),)


def test_a_flow_of_committed_records_is_read_as_its_connector_reads():
    cluster = ProbedCluster(flows=(replace(FLOW, read_committed=True),))
    cluster.kafka.produce("orders", b"k", b"v")
    cluster.kafka.log("orders").stable_end = 0
    assert cluster.round(lagging(0)).answers == (ProbeResult(build_key(), 0, NoRecordBefore(0)),)
    assert cluster.readers[False].rounds == []


def test_flows_of_another_cluster_are_left_to_its_own_rounds():
    cluster = ProbedCluster(flows=(replace(FLOW, upstream="north"),))
    assert cluster.round(lagging(0)) is None


def test_no_more_is_read_than_is_allowed_and_the_rest_is_counted_and_comes_first_next_time():
    cluster = ProbedCluster(budget=ProbeBudget(reads_max=3, seconds=2.0))
    views = [lagging(0, partition=number) for number in range(4)]
    read = cluster.round(*views)
    assert (read.made, read.skipped) == (((REPLICATION, 3),), (("budget", 1),))
    cluster.round(*views)
    assert cluster.list_reads[0] == [0, 1, 2]
    assert cluster.list_reads[1][0] == 3


def test_what_is_only_inspected_again_waits_for_what_was_never_inspected():
    cluster = ProbedCluster(budget=ProbeBudget(reads_max=1, seconds=2.0))
    again = replace(lagging(0), caught_up=False)
    cluster.round(again, lagging(0, partition=1))
    assert cluster.list_reads == [[1]]


def test_reads_for_which_no_time_is_left_are_not_made_and_counted():
    cluster = ProbedCluster(flows=(FLOW, replace(FLOW, connector="strict", read_committed=True)))
    cluster.readers[False].round_s = 5.0
    read = cluster.round(lagging(0), lagging(0, connector="strict"))
    assert (read.made, read.skipped) == (((REPLICATION, 1),), (("budget", 1),))
    assert cluster.readers[True].rounds == []


def test_two_flows_of_one_partition_share_a_read_and_each_is_notified_what_holds_for_it():
    cluster = ProbedCluster(flows=(FLOW, replace(FLOW, connector="other")))
    for _ in range(5):
        cluster.kafka.produce("orders", b"k", b"v", at=1_700_000_000.0)
    near, far = lagging(1), lagging(4, connector="other")
    read = cluster.round(near, far)
    # The record at 1 says nothing of what stands at or after 4.
    assert read.answers == (ProbeResult(build_key(), 1, FirstRecord(1, 1_700_000_000.0)),)
    assert cluster.round(far).answers == (
        ProbeResult(build_key(connector="other"), 4, FirstRecord(4, 1_700_000_000.0)),
    )
    cluster.kafka.log("orders").records.clear()
    assert {answer.of for answer in cluster.round(near, far).answers} == {
        build_key(),
        build_key(connector="other"),
    }


def test_a_topic_that_may_not_be_read_is_left_alone_for_a_while():
    cluster = ProbedCluster()
    cluster.readers[False].denied.add("orders")
    cluster.kafka.create("payments")
    views = (lagging(0), lagging(0, topic="payments"))
    read = cluster.round(*views)
    assert read.skipped == (("denied", 1),)
    assert [answer.of for answer in read.answers] == [build_key(topic="payments")]
    read = cluster.round(lagging(0))
    assert (read.made, read.skipped) == ((), (("denied", 1),))
    assert len(cluster.list_reads) == 1
    cluster.readers[False].denied.clear()
    cluster.kafka.clock.advance(DENIED_RETRY_S + 1)
    assert len(cluster.round(lagging(0)).answers) == 1


def test_what_gives_no_answer_in_time_is_counted():
    cluster = ProbedCluster()
    cluster.readers[False].mute.add("orders")
    read = cluster.round(lagging(0))
    assert (read.answers, read.skipped) == ((), (("timeout", 1),))


def test_a_cluster_that_is_away_is_counted_for_each_read():
    cluster = ProbedCluster()
    cluster.kafka.down = TargetUnreachable("west", "connection refused")
    read = cluster.round(lagging(0), lagging(0, partition=1))
    assert (read.answers, read.skipped) == ((), (("unreachable", 2),))


def test_a_reader_that_cannot_be_made_is_counted_for_each_read():
    cluster = ProbedCluster()

    def refuse(_committed: bool) -> FakeProbeReader:
        raise AccessDenied("west", "no token")

    (read,) = poll_probes(
        "west",
        refuse,
        cluster.snapshot(lagging(0)),
        cluster.memory,
        cluster.budget,
        cluster.kafka.clock,
    )
    assert read.skipped == (("denied", 1),)


def test_a_position_that_retention_overtook_meanwhile_is_counted_and_requested_again():
    cluster = ProbedCluster()
    cluster.kafka.log("orders").start = cluster.kafka.log("orders").end = 50
    read = cluster.round(lagging(10))
    assert (read.answers, read.skipped) == ((), (("topic_changed", 1),))
    assert len(cluster.round(lagging(50)).answers) == 1


def test_nothing_is_read_any_more_once_it_is_to_stop():
    cluster = ProbedCluster()
    cluster.round(lagging(0), stopped=True)
    assert cluster.list_reads == []


def test_what_is_remembered_is_of_those_that_still_want_a_read():
    cluster = ProbedCluster()
    cluster.round(*(lagging(0, partition=number) for number in range(4)))
    assert len(cluster.memory.requested_at) == 4
    cluster.round(lagging(0))
    assert set(cluster.memory.requested_at) == {build_key()}


@pytest.mark.parametrize(
    ("level", "committed"), [(True, True), (None, True), (False, False)], ids=["yes", "?", "no"]
)
def test_a_sink_is_read_for_as_it_reads_and_as_of_committed_records_if_that_is_not_known(
    level, committed
):
    cluster = ProbedCluster()
    cluster.kafka.produce("orders", b"k", b"v", at=1_700_000_000.0)
    view = SinkPartitionView("lab", "s", "orders", 0, 0, 1, 1, probe_from=0)
    group = SinkGroup("lab", "s", "connect-s", "west", read_committed=level)
    elsewhere = replace(group, connector="other", kafka="east")
    topology = Topology(offsets_topics=(), flows=(), sinks=(group, elsewhere))
    views = (view, replace(view, connector="other"), replace(view, partition=1, probe_from=None))
    snapshot = replace(EMPTY_SNAPSHOT, sink_partitions=views, topology=topology)
    (read,) = poll_probes(
        "west",
        cluster.readers.__getitem__,
        snapshot,
        cluster.memory,
        cluster.budget,
        cluster.kafka.clock,
    )
    partition = ("lab", "s", TopicPartition("orders", 0))
    assert read.answers == (ProbeResult(partition, 0, FirstRecord(0, 1_700_000_000.0)),)
    assert read.made == ((SINK, 1),)
    assert len(cluster.readers[committed].rounds) == 1
