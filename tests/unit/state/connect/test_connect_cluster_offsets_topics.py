"""Connectors with an offsets topic of their own: Connect reads that topic alone, and so do we."""

from __future__ import annotations

from offsetwatch.model.observations import TAIL, InputId
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic
from offsetwatch.state.connect.connect_cluster import group_by_offsets_topic
from tests.changed import replace
from tests.unit.state.worlds import FILE, OFFSETS, STALE_S, World, mirror, orders, record, source

OWN = KafkaTopic("east", "own-offsets")
AWAY = KafkaTopic("west", "own-offsets")
OTHER = {"filename": "/data/other.txt"}


def own(name: str = "files", **changes):
    return source(name, **{"dedicated_offsets_topic": OWN.topic, **changes})


def moved() -> World:
    """`files` keeps its offsets in a topic of its own; both topics were read and are empty."""
    world = World()
    world.listed(own(), source("plain"))
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=OWN, whole=True)
    return world


def list_offsets(world: World) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    """(connector, file) -> (offset, shadow)."""
    return {
        (view.connector, view.label.removeprefix("filename=/data/")): (
            None if view.offset is None else view.offset.number("position"),
            None if view.shadow is None else view.shadow.number("position"),
        )
        for view in world.snapshot().source_partitions
    }


def test_the_value_is_that_of_its_own_topic_alone():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    world.commit("files", FILE, {"position": 7}, topic=OWN)
    world.commit("files", FILE, {"position": 41})
    assert list_offsets(world) == {("files", "in.txt"): (7, None)}


def test_what_only_the_clusters_topic_holds_has_no_offset_and_is_named_a_shadow():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    world.commit("files", OTHER, {"position": 50})
    world.commit("files", OTHER, {"position": 8}, topic=OWN)
    assert list_offsets(world) == {
        ("files", "in.txt"): (None, 40),
        ("files", "other.txt"): (8, None),
    }
    view = world.file()
    assert (view.log_offset, view.committed_at, view.commits) == (None, None, 0)


def test_what_its_own_topic_forgot_is_no_shadow():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    world.commit("files", FILE, {"position": 7}, topic=OWN)
    world.commit("files", FILE, None, topic=OWN)
    assert list_offsets(world) == {("files", "in.txt"): (None, None)}
    assert world.file().resets == 1


def test_a_shadow_and_an_offset_of_the_same_label_have_each_a_label_of_their_own():
    """A number and its text read alike."""
    world = moved()
    world.commit("files", {"n": 1}, {"position": 40})
    world.commit("files", {"n": "1"}, {"position": 7}, topic=OWN)
    labels = [view.label for view in world.snapshot().source_partitions]
    assert len(labels) == len(set(labels)) == 2


def test_other_connectors_of_the_cluster_are_not_searched_for_in_it():
    world = moved()
    world.commit("plain", FILE, {"position": 1})
    world.commit("plain", FILE, {"position": 2}, topic=OWN)
    assert list_offsets(world) == {("plain", "in.txt"): (1, None)}


def test_a_topic_of_its_own_that_is_the_clusters_behaves_as_if_it_were_not_named():
    world = World()
    world.listed(own(dedicated_offsets_topic=OFFSETS.topic))
    world.find_topic()
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 7})
    assert list_offsets(world) == {("files", "in.txt"): (7, None)}
    assert world.snapshot().topology.offsets_topics == (OffsetsTopic("lab", OFFSETS),)


def test_a_topic_on_a_kafka_cluster_that_is_configured_is_read_there():
    world = World()
    world.listed(own(offsets_addresses=frozenset({"west:9092"})))
    world.tail(topic=AWAY, whole=True)
    world.commit("files", FILE, {"position": 7}, topic=AWAY)
    assert list_offsets(world) == {("files", "in.txt"): (7, None)}
    assert world.snapshot().topology.tailed() == (AWAY,)


def test_a_topic_on_a_kafka_cluster_that_is_not_configured_is_elsewhere_and_left_to_rest():
    world = World()
    world.listed(own(offsets_addresses=frozenset({"far:9092"})), source("plain"))
    world.find_topic()
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 40})
    world.commit("plain", FILE, {"position": 1})
    assert list_offsets(world) == {("plain", "in.txt"): (1, None)}
    assert world.snapshot().topology.elsewhere == (("lab", "files"),)
    assert not world.snapshot().ready
    world.polled("files", (FILE, {"position": 50}))
    assert world.snapshot().ready
    assert {
        (view.connector, view.from_rest): view.offset.text
        for view in world.snapshot().source_partitions
    } == {("files", True): '{"position":50}', ("plain", False): '{"position":1}'}


def test_a_setting_that_changes_changes_the_values_at_once_and_mixes_nothing():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True)
    world.commit("files", FILE, {"position": 40})
    assert list_offsets(world) == {("files", "in.txt"): (40, None)}
    world.listed(own())
    assert list_offsets(world) == {}  # its own topic was not read yet
    world.tail(topic=OWN, whole=True)
    assert list_offsets(world) == {("files", "in.txt"): (None, 40)}
    world.commit("files", FILE, {"position": 1}, topic=OWN)
    assert list_offsets(world) == {("files", "in.txt"): (1, None)}
    world.listed(source("files"))
    assert list_offsets(world) == {("files", "in.txt"): (40, None)}
    world.commit("files", FILE, {"position": 2}, topic=OWN)  # from a tail that is about to end
    assert list_offsets(world) == {("files", "in.txt"): (40, None)}


def test_the_lag_of_a_flow_follows_its_topic():
    world = World()
    flow = mirror(syncs_topic=None)
    world.listed(flow)
    world.find_topic()
    world.tail(whole=True)
    world.commit("mm2", orders(), {"offset": 99})
    world.ends(100)
    assert world.mirrored().lag == 0
    world.listed(replace(flow, dedicated_offsets_topic=OWN.topic))
    assert world.mirrored() is None
    world.tail(record("mm2", orders(), {"offset": 9}, log_offset=0), topic=OWN, whole=True)
    assert (world.mirrored().committed, world.mirrored().lag) == (9, 90)


def test_where_all_have_topics_of_their_own_the_cluster_needs_none_to_be_ready():
    world = World()
    world.listed(own(), own("more"))
    assert "own-offsets" in "; ".join(world.snapshot().waiting_for)
    world.tail(topic=OWN, whole=True)
    assert world.snapshot().waiting_for == ()
    world.commit("more", FILE, {"position": 7}, topic=OWN)
    assert list_offsets(world) == {("more", "in.txt"): (7, None)}


def test_several_connectors_share_one_topic_and_one_tail():
    world = World()
    world.listed(own("a"), own("b"))
    world.tail(topic=OWN, whole=True)
    world.commit("a", FILE, {"position": 1}, topic=OWN)
    world.commit("b", FILE, {"position": 2}, topic=OWN)
    assert list_offsets(world) == {("a", "in.txt"): (1, None), ("b", "in.txt"): (2, None)}
    assert world.snapshot().topology.tailed() == (OWN,)
    world.listed(own("b"))
    assert list_offsets(world) == {("b", "in.txt"): (2, None)}


def test_a_topic_that_is_not_read_to_its_end_hides_its_connector_alone():
    world = World()
    world.listed(own(), source("plain"))
    world.find_topic()
    world.tail(whole=True)
    world.commit("plain", FILE, {"position": 1})
    world.tail(record("files", FILE, {"position": 9}, log_offset=0), topic=OWN, caught_up=False)
    assert list_offsets(world) == {("plain", "in.txt"): (1, None)}


def test_a_topic_that_goes_stale_hides_its_connector_alone():
    world = moved()
    world.commit("plain", FILE, {"position": 1})
    world.commit("files", FILE, {"position": 9}, topic=OWN)
    world.now += STALE_S[TAIL] + 1
    world.tail()
    assert list_offsets(world) == {("plain", "in.txt"): (1, None)}


def test_a_shadow_needs_both_topics_to_be_read():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    assert list_offsets(world) == {("files", "in.txt"): (None, 40)}
    world.now += STALE_S[TAIL] + 1
    world.tail(topic=OWN)
    assert list_offsets(world) == {}


def test_nothing_is_called_a_shadow_while_a_transaction_may_hide_its_offset():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    world.tail(topic=OWN, frozen=(0,))
    assert list_offsets(world) == {}
    world.commit("files", FILE, {"position": 7}, topic=OWN)
    assert list_offsets(world) == {("files", "in.txt"): (7, None)}


def test_a_topic_that_another_cluster_has_read_already_is_read_again_for_the_second():
    """What its tail has read until now went to the first alone."""
    world = World(sites=("one", "two"))
    world.listed(own("a"), cluster="one")
    world.listed(cluster="two")
    old = record("b", FILE, {"position": 5}, log_offset=0, live=False)
    world.tail(old, topic=OWN, whole=True)
    world.listed(own("b"), cluster="two")
    world.commit("b", OTHER, {"position": 6}, topic=OWN)
    assert list_offsets(world) == {}
    world.tail_ended(OWN)
    world.tail(old, topic=OWN, whole=True)
    assert list_offsets(world) == {("b", "in.txt"): (5, None)}


def test_the_truth_check_compares_with_the_connectors_own_topic():
    world = moved()
    world.commit("files", FILE, {"position": 40})
    world.commit("files", FILE, {"position": 7}, topic=OWN)
    world.commit("files", OTHER, {"position": 50})
    identity = world.file().identity
    shadow = world.partitions()["files", "filename=/data/other.txt"].identity
    world.rest_offsets("files", {identity: '{"position":7}', shadow: None})
    world.now += 200
    world.tail()
    world.tail(topic=OWN)
    assert world.offsets_differ() == 0
    world.rest_offsets("files", {identity: '{"position":40}'})
    world.now += 200
    world.tail()
    world.tail(topic=OWN)
    assert world.offsets_differ() == 1


def test_a_topic_that_does_not_exist_yet_is_not_waited_for():
    world = World()
    world.listed(own())
    world.tail_failed("not_found", OWN)
    assert world.snapshot().waiting_for == ("rest_offsets lab/files: waiting for a first attempt",)
    world.poll_failed("files")
    assert world.snapshot().waiting_for == ()
    assert InputId.of_tail(OWN) in {view.id for view in world.snapshot().inputs}


def test_what_rest_said_of_a_topic_that_was_left_since_is_compared_with_nothing():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=OWN, whole=True)
    world.commit("files", FILE, {"position": 40})
    world.rest_offsets("files", {world.file().identity: '{"position":41}'})
    world.listed(own())
    for _ in range(20):
        world.now += 10
        world.tail()
        world.tail(topic=OWN)
        world.snapshot()
    assert world.offsets_differ() == 0


# --- offsets topics ------------------------------------------------------------------------------

HOME, OWN_TOPIC = KafkaTopic("east", "connect-offsets"), KafkaTopic("east", "files-offsets")


def test_each_connector_is_where_its_offsets_are_and_who_has_none_is_left_out():
    names, dedicated = frozenset({"a", "b", "c"}), {"b": OWN_TOPIC, "c": None}
    reports = group_by_offsets_topic(names, dedicated, HOME)
    assert reports == ((HOME, frozenset({"a"})), (OWN_TOPIC, frozenset({"b"})))
    assert group_by_offsets_topic(names, dedicated, None) == ((OWN_TOPIC, frozenset({"b"})),)


def test_topics_are_reported_in_order():
    dedicated = {name: KafkaTopic("east", f"offsets-{name}") for name in "gcaehbfd"}
    reports = group_by_offsets_topic(frozenset(dedicated), dedicated, HOME)
    assert [topic.topic[-1] for topic, _ in reports] == [*"abcdefgh"]


def test_a_topic_that_only_a_config_provider_knows_is_not_read_under_that_name():
    world = moved()
    world.listed(own(dedicated_offsets_topic="${file:/c.properties:offsets}"), source("plain"))
    world.commit("files", FILE, {"position": 40})
    assert [topic.at for topic in world.snapshot().topology.offsets_topics] == [OFFSETS]
    assert world.snapshot().topology.elsewhere == (("lab", "files"),)
    assert ("files", "in.txt") not in list_offsets(world)
