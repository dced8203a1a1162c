"""Structured logs on standard error, configured once at start."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from offsetwatch.cli.common.output import escape_controls


def configure_logging(level: str, style: str) -> None:
    """Set up structlog; drop records of libraries below WARNING."""
    renderers: list[structlog.typing.Processor] = (
        [_escape_event, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if style == "console"
        else [structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        # It is written to and flushed, and nothing else.
        logger_factory=structlog.PrintLoggerFactory(
            file=cast("TextIO", _TolerantStream(sys.stderr))
        ),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


class _TolerantStream(io.TextIOBase):
    """A text stream that drops what cannot be written, for logs.

    The disk of a log may be full, or its reader gone. Neither may stop the process that logs.
    """

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._to.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._to.flush()


def _escape_event(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters in the strings of a log event: others choose the names in it.

    Other values are shown by their repr. JSON escapes everything by itself.
    """
    return {
        key: escape_controls(name) if isinstance(name, str) else name for key, name in event.items()
    }
