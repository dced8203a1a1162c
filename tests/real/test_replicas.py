"""Several replicas of one journal on a real broker: who may write, and what each of them has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka as ck
import confluent_kafka.admin as ck_admin
import pytest
from click.testing import CliRunner, Result

from lab.cluster.kafka_client import Cluster
from lab.cluster.lone_broker import LoneBroker, lone_broker
from lab.waiting import NotYet, until
from offsetwatch.cli import cli
from offsetwatch.clients.kafka.journal_topic import RECORD_BYTES_MAX, JournalTopicRequirements
from offsetwatch.clients.write.kafka import TRANSACTION_S, JournalWriter, create_journal_topic
from offsetwatch.clock import SystemClock
from offsetwatch.errors import (
    JournalDamaged,
    NotLeader,
    PlanUnfinished,
    ProducerFenced,
    TargetUnreachable,
)
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import FILE_NAME, PUBLISHED_BYTES_MAX, ChainLine, Journal
from offsetwatch.remedy.model.journal_records import (
    LeadershipTaken,
    ModeSet,
    OffsetsBackedUp,
    PauseSet,
    PlanApproved,
    PlanEnded,
    PlanOpened,
    PlanProposed,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import FrozenOffsets, PartitionOffset, PlanStatus
from offsetwatch.remedy.replicas.replica import (
    LeadershipTerm,
    Replica,
    ReplicaSettings,
    ReplicaStatus,
)
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, encode_line
from tests.unit.remedy.plans import POISON, plan_of, skip_of

# A broker alone: half a minute for all of them.
pytestmark = [pytest.mark.real, pytest.mark.slow]

WAIT_S = 120.0
SESSION_S = 1.0
HELD = PauseSet(at=1.0, paused=True, until=None, by="ada", because="to see")
ENDED = PlanEnded(at=9.0, ending=PlanStatus.SUCCEEDED, said="done")
numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneBroker]:
    with lone_broker(tmp_path_factory.mktemp("broker"), relays=1) as at:
        yield at


@dataclass
class ReplicaTopic:
    """A topic of its own for each test."""

    broker: LoneBroker
    folder: Path
    topic: str = field(default_factory=lambda: f"journal-{next(numbers)}")

    def __post_init__(self) -> None:
        self.properties = {"bootstrap.servers": self.broker.address}
        self.requirements = JournalTopicRequirements(self.topic, 1, 1)
        create_journal_topic("east", self.properties, self.requirements)

    def settings(self, name: str, **more: object) -> ReplicaSettings:
        inputs = {"properties": self.properties, "requirements": self.requirements, **more}
        return ReplicaSettings(kafka="east", name=name, session_s=SESSION_S, **inputs)

    @contextmanager
    def replica(self, name: str, **more: object) -> Iterator[Replica]:
        built = Replica(self.settings(name, **more), self.folder / name, SystemClock())
        built.start()
        try:
            yield built
        finally:
            built.stop()
            assert not (built.status.problem or "").startswith("unexpected")

    def start_term(
        self,
        name: str = "a",
        properties: dict[str, str] | None = None,
        write_s: float = TRANSACTION_S,
    ) -> LeadershipTerm:
        """Of one that has read all there is, and stands still afterwards."""
        with self.copy(name) as copy:
            inputs = properties or self.properties
            writer = JournalWriter("east", inputs, self.topic, write_s=write_s)
            writer.begin()
            return LeadershipTerm(writer, copy.head[1])

    @contextmanager
    def copy(self, name: str) -> Iterator[JournalTopicCopy]:
        """As it is once all was read that is committed."""
        with closing(JournalTopicCopy(self.folder / name, self.topic, "an id")) as copy:
            values, end = self.values()
            copy.append_lines(values[copy.progress.seq :], end)
            yield copy

    def values(self) -> tuple[list[bytes | None], int]:
        """What is committed, and the topic's end."""
        consumer = ck.Consumer(
            {**self.properties, "group.id": "none", "enable.partition.eof": True}
        )
        consumer.assign([ck.TopicPartition(self.topic, 0, 0)])
        results: list[bytes | None] = []
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == ck.KafkaError._PARTITION_EOF
                consumer.close()
                return results, message.offset()
            results.append(message.value())

    def produce(self, *values: bytes | None) -> None:
        """By somebody who has no business here."""
        producer = ck.Producer(self.properties)
        for value in values:
            producer.produce(self.topic, value=value)
        assert producer.flush(WAIT_S) == 0


@pytest.fixture
def replica_topic(broker: LoneBroker, tmp_path: Path) -> ReplicaTopic:
    return ReplicaTopic(broker, tmp_path)


def leads(replica: Replica) -> LeadershipTerm:
    def probe() -> LeadershipTerm:
        term = replica.term
        if term is None:
            raise NotYet(str(replica.status))
        return term

    return until("a leader", probe, timeout_s=WAIT_S)


def await_status(replica: Replica, **expected: object) -> ReplicaStatus:
    def probe() -> ReplicaStatus:
        status = replica.status
        if any(getattr(status, name) != value for name, value in expected.items()):
            raise NotYet(str(status))
        return status

    return until(f"a replica with {expected}", probe, timeout_s=WAIT_S)


def refuses(replica: Replica, answer: str) -> None:
    def probe() -> None:
        if answer not in replica.status.problem:
            raise NotYet(str(replica.status))

    until("a refusal", probe, timeout_s=WAIT_S)
    assert replica.term is None


def lines(folder: Path) -> tuple[ChainLine, ...]:
    with closing(Journal(folder)) as journal:
        return journal.lines(1, 1000)


def written(folder: Path, term: LeadershipTerm) -> None:
    """One plan from its proposal to its end, with a skip and a backup, and two switches."""
    with closing(Journal(folder, term.publish)) as journal:
        plan = skip_of()
        proposed = PlanProposed(at=0.5, plan=plan, mode="auto", expires_at=99.0)
        journal.append("p1", [proposed, PlanApproved(at=0.7, by="ada", plan_sha256=plan.sha256)])
        journal.open(plan, PlanOpened(at=1.0, plan=plan))
        retained = write_backup(folder, plan.subject.connector)
        journal.append(
            "p1", [StepVerified(at=2.0, index=0, undoing=False, said="copied"), retained]
        )
        journal.append("p1", [StepIntended(at=3.0, index=5, undoing=False)])
        journal.control(HELD)
        journal.control(ModeSet(at=4.0, mode="observe", by="ada", because="so"))


def write_backup(folder: Path, connector: str) -> OffsetsBackedUp:
    pairs = (PartitionOffset('{"kafka_partition":0}', '{"kafka_offset":7}'),)
    backup_file = backups.write_backup(folder, connector=connector, pairs=pairs, at=1.0)
    return OffsetsBackedUp(
        at=2.5, frozen=FrozenOffsets(pairs, str(backup_file.path), backup_file.sha256)
    )


def test_one_leads_and_the_other_has_the_same_chain_byte_for_byte(replica_topic):
    with replica_topic.replica("a") as a:
        written(a._folder, leads(a))
        with replica_topic.replica("b") as b:
            seq = len(lines(replica_topic.folder / "a"))
            status = await_status(b, seq=seq)
            assert not status.leading
            assert status.leader is not None
            assert status.leader[0] == "a"
            assert lines(replica_topic.folder / "b") == lines(replica_topic.folder / "a")
            with closing(Journal(replica_topic.folder / "b")) as journal:
                assert journal.open_plan("lab", "orders") == "p1"
                assert journal.skipped_by("k1") == "p1"
            (retained,) = backups.list_backups(replica_topic.folder / "b")
            assert retained.name == backups.list_backups(replica_topic.folder / "a")[0].name
            assert retained.sha256 == backups.list_backups(replica_topic.folder / "a")[0].sha256


def test_when_the_leader_ends_the_other_leads_and_goes_on_in_the_same_chain(replica_topic):
    with replica_topic.replica("a") as a, replica_topic.replica("b") as b:
        first, second = (
            (a, b) if until("one", lambda: _any(a, b), timeout_s=WAIT_S) is a else (b, a)
        )
        written(first._folder, leads(first))
        first.stop()
        with closing(Journal(second._folder, leads(second).publish)) as journal:
            journal.append("p1", [ENDED])
        assert lines(first._folder) == lines(second._folder)[: len(lines(first._folder))]
        kinds = [type(e.record) for e in _entries(second._folder)]
        assert kinds.count(LeadershipTaken) == 2
        assert kinds[-1] is PlanEnded


def _any(*replicas: Replica) -> Replica:
    for replica in replicas:
        if replica.term is not None:
            return replica
    raise NotYet("nobody leads")


def _entries(folder: Path) -> list:
    with closing(Journal(folder)) as journal:
        return list(journal.every())


def test_the_broker_takes_nothing_from_one_who_was_followed_and_its_copy_is_as_before(
    replica_topic,
):
    old = replica_topic.start_term("a")
    with closing(Journal(replica_topic.folder / "a", old.publish)) as journal:
        journal.control(HELD)
        new = replica_topic.start_term("b")
        before = journal.lines(1, 100)
        with pytest.raises(NotLeader) as error:
            journal.control(HELD)
        assert isinstance(error.value.__cause__, ProducerFenced)
        assert old.over
        assert journal.lines(1, 100) == before
        with pytest.raises(NotLeader, match="does not lead any more"):
            journal.control(HELD)
    with closing(Journal(replica_topic.folder / "b", new.publish)) as journal:
        journal.control(HELD)
    with replica_topic.copy("a") as a, replica_topic.copy("b") as b:
        assert a.lines(1, 100) == b.lines(1, 100)
        assert a.head[0] == 2


def test_what_was_begun_and_not_committed_by_one_who_was_followed_is_in_no_journal(replica_topic):
    old = replica_topic.start_term("a")
    producer = old._writer._producer
    producer.begin_transaction()
    producer.produce(replica_topic.topic, value=b"half", partition=0)
    producer.flush(WAIT_S)
    new = replica_topic.start_term("b")
    with closing(Journal(replica_topic.folder / "b", new.publish)) as journal:
        journal.control(HELD)
    with pytest.raises(ck.KafkaException):
        producer.commit_transaction(WAIT_S)
    assert len(replica_topic.values()[0]) == 1


def test_nothing_may_be_requested_once_the_journal_was_not_ours_for_too_long(replica_topic):
    term = replica_topic.start_term()
    with pytest.raises(TargetUnreachable, match="not asked"):
        term.check(30.0)  # nothing was ever written in this term
    with closing(Journal(replica_topic.folder / "a", term.publish)) as journal:
        journal.control(HELD)
        term.check(WAIT_S)
        with pytest.raises(TargetUnreachable):
            term.check(0.0)
    term.end()
    with pytest.raises(TargetUnreachable):
        term.check(WAIT_S)


def test_one_that_is_cut_off_while_it_writes_leads_no_more_and_finds_out_what_became_of_it(
    replica_topic,
):
    (relay,) = replica_topic.broker.relays
    term = replica_topic.start_term(
        "a", {"bootstrap.servers": replica_topic.broker.by(0)}, write_s=5.0
    )
    with closing(Journal(replica_topic.folder / "a", term.publish)) as journal:
        journal.control(HELD)
        relay.hold()
        try:
            with pytest.raises(NotLeader, match="not known"):
                journal.control(HELD)
        finally:
            relay.release()
        assert len(journal.lines(1, 100)) == 1
        with pytest.raises(NotLeader):
            journal.control(HELD)
    again = replica_topic.start_term("a")
    with closing(Journal(replica_topic.folder / "a", again.publish)) as journal:
        observed = len(journal.lines(1, 100))
        journal.control(HELD)
    with replica_topic.copy("b") as b, replica_topic.copy("a") as a:
        assert b.head[0] == observed + 1
        assert a.lines(1, 100) == b.lines(1, 100)


def test_a_leader_that_was_cut_off_is_followed_and_acts_no_more(replica_topic):
    (relay,) = replica_topic.broker.relays
    far = {"bootstrap.servers": replica_topic.broker.by(0)}
    with replica_topic.replica("a", properties=far) as a:
        term = leads(a)
        with replica_topic.replica("b") as b:
            await_status(b, seq=1)
            relay.hold()
            try:
                written(b._folder, leads(b))
                await_status(a, leading=False)
                assert term.over
            finally:
                relay.release()
            await_status(a, seq=len(lines(b._folder)))
            assert lines(a._folder) == lines(b._folder)


def test_a_copy_that_is_gone_is_recreated_from_the_first_record(replica_topic):
    with replica_topic.replica("a") as a:
        written(a._folder, leads(a))
    before = lines(replica_topic.folder / "a")
    for path in (replica_topic.folder / "a").glob(f"{FILE_NAME}*"):
        path.unlink()
    with replica_topic.copy("a") as copy:
        assert copy.lines(1, 100) == before
        assert copy.skipped_by("k1") == "p1"
        assert copy.verify() == len(before)


def test_of_two_plans_that_would_skip_the_same_record_the_second_is_stopped_by_its_intent(
    replica_topic,
):
    term = replica_topic.start_term()
    with closing(Journal(replica_topic.folder / "a", term.publish)) as journal:
        plan = skip_of()
        journal.open(plan, PlanOpened(at=1.0, plan=plan))
        journal.append("p1", [StepIntended(at=2.0, index=5, undoing=False), ENDED])
        plan = skip_of("p2")
        journal.open(plan, PlanOpened(at=3.0, plan=plan))
        with pytest.raises(PlanUnfinished, match="p1"):
            journal.append("p2", [StepIntended(at=4.0, index=5, undoing=False)])
        count = len(journal.lines(1, 100))
    assert len(replica_topic.values()[0]) == count


def test_who_only_has_the_folder_may_look_and_change_nothing(replica_topic):
    with replica_topic.replica("a") as a:
        leads(a)
        with closing(Journal(replica_topic.folder / "a")) as journal:
            plan = plan_of()
            with pytest.raises(
                NotLeader, match=f"a copy of the topic {replica_topic.topic}.*--url"
            ):
                journal.open(plan, PlanOpened(at=1.0, plan=plan))
            assert journal.verify() == 1
        with pytest.raises(NotLeader, match="a copy"), closing(Journal(a._folder)) as journal:
            journal.control(HELD)


def changed(value: bytes) -> bytes:
    assert b"to see" in value
    return value.replace(b"to see", b"to sea")


def test_the_largest_record_goes_through_and_a_larger_one_costs_no_leadership(replica_topic):
    term = replica_topic.start_term()
    with closing(Journal(replica_topic.folder / "a", term.publish)) as journal:
        large = ModeSet(at=1.0, mode=None, by="ada", because="x" * (PUBLISHED_BYTES_MAX - 200))
        journal.control(large)
        with pytest.raises(JournalDamaged, match="cannot be written"):
            journal.control(ModeSet(at=1.0, mode=None, by="ada", because="x" * RECORD_BYTES_MAX))
        assert not term.over
        journal.control(HELD)
    with replica_topic.copy("b") as copy:
        assert copy.head[0] == 2


def _gap(values):
    return [values[0], values[2]]


@pytest.mark.parametrize(
    ("spoilt", "answer"),
    [
        (_gap, "record 2 is missing: 3 comes next"),
        (lambda values: [values[0], changed(values[1])], "record 2 is not what was written"),
        (lambda values: [*values, b"{}"], "record 4 cannot be read"),
        (lambda values: [*values, None], "record 4 cannot be read"),
        (lambda values: [*values, values[2]], "record 4 is missing: 3 comes next"),
        (lambda values: [values[0].replace(b'"v":2', b'"v":9')], "record 1 was written by a newer"),
        (lambda values: values[1:], "record 1 is missing: 2 comes next"),
    ],
    ids=["gap", "changed", "no line", "empty", "twice", "newer", "cut"],
)
def test_a_topic_that_is_not_what_was_written_is_followed_no_further(replica_topic, spoilt, answer):
    term = replica_topic.start_term("a")
    with closing(Journal(replica_topic.folder / "a", term.publish)) as journal:
        for _ in range(3):
            journal.control(HELD)
    good, _ = replica_topic.values()
    other = ReplicaTopic(replica_topic.broker, replica_topic.folder / "other")
    other.produce(*spoilt(good))
    with other.replica("b") as b:
        refuses(b, answer)


def test_a_foreign_record_in_the_topic_ends_the_leadership_term_of_its_reader(replica_topic):
    with replica_topic.replica("a") as a:
        term = leads(a)
        replica_topic.produce(b"hello")
        refuses(a, "cannot be read")
        assert term.over


def test_a_topic_that_has_lost_records_is_not_led_by_one_who_has_them(replica_topic):
    with replica_topic.replica("a") as a:
        written(a._folder, leads(a))
    admin = ck_admin.AdminClient(replica_topic.properties)
    admin.delete_topics([replica_topic.topic])[replica_topic.topic].result()

    def gone() -> None:
        try:
            create_journal_topic("east", replica_topic.properties, replica_topic.requirements)
        except Exception as exc:  # it goes in its own time
            raise NotYet(str(exc)) from exc

    until("the topic made anew", gone, timeout_s=WAIT_S)
    with replica_topic.replica("a") as a:
        refuses(a, "no copy of the topic")


def test_the_journal_of_a_daemon_that_was_alone_is_not_written_over(replica_topic):
    with closing(Journal(replica_topic.folder / "a")) as journal:
        journal.control(HELD)
    with pytest.raises(JournalDamaged, match="of a daemon that was alone"):
        JournalTopicCopy(replica_topic.folder / "a", replica_topic.topic, "an id")


def created(cluster: ReplicaTopic, state_dir: Path) -> Result:
    """`journal create` on a host with this state directory."""
    journal = {"kafka": "east", "topic": cluster.topic, "name": "a"}
    document = {
        "kafka": {"east": {"bootstrap": cluster.broker.address}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}],
        "state_dir": str(state_dir),
        "remedy": {
            "quarantine": {"kafka": "east"},
            "journal": {**journal, "replication_factor": 1, "min_insync_replicas": 1},
        },
    }
    config = cluster.folder / "offsetwatch.yaml"
    config.write_text(json.dumps(document))
    return CliRunner().invoke(cli, ["journal", "create", "--config", str(config)])


def test_a_topic_begins_with_what_a_daemon_alone_has_written_and_its_file_is_a_copy_then(
    replica_topic,
):
    replica_topic.topic = "moved"  # is not there yet
    replica_topic.requirements = JournalTopicRequirements(replica_topic.topic, 1, 1)
    with closing(Journal(replica_topic.folder / "a")) as alone:
        alone.control(HELD)
    before = lines(replica_topic.folder / "a")
    done = created(replica_topic, replica_topic.folder / "a")
    assert done.exit_code == 0, done.output
    assert "begins with 1 record" in done.output
    assert replica_topic.values()[0] == [encode_line(line) for line in before]
    with replica_topic.replica("a") as a:
        leads(a)
    assert created(replica_topic, replica_topic.folder / "a").exit_code == 0
    with replica_topic.copy("b") as copy:
        assert copy.lines(1, 1) == before


def test_a_topic_that_was_made_without_what_is_here_is_reported_as_long_as_it_is(replica_topic):
    with closing(Journal(replica_topic.folder / "a")) as alone:
        alone.control(HELD)
    done = created(replica_topic, replica_topic.folder / "a")
    assert done.exit_code == 1
    assert "made without all of the 1 record" in done.output
    assert replica_topic.values()[0] == []


@pytest.mark.parametrize(
    ("partitions", "config", "expected", "answer"),
    [
        (2, {}, (1, 1), "2 partitions"),
        (1, {"cleanup.policy": "compact"}, (1, 1), "cleanup.policy"),
        (1, {"cleanup.policy": "compact,delete"}, (1, 1), "cleanup.policy"),
        (1, {"retention.ms": "604800000"}, (1, 1), "retention.ms is 604800000"),
        (1, {"retention.bytes": "1"}, (1, 1), "retention.bytes is 1"),
        (1, {"max.message.bytes": "1048588"}, (1, 1), "max.message.bytes is 1048588"),
        (1, {}, (3, 1), "1 replica"),
        (1, {}, (1, 2), "min.insync.replicas is 1"),
    ],
)
def test_a_topic_that_may_forget_is_refused(replica_topic, partitions, config, expected, answer):
    topic = f"{replica_topic.topic}-weak"
    fit = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    fit["max.message.bytes"] = str(RECORD_BYTES_MAX)
    spec = ck_admin.NewTopic(topic, partitions, 1, config={**fit, **config})
    admin = ck_admin.AdminClient(replica_topic.properties)
    admin.create_topics([spec])[topic].result()
    with replica_topic.replica("a", requirements=JournalTopicRequirements(topic, *expected)) as a:
        refuses(a, answer)


def test_a_topic_that_is_not_there_is_not_made_and_it_is_said_how(replica_topic):
    with replica_topic.replica("a", requirements=JournalTopicRequirements("nowhere", 1, 1)) as a:
        refuses(a, "offsetwatch journal create --config F")
    assert Cluster("east", replica_topic.broker.address).partitions("nowhere") == 0


def test_lines_are_in_the_topic_as_they_are_in_the_copy(replica_topic):
    with replica_topic.replica("a") as a:
        written(a._folder, leads(a))
    assert replica_topic.values()[0] == [
        encode_line(line) for line in lines(replica_topic.folder / "a")
    ]
    assert POISON.topic == "orders"
