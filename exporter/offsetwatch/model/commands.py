"""Command lines of offsetwatch for messages, with every name filled in and quoted for a shell.

Pure.
"""

from __future__ import annotations

import shlex
from typing import Final

PROGRAM: Final = "offsetwatch"


def format_command(*words: str) -> str:
    """Return the command line with these words."""
    return shlex.join((PROGRAM, *words))


def format_connector_command(verb: str, connector: str, *options: str) -> str:
    """Return the command line of a verb, such as `connectors restart`, on a connector.

    A name that begins with a dash comes last, after `--`: otherwise it would be read as an option.
    """
    if connector.startswith("-"):
        return format_command(*verb.split(), *options, "--", connector)
    return format_command(*verb.split(), connector, *options)
