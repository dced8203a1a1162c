"""Partitions that were added upstream and are no task's."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import BrokerAddressesRead, FilteredTopics, InputId, LogBounds
from offsetwatch.model.topology import GROUP_NOT_KNOWN, KafkaTopic, TopicPartition
from offsetwatch.state.connect.connector_list import SILENCE_INTERVALS
from offsetwatch.state.mirror.flows import (
    BrokerAddresses,
    build_mirror_flows,
    build_sink_groups,
    find_cluster_at,
    merge_named_flows,
)
from offsetwatch.state.mirror.replicated_partitions import UNASSIGNED_MAX
from tests.changed import replace
from tests.unit.state.worlds import (
    NOW,
    OFFSETS,
    SYNCS,
    World,
    mirror,
    mirrors,
    orders,
    sink,
    source,
)

ADDRESSES = {"east": frozenset({"east:9092"}), "west": frozenset({"west:9092", "west:9093"})}


def test_a_cluster_is_found_by_any_one_of_its_addresses():
    assert find_cluster_at(frozenset({"gone:1", "west:9093"}), ADDRESSES) == "west"


def test_no_address_and_no_known_address_are_no_cluster():
    assert find_cluster_at(frozenset(), ADDRESSES) is None
    assert find_cluster_at(frozenset({"west:1"}), ADDRESSES) is None


def test_an_address_that_two_clusters_answer_to_is_not_guessed_at():
    """Two test clusters that both advertise localhost: the wrong end would be a wrong lag."""
    both = {name: known | {"localhost:9092"} for name, known in ADDRESSES.items()}
    assert find_cluster_at(frozenset({"localhost:9092"}), both) is None
    assert find_cluster_at(frozenset({"west:9092"}), both) == "west"


def test_syncs_lie_upstream_or_downstream_as_the_connector_says():
    (upstream,) = build_mirror_flows("lab", "east", (mirror(),), ADDRESSES)
    assert upstream.offset_syncs == SYNCS
    (downstream,) = build_mirror_flows("lab", "east", (mirror(syncs_on_source=False),), ADDRESSES)
    assert downstream.offset_syncs == KafkaTopic("east", SYNCS.topic)


def test_syncs_on_an_unknown_upstream_are_not_searched_for():
    lost = mirror(source_addresses=frozenset({"gone:1"}))
    (flow,) = build_mirror_flows("lab", "east", (lost,), ADDRESSES)
    assert (flow.upstream, flow.offset_syncs) == (None, None)


def test_a_target_without_a_known_address_is_the_connect_clusters_own():
    lost = mirror(target_addresses=frozenset(), syncs_on_source=False)
    (flow,) = build_mirror_flows("lab", "east", (lost,), ADDRESSES)
    assert flow.offset_syncs == KafkaTopic("east", SYNCS.topic)


def test_only_mirror_source_connectors_make_flows_and_only_sinks_make_groups():
    connectors = (source("a"), sink("b"), mirror("c"))
    assert [
        flow.connector for flow in build_mirror_flows("lab", "east", connectors, ADDRESSES)
    ] == ["c"]
    (group,) = build_sink_groups("lab", "east", connectors, ADDRESSES)
    assert (group.connector, group.group, group.kafka) == ("b", "connect-b", "east")


def test_a_name_that_only_a_config_provider_knows_is_not_taken_for_the_name():
    """A flow of that alias would have committed nothing, and the group would not be there."""
    assert build_mirror_flows("lab", "east", (mirror(source="${env:ALIAS}"),), ADDRESSES) == ()
    plain = sink("b")
    provided = replace(plain, sink=replace(plain.sink, group="${file:/g.properties:group}"))
    (group,) = build_sink_groups("lab", "east", (provided,), ADDRESSES)
    assert (group.kafka, group.lag_unknown) == (None, GROUP_NOT_KNOWN)


def test_brokers_that_are_observed_are_addresses_to_know_a_cluster_by():
    world = mirrors(mirror(source_addresses=frozenset({"10.0.0.7:9092"})))
    assert world.snapshot().topology.flows[0].upstream is None
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.7:9092"})))
    assert world.snapshot().topology.flows[0].upstream == "west"
    world.see(BrokerAddressesRead("east", frozenset({"10.0.0.7:9092"})))
    assert world.snapshot().topology.flows[0].upstream is None


def test_an_address_that_another_clusters_broker_has_now_is_that_clusters():
    world = mirrors(mirror(source_addresses=frozenset({"10.0.0.7:9092"})))
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.7:9092", "10.0.0.8:9092"})))
    world.see(BrokerAddressesRead("east", frozenset({"10.0.0.7:9092"})))
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.8:9092", "10.0.0.9:9092"})))
    assert world.snapshot().topology.flows[0].upstream == "east"


@pytest.mark.parametrize(("after_s", "upstream"), [(86_399.0, "west"), (86_400.0, None)])
def test_the_address_of_a_broker_that_is_gone_is_known_for_a_day(after_s, upstream):
    world = mirrors(mirror(source_addresses=frozenset({"10.0.0.7:9092"})))
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.7:9092"})))
    connectors = (mirror(source_addresses=frozenset({"10.0.0.7:9092"})),)
    world.now += after_s
    world.listed(*connectors)
    assert world.snapshot().topology.flows[0].upstream == upstream  # while it does not answer
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.8:9092"})))
    assert world.snapshot().topology.flows[0].upstream == upstream


def test_addresses_expire_once_a_day_after_each_was_last_reported():
    brokers = BrokerAddresses()
    assert not brokers.expire(0.0)
    brokers.see("west", frozenset({"10.0.0.7:9092", "10.0.0.8:9092"}), 0.0)
    brokers.see("west", frozenset({"10.0.0.8:9092"}), 10.0)
    assert not brokers.expire(86_399.0)
    assert brokers.of("west") == {"10.0.0.7:9092", "10.0.0.8:9092"}
    assert brokers.expire(86_400.0)
    assert not brokers.expire(86_400.0)
    assert brokers.of("west") == {"10.0.0.8:9092"}
    assert brokers.expire(86_410.0)
    assert brokers.of("west") == frozenset()


def test_an_address_that_another_cluster_had_a_day_ago_is_not_that_clusters():
    connectors = (mirror(source_addresses=frozenset({"10.0.0.7:9092"})),)
    world = mirrors(*connectors)
    world.see(BrokerAddressesRead("east", frozenset({"10.0.0.7:9092"})))
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.7:9092"})))
    assert world.snapshot().topology.flows[0].upstream is None
    world.now += 86_300.0
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.7:9092"})))
    world.now += 200.0  # east has not answered for longer than a day
    world.listed(*connectors)
    assert world.snapshot().topology.flows[0].upstream == "west"


def test_a_flow_is_known_for_an_hour_after_connect_was_last_heard_of():
    world = mirrors(mirror())
    flow = world.snapshot().topology.flows[0]
    world.now += SILENCE_INTERVALS * 60.0
    assert world.snapshot().topology.flows == (flow,)
    world.now += 1.0
    assert world.snapshot().topology.flows == ()
    (view,) = world.snapshot().lists
    assert view.without_configuration == {"mm2": world.now - 1.0 - SILENCE_INTERVALS * 60.0}
    world.listed(mirror())
    assert world.snapshot().topology.flows == (flow,)


def test_an_address_of_the_configuration_is_known_for_ever():
    world = mirrors(mirror(source_addresses=frozenset({"west:9092"})))
    world.see(BrokerAddressesRead("east", frozenset({"10.0.0.7:9092"})))
    world.now += 90_000.0
    world.listed(mirror(source_addresses=frozenset({"west:9092"})))
    world.see(BrokerAddressesRead("west", frozenset({"10.0.0.8:9092"})))
    assert world.snapshot().topology.flows[0].upstream == "west"


def test_a_target_with_a_known_address_is_that_cluster_wherever_the_connector_runs():
    (flow,) = build_mirror_flows("lab", "west", (mirror(syncs_on_source=False),), ADDRESSES)
    assert (flow.downstream, flow.offset_syncs) == ("east", KafkaTopic("east", SYNCS.topic))


def test_flows_are_reported_in_order_those_that_are_named_among_those_that_are_found():
    mirror_flows = build_mirror_flows("lab", "east", (mirror("z"), mirror("b")), ADDRESSES)
    named = [replace(mirror_flows[0], connector=name) for name in ("y", "a")]
    flows = merge_named_flows(named, mirror_flows)
    assert [flow.connector for flow in flows] == ["a", "b", "y", "z"]


def test_a_named_flow_without_offset_syncs_has_those_that_its_connector_names():
    (mirror_flow,) = build_mirror_flows("lab", "east", (mirror(),), ADDRESSES)
    named = replace(mirror_flow, offset_syncs=None, copies=(("*", "copy-{topic}"),))
    (flow,) = merge_named_flows([named], [mirror_flow])
    assert (flow.offset_syncs, flow.copies) == (SYNCS, named.copies)
    elsewhere = KafkaTopic("east", "syncs")
    (flow,) = merge_named_flows([replace(named, offset_syncs=elsewhere)], [mirror_flow])
    assert flow.offset_syncs == elsewhere


# --- unassigned partitions -----------------------------------------------------------------------

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
BOUNDS = {ZERO: LogBounds(0, 100, 100), ONE: LogBounds(5, 50, 50), TWO: LogBounds(0, 7, 7)}


def copying(**changes) -> World:
    world = mirrors(mirror(**changes))
    world.assigned(0)
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(BOUNDS, partitions={"orders": 1, "another": 9})
    return world


def list_lags(world: World) -> dict[int, tuple[int | None, float | None]]:
    results = world.snapshot().mirror_partitions
    return {
        partition.partition: (partition.lag, partition.unassigned_since) for partition in results
    }


def test_what_was_added_waits_from_the_start_of_its_log_since_it_was_observed():
    world = copying()
    assert list_lags(world) == {0: (0, None)}
    world.now += 10
    world.ends(BOUNDS, partitions={"orders": 3})
    assert list_lags(world) == {0: (0, None), 1: (None, NOW + 10), 2: (None, NOW + 10)}
    world.now += 10
    world.ends(BOUNDS, partitions={"orders": 3})
    assert list_lags(world) == {0: (0, None), 1: (45, NOW + 10), 2: (7, NOW + 10)}


def test_where_a_flow_that_begins_at_the_end_begins_is_not_known():
    world = copying(from_start=False)
    for _ in range(2):
        world.ends(BOUNDS, partitions={"orders": 2})
    assert list_lags(world)[1] == (None, NOW)


def test_what_was_committed_after_an_assignment_was_read_is_not_unassigned():
    """Whoever tells what tasks were given may refuse to by now."""
    world = copying()
    world.now += 10
    world.ends(BOUNDS, partitions={"orders": 3})
    world.now += 600
    world.commit("mm2", orders(1), {"offset": 40})
    world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
    world.ends(BOUNDS, partitions={"orders": 3})
    world.ends(BOUNDS, partitions={"orders": 3})
    assert list_lags(world) == {0: (0, None), 1: (9, None), 2: (7, NOW + 10)}


def test_what_a_task_is_given_is_unassigned_no_more():
    world = copying()
    world.ends(BOUNDS, partitions={"orders": 2})
    world.assigned(0, 1)
    assert list_lags(world)[1][1] is None


KEY = ("lab", "mm2")


def select(selected: dict[str, int], rejected: frozenset[str] = frozenset()) -> dict:
    return {"partitions": {"orders": 1}, "filtered": {KEY: FilteredTopics(selected, rejected)}}


def list_waiting(world: World) -> list[tuple[str, int, float | None]]:
    results = world.snapshot().mirror_partitions
    return [(view.topic, view.partition, view.unassigned_since) for view in results]


def test_a_topic_that_the_configuration_selects_waits_where_no_task_has_it():
    world = copying()
    world.ends(BOUNDS, **select({"orders": 1, "payments": 2}))
    waiting = [("payments", 0, NOW), ("payments", 1, NOW)]
    assert list_waiting(world) == [("orders", 0, None), *waiting]
    world.now += 10
    world.ends(BOUNDS, **select({"orders": 1, "payments": 2, "new": 1}))
    assert list_waiting(world) == [("new", 0, NOW + 10), ("orders", 0, None), *waiting]
    world.ends(BOUNDS, **select({"orders": 1}))
    assert list_waiting(world) == [("orders", 0, None)]


def test_where_mirror_maker_never_looks_for_topics_those_without_a_task_do_not_wait():
    world = copying(refresh_s=None)
    world.ends(BOUNDS, **select({"orders": 1, "payments": 2}))
    assert list_waiting(world) == [("orders", 0, None)]


def test_partitions_that_wait_are_limited_and_counted():
    world = copying()
    world.ends(BOUNDS, **select({"orders": 1, "payments": UNASSIGNED_MAX + 7}))
    assert len(list_waiting(world)) == 1 + UNASSIGNED_MAX
    assert dict(world.snapshot().dropped)["unassigned"] == 7


def test_tasks_with_topics_that_the_configuration_rejects_are_a_doubt_after_three_reports():
    def report(*, rejected: frozenset[str] = frozenset({"orders", "other"})) -> tuple[str, ...]:
        world.now += 60
        world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
        world.ends(BOUNDS, **select({}, rejected))
        world.assigned(0)
        doubt = world.snapshot().assignment_doubts.get(KEY)
        return () if doubt is None else doubt.topics

    world = copying()
    assert [report() for _ in range(3)] == [(), (), ("orders",)]
    assert report(rejected=frozenset({"other"})) == ()
    assert [report() for _ in range(3)] == [(), (), ("orders",)]
    world.now += 60
    world.assigned(0)  # the topics of the cluster are not read any more
    assert world.snapshot().assignment_doubts == {}


def test_what_a_topic_has_no_more_is_gone():
    world = copying()
    world.ends(BOUNDS, partitions={"orders": 2})
    assert 1 in list_lags(world)
    world.ends(BOUNDS, partitions={"orders": 1})
    assert 1 not in list_lags(world)


def test_without_an_assignment_no_partition_is_missing_from_it():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(BOUNDS, partitions={"orders": 3})
    assert list_lags(world) == {0: (0, None)}


# --- assignments that are not reported any more --------------------------------------------------


def pass_minutes(world: World, minutes: int, *commits: int, listed: bool = True) -> None:
    """Minutes in which everything but tasks is read, and each of these partitions commits once."""
    for _ in range(minutes):
        world.now += 60.0
        for partition in commits:
            world.commit("mm2", orders(partition), {"offset": int(world.now - NOW)})
        if listed:
            world.listed(mirror())
        world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
        world.ends(BOUNDS, partitions={"orders": 3})
        world.snapshot()


def list_copied(world: World) -> list[int]:
    return [view.partition for view in world.snapshot().mirror_partitions]


def three_assigned() -> World:
    world = mirrors(mirror())
    for partition in range(3):
        world.commit("mm2", orders(partition), {"offset": 1})
    world.assigned(0, 1)
    world.ends(BOUNDS, partitions={"orders": 3})
    return world


def test_an_assignment_that_is_not_reported_any_more_is_not_used_past_its_age():
    world = three_assigned()
    pass_minutes(world, 9, 0)
    snapshot = world.snapshot()
    assert list_copied(world) == [0, 1, 2]
    assert (snapshot.outdated_assignments, snapshot.partial) == ({}, frozenset())
    pass_minutes(world, 2, 0)
    snapshot = world.snapshot()
    assert list_copied(world) == [0]
    assert snapshot.outdated_assignments == {("lab", "mm2"): NOW}
    assert snapshot.partial == {("lab", "mm2")}


def test_a_partition_that_commits_after_its_assignment_was_dropped_is_copied_until_it_is_silent():
    world = three_assigned()
    pass_minutes(world, 12, 0)
    pass_minutes(world, 1, 2)
    assert list_copied(world) == [0, 2]
    pass_minutes(world, 20, 2)
    assert list_copied(world) == [2]
    pass_minutes(world, 20)
    assert list_copied(world) == []


def test_an_assignment_that_is_reported_again_counts_at_once():
    world = three_assigned()
    pass_minutes(world, 12, 0)
    world.assigned(0, 1)
    snapshot = world.snapshot()
    assert list_copied(world) == [0, 1, 2]
    assert (snapshot.outdated_assignments, snapshot.partial) == ({}, frozenset())


def test_without_a_list_of_connectors_an_assignment_lasts_as_long_as_a_configuration():
    world = three_assigned()
    pass_minutes(world, 30, listed=False)
    assert list_copied(world) == [0, 1, 2]
    pass_minutes(world, 1)
    assert list_copied(world) == [0, 1, 2]


def test_an_outdated_assignment_hides_no_writer_of_shared_syncs():
    world = mirrors(mirror("a"), mirror("b"))
    world.assigned(0, connector="a")
    world.commit("b", orders(), {"offset": 9})
    world.assigned(0, connector="b")
    for _ in range(12):
        world.now += 60.0
        world.listed(mirror("a"), mirror("b"))
        world.assigned(0, connector="b")
        world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
        world.snapshot()
    world.synced(50)
    assert world.snapshot().outdated_assignments == {("lab", "a"): NOW}
    view = world.mirrored("b")
    assert view is not None
    assert view.replicated == 9


# --- assignments that contradict commits ---------------------------------------------------------


def report_tasks(world: World, minutes: int, *commits: int) -> None:
    """Two reports a minute that give tasks orders-0 alone, while these partitions commit."""
    for _ in range(2 * minutes):
        world.now += 30.0
        for partition in commits:
            world.commit("mm2", orders(partition), {"offset": int(world.now - NOW)})
        world.listed(mirror())
        world.assigned(0)
        world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
        world.snapshot()


def test_what_is_committed_report_after_report_contradicts_an_assignment_without_it():
    world = three_assigned()
    report_tasks(world, 1, 1)
    assert world.snapshot().assignment_doubts == {}
    report_tasks(world, 3, 1)
    doubt = world.snapshot().assignment_doubts["lab", "mm2"]
    assert (doubt.since, doubt.partitions, doubt.tasks) == (NOW + 60, (ONE,), None)
    assert list_copied(world) == [0, 1]


def test_a_commit_of_a_task_that_is_stopped_contradicts_nothing():
    world = three_assigned()
    report_tasks(world, 1, 2)
    report_tasks(world, 4)
    assert world.snapshot().assignment_doubts == {}
    assert list_copied(world) == [0]


def test_a_contradiction_ends_when_nothing_is_committed_beside_the_tasks_any_more():
    world = three_assigned()
    report_tasks(world, 5, 1)
    assert list_copied(world) == [0, 1]
    report_tasks(world, 4)
    assert world.snapshot().assignment_doubts == {}
    assert list_copied(world) == [0]


def test_two_reports_by_turns_contradict_what_is_committed():
    """Two workers, one of which reads an old config topic."""
    world = three_assigned()
    for number in range(16):
        world.now += 30.0
        for partition in (0, 1):
            world.commit("mm2", orders(partition), {"offset": number + 2})
        world.listed(mirror())
        world.assigned(number % 2)
        world.reads(InputId.of_tail(OFFSETS), InputId.of_tail(SYNCS))
        world.snapshot()
    assert world.snapshot().assignment_doubts["lab", "mm2"].partitions == (ZERO, ONE)
    assert list_copied(world) == [0, 1]
