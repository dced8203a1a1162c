"""
Seeded kills of the offset toolbox: is anything ever half done without a word?

    python -m lab.kills.toolbox --seed 7             every moment of every verb
    python -m lab.kills.toolbox --seed 7 --kills 6   some of them

A verb that changes offsets kills itself (SIGKILL) right before or after the n-th record of its
journal, the n-th request or record that it sends, the n-th file that it puts in place, or with a
request under way (dying_command.py); which n there are, a run that is left alone tells first. Then
one more verb is run, as a person would: the plan is recovered, or the same verb is given again.
Afterwards the offsets must be all as they were or all as they were to be, and the connector in the
state it was in; or the plan is parked, and says what a person has to decide.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.errors import LabError
from lab.kills import dying_command, seeded_kills
from lab.kills.seeded_kills import commit, counts
from lab.kills.toolbox_cases import KINDS, NEW, OLD, Case, cases
from lab.processes.child import Child
from lab.product.toolbox import DENIED, OK, OPEN, Ran, Toolbox
from lab.waiting import NotYet, until

RECOVER, AGAIN = "recover", "again"
PARKED = "parked"
# What is not answered because our own process died has long been decided on the other side.
DOUBT_S: Final = 20.0
VERB_S_MAX: Final = 400.0
# A guard may deny a verb because something moved between its two looks at a busy connector; nothing
# is changed then, and a person gives it again.
ATTEMPTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Kill:
    """One: of which verb, at which moment, and what is done next."""

    case: str
    at: str
    then: str


@dataclass(slots=True)
class Report:
    """What a run showed. `wrong` is what was half done, or left without a word."""

    seed: int
    commit: str
    moments: dict[str, dict[str, int]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}, {self.seconds:.0f} s"
        for case, result in sorted(self.moments.items()):
            yield f"{case}: {counts(result)}"
        yield f"kills {self.kills.total()}: {counts(self.kills)}"
        yield f"ended: {counts(self.ended)}; never came to the moment: {len(self.missed)}"
        yield from (f"never came to the moment: {line}" for line in self.missed)
        yield from (f"denied, and given again: {line}" for line in self.denied)
        yield from (f"wrong: {line}" for line in self.wrong)

    @property
    def sound(self) -> bool:
        """Nothing half done without a message, and kills that met something."""
        return not self.wrong and self.kills.total() > 0


def schedule(seed: int, moments: dict[str, dict[str, int]], kills: int | None) -> list[Kill]:
    """Every moment, in an order that the seed decides; or the first of these."""
    chance = random.Random(seed)
    results = [
        Kill(case, f"{kind}:{number}:{when}", "")
        for case, counts in sorted(moments.items())
        for kind, count in sorted(counts.items())
        for number in range(1, count + 1)
        for when in _whens(kind)
    ]
    chance.shuffle(results)
    drawn = [(kill, chance.choice((RECOVER, AGAIN))) for kill in results[:kills]]
    return [
        Kill(kill.case, kill.at, RECOVER if _over(kill, moments[kill.case]) else then)
        for kill, then in drawn
    ]


def _over(kill: Kill, counts: dict[str, int]) -> bool:
    """Whether the plan has ended by then: the same verb would be a second change, and a flow that
    is set back twice copies twice.
    """
    last = counts.get(dying_command.APPEND, 0)  # two records that belong together, written at once
    return kill.at in {
        f"{dying_command.APPEND}:{number}:{dying_command.AFTER}" for number in (last - 1, last)
    }


def _whens(kind: str) -> tuple[str, ...]:
    under_way = (
        (dying_command.AMID,) if kind in (dying_command.REQUEST, dying_command.RECORD) else ()
    )
    return (dying_command.BEFORE, *under_way, dying_command.AFTER)


def run(
    lab: Lab,
    directory: Path,
    *,
    seed: int,
    kills: int | None,
    expected: Sequence[str] = KINDS,
) -> Report:
    """Count, kill, recover, judge; every verb on a connector of its own, all at the same time."""
    began = time.monotonic()
    report = Report(seed=seed, commit=commit())
    toolbox = Toolbox(lab, directory=directory / "toolbox")
    with cases(lab, toolbox, expected) as built:
        arena = _Arena(toolbox, report)
        with ThreadPoolExecutor(len(built)) as pool:
            counted = dict(zip(built, pool.map(arena.count, built.values()), strict=True))
        report.moments = counted
        drawn = schedule(seed, counted, kills)
        with ThreadPoolExecutor(len(built)) as pool:
            queues = [
                pool.submit(arena.strike_all, case, [kill for kill in drawn if kill.case == kind])
                for kind, case in built.items()
            ]
            for queue in queues:
                queue.result()
    journal = toolbox.own("journal", "verify")
    if journal.status != OK:
        report.wrong.append(f"the journal: {journal.said}")
    report.seconds = time.monotonic() - began
    return report


class _Arena:
    """Where verbs are killed; used by one thread for each case."""

    def __init__(self, toolbox: Toolbox, report: Report) -> None:
        self._toolbox = toolbox
        self._report = report
        self._lock = threading.Lock()

    def count(self, case: Case) -> dict[str, int]:
        """What the verb does when it is left alone."""
        case.begin()
        counts = self._toolbox.directory / f"{case.name}.counts"
        child = self._verb(case, "counted", "", ("--counts", str(counts)))
        status = _ended(child)
        if status != OK or (result := case.ended()) != NEW:
            result = result if status == OK else f"exit status {status}"
            raise LabError(f"{case.name}, left alone: {result}\n{child.tail()}")
        counted: dict[str, int] = json.loads(counts.read_text())
        return counted

    def strike_all(self, case: Case, kills: Sequence[Kill]) -> None:
        """One after the other, each from the beginning."""
        for number, kill in enumerate(kills):
            child = self._strike(case, kill, number)
            missed = child.status != -9
            then = AGAIN if missed else kill.then
            next_one = self._next(case, then)
            with self._lock:
                if missed:
                    status = child.status
                    self._report.missed.append(f"{kill}: exit status {status}: {child.tail()}")
                self._report.kills[kill.at.rpartition(":")[0].partition(":")[0]] += not missed
                self._judge(case, kill, next_one)

    def _strike(self, case: Case, kill: Kill, number: int) -> Child:
        """The verb after it was killed, or ended; given again where it was denied."""
        for attempt in range(ATTEMPTS_MAX):
            case.begin()
            child = self._verb(case, f"{number}-{attempt}-{kill.at.replace(':', '-')}", kill.at)
            if _ended(child) != DENIED:
                break
            with self._lock:
                self._report.denied.append(f"{kill}: {child.tail()}")
        return child

    def _next(self, case: Case, then: str) -> list[Ran]:
        """What a person does next."""
        if then == AGAIN:
            return [self._toolbox.run(*case.verb(), status=None)]
        own = [
            plan["plan_id"] for plan in self._toolbox.open_plans() if plan["connector"] == case.name
        ]
        return [
            self._toolbox.run("plan", "recover", plan, *case.reached, status=None) for plan in own
        ]

    def _judge(self, case: Case, kill: Kill, ran: Sequence[Ran]) -> None:
        text = "\n".join(f"exit status {item.status}: {item.said}" for item in ran)
        still = self._toolbox.open_plans(case.name)
        result = case.ended()
        if result in (OLD, NEW) and not still:
            self._report.ended[result] += 1
            if kill.then == AGAIN and result == OLD:
                self._report.wrong.append(f"{kill}: given again, and not done: {text}")
        elif still and any(item.status == OPEN for item in ran):
            self._report.ended[PARKED] += 1
            if case.name not in text:
                self._report.wrong.append(f"{kill}: parked without a word: {text}")
        else:
            self._report.wrong.append(f"{kill}: {result}, open plans {still}: {text}")

    def _verb(self, case: Case, name: str, value: str, more: Sequence[str] = ()) -> Child:
        hurry = ("--doubt", str(DOUBT_S))
        return self._toolbox.child(
            f"{case.name}-{name}", *case.verb(), value=value, more=(*more, *hurry)
        )


def _ended(child: Child) -> int | None:
    """Start it, and wait for its end."""
    child.start()

    def probe() -> None:
        if child.running:
            raise NotYet(child.tail())

    until(f"the end of {child.name}", probe, timeout_s=VERB_S_MAX)
    return child.status


def lab_and_folder() -> AbstractContextManager[tuple[Lab, Path]]:
    """A lab and a folder as run() wants them; ended and removed afterwards."""
    options = LabOptions(connectors=False, second_cluster=True, standalone=True)
    return seeded_kills.lab_and_folder("toolbox-kills", options)


@click.command()
@click.option("--kills", type=click.IntRange(1, 1000), help="All there are when not given.")
@seeded_kills.seeded
@click.option("--case", "kinds", multiple=True, type=click.Choice(KINDS), default=KINDS)
def main(*, kills: int | None, seed: int | None, kinds: tuple[str, ...]) -> None:
    """Kill verbs of the toolbox at every step, run one more, and look whether anything is half."""

    def once(seed: int) -> Report:
        with lab_and_folder() as (lab, directory):
            return run(lab, directory, seed=seed, kills=kills, expected=kinds)

    seeded_kills.report("kills of the offset toolbox", seed, once)


if __name__ == "__main__":
    main()
