"""`plan`, `journal` and `backup`, as they are typed."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans import recover
from offsetwatch.errors import ConfigError, JournalDamaged, ResponseTimeout
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.execute.runner import Runner, format_options
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.journal_records import PlanOpened
from offsetwatch.remedy.model.plan import Alter, PartitionOffset
from offsetwatch.remedy.views import plan_text
from tests.changed import replace
from tests.unit.remedy.plans import AFTER, Bench, plan_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "state")


@pytest.fixture
def parked(bench: Bench) -> Bench:
    bench.driver.misbehave = lambda step: (
        ResponseTimeout("lab", "no answer") if isinstance(step, Alter) else None
    )
    bench.runner().run(plan_of())
    return bench


def typed(*arguments: str, bench: Bench):
    return CliRunner().invoke(cli, [*arguments, "--state-dir", str(bench.folder)])


def test_plans_are_listed_with_how_they_ended(bench):
    bench.runner().run(plan_of())
    done = typed("plan", "list", "--json", bench=bench)
    (row,) = json.loads(done.stdout)
    assert (row["plan_id"], row["stands"], row["open"]) == ("p1", "succeeded", False)
    assert done.exit_code == 0


def test_an_open_plan_is_no_good_news(parked):
    done = typed("plan", "list", bench=parked)
    assert "in_doubt" in done.stdout
    assert done.exit_code == 5


_JOURNAL_VERBS = (
    ("plan", "list"),
    ("plan", "show", "p1"),
    ("pause", "--indefinitely", "--because", "x"),
    ("breaker", "list"),
    ("journal", "tail"),
)
_FOLDER_VERBS = (*_JOURNAL_VERBS, ("backup", "list"), ("quarantine", "list"))


@pytest.mark.parametrize(
    ("verb", "there"),
    [
        *((verb, "nothing") for verb in _FOLDER_VERBS),
        *((verb, "an empty folder") for verb in _FOLDER_VERBS),
        *((verb, "backups alone") for verb in _JOURNAL_VERBS),  # kept there by a command
    ],
)
def test_a_folder_in_which_no_daemon_ran_is_no_empty_list(tmp_path, verb, there):
    folder = tmp_path / "none"
    if there != "nothing":
        folder.mkdir()
    if there == "backups alone":
        (folder / "backups").mkdir()
    result = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(cli, [*verb, "--state-dir", str(folder)])
    assert isinstance(done.exception, ConfigError)
    assert f"state_dir {folder}" in str(done.exception)
    assert "no daemon has run there" in str(done.exception)
    assert sorted(tmp_path.rglob("*")) == result


@pytest.mark.parametrize("verb", _FOLDER_VERBS)
def test_a_folder_in_which_no_daemon_ran_names_only_options_that_there_are(tmp_path, verb):
    done = CliRunner().invoke(cli, [*verb, "--state-dir", str(tmp_path)])
    named = "--url" in str(done.exception)
    assert named == ("--url" in CliRunner().invoke(cli, [*verb, "--help"]).stdout)


def test_a_plan_is_shown_with_its_offsets_and_what_to_decide(parked):
    done = typed("plan", "show", "p1", bench=parked)
    assert '{"file":"c"} -> {"position":5}' in done.stdout
    assert "running before, running afterwards" in done.stdout
    assert "plan recover p1 --state-dir" in done.stderr
    assert done.exit_code == 5


def test_a_plan_of_many_offsets_shows_some_and_says_how_many_more(bench):
    many = Alter(tuple(PartitionOffset(f'{{"n":{number}}}', "{}") for number in range(1000)))
    bench.runner().run(plan_of(many))
    stdout = typed("plan", "show", "p1", bench=bench).stdout
    assert '{"n":19} -> {}; and 980 more: --json' in stdout
    assert '{"n":20}' not in stdout


def test_an_unknown_plan_is_refused(bench):
    done = typed("plan", "show", "p9", bench=bench)
    assert "has no plan p9" in str(done.exception)


def test_a_resolved_plan_lets_the_next_one_begin(parked):
    assert typed("plan", "resolve", "p1", "--because", "set by hand", bench=parked).exit_code == 0
    assert "set by hand" in typed("plan", "show", "p1", bench=parked).stderr
    parked.driver.misbehave = lambda step: None
    assert parked.runner().run(plan_of(plan_id="p2")).exit_code == 0


def test_resolving_requests_a_reason(parked):
    assert typed("plan", "resolve", "p1", bench=parked).exit_code == 2


def test_recovering_ends_the_plan(parked, monkeypatch):
    parked.driver.misbehave = lambda step: None
    parked.world.do(Alter(plan_of().steps[3].pairs))
    monkeypatch.setattr(recover, "open_driver", lambda plan, home: nullcontext(parked.driver))
    # What had no answer then is waited for, on a clock that waiting moves.
    monkeypatch.setattr(
        execute,
        "build_runner",
        lambda how, journal, driver: Runner(
            journal=journal,
            driver=driver,
            clock=parked.clock,
            report=output.print_error,
            pause=parked.clock.advance,
        ),
    )
    done = typed("plan", "recover", "p1", bench=parked)
    assert done.exit_code == 0, done.output
    assert "done and read back" in done.stderr
    assert parked.world.offsets == AFTER
    assert "is over" in typed("plan", "recover", "p1", bench=parked).stderr


def test_a_plan_over_rest_is_recovered_with_the_configuration_that_names_its_cluster(parked):
    done = typed("plan", "recover", "p1", bench=parked)
    assert "--config: it names the Connect cluster lab" in str(done.exception)


def test_the_journal_is_shown_newest_last_and_verified(bench):
    bench.runner().run(plan_of())
    document = json.loads(typed("journal", "tail", "--lines", "2", "--json", bench=bench).stdout)
    assert [entry["record"]["record"] for entry in document] == ["verified", "ended"]
    done = typed("journal", "verify", bench=bench)
    assert "each as it was written" in done.stderr
    assert "as written: 1 of 1 backup" in done.stderr
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("spoil", "answer"),
    [
        (lambda path: path.write_text("{}"), "is not what was written"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
    ],
    ids=["changed", "gone"],
)
def test_a_backup_that_is_not_what_was_written_is_reported(bench, spoil, answer):
    spoil(Path(bench.runner().run(plan_of()).backup))
    done = typed("journal", "verify", bench=bench)
    assert answer in done.stderr
    assert done.exit_code == 1


def test_backups_are_searched_for_where_the_journal_is_and_not_where_it_was(bench, tmp_path):
    bench.runner().run(plan_of())
    bench.journal.close()
    moved = bench.folder.rename(tmp_path / "elsewhere")
    there = replace(bench, folder=moved)
    done = typed("journal", "verify", bench=there)
    assert "as written: 1 of 1 backup" in done.stderr
    result = typed("plan", "show", "p1", bench=there)
    assert "elsewhere/backups" in "".join(result.stdout.split())


def test_a_damaged_journal_is_reported(bench):
    bench.runner().run(plan_of())
    bench.journal.close()
    path = bench.folder / FILE_NAME
    body = path.read_bytes()
    assert b"nothing is written any more" in body
    path.write_bytes(body.replace(b"nothing is written any more", b"everything was written twice"))
    done = typed("journal", "verify", bench=bench)
    assert isinstance(done.exception, JournalDamaged)


def test_backups_are_listed_and_shown_and_can_be_imported_as_they_are(bench):
    result = bench.runner().run(plan_of())
    (retained,) = json.loads(typed("backup", "list", "--json", bench=bench).stdout)
    assert (retained["path"], retained["connectors"]) == (result.backup, {"orders": 2})
    name = Path(result.backup).name
    assert '{"position":10}' in typed("backup", "show", name, bench=bench).stdout
    stdout = typed("backup", "show", result.backup, "--json", bench=bench).stdout
    assert stdout == Path(result.backup).read_text()


@pytest.mark.parametrize("driver", ["rest", "storage", "strimzi"])
def test_every_command_that_an_operator_is_notified_can_be_typed(parked, driver):
    parked.folder.joinpath("F").write_text("")
    options = {
        "rest": "--config F",
        "strimzi": "--config F",
        "storage": "--worker-config 'w w.properties' --kafka east --config F --flow 'a->b'",
    }[driver]
    records = parked.journal.records("p1")
    opened = records[0]
    subject = msgspec.structs.replace(opened.plan.subject, driver=driver)
    plan = msgspec.structs.replace(opened.plan, subject=subject)
    progress = replay_records((PlanOpened(at=opened.at, plan=plan), *records[1:]), EngineLimits())
    cut_off = replace(progress, parked=None)
    messages = [
        plan_text.describe_ending(each, format_options(parked.folder, options))
        for each in (progress, cut_off)
    ]
    commands = re.findall(r"`offsetwatch ([^`]*)`", " ".join(messages))
    assert len(commands) == 4
    for command in commands:
        words_of = shlex.split(command)
        verb = cli
        while isinstance(verb, click.Group):
            verb = verb.commands[words_of.pop(0)]
        verb.make_context(command, words_of)  # raises where it cannot be typed so
