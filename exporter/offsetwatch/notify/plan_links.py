"""Findings with the proposed plan that an operator may approve for their connector. Pure."""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.model.findings import Finding, ProposedPlan
from offsetwatch.state.snapshot import Snapshot

PROPOSED = "proposed"


def attach_plans(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot, each with the newest proposed plan of its connector."""
    plans: dict[tuple[str, str], ProposedPlan] = {}
    for plan in () if snapshot.remedies is None else snapshot.remedies.open_plans:
        if plan.state == PROPOSED:
            key = (plan.connect_cluster, plan.connector)
            plans.setdefault(key, ProposedPlan(plan.plan_id, plan.verb))
    if not plans:
        return snapshot.findings
    return tuple(
        finding
        if finding.connector is None
        else replace(finding, plan=plans.get((finding.connect_cluster, finding.connector)))
        for finding in snapshot.findings
    )
