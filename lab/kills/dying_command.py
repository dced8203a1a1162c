"""
Runs one verb of the command line, and ends or halts it at a moment that was chosen before.

    python -P -m lab.kills.dying_command --at request:2:after -- \
        offsets reset NAME --connect lab --config F --yes

A program of its own: toolbox.py starts it in place of `python -m offsetwatch`, which knows nothing
of it. What it does to the outside is counted where it leaves the process: records of the journal
(SQLite), requests that change something (HTTP), records and deletions of topics (Kafka), files that
are put in place of others. At the n-th of a kind, before or after it, the process kills itself, or
stops itself until somebody lets it go on; or a request is sent and its answer not awaited. Counts
are written to a file, so that a run without a moment tells which moments there are.
"""

import json
import os
import signal
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click

APPEND, REQUEST, RECORD, FILE = "append", "request", "record", "file"
KINDS: Final = (APPEND, REQUEST, RECORD, FILE)
BEFORE, AMID, AFTER = "before", "amid", "after"
# A request is on its way after so long, and as a rule not answered.
AMID_S: Final = 0.004


class Moments:
    """Counts what leaves the process, and ends it at the one that was chosen."""

    def __init__(self, chosen: str | None, how: signal.Signals, counts: Path | None) -> None:
        self._chosen = chosen
        self._how = how
        self._counts = counts
        self._kind_counts: Counter[str] = Counter()
        self._lock = threading.RLock()

    def before(self, kind: str) -> int:
        """One of these is about to happen: its number, from 1."""
        with self._lock:
            self._kind_counts[kind] += 1
            if self._counts is not None:
                self._counts.write_text(json.dumps(self._kind_counts))
            number = self._kind_counts[kind]
        self._maybe(kind, number, BEFORE)
        return number

    def amid(self, kind: str, number: int) -> None:
        """It is under way."""
        if self._chosen == f"{kind}:{number}:{AMID}":
            threading.Timer(AMID_S, self._end).start()

    def after(self, kind: str, number: int) -> None:
        """It has happened."""
        self._maybe(kind, number, AMID)
        self._maybe(kind, number, AFTER)

    def _maybe(self, kind: str, number: int, when: str) -> None:
        if self._chosen == f"{kind}:{number}:{when}":
            self._end()

    def _end(self) -> None:
        os.kill(os.getpid(), self._how)


def instrument_journal(moments: Moments) -> None:
    """Every record of the journal, done once it is durable."""

    class Watched(sqlite3.Connection):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            self.pending: list[int] = []

        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql.startswith("INSERT INTO records"):
                self.pending.append(moments.before(APPEND))
            done = super().execute(sql, *arguments)
            while self.pending and not self.in_transaction:
                moments.after(APPEND, self.pending.pop(0))
            return done

    plain = sqlite3.connect

    def connect(*arguments: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*arguments, **{"factory": Watched, **more})
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


def instrument_requests(moments: Moments) -> None:
    """Every HTTP request that is not a question."""
    import httpx  # noqa: PLC0415 - as late as the product does

    plain = httpx.AsyncHTTPTransport.handle_async_request

    async def handle(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.method in ("GET", "HEAD"):
            return await plain(self, request)
        number = moments.before(REQUEST)
        moments.amid(REQUEST, number)
        answer = await plain(self, request)
        moments.after(REQUEST, number)
        return answer

    httpx.AsyncHTTPTransport.handle_async_request = handle  # type: ignore[method-assign]


def instrument_records(moments: Moments) -> None:
    """Every record that is produced, done once it was waited for."""
    import confluent_kafka  # noqa: PLC0415
    from confluent_kafka import cimpl  # noqa: PLC0415

    class Watched(cimpl.Producer):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            self.pending: list[int] = []

        def produce(self, *arguments: Any, **more: Any) -> None:
            number = moments.before(RECORD)
            super().produce(*arguments, **more)
            self.pending.append(number)
            moments.amid(RECORD, number)

        def flush(self, *arguments: Any, **more: Any) -> int:
            remaining = int(super().flush(*arguments, **more))
            while self.pending:
                moments.after(RECORD, self.pending.pop(0))
            return remaining

    setattr(confluent_kafka, "Producer", Watched)  # noqa: B010 - a type, to mypy


def instrument_files(moments: Moments) -> None:
    """Every file that is put in its place."""

    def watched(plain: Callable[..., None]) -> Callable[..., None]:
        def move(*arguments: Any, **more: Any) -> None:
            number = moments.before(FILE)
            plain(*arguments, **more)
            moments.after(FILE, number)

        return move

    os.replace = watched(os.replace)
    os.rename = watched(os.rename)
    os.link = watched(os.link)


def hurry(doubt_s: float) -> None:
    """Take a request that shows nothing to be gone after so long, and not after two minutes.

    Where only our own process has died, the workers have answered long before.
    """
    from offsetwatch.remedy.engine.progress import EngineLimits  # noqa: PLC0415

    built = EngineLimits.__init__
    names = [field.name for field in fields(EngineLimits)]
    defaults = dict(zip(names, built.__defaults__ or (), strict=True))
    built.__defaults__ = tuple({**defaults, "doubt_s": doubt_s}.values())


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--at", "chosen", help="KIND:NUMBER:before, :amid or :after")
@click.option("--halt", is_flag=True, help="Stop there until somebody says SIGCONT.")
@click.option("--counts", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--doubt", "doubt_s", type=float)
@click.argument("verb", nargs=-1, type=click.UNPROCESSED)
def main(
    *,
    chosen: str | None,
    halt: bool,
    counts: Path | None,
    doubt_s: float | None,
    verb: tuple[str, ...],
) -> None:
    """Run the verb."""
    moments = Moments(chosen, signal.SIGSTOP if halt else signal.SIGKILL, counts)
    instrument_journal(moments)
    instrument_requests(moments)
    instrument_records(moments)
    instrument_files(moments)
    if doubt_s is not None:
        hurry(doubt_s)
    from offsetwatch.cli import main as product  # noqa: PLC0415

    sys.argv = ["offsetwatch", *verb]
    product()


if __name__ == "__main__":
    main()
