"""Guards that limit remediation: mass failures, budgets, breakers, concurrency and frequency.

guards.evaluate calls each with the facts that its parameters name. The first paragraph of its
docstring is its rule on docs/guards.md.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.formatting import format_count, format_moment
from offsetwatch.remedy.guards.daemon import APPROVED_TTL_S
from offsetwatch.remedy.model.approval import PROPOSAL_S
from offsetwatch.remedy.model.fleet_state import ConnectorKey, RecordSkip
from offsetwatch.remedy.model.guard_answer import GuardReply, Stage, allow, allow_if, deny, unknown
from offsetwatch.remedy.model.policy import (
    FLEET_SCOPE,
    MassFailure,
    Policy,
    find_exceeded_budget,
    scope_of,
    update_mass_failure,
)
from offsetwatch.remedy.model.service_api import Breaker

PROGRESS_RECORDS: Final = 1_000  # at most one record in a thousand is ever skipped by itself
RECORDS_PER_PLAN: Final = 1  # a second record needs evidence of its own, and so a plan of its own
TASKS_MAX: Final = 8
PARTITIONS_MAX: Final = 64


def mass_failure(
    *,
    now: float,
    mass_failure_before: MassFailure,
    connectors: int,
    unhealthy: frozenset[ConnectorKey],
    in_remedy: frozenset[ConnectorKey],
) -> GuardReply:
    """Few connectors are unhealthy at once, those in remediation included, and have been few for a
    quarter of an hour.
    """
    unhealthy_count = len(unhealthy | in_remedy)
    after = update_mass_failure(
        mass_failure_before, connectors=connectors, unhealthy=unhealthy_count, now=now
    )
    said = (
        f"{unhealthy_count} of {format_count(connectors, 'connector')} unhealthy or in remediation"
    )
    calm = (
        ""
        if after.calm_since is None
        else f"; fewer than before for {now - after.calm_since:.0f} s"
    )
    return allow_if(f"{said}{calm}", if_=not after.rages)


def blast(
    *, policy: Policy, connect: str, connector: str, in_remedy: frozenset[ConnectorKey]
) -> GuardReply:
    """Only few connectors are in remediation at once, and each with one plan."""
    if (connect, connector) in in_remedy:
        return deny("another plan for this connector is not over")
    here = sum(key[0] == connect for key in in_remedy)
    said = (
        f"{format_count(here, 'other')} in {connect} and {len(in_remedy)} in all are in "
        f"remediation; at most {policy.per_connect} and {policy.total} are allowed, this one "
        "included"
    )
    return allow_if(said, if_=here < policy.per_connect and len(in_remedy) < policy.total)


def cool_down(
    *, policy: Policy, stage: Stage, now: float, remedied_at: tuple[float, ...]
) -> GuardReply:
    """Nothing is done with a connector for a while after a plan for it has ended; the next plan is
    proposed once it can begin within its hour.
    """
    if not remedied_at:
        return allow("no plan has ended here")
    ended_at = max(remedied_at)
    over_at = ended_at + policy.cool_down_s
    said = (
        f"the last plan ended {now - ended_at:.0f} s ago; {policy.cool_down_s:.0f} s are required, "
        f"until {format_moment(over_at)}"
    )
    ahead_s = PROPOSAL_S - APPROVED_TTL_S if stage is Stage.PLAN else 0.0
    return allow_if(said, if_=now + ahead_s >= over_at)


def budget_connector(
    *,
    policy: Policy,
    now: float,
    connect: str,
    connector: str,
    skips: tuple[RecordSkip, ...],
    in_remedy: frozenset[ConnectorKey],
) -> GuardReply:
    """The records skipped of one connector are limited by hour, day and week."""
    over = find_exceeded_budget(policy, skips, in_remedy, now, (connect, connector))
    return allow("within its budgets") if over is None else deny(f"of this connector {over}")


def budget_fleet(
    *, policy: Policy, now: float, skips: tuple[RecordSkip, ...], in_remedy: frozenset[ConnectorKey]
) -> GuardReply:
    """The records skipped of all connectors are limited by hour and day."""
    over = find_exceeded_budget(policy, skips, in_remedy, now)
    return allow("within the budgets of all") if over is None else deny(f"of all {over}")


def one_record(*, records: int) -> GuardReply:
    """A plan skips one record."""
    return allow_if(
        f"{format_count(records, 'record is', 'records are')} skipped",
        if_=records == RECORDS_PER_PLAN,
    )


def progress(
    *,
    connect: str,
    connector: str,
    skips: tuple[RecordSkip, ...],
    records_since_skip: int | None,
) -> GuardReply:
    """Between two skips a connector delivers a thousand records, or an operator inspects it."""
    if not any(skip.connector_key == (connect, connector) for skip in skips):
        return allow("nothing was skipped here within a week")
    if records_since_skip is None:
        return unknown("how many records were delivered since the last skip")
    said = (
        f"{format_count(records_since_skip, 'record')} since the last skip; {PROGRESS_RECORDS} "
        "are required"
    )
    return allow_if(said, if_=records_since_skip >= PROGRESS_RECORDS)


def breaker(*, connect: str, connector: str, breakers: tuple[Breaker, ...]) -> GuardReply:
    """No breaker is open here; only an operator closes one."""
    scopes = {scope_of(connect, connector), FLEET_SCOPE}
    for each in breakers:
        if each.scope in scopes:
            return deny(f"the breaker {each.scope} is open: {each.said}")
    return allow("no breaker is open here")


def proven(*, approved_successes: int) -> GuardReply:
    """An action without approval must have succeeded here once with an operator's approval."""
    said = f"succeeded {format_count(approved_successes, 'time')} here with an operator's approval"
    return allow_if(said, if_=approved_successes > 0)


def small(*, tasks: int, partitions: int) -> GuardReply:
    """A connector that is stopped without approval has at most 8 tasks and 64 partitions."""
    said = (
        f"{format_count(tasks, 'task')} and {format_count(partitions, 'partition')} would "
        "stand still"
    )
    return allow_if(said, if_=tasks <= TASKS_MAX and partitions <= PARTITIONS_MAX)
