"""The verb `explain`: all that is known about a connector; serve/documents/explain.py builds it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.config_excerpt import ConfigExcerpt
from offsetwatch.cli.common.document_source import (
    CONNECT,
    ClusterName,
    ReadOptions,
    SourcedDocument,
    UnreadCluster,
    find_input_clusters,
    open_document,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.inspect.status import (
    FAILOVER_COLUMNS,
    format_raw_json,
    format_source_lag,
    is_loud,
    print_findings,
    print_verdicts,
)
from offsetwatch.cli.offsets.store_options import find_connect
from offsetwatch.errors import ConfigError, ResponseTimeout
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import find_worst_state, format_state
from offsetwatch.model.observations import describe_input
from offsetwatch.serve.documents.types import (
    DatedOffset,
    ExplainBody,
    ExplainedFlow,
    ExplainedMirrorPartition,
    RouterRow,
    SourceEndRow,
    SourcePartition,
)

if TYPE_CHECKING:
    from offsetwatch.cli.inspect.explain_remediation import RemediationReport
    from offsetwatch.state.snapshot import Snapshot

OK, FINDINGS = 0, 1


def explain_connector(
    reading: ReadOptions,
    connector: str,
    connect_cluster: str | None,
    *,
    output_format: OutputFormat,
) -> int:
    """Print everything known about one connector, and name the inputs that could not be read.

    Raises ConfigError if there is no such connector, or several. Raises ResponseTimeout if it may
    be in what could not be read.
    """
    if connect_cluster is not None and reading.url is None:
        _check_connect_cluster(reading, connect_cluster)
    query = {"connector": connector, "connect_cluster": connect_cluster}
    named = {name: value for name, value in query.items() if value is not None}
    build = partial(_build_explanation, name=connector, cluster=connect_cluster)
    with open_document(reading, f"/api/v1/explain?{urlencode(named)}", build) as sourced:
        if not sourced.body:
            output.print_error(*(unread.text for unread in sourced.unread))
            raise ResponseTimeout(f"connector {connector}", "it is not in what could be read")
        document = sourced.decode(ExplainBody)
        key = (document["connect_cluster"], document["name"])
        missing = _find_missing_clusters(document, sourced)
        remediation = _read_remediation(sourced, *key)
    inputs = tuple(
        f"{describe_input(kind, name)} "
        for unread in missing
        for kind, _, name in (named.partition(" ") for named in unread.inputs)
    )
    said = [text for text in document["problems"] if not inputs or not text.startswith(inputs)]
    problems = [*(unread.text for unread in missing), *said]
    if output_format is not OutputFormat.TABLE:
        more = {
            "remedy": None if remediation is None else remediation.document,
            "considered": []
            if remediation is None
            else [preview._asdict() for preview in remediation.previews],
        }
        full_document = {**document, "problems": problems, "unread": missing}
        output.print_document(output_format, {**full_document, "told_by": sourced.by, **more})
    else:
        print_findings(document["findings"], sourced.by, complete=not missing)
        _print_head(document)
        print_verdicts(document["judgements"], sourced.by)
        _print_tables(document)
        if remediation is not None:
            remediation.print()
        output.print_error(*problems)
    loud = any(map(is_loud, document["findings"]))
    return FINDINGS if problems or loud else OK


def _check_connect_cluster(reading: ReadOptions, name: str) -> None:
    """Raise ConfigError with the known names if no Connect cluster has this name."""
    excerpt = reading.read_excerpt()
    if excerpt is None or all(connect.name != name for connect in excerpt.connect):
        find_connect(reading.required(), name)


def _build_explanation(snapshot: Snapshot, *, name: str, cluster: str | None) -> bytes:
    """Return the document; empty if the connector may be in what was not read."""
    from offsetwatch.serve.documents.explain import encode_explain  # noqa: PLC0415 - the state too

    try:
        return encode_explain(snapshot, name, cluster)
    except ConfigError:
        if snapshot.ready:
            raise
        return b""


def _read_remediation(
    sourced: SourcedDocument, cluster: str, connector: str
) -> RemediationReport | None:
    """Return what is known of remediation; None without the state of a daemon."""
    config, inspection = sourced.config, sourced.inspection
    if config is None or not Path(config.state_dir).is_dir():
        return None
    from offsetwatch.cli.inspect.explain_remediation import read_remediation  # noqa: PLC0415 - the journal too

    if inspection is None or isinstance(config, ConfigExcerpt):
        return read_remediation(config, cluster, connector)
    from offsetwatch.cli.inspect.remediation_preview import preview_remediation  # noqa: PLC0415 - the guards too

    previews = preview_remediation(config, inspection.snapshot, cluster, connector)
    return read_remediation(config, cluster, connector)._replace(previews=previews)


def _find_missing_clusters(document: ExplainBody, sourced: SourcedDocument) -> list[UnreadCluster]:
    """Return the unread clusters that the connector depends on."""
    needed = {
        ClusterName(CONNECT, document["connect_cluster"]),
        *(
            cluster
            for row in document["inputs"]
            for cluster in find_input_clusters(row["kind"], row["input"], sourced.config)
        ),
    }
    down = {f"{row['kind']} {row['input']}" for row in document["inputs"] if not row["up"]}
    return [
        msgspec.structs.replace(
            unread, inputs=tuple(name for name in unread.inputs if name in down)
        )
        for unread in sourced.unread
        if (unread.kind, unread.cluster) in needed
        and (not unread.inputs or down & {*unread.inputs})
    ]


def _print_head(document: ExplainBody) -> None:
    tasks = [task["state"] for task in document["tasks"]]
    state = format_state(find_worst_state(document["state"], tasks))
    numbered = " ".join(f"{task['task']}:{task['state']}" for task in document["tasks"])
    head = [("state", state), *((key, document[key]) for key in ("kind", "class", "version"))]
    head.append(("tasks", numbered or "none"))
    if document["offsets_topic"] is not None:
        head.append(("offsets topic", document["offsets_topic"]))
    flow, group = document["flow"], document["group"]
    if flow is not None:
        head += [
            ("flow", f"{flow['source']}->{flow['target']}"),
            ("upstream cluster", flow["upstream"] or "unknown"),
            ("offset syncs", flow["offset_syncs"] or "none"),
            *(("copies", _describe_router(router)) for router in flow["routers"]),
            *(
                ("copies", f"of {'other topics' if topic == '*' else topic}: {name} (configured)")
                for topic, name in flow.get("copies", {}).items()
            ),
        ]
    if group is not None:
        kafka = group["kafka"] or "a Kafka cluster that is not configured"
        head.append(("group", f"{group['group']} on {kafka}"))
        if group.get("lag_unknown"):
            head.append(("lag", f"unknown: {group['lag_unknown']}"))
    output.print_table(f"{document['connect_cluster']}/{document['name']}", ("", ""), head)


def _print_tables(document: ExplainBody) -> None:
    flow, group = document["flow"], document["group"]
    if document["source_partitions"]:
        _print_source_offsets(document["source_partitions"])
    if flow is not None:
        _print_flow(flow)
    if group is not None and group["partitions"]:
        output.print_columns(
            "Sink offsets (the next record)",
            group["partitions"],
            {
                "topic": lambda row: row["topic"],
                "partition#": lambda row: row["partition"],
                "committed#": lambda row: row["committed"],
                "log end#": lambda row: row["log_end"],
                "lag#": lambda row: row["lag_records"],
                "oldest waits#": lambda row: output.format_age(row["lag_seconds"]),
                "from": lambda row: row["from"],
            },
        )
    if document["failover"]:
        output.print_columns(
            "Failover (where a group would start if it moved to the target now)",
            document["failover"],
            FAILOVER_COLUMNS,
        )
    output.print_columns(
        "Rests on",
        document["inputs"],
        {
            "input": lambda row: describe_input(row["kind"], row["input"]),
            "up": lambda row: row["up"],
            "last read": lambda row: output.format_moment(row["last_success_at"]),
            "last error": lambda row: row["last_error"],
        },
    )


def _print_source_offsets(rows: list[SourcePartition]) -> None:
    output.print_columns(
        "Source offsets",
        rows,
        {
            "source partition": lambda row: row.label,
            "offset": lambda row: format_raw_json(row.offset),
            "last commit": lambda row: output.format_moment(row.committed_at),
            "last advance": lambda row: output.format_moment(row.advanced_at),
            "kind": lambda row: row.dialect,
            "variants#": lambda row: row.variants or None,
            "from": lambda row: row.origin,
        },
    )
    _print_source_ends(rows)
    _print_raw_keys(rows)


def _print_source_ends(rows: list[SourcePartition]) -> None:
    """Print how far the partitions are behind the ends of their sources, where those are read."""
    ends = [(row.label, row.source_end) for row in rows if isinstance(row.source_end, SourceEndRow)]
    if not ends:
        return
    output.print_table(
        "Source ends (on a database the lag also counts what the connector does not capture)",
        (
            *("source partition", "source", "end", "lag", "waits since#", "caught up"),
            *("connected", "headroom", "read"),
        ),
        (
            (
                label,
                f"{end.kind} {end.source}",
                end.end,
                format_source_lag(end),
                output.format_age(end.lag_seconds),
                end.caught_up,
                end.connected,
                None
                if end.retention_headroom_bytes is None
                else format_count(end.retention_headroom_bytes, "byte"),
                output.format_moment(end.read_at),
            )
            for label, end in ends
        ),
    )


def _print_raw_keys(rows: list[SourcePartition]) -> None:
    """Print the raw keys that tasks look up, where they differ from a HashMap's or are unknown."""
    keys: list[tuple[str, str, msgspec.Raw]] = []
    for row in rows:
        if isinstance(row.raw_key, str):
            keys.append((row.label, row.raw_key, row.offset))
        elif isinstance(row.raw_keys_unsure, tuple):
            keys += ((row.label, one.raw_key, one.offset) for one in row.raw_keys_unsure)
    if keys:
        output.print_table(
            "Raw keys (of several for one source partition, its task looks up one)",
            ("source partition", "raw key", "offset"),
            ((label, key, format_raw_json(offset)) for label, key, offset in keys),
        )


def _describe_router(router: RouterRow) -> str:
    said = f"have other names, which are unknown ({router['class']})"
    if router["regex"] is not None:
        said = f"renamed by {router['class']}: {router['regex']} -> {router['replacement'] or ''}"
    if router.get("conditional"):
        return f"{said}; of some records only, as a predicate decides: unknown"
    topics = router.get("topics")
    if topics is None:
        return said
    return f"{said}; of topics that {'do not match' if router['negated'] else 'match'} {topics}"


def _print_flow(flow: ExplainedFlow) -> None:
    if flow["partitions"]:
        output.print_columns(
            "Replication (the last record replicated, and when each number was true)",
            flow["partitions"],
            {
                "topic": lambda row: row["topic"],
                "partition#": lambda row: row["partition"],
                "committed": lambda row: _format_dated_offset(row["committed"]),
                "synced": lambda row: _format_dated_offset(row["synced"]),
                # The one that the shown lag belongs to; a newer one waits for the next log end.
                "replicated#": lambda row: (
                    row["replicated"] if row["lag_position"] is None else row["lag_position"]
                ),
                "log end": lambda row: _format_dated_offset(row["log_end"]),
                "lag#": lambda row: row["lag_records"],
                "oldest waits#": lambda row: output.format_age(row["lag_seconds"]),
                "headroom#": _format_headroom,
            },
        )
    if flow["losses"]:
        output.print_columns(
            "Lost (upstream offsets that can no longer be replicated)",
            reversed(flow["losses"]),
            {
                "topic": lambda loss: loss["topic"],
                "partition#": lambda loss: loss["partition"],
                "cause": lambda loss: loss["cause"],
                "first#": lambda loss: loss["first"],
                "last#": lambda loss: loss["last"],
                "records#": lambda loss: loss["records"],
                "found": lambda loss: output.format_moment(loss["at"]),
            },
        )
    if flow["recreations"]:
        output.print_columns(
            "Recreated topics",
            flow["recreations"],
            {
                "topic": lambda recreation: recreation["topic"],
                "times#": lambda recreation: recreation["count"],
                "last found": lambda recreation: output.format_moment(recreation["at"]),
                "id before": lambda recreation: recreation["id_before"] or "not known",
                "id now": lambda recreation: recreation["id_after"] or "not known",
            },
        )


def _format_headroom(row: ExplainedMirrorPartition) -> str | None:
    """Return the headroom in records, with the time if retention comes closer."""
    records, seconds = row["headroom_records"], row["headroom_seconds"]
    if records is None:
        return None
    return str(records) if seconds is None else f"{records} ({output.format_age(seconds)})"


def _format_dated_offset(offset: DatedOffset | None) -> str | None:
    return None if offset is None else f"{offset['offset']} @ {output.format_moment(offset['at'])}"
