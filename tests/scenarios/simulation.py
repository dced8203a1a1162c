"""A small estate that works, in virtual time: MirrorMaker 2, sources and a sink under mixed load,
through the real book and the real judge. What is drawn by lot comes from a seed.

A fault is a setting of an actor (`hangs`, `fails`), so a story is told by changing one and going
on. See test_healthy_day.py.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.loop import PersistentState
from offsetwatch.model.connectors import Connector, Task
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import (
    CONNECT_REST,
    LOG_ENDS,
    InputFailed,
    InputId,
    LogBounds,
    SinkOffset,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.unit.state.worlds import NOW, OFFSETS, SYNCS, World, mirror, orders, sink, source

Rate = Callable[[float], float]  # seconds of the day -> records per second

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
FLUSH_S = 60.0


def _nothing(_second: float) -> float:
    return 0.0


def steady(rate: float) -> Rate:
    return lambda _second: rate


def every(period_s: float, records: float, lasts_s: float = 10.0) -> Rate:
    """`records` within `lasts_s`, once a period."""
    return lambda second: records / lasts_s if second % period_s < lasts_s else 0.0


def daily(at_s: float, lasts_s: float, rate: float) -> Rate:
    return lambda second: rate if at_s <= second % DAY < at_s + lasts_s else 0.0


def waves(rate: float) -> Rate:
    """Day and night, never nothing."""
    return lambda second: rate * (1.2 + math.sin(2 * math.pi * second / DAY))


@dataclass
class Actor:
    """A connector. It flushes every FLUSH_S, at a second of its own.

    down_at    (second, how long): it is unassigned for so long, and goes on from its last commit
    hangs      it claims to run and does nothing
    fails      its task has failed
    """

    name: str
    down_at: tuple[tuple[float, float], ...] = ()
    hangs: bool = False
    fails: bool = False
    state: str = "running"
    flushed_at: float = NOW
    was_down: bool = False

    def down(self, now: float) -> bool:
        second = now - NOW
        return any(moment <= second < moment + lasts for moment, lasts in self.down_at)

    def works(self, now: float) -> bool:
        idle = self.hangs or self.fails or self.state != "running"
        return not idle and not self.down(now)

    def listed(self, now: float) -> Connector:
        task = "failed" if self.fails else "unassigned" if self.down(now) else self.state
        tasks = () if self.state == "stopped" else (Task(0, task),)
        return replace(self.shape(), state=self.state, tasks=tasks)

    def shape(self) -> Connector:
        return source(self.name)

    def step(self, world: World, seconds: float, rng: random.Random) -> None:
        raise NotImplementedError

    def flush_due(self, now: float) -> bool:
        if now - self.flushed_at < FLUSH_S:
            return False
        self.flushed_at += FLUSH_S
        return True


@dataclass
class Log:
    """A partition of a topic: `end` is the next offset, `done` what its reader has read."""

    rate: Rate
    end: int = 0
    done: int = 0
    committed: int = 0  # the next record, as of the last flush
    owed: float = 0.0
    stuck: bool = False  # nobody reads it, whatever else is read

    def grow(self, second: float, seconds: float, rng: random.Random) -> None:
        self.owed += self.rate(second) * seconds * rng.uniform(0.5, 1.5)
        whole = int(self.owed)
        self.owed -= whole
        self.end += whole


@dataclass
class Mirror(Actor):
    """MirrorMaker 2, from west; `logs` are the partitions of `orders`."""

    logs: list[Log] = field(default_factory=list)
    per_s: float = 8000.0
    from_start: bool = True

    def shape(self) -> Connector:
        return mirror(self.name, from_start=self.from_start)

    def step(self, world: World, seconds: float, rng: random.Random) -> None:
        works = self.works(world.now)
        for log in self.logs:
            log.grow(world.now - NOW, seconds, rng)
            if works and self.was_down:
                log.done = log.committed  # it goes on from its last commit
            if works and not log.stuck:
                log.done = min(log.end, log.done + int(self.per_s * seconds))
        self.was_down = not works and not self.hangs
        if self.flush_due(world.now) and works:
            for number, log in enumerate(self.logs):
                if log.done > log.committed:
                    log.committed = log.done
                    offset = {"offset": log.done - 1}
                    world.commit(self.name, orders(number), offset, kafka_partition=number)
                    world.synced(log.done - 1, partition=number)

    def bounds(self) -> dict[TopicPartition, LogBounds]:
        return {
            TopicPartition("orders", number): LogBounds(0, log.end, log.end)
            for number, log in enumerate(self.logs)
        }


@dataclass
class Rows(Actor):
    """A source without a head: a table from which rows are read.

    repeats    it commits at every flush, whether or not there were rows
    """

    rate: Rate = _nothing
    repeats: bool = False
    rows: float = 0.0
    committed: int = -1

    def shape(self) -> Connector:
        return source(self.name, class_name="io.confluent.connect.jdbc.JdbcSourceConnector")

    def step(self, world: World, seconds: float, rng: random.Random) -> None:
        if self.works(world.now):
            self.rows += self.rate(world.now - NOW) * seconds
        due = self.flush_due(world.now) and self.works(world.now)
        if due and (self.repeats or int(self.rows) > self.committed):
            self.committed = int(self.rows)
            offset = {"incrementing": self.committed}
            world.commit(self.name, {"protocol": "1", "table": self.name}, offset)


@dataclass
class Sink(Actor):
    """A sink that reads one topic of one partition, committing as it flushes."""

    log: Log = field(default_factory=lambda: Log(steady(1.0)))

    def shape(self) -> Connector:
        return sink(self.name)

    def step(self, world: World, seconds: float, rng: random.Random) -> None:
        self.log.grow(world.now - NOW, seconds, rng)
        if self.works(world.now):
            self.log.done = self.log.end
        if self.flush_due(world.now) and self.works(world.now):
            self.log.committed = self.log.done

    def offset(self) -> SinkOffset:
        return SinkOffset(self.name, "orders", 0, self.log.committed, self.log.end)


class Estate:
    """The actors, what is seen of them, and who judges it.

    tick_s     how often everything is read and judged
    probing    whether what waits is read, so that `caught_up` is known
    blind      inputs that nothing is heard of
    frozen     Kafka partitions of the offsets topic that an open transaction holds
    """

    def __init__(
        self, *actors: Actor, seed: int = 1, tick_s: float = 10.0, probing: bool = True
    ) -> None:
        self.actors = actors
        self.tick_s = tick_s
        self.probing = probing
        self.blind: set[InputId] = set()
        self.frozen: set[int] = set()
        self.settings = JudgeSettings(interval_s=FLUSH_S)
        self.judge = SnapshotJudge(self.settings)
        self.judged: Snapshot | None = None
        self.documents: dict[str, bytes] = {}  # what is in state_dir
        self._rng = random.Random(seed)
        self._boot()
        for number, actor in enumerate(actors):
            actor.flushed_at += self._rng.uniform(-FLUSH_S, 0) + number * 0.01

    def _boot(self) -> None:
        """A daemon that has read its topics."""
        self.world = World()
        self._see()
        self.world.find_topic()
        self.world.tail(whole=True)
        self.world.tail(topic=SYNCS, whole=True)

    def restart_daemon(self, *, down_s: float = 0.0) -> None:
        """The daemon ends, the estate goes on, and another daemon recalls what it remembered."""
        for _ in range(round(down_s / self.tick_s)):
            self._work()  # the book stands for a tail that reads it afterwards
        self.judge = SnapshotJudge(self.settings)
        for name, part in self._parts().items():
            if name in self.documents:
                part.recall(self.documents[name])

    def _parts(self) -> dict[str, PersistentState]:
        return {"findings": self.judge.findings, "judge": self.judge}

    def run(self, seconds: float) -> Iterator[Snapshot]:
        """Go on for so long; every judged snapshot."""
        for _ in range(round(seconds / self.tick_s)):
            self._work()
            self._see()
            self.judged = self.judge.judged(self._probed(self.world.snapshot()))
            for name, part in self._parts().items():
                document = part.remembered()
                if document is not None:
                    self.documents[name] = document
            yield self.judged

    def go(self, seconds: float) -> Estate:
        """Go on for so long, and only look at the end."""
        for _ in self.run(seconds):
            pass
        return self

    def until(self, connector: str, verdict: Verdict, within_s: float) -> float:
        """Go on until a connector is judged so; after how long."""
        began = self.world.now
        for _ in self.run(within_s):
            if self.verdict(connector).verdict is verdict:
                return self.world.now - began
        raise AssertionError(f"not {verdict} but {self.verdict(connector)}")

    def verdict(self, connector: str, scope: Scope = Scope.CONNECTOR) -> Judgement:
        """Of a connector (or its flow, or the first of its partitions), now."""
        assert self.judged is not None
        return next(
            judgement
            for judgement in self.judged.judgements
            if judgement.scope is scope and judgement.connector == connector
        )

    def _work(self) -> None:
        self.world.now += self.tick_s
        for actor in self.actors:
            actor.step(self.world, self.tick_s, self._rng)

    def _see(self) -> None:
        world = self.world
        if InputId(CONNECT_REST, connect_cluster="lab") not in self.blind:
            world.listed(*(actor.listed(world.now) for actor in self.actors))
            world.tasks_reported()
        for topic in (OFFSETS, SYNCS):
            if InputId.of_tail(topic) in self.blind:
                world.see(InputFailed(InputId.of_tail(topic), "unreachable", "no route"))
            else:
                world.tail(topic=topic, frozen=tuple(self.frozen) if topic == OFFSETS else ())
        for actor in self.actors:
            if isinstance(actor, Mirror) and InputId(LOG_ENDS, kafka="west") not in self.blind:
                world.ends(actor.bounds())
        sinks = [actor.offset() for actor in self.actors if isinstance(actor, Sink)]
        if sinks:
            world.sinks(*sinks)

    def _probed(self, snapshot: Snapshot) -> Snapshot:
        """What a probe of what waits would add."""
        if not self.probing:
            return snapshot
        mirrored, sunk = snapshot.mirror_partitions, snapshot.sink_partitions
        return replace(
            snapshot,
            mirror_partitions=tuple(
                partition
                if partition.lag is None
                else replace(partition, caught_up=partition.lag == 0)
                for partition in mirrored
            ),
            sink_partitions=tuple(
                partition
                if partition.lag is None
                else replace(partition, caught_up=partition.lag == 0)
                for partition in sunk
            ),
        )


def healthy() -> tuple[Actor, ...]:
    """A mixed estate in which nothing is wrong: dense, sparse, a nightly batch, idle, heartbeats,
    with restarts and a rebalance in between.
    """
    rebalance = (9 * HOUR, 40.0)
    return (
        Mirror(
            name="mm2",
            logs=[
                Log(waves(500.0)),
                Log(every(20 * MINUTE, 3.0)),
                Log(daily(2 * HOUR, 12 * MINUTE, 6000.0)),
                Log(steady(0.0)),
                Log(steady(0.05)),
            ],
            down_at=((5 * HOUR, 50.0), rebalance, (14 * HOUR, 90.0)),
        ),
        Rows(name="dense", rate=waves(50.0), down_at=(rebalance, (11 * HOUR, 60.0))),
        Rows(name="hourly", rate=every(HOUR, 500.0, lasts_s=120.0), down_at=(rebalance,)),
        Rows(name="nightly", rate=daily(3 * HOUR, 20 * MINUTE, 200.0), down_at=(rebalance,)),
        Rows(name="idle", down_at=(rebalance,)),
        Rows(name="heartbeat", repeats=True, down_at=(rebalance,)),
        Rows(name="quiet-but-alive", rate=every(5 * HOUR, 10.0), repeats=True),
        Sink(name="lake", log=Log(waves(20.0)), down_at=(rebalance, (16 * HOUR, 70.0))),
    )


WRONG = frozenset({Verdict.STALLED, Verdict.SILENT, Verdict.SLOW, Verdict.REWOUND})
