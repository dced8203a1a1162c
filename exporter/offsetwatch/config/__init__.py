"""The YAML file: its schema, how it is loaded, and everything wrong in it at once.

In: a file, web config files and the environment. Out: `Config`, or all mistakes, each with its
path, what is expected and how to write it.
"""

from __future__ import annotations

from offsetwatch.config.load import load, parse
from offsetwatch.config.schema.remediation import KafkaJournal, QuarantineConfig, RemedyConfig
from offsetwatch.config.schema.root import (
    Alertmanager,
    Auth,
    CertificatePrincipal,
    Config,
    Connect,
    Control,
    Flow,
    History,
    JudgeConfig,
    Kafka,
    LimitsConfig,
    LogConfig,
    NotifyConfig,
    OffsetSyncs,
    OwnAccess,
    PasswordPrincipal,
    Poll,
    Strimzi,
    Tls,
    TokenPrincipal,
    WebhookConfig,
)
from offsetwatch.config.schema.types import Patterns
from offsetwatch.config.schema.web import WebConfig

__all__ = [
    "Alertmanager",
    "Auth",
    "CertificatePrincipal",
    "Config",
    "Connect",
    "Control",
    "Flow",
    "History",
    "JudgeConfig",
    "Kafka",
    "KafkaJournal",
    "LimitsConfig",
    "LogConfig",
    "NotifyConfig",
    "OffsetSyncs",
    "OwnAccess",
    "PasswordPrincipal",
    "Patterns",
    "Poll",
    "QuarantineConfig",
    "RemedyConfig",
    "Strimzi",
    "Tls",
    "TokenPrincipal",
    "WebConfig",
    "WebhookConfig",
    "load",
    "parse",
]
