"""`quarantine`, as it is typed."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans import quarantine
from offsetwatch.errors import (
    AccessDenied,
    ConfigError,
    RemoteRefusal,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.quarantine.replay import RecordReplayTarget
from offsetwatch.remedy.drivers.quarantine.stores import (
    CombinedQuarantine,
    FileQuarantine,
    read_copy,
)
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.model.journal_records import RecordReplayed
from offsetwatch.remedy.model.quarantine import (
    QuarantineContext,
    QuarantinedRecord,
    compute_receipt_id,
)
from tests.changed import replace
from tests.fakes.clock import VirtualClock
from tests.fakes.logs import AWAY, SETTINGS, FakeLogs

KEY = "a" * 64
SECRET = b'{"card": "4111"}'
RECORD = RawRecord(
    "orders", 1, 1234, 5, 1_700_000_000_000, "create", b"customer-7", SECRET, (("h\x1b", None),)
)
ABOUT = QuarantineContext(
    skip_key=KEY,
    plan_id="p-1",
    incident="i-1",
    connector="orders-sink",
    connect_cluster="lab",
    kafka="east",
    topic_id="id-1",
    stage="converter_value",
    exception_class="org.apache.kafka.connect.errors.DataException",
)
ID = compute_receipt_id(KEY, RECORD.sha256)
CONFIG = """
kafka: {east: {bootstrap: "127.0.0.1:1"}, west: {bootstrap: "127.0.0.1:1"}}
connect: [{name: lab, kafka: east, url: "http://127.0.0.1:1"}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FileQuarantine(tmp_path / "state", VirtualClock()).put(RECORD, ABOUT)
    return tmp_path / "state"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    built = tmp_path / "offsetwatch.yaml"
    built.write_text(f"{CONFIG}state_dir: {tmp_path / 'state'}\n")
    return built


def typed(*arguments: str, folder: Path):
    return CliRunner().invoke(cli, ["quarantine", *arguments, "--state-dir", str(folder)])


def put(folder: Path, record: RawRecord, about: QuarantineContext = ABOUT) -> str:
    FileQuarantine(folder, VirtualClock()).put(record, about)
    return compute_receipt_id(about.skip_key, record.sha256)


# --- list and get ---------------------------------------------------------------------------------


def test_copies_are_listed_with_all_but_what_they_hold(folder):
    done = typed("list", "--json", folder=folder)
    (row,) = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (row["id"], row["connector"], row["plan_id"]) == (ID, "orders-sink", "p-1")
    assert (row["kafka"], row["topic"], row["partition"], row["offset"]) == (
        "east",
        "orders",
        1,
        1234,
    )
    assert (row["size_bytes"], row["sha256"]) == (RECORD.size_bytes, RECORD.sha256)
    stdout = typed("list", folder=folder).stdout
    assert ID[:12] in stdout
    assert "DataException in converter_value" in stdout
    for report in (done.stdout, stdout):
        assert "4111" not in report
        assert "customer-7" not in report


def test_no_copies_are_no_findings(tmp_path):
    Journal(tmp_path).close()
    done = typed("list", "--json", folder=tmp_path)
    assert (json.loads(done.stdout), done.exit_code) == ([], 0)
    assert typed("list", folder=tmp_path).exit_code == 0


def test_a_damaged_copy_is_a_finding(folder):
    (path,) = (folder / "quarantine").glob("*")
    path.write_bytes(path.read_bytes().replace(b"orders-sink", b"orders-sinK"))
    assert typed("list", folder=folder).exit_code == 0  # names are not vouched for
    path.write_bytes(path.read_bytes()[:-20])
    done = typed("list", folder=folder)
    assert done.exit_code == 1
    assert "cannot be read" in done.stdout or "cut short" in done.stdout
    assert typed("get", ID, folder=folder).exit_code != 0


def test_get_reports_all_but_what_the_record_holds(folder):
    done = typed("get", ID[:8], "--json", folder=folder)
    document = json.loads(done.stdout)
    assert (document["id"], document["key_bytes"], document["value_bytes"]) == (ID, 10, len(SECRET))
    assert document["headers"] == [{"name": "h\x1b", "bytes": None}]
    stdout = typed("get", ID, folder=folder).stdout
    assert "\x1b" not in stdout
    assert r"h\x1b: null" in stdout
    for text in (done.stdout, stdout):
        assert "4111" not in text
        assert "customer-7" not in text


def test_get_raw_prints_the_value_and_nothing_else(folder, tmp_path):
    done = typed("get", ID, "--raw", folder=folder)
    assert (done.stdout_bytes, done.stderr) == (SECRET, "")
    path = tmp_path / "value"
    assert typed("get", ID, "--raw", "--output", str(path), folder=folder).exit_code == 0
    assert path.read_bytes() == SECRET
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_value_of_null_is_not_an_empty_one(folder):
    null = put(folder, replace(RECORD, value=None))
    empty = put(folder, replace(RECORD, value=b""))
    assert typed("get", null, "--raw", folder=folder).exit_code == 1
    done = typed("get", empty, "--raw", folder=folder)
    assert (done.stdout_bytes, done.exit_code) == (b"", 0)


def test_get_output_writes_the_whole_record_and_never_over_a_file(folder, tmp_path):
    path = tmp_path / "record.jsonl"
    assert typed("get", ID, "--output", str(path), folder=folder).exit_code == 0
    assert read_copy(path) == QuarantinedRecord(RECORD, ABOUT)
    for raw in ([], ["--raw"]):
        with pytest.raises(ConfigError, match="File exists"):
            CliRunner().invoke(
                cli,
                ["quarantine", "get", ID, *raw, "--output", str(path), "--state-dir", str(folder)],
                catch_exceptions=False,
            )


def got(copy_id: str, folder: Path) -> int:
    return quarantine.print_copy(
        copy_id,
        config_path=None,
        state_dir=folder,
        to=None,
        raw=False,
        output_format=OutputFormat.JSON,
    )


@pytest.mark.parametrize("inputs", ["0000", ""])
def test_an_id_of_nothing_is_a_mistake(folder, inputs):
    with pytest.raises(ConfigError, match="there is no record"):
        got(inputs, folder)


def test_an_id_that_several_begin_with_is_a_mistake_that_names_them(folder):
    other = put(folder, replace(RECORD, value=b"v"))
    with pytest.raises(ConfigError, match=other):
        got(ID[:16], folder)


def test_json_is_for_what_is_reported_alone(folder):
    assert typed("get", ID, "--json", "--raw", folder=folder).exit_code == 2


# --- replay ---------------------------------------------------------------------------------------


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs(
        clock=VirtualClock(), topics={"orders": SETTINGS, "retry": replace(SETTINGS, partitions=1)}
    )


def replayed(logs: FakeLogs, path: Path, copy_id: str = ID, **more) -> int:
    options = {
        "topic": None,
        "kafka": None,
        "timestamp": "original",
        "again": False,
        "dry_run": False,
        "yes": True,
        **more,
    }
    with mock.patch.object(
        quarantine,
        "build_replay_target",
        lambda kafka, _cluster: RecordReplayTarget(kafka, logs.open, logs.open),
    ):
        return quarantine.replay_copy(copy_id, config_path=path, state_dir=None, **options)


def journalled(folder: Path) -> list[RecordReplayed]:
    journal = Journal(folder)
    records = [
        entry.record for entry in journal.tail(10) if isinstance(entry.record, RecordReplayed)
    ]
    journal.close()
    return records


def test_a_record_goes_back_exactly_as_it_was(logs, folder, path, capsys):
    assert replayed(logs, path) == 0
    (record,) = logs.part("orders", 1).records.values()
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (
        RECORD.key,
        RECORD.value,
        RECORD.headers,
        RECORD.timestamp_ms,
    )
    (report,) = journalled(folder)
    assert (report.receipt, report.to) == (ID, "east/orders-1")
    err = capsys.readouterr().err
    assert "everybody who reads orders gets this record again, orders-sink among them" in err
    assert "written to east/orders-1@0" in err


def test_a_rehearsal_writes_nothing_anywhere(logs, folder, path, capsys):
    assert replayed(logs, path, dry_run=True) == 0
    assert not any(part.records for part in logs.parts.values())
    assert not (folder / FILE_NAME).exists()
    assert "dry run" in capsys.readouterr().err


def test_without_an_operator_or_their_word_nothing_is_written(logs, path, folder, capsys):
    assert replayed(logs, path, yes=False) == 3
    assert not any(part.records for part in logs.parts.values())
    assert journalled(folder) == []


def test_another_topic_with_fewer_partitions_is_said(logs, path, folder, capsys):
    assert replayed(logs, path, topic="retry", kafka="west") == 0
    assert len(logs.part("retry", 0).records) == 1
    err = capsys.readouterr().err
    assert "it was in partition 1, and there are 1: it goes to 0" in err
    assert "everybody who reads" not in err
    assert journalled(folder)[0].to == "west/retry-0"


def test_a_topic_that_is_not_there_is_not_made(logs, path, folder, capsys):
    assert replayed(logs, path, topic="none") == 3
    assert logs.made == []
    assert "there is no topic east/none" in capsys.readouterr().err
    assert journalled(folder) == []


def test_a_record_that_is_too_large_for_the_topic_is_not_tried(logs, path, folder, capsys):
    logs.topics["orders"] = replace(SETTINGS, message_bytes_max=100)
    assert replayed(logs, path) == 3
    assert "max.message.bytes" in capsys.readouterr().err
    assert journalled(folder) == []


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"compacted": True}, "is compacted"),
        ({"topic_id": "id-2"}, "was recreated"),
        ({"appended": True}, "will be the broker's"),
        ({"retention_ms": 86_400_000}, "older than the 1 days"),
    ],
)
def test_what_a_replay_means_beside_is_said_before(logs, path, folder, capsys, settings, answer):
    logs.topics["orders"] = replace(SETTINGS, **settings)
    assert replayed(logs, path, dry_run=True) == 0
    assert answer in capsys.readouterr().err


def test_the_timestamp_is_its_own_or_that_of_now(logs, path, folder):
    replayed(logs, path, timestamp="now")
    (record,) = logs.part("orders", 1).records.values()
    assert record.timestamp_ms == logs.clock.now() * 1000


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ResponseTimeout("east", "no answer"), 5),
        (RemoteRefusal("east", "no"), 3),
        (AccessDenied("east", "ACL"), 6),
    ],
)
def test_how_it_ended_is_reported_by_the_exit_code(logs, path, folder, error, code):
    logs.lost = error
    assert replayed(logs, path) == code
    first, *rest = journalled(folder)
    assert not first.failed  # before it was tried
    assert [each.failed for each in rest] == ([] if code == 5 else [True])
    # Where it is certain that nothing was written, another try is the first one.
    logs.lost = None
    assert replayed(logs, path) == (3 if code == 5 else 0)


def test_a_record_is_not_written_back_twice_without_a_word(logs, path, folder, capsys):
    assert replayed(logs, path) == 0
    capsys.readouterr()
    for dry_run in (True, False):
        assert replayed(logs, path, dry_run=dry_run) == 3
        err = capsys.readouterr().err
        assert "this record was written to east/orders-1 at " in err
        assert "--again" in err
    assert replayed(logs, path, topic="retry") == 3
    assert len(logs.part("orders", 1).records) == len(journalled(folder)) == 1
    assert replayed(logs, path, again=True) == 0
    assert len(logs.part("orders", 1).records) == len(journalled(folder)) == 2


def test_the_list_and_get_show_what_was_written_back(logs, path, folder):
    other = put(folder, replace(RECORD, value=b"v"))
    replayed(logs, path)
    rows = {row["id"]: row for row in json.loads(typed("list", "--json", folder=folder).stdout)}
    (once,) = rows[ID]["replayed"]
    assert once["to"] == "east/orders-1"
    assert rows[other]["replayed"] == []
    assert "once, 2" in typed("list", folder=folder).stdout
    assert "to east/orders-1" in typed("get", ID, folder=folder).stdout
    replayed(logs, path, again=True)
    assert "2 times" in typed("list", folder=folder).stdout


def test_a_cluster_that_is_away_is_reported_as_such(logs, path, folder):
    logs.down = TargetUnreachable("east", "no connection")
    with pytest.raises(TargetUnreachable):
        replayed(logs, path)
    assert journalled(folder) == []


def test_a_cluster_that_denies_it_is_reported_with_what_to_do_about_it(logs, path, folder, capsys):
    logs.down = AccessDenied("east", "no", advice="set sasl.password")
    assert replayed(logs, path) == 6
    assert "denied: east: no; set sasl.password\n" in capsys.readouterr().err


def test_what_cannot_be_read_back_is_in_doubt(logs, path, folder, capsys):
    logs.silent = True
    assert replayed(logs, path) == 5
    logs.silent = False
    logs.spoilt = lambda record: replace(record, value=b"other")
    assert replayed(logs, path, again=True) == 5
    assert re.search("inspect east/orders-1 before you try again", capsys.readouterr().err)


def test_a_cluster_that_is_not_configured_is_a_mistake(logs, path, folder):
    with pytest.raises(ConfigError, match=r"no cluster south \(known: east, west\)"):
        replayed(logs, path, kafka="south")


class _Away:
    name = "east/offsetwatch.quarantine"

    def list_copies(self):
        raise AWAY
        yield

    def problems(self):
        raise AWAY


def test_what_is_found_without_the_topic_is_listed_before_the_error(folder, capsys):
    store = CombinedQuarantine(FileQuarantine(folder, VirtualClock()), _Away())
    with (
        mock.patch.object(quarantine, "build_quarantine", return_value=store),
        pytest.raises(ResponseTimeout),
    ):
        quarantine.print_copies(config_path=None, state_dir=folder, output_format=OutputFormat.JSON)
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == [ID]
