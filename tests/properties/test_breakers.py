"""Breakers, whatever the journal holds: a person closes one that is open, and nothing else does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    BreakerSet,
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
    RollbackStarted,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Freeze,
    PartitionOffset,
    Plan,
    PlanStatus,
    PlanSubject,
    Prove,
    RecordLocation,
    RemediationContext,
    RequestedState,
    Restart,
    ToState,
)

CONNECTORS = ("a", "b")


def skipping(plan_id: str, connector: str, offset: int) -> Plan:
    record = RecordLocation("east", "t", "id", 0, offset)
    pair = PartitionOffset("p", str(offset + 1))
    return Plan(
        plan_id=plan_id,
        verb="skip one",
        subject=PlanSubject("rest", "lab", connector, "sink"),
        steps=(
            Copy(record, "sha", 1, f"key-{offset}", "folder"),
            ToState(RequestedState.STOPPED),
            Freeze(),
            Alter((pair,)),
            ToState(RequestedState.RUNNING),
            Prove(pair, record, 60.0),
            Restart(),
        ),
        original=RequestedState.RUNNING,
        final=RequestedState.RUNNING,
        created_at=0.0,
        created_by="detector",
        remedy=RemediationContext(
            Action.SKIP_ONE, "incident", skip_key=f"key-{offset}", signature="s"
        ),
    )


plans = st.builds(
    lambda number, connector, offset: skipping(f"{connector}{number}", connector, offset),
    st.integers(0, 3),
    st.sampled_from(CONNECTORS),
    st.integers(0, 300),
)
parked = st.sampled_from([status for status in PlanStatus if status.is_parked])
ends = st.sampled_from([status for status in PlanStatus if status.is_over and status.has_begun])
times = st.floats(0, 1e6)


def of_a_plan(plan: Plan) -> st.SearchStrategy[AnyRecord]:
    steps = st.integers(0, len(plan.steps) - 1)
    return st.one_of(
        st.builds(
            PlanProposed, at=times, plan=st.just(plan), mode=st.just("auto"), expires_at=times
        ),
        st.builds(
            PlanApproved, at=times, by=st.sampled_from(["policy", "alice"]), plan_sha256=st.just("")
        ),
        st.builds(PlanRejected, at=times, by=st.just("alice"), because=st.just("no")),
        st.builds(PlanLapsed, at=times, void=st.booleans(), said=st.just("")),
        st.builds(PlanOpened, at=times, plan=st.just(plan)),
        st.builds(PlanResumed, at=times),
        st.builds(StepIntended, at=times, index=steps, undoing=st.booleans()),
        st.builds(StepVerified, at=times, index=steps, undoing=st.booleans(), said=st.just("")),
        st.builds(
            RollbackStarted,
            at=times,
            steps=st.just(()),
            cause=st.sampled_from(PlanFailureCause),
            said=st.just(""),
        ),
        st.builds(
            PlanParked,
            at=times,
            ending=parked,
            cause=st.sampled_from(PlanFailureCause),
            said=st.just(""),
        ),
        st.builds(PlanEnded, at=times, ending=ends, said=st.just("")),
    )


of_none = st.one_of(
    st.builds(
        BreakerSet,
        at=times,
        scope=st.sampled_from([*(f"lab/{name}" for name in CONNECTORS), "*"]),
        open=st.booleans(),
        by=st.just("alice"),
        because=st.just("seen"),
    ),
    st.builds(ModeSet, at=times, mode=st.none(), by=st.just("alice"), because=st.just("")),
    st.builds(
        PauseSet,
        at=times,
        paused=st.booleans(),
        until=st.none(),
        by=st.just("a"),
        because=st.just(""),
    ),
    st.builds(IncidentEnded, at=times, incident=st.just("incident")),
)


@st.composite
def journals(draw: Any) -> list[tuple[str, AnyRecord]]:
    results = []
    for plan in draw(st.lists(plans, min_size=1, max_size=3)):
        results += [(plan.plan_id, item) for item in draw(st.lists(of_a_plan(plan), max_size=8))]
    results += [("control", item) for item in draw(st.lists(of_none, max_size=4))]
    return draw(st.permutations(results))


@given(journals())
def test_an_open_breaker_is_closed_by_an_operator_and_keeps_its_reason_until_then(journal):
    fleet = FleetState()
    for seq, (plan_id, record) in enumerate(journal, start=1):
        before = dict(fleet.breakers)
        fleet.apply(seq, plan_id, record)
        closed = {record.scope} if isinstance(record, BreakerSet) and not record.open else set()
        for scope, breaker in before.items():
            if scope not in closed:
                assert fleet.breakers[scope] == breaker
        assert not closed & set(fleet.breakers)


@given(journals())
def test_a_parked_connector_has_an_open_breaker_until_an_operator_closes_it(journal):
    fleet = FleetState()
    observed: set[str] = set()
    for seq, (plan_id, record) in enumerate(journal, start=1):
        fleet.apply(seq, plan_id, record)
        if isinstance(record, BreakerSet) and not record.open:
            observed.add(record.scope)
        for connect, connector in fleet.parked():
            assert f"{connect}/{connector}" in set(fleet.breakers) | observed
