"""One body for all who ask for the same while it is being made. Called by http.py, on its loop.

Writing 100,000 series takes tens of milliseconds of processor: too long for the event loop, and a
waste to do twice for a pair of Prometheus servers. Nothing is kept once it is delivered, so a body
is never older than the oldest request that waits for it, process metrics included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from exporter.serve.pieces import Body
from exporter.state.snapshot import Snapshot

RENDERS_MAX = 16  # two snapshots x two formats x gzip or not, twice over; beyond that it is abuse


class TooManyRenders(Exception):
    """RENDERS_MAX bodies are being made or wait for the worker thread. Never leaves serve."""


class Renders:
    """Bodies being made, at most RENDERS_MAX. `asyncio.to_thread` decides how many at once."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], tuple[asyncio.Task[Body], Snapshot]] = {}

    async def body(self, snapshot: Snapshot, form: Hashable, make: Callable[[], Body]) -> Body:
        """What `make` returns, which `snapshot` and `form` must determine.

        Snapshots are told apart by identity: comparing two would cost more than a render.
        """
        key = (id(snapshot), form)  # no other object can have this id while we hold the snapshot
        if key not in self._pending:
            if len(self._pending) >= RENDERS_MAX:
                raise TooManyRenders
            task = asyncio.create_task(asyncio.to_thread(make))
            self._pending[key] = (task, snapshot)
            task.add_done_callback(lambda _: self._pending.pop(key))
        # A client that hangs up must not take the body away from the others.
        return await asyncio.shield(self._pending[key][0])
