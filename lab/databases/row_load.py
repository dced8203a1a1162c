"""A small steady load of a database: rows into the table that is captured."""

import threading
import time
from typing import Final, Self

from lab.databases.server import DatabaseServer

TICK_S: Final = 0.2
DURATION_S_MAX: Final = 3600.0


class RowLoad:
    """
    Inserts `rate_per_s` rows a second, each in a transaction, from start() to stop() or until
    `duration_s_max` has passed.

    A server that is down costs rows, counted in `lost`, and does not stop the load.
    """

    def __init__(
        self,
        server: DatabaseServer,
        *,
        rate_per_s: float = 5.0,
        duration_s_max: float = DURATION_S_MAX,
    ) -> None:
        self._server = server
        self._rate_per_s = rate_per_s
        self._duration_s_max = duration_s_max
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.rows = 0
        """Rows inserted so far."""
        self.lost = 0
        """Rows that the server did not take."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to write."""
        if self._thread is not None:
            raise RuntimeError("the load was started already")
        name = f"lab-rows-{self._server.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load and wait for what is under way."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        began = last = time.monotonic()
        owed = 0.0
        while not self._ended.wait(TICK_S) and last - began < self._duration_s_max:
            now = time.monotonic()
            # What a pause of the machine held up is not made good.
            owed += min(now - last, 2 * TICK_S) * self._rate_per_s
            last = now
            due = int(owed)
            owed -= due
            if due:
                self._insert(due)

    def _insert(self, rows: int) -> None:
        try:
            self._server.insert(rows)
            self.rows += rows
        except self._server.errors:
            self.lost += rows
