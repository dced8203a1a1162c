"""Records copied to a real topic and to files, found again, and written back; and read from a real
log whatever is in it: compressed, aborted, cut off by retention, spoilt on the disk.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lab import Lab
from lab.processes.jars import jars
from lab.processes.java import java
from lab.waiting import NotYet, until
from offsetwatch.cli import cli
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clients.records.reader import LogWindow, RawRecord, RecordReader
from offsetwatch.clients.write.kafka import RecordWriter
from offsetwatch.config import Kafka, QuarantineConfig
from offsetwatch.errors import ClientError, RemoteRefusal
from offsetwatch.model import topology
from offsetwatch.remedy.drivers.common_steps import KafkaSource, RecordCopier
from offsetwatch.remedy.drivers.quarantine.stores import CombinedQuarantine, build_quarantine
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import Copy, RecordLocation
from offsetwatch.remedy.model.quarantine import QuarantineContext, compute_receipt_id
from tests.real.conftest import KAFKA

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

READ_S = 120.0  # beside whatever else this machine does
STAMP_MS = 1_700_000_000_123
TOPIC = "set-aside"
HEADERS: list[tuple[str, bytes | None]] = [
    ("a", None),
    ("a", b""),
    ("", b"x"),
    ("é☃😀", b"\0\xff"),
    ("__connect.errors.topic", b"a copy of a copy"),
    ("__offsetwatch.headers", b"0"),
    ("a", b"2"),
]
names = (f"quarantined-{number}" for number in count())


@pytest.fixture
def topic(lab: Lab) -> str:
    name = next(names)
    lab.create_topic("west", name, config={"max.message.bytes": "30000000"})
    return name


@pytest.fixture
def reader(lab: Lab) -> Iterator[RecordReader]:
    with opened(lab) as built:
        yield built


@pytest.fixture
def kafkas(lab: Lab) -> dict[str, Kafka]:
    return {"east": Kafka(bootstrap=lab.east), "west": Kafka(bootstrap=lab.west)}


def opened(lab: Lab, *, committed: bool = False, check_crcs: bool = False) -> RecordReader:
    return RecordReader(
        "west", {"bootstrap.servers": lab.west}, committed=committed, check_crcs=check_crcs
    )


def read(reader: RecordReader, topic: str, start: int = 0) -> LogWindow:
    partition = topology.TopicPartition(topic, 0)
    return reader.window(partition, start, count_max=1000, bytes_max=10**9, timeout_s=READ_S)


def quarantine(kafkas: dict[str, Kafka], folder: Path, **expected) -> CombinedQuarantine:
    return build_quarantine(
        QuarantineConfig(kafka="east", **{"topic": TOPIC, **expected}), kafkas, folder
    )


def written(lab: Lab, topic: str, *records: tuple, codec: str = "none") -> None:
    producer = Producer(
        {
            "bootstrap.servers": lab.west,
            "compression.type": codec,
            "message.max.bytes": 30_000_000,
            "linger.ms": 50,
        }
    )
    for key, value, headers in records:
        producer.produce(
            topic, key=key, value=value, headers=headers, partition=0, timestamp=STAMP_MS
        )
    assert producer.flush(30) == 0


def about(record: RawRecord) -> QuarantineContext:
    return QuarantineContext(
        skip_key=f"{record.topic}-{record.offset}",
        plan_id="p-1",
        incident="i-1",
        connector="orders-sink",
        connect_cluster="lab",
        kafka="west",
    )


def described(lab: Lab, topic: str):
    return RecordWriter("east", {"bootstrap.servers": lab.east}).settings(topic)


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_comes_back_from_the_topic_exactly_as_it_was(
    lab, topic, reader, kafkas, tmp_path, codec
):
    inputs = [
        (None, None, []),
        (b"", b"", HEADERS),
        (b"\0\xff", None, [("h", None)]),
        (None, b"v" * 2_000, HEADERS[:1]),
    ]
    written(lab, topic, *inputs, codec=codec)
    records = read(reader, topic).records
    assert [
        (stored_record.key, stored_record.value, list(stored_record.headers))
        for stored_record in records
    ] == inputs
    assert {
        (stored_record.timestamp_ms, stored_record.timestamp_type) for stored_record in records
    } == {(STAMP_MS, "create")}

    store = quarantine(kafkas, tmp_path)
    for record in records:
        assert store.find(about(record).skip_key) is None
        receipt = store.put(record, about(record))
        assert receipt.sha256 == record.sha256
        assert receipt.where.startswith("east/set-aside-")
        assert store.put(record, about(record)).sha256 == record.sha256  # twice does no harm
    fresh = quarantine(kafkas, tmp_path)
    retained = {
        held.record.offset: held.record
        for _, held in fresh.list_copies()
        if held is not None and held.record.topic == topic
    }
    assert [retained[record.offset] for record in records] == list(records)
    for record in records:
        receipt = fresh.find(about(record).skip_key, record.sha256)
        assert receipt is not None
        assert receipt == store.find(about(record).skip_key)
    assert list(tmp_path.iterdir()) == []


def test_a_topic_is_made_to_keep_copies_and_only_for_the_first_of_them(
    lab, topic, reader, kafkas, tmp_path
):
    name = next(names)
    store = quarantine(kafkas, tmp_path, topic=name, retention_days=30.0)
    assert store.find("any") is None
    assert list(store.list_copies()) == []
    assert described(lab, name) is None
    written(lab, topic, (b"k", b"v", []))
    (record,) = read(reader, topic).records
    store.put(record, about(record))
    built = described(lab, name)
    assert built is not None
    assert (built.partitions, built.replication, built.in_sync_min) == (6, 1, 1)  # of one broker
    assert (built.compacted, built.retention_ms, built.retention_bytes) == (
        False,
        2_592_000_000,
        -1,
    )
    assert built.message_bytes_max == 64 * 1024 * 1024
    assert quarantine(kafkas, tmp_path, topic=name).problems() != ()  # for ever is not for 30 days


def test_a_topic_that_would_lose_copies_is_refused(lab, topic, reader, kafkas, tmp_path):
    name = next(names)
    lab.create_topic("east", name, config={"cleanup.policy": "compact"})
    written(lab, topic, (b"k", b"v", []))
    (record,) = read(reader, topic).records
    with pytest.raises(RemoteRefusal, match="compacted"):
        quarantine(kafkas, tmp_path, topic=name).put(record, about(record))
    assert list(tmp_path.iterdir()) == []


def test_a_record_of_twenty_megabytes_goes_into_the_topic(lab, topic, reader, kafkas, tmp_path):
    written(lab, topic, (b"k", os.urandom(20_000_000), HEADERS))
    (record,) = read(reader, topic).records
    store = quarantine(kafkas, tmp_path)
    receipt = store.put(record, about(record))
    assert (receipt.path, receipt.sha256) == (None, record.sha256)
    assert store.find(about(record).skip_key) == receipt


def test_what_is_too_large_for_the_topic_becomes_a_file(lab, topic, reader, kafkas, tmp_path):
    name = next(names)
    settings = {"max.message.bytes": "10000", "retention.ms": "-1"}
    lab.create_topic("east", name, config=settings)
    written(lab, topic, (b"k", b"v" * 11_000, []), (b"k", b"v" * 8_000, []))
    large, small = read(reader, topic).records
    store = quarantine(kafkas, tmp_path, topic=name)
    first, second = store.put(large, about(large)), store.put(small, about(small))
    assert first.path is not None
    assert second.path is None
    assert store.find(about(large).skip_key) == first
    assert [held.record for _, held in store.list_copies() if held is not None] == [large, small]


def test_the_broker_has_the_last_word_on_what_is_too_large(lab, topic, reader, kafkas, tmp_path):
    """Of a record that just fits by our count and does not by the broker's there is none; of one
    that is refused there is a file.
    """
    name = next(names)
    lab.create_topic("east", name, config={"max.message.bytes": "9000", "retention.ms": "-1"})
    written(lab, topic, *((b"k", b"v" * size, []) for size in range(7_500, 8_500, 100)))
    store = quarantine(kafkas, tmp_path, topic=name)
    receipts = [store.put(record, about(record)) for record in read(reader, topic).records]
    assert [receipt.path is None for receipt in receipts] == sorted(
        (receipt.path is None for receipt in receipts), reverse=True
    )
    assert {receipt.path is None for receipt in receipts} == {True, False}


def test_without_a_broker_there_is_no_receipt_and_no_file_instead(
    lab, topic, reader, kafkas, tmp_path
):
    written(lab, topic, (b"k", b"v", []))
    (record,) = read(reader, topic).records
    store = quarantine({**kafkas, "east": Kafka(bootstrap="127.0.0.1:1")}, tmp_path)
    with pytest.raises(ClientError):
        store.put(record, about(record))
    with pytest.raises(ClientError):
        store.find(about(record).skip_key)
    assert list(tmp_path.iterdir()) == []


# --- what a real log can hold ---------------------------------------------------------------------


def test_readers_of_committed_records_pass_what_was_aborted_and_wait_for_what_is_open(lab, topic):
    producer = Producer(
        {
            "bootstrap.servers": lab.west,
            "transactional.id": topic,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(READ_S)
    for value, end in (
        (b"aborted", producer.abort_transaction),
        (b"committed", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value=value, partition=0)
        producer.flush(READ_S)
        end(READ_S)
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush(READ_S)
    with opened(lab, committed=True, check_crcs=True) as committed, opened(lab) as every:
        window = read(committed, topic)
        assert [record.value for record in window.records] == [b"committed"]
        assert (window.records[0].offset, window.next_offset, window.end) == (2, 4, 4)
        all_ = read(every, topic)
        assert [record.value for record in all_.records] == [b"aborted", b"committed", b"open"]
        assert (all_.next_offset, all_.end) == (5, 5)
        producer.abort_transaction(READ_S)

        def ended() -> None:
            if (now := read(committed, topic, 3)) != LogWindow((), 6, 6, 0):
                raise NotYet(str(now))

        until("the end of the transaction", ended, timeout_s=READ_S)


def test_a_batch_that_the_disk_has_spoilt_is_found_and_its_bytes_are_salvaged(
    lab, topic, kafkas, tmp_path
):
    for value in (b"first", b"a value of its own", b"last"):
        written(lab, topic, (b"k", value, HEADERS))
    segment = lab.directory / "west-data" / f"{topic}-0" / f"{0:020}.log"
    content = segment.read_bytes()
    location = content.index(b"a value of its own")
    with segment.open("r+b") as handle:
        handle.seek(location)
        handle.write(b"A")
    with opened(lab, committed=True, check_crcs=True) as checking:
        window = read(checking, topic)
        assert [record.value for record in window.records] == [b"first"]
        assert (window.corrupt_at, window.next_offset, window.end) == (1, 1, 3)
        assert [record.value for record in read(checking, topic, 2).records] == [b"last"]
    with opened(lab) as salvage:
        spoilt = read(salvage, topic, 1).records[0]
    assert spoilt.value == b"A value of its own"
    steps, step = copying(lab, kafkas, tmp_path, spoilt)
    assert steps.carry_out(step).answer is AttemptResult.ACK
    assert steps.inspect(step).status is StepStatus.DONE


def test_records_are_as_large_as_a_producer_of_kafkas_says(lab, topic, reader):
    """It names the size where that is more than it may send."""
    command = java(
        jars(KAFKA),
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", lab.west, "--topic", topic),
        *("--producer-property", "max.request.size=100"),
        *("--property", "parse.headers=true", "--property", "parse.key=true"),
        heap_mb=128,
    )
    line = "first:1,second:\tkey\t" + "v" * 200 + "\n"
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=False)
    answer = done.stdout + done.stderr
    record = RawRecord(
        *(topic, 0, 0, None, None, "none", b"key", b"v" * 200),
        headers=(("first", b"1"), ("second", b"")),
    )
    assert f"The message is {record.size_bytes} bytes when serialized" in answer


# --- the step -------------------------------------------------------------------------------------


def copying(
    lab: Lab, kafkas: dict[str, Kafka], folder: Path, record: RawRecord
) -> tuple[RecordCopier, Copy]:
    topic_id = KafkaInspector("west", {"bootstrap.servers": lab.west}).topic_id_now(record.topic)
    record_location = RecordLocation("west", record.topic, topic_id or "", 0, record.offset)
    step = Copy(
        record_location, record.sha256, record.size_bytes, about(record).skip_key, f"east/{TOPIC}"
    )
    steps = RecordCopier(
        lambda kafka: KafkaSource(kafka, kafkas[kafka]), quarantine(kafkas, folder), about(record)
    )
    return steps, step


def test_the_step_copies_the_record_that_was_inspected_and_no_other(
    lab, topic, reader, kafkas, tmp_path
):
    written(lab, topic, *((b"k", b"v%d" % number, HEADERS) for number in range(4)))
    records = read(reader, topic).records
    steps, step = copying(lab, kafkas, tmp_path, records[2])
    assert steps.inspect(step).status is StepStatus.READY
    outcome = steps.carry_out(step)
    assert outcome.answer is AttemptResult.ACK
    assert steps.inspect(step).status is StepStatus.DONE
    receipt = quarantine(kafkas, tmp_path).find(step.skip_key, step.sha256)
    assert receipt is not None
    assert receipt.where in outcome.said
    other = msgspec.structs.replace(step, skip_key="other", sha256=records[1].sha256)
    assert steps.inspect(other).status is StepStatus.FOREIGN
    assert steps.carry_out(other).answer is AttemptResult.NACK


def test_a_record_that_retention_takes_before_it_is_copied_cannot_be(
    lab, topic, reader, kafkas, tmp_path
):
    written(lab, topic, *((b"k", b"v%d" % number, HEADERS) for number in range(4)))
    records = read(reader, topic).records
    steps, step = copying(lab, kafkas, tmp_path, records[2])
    admin = AdminClient({"bootstrap.servers": lab.west})
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result()
    assert read(reader, topic).log_start == 3
    assert steps.inspect(step).status is StepStatus.IMPOSSIBLE
    assert steps.carry_out(step).answer is AttemptResult.NACK
    remaining, step = copying(lab, kafkas, tmp_path, records[3])
    assert remaining.carry_out(step).answer is AttemptResult.ACK
    admin.delete_topics([topic])[topic].result()
    assert remaining.inspect(step).status is StepStatus.DONE
    assert remaining.inspect(msgspec.structs.replace(step, skip_key="other")).status in {
        StepStatus.IMPOSSIBLE,
        StepStatus.FOREIGN,
    }


# --- the verbs ------------------------------------------------------------------------------------


def test_a_record_goes_back_to_its_topic_exactly_as_it_was(lab, topic, reader, kafkas, tmp_path):
    written(lab, topic, (b"k", b"v", HEADERS))
    (record,) = read(reader, topic).records
    name = next(names)
    quarantine(kafkas, tmp_path, topic=name).put(record, about(record))
    config = tmp_path / "offsetwatch.yaml"
    config.write_text(
        f"""
kafka: {{east: {{bootstrap: "{lab.east}"}}, west: {{bootstrap: "{lab.west}"}}}}
connect: [{{name: lab, kafka: east, url: "{lab.connect_urls[0]}"}}]
state_dir: {tmp_path / "state"}
remedy: {{quarantine: {{kafka: east, topic: {name}}}}}
"""
    )

    def typed(*words: str):
        return CliRunner().invoke(
            cli, ["quarantine", *words, "--config", str(config)], catch_exceptions=False
        )

    (row,) = json.loads(typed("list", "--json").stdout)
    copy_id = compute_receipt_id(about(record).skip_key, record.sha256)
    assert (row["id"], row["topic"], row["offset"]) == (copy_id, topic, 0)
    assert typed("get", copy_id[:10], "--raw").stdout_bytes == b"v"
    rehearsed = typed("replay", copy_id[:10], "--dry-run")
    assert rehearsed.exit_code == 0
    assert len(read(reader, topic).records) == 1
    done = typed("replay", copy_id[:10], "--yes")
    assert done.exit_code == 0, done.output
    first, again = read(reader, topic).records
    assert replace(again, offset=first.offset, leader_epoch=first.leader_epoch) == first
    elsewhere = next(names)
    lab.create_topic("east", elsewhere)
    to_it = ("replay", copy_id, "--to", elsewhere, "--kafka", "east", "--yes")
    assert typed(*to_it).exit_code == 3  # it was written once already, and nobody said --again
    done = typed(*to_it, "--again")
    assert done.exit_code == 0, done.output
    assert typed("replay", copy_id, "--to", "not-there", "--yes").exit_code == 3
    assert described(lab, "not-there") is None
