"""Ends of all sources, and how far the connectors that read them are behind.

Seconds come from our own samples of an end: the time since it was last seen at or below the
position of a connector. They hold while everything stands still, and are exact to one interval.

A stored offset alone does not show that nothing waits: a database goes on writing what a connector
does not capture. What shows it is that the source has handed out all that it has to the connection
of the connector. What was handed out a flush ago, to a connection that is still open, is done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import msgspec

from offsetwatch.decode.dialects import (
    DEBEZIUM_MYSQL,
    DEBEZIUM_POSTGRES,
    FILE_STREAM,
    JDBC,
    parse_offset_fields,
)
from offsetwatch.decode.json_text import parse_json
from offsetwatch.decode.offset_order import Fields, is_snapshot
from offsetwatch.formatting import format_count
from offsetwatch.model.connectors import Connector, DatabaseSettings, has_running_task
from offsetwatch.model.observations import SourceEndRead, build_source_end_input
from offsetwatch.model.source_ends import (
    ColumnQuery,
    FileEnd,
    MysqlEnd,
    PostgresqlEnd,
    SourceEnd,
    SourceEndRequest,
    SourceKind,
    SqlEnd,
)
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.memo import Memo
from offsetwatch.state.mirror.lag import thin_ends
from offsetwatch.state.snapshot import SourceEndView, SourcePartitionView
from offsetwatch.state.snapshot_index import PartitionKey
from offsetwatch.state.sources.distances import (
    Distance,
    measure_column,
    measure_file,
    measure_mysql,
    measure_postgresql,
    reads_binlog,
)

HIDDEN_RETENTION_S: Final = 86_400.0
STATE_VERSION: Final = 1
PERSISTED_TRACKS_MAX: Final = 10_000  # some megabytes
NO_OFFSET: Final = "it has no offset"
SAMPLES_OF_PACE: Final = 4  # fewer may be one burst
DIALECTS: Final = {
    SourceKind.POSTGRESQL: DEBEZIUM_POSTGRES.name,
    SourceKind.MYSQL: DEBEZIUM_MYSQL.name,
    SourceKind.SQL: JDBC.name,
    SourceKind.FILE: FILE_STREAM.name,
}
# A table may have lost its newest rows: an offset beyond those that are left is no mistake.
_COUNTED_UNITS: Final = frozenset({"bytes", "transactions"})
_DEBEZIUM: Final = frozenset({DEBEZIUM_POSTGRES.name, DEBEZIUM_MYSQL.name})

Connectors = Mapping[str, Mapping[str, Connector]]  # by Connect cluster and name
_Match = tuple[SourcePartitionView, "_Source", Connector | None]
_SourceUser = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Settings of a configured source.

    wants       by Connect cluster, whether a connector of that name reads this source
    columns     sql: tables whose end a configured statement returns
    address     where it is by the configuration, without secrets
    """

    name: str
    kind: SourceKind
    wants: Mapping[str, Callable[[str], bool]]
    columns: frozenset[str] = frozenset()
    address: str = ""


class PersistedTrack(msgspec.Struct, frozen=True):
    """State of a source partition that survives a restart; the fields are those of a track."""

    key: PartitionKey
    samples: list[tuple[int, float]]
    position: int | None
    text: str
    done: int | None
    replaced: str | None
    shown_at: float


class PersistedSource(msgspec.Struct, frozen=True):
    """State of a source that must survive a restart.

    address    as in the configuration at that time
    end        of a server, what distinguishes it from another one
    """

    address: str
    at: float
    end: PostgresqlEnd | MysqlEnd | None
    removed: int
    tracks: tuple[PersistedTrack, ...]


class _SourcesState(msgspec.Struct, frozen=True):
    version: int
    sources: dict[str, PersistedSource]


@dataclass(slots=True)
class _Track:
    """Source partition compared with the end of its source, over the reads of that end.

    samples     ends in ascending order, each with the time at which it was last seen
    previous    end at the read before the newest
    position    of the newest offset; `text` is that offset, first seen at the read number `since`
    handed      position up to which everything is handed out now
    pending     the same of an earlier read, and its time: it becomes `done` after a flush
    done        position up to which everything was handed out a flush ago
    shown_at    when its partition was last shown, by the time of a read
    lost, is_ahead    of the newest offset that was compared with a later read of the end
    replaced    why offsets cannot be compared with this server, in words
    """

    samples: list[tuple[int, float]] = field(default_factory=list)
    previous: int | None = None
    position: int | None = None
    text: str = ""
    since: int = 0
    handed: int | None = None
    pending: tuple[int, float] | None = None
    done: int | None = None
    replaced: str | None = None
    shown_at: float = 0.0
    lost: str | None = None
    is_ahead: bool = False

    def replace(self, why: str) -> None:
        """Forget all positions: they are of another server, as the present offset is."""
        self.forget()
        self.replaced = why

    def forget(self) -> None:
        """Forget all ends: they cannot be compared with those that follow."""
        self.samples.clear()
        self.previous = self.handed = self.pending = self.done = None

    def move(self, distance: Distance, text: str, read_number: int) -> None:
        """Apply the newest offset; `read_number` is that of the newest read of the end."""
        if text != self.text:
            self.text, self.since = text, read_number
            if distance.connected is not False:
                self.replaced = None  # it is of the server that its connector is connected to
        before, self.position = self.position, distance.position
        if before is not None and (distance.position is None or distance.position < before):
            # It went back: what was done is done again.
            self.handed = self.pending = self.done = None

    def read(self, distance: Distance, at: float, flush_s: float) -> None:
        """Apply a new read of the end."""
        self.handed = distance.handed
        if distance.handed is None:
            self.pending = None
        elif self.pending is None or at < self.pending[1]:
            self.pending = (distance.handed, at)
        elif at - self.pending[1] >= flush_s:
            self.done = max(self.pending[0], -1 if self.done is None else self.done)
            self.pending = (distance.handed, at)
        if distance.end is not None:
            self._sample(distance.end, at)

    def _sample(self, end: int, at: float) -> None:
        newest = self.samples[-1] if self.samples else None
        if newest is not None and end < newest[0]:
            self.forget()  # a file was truncated, a table emptied, or a binlog begun again
            newest = None
        elif newest is not None and at < newest[1]:
            self.samples.clear()  # the clock was set back
        self.previous = None if newest is None else newest[0]
        if self.samples and self.samples[-1][0] == end:
            self.samples[-1] = (end, at)
        else:
            self.samples.append((end, at))
        passed = self._count_samples(self._find_reached(self.position, self.done))
        del self.samples[: max(0, passed - 1)]  # what is handed out may yet be lost
        self.samples = thin_ends(self.samples)

    def _count_samples(self, reached: int | None) -> int:
        return 0 if reached is None else bisect_right(self.samples, reached, key=_end_of)

    @staticmethod
    def _find_reached(*positions: int | None) -> int | None:
        return max((number for number in positions if number is not None), default=None)

    @property
    def reached(self) -> int | None:
        """Return the position up to which nothing waits; None without one."""
        if self.position is None:
            return None
        return self._find_reached(self.position, self.handed, self.done)

    def find_behind_since(self, distance: Distance) -> float | None:
        """Return when the end was last seen at or below what is done; None if now, or never.

        A database also writes what a connector does not capture. So None as well where it does not
        say what it has handed out to a connection that may be open.
        """
        if distance.handed is None and not distance.exact and distance.connected is not False:
            return None
        passed = self._count_samples(self.reached)
        return None if passed in {0, len(self.samples)} else self.samples[passed - 1][1]

    def estimate_time(self, headroom_bytes: int | None) -> float | None:
        """Return the seconds in which so many bytes are written, at the pace since it is behind;
        None while nothing is written.
        """
        if headroom_bytes is None or len(self.samples) < SAMPLES_OF_PACE:
            return None
        (first, first_at), (last, last_at) = self.samples[0], self.samples[-1]
        if last <= first or last_at <= first_at:
            return None
        return headroom_bytes * (last_at - first_at) / (last - first)

    def is_caught_up(self, distance: Distance) -> bool | None:
        """Check whether all is done that was there at the read before; None if it is not known.

        Beyond the end there may be what an earlier source of the same name has left, and what
        comes is below it.
        """
        reached = self.reached
        if reached is None or not self.samples or distance.is_partial or distance.ahead > 0:
            return None
        if reached >= self.samples[-1][0]:
            return True
        if self.previous is not None and reached >= self.previous:
            return True
        return False if distance.exact or distance.handed is not None else None


@dataclass(slots=True)
class _Source:
    """Newest end of one source, and its partitions.

    read_number     number of reads so far
    removed         bytes of binlog files that the server has removed since the first read
    """

    of: SourceSettings
    end: SourceEnd | None = None
    at: float = 0.0
    read_number: int = 0
    is_new: bool = False
    removed: int = 0
    tracks: dict[PartitionKey, _Track] = field(default_factory=dict)

    def end_read(self) -> None:
        """Note that the newest read is applied; forget what was not shown for a day.

        A partition is not shown while its offsets topic cannot be read.
        """
        self.is_new = False
        self.tracks = {
            key: track
            for key, track in self.tracks.items()
            if abs(self.at - track.shown_at) < HIDDEN_RETENTION_S
        }

    def read(self, end: SourceEnd, at: float) -> None:
        """Apply a read of the end."""
        if abs(at - self.at) >= HIDDEN_RETENTION_S:
            self.tracks.clear()
        match self.end, end:
            case PostgresqlEnd() as before, PostgresqlEnd() as now:
                why = _find_replacement(before, now)
                if why is not None:
                    for track in self.tracks.values():
                        track.replace(why)
            case MysqlEnd() as before, MysqlEnd() as now:
                removed = _count_removed(before, now)
                if removed is None:
                    self.removed = 0
                    for track in self.tracks.values():
                        track.forget()
                else:
                    self.removed += removed
        self.end, self.at, self.is_new = end, at, True
        self.read_number += 1

    def persist(self) -> PersistedSource:
        """Return the state that must survive a restart; partitions with much that waits first."""
        tracks = sorted(self.tracks.items(), key=lambda item: -len(item[1].samples))
        return PersistedSource(
            address=self.of.address,
            at=self.at,
            end=_extract_server(self.end),
            removed=self.removed,
            tracks=tuple(
                PersistedTrack(
                    key,
                    track.samples,
                    track.position,
                    track.text,
                    track.done,
                    track.replaced,
                    track.shown_at,
                )
                for key, track in tracks[:PERSISTED_TRACKS_MAX]
            ),
        )

    def restore(self, state: PersistedSource) -> None:
        """Restore the state that an earlier process saved, before the first read."""
        self.end, self.at, self.removed = state.end, state.at, state.removed
        self.tracks = {
            row.key: _Track(
                samples=row.samples,
                position=row.position,
                text=row.text,
                done=row.done,
                replaced=row.replaced,
                shown_at=row.shown_at,
            )
            for row in state.tracks
        }


def _format_server(end: SourceEnd) -> str:
    parts: tuple[str | int | None, ...] = ()
    match end:
        case PostgresqlEnd():
            parts = (end.system_id, end.timeline)
        case MysqlEnd():
            parts = (end.server_id,)
    return "/".join(str(part) for part in parts if part is not None)


def _extract_server(end: SourceEnd | None) -> PostgresqlEnd | MysqlEnd | None:
    """Return of an end what later ones are compared with; None where nothing is."""
    match end:
        case PostgresqlEnd():
            return msgspec.structs.replace(end, slots={})
        case MysqlEnd():
            return msgspec.structs.replace(end, gtids=None, purged=None, readers=None)
    return None


def _count_removed(before: MysqlEnd, now: MysqlEnd) -> int | None:
    """Return the bytes of binlog files that are gone since; None if it is another server, or none
    of its files before is there.
    """
    if None not in {before.server_id, now.server_id} and before.server_id != now.server_id:
        return None
    if not before.logs or not now.logs:
        return 0
    gone = 0
    for log in before.logs:
        if log.name == now.logs[0].name:
            return gone
        gone += log.size
    return None


def _find_replacement(before: PostgresqlEnd, now: PostgresqlEnd) -> str | None:
    """Return in words how a server is another one than before; None if it is the same."""
    if None not in {before.system_id, now.system_id} and before.system_id != now.system_id:
        return (
            f"the server is another one: its system identifier was {before.system_id} and is "
            f"{now.system_id}"
        )
    if None not in {before.timeline, now.timeline} and before.timeline != now.timeline:
        return (
            f"a standby was promoted: the timeline was {before.timeline} and is {now.timeline}, "
            "and its offset is from before"
        )
    return None


class SourceEnds:
    """Ends of all configured sources.

    flush_s     time within which a connector commits what it was handed
    """

    def __init__(self, settings: Iterable[SourceSettings], inputs: Inputs, flush_s: float) -> None:
        self._sources = {source.name: _Source(source) for source in settings}
        self._inputs = inputs
        self._flush_s = flush_s
        self._version: object = None
        self._saved_version: object = None
        self._matches: Memo[tuple[_Match, ...]] = Memo()
        self._views: Memo[tuple[SourceEndView, ...]] = Memo()
        self._requests: Memo[tuple[SourceEndRequest, ...]] = Memo()
        self._names: Memo[Mapping[PartitionKey, str]] = Memo()
        self._last_names: Mapping[PartitionKey, str] = {}

    def read(self, read: SourceEndRead) -> None:
        """Apply the end of one source."""
        source = self._sources.get(read.source)
        if source is not None:
            source.read(read.end, read.at)
            self._version = read

    # --- over a restart --------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """Return whether something must be saved before it is shown; never."""
        return False

    def remembered(self) -> bytes | None:
        """Return the state that must survive a restart; None while nothing has changed."""
        if self._saved_version is self._version:
            return None
        self._saved_version = self._version
        sources = {
            name: source.persist()
            for name, source in self._sources.items()
            if source.end is not None
        }
        return msgspec.json.encode(_SourcesState(STATE_VERSION, sources))

    def recall(self, remembered: bytes) -> None:
        """Restore what another process saved of the sources that are still at the same address.

        Raise ValueError for another document, having changed nothing.
        """
        try:
            state = msgspec.json.decode(remembered, type=_SourcesState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise ValueError(str(exc)) from exc
        if state.version != STATE_VERSION:
            raise ValueError(f"version {state.version}, and this is {STATE_VERSION}")
        if not all(map(_is_ascending, state.sources.values())):
            raise ValueError("samples of an end that cannot be")
        for name, persisted in state.sources.items():
            source = self._sources.get(name)
            if source is not None and source.of.address == persisted.address:
                source.restore(persisted)

    # --- views -----------------------------------------------------------------------------------

    def views(
        self, partitions: tuple[SourcePartitionView, ...], connectors: Connectors, now: float
    ) -> tuple[SourceEndView, ...]:
        """Return the view of each partition whose source has a live end; the same tuple if nothing
        changed.
        """
        if not self._sources:
            return ()
        live = tuple(
            name for name in self._sources if self._inputs.live(build_source_end_input(name), now)
        )
        matches = self._match(partitions, connectors)
        return self._views.get(
            matches,
            self._version,
            *live,
            make=lambda: tuple(self._build_views(matches, frozenset(live))),
        )

    def names(
        self, partitions: tuple[SourcePartitionView, ...], connectors: Connectors
    ) -> Mapping[PartitionKey, str]:
        """Return the source that each partition reads, whether or not its end is known; the same
        mapping if nothing changed.
        """
        if not self._sources:
            return self._last_names
        matches = self._match(partitions, connectors)
        names = self._names.get(
            matches,
            make=lambda: {
                (view.connect_cluster, view.connector, view.identity): source.of.name
                for view, source, _ in matches
            },
        )
        if names != self._last_names:
            self._last_names = names
        return self._last_names

    def requests(
        self, partitions: tuple[SourcePartitionView, ...], connectors: Connectors
    ) -> tuple[SourceEndRequest, ...]:
        """Return what the sources are to be asked for; the same tuple if nothing changed."""
        requested = [
            source.of.name
            for source in self._sources.values()
            if source.of.kind in {SourceKind.SQL, SourceKind.FILE}
        ]
        if not requested:
            return ()
        matches = self._match(partitions, connectors)
        return self._requests.get(matches, make=lambda: tuple(_build_requests(matches, requested)))

    def _match(
        self, partitions: tuple[SourcePartitionView, ...], connectors: Connectors
    ) -> tuple[_Match, ...]:
        """Return each partition that reads a configured source, with its connector; the same tuple
        while the partitions and the connectors are the same objects.
        """
        return self._matches.get(
            partitions,
            *connectors.values(),
            make=lambda: tuple(self._find_matches(partitions, connectors)),
        )

    def _find_matches(
        self, partitions: tuple[SourcePartitionView, ...], connectors: Connectors
    ) -> Iterator[_Match]:
        by_dialect: dict[str, list[_Source]] = {}
        for source in self._sources.values():
            by_dialect.setdefault(DIALECTS[source.of.kind], []).append(source)
        for view in partitions:
            for source in by_dialect.get(view.dialect, ()):
                wants = source.of.wants.get(view.connect_cluster)
                if wants is None or not wants(view.connector):
                    continue
                connector = connectors[view.connect_cluster].get(view.connector)
                if view.dialect not in _DEBEZIUM or _is_in_use(view, _find_settings(connector)):
                    yield view, source, connector

    def _build_views(
        self, matches: tuple[_Match, ...], live: frozenset[str]
    ) -> Iterator[SourceEndView]:
        shared = _find_shared_users(matches)
        for view, source, connector in matches:
            if source.of.name in live and source.end is not None:
                key = (view.connect_cluster, view.connector, view.identity)
                track = source.tracks.setdefault(key, _Track())
                track.shown_at = source.at
                yield self._build_view(view, source, connector, track, shared)
        for name in live:
            self._sources[name].end_read()

    def _build_view(
        self,
        view: SourcePartitionView,
        source: _Source,
        connector: Connector | None,
        track: _Track,
        shared: frozenset[_SourceUser],
    ) -> SourceEndView:
        settings = _find_settings(connector)
        of = (view.connect_cluster, view.connector, view.identity, view.label)
        common = (*of, source.of.name, source.of.kind, source.at)
        if view.offset is None or view.offset.is_null:
            return SourceEndView(*common, problem=NO_OFFSET)
        fields = parse_offset_fields(view.offset)
        assert source.end is not None
        if source.of.kind in {SourceKind.POSTGRESQL, SourceKind.MYSQL} and is_snapshot(fields):
            user = None if settings is None else settings.user
            is_own = (source.of.name, user) not in shared
            is_over = isinstance(source.end, MysqlEnd) and reads_binlog(
                fields, source.end, settings
            )
            if not (is_own and is_over):
                return SourceEndView(*common, in_snapshot=True)
        distance = measure_offset(
            _parse_partition(view),
            fields,
            source.end,
            settings,
            source.of.columns,
            removed=source.removed,
        )
        if distance is None:
            return SourceEndView(*common, problem="its end was not read yet")
        if not _is_working(connector):
            distance = replace(distance, handed=None)
        track.move(distance, view.offset.text, source.read_number)
        if source.is_new:
            track.read(distance, source.at, self._flush_s)
        mismatch = distance.mismatch or track.replaced
        # The offset may be newer than the end.
        if track.since < source.read_number:
            track.lost, track.is_ahead = _find_loss(distance), distance.ahead > 0
        waits = track.is_caught_up(distance) is not True
        by_wal = source.of.kind is SourceKind.POSTGRESQL
        view_of_end = SourceEndView(
            *common,
            end=distance.end_text,
            fields=distance.fields,
            connected=distance.connected,
            mismatch=mismatch,
            problem=distance.unreadable,
            lost=track.lost,
            headroom_bytes=distance.headroom_bytes,
            retained_bytes=distance.retained_bytes,
            retention_near=distance.retention_near if waits else None,
            headroom_s=track.estimate_time(distance.headroom_bytes) if waits and by_wal else None,
            poll_s=0.0 if settings is None else settings.poll_s,
            server=_format_server(source.end),
        )
        reached = track.reached
        if mismatch is not None or reached is None or distance.end is None:
            return view_of_end
        return _with_numbers(view_of_end, distance, track, reached)


def _find_shared_users(matches: tuple[_Match, ...]) -> frozenset[_SourceUser]:
    """Return the users of sources that several connectors have: connections do not tell whose they
    are.
    """
    connectors: dict[_SourceUser, set[tuple[str, str]]] = {}
    for view, source, connector in matches:
        settings = _find_settings(connector)
        user = None if settings is None else settings.user
        key = (view.connect_cluster, view.connector)
        connectors.setdefault((source.of.name, user), set()).add(key)
    return frozenset(user for user, members in connectors.items() if len(members) > 1)


def _with_numbers(
    view: SourceEndView, distance: Distance, track: _Track, reached: int
) -> SourceEndView:
    assert distance.end is not None
    lag = max(0, distance.end - reached)
    in_bytes = lag if distance.unit == "bytes" else distance.bytes
    return msgspec.structs.replace(
        view,
        position=reached,
        end_position=distance.end,
        lag=lag,
        lag_bytes=0 if in_bytes is not None and not lag else in_bytes,
        lag_transactions=lag if distance.unit == "transactions" else None,
        lag_rows=lag if distance.unit == "rows" else None,
        caught_up=track.is_caught_up(distance),
        behind_since=track.find_behind_since(distance),
        ahead=distance.ahead if track.is_ahead and distance.unit in _COUNTED_UNITS else 0,
    )


def _find_loss(distance: Distance) -> str | None:
    if distance.lost is not None:
        return distance.lost
    floor = distance.floor
    position = distance.position_of_resume
    if distance.connected:
        return None  # it has resumed; its driver may confirm more than is committed (keepalives)
    if distance.unit != "bytes" or floor is None or position is None or position >= floor:
        return None
    return (
        f"its offset lies {format_count(floor - position, 'byte')} before the position from "
        "which it can resume"
    )


def measure_offset(
    partition: Fields,
    fields: Fields,
    end: SourceEnd,
    settings: DatabaseSettings | None,
    columns: frozenset[str],
    *,
    removed: int = 0,
) -> Distance | None:
    """Return the distance of an offset; None where its part of the end was not read yet.

    `columns` are as in SourceSettings, `removed` as in measure_mysql.
    """
    match end:
        case PostgresqlEnd():
            return measure_postgresql(fields, end, settings)
        case MysqlEnd():
            return measure_mysql(fields, end, settings, removed=removed)
        case SqlEnd(ends):
            query = find_column_query(partition, settings, columns)
            if query is None:
                return Distance(unreadable="its settings do not say which column orders its rows")
            column = ends.get(query)
            return None if column is None else measure_column(fields, column)
        case FileEnd(files):
            file = files.get(str(partition.get("filename")))
            return None if file is None else measure_file(fields, file)


def _build_requests(
    matches: tuple[_Match, ...], requested: Iterable[str]
) -> Iterator[SourceEndRequest]:
    columns: dict[str, set[ColumnQuery]] = {name: set() for name in requested}
    files: dict[str, set[str]] = {name: set() for name in requested}
    for view, source, connector in matches:
        if source.of.name not in columns:
            continue
        fields = _parse_partition(view)
        filename = fields.get("filename")
        if source.of.kind is SourceKind.FILE and isinstance(filename, str):
            files[source.of.name].add(filename)
        query = find_column_query(fields, _find_settings(connector), source.of.columns)
        if source.of.kind is SourceKind.SQL and query is not None:
            columns[source.of.name].add(query)
    for name in requested:
        yield SourceEndRequest(name, tuple(sorted(columns[name])), tuple(sorted(files[name])))


def _parse_partition(view: SourcePartitionView) -> Fields:
    parsed = parse_json(view.identity.encode())
    return parsed if isinstance(parsed, dict) else {}


def _find_settings(connector: Connector | None) -> DatabaseSettings | None:
    return None if connector is None else connector.database


def _is_working(connector: Connector | None) -> bool:
    """Check whether a connector and a task of it run: only then is what they were handed done.

    A paused Debezium connector stays connected and queues what it is sent. MariaDB goes on sending
    to a connection that is closed, and lists it, until a second write fails.
    """
    return connector is not None and has_running_task(connector.state, connector.tasks)


def _is_in_use(view: SourcePartitionView, settings: DatabaseSettings | None) -> bool:
    """Check whether a Debezium connector reads this partition: its `server` is `topic.prefix`."""
    prefix = None if settings is None else settings.topic_prefix
    return prefix is None or _parse_partition(view).get("server") == prefix


def find_column_query(
    partition: Fields, settings: DatabaseSettings | None, configured: frozenset[str]
) -> ColumnQuery | None:
    """Return the column that orders the rows of a JDBC partition; None if it is not known.

    A query has no table, and bulk mode no order.
    """
    table = partition.get("table") or ("query" if "query" in partition else None)
    if not isinstance(table, str):
        return None
    if table in configured:
        return ColumnQuery(table, "")
    if settings is None or "table" not in partition or settings.mode in {None, "bulk"}:
        return None
    if settings.mode != "incrementing":
        columns = settings.timestamp_columns
        return ColumnQuery(table, columns[0]) if len(columns) == 1 else None
    column = settings.incrementing_column
    return None if column is None else ColumnQuery(table, column)


def _is_ascending(state: PersistedSource) -> bool:
    return all(
        before[0] < after[0] and before[1] <= after[1]
        for track in state.tracks
        for before, after in pairwise(track.samples)
    )


def _end_of(sample: tuple[int, float]) -> int:
    return sample[0]
