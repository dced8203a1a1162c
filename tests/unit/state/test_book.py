"""What the book hands on to others, and in which order it tells of several Connect clusters."""

from __future__ import annotations

import json

import pytest

from offsetwatch.model.connectors import ConnectorConfigured
from offsetwatch.model.history_documents import Baselines, PipelineStatus
from offsetwatch.model.observations import (
    CONNECT_REST,
    BaselinesRead,
    ConnectorsListed,
    ControlRequestsCounted,
    InputId,
    InputSucceeded,
    ListingRecord,
    ListingTopicsFound,
    NotificationsFailed,
    OffsetsTopicLost,
    PipelineStatusRead,
    ProbeRoundRead,
    SinkOffset,
)
from offsetwatch.model.remediation import RemediationReported, ReplicaReported
from offsetwatch.model.topology import KafkaTopic, ListingTopics, StatusTopic
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.accounting import LossAccounting
from tests.unit.state.connect.test_state_history import STATUS, build_facts
from tests.unit.state.connect.test_topic_listing import CONFIGS, MM2
from tests.unit.state.worlds import (
    FILE,
    NOW,
    OFFSETS,
    SYNCS,
    World,
    files,
    mirror,
    mirrors,
    orders,
    record,
    sink,
    source,
    sync,
)

PROD = KafkaTopic("east", "prod-offsets")


def both() -> World:
    """Two Connect clusters, the later by name first; each has a source and a sink."""
    world = World(sites=("prod", "lab"))
    for cluster, topic in (("prod", PROD), ("lab", OFFSETS)):
        world.find_topic(topic, cluster=cluster)
        world.listed(source("files"), sink("sink"), cluster=cluster)
        world.tail(topic=topic, whole=True)
        world.commit("files", FILE, {"position": 1}, topic=topic)
    return world


def test_what_nothing_else_depends_on_is_in_the_next_snapshot():
    world = World()
    remedies = RemediationReported(at=world.now, mode="observe")
    replica = ReplicaReported(leading=True)
    world.see(
        PipelineStatusRead(PipelineStatus()),
        BaselinesRead(Baselines(made_at=world.now, until=world.now, connectors=())),
        NotificationsFailed((("timeout", 3),)),
        ControlRequestsCounted(hooks=(("taken", 2),), refused=(("token", 1),)),
        remedies,
        replica,
    )
    snapshot = world.snapshot()
    assert snapshot.pipeline.status == PipelineStatus()
    assert snapshot.baselines.valid
    assert snapshot.notifications_failed == (("timeout", 3),)
    assert (snapshot.hooks_received, snapshot.control_refused) == ((("taken", 2),), (("token", 1),))
    assert (snapshot.remedies, snapshot.replica) == (remedies, replica)


def test_what_is_no_observation_is_a_mistake():
    with pytest.raises(AssertionError):
        World().see("nothing")


def test_reads_of_single_records_are_counted_by_reason():
    world = World()
    for built in ((("stuck", 1), ("age", 2)), (("stuck", 3),)):
        world.see(
            ProbeRoundRead("west", world.now, (), made=built, skipped=(("z", 1), ("busy", 4)))
        )
    snapshot = world.snapshot()
    assert snapshot.probes == (("age", 2), ("stuck", 4))
    assert snapshot.probes_skipped == (("busy", 8), ("z", 2))


def test_of_several_connect_clusters_all_is_reported_by_name():
    world = both()
    snapshot = world.snapshot()
    names = ["lab", "prod"]
    assert [view.connect_cluster for view in snapshot.source_partitions] == names
    assert [view.connect_cluster for view in snapshot.connectors] == [*["lab"] * 2, *["prod"] * 2]
    topology = snapshot.topology
    assert [offsets_topic.connect_cluster for offsets_topic in topology.offsets_topics] == names
    assert [(sink_group.connect_cluster, sink_group.group) for sink_group in topology.sinks] == [
        (name, "connect-sink") for name in names
    ]


def test_what_was_cut_is_reported_by_reason():
    world = files(source_partitions_max=1)
    for name, position in (("one", 1), ("two", 1), ("one", 2**53 + 1)):
        world.commit("files", {"filename": name}, {"position": position})
    assert world.snapshot().dropped == (("inexact", 1), ("source_partitions_max", 1))


def test_without_a_bound_all_partitions_are_shown():
    world = files()
    for number in range(100):
        world.commit("files", {"filename": str(number)}, {"position": 1})
    assert (len(world.partitions()), world.snapshot().dropped) == (100, ())


def test_connectors_are_pictured_again_when_any_cluster_has_another_list_and_only_then():
    world = both()
    before = world.snapshot().connectors
    world.sinks(SinkOffset("sink", "orders", 0, committed=1, log_end=2))
    assert world.snapshot().connectors is before
    world.listed(source("files"), cluster="prod")
    names = [(view.connect_cluster, view.name) for view in world.snapshot().connectors]
    assert names == [("lab", "files"), ("lab", "sink"), ("prod", "files")]


# --- what one cluster finds out is known at once -------------------------------------------------


def test_a_status_topic_of_one_cluster_is_followed_whatever_the_others_have():
    world = World(sites=("lab", "prod"))
    world.find_topic(cluster="lab")
    world.find_topic(PROD, cluster="prod")
    world.see(build_facts(STATUS))
    assert world.snapshot().topology.statuses == (StatusTopic("lab", STATUS),)


def test_a_flow_that_one_clusters_topics_list_is_followed_whatever_the_others_have():
    restless = ConnectClusterSettings(name="lab", kafka="east", rest=False)
    world = World(sites=(restless, "prod"))
    world.listed(mirror("other"), cluster="prod")
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, None)))
    world.tail(ListingRecord(ConnectorConfigured("mm2", MM2)), topic=CONFIGS, whole=True)
    flows = world.snapshot().topology.flows
    assert [(flow.connect_cluster, flow.connector) for flow in flows] == [
        ("lab", "mm2"),
        ("prod", "other"),
    ]


# --- Connect clusters over a restart -------------------------------------------------------------


def answered(world: World, kafka_cluster_id: str) -> tuple[str | None, str | None]:
    """The ids that are shown after an answer of a worker of that Kafka cluster."""
    report = ConnectorsListed("lab", (source("files"),), frozenset({"files"}), kafka_cluster_id)
    world.see(report, InputSucceeded(InputId(CONNECT_REST, connect_cluster="lab"), world.now))
    (view,) = world.snapshot().lists
    return view.kafka_cluster_ids


def recalled(remembered: bytes, **changes) -> World:
    world = World(**changes)
    world.book.recall(remembered)
    return world


def test_which_kafka_cluster_workers_use_is_remembered():
    world = World()
    assert answered(world, "ours") == ("ours", None)
    remembered = world.book.remembered()
    assert remembered is not None
    assert world.book.remembered() is None
    assert answered(recalled(remembered), "theirs") == ("ours", "theirs")


def test_workers_that_are_configured_beside_another_kafka_may_use_it():
    world = World()
    answered(world, "ours")
    moved = (ConnectClusterSettings(name="lab", kafka="west"),)
    assert answered(recalled(world.book.remembered(), sites=moved), "theirs") == ("theirs", None)


def test_a_document_from_before_connect_clusters_were_remembered_reports_nothing_of_them():
    document = json.loads(persistence.encode_losses(LossAccounting()))
    del document["sites"]
    assert answered(recalled(json.dumps(document).encode()), "theirs") == ("theirs", None)


def test_an_offsets_topic_that_was_found_is_remembered_until_it_is_lost():
    world = World()
    world.find_topic()
    found = persistence.decode_clusters(world.book.remembered() or b"")["lab"]
    assert (found.offsets_topic, found.offsets_topic_found_at) == (OFFSETS.topic, world.now)
    restarted = recalled(persistence.encode_losses(LossAccounting(), {"lab": found}))
    answered(restarted, "ours")  # before it has found the topic
    kept = persistence.decode_clusters(restarted.book.remembered() or b"")["lab"]
    assert kept.offsets_topic == OFFSETS.topic
    restarted.find_topic()
    restarted.see(OffsetsTopicLost("lab"))
    lost = persistence.decode_clusters(restarted.book.remembered() or b"")["lab"]
    assert lost.offsets_topic is None


# --- rebootstrap ---------------------------------------------------------------------------------


def again(world, *records) -> None:
    world.tail(*records, whole=True)


def test_what_was_there_already_is_not_counted_again():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=3)
    before = world.file()
    again(world, record("files", FILE, {"position": 7}, log_offset=3, live=False))
    assert world.file() == before


def test_what_was_written_meanwhile_shows_and_counts_nowhere():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=3)
    again(world, record("files", FILE, {"position": 9}, log_offset=8, at=NOW + 60, live=False))
    view = world.file()
    assert view.offset.number("position") == 9
    assert (view.committed_at, view.log_offset) == (NOW + 60, 8)
    assert (view.commits, view.advances) == (1, 1)


def test_a_key_that_is_no_longer_in_the_topic_is_forgotten():
    """Its tombstone was written while nobody read, and compaction took it away."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    assert world.file().offset is not None
    again(world)
    assert world.file().offset is None
    assert (world.file().commits, world.file().resets) == (1, 0)


def test_a_topic_created_again_shows_its_own_lower_log_offsets():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=5000)
    again(world, record("files", FILE, {"position": 1}, log_offset=0, at=NOW + 60, live=False))
    assert world.file().offset.number("position") == 1
    world.commit("files", FILE, {"position": 2}, log_offset=1, at=NOW + 120)
    view = world.file()
    assert view.offset.number("position") == 2
    assert (view.commits, view.advances, view.rewinds) == (2, 2, 0)


def test_a_topic_created_again_by_a_clock_that_was_set_back_shows_its_own_records():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=5000, kafka_partition=3)
    older = record(
        "files",
        FILE,
        {"position": 1},
        log_offset=0,
        kafka_partition=1,
        at=NOW - 999,
        live=False,
    )
    again(world, older)
    assert world.file().offset.number("position") == 1


def test_a_compacted_topic_does_not_make_an_old_change_look_new():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=1, at=NOW - 3600)
    world.commit("files", FILE, {"position": 7}, log_offset=9, at=NOW)
    last = record("files", FILE, {"position": 7}, log_offset=9, at=NOW, live=False, advanced_at=NOW)
    again(world, last)
    assert world.file().advanced_at == NOW - 3600


def test_a_variant_that_is_no_longer_in_the_topic_is_gone():
    world = files()
    raw_key = b'["files",{"filename": "/data/in.txt"}]'
    world.commit("files", FILE, {"position": 99}, raw_key=raw_key)
    again(world, record("files", FILE, {"position": 1}, log_offset=7, live=False))
    assert world.file().variants == 0


def test_syncs_that_are_no_longer_in_the_topic_are_gone():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 99})
    world.snapshot()
    world.now += 1
    world.commit("mm2", orders(), {"offset": 100})
    world.snapshot()
    world.now += 1
    world.synced(150)
    assert world.mirrored().replicated == 150
    world.tail(topic=SYNCS, whole=True)
    assert world.snapshot().syncs == ()
    assert (world.mirrored().synced, world.mirrored().replicated) == (None, 100)


def test_syncs_read_again_are_not_counted_again():
    world = mirrors()
    world.synced(150)
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(SYNCS)]
    assert tail.values == 1
    world.tail(sync(150), topic=SYNCS, whole=True)
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(SYNCS)]
    assert tail.values == 1


def test_the_tails_own_place_is_that_in_the_new_topic():
    world = files()
    world.tail(positions=((0, 5000), (1, 70)))
    world.tail(positions=((0, 5001),))
    world.tail(whole=True, positions=((0, 3),))
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(OFFSETS)]
    assert tail.positions == ((0, 3),)


def test_a_topic_that_vanishes_takes_its_series_with_it():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += 10
    world.tail_failed("not_found")
    assert world.partitions() != {}  # it may be a leader election: three missed attempts decide
    world.now += 15
    world.tail_failed("not_found")
    world.listed(source("files"))
    assert world.partitions() == {}
    assert [view.name for view in world.snapshot().connectors] == ["files"]
