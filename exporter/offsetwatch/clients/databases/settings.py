"""What the readers of databases have in common: time limits, secrets, and libraries of extras.

No error repeats a password, or a part of an address that may be one.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from offsetwatch.config.files import describe_file_error, read_secret
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import SettingsRefused

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_S: Final = 2  # on the server
ANSWER_TIMEOUT_S: Final = 4.0  # of a statement here, where a server is stopped or the network cut
APPLICATION: Final = "offsetwatch"
_TEXT_MAX: Final = 300


def import_library(source: Source, library: str) -> ModuleType:
    """Return a module of an extra. Raises SettingsRefused that names the extra."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise SettingsRefused(
            source.name,
            f"a source of kind {source.kind} needs the Python package {library}, which is not "
            "installed",
            f"pip install 'offsetwatch[{source.kind}]'",
        ) from None


def read_source_secret(source: Source, name: str) -> str | None:
    """Return `dsn` or `password`, or the text of its file; None for neither.

    Raises SettingsRefused if the file cannot be read.
    """
    file, value = getattr(source, f"{name}_file"), getattr(source, name)
    if file is None:
        return None if value is None else str(value.get_secret_value())
    try:
        return read_secret(file)
    except (OSError, ValueError) as exc:
        raise SettingsRefused(
            source.name,
            f"{name}_file {describe_file_error(exc)}",
            f"correct sources: {name}_file of {source.name}, or the file",
        ) from None


def shorten_server_text(text: str, *secrets: str | None) -> str:
    """Return what a server or a library says as one line, without these secrets."""
    line = " ".join(text.split())
    for secret in secrets:
        if secret:
            line = line.replace(secret, "***")
    return line if len(line) <= _TEXT_MAX else f"{line[:_TEXT_MAX]}..."
