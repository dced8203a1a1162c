"""Journals of earlier versions, opened by this code."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans import recover
from offsetwatch.errors import JournalDamaged, PlanStateConflict, PlanUnfinished
from offsetwatch.remedy.journal.journal import FILE_NAME, VERSION, Journal, hash_line
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.journal_records import PlanOpened, StepIntended, encode_record
from tests.unit.remedy.plans import Bench, plan_of
from tests.upgrade import journals, opened

ALL = opened.milestones("journal")
CONFIG = (
    'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
    'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1"}]\n'
)
OPEN = pytest.mark.parametrize(
    ("milestone", "plan_id"),
    [
        (name, plan_id)
        for name in ALL
        for plan_id in sorted(opened.expected(name, "journal")["open"])
    ],
    indirect=["milestone"],
)


@pytest.fixture(scope="module", params=ALL)
def milestone(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def milestone_files(milestone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be written to."""
    return opened.journal(milestone, tmp_path_factory.mktemp(milestone) / "state")


@pytest.fixture
def folder(milestone_files: Path, tmp_path: Path) -> Path:
    """Of its own."""
    return Path(shutil.copytree(milestone_files, tmp_path / "state"))


@pytest.fixture(scope="module")
def expected(milestone: str) -> dict[str, Any]:
    return opened.expected(milestone, "journal")


def contains(now: Any, then: Any) -> bool:
    """Whether all that was said then is said now; there may be more."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(
            name in now and contains(now[name], value) for name, value in then.items()
        )
    if isinstance(then, list):
        same = isinstance(now, list) and len(now) == len(then)
        return same and all(map(contains, now, then))
    return now == then


def test_an_older_journal_is_verified_and_every_record_says_what_it_said(milestone_files, expected):
    with closing(Journal(milestone_files)) as journal:
        assert journal.verify() == expected["records"]
        entries = tuple(journal.every())
    rows = journals.rows(milestone_files)
    assert len(entries) == len(rows) == expected["records"]
    for entry, (seq, _, plan_id, body) in zip(entries, rows, strict=True):
        assert (entry.seq, entry.plan_id) == (seq, plan_id)
        then = json.loads(body)
        assert contains(json.loads(encode_record(entry.record)), then), f"record {seq}"


def test_the_hash_of_an_older_plan_is_what_it_is_approved_by(milestone_files, expected):
    with closing(Journal(milestone_files)) as journal:
        for row in expected["plans"]:
            history = build_plan_history(journal.records(row["plan_id"]))
            assert history is not None
            assert history.plan.sha256 == row["sha256"], row["plan_id"]


def test_the_verbs_say_of_an_older_journal_what_they_said_then(milestone_files, expected):
    now = journals.describe(milestone_files)
    then = {row["plan_id"]: row for row in expected["plans"]}
    assert {row["plan_id"]: row for row in now["plans"]}.keys() == then.keys()
    for row in now["plans"]:
        assert contains(row, then[row["plan_id"]]), (row, then[row["plan_id"]])
    for plan_id, steps in expected["steps"].items():
        assert now["steps"][plan_id] == steps, plan_id


def test_backups_of_an_older_journal_are_found_and_whole_wherever_it_lies_now(milestone_files):
    retained = len(list((milestone_files / "backups").iterdir()))
    assert retained > 0
    assert f"as written: {retained} of {retained} backups" in journals.typed_error(
        milestone_files, "journal", "verify"
    )


@OPEN
def test_a_plan_that_was_open_ends_as_its_own_code_would_have_ended_it(folder, expected, plan_id):
    remaining = expected["open"][plan_id]
    now, then = journals.taken_up(folder, plan_id, remaining["world"]), dict(remaining["recovered"])
    # How long it waits for what is in doubt is no part of the format.
    assert now.pop("now") >= then.pop("now")
    assert now == then
    with closing(Journal(folder)) as journal:
        journal.verify()


@OPEN
def test_plan_recover_ends_it_likewise(folder, expected, plan_id, monkeypatch, tmp_path):
    """The verb finds with a configuration of today whom an older plan is to be carried out by; in
    that one's place is the world of then, on a clock that waiting moves.
    """
    remaining = expected["open"][plan_id]
    bench = Bench(folder)
    bench.journal.close()
    journals.restore_world(bench, remaining["world"])
    bench.clock.advance(3600.0)
    chosen = recover.open_driver

    @contextmanager
    def driver_for(plan, home):
        with chosen(plan, home):
            yield bench.driver

    def runner_of(how, journal, driver):
        bench.journal = journal
        return bench.runner(driver)

    monkeypatch.setattr(recover, "open_driver", driver_for)
    monkeypatch.setattr(execute, "build_runner", runner_of)
    config = tmp_path / "offsetwatch.yaml"
    config.write_text(CONFIG)
    typed = ["plan", "recover", plan_id, "--state-dir", str(folder), "--config", str(config)]
    done, then = CliRunner().invoke(cli, typed), remaining["recovered"]
    assert done.exit_code == (0 if then["over"] else 5), done.output
    now = journals.read_world(bench)
    assert now == {name: then[name] for name in now} | {"now": now["now"]}
    again = CliRunner().invoke(cli, typed)
    assert again.exit_code == done.exit_code
    assert ("is over" in again.stderr) is then["over"]


def test_what_was_skipped_then_is_not_skipped_again(folder, expected):
    assert dict(journals.skips(folder)) == expected["skips"]
    with closing(Journal(folder)) as journal:
        for key, plan_id in expected["skips"].items():
            assert journal.skipped_by(key) == plan_id


def test_a_connector_of_an_open_plan_is_still_locked(folder, expected):
    names = [row for row in expected["plans"] if row["open"]]
    assert names
    with closing(Journal(folder)) as journal:
        for row in names:
            subject = journal_subject(journal, row["plan_id"])
            plan = msgspec.structs.replace(plan_of(plan_id="another"), subject=subject)
            with pytest.raises(PlanUnfinished, match=row["plan_id"]):
                journal.open(plan, PlanOpened(at=1.0, plan=plan))


def journal_subject(journal: Journal, plan_id: str) -> Any:
    history = build_plan_history(journal.records(plan_id))
    assert history is not None
    return history.plan.subject


def test_a_plan_that_was_refused_or_lapsed_then_cannot_be_begun_now(folder, expected):
    refused = [
        plan["plan_id"] for plan in expected["plans"] if plan["plan_id"] in {"rejected", "void"}
    ]
    with closing(Journal(folder)) as journal:
        for plan_id in refused:
            history = build_plan_history(journal.records(plan_id))
            assert history is not None
            with pytest.raises(PlanStateConflict):
                journal.open(history.plan, PlanOpened(at=1.0, plan=history.plan))


def test_an_older_journal_is_gone_on_with(folder, expected):
    plan = plan_of(plan_id="new")
    with closing(Journal(folder)) as journal:
        journal.open(plan, PlanOpened(at=1.0, plan=plan))
        journal.append("new", (StepIntended(at=2.0, index=0, undoing=False),))
    with closing(Journal(folder)) as journal:
        assert journal.verify() == expected["records"] + 2
        assert journal.open_plan("lab", "orders") == "new"


def test_a_journal_of_a_newer_version_is_refused_and_left_as_it_is(folder):
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        seq, prev = db.execute("SELECT seq, sha256 FROM head").fetchone()
        body = b'{"record":"of a kind that comes later","at":1.0}'
        sha256 = hash_line(seq + 1, VERSION + 1, "p", body, prev)
        line = (seq + 1, VERSION + 1, "p", body, prev, sha256)
        db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", line)
        db.execute("UPDATE head SET seq = ?, sha256 = ?", (seq + 1, sha256))
        db.commit()
    before = journals.rows(folder)
    with pytest.raises(JournalDamaged, match=f"newer offsetwatch .version {VERSION + 1}"):
        Journal(folder)
    assert journals.rows(folder) == before
