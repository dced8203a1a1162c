"""
A TCP relay that can stop forwarding without closing anything: what a client sees of a network that
is cut off. Called by failovers.py and by real tests.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.errors import LabError
from lab.ports import LOOPBACK

PIECE_BYTES = 65536
READY_S_MAX = 30.0


class Relay:
    """From a port of its own to another one. While it is held, nothing passes, and nobody is told;
    what was sent meanwhile goes on its way afterwards.
    """

    def __init__(self, port: int, towards: int) -> None:
        self.port = port
        self._towards = towards
        self._open = asyncio.Event()
        self._open.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        if not self._ready.wait(READY_S_MAX):
            raise LabError(f"no relay on port {self.port}")

    def stop(self) -> None:
        """Hang up."""
        assert self._loop is not None
        assert self._ending is not None
        self.release()
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def hold(self) -> None:
        """Forward nothing from now on."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._open.clear)

    def release(self) -> None:
        """Forward again."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._open.set)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._take, LOOPBACK, self.port)
        self._ready.set()
        await self._ending.wait()
        server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(LOOPBACK, self._towards)
        except OSError:
            writer.close()
            return
        self._writers.add(back)
        await asyncio.gather(self._forward(reader, back), self._forward(there, writer))
        self._writers -= {writer, back}

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(PIECE_BYTES):
                await self._open.wait()
                sink.write(piece)
                await sink.drain()
        with suppress(OSError):
            sink.close()


@contextmanager
def relay(port: int, towards: int) -> Iterator[Relay]:
    """Listening; stopped afterwards."""
    made = Relay(port, towards)
    made.start()
    try:
        yield made
    finally:
        made.stop()
