"""
The offset toolbox beside a lab, as a person has it: a configuration, a state folder and verbs.

Every verb is a process of its own, and what it prints and how it ends is all that is known of it.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.processes.child import Child, finished
from lab.product.program import BESIDE, EXPORTER

# Connect takes 90 s to give up, and what is in doubt is watched for two minutes.
VERB_S_MAX = 420.0
PRINTED_CHARS_MAX = 4000
OK, DENIED, OPEN = 0, 3, 5

CONFIG = """\
kafka:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}"}}
connect:
{connects}
state_dir: {state}
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a verb ended, and what it printed where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, decoded."""
        return json.loads(self.out)

    @property
    def said(self) -> str:
        """All it printed, on one line each whatever the width of the terminal."""
        return f"{self.out}\n{self.err}"


WATCHED_VERBS: Final = frozenset(
    (
        ("offsets", "alter"),
        ("offsets", "import"),
        ("offsets", "reset"),
        ("offsets", "rewind"),
        ("connectors", "create"),
    )
)


class Toolbox:
    """
    The verbs, for one lab. `connects` are Connect clusters by name, each with its REST addresses
    and the topic of its offsets (None: found by itself); the first is where connectors are.

    May be used from several threads at once, as long as each has names of its own for `begin`.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        directory: Path,
        connects: Mapping[str, tuple[Sequence[str], str | None]] | None = None,
        state: Path | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.state = directory / "state" if state is None else state
        self.config = directory / "offsetwatch.yaml"
        request = {"lab": (lab.connect_urls, None)} if connects is None else connects
        self.connect = next(iter(request))
        lines = []
        for name, (urls, topic) in request.items():
            where = f", offsets_topic: {topic}" if topic else ""
            lines.append(f"  - {{name: {name}, kafka: east, urls: {json.dumps([*urls])}{where}}}")
        self.config.write_text(
            CONFIG.format(east=lab.east, west=lab.west, connects="\n".join(lines), state=self.state)
        )

    @property
    def where(self) -> tuple[str, ...]:
        """The options that name the first Connect cluster."""
        return ("--connect", self.connect, "--config", str(self.config))

    def read(self, *arguments: str, stdin: str | None = None, status: int = 0) -> Ran:
        """A verb that asks the first Connect cluster and changes nothing."""
        return self.run(*arguments, *self.where, stdin=stdin, status=status)

    def change(self, *arguments: str, stdin: str | None = None, status: int = 0) -> Ran:
        """A verb that changes something on the first Connect cluster, confirmed beforehand."""
        return self.run(*arguments, *self.where, "--yes", stdin=stdin, status=status)

    def stored(self, *arguments: str, properties: Path, status: int = 0) -> Ran:
        """A verb on the storage that a worker's properties file names."""
        return self.run(*arguments, "--worker-config", str(properties), status=status)

    def store(self, *arguments: str, properties: Path, status: int = 0) -> Ran:
        """A change of that storage, confirmed beforehand."""
        more = ("--state-dir", str(self.state), "--yes")
        return self.stored(*arguments, *more, properties=properties, status=status)

    def own(self, *arguments: str, status: int = 0) -> Ran:
        """A verb on what the toolbox itself keeps: plans, journal, backups."""
        return self.run(*arguments, "--config", str(self.config), status=status)

    def run(
        self,
        *arguments: str,
        stdin: str | None = None,
        status: int | None = 0,
        timeout_s: float = VERB_S_MAX,
    ) -> Ran:
        """Any verb, from the main thread. Raises for another exit status than the one given.

        A change is not watched afterwards, unless --watch is given: scenarios look for themselves.
        """
        if arguments[:2] in WATCHED_VERBS and "--watch" not in arguments:
            arguments = (*arguments, "--watch", "0")
        done = finished(
            (*EXPORTER, *arguments),
            called=" ".join(arguments),
            directory=self.directory,
            timeout_s=timeout_s,
            stdin=stdin,
            env={**os.environ, "COLUMNS": "400"},
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        if status is not None and ran.status != status:
            raise LabError(
                f"{' '.join(arguments)}: exit status {ran.status}, not {status}\n"
                f"{ran.out[-PRINTED_CHARS_MAX:]}\n{ran.err[-PRINTED_CHARS_MAX:]}"
            )
        return ran

    def child(self, name: str, *arguments: str, value: str = "", more: Sequence[str] = ()) -> Child:
        """A verb that is not waited for, and ends by SIGKILL at this moment of dying_command.py.

        Both its outputs go to one log.
        """
        chosen = ("--at", value) if value else ()
        command = (
            sys.executable,
            "-P",
            "-m",
            "lab.kills.dying_command",
            *chosen,
            *more,
            "--",
            *arguments,
        )
        return Child(name, (*BESIDE, "COLUMNS=400", *command), directory=self.directory)

    def open_plans(self, connector: str | None = None) -> list[dict[str, Any]]:
        """Plans that have not ended, of one connector or of all.

        Before the first change there is no folder of plans, which `plan list` does not take for
        an empty one.
        """
        if not self.state.exists():
            return []
        result = self.run("plan", "list", "--json", "--config", str(self.config), status=None)
        # What is left open by a process that is gone makes the exit status another one.
        if result.status not in (OK, OPEN):
            raise LabError(f"plan list: exit status {result.status}\n{result.said}")
        jsons: list[dict[str, Any]] = [plan for plan in result.json if plan["open"]]
        return [plan for plan in jsons if connector in (None, plan["connector"])]


def document(pairs: Mapping[str, Sequence[tuple[Mapping[str, Any], Any]]]) -> str:
    """KIP-199 JSON: of each connector its partitions and their offsets."""
    return json.dumps(
        {
            connector: [{"partition": partition, "offset": offset} for partition, offset in inputs]
            for connector, inputs in pairs.items()
        }
    )
