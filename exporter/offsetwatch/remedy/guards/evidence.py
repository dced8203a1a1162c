"""Guards about the evidence for an action: the failure, its count, and contradicting signals.

guards.evaluate calls each with the facts that its parameters name. The first paragraph of its
docstring is its rule on docs/guards.md.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.formatting import format_count
from offsetwatch.remedy.classify import SKIPPABLE
from offsetwatch.remedy.model.facts import PoisonSignal
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.guard_answer import GuardReply, allow, allow_if, deny, unknown
from offsetwatch.remedy.model.policy import Policy

SILENT_S: Final = 900.0  # of what never fails: a topic without traffic looks the same for a while
SIGNALS_MIN: Final = 3
SIMILAR_FAILURES_MAX: Final = 2  # one other may fail by chance within the same ten minutes
RESTARTS_MAX: Final = 2  # each delivers a batch again; a passing fault is over by the second
RESTART_BACKOFF_S: Final = 300.0
# What came again at the same position comes again: of a record, or of no known kind.
RECURRING_KINDS: Final = frozenset({*SKIPPABLE, "unknown", ""})
HOPELESS_KINDS: Final = frozenset({"config", "auth"})  # a restart reads the same record again


def observed(*, findings: frozenset[str]) -> GuardReply:
    """The daemon itself observes the problem, now: an alert is a hint and never evidence."""
    if not findings:
        return deny("the daemon has no finding for this connector")
    return allow(f"findings: {', '.join(sorted(findings))}")


def repeated(
    *,
    policy: Policy,
    silent: bool,
    failures: int | None,
    failing_s: float | None,
    restarts: int | None,
    frozen_s: float | None,
) -> GuardReply:
    """It failed in the same way at the same position repeatedly, with restarts in between; or it
    never failed and has stood still for a quarter of an hour.
    """
    if silent:
        if frozen_s is None:
            return unknown("for how long it has stood still")
        said = f"it has stood still for {frozen_s:.0f} s; {SILENT_S:.0f} s are required"
        return allow_if(said, if_=frozen_s >= SILENT_S)
    if failures is None or failing_s is None or restarts is None:
        return unknown("how often it failed, for how long, and how often it was restarted")
    often = failures >= policy.failures and restarts >= policy.restarts
    said = (
        f"failed {format_count(failures, 'time')} within {failing_s:.0f} s, restarted "
        f"{format_count(restarts, 'time')}; required are {policy.failures}, "
        f"{policy.failures_span_s:.0f} s and {policy.restarts}"
    )
    return allow_if(said, if_=often and failing_s >= policy.failures_span_s)


def poison_class(*, failure_kind: str) -> GuardReply:
    """A single record can cause this kind of failure."""
    return allow_if(f"the failure is of kind {failure_kind}", if_=failure_kind in SKIPPABLE)


def no_veto(*, veto: str) -> GuardReply:
    """No cause in the chain is a fault outside the record: connections, permissions, resources,
    settings, a registry.
    """
    if veto:
        return deny(f"its causes include one of kind {veto}")
    return allow("none of its causes lies outside of the record")


def identified(*, definitive: frozenset[str], conflicting: frozenset[str]) -> GuardReply:
    """At least one certain method identifies the record, and no method contradicts it."""
    if conflicting:
        return deny(f"{', '.join(sorted(conflicting))} points to another record, or to none")
    if not definitive:
        return deny("no method says for certain which record it is")
    return allow(f"identified by {', '.join(sorted(definitive))}")


def quorum(*, signals: frozenset[PoisonSignal]) -> GuardReply:
    """The position stands still, and at least two other signals indicate poison."""
    said = f"signals: {', '.join(sorted(signals)) or 'none'}; {SIGNALS_MIN} are required"
    if len(signals) >= SIGNALS_MIN and PoisonSignal.FROZEN_OFFSET in signals:
        return allow(said)
    if PoisonSignal.LAG_GROWING in signals:
        return deny(said)
    return deny(f"{said}; the next record that arrives adds one ({PoisonSignal.LAG_GROWING})")


def alone(*, similar: frozenset[ConnectorKey]) -> GuardReply:
    """Fewer than two other connectors of its class, its target or its worker fail within the same
    ten minutes.
    """
    said = f"{len(similar)} similar connectors fail within ten minutes"
    return allow_if(said, if_=len(similar) < SIMILAR_FAILURES_MAX)


def reported_long_enough(*, policy: Policy, now: float, reported_since: float) -> GuardReply:
    """The problem was reported long enough for people to act themselves."""
    reported_s = now - reported_since
    said = f"reported for {reported_s:.0f} s; {policy.alert_before_s:.0f} s are required"
    return allow_if(said, if_=reported_s >= policy.alert_before_s)


def restarts_left(*, now: float, restarted_at: tuple[float, ...]) -> GuardReply:
    """An incident gets at most two restarts, five minutes apart."""
    if not restarted_at:
        return allow("not restarted for this yet")
    since_s = now - max(restarted_at)
    said = (
        f"restarted {format_count(len(restarted_at), 'time')} for this, {since_s:.0f} s ago "
        "for the last time"
    )
    return allow_if(said, if_=len(restarted_at) < RESTARTS_MAX and since_s >= RESTART_BACKOFF_S)


def restart_helps(*, failure_kind: str, veto: str, findings: frozenset[str]) -> GuardReply:
    """The failure may not recur after a restart; failures of settings and permissions would, and so
    would one of a record or of an unknown kind that came again at the same position after each
    restart.
    """
    hopeless = sorted({failure_kind, veto} & HOPELESS_KINDS)
    if hopeless:
        return deny(f"a restart does not help against a failure of kind {hopeless[0]}")
    if "poison_suspected" in findings and {failure_kind, veto} <= RECURRING_KINDS:
        return deny("it failed again at the same position after each restart")
    return allow(f"a failure of kind {failure_kind} may be gone after a restart")


def harmful(*, policy: Policy, findings: frozenset[str]) -> GuardReply:
    """A connector is stopped only for findings that do harm while it runs."""
    stopping = sorted(findings & set(policy.stop_on))
    listed = ", ".join(policy.stop_on) or "nothing"
    return allow_if(f"found: {', '.join(stopping) or 'nothing'} of {listed}", if_=bool(stopping))
