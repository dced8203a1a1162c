"""The catalogue of the metrics of guarded remediation, a part of catalog.py."""

from __future__ import annotations

from offsetwatch.serve.metrics.metric import CONNECTOR, MetricSpec, counter, gauge

REMEDIATION_METRICS: tuple[MetricSpec, ...] = (
    REMEDIATION_MODE := gauge(
        "remediation_mode",
        ("mode",),
        "State set: 1 for the mode of remediation (observe, propose, auto), 0 for the others.",
    ),
    REMEDIATION_PLANS := gauge(
        "remediation_plans",
        ("state",),
        "Plans of remediation by status: proposed and approved ones wait, a parked one waits for "
        "an operator and holds its connector.",
    ),
    REMEDIATION_ACTIONS := counter(
        "remediation_actions_total",
        (*CONNECTOR, "action", "result"),
        "Plans of remediation that ended, by action and result.",
    ),
    REMEDIATION_BLOCKED := counter(
        "remediation_blocked_total",
        (*CONNECTOR, "action", "guard"),
        "Times that a guard began to deny an action; `offsetwatch explain` says why. Guard "
        "`unexpected`: an exception in an evaluation, which is in the log.",
    ),
    REMEDIATION_STOPPED_SINCE := gauge(
        "remediation_stopped_since_timestamp_seconds",
        CONNECTOR,
        "Unix time since when remediation holds this connector stopped: while it skips a record, "
        "or until an operator acts.",
    ),
    REMEDIATION_HEARTBEAT := gauge(
        "remediation_engine_heartbeat_timestamp_seconds",
        (),
        "Unix time of the newest round of the remediation loop.",
    ),
    REMEDIATION_LEADER := gauge(
        "remediation_leader",
        (),
        "1 on the replica that acts, 0 on those that follow its journal; absent where a daemon "
        "acts alone.",
    ),
    REMEDIATION_JOURNAL_SEQ := gauge(
        "remediation_journal_seq",
        (),
        "The newest record of the shared journal that this replica has; absent where a daemon acts "
        "alone.",
    ),
)
