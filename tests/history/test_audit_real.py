"""The audit on a real broker that plays both sides, with copies that we have made ourselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from offsetwatch.history.audit.explanations import PlannedReposition, Transforms
from offsetwatch.history.audit.scope import AuditBounds, AuditClients, resolve_scope
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from tests.history.rows import sync_key, sync_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetwatch.history.audit.job import PartitionAudit

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.full]

KAFKA = "east"
_numbers = itertools.count()

Sent = tuple[bytes | None, bytes | None]


def numbered(count: int, first: int = 0) -> list[Sent]:
    return [
        (b"key-%d" % (number % 1000), b"value-%d" % number)
        for number in range(first, first + count)
    ]


@dataclass(frozen=True)
class CopiedTopic:
    """A topic and its copy, one partition each, for one test."""

    bootstrap: str
    admin: AdminClient
    flow: MirrorFlow
    topic: str

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @property
    def remote(self) -> str:
        return f"west.{self.topic}"

    def send(self, topic: str, sent: Iterable[Sent]) -> None:
        # Without it a producer that gets no answer in time may write a batch twice.
        more = {"linger.ms": 20, "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self.bootstrap, **more})
        for key, value in sent:
            producer.produce(topic, key=key, value=value, partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

    def both(self, up: Sequence[Sent], down: Sequence[Sent]) -> None:
        self.send(self.topic, up)
        self.send(self.remote, down)

    def transaction(self, sent: Sequence[Sent], *, commit: bool = True) -> None:
        """Upstream, in one transaction: it leaves a marker, and records even if it is aborted."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": f"writes-{self.topic}"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for key, value in sent:
            producer.produce(self.topic, key=key, value=value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def sync(self, *syncs: tuple[int, int]) -> None:
        assert self.flow.offset_syncs is not None
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for up, down in syncs:
            producer.produce(
                self.flow.offset_syncs.topic,
                key=sync_key(self.topic, 0),
                value=sync_value(up, down),
            )
        assert producer.flush(30) == 0

    def forget(self, topic: str, before: int) -> None:
        """As retention does."""
        result = self.admin.delete_records([KafkaPartition(topic, 0, before)])
        for future in result.values():
            future.result()

    def audited(
        self, replicated: int | None, bounds: AuditBounds | None = None, **more: Any
    ) -> PartitionAudit:
        from offsetwatch.history.audit.job import AuditSpec, audit
        from offsetwatch.history.audit.spark_reader import SparkReadOptions
        from offsetwatch.history.spark.security import kafka_options

        sides = AuditClients({KAFKA: {"bootstrap.servers": self.bootstrap}})
        pinned = resolve_scope(self.flow, {self.at: replicated}, (), bounds or AuditBounds(), sides)
        options = kafka_options(KAFKA, sides.kafka[KAFKA])
        (result,) = audit(
            AuditSpec(pinned, SparkReadOptions((options, options)), **more), lambda _said: None
        )
        return result


@pytest.fixture
def copied_topic(kafka: str, spark: SparkSession) -> CopiedTopic:
    return build_copied_topic(kafka)


def build_copied_topic(kafka: str, config: dict[str, str] | None = None) -> CopiedTopic:
    name = f"audit-{next(_numbers)}"
    flow = MirrorFlow(
        connect_cluster="payments",
        connector="mm2",
        source="west",
        target="east",
        upstream=KAFKA,
        downstream=KAFKA,
        offset_syncs=KafkaTopic(KAFKA, f"{name}-syncs"),
        read_committed=True,
        policy="DefaultReplicationPolicy",
    )
    admin = AdminClient({"bootstrap.servers": kafka})
    topics = [NewTopic(name, 1, 1, config=config or {}), NewTopic(f"{name}-syncs", 1, 1)]
    topics.append(NewTopic(f"west.{name}", 1, 1, config=config or {}))
    for future in admin.create_topics(topics).values():
        future.result()
    return CopiedTopic(kafka, admin, flow, name)


def list_findings(audit: PartitionAudit) -> list[tuple[str, int, tuple[int, int] | None]]:
    return [
        (
            finding.kind.value,
            finding.records,
            None if finding.up is None else (finding.up.first, finding.up.last),
        )
        for finding in audit.findings
    ]


def test_a_long_range_copied_again_is_one_finding_to_the_record(copied_topic: CopiedTopic) -> None:
    up = numbered(40_000)
    copied_topic.both(up, up[:30_000] + up[10_000:])
    audit = copied_topic.audited(39_999)
    assert list_findings(audit) == [("duplicated", 20_000, (10_000, 29_999))]
    again = (PlannedReposition(copied_topic.at, 10_000, 29_999, again=True, said="plan 7"),)
    (one,) = copied_topic.audited(39_999, skips=again).findings
    assert (one.records, one.explained, one.certain) == (20_000, "plan 7", True)


@pytest.mark.proof  # half as long as all others together
def test_many_faults_far_apart_are_each_found(copied_topic: CopiedTopic) -> None:
    up = numbered(60_000)
    down = [item for number, item in enumerate(up) if number % 1000 != 500]
    copied_topic.both(up, down)
    assert list_findings(copied_topic.audited(59_999)) == [
        ("lost", 1, (number, number)) for number in range(500, 60_000, 1000)
    ]


def test_records_that_are_all_alike_are_counted_right(copied_topic: CopiedTopic) -> None:
    copied_topic.both([(None, b"tick")] * 9000, [(None, b"tick")] * 8990)
    audit = copied_topic.audited(8999)
    assert [(kind, records) for kind, records, _ in list_findings(audit)] == [("lost", 10)]


def test_none_differs_from_an_empty_key_or_value(copied_topic: CopiedTopic) -> None:
    copied_topic.both(
        [(b"", b"a"), (b"k", None), (b"a", b"")], [(None, b"a"), (b"k", b""), (b"a", b"")]
    )
    assert [(kind, records) for kind, records, _ in list_findings(copied_topic.audited(2))] == [
        ("altered", 2)
    ]


def test_markers_and_aborted_records_are_no_difference(copied_topic: CopiedTopic) -> None:
    for number in range(0, 600, 100):
        copied_topic.transaction(numbered(100, number))
        copied_topic.transaction(numbered(10, 10_000 + number), commit=False)
    copied_topic.send(copied_topic.remote, numbered(600))
    audit = copied_topic.audited(10_000)
    assert list_findings(audit) == []
    assert (audit.up_records, audit.down_records) == (600, 600)


def test_what_is_not_replicated_yet_is_not_lost(copied_topic: CopiedTopic) -> None:
    copied_topic.both(numbered(100), numbered(80))
    audit = copied_topic.audited(79)
    assert list_findings(audit) == []
    assert audit.reach.pending == 20
    assert list_findings(copied_topic.audited(84)) == [("lost", 5, (80, 84))]
    assert copied_topic.audited(None).reach.pending == 100


def test_what_retention_took_downstream_cannot_be_compared(copied_topic: CopiedTopic) -> None:
    copied_topic.both(numbered(3000), numbered(3000))
    copied_topic.forget(copied_topic.remote, 700)
    audit = copied_topic.audited(2999)
    assert list_findings(audit) == []
    assert audit.up_unjudged == 700


def test_what_retention_took_upstream_is_counted_and_its_copies_are_no_finding(
    copied_topic: CopiedTopic,
) -> None:
    copied_topic.both(numbered(3000), numbered(3000))
    copied_topic.forget(copied_topic.topic, 700)
    audit = copied_topic.audited(2999)
    assert list_findings(audit) == []
    assert audit.reach.deleted == 700


def test_what_was_copied_again_of_records_that_are_gone_upstream_is_reported_as_doubled(
    copied_topic: CopiedTopic,
) -> None:
    sent = numbered(3000)
    copied_topic.both(sent, sent[:2000] + sent[100:110] + sent[2000:])
    copied_topic.forget(copied_topic.topic, 700)
    assert list_findings(copied_topic.audited(2999)) == [("duplicated", 10, None)]


def test_bounds_judge_what_was_requested_and_nothing_beside_it(copied_topic: CopiedTopic) -> None:
    sent = numbered(3000)
    copied_topic.both(sent, sent[:500] + sent[510:1500] + sent[1520:])
    copied_topic.sync((0, 0), (400, 400), (510, 500), (1400, 1390), (1520, 1490), (2500, 2470))
    assert list_findings(copied_topic.audited(2999, AuditBounds(first=450, end=1400))) == [
        ("lost", 10, (500, 509))
    ]
    assert list_findings(copied_topic.audited(2999, AuditBounds(first=505, end=1510))) == [
        ("lost", 5, (505, 509)),
        ("lost", 10, (1500, 1509)),
    ]
    audit = copied_topic.audited(2999, AuditBounds(first=600, end=1400))
    assert list_findings(audit) == []
    assert audit.up_records < 1100


def test_a_sample_finds_what_is_in_it_and_says_how_much_that_is(copied_topic: CopiedTopic) -> None:
    sent = numbered(60_000)
    copied_topic.both(sent, [item for number, item in enumerate(sent) if number % 100 != 50])
    copied_topic.sync(
        *((number, number - (number + 49) // 100) for number in range(0, 60_000, 1000))
    )
    audit = copied_topic.audited(59_999, AuditBounds(share=0.4, seed=1))
    results = [of.judged for of in audit.reach.slices]
    size = sum(end - first for first, end in results)
    assert 0 < size < 50_000
    meant = [
        number for number in range(50, 60_000, 100) if any(a <= number < b for a, b in results)
    ]
    assert list_findings(audit) == [("lost", 1, (number, number)) for number in meant]


def test_compaction_downstream_explains_what_has_a_newer_record(kafka: str, spark: object) -> None:
    environment = build_copied_topic(
        kafka, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    )
    sent = numbered(2000)
    environment.both(sent, sent[100:150] + sent[200:1100] + sent[1101:])
    audit = environment.audited(1999)
    assert [
        (finding.kind.value, finding.records, finding.certain) for finding in audit.findings
    ] == [
        ("lost", 100, True),
        ("lost", 50, True),
        ("lost", 1, False),
    ]


def test_more_than_can_be_inspected_is_reported_as_a_range(copied_topic: CopiedTopic) -> None:
    copied_topic.both(numbered(3000), numbered(3000, 50_000))
    audit = copied_topic.audited(2999, records_max=100)
    assert list_findings(audit) == [("different", 3000, (0, 2999))]


def test_a_filter_is_named_beside_what_it_may_have_dropped(copied_topic: CopiedTopic) -> None:
    copied_topic.both(numbered(10), numbered(9))
    through = Transforms(("com.acme.Drop",), drops=True)
    (one,) = copied_topic.audited(9, transforms=through).findings
    assert "Drop" in one.explained
    assert not one.certain


def test_a_topic_that_is_not_there_downstream_is_refused_by_name(copied_topic: CopiedTopic) -> None:
    from offsetwatch.errors import HistoryError

    other = replace(copied_topic, flow=replace(copied_topic.flow, source="south"))
    with pytest.raises(HistoryError, match=f"no topic south.{copied_topic.topic} on east"):
        other.audited(9)
