"""Checks of `doctor` on sources: their ends, the rights of their users, and their connectors. Pure.

Verdicts are those of diagnosis.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from offsetwatch.cli.inspect.diagnosis import DoctorCheck
from offsetwatch.config.schema.sources import Source, SourceConnectors
from offsetwatch.decode.dialects import is_own_dialect
from offsetwatch.formatting import format_count
from offsetwatch.judge.text_formats import format_names
from offsetwatch.model.connectors import Connector
from offsetwatch.model.source_ends import (
    FileEnd,
    MysqlEnd,
    PostgresqlEnd,
    SourceEnd,
    SourceKind,
    SqlEnd,
)
from offsetwatch.state.snapshot import SourceEndView
from offsetwatch.state.sources.distances import format_wal_position
from offsetwatch.state.sources.source_ends import DIALECTS

_CLASSES: Final = {
    SourceKind.POSTGRESQL: "Debezium's PostgreSQL connector",
    SourceKind.MYSQL: "Debezium's MySQL and MariaDB connectors",
    SourceKind.SQL: "the JDBC source connector",
    SourceKind.FILE: "FileStreamSource",
}


def check_source_end(source: Source, user: str | None, end: SourceEnd) -> Iterator[DoctorCheck]:
    """Check what could be read of a source's end. `user` is the name in its GRANT statements."""
    line = partial(DoctorCheck, f"source {source.name}")
    match end:
        case PostgresqlEnd():
            yield from _check_postgresql(line, user or "USER", end)
        case MysqlEnd():
            yield from _check_mysql(line, user or "USER", end)
        case SqlEnd(columns):
            errors = {query.table: column.error for query, column in columns.items()}
            advice = f"GRANT SELECT ON TABLE to {user or 'its user'}, or give its statement"
            yield from _check_members(line, "table", errors, f"{advice} under columns")
        case FileEnd(files):
            errors = {name: file.error for name, file in files.items()}
            advice = "let this process read it, or set folder"
            yield from _check_members(line, "file", errors, advice)


def _check_postgresql(
    line: partial[DoctorCheck], user: str, end: PostgresqlEnd
) -> Iterator[DoctorCheck]:
    standby = ", replayed by a standby" if end.in_recovery else ""
    yield line(
        "end",
        "ok",
        f"WAL at {format_wal_position(end.wal_end)}{standby}, "
        f"{format_count(len(end.slots), 'logical replication slot')}",
    )
    if end.system_id is None:
        yield line(
            "rights",
            "warn",
            "the system identifier is not visible",
            f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {user}: without it another server "
            "under this address is not noticed",
        )
    active = [slot for slot in end.slots.values() if slot.active]
    hidden = sorted(slot.name for slot in active if slot.sent is None)
    if hidden:
        yield line(
            "rights",
            "warn",
            f"what was sent to {format_names(hidden)} is not visible",
            f"GRANT pg_monitor TO {user}: without it nothing shows that a connector is idle and "
            "not silent",
        )
    elif active:
        yield line(
            "rights",
            "ok",
            f"what was sent to {format_count(len(active), 'active slot')} is visible",
        )
    else:
        yield line("rights", "unknown", "no slot is active, which would show pg_monitor")


def _check_mysql(line: partial[DoctorCheck], user: str, end: MysqlEnd) -> Iterator[DoctorCheck]:
    server = f"{'MariaDB' if end.mariadb else 'MySQL'}, server_id {end.server_id}"
    if end.gtids:
        yield line("end", "ok", f"{server}, GTIDs {_shorten(end.gtids)}")
    elif end.file is not None:
        yield line("end", "ok", f"{server}, {end.file}:{end.position}")
    else:
        advice = "set log_bin=ON and binlog_format=ROW, and see what rights are missing below"
        yield line("end", "fail", f"{server}: no end of its binlog is visible", advice)
    files = "BINLOG MONITOR" if end.mariadb else "REPLICATION CLIENT"
    account = f"'{user}'@'HOST'"
    if end.logs is None:
        yield line(
            "rights",
            "warn",
            "its binlog files are not visible",
            f"GRANT {files} ON *.* TO {account}: without it lag has no bytes, and a purged log is "
            "noticed only when the connector fails",
        )
    if end.readers is None:
        yield line(
            "rights",
            "warn",
            "connections that read the binlog are not visible",
            f"GRANT PROCESS ON *.* TO {account}: without it nothing shows that a connector is idle "
            "and not silent",
        )
    if end.logs is not None and end.readers is not None:
        yield line(
            "rights",
            "ok",
            f"{format_count(len(end.logs), 'binlog file')}, "
            f"{format_count(len(end.readers), 'reader')}",
        )


def _check_members(
    line: partial[DoctorCheck], what: str, errors: Mapping[str, str | None], advice: str
) -> Iterator[DoctorCheck]:
    if not errors:
        yield line("end", "unknown", f"it answers, and no connector reads a {what} of it yet")
        return
    readable = sorted(name for name, error in errors.items() if error is None)
    if readable:
        yield line(
            "end", "ok", f"{what if len(readable) == 1 else f'{what}s'} {format_names(readable)}"
        )
    for name, error in sorted(errors.items()):
        if error is not None:
            yield line(what, "fail", f"{name}: {error}", advice.replace("TABLE", name))


def check_source_connectors(
    source: Source,
    listed: Mapping[str, Collection[Connector]],
    end: SourceEnd | None,
    views: Iterable[SourceEndView],
) -> Iterator[DoctorCheck]:
    """Check the connectors that read a source: `listed` are those of each Connect cluster.

    end      None if it could not be read
    views    partitions against the ends of all sources
    """
    line = partial(DoctorCheck, f"source {source.name}")
    compared = set()
    for view in views:
        if view.source == source.name:
            compared.add((view.connect_cluster, view.connector))
            yield from _check_view(line, view)
    for members in source.connectors:
        connectors = listed.get(members.connect)
        if connectors is None:
            continue  # its cluster has a line of its own
        matching = [connector for connector in connectors if members.allows(connector.name)]
        own = [connector for connector in matching if _is_of_kind(source, connector)]
        yield from _check_matches(line, source, members, matching, own)
        for connector in own:
            if (members.connect, connector.name) not in compared:
                yield from _check_slot(line, connector, end)


def _is_of_kind(source: Source, connector: Connector) -> bool:
    return is_own_dialect(DIALECTS[SourceKind(source.kind)], connector.class_name)


def _check_matches(
    line: partial[DoctorCheck],
    source: Source,
    members: SourceConnectors,
    matching: list[Connector],
    own: list[Connector],
) -> Iterator[DoctorCheck]:
    classes = _CLASSES[SourceKind(source.kind)]
    if not matching:
        advice = "correct include and exclude under connectors, or the name of the Connect cluster"
        yield line("connectors", "warn", f"none of {members.connect} is matched", advice)
        return
    if own:
        names = sorted(connector.name for connector in own)
        yield line("connectors", "ok", f"{format_names(names)} of {members.connect}")
    elif not members.include:
        advice = f"only connectors of {classes} are compared with a source of kind {source.kind}"
        yield line("connectors", "warn", f"none of {members.connect} is of its kind", advice)
    others = [connector for connector in matching if connector not in own]
    for connector in others if members.include else ():
        yield line(
            "connectors",
            "warn",
            f"{connector.name} of {members.connect} is of class {connector.class_name}",
            f"exclude it: a source of kind {source.kind} is for {classes}",
        )


def _check_view(line: partial[DoctorCheck], view: SourceEndView) -> Iterator[DoctorCheck]:
    name = f"{view.connector} of {view.connect_cluster}"
    if view.mismatch is not None:
        advice = "name the server that this connector reads; nothing is compared until then"
        yield line("connectors", "fail", f"{name}: {view.mismatch}", advice)
    if view.lost is not None:
        advice = "its position cannot be resumed: see the finding source_position_lost"
        yield line("connectors", "fail", f"{name}: {view.lost}", advice)
    if view.problem is not None and view.mismatch is None:
        advice = "nothing is compared for this connector until then"
        yield line("connectors", "warn", f"{name}: {view.problem}", advice)


def _check_slot(
    line: partial[DoctorCheck], connector: Connector, end: SourceEnd | None
) -> Iterator[DoctorCheck]:
    settings = connector.database
    if not isinstance(end, PostgresqlEnd) or settings is None or settings.slot is None:
        return
    slot = end.slots.get(settings.slot)
    if slot is None:
        result = f"{connector.name}: this server has no replication slot {settings.slot}"
        advice = "name the server that it reads; a connector that never ran has no slot yet"
        yield line("connectors", "warn", result, advice)
    elif None not in {slot.database, settings.database} and slot.database != settings.database:
        yield line(
            "connectors",
            "fail",
            f"{connector.name}: its slot {slot.name} is of database {slot.database}, and it reads "
            f"{settings.database}",
            "name the server that it reads, or correct slot.name or database.dbname",
        )


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."
