"""No order of commits and syncs, as two tails read them, makes a flow look further than it is.

One partition, one task, people who set its offset back, and clocks of the two writers that differ
by up to ten minutes. What the tails read may be late by some seconds, each of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.model.topology import KafkaTopic
from tests.unit.state.worlds import SYNCS, World, mirror, mirrors, orders, record, sync

SKEW_S = st.floats(-600, 600)
TICK_S, FLUSH_S = 5.0, 60.0


@dataclass
class Task:
    """MirrorMaker's task: the record it copies next, and what is written and not read yet."""

    skews: tuple[float, float]
    delays: tuple[int, int]
    world: World = field(default_factory=lambda: mirrors(mirror()))
    end: int = 10_000
    following: int = 10_000
    stopped: bool = False
    since_flush_s: float = 0.0
    begins: bool = True
    ticks: int = 0
    log_offset: int = 0
    waiting: list[tuple[int, tuple[object, KafkaTopic | None]]] = field(default_factory=list)

    def commit(self, offset: int) -> None:
        self.log_offset += 1
        moment = self.world.now + self.skews[0]
        written = record("mm2", orders(), {"offset": offset}, log_offset=self.log_offset, at=moment)
        self.waiting.append((self.ticks + self.delays[0], (written, None)))

    def sync(self, offset: int) -> None:
        written = sync(offset, at=self.world.now + self.skews[1])
        self.waiting.append((self.ticks + self.delays[1], (written, SYNCS)))

    def flush(self) -> None:
        self.commit(self.following - 1)
        self.since_flush_s = 0.0

    def stop(self) -> None:
        if not self.stopped:
            self.flush()
            self.stopped = True

    def set_back(self, by: int) -> None:
        """A person stops the connector and alters its offset."""
        self.stop()
        self.pass_by(3)
        self.following = max(1, self.following - by)
        self.commit(self.following - 1)

    def resume(self) -> None:
        self.begins, self.stopped, self.since_flush_s = True, False, 0.0

    def pass_by(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()

    def tick(self) -> None:
        self.ticks += 1
        self.world.now += TICK_S
        if not self.stopped:
            self.copy()
        due = [reports for offset, reports in self.waiting if offset <= self.ticks]
        self.waiting = [reports for reports in self.waiting if reports[0] > self.ticks]
        for written, topic in due:
            self.world.tail(written, **({} if topic is None else {"topic": topic}))
        self.world.tail()
        self.world.tail(topic=SYNCS)
        self.check()

    def copy(self) -> None:
        self.end += 100
        first, self.following = self.following, min(self.end, self.following + 300)
        if self.begins and self.following > first:
            self.sync(first)
            self.begins = False
        if self.following > first:
            self.sync(self.following - 1)
        self.since_flush_s += TICK_S
        if self.since_flush_s >= FLUSH_S:
            self.flush()

    def check(self) -> None:
        """What is read of a person's alteration only later cannot be known before."""
        view = self.world.mirrored()
        altered = any(topic is None for _, (_, topic) in self.waiting)
        if view is not None and view.replicated is not None and not altered:
            assert view.replicated <= self.following - 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass_by"), st.integers(1, 30)),
        st.tuples(st.just("set_back"), st.integers(1, 10_000)),
        st.tuples(st.just("stop"), st.just(0)),
        st.tuples(st.just("resume"), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.tuples(SKEW_S, SKEW_S), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_no_skew_and_no_rewind_makes_a_flow_look_further_than_it_is(steps, skews, delays):
    task = Task(skews, delays)
    task.flush()
    for verb, amount in steps:
        if verb in {"stop", "resume"}:
            getattr(task, verb)()
        else:
            getattr(task, verb)(amount)
    task.pass_by(3)


@settings(max_examples=30, deadline=None)
@given(st.tuples(SKEW_S, SKEW_S))
def test_at_any_skew_a_flow_that_keeps_up_is_known_to_between_its_flushes(skews):
    task = Task(skews, (0, 0))
    task.flush()
    task.pass_by(40)
    assert task.world.mirrored().replicated == task.following - 1
