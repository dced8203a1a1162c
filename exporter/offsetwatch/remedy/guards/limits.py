"""Guards about how much is done: storms, budgets, breakers, how many at once and how often.

Each is asked by guards.py with the facts it names; the first sentence of its docstring is its law.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.judge.time_words import moment
from offsetwatch.remedy.guards.daemon import APPROVED_TTL_S, PROPOSED_TTL_S
from offsetwatch.remedy.model.fleet_state import Breaker, Skip, Whose
from offsetwatch.remedy.model.guard_answer import Reply, Stage, denies, held, passes, unknown
from offsetwatch.remedy.model.policy import (
    FLEET,
    Policy,
    Storm,
    overdrawn,
    overdrawn_by_all,
    scope_of,
    storm_after,
)

PROGRESS_RECORDS: Final = 1_000  # at most one record in a thousand is ever skipped by itself
RECORDS: Final = 1  # a plan that skips two has to be right twice
TASKS: Final = 8
PARTITIONS: Final = 64


def storm(
    *,
    now: float,
    storm_before: Storm,
    connectors: int,
    unhealthy: frozenset[Whose],
    in_remedy: frozenset[Whose],
) -> Reply:
    """Few connectors are unhealthy at once, those in remediation included, and have been few for a
    quarter of an hour.
    """
    ill = len(unhealthy | in_remedy)
    after = storm_after(storm_before, connectors=connectors, unhealthy=ill, now=now)
    said = f"{ill} of {connectors} connectors are unhealthy or in remediation"
    calm = (
        ""
        if after.calm_since is None
        else f"; fewer than before for {now - after.calm_since:.0f} s"
    )
    return held(f"{said}{calm}", if_=not after.rages)


def blast(*, policy: Policy, connect: str, connector: str, in_remedy: frozenset[Whose]) -> Reply:
    """Only few connectors are in remediation at once, and each with one plan."""
    if (connect, connector) in in_remedy:
        return denies("another plan for this connector is not over")
    here = sum(whose[0] == connect for whose in in_remedy)
    said = (
        f"{here} others in {connect} and {len(in_remedy)} in all are in remediation; at most "
        f"{policy.per_connect} and {policy.total} are allowed, this one included"
    )
    return held(said, if_=here < policy.per_connect and len(in_remedy) < policy.total)


def cool_down(*, policy: Policy, stage: Stage, now: float, remedied_at: tuple[float, ...]) -> Reply:
    """Nothing is done with a connector for a while after a plan for it has ended; the next plan is
    proposed once it can begin within its hour.
    """
    if not remedied_at:
        return passes("no plan has ended here")
    ended_at = max(remedied_at)
    over_at = ended_at + policy.cool_down_s
    said = (
        f"the last plan ended {now - ended_at:.0f} s ago; {policy.cool_down_s:.0f} s are required, "
        f"until {moment(over_at)}"
    )
    ahead_s = PROPOSED_TTL_S - APPROVED_TTL_S if stage is Stage.PLAN else 0.0
    return held(said, if_=now + ahead_s >= over_at)


def budget_connector(
    *,
    policy: Policy,
    now: float,
    connect: str,
    connector: str,
    skips: tuple[Skip, ...],
    in_remedy: frozenset[Whose],
) -> Reply:
    """The records skipped of one connector are limited by hour, day and week."""
    over = overdrawn(policy, skips, in_remedy, (connect, connector), now)
    return passes("within its budgets") if over is None else denies(f"of this connector {over}")


def budget_fleet(
    *, policy: Policy, now: float, skips: tuple[Skip, ...], in_remedy: frozenset[Whose]
) -> Reply:
    """The records skipped of all connectors are limited by hour and day."""
    over = overdrawn_by_all(policy, skips, in_remedy, now)
    return passes("within the budgets of all") if over is None else denies(f"of all {over}")


def one_record(*, records: int) -> Reply:
    """A plan skips one record."""
    return held(f"{records} records are skipped", if_=records == RECORDS)


def progress(
    *,
    connect: str,
    connector: str,
    skips: tuple[Skip, ...],
    records_since_skip: int | None,
) -> Reply:
    """Between two skips a connector delivers a thousand records, or an operator inspects it."""
    if not any(skip.whose == (connect, connector) for skip in skips):
        return passes("nothing was skipped here within a week")
    if records_since_skip is None:
        return unknown("how many records were delivered since the last skip")
    said = f"{records_since_skip} records since the last skip; {PROGRESS_RECORDS} are required"
    return held(said, if_=records_since_skip >= PROGRESS_RECORDS)


def breaker(*, connect: str, connector: str, breakers: tuple[Breaker, ...]) -> Reply:
    """No breaker is open here; only an operator closes one."""
    scopes = {scope_of(connect, connector), FLEET}
    for each in breakers:
        if each.scope in scopes:
            return denies(f"the breaker {each.scope} is open: {each.said}")
    return passes("no breaker is open here")


def proven(*, approved_successes: int) -> Reply:
    """An action without approval must have succeeded here once with an operator's approval."""
    said = f"succeeded {approved_successes} times here with an operator's approval"
    return held(said, if_=approved_successes > 0)


def small(*, tasks: int, partitions: int) -> Reply:
    """A connector that is stopped without approval has at most 8 tasks and 64 partitions."""
    said = f"{tasks} tasks and {partitions} partitions would stand still"
    return held(said, if_=tasks <= TASKS and partitions <= PARTITIONS)
