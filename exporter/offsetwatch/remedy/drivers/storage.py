"""Driver that writes offsets to Connect's storage while no worker runs, and that storage.

The storage is a topic, or a standalone worker's file. Only connections are kept between calls, and
since when no other process wrote. The driver cannot stop workers: it checks that none runs, before
and right before the write.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from offsetwatch.clients.connect.standalone_offsets_file import (
    find_worker_evidence,
    read_offsets_entries,
)
from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.whole_topic import (
    LogRecord,
    ProgressCallback,
    StorageAdmin,
    read_topic_ends,
    read_whole_topic,
)
from offsetwatch.clients.write.offsets import (
    OffsetsWriteResult,
    OutgoingOffsetRecord,
    lock_file,
    replace_file,
    write_records,
)
from offsetwatch.clock import UnixClock, to_utc
from offsetwatch.errors import AccessDenied, ClientError, Conflict, NotFound
from offsetwatch.formatting import format_count
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Freeze,
    FrozenOffsets,
    RawOffsetRecord,
    Settle,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    StoredOffsetRecord,
    decode_record_value,
    index_by_key,
    list_pairs,
    list_raw_records,
)
from offsetwatch.state.clock_skew import is_later

WriteFunction = Callable[
    [str, Mapping[str, Any], str, Sequence[OutgoingOffsetRecord]], OffsetsWriteResult
]
_MEMBERS_LISTED_MAX: Final = 5
_STOP: Final = "stop every worker first"


class WorkerGroup(NamedTuple):
    """The workers that write to a topic.

    group       all of them are its members
    flush_s     a running worker would have written a record within this time
    read_classes    returns the classes of their connectors by name, where they are known
    """

    group: str
    flush_s: float
    read_classes: Callable[[], Mapping[str, str]] = dict


class TopicStorage:
    """An offsets topic.

    kafka       the cluster's name for users
    properties  librdkafka's, including `bootstrap.servers`
    workers     None where the caller ensures that no worker writes
    """

    def __init__(
        self,
        kafka: str,
        properties: Mapping[str, Any],
        topic: str,
        *,
        workers: WorkerGroup | None,
        in_envelope: tuple[bool, bool] = (False, False),
        admin: StorageAdmin | None = None,
        open_reader: Callable[[], TailReader] | None = None,
        write: WriteFunction = write_records,
    ) -> None:
        self.topic = topic
        self._kafka = kafka
        self._properties = properties
        self._workers = workers
        self._in_envelope = in_envelope
        self._admin = StorageAdmin(kafka, properties) if admin is None else admin
        self._open = open_reader or (lambda: TailReader(kafka, properties))
        self._write = write
        self._others: tuple[frozenset[tuple[int | None, int | None]], float] | None = None

    @property
    def where(self) -> str:
        """The cluster and the topic."""
        return f"{self._kafka}/{self.topic}"

    def identity(self) -> str | None:
        """Return the id of the Kafka cluster."""
        return self._admin.cluster_id()

    def contents(self, progress: ProgressCallback | None = None) -> OffsetStoreContents:
        """Read the newest record of each key in each partition."""
        ends = read_topic_ends(self._admin, self.topic)
        records = read_whole_topic(
            self._admin, self._open, self.topic, until=ends, progress=progress
        )
        return build_contents(
            self.where,
            records,
            ends.partitions,
            in_envelope=self._in_envelope,
            classes={} if self._workers is None else self._workers.read_classes(),
        )

    def history(self, progress: ProgressCallback | None = None) -> Iterator[LogRecord]:
        """Read every record that still exists."""
        return read_whole_topic(self._admin, self._open, self.topic, progress=progress)

    def busy(self) -> tuple[str, ...]:
        """Return the workers in the group, and open transactions."""
        if self._workers is None:
            return ()
        users = []
        group = self._workers.group
        members = self._admin.members(group)
        if members:
            hidden = len(members) - _MEMBERS_LISTED_MAX
            more = f" and {hidden} more" if hidden > 0 else ""
            listed = ", ".join(members[:_MEMBERS_LISTED_MAX])
            users.append(f"group {group} has workers: {listed}{more}")
        try:
            open_transactions = read_topic_ends(self._admin, self.topic).held
        except NotFound:
            open_transactions = ()
        users += [
            f"a transaction is open in partition {number} of {self.where}"
            for number in open_transactions
        ]
        return tuple(users)

    def unsettled(self, contents: OffsetStoreContents, now: float) -> str | None:
        """Return why a worker that has lost its group may still commit; None if that is over.

        It is over where the workers' records are certainly older than a flush, by their clocks, or
        where none arrived for that long during our reads.
        """
        others = [record for record in contents.stored if record.at and not record.ours]
        newest = max((record.at or 0.0 for record in others), default=None)
        flush_s = 0.0 if self._workers is None else self._workers.flush_s
        if newest is None or is_later(now, newest + flush_s):
            return None
        positions = frozenset((record.kpartition, record.koffset) for record in others)
        if self._others is None or self._others[0] != positions or self._others[1] > now:
            self._others = (positions, now)
        until = self._others[1] + flush_s
        if now >= until:
            return None
        # The moments and not how long it is until then: the same sentence is told once.
        return (
            f"the newest record of {self.where} is of {_format_clock(newest)} by its worker's "
            f"clock; that no worker commits again is known at {_format_clock(until)}"
        )

    def write(self, records: tuple[RawOffsetRecord, ...]) -> Outcome:
        """Write with one idempotent producer and all acknowledgements."""
        count = self._admin.shape(self.topic)[1]
        outgoing = []
        for record in records:
            if record.kpartition is None or not 0 <= record.kpartition < count:
                return Outcome(
                    AttemptResult.NACK, f"{self.where} has no partition {record.kpartition}"
                )
            key = base64.b64decode(record.key)
            outgoing.append(
                OutgoingOffsetRecord(record.kpartition, key, decode_record_value(record))
            )
        done = self._write(self._kafka, self._properties, self.topic, outgoing)
        if done.failed is None:
            said = f"{format_count(done.acknowledged, 'record')} written to {self.where}"
            return _doubt_if_busy(self.busy, Outcome(AttemptResult.ACK, said))
        said = (
            f"{done.acknowledged} of {format_count(len(outgoing), 'record')} written: {done.failed}"
        )
        return Outcome(AttemptResult.NACK if done.certain else AttemptResult.IN_DOUBT, said)

    def close(self) -> None:
        """Close the admin client."""
        self._admin.close()


class FileStorage:
    """The offsets file of a standalone worker on this machine.

    properties  the worker's own file, which its command line names
    urls        addresses of its REST API
    """

    def __init__(
        self,
        path: Path,
        *,
        properties: Path,
        urls: tuple[str, ...],
        in_envelope: tuple[bool, bool] = (False, False),
    ) -> None:
        self.path = path
        self._properties = properties
        self._urls = urls
        self._in_envelope = in_envelope

    @property
    def where(self) -> str:
        """The path of the file."""
        return str(self.path)

    def identity(self) -> str | None:
        """Return None: a file has no identity that would survive its replacement."""
        return None

    def contents(self, progress: ProgressCallback | None = None) -> OffsetStoreContents:
        """Read all entries.

        If the file does not exist and its folder does, the worker has no offsets yet.
        """
        entries = self._entries()
        if progress is not None:
            progress(len(entries), len(entries))
        return OffsetStoreContents(
            where=self.where,
            stored=tuple(StoredOffsetRecord(key, value) for key, value in entries),
            partitions=None,
            keys_in_envelope=self._in_envelope[0],
            values_in_envelope=self._in_envelope[1],
        )

    def busy(self) -> tuple[str, ...]:
        """Return processes that have or name the file, REST APIs that answer, and lock holders."""
        evidence = find_worker_evidence(self.path, self._properties, self._urls)
        try:
            with lock_file(self.path):
                pass
        except Conflict as exc:
            evidence = (*evidence, exc.detail)
        return evidence

    def unsettled(self, contents: OffsetStoreContents, now: float) -> str | None:
        """Return None: a process that wrote has ended with all that it would write."""
        del contents, now
        return None

    def write(self, records: tuple[RawOffsetRecord, ...]) -> Outcome:
        """Write all records at once: replace the file, and keep its earlier version next to it."""
        with lock_file(self.path):
            entries = dict(self._entries())
            for record in records:
                # Connect itself keeps the key of what was removed.
                entries[base64.b64decode(record.key)] = decode_record_value(record)
            earlier = replace_file(self.path, tuple(entries.items()))
        beside = "" if earlier is None else f"; what it was is kept as {earlier.name}"
        said = f"{format_count(len(records), 'entry', 'entries')} written to {self.where}{beside}"
        return _doubt_if_busy(self.busy, Outcome(AttemptResult.ACK, said))

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _entries(self) -> tuple[tuple[bytes | None, bytes | None], ...]:
        try:
            return read_offsets_entries(self.path)
        except NotFound:
            if not self.path.parent.is_dir():
                raise
            return ()


Storage = TopicStorage | FileStorage
"""Where source offsets are stored. Every call may raise ClientError."""


def build_contents(
    where: str,
    records: Iterable[LogRecord],
    partitions: int,
    *,
    in_envelope: tuple[bool, bool] = (False, False),
    classes: Mapping[str, str] | None = None,
) -> OffsetStoreContents:
    """Build the contents of a topic from all its records, each partition in log order."""
    newest: dict[tuple[bytes | None, int], StoredOffsetRecord] = {}
    for record in records:
        newest[record.key, record.kpartition] = StoredOffsetRecord(
            record.key, record.value, record.kpartition, record.koffset, record.at, ours=record.ours
        )
    return OffsetStoreContents(
        where=where,
        stored=tuple(newest.values()),
        partitions=partitions,
        keys_in_envelope=in_envelope[0],
        values_in_envelope=in_envelope[1],
        classes=classes or {},
    )


def _format_clock(moment: float) -> str:
    return to_utc(moment).strftime("%H:%M:%S UTC")


def _doubt_if_busy(busy: Callable[[], tuple[str, ...]], outcome: Outcome) -> Outcome:
    """Downgrade the outcome to IN_DOUBT if a worker may have started just before the write.

    It may have read the earlier offsets.
    """
    try:
        others = busy()
    except ClientError as exc:
        others = (str(exc),)
    if not others:
        return outcome
    said = f"{outcome.said}; but a worker may have begun meanwhile: {'; '.join(others)}"
    return Outcome(AttemptResult.IN_DOUBT, said)


class StorageDriver:
    """Driver for one connector in the offset storage of its workers."""

    def __init__(self, storage: Storage, connector: str, clock: UnixClock) -> None:
        self._storage = storage
        self._connector = connector
        self._clock = clock

    def identity(self) -> str | None:
        """Return the identity of the storage."""
        return self._storage.identity()

    def offsets(self) -> DriverOffsets:
        """Return the offsets that a task would receive, and every record behind them."""
        contents = self._storage.contents()
        return DriverOffsets(
            list_pairs(contents, self._connector), list_raw_records(contents, self._connector)
        )

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """Inspect a step. A running worker means NOT_YET: it may be about to end."""
        match step:
            case Settle():
                return self._settled()
            case Freeze():
                return StepInspection(StepStatus.READY, "")
            case Write():
                return self._written(step, frozen)
            case _:
                return StepInspection(StepStatus.IMPOSSIBLE, _describe_unsupported_step(step))

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Write all records once, if no worker has started in the meantime."""
        if not isinstance(step, Write):
            return Outcome(AttemptResult.NACK, _describe_unsupported_step(step))
        try:
            before = self._written(step, frozen)
            busy = self._storage.busy()
        except ClientError as exc:
            answer = AttemptResult.NACK if isinstance(exc, AccessDenied) else AttemptResult.RETRY
            return Outcome(answer, f"nothing was written: {exc}")
        if busy:
            return Outcome(AttemptResult.NACK, f"nothing was written: {'; '.join(busy)}; {_STOP}")
        if before.status in {StepStatus.FOREIGN, StepStatus.IMPOSSIBLE}:
            return Outcome(AttemptResult.NACK, f"nothing was written: {before.said}")
        return self._storage.write(step.records)

    def _settled(self) -> StepInspection:
        try:
            busy = self._storage.busy()
        except AccessDenied as exc:
            return StepInspection(
                StepStatus.IMPOSSIBLE, f"it is unknown whether a worker runs: {exc}"
            )
        if busy:
            return StepInspection(StepStatus.NOT_YET, f"{'; '.join(busy)}; {_STOP}")
        contents = self._storage.contents()
        why = self._storage.unsettled(contents, self._clock.now())
        if why is not None:
            return StepInspection(StepStatus.NOT_YET, why)
        again = self._storage.busy()
        if again:
            return StepInspection(StepStatus.NOT_YET, "; ".join(again))
        return StepInspection(StepStatus.DONE, f"no worker writes to {self._storage.where}")

    def _written(self, step: Write, frozen: FrozenOffsets | None) -> StepInspection:
        if step.where != self._storage.where:
            return StepInspection(
                StepStatus.IMPOSSIBLE, f"the plan writes to {step.where}, this is not it"
            )
        return inspect_write(self._storage.contents(), self._connector, step, frozen)


def inspect_write(
    contents: OffsetStoreContents, connector: str, step: Write, frozen: FrozenOffsets | None
) -> StepInspection:
    """Compare the records of a connector with those before a step, and those it writes."""
    now, requested = index_by_key(contents), _index_records(step.records)
    before = {} if frozen is None else _index_records(frozen.records_of(step.where).values())
    present = _index_records(list_raw_records(contents, connector))
    others, others_before = (
        {key: value for key, value in records.items() if key not in requested}
        for records in (present, before)
    )
    if frozen is not None and others != others_before:
        return StepInspection(
            StepStatus.FOREIGN, f"other offsets of {connector} are not what they were"
        )
    written = {key for key, value in requested.items() if now.get(key) == value}
    if len(written) == len(requested):
        return _check_read_back(contents, connector, step)
    missing = requested.keys() - written
    said = f"{len(missing)} of {format_count(len(requested), 'record')}:"
    if frozen is not None and any(now.get(key) != before.get(key) for key in missing):
        return StepInspection(StepStatus.FOREIGN, f"{said} neither as before nor as wanted")
    has_new_values = any(before.get(key) != requested[key] for key in written)
    status = StepStatus.PARTLY if has_new_values else StepStatus.READY
    return StepInspection(status, f"{said} still to be written")


def _check_read_back(contents: OffsetStoreContents, connector: str, step: Write) -> StepInspection:
    offsets = {pair.partition: pair.offset for pair in list_pairs(contents, connector)}
    wrong = [pair for pair in step.pairs if offsets.get(pair.partition) != pair.offset]
    if wrong:
        said = f"{wrong[0].partition}: written, and a task would still be handed another offset"
        return StepInspection(StepStatus.FOREIGN, said)
    return StepInspection(StepStatus.DONE, f"{contents.where} holds what was to be written")


def _index_records(
    records: Iterable[RawOffsetRecord],
) -> dict[tuple[bytes | None, int | None], bytes | None]:
    return {
        (base64.b64decode(record.key), record.kpartition): decode_record_value(record)
        for record in records
    }


def _describe_unsupported_step(step: AnyStep) -> str:
    return f"{type(step).__name__}: Connect is not asked here; over REST it could be (--connect)"
