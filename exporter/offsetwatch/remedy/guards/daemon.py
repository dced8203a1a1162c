"""Guards about this daemon, its permissions, and the plan that it is about to execute.

guards.evaluate calls each with the facts that its parameters name. The first paragraph of its
docstring is its rule on docs/guards.md.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.remedy.model.approval import PROPOSAL_S
from offsetwatch.remedy.model.facts import PlanApproval
from offsetwatch.remedy.model.guard_answer import GuardReply, allow, allow_if, deny, unknown
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode

CLOCK_SKEW_S: Final = 30.0  # NTP keeps milliseconds: this much is no clock under NTP
DISK_FREE_BYTES: Final = 100 * 1024 * 1024  # a plan writes kilobytes; a disk this full is filling
APPROVED_TTL_S: Final = 600.0  # who approves expects it to happen now


def mode(
    *, policy: Policy, connect: str, connector: str, action: Action, mode_lowered: Mode
) -> GuardReply:
    """In mode observe nothing is done."""
    here = policy.mode_of(connect, connector, action, lowered_to=mode_lowered)
    return allow_if(f"the mode is {here.value} here", if_=here is not Mode.OBSERVE)


def mode_auto(*, policy: Policy, mode_lowered: Mode) -> GuardReply:
    """Nothing is done without approval, except in mode auto."""
    said = f"configured {policy.mode.value}, and set to {mode_lowered.value}"
    return allow_if(said, if_=policy.mode is Mode.AUTO and mode_lowered is Mode.AUTO)


def kill_switch(*, kill_switch: bool) -> GuardReply:
    """No plan begins and nothing is altered while the kill-switch file exists."""
    return allow_if("the kill switch is " + ("on" if kill_switch else "off"), if_=not kill_switch)


def pause(*, paused: bool) -> GuardReply:
    """No plan begins and nothing is altered while remediation is paused."""
    return allow_if(
        "remediation is paused" if paused else "remediation is not paused", if_=not paused
    )


def auto_connector(*, policy: Policy, connect: str, connector: str) -> GuardReply:
    """Without approval only connectors that are listed by name are changed."""
    listed = policy.listed(connect, connector)
    return allow_if(
        f"{connector} is {'' if listed else 'not '}listed under remedy.auto", if_=listed
    )


def auto_action(*, policy: Policy, connect: str, connector: str, action: Action) -> GuardReply:
    """Without approval only the actions that are listed for the connector are taken."""
    allowed = policy.allowed(connect, connector, action)
    return allow_if(
        f"{action.value} is {'' if allowed else 'not '}listed for it under remedy.auto", if_=allowed
    )


def maintenance(*, policy: Policy, now: float) -> GuardReply:
    """No plan is made or begins in a forbidden window, or outside of the allowed ones."""
    why = policy.frozen(now)
    return allow("no maintenance window forbids it") if why is None else deny(why)


def plan_age(*, now: float, created_at: float, approval: PlanApproval | None) -> GuardReply:
    """A plan begins within an hour after it was made, and ten minutes after its approval, or after
    the cool-down that it waited for.
    """
    age_s = now - created_at
    if not -CLOCK_SKEW_S <= age_s <= PROPOSAL_S:
        return deny(f"made {age_s:.0f} s ago; {PROPOSAL_S:.0f} s are allowed")
    if approval is None:
        return allow(f"made {age_s:.0f} s ago")
    since_s = now - approval.at
    could_s = now - max(approval.at, approval.not_before)
    waited = f", and could begin {could_s:.0f} s ago" if 0.0 <= could_s < since_s else ""
    said = f"approved {since_s:.0f} s ago{waited}; {APPROVED_TTL_S:.0f} s are allowed"
    return allow_if(said, if_=since_s >= -CLOCK_SKEW_S and could_s <= APPROVED_TTL_S)


def approver(*, policy: Policy, approval: PlanApproval | None, created_by: str) -> GuardReply:
    """Another operator than the proposer approves, unless remedy.second_person is false."""
    if approval is None:
        return allow("no operator has approved it")
    said = f"made by {created_by}, approved by {approval.by or 'no one'}"
    other = approval.by != created_by or not policy.second_person
    return allow_if(said, if_=bool(approval.by.strip()) and other)


def approved_plan(*, approval: PlanApproval | None, plan_sha256: str) -> GuardReply:
    """The plan that is carried out is, byte for byte, the one that was approved."""
    if approval is None:
        return allow("no operator has approved it")
    same = approval.plan_sha256 == plan_sha256
    return allow_if(
        "the plan is " + ("" if same else "not ") + "the one that was approved", if_=same
    )


def clock(*, clock_skew_s: float, clock_steady: bool) -> GuardReply:
    """Our clock agrees with the brokers' within 30 s, and has not jumped."""
    jumped = "" if clock_steady else ", and it has jumped"
    said = f"{abs(clock_skew_s):.0f} s between our clock and the brokers'{jumped}"
    return allow_if(said, if_=clock_steady and abs(clock_skew_s) <= CLOCK_SKEW_S)


def journal(*, journal_ok: bool, disk_free_bytes: int) -> GuardReply:
    """The journal verifies, can be written to, and has 100 MB to grow."""
    if not journal_ok:
        return deny("the journal does not verify, or cannot be written to")
    said = f"the journal verifies; {disk_free_bytes // 1024**2} MB are free beside it"
    return allow_if(said, if_=disk_free_bytes >= DISK_FREE_BYTES)


def start_grace(*, policy: Policy, now: float, started_at: float) -> GuardReply:
    """No plan is made just after a start: old problems look new then."""
    up_s = now - started_at
    said = f"watching for {up_s:.0f} s; {policy.start_grace_s:.0f} s are required"
    return allow_if(said, if_=up_s >= policy.start_grace_s)


def same_policy(*, policy: Policy, policy_sha256: str) -> GuardReply:
    """The configuration of remediation is the one under which the plan was made."""
    same = policy_sha256 == policy.sha256
    return allow_if(
        f"the policy has {'not ' if same else ''}changed since the plan was made", if_=same
    )


def restored_by_a_person(*, by_person: bool, approval: PlanApproval | None) -> GuardReply:
    """Only an operator restores a backup."""
    allowed = by_person or approval is not None
    return allow_if(
        "an operator requested it" if allowed else "no operator requested it", if_=allowed
    )


def operator(*, operator_managed: bool | None, resource_problem: str | None) -> GuardReply:
    """A connector that Strimzi owns is changed only through its resource, and only if nothing there
    forbids it.
    """
    if not operator_managed:
        return allow("no Kubernetes operator is known to revert it")
    if resource_problem is None:
        return unknown("the resource by which a Kubernetes operator manages this connector")
    return allow_if(resource_problem or "its resource can be changed", if_=not resource_problem)


def unmanaged(
    *, policy: Policy, connect: str, connector: str, operator_managed: bool | None
) -> GuardReply:
    """Without approval only connectors are changed that no other tool reverts; if that cannot be
    detected, the configuration has to say so.
    """
    if operator_managed is False:
        return allow("no Kubernetes operator reverts it")
    if policy.unmanaged(connect, connector):
        return allow("configured as managed by no other tool (unmanaged: true)")
    return unknown("whether Strimzi or GitOps reverts it; set unmanaged: true if neither does")
