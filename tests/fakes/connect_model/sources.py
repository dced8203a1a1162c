"""Tasks of sources: what was acknowledged since the last commit is committed now and then, once
more at the end, and with exactly-once together with the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from tests.fakes.connect_model.offsets import GLOBAL, Offset, Pairs, Partition, identity
from tests.fakes.connect_model.tasks import Task, TaskFailed
from tests.fakes.connect_model.timeline import Steps

_FOR_EVER: Final = 10.0**9
_FENCED: Final = (
    "org.apache.kafka.connect.errors.ConnectException: Failed to flush offsets and records\n"
    "Caused by: org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer "
    "with the same transactionalId which fences the current one.\n"
)


class SourceTask(Task):
    """`acked` is what could be committed, `flushed` what of it was."""

    def __init__(self, *built: Any) -> None:
        super().__init__(*built)
        self.plugin = self.connect.plugin_of(self.config)
        self.stores = self.connect.stores_of(self.config)
        self.acked: dict[str, tuple[Partition, Offset]] = {}
        self.flushed: dict[str, Offset] = {}

    def stored(self, partition: dict[str, Any]) -> Offset:
        """What a task is handed as it starts, under the bytes that its own maps give."""
        topics = self.connect.offsets
        return topics.read(self.stores, self.name, partition, self.plugin.order)

    def ack(self, partition: dict[str, Any], offset: dict[str, Any]) -> None:
        """A record has arrived. With exactly-once its offset has arrived with it."""
        self.acked[identity(partition)] = (partition, offset)

    def dirty(self) -> bool:
        return any(self.flushed.get(name) != offset for name, (_, offset) in self.acked.items())

    def commit(self) -> None:
        """What is new. A zombie can only where the worker's own producer does it, and nobody can
        who was fenced. Raises TaskFailed of an exactly-once task that was fenced.
        """
        pairs: Pairs = [
            (partition, offset)
            for name, (partition, offset) in self.acked.items()
            if self.flushed.get(name) != offset
        ]
        exact = self.connect.exactly_once
        if self.cancelled and (exact or self.stores.primary != GLOBAL):
            return
        if exact and self.fenced:
            raise TaskFailed(_FENCED)
        self.flushed.update((name, offset) for name, (_, offset) in self.acked.items())
        if pairs:
            by = f"{'zombie' if self.cancelled else 'task'} {self.name}-{self.number}"
            self.connect.write_offsets(self.name, self.stores, pairs, by, order=self.plugin.order)

    def finish(self) -> Steps:
        with suppress(TaskFailed):  # it has ended already
            self.commit()
        yield from ()

    def _dies_silently(self) -> bool:
        return self.cancelled

    def work(self) -> Steps:
        flushes = self.flushes()
        flush_at = next(flushes)
        while not self.stopping:
            if self.line.at >= flush_at:
                self.commit()
                self.flushing()
                while flush_at <= self.line.at:
                    flush_at = next(flushes)
            yield from self.hang("poll")
            if self.stopping:
                break
            self._outage("poll", "producer_send")
            if not self.paused and self.poll():
                if self.connect.exactly_once:
                    self.commit()
                yield self.behaviour.work_s
            else:
                yield from self.idle(flush_at if self.dirty() or self.pending() else None)

    def poll(self) -> bool:
        """Move some records; whether there were any. Raises TaskFailed."""
        return False

    def check(self, contents: Iterable[bytes]) -> None:
        """Convert lines or rows. Raises TaskFailed at one that spoils it."""
        for content in contents:
            trouble = self.connect.files.troubles.get(content)
            if trouble is not None and trouble.connector in {None, self.name}:
                self.connect.note(f"{self.name} fails at {content!r}")
                raise TaskFailed(self.connect.trace_of(trouble.stage, trouble.cause))

    def check_batch(self, contents: Iterable[bytes]) -> None:
        """With exactly-once a batch is one transaction: all of it arrives or nothing does."""
        if self.connect.exactly_once:
            self.check(contents)

    def flushing(self) -> None:
        """The offsets were just committed."""

    def pending(self) -> bool:
        """Whether something else waits for the next commit."""
        return False


class FileTask(SourceTask):
    """Lines of a file. The offset is where the next line begins."""

    def begin(self) -> None:
        self.path = self.config.get("file", "")
        self.partition = {"filename": self.path}
        self.connect.files.subscribe(self.path, self, self.wake.notify)
        offset = self.stored(self.partition)
        position = 0 if offset is None else offset.get("position", 0)
        if not isinstance(position, int) or isinstance(position, bool):
            raise TaskFailed(
                "org.apache.kafka.connect.errors.ConnectException: Offset position is the "
                "incorrect type\n"
            )
        self.position = position
        if position > self.connect.files.size(self.path):
            self.behaviour.hangs.append(("poll", _FOR_EVER))  # it skips and skips

    def poll(self) -> bool:
        lines, self.position = self.connect.files.lines(self.path, self.position)
        self.check_batch(line for line, _ in lines)
        for line, end in lines:
            self.check((line,))
            item = self.connect.broker.produce(self.config["topic"], line).at
            self.ack(self.partition, {"position": end})
            self.connect.emitted(self.name, item)
        return bool(lines)

    def finish(self) -> Steps:
        self.connect.files.unwatch(self)
        yield from super().finish()


class RowTask(SourceTask):
    """Rows of a table, each under a partition of two fields in an order of its own."""

    number_field = "row"

    def begin(self) -> None:
        self.table = self.config.get("table", self.name)
        self.partition = self._partition()
        self.connect.files.subscribe(self.table, self, self.wake.notify)
        offset = self.stored(self.partition)
        self.row = 0 if offset is None else int(offset[self.number_field])

    def _partition(self) -> dict[str, str]:
        return {"database": f"{self.table}-{self.number}", "server": "db"}

    def poll(self) -> bool:
        rows = self.connect.files.rows(self.table, self.row)
        self.check_batch(row for _, row in rows)
        for number, row in rows:
            self.check((row,))
            item = self.connect.broker.produce(self.config["topic"], row).at
            self.row = number
            self.ack(self.partition, {self.number_field: number})
            self.connect.emitted(self.name, item)
        return bool(rows)

    def finish(self) -> Steps:
        self.connect.files.unwatch(self)
        yield from super().finish()


class IncrementingTask(RowTask):
    """A JDBC source in mode `incrementing`, of one table whose ids count its rows."""

    number_field = "incrementing"

    def _partition(self) -> dict[str, str]:
        return {"protocol": "1", "table": self.table}
