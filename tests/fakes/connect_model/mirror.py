"""Tasks of a MirrorSourceConnector: they copy from another cluster, and know of each partition the
last record that they copied.

A record that the producer refuses fails the task; one that cannot be read off the log does not:
the consumer's error is logged, the partition stands still, and everything says RUNNING.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple

from tests.fakes.connect_model.broker import NoSuchPartition, Record
from tests.fakes.connect_model.sources import SourceTask
from tests.fakes.connect_model.tasks import TaskFailed
from tests.fakes.connect_model.timeline import Steps

REQUEST_BYTES_MAX: Final = 1024 * 1024
BATCH: Final = 500
SYNC_LAG_MAX: Final = 100

Spot = tuple[str, int]


class Sync(NamedTuple):
    """A record of the offset-syncs topic: the same record here and there."""

    at: float
    topic: str
    partition: int
    upstream: int
    downstream: int


class MirrorTask(SourceTask):
    """`positions` is what it reads next of each partition."""

    def __init__(self, *built: Any) -> None:
        super().__init__(*built)
        upstream = self.connect.upstream_of(self.config)
        assert upstream is not None, "plugins.py gives no tasks without one"
        self.upstream = upstream
        self.alias = self.config["source.cluster.alias"]
        self.spots: list[Spot] = []
        self.positions: dict[Spot, int] = {}
        self.stuck: dict[Spot, int] = {}
        self._synced: dict[Spot, tuple[int, int]] = {}
        self._unsynced: dict[Spot, Sync] = {}

    def begin(self) -> None:
        for part in self.config["task.assigned.partitions"].split(","):
            topic, _, number = part.rpartition("-")
            spot = (topic, int(number))
            self.spots.append(spot)
            self.upstream.subscribe(topic, self, self.wake.notify)
            offset = self.stored(self._partition(spot))
            last = -1 if offset is None or offset.get("offset") is None else offset["offset"]
            if not isinstance(last, int):
                raise TaskFailed(
                    "java.lang.ClassCastException: class java.lang.String cannot be cast to class "
                    "java.lang.Long\n\tat org.apache.kafka.connect.mirror.MirrorUtils.unwrapOffset"
                    "(MirrorUtils.java:82)\n"
                )
            self.positions[spot] = last + 1 if last >= 0 else self._start_of(spot)

    def _partition(self, spot: Spot) -> dict[str, Any]:
        return {"cluster": self.alias, "partition": spot[1], "topic": spot[0]}

    def _start_of(self, spot: Spot) -> int:
        try:
            return self.upstream.log(*spot).start
        except NoSuchPartition:
            return 0

    # --- work ------------------------------------------------------------------------------------

    def poll(self) -> bool:
        moved = False
        polled = {spot: self._records(spot) for spot in self.spots}
        if self.connect.exactly_once:  # one transaction: all of it arrives or nothing does
            for record in itertools.chain.from_iterable(polled.values()):
                self._check_size(record)
        for spot, records in polled.items():
            for record in records:
                if record.trouble(self.name, ("corrupt",)):
                    if self.stuck.get(spot) != record.at.offset:
                        self.stuck[spot] = record.at.offset
                        self.connect.note(f"{self.name} is stuck at {spot}@{record.at.offset}")
                    break
                self._copy(spot, record)
                moved = True
        return moved

    def _records(self, spot: Spot) -> list[Record]:
        """Of a position outside the log the consumer starts over, without a word."""
        try:
            log = self.upstream.log(*spot)
        except NoSuchPartition:
            return []
        if not log.start <= self.positions[spot] <= log.end:
            self.connect.note(f"{self.name} starts {spot[0]}-{spot[1]} over")
            self.positions[spot] = log.start
        return log.read(self.positions[spot], BATCH)

    def _check_size(self, record: Record) -> None:
        limit = int(self.config.get("producer.override.max.request.size", REQUEST_BYTES_MAX))
        if record.size_bytes > limit:
            item = record.at
            self.connect.note(f"{self.name} fails at {item.topic}-{item.partition}@{item.offset}")
            raise TaskFailed(
                self.connect.trace_of(
                    "producer_send", "too_large", size=record.size_bytes, limit=limit
                )
            )

    def _copy(self, spot: Spot, record: Record) -> None:
        self._check_size(record)
        remote = f"{self.alias}.{spot[0]}"
        copy = self.connect.broker.produce(
            remote,
            record.value,
            partition=self._remote_partition(remote, spot),
            key=record.key,
            headers=record.headers,
            size_bytes=record.size_bytes,
        )
        self.positions[spot] = record.at.offset + 1
        self.ack(self._partition(spot), {"offset": record.at.offset})
        self.connect.deliver(self.name, [record])
        self._sync(spot, record.at.offset, copy.at.offset)

    def _remote_partition(self, remote: str, spot: Spot) -> int:
        self.connect.broker.create_topic(remote, len(self.upstream.topics[spot[0]].logs))
        return spot[1]

    # --- offset syncs ----------------------------------------------------------------------------

    def _sync(self, spot: Spot, upstream: int, downstream: int) -> None:
        """At once for the first, after a gap upstream, and every so many; else with the next commit
        of offsets.
        """
        last = self._synced.get(spot)
        before = self._unsynced.get(spot)
        previous = before.upstream if before else (last[0] if last else None)
        sync = Sync(self.line.at, *spot, upstream, downstream)
        gap = previous is not None and upstream - previous != 1
        if last is None or gap or downstream - (last[1] + 1) >= SYNC_LAG_MAX:
            self._emit(spot, sync)
        else:
            self._unsynced[spot] = sync

    def _emit(self, spot: Spot, sync: Sync) -> None:
        self._unsynced.pop(spot, None)
        self._synced[spot] = (sync.upstream, sync.downstream)
        self.connect.syncs.append(sync._replace(at=self.line.at))

    def flushing(self) -> None:
        for spot, sync in list(self._unsynced.items()):
            self._emit(spot, sync)

    def pending(self) -> bool:
        return bool(self._unsynced)

    def finish(self) -> Steps:
        self.upstream.unwatch(self)
        yield from super().finish()
