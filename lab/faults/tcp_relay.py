"""
A TCP relay that can stop forwarding without closing anything: what a client sees of a network that
is cut off; or forward late: what it sees of one that is far away.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lab.errors import LabError
from lab.processes.ports import LOOPBACK

PIECE_BYTES = 65536
READY_S_MAX = 30.0


class Relay:
    """From a port of its own to another one. While it is held, nothing passes, and nobody is told;
    what was sent meanwhile goes on its way afterwards. While it is cut, connections break.

    late_s   by which everything arrives later, in each direction
    """

    def __init__(self, port: int, towards: int) -> None:
        self.port = port
        self.late_s = 0.0
        self._towards = towards
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self._there.set()
        self._back.set()
        self._is_cut = False
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
        self._do(self._there.clear)
        self._do(self._back.clear)

    def hold_answers(self) -> None:
        """From now on forward what is asked, and nothing of what is answered."""
        self._do(self._back.clear)

    def cut(self) -> None:
        """Break all connections, and each new one at once."""
        self._do(self._break)

    def release(self) -> None:
        """Forward again."""
        self._do(self._restore)

    def _do(self, what: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(what)

    def _break(self) -> None:
        self._is_cut = True
        for writer in tuple(self._writers):
            writer.transport.abort()

    def _restore(self) -> None:
        self._is_cut = False
        self._there.set()
        self._back.set()

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
        if self._is_cut:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(LOOPBACK, self._towards)
        except OSError:
            self._writers.discard(writer)
            writer.close()
            return
        self._writers.add(back)
        if self._is_cut:  # since it was begun
            self._break()
        await asyncio.gather(
            self._forward(reader, back, self._there), self._forward(there, writer, self._back)
        )
        self._writers -= {writer, back}

    async def _forward(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, free: asyncio.Event
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while piece := await source.read(PIECE_BYTES):
                await free.wait()
                if self.late_s:
                    loop.call_later(self.late_s, sink.write, piece)
                else:
                    sink.write(piece)
                await sink.drain()
        await asyncio.sleep(self.late_s)  # what is on its way arrives first
        with suppress(OSError):
            sink.close()


@contextmanager
def relay(port: int, towards: int) -> Iterator[Relay]:
    """Listening; stopped afterwards."""
    built = Relay(port, towards)
    built.start()
    try:
        yield built
    finally:
        built.stop()
