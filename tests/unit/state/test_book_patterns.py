"""What the configuration names: flows of its own, and what is to be looked at. Exclude wins."""

from __future__ import annotations

from offsetwatch.model.observations import LogBounds, SinkOffset
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.serve.documents.api import encode_connectors, encode_flows
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from tests.changed import replace
from tests.unit.state.worlds import FILE, SYNCS, World, mirror, orders, sink, source

NAMED = MirrorFlow(
    connect_cluster="lab",
    connector="mm2",
    source="west",
    target="east",
    upstream="west",
    offset_syncs=SYNCS,
)


def build_world(*listed, sites=("lab",), **more) -> World:
    world = World(sites=sites, **more)
    world.listed(*listed)
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    return world


def bounds(*topics: str, end: int = 100) -> dict[TopicPartition, LogBounds]:
    return {TopicPartition(topic, 0): LogBounds(0, end, end) for topic in topics}


# --- flows that the configuration names -----------------------------------------------------------


def test_a_named_flow_stands_in_for_the_one_that_was_found():
    connector = mirror(source_addresses=frozenset({"far:9092"}), syncs_topic=None)
    world = build_world(connector, flows=(NAMED,))
    world.commit("mm2", orders(), {"offset": 9})
    world.ends(100)
    policy = "DefaultReplicationPolicy"
    named = replace(NAMED, policy=policy, internal_separator=".")
    assert world.snapshot().topology.flows == (named,)
    assert world.mirrored().lag == 90


def test_how_a_named_flow_consumes_is_taken_from_its_connector():
    world = build_world(mirror(read_committed=True, from_start=False), flows=(NAMED,))
    (flow,) = world.snapshot().topology.flows
    assert (flow.read_committed, flow.from_start) == (True, False)
    taken = {"policy": None, "internal_separator": None}
    assert replace(flow, read_committed=False, from_start=True, **taken) == NAMED


def test_of_a_connector_under_another_alias_a_named_flow_takes_nothing():
    world = build_world(mirror(source="north", read_committed=True), flows=(NAMED,))
    assert world.snapshot().topology.flows == (NAMED,)


def test_a_named_flow_and_one_that_was_found_are_both_followed():
    world = build_world(mirror("mm2"), mirror("other", syncs_topic=None), flows=(NAMED,))
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("other", orders(), {"offset": 19})
    world.ends(100)
    assert [world.mirrored(name).lag for name in ("mm2", "other")] == [90, 80]


def test_two_named_flows_of_one_connectors_name_are_distinguished_by_their_alias():
    """Dedicated MirrorMakers all call their connector the same."""
    north = replace(NAMED, source="north", upstream=None, offset_syncs=None)
    world = build_world(mirror(), flows=(NAMED, north))
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("mm2", orders(1, cluster="north"), {"offset": 5})
    world.assigned(0, 1)
    world.ends(100)
    views = world.snapshot().mirror_partitions
    assert {(view.source, view.partition, view.committed, view.lag) for view in views} == {
        ("west", 0, 9, 90),
        ("north", 1, 5, None),
    }


def test_a_named_flow_without_an_upstream_shows_its_position_and_no_lag():
    world = build_world(mirror(), flows=(replace(NAMED, upstream=None),))
    world.commit("mm2", orders(), {"offset": 9})
    world.ends(100)
    assert (world.mirrored().replicated, world.mirrored().lag) == (9, None)


def test_a_named_flow_shows_nothing_of_a_connector_that_was_deleted():
    world = build_world(mirror(), flows=(NAMED,))
    world.commit("mm2", orders(0), {"offset": 9})
    world.assigned(0, 1)
    world.ends(bounds("orders"))
    assert world.mirrored() is not None
    world.listed()
    assert world.snapshot().mirror_partitions == ()
    world.listed(mirror())
    assert world.mirrored(partition=0).lag == 90
    assert world.mirrored(partition=1) is None  # what it was assigned went with it


# --- include and exclude --------------------------------------------------------------------------


def build_settings(**changes) -> ConnectClusterSettings:
    return ConnectClusterSettings(name="lab", kafka="east", **changes)


def everything_said(world: World) -> str:
    """All series and all documents of the API."""
    snapshot = world.snapshot()
    build, last = BuildInfo("1", "1", "3"), ConfigReloadStatus(successful=True, at=0.0)
    rows = [
        (family.spec.name, *row)
        for family in collect_families(snapshot, build, last)
        if not family.spec.name.startswith("offsetwatch_tail_")
        for row in family.rows()
    ]
    return repr(rows) + encode_connectors(snapshot).decode() + encode_flows(snapshot).decode()


def test_an_excluded_connector_is_in_no_family_and_no_document():
    world = build_world(
        mirror(),
        mirror("hidden-mirror", syncs_topic="hidden-syncs"),
        source("hidden"),
        sink("hidden-sink"),
        sites=(build_settings(wants_connector=lambda name: not name.startswith("hidden")),),
        flows=(replace(NAMED, connector="hidden-named"),),
    )
    for name in ("mm2", "hidden-mirror", "hidden-named"):
        world.commit(name, orders(), {"offset": 9})
    world.commit("hidden", FILE, {"position": 1})
    world.assigned(0, connector="hidden-mirror")
    world.ends(100)
    world.sinks(SinkOffset("hidden-sink", "t", 0, 1, 2))
    assert world.mirrored().lag == 90
    assert "hidden" not in everything_said(world)
    assert world.snapshot().waiting_for == ()


def test_an_excluded_topic_is_in_no_family_and_no_document():
    world = build_world(
        mirror(),
        sink("s"),
        sites=(build_settings(wants_topic=lambda name: not name.startswith("hidden")),),
    )
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("mm2", orders(topic="hidden"), {"offset": 9})
    world.commit("mm2", orders(topic="hidden-too"), {"offset": 9})
    world.see_assigned("orders", "hidden", "hidden-never-committed")
    world.synced(9, topic="hidden")
    world.ends(bounds("orders", "hidden", "hidden-never-committed"))
    world.sinks(SinkOffset("s", "hidden", 0, 1, 2), SinkOffset("s", "seen", 0, 1, 2))
    assert "seen" in everything_said(world)
    assert "hidden" not in everything_said(world)


def test_without_any_list_the_patterns_hold_for_the_connectors_of_the_keys():
    world = World(
        sites=(build_settings(rest=False, wants_connector=lambda name: name != "hidden"),)
    )
    world.find_topic()
    world.tail(whole=True)
    world.commit("hidden", FILE, {"position": 1})
    world.commit("files", FILE, {"position": 1})
    assert {partition.connector for partition in world.snapshot().source_partitions} == {"files"}


def test_a_connector_that_configuration_excludes_is_no_intruder_in_its_own_topic():
    """One of its name runs in another cluster."""
    world = World(sites=(build_settings(wants_connector=lambda name: name != "files"), "prod"))
    world.listed(source("files"), source("more"))
    world.listed(source("files"), cluster="prod")
    world.find_topic()
    world.find_topic(KafkaTopic("east", "prod-offsets"), cluster="prod")
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 1})
    assert world.snapshot().topic_problems == ()


# --- summed up by topic ---------------------------------------------------------------------------


def topic_lag(world: World) -> dict[str, float]:
    build, last = BuildInfo("1", "1", "3"), ConfigReloadStatus(successful=True, at=0.0)
    for family in collect_families(world.snapshot(), build, last):
        if family.spec.name == "offsetwatch_mm2_topic_replication_lag_records":
            return {labels[-1]: number for labels, number in family.rows()}
    raise AssertionError


def summed() -> World:
    """Two partitions of `orders`, 90 and 80 behind, that lie in Kafka partitions 3 and 4."""
    world = build_world(mirror(), sites=(build_settings(by_topic=True),))
    world.commit("mm2", orders(0), {"offset": 9}, kafka_partition=3)
    world.commit("mm2", orders(1), {"offset": 19}, kafka_partition=4)
    world.ends({TopicPartition("orders", number): LogBounds(0, 100, 100) for number in (0, 1)})
    return world


def test_a_topic_has_the_sum_of_its_partitions():
    assert topic_lag(summed()) == {"orders": 170}


def test_there_is_no_sum_while_a_transaction_hides_one_of_its_partitions():
    world = summed()
    world.tail(frozen=(3,))
    assert world.mirrored(partition=1).lag == 80
    assert topic_lag(world) == {}
    world.tail()
    assert topic_lag(world) == {"orders": 170}


def test_there_is_no_sum_where_a_position_is_no_number():
    world = summed()
    world.commit("mm2", orders(1), {"offset": "19"}, kafka_partition=4, log_offset=5)
    assert topic_lag(world) == {}


def test_there_is_no_sum_where_a_bound_cut_a_partition():
    world = build_world(mirror(), sites=(build_settings(by_topic=True),), source_partitions_max=1)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    world.ends(100)
    assert world.mirrored().lag == 90
    assert topic_lag(world) == {}
