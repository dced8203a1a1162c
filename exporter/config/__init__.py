"""The YAML file: its shape (shape.py), and how it is read and checked (load.py)."""

from __future__ import annotations

from exporter.config.load import load, parse
from exporter.config.shape import (
    Auth,
    Config,
    Connect,
    Flow,
    History,
    Kafka,
    Limits,
    Log,
    OffsetSyncs,
    Patterns,
    Poll,
    Tls,
)

__all__ = [
    "Auth",
    "Config",
    "Connect",
    "Flow",
    "History",
    "Kafka",
    "Limits",
    "Log",
    "OffsetSyncs",
    "Patterns",
    "Poll",
    "Tls",
    "load",
    "parse",
]
