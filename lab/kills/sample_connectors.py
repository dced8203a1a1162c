"""
Connectors to be handled: each can be given work, and tells what came of it and what should have.

Each has topics, files and a name of its own and leaves no offsets behind, so that a lab can be
shared.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab.check import compare
from lab.cluster.connector_configs import Config, file_sink, file_source, mm2_source
from lab.cluster.lab import ClusterName, Lab
from lab.errors import LabError
from lab.stories import cluster_actions
from lab.waiting import NotYet, until

SETTLED_S_MAX = 150.0

Pair = dict[str, Any]
Pairs = list[Pair]


class Worked(Protocol):
    """A connector at work."""

    @property
    def name(self) -> str:
        """Its own."""

    def grow(self, n: int) -> None:
        """Give it so many more records."""

    def pairs(self) -> Pairs:
        """Its offsets once it has done all its work."""

    def came(self) -> object:
        """What came out of it, everything that did."""

    def meant(self) -> object:
        """What is to come out of it, everything once."""


@dataclass(frozen=True, slots=True)
class Source:
    """A FileStream source."""

    lab: Lab
    name: str
    topic: str
    path: Path

    def grow(self, n: int) -> None:
        """Lines, none like another."""
        have = len(self.meant()) if self.path.exists() else 0
        with self.path.open("a") as handle:
            handle.writelines(f"{self.name} {have + number}\n" for number in range(n))

    def pairs(self) -> Pairs:
        """The end of the file."""
        return [self.pair(self.path.stat().st_size)]

    def pair(self, position: int | None) -> Pair:
        """As REST shows it."""
        offset = None if position is None else {"position": position}
        return {"partition": {"filename": str(self.path)}, "offset": offset}

    def came(self) -> list[str]:
        """The topic."""
        return records(self.lab.east, self.topic).get(0, [])

    def meant(self) -> list[str]:
        """The file."""
        return self.path.read_text().splitlines()

    def after(self, n: int) -> int:
        """The position behind the first n lines."""
        return sum(len(line) + 1 for line in self.meant()[:n])


@dataclass(frozen=True, slots=True)
class Sink:
    """A FileStream sink of one topic, which nobody else writes to."""

    lab: Lab
    name: str
    topic: str
    path: Path
    partitions: int

    def grow(self, n: int) -> None:
        """Records, in turn to the partitions."""
        self.lab.produce("east", self.topic, n)

    def pairs(self) -> Pairs:
        """The log ends: a group's offset is that of the next record."""
        ends = _ends(self.lab, "east", self.topic, self.partitions)
        return [self.pair(number, end) for number, end in ends.items()]

    def pair(self, partition: int, offset: int | None) -> Pair:
        """As REST shows it."""
        return {
            "partition": {"kafka_partition": partition, "kafka_topic": self.topic},
            "offset": None if offset is None else {"kafka_offset": offset},
        }

    def came(self) -> list[str]:
        """The file, sorted: partitions come in no order."""
        return sorted(self.path.read_text().splitlines())

    def meant(self) -> list[str]:
        """The topic, sorted."""
        held = records(self.lab.east, self.topic)
        return sorted(value for values in held.values() for value in values)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A MirrorMaker source connector from west to east, under aliases of its own."""

    lab: Lab
    name: str
    topic: str
    partitions: int
    source: str
    target: str

    def grow(self, n: int) -> None:
        """Records, in turn to the partitions."""
        self.lab.produce("west", self.topic, n)

    def pairs(self) -> Pairs:
        """The last records: that is what MirrorMaker keeps."""
        ends = _ends(self.lab, "west", self.topic, self.partitions)
        return [self.pair(number, end - 1) for number, end in ends.items() if end]

    def pair(self, partition: int, offset: int | None) -> Pair:
        """As REST shows it."""
        return {
            "partition": {"cluster": self.source, "partition": partition, "topic": self.topic},
            "offset": None if offset is None else {"offset": offset},
        }

    def came(self) -> dict[int, list[str]]:
        """The remote topic."""
        return records(self.lab.east, f"{self.source}.{self.topic}")

    def meant(self) -> dict[int, list[str]]:
        """The topic."""
        return records(self.lab.west, self.topic)


def _ends(lab: Lab, cluster: ClusterName, topic: str, partitions: int) -> dict[int, int]:
    requests = [(topic, number) for number in range(partitions)]
    result = compare.log_ends(lab, cluster, requests)
    return {number: result[topic, number] for number in range(partitions)}


def records(bootstrap: str, topic: str) -> dict[int, list[str]]:
    """The values of a topic by partition, in order; only partitions that hold any."""
    results: dict[int, list[str]] = {}
    for record in cluster_actions.records(bootstrap, topic):
        results.setdefault(record.partition, []).append((record.value or b"").decode())
    return results


def newest(bootstrap: str, topic: str) -> dict[str, str]:
    """The newest value of each key of a topic; without those that are removed."""
    results: dict[str, str] = {}
    for record in cluster_actions.records(bootstrap, topic):
        key = (record.key or b"").decode()
        if record.value is None:
            results.pop(key, None)
        else:
            results[key] = record.value.decode()
    return results


@contextmanager
def source(
    lab: Lab, name: str, config: Config | None = None, *, lines: int = 0
) -> Iterator[Source]:
    """A FileStream source that runs, `lines` of its file on record."""
    built = Source(lab, name, f"{name}-lines", lab.directory / f"{name}.in")
    built.path.touch()
    lab.create_topic("east", built.topic)
    with created(lab, name, {**file_source(built.path, topic=built.topic), **(config or {})}):
        if lines:
            built.grow(lines)
            await_recorded(lab, built)
        yield built


@contextmanager
def sink(
    lab: Lab,
    name: str,
    config: Config | None = None,
    *,
    partitions: int = 1,
    records: int = 0,
) -> Iterator[Sink]:
    """A FileStream sink that runs, `records` of its topic on record."""
    built = Sink(lab, name, f"{name}-topic", lab.directory / f"{name}.out", partitions)
    lab.create_topic("east", built.topic, partitions)
    with created(lab, name, {**file_sink(built.path, topic=built.topic), **(config or {})}):
        if records:
            built.grow(records)
            await_recorded(lab, built)
        yield built


@contextmanager
def mirror(
    lab: Lab,
    name: str,
    config: Config | None = None,
    *,
    partitions: int = 2,
    records: int = 0,
) -> Iterator[Mirror]:
    """A MirrorMaker that runs, `records` of its topic copied."""
    built = Mirror(lab, name, f"{name}-topic", partitions, f"{name}-w", f"{name}-e")
    lab.create_topic("west", built.topic, partitions)
    baseline = mm2_source(upstream=lab.west, downstream=lab.east, topics=built.topic)
    own = {
        "source.cluster.alias": built.source,
        "target.cluster.alias": built.target,
        # Else it would copy the heartbeats of any other MirrorMaker, whatever its topics are; and
        # before Kafka 4 it does.
        "heartbeats.replication.enabled": "false",
    }
    with created(lab, name, {**baseline, **own, **(config or {})}):
        if records:
            built.grow(records)
            await_recorded(lab, built)
        yield built


@contextmanager
def created(lab: Lab, name: str, config: Config) -> Iterator[None]:
    """A connector that runs. Afterwards it is gone, and so are its offsets: others compare what is
    left in the topic.
    """
    lab.create(name, config)
    try:
        lab.wait_running(name)
        yield
    finally:
        forget(lab, name)


def forget(lab: Lab, name: str) -> None:
    """Delete a connector and its offsets."""
    own = "offsets.storage.topic" in lab.configuration(name)
    lab.stop_connector(name)
    if not own:  # with a topic of its own and exactly-once, Connect's reset would hang
        lab.reset_offsets(name)
    lab.delete(name)


def await_recorded(lab: Lab, *worked: Worked) -> None:
    """Wait until Connect has all the work of these on record."""
    for item in worked:
        holds(lab, item.name, item.pairs())


def holds(lab: Lab, name: str, pairs: Pairs) -> None:
    """Wait until Connect's REST API shows exactly these offsets."""

    def probe() -> None:
        observed = offsets(lab, name)
        if observed != pairs:
            raise NotYet(str(observed))

    until(f"{name} at {pairs}", probe, timeout_s=SETTLED_S_MAX)


def offsets(lab: Lab, name: str) -> Pairs:
    """What Connect's REST API shows, in order of the partitions; without heartbeats."""
    pairs = without_heartbeats(lab.offsets(name))
    return sorted(pairs, key=lambda pair: sorted(pair["partition"].items()))


def without_heartbeats(pairs: Pairs) -> Pairs:
    """Those that come of the work that was given."""
    return [pair for pair in pairs if pair["partition"].get("topic") != "heartbeats"]


def state(lab: Lab, name: str) -> tuple[str, int]:
    """The connector's state and how many tasks it has, by Connect's own account."""
    status = lab.status(name)
    return str(status["connector"]["state"]), len(status["tasks"])


def failed(lab: Lab, name: str) -> None:
    """Wait until a task of it has failed."""

    def probe() -> None:
        states = [task["state"] for task in lab.status(name)["tasks"]]
        if "FAILED" not in states:
            raise NotYet(str(states))

    until(f"{name} failed", probe, timeout_s=SETTLED_S_MAX)


def absent(lab: Lab, name: str) -> bool:
    """Whether Connect knows no connector of this name."""
    try:
        lab.configuration(name)
    except LabError as exc:
        if "HTTP 404" in str(exc):
            return True
        raise
    return False


def written(file: Path, lines: int) -> None:
    """Wait until a file has so many lines, or more."""

    def probe() -> None:
        observed = len(file.read_text().splitlines()) if file.exists() else 0
        if observed < lines:
            raise NotYet(f"{observed} lines")

    until(f"{lines} lines in {file}", probe, timeout_s=SETTLED_S_MAX)


def at_once(jobs: Iterable[Callable[[], None]]) -> None:
    """Do what mostly waits at the same time; raises the first failure when all have ended."""
    built = list(jobs)
    with ThreadPoolExecutor(len(built)) as pool:
        futures = [pool.submit(job) for job in built]
    for future in futures:
        future.result()
