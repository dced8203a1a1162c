"""Connectors whose offsets only the REST API tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetwatch.model.connectors import SinkSettings
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    TAIL,
    InputFailed,
    InputId,
    InputSucceeded,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.connect.rest_offsets import RESET_AFTER_POLLS
from tests.unit.state.worlds import FILE, OFFSETS, SYNCS, World, mirror, orders, sink, source, sync

OTHER = {"filename": "/data/other.txt"}
POLL_S = 60.0


def alone(*connectors, **more) -> World:
    """A Connect cluster of which only the REST API is known."""
    world = World(sites=(ConnectClusterSettings(name="lab", kafka=None),), **more)
    world.listed(*connectors)
    world.snapshot()
    return world


def later(world: World, connector: str, *offsets, **more) -> None:
    """One poll later."""
    world.now += POLL_S
    world.see(InputSucceeded(InputId(CONNECT_REST, connect_cluster="lab"), world.now))
    world.polled(connector, *offsets, **more)


def positions(world: World) -> dict[str, str | None]:
    return {
        view.label: None if view.offset is None else view.offset.text
        for view in world.snapshot().source_partitions
    }


def only(world: World):
    (view,) = world.snapshot().source_partitions
    return view


def test_the_first_answer_makes_it_ready_and_shows_positions_without_times():
    world = alone(source("files"))
    assert world.snapshot().waiting_for == ("rest_offsets lab/files: waiting for a first attempt",)
    world.polled("files", (FILE, {"position": 40}))
    assert world.snapshot().ready
    view = only(world)
    assert (view.offset.text, view.from_rest) == ('{"position":40}', True)
    assert (view.committed_at, view.advanced_at, view.commits) == (None, None, None)
    assert (view.kafka_partition, view.log_offset, view.advances) == (None, None, 0)


def test_a_change_is_dated_by_the_poll_that_saw_it_and_counted():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": 40}))
    later(world, "files", (FILE, {"position": 50}))
    observed_at = world.now
    later(world, "files", (FILE, {"position": 50}))
    assert (only(world).advanced_at, only(world).advances) == (observed_at, 1)
    later(world, "files", (FILE, {"position": 20}))
    assert (only(world).advances, only(world).rewinds, only(world).resets) == (2, 1, 0)


@pytest.mark.parametrize("class_name", ["", "org.example.CameraSource"])
def test_a_shape_alone_reports_neither_a_rewind_nor_a_poisoned_offset(class_name):
    world = alone(source("camera", class_name=class_name))
    world.polled("camera", (FILE, {"position": 40}))
    later(world, "camera", (FILE, {"position": 20}))
    assert (only(world).advances, only(world).rewinds) == (1, 0)
    later(world, "camera", (FILE, {"position": "a line"}))
    assert (only(world).offset.text, only(world).poisoned) == ('{"position":"a line"}', False)
    assert only(world).dialect == ("generic" if class_name else "unknown")


def test_what_fails_a_file_source_is_said_of_one_that_is_polled_over_rest():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": "a line"}))
    assert only(world).poisoned


def test_an_entry_without_an_offset_is_no_reset_as_the_task_may_have_one_under_another_key():
    world = alone(source("files"), mirror())
    world.polled("files", (FILE, {"position": 40}))
    later(world, "files", (FILE, None))
    assert (only(world).offset, only(world).resets) == (None, 0)
    later(world, "files", (FILE, {"position": 50}))
    assert (only(world).advances, only(world).advanced_at) == (0, None)
    world.assigned(0)
    world.polled("mm2", (orders(), None))
    assert world.snapshot().mirror_partitions == ()
    assert world.snapshot().partial == {("lab", "mm2")}


def test_a_failing_api_takes_its_series_down_and_no_others():
    world = World(sites=(ConnectClusterSettings(name="lab", kafka=None), "prod"))
    world.listed(source("files"))
    world.listed(source("files"), cluster="prod")
    world.find_topic(cluster="prod")
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 7})
    world.snapshot()
    world.polled("files", (FILE, {"position": 40}))
    assert {partition.connect_cluster for partition in world.snapshot().source_partitions} == {
        "lab",
        "prod",
    }
    world.now += 15
    world.tail()
    world.now += 16  # more than connect_rest of both may be silent for
    world.listed(source("files"), cluster="prod")
    world.poll_failed("files")
    assert {partition.connect_cluster for partition in world.snapshot().source_partitions} == {
        "prod"
    }


def test_an_answer_that_is_too_old_is_taken_down():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": 40}))
    for _ in range(4):
        world.now += POLL_S
        world.see(InputSucceeded(InputId(CONNECT_REST, connect_cluster="lab"), world.now))
        world.poll_failed("files")
    assert positions(world) == {}


def test_one_connector_that_cannot_be_queried_takes_no_other_with_it():
    world = alone(source("files"), source("odd/name"))
    world.polled("files", (FILE, {"position": 40}))
    world.poll_failed("odd/name", "not_found")
    assert world.snapshot().ready
    assert positions(world) == {"filename=/data/in.txt": '{"position":40}'}


def test_what_is_missing_is_not_known_at_first_and_a_reset_after_three_answers():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": 40}), (OTHER, {"position": 1}))
    for _ in range(RESET_AFTER_POLLS - 1):
        later(world, "files", (FILE, {"position": 40}))
        assert positions(world) == {"filename=/data/in.txt": '{"position":40}'}
        assert [connector.missing for connector in world.snapshot().by_rest] == [1]
    later(world, "files", (FILE, {"position": 40}))
    assert positions(world) == {
        "filename=/data/in.txt": '{"position":40}',
        "filename=/data/other.txt": None,
    }
    assert [connector.missing for connector in world.snapshot().by_rest] == [0]
    assert sum(partition.resets for partition in world.snapshot().source_partitions) == 1


def test_what_may_be_an_entry_that_cannot_be_read_is_not_known_and_never_reset():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": 40}), (OTHER, {"position": 1}))
    for _ in range(2 * RESET_AFTER_POLLS):
        later(world, "files", (FILE, {"position": 40}), whole=False)
        assert positions(world) == {"filename=/data/in.txt": '{"position":40}'}
    later(world, "files", (FILE, {"position": 40}), (OTHER, {"position": 1}))
    assert len(positions(world)) == 2
    assert sum(partition.resets for partition in world.snapshot().source_partitions) == 0


def test_what_is_missing_from_one_answer_and_comes_back_was_never_reset():
    world = alone(source("files"))
    world.polled("files", (FILE, {"position": 40}))
    later(world, "files")
    assert positions(world) == {}
    later(world, "files", (FILE, {"position": 40}))
    assert (only(world).resets, only(world).advances, only(world).advanced_at) == (0, 0, None)


def test_entries_that_are_no_source_offsets_are_left_out_and_counted():
    world = alone(source("files"), source_partitions_max=2)
    nested = {"filename": {"of": "another"}}
    world.polled("files", (nested, {"position": 1}), (FILE, {"position": {"deep": 1}}))
    assert positions(world) == {"filename=/data/in.txt": None}
    assert dict(world.snapshot().dropped)["rest_undecodable"] == 1
    later(world, "files", *(({"filename": str(n)}, {"position": n}) for n in range(5)))
    assert dict(world.snapshot().dropped)["source_partitions_max"] == 4


def test_entries_that_take_too_many_bytes_are_left_out_and_counted():
    world = alone(source("files"), source("other"), source_partitions_max=100)
    world.polled("other", ({"filename": "x" * 600_000}, {"position": 1}))
    world.polled("files", ({"filename": "y" * 600_000}, {"position": 2}))
    assert [*positions(world).values()] == ['{"position":1}']
    assert dict(world.snapshot().dropped)["source_partitions_max"] == 1


def test_a_topic_that_is_found_takes_over_once_it_is_read_to_its_end():
    world = World()
    world.listed(source("files"))
    assert world.snapshot().by_rest == ()  # it may be found
    world.see(
        InputFailed(
            InputId(TAIL, connect_cluster="lab"), "topic_not_settled", "none holds its offsets"
        )
    )
    world.snapshot()
    world.polled("files", (FILE, {"position": 40}))
    assert only(world).from_rest
    assert world.snapshot().ready
    world.find_topic()
    assert only(world).from_rest
    world.tail(caught_up=False)
    assert only(world).from_rest
    assert world.snapshot().ready
    world.commit("files", FILE, {"position": 41})
    world.tail()
    assert (only(world).from_rest, only(world).offset.text) == (False, '{"position":41}')
    assert world.snapshot().by_rest == ()


def test_rest_takes_over_when_a_topic_has_not_been_read_for_a_while_and_counts_nothing_twice():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True)
    for position in (40, 30):
        world.commit("files", FILE, {"position": position})
    assert (only(world).from_rest, only(world).rewinds) == (False, 1)
    world.tail_failed("denied")
    assert world.snapshot().by_rest == ()  # for one failure
    world.now += 21
    assert positions(world) == {}
    assert [connector.connector for connector in world.snapshot().by_rest] == ["files"]
    assert world.snapshot().ready
    world.polled("files", (FILE, {"position": 30}))
    later(world, "files", (FILE, {"position": 35}))
    assert (only(world).offset.text, only(world).rewinds) == ('{"position":35}', None)
    world.tail()
    assert (only(world).from_rest, only(world).rewinds) == (False, 1)


def test_a_topic_that_is_only_read_slowly_is_not_left_to_rest():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(caught_up=False, behind=1000)
    world.now += 3600
    assert world.snapshot().by_rest == ()


def test_nothing_polled_is_compared_with_a_topic_that_is_not_read():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 40})
    world.tail_failed("denied")
    world.now += 21
    world.snapshot()
    world.polled("files", (FILE, {"position": 50}))
    world.rest_offsets("files", {'{"filename":"/data/in.txt"}': '{"position":50}'})
    world.now += 31
    world.see(InputSucceeded(InputId(CONNECT_REST, connect_cluster="lab"), world.now))
    assert world.offsets_differ() == 0


def test_a_cluster_without_an_api_is_never_polled():
    world = World(sites=(ConnectClusterSettings(name="lab", kafka="east", rest=False),))
    world.find_topic()
    world.tail_failed("denied")
    world.now += 100
    assert world.snapshot().by_rest == ()


def test_a_flow_has_lag_against_log_ends_by_what_rest_reports_and_no_sync_is_held_against_it():
    world = alone(replace(mirror(), name="mm2"))
    world.polled("mm2", (orders(), {"offset": 9}))
    world.tail(sync(25, at=world.now + 600), topic=SYNCS, whole=True)
    world.ends(30)
    (view,) = world.snapshot().mirror_partitions
    assert (view.committed, view.replicated, view.lag) == (9, 9, 20)
    assert (view.from_rest, view.committed_at) == (True, None)
    assert world.snapshot().ready


def test_a_flow_that_rest_reports_needs_no_syncs():
    world = alone(mirror())
    world.polled("mm2", (orders(), {"offset": 9}))
    world.tail_failed("denied", SYNCS)
    world.ends(10)
    assert [view.lag for view in world.snapshot().mirror_partitions] == [0]
    assert world.snapshot().ready


def consumed(partition: int) -> dict:
    return {"kafka_topic": "shop", "kafka_partition": partition}


@pytest.fixture
def away():
    settings = SinkSettings(group="connect-lake", addresses=frozenset({"far:9092"}))
    world = World()
    world.listed(replace(sink("lake"), sink=settings))
    world.snapshot()
    return world


def test_a_sink_on_an_unknown_kafka_cluster_has_the_offsets_that_rest_reports(away):
    away.see(InputSucceeded(InputId(GROUPS, connect_cluster="lab"), away.now))
    assert away.snapshot().waiting_for == ("rest_offsets lab/lake: waiting for a first attempt",)
    away.polled(
        "lake", (consumed(1), {"kafka_offset": 7}), (consumed(0), {"kafka_offset": 5}), (FILE, None)
    )
    assert [
        (
            partition.topic,
            partition.partition,
            partition.committed,
            partition.lag,
            partition.log_end,
            partition.from_rest,
        )
        for partition in away.snapshot().sink_partitions
    ] == [("shop", 0, 5, None, None, True), ("shop", 1, 7, None, None, True)]
    assert away.snapshot().ready
    away.now += 31  # nobody answers
    assert away.snapshot().sink_partitions == ()


def test_of_a_sink_partition_that_is_listed_twice_only_one_offset_counts_if_it_is_the_same(away):
    first = {"kafka_topic": "orders", "kafka_partition": 0}
    again = first | {"cluster": "west"}
    away.polled("lake", (first, {"kafka_offset": 5}), (again, {"kafka_offset": 5}))
    assert [view.committed for view in away.snapshot().sink_partitions] == [5]
    away.polled("lake", (first, {"kafka_offset": 5}), (again, {"kafka_offset": 6}))
    assert away.snapshot().sink_partitions == ()


def test_a_sink_whose_group_is_denied_is_left_to_rest_until_it_can_be_read():
    world = World()
    world.listed(sink("lake"), sink("seen"))
    groups = InputId(GROUPS, connect_cluster="lab")
    offset = SinkOffset("seen", "shop", 0, 3, 4)
    world.see(
        InputFailed(groups, "denied", "no ACL"),
        SinkOffsetsRead("lab", (offset,)),
        InputSucceeded(groups, world.now),
    )
    assert [connector.connector for connector in world.snapshot().by_rest] == ["lake"]
    world.polled("lake", (consumed(0), {"kafka_offset": 5}))
    assert {
        (partition.connector, partition.from_rest) for partition in world.snapshot().sink_partitions
    } == {
        ("lake", True),
        ("seen", False),
    }
    world.see(SinkOffsetsRead("lab", (offset, SinkOffset("lake", "shop", 0, 5, 9))))
    assert world.snapshot().by_rest == ()
    assert {
        (partition.connector, partition.from_rest) for partition in world.snapshot().sink_partitions
    } == {
        ("lake", False),
        ("seen", False),
    }


def test_the_lag_of_a_sink_that_is_polled_over_rest_comes_of_its_log_ends():
    world = World()
    world.listed(sink("lake"))
    world.see(InputFailed(InputId(GROUPS, connect_cluster="lab"), "denied", "no ACL"))
    assert [connector.connector for connector in world.snapshot().by_rest] == ["lake"]
    world.polled("lake", (consumed(0), {"kafka_offset": 5}), (consumed(1), {"kafka_offset": 7}))
    ends = SinkOffset("lake", "shop", 0, committed=5, log_end=9, log_start=2)
    world.see(SinkOffsetsRead("lab", (), at=world.now, by_rest=(ends,)))
    world.polled("lake", (consumed(0), {"kafka_offset": 6}), (consumed(1), {"kafka_offset": 7}))
    read_at = world.now
    assert [connector.connector for connector in world.snapshot().by_rest] == ["lake"]

    def lags(moment: float) -> list[tuple[int | None, int | None, int | None, bool]]:
        world.now = moment
        world.see(InputSucceeded(InputId(CONNECT_REST, connect_cluster="lab"), world.now))
        views = world.snapshot().sink_partitions
        return [(view.committed, view.log_end, view.lag, view.from_rest) for view in views]

    # The lag is of the offset that was known before the end was read.
    assert lags(read_at + 1) == [(6, 9, 4, True), (7, None, None, True)]
    assert lags(read_at + 31) == [(6, None, None, True), (7, None, None, True)]


def test_a_deleted_connector_is_polled_and_shown_no_more():
    world = alone(source("files"), source("more"))
    world.polled("files", (FILE, {"position": 40}))
    world.listed(source("more"))
    assert positions(world) == {}
    assert [connector.connector for connector in world.snapshot().by_rest] == ["more"]


def test_a_connector_of_its_own_topic_is_polled_where_that_alone_cannot_be_read():
    world = World()
    own = KafkaTopic("east", "files-offsets")
    world.listed(source("files", dedicated_offsets_topic=own.topic), source("plain"))
    world.find_topic()
    world.tail(whole=True)
    world.tail_failed("denied", own)
    assert [connector.connector for connector in world.snapshot().by_rest] == ["files"]
    assert OFFSETS in world.snapshot().topology.tailed()
