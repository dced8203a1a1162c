"""What holds for every course of events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.model.observations import (
    LOG_ENDS,
    InputId,
    InputSucceeded,
    LogBounds,
    LogEndsRead,
    LogEndsRequested,
)
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.connect.source_offsets import SourceBook
from offsetwatch.state.mirror.lag import compute_replication_lag
from tests.unit.state.worlds import NOW, World, mirrors, orders, record

OFFSETS = st.integers(0, 2**63 - 1)


@given(OFFSETS, OFFSETS)
def test_lag_and_ahead_are_never_negative_and_never_both(replicated, log_end):
    lag = compute_replication_lag(replicated, log_end)
    assert lag.records >= 0
    assert lag.ahead >= 0
    assert 0 in (lag.records, lag.ahead)
    assert replicated + 1 + lag.records - lag.ahead == log_end


KEYED = st.tuples(
    st.integers(0, 3),  # which source partition
    st.none() | st.integers(0, 5),  # its offset, or a tombstone
)


@given(st.lists(KEYED, max_size=30), st.randoms(use_true_random=False))
def test_the_order_in_which_different_keys_are_applied_does_not_matter(commits, random):
    records = [
        record(
            "files",
            {"filename": f"/{key}"},
            None if offset is None else {"position": offset},
            log_offset=number,
            at=NOW + number,
        )
        for number, (key, offset) in enumerate(commits)
    ]
    queues = [
        [
            stored_record
            for stored_record in records
            if stored_record.key.label == f"filename=/{key}"
        ]
        for key in range(4)
    ]
    shuffled = []
    while any(queues):
        queue = random.choice([queue for queue in queues if queue])
        shuffled.append(queue.pop(0))
    views = []
    for course in (records, shuffled):
        book = SourceBook("lab", partitions_max=100)
        for item in course:
            book.apply((item,), NOW)
        views.append(book.views(frozenset({"files"})))
    assert views[0] == views[1]


@given(st.lists(KEYED, max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_how_records_fall_into_batches_does_not_matter(commits, cuts):
    records = tuple(
        record(
            "files",
            {"filename": f"/{key}"},
            None if offset is None else {"position": offset},
            log_offset=number,
        )
        for number, (key, offset) in enumerate(commits)
    )
    whole, cut = SourceBook("lab", 100), SourceBook("lab", 100)
    whole.apply(records, NOW)
    begin = 0
    for end in [*sorted(cuts), len(records)]:
        cut.apply(records[begin:end], NOW)
        begin = max(begin, end)
    assert whole.views(frozenset({"files"})) == cut.views(frozenset({"files"}))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 50)),
        st.tuples(st.just("replicate"), st.integers(0, 60)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("answer"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
    ),
    max_size=40,
)


class _Sound:
    """An upstream that only grows and a flow that only follows it."""

    def __init__(self) -> None:
        self.world: World = mirrors()
        self.end = 1
        self.done = 0
        self.pending: list[tuple[int, int]] = []
        self.numbers = 0
        self.world.commit("mm2", orders(), {"offset": 0})

    def play(self, verb: str, amount: int) -> None:
        match verb:
            case "produce":
                self.end += amount
            case "replicate":
                self.done = min(self.end - 1, self.done + amount)
            case "commit":
                self.world.commit("mm2", orders(), {"offset": self.done})
            case "sync":
                self.world.synced(self.done)
            case "ask":
                self.numbers += 1
                self.world.see(LogEndsRequested("west", self.numbers))
                self.pending.append((self.numbers, self.end))
            case "answer" if self.pending:
                number, end = self.pending.pop(min(amount, len(self.pending) - 1))
                bounds = {TopicPartition("orders", 0): LogBounds(0, end, end)}
                self.world.see(
                    LogEndsRead("west", number, bounds),
                    InputSucceeded(InputId(LOG_ENDS, kafka="west"), self.world.now),
                )
            case "wait":
                self.world.now += amount


@given(STEPS)
def test_in_a_sound_world_a_flow_is_never_ahead_and_its_lag_never_understates_by_race(steps):
    sound = _Sound()
    for verb, amount in steps:
        sound.play(verb, amount)
        view = sound.world.mirrored()
        if view is not None and view.lag is not None:
            assert view.ahead == 0
            # What is claimed as replicated was; what is claimed as missing is missing or was when
            # the end was asked for.
            assert view.replicated <= sound.done
            assert view.log_end - 1 - view.lag <= sound.done
