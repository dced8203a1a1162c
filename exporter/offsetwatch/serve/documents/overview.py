"""The document /api/v1/overview: everything that the status page shows at once.

    at, ready, waiting_for   as in /api/v1/connectors
    version, alive     of this daemon: does its main loop run? If not, all of this is of `at`
    inputs             how many there are
    inputs_down        [{input, kind, up, live, last_success_at, last_error}], those whose last
                       attempt failed or whose data is out of date
    connectors         [{connect_cluster, name, kind, state, tasks: {state: how many}, ...}]
    flows              [{connect_cluster, connector, source, target, ...}]
    findings, findings_left_out   as in /api/v1/findings
    remedies           null where remediation does not run, else {at, mode,
                         plans: [{plan_id, sha256, state, connect_cluster, connector, verb, said,
                           created_at, created_by, expires_at, approve: the command | null,
                           steps: [{step, requests}], guards}],
                         refusals: [{at, connect_cluster, connector, action, would, guards,
                           recommend}],
                         untold: how many of these two are not listed}
                       guards: [{number, guard, answer, said, asks}]; `asks`: it only blocks
                       the plan until it is approved
    boards_url         where the Grafana boards are (notify.boards_url), or null

Connectors and flows both have

    worst_state        of the connector and its tasks (model/connect/conditions.py); null if not
                       known
    urgency            of worst_state and verdict: 0 is most urgent
    verdict, rule, reason, since, evidence     null, and [] if there is no judgement yet
    from               `rest` where its offsets are polled over REST, else null
    partitions, position, committed_at, advanced_at, lag_records, lag_seconds
                       of all partitions together (state/totals.py); null is not known

Connectors also have `has_lag`. It is false if the end of what they read cannot be known, so that
lag is not applicable: for MirrorMaker's heartbeat and checkpoint connectors, and for source
connectors whose source is not under `sources`. The others have a lag in seconds and none in
records: /api/v1/connectors has it in the unit of the source.

`position` is text: what the connector has stored for its only partition, cut if it is long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Final

from offsetwatch import documents
from offsetwatch.model.connectors import ConnectorKind, compute_urgency, find_worst_state
from offsetwatch.model.findings import Judgement, Scope
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.model.remediation import OpenPlan, RemediationReported
from offsetwatch.serve.documents.findings import build_finding_rows, count_findings_left_out
from offsetwatch.serve.documents.types import (
    REST,
    ConditionRow,
    DownInput,
    OpenPlanRow,
    OverviewBody,
    OverviewConnector,
    OverviewConnectorHead,
    OverviewFlow,
    RemediesBody,
    TotalsRow,
    VerdictRow,
)
from offsetwatch.state import totals
from offsetwatch.state.snapshot import ConnectorView, InputView, Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey
from offsetwatch.state.totals import NO_PARTITIONS, PartitionTotals

_CLASSES_WITHOUT_LAG: Final = frozenset({"MirrorHeartbeatConnector", "MirrorCheckpointConnector"})
POSITION_CHARS_MAX: Final = 200  # in a table; the row that is opened has all of it


def encode_overview(
    snapshot: Snapshot,
    *,
    version: str,
    alive: bool,
    options: str = "",
    boards_url: str | None = None,
) -> bytes:
    """Return the body of /api/v1/overview. `options` let a command find the daemon."""
    down = [view for view in snapshot.inputs if not (view.up and view.live)]
    body: OverviewBody = {
        "at": Moment(snapshot.at),
        "ready": snapshot.ready,
        "waiting_for": snapshot.waiting_for,
        "version": version,
        "alive": alive,
        "inputs": len(snapshot.inputs),
        "inputs_down": [_build_input(view) for view in down],
        "connectors": _build_connectors(snapshot),
        "flows": _build_flows(snapshot),
        "findings": build_finding_rows(snapshot),
        "findings_left_out": count_findings_left_out(snapshot),
        "remedies": None
        if snapshot.remedies is None
        else _build_remedies(snapshot.remedies, options),
        "boards_url": boards_url,
    }
    return documents.encode(body)


def _build_input(view: InputView) -> DownInput:
    return {
        "input": view.id.input,
        "kind": view.id.kind,
        "up": view.up,
        "live": view.live,
        "last_success_at": moment_of(view.last_success_at),
        "last_error": view.last_error,
    }


def _build_connectors(snapshot: Snapshot) -> list[OverviewConnector]:
    listed, polled = snapshot.index.connectors, snapshot.index.rest_connectors
    known = totals.compute_connector_totals(snapshot)
    with_ends = {key[:2] for key in snapshot.source_names}
    judged = {
        (judgement.connect_cluster, judgement.connector): judgement
        for judgement in snapshot.judgements
        if judgement.scope is Scope.CONNECTOR
    }
    return [
        {
            **_build_connector(key, listed.get(key), has_end=key in with_ends),
            **_build_condition(listed.get(key), judged.get(key)),
            "from": REST if key in polled else None,
            **_build_totals(known.get(key, NO_PARTITIONS)),
        }
        for key in sorted(listed.keys() | known.keys())
    ]


def _build_flows(snapshot: Snapshot) -> list[OverviewFlow]:
    listed, polled = snapshot.index.connectors, snapshot.index.rest_connectors
    known = totals.compute_flow_totals(snapshot)
    judged = {
        (judgement.connect_cluster, judgement.connector, judgement.subject): judgement
        for judgement in snapshot.judgements
        if judgement.scope is Scope.FLOW
    }
    keys = known.keys() | {
        (flow.connect_cluster, flow.connector, flow.source, flow.target)
        for flow in snapshot.topology.flows
    }
    return [
        {
            "connect_cluster": cluster,
            "connector": connector,
            "source": source,
            "target": target,
            **_build_condition(
                listed.get((cluster, connector)),
                judged.get((cluster, connector, f"{source}->{target}")),
            ),
            "from": REST if (cluster, connector) in polled else None,
            **_build_totals(known.get((cluster, connector, source, target), NO_PARTITIONS)),
        }
        for cluster, connector, source, target in sorted(keys)
    ]


def _build_connector(
    key: ConnectorKey, view: ConnectorView | None, *, has_end: bool
) -> OverviewConnectorHead:
    """Build the head of a connector; without a view it has offsets and is not listed.

    REST is not polled for its cluster then, or is down.
    """
    cluster, name = key
    return {
        "connect_cluster": cluster,
        "name": name,
        "kind": ConnectorKind.UNKNOWN if view is None else view.kind,
        "state": None if view is None else view.state,
        "tasks": {} if view is None else dict(Counter(task.state for task in view.tasks)),
        "has_lag": view is None or has_end or _has_lag(view),
    }


def _has_lag(view: ConnectorView) -> bool:
    if view.kind is ConnectorKind.MIRROR:
        return view.class_name.rpartition(".")[2] not in _CLASSES_WITHOUT_LAG
    return view.kind is not ConnectorKind.SOURCE


def _build_condition(view: ConnectorView | None, judgement: Judgement | None) -> ConditionRow:
    state = (
        None if view is None else find_worst_state(view.state, (task.state for task in view.tasks))
    )
    verdict = None if judgement is None else judgement.verdict.value
    return {
        "worst_state": state,
        "urgency": compute_urgency(state, verdict),
        **_build_verdict(judgement),
    }


def _build_verdict(judgement: Judgement | None) -> VerdictRow:
    if judgement is None:
        return {"verdict": None, "rule": None, "reason": None, "since": None, "evidence": ()}
    return {
        "verdict": judgement.verdict,
        "rule": judgement.rule,
        "reason": judgement.reason,
        "since": Moment(judgement.since),
        "evidence": judgement.evidence,
    }


def _build_totals(partition_totals: PartitionTotals) -> TotalsRow:
    position = partition_totals.position
    if position is not None and len(position) > POSITION_CHARS_MAX:
        position = f"{position[:POSITION_CHARS_MAX]}…"
    return {
        "partitions": partition_totals.partitions,
        "position": position,
        "committed_at": moment_of(partition_totals.committed_at),
        "advanced_at": moment_of(partition_totals.advanced_at),
        "lag_records": partition_totals.lag_records,
        "lag_seconds": partition_totals.lag_seconds,
    }


def _build_remedies(remediation_reported: RemediationReported, options: str) -> RemediesBody:
    return {
        "at": Moment(remediation_reported.at),
        "mode": remediation_reported.mode,
        "plans": [_build_plan(open_plan, options) for open_plan in remediation_reported.open_plans],
        "refusals": remediation_reported.refusals,
        "untold": remediation_reported.untold,
    }


def _build_plan(plan: OpenPlan, options: str) -> OpenPlanRow:
    known = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return OpenPlanRow(**known, approve=format_approve_command(plan, options))


def format_approve_command(plan: OpenPlan, options: str) -> str | None:
    """Return the command that approves exactly this plan; None unless it is proposed."""
    if plan.state != "proposed":
        return None
    return f"offsetwatch plan approve {plan.plan_id} --sha256 {plan.sha256} {options}".rstrip()
