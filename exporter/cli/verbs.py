"""What the read verbs do: load the configuration, make one call, print."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from exporter import config
from exporter.cli import output, told
from exporter.cli.edge_once import looked
from exporter.cli.logs import configure
from exporter.cli.remote import own_daemon
from exporter.clients.connect_read import reader_of
from exporter.decode.source_offsets import partition_label
from exporter.errors import ClientError, ConfigError, TimedOut
from exporter.ingest import rest
from exporter.model.connectors import Connector
from exporter.model.findings import FINDINGS_MAX, Scope
from exporter.serve import api, catalog, failover
from exporter.serve.findings import AHEAD, FAILURES
from exporter.serve.origins import origin
from exporter.state.lag import lag_seconds
from exporter.state.rest_fallback import is_done_without
from exporter.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
)

OFFSETS_TIMEOUT_S = 100.0  # Connect itself may take 90 s for this answer
HEALTH_S: Final = 5.0
OK, FINDINGS, UNAUTHORISED, UNREACHABLE = 0, 1, 6, 7


def status(path: Path, *, as_json: bool, timeout_s: float) -> int:
    """Read once, and print what is wrong, then everything that is known; what is not known within
    `timeout_s` is named beside it. Raises TimedOut where nothing is known.
    """
    loaded = config.load(path)
    configure("error", "console")
    with looked(loaded, timeout_s) as seen:
        if not (seen.ready or seen.connectors or seen.source_partitions):
            raise TimedOut("catch-up", "; ".join(seen.waiting_for))
        judged = told.judged(loaded, seen)
        snapshot = judged.snapshot
        problems = _problems(snapshot)
        if as_json:
            output.json_text(
                {
                    **msgspec.structs.asdict(judged.document),
                    "told_by": judged.by,
                    "connectors": msgspec.Raw(api.connectors(snapshot)),
                    "flows": msgspec.Raw(api.flows(snapshot)),
                    "problems": problems,
                }
            )
        else:
            told.print_findings(
                snapshot.findings[:FINDINGS_MAX], judged.by, judged.document.findings_left_out
            )
            _print_status(snapshot)
            for problem in problems:
                output.error(problem)
    return FINDINGS if problems or judged.loud else OK


def _problems(snapshot: Snapshot) -> list[str]:
    """What else is wrong: what a finding says is not said again."""
    said = {(at.name, at.connect_cluster, at.connector) for at in snapshot.findings}
    blind = {at.subject for at in snapshot.findings if at.connector is None}
    found = [f"not known yet: {text}" for text in snapshot.waiting_for]
    found.extend(
        f"input {view.id.kind} {view.id.input} is down: {view.last_error}"
        for view in snapshot.inputs
        if not view.up and not blind & {view.id.input, f"{view.id.kind} {view.id.input}"}
        if not is_done_without(snapshot, view)
    )
    for connector in snapshot.connectors:
        of = (connector.connect_cluster, connector.name)
        if any((name, *of) in said for name in FAILURES):
            continue
        name = f"{connector.connect_cluster}/{connector.name}"
        if connector.state == "failed":
            found.append(f"connector {name} has failed")
        found.extend(
            f"task {name}-{task.number} has failed"
            for task in connector.tasks
            if task.state == "failed"
        )
    found.extend(
        f"{view.connector} {view.topic}-{view.partition} is {view.ahead} records beyond the log end"
        for view in snapshot.mirror_partitions
        if view.ahead
        and not any((name, view.connect_cluster, view.connector) in said for name in AHEAD)
    )
    return found


def _print_status(snapshot: Snapshot) -> None:
    verdicts = told.verdicts(snapshot.judgements)

    def of_connector(cluster: str, name: str) -> str | None:
        return verdicts.get((Scope.CONNECTOR, cluster, name, ""))

    def of_partition(cluster: str, name: str, label: str) -> str | None:
        return verdicts.get((Scope.PARTITION, cluster, name, label))

    output.table(
        "Connectors",
        ("cluster", "connector", "verdict", "kind", "state", "tasks"),
        (
            (
                view.connect_cluster,
                view.name,
                of_connector(view.connect_cluster, view.name),
                view.kind,
                view.state,
                _tasks(view),
            )
            for view in snapshot.connectors
        ),
    )
    output.table(
        "Source offsets",
        ("cluster", "connector", "source partition", "verdict", "offset", "last commit", "from"),
        (
            (
                view.connect_cluster,
                view.connector,
                view.label,
                of_partition(view.connect_cluster, view.connector, view.label),
                None if view.offset is None else view.offset.text,
                output.moment(view.committed_at),
                origin(view),
            )
            for view in snapshot.source_partitions
        ),
    )
    output.table(
        "Replication",
        (
            *("cluster", "connector", "flow", "topic", "partition#", "verdict", "replicated#"),
            *("log end#", "lag#", "oldest waits#"),
        ),
        (
            (
                view.connect_cluster,
                view.connector,
                f"{view.source}->{view.target}",
                view.topic,
                view.partition,
                of_partition(view.connect_cluster, view.connector, _label(view)),
                view.replicated if view.lag_position is None else view.lag_position,
                view.log_end,
                view.lag,
                _waits(view, snapshot.at),
            )
            for view in snapshot.mirror_partitions
        ),
    )
    output.table(
        "Failover",
        ("cluster", *failover.HEADINGS),
        (
            (
                view.connect_cluster,
                *failover.table_row(
                    {"flow": f"{view.source}->{view.target}", **failover.group(view)}
                ),
            )
            for view in snapshot.groups
        ),
    )
    output.table(
        "Sinks",
        (
            *("cluster", "connector", "verdict", "topic", "partition#", "committed#"),
            *("log end#", "lag#", "oldest waits#", "from"),
        ),
        (
            (
                view.connect_cluster,
                view.connector,
                of_connector(view.connect_cluster, view.connector),
                view.topic,
                view.partition,
                view.committed,
                view.log_end,
                view.lag,
                _waits(view, snapshot.at),
                origin(view),
            )
            for view in snapshot.sink_partitions
        ),
    )


def _label(view: MirrorPartitionView) -> str:
    return partition_label(
        {"cluster": view.source, "partition": view.partition, "topic": view.topic}
    )


def _waits(view: MirrorPartitionView | SinkPartitionView, now: float) -> str | None:
    return output.age(lag_seconds(view.behind_since, now, caught_up=view.caught_up))


def _tasks(view: ConnectorView | Connector) -> str:
    return " ".join(f"{task.number}:{task.state}" for task in view.tasks) or "none"


def connectors_status(path: Path, name: str | None, *, as_json: bool) -> int:
    """Print states, with one REST call per Connect cluster. A cluster that cannot be read is named,
    and the others are printed.
    """
    loaded = config.load(path)
    rows: list[tuple[str, Connector]] = []
    unread: dict[str, ClientError] = {}
    asked = [connect for connect in loaded.connect if connect.worker_urls]
    for connect in asked:
        try:
            listed = _listed(connect)
        except ClientError as exc:
            unread[connect.name] = exc
        else:
            rows += ((connect.name, at) for at in listed if name is None or at.name == name)
    if unread and (len(unread) == len(asked) or (name is not None and not rows)):
        first, *others = unread.values()
        for error in others:
            output.error(f"{error.reason}: {error}")
        raise first
    for error in unread.values():
        output.error(f"{error.reason}: {error}")
    if name is not None and not rows:
        raise ConfigError((f"no Connect cluster of {path.name} has a connector {name}",))
    if as_json:
        output.json_text(
            [
                {
                    "connect_cluster": cluster,
                    "name": connector.name,
                    "kind": connector.kind.value,
                    "class": connector.class_name,
                    "version": connector.version,
                    "state": connector.state,
                    "tasks": [
                        {"task": task.number, "state": task.state} for task in connector.tasks
                    ],
                }
                for cluster, connector in rows
            ]
        )
    else:
        output.table(
            "Connectors",
            ("cluster", "connector", "kind", "state", "tasks", "class"),
            (
                (cluster, at.name, at.kind.value, at.state, _tasks(at), at.class_name)
                for cluster, at in rows
            ),
        )
    failed = any("failed" in {at.state, *(task.state for task in at.tasks)} for _, at in rows)
    return FINDINGS if failed or unread else OK


def _listed(connect: config.Connect) -> tuple[Connector, ...]:
    if not connect.worker_urls:
        raise ConfigError((f"Connect cluster {connect.name} has no url to ask",))
    reader = reader_of(connect, connect.poll.timeout_s)
    try:
        return rest.listed(reader)
    finally:
        reader.close()


def rest_offsets(connect: config.Connect, connector: str) -> tuple[tuple[str, str | None], ...]:
    """What Connect would hand to a task now: (source partition, offset or None), both as JSON."""
    reader = reader_of(connect, OFFSETS_TIMEOUT_S)
    try:
        return rest.offsets(reader, connector)
    finally:
        reader.close()


def metrics(*, as_json: bool) -> None:
    """The catalogue: the documentation page is this output."""
    rows = catalog.describe()
    if as_json:
        output.json_text(
            [
                {"name": name, "type": kind, "labels": labels, "help": text}
                for name, kind, labels, text in rows
            ]
        )
    else:
        output.table(
            "Metrics",
            ("metric", "type", "labels", "meaning"),
            ((name, kind, ", ".join(labels), text) for name, kind, labels, text in rows),
        )


def healthcheck(path: Path) -> int:
    """Ask the daemon that this file configures."""
    loaded = config.load(path)
    try:
        answer = own_daemon.get(loaded, "/-/healthy", HEALTH_S)
    except ClientError as exc:
        output.error(f"no daemon answers: {exc}")
        return UNREACHABLE
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        output.error(f"{own_daemon.address(loaded)} does not know us: see own_access")
        return UNAUTHORISED
    if answer.status != HTTPStatus.OK:
        output.error(answer.body.decode(errors="replace").strip())
        return FINDINGS
    return OK
