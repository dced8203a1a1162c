"""An excerpt of the configuration file, for a command that a daemon with this very file answers.

The daemon has checked the file, so that the command does without the schema, which takes a third of
its start to load. A file whose values are not all in itself has no excerpt.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from offsetwatch.cli.remote.plain_request import split_address
from offsetwatch.disk import hash_file_stamp
from offsetwatch.errors import ConfigError
from offsetwatch.yaml_file import parse_yaml


class KafkaExcerpt(msgspec.Struct, frozen=True):
    """A Kafka cluster's address."""

    bootstrap: str


class ConnectExcerpt(msgspec.Struct, frozen=True):
    """A Connect cluster with its addresses and the Kafka cluster of its topics."""

    name: str
    kafka: str | None = None
    url: str | None = None
    urls: tuple[str, ...] | None = None

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """Return every REST address; empty if only topics are read."""
        return self.urls or (() if self.url is None else (self.url,))


class SourceExcerpt(msgspec.Struct, frozen=True):
    """A source and its host."""

    name: str
    host: str | None = None


class RemedyExcerpt(msgspec.Struct, frozen=True):
    """The mode of remediation."""

    mode: str = "observe"


class ConfigExcerpt(msgspec.Struct, frozen=True):
    """Addresses, folder and mode of a configuration, with the names and defaults of the schema.

    stamp    stamp of the file before it was read (disk.hash_file_stamp)
    """

    connect: tuple[ConnectExcerpt, ...]
    kafka: dict[str, KafkaExcerpt] = {}
    sources: tuple[SourceExcerpt, ...] = ()
    listen: str = "127.0.0.1:9640"
    state_dir: str = "state"
    remedy: RemedyExcerpt = RemedyExcerpt()
    web_config_file: str | None = None
    own_access: dict[str, object] | None = None
    stamp: str = ""


def read_config_excerpt(path: Path) -> ConfigExcerpt | None:
    """Return the excerpt of a file; None if it has mistakes, or the listener needs credentials.

    None also if the file takes values from the environment, which may differ from the daemon's.
    """
    stamp = hash_file_stamp(path)
    try:
        text = path.read_text(encoding="utf-8")
        document = None if "${" in text else parse_yaml(text, path.name)
        excerpt = msgspec.convert(document, ConfigExcerpt)
        split_address(excerpt.listen)
        folder = (path.parent.resolve() / excerpt.state_dir).resolve()
    except (OSError, ValueError, RuntimeError, ConfigError):
        return None
    if excerpt.web_config_file is not None or excerpt.own_access is not None:
        return None
    return msgspec.structs.replace(excerpt, state_dir=str(folder), stamp=stamp)
