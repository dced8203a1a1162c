"""
Seeded kills inside plans of guarded remediation: is anything lost, or left stopped and forgotten?

    python -m lab.kills.remediation --seed 7 --kills 10 --workers 2

A sink and a source are given a record that they cannot process, again and again, with good ones
behind it.
The daemon proposes to skip it, a person approves that, and while the plan is carried out the daemon
or the Connect worker is killed (SIGKILL) at a moment that the seed draws and the journal shows to
have come. What is killed is started again and not helped further. Afterwards what they have
delivered and what stands in quarantine must be what was produced, no record in neither of them;
every connector runs; no plan is open; the journal verifies.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from lab.cluster.build import WORKERS
from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.errors import LabError
from lab.kills import journal_reader, seeded_kills
from lab.kills.journal_reader import JournalReader, Plan
from lab.kills.operators import VERB_S_MAX, Operator
from lab.kills.poisoned_connectors import JsonSink, NumberSource, Poisoned, RowSource
from lab.kills.seeded_kills import commit, counts
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until

DAEMON, WORKER = "daemon", "worker"
# Of one plan not more, so that plans come to an end between kills, too.
KILLS_OF_ONE_MAX: Final = 3
# How often each step of a skip is drawn: copy, stop, settle, freeze, expect, alter, run and prove.
# To get to those behind the settling takes half a minute.
WEIGHTS: Final = (2, 3, 2, 1, 1, 2, 2, 2)
# The most that a kill comes after the step: within its settling, its probation, or its requests.
AFTER_S: Final = (8.0, 8.0, 8.0, 3.0, 3.0, 3.0, 3.0, 3.0)
AT_ONCE_S: Final = 0.15
POLL_S: Final = 0.005
COMES_S_MAX: Final = 300.0
SETTLED_S_MAX: Final = 600.0

# Whatever waits so that people can look first waits for nothing; what makes a skip safe is as ever.
EXTRA: Final = """\
tick_s: 0.2
ends_s: 1.0
judge: {{interval_s: 2}}
state_dir: {state}
sources: [{sources}]
remedy:
  mode: propose
  repeat: {{failures: 2, span_s: 0, restarts: 1}}
  alert_before_s: 0
  start_grace_s: 0
  cool_down_s: 0
  probation_s: 3
  blast: {{per_connect: 2, total: 2}}
  budgets: {{connector_hour: 1000, connector_day: 1000, connector_week: 1000, fleet_hour: 1000,
            fleet_day: 1000}}
  quarantine: {{kafka: east}}
  stop_on: []
"""
FILES: Final = "{name: files, kind: file, interval: 1s, connectors: [{connect: lab}]}"
TABLES: Final = (
    "{{name: shop, kind: sql, interval: 1s, dsn_file: {dsn}, connectors: [{{connect: lab}}]}}"
)
# Two: where a third fails alike within ten minutes, or goes down with its worker, nothing is
# skipped for a while, and that is as it should be.
SINK, SOURCE = "kills-a", "kills-b"
POLL: Final = "poll: {state_s: 1.0, groups_s: 1.0, offsets_s: 10.0, timeout_s: 5.0}"


@dataclass(frozen=True, slots=True)
class Kill:
    """
    One. It comes so long after the plan at hand has got to this step or beyond.

    The steps of a skip: copy, stop, settle, freeze, expect, alter, run, prove.
    """

    victim: str
    step: int
    delay_s: float
    dead_s: float


def schedule(seed: int, kills: int, workers: int) -> list[Kill]:
    """
    The same kills for the same seed. Half come at once, within what a request takes; the others
    at any time of what a step may wait for.
    """
    chance = random.Random(seed)
    victims = [DAEMON] * kills + [WORKER] * workers
    chance.shuffle(victims)
    steps = chance.choices(range(len(WEIGHTS)), WEIGHTS, k=len(victims))
    return [
        Kill(
            victim,
            step=step,
            delay_s=chance.uniform(0.0, chance.choice((AT_ONCE_S, AFTER_S[step]))),
            dead_s=chance.uniform(0.0, 2.0),
        )
        for victim, step in zip(victims, steps, strict=True)
    ]


@dataclass(slots=True)
class Report:
    """What a run showed. `lost` and `wrong` must be empty."""

    seed: int
    commit: str
    kills: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    helped: list[str] = field(default_factory=list)
    produced: int = 0
    delivered: int = 0
    quarantined: int = 0
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}, {self.seconds:.0f} s"
        yield f"kills {self.kills.total()}: {counts(self.kills)}; came after the end {self.missed}"
        yield f"inside of: {counts(self.phases)}"
        yield f"plans ended: {counts(self.ended)}"
        yield (
            f"produced {self.produced}, delivered {self.delivered}, "
            f"quarantined {self.quarantined}, lost {len(self.lost)}"
        )
        yield from (f"a person had to: {line}" for line in self.helped)
        yield from (f"lost: {line}" for line in self.lost[:20])
        yield from (f"wrong: {line}" for line in self.wrong)

    @property
    def sound(self) -> bool:
        """Nothing lost, nothing wrong, and something was skipped while it was killed."""
        return not (self.lost or self.wrong) and self.quarantined > 0 and self.kills.total() > 0


def run(
    lab: Lab, directory: Path, *, seed: int, kills: int, workers: int, table: bool = False
) -> Report:
    """
    Poison, kill, wait until everything has come to rest, judge.

    table       of a source that reads a table of PostgreSQL, instead of a sink and of one that
                reads a file
    """
    began = time.monotonic()
    report = Report(seed=seed, commit=commit())
    state = directory / "state"
    worker = (lab.directory / WORKERS[0]).with_suffix(".properties")
    product = Product(
        lab,
        directory=directory,
        port=free_port(),
        extra=EXTRA.format(state=state, sources=_sources(lab) if table else FILES),
        connect_extra=f"{POLL}, worker_properties_file: {worker}",
    )
    person = Operator(lab, product, state, _poisoned(lab, table=table))
    try:
        product.start_daemon()
        person.start()
        arena = _Arena(lab, product, person, JournalReader(state), report)
        for kill in schedule(seed, kills, workers):
            arena.strike(kill)
        person.more = False
        until(
            "everything at rest",
            arena.check_rest,
            timeout_s=SETTLED_S_MAX,
            evidence=product.evidence,
        )
        person.stop()
        arena.judge()
    finally:
        person.stop()
        product.stop()
    report.seconds = time.monotonic() - began
    return report


def _sources(lab: Lab) -> str:
    return TABLES.format(dsn=lab.postgres.watcher_file)


def _poisoned(lab: Lab, *, table: bool) -> Mapping[str, Poisoned]:
    if table:
        return {SOURCE: RowSource(lab, SOURCE)}
    return {SINK: JsonSink(Sink(lab, SINK)), SOURCE: NumberSource(lab, SOURCE)}


def compare(
    report: Report,
    *,
    bad: set[tuple[str, int]],
    aside: set[tuple[str, int]],
    meant: Mapping[str, set[str]],
    written: Mapping[str, set[str]],
) -> None:
    """What was produced, by topic and offset or by sink and line, against what is where."""
    report.produced = len(bad) + sum(map(len, meant.values()))
    report.quarantined = len(aside & bad)
    report.lost += [f"{topic}@{offset}" for topic, offset in sorted(bad - aside)]
    report.wrong += [f"set aside: {topic}@{offset}" for topic, offset in sorted(aside - bad)]
    for name, lines in meant.items():
        report.delivered += len(written[name] & lines)
        report.lost += [f"{name}: {line}" for line in sorted(lines - written[name])]
        report.wrong += [f"{name} wrote {line}" for line in sorted(written[name] - lines)]


class _Arena:
    """Where things are killed, and looked at afterwards."""

    def __init__(
        self, lab: Lab, product: Product, person: Operator, message: JournalReader, report: Report
    ) -> None:
        self._lab = lab
        self._product = product
        self._person = person
        self._journal = message
        self._report = report
        self._kill_counts: Counter[str] = Counter()
        self._starts: dict[str, int] = {}

    def strike(self, kill: Kill) -> None:
        """Until it has met a plan that was not over."""
        while True:
            plan = self._moment(kill)
            self._slay(kill.victim)
            self._journal.refresh()
            under_way = plan.status == journal_reader.OPEN
            if under_way:
                self._kill_counts[plan.plan_id] += 1
                self._starts[plan.plan_id] = plan.starts + (kill.victim == DAEMON)
                self._report.kills[kill.victim] += 1
                self._report.phases[plan.phase] += 1
            # Drawn, not awaited: what must hold holds however long it was away.
            time.sleep(kill.dead_s)
            self._raise(kill.victim)
            if under_way:
                return
            self._report.missed += 1

    def _moment(self, kill: Kill) -> Plan:
        """The plan in which it has come."""

        def probe() -> Plan:
            if self._person.broken is not None:
                raise LabError(f"the person: {self._person.broken}")
            plan = self._within(kill)
            if plan is None:
                raise NotYet(
                    str([(item.plan_id, item.status) for item in self._journal.plans.values()])
                )
            return plan

        what = f"a plan that has come to step {kill.step}"
        while True:
            until(what, probe, timeout_s=COMES_S_MAX, evidence=self._product.evidence)
            time.sleep(kill.delay_s)
            self._journal.refresh()
            result = self._journal.running()
            if result is not None:
                return result
            self._report.missed += 1

    def _within(self, kill: Kill) -> Plan | None:
        """The plan at hand, once it has got there; looked at more often than until() would."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            self._journal.refresh()
            plan = self._journal.running()
            if plan is not None and self._there(plan, kill):
                return plan
            time.sleep(POLL_S)
        return None

    def _there(self, plan: Plan, kill: Kill) -> bool:
        known = plan.starts >= self._starts.get(plan.plan_id, 1)
        fresh = self._kill_counts[plan.plan_id] < KILLS_OF_ONE_MAX
        return known and fresh and (plan.undoing or plan.index >= kill.step)

    def _slay(self, victim: str) -> None:
        if not self._product.daemon_running:
            raise LabError(f"the daemon ended by itself\n{self._product.evidence()}")
        if victim == DAEMON:
            self._product.kill_daemon()
        else:
            self._lab.kill(WORKERS[0])

    def _raise(self, victim: str) -> None:
        if victim == DAEMON:
            self._product.start_daemon(ready=False)
        else:
            self._lab.start_process(WORKERS[0])

    def check_rest(self) -> None:
        """NotYet while a plan is open, a connector does not run or is behind."""
        if self._person.broken is not None:
            raise LabError(f"the person: {self._person.broken}")
        self._journal.refresh()
        plans = [plan for plan in self._journal.plans.values() if plan.status in _AT_WORK]
        if plans:
            raise NotYet(str([(plan.connector, plan.phase, plan.said[-1:]) for plan in plans]))
        for poisoned in self._person.poisoned.values():
            status = self._lab.status(poisoned.connector)
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            end, committed = poisoned.end(), poisoned.committed()
            if states != ["RUNNING", "RUNNING"] or committed != end:
                last = [(plan.phase, plan.said[-1:]) for plan in self._journal.plans.values()][-2:]
                raise NotYet(f"{poisoned.connector} {states} at {committed} of {end}; {last}")

    def judge(self) -> None:
        """What was produced against what was written and what was set aside."""
        report, person, cli = self._report, self._person, self._product.cli
        rows = json.loads(cli("quarantine", "list", "--json", timeout_s=VERB_S_MAX))
        report.helped += person.helped.values()
        compare(
            report,
            bad=person.bad,
            aside={(row["topic"], row["offset"]) for row in rows},
            meant={name: person.poisoned[name].meant(n) for name, n in person.good.items()},
            written={name: poisoned.came() for name, poisoned in person.poisoned.items()},
        )
        report.ended.update(plan.ending for plan in self._journal.plans.values() if plan.ending)
        # Each raises for another exit status than 0: an open plan, a journal that does not verify.
        for verb in (("plan", "list", "--json"), ("journal", "verify")):
            try:
                cli(*verb, timeout_s=VERB_S_MAX)
            except LabError as exc:
                report.wrong.append(str(exc))


_AT_WORK: Final = frozenset({journal_reader.APPROVED, journal_reader.OPEN, journal_reader.PARKED})


def lab_and_folder(*, table: bool = False) -> AbstractContextManager[tuple[Lab, Path]]:
    """A lab and a folder as run() wants them; ended and removed afterwards."""
    options = LabOptions(
        offset_flush_interval_ms=1000, connectors=False, postgres=table, jdbc_source=table
    )
    return seeded_kills.lab_and_folder("remedy-kills", options)


@click.command()
@click.option("--kills", type=click.IntRange(0, 1000), default=100, show_default=True)
@click.option("--workers", type=click.IntRange(0, 1000), default=20, show_default=True)
@seeded_kills.seeded
def main(*, kills: int, workers: int, seed: int | None) -> None:
    """Kill the daemon and the Connect worker inside plans, and look for what was lost."""

    def once(seed: int) -> Report:
        with lab_and_folder() as (lab, directory):
            return run(lab, directory, seed=seed, kills=kills, workers=workers)

    what = f"{kills} kills of the daemon and {workers} of the worker inside plans"
    seeded_kills.report(what, seed, once)


if __name__ == "__main__":
    main()
