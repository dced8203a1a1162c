"""The verb `explain`: all that is known about a connector; serve/documents/explain.py builds it."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlencode

import click
import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import ReadOptions, SourcedDocument, open_document
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.options import (
    output_options,
    read_options,
    take_read_options,
    take_watch_options,
    watch_options,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.unread_clusters import UnreadCluster, find_input_clusters
from offsetwatch.cli.inspect import finding_tables
from offsetwatch.cli.inspect.remediation import (
    RemediationPreview,
    build_preview_documents,
    build_remediation_document,
    preview_remediation,
    print_connector_remediation,
    print_previews,
    read_connector_remediation,
)
from offsetwatch.cli.inspect.status import format_raw_json
from offsetwatch.cli.offsets.offset_store import find_connect
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError, ResponseTimeout
from offsetwatch.model.connectors import find_worst_state, format_state
from offsetwatch.serve.documents import api
from offsetwatch.serve.documents.explain import encode_explain
from offsetwatch.serve.documents.types import (
    DatedOffset,
    ExplainBody,
    ExplainedFlow,
    ExplainedMirrorPartition,
    RouterRow,
    SourcePartition,
)
from offsetwatch.state.snapshot import Snapshot

OK, FINDINGS = 0, 1


@click.command()
@click.argument("connector")
@read_options
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several have one.")
@output_options
@watch_options
def explain(
    connector: str, connect_cluster: str | None, *, output_format: OutputFormat, **how: Any
) -> int:
    """Print everything known about one connector, from the daemon or, if none answers, from the
    clusters. Inputs that could not be read are named. Exit code 1 if something is wrong with it or
    was not read, 7 if nothing could be read.
    """
    run, reading = take_watch_options(how, output_format), take_read_options(how)
    return run(
        partial(explain_connector, reading, connector, connect_cluster, output_format=output_format)
    )


def explain_connector(
    reading: ReadOptions, name: str, cluster: str | None, *, output_format: OutputFormat
) -> int:
    """Print everything known about one connector, and name the inputs that could not be read.

    Raises ConfigError if there is no such connector, or several. Raises ResponseTimeout if it may
    be in what could not be read.
    """
    configure_logging("error", "console")
    ours = None if reading.url is not None else reading.loaded()
    if ours is not None and cluster is not None:
        find_connect(ours, cluster)
    asked = {"connector": name} | ({} if cluster is None else {"connect_cluster": cluster})
    path = f"/api/v1/explain?{urlencode(asked)}"
    with open_document(
        reading, path, partial(_build_explanation, name=name, cluster=cluster)
    ) as answered:
        if not answered.body:
            for cluster_unread in answered.unread:
                output.print_error(cluster_unread.text)
            raise ResponseTimeout(f"connector {name}", "it is not in what could be read")
        found = answered.decode(ExplainBody)
        key = (found["connect_cluster"], found["name"])
        missing = _find_missing_clusters(found, answered)
        config, inspection = answered.config, answered.look
        asked_now: tuple[RemediationPreview, ...] = ()
        if config is not None and inspection is not None:
            asked_now = preview_remediation(config, inspection.snapshot, *key)
    held = None if config is None else read_connector_remediation(config, *key, SystemClock().now())
    named = tuple(f"input {name} " for unread in missing for name in unread.inputs)
    said = [text for text in found["problems"] if not named or not text.startswith(named)]
    problems = [*(unread.text for unread in missing), *said]
    if output_format is not OutputFormat.TABLE:
        more = {
            "remedy": build_remediation_document(held),
            "considered": build_preview_documents(asked_now),
        }
        shown = {**found, "problems": problems, "unread": missing}
        output.print_document(output_format, {**shown, "told_by": answered.by, **more})
    else:
        finding_tables.print_findings(found["findings"], answered.by)
        _print_head(found)
        finding_tables.print_verdicts(found["judgements"], answered.by)
        _print_tables(found)
        print_connector_remediation(held)
        print_previews(asked_now)
        for problem in problems:
            output.print_error(problem)
    loud = any(map(finding_tables.is_loud, found["findings"]))
    return FINDINGS if problems or loud else OK


def _build_explanation(snapshot: Snapshot, *, name: str, cluster: str | None) -> bytes:
    """Return the document; empty if the connector may be in what was not read."""
    try:
        return encode_explain(snapshot, name, cluster)
    except ConfigError:
        if snapshot.ready:
            raise
        return b""


def _find_missing_clusters(found: ExplainBody, answered: SourcedDocument) -> list[UnreadCluster]:
    """Return the unread clusters that the connector depends on."""
    rests_on = {
        cluster
        for each in found["inputs"]
        for cluster in find_input_clusters(each["kind"], each["input"], answered.config)
    }
    down = {f"{each['kind']} {each['input']}" for each in found["inputs"] if not each["up"]}
    return [
        msgspec.structs.replace(
            unread, inputs=tuple(name for name in unread.inputs if name in down)
        )
        for unread in answered.unread
        if (unread.kind, unread.cluster) in rests_on and (down & {*unread.inputs})
    ]


def _print_head(found: ExplainBody) -> None:
    tasks = [task["state"] for task in found["tasks"]]
    state = format_state(find_worst_state(found["state"], tasks))
    head = [("state", state), *((key, found[key]) for key in ("kind", "class", "version"))]
    head.append(
        ("tasks", " ".join(f"{task['task']}:{task['state']}" for task in found["tasks"]) or "none")
    )
    if found["offsets_topic"] is not None:
        head.append(("offsets topic", found["offsets_topic"]))
    flow, group = found["flow"], found["group"]
    if flow is not None:
        head += [
            ("flow", f"{flow['source']}->{flow['target']}"),
            ("upstream cluster", flow["upstream"] or "unknown"),
            ("offset syncs", flow["offset_syncs"] or "none"),
        ]
        head += [("copies", _describe_router(router)) for router in flow["routers"]]
        head += [
            ("copies", f"of {'other topics' if topic == '*' else topic}: {name} (configured)")
            for topic, name in flow.get("copies", {}).items()
        ]
    if group is not None:
        kafka = group["kafka"] or "a Kafka cluster that is not configured"
        head.append(("group", f"{group['group']} on {kafka}"))
        if group.get("lag_unknown"):
            head.append(("lag", f"unknown: {group['lag_unknown']}"))
    output.print_table(f"{found['connect_cluster']}/{found['name']}", ("", ""), head)


def _print_tables(found: ExplainBody) -> None:
    flow, group = found["flow"], found["group"]
    if found["source_partitions"]:
        _print_sources(found["source_partitions"])
        _print_raw_keys(found["source_partitions"])
    if flow is not None and flow["partitions"]:
        _print_flow(flow["partitions"])
    if flow is not None:
        _print_losses(flow)
    if group is not None and group["partitions"]:
        output.print_table(
            "Sink offsets (the next record)",
            ("topic", "partition#", "committed#", "log end#", "lag#", "oldest waits#", "from"),
            (
                (
                    sink_partition["topic"],
                    sink_partition["partition"],
                    sink_partition["committed"],
                    sink_partition["log_end"],
                    sink_partition["lag_records"],
                    output.format_age(sink_partition["lag_seconds"]),
                    sink_partition["from"],
                )
                for sink_partition in group["partitions"]
            ),
        )
    if found["failover"]:
        output.print_table(
            "Failover (where a group would start if it moved to the target now)",
            api.FAILOVER_HEADINGS,
            map(api.format_failover_row, found["failover"]),
        )
    output.print_table(
        "Rests on",
        ("input", "kind", "up", "last read", "last error"),
        (
            (
                explained_input["input"],
                explained_input["kind"],
                explained_input["up"],
                output.format_moment(explained_input["last_success_at"]),
                explained_input["last_error"],
            )
            for explained_input in found["inputs"]
        ),
    )


def _print_sources(rows: list[SourcePartition]) -> None:
    output.print_table(
        "Source offsets",
        ("source partition", "offset", "last commit", "last advance", "kind", "variants#", "from"),
        (
            (
                row.label,
                format_raw_json(row.offset),
                output.format_moment(row.committed_at),
                output.format_moment(row.advanced_at),
                row.dialect,
                row.variants or None,
                row.origin,
            )
            for row in rows
        ),
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


def _print_raw_keys(rows: list[SourcePartition]) -> None:
    """Print the raw keys that tasks look up, where they differ from a HashMap's or are unknown."""
    found: list[tuple[str, str, msgspec.Raw]] = []
    for row in rows:
        if isinstance(row.raw_key, str):
            found.append((row.label, row.raw_key, row.offset))
        elif isinstance(row.raw_keys_unsure, tuple):
            found += ((row.label, one.raw_key, one.offset) for one in row.raw_keys_unsure)
    if found:
        output.print_table(
            "Raw keys (of several for one source partition, its task looks up one)",
            ("source partition", "raw key", "offset"),
            ((label, key, format_raw_json(offset)) for label, key, offset in found),
        )


def _print_flow(rows: list[ExplainedMirrorPartition]) -> None:
    output.print_table(
        "Replication (the last record replicated, and when each number was true)",
        (
            *("topic", "partition#", "committed", "synced", "replicated#", "log end", "lag#"),
            *("oldest waits#", "headroom#"),
        ),
        (
            (
                row["topic"],
                row["partition"],
                _format_dated_offset(row["committed"]),
                _format_dated_offset(row["synced"]),
                # The one that the shown lag belongs to; a newer one waits for the next log end.
                row["replicated"] if row["lag_position"] is None else row["lag_position"],
                _format_dated_offset(row["log_end"]),
                row["lag_records"],
                output.format_age(row["lag_seconds"]),
                _format_headroom(row),
            )
            for row in rows
        ),
    )


def _format_headroom(at: ExplainedMirrorPartition) -> str | None:
    """Return the headroom in records, with the time if retention comes closer."""
    records, seconds = at["headroom_records"], at["headroom_seconds"]
    if records is None:
        return None
    return str(records) if seconds is None else f"{records} ({output.format_age(seconds)})"


def _print_losses(flow: ExplainedFlow) -> None:
    if flow["losses"]:
        output.print_table(
            "Lost (upstream offsets that can no longer be replicated)",
            ("topic", "partition#", "cause", "first#", "last#", "records#", "found"),
            (
                (
                    loss["topic"],
                    loss["partition"],
                    loss["cause"],
                    loss["first"],
                    loss["last"],
                    loss["records"],
                    output.format_moment(loss["at"]),
                )
                for loss in reversed(flow["losses"])
            ),
        )
    if flow["recreations"]:
        output.print_table(
            "Recreated topics",
            ("topic", "times#", "last found", "id before", "id now"),
            (
                (
                    recreation["topic"],
                    recreation["count"],
                    output.format_moment(recreation["at"]),
                    recreation["id_before"] or "not known",
                    recreation["id_after"] or "not known",
                )
                for recreation in flow["recreations"]
            ),
        )


def _format_dated_offset(offset: DatedOffset | None) -> str | None:
    return None if offset is None else f"{offset['offset']} @ {output.format_moment(offset['at'])}"
