"""The next move by what was seen of a step, and by what an attempt at it was worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetwatch.remedy.engine import (
    AttemptCommand,
    AttemptEvent,
    InspectCommand,
    UnavailableEvent,
    WaitCommand,
)
from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepStatus
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanFailureCause,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    Create,
    Delete,
    PartitionOffset,
    PlanStatus,
    RequestedState,
    ToState,
)
from tests.unit.remedy.next_moves import (
    ALTERING,
    FROZEN,
    LIMITS,
    NOW,
    OWN,
    PROVING,
    RESUMING,
    SKIP,
    STOPPING,
    WAITED,
    at,
    back,
    inspect,
    list_rollback,
    move,
    over,
    waits,
)
from tests.unit.remedy.plans import ALTER, plan_of

HALFWAY = frozenset({STOPPING})
CHANGED = frozenset({STOPPING, ALTERING})
SKIPPED = frozenset({1, 5, 6})
RESUMED = (ToState(RequestedState.RUNNING),)
RESTORED = (
    Alter((PartitionOffset('{"file":"a"}', None), PartitionOffset('{"file":"c"}', None))),
    *RESUMED,
)


# --- it is done -----------------------------------------------------------------------------------


def test_what_is_done_is_written_down_and_the_next_step_inspected() -> None:
    command = inspect(at(STOPPING, inspections=4, failed_inspections=2), StepStatus.DONE)
    assert command.records == (StepVerified(at=NOW, index=0, undoing=False, said="it is so"),)
    assert command.command == InspectCommand(OWN.steps[1], FROZEN)


@pytest.mark.parametrize(
    ("progress", "ended"),
    [
        pytest.param(at(RESUMING), (PlanStatus.SUCCEEDED, None, "done"), id="forth"),
        pytest.param(back(1), (PlanStatus.RESTORED, PlanFailureCause.REFUSED, "404"), id="back"),
    ],
)
def test_the_last_step_ends_the_plan(
    progress: PlanProgress, ended: tuple[PlanStatus, PlanFailureCause | None, str]
) -> None:
    command = inspect(progress, StepStatus.DONE)
    assert over(command) == ended
    assert isinstance(command.records[0], StepVerified)
    assert command.progress.ended == command.records[1]


@pytest.mark.parametrize(
    ("progress", "waiting"),
    [
        pytest.param(at(RESUMING, late_until=NOW + 1), True, id="at-the-last-step"),
        pytest.param(at(RESUMING, late_until=NOW), False, id="it-came-or-never-will"),
        pytest.param(at(ALTERING, late_until=NOW + 1), False, id="before-the-last-step"),
        pytest.param(back(0, late_until=NOW + 1), True, id="on-the-way-back"),
        pytest.param(at(RESUMING, doubt_until=NOW + 1), False, id="a-persons-own-request"),
        pytest.param(at(PROVING, SKIP, doubt_until=NOW + 1), True, id="a-request-of-no-operator"),
    ],
)
def test_the_end_waits_for_what_may_yet_be_carried_out(
    progress: PlanProgress, *, waiting: bool
) -> None:
    command = inspect(progress, StepStatus.DONE)
    assert waits(command) is waiting
    if isinstance(command.command, WaitCommand):
        assert command.command.said.startswith("it is so; an earlier request")


# --- it is not ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [StepStatus.READY, StepStatus.PARTLY])
def test_what_is_ready_is_written_down_and_tried(status: StepStatus) -> None:
    command = inspect(at(ALTERING), status)
    assert command.records == (StepIntended(at=NOW, index=ALTERING, undoing=False),)
    assert command.command == AttemptCommand(ALTER, FROZEN)


def test_what_can_only_be_waited_for_is() -> None:
    for progress in (at(1), at(PROVING, SKIP), at(ALTERING)):
        assert waits(inspect(progress, StepStatus.NOT_YET))
    for progress in (at(1), at(PROVING, SKIP)):
        assert waits(inspect(progress, StepStatus.READY))


@pytest.mark.parametrize(
    ("answer", "patience_s"),
    [
        (AttemptResult.ACK, LIMITS.ack_s),
        (AttemptResult.IN_DOUBT, LIMITS.doubt_s),
        (None, LIMITS.doubt_s),
    ],
)
def test_what_was_requested_has_time_to_show_before_it_is_requested_again(
    answer: AttemptResult | None, patience_s: float
) -> None:
    progress = at(ALTERING, sent=1, spent=1, answer=answer, requested_at=NOW, touched=CHANGED)
    early = inspect(progress, StepStatus.READY, NOW + patience_s - 0.1)
    assert waits(early)
    assert isinstance(early.command, WaitCommand)
    text = f"it is so; the request has {patience_s:.0f} s to take effect"
    assert early.command.said == text
    again = inspect(progress, StepStatus.READY, NOW + patience_s)
    assert isinstance(again.command, AttemptCommand)
    assert again.progress.sent == 2


def test_what_was_put_off_for_all_its_time_is_refused() -> None:
    assert isinstance(
        inspect(at(ALTERING, refused="409"), StepStatus.READY).command, AttemptCommand
    )
    assert isinstance(inspect(at(ALTERING, **WAITED), StepStatus.READY).command, AttemptCommand)
    command = inspect(at(ALTERING, refused="409", touched=HALFWAY, **WAITED), StepStatus.READY)
    assert list_rollback(command) == RESUMED
    assert isinstance(command.records[0], RollbackStarted)
    assert (command.records[0].cause, command.records[0].said) == (PlanFailureCause.REFUSED, "409")


@pytest.mark.parametrize(
    ("progress", "ended"),
    [
        pytest.param(at(ALTERING, answer=AttemptResult.ACK), PlanStatus.PARKED, id="a-change"),
        pytest.param(at(ALTERING), PlanStatus.IN_DOUBT, id="a-change-without-an-answer"),
        pytest.param(at(RESUMING, answer=AttemptResult.ACK), PlanStatus.PARKED, id="the-last"),
        pytest.param(back(0, answer=AttemptResult.ACK), PlanStatus.PARKED, id="on-the-way-back"),
        pytest.param(back(0), PlanStatus.IN_DOUBT, id="on-the-way-back-without-an-answer"),
    ],
)
def test_what_was_requested_often_enough_is_left_to_an_operator(
    progress: PlanProgress, ended: PlanStatus
) -> None:
    spent = replace(progress, sent=3, spent=3, requested_at=0.0, touched=CHANGED)
    answer = "requested 3 times without effect: it is so"
    assert over(inspect(spent, StepStatus.READY)) == (ended, PlanFailureCause.TIMED_OUT, answer)
    assert isinstance(inspect(replace(spent, spent=2), StepStatus.READY).command, AttemptCommand)


def test_a_stop_that_does_not_come_about_is_taken_back() -> None:
    spent = at(STOPPING, sent=3, spent=3, answer=AttemptResult.ACK, touched=HALFWAY)
    assert list_rollback(inspect(spent, StepStatus.READY)) == RESUMED


@pytest.mark.parametrize(
    ("more", "waiting"),
    [
        pytest.param({}, False, id="all-its-time"),
        pytest.param({"since": NOW}, True, id="not-yet"),
        pytest.param({"waited_s": 0.0}, True, id="it-stood-still"),
        pytest.param({"doubt_until": NOW + 0.1}, True, id="in-doubt"),
        pytest.param({"doubt_until": NOW}, False, id="no-more-in-doubt"),
    ],
)
def test_a_step_has_its_time_to_come_about(more: dict[str, object], *, waiting: bool) -> None:
    command = inspect(at(1, touched=HALFWAY, **{**WAITED, **more}), StepStatus.NOT_YET)
    assert waits(command) is waiting
    if not waiting:
        assert list_rollback(command) == RESUMED
        assert isinstance(command.records[0], RollbackStarted)
        report = f"not so after {LIMITS.step_s:.0f} s: it is so"
        assert (command.records[0].cause, command.records[0].said) == (
            PlanFailureCause.TIMED_OUT,
            report,
        )


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        pytest.param(at(PROVING, SKIP, touched=SKIPPED), PlanStatus.INEFFECTIVE, id="proving"),
        pytest.param(back(), PlanStatus.PARKED, id="on-the-way-back"),
        pytest.param(at(ALTERING, sent=1, touched=CHANGED), PlanStatus.IN_DOUBT, id="a-change"),
        pytest.param(
            at(ALTERING, sent=1, answer=AttemptResult.ACK, touched=CHANGED),
            PlanStatus.PARKED,
            id="a-change-that-was-answered",
        ),
        pytest.param(at(RESUMING, sent=1, touched=CHANGED), PlanStatus.IN_DOUBT, id="the-last"),
        pytest.param(at(RESUMING, touched=HALFWAY), RESUMED, id="the-last-unasked"),
        pytest.param(at(STOPPING, sent=1, touched=HALFWAY), RESUMED, id="a-stop"),
    ],
)
def test_what_does_not_come_about_in_time_is_gone_back_from_unless_it_may_yet(
    progress: PlanProgress, expected: PlanStatus | tuple[object, ...]
) -> None:
    command = inspect(replace(progress, since=0.0, waited_s=NOW), StepStatus.NOT_YET)
    if isinstance(expected, PlanStatus):
        answer = f"not so after {NOW:.0f} s: it is so"
        assert over(command) == (expected, PlanFailureCause.TIMED_OUT, answer)
    else:
        assert list_rollback(command) == expected


def test_looks_come_less_and_less_often() -> None:
    pauses, progress = [], at(1)
    for _ in range(9):
        command = inspect(progress, StepStatus.NOT_YET)
        assert isinstance(command.command, WaitCommand)
        pauses.append(command.command.seconds)
        progress = command.progress
    assert pauses == [0.5, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0]
    assert (progress.waited_s, progress.inspections) == (sum(pauses), 9)


@pytest.mark.parametrize(
    ("progress", "ended"),
    [
        pytest.param(at(STOPPING), PlanStatus.UNCHANGED, id="not-begun"),
        pytest.param(at(ALTERING, touched=CHANGED), PlanStatus.PARKED, id="changed"),
        pytest.param(back(), PlanStatus.PARKED, id="on-the-way-back"),
        pytest.param(at(PROVING, SKIP, touched=SKIPPED), PlanStatus.INEFFECTIVE, id="proving"),
    ],
)
def test_after_a_foreign_change_nothing_more_is_changed(
    progress: PlanProgress, ended: PlanStatus
) -> None:
    assert over(inspect(progress, StepStatus.FOREIGN)) == (
        ended,
        PlanFailureCause.CHANGED,
        "it is so",
    )


def test_after_a_foreign_change_before_ours_the_connector_is_resumed() -> None:
    assert list_rollback(inspect(at(ALTERING, touched=HALFWAY), StepStatus.FOREIGN)) == RESUMED


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        pytest.param(at(STOPPING), PlanStatus.UNCHANGED, id="not-begun"),
        pytest.param(at(1, touched=HALFWAY), RESUMED, id="stopped"),
        pytest.param(at(ALTERING, sent=1, touched=CHANGED), RESTORED, id="changed"),
        pytest.param(at(RESUMING, touched=CHANGED), PlanStatus.PARKED, id="arrived"),
        pytest.param(at(RESUMING, touched=HALFWAY), RESUMED, id="at-the-last-unchanged"),
        pytest.param(at(RESUMING, sent=1, touched=HALFWAY), PlanStatus.PARKED, id="asked-to-run"),
        pytest.param(back(), PlanStatus.PARKED, id="on-the-way-back"),
        pytest.param(at(PROVING, SKIP, touched=SKIPPED), PlanStatus.INEFFECTIVE, id="proving"),
        pytest.param(
            at(4, plan_of(Delete(), ALTER), touched=frozenset({0, 3})),
            PlanStatus.PARKED,
            id="deleted",
        ),
        pytest.param(
            at(3, plan_of(Create("c"), RESUMED[0], original=None), touched=frozenset({2})),
            (Delete("c"),),
            id="created",
        ),
        pytest.param(
            at(2, plan_of(ALTER, original=None), touched=frozenset({2})),
            RESTORED[:1],
            id="a-change-that-is-the-last",
        ),
        pytest.param(
            at(2, plan_of(ALTER, original=None), frozen=None, touched=frozenset({2})),
            PlanStatus.PARKED,
            id="nothing-known-to-go-back-to",
        ),
    ],
)
def test_what_can_never_be_done_is_gone_back_from_where_there_is_a_way(
    progress: PlanProgress, expected: PlanStatus | tuple[object, ...]
) -> None:
    command = inspect(progress, StepStatus.IMPOSSIBLE)
    if isinstance(expected, PlanStatus):
        assert over(command) == (expected, PlanFailureCause.REFUSED, "it is so")
    else:
        assert list_rollback(command) == expected


# --- attempts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [AttemptResult.ACK, AttemptResult.IN_DOUBT])
def test_what_was_requested_is_inspected_again(answer: AttemptResult) -> None:
    progress = at(ALTERING, sent=1, inspections=4, waited_s=5.0)
    command = move(progress, AttemptEvent(Outcome(answer, "so", definite=True)))
    assert command.records == (StepAnswered(at=NOW, answer=answer, said="so", definite=True),)
    assert command.command == InspectCommand(ALTER, FROZEN)
    assert (command.progress.inspections, command.progress.waited_s) == (0, 0.0)


def test_what_is_put_off_is_waited_for() -> None:
    command = move(
        at(ALTERING, sent=1, inspections=1), AttemptEvent(Outcome(AttemptResult.RETRY, "409"))
    )
    assert command.records == (StepAnswered(at=NOW, answer=AttemptResult.RETRY, said="409"),)
    assert command.command == WaitCommand(1.0, "409")
    assert (command.progress.inspections, command.progress.refused) == (2, "409")


def test_a_no_is_written_down_with_what_comes_of_it() -> None:
    progress = at(STOPPING, sent=1, touched=HALFWAY)
    command = move(
        progress, AttemptEvent(Outcome(AttemptResult.NACK, "403"), PlanFailureCause.UNAUTHORISED)
    )
    assert command.records[0] == StepAnswered(at=NOW, answer=AttemptResult.NACK, said="403")
    assert over(command) == (PlanStatus.UNCHANGED, PlanFailureCause.UNAUTHORISED, "403")


def test_offsets_are_read_back_before_a_refusal_to_change_them_counts() -> None:
    changed = at(ALTERING, sent=1, touched=CHANGED)
    command = move(changed, AttemptEvent(Outcome(AttemptResult.NACK, "not to my taste")))
    assert [type(record) for record in command.records] == [StepAnswered]
    assert isinstance(command.command, InspectCommand)
    results = inspect(command.progress, StepStatus.READY)
    assert [type(record) for record in results.records] == [StepAnswered, RollbackStarted]
    assert list_rollback(results) == RESUMED
    assert isinstance(results.records[1], RollbackStarted)
    assert (results.records[1].cause, results.records[1].said) == (
        PlanFailureCause.REFUSED,
        "not to my taste",
    )
    assert list_rollback(inspect(command.progress, StepStatus.PARTLY)) == RESTORED


def test_a_change_that_fails_three_times_and_shows_no_effect_leaves_all_as_it_was() -> None:
    failed = at(
        ALTERING, sent=3, spent=3, answer=AttemptResult.FAILED, touched=CHANGED, refused="500"
    )
    assert isinstance(
        inspect(replace(failed, requested_at=NOW), StepStatus.READY).command, WaitCommand
    )
    ended = replace(failed, requested_at=0.0)
    assert list_rollback(inspect(ended, StepStatus.READY)) == RESUMED
    assert over(inspect(ended, StepStatus.PARTLY))[0] is PlanStatus.IN_DOUBT
    doubted = inspect(replace(ended, doubt_until=1.0), StepStatus.READY)
    assert list_rollback(doubted) == RESTORED


# --- nothing to be seen ---------------------------------------------------------------------------

AWAY = UnavailableEvent(PlanFailureCause.UNREACHABLE, "refused")
FORBIDDEN = UnavailableEvent(PlanFailureCause.UNAUTHORISED, "403")


def test_before_anything_was_begun_three_polls_without_effect_are_enough() -> None:
    progress = at(STOPPING)
    for unavailable in (1, 2):
        command = move(progress, AWAY)
        assert waits(command)
        progress = command.progress
        assert (progress.failed_inspections, progress.inspections) == (unavailable, unavailable)
    assert over(move(progress, AWAY)) == (
        PlanStatus.UNCHANGED,
        PlanFailureCause.UNREACHABLE,
        "refused",
    )
    assert inspect(progress, StepStatus.NOT_YET).progress.failed_inspections == 0


@pytest.mark.parametrize(
    ("progress", "ended"),
    [
        pytest.param(at(1, touched=HALFWAY), PlanStatus.PARKED, id="stopped"),
        pytest.param(at(1, SKIP, touched=frozenset({0})), PlanStatus.UNCHANGED, id="only-copied"),
        pytest.param(at(PROVING, SKIP, touched=SKIPPED), PlanStatus.INEFFECTIVE, id="proving"),
        pytest.param(back(), PlanStatus.PARKED, id="on-the-way-back"),
    ],
)
def test_what_was_begun_is_searched_for_as_long_as_a_step_may_take(
    progress: PlanProgress, ended: PlanStatus
) -> None:
    assert waits(move(replace(progress, failed_inspections=9), AWAY))
    worn = replace(progress, since=0.0, waited_s=NOW)
    assert over(move(worn, AWAY)) == (ended, PlanFailureCause.UNREACHABLE, "refused")
    assert over(move(progress, FORBIDDEN)) == (ended, PlanFailureCause.UNAUTHORISED, "403")


def test_who_is_not_allowed_to_look_does_not_look_again() -> None:
    assert over(move(at(STOPPING), FORBIDDEN)) == (
        PlanStatus.UNCHANGED,
        PlanFailureCause.UNAUTHORISED,
        "403",
    )


def test_a_plan_that_has_ended_has_no_next_move() -> None:
    ended = PlanEnded(at=1.0, ending=PlanStatus.SUCCEEDED, said="done")
    with pytest.raises(AssertionError):
        inspect(at(STOPPING, ended=ended), StepStatus.DONE)
