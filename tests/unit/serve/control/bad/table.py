"""The table of bad inputs: a number, a sentence, and what to try.

The numbers are those of the list that the design of guarded remediation ends its tests with. Not in
the table: 7 to 13, signed payloads, which there are none of, and 60, how long a comparison takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.unit.serve.control.stage import Stage

# In every token of the stage, and in everything hostile that a row sends: never to be in a log.
SECRET = "s3cret"
HOSTILE = "h0stile"
TAKEN = 202

Status = int | None  # None: the connection was closed without an answer
Try = Callable[[Stage, Path], Iterable[Status]]


@dataclass(frozen=True)
class Row:
    """`changes` and `hints` are what may reach the desk all the same."""

    number: int
    sentence: str
    run: Try
    changes: int = 0
    hints: int = 0


ROWS: list[Row] = []


def row(number: int, sentence: str, *, changes: int = 0, hints: int = 0) -> Callable[[Try], Try]:
    def put(run: Try) -> Try:
        ROWS.append(Row(number, sentence, run, changes, hints))
        return run

    return put


def refused(answer: httpx.Response) -> int:
    """The status, once the answer was seen to give nothing away and to be for no browser."""
    names = {name.lower() for name in answer.headers}
    assert not names & {"set-cookie", "access-control-allow-origin", "access-control-allow-methods"}
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert SECRET not in answer.text
    if answer.status_code >= 400:
        assert {"error", "message"} <= answer.json().keys()
    return answer.status_code


def status_of(raw: bytes) -> Status:
    """Of the one answer in these bytes."""
    assert raw.count(b"HTTP/1.") <= 1
    assert b"<" not in raw
    return int(raw.split(b" ", 2)[1]) if raw else None
