"""Finding the offsets topic: exactly one match, or a message that says what to name."""

from __future__ import annotations

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    NotFound,
    OffsetsTopicNotIdentified,
    ResponseTimeout,
    SeveralOffsetsTopics,
    TopicChanged,
)
from offsetwatch.ingest.internal_topics import (
    SAMPLE_DEADLINE_S,
    SAMPLE_PER_PARTITION,
    find_offsets_topic,
)
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader


def key(connector: str = "files") -> bytes:
    return build_connect_key(connector, {"filename": "/a"})


def find(
    kafka: FakeKafka, *, connectors=("files",), dedicated=(), reader=None, copied_as=()
) -> KafkaTopic:
    return find_offsets_topic(
        "lab",
        admin=FakeAdmin(kafka),
        open_reader=lambda: reader or FakeReader(kafka),
        connectors=connectors,
        dedicated=dedicated,
        clock=kafka.clock,
        copied_as=copied_as,
    )


@pytest.fixture
def kafka() -> FakeKafka:
    """A cluster as Connect leaves it: its three topics, and one of a user."""
    built = FakeKafka()
    for topic in ("connect-offsets", "connect-configs", "connect-status"):
        built.create(topic, 3)
    built.create("orders", 3, compacted=False)
    built.produce("connect-configs", b"connector-files", b"{}")
    built.produce("connect-status", b"status-connector-files", b"{}")
    built.produce("orders", key(), b"{}")
    return built


def test_the_compacted_topic_that_holds_the_connectors_offsets_is_found(kafka):
    kafka.produce("connect-offsets", key(), b'{"position":1}', partition=2)
    assert find(kafka) == KafkaTopic("east", "connect-offsets")


@pytest.mark.parametrize(
    ("copy", "beside", "copied_as"),
    [
        pytest.param("west.connect-offsets", (), (), id="of-a-name-that-is-here-too"),
        pytest.param("eu.west.connect-offsets", (), (), id="an-alias-with-a-separator"),
        pytest.param("west.their-offsets", ("west.heartbeats",), (), id="heartbeats"),
        pytest.param("west.their-offsets", ("west.checkpoints.internal",), (), id="checkpoints"),
        pytest.param("west.their-offsets", (), ("west.",), id="a-known-flow"),
        pytest.param("west_their-offsets", (), ("west_",), id="its-own-separator"),
    ],
)
def test_a_copy_of_another_clusters_topic_is_not_taken_for_its_own(kafka, copy, beside, copied_as):
    for topic in (copy, *beside):
        kafka.create(topic, 1, compacted=topic == copy)
    kafka.produce(copy, key(), b'{"position":777}')
    with pytest.raises(OffsetsTopicNotIdentified, match=f"{copy} holds offsets .* copy of another"):
        find(kafka, copied_as=copied_as)
    kafka.produce("connect-offsets", key(), b'{"position":1}')
    assert find(kafka, copied_as=copied_as).topic == "connect-offsets"


@pytest.mark.parametrize("topic", ["mm2-offsets.west.internal", "team.offsets", "a.b.offsets"])
def test_a_name_with_dots_alone_is_no_copys(kafka, topic):
    kafka.create(topic, 1)
    kafka.produce(topic, key(), b'{"position":1}')
    assert find(kafka, copied_as=("", "east.")).topic == topic


def test_one_connector_of_several_is_enough(kafka):
    kafka.produce("connect-offsets", key("b"), b"{}")
    assert find(kafka, connectors=("a", "b", "c")).topic == "connect-offsets"


def test_before_the_first_commit_there_is_none_and_the_error_says_what_to_name(kafka):
    with pytest.raises(OffsetsTopicNotIdentified, match=r"connect\[\]\.offsets_topic"):
        find(kafka)


def test_offsets_of_other_connectors_are_no_match(kafka):
    kafka.produce("connect-offsets", key("other"), b"{}")
    with pytest.raises(OffsetsTopicNotIdentified, match="no compacted topic on east"):
        find(kafka)


def test_two_matches_are_an_error_that_names_both(kafka):
    kafka.create("old-offsets")
    for topic in ("connect-offsets", "old-offsets"):
        kafka.produce(topic, key(), b"{}")
    with pytest.raises(OffsetsTopicNotIdentified, match="connect-offsets, old-offsets"):
        find(kafka)


def test_a_topic_that_a_connector_keeps_for_itself_is_not_the_clusters(kafka):
    kafka.create("own-offsets")
    for topic in ("connect-offsets", "own-offsets"):
        kafka.produce(topic, key(), b"{}")
    assert find(kafka, dedicated=("own-offsets",)).topic == "connect-offsets"


def test_kafkas_own_topics_are_not_inspected(kafka):
    kafka.create("__consumer_offsets")
    kafka.produce("__consumer_offsets", key(), b"{}")
    with pytest.raises(OffsetsTopicNotIdentified):
        find(kafka)


def test_a_commit_is_found_behind_markers_and_other_connectors_commits(kafka):
    kafka.produce("connect-offsets", key(), b"{}")
    for _ in range(SAMPLE_PER_PARTITION // 2 - 1):
        kafka.produce("connect-offsets", key("other"), b"{}")
        kafka.mark("connect-offsets")
    assert find(kafka).topic == "connect-offsets"


def test_a_commit_that_comes_late_in_the_sample_is_found(kafka, monkeypatch):
    monkeypatch.setattr("offsetwatch.ingest.internal_topics.READ_RECORDS_MAX", 1)
    for connector in ("other", "other", "files"):
        kafka.produce("connect-offsets", key(connector), b"{}")
    assert find(kafka).topic == "connect-offsets"


def test_an_open_transaction_does_not_hold_up_the_search(kafka):
    kafka.produce("connect-offsets", key(), b"{}")
    kafka.produce("connect-offsets", key(), b"{}")
    kafka.log("connect-offsets").stable_end = 1
    assert find(kafka).topic == "connect-offsets"


def test_what_is_no_offsets_key_is_passed_over(kafka):
    kafka.produce("connect-offsets", None, b"{}")
    kafka.produce("connect-offsets", b"\x00\xff", b"{}")
    kafka.produce("connect-offsets", key(), b"{}")
    assert find(kafka).topic == "connect-offsets"


def test_a_cluster_that_does_not_answer_is_an_error_of_its_own_kind(kafka):
    kafka.down = AccessDenied("east", "no ACL")
    with pytest.raises(AccessDenied):
        find(kafka)


HOW = r"name the offsets topic in connect\[\]\.offsets_topic$"


@pytest.fixture
def deny(monkeypatch):
    """Deny the bounds of these partitions, or leave them out if they have no leader."""

    def deny(*partitions, error=None):
        error = AccessDenied("east", "not authorized") if error is None else error
        bounds = FakeAdmin.bounds

        def refuse(self, requested, *, stable, refused):
            if error != "no leader":
                refused |= dict.fromkeys(partitions, error)
            remaining = [item for item in requested if item not in partitions]
            return bounds(self, remaining, stable=stable, refused=refused)

        monkeypatch.setattr(FakeAdmin, "bounds", refuse)

    return deny


def test_without_a_match_the_topics_that_were_not_read_are_named(kafka, deny):
    kafka.create("other-offsets", 3)
    deny(TopicPartition("other-offsets", 1))
    with pytest.raises(AccessDenied, match=f"topic other-offsets: not authorized: {HOW}"):
        find(kafka)


def test_one_match_is_not_taken_while_another_topic_may_be_one(kafka, deny):
    kafka.create("other-offsets", 3)
    kafka.produce("connect-offsets", key(), b"{}")
    deny(TopicPartition("other-offsets", 1))
    what = r"connect-offsets holds .*, and others may \(topic other-offsets: not authorized\): "
    with pytest.raises(AccessDenied, match=f"{what}{HOW}"):
        find(kafka)


def test_a_topic_without_a_leader_may_be_another(kafka, deny):
    kafka.create("other-offsets", 3)
    kafka.produce("connect-offsets", key(), b"{}")
    deny(TopicPartition("other-offsets", 1), error="no leader")
    with pytest.raises(LeaderNotAvailable, match="topic other-offsets: partition 1 has no leader"):
        find(kafka)


def test_a_topic_that_holds_other_records_is_no_rival_without_a_leader_of_a_partition(kafka, deny):
    kafka.produce("connect-offsets", key(), b"{}")
    deny(TopicPartition("connect-status", 1), error="no leader")
    assert find(kafka).topic == "connect-offsets"
    kafka.produce("connect-status", key("other"), b"{}", partition=0)
    with pytest.raises(LeaderNotAvailable):
        find(kafka)


def test_two_matches_are_two_whatever_was_not_read(kafka, deny):
    kafka.create("old-offsets")
    for topic in ("connect-offsets", "old-offsets"):
        kafka.produce(topic, key(), b"{}")
    deny(TopicPartition("connect-status", 1))
    with pytest.raises(SeveralOffsetsTopics, match="connect-offsets, old-offsets"):
        find(kafka)


def test_a_copy_that_cannot_be_read_is_no_rival(kafka, deny):
    kafka.create("west.connect-offsets", 1)
    kafka.produce("connect-offsets", key(), b"{}")
    deny(TopicPartition("west.connect-offsets", 0))
    assert find(kafka).topic == "connect-offsets"


def test_a_match_needs_no_more_evidence_from_a_partition_that_cannot_be_read(kafka, deny):
    kafka.produce("connect-offsets", key(), b"{}", partition=0)
    deny(TopicPartition("connect-offsets", 2))
    assert find(kafka).topic == "connect-offsets"


def test_a_topic_whose_policy_may_not_be_read_may_be_a_match(kafka, monkeypatch):
    compacted = FakeAdmin.compacted

    def refuse(self, topics, *, refused):
        detail = "DescribeConfigs of topic orders: not authorized"
        refused["orders"] = AccessDenied("east", detail)
        return compacted(self, topics, refused=refused)

    monkeypatch.setattr(FakeAdmin, "compacted", refuse)
    kafka.produce("connect-offsets", key(), b"{}")
    what = r"connect-offsets holds .*DescribeConfigs of topic orders: not authorized\): "
    with pytest.raises(AccessDenied, match=f"{what}{HOW}"):
        find(kafka)


def test_many_topics_that_cannot_be_read_are_cut(kafka, deny):
    names = [f"t{number}" for number in range(7)]
    for name in names:
        kafka.create(name, 1)
    deny(*(TopicPartition(name, 0) for name in names))
    with pytest.raises(AccessDenied, match=r"topic t4: not authorized; and 2 more topics: name"):
        find(kafka)


class _Silent(FakeReader):
    """Gives one partition only; the others are somewhere on a broker that is away."""

    def read(self, records_max, timeout_s):
        result = super().read(records_max, timeout_s)
        return [message for message in result if message.topic() == "connect-offsets"]


def test_a_sample_that_could_not_be_read_to_its_end_settles_nothing(kafka):
    """The topic that was not read may be a second match, or the only true one."""
    kafka.produce("connect-offsets", key(), b"{}")
    began = kafka.clock.now()
    reader = _Silent(kafka)
    with pytest.raises(ResponseTimeout, match=r"connect\[\]\.offsets_topic"):
        find(kafka, reader=reader)
    assert kafka.clock.now() - began < 2 * SAMPLE_DEADLINE_S
    assert reader.closed


class _SetBack(_Silent):
    """And meanwhile somebody sets the clock, once."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(kafka)
        self._clock = kafka.clock
        self.reads = 0

    def read(self, records_max, timeout_s):
        self.reads += 1
        if self.reads == 2:
            self._clock.advance(-3600.0)
        return super().read(records_max, timeout_s)


def test_a_clock_that_is_set_back_does_not_draw_out_a_sample(kafka):
    kafka.produce("connect-offsets", key(), b"{}")
    reader = _SetBack(kafka)
    with pytest.raises(ResponseTimeout):
        find(kafka, reader=reader)
    assert reader.reads == 2


class _Cut(FakeReader):
    """Between the question for its ends and the reading, a topic was cut."""

    def read(self, records_max, timeout_s):
        self._kafka.log("connect-offsets").start = 5
        return super().read(records_max, timeout_s)


def test_a_partition_that_cannot_be_read_is_no_partition_without_a_match(kafka):
    kafka.produce("connect-offsets", key(), b"{}")
    with pytest.raises((TopicChanged, NotFound), match="topic connect-offsets") as caught:
        find(kafka, reader=_Cut(kafka))
    assert isinstance(caught.value, ClientError)


def test_too_many_partitions_to_search_are_an_error_that_says_what_to_name(kafka, monkeypatch):
    monkeypatch.setattr("offsetwatch.ingest.internal_topics.CANDIDATE_PARTITIONS_MAX", 5)
    with pytest.raises(OffsetsTopicNotIdentified, match=r"too many .* connect\[\]\.offsets_topic"):
        find(kafka)
