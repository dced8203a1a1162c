"""
A replication flow of one story's own, and what is read of it: REST and plain Kafka clients.

Aliases differ from story to story: remote topics, syncs and keys in the offsets topic then do as
well, and no story can disturb another one, or the standard connectors.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from lab.cluster.build import WORKERS
from lab.cluster.connector_configs import Config, mm2_source
from lab.cluster.lab import Lab
from lab.stories import cluster_actions
from lab.waiting import NotYet, until

COPY_S_MAX = 150.0
OFFSETS_TOPIC = "connect-offsets"
STATUS_TOPIC = "connect-status"
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Deed:
    """
    What an act has done to partition 0, and how the world stood right after it.

    at          when the incident was complete, Unix seconds
    position    MM2's stored offset by REST: the last record; None without one
    log_start, log_end    upstream
    lost        the first and the last offset that MM2 can never copy any more; None for none
    """

    connector: str
    topic: str
    at: float
    position: int | None
    log_start: int
    log_end: int
    lost: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic of one partition on west, copied to east by a connector of its own."""

    lab: Lab
    name: str

    @property
    def connector(self) -> str:
        """The MirrorSourceConnector."""
        return f"{self.name}-mirror"

    @property
    def topic(self) -> str:
        """Upstream."""
        return self.name

    @property
    def source(self) -> str:
        """MM2's alias of west in this flow."""
        return f"{self.name}-west"

    @property
    def target(self) -> str:
        """MM2's alias of east in this flow."""
        return f"{self.name}-east"

    @property
    def remote(self) -> str:
        """The copy on east."""
        return f"{self.source}.{self.topic}"

    @property
    def syncs(self) -> str:
        """The offset syncs, on west."""
        return f"mm2-offset-syncs.{self.target}.internal"

    def config(self, **more: str) -> Config:
        """The connector's configuration, with keys spelt with _ for the dot."""
        baseline = mm2_source(upstream=self.lab.west, downstream=self.lab.east, topics=self.topic)
        return {**baseline, **self.aliases, "tasks.max": "1", **_dotted(more)}

    @property
    def aliases(self) -> Config:
        """What tells this flow from all others."""
        return {"source.cluster.alias": self.source, "target.cluster.alias": self.target}

    @property
    def partition(self) -> dict[str, object]:
        """The source partition as REST writes it."""
        return {"cluster": self.source, "partition": 0, "topic": self.topic}

    def position(self) -> int | None:
        """MM2's stored offset, by REST."""
        for entry in self.lab.offsets(self.connector):
            if entry["partition"] == self.partition and entry["offset"] is not None:
                return int(entry["offset"]["offset"])
        return None

    def bounds(self) -> tuple[int, int]:
        """(log start, log end) upstream."""
        return cluster_actions.bounds(self.lab.west, self.topic)

    def copies(self) -> int:
        """How many records the copy on east has."""
        start, end = cluster_actions.bounds(self.lab.east, self.remote)
        return end - start

    def produce(self, n: int) -> None:
        """Records upstream."""
        self.lab.produce("west", self.topic, n)

    def states(self) -> tuple[str, ...]:
        """The connector's state and its tasks', by REST."""
        status = self.lab.status(self.connector)
        return (status["connector"]["state"], *(task["state"] for task in status["tasks"]))

    def deed(self, *, lost: tuple[int, int] | None = None) -> Deed:
        """How the world stands now."""
        start, end = self.bounds()
        return Deed(
            connector=self.connector,
            topic=self.topic,
            at=time.time(),
            position=self.position(),
            log_start=start,
            log_end=end,
            lost=lost,
        )


def begin(flow: Flow, *, records: int, config: Mapping[str, str] | None = None) -> Flow:
    """Make topic and connector, and let it copy the first records; `config` is the topic's."""
    flow.lab.create_topic("west", flow.topic, config=config)
    flow.produce(records)
    flow.lab.create(flow.connector, flow.config())
    flow.lab.wait_running(flow.connector)
    copied(flow)
    return flow


def end(flow: Flow) -> None:
    """Delete the connector, so that nothing of the story goes on; topics and offsets stay."""
    flow.lab.delete(flow.connector)


def stop(flow: Flow) -> None:
    """Stop the running connector, and see its task end."""
    stop_mirror(flow.lab, flow.connector)


def stop_mirror(lab: Lab, connector: str) -> None:
    """
    Stop a running connector of MM2 and wait until its task has ended, by the log of its worker.

    STOPPED with no task left, as REST says it, may come a second too early: the status of a task
    goes when another worker has taken note, and until its own has, the task copies on.
    """
    answer = f"Stopping task-thread-{connector}-0 took"
    known = logged(lab, answer)
    lab.stop_connector(connector)

    def check() -> None:
        if logged(lab, answer) == known:
            raise NotYet("its task has not said so")

    until(f"the end of {connector}", check, timeout_s=DEADLINE_S)


def logged(lab: Lab, text: str) -> int:
    """How often the workers have written this to their logs."""
    workers = [name for name in lab.pids if name in WORKERS]
    return sum(lab.log_path(name).read_bytes().count(text.encode()) for name in workers)


def copied(flow: Flow) -> Deed:
    """Wait until MM2 has committed the last record upstream."""

    def check() -> Deed:
        now = flow.deed()
        if now.position != now.log_end - 1:
            raise NotYet(f"position {now.position}, log end {now.log_end}, {flow.states()}")
        return now

    return until(f"{flow.topic} copied", check, timeout_s=COPY_S_MAX)


def failed(flow: Flow) -> str:
    """Wait until a task has FAILED; its trace."""
    return task_trace(flow.lab, flow.connector)


def task_trace(lab: Lab, connector: str) -> str:
    """Wait until task 0 of a connector has FAILED; its trace."""

    def check() -> str:
        tasks = lab.status(connector)["tasks"]
        if not tasks or tasks[0]["state"] != "FAILED":
            raise NotYet(str([task["state"] for task in tasks]))
        return str(tasks[0]["trace"])

    return until(f"{connector} failed", check, timeout_s=DEADLINE_S)


def failed_again(lab: Lab, connector: str, *, restarts: int) -> int:
    """
    Restart a failed task so many times, each time until it has failed again: how often it failed.

    As a person or an operator's auto-restart does it. Counted in the status topic, as a task that
    fails within a second of its start looks, by REST, as if it had never been started.
    """
    count = cluster_actions.times_failed(lab.east, STATUS_TOPIC, connector)
    for _ in range(restarts):
        lab.restart(connector)
        expected = count + 1

        def check(expected: int = expected) -> int:
            now = cluster_actions.times_failed(lab.east, STATUS_TOPIC, connector)
            if now < expected:
                raise NotYet(f"failed {now} times")
            return now

        count = until(f"{connector} failed again", check, timeout_s=DEADLINE_S)
    return count


def _dotted(config: Mapping[str, str]) -> Config:
    return {key.replace("_", "."): value for key, value in config.items()}
