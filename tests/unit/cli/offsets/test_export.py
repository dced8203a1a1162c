"""The verbs of offsets, from the command line to a worker in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from lab.processes.ports import free_port
from offsetwatch.cli import cli
from offsetwatch.cli.offsets.export import _parse_renames
from offsetwatch.cli.offsets.store_options import (
    parse_aliases,
)
from offsetwatch.decode.offsets_file import read_offsets_file, write_offsets_file
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import AccessDenied, ConfigError, TargetUnreachable
from offsetwatch.model.connectors import build_connector_path
from offsetwatch.remedy.drivers.rest import driver
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanOpened,
    StepAnswered,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    PlanSubject,
    RequestedState,
    Reset,
    Settle,
    ToState,
)
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetStore
from tests.fakes import connect as fake

FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
A, B = {"filename": "/a"}, {"shard": "b"}


class Shell:
    """The program, with a configuration that names one fake Connect cluster."""

    def __init__(self, folder: Path, worker: fake.Connect) -> None:
        self.folder, self.worker = folder, worker
        self.state = folder / "state"
        self.config = folder / "config.yaml"
        self.config.write_text(
            'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
            f"connect: [{{name: cc, kafka: k, url: '{worker.url}'}}]\n"
            f"state_dir: {self.state}\n"
        )

    def run(self, *arguments: str, stdin: str = "", status: int = 0) -> Result:
        where = ("--connect", "cc", "--config", str(self.config))
        result = CliRunner().invoke(cli, ["offsets", *arguments, *where], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    def change(self, *arguments: str, stdin: str = "", status: int = 0) -> Result:
        return self.run(*arguments, "--yes", "--watch", "0", stdin=stdin, status=status)


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving() as served:
        served.add("src", config={"connector.class": FILE, "file": "/a"})
        served.commit("src", A, {"position": 40})
        yield served


@pytest.fixture
def shell(tmp_path: Path, worker: fake.Connect, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr(driver, "QUIET_S", 0.0)  # no task of this worker's commits late
    return Shell(tmp_path, worker)


def document(**connectors: Any) -> str:
    return json.dumps(
        {
            name: [{"partition": partition, "offset": offset} for partition, offset in pairs]
            for name, pairs in connectors.items()
        }
    )


def stopped(worker: fake.Connect, name: str) -> None:
    worker.connectors[name].state = "STOPPED"
    worker.connectors[name].tasks = 0


def test_what_is_exported_is_imported_again_and_then_nothing_differs(
    shell: Shell, worker: fake.Connect
) -> None:
    stopped(worker, "src")
    retained = shell.folder / "kept.json"
    shell.run("export", "--output", str(retained))
    assert json.loads(retained.read_text()) == {
        "src": [{"partition": A, "offset": {"position": 40}}]
    }
    assert shell.run("export").stdout == retained.read_text()

    done = shell.change("reset", "src")
    assert "src: reset offsets of src: done and read back" in done.stderr
    assert worker.offsets["src"] == {}
    differs = shell.run("diff", "--offsets", str(retained), "--json", status=1)
    assert json.loads(differs.stdout) == [
        {
            "connector": "src",
            "partition": A,
            "now": None,
            "document": {"position": 40},
            "change": "added",
        }
    ]

    shell.change("import", stdin=retained.read_text())
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 40}}
    assert "no differences" in shell.run("diff", "--offsets", str(retained)).stderr
    assert worker.connectors["src"].state == "STOPPED"
    assert [method for method, _ in worker.changes()] == ["DELETE", "PATCH"]


def test_a_task_that_fails_after_the_change_is_no_success(
    shell: Shell, worker: fake.Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "RESTART_S", 0.0)  # the fake fails at once
    worker.add("dbz", config={"connector.class": FILE, "file": "/a"}, failing=True)
    worker.commit("dbz", A, {"position": 40})
    pair = ("--partition", '{"filename": "/a"}', "--offset", '{"position": 7}')
    done = shell.run("alter", "dbz", *pair, "--yes", "--watch", "1s", status=1)
    assert "done and read back, and it does not run: it failed again" in done.stderr
    assert "for the old offsets, `offsetwatch offsets import --offsets" in done.stderr


def test_a_running_connector_is_stopped_altered_and_runs_again(
    shell: Shell, worker: fake.Connect
) -> None:
    done = shell.change(
        "alter", "src", "--partition", '{"filename": "/a"}', "--offset", '{"position": 7}'
    )
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 7}}
    assert [path.rpartition("/")[2] for _, path in worker.changes()] == [
        "stop",
        "offsets",
        "resume",
    ]
    assert "-33" in done.stdout
    assert "its present offsets move until it has stopped" in done.stderr
    assert "the connector confirms its new offsets" in done.stderr


def test_a_dry_run_says_what_would_be_done_and_leaves_no_trace(
    shell: Shell, worker: fake.Connect
) -> None:
    done = shell.run("reset", "src", "--dry-run")
    for step in ("1. stop the connector", "reset all offsets", "5. resume the connector"):
        assert step in done.stdout
    assert "removed" in done.stdout
    assert "nothing was written" in done.stderr
    assert worker.changes() == []
    assert not shell.state.exists()


def test_what_is_so_already_is_said_and_nothing_is_done(shell: Shell, worker: fake.Connect) -> None:
    done = shell.change("import", stdin=document(src=[(A, {"position": 40})]))
    assert "nothing to change" in done.stderr
    assert worker.changes() == []
    assert not shell.state.exists()
    assert "nothing to change" in shell.change("import", stdin="{}").stderr


def test_all_problems_of_all_connectors_are_reported_before_anything_is_begun(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("other")
    done = shell.change(
        "import",
        stdin=document(
            src=[({"filename": "/b"}, {"position": "1"})],
            other=[(B, {"x": 1})],
            none=[(B, {"x": 1})],
        ),
        status=2,
    )
    for answer in (
        'src[0].partition.filename: "/b" is not the file that it reads; "filename": "/a"',
        'src[0].offset.position: "1" is no whole number; "position": 1',
        "other[0].partition: never there before",
        "none: Connect cluster cc has no such connector; it has: other, src",
        "4 problems: nothing was changed",
    ):
        assert answer in done.stderr
    assert worker.changes() == []


def test_the_body_of_a_get_is_distinguished_from_a_document(
    shell: Shell, worker: fake.Connect
) -> None:
    body = json.dumps({"offsets": [{"partition": A, "offset": {"position": 5}}]})
    expected = "give it to `offsets alter NAME --offsets FILE`"
    assert expected in shell.change("import", stdin=body, status=2).stderr
    path = shell.folder / "body.json"
    path.write_text(body)
    done = shell.run("diff", "--offsets", str(path), status=1)
    assert expected in done.stderr
    assert worker.changes() == []


def test_a_document_that_is_wrong_is_reported_with_all_its_mistakes(shell: Shell) -> None:
    with pytest.raises(ConfigError) as refused:
        shell.change("import", stdin='{"src": [{"partition": {}}, null]}')
    places = [mistake.split(": ")[:2] for mistake in refused.value.mistakes]
    assert places == [["standard input:1", "src[0]"], ["standard input:1", "src[1]"]]


def test_a_change_with_offsets_from_stdin_needs_yes(shell: Shell, worker: fake.Connect) -> None:
    done = shell.run("import", stdin=document(src=[(A, None)]), status=3)
    assert "say --yes" in done.stderr
    assert "say --yes" in shell.run("reset", "src", status=3).stderr
    assert worker.changes() == []


def test_of_several_connectors_only_those_that_are_requested_are_changed(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("other", config={"connector.class": FILE, "file": "/a"})
    both = document(src=[(A, {"position": 1})], other=[(A, {"position": 2})])
    shell.change("import", "--connectors", "other", stdin=both)
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 40}}
    assert worker.offsets["other"] == {'{"filename":"/a"}': {"position": 2}}
    done = shell.change("import", stdin=both)
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 1}}
    assert "succeeded" not in done.stdout  # of one there is nothing to sum up
    worker.fail("PATCH", "/connectors/src", 400, "no")
    swapped = document(src=[(A, {"position": 5})], other=[(A, {"position": 6})])
    done = shell.change("import", stdin=swapped, status=3)
    assert worker.offsets["other"] == {'{"filename":"/a"}': {"position": 2}}
    ended = done.stdout.partition("Ended")[2]
    assert "restored" in ended
    assert "not begun" in ended
    done = shell.change("import", stdin=swapped)
    assert done.stdout.partition("Ended")[2].count("succeeded") == 2


def test_offsets_go_to_a_connector_of_another_name(shell: Shell, worker: fake.Connect) -> None:
    worker.add("new", config={"connector.class": FILE, "file": "/a"})
    shell.change("import", "--rename", "src=new", stdin=document(src=[(A, {"position": 9})]))
    assert worker.offsets["new"] == {'{"filename":"/a"}': {"position": 9}}
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 40}}


def test_a_partition_that_is_not_named_stays_and_null_removes(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("any")
    worker.commit("any", {"s": 1}, {"x": 1})
    worker.commit("any", {"s": 2}, {"x": 2})
    worker.commit("any", {"s": 3}, {"x": 3})
    request = document(any=[({"s": 1}, None), ({"s": 2}, {"x": 5}), ({"s": 4}, {"x": 1})])
    shell.change("import", stdin=request, status=3)
    shell.change("import", "--allow-new", stdin=request)
    assert worker.offsets["any"] == {
        '{"s":2}': {"x": 5},
        '{"s":3}': {"x": 3},
        '{"s":4}': {"x": 1},
    }
    patched = next(body for method, _, body in worker.requests if method == "PATCH")
    assert len(patched["offsets"]) == 3


def test_a_table_of_more_than_1000_rows_is_cut_and_counts_the_rest(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("any")
    expected = document(any=[({"s": number}, {"x": 1}) for number in range(1100)])
    done = shell.run("diff", "--offsets", "-", stdin=expected, status=1)
    assert "1100 added" in done.stdout
    assert done.stdout.count('{"x":1}') == 1000
    assert "100 more are not shown" in done.stderr
    result = shell.run("diff", "--json", "--offsets", "-", stdin=expected, status=1)
    assert len(json.loads(result.stdout)) == 1100


def test_rows_without_an_offset_are_not_exported(shell: Shell, worker: fake.Connect) -> None:
    worker.commit("src", {"filename": "odd"}, None)
    done = shell.run("export")
    assert json.loads(done.stdout) == {"src": [{"partition": A, "offset": {"position": 40}}]}
    assert '{"filename":"odd"} has no offset for a task' in done.stderr


def test_a_list_shows_every_offset(shell: Shell, worker: fake.Connect) -> None:
    worker.add("snk", kind="sink", config={"topics": "t"})
    worker.commit("snk", {"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3})
    listed = json.loads(shell.run("list", "--json").stdout)
    assert listed["cc"]["snk"][0]["offset"] == {"kafka_offset": 3}
    assert "sink" in shell.run("list", "--connectors", "snk").stdout
    assert "did you mean snk" in shell.run("list", "--connectors", "snkk", status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("alter",), "Missing argument 'CONNECTOR'"),
        (("alter", "c"), "--partition with --offset, or --offsets"),
        (("alter", "c", "--partition", "{}"), "as many --partition as --offset"),
        (("alter", "c", "--worker-config", "f"), "not both"),
        (("reset",), "which CONNECTOR, or which --flow?"),
        (("reset", "--by", "3m"), "--by goes with --flow"),
        (("reset", "c", "--flow", "a->b"), "a CONNECTOR or --flow, not both"),
        (("reset", "--flow", "a->b", "--by", "3m", "--to-offset", "4"), "not both"),
        (("rewind", "c"), "Missing option '--to'"),
        (("rewind", "c", "--to", "1", "--flow", "a->b"), "--flow goes with"),
        (("reset", "--flow", "a"), "two aliases, as in west->east"),
        (("reset", "--flow", "->"), "two aliases, as in west->east"),
        (("diff",), "--offsets is missing"),
        (("export", "--from-beginning"), "Connect returns only current offsets"),
        (("import", "--rename", "a"), "OLD=NEW"),
        (("import", "--kafka", "k"), "--kafka goes with --worker-config"),
    ],
    ids=lambda of: " ".join(of) if isinstance(of, tuple) else "",
)
def test_a_verb_that_is_used_wrongly_says_how_it_is_used(
    shell: Shell, arguments: tuple[str, ...], answer: str
) -> None:
    done = shell.run(*arguments, status=2)
    assert done.stdout == ""
    assert done.stderr.startswith("Usage: ")
    assert answer in done.stderr


def test_what_an_earlier_run_left_is_finished_before_anything_else(
    shell: Shell, worker: fake.Connect
) -> None:
    steps = (
        ToState(RequestedState.STOPPED),
        Settle(),
        Freeze(),
        Reset(),
        ToState(RequestedState.RUNNING),
    )
    plan = Plan(
        plan_id="cut-off",
        verb="reset offsets of src",
        subject=PlanSubject("rest", "cc", "src", "source", worker.cluster_id),
        steps=steps,
        original=RequestedState.RUNNING,
        final=RequestedState.RUNNING,
        created_at=1.0,
        created_by="me",
    )
    with closing(Journal(shell.state)) as journal:
        journal.open(plan, PlanOpened(at=1.0, plan=plan))  # and there its process died
    dry = shell.run("reset", "src", "--dry-run")
    assert "plan cut-off is open, and would be finished first" in dry.stderr
    assert worker.changes() == []

    done = shell.change("import", stdin=document(src=[(A, {"position": 3})]))
    assert "continuing plan cut-off" in done.stderr
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 3}}
    assert worker.connectors["src"].state == "RUNNING"
    assert "open" not in shell.run("reset", "src", "--dry-run").stderr


def test_a_change_that_was_cut_off_after_it_was_made_is_not_made_once_more(
    shell: Shell, worker: fake.Connect
) -> None:
    """A flow that is set back a second time copies a second time."""
    pair = PartitionOffset('{"filename":"/a"}', '{"position":3}')
    steps = (
        ToState(RequestedState.STOPPED),
        Settle(),
        Freeze(),
        Alter((pair,)),
        ToState(RequestedState.RUNNING),
    )
    plan = Plan(
        plan_id="cut-off",
        verb="import offsets of src",
        subject=PlanSubject("rest", "cc", "src", "source", worker.cluster_id),
        steps=steps,
        original=RequestedState.RUNNING,
        final=RequestedState.RUNNING,
        created_at=1.0,
        created_by="me",
    )
    frozen = FrozenOffsets(pairs=(), backup="none", backup_sha256="")
    done = [StepVerified(at=1.0, index=number, undoing=False, said="") for number in range(4)]
    with closing(Journal(shell.state)) as journal:
        journal.open(plan, PlanOpened(at=1.0, plan=plan))
        journal.append("cut-off", (*done[:2], OffsetsBackedUp(at=1.0, frozen=frozen), done[2]))
        intended = StepIntended(at=1.0, index=3, undoing=False)
        journal.append(
            "cut-off", (intended, StepAnswered(at=1.0, answer=AttemptResult.ACK, said=""), done[3])
        )
    # It was resumed, and has worked since; the process died before it saw that.
    worker.connectors["src"].state = "RUNNING"
    worker.offsets["src"] = {'{"filename":"/a"}': {"position": 9}}
    again = shell.change("import", stdin=document(src=[(A, {"position": 3})]))
    assert "that was this very change" in again.stderr
    assert worker.changes() == []
    assert worker.offsets["src"] == {'{"filename":"/a"}': {"position": 9}}


class File:
    """The program, beside the offsets file of a standalone worker that does not run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.offsets = folder / "connect.offsets"
        self.properties = folder / "worker.properties"
        self.properties.write_text(
            f"bootstrap.servers=127.0.0.1:1\noffset.storage.file.filename={self.offsets}\n"
            f"listeners=http://127.0.0.1:{free_port()}\n"
        )

    def run(self, *arguments: str, stdin: str = "", status: int = 0) -> Result:
        where = ("--worker-config", str(self.properties))
        result = CliRunner().invoke(cli, ["offsets", *arguments, *where], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    def change(self, *arguments: str, stdin: str = "", status: int = 0) -> Result:
        more = ("--yes", "--state-dir", str(self.folder / "state"))
        return self.run(*arguments, *more, stdin=stdin, status=status)


def test_a_file_of_offsets_is_written_wiped_and_put_back(tmp_path: Path) -> None:
    file = File(tmp_path)
    assert json.loads(file.run("export").stdout) == {}
    expected = document(src=[(A, {"position": 2**62})], other=[({"x": 1}, {"y": None})])
    stderr = file.change("import", stdin=expected, status=3).stderr
    assert "never there before" in stderr
    assert not file.offsets.exists()

    file.change("import", "--allow-new", stdin=expected)
    retained = file.run("export").stdout
    assert json.loads(retained) == json.loads(expected)
    file.change("alter", "src", "--partition", '{"filename":"/a"}', "--offset", '{"position":7}')
    file.change("reset", "src")
    assert set(json.loads(file.run("export").stdout)) == {"other"}
    file.run("diff", "--offsets", "-", stdin=retained, status=1)
    file.change("import", "--allow-new", stdin=retained)
    file.run("diff", "--offsets", "-", stdin=retained)
    assert "nothing to change" in file.change("import", stdin=retained).stderr


def test_a_rehearsal_shows_the_difference_although_a_worker_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = File(tmp_path)
    file.change("import", "--allow-new", stdin=document(src=[(A, {"position": 3})]))
    before = file.offsets.read_bytes()
    monkeypatch.setattr(WorkerOffsetStore, "busy", lambda *_: ("process 7 is a standalone worker",))
    expected = document(src=[(A, {"position": 9})])
    dry = file.run("import", "--dry-run", stdin=expected, status=3)
    assert '{"position":3}  {"position":9}' in dry.stdout
    assert "process 7 is a standalone worker" in dry.stderr
    assert "the run itself would be refused" in dry.stderr
    assert file.change("import", stdin=expected, status=3).stdout == ""
    assert file.offsets.read_bytes() == before


def test_offsets_under_a_key_of_another_order_are_shown_altered_kept_and_put_back(
    tmp_path: Path,
) -> None:
    file = File(tmp_path)
    keys = (
        b'["fpl",{"path":"/data/in","name":"a.csv"}]',
        b'["fpl",{"name":"a.csv","path":"/data/in"}]',
    )
    (own,) = [key for key in keys if not decode_key(key).canonical]
    before = write_offsets_file(((own, b'{"position":24}'),))
    file.offsets.write_bytes(before)
    assert '"position": 24' in file.run("list", "--json").stdout
    retained = file.run("export").stdout
    (entry,) = json.loads(retained)["fpl"]
    assert (entry["offset"], entry["key"]) == ({"position": 24}, own.decode())

    # Whatever order the partition is given in, it is the one that is there.
    for key in keys:
        partition = json.dumps(json.loads(key)[1])
        position = json.dumps({"position": 5 + keys.index(key)}, separators=(",", ":"))
        done = file.change("alter", "fpl", "--partition", partition, "--offset", position)
        assert "1 offset backed up" in done.stderr
        assert read_offsets_file(file.offsets.read_bytes()) == ((own, position.encode()),)
    backups = [*(file.folder / "state" / "backups").glob("*-fpl-*.json")]
    assert len(backups) == 2
    assert all(
        own.decode() in json.loads(backup.read_text())["fpl"][0]["key"] for backup in backups
    )
    file.change("import", stdin=retained)
    assert read_offsets_file(file.offsets.read_bytes()) == ((own, b'{"position":24}'),)
    file.offsets.unlink()
    file.change("import", "--allow-new", stdin=retained)
    assert read_offsets_file(file.offsets.read_bytes()) == ((own, b'{"position":24}'),)


def test_a_reset_of_a_file_leaves_nothing_under_the_name_whatever_bytes_it_is_in(
    tmp_path: Path,
) -> None:
    file = File(tmp_path)
    odd = b'["src", {"filename": "/a"}]'  # with spaces, as no worker looks it up
    file.offsets.write_bytes(write_offsets_file(((odd, b'{"position":1}'),)))
    assert "a task gets nothing" in file.run("export").stderr
    done = file.change("reset", "src")
    assert "No offset is changed" in done.stdout
    assert read_offsets_file(file.offsets.read_bytes()) == ((odd, None),)
    assert "nothing to change" in file.change("reset", "src").stderr


def test_a_reset_of_what_is_not_there_is_a_mistake_and_a_second_reset_is_none(
    tmp_path: Path,
) -> None:
    file = File(tmp_path)
    file.change("import", "--allow-new", stdin=document(src=[(A, {"position": 1})]))
    stderr = file.change("reset", "srcc", status=2).stderr
    assert "has this name; did you mean src?" in stderr
    file.change("reset", "src")
    assert "nothing to change" in file.change("reset", "src").stderr
    assert "has this name" in file.change("import", stdin=document(none=[(A, None)])).stderr


def test_a_file_has_no_past(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no past"):
        File(tmp_path).run("export", "--from-beginning")


@pytest.mark.parametrize("flow", [("west", "east"), ("", "t1"), ("west", "")])
def test_an_alias_of_a_flow_may_be_empty(flow: tuple[str, str]) -> None:
    assert parse_aliases("->".join(flow)) == flow


def test_an_alias_that_is_renamed_may_be_empty() -> None:
    inputs = ("=west", "east=")
    assert _parse_renames("--rename-alias", inputs, empty=True) == (("", "west"), ("east", ""))
    for wrong in ("=", "west"):
        with pytest.raises(UsageError):
            _parse_renames("--rename-alias", (wrong,), empty=True)
    with pytest.raises(UsageError):
        _parse_renames("--rename", ("=a",))


ORDERED = '{"name":"a.csv","path":"/data/in"}'


@pytest.fixture
def filepulse(worker: fake.Connect) -> None:
    """A connector whose partition is a LinkedHashMap: REST lists it and finds no offset."""
    worker.add("fpl", config={"connector.class": "org.example.FilePulse"})
    worker.commit("fpl", json.loads(ORDERED), None)
    stopped(worker, "fpl")


@pytest.mark.usefixtures("filepulse")
def test_an_offset_that_rest_cannot_reach_is_not_altered_over_rest(
    shell: Shell, worker: fake.Connect
) -> None:
    requests = ("alter", "fpl", "--partition", ORDERED, "--offset", '{"position":5}')
    refused = shell.change(*requests, status=3)
    assert "A change over REST would not reach its task" in refused.output
    assert "--worker-config" in refused.output
    assert "never there before" not in refused.output
    assert worker.changes() == []
    done = shell.change(*requests, "--allow-new")
    assert "done and read back" in done.stderr
    assert "confirms its new offsets" not in done.stderr
    assert "explain fpl" in done.stderr


@pytest.mark.usefixtures("filepulse")
def test_what_rest_cannot_show_is_said_by_every_verb_that_reads(shell: Shell) -> None:
    for verb in (("list",), ("export",), ("export", "--connectors", "fpl")):
        stderr = shell.run(*verb).stderr
        assert f"fpl: {ORDERED} has no offset over REST" in stderr
        assert "--worker-config" in stderr
    reset = shell.change("reset", "fpl")
    assert "does not reach it" in reset.output


@pytest.mark.usefixtures("filepulse")
def test_a_document_with_a_raw_key_is_not_imported_over_rest(
    shell: Shell, worker: fake.Connect
) -> None:
    key = '["fpl",{"path":"/data/in","name":"a.csv"}]'
    if decode_key(key.encode()).canonical:
        key = '["fpl",{"name":"a.csv","path":"/data/in"}]'
    entry = {"partition": json.loads(ORDERED), "offset": {"position": 5}, "key": key}
    refused = shell.change("import", "--allow-new", stdin=json.dumps({"fpl": [entry]}), status=3)
    assert "--worker-config" in refused.output
    assert worker.changes() == []


@pytest.mark.parametrize("status", [400, 403, 404, 409, 429, 500])
@pytest.mark.parametrize("name", ["a/b", "100%", "a,b", "odd"])
def test_a_connector_that_cannot_be_read_keeps_no_other_from_being_listed(
    shell: Shell, worker: fake.Connect, name: str, status: int
) -> None:
    worker.add(name, config={"connector.class": FILE, "file": "/b"})
    for _ in range(10):
        worker.fail("GET", f"{build_connector_path(name)}/offsets", status, "no")
    listed = shell.run("list", "--json", status=1)
    assert json.loads(listed.stdout)["cc"].keys() == {"src"}
    exported = shell.run("export", status=1)
    assert json.loads(exported.stdout).keys() == {"src"}
    for done in (listed, exported):
        assert f"{name}: not read: " in done.stderr
        assert ("its offsets are in the offsets topic" in done.stderr) is (
            name in {"a/b", "100%"} and status in {400, 403, 404, 409, 429}
        )


def test_where_no_offsets_can_be_read_none_are_exported(shell: Shell, worker: fake.Connect) -> None:
    for _ in range(10):
        worker.fail("GET", "/connectors/src/offsets", 403, "no")
    assert "src: not read: denied: cc" in shell.run("list", status=1).stderr
    with pytest.raises(AccessDenied):
        shell.run("export")


def test_a_comma_in_a_name_is_written_with_a_backslash(shell: Shell, worker: fake.Connect) -> None:
    for name in ("a,b", "c"):
        worker.add(name, config={"connector.class": FILE, "file": "/b"})
        worker.commit(name, A, {"position": 1})
    done = shell.run("list", "--connectors", "a\\,b,c", "--json")
    assert json.loads(done.stdout)["cc"].keys() == {"a,b", "c"}


@pytest.mark.parametrize("status", [400, 403, 409, 429, 500])
@pytest.mark.parametrize("name", ["a/b", "100%", "odd"])
def test_a_connector_that_cannot_be_read_keeps_no_other_from_being_compared(
    shell: Shell, worker: fake.Connect, name: str, status: int
) -> None:
    worker.add(name, config={"connector.class": FILE, "file": "/b"})
    for _ in range(10):
        worker.fail("GET", f"{build_connector_path(name)}/offsets", status, "no")
    same = {"src": [(A, {"position": 40})], name: [(B, {"position": 1})]}
    done = shell.run("diff", "--offsets", "-", "--json", stdin=document(**same), status=1)
    assert json.loads(done.stdout) == []
    assert f"{name}: not read: " in done.stderr
    other = {name: [(B, {"position": 1})], "src": [(A, {"position": 41})]}
    done = shell.run("diff", "--offsets", "-", "--json", stdin=document(**other), status=1)
    assert [load["connector"] for load in json.loads(done.stdout)] == ["src"]


def test_a_difference_is_not_denied_where_a_connector_could_not_be_read(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("odd")
    worker.fail("GET", "/connectors/odd/offsets", 500, "no")
    same = document(src=[(A, {"position": 40})], odd=[(B, {"position": 1})])
    done = shell.run("diff", "--offsets", "-", stdin=same, status=1)
    assert "no differences in what could be read" in done.stderr


def test_a_connector_that_cannot_be_read_is_named_before_any_is_changed(
    shell: Shell, worker: fake.Connect
) -> None:
    worker.add("odd")
    for _ in range(10):
        worker.fail("GET", "/connectors/odd/offsets", 403, "no")
    expected = document(odd=[(B, {"x": 1})], src=[({"filename": "/b"}, {"position": 1})])
    done = shell.change("import", stdin=expected, status=3)
    assert "odd: not read: denied: cc: GET /connectors/odd/offsets: HTTP 403" in done.stderr
    assert "src[0].partition.filename" in done.stderr
    assert "2 problems: nothing was changed" in done.stderr
    assert worker.changes() == []
    sound = document(odd=[(B, {"x": 1})], src=[(A, {"position": 1})])
    shell.change("import", "--connectors", "src", stdin=sound)
    assert [*worker.offsets["src"].values()] == [{"position": 1}]


def test_states_are_printed_without_the_connect_cluster_that_is_away(
    shell: Shell, worker: fake.Connect
) -> None:
    text = shell.config.read_text().replace(
        "connect: [", "connect: [{name: away, kafka: k, url: 'http://127.0.0.1:1'}, "
    )
    shell.config.write_text(text)
    for name in ((), ("src",)):
        requests = ["connectors", "status", *name, "--json", "--config", str(shell.config)]
        done = CliRunner().invoke(cli, requests)
        assert (done.exit_code, [load["name"] for load in json.loads(done.stdout)]) == (1, ["src"])
        assert done.stderr.startswith("not read: Connect cluster away (http://127.0.0.1:1): ")
    with pytest.raises(TargetUnreachable):
        CliRunner().invoke(
            cli,
            ["connectors", "status", "other", "--config", str(shell.config)],
            catch_exceptions=False,
        )
