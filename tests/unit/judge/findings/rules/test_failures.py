"""Rules 5 to 9 in detail: of which failures they speak, and with what."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.findings.register import LAST_SEEN
from offsetwatch.model.connectors import (
    Condition,
    ConnectorKind,
    StatusRecord,
    Task,
    TaskStatus,
)
from offsetwatch.model.findings import Finding, FindingName
from offsetwatch.model.observations import LogBounds, SinkOffset
from offsetwatch.model.topology import TopicPartition
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.unit.judge.register_runs import BAD, SETTINGS, Play, connector
from tests.unit.state.worlds import FILE, World, files, mirrors, orders, sink, source

WORSE = "org.example.Worse in Files.poll"


def task(number: int, state: str, *, name: str = "files", failure: str = BAD) -> TaskStatus:
    failed = failure if state == "failed" else None
    return TaskStatus(name, number, Condition(state, "w:1", 1, "4.3.1", failed))


def filed(*, followed: bool = True) -> Play:
    play = Play(files())
    play.world.commit("files", FILE, {"position": 1})
    play.evaluate()
    if followed:
        play.status_followed()
    return play


def again(play: Play, *begins_and_ends: tuple[StatusRecord, StatusRecord]) -> None:
    """Each runs, then has failed."""
    for running, failed in begins_and_ends:
        play.add_statuses(running)
        play.world.now += 0.5
        play.add_statuses(failed)
        play.world.now += 0.5


def fails(play: Play, *numbers: int, name: str = "files", failure: str = BAD) -> None:
    again(
        play,
        *(
            (task(number, "running", name=name), task(number, "failed", name=name, failure=failure))
            for number in numbers
        ),
    )


def select_finding(findings: Iterable[Finding], name: FindingName) -> Finding:
    (report,) = [finding for finding in findings if finding.name is name]
    return report


# --- poison_suspected ----------------------------------------------------------------------------


def test_a_poison_is_reported_with_the_task_that_failed_most_and_all_that_did():
    play = filed()
    for numbers in ((0, 1), (0, 1), (0, 1), (1,)):
        fails(play, *numbers)
        play.run(0.2)
    finding = select_finding(play.findings, FindingName.POISON_SUSPECTED)
    assert finding.summary == (
        "files task 1 failed 4 times at the same position: Bad at "
        'filename=/data/in.txt@{"position":1}; restarts have not helped.'
    )
    evidence = texts(finding.evidence)
    assert evidence["error"] == BAD
    assert evidence["task"] == "0, 1"
    assert evidence["filename=/data/in.txt position"] == '{"position":1}'
    (run,) = [run for run in play.register.failure_runs if run.task == 1]
    assert evidence["first failed"] == format_moment(run.first_at)
    assert evidence["last failed"] == format_moment(run.last_at)
    assert run.first_at < run.last_at


def test_a_connector_that_fails_over_and_over_is_no_poison():
    """A connector reads nothing: there is no record to skip."""
    play = filed()
    for _ in range(4):
        again(play, (connector("running"), connector("failed")))
        play.run(0.2)
    assert "poison_suspected" not in play.names()


def test_a_task_that_fails_while_it_starts_has_met_no_poison_and_stays_reported():
    """A missing file, table or password: there is no record to skip."""
    play = filed()
    for _ in range(4):
        fails(play, 0, failure=BAD + " while starting")
        play.run(0.2)
    assert "poison_suspected" not in play.names()
    assert "restart_loop" in play.names()


def copied(*, lag: bool) -> Play:
    """Task 0 of mm2 fails four times; orders-0 never moves, orders-1 does each time."""
    play = Play(mirrors())
    play.world.assigned(0, 1)
    play.status_followed()
    ends = {0: 30 if lag else 21, 1: 90}
    bounds = {
        TopicPartition("orders", offset): LogBounds(0, end, end) for offset, end in ends.items()
    }
    play.world.commit("mm2", orders(), {"offset": 20})
    for position in (40, 50, 60, 70):
        play.add_statuses(task(0, "running", name="mm2"))
        play.world.commit("mm2", orders(1), {"offset": position})
        play.world.ends(bounds)
        play.run(0.2)
        fails(play, 0, name="mm2")
        play.run(0.2)
    return play


def test_where_other_partitions_move_what_has_work_and_does_not_is_where_it_is_stuck():
    report = texts(select_finding(copied(lag=True).findings, FindingName.POISON_SUSPECTED).evidence)
    assert report["orders-0 position"] == "20"
    assert "orders-1 position" not in report


def test_where_other_partitions_move_what_has_no_work_is_not_stuck():
    assert "poison_suspected" not in copied(lag=False).names()


def test_a_lag_of_transaction_markers_alone_or_of_unknown_size_is_not_stuck():
    for nothing in ({"caught_up": True}, {"lag": None, "caught_up": None}):
        play = copied(lag=True)
        play.more["mirror_partitions"] = tuple(
            replace(view, **nothing) for view in play.world.snapshot().mirror_partitions
        )
        play.evaluate()
        assert "poison_suspected" not in play.names()


def test_a_restart_loop_in_which_some_positions_moved_says_so():
    evidence = texts(select_finding(copied(lag=False).findings, FindingName.RESTART_LOOP).evidence)
    assert (evidence["position"], evidence["error"]) == ("moved", BAD)


# --- restart_loop --------------------------------------------------------------------------------


def looping() -> Play:
    """Task 1 is restarted four times and task 0 three times, each at another position."""
    play = filed()
    for position, numbers in enumerate(((0, 1), (0, 1), (0, 1), (0, 1), (1,))):
        fails(play, *numbers)
        play.run(0.2)
        play.world.commit("files", FILE, {"position": 2 + position})
    play.run(0.2)
    return play


def test_a_restart_loop_is_reported_with_whom_it_is_worst_for_and_all_who_are_in_it():
    play = looping()
    finding = select_finding(play.findings, FindingName.RESTART_LOOP)
    assert finding.summary.startswith(
        "files task 1 failed and was restarted 3 times or more within "
    )
    evidence = texts(finding.evidence)
    assert evidence["restarted"] == "4 times"
    assert evidence["failing"] == "task 0, task 1"
    assert evidence["error"] == BAD
    assert evidence["position"] == "did not move"
    (diary,) = [history for of, history in play.register._memory.failures.of.items() if of[2] == 1]
    assert evidence["last restart"] == format_moment(diary.restarts[-1])
    assert diary.restarts[-1] - diary.restarts[-2] >= 1


def test_a_restart_loop_of_a_task_that_got_past_its_last_failure_says_that_it_moves():
    play = looping()
    play.add_statuses(task(1, "running"))
    play.world.commit("files", FILE, {"position": 77})
    play.run(0.2)
    evidence = texts(select_finding(play.findings, FindingName.RESTART_LOOP).evidence)
    assert (evidence["position"], evidence["error"]) == ("moved", "not reported")


def test_a_connector_that_is_restarted_over_and_over_is_named_as_itself():
    play = filed()
    for _ in range(4):
        again(play, (connector("running"), connector("failed")))
        play.run(0.2)
    finding = select_finding(play.findings, FindingName.RESTART_LOOP)
    assert finding.summary.startswith("files failed and was restarted 3 times or more within ")
    assert texts(finding.evidence)["position"] == "did not move"
    assert texts(finding.evidence)["error"] == "not reported"


# --- sink_below_log_start ------------------------------------------------------------------------


def sunk(*partitions: tuple[int, int | None]) -> Play:
    """A sink with these (committed, log start) of orders-0 and so on, for two intervals."""
    world = World()
    world.listed(sink("out"))
    offsets = [
        SinkOffset("out", "orders", offset, where, 90)
        for offset, (where, _) in enumerate(partitions)
    ]
    world.sinks(*offsets)
    play = Play(world)
    starts = {offset: start for offset, (_, start) in enumerate(partitions)}
    play.more["sink_partitions"] = tuple(
        replace(view, log_start=starts[view.partition]) for view in world.snapshot().sink_partitions
    )
    play.run(2.2)
    return play


def test_the_records_that_a_sink_did_not_get_are_counted_over_its_partitions():
    finding = sunk((10, 15), (20, 22), (30, 30), (40, None)).only()
    assert finding.summary.startswith("out lost up to 7 records that were deleted")
    assert pairs(finding.evidence) == [
        ("orders-0 position", "10"),
        ("orders-0 log start", "15"),
        ("orders-1 position", "20"),
        ("orders-1 log start", "22"),
    ]


def test_what_was_found_of_a_sink_stays_while_its_configuration_is_not_reported():
    play = sunk((10, 15))
    bare = replace(sink("out"), kind=ConnectorKind.UNKNOWN, sink=None, configured=False)
    play.run(10.5, each=lambda: play.world.listed(bare))
    play.more["sink_partitions"] = ()
    play.run(1, each=lambda: play.world.listed(bare))
    finding = select_finding(play.findings, FindingName.SINK_BELOW_LOG_START)
    assert finding.evidence[0].name == LAST_SEEN


def test_a_sink_at_the_very_start_of_the_log_has_lost_nothing():
    assert sunk((15, 15)).names() == []


# --- connector_failed, task_failed ---------------------------------------------------------------


def test_a_failed_task_is_reported_with_since_when_and_how_often_in_a_row():
    play = filed()
    fails(play, 0)
    moment = play.world.now
    play.run(0.2)
    fails(play, 0)
    play.world.listed(source("files", tasks=(Task(0, "failed", BAD), Task(1, "running"))))
    play.evaluate()
    report = texts(select_finding(play.findings, FindingName.TASK_FAILED).evidence)
    assert report["failed in a row"] == "2 times"
    (run,) = play.register.failure_runs
    assert report["failed"] == format_moment(run.last_at)
    assert run.last_at > moment


@pytest.mark.parametrize("failure", [None, ""])
def test_a_failure_without_a_reason_says_that_there_is_none(failure):
    play = filed(followed=False)
    play.world.listed(source("files", tasks=(Task(0, "failed", failure),)))
    play.evaluate()
    finding = play.only()
    assert finding.summary == "files task 0 FAILED: Connect reports no reason."
    assert ("task 0", "Connect reports no reason") in pairs(finding.evidence)
    play.world.listed(source("files", state="failed", failure=failure))
    play.evaluate()
    assert "files FAILED: Connect reports no reason." in [
        result.summary for result in play.findings
    ]


def test_restarts_are_a_loop_within_a_window_of_intervals():
    play = looping()
    assert "restart_loop" in play.names()
    play.run(SETTINGS.window - 1.5)
    assert "restart_loop" in play.names()
    play.run(2)
    assert "restart_loop" not in play.names()
