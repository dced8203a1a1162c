"""README.md as somebody follows it: its blocks, its configuration, and a shell to type them into.

Used by test_readme.py, and with a cluster by tests/real/test_readme.py. Nothing of a command is
changed but addresses, and names that README itself introduces.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
# Pages whose blocks of configuration add to README's.
CONFIGURED: Final = ("clusters.md", "notifications.md", "remediation.md")
CONFIG_NAME: Final = "offsetwatch.yaml"
COMMAND_S_MAX: Final = 240.0

# Those that need a real cluster.
RESET_FLOW: Final = (
    "offsetwatch offsets reset --flow 'west->east' --to-time '2 h ago' --connect lab --config F"
)
RESET_STORED: Final = (
    "offsetwatch offsets reset MirrorSourceConnector --worker-config mm2.properties"
)

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)


def commands() -> list[str]:
    """Each line of a block of commands, in the order of the page, without what is said beside it.
    What is neither indented nor fenced is prose.
    """
    fenced = [text for kind, text in _FENCED.findall(README) if not kind]
    lines = [line for text in fenced for line in text.splitlines()]
    lines += _INDENTED.findall(_FENCED.sub("", README))
    return [re.sub(r" {2,}#.*", "", line).strip() for line in lines]


def configurations() -> list[str]:
    """Blocks of configuration, README's first: that one is whole, the others add to it."""
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in CONFIGURED]
    blocks = (block for page in (README, *pages) for block in _FENCED.findall(page))
    return [text for kind, text in blocks if kind == "yaml"]


def smallest(*, east: str, west: str, connect: str, listen: str) -> str:
    """The smallest configuration that README gives, with these addresses in place of its own."""
    text = configurations()[0]
    inputs: dict[str, Any] = yaml.safe_load(text)
    for was, now in (
        (inputs["kafka"]["east"]["bootstrap"], east),
        (inputs["kafka"]["west"]["bootstrap"], west),
        (inputs["connect"][0]["url"], connect),
        (inputs["listen"], listen),
    ):
        assert text.count(f'"{was}"') == 1
        text = text.replace(f'"{was}"', f'"{now}"')
    return text


class Shell:
    """A folder of its own in which `offsetwatch` is a command, and somebody at a terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        program = programs / "offsetwatch"
        # What is tested is what stands here, and not what is installed.
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m offsetwatch "$@"\n')
        program.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'exporter'}:{ROOT}",
            "COLUMNS": "400",
        }

    def run(
        self, command: str, *, typed: str = "", timeout_s: float = COMMAND_S_MAX
    ) -> subprocess.CompletedProcess[str]:
        """The command, as it stands; `typed` is what it reads if it asks."""
        master, slave = pty.openpty()
        try:
            if typed:
                os.write(master, f"{typed}\n".encode())
            return subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=slave,
                capture_output=True,
                text=True,
                cwd=self.folder,
                env=self.environment,
                timeout=timeout_s,
                check=False,
            )
        finally:
            os.close(slave)
            os.close(master)

    def begin(self, command: str, log: Path) -> subprocess.Popen[bytes]:
        """The command, which runs on. Its pid is the program's own: the shell makes way for it."""
        with log.open("wb") as into:
            return subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=into,
                cwd=self.folder,
                env=self.environment,
            )


def followed(line: str, names: Mapping[str, str]) -> str:
    """The command, with other names in place of those that README made up."""
    for was, now in names.items():
        assert was in line
        line = line.replace(was, now)
    return line
