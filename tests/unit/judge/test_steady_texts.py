"""A text is the same while the state is: two looks ten minutes apart say the same."""

from __future__ import annotations

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.progress.verdict_rules import VerdictCase, decide_verdict
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.scenarios.steadiness import APART_S, FIRST, unsteady
from tests.unit.judge.findings.test_finding_rules import FOUND
from tests.unit.judge.progress.test_verdict_rules import TABLE
from tests.unit.judge.test_input_visibility import ASKED, REST, heard

from .desks import Desk, connector, read, silent
from .watches import BEGAN

LATER_S = 600.0
HIDDEN = {"inputs": (REST, heard(ASKED.id, live=False)), "sink_partitions": ()}
IDS = [play.__name__ for _, play, _ in FOUND]


@pytest.mark.parametrize("played", [play for _, play, _ in FOUND], ids=IDS)
def test_a_finding_says_the_same_ten_minutes_later(played):
    play = played()
    assert play.findings

    def judged(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, findings=play.register.found(snapshot))

    assert unsteady(judged, play.snapshot()) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=words) for _, _, words, case in TABLE])
def test_a_verdict_gives_the_same_reason_ten_minutes_later(case: VerdictCase):
    """Whatever is counted in seconds has gone on, and nothing else has changed."""
    later = case._replace(
        w=case.w + LATER_S,
        clock=lambda w: BEGAN + w,
        **{
            name: length + LATER_S
            for name in LENGTHS
            if (length := getattr(case, name)) is not None
        },
    )
    before, after = decide_verdict(case._replace(clock=later.clock)), decide_verdict(later)
    assert before is not None
    if after is not None and after.rule == before.rule:
        assert after.reason == before.reason


LENGTHS = (
    "why_s",
    "failed_s",
    "watched_s",
    "still_s",
    "moved_s",
    "waiting_s",
    "end_still_s",
    "repeated_s",
)


def test_verdicts_of_what_stands_still_say_the_same_ten_minutes_later():
    bad = connector("pond", state="failed", tasks=())
    judge = Desk(read("lake", 10), read("pond", 10), read("pool", 1000)).looks(9)
    judge.looks(1, connectors=(connector("lake"), bad, connector("pool")))

    def judged(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, judgements=judge.progress.judgements(snapshot))

    assert {judgement.verdict for judgement in judged(judge.snapshot).judgements} >= {
        Verdict.SILENT,
        Verdict.IDLE,
    }
    assert unsteady(judged, judge.snapshot) == []


def test_a_stall_is_dated_alike_before_and_after_a_restart_a_leap_and_a_clock_set_back():
    judge = silent(read("pond", 1000))
    began = judge.of("lake").reason
    judge.restart()
    for later_s in (60.0, 7200.0, -3600.0, 60.0):
        judge.tick(later_s)
        assert judge.of("lake").reason == began


@pytest.mark.parametrize("polls", [2, 5, 40])
def test_a_stall_is_dated_alike_before_and_after_its_input_was_unavailable(polls):
    judge = silent(read("pond", 1000))
    began = {name: judge.looks(9).of(name) for name in ("lake", "pond")}
    for _ in range(4):
        judge.looks(polls, **HIDDEN)
        assert judge.verdict("lake") is Verdict.UNKNOWN
        judge.tick(60.0, read("lake", 10), read("pond", 1000), inputs=(REST, ASKED))
        for name, before in began.items():
            now = judge.of(name)
            assert (now.verdict, now.reason, now.since) == (
                before.verdict,
                before.reason,
                before.since,
            )
        judge.restart()


def test_what_moved_while_its_input_was_unavailable_stands_still_since_then_at_most():
    judge = silent()
    hidden_at = judge.now
    judge.looks(9, **HIDDEN)
    judge.tick(60.0, read("lake", 20), inputs=(REST, ASKED))
    assert judge.verdict("lake") is Verdict.OK
    judge.looks(4)
    assert judge.verdict("lake") is Verdict.SILENT
    since = judge.of("lake").reason.partition("since ")[2].partition(",")[0]
    assert format_moment(hidden_at) < since <= format_moment(judge.now - 4 * 60.0)


def test_an_age_and_a_count_of_looks_are_seen_to_be_unsteady():
    """So that the other tests here can fail."""

    def aged(snapshot: Snapshot) -> Snapshot:
        judgement = Judgement(
            Scope.CONNECTOR, "lab", "files", "", Verdict.SILENT, 5, f"for {snapshot.at}", BEGAN
        )
        return replace(snapshot, judgements=(judgement,))

    (first, *_) = unsteady(aged, EMPTY_SNAPSHOT)
    assert first.endswith(f"'for {FIRST * APART_S}', 'for {(FIRST + 1) * APART_S}'")
