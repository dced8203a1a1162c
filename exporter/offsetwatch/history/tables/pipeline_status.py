"""Documents of the pipeline beside the tables: the status of its runs, and the baselines.

Written by history/pipeline/run.py, one run at a time, and by history/baselines/job.py; read by the
daemon, so nothing here may import Spark or the readers of tables. A run that fails leaves its
reason in the status too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import msgspec
import structlog

from offsetwatch.disk import replace_file
from offsetwatch.errors import HistoryError, OffsetwatchError
from offsetwatch.model.history_documents import (
    BRONZE,
    Baselines,
    DamagedBaselines,
    FeedStatus,
    PipelineStatus,
    decode_baselines,
    encode_baselines,
)

BYTES_MAX = 1024 * 1024  # a thousand Kafka clusters take a tenth of it
STARTING, READING, COMPUTING, BUG = "starting", "reading", "computing", "bug"
STREAM_ENDED = "stream_ended"

_log = structlog.get_logger()

BASELINES_BYTES_MAX: Final = 256 * 1024 * 1024


def path_of(base: Path) -> Path:
    """Return the path of the file."""
    return base / "ops" / "status.json"


def read_status(base: Path) -> PipelineStatus | None:
    """Return the status that the newest run wrote; None if none ever did. Raises HistoryError."""
    path = path_of(base)
    raw = read_bounded(path, BYTES_MAX)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=PipelineStatus)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise HistoryError(f"{path} is not what a run writes: {exc}") from exc


def read_bounded(path: Path, bytes_max: int) -> bytes | None:
    """Return at most `bytes_max` + 1 bytes of a file; None without one. Raises HistoryError."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise HistoryError(f"{path} cannot be read: {exc.strerror}") from exc


class PipelineStatusWriter:
    """Writer of a run's status, as a context manager that counts the error that ends the run.

    It continues the file of an earlier run, so that counters do not begin again. For one thread.
    """

    def __init__(self, base: Path, kafkas: Iterable[str]) -> None:
        self._base = base
        try:
            before = read_status(base) or PipelineStatus()
        except HistoryError as exc:
            _log.warning("history_status_lost", detail=str(exc))
            before = PipelineStatus()
        known = {feed.kafka: feed for feed in before.feeds}
        self._feeds = {kafka: known.get(kafka, FeedStatus(kafka)) for kafka in kafkas}
        self._errors = Counter(dict(before.errors))
        self._tables = dict(before.tables)
        self._batch_at = before.batch_at
        self._stage = STARTING

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, OffsetwatchError):
            stage_counts = error.reason == HistoryError.reason
            self._errors[self._stage if stage_counts else error.reason] += 1
        elif isinstance(error, Exception):
            self._errors[BUG] += 1
        self.write()

    def stored(self, rows: Mapping[str, tuple[int, int]]) -> None:
        """Set the decoded and undecodable rows in bronze, by Kafka cluster."""
        for kafka, feed in self._feeds.items():
            decoded, undecodable = rows.get(kafka, (0, 0))
            self._feeds[kafka] = replace(feed, decoded=decoded, undecodable=undecodable)

    def batch(self, kafka: str, *, decoded: int, undecodable: int, behind: int | None) -> None:
        """Count a batch of this cluster's stream that was stored."""
        feed = self._feeds[kafka]
        self._feeds[kafka] = replace(
            feed,
            decoded=feed.decoded + decoded,
            undecodable=feed.undecodable + undecodable,
            behind=behind,
        )

    def gaps(self, kafka: str, number: int) -> None:
        """Set the number of ranges of this cluster that are permanently missing."""
        self._feeds[kafka] = replace(self._feeds[kafka], gaps=number)

    def stream_ended(self) -> None:
        """Count a stream that ended and should not have; the run may start it again."""
        self._errors[STREAM_ENDED] += 1

    def read_up_to(self, moment: float | None) -> None:
        """Set the time by which each of the running streams had ended a batch.

        None if one of them has not completed any yet.
        """
        self._stage = READING
        if moment is not None:
            self._batch_at = self._tables[BRONZE] = moment

    def up_to_date(self, *layers: str) -> None:
        """Mark these tables as holding everything that bronze holds."""
        if self._batch_at is not None:
            self._tables.update(dict.fromkeys(layers, self._batch_at))

    @contextmanager
    def computing(self, *layers: str, newest: bool) -> Iterator[None]:
        """Set the age of these tables once they are computed from all that bronze holds now.

        If not `newest`, they are computed from an earlier state of it, and their age is unknown.
        """
        self._stage = COMPUTING
        as_of = self._batch_at
        yield
        self._stage = READING
        for layer in layers:
            if newest and as_of is not None:
                self._tables[layer] = as_of
            else:
                self._tables.pop(layer, None)
        self.write()

    def write(self) -> None:
        """Replace the file as a whole. A failure is logged, and does not end the run."""
        path = path_of(self._base)
        status = PipelineStatus(
            batch_at=self._batch_at,
            feeds=tuple(feed for _, feed in sorted(self._feeds.items())),
            errors=tuple(sorted(self._errors.items())),
            tables=tuple(sorted(self._tables.items())),
        )
        text = msgspec.json.format(msgspec.json.encode(status), indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, lambda file: file.write(text), durable=False)
        except OSError as exc:
            _log.warning("history_status_not_written", detail=str(exc))


def find_baselines_path(base: Path) -> Path:
    """Return the path of the baselines below the base folder."""
    return base / "ops" / "baselines.json"


def read_baselines(base: Path) -> Baselines | None:
    """Return the newest baselines; None where there are none.

    Raises HistoryError for one that cannot be read or is damaged.
    """
    path = find_baselines_path(base)
    raw = read_bounded(path, BASELINES_BYTES_MAX)
    if raw is None:
        return None
    if len(raw) > BASELINES_BYTES_MAX:
        raise HistoryError(f"{path} is larger than {BASELINES_BYTES_MAX} bytes")
    try:
        return decode_baselines(raw)
    except DamagedBaselines as exc:
        raise HistoryError(f"{path} is damaged: {exc}") from exc


def publish(base: Path, baselines: Baselines) -> None:
    """Replace the baselines as a whole. Raises HistoryError; the old ones then remain."""
    path = find_baselines_path(base)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda file: file.write(encode_baselines(baselines)))
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc.strerror}") from exc
