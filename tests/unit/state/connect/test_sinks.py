"""What a connector copies, as its tasks say: more than it has committed, and sometimes less."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import (
    GROUPS,
    TAIL,
    AssignmentConfirmed,
    ConnectorsListed,
    FirstRecord,
    InputId,
    InputSucceeded,
    LogBounds,
    NoRecordBefore,
    OffsetsTopicLost,
    PartitionsAssigned,
    ProbeResult,
    ProbeRoundRead,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.mirror.lag import LOG_ENDS, RECORD
from tests.changed import replace
from tests.unit.state.worlds import (
    NOW,
    OFFSETS,
    STALE_S,
    SYNCS,
    World,
    mirror,
    mirrors,
    orders,
    record,
    sink,
    source,
)


def offset(
    connector: str = "s",
    *,
    committed: int | None = 90,
    log_end: int | None = 100,
    partition: int = 0,
) -> SinkOffset:
    return SinkOffset(
        connector=connector,
        topic="orders",
        partition=partition,
        committed=committed,
        log_end=log_end,
    )


def sinking() -> World:
    world = World()
    world.listed(sink("s"))
    return world


def test_a_sinks_lag_is_the_end_less_the_next_record():
    world = sinking()
    world.sinks(offset(committed=100), offset(committed=90, partition=1))
    assert [partition.lag for partition in world.sunk()] == [0, 10]


def test_a_sink_whose_partition_has_no_end_has_a_position_and_no_lag():
    world = sinking()
    world.sinks(offset(log_end=None))
    (view,) = world.sunk()
    assert (view.committed, view.lag) == (90, None)


@pytest.mark.parametrize(
    ("from_start", "lag", "caught_up"), [(True, 90, None), (False, None, None)]
)
def test_a_sink_without_commits_lags_by_the_whole_log_or_by_an_unknown_number(
    from_start, lag, caught_up
):
    world = sinking()
    world.sinks(replace(offset(committed=None), log_start=10, from_start=from_start))
    (view,) = world.sunk()
    assert (view.committed, view.lag, view.caught_up) == (None, lag, caught_up)


def test_an_empty_partition_that_a_sink_committed_nothing_of_has_nothing_waiting():
    world = sinking()
    world.sinks(replace(offset(committed=None, log_end=7), log_start=7))
    (view,) = world.sunk()
    assert (view.lag, view.caught_up) == (0, True)


def test_a_stale_groups_poll_takes_the_sinks_away():
    world = sinking()
    world.sinks(offset())
    world.now += STALE_S[GROUPS] + 1
    assert world.sunk() == ()


def test_a_deleted_sink_is_gone_before_its_group_is():
    world = sinking()
    world.sinks(offset())
    world.listed(source("other"))
    assert world.sunk() == ()


def test_an_answer_replaces_the_last_one():
    world = sinking()
    world.sinks(offset(), offset(partition=1))
    world.sinks(offset(committed=95))
    assert [(partition.partition, partition.lag) for partition in world.sunk()] == [(0, 5)]


def probed(world: World, start: int, result: FirstRecord | NoRecordBefore) -> None:
    partition = ("lab", "s", TopicPartition("orders", 0))
    world.see(
        ProbeRoundRead(kafka="west", at=world.now, answers=(ProbeResult(partition, start, result),))
    )


def read_lag(world: World) -> tuple[bool | None, float | None, str | None]:
    (view,) = world.sunk()
    return (view.caught_up, view.behind_since, view.behind_from)


def test_a_sink_at_the_end_is_caught_up_and_one_beyond_it_is_nothing_that_we_know():
    world = sinking()
    world.sinks(offset(committed=100))
    assert read_lag(world) == (True, None, None)
    assert world.sunk()[0].lag == 0
    world.sinks(offset(committed=101))
    assert read_lag(world) == (None, None, None)
    assert world.sunk()[0].lag is None


def test_a_sink_that_rests_behind_a_marker_is_caught_up_although_it_lags_by_one():
    world = sinking()
    world.sinks(offset(committed=99))
    assert world.sunk()[0].probe_from == 99
    probed(world, 99, NoRecordBefore(100))
    assert read_lag(world) == (True, None, None)
    assert world.sunk()[0].lag == 1


def test_what_waits_for_a_sink_counts_from_its_own_timestamp_once_that_is_read():
    world = sinking()
    world.sinks(offset(committed=100))
    world.now += 10
    world.sinks(offset(committed=100, log_end=110))
    assert read_lag(world) == (None, NOW, LOG_ENDS)
    probed(world, 100, FirstRecord(offset=103, at=NOW + 4))
    assert read_lag(world) == (False, NOW + 4, RECORD)
    world.sinks(offset(committed=104, log_end=110))
    assert world.sunk()[0].probe_from == 104


@pytest.mark.parametrize("log_end", [None, 50])
def test_without_an_end_or_with_one_that_fell_nothing_old_is_believed_of_a_sink(log_end):
    world = sinking()
    world.sinks(offset(committed=40))
    probed(world, 40, FirstRecord(offset=40, at=NOW))
    world.sinks(offset(committed=40, log_end=log_end))
    assert world.sunk()[0].caught_up is None


def test_what_retention_took_from_a_sink_is_not_waited_for():
    world = sinking()
    world.sinks(replace(offset(committed=40), log_start=70))
    assert world.sunk()[0].probe_from == 70


def test_before_there_is_a_list_no_sink_is_shown():
    world = World()
    world.sinks(offset())
    assert world.sunk() == ()
    world.listed(sink("s"))
    assert len(world.sunk()) == 1


def test_sinks_are_reported_by_connect_cluster_whichever_answered_first():
    world = World(sites=("lab", "prod"))
    for name in ("prod", "lab"):
        world.see(
            ConnectorsListed(name, (sink("s"),)),
            SinkOffsetsRead(name, (offset(),)),
            InputSucceeded(InputId(GROUPS, connect_cluster=name), world.now),
        )
    assert [view.connect_cluster for view in world.sunk()] == ["lab", "prod"]


def test_a_sink_that_has_yet_to_read_its_first_record_is_probed_from_there():
    world = sinking()
    world.sinks(offset(committed=0, log_end=1))
    assert world.sunk()[0].probe_from == 0


# --- assigned ------------------------------------------------------------------------------------

OWN = KafkaTopic("east", "mm2-own")


def bounds(end: int, start: int = 0, *, partition: int = 0) -> dict[TopicPartition, LogBounds]:
    return {TopicPartition("orders", partition): LogBounds(start, end, end)}


def trio(world: World, partition: int = 0) -> tuple[int | None, int | None, int | None]:
    """(replicated, end, lag) as the series show them."""
    view = world.mirrored(partition=partition)
    assert view is not None
    output = view.replicated if view.lag_position is None else view.lag_position
    return (output, view.log_end, view.lag)


def test_a_commit_outside_the_assignment_is_no_lag():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5})
    world.assigned(1)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1).lag == 94


def test_what_it_commits_after_an_assignment_was_read_is_shown_until_it_is_read_again():
    """Whoever tells what it was given may not tell any more, and what it copies may be more."""
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5})
    world.assigned(1)
    world.now += 3_000
    world.commit("mm2", orders(0), {"offset": 6})
    world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0).lag == 93
    assert world.mirrored(partition=1).lag == 94
    world.see(AssignmentConfirmed("lab", "mm2"))
    assert world.mirrored(partition=0) is None
    world.now += 1
    world.commit("mm2", orders(0), {"offset": 7})
    assert world.mirrored(partition=0).committed == 7
    world.assigned(1)
    assert world.mirrored(partition=0) is None


def test_a_commit_without_a_timestamp_after_an_assignment_was_read_is_shown():
    world = mirrors()
    world.assigned(1)
    world.now += 5
    world.commit("mm2", orders(0), {"offset": 6}, at=-0.001)
    view = world.mirrored(partition=0)
    assert (view.committed, view.committed_at) == (6, None)


def test_an_assigned_partition_without_a_commit_has_its_whole_log_before_it():
    world = mirrors()
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, 70)
    assert (world.mirrored().committed, world.mirrored().ahead) == (None, 0)


def test_an_assigned_partition_without_a_commit_has_no_lag_if_it_begins_at_the_end():
    world = mirrors(mirror(from_start=False))
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, None)


@pytest.mark.parametrize("offset", [{"offset": -1}, {"offset": -7}, {"offset": None}, {}])
def test_an_offset_below_zero_or_without_a_number_is_none_to_mirrormaker(offset):
    world = mirrors()
    world.commit("mm2", orders(), offset)
    world.assigned(0)
    world.ends(bounds(100, start=30))
    assert trio(world) == (None, 100, 70)
    assert (world.mirrored().committed, world.mirrored().headroom) == (None, None)


@pytest.mark.parametrize("from_start", [True, False])
def test_a_first_commit_between_querying_and_answer_waits_for_the_next_answer(from_start):
    world = mirrors(mirror(from_start=from_start))
    world.assigned(0)
    request = world.request_ends()
    world.commit("mm2", orders(), {"offset": 500})
    world.ends(bounds(400), number=request)
    assert trio(world) == (None, 400, 400 if from_start else None)
    world.ends(bounds(600))
    assert trio(world) == (500, 600, 99)


def test_a_reset_between_querying_and_answer_counts_at_once():
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(bounds(100))
    assert trio(world) == (99, 100, 0)
    request = world.request_ends()
    world.commit("mm2", orders(), None)
    assert trio(world) == (None, 100, 100)
    world.ends(bounds(120), number=request)
    assert trio(world) == (None, 120, 120)


def test_a_reset_that_is_committed_over_between_two_answers_still_adds_up():
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    request = world.request_ends()
    world.commit("mm2", orders(), None)
    world.commit("mm2", orders(), {"offset": 7})
    world.ends(bounds(120), number=request)
    assert trio(world) == (7, 120, 112)


def test_an_end_that_was_not_read_for_a_position_is_not_shown_beside_it():
    """Two flows read one upstream; the second one's position was away when the ends were asked."""
    other = KafkaTopic("east", "prod-offsets")
    world = World(sites=("lab", "prod"))
    for cluster, topic in (("lab", OFFSETS), ("prod", other)):
        world.listed(mirror(syncs_topic=None), cluster=cluster)
        world.find_topic(topic, cluster=cluster)
        world.tail(topic=topic, whole=True)
    world.commit("mm2", orders(), {"offset": 10})
    request = world.request_ends()
    world.commit("mm2", orders(), {"offset": 500}, topic=other)
    world.ends(bounds(400), number=request)
    views = {
        partition.connect_cluster: partition for partition in world.snapshot().mirror_partitions
    }
    assert (views["lab"].log_end, views["lab"].lag) == (400, 389)
    assert (views["prod"].log_end, views["prod"].lag, views["prod"].replicated) == (None, None, 500)


def test_a_connector_that_was_deleted_leaves_no_assignment_to_the_next_of_its_name():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.assigned(1)
    world.listed()
    world.listed(mirror())
    assert world.mirrored(partition=1) is None
    assert world.mirrored(partition=0).committed == 5


def test_an_assignment_that_comes_after_the_connector_went_is_not_kept_for_the_next():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.listed()
    world.assigned(1)
    world.listed(mirror())
    assert world.mirrored(partition=0).committed == 5


def test_a_partition_that_a_transaction_hides_does_not_look_as_if_it_had_never_been_replicated():
    world = mirrors()
    world.assigned(0, 1)
    world.commit("mm2", orders(0), {"offset": 99}, kafka_partition=3)
    world.commit("mm2", orders(1), {"offset": 99}, kafka_partition=4)
    world.ends(bounds(100) | bounds(100, partition=1))
    world.tail(frozen=(3,))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1).lag == 0
    world.tail()
    assert world.mirrored(partition=0).lag == 0


def test_a_partition_whose_first_commit_a_transaction_may_hide_is_not_shown_as_never_replicated():
    world = mirrors()
    world.assigned(0)
    world.tail(frozen=(3,))
    world.ends(bounds(100))
    assert world.mirrored() is None
    world.tail()
    world.ends(bounds(100))
    assert world.mirrored().lag == 100


def test_a_partition_that_the_bound_cut_is_not_shown_as_never_replicated():
    world = mirrors(source_partitions_max=1)
    world.assigned(0, 1)
    world.commit("mm2", orders(0), {"offset": 99})
    world.commit("mm2", orders(1), {"offset": 99})
    world.ends(bounds(100) | bounds(100, partition=1))
    assert world.mirrored(partition=0).lag == 0
    assert world.mirrored(partition=1) is None


def test_a_partition_with_an_offset_that_is_no_number_is_not_shown_as_never_replicated():
    """Its task fails when it starts, and until then copies from where only it knows."""
    world = mirrors()
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": "99"})
    world.ends(bounds(100))
    assert world.mirrored() is None


def test_an_assignment_says_who_may_write_a_sync_before_the_first_commit():
    world = mirrors(mirror("a"), mirror("b"))
    world.commit("b", orders(), {"offset": 10})
    world.assigned(0, connector="a")
    world.assigned(0, connector="b")
    world.now += 5
    world.synced(95)  # of a, which has not committed yet
    assert world.mirrored("b").replicated == 10


def test_syncs_are_not_taken_for_a_flows_own_while_the_others_commit_is_hidden():
    world = mirrors(mirror("a"), mirror("b"))
    world.commit("a", orders(), {"offset": 80}, kafka_partition=3)
    world.commit("b", orders(), {"offset": 10}, kafka_partition=4)
    world.now += 5
    world.synced(95)
    assert world.mirrored("b").replicated == 10
    world.tail(frozen=(3,))
    assert world.mirrored("a") is None
    assert world.mirrored("b").replicated == 10


def test_readiness_once_reached_is_not_lost_while_positions_are_away():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.ends(100)
    assert world.snapshot().ready
    world.now += STALE_S[TAIL] + 1
    world.ends({})
    assert world.snapshot().waiting_for == ()


def test_syncs_that_a_transaction_hides_do_not_keep_a_daemon_from_being_ready():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.tail(record("mm2", orders(), {"offset": 1}, log_offset=0, live=False), whole=True)
    world.tail(topic=SYNCS, whole=True, frozen=(0,))
    world.ends({})
    assert world.mirrored() is None
    assert world.snapshot().waiting_for == ()


def test_a_list_that_lacks_a_connector_once_does_not_empty_its_own_topic():
    """Its tail goes on, and reads nothing twice."""
    world = World()
    own = source("files", dedicated_offsets_topic="own")
    world.listed(own)
    world.tail(topic=KafkaTopic("east", "own"), whole=True)
    world.commit("files", {"filename": "/a"}, {"position": 7}, topic=KafkaTopic("east", "own"))
    world.listed()
    assert world.partitions() == {}
    world.listed(own)
    assert world.partitions()["files", "filename=/a"].offset.number("position") == 7


def test_an_offsets_topic_lost_and_found_again_under_its_name_is_not_empty():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.see(OffsetsTopicLost("lab"))
    assert world.snapshot().source_partitions == ()
    world.find_topic()
    assert world.mirrored().committed == 10


def test_a_tail_that_ended_leaves_nothing_to_the_next_of_its_topic():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 10})
    world.tail_ended()
    world.find_topic()
    assert world.snapshot().source_partitions == ()
    world.tail(whole=True)
    assert world.snapshot().source_partitions == ()


def test_what_a_bound_cut_stays_counted_when_its_topic_is_left():
    world = mirrors(source_partitions_max=1)
    world.commit("mm2", orders(0), {"offset": 10})
    world.commit("mm2", orders(1), {"offset": 10})
    world.tail_ended()
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 1}


def test_an_assignment_outlives_the_next_listing():
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.assigned(1)
    world.listed(mirror(), source("files"))
    assert world.mirrored(partition=0) is None
    assert world.mirrored(partition=1) is not None


def test_an_assigned_partition_with_an_empty_log_has_nothing_before_it():
    world = mirrors()
    world.assigned(0)
    world.ends(bounds(30, start=30))
    assert trio(world) == (None, 30, 0)
    world.ends(bounds(20, start=30))  # cut back between the two questions
    assert trio(world) == (None, 20, 0)


class Compared(frozenset[TopicPartition]):
    """An assignment that knows how often it was held against another one."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = frozenset.__hash__


def test_an_assignment_reported_again_is_held_against_the_last_one_once_and_not_by_each_picture():
    world = mirrors()
    reports = [Compared({TopicPartition("orders", 0)}) for _ in range(2)]
    world.see(PartitionsAssigned("lab", "mm2", reports[0]))
    world.ends(bounds(100))
    world.snapshot()
    Compared.times = 0
    world.see(PartitionsAssigned("lab", "mm2", reports[1]))
    assert Compared.times == 1
    for _ in range(3):
        world.snapshot()
    assert Compared.times == 1


def test_an_assignment_no_longer_known_is_none_where_flows_share_their_syncs():
    world = mirrors(mirror("a"), mirror("b"))
    for connector in ("a", "b"):
        world.commit(connector, orders(0), {"offset": 5})
    world.assigned(0, connector="a")
    world.ends(bounds(100))
    world.see(PartitionsAssigned("lab", "a", None))  # as of a cluster that is read from its topics
    world.ends(bounds(100))
    results = {view.connector: view.lag for view in world.snapshot().mirror_partitions}
    assert results == {"a": 94, "b": 94}


@pytest.mark.parametrize("skew_s", [-600.0, -30.0, 30.0, 600.0])
def test_what_was_committed_beside_an_assignment_is_distinguished_from_what_is_since_by_any_clock(
    skew_s,
):
    """Partition 1 is left over from another configuration, until it is committed again."""
    world = mirrors()
    world.commit("mm2", orders(0), {"offset": 5})
    world.commit("mm2", orders(1), {"offset": 5}, at=world.now + skew_s)
    world.assigned(0)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0]
    world.now += 20
    world.commit("mm2", orders(1), {"offset": 6}, at=world.now + skew_s)
    world.ends(bounds(100) | bounds(100, partition=1))
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0, 1]
