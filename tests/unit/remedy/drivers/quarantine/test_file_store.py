"""Copies as files."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.quarantine import stores
from offsetwatch.remedy.drivers.quarantine.stores import FileQuarantine, read_copy, write_copy
from offsetwatch.remedy.model.quarantine import QuarantineContext, QuarantinedRecord, compute_key_id
from tests.fakes.clock import VirtualClock

KEY = "a" * 64
RECORD = RawRecord("orders", 3, 1234, 5, 1_700_000_000_000, "create", b"k", None, (("h", b""),))
ABOUT = QuarantineContext(KEY, "p-1", "incident", "orders-sink", "lab", "east", "id-of-orders")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(tmp_path: Path, clock: VirtualClock) -> FileQuarantine:
    return FileQuarantine(tmp_path / "state", clock)


def files(store: FileQuarantine) -> list[str]:
    return sorted(path.name for path in Path(store.name).glob("*"))


def test_a_copy_is_found_again_by_whoever_looks(tmp_path, clock, store):
    receipt = store.put(RECORD, ABOUT)
    assert receipt.path is not None
    assert receipt.path.startswith(f"{tmp_path}/state/quarantine/{compute_key_id(KEY)}")
    assert (receipt.where, receipt.sha256, receipt.at) == (
        receipt.path,
        RECORD.sha256,
        clock.now(),
    )
    again = FileQuarantine(tmp_path / "state", clock)
    assert again.find(KEY) == again.find(KEY, RECORD.sha256) == receipt
    assert again.find(KEY, "0" * 64) is None
    assert again.find("b" * 64) is None
    assert read_copy(Path(receipt.path)) == QuarantinedRecord(RECORD, ABOUT)


def test_to_look_makes_no_folder(store):
    assert store.find(KEY) is None
    assert list(store.list_copies()) == []
    assert not Path(store.name).exists()


def test_a_copy_is_for_its_owner_alone(store):
    receipt = store.put(RECORD, ABOUT)
    assert stat.S_IMODE(Path(receipt.where).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(store.name).stat().st_mode) == 0o700


def test_the_same_record_twice_is_one_file(store, clock):
    first = store.put(RECORD, ABOUT)
    clock.advance(60)
    assert store.put(RECORD, ABOUT) == first
    assert len(files(store)) == 1


def test_of_two_records_under_a_key_the_newer_is_found_and_each_by_its_hash(store, clock):
    other = replace(RECORD, value=b"v")
    second = store.put(other, ABOUT)
    clock.advance(60)
    first = store.put(RECORD, ABOUT)
    assert store.find(KEY) == first
    assert store.find(KEY, other.sha256) == second


def test_a_damaged_file_is_no_copy_and_is_not_overwritten(store):
    receipt = store.put(RECORD, ABOUT)
    path = Path(receipt.where)
    path.write_bytes(path.read_bytes()[:-5])
    assert store.find(KEY) is None
    again = store.put(RECORD, ABOUT)
    assert again.path == str(path.with_name(f"{path.stem}-1.jsonl"))
    assert store.find(KEY) == again
    assert sorted(retained.problem is None for retained, _ in store.list_copies()) == [False, True]


def test_a_value_of_many_megabytes_comes_back(store):
    large = replace(RECORD, value=os.urandom(5_000_000))
    receipt = store.put(large, ABOUT)
    result = read_copy(Path(receipt.where))
    assert isinstance(result, QuarantinedRecord)
    assert result.record == large


def full(*_args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "sync_folder", "build_file_lines"])
def test_a_disk_that_fails_leaves_no_receipt_and_nothing_behind(store, monkeypatch, call):
    with monkeypatch.context() as patched:
        patched.setattr(os if call == "fsync" else stores, call, full)
        with pytest.raises(OSError, match="No space left"):
            store.put(RECORD, ABOUT)
    assert files(store) == []
    assert store.put(RECORD, ABOUT) == store.find(KEY)


def test_a_disk_that_gives_back_other_bytes_leaves_no_receipt_and_nothing_behind(
    store, monkeypatch
):
    honest = stores.build_file_lines
    with monkeypatch.context() as patched:
        patched.setattr(stores, "build_file_lines", lambda *args: list(honest(*args))[:-1])
        with pytest.raises(OSError, match="not what was written"):
            store.put(RECORD, ABOUT)
    assert files(store) == []


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path, clock):
    (tmp_path / "quarantine").write_text("a file")
    with pytest.raises(OSError):  # noqa: PT011 - whichever it is
        FileQuarantine(tmp_path, clock).put(RECORD, ABOUT)


def test_a_list_has_all_but_the_bytes(store):
    receipt = store.put(RECORD, ABOUT)
    ((retained, result),) = store.list_copies()
    assert (retained.id, retained.receipt, retained.about) == (
        Path(receipt.where).stem,
        receipt,
        ABOUT,
    )
    assert (retained.record, retained.size_bytes, retained.problem) == (
        ("orders", 3, 1234),
        RECORD.size_bytes,
        None,
    )
    assert result == QuarantinedRecord(RECORD, ABOUT)


def test_a_file_that_is_none_of_ours_is_listed_with_what_is_wrong(store):
    store.put(RECORD, ABOUT)
    (Path(store.name) / "other.jsonl").write_text("{}\n")
    assert [retained.problem is None for retained, _ in store.list_copies()] == [True, False]


def test_a_file_elsewhere_is_of_the_same_form_and_overwrites_nothing(tmp_path):
    path = tmp_path / "record.jsonl"
    write_copy(path, RECORD, ABOUT, 1.5)
    assert read_copy(path) == QuarantinedRecord(RECORD, ABOUT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_copy(path, RECORD, ABOUT, 1.5)
