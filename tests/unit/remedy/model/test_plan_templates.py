"""The plans of guarded remediation, as absolute steps."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from offsetwatch.model.findings import EvidenceItem
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Expect,
    Freeze,
    PartitionOffset,
    PlanSubject,
    Prove,
    RequestedState,
    Restart,
    Settle,
    ToState,
    Watch,
)
from offsetwatch.remedy.model.plan_templates import (
    DETECTOR,
    QUIET_S,
    RESTART_QUIET_S,
    PlanHeader,
    RecordToSkip,
    build_restart_plan,
    build_restore_plan,
    build_skip_plan,
    build_stop_plan,
    compute_skip_key,
)
from tests.unit.remedy.plans import AT, NEXT, PARTITION, POISON

SUBJECT = PlanSubject("rest", "lab", "orders", "sink", "cluster-1")
ABOUT = PlanHeader(
    plan_id="p1",
    at=1_800_000_000.0,
    by=DETECTOR,
    subject=SUBJECT,
    original=RequestedState.RUNNING,
    incident="i1",
    config_sha256="c1",
    evidence=(EvidenceItem("fails", "orders-0@7"),),
    signature="s1",
    incarnation="n1",
    token="t1",
    policy_sha256="y1",
)
FRM, TO = PartitionOffset(PARTITION, AT), PartitionOffset(PARTITION, NEXT)
KEY = compute_skip_key(SUBJECT, POISON)


def test_a_record_is_copied_before_anything_stops_and_its_offset_compared_before_it_is_set() -> (
    None
):
    what = RecordToSkip(POISON, "0" * 64, 12, FRM, TO)
    plan = build_skip_plan(
        ABOUT, what, quarantine="east/quarantine", stop_total_s=180.0, quiet_s=60.0
    )
    assert plan.steps == (
        Copy(POISON, "0" * 64, 12, KEY, "east/quarantine"),
        ToState(RequestedState.STOPPED),
        Settle(16.0),  # a cancelled task may write once more
        Freeze(),
        Expect((FRM,)),
        Alter((TO,)),
        ToState(RequestedState.RUNNING),
        Prove(TO, POISON, 60.0),
    )
    assert (plan.original, plan.final) == (RequestedState.RUNNING, RequestedState.RUNNING)
    assert plan.remedy is not None
    assert (plan.remedy.skip_key, plan.remedy.stop_total_s) == (KEY, 180.0)
    assert plan.verb == "skip the record at offset 7 of east/orders-0 for orders"


def test_a_plan_says_what_it_was_made_for() -> None:
    plan = build_stop_plan(ABOUT)
    assert (plan.plan_id, plan.subject, plan.created_at) == ("p1", SUBJECT, ABOUT.at)
    assert plan.created_by == DETECTOR
    assert msgspec.structs.asdict(plan.remedy) == {
        "action": Action.STOP,
        "incident": "i1",
        "skip_key": None,
        "config_sha256": "c1",
        "signature": "s1",
        "incarnation": "n1",
        "token": "t1",
        "policy_sha256": "y1",
        "evidence": (EvidenceItem("fails", "orders-0@7"),),
        "stop_total_s": None,
    }


def test_a_stop_leaves_it_stopped() -> None:
    plan = build_stop_plan(ABOUT)
    assert (plan.steps, plan.final) == ((ToState(RequestedState.STOPPED),), RequestedState.STOPPED)


def test_a_restart_is_of_what_has_failed_alone() -> None:
    plan = build_restart_plan(ABOUT)
    assert plan.steps == (
        Restart(include_tasks=True, only_failed=True),
        Watch(RESTART_QUIET_S),
    )
    assert (plan.original, plan.final) == (RequestedState.RUNNING, RequestedState.RUNNING)


@pytest.mark.parametrize(
    ("original", "again"),
    [
        (RequestedState.RUNNING, (ToState(RequestedState.RUNNING),)),
        (RequestedState.PAUSED, (ToState(RequestedState.PAUSED),)),
        (RequestedState.STOPPED, ()),
    ],
)
def test_what_is_restored_ends_as_it_was(
    original: RequestedState, again: tuple[ToState, ...]
) -> None:
    plan = build_restore_plan(replace(ABOUT, original=original), (FRM,), "b1")
    first = (ToState(RequestedState.STOPPED), Settle(QUIET_S), Freeze(), Alter((FRM,)))
    assert plan.steps == (*first, *again)
    assert (plan.original, plan.final) == (original, original)


def test_a_skip_is_the_same_for_the_same_record_and_connector_of_the_same_cluster() -> None:
    assert compute_skip_key(msgspec.structs.replace(SUBJECT, driver="strimzi"), POISON) == KEY
    nameless = [
        msgspec.structs.replace(SUBJECT, identity=None, store=location)
        for location in ("lab", "east")
    ]
    others = [
        *(compute_skip_key(subject, POISON) for subject in nameless),
        # Another Connect cluster on the same Kafka cluster, with a connector of the same name.
        compute_skip_key(msgspec.structs.replace(SUBJECT, store="green"), POISON),
        compute_skip_key(msgspec.structs.replace(SUBJECT, connector="other"), POISON),
        *(
            compute_skip_key(SUBJECT, msgspec.structs.replace(POISON, **{name: value}))
            for name, value in (("kafka", "w"), ("topic", "t"), ("topic_id", "i"), ("offset", 8))
        ),
        compute_skip_key(SUBJECT, msgspec.structs.replace(POISON, partition=1)),
    ]
    assert len({KEY, *others}) == 1 + len(others)
