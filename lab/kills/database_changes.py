"""
Seeded alters and imports of the offsets of Debezium, over a real PostgreSQL and MariaDB: does any
of them end as done without its task going on, or pass over what the source does not have?

    python -m lab.kills.database_changes --seed 7 --changes 20

Each change sets the offset that is stored now, an earlier one, or one past the end of the source.
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
VERBS: Final = ("alter", "import")
BEYOND_BYTES: Final = 10_000_000
BEYOND_TRANSACTIONS: Final = 100_000
ROWS_MAX: Final = 20
GOES_ON_S_MAX: Final = 90.0
WATCH_S: Final = "5s"


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
        config.write(configure_sources(lab))
    chance = random.Random(seed)
    subjects = [_Subject(capture, toolbox) for capture in captures_of(lab)]
    for subject in subjects:
        subject.capture.begin()
        subject.work(1)
    for number in range(changes):
        subject = subjects[number % len(subjects)]
        subject.work(chance.randint(1, ROWS_MAX))
        outcome = subject.change(chance.choice(VERBS), chance.choice(TARGETS), chance)
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
    """A connector, and the offsets that it has committed."""

    capture: Capture
    toolbox: Toolbox
    earlier: list[Offset] = field(default_factory=list)

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
        self.earlier.append(self.capture.offset())

    def change(self, verb: str, target: str, chance: random.Random) -> _Outcome:
        """Set an offset, and compare what came of it with what the server has."""
        before = self.capture.offset()
        offset = self._choose(target, before, chance)
        allowed = target != "past" and self._has(offset)
        status = self._run(verb, offset)
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

    def _choose(self, target: str, before: Offset, chance: random.Random) -> Offset:
        if target == "present":
            return before
        if target == "earlier":
            return chance.choice(self.earlier)
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

    def _run(self, verb: str, offset: Offset) -> int:
        name = self.capture.connector
        (entry,) = self.capture.lab.offsets(name)
        where = ("--watch", WATCH_S, *self.toolbox.where, "--yes")
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
    """Alter and import the offsets of Debezium's connectors, and look what became of each."""

    def once(seed: int) -> Report:
        with lab_and_folder() as (lab, directory):
            return run(lab, directory, seed=seed, changes=changes)

    seeded_kills.report(f"{changes} changes of offsets over databases", seed, once)


if __name__ == "__main__":
    main()
