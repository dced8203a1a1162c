"""The tree of commands. The module that does a command's work is imported once the command is used.

Loading all of them takes seconds, and the help of a group and the completion of its commands' names
need only the first sentence of each command's help.
"""

from __future__ import annotations

import sys
from collections import UserDict
from importlib import import_module
from typing import Any, Final

import click

from offsetwatch import __version__
from offsetwatch.cli.history import commands as history_commands
from offsetwatch.cli.inspect import commands as inspect_commands

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
_DECLARATIONS: Final = (history_commands, inspect_commands)
# By module: a command, and the first sentence of its help. The function is named like the command.
_COMMANDS: Final = {
    "run": {"run": "Run the daemon."},
    "inspect.offline": {
        "check": "Check a configuration file, offline; print every mistake at once.",
        "completion": "Print the script that completes this command in a shell.",
        "decode": "Decode records of an internal topic, or print why they cannot be decoded.",
        "metrics": "Print the metric catalogue.",
    },
    "inspect.discover": {"discover": "Print a configuration of what Strimzi runs in a namespace."},
    "inspect.doctor": {
        "doctor": "Check every cluster and worker, read-only, and print what to fix."
    },
    "offsets.connectors": {
        "connectors create": "Create a connector that begins at given offsets (KIP-995).",
        "connectors delete": "Delete a connector.",
        "connectors pause": "Pause a connector: its tasks remain assigned, and do nothing.",
        "connectors restart": "Restart a connector and its tasks, and watch them.",
        "connectors resume": "Resume a connector that was stopped or paused, and watch its tasks.",
        "connectors stop": "Stop a connector and wait until no task of it is left (KIP-875, "
        "Kafka 3.5).",
    },
    "offsets.change": {
        "offsets alter": "Set offsets of one connector, from pairs or from a document (KIP-199, or "
        "a PATCH body).",
        "offsets import": "Set the offsets in a document, from a file or from standard input. null "
        "removes an offset; offsets that are not in the document are not changed.",
    },
    "offsets.export": {
        "offsets diff": "Compare a document with the current offsets.",
        "offsets export": "Print offsets as KIP-199 JSON, which `import` takes.",
    },
    "offsets.list": {
        "offsets list": "List the offsets that Connect would give to a task now: from the daemon, "
        "else from Connect, else from the topics.",
    },
    "offsets.reset": {
        "offsets reset": "Remove all offsets of a connector, so that it starts over.",
        "offsets rewind": "Set a connector back to its offsets at a moment, from the tables of "
        "`history run`.",
    },
    "plans.approve": {
        "plan abort": "Roll a plan back as far as possible; reject one that has not begun.",
        "plan approve": "Let the daemon carry out exactly this plan, and follow it until it is "
        "over.",
        "plan reject": "Reject a plan that has not begun.",
    },
    "plans.backup": {
        "backup create": "Back up the offsets that a connector has now, and print the file.",
        "backup list": "List all backups.",
        "backup show": "Print the content of a backup.",
    },
    "plans.create": {
        "plan create": "Make a plan for another operator to approve; with --dry-run only show it, "
        "and exit with 3 if a guard denies its start.",
        "restore": "Make a plan that restores a connector's offsets from a backup, for another "
        "operator to approve.",
    },
    "plans.journal": {
        "journal create": "Create the topic of a journal that several replicas share.",
        "journal tail": "Print the newest records of all plans.",
        "journal verify": "Check that every record is as it was written, and every backup.",
    },
    "plans.list": {
        "plan list": "List all plans.",
        "plan show": "Print a plan, the answers of its guards, its journal, and what to do about "
        "it.",
    },
    "plans.recover": {
        "plan recover": "Continue an open plan: complete it if a change may have begun, otherwise "
        "roll it back.",
        "plan resolve": "Close an open plan and leave everything as it is now.",
    },
    "plans.quarantine": {
        "quarantine get": "Print the facts about a copy.",
        "quarantine list": "List all copies, without their content.",
        "quarantine replay": "Write a record back, unchanged, to its topic or to another.",
    },
    "plans.switches": {
        "breaker ack": "Close a breaker, as `breaker list` names it, after its cause is fixed.",
        "breaker list": "List open breakers.",
        "mode": "Print the mode of remediation, or lower or raise it until further notice: never "
        "above the configured mode.",
        "pause": "Begin no new plan of remediation; a running plan ends safely.",
        "unpause": "End a pause.",
    },
}


class LazyCommand(click.Command):
    """A command whose module is not imported yet."""

    def __init__(self, module: str, words: str, summary: str) -> None:
        super().__init__(words, help=summary)
        self._module = module
        self._function = words.replace(" ", "_").replace("-", "_")

    def load(self) -> click.Command:
        """Import the module, and return the command itself."""
        command: click.Command = getattr(
            import_module(f"{__package__}.{self._module}"), self._function
        )
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the loaded command, with its parsed arguments."""
        return self.load().make_context(info_name, args, parent, **extra)


class _LoadedCommands(UserDict[str, click.Command]):
    """Commands by name; a lazy one is loaded when it is read."""

    def __getitem__(self, name: str) -> click.Command:
        command = super().__getitem__(name)
        return command.load() if isinstance(command, LazyCommand) else command


class LazyGroup(click.Group):
    """A group that returns commands to click without loading them; `commands` loads them."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        self._all = _LoadedCommands()
        super().__init__(name, self._all, **more)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, which need not be loaded; None if there is none of this name."""
        del ctx
        return self._all.data.get(cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="offsetwatch")
def cli() -> None:
    """Progress and lag of Kafka Connect source connectors and MirrorMaker 2."""


@cli.result_callback()
def _exit(code: int | None) -> None:
    sys.exit(code)


def _add_commands() -> None:
    groups = {"": cli} | {name: LazyGroup(name, help=text) for name, text in _GROUPS.items()}
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
    for lazy_module, commands in _COMMANDS.items():
        for words, summary in commands.items():
            group, _, name = words.rpartition(" ")
            groups[group].add_command(LazyCommand(lazy_module, words, summary), name)


_add_commands()
