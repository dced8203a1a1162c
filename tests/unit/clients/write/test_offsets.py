"""Records into librdkafka's in-process broker, and files replaced at once."""

from __future__ import annotations

import fcntl
import hashlib
from pathlib import Path

import pytest

from lab.processes.ports import free_port
from offsetwatch.clients.connect.standalone_offsets_file import read_offsets_entries
from offsetwatch.clients.kafka.whole_topic import read_whole_topic
from offsetwatch.clients.write.offsets import (
    OutgoingOffsetRecord,
    lock_file,
    replace_file,
    write_records,
)
from offsetwatch.decode.offsets_file import write_offsets_file
from offsetwatch.errors import AccessDenied, Conflict, SettingsRefused
from tests.fakes.broker import MockBroker

OLD = ((b"k", b"1"), (b"gone", None))
NEW = ((b"k", b"2"), (b"gone", None), (b"new", b"3"))


def test_records_go_into_the_partitions_that_were_named_and_say_who_wrote_them():
    broker = MockBroker()
    broker.produce("offsets", b"k", b"0", partition=3)
    records = [
        OutgoingOffsetRecord(3, b"k", b"1"),
        OutgoingOffsetRecord(1, b"x", None),
        OutgoingOffsetRecord(3, b"k", b"2"),
    ]
    settings = {"bootstrap.servers": broker.bootstrap}
    done = write_records("east", settings, "offsets", records)
    log = list(read_whole_topic(broker.admin(), broker.reader, "offsets"))
    broker.stop()
    assert (done.acknowledged, done.failed, done.certain) == (3, None, False)
    assert sorted(
        (item.kpartition, item.koffset, item.key, item.value, item.ours) for item in log
    ) == [
        (1, 0, b"x", None, True),
        (3, 0, b"k", b"0", False),
        (3, 1, b"k", b"1", True),
        (3, 2, b"k", b"2", True),
    ]


def test_more_records_than_a_producer_holds_at_once_are_written_all_the_same():
    broker = MockBroker()
    broker.produce("offsets", b"k", b"0")
    settings = {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 3}
    records = [OutgoingOffsetRecord(number % 4, b"k%d" % number, b"v") for number in range(50)]
    done = write_records("east", settings, "offsets", records)
    broker.stop()
    assert (done.acknowledged, done.failed) == (50, None)


def test_a_write_without_acknowledgement_is_uncertain(monkeypatch):
    monkeypatch.setattr("offsetwatch.clients.write.offsets.DELIVERY_TIMEOUT_S", 0.5)
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    done = write_records("east", settings, "offsets", [OutgoingOffsetRecord(0, b"k", b"v")])
    assert done.acknowledged == 0
    assert done.failed is not None
    assert not done.certain


def test_a_producer_that_cannot_be_made_has_written_nothing():
    with pytest.raises(SettingsRefused):
        write_records("east", {"no.such": "setting"}, "offsets", [])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "connect.offsets"
    path.write_bytes(write_offsets_file(OLD))
    path.chmod(0o640)
    return path


def test_a_file_is_replaced_and_what_it_was_is_retained(file):
    old = file.read_bytes()
    retained = replace_file(file, NEW)
    assert read_offsets_entries(file) == NEW
    assert retained == file.with_name(f"connect.offsets.{hashlib.sha256(old).hexdigest()[:12]}.bak")
    assert retained.read_bytes() == old
    assert file.stat().st_mode & 0o777 == 0o640
    assert {item.name for item in file.parent.iterdir()} == {file.name, retained.name}


def test_a_concurrent_reader_of_a_replaced_file_reads_all_of_the_old_one(file):
    old = file.read_bytes()
    with file.open("rb") as held:
        replace_file(file, NEW)
        assert held.read() == old


def test_replacing_it_twice_with_the_same_keeps_both_that_there_were(file):
    replace_file(file, NEW)
    replace_file(file, NEW)
    replace_file(file, NEW)
    assert len(list(file.parent.glob("*.bak"))) == 2


def test_a_file_that_is_not_there_is_made(tmp_path):
    assert replace_file(tmp_path / "new.offsets", NEW) is None
    assert read_offsets_entries(tmp_path / "new.offsets") == NEW


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(AccessDenied, match="cannot be replaced"):
        replace_file(tmp_path / "none" / "new.offsets", NEW)


def test_a_file_locked_by_another_process_is_a_conflict(file):
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(Conflict), lock_file(file):
            pass
    with lock_file(file):
        pass
    with lock_file(file.with_name("none")):
        pass
