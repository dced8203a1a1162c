"""Tasks of sinks: a consumer, converters, and a put that takes a whole batch or fails.

Offsets advance by batches only: of a batch that fails, nothing is committed, and the last commit of
a failed task is where that batch begins.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tests.fakes.connect_model.broker import Log, NoSuchPartition, NotAMember, Record, Trouble
from tests.fakes.connect_model.tasks import Task, TaskFailed
from tests.fakes.connect_model.timeline import Steps

if TYPE_CHECKING:
    from tests.fakes.connect_model.broker import Broker

CONVERTED: Final = ("key_converter", "value_converter", "header_converter", "transform")
POLL_INTERVAL_MAX_S: Final = 300.0
RETRY_S: Final = 3.0
BATCH: Final = 500

Spot = tuple[str, int]


def group_of(name: str, config: dict[str, str]) -> str:
    """A sink's consumer group."""
    return config.get("consumer.override.group.id") or f"connect-{name}"


class SinkTask(Task):
    """`positions` is what it reads next, `read` how far whole batches have got, `committed` what of
    that is in the group.
    """

    def __init__(self, *built: Any) -> None:
        super().__init__(*built)
        self.broker: Broker = self.connect.broker
        self.group = group_of(self.name, self.config)
        self.member = f"connector-consumer-{self.name}-{self.number}/{self.connect.next_number()}"
        self.positions: dict[Spot, int] = {}
        self.read: dict[Spot, int] = {}
        self.committed: dict[Spot, int] = {}
        self.shares_changed = False
        self.joined = False

    # --- membership ------------------------------------------------------------------------------

    def begin(self) -> None:
        self._join()

    def _join(self) -> None:
        topics = self._topics()
        self.joined = True
        self.positions, self.read, self.committed = {}, {}, {}
        self.broker.join(self.group, self.member, topics, self._notify)
        for topic in topics:
            self.broker.create_topic(topic)
            self.broker.subscribe(topic, self, self.wake.notify)

    def _topics(self) -> tuple[str, ...]:
        """Those that are named; of a pattern those that there are now."""
        if "topics" in self.config:
            return tuple(sorted({name.strip() for name in self.config["topics"].split(",")}))
        pattern = re.compile(self.config["topics.regex"])
        return tuple(sorted(filter(pattern.fullmatch, self.broker.topics)))

    def _notify(self) -> None:
        self.shares_changed = True
        self.wake.notify()

    def vanish(self) -> None:
        """Its heartbeats stop; the coordinator notices a little later."""
        delay = self.connect.timing.consumer_session_s
        self.line.call_after(delay, lambda: self.broker.leave(self.group, self.member))

    def hanging(self, seconds: float) -> Steps:
        """A consumer that does not poll for too long is put out of its group."""
        if seconds > POLL_INTERVAL_MAX_S:
            if (yield (self.freed, POLL_INTERVAL_MAX_S)):
                return
            self.broker.leave(self.group, self.member)
            seconds -= POLL_INTERVAL_MAX_S
        yield (self.freed, seconds)

    def _take_shares(self) -> None:
        """Of what it keeps it goes on; elsewhere it begins where the group is."""
        self.shares_changed = False
        own = self.broker.share(self.group, self.member)
        offsets = self.broker.group(self.group).offsets
        positions: dict[Spot, int] = {}
        for spot in own:
            if spot in self.positions:
                positions[spot] = self.positions[spot]
            elif spot in offsets:
                positions[spot] = offsets[spot]
            else:
                positions[spot] = self._reset(spot)
        self.positions = positions
        self.read = {spot: offset for spot, offset in self.read.items() if spot in positions}
        self.committed = {
            spot: offset for spot, offset in self.committed.items() if spot in positions
        }

    def _reset(self, spot: Spot) -> int:
        log = self.broker.log(*spot)
        latest = self.config.get("consumer.override.auto.offset.reset") == "latest"
        return log.end if latest else log.start

    # --- work ------------------------------------------------------------------------------------

    def work(self) -> Steps:
        flushes = self.flushes()
        flush_at = next(flushes)
        while not self.stopping:
            if self.member not in self.broker.group(self.group).members:
                self._join()
            if self.shares_changed:
                self.commit()
                self._take_shares()
            if self.line.at >= flush_at:
                self.commit()
                while flush_at <= self.line.at:
                    flush_at = next(flushes)
            batch = [] if self.paused else self._poll()
            if batch:
                yield from self._deliver(batch)
            else:
                yield from self.idle(flush_at if self.read != self.committed else None)

    def _poll(self) -> list[Record]:
        most = int(self.config.get("consumer.override.max.poll.records", BATCH))
        batch: list[Record] = []
        for spot in sorted(self.positions):
            if len(batch) >= most:
                break
            log = self._log(spot)
            if log is None:
                continue
            for record in log.read(self.positions[spot], most - len(batch)):
                if record.trouble(self.name, ("corrupt",)) is None:
                    batch.append(record)
                elif batch:
                    break  # what was read before it is delivered first
                else:
                    raise self._failed(Trouble("corrupt", "corrupt"), record)
        for record in batch:
            self.positions[record.at.topic, record.at.partition] = record.at.offset + 1
        return batch

    def _log(self, spot: Spot) -> Log | None:
        """Of a position outside the log the consumer starts over, without a word."""
        try:
            log = self.broker.log(*spot)
        except NoSuchPartition:
            return None
        if not log.start <= self.positions[spot] <= log.end:
            self.positions[spot] = self._reset(spot)
            self.connect.note(f"{self.name} starts {spot[0]}-{spot[1]} over")
        return log

    def _deliver(self, batch: list[Record]) -> Steps:
        retained = self._converted(batch)
        while True:
            self._outage("put")
            yield self.behaviour.work_s
            yield from self.hang("put")
            if not self._put_again(retained):
                break
            yield from self.idle(self.line.at + RETRY_S)  # RetriableException: the same once more
            if self.stopping:
                return
        bad = next(
            (
                stored_record
                for stored_record in retained
                if stored_record.trouble(self.name, ("put",))
            ),
            None,
        )
        if bad is not None:
            if self.behaviour.writes_before_fail:
                self.connect.deliver(self.name, retained[: retained.index(bad)])
            trouble = bad.trouble(self.name, ("put",))
            assert trouble is not None
            raise self._failed(trouble, bad)
        self.connect.deliver(self.name, retained)
        for record in batch:
            self.read[record.at.topic, record.at.partition] = record.at.offset + 1

    def _converted(self, batch: list[Record]) -> list[Record]:
        """What conversion leaves of it, which is all unless errors are tolerated."""
        self._outage(*CONVERTED)
        tolerant = self.config.get("errors.tolerance") == "all"
        retained = []
        for record in batch:
            trouble = record.trouble(self.name, CONVERTED)
            if trouble is None:
                retained.append(record)
            elif not tolerant:
                raise self._failed(trouble, record)
            else:
                self.connect.dead_letter(self.name, self.config, record)
        return retained

    def _put_again(self, retained: list[Record]) -> bool:
        outage = self.behaviour.outage
        if outage is not None and outage.stage == "put_retriable":
            return True
        return any(record.trouble(self.name, ("put_retriable",)) for record in retained)

    def _failed(self, trouble: Trouble, record: Record) -> TaskFailed:
        item = record.at
        self.connect.note(
            f"{self.name}-{self.number} fails at {item.topic}-{item.partition}@{item.offset}"
        )
        facts = {"topic": item.topic, "partition": item.partition, "offset": item.offset}
        return TaskFailed(self.connect.trace_of(trouble.stage, trouble.cause, **facts))

    # --- commits ---------------------------------------------------------------------------------

    def commit(self) -> None:
        """Of those that are no longer members nothing comes."""
        expected = {item: to for item, to in self.read.items() if self.committed.get(item) != to}
        if not expected or self.cancelled:
            return
        try:
            self.broker.commit(self.group, self.member, expected)
        except NotAMember:
            return
        self.committed.update(expected)
        self.connect.committed(self.name, expected)

    def finish(self) -> Steps:
        self.commit()
        self.broker.unwatch(self)
        if self.joined:
            self.broker.leave(self.group, self.member)
        yield from ()
