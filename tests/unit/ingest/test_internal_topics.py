import pytest

from offsetwatch.errors import TargetUnreachable
from offsetwatch.ingest import internal_topics
from offsetwatch.ingest.internal_topics import TopicMemory, poll_topic_facts, read_topic_facts
from offsetwatch.model.observations import TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, OffsetsTopic, Topology
from offsetwatch.state.internal_topics import FACTS_EVERY_S, find_topic_problems
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.fakes.facts import FakeFacts, Readers, TopicTraits
from tests.fakes.kafka import FakeKafka

OFFSETS = "connect-offsets"
HOMES = {"lab": "east"}
SNAPSHOT = replace(
    EMPTY_SNAPSHOT,
    topology=Topology(offsets_topics=(OffsetsTopic("lab", KafkaTopic("east", OFFSETS)),), flows=()),
)


class Cluster:
    """A cluster with an offsets topic, and what one round says of it."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create(OFFSETS, 2)
        self.admin = FakeFacts(self.kafka)
        self.readers = Readers(self.kafka)
        self.memory = TopicMemory()

    def read(self, role: InternalTopicRole = InternalTopicRole.OFFSETS):
        topic_facts = read_topic_facts(
            self.admin, self.readers, {OFFSETS: role}, self.memory, self.kafka.clock
        )
        return {facts.at.topic: facts for facts in topic_facts}

    def poll(self, snapshot=SNAPSHOT):
        return poll_topic_facts(
            self.admin, self.readers, snapshot, HOMES, self.memory, self.kafka.clock
        )

    def problems(self) -> list[str]:
        return [problem.problem for problem in find_topic_problems(self.read().values())]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of 100 records is long."""
    for name, value in (("LONG_TOPIC_RECORDS_MIN", 100), ("COUNTED_RECORDS_MAX", 300)):
        monkeypatch.setattr(internal_topics, name, value)
    monkeypatch.setattr("offsetwatch.state.internal_topics.LONG_TOPIC_RECORDS_MIN", 100)


def commits(cluster: Cluster, count: int, *, keys: int = 1) -> None:
    for number in range(count):
        cluster.kafka.produce(OFFSETS, f"key-{number % keys}".encode(), b"{}")


def test_a_topic_is_described_as_it_is_made(cluster: Cluster) -> None:
    cluster.admin.made[OFFSETS] = TopicTraits(policy="delete", replication=2)
    cluster.admin.brokers = 3
    result = cluster.read()[OFFSETS]
    assert (result.policy, result.partitions, result.replication, result.brokers) == (
        "delete",
        2,
        2,
        3,
    )


def test_a_topic_that_does_not_exist_or_is_hidden_has_no_facts(cluster: Cluster) -> None:
    cluster.admin.made[OFFSETS] = TopicTraits(hidden=True)
    assert cluster.read() == {}
    cluster.kafka.delete(OFFSETS)
    assert cluster.read() == {}


def test_the_config_and_status_topics_beside_it_are_found_by_their_keys(cluster: Cluster) -> None:
    for name, key in (
        ("connect-configs", b"connector-jdbc"),
        ("connect-status", b"status-connector-jdbc"),
    ):
        cluster.kafka.create(name)
        cluster.kafka.produce(name, key, b"{}")
    roles = {name: facts.role for name, facts in cluster.read().items()}
    assert roles == {
        OFFSETS: InternalTopicRole.OFFSETS,
        "connect-configs": InternalTopicRole.CONFIG,
        "connect-status": InternalTopicRole.STATUS,
    }


def test_a_topic_of_the_same_name_with_other_keys_is_not_read(cluster: Cluster) -> None:
    cluster.kafka.create("connect-status")
    for key in (b"order-1", b"order-2", b"status-connector-jdbc"):
        cluster.kafka.produce("connect-status", key, b"{}")
    assert list(cluster.read()) == [OFFSETS]


def test_a_neighbour_that_may_be_described_and_not_read_hides_nothing_else(
    cluster: Cluster,
) -> None:
    cluster.kafka.create("connect-status")
    cluster.kafka.produce("connect-status", b"status-connector-jdbc", b"{}")
    cluster.admin.made["connect-status"] = TopicTraits(operations=frozenset({"DESCRIBE"}))
    assert list(cluster.read()) == [OFFSETS]
    assert cluster.readers.opened == 0


def test_an_empty_neighbour_is_inspected_again(cluster: Cluster) -> None:
    cluster.kafka.create("connect-configs")
    assert list(cluster.read()) == [OFFSETS]
    cluster.kafka.produce("connect-configs", b"connector-jdbc", b"{}")
    assert "connect-configs" in cluster.read()


def test_a_neighbour_is_read_once(cluster: Cluster) -> None:
    cluster.kafka.create("connect-configs")
    cluster.kafka.produce("connect-configs", b"connector-jdbc", b"{}")
    cluster.read()
    opened = cluster.readers.opened
    assert "connect-configs" in cluster.read()
    assert cluster.readers.opened == opened


@pytest.mark.usefixtures("short")
def test_a_long_topic_with_few_keys_is_too_long(cluster: Cluster) -> None:
    commits(cluster, 101)
    assert cluster.problems() == ["oversize"]


@pytest.mark.usefixtures("short")
def test_a_compacted_log_is_as_long_as_its_records_and_not_as_its_offsets(cluster: Cluster) -> None:
    commits(cluster, 500)
    cluster.kafka.compact(OFFSETS)
    assert cluster.problems() == []
    assert cluster.read()[OFFSETS].records == 1


@pytest.mark.usefixtures("short")
def test_a_short_topic_is_not_read(cluster: Cluster) -> None:
    commits(cluster, 100)
    assert cluster.problems() == []
    assert cluster.readers.opened == 0


@pytest.mark.usefixtures("short")
def test_a_topic_is_counted_again_only_once_it_may_have_become_too_long(cluster: Cluster) -> None:
    commits(cluster, 200)
    cluster.kafka.compact(OFFSETS)
    cluster.read()
    commits(cluster, 99)
    assert cluster.problems() == []
    assert cluster.readers.opened == 1
    commits(cluster, 50)
    cluster.kafka.clock.advance(internal_topics.RECOUNT_S)
    assert cluster.problems() == ["oversize"]
    assert cluster.readers.opened == 2


@pytest.mark.usefixtures("short")
def test_a_topic_that_was_cured_is_no_longer_too_long_within_the_hour(cluster: Cluster) -> None:
    commits(cluster, 150)
    assert cluster.problems() == ["oversize"]
    cluster.kafka.compact(OFFSETS)
    assert cluster.problems() == ["oversize"]
    cluster.kafka.clock.advance(internal_topics.RECOUNT_S)
    assert cluster.problems() == []


@pytest.mark.usefixtures("short")
def test_counting_ends_at_a_bound(cluster: Cluster) -> None:
    commits(cluster, 1000)
    assert cluster.read()[OFFSETS].records == 300


@pytest.mark.usefixtures("short")
def test_a_topic_of_many_keys_that_is_cut_short_says_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_topics, "RECORDS_PER_KEY_MAX", 10)
    commits(cluster, 1000, keys=200)
    assert cluster.read()[OFFSETS].records is None
    opened = cluster.readers.opened
    cluster.read()
    assert cluster.readers.opened == opened  # nor is it read at every round


def test_a_round_comes_every_five_minutes(cluster: Cluster) -> None:
    (facts,) = cluster.poll()
    assert isinstance(facts, TopicFactsRead)
    assert facts.at == cluster.kafka.clock.now()
    assert cluster.poll() == ()
    cluster.kafka.clock.advance(FACTS_EVERY_S)
    assert len(cluster.poll()) == 1


def test_a_topic_that_was_just_found_is_inspected_at_once(cluster: Cluster) -> None:
    assert cluster.poll(EMPTY_SNAPSHOT) == ()
    assert len(cluster.poll()) == 1


def test_a_cluster_that_is_away_is_queried_again_within_a_minute(cluster: Cluster) -> None:
    cluster.kafka.down = TargetUnreachable("east", "gone")
    assert cluster.poll() == ()
    cluster.kafka.down = None
    assert cluster.poll() == ()
    cluster.kafka.clock.advance(internal_topics.RETRY_S)
    assert len(cluster.poll()) == 1


def test_a_clock_set_back_does_not_end_the_rounds(cluster: Cluster) -> None:
    cluster.poll()
    cluster.kafka.clock.advance(-86_400.0)
    assert len(cluster.poll()) == 1


@pytest.mark.usefixtures("short")
def test_a_read_ends_when_the_daemon_does(cluster: Cluster) -> None:
    commits(cluster, 150)
    expected = {OFFSETS: InternalTopicRole.OFFSETS}
    (facts,) = read_topic_facts(
        cluster.admin, cluster.readers, expected, cluster.memory, cluster.kafka.clock, lambda: True
    )
    assert facts.records is None
