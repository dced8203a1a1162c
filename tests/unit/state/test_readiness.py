"""Ready means: everything that can be caught up is. What is not, is said in words."""

from __future__ import annotations

from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    InputFailed,
    InputId,
)
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.readiness import DENIALS
from tests.changed import replace

from .worlds import OFFSETS, SYNCS, World, files, mirror, mirrors, orders, record, sink, source


def waiting_for(world: World) -> str:
    snapshot = world.snapshot()
    assert snapshot.ready is (not snapshot.waiting_for)
    return "; ".join(snapshot.waiting_for)


def test_a_new_world_waits_for_the_first_answer():
    assert "connect_rest lab: waiting for first answer" in waiting_for(World())


def test_why_there_is_no_answer_is_said():
    world = World()
    world.see(
        InputFailed(
            InputId(CONNECT_REST, connect_cluster="lab"), "unreachable", "connection refused"
        )
    )
    assert "connection refused" in waiting_for(world)


def test_source_connectors_need_an_offsets_topic_and_its_end():
    world = World()
    world.listed(source("files"))
    assert "tail lab: waiting for its offsets topic" in waiting_for(world)
    world.find_topic()
    assert "tail east/connect-offsets: waiting for the end of the topic" in waiting_for(world)
    world.tail(caught_up=False)
    assert "the end of the topic" in waiting_for(world)
    world.tail()
    assert waiting_for(world) == ""


def test_why_the_offsets_topic_is_not_found_is_said():
    world = World()
    world.listed(source("files"))
    assert "tail lab: waiting for its offsets topic" in waiting_for(world)
    world.see(
        InputFailed(InputId(TAIL, connect_cluster="lab"), "topic_not_settled", "name the topic")
    )
    assert waiting_for(world) == "rest_offsets lab/files: waiting for a first attempt"
    world.polled("files")
    assert waiting_for(world) == ""


def test_a_cluster_without_connectors_is_ready():
    world = World()
    world.listed()
    assert waiting_for(world) == ""


def test_sinks_alone_need_no_offsets_topic_but_their_groups_queried_once():
    world = World()
    world.listed(sink("s"))
    assert "groups lab: waiting for a first attempt" in waiting_for(world)
    world.see(InputFailed(InputId(GROUPS, connect_cluster="lab"), "denied", "no ACL"))
    assert waiting_for(world) == "rest_offsets lab/s: waiting for a first attempt"
    world.poll_failed("s")
    assert waiting_for(world) == ""


def test_a_flow_needs_its_syncs_and_the_log_ends_of_its_positions():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.tail(record("mm2", orders(), {"offset": 1}, log_offset=0, live=False), whole=True)
    assert f"tail {SYNCS}" in waiting_for(world)
    world.tail(topic=SYNCS, whole=True)
    assert "log_ends west: waiting for the log ends" in waiting_for(world)
    world.ends(10)
    assert waiting_for(world) == ""


def test_log_ends_that_cannot_be_had_are_not_waited_for():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 1})
    world.see(InputFailed(InputId(LOG_ENDS, kafka="west"), "denied", "no ACL"))
    assert waiting_for(world) == ""


def test_a_flow_without_positions_waits_for_one_attempt_at_its_upstream():
    world = mirrors()
    assert "log_ends west: waiting for a first attempt" in waiting_for(world)
    world.ends({})
    assert waiting_for(world) == ""


def test_a_syncs_topic_that_does_not_exist_is_not_waited_for():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.tail(whole=True)
    world.ends({})
    assert str(SYNCS) in waiting_for(world)
    world.tail_failed("not_found", SYNCS)
    assert waiting_for(world) == ""


def test_each_connect_cluster_is_waited_for():
    world = World(sites=("lab", "prod"))
    world.listed(cluster="lab")
    assert "prod" in waiting_for(world)
    assert "lab" not in waiting_for(world)


def test_what_is_missing_is_reported_by_cluster_whichever_was_named_first():
    missing = World(sites=("prod", "lab")).snapshot().waiting_for
    assert [line.split(":")[0] for line in missing] == ["connect_rest lab", "connect_rest prod"]


def test_of_what_has_not_failed_no_reason_is_reported():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(caught_up=False)
    assert waiting_for(world) == "tail east/connect-offsets: waiting for the end of the topic"


def test_an_answer_from_before_there_was_a_position_is_not_the_one_that_is_waited_for():
    world = World(sites=("lab", "prod"))  # the other one is why it is not ready meanwhile
    world.listed(mirror())
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    world.ends({})
    assert "log_ends" not in waiting_for(world)
    world.commit("mm2", orders(), {"offset": 1})
    assert "log_ends west: waiting for the log ends" in waiting_for(world)
    world.ends(10)
    assert "log_ends" not in waiting_for(world)


def test_readiness_once_reached_is_not_lost_by_an_outage():
    world = files()
    assert waiting_for(world) == ""
    world.now += 3600
    world.tail_failed("unreachable")
    assert waiting_for(world) == ""


def test_each_upstream_is_waited_for_and_an_answer_of_one_is_none_of_the_other():
    here = mirror("b", source_addresses=frozenset({"east:9092"}), syncs_topic=None)
    world = mirrors(mirror("a", syncs_topic=None), here)
    for name in ("a", "b"):
        world.commit(name, orders(), {"offset": 1})
    assert "log_ends west" in waiting_for(world)
    world.ends(10, kafka="east")
    assert "log_ends west: waiting for the log ends" in waiting_for(world)
    assert "log_ends east" not in waiting_for(world)
    world.ends(10)
    assert waiting_for(world) == ""
    assert world.mirrored("a").lag == world.mirrored("b").lag == 8


def denied(world: World, topic: KafkaTopic, times: int = DENIALS) -> str:
    for _ in range(times):
        world.tail_failed("denied", topic)
    return waiting_for(world)


def test_a_syncs_topic_that_is_denied_for_good_is_not_waited_for():
    world = World()
    world.listed(mirror(), source("files"))
    world.find_topic()
    world.tail(record("mm2", orders(), {"offset": 1}, log_offset=0, live=False), whole=True)
    world.ends({})
    assert str(SYNCS) in denied(world, SYNCS, DENIALS - 1)
    assert denied(world, SYNCS, 1) == ""
    assert world.mirrored() is None
    (input_view,) = (view for view in world.snapshot().inputs if view.id.input == str(SYNCS))
    assert (input_view.up, input_view.last_reason) == (False, "denied")


def test_a_denied_offsets_topic_is_waited_for_while_no_other_one_is_read():
    sites = [
        ConnectClusterSettings(name=name, kafka="east", rest=False) for name in ("lab", "other")
    ]
    other = replace(OFFSETS, topic="other-offsets")
    world = World(sites=tuple(sites))
    world.find_topic()
    world.find_topic(other, cluster="other")
    assert str(other) in denied(world, other)
    world.tail(whole=True)
    assert waiting_for(world) == ""


def test_a_topic_that_is_too_large_to_be_read_is_not_waited_for():
    world = World()
    world.listed(mirror(), source("files"))
    world.find_topic()
    world.tail(record("mm2", orders(), {"offset": 1}, log_offset=0, live=False), whole=True)
    world.ends({})
    assert str(SYNCS) in waiting_for(world)
    world.tail_failed("too_large", SYNCS)
    assert waiting_for(world) == ""
    world.tail(topic=SYNCS, caught_up=False, behind=9)  # it is tried again
    assert waiting_for(world) == ""
