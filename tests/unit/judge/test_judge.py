"""What the judge remembers, and how it spreads its work."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from offsetwatch.config.schema import root
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.scenarios.simulation import FLUSH_S, MINUTE, Estate, Log, Mirror, Rows, steady


def estate(logs: int = 3) -> Estate:
    mm2 = Mirror(name="mm2", logs=[Log(steady(20.0)) for _ in range(logs)])
    return Estate(mm2, Rows(name="rows", rate=steady(1.0)))


def test_the_interval_of_which_nothing_is_said_is_that_of_a_configuration_which_says_nothing():
    assert JudgeSettings().interval_s == root.JudgeConfig().interval_s


def test_there_is_nothing_new_to_remember_between_two_polls():
    judge = SnapshotJudge(JudgeSettings())
    judge.judged(EMPTY_SNAPSHOT)
    assert judge.remembered() is not None
    assert judge.remembered() is None
    judge.judged(EMPTY_SNAPSHOT)
    assert judge.remembered() is None


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"progress":', id="cut"),
        pytest.param(b'{"version": 1, "progress": {"watched": 1}}', id="another shape"),
        pytest.param(b"[]", id="no document"),
        pytest.param(b'{"version": 1, "progress": {"\xff": "\xff"}}', id="no UTF-8"),
        pytest.param(b'{"version": 1, "progress": {"x": ' + b"[" * 100_000, id="deep"),
    ],
)
def test_what_is_no_such_document_is_refused(damaged):
    with pytest.raises(ValueError, match=r"."):
        SnapshotJudge(JudgeSettings()).recall(damaged)


@pytest.mark.parametrize("version", [{"version": 2}, {}])
def test_a_document_of_another_version_or_of_none_is_refused(version):
    nothing = {"at": 0, "watched": 0, "subjects": [], "wholes": [], "tracks": []}
    SnapshotJudge(JudgeSettings()).recall(json.dumps({"version": 1, "progress": nothing}).encode())
    with pytest.raises(ValueError, match="version"):
        SnapshotJudge(JudgeSettings()).recall(json.dumps({**version, "progress": nothing}).encode())


def test_verdicts_outlive_the_process_by_what_was_remembered_of_them():
    unhealthy = estate().go(20 * MINUTE)
    unhealthy.actors[0].hangs = True
    unhealthy.go(15 * MINUTE)
    before = {
        (judgement.scope, judgement.connector, judgement.subject): (
            judgement.verdict,
            judgement.since,
        )
        for judgement in unhealthy.judged.judgements
    }
    assert Verdict.SILENT in {verdict for verdict, _ in before.values()}
    document = json.loads(unhealthy.documents["judge"])
    assert document["version"] == 1
    judge = SnapshotJudge(unhealthy.settings)
    judge.recall(unhealthy.documents["judge"])
    after = judge.judged(unhealthy.judged)
    results = {
        (judgement.scope, judgement.connector, judgement.subject): (
            judgement.verdict,
            judgement.since,
        )
        for judgement in after.judgements
    }
    assert results == before


def test_what_was_judged_last_is_shown_at_no_cost_until_an_input_goes_blind_or_sees_again():
    snapshot = estate().go(20 * MINUTE).judged
    judge = SnapshotJudge(JudgeSettings())
    assert judge.judged_before(snapshot) is None  # nothing was judged yet
    judged = judge.judged(snapshot)
    output = judge.judged_before(replace(snapshot, at=snapshot.at + 1, judgements=(), findings=()))
    assert output is not None
    assert (output.judgements, output.findings) == (judged.judgements, judged.findings)
    unavailable = tuple(replace(view, up=False, live=False) for view in snapshot.inputs)
    assert judge.judged_before(replace(snapshot, inputs=unavailable)) is None


def test_findings_are_remembered_without_the_verdicts_of_all_partitions():
    report = estate().go(10 * MINUTE).documents
    assert b'"topic' in report["judge"]
    assert b'"topic' not in report["findings"]


def test_it_is_urgent_when_a_connector_falls_ill_and_not_while_it_is_well():
    judged = estate()
    judged.judge.remembered = lambda: None  # nobody saves
    for snapshot in judged.run(20 * MINUTE):
        assert not judged.judge.urgent, snapshot.at
    assert judged.verdict("mm2").verdict is Verdict.OK
    judged.actors[0].hangs = True
    judged.go(5 * MINUTE)
    assert judged.verdict("mm2").verdict is Verdict.SILENT
    assert judged.judge.urgent
    assert SnapshotJudge.remembered(judged.judge) is not None
    assert not judged.judge.urgent


def test_the_poll_that_comes_once_an_interval_takes_its_time_and_one_at_what_went_blind_does_not(
    monkeypatch,
):
    monkeypatch.setattr("offsetwatch.judge.progress.tracker.JUDGED_PER_TICK_MIN", 1)
    estate_of = estate(12)
    estate_of.go(10 * MINUTE)
    progress, snapshot = estate_of.judge._progress, estate_of.judged
    while progress._pass is not None:
        snapshot = replace(snapshot, at=snapshot.at + 1)
        progress.judgements(snapshot)
    progress._schedule.full_w = progress._w  # the interval is over
    remaining: list[int] = []
    while progress._pass is not None or not remaining:
        snapshot = replace(snapshot, at=snapshot.at + 1)
        progress.judgements(snapshot)
        remaining.append(0 if progress._pass is None else len(progress._pass.pending))
    assert remaining == list(reversed(range(13)))
    progress._schedule.full_w = progress._w
    progress.judgements(replace(snapshot, at=snapshot.at + 1))
    assert progress._pass is not None
    unavailable = replace(snapshot, at=snapshot.at + 2, inputs=())
    progress.judgements(unavailable)
    assert progress._pass is None
    progress.judgements(replace(unavailable, at=unavailable.at + 1))
    assert progress._unsaved[0] == unavailable.at + 1  # and what it is now was looked at next


def test_a_poll_of_many_takes_several_ticks_and_comes_to_the_same(monkeypatch):
    whole = estate(12).go(10 * MINUTE)
    monkeypatch.setattr("offsetwatch.judge.progress.tracker.JUDGED_PER_TICK_MAX", 5)
    spread = estate(12).go(10 * MINUTE)
    for judged in (whole, spread):
        judged.actors[0].hangs = True
        judged.go(5 * FLUSH_S)

    def verdicts(of: Estate) -> dict[tuple, Verdict]:
        return {
            (judgement.scope, judgement.connector, judgement.subject): judgement.verdict
            for judgement in of.judged.judgements
        }

    assert len(verdicts(whole)) == 12 + 1 + 2 + 1
    assert verdicts(spread) == verdicts(whole)
    assert spread.verdict("mm2", Scope.FLOW).verdict is Verdict.SILENT
