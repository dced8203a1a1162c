"""`explain`: everything known of one connector in one answer (serve.explain makes it)."""

from __future__ import annotations

import difflib
from pathlib import Path

from exporter import config
from exporter.cli import output, told
from exporter.cli.considered import as_documents, considered, print_considered
from exporter.cli.edge_once import looked
from exporter.cli.logs import configure
from exporter.cli.remedied import as_document, print_remedied, remedied
from exporter.clock import SystemClock
from exporter.errors import ConfigError, TimedOut
from exporter.model.connectors import ConnectorKind
from exporter.serve import failover
from exporter.serve.explain import Document, document
from exporter.state.snapshot import ConnectorView, Snapshot

OK, FINDINGS = 0, 1
_LOSS = ("topic", "partition", "cause", "first", "last", "records")


def explain(path: Path, name: str, cluster: str | None, *, as_json: bool, timeout_s: float) -> int:
    """Read once and print; what is not known within `timeout_s` is named beside it. Raises
    ConfigError if there is no such connector, or several, and TimedOut where none is known yet.
    """
    loaded = config.load(path)
    configure("error", "console")
    with looked(loaded, timeout_s) as snapshot:
        if not (snapshot.ready or snapshot.connectors or snapshot.source_partitions):
            raise TimedOut("catch-up", "; ".join(snapshot.waiting_for))
        view = find(snapshot, name, cluster)
        judged = told.judged(loaded, snapshot)
        found = document(judged.snapshot, view)
        found["problems"] += [f"not known yet: {text}" for text in snapshot.waiting_for]
        asked = considered(loaded, judged.snapshot, view.connect_cluster, view.name)
    held = remedied(loaded, view.connect_cluster, view.name, SystemClock().now())
    judgements, findings = told.of_connector(judged.snapshot, view.connect_cluster, view.name)
    if as_json:
        more = {"remedy": as_document(held), "considered": as_documents(asked)}
        output.json_text({**found, "told_by": judged.by, **more})
    else:
        told.print_findings(findings, judged.by, judged.document.findings_left_out)
        told.print_verdicts(judgements, judged.by)
        _print(found)
        print_remedied(held)
        print_considered(asked)
        for problem in found["problems"]:
            output.error(problem)
    loud = any(at.severity in told.LOUD for at in findings)
    return FINDINGS if found["problems"] or loud else OK


def _known(snapshot: Snapshot) -> list[ConnectorView]:
    """Listed connectors, then those known by their offsets or by a configured flow alone."""
    found = {(view.connect_cluster, view.name): view for view in snapshot.connectors}
    unlisted = [(at.connect_cluster, at.connector) for at in snapshot.source_partitions]
    unlisted += [(at.connect_cluster, at.connector) for at in snapshot.topology.flows]
    for cluster, name in unlisted:
        found.setdefault(
            (cluster, name),
            ConnectorView(
                connect_cluster=cluster,
                name=name,
                kind=ConnectorKind.UNKNOWN,
                class_name="",
                version="",
                state="unknown",
                tasks=(),
            ),
        )
    return list(found.values())


def find(snapshot: Snapshot, name: str, cluster: str | None) -> ConnectorView:
    """The one connector of this name. Raises ConfigError with what to say instead."""
    listed = [view for view in _known(snapshot) if cluster in {None, view.connect_cluster}]
    matches = [view for view in listed if view.name == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        clusters = ", ".join(view.connect_cluster for view in matches)
        raise ConfigError((f"several Connect clusters have a {name} ({clusters}): say --connect",))
    where = "any Connect cluster" if cluster is None else f"Connect cluster {cluster}"
    near = difflib.get_close_matches(name, [view.name for view in listed], n=1)
    hint = f', did you mean "{near[0]}"?' if near else ""
    raise ConfigError((f"no connector {name} in {where}{hint}",))


def _print(found: Document) -> None:
    head = [(key, found[key]) for key in ("kind", "class", "version", "state")]
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
        head += [("copies", _renamed(router)) for router in flow["routers"]]
    if group is not None:
        head.append(("group", f"{group['group']} on {group['kafka'] or 'an unknown cluster'}"))
    output.table(f"{found['connect_cluster']}/{found['name']}", ("", ""), head)
    if found["source_partitions"]:
        _print_sources(found["source_partitions"])
        _print_raw_keys(found["source_partitions"])
    if flow is not None and flow["partitions"]:
        _print_flow(flow["partitions"])
    if flow is not None:
        _print_fates(flow)
    if group is not None and group["partitions"]:
        output.table(
            "Sink offsets (the next record)",
            ("topic", "partition#", "committed#", "log end#", "lag#", "oldest waits#", "from"),
            (
                (
                    at["topic"],
                    at["partition"],
                    at["committed"],
                    at["log_end"],
                    at["lag_records"],
                    output.age(at["lag_seconds"]),
                    at["from"],
                )
                for at in group["partitions"]
            ),
        )
    if found["failover"]:
        output.table(
            "Failover (what a group would meet if it moved to the target now)",
            failover.HEADINGS,
            map(failover.table_row, found["failover"]),
        )
    output.table(
        "Rests on",
        ("input", "kind", "up", "last read", "last error"),
        (
            (
                at["input"],
                at["kind"],
                at["up"],
                output.moment(at["last_success_at"]),
                at["last_error"],
            )
            for at in found["inputs"]
        ),
    )


def _print_sources(rows: list[Document]) -> None:
    output.table(
        "Source offsets",
        ("source partition", "offset", "last commit", "last advance", "kind", "variants#", "from"),
        (
            (
                at["label"],
                None if at["offset"] is None else bytes(at["offset"]).decode(),
                output.moment(at["committed_at"]),
                output.moment(at["advanced_at"]),
                at["dialect"],
                at["variants"] or None,
                at["from"],
            )
            for at in rows
        ),
    )


def _renamed(router: Document) -> str:
    if router["regex"] is None:
        return f"have other names, which cannot be told ({router['class']})"
    return f"renamed by {router['class']}: {router['regex']} -> {router['replacement'] or ''}"


def _print_raw_keys(rows: list[Document]) -> None:
    """Print what a task looks up where that is not the key of a HashMap, or not known."""
    found = [
        (at["label"], key, offset)
        for at in rows
        for key, offset in (
            [(at["raw_key"], at["offset"])]
            if at.get("raw_key") is not None
            else [(one["raw_key"], one["offset"]) for one in at.get("raw_keys_unsure", ())]
        )
    ]
    if found:
        output.table(
            "Raw keys (of several for one source partition, its task looks up one)",
            ("source partition", "raw key", "offset"),
            (
                (label, key, None if offset is None else bytes(offset).decode())
                for label, key, offset in found
            ),
        )


def _print_flow(rows: list[Document]) -> None:
    output.table(
        "Replication (the last record replicated, and when each number was true)",
        (
            *("topic", "partition#", "committed", "synced", "replicated#", "log end", "lag#"),
            *("oldest waits#", "headroom#"),
        ),
        (
            (
                at["topic"],
                at["partition"],
                _timed(at["committed"]),
                _timed(at["synced"]),
                # The one that the shown lag belongs to; a newer one waits for the next log end.
                at["replicated"] if at["lag_position"] is None else at["lag_position"],
                _timed(at["log_end"]),
                at["lag_records"],
                output.age(at["lag_seconds"]),
                _headroom(at),
            )
            for at in rows
        ),
    )


def _headroom(at: Document) -> str | None:
    """In records, and in time where retention comes closer."""
    records, seconds = at["headroom_records"], at["headroom_seconds"]
    if records is None:
        return None
    return str(records) if seconds is None else f"{records} ({output.age(seconds)})"


def _print_fates(flow: Document) -> None:
    if flow["losses"]:
        output.table(
            "Lost (upstream offsets that can no longer be replicated)",
            ("topic", "partition#", "cause", "first#", "last#", "records#", "found"),
            (
                (*(at[name] for name in _LOSS), output.moment(at["at"]))
                for at in reversed(flow["losses"])
            ),
        )
    if flow["recreations"]:
        output.table(
            "Topics made anew",
            ("topic", "times#", "last found", "id before", "id now"),
            (
                (
                    at["topic"],
                    at["count"],
                    output.moment(at["at"]),
                    at["id_before"] or "not known",
                    at["id_after"] or "not known",
                )
                for at in flow["recreations"]
            ),
        )


def _timed(told: Document | None) -> str | None:
    return None if told is None else f"{told['offset']} @ {output.moment(told['at'])}"
