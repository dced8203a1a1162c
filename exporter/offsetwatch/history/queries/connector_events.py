"""Events of one connector, folded from Connect's config, status and offsets topics. Pure.

Each fold takes the records of one connector in the order of their logs, from the first that is
known, and yields the changes: a record that only repeats the one before it is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from offsetwatch.formatting import format_count, format_timespan

EXAMPLES_MAX: Final = 3
FLUSH_S_MAX: Final = 1.0  # commits of one flush carry stamps that lie this close

_STATES: Final = {"started": "running", "paused": "paused", "stopped": "stopped"}
# What is told of a configuration that was written again, by names of our own.
_SETTINGS: Final = {
    "class_name": "class",
    "mirror": "flow",
    "translates": "flow",
    "sink": "group, topics or where it reads",
    "dedicated_offsets_topic": "offsets topic",
    "offsets_addresses": "where its offsets lie",
    "filename": "file",
}


class Origin(StrEnum):
    """Sources of events. A request sorts before its effects."""

    CONFIG = "config"
    STATUS = "status"
    OFFSETS = "offsets"
    LOG_ENDS = "log ends"
    SOURCE_ENDS = "source ends"
    JOURNAL = "journal"


class ConnectorEventKind(StrEnum):
    """Kinds of events. Names are only ever added.

    configured       the connector was created, or its configuration was written again
    deleted          its configuration was deleted
    asked            another target state was requested, or a restart
    tasks            it has another number of tasks
    state            a worker reports it, or one of its tasks, in another state or on another worker
    first_commit     a source partition that had no offset has one
    respelled        a source partition is written under another raw key: its task looks that one up
                     and was not given the offset that it had
    rewound          a position went back
    forgotten        a tombstone deleted an offset
    unreadable       an offset that no task can read
    silent           no commit for much longer than usual
    behind           the lag of a flow, or behind the end of a source, was higher than usual
    remedy           of guarded remediation or a user's plan, by the journal
    """

    CONFIGURED = "configured"
    DELETED = "deleted"
    REQUESTED = "asked"
    TASKS = "tasks"
    STATE = "state"
    FIRST_COMMIT = "first_commit"
    RESPELLED = "respelled"
    REWOUND = "rewound"
    FORGOTTEN = "forgotten"
    UNREADABLE = "unreadable"
    SILENT = "silent"
    BEHIND = "behind"
    REMEDY = "remedy"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a connector.

    at      Unix seconds: the timestamp of the record that reports it
    until   of a span: its end
    said    for display
    """

    at: float
    origin: Origin
    what: ConnectorEventKind
    said: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class InternalTopicRecord:
    """A record of the config or status topic.

    at      its timestamp, Unix seconds
    noun    its observation (decode/topic_records.py)
    """

    at: float
    noun: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that is no plain advance (tables/schemas.py, SILVER_COMMITS).

    raw_key    the bytes of its key
    respelled  the source partition had been written under another raw key before
    """

    at: float
    source_partition: str
    change: str | None
    source_offset: str | None
    pos: int | None
    step: int | None
    error: str | None
    raw_key: bytes = b""
    respelled: bool = False


def fold_configs(records: Iterable[InternalTopicRecord]) -> Iterator[Event]:
    """Yield requests in the config topic: configurations, target states, restarts, task counts."""
    settings: dict[str, Any] | None = None
    target, tasks = "started", None
    for record in records:
        noun, event = record.noun, None
        match noun["kind"]:
            case "connector_config" if noun["settings"] is None:
                if settings is not None:
                    event = (ConnectorEventKind.DELETED, "deleted")
                settings, target, tasks = None, "started", None
            case "connector_config":
                event = (ConnectorEventKind.CONFIGURED, _describe_configuration(settings, noun))
                settings = noun["settings"]
            case "target_state":
                # Without one it is to run; after a deletion this tells nothing new.
                state = noun["state"] or "started"
                if state != target:
                    event = (ConnectorEventKind.REQUESTED, f"asked to be {_STATES[state]}")
                target = state
            case "restart_request" if noun["include_tasks"] is not None:
                name = "with its tasks" if noun["include_tasks"] else "without its tasks"
                failed = ", what failed only" if noun["only_failed"] else ""
                event = (ConnectorEventKind.REQUESTED, f"restart requested, {name}{failed}")
            case "tasks_commit" if noun["tasks"] is not None:
                if noun["tasks"] != tasks:
                    event = (ConnectorEventKind.TASKS, format_count(noun["tasks"], "task"))
                tasks = noun["tasks"]
            case "tasks_fencing" if noun["tasks"] is not None:
                tasks_fenced = format_count(noun["tasks"], "task")
                said = f"producers of {tasks_fenced} fenced: an exactly-once start"
                event = (ConnectorEventKind.TASKS, said)
        if event is not None:
            yield Event(record.at, Origin.CONFIG, *event)


def fold_statuses(records: Iterable[InternalTopicRecord]) -> Iterator[Event]:
    """Yield the changes of state that workers report.

    A worker that lost a connector or task in a rebalance may report it unassigned after the next
    worker has taken it over: that is outdated, and no event.
    """
    before: dict[int | None, Mapping[str, Any]] = {}
    for record in records:
        noun = record.noun
        if noun["kind"] not in {"connector_status", "task_status"}:
            continue
        task = noun.get("task")
        now, last = noun["condition"], before.get(task)
        if now is None:
            if last is not None:
                said = f"{_name_subject(task)} is no more"
                yield Event(record.at, Origin.STATUS, ConnectorEventKind.STATE, said)
            before.pop(task, None)
            continue
        outdated = last is not None and now["generation"] < last["generation"]
        if outdated and now["state"] == "unassigned":
            continue
        before[task] = now
        if last is None or any(now[name] != last[name] for name in ("state", "worker", "failure")):
            yield Event(
                record.at, Origin.STATUS, ConnectorEventKind.STATE, _describe_state(task, now, last)
            )


def fold_commits(commits: Iterable[Commit]) -> Iterator[Event]:
    """Yield events of commits that are no plain advance.

    Partitions that changed in the same way in one flush are one event.
    """
    changed: list[Commit] = []
    for commit in commits:
        if changed and not _is_same_change(changed[-1], commit):
            yield _build_commit_event(changed)
            changed = []
        changed.append(commit)
    if changed:
        yield _build_commit_event(changed)


def merge_events(*parts: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events in order of time; at the same time, in the order of Origin."""
    origins = list(Origin)
    events = chain.from_iterable(parts)
    return tuple(sorted(events, key=lambda event: (event.at, origins.index(event.origin))))


def _describe_configuration(before: Mapping[str, Any] | None, noun: Mapping[str, Any]) -> str:
    settings = noun["settings"]
    if before is None:
        return f"created: {settings['class_name']}"
    changes = ((label, before.get(name), settings.get(name)) for name, label in _SETTINGS.items())
    changed = [
        f"{label} {'none' if old is None else old} -> {'none' if new is None else new}"
        if isinstance(new, str | None)
        else label
        for label, old, new in changes
        if old != new
    ]
    if changed:
        return f"configuration changed: {'; '.join(dict.fromkeys(changed))}"
    # Values are not kept: they hold secrets.
    return "configuration written; no setting changed that is stored here"


def _name_subject(task: int | None) -> str:
    return "the connector" if task is None else f"task {task}"


def _describe_state(
    task: int | None, now: Mapping[str, Any], last: Mapping[str, Any] | None
) -> str:
    failure = f": {now['failure']}" if now["failure"] else ""
    state = f"{_name_subject(task)} {now['state']}"
    same = last is not None and last["state"] == now["state"] and not failure
    if last is not None and same and last["worker"] != now["worker"]:
        return f"{state}, now on {now['worker']} (was on {last['worker']})"
    return f"{state} on {now['worker']}{failure}"


def _is_same_change(one: Commit, other: Commit) -> bool:
    return (
        _classify_commit(one) is _classify_commit(other)
        and one.source_partition != other.source_partition
        and 0 <= other.at - one.at <= FLUSH_S_MAX
    )


def _classify_commit(commit: Commit) -> ConnectorEventKind:
    if commit.error is not None or commit.change is None:
        return ConnectorEventKind.UNREADABLE
    if commit.change == "first" and commit.respelled:
        return ConnectorEventKind.RESPELLED
    return {"first": ConnectorEventKind.FIRST_COMMIT, "reset": ConnectorEventKind.FORGOTTEN}.get(
        commit.change, ConnectorEventKind.REWOUND
    )


def _build_commit_event(commits: list[Commit]) -> Event:
    first = commits[0]
    what = _classify_commit(first)
    said = "; ".join(map(_COMMIT_DESCRIBERS[what], commits[:EXAMPLES_MAX]))
    more = len(commits) - EXAMPLES_MAX
    if more > 0:
        said = f"{format_count(len(commits), 'partition')}: {said}; and {more} more"
    until = commits[-1].at if commits[-1].at > first.at else None
    return Event(first.at, Origin.OFFSETS, what, said, until=until)


def _describe_rewind(commit: Commit) -> str:
    if commit.pos is None or commit.step is None:
        return f"{commit.source_partition} went back to {commit.source_offset}"
    was = commit.pos - commit.step
    return f"{commit.source_partition} went back by {-commit.step}, from {was} to {commit.pos}"


_COMMIT_DESCRIBERS: Final = {
    ConnectorEventKind.RESPELLED: lambda commit: (
        f"{commit.source_partition} is written as {commit.raw_key.decode(errors='replace')} now "
        f"and begins at {commit.source_offset}"
    ),
    ConnectorEventKind.FIRST_COMMIT: lambda commit: (
        f"{commit.source_partition} begins at {commit.source_offset}"
    ),
    ConnectorEventKind.FORGOTTEN: lambda commit: f"{commit.source_partition} is forgotten",
    ConnectorEventKind.UNREADABLE: lambda commit: (
        f"{commit.source_partition} cannot be read: {commit.error}"
    ),
    ConnectorEventKind.REWOUND: _describe_rewind,
}


def format_duration(seconds: float) -> str:
    """Return the duration in its two largest units, below ten seconds to a tenth."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    return format_timespan(seconds, with_zeros=True, hours_max=48)
