"""What steps, records and endings of plans say to people."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    AbortRequested,
    ActionRefused,
    AnyRecord,
    BreakerSet,
    GuardAnswer,
    IncidentDetected,
    IncidentEnded,
    LeadershipTaken,
    ModeSet,
    OffsetsBackedUp,
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
    RecordReplayed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepRecord,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Delete,
    DeleteTopic,
    Expect,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    PlanStatus,
    Prove,
    RawOffsetRecord,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Write,
)
from offsetwatch.remedy.views import plan_text
from tests.unit.remedy.plans import POISON, plan_of, skip_of

A, B = PartitionOffset("a", "1"), PartitionOffset("b", None)
RAW = RawOffsetRecord("k", None, 0)
PLAN = plan_of()
FROZEN = FrozenOffsets((A,), "/b/one backup", "sha")
BEGUN = PlanProgress(plan=PLAN, path=PLAN.steps, index=3, touched=frozenset({0, 3}), frozen=FROZEN)
NOWHERE = replace(BEGUN, plan=msgspec.structs.replace(PLAN, original=None))
PARKED = PlanParked(
    at=1.0, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="it moved"
)
TURNED = RollbackStarted(at=1.0, steps=(), cause=PlanFailureCause.REFUSED, said="HTTP 404")
RESUME = "`offsetwatch plan recover p1 --config F`"


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (ToState(RequestedState.PAUSED), "pause the connector"),
        (Settle(), "wait until the connector writes nothing"),
        (Freeze(), "read all offsets and back them up"),
        (Alter((A,)), "set the offsets of one source partition"),
        (Alter((A, B)), "set the offsets of 2 source partitions"),
        (Reset(), "reset all offsets"),
        (Write("k/t", (RAW,), (A,)), "write one record to k/t"),
        (Write("k/t", (RAW, RAW), (A,)), "write 2 records to k/t"),
        (Create("c"), "create the connector, stopped"),
        (Delete(), "delete the connector"),
        (Restart(), "restart the connector"),
        (DeleteTopic("k", "t", "id"), "delete the topic k/t"),
        (Copy(POISON, "s", 1, "key", "k/q"), "copy east/orders-0@7 to k/q"),
        (Expect((A, B)), "check that a -> 1; b -> none is unchanged"),
        (Prove(A, POISON, 60.0), "check that it passes east/orders-0@7 and runs for 60 s"),
    ],
    ids=lambda result: None if isinstance(result, str) else type(result).__name__,
)
def test_every_step_is_reported(step: AnyStep, answer: str) -> None:
    assert plan_text.describe_step(step) == answer


def test_what_each_partition_is_given_is_reported_of_steps_that_give_something() -> None:
    assert plan_text.format_pairs(Alter((A, B))) == ("a -> 1", "b -> none")
    assert plan_text.format_pairs(Write("k/t", (RAW,), (A,))) == ("a -> 1",)
    assert plan_text.format_pairs(Expect((A,))) == ()


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        (
            StepIntended(at=1.0, index=3, undoing=False),
            "orders: set the offsets of 2 source partitions",
        ),
        (OffsetsBackedUp(at=1.0, frozen=FROZEN), "1 offset backed up in /b/one backup"),
        (StepAnswered(at=1.0, answer=AttemptResult.ACK, said="ok"), ""),
        (StepAnswered(at=1.0, answer=AttemptResult.RETRY, said="409"), "not yet: 409"),
        (StepAnswered(at=1.0, answer=AttemptResult.NACK, said="404"), "refused: 404"),
        (
            StepAnswered(at=1.0, answer=AttemptResult.IN_DOUBT, said="500"),
            "in doubt, looking whether it happened: 500",
        ),
        (TURNED, "rolling back: HTTP 404"),
        (StepVerified(at=1.0, index=3, undoing=False, said="is so"), "orders: is so"),
        (StepVerified(at=1.0, index=3, undoing=False, said=""), ""),
        (PlanOpened(at=1.0, plan=PLAN), ""),
        (PlanResumed(at=1.0), ""),
        (PARKED, ""),
        (PlanEnded(at=1.0, ending=PlanStatus.SUCCEEDED, said="done"), ""),
    ],
    ids=lambda result: None if isinstance(result, str) else type(result).__name__,
)
def test_a_record_says_what_is_new_while_the_plan_is_carried_out(
    record: StepRecord, answer: str
) -> None:
    assert plan_text.describe_live_record(record, BEGUN) == answer


@pytest.mark.parametrize(("sent", "again"), [(0, ""), (1, ""), (2, " (request 2)")])
def test_a_request_that_is_recreated_is_numbered(sent: int, again: str) -> None:
    record = StepIntended(at=1.0, index=3, undoing=False)
    answer = f"orders: set the offsets of 2 source partitions{again}"
    assert plan_text.describe_live_record(record, replace(BEGUN, sent=sent)) == answer


def test_waiting_and_going_on_are_reported() -> None:
    assert (plan_text.describe_wait("for tasks"), plan_text.describe_wait("")) == (
        "waiting: for tasks",
        "",
    )
    answer = "continuing plan p1 (alter offsets), which was not finished"
    assert plan_text.describe_takeover(BEGUN) == answer


@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        (PlanStatus.SUCCEEDED, "orders: alter offsets: done and read back"),
        (PlanStatus.RESTORED, "orders: not done, and everything is as it was: x"),
        (PlanStatus.UNCHANGED, "orders: not done, nothing was changed: x"),
        (
            PlanStatus.INEFFECTIVE,
            (
                "orders: alter offsets: done and read back, and it does not run: x; for the old "
                "offsets, `offsetwatch offsets import --offsets '/b/one backup' --connect lab`"
            ),
        ),
        (PlanStatus.RESOLVED, "orders: closed by a person: x"),
    ],
)
def test_an_end_is_reported(ending: PlanStatus, answer: str) -> None:
    ended = replace(BEGUN, ended=PlanEnded(at=1.0, ending=ending, said="x"))
    assert plan_text.describe_ending(ended, "") == answer


def test_whether_the_connector_vouches_for_its_offsets_is_reported_where_it_says_so() -> None:
    ended = replace(BEGUN, ended=PlanEnded(at=1.0, ending=PlanStatus.SUCCEEDED, said=""))
    vouched = {
        definite: plan_text.describe_ending(replace(ended, definite=definite), "").partition(
            "back"
        )[2]
        for definite in (None, True, False)
    }
    assert vouched[None] == ""
    assert vouched[True] == "; the connector confirms its new offsets"
    assert vouched[False].startswith("; the connector does not confirm them")


@pytest.mark.parametrize(
    ("progress", "answer"),
    [
        pytest.param(
            BEGUN,
            "orders: interrupted at the step: set the offsets of 2 source partitions. "
            "Its offsets may "
            "be the old ones, the new ones, or some of each. As they were before, they are in "
            "/b/one backup. It was running before, and may be stopped now. ",
            id="not-sent",
        ),
        pytest.param(
            replace(BEGUN, sent=1, frozen=None),
            "orders: interrupted at the step: set the offsets of 2 source partitions, "
            "which may have "
            "happened. Its offsets may be the old ones, the new ones, or some of each. It was "
            "running before, and may be stopped now. ",
            id="sent",
        ),
        pytest.param(
            replace(BEGUN, undoing=True, touched=frozenset({0})),
            "orders: interrupted at the step: roll back: set the offsets of 2 source "
            "partitions. Its "
            "offsets are unchanged. It was running before, and may be stopped now. ",
            id="on-the-way-back",
        ),
        pytest.param(
            replace(BEGUN, touched=frozenset({1})),
            "orders: interrupted at the step: set the offsets of 2 source partitions. "
            "Its offsets are "
            "unchanged. ",
            id="not-stopped",
        ),
        pytest.param(
            replace(NOWHERE, touched=frozenset({0})),
            "orders: interrupted at the step: set the offsets of 2 source partitions. "
            "Its offsets are "
            "unchanged. ",
            id="was-in-no-state",
        ),
    ],
)
def test_of_a_plan_that_is_cut_off_it_is_notified_what_may_be_and_how_to_go_on(
    progress: PlanProgress, answer: str
) -> None:
    ending = plan_text.describe_ending(progress, "--config F")
    assert ending.startswith(f"{answer}{RESUME}")
    assert plan_text.describe_interruption(progress, "").startswith(
        f"{answer}`offsetwatch plan recover p1`"
    )


DOUBT = " The request may still take effect: "
BACK = " It had to be rolled back: HTTP 404."


@pytest.mark.parametrize(
    ("more", "parts", "missing"),
    [
        pytest.param({}, ("at the step: set the offsets of",), (DOUBT, BACK), id="parked"),
        pytest.param(
            {"turned": TURNED, "undoing": True},
            ("at the step: roll back: set the offsets of", BACK),
            (DOUBT,),
            id="on-the-way-back",
        ),
        pytest.param(
            {"parked": msgspec.structs.replace(PARKED, ending=PlanStatus.IN_DOUBT)},
            (DOUBT,),
            (BACK,),
            id="in-doubt",
        ),
    ],
)
def test_of_a_plan_that_is_parked_it_is_reported_what_an_operator_has_to_decide(
    more: dict[str, object], parts: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    progress = replace(BEGUN, **{"parked": PARKED, **more})  # type: ignore[arg-type]
    ending = plan_text.describe_ending(progress, "--config F")
    assert ending.startswith("orders: stopped half way, at the step: ")
    for part in ("source partitions: it moved.", "or some of each.", RESUME, *parts):
        assert part in ending
    assert not [part for part in missing if part in ending]
    assert "`offsetwatch plan recover p1`" in plan_text.describe_ending(progress, "")


@pytest.mark.parametrize(
    ("more", "driver", "options", "command"),
    [
        ({}, "rest", "--config F", "--connect lab --config F"),
        ({}, "rest", "", "--connect lab"),
        ({}, "rest", "--config F --connect west", "--config F --connect west"),
        ({}, "storage", "--config F", "--config F"),
        ({}, "strimzi", "--config F", "--strimzi NAMESPACE/NAME --config F"),
        ({}, "strimzi", "--strimzi kafka/mm2", "--strimzi kafka/mm2"),
        ({"touched": frozenset({0})}, "rest", "", None),
        ({"frozen": None}, "rest", "", None),
        ({"frozen": FrozenOffsets((), FROZEN.backup, "sha")}, "rest", "", None),
    ],
)
def test_how_the_old_offsets_come_back_is_reported_where_they_may_be_gone(
    more: dict[str, object], driver: str, options: str, command: str | None
) -> None:
    subject = msgspec.structs.replace(PLAN.subject, driver=driver)
    plan = msgspec.structs.replace(PLAN, subject=subject)
    progress = replace(BEGUN, **{"plan": plan, "parked": PARKED, **more})  # type: ignore[arg-type]
    ending = plan_text.describe_ending(progress, options)
    begins = "for the old offsets, `offsetwatch offsets import --offsets '/b/one backup' "
    assert (begins in ending) is (command is not None)
    assert command is None or f"{begins}{command}`" in ending


def test_the_resource_that_a_plan_was_for_is_named() -> None:
    subject = msgspec.structs.replace(PLAN.subject, driver="strimzi", store="kafka/mm2")
    plan = msgspec.structs.replace(PLAN, subject=subject)
    ending = plan_text.describe_ending(replace(BEGUN, plan=plan, parked=PARKED), "--config F")
    assert f"import --offsets '{FROZEN.backup}' --strimzi kafka/mm2 --config F`" in ending


REFUSED = ActionRefused(
    at=1.0,
    incident="i",
    connect_cluster="lab",
    connector="orders",
    action="stop",
    mode="observe",
    answers=(
        GuardAnswer(1, "pause", "deny", "held"),
        GuardAnswer(2, "mass_failure", "unknown", "nobody knows"),
    ),
)


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        (PlanOpened(at=1.0, plan=PLAN), "orders: alter offsets"),
        (PlanResumed(at=1.0), "taken up by another process"),
        (OffsetsBackedUp(at=1.0, frozen=FROZEN), "1 offset in /b/one backup"),
        (StepIntended(at=1.0, index=0, undoing=False), "forward, step 1 is about to be tried"),
        (StepIntended(at=1.0, index=1, undoing=True), "back, step 2 is about to be tried"),
        (StepAnswered(at=1.0, answer=AttemptResult.NACK, said="404"), "nack: 404"),
        (StepVerified(at=1.0, index=0, undoing=False, said=""), "forward, step 1: done"),
        (StepVerified(at=1.0, index=1, undoing=True, said="is so"), "back, step 2: is so"),
        (TURNED, "refused: HTTP 404"),
        (PARKED, "changed: it moved"),
        (PlanEnded(at=1.0, ending=PlanStatus.RESTORED, said="x"), "restored: x"),
        (
            PlanProposed(at=1.0, plan=skip_of(), mode="propose", expires_at=2.0),
            "orders: proposed: skip one record of orders",
        ),
        (PlanApproved(at=1.0, by="ada", plan_sha256="s"), "approved by ada"),
        (PlanRejected(at=1.0, by="ada", because="no"), "rejected by ada: no"),
        (AbortRequested(at=1.0, by="ada", because="no"), "rollback requested by ada: no"),
        (PlanLapsed(at=1.0, void=True, said="x"), "void: x"),
        (PlanLapsed(at=1.0, void=False, said="x"), "not approved in time: x"),
        (ModeSet(at=1.0, mode="auto", by="ada", because="x"), "mode auto by ada: x"),
        (ModeSet(at=1.0, mode=None, by="ada", because="x"), "mode as configured by ada: x"),
        (PauseSet(at=1.0, paused=True, until=None, by="ada", because="x"), "paused by ada: x"),
        (PauseSet(at=1.0, paused=False, until=None, by="ada", because="x"), "resumed by ada: x"),
        (
            BreakerSet(at=1.0, scope="lab/orders", open=True, by="agent", because="x"),
            "breaker of lab/orders open by agent: x",
        ),
        (
            BreakerSet(at=1.0, scope="lab/orders", open=False, by="ada", because="x"),
            "breaker of lab/orders closed by ada: x",
        ),
        (
            IncidentDetected(
                at=1.0, incident="i", connect_cluster="lab", connector="m", what="frozen", said="x"
            ),
            "m: x",
        ),
        (IncidentEnded(at=1.0, incident="i"), "incident over: i"),
        (REFUSED, "orders: stop: pause: held; mass_failure: nobody knows"),
        (
            msgspec.structs.replace(REFUSED, would=True),
            "orders: stop: would be done; the mode is observe",
        ),
        (RecordReplayed(at=1.0, receipt="r", to="k/t", by="ada"), "r written to k/t by ada"),
        (
            RecordReplayed(at=1.0, receipt="r", to="k/t", by="ada", failed=True),
            "r was not written to k/t by ada",
        ),
        (LeadershipTaken(at=1.0, name="one"), "one leads from here on"),
    ],
    ids=lambda result: None if isinstance(result, str) else type(result).__name__,
)
def test_every_record_of_the_past_is_reported(record: AnyRecord, answer: str) -> None:
    assert plan_text.describe_past_record(record) == answer
