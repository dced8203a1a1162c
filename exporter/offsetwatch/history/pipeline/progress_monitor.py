"""The streams of a run, looked at while they run, for the status file
(history/tables/pipeline_status.py).

Spark keeps what it says of the newest batches; of a trigger that found nothing
new it says nothing, but a stream that waits for the next one is known to have come through it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from offsetwatch.clock import UnixClock
from offsetwatch.history.pipeline.stream import BronzeStream
from offsetwatch.history.spark.session import translate_spark_errors
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.pipeline_status import PipelineStatusWriter

POLL_INTERVAL_S = 1.0  # how late a run may notice that a stream failed or that it must stop
WRITE_S = 10.0  # how old the status may grow while there is nothing to do


@dataclass(slots=True)
class _StreamState:
    """One stream: its newest batch that was counted, when that or a later trigger ended, which
    query that was of, and whether this one was seen to have ended.
    """

    batch: tuple[str, int, str] | None = None
    at: float | None = None
    run: str | None = None
    ended: bool = False


class StreamProgressMonitor:
    """See the module. `status` is what it keeps; `every_s` passes between two triggers, if there
    are several.
    """

    def __init__(
        self,
        status: PipelineStatusWriter,
        base: Path,
        streams: Iterable[BronzeStream],
        clock: UnixClock,
        *,
        every_s: float | None,
    ) -> None:
        self.status = status
        self._base = base
        self._seen = {stream: _StreamState() for stream in streams}
        self._clock = clock
        self._every_s = every_s
        self._written_at: float | None = None

    def until_ended(self, stream: BronzeStream) -> None:
        """Look at all of them until this one has ended, however it did."""
        with suppress(PySparkException):  # the stream itself says what failed
            while not stream.query.awaitTermination(POLL_INTERVAL_S):  # type: ignore[arg-type] # float: ok
                self.look()
        self.look()

    def look(self) -> None:
        """Take in what is new, and write it down."""
        now = self._clock.now()
        with translate_spark_errors("asking a stream how far it is failed"):
            fresh = [self._look_at(stream, seen, now) for stream, seen in self._seen.items()]
        moments = [seen.at for seen in self._seen.values() if seen.at is not None]
        self.status.read_up_to(min(moments) if len(moments) == len(self._seen) else None)
        if any(fresh) or self._written_at is None or abs(now - self._written_at) >= WRITE_S:
            for stream in self._seen:
                self.status.gaps(stream.kafka, len(reader.read_gaps(self._base, stream.kafka)))
            self.status.write()
            self._written_at = now

    def _look_at(self, stream: BronzeStream, seen: _StreamState, now: float) -> bool:
        active = stream.query.isActive
        ended = self._every_s is not None and self._ended(
            str(stream.query.runId), seen, active=active
        )
        # Asked before the batches: one that ends in between is seen the next time.
        waits = active and not stream.query.status["isTriggerActive"]
        fresh = _select_uncounted(list(stream.query.recentProgress), seen.batch)
        for progress in fresh:
            stored = stream.stored(progress.batchId)
            self.status.batch(
                stream.kafka,
                decoded=stored.rows - stored.undecodable,
                undecodable=stored.undecodable,
                behind=count_unread(
                    progress.sources[0].latestOffset, progress.sources[0].endOffset
                ),
            )
            seen.batch, seen.at = _identity(progress), _compute_end_time(progress)
        if waits and self._every_s is not None and seen.at is not None:
            seen.at = max(seen.at, now - self._every_s)
        return bool(fresh) or ended

    def _ended(self, run: str, stream: _StreamState, *, active: bool) -> bool:
        """Count each query of a continuous run that ends, once: it may be seen to have ended, or
        there is another in its place already.
        """
        replaced = stream.run not in (None, run) and not stream.ended
        if stream.run != run:
            stream.run, stream.ended = run, False
        stopped = not active and not stream.ended
        stream.ended = stream.ended or stopped
        for _ in range(replaced + stopped):
            self.status.stream_ended()
        return replaced or stopped


def count_unread(latest: str | None, read_to: str | None) -> int | None:
    """Records between two of Spark's vectors of offsets; None if one of them does not tell."""
    ends: dict[str, dict[str, int]] = json.loads(latest or "null") or {}
    reached: dict[str, dict[str, int]] = json.loads(read_to or "null") or {}
    if not ends or ends.keys() != reached.keys():
        return None
    if any(ends[topic].keys() != reached[topic].keys() for topic in ends):
        return None
    return sum(
        max(0, end - reached[topic][partition])
        for topic, offsets in ends.items()
        for partition, end in offsets.items()
    )


def _select_uncounted(
    newest: list[StreamingQueryProgress], key: tuple[str, int, str] | None
) -> list[StreamingQueryProgress]:
    """Those that were not counted yet, oldest first."""
    names = [_identity(progress) for progress in newest]
    return newest[names.index(key) + 1 :] if key in names else newest


def _identity(progress: StreamingQueryProgress) -> tuple[str, int, str]:
    """A batch without records has the number of the one that comes after it."""
    return (str(progress.runId), progress.batchId, progress.timestamp)


def _compute_end_time(progress: StreamingQueryProgress) -> float:
    began = datetime.fromisoformat(progress.timestamp).timestamp()
    return began + progress.durationMs.get("triggerExecution", 0) / 1000
