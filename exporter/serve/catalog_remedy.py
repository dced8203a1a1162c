"""The part of the metric catalogue that tells of guarded remediation. Read by catalog.py alone."""

from __future__ import annotations

from exporter.serve.spec import CONNECTOR, Spec, counter, gauge

REMEDY: tuple[Spec, ...] = (
    REMEDIATION_MODE := gauge(
        "remediation_mode",
        ("mode",),
        "1 for how far remediation goes by itself, 0 for the others: observe, propose, auto.",
    ),
    REMEDIATION_PLANS := gauge(
        "remediation_plans",
        ("state",),
        "Plans of remediation by how they stand: proposed and approved ones wait, a parked one "
        "waits for a person and holds its connector.",
    ),
    REMEDIATION_ACTIONS := counter(
        "remediation_actions_total",
        (*CONNECTOR, "action", "result"),
        "Plans of remediation that came to an end, by action and by how they ended.",
    ),
    REMEDIATION_BLOCKED := counter(
        "remediation_blocked_total",
        (*CONNECTOR, "action", "guard"),
        "How often a guard began to stand against an action; `offsetwatch explain` says why. Guard "
        "`unexpected`: an exception kept an answer from being found, and is in the log.",
    ),
    REMEDIATION_STOPPED_SINCE := gauge(
        "remediation_stopped_since_timestamp_seconds",
        CONNECTOR,
        "Unix time since when remediation holds this connector stopped: while it skips a record, "
        "or until a person acts.",
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
