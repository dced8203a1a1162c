"""One run of forced failovers. Called by __main__.py and by the real tests."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lab.cluster.lone_broker import LoneBroker, lone_broker
from lab.kills.seeded_kills import commit, counts
from lab.processes.child import Child
from lab.product.program import BESIDE
from lab.waiting import NotYet, until
from offsetwatch.clients.kafka.clients import parse_end_of_partition
from offsetwatch.clients.kafka.journal_topic import JournalReader, JournalTopicRequirements
from offsetwatch.clients.write.kafka import create_journal_topic
from offsetwatch.errors import LeaderNotAvailable, ResponseTimeout, TargetUnreachable
from offsetwatch.remedy.journal.journal import ChainLine, Journal, JournalEntry
from offsetwatch.remedy.model.journal_records import LeadershipTaken, decode_record
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, decode_line
from tests.failovers.judging import FailoverResult, judged
from tests.failovers.world import World, world

KILL, FREEZE, CUT = "kill", "freeze", "cut"
KINDS = (KILL, FREEZE, CUT)
AIMS = ("", "stop", "offsets", "offsets", "resume", "resume")
NAMES = ("a", "b")
TOPIC = "journal"
LEADS_S_MAX = 600.0
AIM_S_MAX = 20.0  # a plan that waits for what is in doubt makes none for some seconds
REST_S_MAX = 600.0


class Strike(NamedTuple):
    """What is done to the leader, and when.

    aimed       at a request: first it waits for one that has this word, if any
    after_s     then for so long
    more_s      for so long it stays as it is once another one leads
    """

    kind: str
    aimed: str
    after_s: float
    more_s: float


def strikes(seed: int, count: int) -> list[Strike]:
    """The same for the same seed. Most come while a request is on its way, or right behind it; some
    of those that were away come back before what is in doubt is taken for not made, and some long
    after.
    """
    chance = random.Random(seed)
    results = []
    for _ in range(count):
        kind, aimed = chance.choice(KINDS), chance.choice(AIMS)
        after_s = chance.uniform(0.0, 0.3 if aimed else 4.0)
        results.append(Strike(kind, aimed, after_s, chance.uniform(0.0, chance.choice((1.0, 9.0)))))
    return results


@dataclass
class Report:
    seed: int
    commit: str
    failovers: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    found: FailoverResult = field(default_factory=FailoverResult)
    bad: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        result = self.found
        yield f"seed {self.seed}, commit {self.commit}, {self.seconds:.0f} s"
        yield (
            f"failovers {self.failovers.total()}: {counts(self.failovers)}; "
            f"terms {result.terms}; came too late {self.missed}"
        )
        if self.took_s:
            middle = sorted(self.took_s)[len(self.took_s) // 2]
            most = max(self.took_s)
            yield f"until another one led: median {middle:.1f} s, most {most:.1f} s"
        yield f"plans {result.plans}, ended: {counts(result.endings)}; steps {result.steps}"
        yield (
            f"requests that change something {result.effects}, of these repeats of one in doubt "
            f"{result.repeats}, late and without effect {result.late - _late(result)}"
        )
        yield f"records that had to be skipped {self.bad}, skipped {self.skipped}"
        yield f"DOUBLE EFFECTS {len(result.double)}"
        yield from (f"double: {line}" for line in result.double[:20])
        yield from (f"wrong: {line}" for line in self.wrong[:20])

    @property
    def sound(self) -> bool:
        """Nothing double or wrong, and there was something that could have been."""
        busy = self.found.effects > 0 and self.skipped > 0 and self.failovers.total() > 0
        return busy and not (self.found.double or self.wrong)


def _late(result: FailoverResult) -> int:
    return sum("was followed" in line for line in result.double)


def run(directory: Path, *, seed: int, failovers: int, plant: str = "") -> Report:
    """Strike the leader so often, wait until everything has come to rest, judge. `plant`: a bug of
    replica.PLANTS, which is waited for to show, as nothing comes to rest with it.
    """
    began = time.monotonic()
    report = Report(seed=seed, commit=commit())
    with ExitStack() as stack:
        broker = stack.enter_context(lone_broker(directory / "broker", relays=len(NAMES)))
        at = stack.enter_context(world(seed))
        arena = stack.enter_context(closing(Arena(broker, at, directory, report, plant)))
        for strike in strikes(seed, failovers):
            arena.strike(strike)
        if plant:
            arena.expose()
        else:
            arena.rest()
        arena.judge()
    report.seconds = time.monotonic() - began
    return report


class Arena:
    """Two replicas, and whoever strikes them."""

    def __init__(
        self, broker: LoneBroker, at: World, directory: Path, report: Report, plant: str
    ) -> None:
        self._broker, self._world, self._directory, self._report = broker, at, directory, report
        (directory / "shelf").mkdir()
        properties = {"bootstrap.servers": broker.address}
        create_journal_topic("journal", properties, JournalTopicRequirements(TOPIC, 1, 1))
        self._log = Log(properties)
        self._children = {
            name: Child(
                name,
                [
                    *BESIDE,
                    sys.executable,
                    "-m",
                    "tests.failovers.replica",
                    name,
                    str(directory / name),
                    broker.by(number),
                    TOPIC,
                    at.url(name),
                    plant,
                ],
                directory=directory,
            )
            for number, name in enumerate(NAMES)
        }
        for child in self._children.values():
            child.start()

    def close(self) -> None:
        for child in self._children.values():
            child.kill()
        self._log.stop()

    def strike(self, strike: Strike) -> None:
        """Whoever leads, until another one does."""
        while True:
            terms, leader = self._leader(0)
            if strike.aimed:
                self._world.wait_for(strike.aimed, AIM_S_MAX)
            # Drawn, not awaited: what must hold holds whenever it comes.
            time.sleep(strike.after_s)
            if self._log.terms == terms:
                break
            self._report.missed += 1  # another one leads by itself, on a machine without rest
        began = time.monotonic()
        self._begin(strike.kind, leader)
        try:
            until(
                "another leader",
                lambda: self._followed(terms, leader, strike.kind),
                timeout_s=LEADS_S_MAX,
                evidence=self._evidence,
            )
            self._report.took_s.append(time.monotonic() - began)
            self._report.failovers[strike.kind] += 1
            if strike.kind != KILL:
                time.sleep(strike.more_s)
        finally:
            self._end(strike.kind, leader)

    def _leader(self, more_than: int) -> tuple[int, str]:
        def probe() -> tuple[int, str]:
            self._check()
            if self._log.terms <= more_than or self._log.leader is None:
                raise NotYet("nobody leads")
            return self._log.terms, self._log.leader

        return until("a leader", probe, timeout_s=LEADS_S_MAX, evidence=self._evidence)

    def _followed(self, terms: int, leader: str, kind: str) -> None:
        del kind
        self._check(but=leader)
        if self._log.terms <= terms or self._log.leader == leader:
            raise NotYet(f"{leader} was the last, in term {self._log.terms}")

    def _begin(self, kind: str, leader: str) -> None:
        child = self._children[leader]
        match kind:
            case "kill":
                child.kill()
            case "freeze":
                child.signal(signal.SIGSTOP)
            case _:
                self._broker.relays[NAMES.index(leader)].hold()

    def _end(self, kind: str, leader: str) -> None:
        child = self._children[leader]
        match kind:
            case "kill":
                child.start()
            case "freeze":
                child.signal(signal.SIGCONT)
            case _:
                self._broker.relays[NAMES.index(leader)].release()

    def _check(self, but: str = "") -> None:
        for name, child in self._children.items():
            if name != but and not child.running:
                raise AssertionError(f"{name} ended by itself\n{child.tail()}")

    def _evidence(self) -> str:
        tails = "\n".join(child.tail() for child in self._children.values())
        return f"{self._world.describe()}\n{tails}"

    def rest(self) -> None:
        """Until nothing is left to be done, and all copies are the same."""
        self._world.more = False

        def rested() -> None:
            self._check()
            if not self._world.at_rest():
                raise NotYet(self._world.describe())
            opened = self._log.open_plans()
            if opened:
                raise NotYet(str(opened))

        until("everything at rest", rested, timeout_s=REST_S_MAX, evidence=self._evidence)
        until("copies of all", self._same, timeout_s=LEADS_S_MAX, evidence=self._evidence)

    def expose(self) -> None:
        """Until a bug shows."""

        def check() -> None:
            if not judged(self._log.entries(), list(self._world.requests)).double:
                raise NotYet(self._world.describe())

        until("that it shows", check, timeout_s=LEADS_S_MAX, evidence=self._evidence)

    def judge(self) -> None:
        """What was asked, by what was written; what came of it, by what should have."""
        report, at = self._report, self._world
        report.found = judged(self._log.entries(), at.requests)
        good = set(range(at.end())) - set(at.bad)
        report.bad, report.skipped = len(at.bad), len(set(at.bad) - at.delivered())
        report.wrong += [f"lost: {n}" for n in sorted(good - at.delivered())]
        report.wrong += [f"delivered though bad: {n}" for n in at.bad if n in at.delivered()]
        parked = report.found.endings["parked"] + report.found.endings["in_doubt"]
        report.wrong += [f"{parked} plans wait for a person"] if parked else []

    def _same(self) -> None:
        """Of all replicas, and of one that is made anew from the topic, byte for byte."""
        lines = self._log.lines()
        for name in NAMES:
            with closing(Journal(self._directory / name)) as journal:
                if journal.lines(1, len(lines) + 1000) != lines:
                    raise NotYet(f"{name} has another journal")
        fresh = self._directory / f"fresh-{len(lines)}"
        with closing(JournalTopicCopy(fresh, TOPIC, "id")) as copy:
            # A line may have come since they were compared.
            copy.append_lines(self._log.values()[: len(lines)], 0)
            assert copy.lines(1, len(lines) + 1) == lines


class Log:
    """The topic, as it is written."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._reader = JournalReader("journal", properties, TOPIC, 0)
        self._values: list[bytes | None] = []
        self._lines: list[ChainLine] = []
        self._stop = threading.Event()
        self.terms = 0
        self.leader: str | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._reader.close()

    def values(self) -> list[bytes | None]:
        return list(self._values)

    def lines(self) -> tuple[ChainLine, ...]:
        return tuple(self._lines)

    def entries(self) -> list[JournalEntry]:
        return [
            JournalEntry(line.seq, line.plan_id, decode_record(bytes(line.record)))
            for line in self.lines()
        ]

    def open_plans(self) -> list[str]:
        opened: dict[str, None] = {}
        for entry in self.entries():
            kind = type(entry.record).__name__
            if kind in {"Opened", "Approved"}:
                opened[entry.plan_id] = None
            elif kind == "Ended":
                opened.pop(entry.plan_id, None)
        return list(opened)

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                messages = self._reader.read(1000, 0.05)
            except (
                ResponseTimeout,
                TargetUnreachable,
                LeaderNotAvailable,
            ):  # a broker on a machine without rest
                continue
            for message in messages:
                if parse_end_of_partition(message) is not None:
                    continue
                line = decode_line(message.value())
                self._values.append(message.value())
                self._lines.append(line)
                record = decode_record(bytes(line.record))
                if isinstance(record, LeadershipTaken):
                    self.leader = record.name
                    self.terms += 1
