"""The tree of commands. The module that does a command's work is imported once the command is used.

Loading all of them takes seconds, and help and completion need only the declarations.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from offsetwatch import __version__
from offsetwatch.cli.common.options import calls, config_option
from offsetwatch.cli.history import commands as history_commands
from offsetwatch.cli.inspect import commands as inspect_commands
from offsetwatch.cli.offsets import commands as offsets_commands
from offsetwatch.cli.plans import commands as plans_commands

_GROUPS: Final = {
    "backup": "Offsets as they were before each change.",
    "breaker": "Breakers: they stop remediation until an operator closes them.",
    "connectors": "Connectors and their states.",
    "history": "The Spark pipeline: every commit ever seen.",
    "journal": "The journal: every step of each change.",
    "offsets": "List, export, import and change source and sink offsets.",
    "plan": "Changes: what is proposed, what was approved, how it ended, and what is still open.",
    "quarantine": "Records that were copied before they were skipped.",
}
# Modules that declare commands without their work. A function is named like its command.
_DECLARATIONS: Final = (history_commands, inspect_commands, offsets_commands, plans_commands)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="offsetwatch")
def cli() -> None:
    """Progress and lag of Kafka Connect source connectors and MirrorMaker 2."""


@cli.result_callback()
def _exit(code: int | None) -> None:
    sys.exit(code)


@cli.command()
@config_option
@calls("run:run_daemon")
def run() -> None:
    """Run the daemon."""


def _add_commands() -> None:
    groups = {"": cli} | {name: click.Group(name, help=text) for name, text in _GROUPS.items()}
    for name in _GROUPS:
        cli.add_command(groups[name])
    declared = {
        name: command
        for module in _DECLARATIONS
        for name, command in vars(module).items()
        if isinstance(command, click.Command)
    }
    for name, command in declared.items():
        group, _, rest = name.partition("_")
        named, rest = (groups[group], rest) if group in _GROUPS else (cli, name)
        named.add_command(command, rest.replace("_", "-"))


_add_commands()
