"""
Seeded alters, imports and rewinds of Debezium's offsets, over a real PostgreSQL and MariaDB: does
any of them end as done without its task going on, or pass over what the source does not have?

    python -m lab.kills.database_changes --seed 7 --changes 20

Each change sets the offset that is stored now, an earlier one, or one past the end of the source; a
rewind sets that of an earlier moment, from the tables of the pipeline, which runs before it.
What a database still has, and how far it goes, is asked of the server itself: PostgreSQL begins no
earlier than its replication slot has confirmed; MariaDB has its whole binlog here. A change that is
done has to be followed by a commit of the task; one that is refused has to leave the offset.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.databases.postgresql import PostgresqlServer
from lab.errors import LabError
from lab.kills import seeded_kills
from lab.kills.seeded_kills import commit, counts
from lab.product.toolbox import Toolbox
from lab.stories.captures import Capture, captures_of, configure_sources
from lab.waiting import NotYet, until

Offset = dict[str, Any]

TARGETS: Final = ("present", "earlier", "past")
REWIND: Final = "rewind"
VERBS: Final = ("alter", "import", REWIND)
BEYOND_BYTES: Final = 10_000_000
BEYOND_TRANSACTIONS: Final = 100_000
ROWS_MAX: Final = 20
GOES_ON_S_MAX: Final = 90.0
WATCH_S: Final = "5s"
PIPELINE_S_MAX: Final = 600.0


@dataclass(slots=True)
class Report:
    """What a run showed. `wrong` must be empty."""

    seed: int
    commit: str
    changes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}, {self.seconds:.0f} s"
        yield f"changes {self.changes.total()}: {counts(self.changes)}"
        yield from (f"wrong: {line}" for line in self.wrong)

    @property
    def sound(self) -> bool:
        """Nothing wrong, of several changes."""
        return not self.wrong and self.changes.total() > 0


def run(lab: Lab, directory: Path, *, seed: int, changes: int) -> Report:
    """Change the offsets of each connector in turn, and look what became of it."""
    began = time.monotonic()
    report = Report(seed=seed, commit=commit())
    toolbox = Toolbox(lab, directory=directory)
    with toolbox.config.open("a") as config:
        config.write(f"{configure_sources(lab)}history: {{heap: 700m}}\n")
    chance = random.Random(seed)
    subjects = [_Subject(capture, toolbox) for capture in captures_of(lab)]
    for subject in subjects:
        subject.capture.begin()
        subject.work(1)
    for number in range(changes):
        subject = subjects[number % len(subjects)]
        subject.work(chance.randint(1, ROWS_MAX))
        verb = chance.choice(VERBS)
        target = "earlier" if verb == REWIND else chance.choice(TARGETS)
        outcome = subject.change(verb, target, chance)
        report.changes[outcome.name] += 1
        report.wrong += outcome.wrong
    report.seconds = time.monotonic() - began
    return report


@dataclass(frozen=True, slots=True)
class _Outcome:
    name: str
    wrong: tuple[str, ...] = ()


@dataclass(slots=True)
class _Subject:
    """A connector, and the offsets that it has committed, each with a moment when it was stored."""

    capture: Capture
    toolbox: Toolbox
    earlier: list[tuple[float, Offset]] = field(default_factory=list)

    def work(self, rows: int) -> None:
        """Insert rows, and wait until their records are there and an offset after them is stored.

        NotYet, and then a LabError, where the connector does not go on.
        """
        records, stored = self.capture.records(), self.capture.offset()
        self.capture.server.insert(rows)

        def check() -> None:
            now, offset = self.capture.records(), self.capture.offset()
            if now < records + rows or offset == stored or not offset:
                states = self.capture.states()
                raise NotYet(f"{states}, {now - records} records of {rows}, offset {offset}")

        until(f"{self.capture.connector} to go on", check, timeout_s=GOES_ON_S_MAX)
        offset = self.capture.offset()
        self.earlier.append((time.time(), offset))

    def change(self, verb: str, target: str, chance: random.Random) -> _Outcome:
        """Set an offset, and compare what came of it with what the server has."""
        before = self.capture.offset()
        moment, offset = self._choose(target, before, chance)
        if verb == REWIND:
            arguments = ("history", "run", "--available-now", "--config", str(self.toolbox.config))
            self.toolbox.run(*arguments, timeout_s=PIPELINE_S_MAX)
        allowed = target != "past" and self._has(offset)
        status = self._run(verb, moment, offset)
        done = status == 0
        name = f"{self.capture.server.name} {verb} {target} {'done' if done else 'refused'}"
        where = f"{name} ({status}): {json.dumps(before)} -> {json.dumps(offset)}"
        wrong = []
        if done and not allowed:
            wrong.append(f"{where}: its source does not have that")
        if not done and allowed:
            wrong.append(f"{where}: its source has that")
        # The task may have committed meanwhile: only the refused offset itself is none of its own.
        if not done and offset != before and self.capture.offset() == offset:
            wrong.append(f"{where}: refused, and it is the offset now")
        try:
            self.work(1)
        except LabError as exc:
            raise LabError(f"{where}: {exc}") from exc
        return _Outcome(name, tuple(wrong))

    def _choose(self, target: str, before: Offset, chance: random.Random) -> tuple[float, Offset]:
        if target == "earlier":
            return chance.choice(self.earlier)
        return time.time(), before if target == "present" else self._go_past(before)

    def _go_past(self, before: Offset) -> Offset:
        if isinstance(self.capture.server, PostgresqlServer):
            lsns = {name for name in before if name.startswith("lsn")}
            return before | {name: before[name] + BEYOND_BYTES for name in lsns}
        number = re.compile(r"\d+$")
        gtids = number.sub(lambda match: str(int(match[0]) + BEYOND_TRANSACTIONS), before["gtids"])
        return before | {"gtids": gtids}

    def _has(self, offset: Offset) -> bool:
        """Return whether the source still has what follows an offset, by the server itself."""
        server = self.capture.server
        if not isinstance(server, PostgresqlServer):
            return True
        confirmed = server.slot(self.capture.slot)["confirmed_flush_lsn"]
        return bool(max(offset["lsn"], offset.get("lsn_commit") or 0) >= confirmed)

    def _run(self, verb: str, moment: float, offset: Offset) -> int:
        name = self.capture.connector
        where = ("--watch", WATCH_S, *self.toolbox.where, "--yes")
        if verb == REWIND:
            back = ("offsets", REWIND, name, "--to", str(moment))
            return self.toolbox.run(*back, *where, status=None).status
        (entry,) = self.capture.lab.offsets(name)
        pair = {"partition": entry["partition"], "offset": offset}
        if verb == "alter":
            texts = (
                part for key, value in pair.items() for part in (f"--{key}", json.dumps(value))
            )
            return self.toolbox.run("offsets", "alter", name, *texts, *where, status=None).status
        document = self.toolbox.directory / "offsets.json"
        document.write_text(json.dumps({name: [pair]}))
        arguments = ("offsets", "import", "--offsets", str(document))
        return self.toolbox.run(*arguments, *where, status=None).status


def lab_and_folder() -> AbstractContextManager[tuple[Lab, Path]]:
    """A lab and a folder as run() wants them; ended and removed afterwards."""
    options = LabOptions(
        offset_flush_interval_ms=1000, connectors=False, postgres=True, mariadb=True
    )
    return seeded_kills.lab_and_folder("database-changes", options)


@click.command()
@click.option("--changes", type=click.IntRange(1, 10_000), default=200, show_default=True)
@seeded_kills.seeded
def main(*, changes: int, seed: int | None) -> None:
    """Alter, import and rewind the offsets of Debezium's connectors, and check each result."""

    def once(seed: int) -> Report:
        with lab_and_folder() as (lab, directory):
            return run(lab, directory, seed=seed, changes=changes)

    seeded_kills.report(f"{changes} changes of offsets over databases", seed, once)


if __name__ == "__main__":
    main()
