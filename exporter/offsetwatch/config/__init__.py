"""The YAML file: its schema, how it is loaded, and everything wrong in it at once.

In: a file, web config files and the environment. Out: `Config`, or all mistakes, each with its
path, what is expected and how to write it.
"""

from __future__ import annotations

from offsetwatch.config.load import load, parse
from offsetwatch.config.schema.control import Client, Control, ControlTls, Token, User
from offsetwatch.config.schema.remediation import KafkaJournal, Quarantine, Remedy
from offsetwatch.config.schema.root import (
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
from offsetwatch.config.schema.section import Patterns
from offsetwatch.config.schema.web import Web

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
