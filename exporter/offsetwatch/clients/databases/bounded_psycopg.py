"""Connections of psycopg that wait for an answer no longer than a bound.

`statement_timeout` ends a statement on the server. A server that is stopped, or a network that
drops packets, ends nothing.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

_Result = TypeVar("_Result")


class AnswerTimeout(psycopg.OperationalError):
    """Error: no answer in time. The connection is closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """Connection whose every wait ends after `answer_timeout_s`, with AnswerTimeout."""

    answer_timeout_s: float | None = None

    def wait(self, gen: PQGen[_Result], *args: Any, **named: Any) -> _Result:
        """Wait for the result of a command."""
        if self.answer_timeout_s is not None:
            gen = _limit(gen, time.monotonic() + self.answer_timeout_s)
        try:
            return super().wait(gen, *args, **named)
        except AnswerTimeout:
            self.close()  # nothing can be sent while an answer is awaited
            raise


def _limit(gen: PQGen[_Result], deadline: float) -> PQGen[_Result]:
    """Yield what a command waits for; psycopg resumes it ten times a second at least."""
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if time.monotonic() >= deadline:
                raise AnswerTimeout("no answer in time")
            awaited = gen.send(ready)
    except StopIteration as stop:
        result: _Result = stop.value
        return result


def connect(settings: dict[str, str], answer_timeout_s: float) -> BoundedConnection:
    """Open a connection that is never in a transaction. Raises psycopg.Error."""
    named: dict[str, Any] = dict(settings)
    connection = BoundedConnection.connect(
        named.pop("conninfo", ""), autocommit=True, prepare_threshold=None, **named
    )
    connection.answer_timeout_s = answer_timeout_s
    return connection
