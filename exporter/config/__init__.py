"""The YAML file: its shape (shape.py), and how it is read and checked (load.py)."""

from __future__ import annotations

from exporter.config.load import load, parse
from exporter.config.shape import (
    Alertmanager,
    Auth,
    Config,
    Connect,
    Flow,
    History,
    Judge,
    Kafka,
    Limits,
    Log,
    Notify,
    OffsetSyncs,
    Patterns,
    Poll,
    Tls,
    Webhook,
)

__all__ = [
    "Alertmanager",
    "Auth",
    "Config",
    "Connect",
    "Flow",
    "History",
    "Judge",
    "Kafka",
    "Limits",
    "Log",
    "Notify",
    "OffsetSyncs",
    "Patterns",
    "Poll",
    "Tls",
    "Webhook",
    "load",
    "parse",
]
