"""Progress of a run's streams, polled while they run, for the status file.

The status file is history/tables/pipeline_status.py. Spark retains its reports of the newest
batches. It reports no trigger that found nothing new, but a stream that waits for the next trigger
has completed that one.
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
    """State of a stream.

    batch    the newest batch that was counted
    at       when that batch or a later trigger ended
    run      the id of the query that was polled last
    ended    that query's end was counted
    """

    batch: tuple[str, int, str] | None = None
    at: float | None = None
    run: str | None = None
    ended: bool = False


class StreamProgressMonitor:
    """Monitor of a run's streams that writes `status`.

    `every_s` is the time between two triggers of a continuous run; None for a single one.
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
        self._states = {stream: _StreamState() for stream in streams}
        self._clock = clock
        self._every_s = every_s
        self._written_at: float | None = None

    def until_ended(self, stream: BronzeStream) -> None:
        """Poll all streams until this one has ended, for whatever reason."""
        with suppress(PySparkException):  # the stream itself says what failed
            while not stream.query.awaitTermination(POLL_INTERVAL_S):  # type: ignore[arg-type] # float: ok
                self.poll()
        self.poll()

    def poll(self) -> None:
        """Poll the streams, and write the status if something is new or it is WRITE_S old."""
        now = self._clock.now()
        with translate_spark_errors("asking a stream how far it is failed"):
            fresh = [
                self._poll_stream(stream, state, now) for stream, state in self._states.items()
            ]
        moments = [state.at for state in self._states.values() if state.at is not None]
        self.status.read_up_to(min(moments) if len(moments) == len(self._states) else None)
        if any(fresh) or self._written_at is None or abs(now - self._written_at) >= WRITE_S:
            for stream in self._states:
                self.status.gaps(stream.kafka, len(reader.read_gaps(self._base, stream.kafka)))
            self.status.write()
            self._written_at = now

    def _poll_stream(self, stream: BronzeStream, state: _StreamState, now: float) -> bool:
        active = stream.query.isActive
        ended = self._every_s is not None and self._ended(
            str(stream.query.runId), state, active=active
        )
        # Asked before the batches: one that ends in between is seen the next time.
        waits = active and not stream.query.status["isTriggerActive"]
        fresh = list(stream.query.recentProgress)
        names = [_identity(progress) for progress in fresh]
        if state.batch in names:
            fresh = fresh[names.index(state.batch) + 1 :]
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
            began = datetime.fromisoformat(progress.timestamp).timestamp()
            ended_at = began + progress.durationMs.get("triggerExecution", 0) / 1000
            state.batch, state.at = _identity(progress), ended_at
        if waits and self._every_s is not None and state.at is not None:
            state.at = max(state.at, now - self._every_s)
        return bool(fresh) or ended

    def _ended(self, run: str, stream: _StreamState, *, active: bool) -> bool:
        """Count each query of a continuous run that ended, once. Return whether one did.

        A query has ended if it is inactive, or if another one has replaced it.
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
    """Return the records between two of Spark's offset maps; None if one of them is incomplete."""
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


def _identity(progress: StreamingQueryProgress) -> tuple[str, int, str]:
    """Return the identity of a batch; one without records has the number of the one after it."""
    return (str(progress.runId), progress.batchId, progress.timestamp)
