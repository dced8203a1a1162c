"""A Connect worker: its herder thread, which does one thing after another, and what runs beside it.

The order of things is that of DistributedHerder.tick: join a round if there is one, carry requests
out, then look at what the config topic brought. Requests that need this thread wait for it;
whoever asked gives up after 90 s, and the request is carried out all the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from tests.fakes.connect_model import configs
from tests.fakes.connect_model.answers import Callback, RebalanceNeeded, Refusal
from tests.fakes.connect_model.configs import FAILED, STARTED, STOPPED, ConfigState
from tests.fakes.connect_model.membership import TaskId
from tests.fakes.connect_model.plugins import tasks_of
from tests.fakes.connect_model.tasks import Task, task_of
from tests.fakes.connect_model.timeline import Process, Signal, Steps
from tests.fakes.connect_model.traces import trace

if TYPE_CHECKING:
    from tests.fakes.connect_model.cluster import FakeConnect

Action = Callable[[], Steps]
RETRY_S = 0.25


class Worker:
    """`state` is the snapshot that the herder decides by, `store` what its log thread has read."""

    def __init__(self, connect: FakeConnect, number: int) -> None:
        self.connect, self.number = connect, number
        self.id, self.url = f"worker-{number}:8083", f"http://worker-{number}:8083"
        self.alive, self.ready = False, False
        self.connectors_assigned: list[str] = []
        self.tasks_assigned: list[TaskId] = []
        self._forget()

    def _forget(self) -> None:
        """What a process has in memory."""
        self.store, self.state = ConfigState(), ConfigState()
        self.wakeup = Signal()
        self.connectors: dict[str, str] = {}
        self.tasks: dict[TaskId, Task] = {}
        self.processes: list[Process] = []
        self.held_until = 0.0
        self.stage: tuple[str, float, float | None]
        self._staged("initializing and reading to the end of internal topics")
        self._queue: list[tuple[float, int, Action, Callback]] = []
        self._number = 0
        self._rebalance = False
        self._config_updates: set[str] = set()
        self._target_changes: set[str] = set()
        self._task_updates: set[str] = set()
        self._restarts: dict[str, tuple[bool, bool]] = {}

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.alive
        self._forget()
        self.alive, self.ready = True, False
        self.spawn(self._run(), "herder")

    def kill(self) -> None:
        """As `kill -9` does: no last commit, no word to anybody."""
        self.alive = self.ready = False
        for task in self.tasks.values():
            task.vanish()
        processes, self.processes = self.processes, []
        for process in processes:
            process.kill()
        for _, _, _, callback in self._queue:
            callback.fail(Refusal(500, "Worker is shutting down"))
        self.connect.note(f"{self.id} dies")
        delay = self.connect.timing.worker_session_s
        self.connect.line.call_after(delay, lambda: self.connect.membership.lost(self))

    def spawn(self, steps: Steps, name: str) -> Process:
        """A thread that dies with the worker."""
        process = self.connect.line.spawn(steps, f"{self.id}/{name}")
        self.processes = [item for item in self.processes if item.alive]
        self.processes.append(process)
        return process

    def hold(self, seconds: float) -> None:
        """Something keeps the herder thread: a connector that hangs as it starts, a slow broker."""
        self.held_until = max(self.held_until, self.connect.line.at + seconds)

    @property
    def leads(self) -> bool:
        return self.connect.membership.leader is self

    def _run(self) -> Steps:
        yield self.connect.timing.worker_start_s
        self.read_to_end()
        self.state, self.ready = self.store.copy(), True
        self._drop_updates()
        self.connect.membership.request()
        while True:
            if self.connect.membership.open:
                yield from self._join()
            yield from self._carry_out_requests()
            yield from self._take_in_updates()
            if not self._busy():
                due = self._queue[0][0] if self._queue else None
                self._staged("polling the group coordinator until interrupted")
                yield self.wakeup if due is None else (self.wakeup, due - self.connect.line.at)

    def _busy(self) -> bool:
        return bool(
            self.connect.membership.open
            or self._rebalance
            or self._config_updates
            or self._target_changes
            or self._task_updates
            or self._restarts
            or (self._queue and self._queue[0][0] <= self.connect.line.at)
        )

    def _join(self) -> Steps:
        self._staged("ensuring membership in the cluster")
        yield from self._wait_while_held()
        self.refresh()
        membership = self.connect.membership
        before = membership.generation
        membership.join(self)
        while membership.generation == before:
            yield membership.settled
        self.refresh()
        yield from self._stop_tasks(
            [task for task in self.tasks if task not in self.tasks_assigned]
        )
        for name in [
            connector for connector in self.connectors if connector not in self.connectors_assigned
        ]:
            del self.connectors[name]
        for name in self.connectors_assigned:
            if name not in self.connectors:
                self.start_connector(name)
        for item in self.tasks_assigned:
            if item not in self.tasks:
                self.start_task(item)

    def _wait_while_held(self) -> Steps:
        while self.held_until > self.connect.line.at:
            yield self.held_until - self.connect.line.at

    def _staged(self, what: str) -> None:
        self.stage = (what, self.connect.line.at, None)

    # --- requests --------------------------------------------------------------------------------

    def add_request(self, action: Action, callback: Callback, delay_s: float = 0.0) -> None:
        """Have the herder thread do this. The callback hears of errors; of success the action tells
        it, or its return value does if that is not None.
        """
        self._number += 1
        entry = (self.connect.line.at + delay_s, self._number, action, callback)
        heapq.heappush(self._queue, entry)
        self.wakeup.notify()

    def _carry_out_requests(self) -> Steps:
        while self._queue and self._queue[0][0] <= self.connect.line.at:
            yield from self._wait_while_held()
            _, _, action, callback = heapq.heappop(self._queue)
            try:
                result = yield from action()
            except Refusal as exc:
                callback.fail(exc)
            else:
                if result is not None:
                    callback.complete(result)

    def check_rebalance(self) -> None:
        """Raises RebalanceNeeded: what this worker knows of assignments is about to change."""
        if self._rebalance:
            raise RebalanceNeeded

    # --- the config topic ------------------------------------------------------------------------

    def write(
        self, records: Iterable[tuple[str, Any]], by: str, *, read_back: bool = True
    ) -> Steps:
        """Append, and for most records wait until they have been read back."""
        yield self.connect.timing.config_write_s
        self.connect.append_config(list(records), by)
        if read_back:
            self.read_to_end()

    def write_tasks(self, name: str, tasks: list[dict[str, str]], by: str) -> Steps:
        """Raises Refusal where a stopped connector is to get tasks."""
        if tasks and self.state.target(name) == STOPPED:
            raise Refusal(
                400, f"Cannot submit non-empty set of task configs for stopped connector {name}"
            )
        self._staged(f"writing {len(tasks)} task configs for connector {name} to the config topic")
        yield from self.write(configs.of_tasks(name, tasks), by)

    def read_to_end(self) -> None:
        """Take in what the log thread has not seen; the herder thread is told what changed."""
        log = self.connect.config_log
        while self.store.offset < len(log):
            reports = self.store.apply(log[self.store.offset])
            if reports is not None and self.ready:
                self._notify(*reports)

    def refresh(self) -> None:
        """Read to the end of the config topic, and decide by that from now on."""
        self.read_to_end()
        self.state = self.store.copy()
        moment = self.connect.line.at
        self.stage = ("reading to the end of the config topic", moment, moment)

    def _notify(self, what: str, name: str) -> None:
        match what:
            case "config" | "removed":
                if (name in self.state.configs) == (what == "removed"):
                    self._rebalance = True
                self._config_updates.add(name)
            case "tasks":
                self._rebalance = True
                self._task_updates.add(name)
            case "target":
                self._target_changes.add(name)
            case "restart":
                include, failed, connector = name.split("/", 2)
                self._restarts[connector] = (include == "True", failed == "True")
        self.wakeup.notify()

    def _drop_updates(self) -> None:
        self._rebalance = False
        self._config_updates, self._target_changes = set(), set()
        self._task_updates, self._restarts = set(), {}

    def _take_in_updates(self) -> Steps:
        yield from self._wait_while_held()
        restarts, self._restarts = self._restarts, {}
        for name, (include_tasks, only_failed) in restarts.items():
            yield from self._restart(name, include_tasks=include_tasks, only_failed=only_failed)
        if not (
            self._rebalance or self._config_updates or self._target_changes or self._task_updates
        ):
            return
        self.state = self.store.copy()
        rejoin, config_updates = self._rebalance, self._config_updates
        targets, task_updates = self._target_changes, self._task_updates
        self._drop_updates()
        for name in sorted(config_updates & set(self.connectors)):
            if name in self.state.configs:
                self.start_connector(name)
            else:
                del self.connectors[name]
        for name in sorted(targets):
            self._set_target(name)
        # Those that there still are start again at the end of the round.
        yield from self._stop_tasks([task for task in self.tasks if task[0] in task_updates])
        if rejoin:
            self.connect.membership.request()

    # --- connectors and tasks --------------------------------------------------------------------

    def start_connector(self, name: str) -> None:
        """Also of one that runs: it is made anew."""
        target = self.state.target(name)
        broken = self.connect.behaviour(name).broken
        if broken is not None and target == STARTED:
            self.connectors[name] = FAILED
            self.connect.say(name, None, FAILED, self, trace("start", broken))
            return
        self.connectors[name] = target
        self._say(name)
        if target == STARTED:
            self.reconfigure(name)

    def _set_target(self, name: str) -> None:
        if name not in self.state.configs:
            return
        target = self.state.target(name)
        for item, task in list(self.tasks.items()):
            if item[0] == name:
                task.change_state(target)
        if self.connectors.get(name, FAILED) != FAILED or (
            name in self.connectors and target == STOPPED
        ):
            self.connectors[name] = target
            self._say(name)
            if target == STARTED:
                self.reconfigure(name)

    def _say(self, name: str) -> None:
        target = self.connectors[name]
        output = "RUNNING" if target == STARTED else target
        self.connect.say(name, None, output, self)

    def reconfigure(self, name: str, delay_s: float = 0.0) -> None:
        """Ask the connector for its tasks once the herder thread has time; again where that fails,
        as long as it is meant to run.
        """
        callback = Callback()
        self.add_request(lambda: self._reconfigured(name, callback), callback, delay_s)
        self.spawn(self._again(name, callback), f"reconfigure {name}")

    def _again(self, name: str, callback: Callback) -> Steps:
        if not callback.has_outcome:
            yield callback.done
        if callback.error is not None:
            self.reconfigure(name, RETRY_S)

    def _reconfigured(self, name: str, callback: Callback) -> Steps:
        if self.connectors.get(name) != STARTED or self.state.target(name) != STARTED:
            return True
        config = self.state.configs[name]
        upstream = self.connect.upstream_of(config)
        expected = tasks_of(self.connect.plugin_of(config), config, upstream)
        if expected == self.state.tasks.get(name, []):
            return True
        if self.leads:
            yield from self.write_tasks(name, expected, "connect")
            return True
        self.spawn(self._write_task_configs(name, expected, callback), f"tasks of {name}")
        return None

    def _write_task_configs(
        self, name: str, tasks: list[dict[str, str]], callback: Callback
    ) -> Steps:
        """Only the leader writes the configurations of tasks."""
        yield self.connect.timing.hop_s
        leader = self.connect.membership.leader
        if leader is None or not leader.alive:
            callback.fail(Refusal(500, "Request to leader to reconfigure connector tasks failed"))
            return

        def write() -> Steps:
            if not leader.leads:
                raise Refusal(409, "Only the leader may write task configurations.")
            if name not in leader.state.configs:
                raise Refusal(404, f"Connector {name} not found")
            yield from leader.write_tasks(name, tasks, "connect")
            return True

        leader.add_request(write, callback)

    def start_task(self, item: TaskId) -> None:
        """Nothing where its configuration is gone already."""
        name, number = item
        if number < self.state.task_count(name):
            self.tasks[item] = task_of(self, item, self.state)

    def _stop_tasks(self, which: list[TaskId]) -> Generator[Any, Any, None]:
        """All together, and wait for all together, but not for ever: who has not ended by then is
        cancelled, which it hears of when it looks.
        """
        stopping = [self.tasks.pop(item) for item in which if item in self.tasks]
        for task in stopping:
            task.stop()
        deadline = self.connect.line.at + self.connect.timing.graceful_s
        for task in stopping:
            while task.process.alive and self.connect.line.at < deadline:
                yield (task.process.ended, deadline - self.connect.line.at)
            if task.process.alive:
                task.cancel()

    def _restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Steps:
        status = self.connect.statuses.get(name)
        if status is None or name not in self.state.configs:
            return
        if name in self.connectors and (not only_failed or status.connector.state == "FAILED"):
            self.start_connector(name)
        which = [
            task
            for task in self.tasks
            if task[0] == name
            and include_tasks
            and (not only_failed or self.connect.task_state(task) == "FAILED")
        ]
        yield from self._stop_tasks(which)
        for item in which:
            self.connect.say(name, item[1], "RESTARTING", self)
            self.start_task(item)

    def restart_task(self, item: TaskId) -> Steps:
        """Stop it and start it again."""
        yield from self._stop_tasks([item])
        self.start_task(item)
