"""The group of workers: who leads, who does what, and the rounds in which that is settled.

A round is over when every living worker has come to it. What a dead worker did is done by nobody
until the delay of a scheduled rebalance has passed, unless no worker was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.connect_model.timeline import Signal

if TYPE_CHECKING:
    from tests.fakes.connect_model.cluster import FakeConnect
    from tests.fakes.connect_model.worker import Worker

TaskId = tuple[str, int]


class Membership:
    """`leader` is what the last round settled: it may be dead by now."""

    def __init__(self, connect: FakeConnect) -> None:
        self._connect = connect
        self.workers: list[Worker] = []
        self.leader: Worker | None = None
        self.open = False
        self.generation = 0
        self.settled = Signal()
        self._joined: set[Worker] = set()
        self._missing_until = 0.0

    def living(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.alive]

    def request(self) -> None:
        """Somebody wants a new round; the others hear of it."""
        if not self.open:
            self.open = True
            self._joined.clear()
            for worker in self.living():
                worker.wakeup.notify()

    def join(self, worker: Worker) -> None:
        """Come to the open round. It ends a moment after the last one came."""
        assert self.open
        self._joined.add(worker)
        self._end_if_complete()

    def lost(self, worker: Worker) -> None:
        """The coordinator has not heard of a worker for too long."""
        if worker.alive:
            return
        self._joined.discard(worker)
        if worker.connectors_assigned or worker.tasks_assigned:
            self._missing_until = self._connect.line.at + self._connect.timing.reassign_s
            self._connect.line.call_at(self._missing_until, self.request)
        self.request()
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        living = self.living()
        if living and self.open and self._joined >= set(living):
            self._connect.line.call_after(self._connect.timing.rebalance_s, self._settle)

    def _settle(self) -> None:
        living = self.living()
        if not self.open or not living or not self._joined >= set(living):
            return
        self.open = False
        self.generation += 1
        self.leader = self.leader if self.leader in living else living[0]
        assert self.leader is not None
        self._assign(living, self.leader)
        self._forget_the_deleted(self.leader)
        self.settled.notify()

    def _assign(self, living: list[Worker], leader: Worker) -> None:
        """Everybody keeps what there still is; what is new goes to whoever has least."""
        state = leader.store
        connectors = sorted(state.configs)
        tasks = [(name, n) for name in connectors for n in range(state.task_count(name))]
        gone = [worker for worker in self.workers if not worker.alive]
        waits = self._missing_until > self._connect.line.at and bool(self.workers[1:])
        for worker in [*living, *(gone if waits else ())]:
            worker.connectors_assigned = [
                name for name in worker.connectors_assigned if name in state.configs
            ]
            worker.tasks_assigned = [item for item in worker.tasks_assigned if item in tasks]
        if not waits:
            for worker in gone:
                worker.connectors_assigned, worker.tasks_assigned = [], []
        held = {name for worker in self.workers for name in worker.connectors_assigned}
        for name in connectors:
            if name not in held:
                least = min(living, key=lambda worker: len(worker.connectors_assigned))
                least.connectors_assigned.append(name)
        done = {item for worker in self.workers for item in worker.tasks_assigned}
        for task in tasks:
            if task not in done:
                least = min(living, key=lambda worker: len(worker.tasks_assigned))
                least.tasks_assigned.append(task)

    def _forget_the_deleted(self, leader: Worker) -> None:
        """What the leader does at the end of a round: nobody has a state that is not configured."""
        statuses = self._connect.statuses
        for name in list(statuses):
            if name not in leader.store.configs:
                del statuses[name]
                continue
            count = leader.store.task_count(name)
            statuses[name].tasks = {
                n: status for n, status in statuses[name].tasks.items() if n < count
            }
