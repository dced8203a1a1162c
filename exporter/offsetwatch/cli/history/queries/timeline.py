"""The verb `history timeline`: events of one connector, as a table or as JSON.

Events go to standard output, and what is missing from them to standard error. Exit code 1 if
nothing is known of the connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.offsets.execute import find_state_folder
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.formatting import format_extra_installation
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal, JournalEntry
from offsetwatch.remedy.model.journal_records import (
    AbortRequested,
    ActionRefused,
    IncidentDetected,
    IncidentEnded,
    PlanApproved,
    PlanEnded,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    RollbackStarted,
)
from offsetwatch.remedy.views.plan_text import describe_past_record, describe_refusal

OK, UNKNOWN = 0, 1

# What a person who asks what happened wants of a plan; the rest is in `plan show`.
_TIMELINE_RECORDS = (
    AbortRequested
    | PlanApproved
    | PlanEnded
    | IncidentEnded
    | IncidentDetected
    | PlanLapsed
    | PlanOpened
    | PlanParked
    | PlanProposed
    | ActionRefused
    | PlanRejected
    | RollbackStarted
)

try:
    from offsetwatch.history.queries.asof import UnanswerableQuery
    from offsetwatch.history.queries.connector_events import (
        ConnectorEventKind,
        Event,
        Origin,
        merge_events,
    )
    from offsetwatch.history.queries.timeline import TimelineQuery, read_timeline
except ImportError as exc:  # the extra
    raise HistoryError(format_extra_installation("history")) from exc


def print_timeline(
    config_path: Path,
    connector: str,
    connect_cluster: str | None,
    since: str,
    until: str | None,
    *,
    output_format: OutputFormat,
) -> int:
    """Print the events on standard output and return the exit code."""
    loaded = config.load(config_path)
    now = SystemClock().now()
    begin = parse_time(since, now, "--since")
    end = now if until is None else parse_time(until, now, "--until")
    if begin > end:
        raise ConfigError((f"--since {since}: is after the end",))
    query = TimelineQuery(connector, connect_cluster, begin, end)
    try:
        timeline = read_timeline(Path(loaded.history.path), query)
    except UnanswerableQuery as exc:
        output.print_error(str(exc))
        return UNKNOWN
    journal = _read_journal_events(find_state_folder(None, loaded), timeline.connect_cluster, query)
    events = merge_events(timeline.events, journal)
    output.print_error(*timeline.notes)
    output.print_result(
        output_format,
        {
            "connect_cluster": timeline.connect_cluster,
            "connector": timeline.connector,
            "events": [
                {**asdict(event), "at": Moment(event.at), "until": moment_of(event.until)}
                for event in events
            ],
            "notes": timeline.notes,
        },
        lambda: output.print_table(
            f"{timeline.connector} of {timeline.connect_cluster}",
            ("at", "from", "what happened"),
            ((output.format_moment(event.at), event.origin.value, event.said) for event in events),
        ),
    )
    return OK


def _read_journal_events(folder: Path, cluster: str, query: TimelineQuery) -> Iterator[Event]:
    """Yield the connector's plans and incidents. A journal that does not exist is not created."""
    if not (folder / FILE_NAME).exists():
        return
    with closing(Journal(folder)) as journal:
        ids: set[str] = set()
        for entry in journal.every():
            known = _collect_ids(entry, cluster, query.connector)
            ids |= known
            record = entry.record
            ended = record.incident if isinstance(record, IncidentEnded) else None
            about = known or entry.plan_id in ids or ended in ids
            if (
                about
                and isinstance(record, _TIMELINE_RECORDS)
                and query.since <= record.at <= query.until
            ):
                yield Event(
                    record.at, Origin.JOURNAL, ConnectorEventKind.REMEDY, _describe_entry(entry)
                )


def _collect_ids(entry: JournalEntry, cluster: str, connector: str) -> set[str]:
    """Return the plan id or incident of an entry of this connector; empty for others.

    Later records refer to the plan or incident by it.
    """
    match entry.record:
        case PlanOpened(plan=plan) | PlanProposed(plan=plan):
            is_subject = (plan.subject.store, plan.subject.connector) == (cluster, connector)
            return {entry.plan_id} if is_subject else set()
        case IncidentDetected(incident=incident) | ActionRefused(incident=incident):
            key = (entry.record.connect_cluster, entry.record.connector)
            return {incident} if key == (cluster, connector) else set()
        case _:
            return set()


def _describe_entry(entry: JournalEntry) -> str:
    match entry.record:
        case PlanOpened(plan=plan):
            return f"plan {entry.plan_id} begins: {plan.verb}"
        case PlanProposed(plan=plan):
            return f"plan {entry.plan_id} proposed: {plan.verb}"
        case IncidentDetected(said=said):
            return f"incident: {said}"
        case IncidentEnded():
            return "incident over"
        case ActionRefused(action=action):
            return f"{action} not done: {describe_refusal(entry.record)}"
        case _:
            return f"plan {entry.plan_id} {describe_past_record(entry.record)}"
