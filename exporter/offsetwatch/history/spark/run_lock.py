"""Run lock: one pipeline per base path, as two would read every record twice and race for gold.

It is a kernel lock on a file beside the tables, so it ends with its process however that ends. The
file's text only names the holder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from offsetwatch.clock import UnixClock
from offsetwatch.disk import acquire_file_lock
from offsetwatch.errors import HistoryError

LOCK_NAME = "_run.lock"


@contextmanager
def hold_run_lock(base: Path, clock: UnixClock) -> Iterator[None]:
    """Hold the base path. Raises HistoryError naming the holder if another run has it."""
    path = base / LOCK_NAME
    try:
        base.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+", encoding="utf-8")
    except OSError as exc:
        raise HistoryError(f"{base} cannot be written: {exc}") from exc
    with handle:
        since = datetime.fromtimestamp(clock.now(), tz=UTC).isoformat(timespec="seconds")
        holder = acquire_file_lock(handle, since)
        if holder is not None:
            by = holder or "a run that has not said who it is"
            raise HistoryError(f"{base} is in use by {by}")
        yield
