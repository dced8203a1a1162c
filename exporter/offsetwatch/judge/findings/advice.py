"""Advice on findings: the command that the operator runs next, and the runbook."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from offsetwatch.formatting import PROGRAM, format_command, format_connector_command
from offsetwatch.model.findings import Finding
from offsetwatch.model.findings import FindingName as Name

DOCTOR: Final = f"{PROGRAM} doctor"
_OFFSET_FINDINGS: Final = frozenset(
    {
        Name.HALF_RESET,
        Name.REMNANT_OFFSETS,
        Name.DUPLICATE_KEYS,
        Name.UNUSABLE_OFFSET,
        Name.STARTS_FROM_SCRATCH,
        Name.REWOUND,
        Name.REST_OFFSETS_DIFFER,
    }
)
_INPUT_FINDINGS: Final = frozenset(
    {
        Name.INPUT_DOWN,
        Name.SOURCE_DOWN,
        Name.INTERNAL_TOPIC_PROBLEM,
        Name.HANGING_TRANSACTION,
        Name.CONNECT_CLUSTER_CHANGED,
        Name.OFFSETS_TOPIC_DOUBTED,
    }
)
_FAILURE_FINDINGS: Final = frozenset({Name.CONNECTOR_FAILED, Name.TASK_FAILED})

# The page under alerts/runbooks: that of the alert rule that fires with the finding.
RUNBOOKS: Final[dict[Name, str]] = {
    Name.CONNECTOR_STALLED: "ConnectorStalled",
    Name.CONNECTOR_SILENT: "ConnectorSilent",
    Name.MM2_STALLED: "ConnectorStalled",
    Name.MM2_SILENT_STALL: "ConnectorSilent",
    Name.REWOUND: "SourceOffsetsRewound",
    Name.REWINDS_AT_ONCE: "SourceOffsetsRewound",
    Name.RECOPY: "MirrorMaker2CopiesAgain",
    Name.MM2_LAG_UNUSUAL: "MirrorMaker2ReplicationLagUnusual",
    Name.SYNCS_WITHOUT_COMMITS: "MirrorMaker2NotCopying",
    Name.UNREPLICATED_PARTITIONS: "MirrorMaker2NotCopying",
    Name.CONNECTOR_FAILED: "ConnectorOrTaskFailed",
    Name.TASK_FAILED: "ConnectorOrTaskFailed",
    Name.POISON_SUSPECTED: "PoisonRecordSuspected",
    Name.RESTART_LOOP: "ConnectorRestartLoop",
    Name.SINK_STUCK: "ConnectorStalled",
    Name.SINK_BELOW_LOG_START: "SinkRecordsLost",
    Name.MM2_RETENTION_NEAR: "MirrorMaker2RetentionNear",
    Name.MM2_RECORDS_LOST: "MirrorMaker2RecordsLost",
    Name.MM2_TOPIC_RECREATED: "MirrorMaker2PositionInvalid",
    Name.MM2_POSITION_AHEAD: "MirrorMaker2PositionInvalid",
    Name.HALF_RESET: "SourceOffsetsSuspect",
    Name.REMNANT_OFFSETS: "SourceOffsetsSuspect",
    Name.DUPLICATE_KEYS: "SourceOffsetsSuspect",
    Name.UNUSABLE_OFFSET: "SourceOffsetsSuspect",
    Name.STARTS_FROM_SCRATCH: "SourceOffsetsSuspect",
    Name.INTERNAL_TOPIC_PROBLEM: "InternalTopicMisconfigured",
    Name.HANGING_TRANSACTION: "InternalTopicEndangered",
    Name.CONNECT_CLUSTER_CHANGED: "ConnectClusterChanged",
    Name.CONNECTOR_STATE_MISSING: "ConnectAnswersContradicted",
    Name.CONNECTOR_NOT_LISTED: "ConnectAnswersContradicted",
    Name.REST_OFFSETS_DIFFER: "ConnectAnswersContradicted",
    Name.REST_STATES_DIFFER: "ConnectAnswersContradicted",
    Name.REST_TASKS_DIFFER: "ConnectAnswersContradicted",
    Name.OFFSETS_TOPIC_DOUBTED: "ConnectAnswersContradicted",
    Name.CHECKPOINTS_STALE: "MirrorMaker2CheckpointsStale",
    Name.SOURCE_BEHIND: "SourceBehind",
    Name.SOURCE_RETENTION_NEAR: "SourceRetentionNear",
    Name.SOURCE_POSITION_LOST: "SourcePositionInvalid",
    Name.SOURCE_POSITION_AHEAD: "SourcePositionInvalid",
    Name.SOURCE_SLOT_INACTIVE: "SourceBehind",
    Name.SOURCE_MISMATCH: "SourcePositionInvalid",
    Name.SOURCE_DOWN: "SourceDown",
    Name.INPUT_DOWN: "OffsetwatchBlind",
    Name.SERIES_DROPPED: "OffsetwatchSeriesDropped",
}


def add_advice(finding: Finding, runbooks_url: str | None, without_rest: frozenset[str]) -> Finding:
    """Return the finding with its next command and its runbook.

    without_rest    the Connect clusters that have no REST API: nothing can be restarted there
    """
    url = None
    if runbooks_url is not None:
        url = f"{runbooks_url.rstrip('/')}/{RUNBOOKS[finding.name]}.md"
    command = build_next_command(finding, has_rest=finding.connect_cluster not in without_rest)
    return replace(finding, next_command=command, runbook_url=url)


def build_next_command(finding: Finding, *, has_rest: bool) -> str:
    """Return a command with every name filled in, quoted for a shell."""
    name, cluster, connector = finding.name, finding.connect_cluster, finding.connector
    if name in _INPUT_FINDINGS:
        return DOCTOR
    if connector is None:
        return f"{PROGRAM} status"
    key = ("--connect", cluster)
    if name in _OFFSET_FINDINGS and has_rest:
        listed = connector.replace("\\", "\\\\").replace(",", "\\,")
        return format_command("offsets", "list", "--connectors", listed, *key)
    if name in _FAILURE_FINDINGS and has_rest:
        return format_connector_command("connectors restart", connector, "--only-failed", *key)
    return format_connector_command("explain", connector, *key)
