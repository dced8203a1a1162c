"""Runs of failures: told by polls or by a status topic, and where the connector stood meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.findings.failure_history import (
    CONNECTOR_TASK_NUMBER,
    FAILURES_MIN,
    HISTORIES_MAX,
    POSITIONS_MAX,
    RESTARTS_MAX,
    FailureTracker,
    find_positions,
)
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.model.connectors import (
    DELETED,
    UNKNOWN_STATE,
    ConnectorKind,
    StateChange,
    StateHistory,
    Task,
)
from offsetwatch.model.findings import FailureRun
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, SinkPartitionView, Snapshot
from tests.changed import replace
from tests.unit.judge.observed_rewinds import MM2, copied, counted
from tests.unit.judge.test_input_visibility import FILES as LISTED
from tests.unit.judge.test_input_visibility import GROUPS_INPUT, REST, heard

BAD = "org.example.Bad in Files.poll"
BAD_ELSEWHERE = "org.example.Bad in Files.commit"
WORSE = "org.example.Worse in Files.poll"
PATIENCE_S = 60.0
FILES = ("lab", "files", 0)


def polled(
    *tasks: Task, name: str = "files", state: str = "running", failure: str | None = None
) -> ConnectorView:
    return ConnectorView(
        connect_cluster="lab",
        name=name,
        kind=ConnectorKind.SOURCE,
        class_name="org.example.Files",
        version="1",
        state=state,
        tasks=tasks,
        failure=failure,
    )


def task(state: str, failure: str | None = None, number: int = 0) -> Task:
    return Task(number, state, failure if failure or state != "failed" else BAD)


def history(*changes: StateChange, name: str = "files", number: int | None = 0) -> StateHistory:
    return StateHistory("lab", name, number, changes)


def change(moment: float, state: str, failure: str | None = None) -> StateChange:
    return StateChange(moment, state, failure if failure or state != "failed" else BAD)


class Watching:
    """Failures, and a clock that is set by whoever looks."""

    def __init__(self) -> None:
        self.failures = FailureTracker()
        self.snapshot: Snapshot = EMPTY_SNAPSHOT

    def observe(
        self,
        moment: float,
        *connectors: ConnectorView,
        histories: tuple[StateHistory, ...] = (),
        positions: Mapping[str, str] | None = None,
        listed: Mapping[str, frozenset[str]] | None = None,
    ) -> tuple[FailureRun, ...]:
        """As the judge does: first whose positions are wanted, then what happened."""
        self.snapshot = replace(
            EMPTY_SNAPSHOT, at=moment, connectors=connectors, histories=histories
        )
        return self.again(moment, positions=positions, listed=listed)

    def again(
        self,
        moment: float,
        *,
        positions: Mapping[str, str] | None = None,
        listed: Mapping[str, frozenset[str]] | None = None,
    ) -> tuple[FailureRun, ...]:
        """The very same states, later."""
        self.snapshot = replace(self.snapshot, at=moment)
        self.failures.list_failing(self.snapshot)
        stand = {} if positions is None else {("lab", "files"): positions}
        self.failures.observe(self.snapshot, listed or {}, stand, PATIENCE_S)
        return self.failures.runs()

    def fail(self, moment: float, times: int, *, positions: Mapping[str, str]) -> None:
        """So often, ten seconds apart, restarted in between."""
        for number in range(times):
            if number:
                self.observe(moment + 10 * number - 5, polled(task("running")), positions=positions)
            self.observe(moment + 10 * number, polled(task("failed")), positions=positions)


@pytest.fixture
def watching() -> Watching:
    return Watching()


# --- what a run is -------------------------------------------------------------------------------


def test_a_task_that_fails_is_a_run_of_one(watching):
    (run,) = watching.observe(100.0, polled(task("failed"), task("running", number=1)))
    assert run == FailureRun(
        connect_cluster="lab",
        connector="files",
        task=0,
        kind="org.example.Bad",
        failure=BAD,
        count=1,
        first_at=100.0,
        last_at=100.0,
        restarts=0,
        same=(("", ""),),
        moved=False,
        read_at=100.0,
        begun_by=100.0,
        lasted_s=0.0,
    )


def test_a_connector_that_fails_itself_is_a_run_of_no_task(watching):
    (run,) = watching.observe(100.0, polled(state="failed", failure=BAD))
    assert (run.task, run.kind, run.count) == (None, "org.example.Bad", 1)


def test_a_failure_that_does_not_say_what_it_is_is_of_no_kind(watching):
    (run,) = watching.observe(1.0, polled(Task(0, "failed", None)))
    assert (run.kind, run.failure) == ("", "")


def test_restarts_between_failures_of_one_kind_are_counted_with_them(watching):
    watching.fail(100.0, 3, positions={"a": "1"})
    (run,) = watching.failures.runs()
    assert (run.count, run.restarts, run.first_at, run.last_at) == (3, 2, 100.0, 120.0)
    assert (run.same, run.moved) == ((("a", "1"),), False)


def test_failures_with_one_exception_class_at_two_places_are_one_run_with_the_newest(
    watching,
):
    watching.observe(1.0, polled(task("failed", BAD)))
    watching.observe(2.0, polled(task("running")))
    (run,) = watching.observe(3.0, polled(task("failed", BAD_ELSEWHERE)))
    assert (run.count, run.kind, run.failure) == (2, "org.example.Bad", BAD_ELSEWHERE)


def test_another_kind_of_failure_begins_another_run(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    watching.observe(15.0, polled(task("running")), positions={"a": "1"})
    (run,) = watching.observe(20.0, polled(task("failed", WORSE)), positions={"a": "1"})
    assert (run.kind, run.count, run.first_at) == ("org.example.Worse", 1, 20.0)


def test_a_failure_that_is_polled_again_is_the_same_one(watching):
    watching.observe(1.0, polled(task("failed")))
    (run,) = watching.observe(2.0, polled(task("failed")))
    assert (run.count, run.last_at) == (1, 1.0)


@pytest.mark.parametrize(
    ("state", "restarts"),
    [("restarting", 1), ("unassigned", 1), ("running", 1), ("paused", 0), ("stopped", 0)],
)
def test_a_restart_is_a_failed_task_that_is_to_run_again(watching, state, restarts):
    watching.observe(1.0, polled(task("failed")))
    watching.observe(2.0, polled(task(state)))
    watching.observe(3.0, polled(task("running" if state != "running" else "failed")))
    watching.observe(4.0, polled(task("failed")))
    assert len(watching.failures.of[FILES].restarts) == restarts


def test_of_two_connectors_and_two_tasks_each_has_its_own_and_they_come_by_name(watching):
    runs = watching.observe(
        1.0,
        polled(task("failed", number=1), task("failed"), name="z"),
        polled(task("failed"), name="a"),
    )
    assert [(run.connector, run.task) for run in runs] == [("a", 0), ("z", 0), ("z", 1)]


def test_of_who_was_polled_and_never_failed_nothing_is_retained(watching):
    """There may be 240,000 tasks."""
    watching.observe(100.0, polled(task("running"), task("paused", number=1)))
    assert watching.failures.of == {}
    watching.observe(110.0, polled(task("failed"), task("paused", number=1)))
    watching.observe(120.0, polled(task("running"), task("paused", number=1)))
    assert list(watching.failures.of) == [FILES]
    assert list(watching.failures.of[FILES].restarts) == [120.0]


def test_tasks_that_fail_alike_share_what_is_retained_of_it(watching):
    failing = polled(*(Task(number, "failed", BAD) for number in range(3)))
    for at in (100.0, 110.0):
        runs = watching.observe(at, failing, positions={"a": "1", "b": "2"})
        assert len({id(run.same) for run in runs}) == len({id(run.kind) for run in runs}) == 1
        runs = [history.run for history in watching.failures.of.values()]
        assert len({id(run.same) for run in runs}) == 1


def test_no_more_restarts_are_kept_than_that(watching):
    watching.fail(0.0, RESTARTS_MAX + 3, positions={"a": "1"})
    assert len(watching.failures.of[FILES].restarts) == RESTARTS_MAX


# --- who is over it ------------------------------------------------------------------------------


def test_who_has_run_for_long_enough_is_over_it_and_not_before(watching):
    watching.observe(100.0, polled(task("failed")))
    watching.observe(110.0, polled(task("running")))
    assert watching.again(110.0 + PATIENCE_S - 1)
    assert watching.again(110.0 + PATIENCE_S) == ()


def test_who_stays_failed_is_not_over_it(watching):
    watching.observe(100.0, polled(task("failed")))
    assert watching.again(100.0 + 10 * PATIENCE_S)


def test_a_deleted_connector_is_forgotten_and_no_other_one(watching):
    both = (polled(task("failed")), polled(task("failed"), name="other"))
    watching.observe(1.0, *both)
    (run,) = watching.observe(2.0, both[1], listed={"lab": frozenset({"other"})})
    assert run.connector == "other"
    assert watching.again(3.0, listed={"another": frozenset()}) == (run,)


def test_the_tasks_of_a_connector_that_is_stopped_are_not_forgotten(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    listed = {"lab": frozenset({"files"})}
    (run,) = watching.observe(30.0, polled(state="stopped"), listed=listed)
    assert run.count == 2


# --- where it stood ------------------------------------------------------------------------------


def test_a_task_commits_once_more_as_it_ends_so_what_is_read_then_counts(watching):
    watching.observe(1.0, polled(task("failed")), positions={"a": "1"})
    (run,) = watching.again(2.0, positions={"a": "2"})
    assert (run.same, run.moved, run.count) == ((("a", "2"),), False, 1)
    assert (run.first_at, run.last_at, run.failure) == (1.0, 1.0, BAD)


def test_where_that_cannot_be_observed_it_stands_where_it_stood(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    (run,) = watching.again(12.0)
    assert run.same == (("a", "1"),)


def test_where_that_cannot_be_observed_when_it_fails_again_it_is_not_said_to_be_there_still(
    watching,
):
    watching.fail(1.0, 2, positions={"a": "1"})
    watching.observe(15.0, polled(task("running")), positions={"a": "1"})
    (run,) = watching.observe(20.0, polled(task("failed")))
    assert (run.count, run.first_at) == (1, 20.0)


def test_what_moves_between_two_failures_is_no_place_where_it_is_stuck(watching):
    watching.observe(1.0, polled(task("failed")), positions={"b": "1", "a": "1"})
    watching.observe(2.0, polled(task("running")), positions={"b": "2", "a": "1"})
    (run,) = watching.observe(3.0, polled(task("failed")), positions={"b": "2", "a": "1"})
    assert (run.same, run.moved, run.count) == ((("a", "1"),), True, 2)
    (run,) = watching.again(4.0, positions={"b": "2", "a": "1"})
    assert run.moved


def test_places_come_in_order(watching):
    (run,) = watching.observe(1.0, polled(task("failed")), positions={"b": "1", "a": "1"})
    assert run.same == (("a", "1"), ("b", "1"))


def test_who_moves_on_everywhere_while_it_runs_is_over_it(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    assert watching.observe(15.0, polled(task("running")), positions={"a": "2"}) == ()


def test_who_had_moved_on_when_it_fails_again_begins_again(watching):
    report = history(change(1.0, "failed"))
    watching.observe(1.0, histories=(report,), positions={"a": "1"})
    report = history(*report.changes, change(2.0, "running"), change(3.0, "failed"))
    (run,) = watching.observe(3.0, histories=(report,), positions={"a": "2"})
    assert (run.count, run.first_at, run.same) == (1, 3.0, (("a", "2"),))


def test_who_is_observed_to_have_moved_on_only_after_it_failed_again_begins_again_there(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    (run,) = watching.again(12.0, positions={"a": "2"})
    assert (run.count, run.first_at, run.failure) == (1, 11.0, BAD)


@pytest.mark.parametrize(
    ("times", "retained"),
    [(FAILURES_MIN - 1, FAILURES_MIN - 2), (FAILURES_MIN, 0), (FAILURES_MIN + 1, 0)],
)
def test_who_gets_past_what_it_was_stuck_at_has_no_restarts_held_against_it(
    watching, times, retained
):
    watching.fail(1.0, times, positions={"a": "1"})
    watching.observe(100.0, polled(task("paused")), positions={"a": "1"})
    watching.again(101.0, positions={"a": "2"})
    assert watching.failures.runs() == ()
    assert len(watching.failures.of[FILES].restarts) == retained


def test_who_moved_in_part_was_not_stuck_and_its_restarts_count(watching):
    watching.fail(1.0, 1, positions={"a": "1", "b": "1"})
    for number in range(2, FAILURES_MIN + 1):
        positions = {"a": "1", "b": str(number)}
        watching.observe(10.0 * number, polled(task("running")), positions=positions)
        watching.observe(10.0 * number + 1, polled(task("failed")), positions=positions)
    watching.observe(100.0, polled(task("paused")), positions={"a": "2", "b": "9"})
    assert watching.failures.runs() == ()
    assert len(watching.failures.of[FILES].restarts) == FAILURES_MIN - 1


def test_who_has_committed_nothing_stands_where_it_begins_until_it_commits(watching):
    watching.fail(1.0, 2, positions={})
    (run,) = watching.failures.runs()
    assert (run.count, run.same) == (2, (("", ""),))
    assert watching.observe(15.0, polled(task("running")), positions={"a": "1"}) == ()


def test_of_very_many_places_some_are_enough(watching):
    locations = {f"{number:05}": "1" for number in range(POSITIONS_MAX + 1)}
    (run,) = watching.observe(1.0, polled(task("failed")), positions=locations)
    assert len(run.same) == POSITIONS_MAX


# --- told by a status topic ----------------------------------------------------------------------


def test_what_a_status_topic_reports_is_not_reported_by_polls_as_well(watching):
    report = history(change(1.0, "running"))
    assert watching.observe(2.0, polled(task("failed")), histories=(report,)) == ()
    (run,) = watching.observe(
        3.0, polled(task("failed"), task("failed", number=1)), histories=(report,)
    )
    assert run.task == 1


def test_a_connectors_own_history_is_of_no_task(watching):
    (run,) = watching.observe(2.0, histories=(history(change(1.0, "failed"), number=None),))
    assert (run.task, run.first_at) == (None, 1.0)
    assert ("lab", "files", CONNECTOR_TASK_NUMBER) in watching.failures.of


def test_a_failure_between_two_polls_is_missed_by_polls_and_reported_by_a_status_topic(watching):
    changes = [change(1.0, "failed")]
    watching.observe(1.0, polled(), histories=(history(*changes),), positions={"a": "1"})
    changes += [change(2.0, "running"), change(3.0, "failed"), change(4.0, "running")]
    (run,) = watching.observe(5.0, polled(), histories=(history(*changes),), positions={"a": "1"})
    assert (run.count, run.restarts, run.last_at) == (2, 1, 3.0)


def test_new_changes_are_observed_although_the_list_of_connectors_is_the_very_same(watching):
    listed = (polled(task("running")),)
    for number, state in enumerate(("running", "failed")):
        reports = (history(change(float(number + 1), state)),)
        watching.snapshot = replace(EMPTY_SNAPSHOT, at=9.0, connectors=listed, histories=reports)
        runs = watching.again(9.0)
    assert len(runs) == 1


def test_of_a_history_observed_first_only_the_newest_counts(watching):
    changes = (change(2.0, "failed"), change(3.0, "running"))
    assert watching.observe(9.0, histories=(history(*changes),)) == ()
    changes += (change(10.0, "failed"), change(11.0, "running"), change(12.0, "failed"))
    (run,) = Watching().observe(13.0, histories=(history(*changes),))
    assert (run.count, run.first_at) == (1, 12.0)


def test_a_change_is_taken_in_once(watching):
    changes = [change(1.0, "running"), change(2.0, "failed")]
    watching.observe(3.0, histories=(history(*changes[:1]),))
    watching.observe(3.0, histories=(history(*changes),))
    (run,) = watching.observe(4.0, histories=(history(*changes),))
    assert (run.count, run.restarts) == (1, 0)


def test_of_two_changes_at_one_moment_the_state_reports_which_was_taken_in(watching):
    changes = [change(5.0, "failed"), change(5.0, "running")]
    watching.observe(5.0, histories=(history(*changes[:1]),))
    changes.append(change(5.0, "failed"))
    (run,) = watching.observe(6.0, histories=(history(*changes),))
    # The newest "failed" of that moment is the one that was taken in: nothing came after it.
    assert (run.count, run.restarts) == (1, 0)


def test_what_came_at_the_moment_of_the_last_one_is_taken_in(watching):
    changes = [change(3.0, "running"), change(5.0, "failed"), change(5.0, "running")]
    watching.observe(5.0, histories=(history(*changes[:1]),))
    watching.observe(5.0, histories=(history(*changes[:2]),))
    watching.observe(6.0, histories=(history(*changes),))
    assert list(watching.failures.of[FILES].restarts) == [5.0]


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_restarts_between_failures_are_counted_by_their_order_and_not_by_a_clock(watching, skew_s):
    """Another worker starts the task than the one on which it failed."""
    watching.observe(5.0, histories=(history(change(5.0, "failed")),))
    changes = (change(5.0, "failed"), change(5.0 + skew_s, "restarting"))
    watching.observe(5.0, histories=(history(*changes),))
    changes += (change(6.0, "failed"), change(6.0 + skew_s, "restarting"))
    (run,) = watching.observe(7.0, histories=(history(*changes),))
    assert (run.first_at, run.last_at, run.restarts, run.read_at) == (5.0, 6.0, 1, 7.0)
    later = Watching()
    later.failures.recall(watching.failures.remembered())
    changes += (change(8.0, "failed"),)
    (run,) = later.observe(9.0, histories=(history(*changes),))
    assert (run.count, run.restarts, run.read_at) == (3, 2, 9.0)


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_restarts_that_are_followed_are_timed_by_our_clock(watching, skew_s):
    """A window of restarts is compared with now: the worker's clock has no part in that."""
    changes = [change(10_000.0 + skew_s, "failed")]
    watching.observe(10_000.0, histories=(history(*changes),))
    for seconds in (10_060.0, 10_120.0):
        changes += [change(seconds + skew_s, "running")]
        watching.observe(seconds, histories=(history(*changes),))
        changes += [change(seconds + 1 + skew_s, "failed")]
        watching.observe(seconds + 1, histories=(history(*changes),))
    restarts = watching.failures.of[FILES].restarts
    assert all(
        0 <= offset - moment <= 60
        for offset, moment in zip((10_060, 10_120), restarts, strict=True)
    )


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_run_lasts_from_its_first_to_its_newest_failure_by_our_clock(watching, skew_s):
    """The task fails on two workers."""
    changes = [change(10_000.0, "failed")]
    watching.observe(10_000.0, histories=(history(*changes),), positions=STANDS)
    changes += [change(10_059.0 + skew_s, "running")]
    watching.observe(10_059.0, histories=(history(*changes),), positions=STANDS)
    changes += [change(10_060.0 + skew_s, "failed")]
    (run,) = watching.observe(10_060.0, histories=(history(*changes),), positions=STANDS)
    assert (run.count, run.begun_by) == (2, 10_000.0)
    assert run.lasted_s is not None
    assert 59.0 <= run.lasted_s <= 60.0


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_run_without_observations_lasts_no_longer_than_is_certain(watching, skew_s):
    changes = (change(9_000.0, "failed"),)
    watching.observe(9_000.0, histories=(history(*changes),), positions=STANDS)
    later = Watching()
    later.failures.recall(watching.failures.remembered())
    changes += (change(9_990.0 + skew_s, "running"), change(10_000.0 + skew_s, "failed"))
    (run,) = later.observe(20_000.0, histories=(history(*changes),), positions=STANDS)
    assert (run.count, run.read_at) == (2, 20_000.0)
    assert run.lasted_s is not None
    assert 0.0 <= run.lasted_s <= 1_000.0


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_restart_without_observations_is_as_old_as_it_may_be(watching, skew_s):
    changes = [change(9_000.0 + skew_s, "failed")]
    watching.observe(9_000.0, histories=(history(*changes),))
    report = watching.failures.remembered()
    for read_at, moment in ((9_010.0, 9_005.0), (20_000.0, 10_000.0)):
        later = Watching()
        later.failures.recall(report)
        later.observe(read_at, histories=(history(*changes, change(moment + skew_s, "running")),))
        (restart,) = later.failures.of[FILES].restarts
        assert 9_000.0 <= restart <= moment


def test_a_restart_while_the_history_could_not_be_read_is_as_old_as_it_may_be(watching):
    changes = (change(9_000.0, "failed"), change(9_500.0 + 600.0, "running"))
    watching.observe(9_000.0, histories=(history(*changes[:1]),))
    watching.observe(9_100.0)
    watching.observe(20_000.0, histories=(history(*changes),))
    assert list(watching.failures.of[FILES].restarts) == [9_500.0]


def test_restarts_before_the_first_failure_of_a_run_are_not_counted_with_it(watching):
    watching.observe(1.0, polled(task("failed")))
    watching.observe(2.0, polled(task("running")))
    (run,) = watching.observe(3.0, polled(task("failed", WORSE)))
    assert list(watching.failures.of[FILES].restarts) == [2.0]
    assert (run.kind, run.first_at, run.restarts) == ("org.example.Worse", 3.0, 0)


def test_of_a_history_that_has_let_go_of_the_last_one_all_counts(watching):
    """In the order of the log: the clock of the worker that said `failed` is behind."""
    watching.observe(1.0, histories=(history(change(3.0, "running")),))
    newer = (change(2.0, "failed"), change(4.0, "unassigned"))
    (run,) = watching.observe(5.0, histories=(history(*newer),))
    assert (run.count, run.first_at) == (1, 2.0)
    (run,) = watching.observe(
        6.0, histories=(history(change(5.0, "failed"), change(6.0, "running")),)
    )
    assert (run.count, run.first_at) == (2, 2.0)


# --- whose positions are wanted ------------------------------------------------------------------


def test_positions_are_requested_of_failing_connectors_alone(watching):
    watching.snapshot = replace(
        EMPTY_SNAPSHOT,
        at=1.0,
        connectors=(polled(task("failed")), polled(task("running"), name="well")),
        histories=(
            history(change(1.0, "failed"), change(2.0, "running"), name="lately"),
            history(change(1.0, "running"), name="never"),
        ),
    )
    expected = {("lab", "files"), ("lab", "lately")}
    assert watching.failures.list_failing(watching.snapshot) == expected
    watching.again(1.0)
    assert watching.failures.list_failing(watching.snapshot) == expected


def test_positions_are_wanted_of_who_failed_until_it_is_over_it(watching):
    watching.observe(1.0, polled(task("failed")))
    watching.observe(2.0, polled(task("running")))
    assert watching.failures.list_failing(watching.snapshot) == {("lab", "files")}
    watching.again(2.0 + PATIENCE_S)
    assert watching.failures.list_failing(watching.snapshot) == frozenset()


# --- what survives a restart ---------------------------------------------------------------------


def test_a_run_goes_on_after_a_restart_of_ours(watching):
    watching.fail(1.0, 2, positions={"a": "1"})
    report = watching.failures.remembered()
    later = Watching()
    later.failures.recall(report)
    later.observe(15.0, polled(task("running")), positions={"a": "1"})
    (run,) = later.observe(20.0, polled(task("failed")), positions={"a": "1"})
    assert (run.count, run.restarts, run.first_at) == (3, 2, 1.0)


def test_a_change_that_an_earlier_process_took_in_is_not_taken_in_again(watching):
    changes = (change(1.0, "failed"), change(2.0, "running"))
    watching.observe(1.0, histories=(history(*changes[:1]),))
    watching.observe(2.0, histories=(history(*changes),))
    later = Watching()
    later.failures.recall(watching.failures.remembered())
    (run,) = later.observe(3.0, histories=(history(*changes),))
    assert (run.count, run.restarts) == (1, 0)
    assert len(later.failures.of[FILES].restarts) == 1


def test_what_only_polls_report_is_urgent_until_it_is_remembered(watching):
    watching.observe(100.0, polled(task("failed")), positions=STANDS)
    for moment, state in ((105.0, "running"), (110.0, "failed"), (115.0, "running")):
        assert watching.failures.urgent
        watching.failures.remembered()
        watching.observe(moment - 2, watching.snapshot.connectors[0], positions=STANDS)
        assert not watching.failures.urgent
        watching.observe(moment, polled(task(state)), positions=STANDS)
    later = Watching()
    later.failures.recall(watching.failures.remembered())
    (run,) = later.observe(120.0, polled(task("failed")), positions=STANDS)
    assert (run.count, run.restarts) == (3, 2)


def test_what_was_observed_before_is_inspected_again_after_it_is_recalled(watching):
    assert watching.observe(1.0, polled(task("failed")))
    watching.failures.recall(())
    assert watching.again(2.0)


def test_only_what_has_something_in_it_is_remembered(watching):
    watching.observe(1.0, polled(task("running"), task("failed", number=1)))
    watching.observe(2.0, polled(task("running"), task("running", number=1)))
    watching.again(2.0 + PATIENCE_S)
    (failure,) = watching.failures.remembered()  # nothing runs on, but a restart there was
    assert (failure.task, failure.run, failure.restarts) == (("lab", "files", 1), None, (2.0,))
    failing = Watching()
    failing.observe(1.0, polled(task("failed")))
    (failure,) = failing.failures.remembered()
    assert (failure.task, failure.restarts) == (FILES, ())


def test_no_more_are_remembered_than_that_and_they_come_by_name(watching):
    names = [f"{number:05}" for number in range(HISTORIES_MAX + 1)]
    watching.observe(1.0, *(polled(task("failed"), name=name) for name in reversed(names)))
    assert [report.task[1] for report in watching.failures.remembered()] == names[1:]


# --- statuses that are lost ----------------------------------------------------------------------


def said(
    moment: float, state: str, failure: str | None = None, worker: str = "a:8083"
) -> StateChange:
    return replace(change(moment, state, failure), worker=worker)


STANDS = {"/data/in.txt": "7"}
LOST = StateChange(110.0, DELETED)


def runs_of(watching: Watching, *changes: StateChange) -> tuple[FailureRun, ...]:
    """What is told of a task, one change after the other."""
    results: tuple[FailureRun, ...] = ()
    for number, last in enumerate(changes, 1):
        reports = (history(*changes[:number]),)
        results = watching.observe(last.at, polled(), histories=reports, positions=STANDS)
    return results


def test_a_failure_whose_status_was_lost_and_is_written_again_is_the_same(watching):
    (run,) = runs_of(watching, said(100.0, "failed"), LOST, said(120.0, "failed"))
    assert (run.count, run.first_at, run.last_at, run.restarts) == (1, 100.0, 100.0, 0)
    assert watching.failures.of[FILES].state_at == 100.0


def test_a_failure_whose_status_was_lost_is_the_same_over_a_restart(watching):
    first, again = said(100.0, "failed"), said(120.0, "failed")
    runs_of(watching, first, LOST)
    other = Watching()
    other.failures.recall(watching.failures.remembered())
    reports = (history(first, LOST, again),)
    (run,) = other.observe(120.0, polled(), histories=reports, positions=STANDS)
    assert run.count == 1


def test_a_task_of_which_no_state_was_known_for_a_while_failed_once(watching):
    watching.observe(100.0, polled(task("failed")), positions=STANDS)
    watching.observe(110.0, polled(task(UNKNOWN_STATE)), positions=STANDS)
    (run,) = watching.observe(120.0, polled(task("failed")), positions=STANDS)
    assert run.count == 1


@pytest.mark.parametrize(
    "between",
    [(LOST, said(115.0, "running")), (LOST, said(115.0, "unassigned"))],
    ids=["running", "unassigned"],
)
def test_a_failure_is_another_one_after_a_start(watching, between):
    (run,) = runs_of(watching, said(100.0, "failed"), *between, said(120.0, "failed"))
    assert (run.count, run.restarts) == (2, 1)


@pytest.mark.parametrize("lost", [(), (LOST,)], ids=["at-once", "lost-between"])
@pytest.mark.parametrize(
    "again",
    [said(120.0, "failed", worker="b:8083"), said(120.0, "failed", BAD_ELSEWHERE)],
    ids=["another-worker", "another-trace"],
)
def test_another_worker_or_trace_shows_another_start(watching, again, lost):
    (run,) = runs_of(watching, said(100.0, "failed"), *lost, again)
    assert (run.count, run.last_at) == (2, 120.0)


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_what_came_after_a_change_that_is_compacted_away_is_news_by_any_clock(watching, skew_s):
    """The task failed again on another worker, and compaction left that alone."""
    runs_of(watching, said(1000.0, "failed"), said(1010.0, "running"))
    again = said(1020.0 + skew_s, "failed", worker="b:8083")
    (run,) = watching.observe(1020.0, polled(), histories=(history(again),), positions=STANDS)
    assert run.count == 2


# --- positions -----------------------------------------------------------------------------------

SINK = replace(LISTED, name="out", kind=ConnectorKind.SINK)
READ = tuple(
    SinkPartitionView("lab", "out", "orders", number, 10 * number, None, None) for number in (2, 1)
)


def test_what_a_sink_has_committed_is_reported_by_topic_and_partition():
    snapshot = replace(
        EMPTY_SNAPSHOT, connectors=(SINK,), inputs=(REST, GROUPS_INPUT), sink_partitions=READ
    )
    visibility = InputVisibility(snapshot)
    assert find_positions(visibility, [("lab", "out")]) == {
        ("lab", "out"): {"orders-2": "20", "orders-1": "10"}
    }
    unavailable = replace(snapshot, inputs=(REST, heard(GROUPS_INPUT.id, live=False)))
    assert find_positions(InputVisibility(unavailable), [("lab", "out")]) == {}


def test_what_a_flow_has_copied_is_reported_with_what_is_left_most_of_first():
    lags = (None, 0, 1, 5)
    mirrors = tuple(copied(9, partition=n, lag=lag) for n, lag in enumerate(lags))
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, ready=True, mirror_partitions=mirrors))
    (position,) = find_positions(visibility, [MM2]).values()
    assert list(position.items()) == [(f"orders-{number}", "9") for number in (3, 2, 0, 1)]


def test_of_any_other_source_what_has_an_offset_is_reported():
    views = (counted(label="reset"), replace(counted(label="at"), offset=decode_value(b'{"a":1}')))
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, ready=True, source_partitions=views))
    assert find_positions(visibility, [("lab", "files")]) == {("lab", "files"): {"at": '{"a":1}'}}


# --- what must not change with a restart ---------------------------------------------------------


def restarted(watching: Watching) -> Watching:
    after = Watching()
    after.failures.recall(watching.failures.remembered())
    return after


def test_every_failure_is_urgent_until_it_was_remembered():
    watching = Watching()
    watching.observe(110, histories=(history(change(100, "failed")),))
    assert watching.failures.urgent
    watching.failures.remembered()
    watching.observe(130, histories=(history(change(100, "failed"), change(120, "running")),))
    assert not watching.failures.urgent
    changes = (change(100, "failed"), change(120, "running"), change(140, "failed", WORSE))
    watching.observe(150, histories=(history(*changes),))
    assert watching.failures.urgent
    watching.failures.remembered()
    watching.again(160)
    assert not watching.failures.urgent


def test_a_failure_that_polls_show_before_the_topic_is_counted_once():
    """After a restart the list is there before the status topic was read to its end."""
    watching, positions = Watching(), {"a": "1"}
    watching.observe(110, histories=(history(change(100, "failed")),), positions=positions)
    after = restarted(watching)
    (run,) = after.observe(210, polled(task("failed", WORSE)), positions=positions)
    assert (run.kind, run.count, run.first_at) == ("org.example.Worse", 1, 210)
    after = restarted(after)
    changes = (change(100, "failed"), change(120, "running"), change(140, "failed", WORSE))
    (run,) = after.observe(220, histories=(history(*changes),), positions=positions)
    assert (run.kind, run.count, run.first_at, run.restarts) == ("org.example.Worse", 1, 140, 0)
    (run,) = after.observe(
        260,
        histories=(history(*changes, change(240, "running"), change(250, "failed", WORSE)),),
        positions=positions,
    )
    assert (run.count, run.first_at, run.restarts) == (2, 140, 1)


def test_restarts_that_polls_show_while_the_topic_is_not_followed_are_not_counted_twice():
    watching, positions = Watching(), {"a": "1"}
    changes = [change(100, "failed")]
    watching.observe(110, histories=(history(*changes),), positions=positions)
    watching.observe(130, polled(task("running")), positions=positions)
    (run,) = watching.observe(150, polled(task("failed")), positions=positions)
    assert (run.count, run.restarts) == (2, 1)
    changes += [change(120, "running"), change(140, "failed")]
    (run,) = watching.observe(160, histories=(history(*changes),), positions=positions)
    assert (run.count, run.restarts, run.first_at, run.last_at) == (2, 1, 100, 140)


def test_what_polls_show_counts_while_the_topic_stays_away():
    watching, positions = Watching(), {"a": "1"}
    watching.observe(110, histories=(history(change(100, "failed")),), positions=positions)
    for moment in (130, 160):
        watching.observe(moment, polled(task("running")), positions=positions)
        runs = watching.observe(moment + 20, polled(task("failed")), positions=positions)
    assert [run.count for run in runs] == [3]


def test_tasks_that_fail_alike_share_what_they_can():
    watching, tasks = Watching(), [task("failed", number=number) for number in range(3)]
    watching.observe(100, polled(*tasks), positions={"a": "1"})
    first, second, third = (watching.failures.of["lab", "files", number] for number in range(3))
    assert first.failure is second.failure is third.failure
    runs = watching.failures.runs()
    assert all(new is old for new, old in zip(watching.failures.runs(), runs, strict=True))
    tasks[1] = task("running", number=1)
    watching.observe(110, polled(*tasks), positions={"a": "1"})
    tasks[1] = task("failed", number=1)
    after = watching.observe(120, polled(*tasks), positions={"a": "1"})
    assert [run.count for run in after] == [1, 2, 1]
    assert (after[0] is runs[0], after[2] is runs[2]) == (True, True)
