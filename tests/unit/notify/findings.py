"""Findings and snapshots to tell of."""

from __future__ import annotations

from offsetwatch.model.findings import EvidenceItem, Finding, FindingName, Severity
from offsetwatch.model.observations import CONNECT_REST, InputId
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic, Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, InputView, Snapshot
from tests.changed import replace

NOW = 1_790_000_000.0
REST = InputId(CONNECT_REST, connect_cluster="lab")
LOST = Finding(
    name=FindingName.MM2_RECORDS_LOST,
    severity=Severity.CRITICAL,
    connect_cluster="lab",
    connector="west->east",
    subject="orders-3",
    summary="51 records of orders-3 were deleted upstream before they were replicated.",
    since=NOW - 5.25,
    evidence=(EvidenceItem("lost offsets", "100 to 150"), EvidenceItem("log start", 151, "offset")),
)
STUCK = replace(
    LOST, name=FindingName.SINK_STUCK, severity=Severity.WARNING, connector="files", subject=""
)
ADVISED = replace(
    LOST,
    next_command="offsetwatch explain 'west->east' --connect lab",
    runbook_url="https://runbooks.example/MirrorMaker2RecordsLost.md",
)


def view(input_id: InputId, *, live: bool) -> InputView:
    return InputView(
        id=input_id, up=live, live=live, last_success_at=None, errors=(), last_error=None, tail=None
    )


def snapshot(
    *findings: Finding,
    ready: bool = True,
    unavailable: tuple[InputId, ...] = (),
    awaited: frozenset[InputId] = frozenset(),
) -> Snapshot:
    return replace(
        EMPTY_SNAPSHOT,
        findings=findings,
        ready=ready,
        awaited=awaited,
        inputs=tuple(
            view(input_id, live=input_id not in unavailable) for input_id in {REST, *unavailable}
        ),
        topology=Topology(
            offsets_topics=(OffsetsTopic("lab", KafkaTopic("east", "connect-offsets")),), flows=()
        ),
    )
