"""How far a plan is, by its records."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.remedy.engine.progress import (
    AWAKE_S,
    EngineLimits,
    PlanProgress,
    apply_record,
    replay_records,
)
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanResumed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepRecord,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    FrozenOffsets,
    LocatedRawRecord,
    PartitionOffset,
    Plan,
    PlanStatus,
    Prove,
    RequestedState,
    Reset,
    ToState,
    Write,
)
from tests.unit.remedy.plans import ALTER, plan_of, skip_of

LIMITS = EngineLimits()
A, B, C = PartitionOffset("a", "1"), PartitionOffset("b", "2"), PartitionOffset("c", "3")
FROZEN = FrozenOffsets((A, B), "file", "sha", (LocatedRawRecord("ka", "1", 0, "k/t"),))
OWN, SKIP = plan_of(), skip_of()
PARKED = PlanParked(
    at=9.0, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="it moved"
)
ENDED = PlanEnded(at=9.0, ending=PlanStatus.SUCCEEDED, said="done")
ACK = StepAnswered(at=9.0, answer=AttemptResult.ACK, said="ok")
DOUBT = StepAnswered(at=9.0, answer=AttemptResult.IN_DOUBT, said="500")
LATER = StepAnswered(at=9.0, answer=AttemptResult.RETRY, said="409")
NO = StepAnswered(at=9.0, answer=AttemptResult.NACK, said="404")
READ_BACK = StepAnswered(at=9.0, answer=AttemptResult.NACK, said="read back: 2 offsets to change")
ALTERING, STOPPING = 3, 0  # steps of OWN


def at(index: int, plan: Plan = OWN, **more: object) -> PlanProgress:
    return PlanProgress(plan=plan, path=plan.steps, index=index, **more)  # type: ignore[arg-type]


def attempt_again(progress: PlanProgress, now: float, *answers: StepAnswered) -> PlanProgress:
    """Once more, and what came of it."""
    result = apply_record(
        progress, StepIntended(at=now, index=progress.index, undoing=progress.undoing)
    )
    for answer in answers:
        result = apply_record(result, answer)
    return result


# --- what is asked of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "waited_s", "now", "over"),
    [
        pytest.param(100.0, AWAKE_S, 160.0, True, id="just-over"),
        pytest.param(100.0, AWAKE_S, 159.9, False, id="not-yet"),
        pytest.param(100.0, AWAKE_S - 0.1, 900.0, False, id="it-stood-still"),
    ],
)
def test_the_timeout_of_a_step_counts_time_awake(
    since: float, waited_s: float, now: float, *, over: bool
) -> None:
    assert at(ALTERING, since=since, waited_s=waited_s).over(60.0, now) is over


@pytest.mark.parametrize(("waited_s", "over"), [(2.0, True), (1.9, False)])
def test_who_has_less_time_than_it_takes_to_wake_waits_for_all_of_it(
    waited_s: float, *, over: bool
) -> None:
    assert at(ALTERING, waited_s=waited_s).over(2.0, 2.0) is over


@pytest.mark.parametrize(
    ("waited_s", "now", "over"),
    [(70.0, 120.0, True), (70.0, 119.9, False), (69.9, 120.0, False)],
)
def test_a_proof_has_the_time_that_it_has_to_be_quiet_for_on_top(
    waited_s: float, now: float, *, over: bool
) -> None:
    proving = at(7, SKIP, waited_s=waited_s)
    assert isinstance(proving.step, Prove)
    assert proving.over(60.0, now) is over


def test_the_last_step_is_the_last_that_requests_anything() -> None:
    assert [at(index, SKIP).last for index in range(8)] == [*[False] * 6, True, True]
    assert [at(index).last for index in range(5)] == [*[False] * 4, True]


def test_effects_are_of_steps_that_are_not_harmless() -> None:
    touched = at(0, SKIP, touched=frozenset(range(8)))
    assert touched.effects == {1, 5, 6}
    assert at(0, SKIP, touched=frozenset({0, 5})).effects == {5}


@pytest.mark.parametrize(("touched", "changed"), [((0, 2, 4), False), ((0, 3), True), ((), False)])
def test_more_than_states_may_be_changed_by_what_was_touched(
    touched: tuple[int, ...], *, changed: bool
) -> None:
    assert at(4, touched=frozenset(touched)).changed is changed


def test_a_record_is_copied_once_the_step_is_behind() -> None:
    assert [at(index, SKIP).copied for index in (0, 1, 8)] == [None, "0" * 64, "0" * 64]
    assert at(5).copied is None
    back = (ToState(RequestedState.RUNNING),)
    assert replace(at(0, SKIP), path=back, undoing=True).copied == "0" * 64


def test_each_step_finds_the_offsets_that_those_before_it_left() -> None:
    plan = plan_of(Reset(), Alter((C,)))
    assert at(3, plan).before is None
    befores = [at(index, plan, frozen=FROZEN).before for index in (3, 4, 5)]
    assert [was.pairs for was in befores if was is not None] == [(A, B), (), (C,)]


def test_on_the_way_back_it_finds_what_was_touched_and_put_back_so_far() -> None:
    plan = plan_of(Alter((C,)), Reset())
    back = (Alter((A,)), Alter((B,)))
    turned = replace(at(0, plan, frozen=FROZEN), path=back, undoing=True)
    befores = [
        replace(turned, touched=frozenset(touched), index=index).before
        for touched, index in (((), 0), ((3,), 0), ((4, 3), 0), ((3, 4), 1))
    ]
    assert [was.pairs for was in befores if was is not None] == [(A, B), (A, B, C), (), (A,)]


def test_what_was_touched_counts_in_the_order_of_the_plan() -> None:
    plan = plan_of(*(Alter((PartitionOffset("c", str(number)),)) for number in range(6)))
    turned = replace(at(0, plan, frozen=FROZEN), undoing=True, touched=frozenset({3, 8}))
    assert turned.before is not None
    assert turned.before.pairs == (A, B, PartitionOffset("c", "5"))


# --- records --------------------------------------------------------------------------------------


def test_what_was_decided_before_a_plan_was_opened_is_passed_over() -> None:
    proposed = PlanProposed(at=1.0, plan=OWN, mode="propose", expires_at=9.0)
    progress = replay_records(
        (proposed, PlanOpened(at=2.0, plan=OWN), OffsetsBackedUp(at=3.0, frozen=FROZEN)), LIMITS
    )
    assert (progress.plan, progress.path, progress.frozen) == (OWN, OWN.steps, FROZEN)
    assert progress.limits is LIMITS
    assert (progress.identified, progress.taken_up) == (False, False)


def test_a_plan_is_opened_once() -> None:
    with pytest.raises(AssertionError):
        apply_record(at(0), PlanOpened(at=1.0, plan=OWN))


def test_a_request_is_counted_and_touches_its_step() -> None:
    progress = attempt_again(
        attempt_again(at(ALTERING, answer=AttemptResult.ACK), 10.0, DOUBT), 20.0
    )
    assert (progress.sent, progress.spent, progress.requested_at, progress.heard_at) == (
        2,
        2,
        20.0,
        20.0,
    )
    assert (progress.answer, progress.touched) == (None, {ALTERING})
    back = attempt_again(replace(at(1), undoing=True), 10.0)
    assert (back.sent, back.touched) == (1, frozenset())


@pytest.mark.parametrize(
    ("plan", "index", "undoing", "stopped_at"),
    [
        pytest.param(OWN, 0, False, 10.0, id="a-stop"),
        pytest.param(OWN, 4, False, 0.0, id="a-resume"),
        pytest.param(OWN, ALTERING, False, 0.0, id="no-state"),
        pytest.param(OWN, 0, True, 0.0, id="on-the-way-back"),
        pytest.param(plan_of(original=RequestedState.STOPPED), 0, False, 0.0, id="for-good"),
    ],
)
def test_when_it_was_stopped_is_known_of_what_is_to_run_again(
    plan: Plan, index: int, stopped_at: float, *, undoing: bool
) -> None:
    progress = attempt_again(replace(at(index, plan), undoing=undoing), 10.0)
    assert progress.stopped_at == stopped_at
    assert attempt_again(progress, 20.0).stopped_at == stopped_at


def test_an_answer_is_retained_and_whether_all_vouch_for_their_offsets() -> None:
    def judge(before: bool | None, text: bool | None) -> bool | None:
        answer = msgspec.structs.replace(ACK, definite=text)
        result = apply_record(at(ALTERING, definite=before), answer)
        assert result.answer is AttemptResult.ACK
        return result.definite

    assert [judge(None, None), judge(None, True), judge(None, False)] == [None, True, False]
    assert [judge(True, None), judge(True, True), judge(True, False)] == [True, True, False]
    assert [judge(False, None), judge(False, True)] == [False, False]
    undoing = replace(at(ALTERING), undoing=True)
    progress = apply_record(undoing, msgspec.structs.replace(ACK, definite=False))
    assert (progress.answer, progress.definite) == (AttemptResult.ACK, None)


def test_without_an_answer_it_may_happen_until_the_latest_request_is_given_up() -> None:
    first = attempt_again(at(ALTERING), 10.0, DOUBT)
    assert (first.answer, first.doubt_until) == (AttemptResult.IN_DOUBT, 10.0 + LIMITS.doubt_s)
    assert attempt_again(first, 20.0, DOUBT).doubt_until == 20.0 + LIMITS.doubt_s
    assert attempt_again(first, 5.0, DOUBT).doubt_until == 10.0 + LIMITS.doubt_s


@pytest.mark.parametrize("answers", [[LATER], [NO, READ_BACK]], ids=["later", "no"])
def test_a_no_takes_its_request_back(answers: list[StepAnswered]) -> None:
    none = attempt_again(at(ALTERING), 10.0, *answers)
    assert (none.sent, none.spent, none.answer, none.touched) == (0, 0, None, frozenset())
    assert none.refused == answers[0].said
    one = attempt_again(attempt_again(at(ALTERING), 10.0, DOUBT), 20.0, *answers)
    assert (one.sent, one.spent, one.answer, one.touched) == (
        1,
        2,
        AttemptResult.IN_DOUBT,
        {ALTERING},
    )


def test_a_no_on_the_way_back_leaves_what_the_plan_has_touched() -> None:
    back = replace(at(0, touched=frozenset({0, 3})), undoing=True)
    assert attempt_again(back, 10.0, NO).touched == {0, 3}


@pytest.mark.parametrize(
    ("driver", "kind", "step", "read_back"),
    [
        ("rest", "sink", Reset(), True),
        ("strimzi", "sink", Reset(), True),
        ("rest", "sink", ALTER, True),
        ("rest", "sink", Alter((A,)), True),
        ("rest", "sink", Write("k/t", (), (A, B)), False),
        ("storage", "sink", Reset(), False),
        ("rest", "source", Reset(), True),
        ("rest", "mirror", ALTER, True),
    ],
)
def test_a_no_to_a_change_of_offsets_over_rest_is_read_back(
    driver: str, kind: str, step: AnyStep, *, read_back: bool
) -> None:
    subject = msgspec.structs.replace(OWN.subject, driver=driver, kind=kind)
    plan = msgspec.structs.replace(plan_of(step), subject=subject)
    assert (ALTERING in attempt_again(at(ALTERING, plan), 10.0, NO).touched) is read_back


@pytest.mark.parametrize(
    ("plan", "sent", "late_until"),
    [
        pytest.param(OWN, 1, 0.0, id="the-only-request"),
        pytest.param(OWN, 2, 90.0, id="one-of-several"),
        pytest.param(SKIP, 1, 90.0, id="of-no-person"),
    ],
)
def test_what_is_observed_may_be_of_one_request_and_another_may_yet_come(
    plan: Plan, sent: int, late_until: float
) -> None:
    doubtful = at(1, plan, sent=sent, doubt_until=90.0, answer=AttemptResult.IN_DOUBT)
    progress = apply_record(doubtful, StepVerified(at=50.0, index=1, undoing=False, said=""))
    assert (progress.index, progress.late_until, progress.doubt_until) == (2, late_until, 0.0)


def test_a_step_that_is_next_begins_again() -> None:
    worn = at(
        1,
        sent=1,
        spent=2,
        answer=AttemptResult.ACK,
        late_until=200.0,
        doubt_until=90.0,
        inspections=3,
        waited_s=4.0,
        failed_inspections=5,
        refused="409",
        touched=frozenset({1}),
        frozen=FROZEN,
        stopped_at=7.0,
    )
    progress = apply_record(worn, StepVerified(at=50.0, index=1, undoing=False, said=""))
    assert progress == at(
        2,
        late_until=200.0,
        heard_at=50.0,
        since=50.0,
        touched=frozenset({1}),
        frozen=FROZEN,
        stopped_at=7.0,
    )


def test_the_way_back_begins_at_its_first_step_and_waits_for_what_may_yet_come() -> None:
    turned = RollbackStarted(
        at=50.0,
        steps=(ToState(RequestedState.RUNNING),),
        cause=PlanFailureCause.REFUSED,
        said="404",
    )
    progress = apply_record(at(ALTERING, sent=1, doubt_until=90.0, late_until=70.0), turned)
    assert (progress.path, progress.index, progress.undoing) == (turned.steps, 0, True)
    assert (progress.turned, progress.late_until, progress.since) == (turned, 90.0, 50.0)


def test_who_takes_a_plan_up_has_all_the_time_again() -> None:
    worn = at(ALTERING, parked=PARKED, spent=3, inspections=4, waited_s=5.0, since=1.0)
    progress = apply_record(worn, PlanResumed(at=50.0))
    assert progress == at(ALTERING, since=50.0, heard_at=50.0)


@pytest.mark.parametrize(
    ("late_until", "expected"),
    [(0.0, 0.0), (30.0, 0.0), (30.1, 50.0 + LIMITS.doubt_s)],
)
def test_what_another_waited_for_is_over_only_if_it_was_by_its_own_clock(
    late_until: float, expected: float
) -> None:
    waiting = at(ALTERING, late_until=late_until, heard_at=30.0)
    assert apply_record(waiting, PlanResumed(at=50.0)).late_until == expected


@pytest.mark.parametrize(
    ("answer", "doubt_until", "expected"),
    [
        pytest.param(None, 0.0, (AttemptResult.IN_DOUBT, 170.0), id="without-an-answer"),
        pytest.param(AttemptResult.IN_DOUBT, 30.0, (AttemptResult.IN_DOUBT, 170.0), id="in-doubt"),
        pytest.param(AttemptResult.ACK, 30.0, (AttemptResult.ACK, 0.0), id="a-yes"),
        pytest.param(
            AttemptResult.ACK, 30.1, (AttemptResult.ACK, 170.0), id="a-yes-and-one-without"
        ),
    ],
)
def test_what_another_requested_is_waited_for_again(
    answer: AttemptResult | None, doubt_until: float, expected: tuple[AttemptResult, float]
) -> None:
    sent = at(ALTERING, sent=1, answer=answer, doubt_until=doubt_until, heard_at=30.0)
    progress = apply_record(sent, PlanResumed(at=50.0))
    assert (progress.answer, progress.doubt_until) == expected
    assert (progress.requested_at, progress.heard_at) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("record", "parked", "ended"),
    [(PARKED, PARKED, None), (ENDED, None, ENDED)],
    ids=["parked", "ended"],
)
def test_what_is_over_is_not_parked(
    record: StepRecord, parked: PlanParked | None, ended: PlanEnded | None
) -> None:
    progress = apply_record(at(ALTERING, parked=PARKED), record)
    assert (progress.parked, progress.ended) == (parked, ended)
