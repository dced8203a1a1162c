"""Connect workers for a measurement, in a process of their own so that their work is not measured.

`python -m bench.fake_workers` prints their ports and serves until its standard input ends. Each
answer to `GET /connectors/{c}/offsets` comes after ANSWER_S, as a real one waits for the end of the
offsets topic; of a worker that hangs it never comes.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

ANSWER_S: Final = 0.005
_BODY: Final = b'{"offsets":[{"partition":{"filename":"/data/in.txt"},"offset":{"position":17}}]}'
_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 20:00:00 GMT\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nServer: Jetty(12.0.22)\r\n\r\n%s" % (len(_BODY), _BODY)
)


class _Worker(asyncio.Protocol):
    """One connection; reads no more of a request than that it has ended."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._last = b""

    def data_received(self, data: bytes) -> None:
        self._last = (self._last + data)[-4:]
        if self._last == b"\r\n\r\n" and not self._hangs:
            asyncio.get_running_loop().call_later(ANSWER_S, self._transport.write, _ANSWER)


async def _serve(workers: int, hanging: int) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(partial(_Worker, hangs=number < hanging), "127.0.0.1", 0)
        for number in range(workers)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def serving(workers: int, hanging: int) -> Iterator[tuple[str, ...]]:
    """Their URLs; those that hang come first."""
    command = [sys.executable, "-m", "bench.fake_workers", str(workers), str(hanging)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ports = process.stdout.readline().split()
        try:
            yield tuple(f"http://127.0.0.1:{port}" for port in ports)
        finally:
            process.stdin.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", type=int)
    parser.add_argument("hanging", type=int)
    given = parser.parse_args()
    asyncio.run(_serve(given.workers, given.hanging))
