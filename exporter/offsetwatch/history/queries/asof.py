"""Source offsets of connectors as of a past time, from the tables alone, without a JVM.

As of T means: the offsets that Connect would have handed to a task that started at T. The rules:

* Only records under raw keys that its task may have looked up count; a worker may have written
  these very bytes, and the connector's class as of T writes its fields in that order. Of several
  such keys of one source partition, the one that the connector committed under until T counts
  (state/connect/raw_keys.py). Where the key is unknown, or the class that decides it, the connector
  is refused.
* Inside one log the Kafka offset is the order; a record's timestamp only decides whether it is of T
  or before. Where timestamps run against the offsets (a producer's clock was set back), the answer
  is the record with the highest offset among those stamped T or before, even if one with a later
  stamp lies in front of it. A stamp more than a day ahead of the time the record was read counts as
  the end of the next day.
* A connector's topic is the one that the newest run of the pipeline found it to use (gold/topics);
  a topic of its own is read alone, as Connect does. No record tells which topic it used at T: if
  its topic of today has nothing of it at T and another one has, the query is refused with the name
  of the other one, which the user can then name.
* Of a topic that was created again, the one that existed at T is read: a generation begins with its
  first record, and not before the last write to the one it replaces.
* Unread records are not guessed. Since the pipeline first read a topic no record is missing; before
  that, compaction may have deleted what was overwritten, and where a hole in the log could hide a
  record of that time, the query is refused. The same holds between the last reading of a topic that
  was deleted and the first record of the one that replaced it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, itemgetter
from pathlib import Path

from offsetwatch.clock import to_utc
from offsetwatch.decode.dialects import is_lookup_key
from offsetwatch.decode.java.hash_map import build_connect_key_from_json
from offsetwatch.decode.source_offsets import decode_key
from offsetwatch.errors import HistoryError
from offsetwatch.formatting import format_count
from offsetwatch.history.queries.source_lag import read_newest_samples
from offsetwatch.history.tables import offsets_topic_queries, reader
from offsetwatch.history.tables.config_topic_queries import find_class_name
from offsetwatch.history.tables.offsets_topic_queries import OffsetsTopicLog, Row, find_keys_in_use
from offsetwatch.model.offsets import SourceKey
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.connect.raw_keys import SpellingInUse

_NULL = "null"  # the text of a value that holds JSON null: Connect hands out nothing


class UnanswerableQuery(HistoryError):
    """Error of a query that the tables cannot answer; it says why, and since when they can."""


@dataclass(frozen=True, slots=True)
class AsOfQuery:
    """A query for source offsets.

    at          Unix seconds
    connector   None for every one that has a record
    topic       `kafka/topic`: read this one, whatever the connectors use now
    with_now    the newest state as well
    """

    at: float
    connect_cluster: str | None = None
    connector: str | None = None
    topic: str | None = None
    with_now: bool = False


@dataclass(frozen=True, slots=True)
class AsOfOffset:
    """Newest record of a source partition as of a time.

    source_offset   JSON with sorted keys, exact; None if a task gets nothing from it: a tombstone,
                    JSON null, or an `error`
    raw_key         the bytes of the key that its task looked up
    """

    source_partition: str
    source_offset: str | None
    raw_key: bytes
    dialect: str
    error: str | None
    committed_at: float
    kpartition: int
    koffset: int


@dataclass(frozen=True, slots=True)
class ConnectorOffsets:
    """Offsets of one connector, in order of their source partitions.

    then    as of the requested time
    now     the newest in the tables; empty if not requested
    """

    connector: str
    topic: KafkaTopic
    topic_id: str
    then: tuple[AsOfOffset, ...]
    now: tuple[AsOfOffset, ...]


@dataclass(frozen=True, slots=True)
class AsOfResult:
    """Result of an AsOfQuery.

    unknown         connectors without an answer, each with the reason
    read_at         when the newest record of these topics came into the tables
    newest_at       the newest record's own timestamp
    files, files_skipped    files of silver that were opened for the offsets, and how many of the
                            same tables were not
    source_ends     by connector and source partition, the newest sample of the end of its source
    """

    at: float
    connect_cluster: str
    connectors: tuple[ConnectorOffsets, ...]
    unknown: tuple[tuple[str, str], ...]
    read_at: float
    newest_at: float
    files: tuple[str, ...]
    files_skipped: int
    source_ends: Mapping[tuple[str, str], SourceEndSample]


def read_as_of(base: Path, query: AsOfQuery) -> AsOfResult:
    """Return the offsets that a query asks for.

    Raises UnanswerableQuery where no answer at all is possible, HistoryError where there are no
    tables.
    """
    everything = offsets_topic_queries.read_logs(base)
    cluster = _resolve_cluster(base, everything, query)
    logs = tuple(log for log in everything if log.connect_cluster == cluster)
    begun = min(log.first_at for log in logs)
    if query.at < begun:
        raise UnanswerableQuery(
            f"nothing is known as of {format_iso(query.at)}: the oldest record read of {cluster} "
            f"is of {format_iso(begun)}"
        )
    at_that_time = offsets_topic_queries.read_newest_as_of(
        base, logs, cluster, query.connector, query.at
    )
    then, now = _group_rows(at_that_time.rows, "connector"), _group_rows([], "connector")
    if query.with_now:
        newest = offsets_topic_queries.read_newest_overall(base, cluster, query.connector)
        now = _group_rows(newest.rows, "connector")
    offsets = _ClusterOffsets(base, logs, query)
    connectors: list[ConnectorOffsets] = []
    unknown: list[tuple[str, str]] = []
    for name in sorted({*then, *now}):
        try:
            connectors.append(offsets.build(name, then[name], now[name]))
        except UnanswerableQuery as exc:
            unknown.append((name, str(exc)))
    if query.connector is not None and not connectors and not unknown:
        unknown = [(query.connector, _explain_no_record(base, cluster, query.connector, query.at))]
    return AsOfResult(
        at=query.at,
        connect_cluster=cluster,
        connectors=tuple(connectors),
        unknown=tuple(unknown),
        read_at=max(log.last_read_at for log in logs),
        newest_at=max(log.last_at for log in logs),
        files=at_that_time.files,
        files_skipped=at_that_time.files_skipped,
        source_ends=read_newest_samples(base, cluster, query.connector, query.at),
    )


class _ClusterOffsets:
    """Offsets in one Connect cluster, by the topic that a connector uses and its generation."""

    def __init__(self, base: Path, logs: tuple[OffsetsTopicLog, ...], query: AsOfQuery) -> None:
        self._base = base
        self._logs = logs
        self._query = query
        cluster = logs[0].connect_cluster
        self._topics = {
            topic.connector: topic.at
            for topic in reader.read_topics(base)
            if topic.connect_cluster == cluster
        }
        # Many connectors share a log.
        self._find_compaction_start = cache(
            partial(offsets_topic_queries.find_compaction_start, base)
        )

    def build(self, name: str, then: list[Row], now: list[Row]) -> ConnectorOffsets:
        """Return the offsets of one connector. Raises UnanswerableQuery."""
        home = self._resolve_topic(name, then or now)
        log = self._find_generation(home)
        newest = self._list_generations(home)[-1:]
        mine = [] if log is None else [row for row in then if _is_in_log(row, log)]
        if log is None or not mine:
            raise UnanswerableQuery(self._explain_absence(name, home, then))
        self._refuse_hidden(log)
        self._refuse_lost(log, mine)
        self._refuse_unread(log, newest[0])
        offsets = self._build_offsets(name, log, mine, self._query.at)
        if not offsets:
            keys = sorted({row["key"] for row in mine})
            raise UnanswerableQuery(_explain_unread_keys(keys, self._query.at))
        return ConnectorOffsets(
            connector=name,
            topic=home,
            topic_id=log.topic_id,
            then=offsets,
            now=self._build_offsets(
                name, newest[0], [row for row in now if _is_in_log(row, newest[0])]
            ),
        )

    def _build_offsets(
        self, name: str, log: OffsetsTopicLog, rows: list[Row], moment: float | None = None
    ) -> tuple[AsOfOffset, ...]:
        """Return one offset per source partition, under the raw key that its task looked up.

        Source partitions of which its task looked up no raw key are left out.
        """
        rows = [_fill_key(row) for row in rows]
        keys = {
            identity: {row["key"] for row in same}
            for identity, same in _group_rows(rows, "source_partition").items()
        }
        doubtful = {
            identity
            for identity, raw_keys in keys.items()
            if len(raw_keys) > 1 or not all(map(_is_certain, raw_keys))
        }
        if doubtful:
            class_name = find_class_name(self._base, log.connect_cluster, name, moment)
            evidence = offsets_topic_queries.read_evidence(self._base, log, name, moment)
            in_use = find_keys_in_use(evidence, class_name)
            chosen = {
                identity: _find_key_in_use(identity, in_use, class_name) for identity in doubtful
            }
            rows = [
                row
                for row in rows
                if row["source_partition"] not in doubtful
                or row["key"] == chosen[row["source_partition"]]
            ]
        return _select_offsets(rows)

    def _resolve_topic(self, name: str, rows: list[Row]) -> KafkaTopic:
        moment, topic_name = format_iso(self._query.at), self._query.topic
        if topic_name is not None:
            known = sorted({log.at for log in self._logs})
            matching = [topic for topic in known if topic_name in {topic.topic, str(topic)}]
            if len(matching) != 1:
                names = _join_names(known)
                raise UnanswerableQuery(f"--topic {topic_name} is none, or several, of {names}")
            return matching[0]
        home = self._topics.get(name, self._topics.get(None))
        if home is not None:
            if not home.topic:
                raise UnanswerableQuery(
                    "it keeps its offsets on a Kafka cluster that is not configured"
                )
            return home
        topics = sorted({KafkaTopic(row["kafka"], row["topic"]) for row in rows})
        if len(topics) == 1:
            return topics[0]
        raise UnanswerableQuery(
            f"which topic it used as of {moment} is not known: {_join_names(topics)} hold offsets "
            "of it; name one with --topic"
        )

    def _list_generations(self, topic: KafkaTopic) -> list[OffsetsTopicLog]:
        """Return the topic under each of its ids, in the order in which they were first read."""
        return sorted(
            (log for log in self._logs if log.at == topic),
            key=attrgetter("first_read_at", "first_at"),
        )

    def _find_generation(self, topic: KafkaTopic) -> OffsetsTopicLog | None:
        """Return the generation that existed at the requested time; None if there was none."""
        current = None
        for log in self._list_generations(topic):
            # A clock that ran ahead must not move a topic beyond the moment it was read.
            begun = min(log.first_at, log.first_read_at)
            if current is not None:
                begun = max(begun, min(current.last_at, current.last_read_at))
            if begun > self._query.at:
                break
            current = log
        return current

    def _explain_absence(self, name: str, home: KafkaTopic, then: list[Row]) -> str:
        moment = format_iso(self._query.at)
        others = sorted({KafkaTopic(row["kafka"], row["topic"]) for row in then} - {home})
        if others:
            return (
                f"{home}, where it keeps its offsets, holds nothing of it as of {moment}, but "
                f"{_join_names(others)} does: if it kept them there then, name that with --topic"
            )
        if then:
            return f"{home} was created again before {moment}, and held nothing of {name} since"
        return f"it had committed nothing yet as of {moment}"

    def _refuse_hidden(self, log: OffsetsTopicLog) -> None:
        moment = self._query.at
        if moment >= log.first_read_at:
            return
        hidden = self._find_compaction_start(log)
        if hidden is not None and hidden <= moment:
            raise UnanswerableQuery(
                f"{log.at} was compacted before it was first read, so offsets as of "
                f"{format_iso(moment)} may be missing; they are known from "
                f"{format_iso(log.first_read_at)} on"
            )

    def _refuse_lost(self, log: OffsetsTopicLog, rows: list[Row]) -> None:
        """Raise UnanswerableQuery if a record inside a gap may have replaced one before it."""
        gaps = (
            gap
            for gap in reader.read_gaps(self._base, log.kafka)
            # Without an end it is the unread one of a deleted topic.
            if (gap.topic, gap.topic_id) == (log.topic, log.topic_id) and gap.to_offset is not None
        )
        for gap in sorted(gaps):
            fronted = any(
                row["kpartition"] == gap.kpartition and row["koffset"] < gap.from_offset
                for row in rows
            )
            if fronted and self._query.at >= offsets_topic_queries.find_time_before_gap(
                self._base, log, gap
            ):
                raise UnanswerableQuery(
                    f"records of {log.kafka} are permanently missing: {gap}; what its source "
                    f"partitions had in there as of {format_iso(self._query.at)} is not known"
                )

    def _refuse_unread(self, log: OffsetsTopicLog, newest: OffsetsTopicLog) -> None:
        moment = self._query.at
        if log != newest and moment > log.last_read_at:
            raise UnanswerableQuery(
                f"{log.at} was deleted and created again, and what was written to the old one "
                f"after {format_iso(log.last_read_at)} was never read: as of {format_iso(moment)} "
                "nothing is known"
            )


def _resolve_cluster(base: Path, logs: tuple[OffsetsTopicLog, ...], query: AsOfQuery) -> str:
    known = sorted({log.connect_cluster for log in logs})
    if not known:
        raise UnanswerableQuery("no record of an offsets topic has been read yet")
    if query.connect_cluster is not None:
        if query.connect_cluster not in known:
            raise UnanswerableQuery(
                f"nothing was read of Connect cluster {query.connect_cluster}, "
                f"only of {_join_names(known)}"
            )
        return query.connect_cluster
    if len(known) > 1 and query.connector is not None:
        clusters = offsets_topic_queries.find_clusters(base, query.connector)
        known = [name for name in clusters if name in known]
        if not known:
            raise UnanswerableQuery(f"no record of a connector {query.connector} was ever read")
    if len(known) > 1:
        raise UnanswerableQuery(f"say which Connect cluster with --connect: {_join_names(known)}")
    return known[0]


def _explain_no_record(base: Path, connect_cluster: str, connector: str, moment: float) -> str:
    until = f"of {format_iso(moment)} or before"
    keys = offsets_topic_queries.find_unread_keys(base, connect_cluster, connector, moment)
    if not keys:
        return f"no record of it was read that is {until}"
    return _explain_unread_keys(keys, moment)


def _explain_unread_keys(keys: Sequence[bytes], moment: float) -> str:
    return (
        f"its records of {format_iso(moment)} or before have raw keys that its tasks did not look "
        f"up ({format_count(len(keys), 'key')}, such as {keys[0].decode(errors='replace')}): other "
        "bytes than Connect writes, or the fields of MirrorMaker in another order than its own"
    )


def _is_certain(raw_key: bytes) -> bool:
    """Check whether a task may look up a raw key, whatever the class of its connector."""
    key = decode_key(raw_key)
    return isinstance(key, SourceKey) and is_lookup_key(key, "")


def _find_key_in_use(
    identity: str, in_use: Mapping[str, SpellingInUse], class_name: str
) -> bytes | None:
    """Return the raw key that the task of a source partition looks up, or None if it looks up none.

    Raises UnanswerableQuery if it is not known.
    """
    use = in_use.get(identity, SpellingInUse(None))
    if use.spelling is not None:
        return use.spelling.raw_key
    if not use.unsure:
        return None
    keys = _join_names([spelling.raw_key.decode(errors="replace") for spelling in use.unsure])
    if not class_name and not any(_is_certain(spelling.raw_key) for spelling in use.unsure):
        raise UnanswerableQuery(
            f"{identity} has an offset under {keys}, which a task of MirrorMaker does not look up, "
            "and one of another class may; the class of the connector as of then is not known"
        )
    raise UnanswerableQuery(
        f"{identity} has offsets under several raw keys, and which one its task looked up is not "
        f"known: {keys}"
    )


def _select_offsets(rows: list[Row]) -> tuple[AsOfOffset, ...]:
    """Return one offset per source partition.

    Records in two partitions of the topic (their number was changed) are only ordered by timestamps
    that differ by more than clocks do. Raises UnanswerableQuery.
    """
    offsets = []
    for partition, records in sorted(_group_rows(rows, "source_partition").items()):
        newest = max(records, key=itemgetter("kts", "kpartition"))
        for row in records:
            differ = all(newest[name] != row[name] for name in ("kpartition", "source_offset"))
            if differ and not is_later(newest["kts"], row["kts"]):
                numbers = sorted((newest["kpartition"], row["kpartition"]))
                raise UnanswerableQuery(
                    f"{partition} has records in two partitions of its offsets topic, "
                    f"{numbers[0]} and {numbers[1]}, whose timestamps are too close to "
                    "tell the newer: clocks may differ by ten minutes"
                )
        offsets.append(_build_offset(newest))
    return tuple(offsets)


def _fill_key(row: Row) -> Row:
    """Return a row with its raw key.

    An older version wrote rows without it, of HashMap's order only.
    """
    if row["key"]:
        return row
    return row | {"key": build_connect_key_from_json(row["connector"], row["source_partition"])}


def _build_offset(row: Row) -> AsOfOffset:
    offset = row["source_offset"]
    return AsOfOffset(
        source_partition=row["source_partition"],
        source_offset=None if offset == _NULL else offset,
        raw_key=row["key"],
        dialect=row["dialect"],
        error=row["error"],
        committed_at=row["kts"],
        kpartition=row["kpartition"],
        koffset=row["koffset"],
    )


def _is_in_log(row: Row, log: OffsetsTopicLog) -> bool:
    return (row["kafka"], row["topic"], row["topic_id"]) == (log.kafka, log.topic, log.topic_id)


def _group_rows(rows: Iterable[Row], column: str) -> defaultdict[str, list[Row]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def _join_names(names: Sequence[object]) -> str:
    return ", ".join(str(name) for name in names)


def format_iso(moment: float) -> str:
    """Return a time as ISO 8601 text, to the millisecond as Kafka has it."""
    return to_utc(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")
