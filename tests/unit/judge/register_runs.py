"""A world of tests/unit/state with a register over it, played in looks of five seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from offsetwatch.judge.findings.register import EVALUATIONS_PER_INTERVAL, FindingsRegister
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import (
    Condition,
    ConnectorStatus,
    StatusRecord,
    Task,
    TaskStatus,
)
from offsetwatch.model.findings import Finding, Judgement, Scope, Verdict
from offsetwatch.model.observations import InputId, ListingRecord, TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, TopicFacts
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.unit.state.worlds import World, source

INTERVAL_S = 60.0
SETTINGS = JudgeSettings(interval_s=INTERVAL_S)
POLL_S = INTERVAL_S / EVALUATIONS_PER_INTERVAL
STATUS = KafkaTopic("east", "connect-status")
BAD = "org.example.Bad in Files.poll"


class Play:
    """`more` are fields of the snapshot that the world does not make by itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.register = FindingsRegister(SETTINGS)
        self.more: dict[str, object] = {}
        self.blind: set[InputId] = set()
        self.findings: tuple[Finding, ...] = ()
        self.log_offset = 0

    def evaluate(self) -> tuple[Finding, ...]:
        """The next one, with every input read a moment ago but those that are blind."""
        self.world.now += POLL_S
        self.world.reads_all(blind=self.blind)
        self.findings = self.register.found(self.snapshot())
        return self.findings

    def snapshot(self) -> Snapshot:
        return replace(self.world.snapshot(), **self.more)

    def run(self, intervals: float, each: Callable[[], object] = lambda: None) -> None:
        """So long, with `each` before each look."""
        for _ in range(round(intervals * EVALUATIONS_PER_INTERVAL)):
            each()
            self.evaluate()

    def names(self) -> list[str]:
        return [finding.name.value for finding in self.findings]

    def only(self) -> Finding:
        (finding,) = self.findings
        return finding

    def restart(self) -> None:
        """Another process goes on with what this one remembered."""
        report = self.register.remembered()
        self.register = FindingsRegister(SETTINGS)
        if report is not None:
            self.register.recall(report)

    # --- what happens ----------------------------------------------------------------------------

    def judge(
        self, verdict: Verdict, *connectors: str, subjects: tuple[str, ...] = (), rule: int = 5
    ) -> None:
        """Connectors, or with `subjects` their partitions, have this verdict from now on."""
        inputs = [
            Judgement(
                scope=scope,
                connect_cluster="lab",
                connector=connector,
                subject=subject,
                verdict=verdict,
                rule=rule,
                reason="so it is",
                since=self.world.now,
            )
            for connector in connectors
            for scope, subject in (
                [(Scope.PARTITION, item) for item in subjects] or [(Scope.CONNECTOR, "")]
            )
        ]
        self.more["judgements"] = tuple(inputs)

    def status_followed(self) -> None:
        """Its status topic is found and read, and is empty."""
        facts = TopicFacts(
            at=STATUS,
            role=InternalTopicRole.STATUS,
            policy="compact",
            partitions=5,
            replication=1,
            brokers=1,
        )
        self.world.see(TopicFactsRead(kafka="east", facts=(facts,), at=self.world.now))
        self.add_statuses(whole=True)

    def add_statuses(self, *says: StatusRecord, whole: bool = False) -> None:
        records = (ListingRecord(say, at=self.world.now, live=not whole) for say in says)
        self.world.tail(*records, topic=STATUS, whole=whole)

    def fail(
        self, name: str = "files", *, failure: str | None = BAD, restarted: bool = True
    ) -> None:
        """A task is running, then failed, by the status topic, within a second."""
        if restarted:
            self.add_statuses(task("running", name=name))
            self.world.now += 0.5
        self.add_statuses(task("failed", name=name, failure=failure))
        self.world.now += 0.5

    @contextmanager
    def hidden(self, *inputs: InputId) -> Iterator[None]:
        """These inputs cannot be read, and are stale by now."""
        self.blind |= set(inputs)
        self.run(1)
        yield
        self.blind -= set(inputs)
        self.world.reads(*inputs)


def task(state: str, *, name: str = "files", failure: str | None = None) -> TaskStatus:
    return TaskStatus(name, 0, Condition(state, "w:1", 1, "4.3.1", failure))


def connector(state: str | None, *, name: str = "files") -> ConnectorStatus:
    condition = None if state is None else Condition(state, "w:1", 1, "4.3.1")
    return ConnectorStatus(name, condition)


def failed(name: str = "files", *, failure: str | None = BAD, tasks: int = 1):
    """A listed connector whose first task has failed, the others run."""
    others = (Task(number, "running") for number in range(1, tasks))
    return source(name, tasks=(Task(0, "failed", failure), *others))
