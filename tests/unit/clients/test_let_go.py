"""Of an answer that is refused nothing stays, even if nobody looks for cycles of objects: it may be
32 MiB, and the next poll's answer is as large.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import pytest

from offsetwatch.clients.connect.offsets_sweep import ConnectSweep
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.ingest.connect_rest import ConnectorsPoll, poll_connectors, poll_rest_offsets
from offsetwatch.model.observations import InputFailed
from tests.fakes.clock import VirtualClock
from tests.fakes.swept import swept

BODY_BYTES: Final = 4 * 1024 * 1024
TIMES: Final = 3
NO_JSON: Final = b'{"a": "' + b"x" * BODY_BYTES
NO_OFFSETS: Final = NO_JSON + b'"}'


@contextmanager
def nothing_stays() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert most - before > BODY_BYTES
    assert after - before < BODY_BYTES / 2


async def broken_off() -> AsyncIterator[bytes]:
    yield bytes(bytearray(NO_JSON))
    raise httpx.ReadError("gone")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: NO_JSON, "malformed"),
        (lambda: NO_OFFSETS, "malformed"),
        (broken_off, "cut_off"),
    ],
    ids=["no JSON", "not what was asked for", "broken off"],
)
def test_of_a_poll_that_fails_no_answer_stays(content: Callable[[], bytes], reason):
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content()))
    reader = ConnectReader("lab", ("http://one", "http://two"), 60.0, transport=transport)
    poll = ConnectorsPoll(reader)
    with nothing_stays():
        for _ in range(TIMES):
            (failed,) = poll_connectors(poll, VirtualClock())
            assert isinstance(failed, InputFailed)
            assert failed.reason == reason


@pytest.mark.parametrize("body", [NO_JSON, NO_OFFSETS], ids=["no JSON", "not what was asked for"])
def test_of_a_sweep_that_fails_no_answer_stays(body: bytes):
    results = []
    with swept(lambda _: (200, body)) as worker, nothing_stays():
        sweep = ConnectSweep("lab", (worker.url,), 60.0)
        for _ in range(TIMES):
            poll_rest_offsets(sweep, ["a"], lambda batch: not results.extend(batch), lambda: False)
    assert [type(item) for item in results].count(InputFailed) == TIMES
