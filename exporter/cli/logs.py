"""Structured logs on standard error, configured once at start."""

from __future__ import annotations

import logging
import sys

import structlog

from exporter.cli.output import visible


def configure(level: str, style: str) -> None:
    """Set up structlog; libraries' own records below WARNING are dropped."""
    renderers: list[structlog.typing.Processor] = (
        [_for_a_terminal, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
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
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("apscheduler").setLevel(logging.ERROR)


def _for_a_terminal(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Names in it are written by others. What is no text is shown by its repr, JSON escapes all."""
    return {key: visible(at) if isinstance(at, str) else at for key, at in event.items()}
