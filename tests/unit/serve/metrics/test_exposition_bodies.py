"""Bodies in pieces: the same bytes, few pieces, and nothing large is copied."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from aiohttp.abc import AbstractStreamWriter
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.serve.metrics.exposition import PIECE_BYTES, ChunkedBody, merge_small_parts

SMALL = b"a line\n"
LARGE = bytes(PIECE_BYTES)


class Writer(AbstractStreamWriter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        assert isinstance(chunk, bytes)
        self.written.append(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        raise NotImplementedError

    async def drain(self) -> None:
        raise NotImplementedError

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        raise NotImplementedError

    def enable_chunking(self) -> None:
        raise NotImplementedError

    async def write_headers(self, status_line: str, headers: object) -> None:
        raise NotImplementedError


def test_small_parts_go_out_together_and_in_order() -> None:
    assert list(merge_small_parts([SMALL, b"", b"another\n"])) == [SMALL + b"another\n"]


def test_what_is_large_is_not_copied_and_waits_for_what_comes_before_it() -> None:
    result = list(merge_small_parts([SMALL, LARGE, SMALL, LARGE]))
    assert result == [SMALL, LARGE, SMALL, LARGE]
    assert result[1] is LARGE
    assert result[3] is LARGE


def test_of_nothing_there_are_no_pieces() -> None:
    assert list(merge_small_parts([b"", b""])) == []


@given(st.lists(st.sampled_from([0, 1, 999, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])))
def test_the_bytes_are_the_same_and_no_two_neighbours_would_fit_into_one(sizes: list[int]) -> None:
    parts = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    result = list(merge_small_parts(parts))
    assert b"".join(result) == b"".join(parts)
    assert all(result)
    assert all(len(piece) + len(after) > PIECE_BYTES for piece, after in pairwise(result))


def test_any_number_of_answers_send_the_same_pieces() -> None:
    body = (SMALL, LARGE)
    for _ in range(2):
        pieces, writer = ChunkedBody(body, "text/plain; version=0.0.4"), Writer()
        asyncio.run(pieces.write(writer))
        assert writer.written == [SMALL, LARGE]
        assert pieces.size == len(SMALL) + len(LARGE)
        assert pieces.content_type == "text/plain; version=0.0.4"
        assert pieces.decode() == (SMALL + LARGE).decode()
