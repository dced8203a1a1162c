"""The YAML file: its shape (shape.py), and how it is read and checked (load.py)."""

from __future__ import annotations

from offsetwatch.config.control import Client, Control, ControlTls, Token, User
from offsetwatch.config.load import load, parse
from offsetwatch.config.remedy import KafkaJournal, Quarantine, Remedy
from offsetwatch.config.section import Patterns
from offsetwatch.config.shape import (
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
    OwnAccess,
    Poll,
    Strimzi,
    Tls,
    Webhook,
)
from offsetwatch.config.web import Web

__all__ = [
    "Alertmanager",
    "Auth",
    "Client",
    "Config",
    "Connect",
    "Control",
    "ControlTls",
    "Flow",
    "History",
    "Judge",
    "Kafka",
    "KafkaJournal",
    "Limits",
    "Log",
    "Notify",
    "OffsetSyncs",
    "OwnAccess",
    "Patterns",
    "Poll",
    "Quarantine",
    "Remedy",
    "Strimzi",
    "Tls",
    "Token",
    "User",
    "Web",
    "Webhook",
    "load",
    "parse",
]
