"""Backups: whole, readable by others, and never overwritten."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import msgspec
import pytest

from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.model.plan import PartitionOffset

AT = 1_800_000_000.0
PAIRS = (
    PartitionOffset('{"filename":"a"}', '{"position":12345678901234567890}'),
    PartitionOffset('{"filename":"é ☃"}', None),
)


def test_it_is_kip_199_json_with_exact_integers(tmp_path):
    path, _ = backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT)
    assert json.loads(path.read_text()) == {
        "orders": [
            {"partition": {"filename": "a"}, "offset": {"position": 12345678901234567890}},
            {"partition": {"filename": "é ☃"}, "offset": None},
        ]
    }


def test_its_hash_is_that_of_the_file(tmp_path):
    path, sha256 = backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def test_the_same_backup_at_the_same_moment_is_another_file(tmp_path):
    first = backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT).path
    second = backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT).path
    assert first != second
    assert first.read_bytes() == second.read_bytes()


def test_a_name_cannot_lead_out_of_the_folder(tmp_path):
    name = "../../etc/x" + "y" * 300
    path = backups.write_backup(tmp_path, connector=name, pairs=PAIRS, at=AT).path
    assert path.parent == tmp_path / "backups"
    assert name in json.loads(path.read_text())


def test_nothing_else_is_left_beside_it(tmp_path):
    path = backups.write_backup(tmp_path, connector="orders", pairs=(), at=AT).path
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_that_does_not_read_back_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", lambda self: b"other bytes")
    with pytest.raises(OSError, match="is not what was written"):
        backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT)


def test_they_are_found_oldest_first_with_what_they_hold(tmp_path):
    late = backups.write_backup(tmp_path, connector="a", pairs=PAIRS, at=AT + 60).path
    early = backups.write_backup(tmp_path, connector="b", pairs=(), at=AT).path
    summary = backups.list_backups(tmp_path)
    assert [retained.name for retained in summary] == [early.name, late.name]
    assert [retained.connectors for retained in summary] == [(("b", 0),), (("a", 2),)]


def test_their_entries_are_as_connect_would_be_reported(tmp_path):
    path = backups.write_backup(tmp_path, connector="orders", pairs=PAIRS, at=AT).path
    assert backups.parse_entries(path.read_bytes()) == tuple(
        ("orders", pair.partition, pair.offset) for pair in PAIRS
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"orders": 1}',
        b'{"\xff": []}',
        b'{"orders": [{"partition": {"a": "\xff"}, "offset": null}]}',
        b'{"orders": ' + b"[" * 100_000,
    ],
    ids=["another shape", "no UTF-8", "no UTF-8 inside", "deep"],
)
def test_what_is_no_backup_is_none(tmp_path, body):
    with pytest.raises(msgspec.DecodeError):
        backups.parse_entries(body)
    (tmp_path / backups.FOLDER).mkdir()
    (tmp_path / backups.FOLDER / "x.json").write_bytes(body)
    (backup,) = backups.list_backups(tmp_path)
    assert sum(count for _, count in backup.connectors) <= 1
