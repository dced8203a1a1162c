"""One Connect cluster by itself: which topics it hears, and what it says where it knows nothing."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import (
    ConfigRecord,
    Connector,
    ConnectorConfigured,
    ConnectorStatus,
    StatusRecord,
    TaskStatus,
)
from offsetwatch.model.observations import (
    CONNECT_REST,
    BrokerAddressesRead,
    ConnectorsListed,
    InputFailed,
    InputId,
    InputSucceeded,
    ListingRecord,
    ListingTopicsFound,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.topology import KafkaTopic, ListingTopics, OffsetsTopic, TopicPartition
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings, ConnectClusterState
from offsetwatch.state.connect.state_history import LOST_STATUS_S
from offsetwatch.state.inputs import Inputs
from tests.changed import replace
from tests.unit.state.connect.test_topic_listing import CONFIGS, FILES, MM2, STATUS, condition
from tests.unit.state.worlds import FILE, NOW, OFFSETS, STALE_S, World, mirror, record, source

OWN, MORE = KafkaTopic("east", "own-offsets"), KafkaTopic("east", "more-offsets")
ADDRESSES = {"east": frozenset({"east:9092"})}
TRANSLATOR = replace(
    mirror("ckpt"), class_name="org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
)


def build_state(inputs: Inputs | None = None, **changes) -> ConnectClusterState:
    of = ConnectClusterSettings(**{"name": "lab", "kafka": "east", **changes})
    return ConnectClusterState(of, Inputs(STALE_S) if inputs is None else inputs, 100)


def with_connectors(*connectors: Connector, inputs: Inputs | None = None) -> ConnectClusterState:
    cluster = build_state(inputs)
    cluster.home = OFFSETS
    cluster.enlist(connectors)
    cluster.settle(ADDRESSES)
    return cluster


def restless(*, configs: KafkaTopic | None = CONFIGS, status: KafkaTopic | None = STATUS) -> World:
    """One Connect cluster without a REST API, which is to be listed from these topics."""
    world = World(sites=(ConnectClusterSettings(name="lab", kafka="east", rest=False),))
    world.find_topic()
    world.tail(whole=True)
    world.see(ListingTopicsFound(ListingTopics("lab", configs, status)))
    return world


def own(name: str, topic: KafkaTopic = OWN, **changes) -> Connector:
    return source(name, dedicated_offsets_topic=topic.topic, **changes)


def read(topic: KafkaTopic, *says: ConfigRecord | StatusRecord, whole: bool = False) -> TailRead:
    return tail(topic, tuple(ListingRecord(say) for say in says), whole=whole)


def tail(
    topic: KafkaTopic,
    records: tuple[ListingRecord, ...] | tuple[SourceRecord, ...] = (),
    *,
    whole: bool = False,
) -> TailRead:
    return TailRead(
        input=InputId.of_tail(topic),
        topic=topic,
        at=NOW,
        records=records,
        positions=(),
        caught_up=True,
        behind=0,
        as_of=NOW,
        whole=whole,
    )


def listed(cluster: ConnectClusterState) -> list[str]:
    return [connector.name for connector in cluster.listed or ()]


# --- its connectors ------------------------------------------------------------------------------


def test_a_list_that_is_reported_again_leaves_what_was_made_of_it():
    cluster, connectors = build_state(), (source("files"), source("more"))
    cluster.enlist(connectors)
    names, results = cluster.names(), cluster.listed
    cluster.enlist(connectors)
    assert cluster.listed is results
    assert cluster.names() is names


def test_of_connectors_that_have_gone_no_shadows_are_retained():
    world = World()
    world.listed(own("files"))
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=OWN, whole=True)
    world.commit("files", FILE, {"position": 40})
    assert world.file().shadow is not None
    cluster = world.book._clusters["lab"]
    assert set(cluster._superseded) == {"files"}
    world.listed()
    assert cluster._superseded == {}


def test_topics_of_their_own_and_what_is_elsewhere_are_reported_by_connector():
    far = {"offsets_addresses": frozenset({"far:9092"})}
    listed = (own("z"), own("a", MORE), own("y", **far), own("b", **far))
    cluster = with_connectors(*listed)
    assert cluster.topics() == (
        OffsetsTopic("lab", OFFSETS),
        OffsetsTopic("lab", MORE, "a"),
        OffsetsTopic("lab", OWN, "z"),
    )
    assert cluster.elsewhere() == (("lab", "b"), ("lab", "y"))


def test_shadows_are_reported_by_connector():
    world = World()
    world.listed(own("z"), own("a"))
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=OWN, whole=True)
    for name in ("z", "a"):
        world.commit(name, FILE, {"position": 40})
    assert [view.connector for view in world.snapshot().source_partitions] == ["a", "z"]


def test_its_mirrored_partitions_are_not_summed_up_unless_that_is_requested():
    assert not build_state().of.by_topic


# --- topics that it shares with others -----------------------------------------------------------


def test_a_topic_whose_tail_has_failed_so_far_is_as_new_to_it_as_any():
    inputs = Inputs(STALE_S)
    inputs.apply(InputFailed(InputId.of_tail(OWN), "denied", "no ACL"))
    cluster = with_connectors(own("files"), inputs=inputs)
    observed = tail(OWN, (record("files", FILE, {"position": 7}, log_offset=1, live=False),))
    inputs.of(observed.input).read(observed)
    cluster.apply(observed, NOW)
    (view,) = cluster.views(NOW)
    assert view.offset is not None
    assert view.offset.number("position") == 7


def test_nothing_is_called_a_shadow_while_its_own_topic_was_read_for_another_cluster_alone():
    """The offset may be among what that cluster was told, and this one was not."""
    world = World(sites=("one", "two"))
    world.listed(own("a"), cluster="one")
    world.tail(record("b", FILE, {"position": 5}, log_offset=0, live=False), topic=OWN, whole=True)
    world.listed(own("b"), cluster="two")
    world.find_topic(cluster="two")
    world.tail(whole=True)
    world.commit("b", FILE, {"position": 40})
    assert world.snapshot().source_partitions == ()


# --- status topics -------------------------------------------------------------------------------


def test_only_where_there_is_a_rest_api_and_no_name_is_given_a_status_topic_is_searched_for():
    topic = KafkaTopic("east", "connect-status")
    for cluster, another in (
        (build_state(), True),
        (build_state(rest=False), False),
        (build_state(status=topic), False),
        (build_state(status=STATUS), False),
    ):
        cluster.home = OFFSETS
        assert cluster.find_status_topic(frozenset({topic})) is another
        assert cluster.find_status_topic(frozenset({topic})) is False


def test_without_a_rest_api_no_status_topic_is_read_beside_those_that_list_connectors():
    assert build_state(rest=False, status=STATUS).status_topics() == ()
    assert len(build_state(status=STATUS).status_topics()) == 1


def test_of_a_cluster_without_a_rest_api_the_topic_that_lists_states_reports_their_histories():
    world = restless()
    says = ListingRecord(ConnectorStatus("mm2", condition("running")), at=NOW)
    world.tail(says, topic=STATUS, whole=True)
    (history,) = world.snapshot().histories
    assert [change.state for change in history.changes] == ["running"]


@pytest.mark.parametrize(("state", "exists"), [("running", True), ("unassigned", False)])
def test_a_hidden_connector_without_a_status_is_deleted_only_after_its_release(state, exists):
    world = World(sites=(ConnectClusterSettings("lab", "east", status=STATUS),))
    listed = ConnectorsListed("lab", (source("files"),), frozenset({"files"}))
    hidden = ConnectorsListed("lab", (), frozenset())
    rest = InputId(CONNECT_REST, connect_cluster="lab")
    world.see(listed)
    for value in (condition(state), None):
        says = ListingRecord(ConnectorStatus("files", value), at=NOW)
        world.tail(says, topic=STATUS, whole=value is not None)
    for world.now in (NOW + 1.0, NOW + 2.0, NOW + LOST_STATUS_S - 1.0):
        world.tail(topic=STATUS)
        world.see(hidden, InputSucceeded(rest, world.now))
        assert bool(world.snapshot().connectors) is exists
    world.now = NOW + LOST_STATUS_S
    world.tail(topic=STATUS)
    world.see(hidden, InputSucceeded(rest, world.now))
    assert world.snapshot().connectors == ()


def translating() -> ConnectClusterState:
    """It has a MirrorCheckpointConnector, whose tasks are known."""
    cluster = build_state(status=STATUS)
    cluster.enlist((TRANSLATOR, source("files")))
    assert cluster.checkpoint_tasks_changed()
    return cluster


def test_whatever_becomes_of_a_checkpoint_task_has_changed_it_in_whichever_company_it_is_reported():
    cluster, failed = translating(), condition("failed")
    assert not cluster.checkpoint_tasks_changed()
    cluster.apply(read(STATUS, TaskStatus("files", 0, failed), TaskStatus("ckpt", 0, failed)), NOW)
    assert cluster.checkpoint_tasks_changed()
    assert not cluster.checkpoint_tasks_changed()


def test_what_becomes_of_others_and_of_the_connector_itself_changes_no_checkpoint_task():
    cluster, failed = translating(), condition("failed")
    cluster.apply(
        read(STATUS, TaskStatus("files", 0, failed), ConnectorStatus("ckpt", failed)), NOW
    )
    assert not cluster.checkpoint_tasks_changed()


def test_a_connector_of_another_kind_has_no_checkpoint_tasks_whatever_its_class_is_called():
    cluster = build_state()
    cluster.enlist((source("files", class_name="org.example.MirrorCheckpointFiles"),))
    assert not cluster.checkpoint_tasks_changed()


# --- listed from its own topics ------------------------------------------------------------------


def test_another_clusters_topics_list_none_of_its_connectors():
    cluster = build_state(rest=False)
    cluster.listing_topics = ListingTopics("lab", CONFIGS, STATUS)
    cluster.apply(read(CONFIGS, ConnectorConfigured("mm2", MM2), whole=True), NOW)
    other = KafkaTopic("east", "other-configs")
    assert cluster.apply(read(other, ConnectorConfigured("files", FILES), whole=True), NOW) is False
    cluster.apply(read(CONFIGS, ConnectorConfigured("more", FILES)), NOW)
    assert listed(cluster) == ["mm2", "more"]


def test_a_config_topic_that_is_read_again_leaves_the_states():
    cluster = build_state(rest=False)
    cluster.listing_topics = ListingTopics("lab", CONFIGS, STATUS)
    cluster.apply(read(STATUS, ConnectorStatus("mm2", condition("running")), whole=True), NOW)
    for _ in range(2):
        cluster.apply(read(CONFIGS, ConnectorConfigured("mm2", MM2), whole=True), NOW)
        assert [item.state for item in cluster.listed] == ["running"]


def test_until_the_config_topic_was_read_whole_there_is_no_list():
    cluster = build_state(rest=False)
    cluster.listing_topics = ListingTopics("lab", CONFIGS, STATUS)
    assert cluster.apply(read(CONFIGS), NOW) is False
    assert cluster.apply(read(CONFIGS, ConnectorConfigured("mm2", MM2)), NOW) is False
    assert cluster.listed is None


def test_a_read_of_nothing_lists_nothing_again():
    cluster = build_state(rest=False)
    cluster.listing_topics = ListingTopics("lab", CONFIGS, STATUS)
    assert cluster.apply(read(CONFIGS, ConnectorConfigured("mm2", MM2), whole=True), NOW) is True
    results = cluster.listed
    assert cluster.apply(read(CONFIGS), NOW) is False
    assert cluster.listed is results


def test_states_are_not_shown_where_only_the_config_topic_can_be_had():
    world = restless(status=None)
    world.tail(ListingRecord(ConnectorConfigured("mm2", MM2)), topic=CONFIGS, whole=True)
    snapshot = world.snapshot()
    assert snapshot.connectors == ()
    assert [flow.connector for flow in snapshot.topology.flows] == ["mm2"]


def test_a_config_topic_that_may_yet_be_read_is_waited_for():
    world = restless()
    world.commit("files", FILE, {"position": 1})
    world.tail_failed("unreachable", CONFIGS)
    assert world.snapshot().source_partitions == ()
    world.tail_failed("not_found", CONFIGS)
    assert len(world.snapshot().source_partitions) == 1


# --- what it says where it knows nothing ---------------------------------------------------------


def test_without_a_connector_list_no_connector_is_gone():
    cluster = build_state()
    assert not cluster.gone("files")
    cluster.enlist((source("more"),))
    assert cluster.gone("files")


def test_with_an_unknown_topic_no_offset_of_a_connector_is_certain_or_denied():
    cluster = build_state()
    cluster.enlist((source("files"),))
    assert not cluster.uncommitted("files", "west", TopicPartition("orders", 0))
    assert cluster.agrees("files", "identity", "text")


def test_nothing_is_reported_of_what_became_of_connectors_that_are_left_out():
    inputs = Inputs(STALE_S)
    cluster = build_state(inputs, status=STATUS, wants_connector=lambda name: name == "files")
    says = [ConnectorStatus(name, condition("running")) for name in ("files", "left-out")]
    report = read(STATUS, *says, whole=True)
    inputs.of(report.input).read(report)
    cluster.apply(report, NOW)
    assert [history.connector for history in cluster.histories(NOW)] == ["files"]
    assert cluster.histories(NOW) is cluster.histories(NOW)


def test_the_id_of_its_own_kafka_cluster_says_which_connect_cluster_is_meant():
    world = World()
    listed = ConnectorsListed("lab", (source("files"),), frozenset({"files"}), "id-of-another")
    world.see(listed)
    world.see(BrokerAddressesRead("west", frozenset({"west:9092"}), "id-of-another"))
    world.see(BrokerAddressesRead("east", frozenset({"east:9092"}), "id-of-east"))
    world.see(replace(listed, kafka_cluster_id="id-of-east"))
    (view,) = world.snapshot().lists
    assert view.kafka_cluster_ids == ("id-of-east", None)
