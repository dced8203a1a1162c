"""A sink that fails at one record, and fails there again however often it is started."""

import time
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.connector_configs import Config, file_sink
from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.stories import cluster_actions
from lab.stories.flow import DEADLINE_S, failed_again, task_trace
from lab.waiting import NotYet, until

NOT_JSON = "this is no JSON"


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink connector that expects JSON in one topic of one partition on east."""

    lab: Lab
    name: str

    @property
    def connector(self) -> str:
        """The sink connector."""
        return f"{self.name}-sink"

    @property
    def topic(self) -> str:
        """On east."""
        return self.name

    @property
    def path(self) -> Path:
        """What it has written."""
        return self.lab.directory / f"{self.name}.out"

    def config(self) -> Config:
        """FileStreamSink, with a converter that does not take everything."""
        return {
            **file_sink(self.path, topic=self.topic),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }

    def committed(self) -> int | None:
        """Of its group: the next record."""
        return cluster_actions.group_offset(self.lab.east, f"connect-{self.connector}", self.topic)


@dataclass(frozen=True, slots=True)
class PoisonedSink:
    """
    Where the poison is, what the group has committed (the next record), and how often it failed.

    A converter fails for its whole batch: the group may stand before the poison, never behind it.
    """

    connector: str
    topic: str
    at: float
    offset: int
    committed: int
    failures: int
    trace: str


def begin(sink: Sink, *, records: int = 5) -> Sink:
    """Make topic and connector, and let it take the first records."""
    sink.lab.create_topic("east", sink.topic)
    cluster_actions.produce_texts(
        sink.lab.east, sink.topic, [f'{{"n": {n}}}' for n in range(records)]
    )
    sink.lab.create(sink.connector, sink.config())
    sink.lab.wait_running(sink.connector)
    await_commits(sink)
    return sink


def poisoned(sink: Sink, *, restarts: int = 3) -> PoisonedSink:
    """One record that is no JSON, three good ones behind it, and restarts that help nothing."""
    poison = cluster_actions.bounds(sink.lab.east, sink.topic)[1]
    good = [f'{{"n": {n}}}' for n in range(3)]
    cluster_actions.produce_texts(sink.lab.east, sink.topic, [NOT_JSON, *good])
    task_trace(sink.lab, sink.connector)
    failures = failed_again(sink.lab, sink.connector, restarts=restarts)
    committed = sink.committed()
    if committed != poison:
        raise LabError(f"committed {committed}, the poison is at {poison}")
    return PoisonedSink(
        connector=sink.connector,
        topic=sink.topic,
        at=time.time(),
        offset=poison,
        committed=committed,
        failures=failures,
        trace=task_trace(sink.lab, sink.connector),
    )


def tolerated(sink: Sink) -> None:
    """Let Connect leave such records out; a changed configuration restarts the task by itself."""
    sink.lab.create(sink.connector, {**sink.config(), "errors.tolerance": "all"})
    await_commits(sink)


def await_commits(sink: Sink) -> None:
    """Wait until the group has committed the end of the topic."""

    def check() -> None:
        end = cluster_actions.bounds(sink.lab.east, sink.topic)[1]
        committed = sink.committed()
        if committed != end:
            raise NotYet(f"committed {committed}, log end {end}")

    until(f"{sink.connector} to commit the end of {sink.topic}", check, timeout_s=DEADLINE_S)
