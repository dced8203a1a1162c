"""Results of `status`, `connectors status` and `healthcheck`; tables of findings and verdicts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from offsetwatch import documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import (
    CONNECT,
    ClusterName,
    ReadOptions,
    UnreadCluster,
    collect_unread_clusters,
    open_document,
    read_daemon_document,
)
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.parallel import ask_all
from offsetwatch.decode.source_offsets import format_partition_label
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    NoReadableCluster,
    TargetUnreachable,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import (
    Connector,
    compute_urgency,
    find_worst_state,
    format_condition,
    format_state,
)
from offsetwatch.model.findings import (
    FINDINGS_MAX,
    Evidence,
    FindingName,
    Scope,
    Severity,
    format_item,
)
from offsetwatch.model.moments import Moment
from offsetwatch.model.observations import CONNECT_REST, describe_input
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.serve.documents.findings import FindingRow, FindingsDocument, JudgementRow
from offsetwatch.serve.documents.types import (
    ExplainedJudgement,
    FlowGroupRow,
    GroupRow,
    SourceEndRow,
    UnreadInput,
)
from offsetwatch.toolbox.suggestions import suggest_name

if TYPE_CHECKING:
    from offsetwatch.config import Config
    from offsetwatch.state.snapshot import Snapshot

# Beyond them a person reads nothing in an incident, and drawing thousands of rows takes seconds.
FINDINGS_PRINTED_MAX: Final = 30
ROWS_MAX: Final = 60
NONE_READ: Final = "none in what was read"
HEALTH_S: Final = 5.0
OK, FINDINGS, UNAUTHORISED, UNREACHABLE = 0, 1, 6, 7


NULL: Final = msgspec.Raw(b"null")
_NOT_KNOWN: Final = "not known"


def format_raw_json(raw: msgspec.Raw) -> str | None:
    """Return JSON as it was written; None for null."""
    text = bytes(raw).decode()
    return None if text == "null" else text


def format_source_lag(end: SourceEndRow) -> str | None:
    """Return the lag of a source partition in the unit of its source, or why there is none."""
    if end.snapshot_in_progress:
        return "snapshot in progress"
    return end.mismatch or end.lost or format_lag_in_units(end)


def format_lag_in_units(end: SourceEndRow | SourceEndSample) -> str | None:
    """Return the lag in transactions, rows or bytes, or why there is none; None if not known."""
    if end.problem is not None:
        return end.problem
    for lag, unit in (
        (end.lag_transactions, "transaction"),
        (end.lag_rows, "row"),
        (end.lag_bytes, "byte"),
    ):
        if lag is not None:
            return f"{'' if end.caught_up is not None else 'at most '}{format_count(lag, unit)}"
    return None


class _SourceRow(msgspec.Struct):
    label: str
    offset: msgspec.Raw = NULL
    committed_at: Moment | None = None
    source: str | None = msgspec.field(default=None, name="from")
    source_partition: msgspec.Raw = NULL
    source_end: SourceEndRow | None = None


class _SinkRow(msgspec.Struct):
    topic: str
    partition: int
    committed: int | None = None
    log_end: int | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    source: str | None = msgspec.field(default=None, name="from")


class _TaskRow(msgspec.Struct):
    task: int
    state: str


class ConnectorRow(msgspec.Struct):
    """A connector of /api/v1/connectors, with the fields that are printed."""

    connect_cluster: str
    name: str
    kind: str
    class_name: str | None = msgspec.field(default=None, name="class")
    version: str | None = None
    state: str | None = None
    tasks: tuple[_TaskRow, ...] = ()
    source_partitions: tuple[_SourceRow, ...] = ()
    sink_partitions: tuple[_SinkRow, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The Connect cluster's and the connector's name."""
        return self.connect_cluster, self.name

    @property
    def tasks_in_words(self) -> str:
        """Return number and state of each task."""
        if not self.tasks:
            return _NOT_KNOWN if self.state is None else "none"
        return " ".join(f"{task.task}:{task.state}" for task in self.tasks)

    @property
    def state_in_words(self) -> str:
        """Return the most urgent state for people; a dash would mean that it has none."""
        return format_state(self.worst_state) or _NOT_KNOWN

    @property
    def worst_state(self) -> str | None:
        """Return the most urgent state of the connector and its tasks."""
        return find_worst_state(self.state, (task.state for task in self.tasks))

    @property
    def failed(self) -> bool:
        """Return whether the connector or a task has failed."""
        return self.worst_state == "failed"


class _MirrorRow(msgspec.Struct):
    topic: str
    partition: int
    replicated: int | None = None
    lag_position: int | None = None
    log_end: int | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None


class _FlowRow(msgspec.Struct):
    connect_cluster: str
    connector: str
    source: str
    target: str
    partitions: tuple[_MirrorRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.connect_cluster, self.connector

    @property
    def aliases(self) -> str:
        return f"{self.source}->{self.target}"


class _Connectors(msgspec.Struct):
    connectors: tuple[ConnectorRow, ...] = ()


class _Flows(msgspec.Struct):
    flows: tuple[_FlowRow, ...] = ()


class StatusDocument(FindingsDocument, frozen=True, kw_only=True):
    """The document of /api/v1/status, with the fields that are printed."""

    connectors: _Connectors
    flows: _Flows
    problems: tuple[str, ...] = ()


def _encode_status(snapshot: Snapshot) -> bytes:
    from offsetwatch.serve.documents.status import encode_status  # noqa: PLC0415 - the state too

    return encode_status(snapshot)


def print_status(reading: ReadOptions, *, output_format: OutputFormat) -> int:
    """Print what is wrong, then everything known; name what could not be read.

    Raises ResponseTimeout if nothing could be read.
    """
    with open_document(reading, "/api/v1/status", _encode_status) as document:
        status = document.decode(StatusDocument)
        if output_format is not OutputFormat.TABLE:
            parts = msgspec.json.decode(document.body, type=dict[str, msgspec.Raw])
            output.print_document(
                output_format,
                {
                    **{name: getattr(status, name) for name in FindingsDocument.__struct_fields__},
                    "superseded": (),
                    "told_by": document.by,
                    "connectors": parts["connectors"],
                    "flows": parts["flows"],
                    "problems": [*(cluster.text for cluster in document.unread), *status.problems],
                    "unread": document.unread,
                },
            )
        else:
            complete = not document.unread
            print_findings(
                status.findings, document.by, status.findings_left_out, complete=complete
            )
            _print_tables(status, "none" if complete else NONE_READ)
            output.print_error(*(cluster.text for cluster in document.unread), *status.problems)
        loud = any(map(is_loud, status.findings))
        return FINDINGS if document.unread or status.problems or loud else OK


def _print_tables(status: StatusDocument, empty: str) -> None:
    verdicts = index_verdicts(status.judgements)
    print_rows = partial(_print_most_urgent, empty=empty)

    def verdict_of(connector: ConnectorRow) -> str | None:
        return verdicts.get((Scope.CONNECTOR, *connector.key, ""))

    rows = sorted(
        status.connectors.connectors,
        key=lambda connector: compute_urgency(connector.worst_state, verdict_of(connector)),
    )
    states = {connector.key: connector.worst_state for connector in rows}
    order = {key: index for index, key in enumerate(states)}
    flows = sorted(status.flows.flows, key=lambda flow: order.get(flow.key, len(order)))

    def condition_of(key: tuple[str, str], label: str) -> str | None:
        return format_condition(states.get(key), verdicts.get((Scope.PARTITION, *key, label)))

    def urgency_of(key: tuple[str, str], label: str) -> int:
        return compute_urgency(states.get(key), verdicts.get((Scope.PARTITION, *key, label)))

    def label_of(flow: _FlowRow, partition: _MirrorRow) -> str:
        return format_partition_label(
            {"cluster": flow.source, "partition": partition.partition, "topic": partition.topic}
        )

    print_rows(
        "connector",
        "Connectors",
        ("cluster", "connector", "state", "verdict", "kind", "tasks"),
        (
            (*row.key, row.state_in_words, verdict_of(row), row.kind, row.tasks_in_words)
            for row in rows
        ),
    )
    sources = [
        (row.key, partition)
        for row in rows
        for partition in sorted(
            row.source_partitions, key=lambda item: urgency_of(row.key, item.label)
        )
    ]
    with_ends = any(partition.source_end is not None for _, partition in sources)
    print_rows(
        "source partition",
        "Source offsets",
        (
            *("cluster", "connector", "source partition", "state", "offset"),
            *(("lag", "waits since#") if with_ends else ()),
            *("last commit", "from"),
        ),
        (
            (
                *key,
                partition.label,
                condition_of(key, partition.label),
                format_raw_json(partition.offset),
                *(_format_source_end(partition.source_end) if with_ends else ()),
                output.format_moment(partition.committed_at),
                partition.source,
            )
            for key, partition in sources
        ),
    )
    print_rows(
        "partition",
        "Replication",
        (
            *("cluster", "connector", "flow", "topic", "partition#", "state", "replicated#"),
            *("log end#", "lag#", "oldest waits#"),
        ),
        (
            (
                *flow.key,
                flow.aliases,
                partition.topic,
                partition.partition,
                condition_of(flow.key, label_of(flow, partition)),
                partition.replicated if partition.lag_position is None else partition.lag_position,
                partition.log_end,
                partition.lag_records,
                output.format_age(partition.lag_seconds),
            )
            for flow in flows
            for partition in sorted(
                flow.partitions, key=lambda item: urgency_of(flow.key, label_of(flow, item))
            )
        ),
    )
    print_rows(
        "group",
        "Failover",
        ("cluster", *FAILOVER_COLUMNS),
        (
            (
                flow.connect_cluster,
                *(cell({"flow": flow.aliases, **group}) for cell in FAILOVER_COLUMNS.values()),
            )
            for flow in flows
            for group in flow.groups
        ),
    )
    print_rows(
        "partition",
        "Sinks",
        (
            *("cluster", "connector", "state", "topic", "partition#", "committed#"),
            *("log end#", "lag#", "oldest waits#", "from"),
        ),
        (
            (
                *row.key,
                format_condition(row.worst_state, verdict_of(row)),
                partition.topic,
                partition.partition,
                partition.committed,
                partition.log_end,
                partition.lag_records,
                output.format_age(partition.lag_seconds),
                partition.source,
            )
            for row in rows
            for partition in row.sink_partitions
        ),
    )


FAILOVER_COLUMNS: Final[Mapping[str, Callable[[FlowGroupRow], object]]] = {
    "flow": lambda row: row["flow"],
    "group": lambda row: row["group"],
    "topic": lambda row: row["topic"],
    "partition#": lambda row: row["partition"],
    "upstream#": lambda row: row["upstream"],
    "best#": lambda row: row["best"],
    "starts at#": lambda row: row["start_offset"],
    "by": lambda row: row["start_offset_from"],
    "reads again#": lambda row: row["reread_records"],
    "skips#": lambda row: row["skip_records"],
}


def _format_source_end(end: SourceEndRow | None) -> tuple[str | None, str | None]:
    if end is None:
        return None, None
    return format_source_lag(end), output.format_age(end.lag_seconds)


def _print_most_urgent(
    noun: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
) -> None:
    """Print the first ROWS_MAX rows of a table, which are the most urgent, and count the others."""
    rows = list(rows)
    output.print_table(title, columns, rows[:ROWS_MAX], empty=empty)
    if len(rows) > ROWS_MAX:
        more = format_count(len(rows) - ROWS_MAX, f"more {noun}")
        output.print_lines(f"{more}, none of them more urgent: -o json has all", ())


def print_connectors_status(
    reading: ReadOptions, name: str | None, *, output_format: OutputFormat
) -> int:
    """Print states from the daemon, or from one REST call to each Connect cluster.

    A cluster that cannot be read is named, and the others are printed.
    """
    known, by, missing = _read_states(reading)
    rows = [connector for connector in known if name in {None, connector.name}]
    if name is not None and not rows:
        right = suggest_name(name, (connector.name for connector in known), "known")
        said = f"no connector {name} in any Connect cluster ({right})"
        if missing:
            raise TargetUnreachable(said, "; ".join(cluster.text for cluster in missing))
        raise ConfigError((said,))
    if missing and not rows:
        raise TargetUnreachable("states", "; ".join(cluster.text for cluster in missing))
    output.print_result(
        output_format,
        [
            {
                "connect_cluster": row.connect_cluster,
                "name": row.name,
                "kind": row.kind,
                "class": row.class_name,
                "version": row.version,
                "state": row.state,
                "tasks": row.tasks,
            }
            for row in rows
        ],
        lambda: output.print_table(
            f"Connectors, by {by}",
            ("cluster", "connector", "state", "kind", "tasks", "class"),
            (
                (
                    *row.key,
                    row.state_in_words,
                    row.kind,
                    row.tasks_in_words,
                    row.class_name,
                )
                for row in sorted(rows, key=lambda row: compute_urgency(row.worst_state, None))
            ),
        ),
    )
    output.print_error(*(cluster.text for cluster in missing))
    return FINDINGS if missing or any(row.failed for row in rows) else OK


def _read_states(
    reading: ReadOptions,
) -> tuple[list[ConnectorRow], str, tuple[UnreadCluster, ...]]:
    began = time.monotonic()
    document = read_daemon_document(reading, "/api/v1/status")
    if document is not None:
        rows = [*document.decode(StatusDocument).connectors.connectors]
        return (
            rows,
            document.by,
            tuple(unread for unread in document.unread if unread.kind == CONNECT),
        )
    loaded = reading.required()
    connects = [connect for connect in loaded.connect if connect.worker_urls]
    from offsetwatch.cli.common import own_inspection  # noqa: PLC0415 - clients
    from offsetwatch.cli.inspect.rest_answers import list_connectors  # noqa: PLC0415 - clients

    rows = []
    silent = own_inspection.find_silent_connects(loaded, connects, reading.timeout_s)
    failed: dict[str, ClientError] = {
        cluster.name: TargetUnreachable(cluster.name, why) for cluster, why in silent.items()
    }
    requests = [
        (connect.name, partial(list_connectors, connect))
        for connect in connects
        if connect.name not in failed
    ]
    for cluster, answered in ask_all(requests, reading.timeout_s):
        if isinstance(answered, ClientError):
            failed[cluster] = answered
        else:
            rows += (_build_connector_row(cluster, connector) for connector in answered)
    recalled = own_inspection.recall_offsets_topics(loaded)
    origins = {
        connect.name: own_inspection.describe_topic_origin(connect, recalled)
        for connect in connects
    }
    inputs = (
        UnreadInput(CONNECT_REST, name, None, str(exc))
        for name, exc in failed.items()
        if ClusterName(CONNECT, name) not in silent
    )
    missing = collect_unread_clusters(
        inputs,
        (),
        config=loaded,
        silent={cluster: f"{why}{origins[cluster.name]}" for cluster, why in silent.items()},
    )
    replaced = [
        connect
        for connect in connects
        if ClusterName(CONNECT, connect.name) in silent
        and connect.kafka is not None
        and (connect.offsets_topic is not None or connect.name in recalled)
    ]
    by = ["Connect itself, just now"] if len(failed) < len(connects) else []
    if replaced:
        remaining_s = max(1.0, reading.timeout_s - (time.monotonic() - began))
        rows += _read_last_states(loaded.model_copy(update={"connect": replaced}), remaining_s)
        names = ", ".join(connect.name for connect in replaced)
        by.append(f"the status topic of {names}, which has the last states")
    if len(failed) == len(connects) > 0 and not rows:
        denied = (error for error in failed.values() if isinstance(error, AccessDenied))
        doctor = add_config_option("offsetwatch doctor")
        raise next(denied, NoReadableCluster((cluster.text for cluster in missing), doctor))
    return rows, "; ".join(by), missing


def _read_last_states(loaded: Config, timeout_s: float) -> tuple[ConnectorRow, ...]:
    """Return the states that workers which do not answer wrote last."""
    from offsetwatch.cli.common.own_inspection import inspect_clusters  # noqa: PLC0415 - the clients

    with inspect_clusters(loaded, timeout_s) as inspection:
        body = _encode_status(inspection.snapshot)
    return documents.decode(body, StatusDocument).connectors.connectors


def _build_connector_row(cluster: str, connector: Connector) -> ConnectorRow:
    return ConnectorRow(
        connect_cluster=cluster,
        name=connector.name,
        kind=connector.kind.value,
        class_name=connector.class_name,
        version=connector.version,
        state=connector.state,
        tasks=tuple(_TaskRow(task.number, task.state) for task in connector.tasks),
    )


def check_health(config_path: Path) -> int:
    """Print why the local daemon is not healthy; return the exit code."""
    from offsetwatch.cli.remote.read_client import find_daemon_address, request_document  # noqa: PLC0415 - the schema
    from offsetwatch.config import load  # noqa: PLC0415 - the schema

    loaded = load(config_path)
    try:
        answer = request_document(loaded, "/-/healthy", HEALTH_S)
    except ClientError as exc:
        output.print_error(f"no daemon answers: {exc}")
        return UNREACHABLE
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        output.print_error(
            f"{find_daemon_address(loaded)} denies access: set own_access to credentials that its "
            "web_config_file accepts (docs/web-config.md)"
        )
        return UNAUTHORISED
    if answer.status != HTTPStatus.OK:
        output.print_error(answer.body.decode(errors="replace").strip())
        return FINDINGS
    return OK


# --- findings and verdicts -----------------------------------------------------------------------

_QUIET_SEVERITIES: Final = frozenset({Severity.INFO})


def is_loud(finding: FindingRow) -> bool:
    """Return whether the finding makes the exit code 1; an unknown severity does."""
    return finding.severity not in _QUIET_SEVERITIES


def print_findings(
    findings: Sequence[FindingRow], by: str, left_out: int = 0, *, complete: bool
) -> None:
    """Print the findings, the worst first, each with its evidence and the next command to run.

    complete   whether everything that these findings depend on was read
    """
    counts = Counter(str(finding.severity) for finding in findings)
    counted = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    nothing = f"Nothing is found wrong{'' if complete else ' in what was read'}"
    output.print_lines(f"{f'Findings ({counted})' if findings else nothing}, by {by}", ())
    for finding in findings[:FINDINGS_PRINTED_MAX]:
        since = output.format_moment(finding.since)
        details = [f"{_format_subject(finding)}: {finding.name} since {since}"]
        if finding.next_command:
            details.append(f"next: {add_config_option(finding.next_command)}")
        if finding.evidence:
            details.append(format_evidence(finding.evidence))
        output.print_entry(str(finding.severity), finding.summary, details)
    folded = len(findings) - FINDINGS_PRINTED_MAX
    if folded > 0:
        more = format_count(folded, "more finding")
        output.print_lines(f"{more}, none of them more severe: -o json has them", ())
    if left_out:
        output.print_error(
            f"{format_count(left_out, 'more finding is', 'more findings are')} not listed, none of "
            f"them more severe: a document lists {FINDINGS_MAX}; offsetwatch_findings counts all"
        )


def format_evidence(evidence: Evidence) -> str:
    """Return the evidence in one line."""
    return "; ".join(map(format_item, evidence))


def print_verdicts(judgements: Sequence[ExplainedJudgement], by: str) -> None:
    """Print the verdicts of one connector, with the rule and the evidence of each."""
    output.print_columns(
        f"Verdicts, by {by}",
        judgements,
        {
            "of": lambda judgement: judgement.subject or judgement.scope,
            "verdict": lambda judgement: judgement.verdict,
            "since": lambda judgement: output.format_moment(judgement.since),
            "rule#": lambda judgement: judgement.rule or None,
            "why": lambda judgement: judgement.reason,
            "evidence": lambda judgement: format_evidence(judgement.evidence),
        },
    )
    rules = {judgement.rule: judgement.rule_text for judgement in judgements if judgement.rule_text}
    output.print_table("Rules", ("",), ((text,) for _, text in sorted(rules.items())))


def index_verdicts(judgements: tuple[JudgementRow, ...]) -> dict[tuple[str, str, str, str], str]:
    """Return the verdicts by (scope, Connect cluster, connector, subject), for a table's column."""
    return {
        (
            judgement.scope,
            judgement.connect_cluster,
            judgement.connector,
            judgement.subject,
        ): judgement.verdict
        for judgement in judgements
    }


def _format_subject(finding: FindingRow) -> str:
    name = finding.connect_cluster
    if finding.connector is not None:
        name = f"{name}/{finding.connector}"
    subject = finding.subject
    if finding.name == FindingName.INPUT_DOWN:
        kind, _, input_name = subject.partition(" ")
        subject = describe_input(kind, input_name)
    return f"{name} {subject}".strip()
