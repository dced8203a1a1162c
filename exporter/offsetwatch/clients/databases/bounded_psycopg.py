"""Connections of psycopg that wait for an answer no longer than a bound.

`statement_timeout` ends a statement on the server. A server that is stopped, or a network that
drops packets, ends nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

_Result = TypeVar("_Result")


class BoundedConnection(psycopg.Connection[Any]):
    """Connection whose every wait ends after `answer_timeout_s`, with an OperationalError."""

    answer_timeout_s: float | None = None

    def wait(
        self, gen: PQGen[_Result], interval: float = 0.1, timeout: float | None = None
    ) -> _Result:
        """Wait for the result of a command."""
        bound = self.answer_timeout_s if timeout is None else timeout
        return super().wait(gen, interval=interval, timeout=bound)


def connect(settings: dict[str, str], answer_timeout_s: float) -> BoundedConnection:
    """Open a connection that is never in a transaction. Raises psycopg.Error."""
    named: dict[str, Any] = dict(settings)
    connection = BoundedConnection.connect(
        named.pop("conninfo", ""), autocommit=True, prepare_threshold=None, **named
    )
    connection.answer_timeout_s = answer_timeout_s
    return connection
