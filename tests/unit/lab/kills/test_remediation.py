"""Kills inside plans: when they come, how far a plan is by its journal, and what counts as lost."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from lab.kills import journal_reader
from lab.kills.journal_reader import JournalReader
from lab.kills.remediation import DAEMON, WORKER, Report, compare, schedule

STEPS = [
    {"step": "copy"},
    {"step": "to_state", "state": "stopped"},
    {"step": "alter"},
    {"step": "to_state", "state": "running"},
]
PLAN = {"subject": {"connector": "a"}, "remedy": {"action": "skip_one"}, "steps": STEPS}


def journal(folder: Path, *records: dict) -> JournalReader:
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("CREATE TABLE IF NOT EXISTS records (seq INTEGER, plan_id TEXT, body BLOB)")
        rows = [
            (seq, "p", json.dumps(record).encode()) for seq, record in enumerate(records, start=1)
        ]
        db.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
    db.close()
    report = JournalReader(folder)
    report.refresh()
    return report


def phase(folder: Path, *records: dict) -> str:
    opened = {"record": "opened", "plan": PLAN}
    return journal(folder, opened, *records).plans["p"].phase


def done(index: int) -> dict:
    return {"record": "verified", "index": index, "said": ""}


def test_the_same_seed_draws_the_same_kills() -> None:
    assert schedule(3, 10, 2) == schedule(3, 10, 2)
    assert schedule(3, 10, 2) != schedule(4, 10, 2)
    assert sorted(kill.victim for kill in schedule(3, 10, 2)) == [DAEMON] * 10 + [WORKER] * 2


def test_a_step_that_may_have_happened_is_distinguished_from_one_that_is_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    requests = {"record": "intended", "index": 1, "undoing": False}
    assert phase(tmp_path / "1", done(0)) == "stopped"
    assert phase(tmp_path / "2", done(0), requests) == "stopped, requested"


def test_a_plan_on_its_way_back_is_distinguished_from_one_on_its_way(tmp_path: Path) -> None:
    back = [{"step": "to_state", "state": "running"}]
    turned = {"record": "turned", "steps": back, "said": "no"}
    assert phase(tmp_path, done(0), done(1), turned) == "back: running"


def test_only_what_was_begun_and_is_not_over_is_running(tmp_path: Path) -> None:
    report = journal(tmp_path, {"record": "proposed", "plan": PLAN})
    assert report.running() is None
    assert [plan.plan_id for plan in report.of("a", journal_reader.WAITS)] == ["p"]


def test_an_ended_plan_is_not_running(tmp_path: Path) -> None:
    ended = {"record": "ended", "ending": "succeeded", "said": "done"}
    report = journal(tmp_path, {"record": "opened", "plan": PLAN}, ended)
    assert report.running() is None
    assert report.plans["p"].ending == "succeeded"


def judged(*, aside: set[tuple[str, int]], written: set[str]) -> Report:
    report = Report(seed=0, commit="")
    report.kills[DAEMON] += 1
    compare(report, bad={("t", 2)}, aside=aside, meant={"a": {"x", "y"}}, written={"a": written})
    return report


def test_what_is_delivered_or_set_aside_is_not_lost() -> None:
    report = judged(aside={("t", 2)}, written={"x", "y"})
    assert report.sound
    assert report.produced == report.delivered + report.quarantined


def test_a_record_that_is_in_neither_is_lost() -> None:
    assert judged(aside={("t", 2)}, written={"x"}).lost == ["a: y"]
    assert judged(aside=set(), written={"x", "y"}).lost == ["t@2"]


def test_a_good_record_that_was_set_aside_is_wrong() -> None:
    report = judged(aside={("t", 2), ("t", 3)}, written={"x", "y"})
    assert report.wrong
    assert not report.sound
