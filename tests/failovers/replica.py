"""A replica as a process of its own: the real journal, election, runner and driver, and in place of
the planner somebody who sees a failed sink and has the record skipped that it stands before.

    python -m tests.failovers.replica NAME FOLDER BOOTSTRAP TOPIC URL [PLANT]
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from offsetwatch.clients.kafka.journal_topic import JournalTopicRequirements
from offsetwatch.clock import SteadyClock
from offsetwatch.config import Connect
from offsetwatch.errors import ClientError, NotLeader
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.engine.progress import EngineLimits
from offsetwatch.remedy.execute.approved_plans import PlanExecutor, ProcessLifetime
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import PlanApproved, PlanProposed
from offsetwatch.remedy.model.plan import (
    Action,
    Alter,
    Copy,
    Expect,
    Freeze,
    PartitionOffset,
    Plan,
    PlanSubject,
    RecordLocation,
    RemediationContext,
    RequestedState,
    Settle,
    ToState,
)
from offsetwatch.remedy.replicas.replica import LeadershipTerm, Replica, ReplicaSettings
from tests.contract.worlds import SINK_NAME, TOPIC

SESSION_S = 1.0
# A request leaves so long after its intent was written at most, and one without an answer is taken
# for not made after the other: what lies between covers the way, as 30 s and 120 s do in earnest.
STALE_S, DOUBT_S = 1.0, 6.0
LIMITS = EngineLimits(step_s=60.0, doubt_s=DOUBT_S, ack_s=DOUBT_S, attempts=100)
POLL_S = 0.05
PARTITION = f'{{"kafka_partition":0,"kafka_topic":"{TOPIC}"}}'


class Shelf:
    """Copies of records that are skipped: a file each, on a disk that all replicas see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def inspect(self, step: Copy) -> StepInspection:
        there = (self.folder / step.skip_key).exists()
        return StepInspection(
            StepStatus.DONE if there else StepStatus.READY, "copied" if there else ""
        )

    def carry_out(self, step: Copy) -> Outcome:
        (self.folder / step.skip_key).touch()
        return Outcome(AttemptResult.ACK, "copied")


class Driver:
    """Over REST, with the shelf."""

    def __init__(self, rest: RestDriver, shelf: Shelf) -> None:
        self._rest, self._shelf = rest, shelf
        self.identity, self.offsets = rest.identity, rest.offsets

    def inspect(self, step, frozen):
        if isinstance(step, Copy):
            return self._shelf.inspect(step)
        return self._rest.inspect(step, frozen)

    def carry_out(self, step, frozen):
        if isinstance(step, Copy):
            return self._shelf.carry_out(step)
        return self._rest.carry_out(step, frozen)


class Bystander:
    """Where a planner would be: nothing speaks against a plan."""

    def recheck(self, *_: object, **__: object) -> tuple[str, ...]:
        return ()

    def is_stop_requested(self) -> bool:
        return False


class Careless(LeadershipTerm):
    """A bug to be found: it was chosen once, and goes on whatever the broker says."""

    def __init__(self, term: LeadershipTerm) -> None:
        self._term = term

    over = False  # type: ignore[assignment]

    def publish(self, lines) -> None:
        with suppress(NotLeader):
            self._term.publish(lines)

    def check(self, stale_s: float = 0.0) -> None:
        """Never too late."""


PLANTS = {"": lambda term: term, "careless": Careless}


class Actor:
    """One term."""

    def __init__(self, name: str, folder: Path, cluster: Connect, term: LeadershipTerm) -> None:
        self._name, self._site, self._term = name, cluster, term
        self._shelf = Shelf(folder.parent / "shelf")
        self._clock = SteadyClock()
        self._ledger = JournalIndex(folder, term.publish)
        self._sight = ConnectClient(cluster)
        self._numbers = itertools.count()
        self._executor = PlanExecutor(
            ledger=self._ledger,
            planner=Bystander(),
            open_driver=self.driver,
            clock=self._clock,
            lifetime=ProcessLifetime(self._clock, time.sleep, lambda: False, lambda: term.over),
            limits=LIMITS,
        )

    def act(self) -> None:
        with closing(self._ledger.journal), closing(self._sight):
            while not self._term.over:
                self._ledger.read_on()
                if not self._executor.recover() and not self._begin():
                    with suppress(ClientError):
                        self._propose()
                time.sleep(POLL_S)

    def _begin(self) -> bool:
        for plan_id, plan in self._ledger.fleet.approved().items():
            grounds = self._executor.read_guard_inputs()
            self._executor.carry_out(plan, None, self._ledger.dossiers[plan_id], grounds)
            return True
        return False

    def _propose(self) -> None:
        if self._ledger.journal.open_plan("lab", SINK_NAME) is not None:
            return
        if not self._sight.traces(SINK_NAME):  # nothing has failed
            return
        pairs = [pair for pair in self._sight.pairs(SINK_NAME) if pair.offset is not None]
        if not pairs:
            return
        offset = int(pairs[0].offset.partition(":")[2].rstrip("}"))
        key = f"{TOPIC}-{offset}"
        if self._ledger.journal.skipped_by(key) is not None:
            return
        plan = self._plan(key, offset)
        now = self._clock.now()
        self._ledger.journal.append(
            plan.plan_id,
            [
                PlanProposed(at=now, plan=plan, mode="auto", expires_at=now + 3600.0),
                PlanApproved(at=now, by="policy", plan_sha256=plan.sha256),
            ],
        )

    def _plan(self, key: str, offset: int) -> Plan:
        here = PartitionOffset(PARTITION, f'{{"kafka_offset":{offset}}}')
        after = PartitionOffset(PARTITION, f'{{"kafka_offset":{offset + 1}}}')
        now = self._clock.now()
        return Plan(
            plan_id=f"{self._name}-{os.getpid()}-{round(now * 1000)}-{next(self._numbers)}",
            verb=f"skip {key}",
            subject=PlanSubject("rest", "lab", SINK_NAME, "sink", None),
            steps=(
                Copy(RecordLocation("east", TOPIC, "id", 0, offset), "0" * 64, 1, key, "shelf"),
                ToState(RequestedState.STOPPED),
                Settle(quiet_s=0.2),
                Freeze(),
                Expect((here,)),
                Alter((after,)),
                ToState(RequestedState.RUNNING),
            ),
            original=RequestedState.RUNNING,
            final=RequestedState.RUNNING,
            created_at=now,
            created_by="detector",
            remedy=RemediationContext(Action.SKIP_ONE, incident=key, skip_key=key, signature="s"),
        )

    @contextmanager
    def driver(self, _plan: Plan):
        rest = RestDriver(
            self._site,
            SINK_NAME,
            None,
            clock=self._clock,
            check=lambda: self._term.check(STALE_S),
        )
        with closing(rest):
            yield Driver(rest, self._shelf)


def main(name: str, folder: str, bootstrap: str, topic: str, url: str, plant: str = "") -> None:
    settings = ReplicaSettings(
        kafka="journal",
        properties={"bootstrap.servers": bootstrap},
        requirements=JournalTopicRequirements(topic, 1, 1),
        name=name,
        session_s=SESSION_S,
    )
    replica = Replica(settings, Path(folder), SteadyClock())
    replica.start()
    cluster = Connect(name="lab", kafka="journal", url=url)
    while not (replica.status.problem or "").startswith("unexpected"):
        term = replica.term
        if term is not None:
            with suppress(NotLeader):
                Actor(name, Path(folder), cluster, PLANTS[plant](term)).act()
        time.sleep(POLL_S)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
