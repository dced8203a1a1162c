"""The configuration loader: from a file to a Config, or to all its mistakes with their paths.

Environment variables are read only as `${NAME}` inside a string; a relative path is one beside the
file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from offsetwatch.config.checks import check_sections, fill_from_files
from offsetwatch.config.document import format_mistakes
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.types import FOLDER_KEY
from offsetwatch.errors import ConfigError
from offsetwatch.yaml_file import read_yaml

# What librdkafka 2.x reads from files, of the properties that take one path.
PATH_PROPERTIES: Final = frozenset(
    {
        "https.ca.location",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.engine.location",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)
_PROBE_VALUE: Final = "probe"  # ssl.ca.location, https.ca.location: wherever this system has it
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def make_paths_absolute(config: Config, folder: Path) -> Config:
    """Return the configuration with every path in it absolute."""
    home = folder.resolve()

    def absolute(value: str) -> str:
        return value if _URI.match(value) else str(home / value)

    def of_property(name: str, value: str) -> str:
        taken = name in PATH_PROPERTIES and value not in {"", _PROBE_VALUE}
        return absolute(value) if taken else value

    return config.model_copy(
        update={
            "state_dir": str((home / config.state_dir).resolve()),
            "history": config.history.model_copy(update={"path": absolute(config.history.path)}),
            "remedy": config.remedy.model_copy(
                update={"kill_switch": absolute(config.remedy.kill_switch)}
            ),
            "kafka": {
                name: kafka.model_copy(
                    update={
                        "properties": {
                            key: of_property(key, value) for key, value in kafka.properties.items()
                        }
                    }
                )
                for name, kafka in config.kafka.items()
            },
            "connect": [
                connect.model_copy(
                    update={"worker_logs": [absolute(log) for log in connect.worker_logs]}
                )
                for connect in config.connect
            ],
            "sources": [
                source
                if source.folder is None
                else source.model_copy(update={"folder": absolute(source.folder)})
                for source in config.sources
            ],
        }
    )


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_BAD_PLACEHOLDER = (
    "${...} has to hold the name of an environment variable and nothing else: letters, digits and _"
)


def load(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read a file. Raises ConfigError with every mistake in it."""
    return parse(
        read_yaml(path),
        os.environ if environment is None else environment,
        source=path.name,
        folder=path.parent,
    )


def parse(
    document: object,
    environment: Mapping[str, str],
    *,
    source: str = "config",
    folder: Path = Path(),
) -> Config:
    """Check a parsed document. Raises ConfigError with every mistake in it.

    Paths in it are relative to `folder`.
    """
    if document is None:
        raise ConfigError((f"{source}: it is empty: kafka and connect are required",))
    if not isinstance(document, dict):
        raise ConfigError((f"{source}: expected a mapping at the top level, as in kafka: ...",))
    mistakes: list[str] = []
    filled = _fill_placeholders(document, environment, "", mistakes)
    complete = fill_from_files(filled, folder, mistakes)
    config: Config | None = None
    # What stands in place of a value that is missing is no second mistake.
    unset = {text.partition(": ")[0] for text in mistakes}
    try:
        config = Config.model_validate(complete, context={FOLDER_KEY: folder})
    except ValidationError as exc:
        wrong = format_mistakes(map(dict, exc.errors()), Config)
        mistakes.extend(text for text in wrong if text.partition(": ")[0] not in unset)
    mistakes.extend(check_sections(filled, folder))
    if config is None or mistakes:
        raise ConfigError(tuple(f"{source}: {mistake}" for mistake in mistakes))
    return make_paths_absolute(config, folder)


def _fill_placeholders(
    value: Any, environment: Mapping[str, str], path: str, mistakes: list[str]
) -> Any:
    """Replace `${NAME}` in every string; a missing variable is a mistake."""
    if isinstance(value, dict):
        return {
            key: _fill_placeholders(
                item, environment, f"{path}.{key}" if path else str(key), mistakes
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _fill_placeholders(item, environment, f"{path}[{number}]", mistakes)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if _NAME.fullmatch(name) is None:
            mistakes.append(f"{path}: {_BAD_PLACEHOLDER}")
            return match.group(0)
        if name not in environment:
            mistakes.append(f"{path}: environment variable {name} is not set")
            return match.group(0)
        return environment[name]

    return _PLACEHOLDER.sub(replace, value)
