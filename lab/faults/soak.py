"""
An hour of mixed load, with faults now and then, and a daemon that may act: does anything add up?

    python -m lab.faults.soak --minutes 60 --seed 7

Lines, records and offsets flow; sinks come that fail, a person has them restarted, and they go;
between times something goes wrong, as in chaos.py. One process lives through all of it, so its own
death is left out. In the end its memory may not have risen by more than noise, its descriptors not
at all; the journal verifies; every value that was served was true; no process of ours is left, and
no topic, group or connector that was not there before.
"""

import itertools
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
import httpx

from lab.cluster import connector_configs
from lab.cluster.kafka_client import Cluster
from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.faults import chaos, kinds
from lab.faults.faulty_lab import Arena, arena
from lab.faults.kinds import Kind, Round
from lab.http import NO_AUTHORITIES
from lab.kills import journal_reader, seeded_kills
from lab.kills.journal_reader import JournalReader
from lab.product.offsetwatch import Product
from lab.product.remediating_daemon import SHORTENED

CALM_S: Final = (10.0, 30.0)
RESTLESS: Final = "restless"
RESTLESS_NAMES: Final = 3
REMEDY: Final[Mapping[str, object]] = {**SHORTENED, "mode": "propose", "stop_on": []}
# How Connect calls the group of a sink, and keeps it when the sink is deleted.
SINK_GROUP: Final = "connect-"
ANSWER_S_MAX: Final = 30.0
POLL_S: Final = 2.0

Things = frozenset[str]


@dataclass(slots=True)
class Report:
    """What a run showed, beside what a run of chaos shows."""

    served: chaos.Report
    minutes: float
    changes: int = 0
    """How often the daemon asked Connect for a change."""
    journal_records: int = 0
    """Records of its journal."""
    leftovers: list[str] = field(default_factory=list)
    """What is there that was not, or is not there any more."""

    @property
    def risen(self) -> list[str]:
        """Of which process memory rises by more than noise."""
        results = [
            incarnation.risen() for incarnation in self.served.processes if incarnation.judged
        ]
        return [rise.line for rise in results if rise.rise_bytes > rise.noise_bytes]

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.minutes:.0f} minutes"
        yield from self.served.lines()
        yield from (
            incarnation.risen().line for incarnation in self.served.processes if incarnation.judged
        )
        yield (
            f"the daemon asked for {self.changes} changes, "
            f"its journal has {self.journal_records} records"
        )
        yield from (f"rises: {line}" for line in self.risen)
        yield f"left behind {len(self.leftovers)}"
        yield from (f"  {line}" for line in self.leftovers)

    @property
    def sound(self) -> bool:
        """Nothing wrong, nothing rises, nothing is left; and something was done meanwhile."""
        alone = len(self.served.processes) == 1
        clean = not self.risen and not self.leftovers
        return self.served.sound and alone and clean and self.changes > 0


def run(environment: Arena, *, seed: int, minutes: float) -> Report:
    """Load, faults and calm until the time is over; then look at what is left."""
    before: Things = frozenset()

    def live(served: chaos.Report) -> None:
        nonlocal before
        before = things(environment.lab)
        _through(environment, served, seed, time.monotonic() + minutes * 60)

    served = chaos.observed(environment, live, seed=seed, load_s_max=minutes * 60 * 2)
    report = Report(served, minutes)
    report.leftovers += changed(before, things(environment.lab))
    report.changes = len(environment.connect.changes())
    journal = environment.product.cli("journal", "tail", "--lines", "100000")
    report.journal_records = len(journal.splitlines())
    return report


def _through(environment: Arena, report: chaos.Report, seed: int, ends: float) -> None:
    chance = random.Random(seed)
    for number in itertools.count():
        with _restless(environment.lab, number):
            until_calm = time.monotonic() + chance.uniform(*CALM_S)
            while time.monotonic() < until_calm:
                time.sleep(POLL_S)
                _approve(environment.product)
        if time.monotonic() >= ends:
            return
        chaos.play(environment, drawn(seed, number), report)
        if report.unrecovered:
            return


def drawn(seed: int, number: int) -> Round:
    """The next fault: as chaos draws them, but the daemon lives."""
    rounds = kinds.schedule(seed, 2 * number + len(Kind))
    return [fault_round for fault_round in rounds if fault_round.kind is not Kind.DAEMON][number]


def _approve(product: Product) -> None:
    """Whatever is proposed, as a person who is in a hurry."""
    report = JournalReader(product.state)
    report.refresh()
    for plan in report.plans.values():
        if plan.status == journal_reader.WAITS:
            with suppress(LabError):  # it may have been taken back just now
                verb = ("plan", "approve", plan.plan_id, "--yes", "--no-wait")
                product.cli(*verb, "--because", "looked at it")


@contextmanager
def _restless(lab: Lab, number: int) -> Iterator[None]:
    """A sink that fails at everything, and again whenever it is restarted."""
    name = f"{RESTLESS}-{number % RESTLESS_NAMES}"
    lab.create(name, connector_configs.failing_sink(lab.directory / f"{name}.out"))
    yield
    lab.delete(name)


def things(lab: Lab) -> Things:
    """Topics, groups and connectors that there are; of groups those that no sink has."""
    names: set[str] = set()
    for name, bootstrap in (("east", lab.east), ("west", lab.west)):
        cluster = Cluster(name, bootstrap)
        groups = (group for group in cluster.groups() if not group.startswith(SINK_GROUP))
        names |= {f"topic {topic} on {name}" for topic in cluster.topics()}
        names |= {f"group {group} on {name}" for group in groups}
    answer = httpx.get(
        f"{lab.connect_urls[0]}/connectors",
        trust_env=False,
        timeout=ANSWER_S_MAX,
        verify=NO_AUTHORITIES,
    )
    return frozenset(names | {f"connector {connector}" for connector in answer.json()})


def changed(before: Things, after: Things) -> list[str]:
    """In words."""
    return [
        *(f"{thing} was not there before" for thing in sorted(after - before)),
        *(f"{thing} is gone" for thing in sorted(before - after)),
    ]


def orphans(*folders: Path) -> list[str]:
    """Processes that live, and were begun with something in one of these folders."""
    results = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = command.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(str(folder) in text for folder in folders):
            results.append(f"process {command.parent.name}: {text[:200]}")
    return results


def run_arena() -> AbstractContextManager[Arena]:
    """As run() wants it; ended and removed afterwards."""
    return arena("soak", remedy=REMEDY)


@click.command()
@click.option("--minutes", type=click.FloatRange(1, 1000), default=60, show_default=True)
@seeded_kills.seeded
def main(*, minutes: float, seed: int | None) -> None:
    """Let a daemon live through mixed load and faults, and look at what adds up."""

    def once(seed: int) -> Report:
        with run_arena() as built:
            folders = built.lab.directory, built.product.directory
            report = run(built, seed=seed, minutes=minutes)
        report.leftovers += orphans(*folders)
        return report

    seeded_kills.report(f"{minutes:g} minutes", seed, once)


if __name__ == "__main__":
    main()
