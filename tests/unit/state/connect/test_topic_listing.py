"""A Connect cluster without a REST API: its own topics tell of its connectors."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import (
    Condition,
    ConnectorConfigured,
    ConnectorKind,
    ConnectorSettings,
    ConnectorStatus,
    MirrorSettings,
    TaskConfigured,
    TasksCommitted,
    TaskStatus,
)
from offsetwatch.model.observations import ListingRecord, ListingTopicsFound
from offsetwatch.model.topology import (
    UNKNOWN_ROUTER,
    KafkaTopic,
    ListingTopics,
    TopicPartition,
    TopicRouter,
)
from offsetwatch.state.connect import topic_listing
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.connect.connector_list import COPY_NAMES_INTERVALS, SILENCE_INTERVALS
from offsetwatch.state.connect.topic_listing import Listing
from tests.unit.state.worlds import FILE, World, mirror, orders

CONFIGS = KafkaTopic("east", "mm2-configs")
STATUS = KafkaTopic("east", "mm2-status")
MM2 = ConnectorSettings(
    kind=ConnectorKind.MIRROR,
    class_name="org.apache.kafka.connect.mirror.MirrorSourceConnector",
    mirror=mirror(syncs_topic=None).mirror,
)
FILES = ConnectorSettings(kind=ConnectorKind.UNKNOWN, class_name="org.example.Files")


def condition(state: str, generation: int = 1) -> Condition:
    return Condition(state=state, worker="w:1", generation=generation, version="4.3.1")


def build_task(task: int, *partitions: int, name: str = "mm2") -> TaskConfigured:
    assigned = tuple(TopicPartition("orders", partition) for partition in partitions)
    return TaskConfigured(name, task, assigned)


def add_records(world: World, *says, whole: bool = False) -> None:
    """Records of the config topic and of the status topic, each in its order."""
    for topic, kinds in (
        (CONFIGS, (ConnectorConfigured, TaskConfigured, TasksCommitted)),
        (STATUS, (ConnectorStatus, TaskStatus)),
    ):
        records = tuple(ListingRecord(say) for say in says if isinstance(say, kinds))
        if records or whole:
            world.tail(*records, topic=topic, whole=whole)


def restless(**changes) -> World:
    """Its offsets topic was read and is empty; nothing else is known."""
    world = World(sites=(ConnectClusterSettings(name="lab", kafka="east", rest=False),), **changes)
    world.find_topic()
    world.tail(whole=True)
    return world


def listing(*says) -> World:
    """The same, with both other topics read."""
    world = restless()
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, STATUS)))
    add_records(world, *says, whole=True)
    return world


def connectors(world: World) -> dict[str, tuple[str, tuple[str, ...]]]:
    """By name, the state and those of the tasks."""
    return {
        view.name: (view.state, tuple(task.state for task in view.tasks))
        for view in world.snapshot().connectors
    }


def copied(world: World) -> set[int]:
    return {view.partition for view in world.snapshot().mirror_partitions}


def with_offsets(world: World) -> set[str]:
    return {view.connector for view in world.snapshot().source_partitions}


# --- from keys alone ------------------------------------------------------------------------------


def test_without_either_topic_the_keys_say_which_connectors_there_are():
    world = restless()
    world.commit("files", FILE, {"position": 1})
    assert with_offsets(world) == {"files"}
    assert world.snapshot().waiting_for == ()
    assert world.snapshot().connectors == ()


def test_a_connector_whose_last_offset_was_reset_is_gone_where_keys_are_all_there_is():
    world = restless()
    world.commit("files", FILE, {"position": 1})
    world.commit("files", FILE, None)
    assert with_offsets(world) == set()


def test_until_the_config_topic_is_read_no_offset_is_shown():
    """It may be of a connector that was deleted: those stay in the topic."""
    world = restless()
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, STATUS)))
    world.commit("deleted", FILE, {"position": 1})
    assert with_offsets(world) == set()
    assert "mm2-configs" in "; ".join(world.snapshot().waiting_for)
    add_records(world, ConnectorConfigured("files", FILES), whole=True)
    world.commit("files", FILE, {"position": 1})
    assert with_offsets(world) == {"files"}


def test_a_status_topic_that_is_read_first_does_not_say_that_there_are_no_connectors():
    world = restless()
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, STATUS)))
    world.tail(topic=STATUS, whole=True)
    assert "mm2-configs" in "; ".join(world.snapshot().waiting_for)
    add_records(world, ConnectorConfigured("mm2", MM2), whole=True)
    assert [flow.connector for flow in world.snapshot().topology.flows] == ["mm2"]


@pytest.mark.parametrize("reason", ["not_found", "denied"])
def test_a_config_topic_that_cannot_be_had_is_not_waited_for_and_the_keys_serve(reason):
    world = restless()
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, None)))
    world.commit("files", FILE, {"position": 1})
    assert with_offsets(world) == set()
    world.tail_failed(reason, CONFIGS)
    assert with_offsets(world) == {"files"}
    assert world.snapshot().waiting_for == ()


def test_a_list_once_read_serves_when_its_topic_cannot_be_read_any_more():
    world = listing(ConnectorConfigured("files", FILES))
    world.commit("files", FILE, {"position": 1})
    world.commit("deleted", FILE, {"position": 1})
    world.tail_failed("denied", CONFIGS)
    assert with_offsets(world) == {"files"}


def test_a_flow_is_known_for_an_hour_after_the_config_topic_was_last_read():
    world = listing(ConnectorConfigured("mm2", MM2))
    (flow,) = world.snapshot().topology.flows
    read_at = world.now
    world.now = read_at + SILENCE_INTERVALS * 60.0
    assert world.snapshot().topology.flows == (flow,)
    world.now += 1.0
    assert world.snapshot().topology.flows == ()
    add_records(world, ConnectorStatus("mm2", condition("running")))
    assert world.snapshot().topology.flows == ()
    world.tail(topic=CONFIGS)
    assert world.snapshot().topology.flows == (flow,)


def test_names_of_copies_are_unknown_when_a_task_was_started_after_the_config_topic_was_read():
    def start(moment: float) -> None:
        record = ListingRecord(TaskStatus("mm2", 0, condition("running")), at=moment, live=True)
        world.tail(record, topic=STATUS)

    def routers() -> list[tuple[TopicRouter, ...]]:
        return [flow.routers for flow in world.snapshot().topology.flows]

    world = listing(ConnectorConfigured("mm2", MM2))
    start(world.now)
    assert routers() == [()]
    world.now += COPY_NAMES_INTERVALS * 60.0 + 1.0
    world.tail(topic=STATUS)
    assert routers() == [()]
    start(world.now)
    assert routers() == [(UNKNOWN_ROUTER,)]
    world.tail(topic=CONFIGS)
    assert routers() == [()]


def test_listing_topics_that_appear_later_are_used_from_then_on():
    world = restless()
    world.commit("files", FILE, {"position": 1})
    world.commit("deleted", FILE, {"position": 1})
    assert with_offsets(world) == {"files", "deleted"}
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, STATUS)))
    add_records(world, ConnectorConfigured("files", FILES), whole=True)
    assert with_offsets(world) == {"files"}
    assert connectors(world) == {"files": ("unassigned", ())}


# --- from the two topics --------------------------------------------------------------------------


def test_connectors_and_their_tasks_are_listed():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        TasksCommitted("mm2", 2),
        ConnectorStatus("mm2", condition("running")),
        TaskStatus("mm2", 0, condition("running")),
    )
    assert connectors(world) == {"mm2": ("running", ("running", "unassigned"))}
    assert [flow.connector for flow in world.snapshot().topology.flows] == ["mm2"]


def test_statuses_of_tasks_beyond_those_committed_are_left_over():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        TasksCommitted("mm2", 3),
        *(TaskStatus("mm2", number, condition("running")) for number in range(3)),
    )
    add_records(world, TasksCommitted("mm2", 1))
    assert connectors(world)["mm2"][1] == ("running",)
    add_records(world, TasksCommitted("mm2", 0))
    assert connectors(world)["mm2"][1] == ()


def test_a_deleted_connector_is_gone_with_its_offsets_and_its_flow():
    world = listing(ConnectorConfigured("mm2", MM2))
    world.commit("mm2", orders(), {"offset": 9})
    assert copied(world) == {0}
    add_records(world, ConnectorConfigured("mm2", None))
    snapshot = world.snapshot()
    assert (snapshot.connectors, snapshot.source_partitions, snapshot.mirror_partitions) == (
        (),
        (),
        (),
    )


def test_a_status_that_was_deleted_is_none():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        TasksCommitted("mm2", 1),
        ConnectorStatus("mm2", condition("failed")),
        TaskStatus("mm2", 0, condition("failed")),
    )
    add_records(world, ConnectorStatus("mm2", None), TaskStatus("mm2", 0, None))
    assert connectors(world) == {"mm2": ("unassigned", ("unassigned",))}


def test_an_unassigned_that_comes_first_overrides_nothing():
    world = listing(
        ConnectorConfigured("mm2", MM2), ConnectorStatus("mm2", condition("unassigned", 4))
    )
    assert connectors(world)["mm2"][0] == "unassigned"


def test_an_unassigned_of_an_older_generation_does_not_override():
    world = listing(
        ConnectorConfigured("mm2", MM2), ConnectorStatus("mm2", condition("running", 5))
    )
    add_records(world, ConnectorStatus("mm2", condition("unassigned", 4)))
    assert connectors(world)["mm2"][0] == "running"
    add_records(world, ConnectorStatus("mm2", condition("unassigned", 5)))
    assert connectors(world)["mm2"][0] == "unassigned"


def test_any_other_state_of_an_older_generation_does():
    """A worker group that begins anew begins to count anew."""
    world = listing(
        ConnectorConfigured("mm2", MM2), ConnectorStatus("mm2", condition("running", 5))
    )
    add_records(world, ConnectorStatus("mm2", condition("failed", 1)))
    assert connectors(world)["mm2"][0] == "failed"


def test_a_config_topic_read_again_forgets_what_is_gone():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        build_task(0, 0),
        TasksCommitted("mm2", 1),
        ConnectorConfigured("files", FILES),
    )
    world.tail(ListingRecord(ConnectorConfigured("files", FILES)), topic=CONFIGS, whole=True)
    assert set(connectors(world)) == {"files"}
    world.tail(ListingRecord(ConnectorConfigured("mm2", MM2)), topic=CONFIGS)
    assert copied(world) == set()


def test_a_config_topic_read_again_and_empty_leaves_no_connector():
    world = listing(ConnectorConfigured("mm2", MM2))
    world.commit("mm2", orders(), {"offset": 9})
    world.tail(topic=CONFIGS, whole=True)
    assert (connectors(world), with_offsets(world)) == ({}, set())


def test_a_status_topic_read_again_forgets_what_is_gone():
    world = listing(ConnectorConfigured("mm2", MM2), ConnectorStatus("mm2", condition("running")))
    world.tail(topic=STATUS, whole=True)
    assert connectors(world) == {"mm2": ("unassigned", ())}


def test_states_need_both_topics_to_be_live():
    world = listing(ConnectorConfigured("mm2", MM2))
    world.now += 15
    world.tail(topic=CONFIGS)
    world.now += 15
    world.tail(topic=CONFIGS)
    assert connectors(world) == {}
    world.tail(topic=STATUS)
    assert set(connectors(world)) == {"mm2"}


@pytest.mark.parametrize("held", [CONFIGS, STATUS])
def test_states_are_not_shown_while_a_transaction_may_hide_newer_ones(held):
    world = listing(ConnectorConfigured("mm2", MM2))
    world.tail(topic=held, frozen=(0,))
    assert connectors(world) == {}
    world.tail(topic=held)
    assert set(connectors(world)) == {"mm2"}


# --- what is copied -------------------------------------------------------------------------------


def test_what_its_tasks_were_given_is_what_it_copies():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        build_task(0, 0, 1),
        build_task(1, 2),
        TasksCommitted("mm2", 2),
    )
    assert copied(world) == {0, 1, 2}


def test_a_tombstone_of_a_commit_of_tasks_leaves_none():
    world = listing(ConnectorConfigured("mm2", MM2), build_task(0, 0), TasksCommitted("mm2", 1))
    assert connectors(world)["mm2"] == ("unassigned", ("unassigned",))
    add_records(world, TasksCommitted("mm2", None))
    assert connectors(world)["mm2"] == ("unassigned", ())


def test_connectors_are_listed_by_name_whichever_was_made_first():
    known = Listing()
    known.apply([ConnectorConfigured(name, FILES) for name in ("files", "archive", "jdbc")])
    assert [connector.name for connector in known.connectors()] == ["archive", "files", "jdbc"]


def test_tasks_that_are_not_committed_are_not_in_force():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        build_task(0, 0, 1),
        build_task(1, 2),
        TasksCommitted("mm2", 2),
    )
    add_records(world, build_task(0, 0))
    add_records(world, build_task(1, 1))
    assert copied(world) == {0, 1, 2}
    add_records(world, build_task(2, 2, 3), TasksCommitted("mm2", 3))
    assert copied(world) == {0, 1, 2, 3}


def test_tasks_beyond_those_committed_copy_nothing():
    world = listing(
        ConnectorConfigured("mm2", MM2),
        build_task(0, 0),
        build_task(1, 1),
        TasksCommitted("mm2", 2),
    )
    add_records(world, build_task(0, 0), TasksCommitted("mm2", 1))
    assert copied(world) == {0}


def test_a_stopped_connector_keeps_what_it_was_assigned():
    world = listing(ConnectorConfigured("mm2", MM2), build_task(0, 0, 1), TasksCommitted("mm2", 1))
    add_records(world, TasksCommitted("mm2", 0))
    assert copied(world) == {0, 1}


def test_where_a_tasks_share_is_not_known_nothing_is_said_of_what_is_copied():
    """What is left of it would leave out partitions that are."""
    world = listing(ConnectorConfigured("mm2", MM2), build_task(0, 0), TasksCommitted("mm2", 2))
    world.commit("mm2", orders(7), {"offset": 9})
    assert copied(world) == {7}
    world = listing(
        ConnectorConfigured("mm2", MM2), TaskConfigured("mm2", 0, None), TasksCommitted("mm2", 1)
    )
    world.commit("mm2", orders(7), {"offset": 9})
    assert copied(world) == {7}


def test_shares_beyond_the_limit_are_unknown_and_counted_and_room_is_used_again(monkeypatch):
    monkeypatch.setattr(topic_listing, "SHARES_MAX", 3)
    listing = Listing()
    listing.apply([build_task(0, 0, 1), TasksCommitted("mm2", 1)])
    listing.apply([build_task(0, 0, 1, name="more"), TasksCommitted("more", 1)])
    assert listing.assigned("mm2") == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert (listing.assigned("more"), listing.dropped) == (None, 1)
    listing.apply([ConnectorConfigured("mm2", None)])
    listing.apply([build_task(0, 0, 1, name="more"), TasksCommitted("more", 1)])
    assert (len(listing.assigned("more") or ()), listing.dropped) == (2, 1)


def test_a_new_connector_of_a_deleted_ones_name_inherits_neither_tasks_nor_partitions():
    world = listing(ConnectorConfigured("mm2", MM2), build_task(0, 0, 1), TasksCommitted("mm2", 1))
    add_records(world, ConnectorConfigured("mm2", None))
    add_records(world, ConnectorConfigured("mm2", MM2))
    assert connectors(world)["mm2"][1] == ()
    assert copied(world) == set()


def test_a_connector_deleted_and_recreated_in_one_batch_inherits_nothing():
    world = listing(ConnectorConfigured("mm2", MM2), build_task(0, 0, 1), TasksCommitted("mm2", 1))
    add_records(world, ConnectorConfigured("mm2", None), ConnectorConfigured("mm2", MM2))
    assert copied(world) == set()


def test_settings_that_change_are_followed():
    world = listing(ConnectorConfigured("mm2", MM2))
    settings = MM2.mirror
    assert isinstance(settings, MirrorSettings)
    (flow,) = world.snapshot().topology.flows
    assert flow.upstream == "west"
    far = mirror(source_addresses=frozenset({"far:9092"}), syncs_topic=None).mirror
    changed = ConnectorSettings(kind=MM2.kind, class_name=MM2.class_name, mirror=far)
    add_records(world, ConnectorConfigured("mm2", changed))
    (flow,) = world.snapshot().topology.flows
    assert flow.upstream is None


def test_a_status_topic_alone_is_no_list_of_connectors():
    world = restless()
    world.see(ListingTopicsFound(ListingTopics("lab", CONFIGS, STATUS)))
    world.commit("files", FILE, {"position": 1})
    world.tail(topic=STATUS, whole=True)
    world.tail_failed("denied", CONFIGS)
    assert with_offsets(world) == {"files"}


def test_without_rest_and_without_an_offsets_topic_nothing_is_ready():
    world = World(sites=(ConnectClusterSettings(name="lab", kafka="east", rest=False),))
    assert "tail lab: waiting for its offsets topic" in "; ".join(world.snapshot().waiting_for)


@pytest.mark.parametrize(
    ("bound", "beyond"),
    [
        ("CONNECTORS_MAX", ConnectorConfigured("more", FILES)),
        ("CONNECTORS_MAX", TasksCommitted("more", 1)),
        ("CONNECTORS_MAX", build_task(0, 0, name="more")),
        ("STATUSES_MAX", ConnectorStatus("more", condition("running"))),
        ("STATUSES_MAX", TaskStatus("mm2", 1, condition("running"))),
    ],
)
def test_more_than_can_be_kept_is_counted_and_what_is_kept_goes_on(bound, beyond, monkeypatch):
    monkeypatch.setattr(topic_listing, bound, 1)
    known = (
        ConnectorConfigured("mm2", MM2),
        build_task(0, 0),
        TasksCommitted("mm2", 1),
        ConnectorStatus("mm2", condition("running")),
        build_task(0, 0),
    )
    world = listing(*known)
    add_records(world, beyond, beyond)
    assert connectors(world) == {"mm2": ("running", ("unassigned",))}
    assert dict(world.snapshot().dropped)["listing"] == 2
    add_records(world, ConnectorStatus("mm2", condition("failed", 2)))
    assert connectors(world)["mm2"][0] == "failed"


def test_names_that_take_too_many_bytes_are_left_out_until_others_are_gone(monkeypatch):
    monkeypatch.setattr(topic_listing, "STATUSES_MAX", 100)
    known = Listing()
    names = [letter * 300_000 for letter in "abcde"]
    known.apply(ConnectorStatus(name, condition("running")) for name in names)
    known.apply(TasksCommitted(name, 1) for name in names)
    assert known.dropped == 4
    known.apply([TaskStatus(names[0], 0, condition("failed"))])
    assert known.dropped == 4
    known.apply([ConnectorStatus(names[1], None), ConnectorConfigured(names[1], None)])
    known.apply([ConnectorStatus(names[3], condition("running"))])
    assert known.dropped == 4
    known.apply([ConnectorStatus(names[4], condition("running"))])
    assert known.dropped == 5
