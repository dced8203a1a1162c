"""Facts with which every guard passes, and a policy to match: a test changes one of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from offsetwatch.remedy.model.facts import (
    ActionTarget,
    ConnectorFacts,
    DaemonFacts,
    EvidenceFacts,
    FleetFacts,
    GuardFacts,
    JournalFacts,
    OffsetFacts,
    PlanApproval,
    PlanFacts,
    PoisonSignal,
    SubjectKind,
)
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import MassFailure, Policy, Rule
from offsetwatch.remedy.model.service_api import Mode

NOW = 1_800_000_000.0
CONNECT, CONNECTOR = "lab", "orders-sink"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CLASSES = {SubjectKind.SINK: SINK, SubjectKind.MIRROR: MIRROR, SubjectKind.SOURCE: SOURCE}
ACTIONS = (Action.RESTART_FAILED, Action.STOP, Action.SKIP_ONE)
POLICY = Policy(
    mode=Mode.AUTO,
    auto=(Rule(CONNECT, (CONNECTOR,), tuple(action.value for action in ACTIONS), unmanaged=True),),
    skip_safe=(SINK,),
    skip_unsafe=("S3Sink",),
    stop_on=("recopy",),
)
APPROVED = PlanApproval(by="alice", at=NOW - 30, plan_sha256="plan")


def facts(
    action: Action = Action.SKIP_ONE, kind: SubjectKind = SubjectKind.SINK, **changes: Any
) -> GuardFacts:
    """The facts with these changed, whichever group they are in. Before an offset is set the
    connector stands still: see `standing`.
    """
    # What came again at the same position and is a record's is not started again.
    recurring = action is not Action.RESTART_FAILED
    return changed(
        GuardFacts(
            now=NOW,
            target=ActionTarget(connect=CONNECT, connector=CONNECTOR, kind=kind, action=action),
            ourselves=DaemonFacts(
                kill_switch=False,
                paused=False,
                mode_lowered=Mode.AUTO,
                journal_ok=True,
                disk_free_bytes=1 << 30,
                clock_skew_s=0.5,
                clock_steady=True,
                started_at=NOW - 7_200,
            ),
            others=FleetFacts(
                connectors=40,
                unhealthy=frozenset({(CONNECT, CONNECTOR)}),
                in_remedy=frozenset(),
                mass_failure_before=MassFailure(),
                similar=frozenset(),
            ),
            past=JournalFacts(
                skips=(),
                remedied_at=(),
                breakers=(),
                approved_successes=1,
                restarted_at=(),
                records_since_skip=5_000,
            ),
            evidence=EvidenceFacts(
                findings=frozenset({"poison_suspected", "recopy"}),
                reported_since=NOW - 1_800,
                failure_kind="deserialization" if recurring else "connectivity",
                veto="",
                failures=3,
                failing_s=812.0,
                restarts=2,
                silent=False,
                frozen_s=1_200.0,
                definitive=frozenset({"decode"}),
                conflicting=frozenset(),
                signals=frozenset(
                    {
                        PoisonSignal.STATUS_TRACE,
                        PoisonSignal.FROZEN_OFFSET,
                        PoisonSignal.LAG_GROWING,
                    }
                ),
            ),
            connector=ConnectorFacts(
                connect_version=(4, 3, 1),
                offsets_api=True,
                operator_managed=False,
                class_name=CLASSES[kind],
                tasks=2,
                partitions=6,
                state="running",
                tasks_now=2,
                group_members=0,
                identity_planned="cluster-1",
                identity_now="cluster-1",
                config_planned="config",
                config_now="config",
                incarnation_planned="first",
                incarnation_now="first",
                token_planned="token",
                token_now="token",
                read_at=NOW - 1,
            ),
            offsets=OffsetFacts(
                fence_planned='{"kafka_offset":1234}',
                fence_now='{"kafka_offset":1234}',
                next_now=1_234,
                next_after=1_235,
                poison=1_234,
                first_existing=1_234,
                earliest=0,
                log_end=99_999,
                readable_end=99_999,
                topic_id_planned="topic",
                topic_id_now="topic",
                bounds_read_at=NOW - 1,
                raw_keys=1,
                key_canonical=True,
                tail_behind=0,
                views_agree=True,
                quiet_s=20.0,
            ),
            plan=PlanFacts(
                created_at=NOW - 60,
                created_by="detector",
                plan_sha256="plan",
                policy_sha256=POLICY.sha256,
                records=1,
                record_sha256="record",
                receipt_sha256="record",
                backup_verified=True,
                stopped_at=NOW - 25,
            ),
        ),
        **changes,
    )


def build_standing_facts(
    action: Action = Action.SKIP_ONE, kind: SubjectKind = SubjectKind.SINK, **changes: Any
) -> GuardFacts:
    """The same before an offset is set."""
    return facts(action, kind, **({"state": "stopped", "tasks_now": 0} | changes))


def changed(before: GuardFacts, **changes: Any) -> GuardFacts:
    """These facts, by their names, in whichever group they are."""
    after = before
    for group in fields(before):
        if group.name in changes:
            after = replace(after, **{group.name: changes.pop(group.name)})
            continue
        held = getattr(before, group.name)
        if group.name == "now":
            continue
        own = {
            field.name: changes.pop(field.name) for field in fields(held) if field.name in changes
        }
        after = replace(after, **{group.name: replace(held, **own)})
    assert not changes, f"no such facts: {changes}"
    return after
