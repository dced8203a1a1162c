"""What is counted as lost is what was never copied: a small world of one partition, MM2 and people,
against a set of the records that MM2 wrote. And no restart changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import MirrorFlow, TopicPartition
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.accounting import FlowInspection, LossAccounting
from offsetwatch.state.mirror.lag import MirrorPosition
from offsetwatch.state.mirror.offset_syncs import SyncBook, SyncGapTracker, SyncLeads
from tests.unit.state.worlds import sync

FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", None)
ORDERS = TopicPartition("orders", 0)
EVERY_S, FLUSH_S = 10.0, 60.0

Record = tuple[int, int]  # which topic of the name, offset


@dataclass
class Mm2World:
    """`following` is the next record that MM2 reads; it emits a sync with each batch."""

    start: int = 0
    end: int = 0
    topic: int = 0
    running: bool = True
    following: int = 0
    committed: MirrorPosition | None = None
    uncommitted: int | None = None
    downstream: int = 0
    jumped: bool = True
    now: float = 0.0
    flushed_at: float = 0.0
    copied: set[Record] = field(default_factory=set)
    lost: set[Record] = field(default_factory=set)
    fates: LossAccounting = field(default_factory=LossAccounting)
    syncs: SyncBook = field(default_factory=SyncBook)
    leads: SyncLeads = field(default_factory=lambda: SyncLeads(FLUSH_S))
    trail: SyncGapTracker = field(default_factory=SyncGapTracker)
    emits: bool = True
    restarts: bool = True

    # --- what happens ----------------------------------------------------------------------------

    def produce(self, records: int) -> None:
        self.end += records

    def purge(self, records: int) -> None:
        """Not before MM2 showed where it is in this topic: nobody could tell what it had missed."""
        if not any(topic == self.topic for topic, _ in self.copied):
            return
        gone = range(self.start, min(self.end, self.start + records))
        self.lost |= {(self.topic, number) for number in gone} - self.copied
        self.start += len(gone)

    def copy(self, records: int) -> None:
        """MM2 writes a sync of the first record after a jump, and here of the last one as well."""
        last = min(self.following + records, self.end) - 1 if self.running else -1
        while self.following <= last:
            skipped = {(self.topic, number) for number in range(self.start, self.following)}
            self.lost |= skipped - self.copied
            self.copied.add((self.topic, self.following))
            self.uncommitted = self.following
            if self.emits and (self.jumped or self.following == last):
                written = (sync(self.following, downstream=self.downstream, at=self.now),)
                self.trail.apply(self.syncs.newest, written, whole=False)
                self.syncs.apply(written, self.now)
            self.jumped = False
            self.following += 1
            self.downstream += 1

    def flush(self) -> None:
        if self.uncommitted is not None:
            self.committed = MirrorPosition(self.uncommitted, self.now)
        self.uncommitted = None
        self.flushed_at = self.now

    def poll(self) -> None:
        """MM2's consumer, out of range, begins at the log start without a word."""
        if self.running and not self.start <= self.following <= self.end:
            self.following, self.jumped = self.start, True

    def stop(self) -> None:
        if self.running:
            self.flush()
            self.running = False
        for _ in range(3):
            self.take_poll()

    def resume(self) -> None:
        if not self.running:
            self.running = self.jumped = True
            self.following = 0 if self.committed is None else self.committed.offset + 1
            self.flushed_at = self.now

    def patch(self, offset: int) -> None:
        if self.committed is not None:
            self.stop()
            self.committed = MirrorPosition(offset, self.now)

    def remake(self, records: int) -> None:
        """Nothing is copied for a flush: until then a position that moves may be the last commit of
        what was copied before. And MM2 has committed where it is: beyond the end of a log it
        may have gone anywhere.
        """
        if self.running and self.jumped:
            self.produce(1)
            self.copy(1)
        if self.running:
            self.flush()
            self.take_poll()
        self.lost |= {(self.topic, number) for number in range(self.start, self.end)} - self.copied
        self.topic += 1
        self.start, self.end = 0, records
        for _ in range(8):
            self.take_poll()

    def restart(self) -> None:
        """Of the daemon."""
        if self.restarts:
            remembered = persistence.encode_losses(self.fates)
            self.fates, self.trail, self.leads = (
                LossAccounting(),
                SyncGapTracker(),
                SyncLeads(FLUSH_S),
            )
            persistence.restore_losses(self.fates, remembered)
        for _ in range(3):
            self.take_poll()

    # --- what is seen of it ----------------------------------------------------------------------

    def take_poll(self) -> None:
        self.now += EVERY_S
        self.poll()
        if self.running and self.now - self.flushed_at >= FLUSH_S / 2:
            self.flush()
        newest = self.syncs.newest_position(ORDERS)
        progress = self.leads.progress(
            ORDERS,
            None if self.committed is None else self.committed.offset,
            None if newest is None else newest.offset,
            self.syncs.runs.get(ORDERS),
            self.now,
        )
        report = self.fates.inspect(
            FlowInspection(
                now=self.now,
                flow=FLOW,
                known={ORDERS: progress.copied},
                bounds={ORDERS: LogBounds(self.start, self.end, self.end)},
                ids={"orders": str(self.topic)},
                doing="running" if self.running else "stopped",
                came=self.trail.came,
                syncs_of=lambda partition: self.trail.since(
                    partition, None if newest is None else newest.offset
                ),
                patience_s=FLUSH_S,
            )
        )
        self.trail.forget(report)

    def counted(self) -> dict[str, int]:
        return dict(self.fates.find_losses(FLOW, ORDERS)[0])


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 30)),
        st.tuples(st.just("purge"), st.integers(1, 30)),
        st.tuples(st.just("copy"), st.integers(1, 30)),
        st.tuples(st.just("remake"), st.integers(0, 60)),
        st.tuples(st.just("patch"), st.integers(0, 60)),
        st.tuples(st.sampled_from(["flush", "stop", "resume", "restart", "take_poll"]), st.none()),
    ),
    max_size=30,
)


def act(steps: list, **settings) -> Mm2World:
    """The history; then all is copied and committed, and time passes."""
    world = Mm2World(**settings)
    world.produce(1)
    world.copy(1)
    world.flush()
    world.take_poll()
    for name, argument in steps:
        getattr(world, name)(*(() if argument is None else (argument,)))
        world.take_poll()
    world.resume()
    world.take_poll()
    for _ in range(20):
        world.produce(2)
        world.copy(10**6)
        world.take_poll()
    return world


@settings(max_examples=600)
@given(STEPS)
def test_what_is_counted_as_lost_is_what_was_never_copied(steps):
    world = act(steps)
    assert sum(world.counted().values()) == len(world.lost)


@settings(max_examples=300)
@given(STEPS, st.booleans())
def test_a_restart_changes_no_count(steps, emits):
    with_restarts = act(steps, emits=emits)
    without = act(steps, emits=emits, restarts=False)
    assert with_restarts.counted() == without.counted()
    assert with_restarts.fates.losses == without.fates.losses


@settings(max_examples=300)
@given(STEPS, st.booleans())
def test_the_ranges_and_the_counts_agree_and_no_offset_is_in_two_ranges_of_a_topic(steps, emits):
    world = act([step for step in steps if step[0] != "remake"], emits=emits)
    offsets = [number for loss in world.fates.losses for number in range(loss.first, loss.last + 1)]
    assert len(offsets) == len(set(offsets)) == sum(world.counted().values())
