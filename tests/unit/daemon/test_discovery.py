"""Where each Connect cluster keeps its offsets: found, lost, found again."""

from __future__ import annotations

import pytest

from offsetwatch.config import parse
from offsetwatch.daemon.discovery import COMPARE_S, RETRY_MAX_S, RETRY_S, Discovery
from offsetwatch.errors import TargetUnreachable
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.observations import (
    TAIL,
    InputFailed,
    InputId,
    InputRetired,
    ListingTopicsFound,
    OffsetsTopicCompared,
    OffsetsTopicFound,
    OffsetsTopicLost,
)
from offsetwatch.model.topology import KafkaTopic, ListingTopics, MirrorFlow
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    ConnectorView,
    InputView,
    MirrorPartitionView,
    RestConnector,
    Snapshot,
)
from tests.changed import replace
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader
from tests.unit.serve.worlds import FORGOTTEN

IDENTITY = "IdentityReplicationPolicy"
LOOKING = InputId(TAIL, connect_cluster="lab")
SURE = OffsetsTopicCompared("lab", None)
SURE_OF_MM2 = OffsetsTopicCompared("mm2", None)
REST = {"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}


def key(connector: str) -> bytes:
    return b'["%s",{"filename":"/a"}]' % connector.encode()


class World:
    """A Kafka cluster `east`, a loop that takes batches or does not, and connectors as listed."""

    def __init__(self, *connects: dict) -> None:
        self.clock = VirtualClock()
        self.kafka = FakeKafka("east", self.clock)
        self.takes = True
        self.put: list = []
        self.snapshot: Snapshot = EMPTY_SNAPSHOT
        config = parse(
            {"kafka": {"east": {"bootstrap": "127.0.0.1:1"}}, "connect": list(connects or (REST,))},
            {},
        )
        self.discovery = Discovery(
            config,
            {"east": FakeAdmin(self.kafka)},
            lambda _: FakeReader(self.kafka),
            self._put,
            self.clock,
        )

    def _put(self, batch) -> bool:
        if self.takes:
            self.put.extend(batch)
        return self.takes

    def lists(self, *names: str, cluster: str = "lab", dedicated: str | None = None) -> None:
        views = tuple(
            ConnectorView(cluster, name, ConnectorKind.SOURCE, "X", "1", "running", (), dedicated)
            for name in names
        )
        others = tuple(
            connector
            for connector in self.snapshot.connectors
            if connector.connect_cluster != cluster
        )
        self.snapshot = replace(self.snapshot, connectors=others + views)

    def tails(self, topic: str, *, reason: str | None, live: bool) -> None:
        """What is known of the input of this topic."""
        view = InputView(
            id=InputId(TAIL, kafka="east", topic=topic),
            up=reason is None,
            live=live,
            last_success_at=None,
            errors=(),
            last_error=None,
            tail=None,
            last_reason=reason,
        )
        self.snapshot = replace(self.snapshot, inputs=(view,))

    def topic(self, name: str, *connectors: str) -> None:
        self.kafka.create(name)
        for connector in connectors:
            self.kafka.produce(name, key(connector), b'{"position":1}')

    def step(self, *, after_s: float = RETRY_S + 1) -> list:
        """What discovery tells the loop, at its next look."""
        self.clock.advance(after_s)
        self.put.clear()
        self.discovery.step(self.snapshot)
        return list(self.put)


def build_observation(topic: str, cluster: str = "lab") -> OffsetsTopicFound:
    return OffsetsTopicFound(connect_cluster=cluster, topic=KafkaTopic("east", topic))


def test_the_one_topic_with_offsets_of_its_connectors_is_found_once():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.topic("other", "stranger")
    assert world.step() == [InputRetired(LOOKING), build_observation("offsets")]
    assert world.step() == []


def test_nothing_is_searched_for_without_a_connector_that_needs_it():
    world = World()
    assert world.step() == []
    world.lists("files", dedicated="own")
    assert world.step() == []


def test_why_nothing_is_found_is_said_and_it_is_searched_for_again():
    world = World()
    world.lists("files")
    (failed,) = world.step()
    assert isinstance(failed, InputFailed)
    assert (failed.input, failed.reason) == (LOOKING, "topic_not_settled")
    assert world.step(after_s=1) == []  # not every second
    world.topic("offsets", "files")
    assert world.step() == [InputRetired(LOOKING), build_observation("offsets")]


def searches(world: World, seconds: int) -> int:
    """How often it is looked for, asked every second."""
    return sum(bool(world.step(after_s=1)) for _ in range(seconds))


def test_where_no_topic_has_its_offsets_it_is_searched_for_ever_more_seldom():
    world = World()
    world.lists("files")
    assert searches(world, 60) >= 4
    searches(world, 1000)
    assert searches(world, 3000) == 3000 / RETRY_MAX_S
    world.topic("offsets", "files")
    assert searches(world, int(RETRY_MAX_S)) == 1


@pytest.mark.parametrize("change", ["another connector", "an offset over REST"])
def test_other_evidence_has_it_searched_for_at_once(change):
    world = World()
    world.lists("files")
    searches(world, 1000)
    if change == "another connector":
        world.lists("files", "more")
    else:
        by_rest = (RestConnector("lab", "files"),)
        partitions = (replace(FORGOTTEN, connect_cluster="lab", connector="files"),)
        world.snapshot = replace(world.snapshot, by_rest=by_rest, source_partitions=partitions)
    assert world.step(after_s=1) != []
    assert searches(world, 60) >= 3


def test_a_broker_that_is_away_is_queried_again_soon():
    world = World()
    world.lists("files")
    world.kafka.down = TargetUnreachable("east", "no broker")
    searches(world, 1000)
    assert searches(world, 60) >= 60 / (RETRY_S + 1)


def test_what_the_loop_did_not_take_is_reported_again():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.takes = False
    assert world.step() == []
    world.takes = True
    assert world.step() == [InputRetired(LOOKING), build_observation("offsets")]


def test_a_topic_that_is_deleted_is_lost_and_found_again_under_another_name():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.step()
    world.kafka.delete("offsets")
    world.topic("offsets-2", "files")
    world.tails("offsets", reason="not_found", live=False)
    assert world.step() == [OffsetsTopicLost("lab")]
    assert world.step() == [InputRetired(LOOKING), build_observation("offsets-2")]


def test_a_topic_that_was_not_found_once_is_not_lost_while_it_was_read_a_moment_ago():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.step()
    world.tails("offsets", reason="not_found", live=True)
    assert world.step() == []


@pytest.mark.parametrize("reason", [None, "unreachable", "denied"])
def test_a_topic_that_fails_otherwise_is_not_lost(reason):
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.step()
    world.tails("offsets", reason=reason, live=False)
    assert world.step() == []


def test_a_loss_that_the_loop_did_not_take_is_reported_again():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.step()
    world.tails("offsets", reason="not_found", live=False)
    world.takes = False
    assert world.step() == []
    world.takes = True
    assert world.step() == [OffsetsTopicLost("lab")]


def build_settled() -> World:
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    world.step()
    return world


def test_a_topic_that_was_found_is_searched_for_again_every_five_minutes():
    world = build_settled()
    assert world.step() == []
    assert world.step(after_s=COMPARE_S) == [SURE]
    assert world.step() == []
    assert world.step(after_s=COMPARE_S) == [SURE]


def test_a_second_topic_with_its_offsets_is_a_doubt_and_what_was_found_stays():
    world = build_settled()
    world.topic("more-offsets", "files")
    (report,) = world.step(after_s=COMPARE_S)
    assert isinstance(report, OffsetsTopicCompared)
    assert "more-offsets, offsets" in str(report.doubt)
    world.kafka.delete("more-offsets")
    assert world.step(after_s=COMPARE_S) == [SURE]


def test_another_topic_with_its_offsets_while_the_sample_has_none_is_a_doubt_too():
    world = build_settled()
    world.kafka.delete("offsets")
    world.topic("offsets", "other")
    world.topic("more-offsets", "files")
    (report,) = world.step(after_s=COMPARE_S)
    assert report.doubt == (
        "east/more-offsets holds offsets of these connectors, and a sample of east/offsets none"
    )


def test_a_sample_without_its_offsets_is_no_doubt():
    world = build_settled()
    world.kafka.delete("offsets")
    world.topic("offsets", "other")
    assert world.step(after_s=COMPARE_S) == [SURE]


def test_a_topic_that_turns_out_to_be_a_copy_is_left_for_the_one_that_is_none():
    world = World()
    world.lists("files")
    world.topic("west.connect-offsets", "files")
    assert world.step() == [InputRetired(LOOKING), build_observation("west.connect-offsets")]
    world.topic("connect-offsets", "files")
    assert world.step(after_s=COMPARE_S) == [OffsetsTopicLost("lab")]
    assert world.step() == [InputRetired(LOOKING), build_observation("connect-offsets")]


def copies(world: World, topic: str, *, policy: str = IDENTITY, committed: int | None = 5) -> None:
    """A flow from `west` to the Kafka cluster of `lab` has copied this topic."""
    flow = MirrorFlow(
        "lab", "mm2", "west", "east", "west-kafka", None, downstream="east", policy=policy
    )
    view = MirrorPartitionView(
        connect_cluster="lab",
        connector="mm2",
        source="west",
        target="east",
        topic=topic,
        partition=0,
        committed=committed,
        committed_at=None,
        synced=None,
        replicated=committed,
        log_start=None,
        log_end=None,
        lag=None,
        ahead=None,
    )
    topology = replace(world.snapshot.topology, flows=(flow,))
    world.snapshot = replace(world.snapshot, topology=topology, mirror_partitions=(view,))


def test_a_topic_into_which_a_flow_copies_under_its_own_name_is_doubted_as_it_is_found():
    world = World()
    world.lists("files")
    world.topic("offsets", "files")
    copies(world, "offsets")
    retired, there, report = world.step()
    assert (retired, there) == (InputRetired(LOOKING), build_observation("offsets"))
    assert report.doubt.startswith(
        "mm2 of lab copies offsets of west-kafka into east/offsets: offsets of another "
    )


def test_a_topic_into_which_a_flow_begins_to_copy_is_doubted_at_the_next_comparison():
    world = build_settled()
    copies(world, "offsets")
    (report,) = world.step(after_s=COMPARE_S)
    assert "copies offsets of west-kafka into east/offsets" in report.doubt
    copies(world, "orders")
    assert world.step(after_s=COMPARE_S) == [SURE]


@pytest.mark.parametrize(
    "copied", [{"policy": "DefaultReplicationPolicy"}, {"committed": None}], ids=str
)
def test_a_topic_of_which_copies_have_another_name_or_there_are_none_is_not_doubted(copied):
    world = build_settled()
    copies(world, "offsets", **copied)
    assert world.step(after_s=COMPARE_S) == [SURE]


def test_a_topic_that_is_named_is_reported_at_once_and_never_lost():
    world = World({**REST, "offsets_topic": "offsets"})
    world.takes = False
    assert world.step() == []
    world.takes = True
    assert world.step(after_s=0) == [build_observation("offsets"), SURE]
    world.tails("offsets", reason="not_found", live=False)
    assert world.step() == []


def test_a_topic_of_another_cluster_is_not_taken_for_its_own():
    world = World(REST, {**REST, "name": "prod"})
    world.lists("files")
    world.topic("offsets", "files")
    assert world.step() == [InputRetired(LOOKING), build_observation("offsets")]
    world.lists("files", cluster="prod")
    (failed,) = world.step()
    assert (failed.input, failed.reason) == (
        InputId(TAIL, connect_cluster="prod"),
        "topic_not_settled",
    )
    assert "lab's" in failed.detail


def test_two_clusters_find_each_its_own():
    world = World(REST, {**REST, "name": "prod"})
    world.lists("files")
    world.lists("more", cluster="prod")
    world.topic("offsets", "files")
    world.topic("prod-offsets", "more")
    observed = world.step()
    assert build_observation("offsets") in observed
    assert build_observation("prod-offsets", "prod") in observed


def test_a_clock_that_is_set_back_does_not_stop_the_search():
    world = World()
    world.lists("files")
    world.step()
    world.topic("offsets", "files")
    assert world.step(after_s=-3600.0) == [InputRetired(LOOKING), build_observation("offsets")]


# --- without a REST API ---------------------------------------------------------------------------

DEDICATED = {"name": "mm2", "kafka": "east", "offsets_topic": "mm2-offsets.west.internal"}
BY_CONVENTION = ListingTopics(
    "mm2",
    KafkaTopic("east", "mm2-configs.west.internal"),
    KafkaTopic("east", "mm2-status.west.internal"),
)


def test_the_topics_beside_the_offsets_topic_are_found_when_both_are_there():
    world = World(DEDICATED)
    assert world.step() == [build_observation("mm2-offsets.west.internal", "mm2"), SURE_OF_MM2]
    world.topic("mm2-configs.west.internal")
    assert world.step() == []
    world.topic("mm2-status.west.internal")
    assert world.step(after_s=1) == []  # not every second
    assert world.step() == [ListingTopicsFound(BY_CONVENTION)]
    assert world.step() == []


def test_topics_that_the_loop_did_not_take_are_reported_again():
    world = World(DEDICATED)
    world.topic("mm2-configs.west.internal")
    world.topic("mm2-status.west.internal")
    world.takes = False
    world.step()
    world.takes = True
    assert ListingTopicsFound(BY_CONVENTION) in world.step()


def test_topics_that_are_named_need_no_convention_and_no_answer():
    world = World({**DEDICATED, "config_topic": "c"})
    world.kafka.down = TargetUnreachable("east", "no broker")
    assert ListingTopicsFound(ListingTopics("mm2", KafkaTopic("east", "c"), None)) in world.step()


def test_a_cluster_that_does_not_answer_is_queried_again():
    world = World(DEDICATED)
    world.topic("mm2-configs.west.internal")
    world.topic("mm2-status.west.internal")
    world.kafka.down = TargetUnreachable("east", "no broker")
    assert world.step() == [build_observation("mm2-offsets.west.internal", "mm2"), SURE_OF_MM2]
    world.kafka.down = None
    assert world.step() == [ListingTopicsFound(BY_CONVENTION)]


def test_a_name_that_follows_no_convention_leaves_the_keys():
    world = World({**DEDICATED, "offsets_topic": "progress"})
    assert world.step() == [build_observation("progress", "mm2"), SURE_OF_MM2]
    assert world.step() == []
