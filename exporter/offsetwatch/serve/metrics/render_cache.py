"""A render cache: one body for all clients that request the same one while it is being made.

Writing 100,000 series takes tens of milliseconds of processor time: too long for the event loop,
and a waste to do twice for a pair of Prometheus servers. A finished body is not cached. So it is
never older than the oldest request that waits for it, process metrics included.

A body is sent in chunks and never joined. That of a million series has 160 MB: joining it took a
fifth of the time of a scrape, and a transport that is given all of it at once keeps a copy for each
client that has not read it yet.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from offsetwatch.state.snapshot import Snapshot

PIECE_BYTES: Final = 64 * 1024  # what is smaller goes out with its neighbours

Body = tuple[bytes, ...]


def merge_small_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer parts, as each part is a system call.

    Parts smaller than PIECE_BYTES are joined; larger ones are not copied.
    """
    small: list[bytes] = []
    size = 0
    for part in parts:
        large = len(part) >= PIECE_BYTES
        if small and (large or size + len(part) > PIECE_BYTES):
            yield b"".join(small)
            small, size = [], 0
        if large:
            yield part
        elif part:
            small.append(part)
            size += len(part)
    if small:
        yield b"".join(small)


class ChunkedBody(Payload):
    """Body of an aiohttp response, sent part by part. Several responses may share its parts."""

    def __init__(self, body: Body, content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._body = body
        self._size = sum(map(len, body))
        self.on_release: Callable[[], object] = lambda: None

    def release(self) -> None:
        """Release the bytes, after the response was sent or has failed.

        A connection keeps its last response until the next one, and a million series are 160 MB.
        """
        self._body = ()
        self.on_release()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the whole body as text."""
        return b"".join(self._body).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write part by part, each when the transport has accepted the one before."""
        for piece in self._body:
            await writer.write(piece)


# What clients may leave untaken, each for a minute and a half: beyond it nothing is made. A body of
# 500,000 series has 50 MiB.
UNTAKEN_BYTES_MAX = 128 * 1024 * 1024
RENDERS_MAX = 16  # two snapshots x two formats x gzip or not, twice over; beyond that it is abuse


class TooManyRenders(Exception):
    """Refusal of one more body. It never leaves serve.

    RENDERS_MAX bodies are being made or wait for the worker thread, or clients have not read
    UNTAKEN_BYTES_MAX bytes of those made.
    """


class RenderCache:
    """Bodies being made, at most RENDERS_MAX. `asyncio.to_thread` decides how many run at once."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], tuple[asyncio.Task[Body], Snapshot]] = {}
        self._untaken: dict[object, tuple[int, int]] = {}  # an answer -> id and bytes of its body

    async def body(self, snapshot: Snapshot, form: Hashable, make: Callable[[], Body]) -> Body:
        """Return the result of `make`, which `snapshot` and `form` must determine.

        Snapshots are distinguished by identity: comparing two would cost more than a render. Raises
        TooManyRenders.
        """
        key = (id(snapshot), form)  # no other object can have this id while we hold the snapshot
        if key not in self._pending:
            if len(self._pending) >= RENDERS_MAX or self._untaken_bytes() >= UNTAKEN_BYTES_MAX:
                raise TooManyRenders
            task = asyncio.create_task(asyncio.to_thread(make))
            self._pending[key] = (task, snapshot)
            task.add_done_callback(lambda _: self._pending.pop(key))
        # A client that hangs up must not take the body away from the others.
        return await asyncio.shield(self._pending[key][0])

    def answer(self, body: Body, content_type: str) -> ChunkedBody:
        """Return the payload that sends a body.

        Its bytes count as unread until the payload is released or no longer exists.
        """
        made, token = ChunkedBody(body, content_type), object()
        self._untaken[token] = (id(body), made.size or 0)  # `made` holds it: the id is its own
        release = weakref.finalize(made, self._untaken.pop, token)
        release.atexit = False
        made.on_release = release
        return made

    def _untaken_bytes(self) -> int:
        """Return the number of unread bytes. A body that several clients read counts once."""
        return sum(dict(list(self._untaken.values())).values())
