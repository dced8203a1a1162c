"""The verbs `quarantine list`, `get` and `replay` for records copied before they were skipped.

The content of a record is shown only on request. Tables and JSON go to standard output, all else to
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets import execute
from offsetwatch.clock import SystemClock
from offsetwatch.config import QuarantineConfig
from offsetwatch.errors import (
    AccessDenied,
    AmbiguousOutcome,
    ClientError,
    ConfigError,
    MalformedResponse,
    TargetUnreachable,
)
from offsetwatch.formatting import format_count
from offsetwatch.model.moments import Moment
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.quarantine import stores
from offsetwatch.remedy.drivers.quarantine.replay import (
    PreparedRecordReplay,
    RecordReplayRequest,
    RecordReplayTarget,
    build_replay_target,
    prepare_replay,
    replay_record,
)
from offsetwatch.remedy.drivers.quarantine.stores import (
    CombinedQuarantine,
    build_configured_quarantine,
    build_quarantine,
)
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.model.journal_records import RecordReplayed
from offsetwatch.remedy.model.quarantine import QuarantinedCopy, QuarantinedRecord

OK, WRONG, DENIED, IN_DOUBT, UNAUTHORISED = 0, 1, 3, 5, 6
ID_CHARS_MAX = 12
NAMED_MAX = 20  # of the copies that an id may mean


def _open_store(
    config_path: Path | None, state_dir: Path | None
) -> tuple[CombinedQuarantine, Path]:
    """Open the store of all copies: files under the state directory, and the configured topic."""
    loaded = None if config_path is None else config.load(config_path)
    folder = execute.find_state_folder(state_dir, loaded)
    if loaded is None or loaded.remedy.quarantine.kafka is None:
        execute.require_used_folder(folder)
    if loaded is None:
        return build_quarantine(QuarantineConfig(), {}, folder), folder
    return build_configured_quarantine(loaded, folder), folder


# --- list -----------------------------------------------------------------------------------------


def print_copies(*, output_format: OutputFormat, **where: Path | None) -> int:
    """Print all copies; return the exit code."""
    store, folder = _open_store(**where)
    replays_of = _read_replays(folder)
    rows: list[dict[str, Any]] = []
    failed: ClientError | None = None
    problems: tuple[str, ...] = ()
    try:
        for copy, _found in store.list_copies():
            rows.append(_build_row(copy, replays_of.get(copy.id, ())))
        problems = store.problems()
    except ClientError as exc:
        failed = exc  # after what was found without it
    rows = sorted(_select_newest(rows), key=lambda row: row["at"])
    output.print_result(output_format, rows, lambda: _print_rows(rows, store.name))
    for problem in problems:
        output.print_error(f"{store.name}: {problem}")
    if failed is not None:
        raise failed
    return WRONG if problems or any(row["problem"] for row in rows) else OK


def _select_newest(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every damaged copy, and the newest copy of each record and skip."""
    sound: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["problem"] is not None:
            yield row
        elif row["id"] not in sound or sound[row["id"]]["at"] <= row["at"]:
            sound[row["id"]] = row
    yield from sound.values()


def _read_replays(folder: Path) -> dict[str, tuple[RecordReplayed, ...]]:
    """Return when each record was, or may have been, written back, as the local journal has it."""
    if not (folder / FILE_NAME).exists():
        return {}
    with closing(Journal(folder)) as journal:
        return journal.replays()


def _build_row(copy: QuarantinedCopy, replayed: Sequence[RecordReplayed]) -> dict[str, Any]:
    topic, partition, offset = copy.record
    about = copy.about
    return {
        "id": copy.id,
        "at": Moment(copy.receipt.at),
        "connect_cluster": about.connect_cluster,
        "connector": about.connector,
        "kafka": about.kafka,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "stage": about.stage,
        "exception_class": about.exception_class,
        "size_bytes": copy.size_bytes,
        "sha256": copy.receipt.sha256,
        "where": copy.receipt.where,
        "plan_id": about.plan_id,
        "incident": about.incident,
        "skip_key": about.skip_key,
        "replayed": [{"at": Moment(each.at), "to": each.to, "by": each.by} for each in replayed],
        "problem": copy.problem,
    }


def _print_rows(rows: list[dict[str, Any]], name: str) -> None:
    output.print_table(
        f"Records in quarantine ({name})",
        ("id", "copied", "connector", "record", "reason", "bytes#", "where", "plan", "replayed"),
        (
            (
                row["id"][:ID_CHARS_MAX],
                output.format_moment(row["at"]),
                row["connector"],
                f"{row['kafka']}/{row['topic']}-{row['partition']}@{row['offset']}",
                row["problem"] or _format_reason(row),
                row["size_bytes"],
                row["where"],
                row["plan_id"],
                _format_replays(row["replayed"]),
            )
            if row["problem"] is None or row["skip_key"]
            else (
                "",
                output.format_moment(row["at"]),
                "",
                "",
                row["problem"],
                None,
                row["where"],
                "",
                "",
            )
            for row in rows
        ),
    )


def _format_replays(times: list[dict[str, Any]]) -> str:
    if not times:
        return ""
    often = "once" if len(times) == 1 else f"{len(times)} times"
    return f"{often}, {output.format_moment(times[-1]['at'])}"


def _format_reason(row: dict[str, Any]) -> str:
    simple = (row["exception_class"] or "").rpartition(".")[2]
    return " in ".join(part for part in (simple, row["stage"]) if part)


# --- get ------------------------------------------------------------------------------------------


def _find_copy(store: CombinedQuarantine, prefix: str) -> tuple[QuarantinedCopy, QuarantinedRecord]:
    """Return the copy of this id. Raises ConfigError for none, several or a damaged one."""
    copies: dict[str, tuple[QuarantinedCopy, QuarantinedRecord]] = {}
    damaged: list[QuarantinedCopy] = []
    for copy, record in store.list_copies():
        if not prefix or not copy.id.startswith(prefix):
            continue
        if record is None:
            damaged.append(copy)
        elif copy.id not in copies or copies[copy.id][0].receipt.at <= copy.receipt.at:
            copies[copy.id] = (copy, record)
    if len(copies) > 1:
        meant = ", ".join(sorted(copies)[:NAMED_MAX])
        raise ConfigError((f"{prefix} may be any of {meant}: say more of it",))
    for one in copies.values():
        return one
    if damaged:
        first = damaged[0]
        raise ConfigError((f"{prefix} is damaged: {first.receipt.where}: {first.problem}",))
    raise ConfigError(
        (f"there is no record {prefix} in {store.name}: `offsetwatch quarantine list` lists all",)
    )


def print_copy(
    copy_id: str,
    *,
    to: Path | None,
    raw: bool,
    output_format: OutputFormat,
    **where: Path | None,
) -> int:
    """Print a copy, or write it to a file; return the exit code."""
    if output_format is not OutputFormat.TABLE and (raw or to is not None):
        raise click.UsageError(f"-o {output_format} goes without --raw and --output")
    store, folder = _open_store(**where)
    copy, record = _find_copy(store, copy_id)
    if raw:
        return _write_value(record.record, to)
    if to is not None:
        with _report_file_errors(to):
            stores.write_copy(to, record.record, record.about, copy.receipt.at)
        output.print_error(f"{to}: the whole record, as lines of JSON")
        return OK
    facts = {
        **_build_row(copy, _read_replays(folder).get(copy.id, ())),
        **_describe_record(record.record),
    }
    if output_format is not OutputFormat.TABLE:
        output.print_document(output_format, facts)
    else:
        facts["at"] = output.format_moment(copy.receipt.at)
        output.print_table(f"Record {copy.id}", ("fact", "value"), _list_facts(facts))
    return OK


def _describe_record(record: RawRecord) -> dict[str, Any]:
    """Return lengths and names of a record's parts; None for a part that is null."""
    return {
        "key_bytes": _count_bytes(record.key),
        "value_bytes": _count_bytes(record.value),
        "headers": [{"name": name, "bytes": _count_bytes(value)} for name, value in record.headers],
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        "leader_epoch": record.leader_epoch,
    }


def _count_bytes(part: bytes | None) -> int | None:
    return None if part is None else len(part)


def _list_facts(facts: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in facts.items():
        if name == "headers":
            for header in value:
                length = (
                    "null" if header["bytes"] is None else format_count(header["bytes"], "byte")
                )
                yield "header", f"{header['name']}: {length}"
        elif name == "replayed":
            for each in value:
                yield (
                    "replayed",
                    f"{output.format_moment(each['at'])} to {each['to']} by {each['by']}",
                )
        elif name in {"key_bytes", "value_bytes"}:
            yield (
                name.removesuffix("_bytes"),
                "null" if value is None else format_count(value, "byte"),
            )
        elif name != "problem":
            yield name, value


def _write_value(record: RawRecord, to: Path | None) -> int:
    if record.value is None:
        output.print_error("its value is null: there is nothing to print")
        return WRONG
    if to is None:
        sys.stdout.buffer.write(record.value)
        sys.stdout.buffer.flush()
        return OK
    with _report_file_errors(to):
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(record.value)
    output.print_error(f"{to}: its value, {format_count(len(record.value), 'byte')}")
    return OK


@contextmanager
def _report_file_errors(path: Path) -> Iterator[None]:
    """Raise ConfigError for a file that cannot be created."""
    try:
        yield
    except OSError as exc:
        raise ConfigError((f"--output {path}: {exc.strerror}",)) from exc


# --- replay ---------------------------------------------------------------------------------------


def replay_copy(
    copy_id: str,
    *,
    topic: str | None,
    kafka: str | None,
    timestamp: str,
    again: bool,
    dry_run: bool,
    yes: bool,
    **where: Any,
) -> int:
    """Write a record back to a topic; return the exit code."""
    store, folder = _open_store(**where)
    copy, record = _find_copy(store, copy_id)
    kafka = kafka or record.about.kafka
    clusters = config.load(where["config_path"]).kafka
    if kafka not in clusters:
        raise ConfigError((f"--kafka: no cluster {kafka} (known: {', '.join(clusters)})",))
    target = build_replay_target(kafka, clusters[kafka])
    try:
        prepared = prepare_replay(
            target,
            RecordReplayRequest(record, topic=topic, keep_timestamp=timestamp == "original"),
            SystemClock().now(),
        )
        _print_prepared(copy, prepared)
        if prepared.outgoing is None:
            return DENIED
        before = _read_replays(folder).get(copy.id, ())
        _print_earlier_replays(before)
        if before and not again:
            output.print_error("not written again: say --again if a second record is meant")
            return DENIED
        if dry_run:
            output.print_error("dry run: nothing was written")
            return OK
        if not execute.confirm_by_name(prepared.outgoing.topic, yes=yes, of="topic"):
            return DENIED
        return _write_record(target, prepared, copy, folder)
    except AccessDenied as exc:
        output.print_client_error(exc)
        return UNAUTHORISED


def _print_earlier_replays(times: Sequence[RecordReplayed]) -> None:
    """Print earlier replays.

    Each was recorded before the attempt: after an error the record may have been written or not.
    """
    for each in times:
        when = output.format_moment(each.at)
        output.print_error(
            f"this record was written to {each.to} at {when} by {each.by}, or may have been: look "
            "there first"
        )


def _print_prepared(copy: QuarantinedCopy, prepared: PreparedRecordReplay) -> None:
    outgoing = prepared.outgoing
    topic, partition, offset = copy.record
    facts: list[tuple[str, object]] = [
        ("record", f"{copy.about.kafka}/{topic}-{partition}@{offset}"),
        ("to", prepared.where),
        ("bytes", copy.size_bytes),
    ]
    if outgoing is not None:
        stamp = outgoing.timestamp_ms
        facts.append(("timestamp", "now" if stamp is None else output.format_moment(stamp / 1000)))
        facts.append(("headers", len(outgoing.headers)))
    output.print_table(f"Replay of {copy.id[:ID_CHARS_MAX]}", ("fact", "value"), facts)
    for said in (*prepared.notes, *prepared.problems):
        output.print_error(said)


def _write_record(
    target: RecordReplayTarget, prepared: PreparedRecordReplay, copy: QuarantinedCopy, folder: Path
) -> int:
    # Before it is tried: from here on it may have happened.
    _record_replay(folder, copy, prepared)
    try:
        offset = replay_record(target, prepared)
    except AccessDenied:
        _record_replay(folder, copy, prepared, failed=True)
        raise
    except TargetUnreachable:
        raise
    except (AmbiguousOutcome, MalformedResponse) as exc:
        output.print_client_error(exc, f"inspect {prepared.where} before you try again")
        return IN_DOUBT
    except ClientError as exc:
        _record_replay(folder, copy, prepared, failed=True)
        output.print_client_error(exc, "nothing was written")
        return DENIED
    output.print_error(f"written to {prepared.where}@{offset}, read back, and as it was")
    return OK


def _record_replay(
    folder: Path, copy: QuarantinedCopy, prepared: PreparedRecordReplay, *, failed: bool = False
) -> None:
    author = execute.create_author()
    record = RecordReplayed(
        at=author.at, receipt=copy.id, to=prepared.where, by=author.by, failed=failed
    )
    with closing(Journal(folder)) as journal:
        journal.control(record)
