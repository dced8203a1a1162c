"""The document /api/v1/status: everything that `status` prints, from one snapshot.

If no daemon answers, the verb makes the same document from a snapshot of its own.

    at, ready, waiting_for, findings, judgements    as in /api/v1/findings
    connectors, flows    the documents /api/v1/connectors and /api/v1/flows, of the same snapshot
    unread               [{kind, input, last_success_at, last_error}] inputs that are down, except
                         those that REST replaces
    problems             other problems, in words: what a finding reports is not repeated
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from offsetwatch import documents
from offsetwatch.formatting import format_count
from offsetwatch.model.moments import moment_of
from offsetwatch.serve.documents import api
from offsetwatch.serve.documents.findings import (
    AHEAD_FINDINGS,
    FAILURE_FINDINGS,
    FindingsDocument,
    build_findings_document,
)
from offsetwatch.serve.documents.types import ConnectorsBody, FlowsBody, UnreadInput
from offsetwatch.state.connect.rest_offsets import is_replaced_by_rest
from offsetwatch.state.snapshot import Snapshot


class StatusBody(FindingsDocument, frozen=True, kw_only=True):
    """/api/v1/status: findings, connectors and flows of one snapshot."""

    connectors: ConnectorsBody
    flows: FlowsBody
    unread: tuple[UnreadInput, ...]
    problems: tuple[str, ...]


def encode_status(snapshot: Snapshot) -> bytes:
    """Return the body of /api/v1/status."""
    return documents.encode(
        {
            **msgspec.structs.asdict(build_findings_document(snapshot)),
            "connectors": msgspec.Raw(api.encode_connectors(snapshot)),
            "flows": msgspec.Raw(api.encode_flows(snapshot)),
            "unread": list_unread_inputs(snapshot),
            "problems": tuple(find_problems(snapshot)),
        }
    )


def list_unread_inputs(snapshot: Snapshot) -> tuple[UnreadInput, ...]:
    """Return the inputs that are down, except those that REST replaces."""
    return tuple(
        UnreadInput(view.id.kind, view.id.input, moment_of(view.last_success_at), view.last_error)
        for view in snapshot.inputs
        if not view.up and not is_replaced_by_rest(snapshot, view)
    )


def find_problems(snapshot: Snapshot) -> Iterator[str]:
    """Yield what no finding reports: failed connectors and tasks, positions beyond the log end."""
    said = {
        (finding.name, finding.connect_cluster, finding.connector) for finding in snapshot.findings
    }
    for connector in snapshot.connectors:
        of = (connector.connect_cluster, connector.name)
        if any((name, *of) in said for name in FAILURE_FINDINGS):
            continue
        name = f"{connector.connect_cluster}/{connector.name}"
        if connector.state == "failed":
            yield f"connector {name} has failed"
        for task in connector.tasks:
            if task.state == "failed":
                yield f"task {name}-{task.number} has failed"
    for view in snapshot.mirror_partitions:
        known = any((name, view.connect_cluster, view.connector) in said for name in AHEAD_FINDINGS)
        if view.ahead and not known:
            yield (
                f"{view.connector} {view.topic}-{view.partition} is "
                f"{format_count(view.ahead, 'record')} beyond the log end"
            )
