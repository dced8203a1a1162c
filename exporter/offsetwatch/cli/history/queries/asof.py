"""The verb `history as-of`: past source offsets as KIP-199 JSON, a PATCH body or a table.

The answer goes to standard output and all notes about it to standard error, so that the output can
be piped into a command that sets offsets. Exit code 1 if anything is missing from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.inspect.rest_answers import read_rest_offsets
from offsetwatch.cli.inspect.status import format_lag_in_units
from offsetwatch.clock import SystemClock
from offsetwatch.decode.dialects import compare_offsets, resolve_dialect
from offsetwatch.decode.java.hash_map import build_connect_key_from_json
from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.errors import ClientError, ConfigError, HistoryError
from offsetwatch.formatting import format_connector_command, format_count, format_extra_installation
from offsetwatch.model.offsets import SourceOffset, Undecodable
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.remedy.engine.requests import build_offset_entry
from offsetwatch.toolbox import connector_facts

OK, MISSING = 0, 1

_NO_PARTITION = "null"  # of a connector without source partitions: REST can neither list nor set it

try:
    from offsetwatch.history.queries import asof
    from offsetwatch.history.queries.source_lag import compute_sample_lag_seconds
except ImportError as exc:  # the extra
    raise HistoryError(format_extra_installation("history")) from exc


def print_as_of(
    config_path: Path,
    moment: str,
    connector: str | None,
    connect_cluster: str | None,
    topic: str | None,
    *,
    diff: bool,
    form: str,
    verbose: bool,
) -> int:
    """Print the offsets on standard output and return the exit code."""
    loaded = config.load(config_path)
    if form == "patch" and connector is None:
        raise ConfigError(("--format patch: a body is for one connector; name it: --connector",))
    query = asof.AsOfQuery(
        at=parse_time(moment, SystemClock().now()),
        connect_cluster=connect_cluster,
        connector=connector,
        topic=topic,
        with_now=diff or form == "patch",
    )
    answer, complete = _read_answer(loaded, query, verbose=verbose)
    if answer is None or not answer.connectors:
        return MISSING
    if diff:
        _print_diff(answer, loaded)
    elif form == "patch":
        output.print_json(_build_only_patch(answer, loaded))
    elif form == "table":
        _print_table(answer)
    else:
        output.print_json(
            {offsets.connector: build_kip199(offsets) for offsets in answer.connectors}
        )
    return OK if complete else MISSING


def build_restoring_patch(
    loaded: config.Config, moment: str, connect_cluster: str, connector: str
) -> bytes | None:
    """Return the PATCH body that restores one connector's offsets of a moment.

    None if the tables do not have all of them; the reason is printed on standard error.
    """
    at = parse_time(moment, SystemClock().now(), "--to")
    query = asof.AsOfQuery(
        at=at, connect_cluster=connect_cluster, connector=connector, with_now=True
    )
    answer, complete = _read_answer(loaded, query)
    if answer is None or not complete or not answer.connectors or _is_unread(answer):
        return None
    return msgspec.json.encode(_build_only_patch(answer, loaded))


def _read_answer(
    loaded: config.Config, query: asof.AsOfQuery, *, verbose: bool = False
) -> tuple[asof.AsOfResult | None, bool]:
    """Return the answer and whether nothing is missing from it; print what limits it."""
    try:
        answer = asof.read_as_of(Path(loaded.history.path), query)
    except asof.UnanswerableQuery as exc:
        output.print_error(str(exc))
        return None, False
    return answer, _explain_answer(answer, verbose=verbose)


def _is_unread(answer: asof.AsOfResult) -> bool:
    return answer.at > max(answer.read_at, answer.newest_at)


def _build_only_patch(
    answer: asof.AsOfResult, loaded: config.Config
) -> dict[str, list[dict[str, msgspec.Raw]]]:
    (only,) = answer.connectors
    return build_patch(only, _read_current_offsets(only, answer.connect_cluster, loaded))


def build_kip199(of: asof.ConnectorOffsets) -> list[dict[str, msgspec.Raw]]:
    """Return the offsets that a task would have received, without those that were removed."""
    return [
        build_offset_entry(
            entry.source_partition, entry.source_offset, _find_raw_key(of.connector, entry)
        )
        for entry in of.then
        if entry.source_offset is not None
    ]


def build_patch(
    of: asof.ConnectorOffsets, now: Mapping[str, str | None]
) -> dict[str, list[dict[str, msgspec.Raw]]]:
    """Return the PATCH body that restores the connector's offsets (KIP-875; it must be stopped).

    A PATCH does not change partitions that it does not name. So a source partition that has an
    offset `now` and had none then is included with null; otherwise it would stay ahead of the
    others.
    """
    # What could not be decoded had some offset, nobody knows which: it is no reason to remove one.
    had = {
        entry.source_partition
        for entry in of.then
        if entry.source_offset is not None or entry.error is not None
    }
    removed = {name: None for name, offset in now.items() if offset is not None and name not in had}
    pairs = [
        build_offset_entry(name, offset)
        for name, offset in sorted({**removed, **_index_offsets(of.then)}.items())
        if name != _NO_PARTITION
    ]
    return {"offsets": pairs}


def _index_offsets(entries: tuple[asof.AsOfOffset, ...]) -> dict[str, str | None]:
    return {
        entry.source_partition: entry.source_offset
        for entry in entries
        if entry.source_offset is not None
    }


def _explain_answer(answer: asof.AsOfResult, *, verbose: bool) -> bool:
    """Print on standard error what limits the answer; return whether nothing is missing from it."""
    if _is_unread(answer):
        output.print_error(
            f"{answer.connect_cluster} was last read at {asof.format_iso(answer.read_at)}, with "
            f"records up to {asof.format_iso(answer.newest_at)}: what was committed after that, "
            f"up to {asof.format_iso(answer.at)}, may not have been read yet"
        )
    for name, reason in answer.unknown:
        output.print_error(f"{name}: {reason}")
    for connector in answer.connectors:
        if any(entry.source_partition == _NO_PARTITION for entry in connector.then):
            output.print_error(
                f"{connector.connector}: has an offset without a source partition; no PATCH sets it"
            )
        _explain_raw_keys(connector)
    undecodable = [
        (connector.connector, entry)
        for connector in answer.connectors
        for entry in connector.then
        if entry.error is not None
    ]
    for name, entry in undecodable:
        output.print_error(
            f"{name}: {entry.source_partition} is left out, its value cannot be decoded: "
            f"{entry.error}"
        )
    for connector in answer.connectors:
        if not _index_offsets(connector.then):
            output.print_error(
                f"{connector.connector}: no offset then, of "
                f"{format_count(len(connector.then), 'source partition')}"
            )
    if verbose:
        for name in answer.files:
            output.print_error(f"opened {name}")
        output.print_error(
            f"opened {format_count(len(answer.files), 'file')}, skipped {answer.files_skipped}"
        )
    return not answer.unknown and not undecodable


def _explain_raw_keys(connector: asof.ConnectorOffsets) -> None:
    """Print which source partitions no PATCH changes, by the raw keys that tasks look up now.

    Without the newest offsets those of then count.
    """
    name = connector.connector
    entries = {entry.source_partition: entry for entry in (*connector.then, *connector.now)}
    keys = [(entry, _find_raw_key(name, entry)) for entry in entries.values()]
    unreachable = [(entry, key) for entry, key in keys if key]
    if not unreachable:
        return
    alter = format_connector_command("offsets alter", name, "--worker-config", "FILE")
    entry, key = unreachable[0]
    of_all = f"{len(unreachable)} of {format_count(len(entries), 'source partition')}"
    if connector.now:
        output.print_error(
            f"{name}: a PATCH over REST has no effect on {of_all}, {entry.source_partition} for "
            f"one: its task looks up the raw key {key}. Set them with `{alter}` while the worker "
            "is stopped"
        )
    else:
        output.print_error(
            f"{name}: {of_all} had raw keys that a PATCH over REST does not write, "
            f"{entry.source_partition} for one: its task looked up {key}. If it still does, set "
            f"them with `{alter}` while the worker is stopped"
        )


def _find_raw_key(connector: str, entry: asof.AsOfOffset) -> str | None:
    """Return the raw key that the task looked up; None if REST looks up the same."""
    lookup_key = build_connect_key_from_json(connector, entry.source_partition)
    return None if entry.raw_key == lookup_key else entry.raw_key.decode()


def _read_current_offsets(
    of: asof.ConnectorOffsets, connect_cluster: str, loaded: config.Config
) -> dict[str, str | None]:
    """Return the offsets that Connect has now; if it does not answer, the newest of the tables."""
    in_tables: dict[str, str | None] = dict(_index_offsets(of.now))
    for connect in loaded.connect:
        if connect.name == connect_cluster and connect.worker_urls:
            try:
                rest_offsets, odd = read_rest_offsets(connect, of.connector)
                if odd is None:
                    return dict(rest_offsets)
                output.print_client_error(
                    odd, "compared with the newest in the tables in their place"
                )
                return in_tables | dict(rest_offsets)
            except ClientError as exc:
                output.print_client_error(exc, "compared with the newest in the tables instead")
    return in_tables


def _print_table(answer: asof.AsOfResult) -> None:
    ends = answer.source_ends
    keys = {
        entry.raw_key: _find_raw_key(connector.connector, entry)
        for connector in answer.connectors
        for entry in connector.then
    }
    own_keys = any(keys.values())
    lag_columns = ("behind its source", "for", "source read") if ends else ()
    output.print_table(
        f"Offsets of {answer.connect_cluster} as of {asof.format_iso(answer.at)}",
        (
            *("connector", "source partition", "offset", "committed", "topic", "partition#"),
            *("record#", *(("raw key",) if own_keys else ()), *lag_columns),
        ),
        (
            (
                connector.connector,
                entry.source_partition,
                entry.source_offset,
                asof.format_iso(entry.committed_at),
                connector.topic,
                entry.kpartition,
                entry.koffset,
                *((keys[entry.raw_key],) if own_keys else ()),
                *(
                    _format_source_lag(ends.get((connector.connector, entry.source_partition)))
                    if ends
                    else ()
                ),
            )
            for connector in answer.connectors
            for entry in connector.then
        ),
    )


def _format_source_lag(
    sample: SourceEndSample | None,
) -> tuple[str | None, str | None, str | None]:
    """Return how far a source partition was behind the end of its source, for how long, and when
    that was read.
    """
    if sample is None:
        return None, None, None
    lag_s = compute_sample_lag_seconds(sample, sample.read_at)
    return format_lag_in_units(sample), output.format_age(lag_s), asof.format_iso(sample.read_at)


def _print_diff(answer: asof.AsOfResult, loaded: config.Config) -> None:
    rows: list[tuple[str, str, str | None, str | None, str]] = []
    for connector in answer.connectors:
        now = _read_current_offsets(connector, answer.connect_cluster, loaded)
        then = _index_offsets(connector.then)
        class_name = _read_class_name(connector.connector, answer.connect_cluster, loaded)
        shapes = {
            entry.source_partition: entry.dialect for entry in (*connector.now, *connector.then)
        }
        for name in sorted({*then, *(name for name, offset in now.items() if offset is not None)}):
            before, after = then.get(name), now.get(name)
            if before != after:
                dialect = resolve_dialect(shapes.get(name, "generic"), class_name)
                change = _describe_change(dialect, before, after)
                rows.append((connector.connector, name, before, after, change))
    title = f"{'Since' if rows else 'Nothing changed since'} {asof.format_iso(answer.at)}"
    output.print_table(title, ("connector", "source partition", "then", "now", "is"), rows)


def _read_class_name(connector: str, connect_cluster: str, loaded: config.Config) -> str:
    """Return the connector's class from Connect; "" if it cannot be asked.

    Without a class the meaning of the offsets is unknown, and only a change is reported.
    """
    for connect in loaded.connect:
        if connect.name == connect_cluster and connect.worker_urls:
            with suppress(ClientError):
                return connector_facts.find_connector(connect, connector).class_name
    return ""


def _describe_change(dialect: str, before: str | None, after: str | None) -> str:
    """Return how the later offset relates to the earlier one, if the connector has an order."""
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return compare_offsets(dialect, _decode_offset(before), _decode_offset(after)).value


def _decode_offset(text: str) -> SourceOffset | None:
    offset = decode_value(text.encode())
    assert not isinstance(offset, Undecodable)  # the text is one that decode made
    return offset
