"""Decoders of Connect REST API answers: connectors, statuses, tasks, offsets, plugins, configs.

Pure and total like the rest of decode. Configurations may hold secrets, and traces quote data: only
the settings that connector_config.py names leave this module. Of a trace only the kind is kept;
`decode_traces` alone returns whole traces, and `decode_config_texts` whole configurations.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypeGuard

import msgspec

from offsetwatch.decode import InvalidRecordError
from offsetwatch.decode.connect_topics import parse_assigned_partitions, parse_java_integer
from offsetwatch.decode.connector_config import has_connector_class, parse_connector_settings
from offsetwatch.decode.json_text import REPLACEMENT_ESCAPE, decode_strict, encode_sorted
from offsetwatch.decode.stack_trace import TRACE_CHARS_MAX, failure_of
from offsetwatch.decode.text_limits import NAME_CHARS_MAX, STATE_CHARS_MAX, shorten_text
from offsetwatch.model.connectors import UNKNOWN_STATE, Connector, Task
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition, is_topic_name

# Of one connector in the list: 25,000 tasks stay below. Counted is what can begin a value, in texts
# too: a trace of a hundred lines has some dozen commas.
ENTRY_VALUES_MAX: Final = 100_000
CONNECTORS_MAX: Final = 100_000  # of one Connect cluster
ODD_MAX: Final = 5  # members of another shape that are named
ODD_CHARS_MAX: Final = 40  # of each of these
_INACTIVE_STATES: Final = frozenset({"failed", "unassigned"})  # of a task that no worker runs

TaskNumbers = Collection[int | None] | None  # of those that are configured; None: not known


@dataclass(frozen=True, slots=True)
class OddMembers:
    """Members of a list that have another shape than the others.

    `examples` are the first few as JSON, shortened.
    """

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        more = self.count - len(self.examples)
        return f"{', '.join(self.examples)}{f' and {more} more' if more else ''}"


class ConnectorNames(NamedTuple):
    """Names of connectors, and the members of their list that are no names."""

    names: frozenset[str]
    odd: OddMembers


class Plugins(NamedTuple):
    """Connector classes with their kind, source or sink, and members without a class."""

    kinds: dict[str, str]
    odd: OddMembers


class _Offsets(msgspec.Struct):
    offsets: list[msgspec.Raw]


class _ConsumedPartition(msgspec.Struct):
    kafka_topic: str
    kafka_partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _ConsumedOffset(msgspec.Struct):
    kafka_offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class RestConnectorStatus:
    """State of a connector and of each of its tasks, in lower case, and its kind.

    The kind is source, sink or unknown.
    """

    state: str
    tasks: tuple[str, ...]
    kind: str


def decode_connectors(body: bytes) -> tuple[Connector, ...] | Undecodable:
    """Decode the answer to `GET /connectors?expand=status&expand=info`, sorted by name.

    An entry without a state, without a configuration or of another shape is a connector whose state
    or settings are unknown; the others are decoded. If no entry has either, the body is another
    answer: an error of Connect, or of a proxy. A connector with a name that is too long is left
    out: `decode_names` counts it.
    """
    parsed = decode_strict(body, dict[str, msgspec.Raw])
    if parsed is None:
        return Undecodable("connectors_not_a_map")
    if len(parsed) > CONNECTORS_MAX:
        return Undecodable("too_many_connectors")
    # One after the other: a million objects at once would take 300 MiB.
    connectors = tuple(
        _build_connector(name, _parse_entry(parsed.pop(name)))
        for name in sorted(parsed)
        if len(name) <= NAME_CHARS_MAX
    )
    if connectors and not any(
        connector.configured or connector.state != UNKNOWN_STATE for connector in connectors
    ):
        return Undecodable("connector_shape")
    return connectors


def decode_names(body: bytes) -> ConnectorNames | Undecodable:
    """Decode the answer to `GET /connectors`: the names alone.

    If no member is text, the body is another answer, and undecodable.
    """
    parsed = decode_strict(body, Any)
    if not isinstance(parsed, list):
        return Undecodable("names_shape")
    if len(parsed) > CONNECTORS_MAX:
        return Undecodable("too_many_connectors")
    names = frozenset(filter(_is_name, parsed))
    odd = [member for member in parsed if not _is_name(member)]
    if odd and not names:
        return Undecodable("names_shape")
    return ConnectorNames(names, _summarize_odd_members(odd))


def _is_name(member: object) -> bool:
    return isinstance(member, str) and len(member) <= NAME_CHARS_MAX


def decode_offsets(body: bytes) -> tuple[tuple[str, str | None], ...] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/offsets`.

    The pairs are (identity, offset text or None for null). Identities and texts are JSON with
    sorted keys, comparable with SourceKey.identity and SourceOffset.text.
    """
    readable = decode_readable_offsets(body)
    if isinstance(readable, Undecodable):
        return readable
    offsets, unread = readable
    return Undecodable("offsets_entry_shape") if unread else offsets


def decode_readable_offsets(
    body: bytes,
) -> tuple[tuple[tuple[str, str | None], ...], int] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/offsets`, without unreadable entries.

    Also return how many entries were left out: those of another shape, and those of one source
    partition with different offsets. An entry without an offset has null: some servers leave out
    nulls.
    """
    answer = decode_strict(body, _Offsets)
    if answer is None:
        return Undecodable("offsets_shape")
    entries = answer.offsets
    pairs: dict[str, str | None] = {}
    contradictory: set[str] = set()
    unread = 0
    for raw in entries:  # one after the other, as of connectors
        text = bytes(raw)
        entry = decode_strict(text, Any)
        # Half a character was replaced: the offset of another source partition, or another offset.
        if not isinstance(entry, dict) or "partition" not in entry or REPLACEMENT_ESCAPE in text:
            unread += 1
            continue
        identity, offset = encode_sorted(entry["partition"]).decode(), entry.get("offset")
        offset_text = None if offset is None else encode_sorted(offset).decode()
        if pairs.setdefault(identity, offset_text) != offset_text:
            contradictory.add(identity)
    for identity in contradictory:
        del pairs[identity]
    if entries and not pairs:
        return Undecodable("offsets_entry_shape")
    return tuple(pairs.items()), unread + len(contradictory)


def parse_consumed_partition(identity: str, text: str | None) -> tuple[str, int, int] | None:
    """Return topic, partition and next offset of a sink's entry that `decode_offsets` returned.

    None for an entry of another shape (KIP-875, SinkUtils.parseSinkConnectorOffsets).
    """
    try:
        partition = msgspec.json.decode(identity, type=_ConsumedPartition)
        offset = msgspec.json.decode(text or "null", type=_ConsumedOffset)
    except msgspec.DecodeError:
        return None
    if not is_topic_name(partition.kafka_topic):
        return None
    return partition.kafka_topic, partition.kafka_partition, offset.kafka_offset


def decode_assignment(body: bytes) -> frozenset[TopicPartition] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/tasks` of a MirrorSourceConnector: its partitions.

    One task of another shape makes all of it undecodable: the partitions that it copies would look
    like unassigned ones.
    """
    parsed = decode_strict(body, Any)
    if not isinstance(parsed, list):
        return Undecodable("tasks_shape")
    partitions: set[TopicPartition] = set()
    for task in parsed:
        config = _as_map(task).get("config")
        if not isinstance(config, dict):
            return Undecodable("task_shape")
        try:
            assigned = parse_assigned_partitions(config)
        except InvalidRecordError as exc:
            return Undecodable(str(exc))
        if assigned is None:
            return Undecodable("task_not_mirror_source")  # the others' shares would not be all
        partitions.update(assigned)
    return frozenset(partitions)


def decode_rest_status(
    body: bytes, configured: TaskNumbers = None
) -> RestConnectorStatus | Undecodable:
    """Decode the answer to `GET /connectors/{c}/status`.

    `configured` are the tasks by `GET …/tasks`, which was requested before. A task that is not
    among them counts while it may still run, as after a stop. If it failed or is unassigned, its
    status is left over from a configuration with more tasks.
    """
    parsed = decode_strict(body, Any)
    state, tasks = _split_status(parsed)
    parsed_tasks = _parse_tasks(tasks, configured) if tasks is not None else None
    if parsed_tasks is None:
        return Undecodable("status_shape")
    known, unconfigured = parsed_tasks
    working = (task for task in unconfigured if task.state not in _INACTIVE_STATES)
    return RestConnectorStatus(
        state=state,
        tasks=tuple(task.state for task in (*known, *working)),
        kind=str(_as_map(parsed).get("type", "unknown")),
    )


def decode_traces(
    body: bytes, configured: TaskNumbers = None
) -> dict[int | None, str] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/status` to the stack traces of failures, by task.

    The key None is the connector itself. Traces quote records and settings: classify them, and do
    not store them. `configured` as for `decode_rest_status`: traces of other tasks are left over
    and left out.
    """
    parsed = decode_strict(body, Any)
    _, tasks = _split_status(parsed)
    if tasks is None:
        return Undecodable("status_shape")
    numbers = None if configured is None or None in configured else frozenset(configured)
    traces: dict[int | None, str] = {}
    trace = _trace_of(_get_map_member(parsed, "connector"))
    if trace is not None:
        traces[None] = trace
    for task in tasks:
        number, trace = parse_java_integer(_as_map(task).get("id")), _trace_of(_as_map(task))
        if trace is None:
            continue
        if number is None:
            return Undecodable("status_shape")  # what it died of may rule out a remedy
        if numbers is None or number in numbers:
            traces[number] = trace
    return traces


def _trace_of(part: Mapping[str, Any]) -> str | None:
    trace, state = part.get("trace"), str(part.get("state", ""))
    return trace[:TRACE_CHARS_MAX] if state.upper() == "FAILED" and isinstance(trace, str) else None


def _split_status(parsed: object) -> tuple[str, list[Any] | None]:
    """Return a connector's state in lower case, and its tasks; None for another shape."""
    connector, tasks = _as_map(parsed).get("connector"), _as_map(parsed).get("tasks")
    if not isinstance(connector, dict) or not isinstance(tasks, list):
        return "", None
    state = connector.get("state", "")
    return state.lower() if _is_state(state) else "", tasks


def decode_task_numbers(body: bytes) -> tuple[int | None, ...] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/tasks`: the number of each configured task.

    None stands for a task that cannot be read.
    """
    parsed = decode_strict(body, Any)
    if not isinstance(parsed, list):
        return Undecodable("tasks_shape")
    return tuple(_parse_task_numbers([_get_map_member(task, "id") for task in parsed]))


def decode_plugins(body: bytes) -> Plugins | Undecodable:
    """Decode the answer to `GET /connector-plugins`.

    If no member has a class, the body is another answer, and undecodable.
    """
    parsed = decode_strict(body, Any)
    if not isinstance(parsed, list):
        return Undecodable("plugins_shape")
    kinds = {
        name: str(plugin.get("type"))
        for plugin in map(_as_map, parsed)
        if isinstance(name := plugin.get("class"), str)
    }
    odd = [member for member in parsed if not isinstance(_as_map(member).get("class"), str)]
    if odd and not kinds:
        return Undecodable("plugins_shape")
    return Plugins(kinds, _summarize_odd_members(odd))


def _summarize_odd_members(members: list[Any]) -> OddMembers:
    texts = map(_encode_example, members[:ODD_MAX])
    return OddMembers(
        len(members),
        tuple(text if len(text) <= ODD_CHARS_MAX else f"{text[:ODD_CHARS_MAX]}…" for text in texts),
    )


def _encode_example(member: object) -> str:
    """Return a member as JSON; the frames here may be the ones too many for what was decoded."""
    try:
        return encode_sorted(member).decode()
    except RecursionError:
        return "nested too deep"


def decode_config_texts(body: bytes) -> dict[str, str | None] | Undecodable:
    """Decode the answer to `GET /connectors/{c}/config`; all values are texts.

    May hold secrets: compare it, and do not store it.
    """
    parsed = decode_strict(body, Any)
    return format_config_texts(parsed) if isinstance(parsed, dict) else Undecodable("config_shape")


def format_config_texts(config: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a configuration as Connect stores it, with numbers and truth values as texts."""
    return {
        key: value if value is None or isinstance(value, str) else encode_sorted(value).decode()
        for key, value in config.items()
    }


def _parse_entry(raw: msgspec.Raw) -> object:
    """Return one connector's part of the list; None if it cannot be read, or is too large."""
    body = bytes(raw)
    too_large = sum(map(body.count, (b"{", b"[", b","))) > ENTRY_VALUES_MAX
    return None if too_large else decode_strict(body, Any)


def _build_connector(name: str, entry: object) -> Connector:
    """Build a connector from its entry in the list, as far as the entry can be read."""
    status, info = _get_map_member(entry, "status"), _get_map_member(entry, "info")
    config = _get_map_member(info, "config")
    known = has_connector_class(config)
    kind = str(info.get("type") or status.get("type") or "")
    settings = parse_connector_settings(name, config if known else {}, kind=kind)
    state, tasks = _parse_states(status, info.get("tasks"))
    worker = _get_map_member(status, "connector")
    return Connector(
        name=name,
        kind=settings.kind,
        class_name=settings.class_name,
        version=shorten_text(str(worker.get("version") or "")),
        state=state,
        tasks=tasks,
        mirror=settings.mirror,
        sink=settings.sink if known else None,
        dedicated_offsets_topic=settings.dedicated_offsets_topic,
        offsets_addresses=settings.offsets_addresses,
        failure=failure_of(worker.get("trace")),
        translates=settings.translates,
        filename=settings.filename,
        database=settings.database,
        configured=known,
        sink_if_one=settings.sink_if_one if known else None,
    )


def _parse_states(status: Mapping[str, Any], configured: object) -> tuple[str, tuple[Task, ...]]:
    """Return the states of a connector and its tasks.

    The status of a task that is not configured is left over from an earlier configuration, or from
    a deleted connector of that name. If it is unclear which task a status belongs to, none is
    known: the others would look like all of them.
    """
    state, tasks = _get_map_member(status, "connector").get("state"), status.get("tasks")
    if not _is_state(state) or not isinstance(tasks, list):
        return UNKNOWN_STATE, ()
    numbers = _parse_task_numbers(configured) if isinstance(configured, list) else None
    parsed_tasks = _parse_tasks(tasks, numbers)
    return (UNKNOWN_STATE, ()) if parsed_tasks is None else (state.lower(), parsed_tasks[0])


def _is_state(state: object) -> TypeGuard[str]:
    return isinstance(state, str) and 0 < len(state) <= STATE_CHARS_MAX


def _parse_tasks(
    tasks: list[Any], configured: TaskNumbers
) -> tuple[tuple[Task, ...], tuple[Task, ...]] | None:
    """Return the tasks of a status, and those among them that are not configured.

    Connect lists the statuses that it has. A configured task without status, or with an unreadable
    one, is returned without a state. None where more statuses are unreadable than there are such
    tasks.
    """
    parsed = [_parse_task(task) for task in tasks]
    readable = _merge_states(task for task in parsed if task is not None)
    numbers = frozenset(configured or ())
    known = {task.number for task in readable}
    missing = sorted(number for number in numbers if number is not None and number not in known)
    if parsed.count(None) > len(missing):
        return None
    others: tuple[Task, ...] = ()
    if configured is not None and None not in numbers:
        others = tuple(task for task in readable if task.number not in numbers)
        readable = tuple(task for task in readable if task.number in numbers)
    return readable + tuple(Task(number, UNKNOWN_STATE) for number in missing), others


def _merge_states(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Return one task of each number; without a state where its statuses contradict each other."""
    merged: dict[int, Task] = {}
    for task in tasks:
        same = merged.setdefault(task.number, task)
        if same.state != task.state:
            merged[task.number] = Task(task.number, UNKNOWN_STATE)
    return tuple(merged.values())


def _parse_task_numbers(configured: list[Any]) -> list[int | None]:
    """Return the task numbers in an entry's `info`; None stands for an unreadable one."""
    return [parse_java_integer(_as_map(task).get("task")) for task in configured]


def _parse_task(task: object) -> Task | None:
    """Return one task, without a state if that cannot be read; None if its number cannot."""
    fields = _as_map(task)
    number, state = parse_java_integer(fields.get("id")), fields.get("state")
    if number is None:
        return None
    if not _is_state(state):
        return Task(number, UNKNOWN_STATE)
    state = sys.intern(state.lower())  # the same text for a hundred thousand tasks
    return Task(number=number, state=state, failure=failure_of(fields.get("trace")))


def _get_map_member(parsed: object, key: str) -> Mapping[Any, Any]:
    """Return the map under this key; an empty one if there is none."""
    return _as_map(_as_map(parsed).get(key))


def _as_map(parsed: object) -> Mapping[Any, Any]:
    return parsed if isinstance(parsed, dict) else {}


class ConnectRoot(msgspec.Struct, frozen=True):
    """Version of a worker, and the id of its Kafka cluster (since 1.1)."""

    version: str
    kafka_cluster_id: str | None = None


def decode_root(body: bytes) -> ConnectRoot | Undecodable:
    """Decode the answer to `GET /`; undecodable if it is not from a Connect worker.

    An empty id is none: it is not another Kafka cluster's.
    """
    root = decode_strict(body, ConnectRoot)
    if root is None:
        return Undecodable("root_shape")
    cluster_id = root.kafka_cluster_id
    return ConnectRoot(shorten_text(root.version), shorten_text(cluster_id) if cluster_id else None)
