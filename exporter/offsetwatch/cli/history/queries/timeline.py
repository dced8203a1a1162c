"""`history timeline`: what happened to one connector, as a table or as JSON.

Events go to standard output, what is missing from them to standard error. Exit code 1 if nothing is
known of the connector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.time_arguments import parse_time
from offsetwatch.cli.offsets.execute import state_folder
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.journal.journal import NAME, Entry, Journal
from offsetwatch.remedy.model.journal_records import (
    AbortAsked,
    AnyRecord,
    Approved,
    Ended,
    IncidentOver,
    IncidentSeen,
    Lapsed,
    Opened,
    Parked,
    Proposed,
    Refused,
    Rejected,
    Turned,
)
from offsetwatch.remedy.views import plan_text as words

OK, UNKNOWN = 0, 1

# What a person who asks what happened wants of a plan; the rest is in `plan show`.
_TOLD = (
    AbortAsked
    | Approved
    | Ended
    | IncidentOver
    | IncidentSeen
    | Lapsed
    | Opened
    | Parked
    | Proposed
    | Refused
    | Rejected
    | Turned
)

try:
    from offsetwatch.history.queries.asof import Unanswerable
    from offsetwatch.history.queries.connector_events import Event, Origin, What, in_order
    from offsetwatch.history.queries.timeline import Question, timeline
except ImportError as exc:  # the extra
    raise HistoryError("pip install 'offsetwatch[history]' first") from exc


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, as they were given."""

    config_path: Path
    connector: str
    connect_cluster: str | None
    since: str
    until: str | None
    output_format: OutputFormat


def print_timeline(asked: Asked) -> int:
    """Answer on standard output; the exit code."""
    loaded = config.load(asked.config_path)
    now = SystemClock().now()
    since = parse_time(asked.since, now, "--since")
    until = now if asked.until is None else parse_time(asked.until, now, "--until")
    if since > until:
        raise ConfigError((f"--since {asked.since}: is after the end",))
    question = Question(asked.connector, asked.connect_cluster, since, until)
    try:
        found = timeline(Path(loaded.history.path), question)
    except Unanswerable as exc:
        output.error(str(exc))
        return UNKNOWN
    journal = _journalled(state_folder(None, loaded), found.connect_cluster, question)
    events = in_order(found.events, journal)
    for note in found.notes:
        output.error(note)
    if asked.output_format is not OutputFormat.TABLE:
        output.document(
            asked.output_format,
            {
                "connect_cluster": found.connect_cluster,
                "connector": found.connector,
                "events": [_event(at) for at in events],
                "notes": found.notes,
            },
        )
    else:
        output.table(
            f"{found.connector} of {found.connect_cluster}",
            ("at", "from", "what happened"),
            ((output.moment(at.at), at.origin.value, at.said) for at in events),
        )
    return OK


def _event(at: Event) -> dict[str, object]:
    return {**asdict(at), "at": Moment(at.at), "until": moment_of(at.until)}


def _journalled(folder: Path, cluster: str, asked: Question) -> Iterator[Event]:
    """Plans and incidents of the connector. A journal that is not there is not made."""
    if not (folder / NAME).exists():
        return
    with closing(Journal(folder)) as journal:
        ours: set[str] = set()
        for entry in journal.every():
            known = _names(entry, cluster, asked.connector)
            ours |= known
            record = entry.record
            about = known or entry.plan_id in ours or _incident(record) in ours
            if about and isinstance(record, _TOLD) and asked.since <= record.at <= asked.until:
                yield Event(record.at, Origin.JOURNAL, What.REMEDY, _said(entry))


def _names(entry: Entry, cluster: str, connector: str) -> set[str]:
    """What later records call a plan or an incident of this connector by; empty if it is none."""
    match entry.record:
        case Opened(plan=plan) | Proposed(plan=plan):
            mine = (plan.subject.place, plan.subject.connector) == (cluster, connector)
            return {entry.plan_id} if mine else set()
        case IncidentSeen(incident=incident) | Refused(incident=incident):
            whose = (entry.record.connect_cluster, entry.record.connector)
            return {incident} if whose == (cluster, connector) else set()
        case _:
            return set()


def _incident(record: AnyRecord) -> str | None:
    return record.incident if isinstance(record, IncidentOver) else None


def _said(entry: Entry) -> str:
    match entry.record:
        case Opened(plan=plan):
            return f"plan {entry.plan_id} begins: {plan.verb}"
        case Proposed(plan=plan):
            return f"plan {entry.plan_id} proposed: {plan.verb}"
        case IncidentSeen(said=said):
            return f"incident: {said}"
        case IncidentOver():
            return "incident over"
        case Refused(action=action):
            return f"{action} not done: {words.refusal(entry.record)}"
        case _:
            return f"plan {entry.plan_id} {words.recorded(entry.record)}"
