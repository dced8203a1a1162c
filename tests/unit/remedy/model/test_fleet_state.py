"""What the whole journal says that guards ask for, taken in record by record."""

from __future__ import annotations

import msgspec
import pytest

from offsetwatch.model.row_positions import ID_SPAN
from offsetwatch.remedy.model.fleet_state import (
    NEAR_OFFSETS,
    POLICY_APPROVER,
    ConnectorRestart,
    FleetState,
    RecordSkip,
)
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    AnyRecord,
    BreakerSet,
    IncidentDetected,
    IncidentEnded,
    ModeSet,
    PauseSet,
    PlanApproved,
    PlanEnded,
    PlanFailureCause,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Action,
    Plan,
    PlanStatus,
    PlanSubject,
    RecordLocation,
    RemediationContext,
    RequestedState,
    Restart,
    ToState,
)
from offsetwatch.remedy.model.service_api import Breaker
from tests.unit.remedy.plans import POISON, plan_of, skip_of

CONNECTOR_KEY = ("lab", "orders")
PARKED = PlanParked(
    at=9.0, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="it moved"
)


def small(step: ToState | Restart, action: Action, plan_id: str = "p1") -> Plan:
    """Of one step, for an incident."""
    return Plan(
        plan_id=plan_id,
        verb=action.value,
        subject=PlanSubject("rest", *CONNECTOR_KEY, "sink"),
        steps=(step,),
        original=RequestedState.RUNNING,
        final=RequestedState.STOPPED if action is Action.STOP else RequestedState.RUNNING,
        created_at=1.0,
        created_by="detector",
        remedy=RemediationContext(action, "i1"),
    )


STOP = small(ToState(RequestedState.STOPPED), Action.STOP)
SKIP, TOOL = skip_of(), plan_of()


def fleet(*records: AnyRecord, plan: Plan = SKIP, into: FleetState | None = None) -> FleetState:
    result = into or FleetState()
    for record in records:
        result.apply(result.seq + 1, plan.plan_id, record)
    return result


def proposed(plan: Plan) -> PlanProposed:
    return PlanProposed(at=1.0, plan=plan, mode="auto", expires_at=99.0)


def approved(by: str = "ada") -> PlanApproved:
    return PlanApproved(at=2.0, by=by, plan_sha256="s")


def opened(plan: Plan) -> PlanOpened:
    return PlanOpened(at=3.0, plan=plan)


def build_intended(index: int, moment: float = 4.0, *, undoing: bool = False) -> StepIntended:
    return StepIntended(at=moment, index=index, undoing=undoing)


def build_verified(index: int, *, undoing: bool = False) -> StepVerified:
    return StepVerified(at=5.0, index=index, undoing=undoing, said="")


def ended(ending: PlanStatus = PlanStatus.SUCCEEDED, moment: float = 9.0) -> PlanEnded:
    return PlanEnded(at=moment, ending=ending, said="x")


def begun(plan: Plan, by: str = "ada") -> tuple[AnyRecord, ...]:
    return proposed(plan), approved(by), opened(plan)


# --- people's switches ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paused", "until", "now", "holds"),
    [
        (True, None, 1e9, True),
        (True, 50.0, 49.0, True),
        (True, 50.0, 50.0, False),
        (False, None, 1.0, False),
    ],
)
def test_everything_is_held_until_then_or_until_it_is_let_go(
    until: float | None, now: float, *, paused: bool, holds: bool
) -> None:
    held = PauseSet(at=1.0, paused=paused, until=until, by="ada", because="x")
    assert fleet(held).paused(now) == (held if holds else None)
    assert FleetState().paused(now) is None


def test_the_newest_mode_counts_and_records_are_counted() -> None:
    modes = [ModeSet(at=1.0, mode=mode, by="ada", because="x") for mode in ("observe", None)]
    result = fleet(*modes)
    assert (result.mode, result.seq) == (modes[1], 2)


OTHER = msgspec.structs.replace(
    small(Restart(), Action.RESTART_FAILED, "p2"),
    subject=PlanSubject("rest", "lab", "other", "sink"),
)


@pytest.mark.parametrize(
    ("plan", "before", "last"),
    [
        (SKIP, (), ModeSet(at=4.0, mode="observe", by="ada", because="no")),
        (SKIP, (), PauseSet(at=4.0, paused=True, until=None, by="ada", because="no")),
        (SKIP, (), BreakerSet(at=4.0, scope="lab/orders", open=True, by="ada", because="no")),
        (OTHER, begun(OTHER)[:2], opened(OTHER)),
        (OTHER, begun(OTHER), build_intended(0)),
        (OTHER, begun(OTHER), ended()),
        (SKIP, begun(SKIP), build_intended(5)),
    ],
)
def test_what_operators_and_other_plans_change_is_another_ground(
    plan: Plan, before: tuple[AnyRecord, ...], last: AnyRecord
) -> None:
    result = fleet(*before, plan=plan)
    bounds = result.bounds()
    assert fleet(*before, plan=plan).bounds() == bounds
    assert fleet(last, plan=plan, into=result).bounds() != bounds


def test_a_plan_that_began_and_ended_meanwhile_is_another_ground() -> None:
    assert fleet(*begun(OTHER), ended(), plan=OTHER).bounds() != FleetState().bounds()


def test_what_is_proposed_decided_or_observed_meanwhile_is_no_other_ground() -> None:
    result = fleet(*begun(SKIP))
    bounds = result.bounds()
    fleet(proposed(OTHER), approved(), plan=OTHER, into=result)
    assert result.bounds() == bounds


def test_a_breaker_that_an_operator_opens_an_operator_closes() -> None:
    first, again, closed = (
        BreakerSet(at=moment, scope="lab/orders", open=is_open, by="ada", because=f"x{moment:.0f}")
        for moment, is_open in ((1.0, True), (2.0, True), (3.0, False))
    )
    assert fleet(first, again).breakers == {"lab/orders": Breaker("lab/orders", 1.0, "x1")}
    assert fleet(first, again, closed).breakers == {}
    assert fleet(closed).breakers == {}


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "waits", "may_begin", "works", "parked"),
    [
        pytest.param((proposed(SKIP),), True, False, False, False, id="proposed"),
        pytest.param((proposed(SKIP), approved()), False, True, False, False, id="approved"),
        pytest.param(
            (proposed(SKIP), PlanRejected(at=2.0, by="ada", because="no")),
            *[False] * 4,
            id="rejected",
        ),
        pytest.param(
            (proposed(SKIP), PlanLapsed(at=2.0, void=True, said="over")), *[False] * 4, id="lapsed"
        ),
        pytest.param(begun(SKIP), False, False, True, False, id="begun"),
        pytest.param((opened(TOOL),), False, False, True, False, id="of-the-toolbox"),
        pytest.param((*begun(SKIP), PARKED), False, False, True, True, id="parked"),
        pytest.param(
            (*begun(SKIP), PARKED, PlanResumed(at=9.0)), False, False, True, False, id="taken-up"
        ),
        pytest.param((*begun(SKIP), PARKED, ended()), *[False] * 4, id="ended"),
        pytest.param((build_intended(0), PARKED), *[False] * 4, id="of-no-plan"),
    ],
)
def test_how_plans_stand_is_known(
    records: tuple[AnyRecord, ...], *, waits: bool, may_begin: bool, works: bool, parked: bool
) -> None:
    result = fleet(*records)
    assert (SKIP.plan_id in result.proposed(), SKIP.plan_id in result.approved()) == (
        waits,
        may_begin,
    )
    assert (CONNECTOR_KEY in result.at_work(), CONNECTOR_KEY in result.parked()) == (works, parked)


def test_plans_that_wait_are_reported_in_the_order_of_their_proposals() -> None:
    state = FleetState()
    for plan_id in ("p2", "p1"):
        fleet(proposed(skip_of(plan_id)), plan=skip_of(plan_id), into=state)
    assert list(state.proposed()) == ["p2", "p1"]
    for plan_id in ("p1", "p2"):
        fleet(approved(), plan=skip_of(plan_id), into=state)
    assert state.approved() == {"p2": skip_of("p2"), "p1": skip_of("p1")}


# --- what was done --------------------------------------------------------------------------------


def test_a_skip_is_known_from_when_it_is_requested_and_once() -> None:
    result = fleet(*begun(SKIP), build_intended(1), build_intended(5, 6.0), build_intended(5, 7.0))
    assert result.skips == [RecordSkip(6.0, "p1", CONNECTOR_KEY, POISON, "s1")]


@pytest.mark.parametrize(
    ("plan", "index", "undoing"),
    [
        pytest.param(SKIP, 0, False, id="only-copied"),
        pytest.param(SKIP, 5, True, id="on-the-way-back"),
        pytest.param(TOOL, 3, False, id="of-the-toolbox"),
        pytest.param(
            msgspec.structs.replace(TOOL, remedy=RemediationContext(Action.RESTORE, "i1")),
            3,
            False,
            id="restored",
        ),
    ],
)
def test_nothing_else_is_a_skip(plan: Plan, index: int, *, undoing: bool) -> None:
    result = fleet(opened(plan), build_intended(index, undoing=undoing), plan=plan)
    assert (result.skips, result.restarts) == ([], [])


def skipped_after(
    record: RecordLocation, *, connector: str = "orders", signature: str = "s1"
) -> dict[str, Breaker]:
    """The breakers after a skip of POISON, and one of this record."""
    result = fleet(*begun(SKIP), build_intended(5))
    plan = skip_of("p2", signature=signature)
    copy = msgspec.structs.replace(plan.steps[0], record=record)
    subject = msgspec.structs.replace(plan.subject, connector=connector)
    plan = msgspec.structs.replace(plan, subject=subject, steps=(copy, *plan.steps[1:]))
    return fleet(opened(plan), build_intended(5, 8.0), plan=plan, into=result).breakers


@pytest.mark.parametrize("offset", [POISON.offset + NEAR_OFFSETS, POISON.offset - 7])
def test_two_skips_of_one_kind_close_to_each_other_open_the_breaker(offset: int) -> None:
    opens = skipped_after(msgspec.structs.replace(POISON, offset=offset))
    assert list(opens) == ["lab/orders"]
    assert opens["lab/orders"].opened_at == 8.0
    assert f": {POISON.offset} and {offset} of orders-0;" in opens["lab/orders"].said


def test_rows_with_times_are_close_by_their_numbers() -> None:
    row = POISON.offset + 10**18 * ID_SPAN
    opens = skipped_after(msgspec.structs.replace(POISON, offset=row))
    assert f" and 2001-09-09T01:46:40Z/{POISON.offset} of" in opens["lab/orders"].said
    assert skipped_after(msgspec.structs.replace(POISON, offset=row + NEAR_OFFSETS + 1)) == {}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"offset": POISON.offset + NEAR_OFFSETS + 1}, id="far-away"),
        pytest.param({"partition": 1}, id="another-partition"),
        pytest.param({"topic": "t"}, id="another-topic"),
        pytest.param({"kafka": "west"}, id="another-cluster"),
    ],
)
def test_two_skips_that_have_nothing_in_common_are_two_accidents(other: dict[str, object]) -> None:
    assert skipped_after(msgspec.structs.replace(POISON, **other)) == {}  # type: ignore[arg-type]


def test_two_skips_of_two_kinds_or_two_connectors_are_two_accidents() -> None:
    assert skipped_after(POISON, signature="s2") == {}
    assert skipped_after(POISON, connector="other") == {}
    assert len(skipped_after(POISON)) == 1


def test_a_restart_is_known_from_when_it_is_requested_each_time() -> None:
    plan = small(Restart(only_failed=True), Action.RESTART_FAILED)
    result = fleet(*begun(plan), build_intended(0, 4.0), build_intended(0, 6.0), plan=plan)
    assert result.restarts == [
        ConnectorRestart(4.0, CONNECTOR_KEY, "i1"),
        ConnectorRestart(6.0, CONNECTOR_KEY, "i1"),
    ]
    own = msgspec.structs.replace(plan, remedy=None)
    assert fleet(opened(own), build_intended(0), plan=own).restarts == []
    done = fleet(opened(own), build_intended(0), build_verified(0), plan=own).restarts
    assert [(item.connector_key, item.incident) for item in done] == [(CONNECTOR_KEY, "")]
    alone = msgspec.structs.replace(own, steps=(Restart(include_tasks=False),))
    assert fleet(opened(alone), build_intended(0), build_verified(0), plan=alone).restarts == []


@pytest.mark.parametrize(
    ("records", "stopped"),
    [
        pytest.param((), None, id="not-asked"),
        pytest.param((build_intended(1),), 4.0, id="asked-to-stop"),
        pytest.param((build_intended(1), build_intended(1, 6.0)), 4.0, id="asked-twice"),
        pytest.param((build_intended(1, undoing=True),), None, id="on-the-way-back"),
        pytest.param((build_intended(1), build_verified(1)), 4.0, id="stopped"),
        pytest.param((build_intended(1), build_verified(2)), 4.0, id="settled"),
        pytest.param((build_intended(1), build_intended(6, 6.0)), 4.0, id="asked-to-run"),
        pytest.param(
            (build_intended(1), build_intended(6, 6.0), build_verified(6)), None, id="runs"
        ),
        pytest.param(
            (build_intended(1), build_verified(0, undoing=True)), 4.0, id="a-step-of-the-way-back"
        ),
        pytest.param((build_intended(1), ended(PlanStatus.RESTORED)), None, id="over"),
    ],
)
def test_who_is_stopped_by_us_is_known_until_it_runs_again(
    records: tuple[AnyRecord, ...], stopped: float | None
) -> None:
    expected = {} if stopped is None else {CONNECTOR_KEY: stopped}
    assert fleet(*begun(SKIP), *records).stopped_by_us() == expected


def test_a_stop_is_held_after_its_plan_until_the_incident_is_over() -> None:
    held = fleet(*begun(STOP), build_intended(0), build_verified(0), ended(), plan=STOP)
    assert held.stopped_by_us() == {CONNECTOR_KEY: 4.0}
    assert held.holding([CONNECTOR_KEY]) == {"i1"}
    assert held.holding([("lab", "other")]) == frozenset()
    again = msgspec.structs.replace(STOP, plan_id="p2")
    fleet(opened(again), build_intended(0, 2.0), plan=again, into=held)
    assert held.stopped_by_us() == {CONNECTOR_KEY: 2.0}
    fleet(ended(PlanStatus.RESTORED), plan=again, into=held)
    fleet(IncidentEnded(at=10.0, incident="another"), into=held)
    assert held.stopped_by_us() == {CONNECTOR_KEY: 4.0}
    fleet(IncidentEnded(at=10.0, incident="i1"), into=held)
    assert held.stopped_by_us() == {}


@pytest.mark.parametrize(
    "ending",
    [
        status
        for status in PlanStatus
        if status.has_begun and status.is_over and status is not PlanStatus.SUCCEEDED
    ],
)
def test_a_stop_that_did_not_succeed_is_not_held(ending: PlanStatus) -> None:
    assert fleet(*begun(STOP), build_intended(0), ended(ending), plan=STOP).stopped_by_us() == {}
    assert fleet(*begun(STOP), ended(), plan=STOP).stopped_by_us() == {}
    assert fleet(*begun(SKIP), build_intended(1), ended()).stopped_by_us() == {}


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "last", "answer"),
    [
        (SKIP, PARKED, "plan p1 is parked: it moved"),
        (SKIP, ended(PlanStatus.INEFFECTIVE), "plan p1 did not help: x"),
        (SKIP, ended(PlanStatus.RESTORED), None),
        (SKIP, ended(), None),
        (TOOL, PARKED, None),
        (TOOL, ended(PlanStatus.INEFFECTIVE), None),
        (small(Restart(), Action.RESTART_FAILED), ended(PlanStatus.INEFFECTIVE), None),
    ],
)
def test_a_breaker_opens_by_how_a_plan_ended(
    plan: Plan, last: AnyRecord, answer: str | None
) -> None:
    breakers = fleet(opened(plan), last, plan=plan).breakers
    assert breakers == (
        {} if answer is None else {"lab/orders": Breaker("lab/orders", 9.0, answer)}
    )


@pytest.mark.parametrize(
    ("by", "ending", "successes"),
    [
        ("ada", PlanStatus.SUCCEEDED, 1),
        (POLICY_APPROVER, PlanStatus.SUCCEEDED, 0),
        ("ada", PlanStatus.RESTORED, 0),
        ("ada", PlanStatus.INEFFECTIVE, 0),
    ],
)
def test_what_an_operator_approved_and_succeeded_is_counted(
    by: str, ending: PlanStatus, successes: int
) -> None:
    result = fleet(*begun(SKIP, by), ended(ending))
    assert result.successes[CONNECTOR_KEY, Action.SKIP_ONE] == successes
    assert result.ended_at == {CONNECTOR_KEY: 9.0}
    fleet(*begun(SKIP, by), ended(ending), into=result)
    assert result.successes[CONNECTOR_KEY, Action.SKIP_ONE] == 2 * successes


def test_a_plan_that_was_not_approved_or_never_began_is_no_success() -> None:
    assert not fleet(opened(SKIP), ended()).successes
    never = fleet(proposed(SKIP), approved(), ended())
    assert (never.successes, never.ended_at) == ({}, {})
    assert fleet(opened(TOOL), ended(), plan=TOOL).ended_at == {}


# --- incidents ------------------------------------------------------------------------------------


def test_an_incident_is_known_as_it_was_first_observed_until_it_is_over() -> None:
    first, again = (
        IncidentDetected(
            at=moment,
            incident="i1",
            connect_cluster="lab",
            connector="orders",
            what="failed",
            said="x",
        )
        for moment in (1.0, 2.0)
    )
    result = fleet(first, again)
    assert result.incidents == {"i1": first}
    fleet(IncidentEnded(at=3.0, incident="i2"), into=result)
    assert result.incidents == {"i1": first}
    fleet(IncidentEnded(at=3.0, incident="i1"), into=result)
    assert result.incidents == {}


def test_why_nothing_is_done_is_known_for_each_action_until_the_incident_is_over() -> None:
    def refused(incident: str, action: str, moment: float = 1.0) -> ActionRefused:
        return ActionRefused(
            at=moment,
            incident=incident,
            connect_cluster="lab",
            connector="orders",
            action=action,
            mode="auto",
            answers=(),
        )

    result = fleet(
        *(refused(*value) for value in (("i1", "stop"), ("i1", "notify"), ("i2", "stop")))
    )
    newest = refused("i1", "stop", 2.0)
    fleet(newest, into=result)
    assert (result.refused["i1", "stop"], len(result.refused)) == (newest, 3)
    fleet(IncidentEnded(at=3.0, incident="i1"), into=result)
    assert list(result.refused) == [("i2", "stop")]
