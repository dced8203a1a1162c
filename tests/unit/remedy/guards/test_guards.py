"""Every guard alone: a row for what only it denies, and each of its facts unknown in turn."""

from __future__ import annotations

import typing
from dataclasses import fields, replace
from typing import Any, NamedTuple

import pytest

from offsetwatch.remedy import guards
from offsetwatch.remedy.guards import (
    GuardReach,
    GuardResult,
    Permission,
    Stage,
    daemon,
    evidence,
)
from offsetwatch.remedy.model.facts import GuardFacts, PlanApproval, PoisonSignal, SubjectKind
from offsetwatch.remedy.model.fleet_state import RecordSkip
from offsetwatch.remedy.model.plan import Action, RecordLocation
from offsetwatch.remedy.model.policy import MassFailure, Policy, Window
from offsetwatch.remedy.model.service_api import Breaker, Mode
from tests.corpus.cases import CORPUS
from tests.unit.remedy.permitting_facts import (
    APPROVED,
    CONNECT,
    CONNECTOR,
    NOW,
    POLICY,
    build_standing_facts,
    changed,
    facts,
)
from tools.references.guards import RULES_ELSEWHERE, describe_guards

RESTART, STOP, SKIP, RESTORE = (
    Action.RESTART_FAILED,
    Action.STOP,
    Action.SKIP_ONE,
    Action.RESTORE,
)
PLAN, ADMIT, ALTER = Stage
ME = (CONNECT, CONNECTOR)
OTHERS = frozenset((f"lab-{number}", "c") for number in range(9))


def skip_at(moment: float, subjects: tuple[str, str] = ME) -> RecordSkip:
    return RecordSkip(
        moment, "plan", subjects, RecordLocation("east", "t", "id", 3, 17), "signature"
    )


class Row(NamedTuple):
    """What is changed of facts with which everything passes, and what then denies."""

    guard: str
    stage: Stage
    changes: dict[str, Any]
    action: Action = SKIP
    kind: SubjectKind = SubjectKind.SINK
    policy: dict[str, Any] = {}  # noqa: RUF012 - never changed
    also: frozenset[str] = frozenset()


NO_RULES: dict[str, Any] = {"auto": ()}
RULE = POLICY.auto[0]

ROWS = (
    Row("mode", PLAN, {"mode_lowered": Mode.OBSERVE}, also=frozenset({"mode_auto"})),
    Row("mode", ALTER, {}, policy={"mode": Mode.OBSERVE}, also=frozenset({"mode_auto"})),
    Row("mode_auto", ADMIT, {"mode_lowered": Mode.PROPOSE}),
    Row("mode_auto", PLAN, {}, policy={"mode": Mode.PROPOSE}),
    Row("kill_switch", ALTER, {"kill_switch": True}),
    Row("pause", ADMIT, {"paused": True}),
    Row("auto_connector", PLAN, {}, policy=NO_RULES, also=frozenset({"auto_action"})),
    Row("auto_action", ADMIT, {}, policy={"auto": (replace(RULE, actions=("stop",)),)}),
    Row("operator", PLAN, {"operator_managed": True, "resource_problem": "Argo CD owns it"}),
    Row("version", PLAN, {"connect_version": (3, 5, 9)}),
    Row("offsets_api", PLAN, {"offsets_api": False}),
    Row("same_connect_cluster", ALTER, {"identity_now": "cluster-2"}),
    Row(
        "follows_its_group",
        PLAN,
        {"class_name": "io.confluent.connect.s3.S3SinkConnector"},
        policy={"skip_safe": ("io.confluent.connect.s3.S3SinkConnector",)},
        also=frozenset({"writes_before_it_commits"}),
    ),
    Row("writes_before_it_commits", PLAN, {"class_name": "com.example.Ledger"}),
    Row("wanted_running", PLAN, {"state": "paused"}),
    Row("wanted_running", ADMIT, {"state": "stopped"}),
    Row("wanted_running", ADMIT, {"state": "unassigned"}),
    Row("wanted_running", PLAN, {"state": "failed"}),
    Row("wanted_running", PLAN, {"state": "paused"}, RESTART),
    Row("wanted_running", ADMIT, {"state": "stopped"}, STOP),
    Row("observed", PLAN, {"findings": frozenset()}),
    Row("observed", PLAN, {"findings": frozenset()}, RESTART),
    Row("repeated", PLAN, {"failures": 2}),
    Row("repeated", PLAN, {"failing_s": 599.0}),
    Row("repeated", PLAN, {"restarts": 1}),
    Row("repeated", PLAN, {"silent": True, "frozen_s": 899.0}, kind=SubjectKind.MIRROR),
    *(
        Row("poison_class", PLAN, {"failure_kind": kind})
        for kind in (
            "connectivity",
            "auth",
            "resource",
            "config",
            "registry_down",
            "fencing",
            "timeout",
            "unknown",
            "",
        )
    ),
    Row("no_veto", ADMIT, {"veto": "connectivity"}),
    Row("identified", PLAN, {"definitive": frozenset()}),
    Row("identified", PLAN, {"conflicting": frozenset({"error_log"})}),
    Row("first_of_the_batch", ALTER, {"poison": 1_300}, also=frozenset({"one_step"})),
    Row("first_that_exists", ALTER, {"first_existing": 1_240}, kind=SubjectKind.MIRROR),
    Row("first_that_exists", ALTER, {"first_existing": 1_240}, kind=SubjectKind.SOURCE),
    Row(
        "quorum",
        PLAN,
        {"signals": frozenset({PoisonSignal.FROZEN_OFFSET, PoisonSignal.STATUS_TRACE})},
    ),
    Row("quorum", PLAN, {"signals": frozenset(PoisonSignal) - {PoisonSignal.FROZEN_OFFSET}}),
    Row("alone", ADMIT, {"similar": frozenset({("lab", "a"), ("lab", "b")})}),
    Row(
        "mass_failure", PLAN, {"unhealthy": frozenset(("lab", str(number)) for number in range(5))}
    ),
    Row(
        "mass_failure",
        PLAN,
        {"connectors": 4, "unhealthy": frozenset({ME, ("a", "b"), ("c", "d")})},
    ),
    Row(
        "mass_failure",
        ALTER,
        {"mass_failure_before": MassFailure(rages=True, calm_since=NOW - 899)},
    ),
    Row(
        "mass_failure",
        PLAN,
        {"in_remedy": frozenset(("lab", str(number)) for number in range(5))},
        STOP,
    ),
    Row("blast", ADMIT, {"in_remedy": frozenset({("lab", "another")})}),
    Row("blast", ADMIT, {"in_remedy": frozenset({ME})}, RESTORE),
    Row("blast", ADMIT, {"in_remedy": frozenset({("a", "x"), ("b", "x"), ("c", "x")})}),
    Row("cool_down", ADMIT, {"remedied_at": (NOW - 9_000, NOW - 899)}),
    Row("cool_down", PLAN, {"remedied_at": (NOW + 2_101,)}),
    Row(
        "budget_connector",
        ADMIT,
        {"skips": tuple(skip_at(NOW - number) for number in (10, 20, 30))},
    ),
    Row(
        "budget_fleet",
        ADMIT,
        {"skips": tuple(skip_at(NOW - 60, item) for item in [*sorted(OTHERS), ME])},
    ),
    Row("one_record", PLAN, {"records": 2}),
    Row("one_step", ALTER, {"next_after": 1_300}),
    Row("one_step", PLAN, {"next_after": 1_236}),
    Row(
        "one_step",
        PLAN,
        {"next_now": 1_300},
        kind=SubjectKind.MIRROR,
        also=frozenset({"in_the_log"}),
    ),
    Row(
        "one_step",
        PLAN,
        {"poison": 1_300, "next_after": 1_301},
        kind=SubjectKind.MIRROR,
        also=frozenset({"first_that_exists"}),
    ),
    Row("progress", PLAN, {"skips": (skip_at(NOW - 90_000),), "records_since_skip": 999}),
    Row(
        "progress",
        PLAN,
        {"skips": (skip_at(NOW - 9e4, ("lab", "x")), skip_at(NOW - 9e4)), "records_since_skip": 9},
    ),
    Row("receipt", ALTER, {"receipt_sha256": "another"}),
    Row("receipt", ALTER, {"receipt_sha256": "", "record_sha256": ""}),
    Row("backup", ALTER, {"backup_verified": False}),
    Row("backup", ALTER, {"backup_verified": False}, RESTORE),
    Row("in_the_log", ALTER, {"log_end": 1_234, "readable_end": 1_234}),
    Row("in_the_log", ALTER, {"readable_end": 1_234}),
    Row("in_the_log", PLAN, {"earliest": 1_235}),
    Row("in_the_log", ALTER, {"bounds_read_at": NOW - 11}),
    Row("in_the_log", PLAN, {"bounds_read_at": NOW + 60}),
    Row("in_the_log", PLAN, {"next_after": 1_234}, also=frozenset({"one_step"})),
    Row("same_topic", ADMIT, {"topic_id_now": "another"}),
    Row("one_raw_key", ALTER, {"raw_keys": 2}, kind=SubjectKind.MIRROR),
    Row("one_raw_key", ALTER, {"raw_keys": 0}, kind=SubjectKind.MIRROR),
    Row("one_raw_key", PLAN, {"key_canonical": False}, kind=SubjectKind.MIRROR),
    Row("read_just_now", PLAN, {"read_at": NOW - 61}),
    Row("read_just_now", ALTER, {"read_at": NOW - 11}),
    Row("read_just_now", ADMIT, {"read_at": NOW + 3_600}, STOP),
    Row("read_just_now", ADMIT, {"read_at": NOW + 1.5}, STOP),
    Row("views_agree", PLAN, {"tail_behind": 1}),
    Row("views_agree", ALTER, {"views_agree": False}),
    Row("fence", ALTER, {"fence_now": '{"kafka_offset":1235}'}),
    Row("fence", ADMIT, {"fence_now": '{"kafka_offset":1235}'}),
    Row("connector_stopped", ALTER, {"state": "running"}),
    Row("connector_stopped", ALTER, {"tasks_now": 1}),
    Row("group_empty", ALTER, {"group_members": 1}),
    Row("settled", ALTER, {"quiet_s": 14.0}),
    Row("nobody_else", ALTER, {"token_now": "another"}),
    Row("nobody_else", ADMIT, {"token_now": "another"}, STOP),
    Row("same_config", ADMIT, {"config_now": "another"}),
    Row("same_incarnation", ALTER, {"incarnation_now": "second"}),
    Row("in_time", ALTER, {"stopped_at": NOW - 180}),
    Row("in_time", ALTER, {"stopped_at": NOW + 60}),
    Row("in_time", ALTER, {"stopped_at": NOW + 1.5}),
    Row("plan_age", ADMIT, {"created_at": NOW - 3_601}),
    Row("plan_age", ADMIT, {"created_at": NOW + 60}),
    Row("plan_age", ADMIT, {"approval": replace(APPROVED, at=NOW - 601)}),
    Row("maintenance", PLAN, {}, policy={"deny": (Window(tuple(range(7)), 0, 86_400),)}),
    Row("maintenance", ADMIT, {}, policy={"only_in": (Window((0,), 0, 60),)}),
    Row("approver", ADMIT, {"approval": APPROVED, "created_by": "alice"}),
    Row("approver", ADMIT, {"approval": replace(APPROVED, by=" ")}),
    Row("approved_plan", ALTER, {"approval": replace(APPROVED, plan_sha256="another")}),
    Row("clock", ADMIT, {"clock_skew_s": -31.0}),
    Row("clock", PLAN, {"clock_steady": False}),
    Row("journal", ALTER, {"journal_ok": False}),
    Row("journal", PLAN, {"disk_free_bytes": 99 << 20}, RESTART),
    Row("start_grace", PLAN, {"started_at": NOW - 599}),
    Row("reported_long_enough", PLAN, {"reported_since": NOW - 899}),
    Row("breaker", PLAN, {"breakers": (Breaker("lab/orders-sink", NOW - 9e6, "parked"),)}),
    Row("breaker", ADMIT, {"breakers": (Breaker("*", NOW, "budget"),)}, RESTART),
    Row("proven", PLAN, {"approved_successes": 0}),
    Row("small", PLAN, {"tasks": 9}),
    Row("small", PLAN, {"partitions": 65}, STOP),
    Row(
        "not_internal",
        PLAN,
        {"class_name": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"},
        kind=SubjectKind.MIRROR,
    ),
    Row("not_internal", PLAN, {"class_name": "MirrorHeartbeat"}, STOP, SubjectKind.MIRROR),
    Row("same_policy", ADMIT, {"policy_sha256": "another"}),
    Row("restarts_left", ADMIT, {"restarted_at": (NOW - 900, NOW - 400)}, RESTART),
    Row("restarts_left", PLAN, {"restarted_at": (NOW - 299,)}, RESTART),
    Row("restart_helps", PLAN, {"failure_kind": "config"}, RESTART),
    Row("restart_helps", PLAN, {"veto": "auth"}, RESTART),
    Row(
        "restart_helps",
        PLAN,
        {
            "failure_kind": "unknown",
            "veto": "unknown",
            "findings": frozenset({"poison_suspected"}),
        },
        RESTART,
    ),
    Row("restart_helps", PLAN, {"failure_kind": "sink_data"}, RESTART),
    Row("harmful", PLAN, {"findings": frozenset({"task_failed"})}, STOP),
)
# What is passed by not being asked, or by what it does not know, has tests of its own.
ELSEWHERE = {"unmanaged", "restored_by_a_person"}


def build_row(row: Row) -> tuple[GuardFacts, Policy]:
    """The policy is also the one that the plan was made under, unless that is what is changed."""
    policy = replace(POLICY, **row.policy)
    base = build_standing_facts if row.stage is ALTER else facts
    inputs = {"policy_sha256": policy.sha256} | row.changes
    return base(row.action, row.kind, **inputs), policy


def against(answers: tuple[guards.GuardAnswer, ...]) -> dict[str, GuardResult]:
    return {
        answer.guard: answer.answer for answer in answers if answer.answer is not GuardResult.PASS
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.guard}-{row.stage}-{row.action}")
def test_a_guard_denies_what_no_other_denies(row):
    inputs, policy = build_row(row)
    answers = guards.evaluate(inputs, policy, row.stage, by_person=row.action is RESTORE)
    expected = {row.guard, *row.also}
    if row.kind is SubjectKind.SOURCE or row.action is RESTORE:
        assert row.guard in against(answers)
    else:
        assert against(answers) == dict.fromkeys(expected, GuardResult.DENY)
    assert all(answer.said for answer in answers)


def test_every_guard_has_a_row():
    assert {row.guard for row in ROWS} | ELSEWHERE == {guard.name for guard in guards.GUARDS}


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", [SubjectKind.SINK, SubjectKind.MIRROR])
@pytest.mark.parametrize("action", [RESTART, STOP, SKIP])
def test_where_nothing_speaks_against_it_everything_passes(action, kind, stage):
    base = build_standing_facts if stage is ALTER else facts
    answers = guards.evaluate(base(action, kind), POLICY, stage, by_person=False)
    assert against(answers) == {}
    assert guards.derive_permission(answers) is Permission.ACT


@pytest.mark.parametrize("stage", [PLAN, ADMIT])
@pytest.mark.parametrize("action", [RESTART, STOP])
def test_what_failed_as_a_whole_may_be_started_again_or_stopped(action, stage):
    inputs = facts(action, state="failed")
    assert against(guards.evaluate(inputs, POLICY, stage, by_person=False)) == {}


@pytest.mark.parametrize("kind", SubjectKind)
def test_an_operators_restore_passes(kind):
    answers = guards.evaluate(build_standing_facts(RESTORE, kind), POLICY, ALTER, by_person=True)
    assert guards.derive_permission(answers) is Permission.ACT


BARELY: dict[Stage, dict[str, Any]] = {
    PLAN: {
        "connect_version": (3, 6),
        "failing_s": 600.0,
        "started_at": NOW - 600,
        "reported_since": NOW - 900,
        "clock_skew_s": -30.0,
        "disk_free_bytes": 100 << 20,
        "tasks": 8,
        "partitions": 64,
        "skips": (skip_at(NOW - 90_000),),
        "records_since_skip": 1_000,
        "unhealthy": frozenset(("lab", str(number)) for number in range(4)),
        "similar": frozenset({("lab", "a")}),
        "read_at": NOW - 60,
        "bounds_read_at": NOW - 60,
        "log_end": 1_235,
        "readable_end": 1_235,
        "earliest": 1_234,
    },
    ADMIT: {
        "created_at": NOW - 3_600,
        "remedied_at": (NOW - 900,),
        "skips": (skip_at(NOW - 10), skip_at(NOW - 20), skip_at(NOW - 3_600)),
        "in_remedy": frozenset({("a", "x"), ("b", "x")}),
    },
    ALTER: {
        "quiet_s": 15.0,
        "stopped_at": NOW - 179.9,
        "read_at": NOW - 10,
        "bounds_read_at": NOW - 10,
    },
}


@pytest.mark.parametrize("stage", Stage)
def test_what_is_just_enough_is_enough(stage):
    base = build_standing_facts if stage is ALTER else facts
    answers = guards.evaluate(base(**BARELY[stage]), POLICY, stage, by_person=False)
    assert against(answers) == {}


def test_a_plan_is_begun_until_ten_minutes_after_it_was_approved():
    inputs = facts(approval=replace(APPROVED, at=NOW - 600))
    assert against(guards.evaluate(inputs, POLICY, ADMIT, by_person=False)) == {}


UNKNOWNS = [
    (guard, name)
    for guard in guards.GUARDS
    for name in guard.needs
    if name not in {"policy", "stage", "by_person", "now", "connect", "connector", "action"}
]


@pytest.mark.parametrize(("guard", "name"), UNKNOWNS, ids=lambda item: getattr(item, "name", item))
def test_a_fact_that_is_not_known_is_no_answer(guard, name):
    for stage in guard.stages:
        action = next(item for item in Action if item in guard.actions)
        kind = next(subject_kind for subject_kind in SubjectKind if subject_kind in guard.kinds)
        base = build_standing_facts if stage is ALTER else facts
        inputs = base(action, kind, **{name: None})
        answers = guards.evaluate(inputs, POLICY, stage, by_person=False)
        (own,) = (answer for answer in answers if answer.guard == guard.name)
        assert (own.answer, own.said) == (GuardResult.UNKNOWN, f"not known: {name}")
        assert guards.derive_permission(answers) in {Permission.NO, Permission.PROPOSE}


def test_every_fact_is_needed_by_some_guard_or_said_to_be_optional():
    taken = {name for guard in guards.GUARDS for name in guard.takes}
    known = set(guards.index_facts(facts()))
    assert known - taken == {"kind"}  # which chooses the guards
    assert taken - known == {"policy", "stage", "by_person"}


@pytest.mark.parametrize("guard", guards.GUARDS, ids=lambda guard: guard.name)
def test_a_guard_requests_facts_as_they_are_and_not_for_guesses_of_them(guard):
    hints: dict[str, Any] = {}
    for group in fields(facts()):
        held = getattr(facts(), group.name)
        if group.name != "now":
            hints |= typing.get_type_hints(type(held))
    for name, expected in typing.get_type_hints(guard.judge).items():
        if name in hints:
            known = typing.get_args(hints[name])
            without_none = {item for item in known if item is not type(None)} or {hints[name]}
            request = {arg for arg in typing.get_args(expected) if arg is not type(None)} or {
                expected
            }
            if type(None) in known:
                assert request == without_none or expected in without_none, name
            else:
                assert expected == hints[name], name


# --- whose plans are held back --------------------------------------------------------------------


def test_an_operators_plan_needs_neither_evidence_nor_budget_and_nothing_else_is_spared():
    rows = [row for row in ROWS if row.action is SKIP and row.kind is not SubjectKind.SOURCE]
    reach = {guard.name: guard.reach for guard in guards.GUARDS}
    for row in rows:
        inputs, policy = build_row(row)
        answer = against(guards.evaluate(inputs, policy, row.stage, by_person=True))
        assert (row.guard in answer) == (reach[row.guard] is GuardReach.EVERYONE), row


def test_what_only_holds_back_the_automatic_is_proposed():
    reach = {guard.name: guard.reach for guard in guards.GUARDS}
    for row in ROWS:
        if reach[row.guard] is GuardReach.AUTOMATIC:
            inputs, policy = build_row(row)
            answers = guards.evaluate(inputs, policy, row.stage, by_person=False)
            assert guards.derive_permission(answers) is Permission.PROPOSE, row
            approved = changed(inputs, approval=APPROVED)
            answers = guards.evaluate(approved, policy, row.stage, by_person=False)
            assert guards.derive_permission(answers) is Permission.ACT, row


def test_what_would_be_done_is_distinguished_from_what_would_not():
    policy = Policy(skip_safe=POLICY.skip_safe)
    inputs = facts(policy_sha256=policy.sha256)
    answers = guards.evaluate(inputs, policy, PLAN, by_person=False)
    assert guards.derive_permission(answers) is Permission.WOULD
    answers = guards.evaluate(changed(inputs, veto="timeout"), policy, PLAN, by_person=False)
    assert guards.derive_permission(answers) is Permission.NO


def test_nothing_is_permitted_that_no_guard_was_queried_about():
    assert guards.evaluate(facts(Action.NOTIFY), POLICY, PLAN, by_person=True) == ()
    assert guards.derive_permission(()) is Permission.NO


def test_approving_does_not_help_where_the_record_is_not_known():
    inputs = facts(definitive=frozenset(), approval=APPROVED)
    answers = guards.evaluate(inputs, POLICY, PLAN, by_person=False)
    assert guards.derive_permission(answers) is Permission.NO


@pytest.mark.parametrize("stage", Stage)
def test_a_restore_needs_the_approval_of_an_operator(stage):
    inputs = build_standing_facts(RESTORE)
    assert "restored_by_a_person" in against(
        guards.evaluate(inputs, POLICY, stage, by_person=False)
    )
    expected = changed(inputs, approval=APPROVED)
    assert "restored_by_a_person" not in against(
        guards.evaluate(expected, POLICY, stage, by_person=False)
    )


# --- what needs a closer look ---------------------------------------------------------------------


def test_whether_an_operator_sets_it_back_has_to_be_said_where_it_cannot_be_observed():
    unsaid = replace(POLICY, auto=(replace(RULE, unmanaged=False),))
    inputs = facts(operator_managed=None, policy_sha256=unsaid.sha256)
    answers = guards.evaluate(inputs, unsaid, PLAN, by_person=False)
    assert against(answers) == {"unmanaged": GuardResult.UNKNOWN}
    assert guards.derive_permission(answers) is Permission.PROPOSE
    inputs = changed(inputs, policy_sha256=POLICY.sha256)
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}


def test_what_an_operator_keeps_is_changed_through_its_resource_where_nothing_speaks_against_it():
    inputs = facts(operator_managed=True, resource_problem="")
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=True)) == {}
    for problem, answer in (("Argo CD owns it", GuardResult.DENY), (None, GuardResult.UNKNOWN)):
        other = changed(inputs, resource_problem=problem)
        answers = guards.evaluate(other, POLICY, PLAN, by_person=True)
        assert against(answers) == {"operator": answer}


def test_who_sets_a_resource_back_cannot_be_observed_and_has_to_be_said():
    unsaid = replace(POLICY, auto=(replace(RULE, unmanaged=False),))
    inputs = facts(operator_managed=True, resource_problem="", policy_sha256=unsaid.sha256)
    answers = guards.evaluate(inputs, unsaid, PLAN, by_person=False)
    assert against(answers) == {"unmanaged": GuardResult.UNKNOWN}


def test_what_never_failed_is_judged_by_how_long_it_stands_still():
    silent = {"silent": True, "failures": None, "failing_s": None, "restarts": None}
    inputs = facts(kind=SubjectKind.MIRROR, frozen_s=900.0, failure_kind="corrupt", **silent)
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}
    inputs = changed(inputs, frozen_s=None)
    answers = guards.evaluate(inputs, POLICY, PLAN, by_person=False)
    assert against(answers) == {"repeated": GuardResult.UNKNOWN}


@pytest.mark.parametrize("name", ["failures", "failing_s", "restarts"])
def test_how_often_it_failed_has_to_be_known(name):
    answers = guards.evaluate(facts(**{name: None}), POLICY, PLAN, by_person=False)
    assert against(answers) == {"repeated": GuardResult.UNKNOWN}


def test_after_a_skip_it_has_to_be_known_how_many_records_were_delivered_since():
    inputs = facts(skips=(skip_at(NOW - 90_000),), records_since_skip=None)
    answers = guards.evaluate(inputs, POLICY, PLAN, by_person=False)
    assert against(answers) == {"progress": GuardResult.UNKNOWN}
    inputs = changed(inputs, skips=(skip_at(NOW - 90_000, ("lab", "another")),))
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}


def test_mirror_maker_may_pass_over_offsets_that_hold_nothing():
    inputs = facts(kind=SubjectKind.MIRROR, next_now=1_200)
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}


def test_a_sink_may_not():
    inputs = facts(next_now=1_200)
    answers = guards.evaluate(inputs, POLICY, PLAN, by_person=True)
    assert against(answers) == {"first_of_the_batch": GuardResult.DENY}


def test_the_first_restart_needs_no_pause_and_the_second_does():
    for restarted_at, restarts in (((), True), ((NOW - 300,), True), ((NOW - 299,), False)):
        inputs = facts(RESTART, restarted_at=restarted_at)
        passed = against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}
        assert passed is restarts


@pytest.mark.parametrize(
    "kind",
    ["deserialization", "schema", "transform", "sink_data", "producer_size", "corrupt"],
)
def test_what_one_record_can_cause_may_be_skipped(kind):
    inputs = facts(failure_kind=kind)
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}


@pytest.mark.parametrize("kind", ["connectivity", "timeout", "resource", "unknown", "schema"])
def test_what_may_pass_by_itself_may_be_restarted(kind):
    findings = frozenset({"task_failed"})
    inputs = facts(RESTART, failure_kind=kind, veto=kind, findings=findings)
    assert against(guards.evaluate(inputs, POLICY, PLAN, by_person=False)) == {}


def test_an_exhausted_budget_opens_a_breaker():
    inputs = facts(skips=tuple(skip_at(NOW - number) for number in (10, 20, 30)))
    answers = guards.evaluate(inputs, POLICY, ADMIT, by_person=False)
    ((scope, why),) = guards.find_tripped_breakers(answers, inputs)
    assert scope == "lab/orders-sink"
    assert why == "of this connector 3 skipped within the last hour; at most 3 are allowed"


def test_what_denies_beside_a_budget_opens_nothing():
    inputs = facts(remedied_at=(NOW - 1,))
    answers = guards.evaluate(inputs, POLICY, ADMIT, by_person=False)
    assert against(answers) == {"cool_down": GuardResult.DENY}
    assert guards.find_tripped_breakers(answers, inputs) == ()


def test_an_exhausted_budget_of_all_opens_the_breaker_of_all():
    inputs = facts(skips=tuple(skip_at(NOW - 60, ("lab", str(number))) for number in range(10)))
    answers = guards.evaluate(inputs, POLICY, ADMIT, by_person=False)
    assert [scope for scope, _ in guards.find_tripped_breakers(answers, inputs)] == ["*"]


def test_a_budget_that_is_not_known_denies_and_opens_nothing():
    inputs = facts(skips=None)
    answers = guards.evaluate(inputs, POLICY, ADMIT, by_person=False)
    assert against(answers)["budget_fleet"] is GuardResult.UNKNOWN
    assert guards.find_tripped_breakers(answers, inputs) == ()


# --- the table ------------------------------------------------------------------------------------


def test_every_number_of_the_table_is_a_guard_or_is_said_to_be_elsewhere():
    numbers = {guard.number for guard in guards.GUARDS}
    assert numbers | set(RULES_ELSEWHERE) == set(range(1, 55))
    assert not numbers & set(RULES_ELSEWHERE)
    assert [guard.number for guard in guards.GUARDS] == sorted(
        guard.number for guard in guards.GUARDS
    )


def test_every_guard_has_a_name_of_its_own_and_one_sentence_of_rule():
    names = [guard.name for guard in guards.GUARDS]
    assert len(set(names)) == len(names)
    for guard in guards.GUARDS:
        assert guard.condition.endswith("."), guard.name
        assert guard.condition.count(". ") == 0, guard.name


def test_the_table_shows_what_the_policy_requests():
    reports = {guard.name: guard for guard in describe_guards(replace(POLICY, failures=7))}
    assert reports["repeated"].default == "7 failures, 600 s, 2 restarts"
    assert reports["repeated"].actions == (SKIP,)
    assert reports["repeated"].reach is GuardReach.DETECTED
    assert reports["kill_switch"].stages == tuple(Stage)
    assert reports["kill_switch"].kinds == tuple(SubjectKind)
    assert set(reports["one_raw_key"].kinds) == {SubjectKind.MIRROR, SubjectKind.SOURCE}


def test_an_approval_without_a_name_is_denied():
    inputs = facts(approval=PlanApproval(by="", at=NOW, plan_sha256="plan"))
    answers = guards.evaluate(inputs, POLICY, ADMIT, by_person=False)
    assert against(answers) == {"approver": GuardResult.DENY}


@pytest.mark.parametrize(
    ("second_person", "answer"), [(True, GuardResult.DENY), (False, GuardResult.PASS)]
)
def test_one_operator_approves_his_own_plan_where_that_is_configured(second_person, answer):
    inputs = facts(approval=APPROVED, created_by=APPROVED.by)
    policy = replace(POLICY, second_person=second_person)
    answers = guards.evaluate(inputs, policy, ADMIT, by_person=True)
    assert {item.guard: item.answer for item in answers}["approver"] is answer


def test_a_plan_is_young_to_the_second_and_may_come_from_a_clock_that_is_a_little_ahead():
    def young(created_at: float, approval: PlanApproval | None = None) -> bool:
        result, _ = daemon.plan_age(now=NOW, created_at=created_at, approval=approval)
        return result is GuardResult.PASS

    ahead = daemon.CLOCK_SKEW_S
    assert young(NOW + ahead)
    assert not young(NOW + ahead + 1)
    assert young(NOW - daemon.PROPOSAL_S)
    assert young(NOW, replace(APPROVED, at=NOW + ahead))
    assert not young(NOW, replace(APPROVED, at=NOW + ahead + 1))
    assert young(NOW, replace(APPROVED, at=NOW - daemon.APPROVED_TTL_S))


def test_an_approval_counts_from_the_end_of_the_cool_down_that_it_waited_for():
    waited = replace(APPROVED, at=NOW - 900.0)
    for not_before, answer in (
        (0.0, GuardResult.DENY),
        (NOW - 601.0, GuardResult.DENY),
        (NOW - 600.0, GuardResult.PASS),
        (NOW + 60.0, GuardResult.PASS),  # the cool-down itself holds it back
    ):
        approval = replace(waited, not_before=not_before)
        result, _ = daemon.plan_age(now=NOW, created_at=NOW - 1_000.0, approval=approval)
        assert result is answer, not_before


def test_what_was_read_by_a_clock_that_is_a_second_ahead_was_read_now():
    for stage, base in ((ADMIT, facts), (ALTER, build_standing_facts)):
        ahead = base(read_at=NOW + 1.0, bounds_read_at=NOW + 1.0, stopped_at=NOW + 1.0)
        assert against(guards.evaluate(ahead, POLICY, stage, by_person=False)) == {}


@pytest.mark.parametrize(
    "case", [case for case in CORPUS if case.thread], ids=lambda case: case.name
)
def test_another_restart_is_proposed_only_for_what_may_pass(case):
    """Of failures that came again at the same position, as public threads report them."""
    failure = case.classified()
    result, _ = evidence.restart_helps(
        failure_kind=failure.kind.value,
        veto="" if failure.veto is None else failure.veto.value,
        findings=frozenset({"poison_suspected"}),
    )
    assert case.restart == ("may help" if result is GuardResult.PASS else "no")
