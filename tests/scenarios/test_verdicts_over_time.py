"""What is wrong is named within three intervals, stays named until it is mended, and is forgotten
neither by a restart nor by an input that goes blind.
"""

from __future__ import annotations

import random
from functools import cache

import pytest

from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.findings import FindingName, Scope, Verdict
from offsetwatch.model.observations import CONNECT_REST, LOG_ENDS, InputId
from tests.evidence import texts
from tests.scenarios.simulation import (
    DAY,
    FLUSH_S,
    HOUR,
    MINUTE,
    WRONG,
    Estate,
    Log,
    Mirror,
    Rows,
    Sink,
    daily,
    every,
    steady,
)
from tests.unit.state.worlds import OFFSETS, SYNCS, orders

pytestmark = pytest.mark.slow

REST = InputId(CONNECT_REST, connect_cluster="lab")
ENDS = InputId(LOG_ENDS, kafka="west")
PATIENCE_S = 3 * FLUSH_S
# From the moment it stops: the last flush may still come, and a tick goes by until it is seen.
FOUND_S = PATIENCE_S + FLUSH_S + 20.0


def mm2(**changes) -> Mirror:
    return Mirror(name="mm2", logs=[Log(steady(50.0))], **changes)


@pytest.fixture
def estate() -> Estate:
    """Half an hour of work behind it."""
    return Estate(mm2()).go(30 * MINUTE)


def hung(estate: Estate) -> float:
    """MM2 hangs and is found silent; since when."""
    estate.actors[0].hangs = True
    estate.until("mm2", Verdict.SILENT, FOUND_S)
    return estate.verdict("mm2").since


def test_a_fresh_daemon_says_nothing_before_three_intervals_unless_it_sees_progress():
    estate = Estate(mm2(hangs=True))
    for snapshot in estate.run(PATIENCE_S - 20):
        assert {judgement.verdict for judgement in snapshot.judgements} <= {Verdict.UNKNOWN}


def test_what_moves_is_ok_within_an_interval_of_its_first_move():
    estate = Estate(mm2())
    assert estate.until("mm2", Verdict.OK, 2 * FLUSH_S + 20) <= 2 * FLUSH_S + 20


def test_what_hangs_while_it_claims_to_run_is_silent_and_its_flow_with_it(estate):
    hung(estate)
    result = estate.verdict("mm2")
    assert "no state shows a failure" in result.reason
    assert estate.verdict("mm2", Scope.FLOW).verdict is Verdict.SILENT
    assert estate.verdict("mm2", Scope.FLOW).subject == "west->east"
    evidence = texts(result.evidence)
    assert evidence["silent"] == "1 partition"
    assert evidence["readable records wait"] == "yes"
    assert evidence["states"] == "connector running, tasks: 1 running"
    assert int(evidence["log end"]) > int(evidence["position"])


def test_a_failed_task_is_why_it_is_stalled(estate):
    estate.actors[0].fails = True
    estate.until("mm2", Verdict.STALLED, FOUND_S)
    assert "task 0 has failed" in estate.verdict("mm2").reason


def test_it_is_silent_until_it_moves_and_then_ok_at_once(estate):
    since = hung(estate)
    for snapshot in estate.run(HOUR):
        of_flow = [judgement for judgement in snapshot.judgements if judgement.scope is Scope.FLOW]
        assert [(item.verdict, item.since) for item in of_flow] == [(Verdict.SILENT, since)]
    estate.actors[0].hangs = False
    assert estate.until("mm2", Verdict.OK, FLUSH_S + 20) <= FLUSH_S + 20


def test_restarts_over_and_over_do_not_make_a_stalled_connector_patient(estate):
    estate.actors[0].fails = True
    estate.until("mm2", Verdict.STALLED, FOUND_S)
    since = estate.verdict("mm2").since
    for _ in range(20):
        estate.actors[0].fails, estate.actors[0].hangs = False, True
        estate.go(MINUTE)
        estate.actors[0].fails = True
        estate.go(MINUTE)
        assert (estate.verdict("mm2").verdict, estate.verdict("mm2").since) == (
            Verdict.STALLED,
            since,
        )


@pytest.mark.parametrize("state", ["paused", "stopped"])
def test_what_an_operator_paused_is_paused_and_has_three_intervals_after_that(estate, state):
    hung(estate)
    estate.actors[0].hangs, estate.actors[0].state = False, state
    estate.until("mm2", Verdict(state), FLUSH_S + 20)
    estate.go(HOUR)
    assert estate.verdict("mm2").reason == f"the connector is {state}"
    estate.actors[0].state = "running"
    for snapshot in estate.run(10 * MINUTE):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG


def test_a_position_that_went_back_is_rewound_until_it_has_come_as_far_again():
    actor = Mirror(name="mm2", logs=[Log(steady(50.0))], per_s=200.0)
    estate = Estate(actor).go(HOUR)
    log = actor.logs[0]
    high, log.done, log.committed = log.committed, 0, 1
    estate.world.commit("mm2", orders(0), {"offset": 0})
    estate.until("mm2", Verdict.REWOUND, FLUSH_S + 20)
    assert texts(estate.verdict("mm2").evidence)["went back from"] == str(high - 1)
    estate.until("mm2", Verdict.OK, HOUR)
    assert log.committed >= high


def test_what_moves_and_falls_behind_all_the_same_is_slow():
    estate = Estate(Mirror(name="mm2", logs=[Log(steady(50.0))], per_s=30.0))
    estate.until("mm2", Verdict.SLOW, 20 * MINUTE)


def test_a_partition_in_which_nothing_is_written_is_idle_and_then_ok_again():
    estate = Estate(Mirror(name="mm2", logs=[Log(every(HOUR, 5.0))]))
    estate.go(HOUR + 20 * MINUTE)
    assert estate.verdict("mm2").verdict is Verdict.IDLE
    estate.until("mm2", Verdict.OK, HOUR)


def test_what_is_left_at_the_end_and_cannot_be_read_is_no_stall():
    """Where a probe is not allowed: one commit marker after the last record, for ever."""
    actor = Mirror(name="mm2", logs=[Log(daily(0.0, 20 * MINUTE, 5.0))])
    estate = Estate(actor, probing=False).go(25 * MINUTE)
    actor.logs[0].end += 1
    actor.hangs = True
    for snapshot in estate.run(HOUR):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG
    assert "transaction markers" in estate.verdict("mm2").reason


def test_without_a_probe_a_log_end_that_moves_on_shows_that_work_waits():
    estate = Estate(mm2(), probing=False).go(30 * MINUTE)
    hung(estate)


@pytest.mark.parametrize("topic", [OFFSETS, SYNCS], ids=str)
def test_an_input_that_goes_blind_is_not_progress_and_what_it_hid_goes_on(estate, topic):
    since = hung(estate)
    tail = InputId.of_tail(topic)
    estate.blind.add(tail)
    estate.until("mm2", Verdict.UNKNOWN, 40.0)
    assert estate.verdict("mm2").rule == UNAVAILABLE_INPUT_RULE
    assert "no route" in estate.verdict("mm2").reason
    estate.go(2 * HOUR)
    estate.blind.clear()
    # Log ends are read once a minute, of what is known to be copied.
    estate.until("mm2", Verdict.SILENT, 2 * MINUTE)
    assert (estate.verdict("mm2", Scope.PARTITION).verdict) is Verdict.SILENT
    assert (estate.verdict("mm2", Scope.PARTITION).since) == since
    assert (estate.verdict("mm2").verdict, estate.verdict("mm2").since) == (Verdict.SILENT, since)


@pytest.mark.parametrize("unavailable", [REST, ENDS], ids=["connect_rest", "log_ends"])
def test_without_states_or_log_ends_a_silent_flow_is_unknown_and_silent_again_afterwards(
    estate, unavailable
):
    since = hung(estate)
    estate.blind.add(unavailable)
    estate.until("mm2", Verdict.UNKNOWN, 2 * MINUTE)
    assert unavailable.in_words in estate.verdict("mm2").reason
    estate.go(HOUR)
    estate.blind.clear()
    estate.go(30.0)
    assert (estate.verdict("mm2").verdict, estate.verdict("mm2").since) == (Verdict.SILENT, since)


def test_time_without_polls_is_no_stall(estate):
    """The daemon was blind for an hour, and sees what it saw before."""
    estate.blind.add(ENDS)
    estate.actors[0].hangs = True
    estate.go(HOUR)
    estate.blind.clear()
    for snapshot in estate.run(FLUSH_S):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG
    estate.until("mm2", Verdict.SILENT, FOUND_S)


@pytest.mark.parametrize("down_s", [0.0, 20.0, 5 * HOUR])
def test_a_restart_of_the_daemon_forgets_no_verdict_and_resolves_none(estate, down_s):
    since = hung(estate)
    estate.restart_daemon(down_s=down_s)
    for snapshot in estate.run(20 * MINUTE):
        reports = {(judgement.verdict, judgement.since) for judgement in snapshot.judgements}
        assert reports <= {(Verdict.SILENT, since)}
    estate.actors[0].hangs = False
    estate.until("mm2", Verdict.OK, FLUSH_S + 20)


def test_what_moved_while_the_daemon_was_down_is_well_when_it_is_back(estate):
    hung(estate)
    estate.actors[0].hangs = False
    estate.restart_daemon(down_s=10 * MINUTE)
    estate.go(20.0)
    assert estate.verdict("mm2").verdict is Verdict.OK


def test_a_daemon_that_was_down_does_not_call_a_stall_what_it_did_not_watch(estate):
    estate.restart_daemon(down_s=HOUR)
    estate.actors[0].hangs = True
    for snapshot in estate.run(FLUSH_S):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG


@pytest.mark.parametrize("leap_s", [-2 * HOUR, -30.0, 2 * HOUR])
def test_a_clock_that_jumps_breaks_nothing(estate, leap_s):
    since = hung(estate)
    estate.world.now += leap_s
    estate.actors[0].flushed_at += leap_s
    estate.go(20 * MINUTE)
    assert (estate.verdict("mm2").verdict, estate.verdict("mm2").since) == (Verdict.SILENT, since)
    estate.actors[0].hangs = False
    estate.until("mm2", Verdict.OK, 2 * FLUSH_S)
    for snapshot in estate.run(20 * MINUTE):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG


@pytest.mark.parametrize("leap_s", [-2 * HOUR, 2 * HOUR])
def test_a_clock_that_jumps_makes_nothing_healthy_ill(estate, leap_s):
    estate.world.now += leap_s
    estate.actors[0].flushed_at += leap_s
    for snapshot in estate.run(20 * MINUTE):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG


def test_a_connector_that_is_gone_is_forgotten(estate):
    estate.actors = ()
    estate.go(10 * MINUTE)
    assert estate.judged.judgements == ()


def test_a_source_that_used_to_move_and_has_a_failed_task_is_stalled():
    estate = Estate(Rows(name="rows", rate=steady(5.0))).go(30 * MINUTE)
    assert estate.verdict("rows").verdict is Verdict.OK
    estate.actors[0].fails = True
    estate.until("rows", Verdict.STALLED, FOUND_S)
    estate.actors[0].fails = False
    estate.until("rows", Verdict.OK, 2 * FLUSH_S)


def test_a_source_without_a_second_signal_that_stops_is_unknown_and_not_silent():
    estate = Estate(Rows(name="rows", rate=steady(5.0))).go(30 * MINUTE)
    estate.actors[0].hangs = True
    estate.until("rows", Verdict.UNKNOWN, FOUND_S)
    estate.go(HOUR)
    assert estate.verdict("rows").verdict is Verdict.UNKNOWN


@pytest.mark.full
def test_a_source_watched_for_eight_days_that_was_never_so_quiet_is_silent():
    estate = Estate(Rows(name="rows", rate=every(10 * MINUTE, 5.0)), tick_s=60.0).go(8 * DAY)
    estate.actors[0].hangs = True
    assert estate.until("rows", Verdict.SILENT, 35 * MINUTE) > 2 * 9 * MINUTE


def test_a_source_that_goes_back_is_rewound_until_it_has_come_as_far_again():
    estate = Estate(Rows(name="rows", rate=steady(5.0))).go(30 * MINUTE)
    estate.actors[0].rows -= 3000
    estate.actors[0].committed = -1
    estate.until("rows", Verdict.REWOUND, 2 * FLUSH_S + 20)
    assert "went back from" in texts(estate.verdict("rows").evidence)
    estate.until("rows", Verdict.OK, 15 * MINUTE)


def test_a_sink_that_stands_still_with_records_to_read_is_silent():
    estate = Estate(Sink(name="lake")).go(30 * MINUTE)
    assert estate.verdict("lake").verdict is Verdict.OK
    estate.actors[0].hangs = True
    estate.until("lake", Verdict.SILENT, FOUND_S)
    assert texts(estate.verdict("lake").evidence)["for instance"] == "orders-0"
    estate.actors[0].hangs = False
    estate.until("lake", Verdict.OK, FLUSH_S + 20)


def test_a_sink_is_unknown_while_groups_cannot_be_read(monkeypatch):
    estate = Estate(Sink(name="lake")).go(30 * MINUTE)
    monkeypatch.setattr(estate.world, "sinks", lambda *_: None)
    estate.until("lake", Verdict.UNKNOWN, MINUTE)
    assert "consumer groups of" in estate.verdict("lake").reason


def list_verdicts(estate: Estate) -> dict[tuple, Verdict]:
    assert estate.judged is not None
    return {
        (judgement.scope, judgement.connector, judgement.subject): judgement.verdict
        for judgement in estate.judged.judgements
    }


def eventful(tick_s: float) -> Estate:
    """Hangs, fails and recovers."""
    return Estate(
        Mirror(name="mm2", logs=[Log(steady(20.0)), Log(every(10 * MINUTE, 2.0))]),
        Rows(name="rows", rate=steady(2.0)),
        Sink(name="lake"),
        tick_s=tick_s,
    )


def act(estate: Estate, minute: int) -> None:
    for actor in estate.actors:
        actor.hangs = 20 <= minute < 32
        actor.fails = 45 <= minute < 55


@cache
def history(restarts: frozenset[int]) -> list[dict[tuple, Verdict]]:
    """What is told at every minute."""
    estate, results = eventful(10.0), []
    for minute in range(70):
        act(estate, minute)
        if minute in restarts:
            estate.restart_daemon()
        results.append(list_verdicts(estate.go(MINUTE)))
    return results


@pytest.mark.parametrize("seed", range(8))
def test_a_restart_at_any_moment_changes_no_verdict_by_more_than_an_interval(seed):
    restarts = frozenset(random.Random(seed).sample(range(1, 70), 1 + seed % 4))
    never, some = history(frozenset()), history(restarts)
    for minute, verdicts in enumerate(some):
        near = never[max(0, minute - 1) : minute + 2]
        for subject, verdict in verdicts.items():
            assert verdict in {entry.get(subject) for entry in near}, (minute, subject)


@cache
def verdict_changes(tick_s: float) -> list[tuple[int, Verdict]]:
    """Verdicts of the mirror, each with the minute at which it began."""
    estate, results = eventful(tick_s), []
    for minute in range(70):
        act(estate, minute)
        estate.go(MINUTE)
        verdict = estate.verdict("mm2").verdict
        if not results or results[-1][1] is not verdict:
            results.append((minute, verdict))
    return results


@pytest.mark.parametrize(
    "tick_s", [*(pytest.param(tick_s, marks=pytest.mark.full) for tick_s in (1.0, 2.0)), 5.0, 20.0]
)
def test_how_often_it_looks_makes_no_difference_of_more_than_an_interval(tick_s):
    usual, other = verdict_changes(10.0), verdict_changes(tick_s)
    assert [verdict for _, verdict in usual] == [verdict for _, verdict in other]
    assert all(abs(a - b) <= 1 for (a, _), (b, _) in zip(usual, other, strict=True))


def test_a_silent_flow_is_found_and_the_finding_outlives_blindness_and_a_restart(estate):
    since = hung(estate)
    (finding,) = estate.judged.findings
    assert (finding.name, finding.connector) == (FindingName.MM2_SILENT_STALL, "mm2")
    for event in (lambda: estate.blind.add(ENDS), estate.restart_daemon, estate.blind.clear):
        event()
        for snapshot in estate.run(5 * MINUTE):
            reports = {result.key: result.since for result in snapshot.findings}
            assert reports.get(finding.key) == finding.since
    assert estate.verdict("mm2").since == since
    estate.actors[0].hangs = False
    estate.go(2 * MINUTE)
    assert not estate.judged.findings


def test_what_cannot_be_observed_does_not_make_its_connector_well():
    """One of two partitions stands still, and then an open transaction hides its offset."""
    logs = [Log(steady(50.0)), Log(steady(50.0))]
    estate = Estate(Mirror(name="mm2", logs=logs)).go(30 * MINUTE)
    logs[0].stuck = True
    estate.until("mm2", Verdict.SILENT, FOUND_S)
    since = estate.verdict("mm2").since
    estate.frozen.add(0)
    estate.until("mm2", Verdict.UNKNOWN, 2 * MINUTE)
    estate.go(10 * MINUTE)
    judgement = estate.verdict("mm2")
    assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE)
    evidence = texts(judgement.evidence)
    assert (evidence["ok"], evidence["unknown"]) == ("1 partition", "1 partition")
    estate.frozen.clear()
    estate.until("mm2", Verdict.SILENT, 2 * MINUTE)
    assert estate.verdict("mm2").since == since


def test_a_flow_that_does_not_begin_at_the_start_is_unknown_until_its_first_commit():
    estate = Estate(mm2(hangs=True, from_start=False))
    estate.world.assigned(0)
    estate.go(10 * MINUTE)
    assert "does not begin at the start" in estate.verdict("mm2").reason
    estate.actors[0].hangs = False
    estate.until("mm2", Verdict.OK, 3 * FLUSH_S)


def test_what_is_resumed_has_three_intervals_before_it_is_expected_to_have_moved(estate):
    estate.actors[0].state = "paused"
    estate.go(HOUR)
    estate.actors[0].state, estate.actors[0].hangs = "running", True
    for snapshot in estate.run(PATIENCE_S - 20):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG
    estate.until("mm2", Verdict.SILENT, FOUND_S)


def test_an_outage_of_the_daemon_does_not_count_as_an_interval_of_watching(estate):
    estate.actors[0].hangs = True
    estate.go(estate.actors[0].flushed_at + 2.5 * FLUSH_S - estate.world.now)
    estate.restart_daemon(down_s=HOUR)
    for snapshot in estate.run(20.0):
        assert not {judgement.verdict for judgement in snapshot.judgements} & WRONG
    estate.until("mm2", Verdict.SILENT, FOUND_S)
