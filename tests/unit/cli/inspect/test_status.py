"""The command line without anything to talk to: exit codes, messages, what needs no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_struct

from offsetwatch import documents
from offsetwatch.cli.common.document_source import ReadOptions
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.history.pipeline import read_cut
from offsetwatch.cli.inspect import status
from offsetwatch.cli.offsets import list as listing
from offsetwatch.cli.offsets.list import OK, USAGE
from offsetwatch.errors import ConfigError
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import Finding, FindingName, Judgement, Scope, Severity, Verdict
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.serve.documents.status import encode_status, find_problems
from offsetwatch.serve.metrics.catalog import CATALOG
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.unit.cli.invocation import invoke
from tests.unit.serve.worlds import full
from tests.unit.state.worlds import World, files, mirrors, orders, source

GOOD = """\
kafka:
  east: {bootstrap: "127.0.0.1:1"}
connect:
  - {name: lab, kafka: east, url: "http://127.0.0.1:1", poll: {timeout_s: 5.0}}
listen: "127.0.0.1:1"
"""
BAD = """\
kafka:
  east: {bootstrap: "127.0.0.1:1", propertis: {}}
connect:
  - {name: lab, kafka: eest, url: "http://127.0.0.1:1"}
lisen: "127.0.0.1:1"
"""


def offsetwatch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: exit codes are part of the contract."""
    return subprocess.run(
        [sys.executable, "-m", "offsetwatch", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(GOOD)
    return str(path)


def test_check_accepts_a_sound_file_and_says_what_it_holds(good: str) -> None:
    done = invoke("check", "--config", good)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 Kafka and 1 Connect cluster, listening on 127.0.0.1:1" in done.stdout


def test_check_prints_every_mistake_on_a_line_of_its_own_and_exits_2(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    done = offsetwatch("check", "--config", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 3
    for part in ("kafka.east.propertis", "connect[0].kafka", "lisen"):
        assert part in done.stderr
    assert done.stderr.count("did you mean") == 3


def test_a_missing_file_is_a_configuration_mistake(tmp_path: Path) -> None:
    done = offsetwatch("run", "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_metrics_prints_the_whole_catalogue() -> None:
    done = invoke("metrics", "--json")
    assert done.returncode == 0
    assert [row["name"] for row in json.loads(done.stdout)] == [spec.name for spec in CATALOG]


def test_connectors_status_of_an_unreachable_worker_exits_7_and_names_the_cluster(
    good: str,
) -> None:
    done = invoke("connectors", "status", "--config", good)
    assert done.returncode == 7
    assert "not read: Connect cluster lab (http://127.0.0.1:1): " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = invoke("completion", shell)
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout


def test_healthcheck_without_a_daemon_exits_7(good: str) -> None:
    assert invoke("healthcheck", "--config", good).returncode == 7


def test_status_that_cannot_catch_up_says_what_it_waits_for_and_exits_7(good: str) -> None:
    done = offsetwatch("status", "--config", good, "--timeout", "20")  # ends when all have failed
    assert done.returncode == 7
    assert "Connect cluster lab (http://127.0.0.1:1)" in done.stderr
    assert "Kafka cluster east (127.0.0.1:1)" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("history", "run"), id="no mode"),
        pytest.param(("history", "run", "--continuous", "--up-to", __file__), id="cut for ever"),
        pytest.param(("offsets", "list", "--connect", "nowhere"), id="unknown Connect cluster"),
    ],
)
def test_wrong_usage_exits_2(good: str, arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments, "--config", good).returncode == 2


def test_a_log_end_file_becomes_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "end.json"
    path.write_text('{"east/connect-offsets": {"0": 12, "24": 0}}')
    assert read_cut(path) == {KafkaTopic("east", "connect-offsets"): {0: 12, 24: 0}}


@pytest.mark.parametrize("text", ["", "[]", '{"no-slash": {"0": 1}}', '{"a/b": {"x": 1}}'])
def test_a_log_end_file_that_is_none_is_a_mistake_of_the_user(tmp_path: Path, text: str) -> None:
    path = tmp_path / "end.json"
    path.write_text(text)
    with pytest.raises(ConfigError):
        read_cut(path)


# --- status problems -----------------------------------------------------------------------------


def build_finding(name: FindingName, connector: str | None, subject: str = "") -> Finding:
    cluster = "" if connector is None else "lab"
    return Finding(name, Severity.WARNING, cluster, connector, subject, "So it is.", 0.0)


def failed() -> World:
    world = files()
    world.listed(source("files", tasks=(Task(0, "failed"),)))
    return world


def ahead() -> World:
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 500})
    world.ends(100)
    return world


@pytest.mark.parametrize(
    ("built", "finding", "problem"),
    [
        (failed, build_finding(FindingName.RESTART_LOOP, "files"), "task lab/files-0 has failed"),
        (
            ahead,
            build_finding(FindingName.MM2_POSITION_AHEAD, "mm2"),
            "is 401 records beyond the log end",
        ),
    ],
)
def test_what_a_finding_says_is_not_said_again(built, finding, problem):
    snapshot: Snapshot = built().snapshot()
    (answer,) = [item for item in find_problems(snapshot) if "log_ends" not in item]
    assert problem in answer
    assert [
        item for item in find_problems(replace(snapshot, findings=(finding,))) if item == answer
    ] == []
    others = replace(finding, connector="other", subject="another")
    assert answer in find_problems(replace(snapshot, findings=(others,)))


# --- status tables -------------------------------------------------------------------------------


def printed(capsys, states, verdicts) -> str:
    snapshot = full()
    one = snapshot.connectors[0]
    output = replace(
        snapshot,
        connectors=tuple(
            replace(one, name=name, state=state, tasks=tasks) for name, state, tasks in states
        ),
        judgements=tuple(
            Judgement(Scope.CONNECTOR, one.connect_cluster, name, "", verdict, 1, "So it is.", 0.0)
            for name, verdict in verdicts
        ),
        findings=(),
    )
    document = documents.decode(encode_status(output), status.StatusDocument)
    status._print_tables(document, "none in what was read")
    return capsys.readouterr().out


def test_a_table_without_rows_reports_that_something_was_not_read(capsys):
    document = documents.decode(encode_status(EMPTY_SNAPSHOT), status.StatusDocument)
    status._print_tables(document, status.NONE_READ)
    assert "Replication: none in what was read\n" in capsys.readouterr().out


def test_the_state_comes_first_and_the_worst_on_top(capsys):
    answer = printed(
        capsys,
        (
            ("a-well", "running", (Task(0, "running"),)),
            ("b-halted", "paused", (Task(0, "paused"),)),
            ("c-broken", "running", (Task(0, "failed"),)),
        ),
        (
            ("a-well", Verdict.OK),
            ("b-halted", Verdict.IDLE),
            ("c-broken", Verdict.UNKNOWN),
        ),
    )
    lines = [line for line in answer.splitlines() if re.search("[abc]-(well|halted|broken)", line)]
    cells = [re.split(r"\s{2,}", line.strip())[1:4] for line in lines[:3]]
    assert cells == [
        ["c-broken", "FAILED", "unknown"],
        ["b-halted", "paused", "idle"],
        ["a-well", "running", "ok"],
    ]


@pytest.mark.parametrize(("state", "word"), [("failed", "FAILED"), ("stopped", "stopped")])
def test_partitions_stand_under_the_state_of_their_connector(capsys, state, word):
    snapshot = full()
    names = {partition.connector for partition in snapshot.source_partitions}
    answer = printed(capsys, [(name, state, ()) for name in names], ())
    offsets = answer[answer.index("Source offsets") : answer.index("Replication")]
    assert offsets.count(word) == len(snapshot.source_partitions)


def test_a_source_has_a_lag_in_its_own_unit_or_the_reason_why_there_is_none(capsys):
    answer = printed(capsys, [("files", "running", ())], ())
    offsets = answer[answer.index("Source offsets") : answer.index("Replication")]
    assert "waits since" in offsets.splitlines()[1]
    assert "660 bytes" in offsets
    assert "1m 0s" in offsets or "1 min" in offsets


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "660 bytes"),
        ({"caught_up": None}, "at most 660 bytes"),
        ({"lag_transactions": 1}, "1 transaction"),
        ({"lag_bytes": None, "lag_rows": 3}, "3 rows"),
        ({"lag_bytes": None}, None),
        ({"snapshot_in_progress": True}, "snapshot in progress"),
        ({"lost": "its slot is gone"}, "its slot is gone"),
        ({"problem": "it has no offset"}, "it has no offset"),
    ],
)
def test_a_lag_is_printed_by_what_is_known_of_it(changes, text):
    (end,) = [
        partition.source_end
        for connector in documents.decode(
            encode_status(full()), status.StatusDocument
        ).connectors.connectors
        for partition in connector.source_partitions
        if partition.source_end is not None
    ]
    assert status.format_source_lag(replace_struct(end, **changes)) == text


def test_without_a_source_there_is_no_column_of_lag(capsys, monkeypatch):
    bare = replace(full(), source_ends=())
    monkeypatch.setattr("tests.unit.cli.inspect.test_status.full", lambda: bare)
    answer = printed(capsys, [("files", "running", ())], ())
    offsets = answer[answer.index("Source offsets") : answer.index("Replication")]
    assert "waits since" not in offsets


def test_the_state_of_an_unknown_connector_names_the_one_that_was_meant(monkeypatch):
    known = [status.ConnectorRow("lab", "orders-source", "source")]
    monkeypatch.setattr(status, "_read_states", lambda _reading: (known, "the daemon", ()))
    with pytest.raises(ConfigError, match="did you mean orders-source"):
        status.print_connectors_status(
            ReadOptions(None), "order-source", output_format=OutputFormat.TABLE
        )


@pytest.mark.parametrize(
    ("name", "answer"), [("filse", "no connector filse (did you mean files?)"), ("files", "")]
)
def test_offsets_of_an_unknown_connector_are_not_just_no_rows(capsys, name, answer):
    output = listing._OffsetListing(None, frozenset({name}))
    document = documents.decode(encode_status(full()), status.StatusDocument)
    output.take(document, (), None)
    output.by.append("the daemon")
    assert output.print(output_format=OutputFormat.TABLE) == (USAGE if answer else OK)
    unknown = [line for line in capsys.readouterr().err.splitlines() if "no connector" in line]
    assert unknown == ([answer] if answer else [])


def test_a_state_that_was_not_read_is_not_known_and_not_inapplicable():
    row = status.ConnectorRow("lab", "orders", "source")
    assert (row.state_in_words, row.tasks_in_words) == ("not known", "not known")
    running = status.ConnectorRow("lab", "orders", "source", state="running")
    assert (running.state_in_words, running.tasks_in_words) == ("running", "none")
