"""The configuration loader: from a file to a Config, or to all its mistakes with their paths.

Environment variables are read only as `${NAME}` inside a string.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from offsetwatch.config.checks.sections import check_sections, fill_from_files
from offsetwatch.config.document import format_mistake, read_yaml
from offsetwatch.config.paths import make_paths_absolute
from offsetwatch.config.schema.root import Config
from offsetwatch.config.schema.types import FOLDER_KEY
from offsetwatch.errors import ConfigError

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
        wrong = (format_mistake(dict(error), Config) for error in exc.errors())
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
