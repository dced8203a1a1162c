"""The single writer: a bounded queue in, a snapshot out."""

from __future__ import annotations

import json
import threading
from itertools import count, pairwise

import pytest

from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.loop import (
    BATCHES_AT_ONCE_MAX,
    PUBLICATION_SHARE_MAX,
    QUEUE_BATCHES_MAX,
    QUEUE_READS_PER_IDLE_TICK,
    QUEUE_READS_PER_TICK,
    SAVE_EVERY_S,
    Loop,
)
from offsetwatch.model.observations import (
    CONNECT_REST,
    TAIL,
    ConnectorsListed,
    InputId,
    InputSucceeded,
    SourceEndRead,
    SyncRecord,
    TailRead,
)
from offsetwatch.model.source_ends import SourceKind, SqlEnd
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from offsetwatch.state.sources.source_ends import SourceSettings
from tests.fakes.clock import VirtualClock

REST = InputId(CONNECT_REST, connect_cluster="lab")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def loop(clock) -> Loop:
    book = Book(
        clusters=(ConnectClusterSettings("lab", "east"),),
        kafkas={"east": frozenset({"east:9092"})},
        stale_after_s={CONNECT_REST: 30.0},
        source_partitions_max=10,
    )
    return Loop(book, SnapshotJudge(JudgeSettings()), clock, tick_s=1.0, steady=clock)


def build_batch(clock: VirtualClock) -> tuple:
    return (ConnectorsListed("lab", ()), InputSucceeded(REST, clock.now()))


def test_before_the_first_tick_the_snapshot_is_empty_and_not_ready(loop):
    assert loop.snapshot is EMPTY_SNAPSHOT
    assert not loop.snapshot.ready


def test_a_step_takes_in_its_batch_and_publishes_the_picture_after_it(loop, clock):
    step = loop.step(clock.now(), build_batch(clock))
    assert step is loop.snapshot
    assert step.at == clock.now()
    assert step.ready


def test_a_step_without_news_publishes_a_new_moment(loop, clock):
    first = loop.step(clock.now(), build_batch(clock))
    clock.advance(1)
    second = loop.step(clock.now(), ())
    assert second.at == first.at + 1
    assert second.connectors == first.connectors


def test_the_queue_is_bounded_and_says_when_it_is_full(loop):
    taken = [loop.put((), timeout_s=0.001) for _ in range(QUEUE_BATCHES_MAX + 1)]
    assert taken == [True] * QUEUE_BATCHES_MAX + [False]


def test_a_full_queue_holds_a_tail_up_until_there_is_room(loop, clock):
    for _ in range(QUEUE_BATCHES_MAX):
        loop.put(())
    waiting = threading.Thread(target=lambda: loop.put(build_batch(clock), timeout_s=10.0))
    waiting.start()
    assert waiting.is_alive()
    rounds = count()

    def stopped(seconds: float) -> bool:
        clock.advance(seconds)
        number = next(rounds)
        if number:  # something was taken, and there is room
            waiting.join()
        return loop.snapshot.ready or number > 20_000

    loop.run(stopped)
    assert loop.snapshot.ready


def waits(clock, rounds):
    """A wait that takes its time on the clock, and is told to stop after so many."""
    remaining = iter(range(rounds))

    def stopped(seconds: float) -> bool:
        clock.advance(seconds)
        return next(remaining, None) is None

    return stopped


def waits_until(clock, seconds):
    """The same, and is told to stop after so long."""
    until = clock.now() + seconds

    def stopped(pause: float) -> bool:
        clock.advance(pause)
        return clock.now() > until

    return stopped


def test_what_is_put_is_taken_in_at_the_next_tick_in_its_order(loop, clock):
    loop.put((InputSucceeded(REST, 1.0),))
    loop.put((InputSucceeded(REST, 2.0),))
    loop.run(waits_until(clock, 0.9))
    assert loop.snapshot is EMPTY_SNAPSHOT
    loop.run(waits_until(clock, 1.0))
    (view,) = loop.snapshot.inputs
    assert view.last_success_at == 2.0


def published(loop, clock, seconds):
    """When the loop published, from now on, in seconds."""
    results, begun, before = [], clock.now(), loop.snapshot

    def stopped(pause: float) -> bool:
        nonlocal before
        if loop.snapshot is not before:
            before = loop.snapshot
            results.append(before.at - begun)
        clock.advance(pause)
        return clock.now() - begun > seconds

    loop.run(stopped)
    return results


def test_a_picture_is_published_once_a_tick_however_long_it_takes_to_make(loop, clock):
    judged = loop._judge.judged

    def slowly(snapshot):
        clock.advance(0.25)
        return judged(snapshot)

    loop._judge.judged = slowly
    assert published(loop, clock, 4.0) == [1.0, 2.0, 3.0, 4.0]


def test_the_loop_rests_for_half_a_tick_after_a_picture_that_took_longer(loop, clock):
    judged = loop._judge.judged

    def slowly(snapshot):
        clock.advance(2.0)
        return judged(snapshot)

    loop._judge.judged = slowly
    assert published(loop, clock, 7.0) == [1.0, 3.5, 6.0]


def list_judged(loop):
    """Of which moment the picture is that is out while one is judged; grows."""
    judged, results = loop._judge.judged, []

    def watched(snapshot):
        results.append(loop.snapshot.at)
        return judged(snapshot)

    loop._judge.judged = watched
    return results


def test_what_is_known_is_shown_before_it_is_judged(loop, clock):
    loop.step(clock.now(), build_batch(clock))
    output = list_judged(loop)
    clock.advance(1)
    loop.step(clock.now(), ())
    assert output == [clock.now()]


def test_what_went_blind_is_not_shown_beside_verdicts_of_when_it_saw(loop, clock):
    first = loop.step(clock.now(), build_batch(clock))
    output = list_judged(loop)
    clock.advance(31)
    loop.step(clock.now(), ())
    assert output == [first.at]


def committing(loop, clock, seconds, took_s=0.0):
    """When the loop showed something, from now on, while every pause brings a commit; a picture
    takes so long.
    """
    loop.step(clock.now(), build_batch(clock))
    topic = KafkaTopic("east", "offsets")
    record = SyncRecord(None, None, 0, 0.0)
    read = TailRead(
        InputId(TAIL, kafka="east", topic="offsets"),
        topic,
        clock.now(),
        (record,),
        (),
        True,
        0,
        clock.now(),
    )
    loop._book.apply = lambda _seen, _now: None
    built, results, begun = loop._book.snapshot, [], clock.now()
    show = loop._show

    def build(now):
        clock.advance(took_s)
        return built(now)

    def publish(snapshot):
        results.append(round(clock.now() - begun, 4))
        show(snapshot)

    def stopped(pause: float) -> bool:
        clock.advance(pause)
        loop.put((read,))
        return clock.now() - begun > seconds

    loop._book.snapshot, loop._show = build, publish
    loop.run(stopped)
    return results


def test_while_commits_come_in_they_are_shown_four_times_a_tick(loop, clock):
    # At the end of a tick once as they are known, and once as they are judged.
    assert committing(loop, clock, 1.6) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.25, 1.5]


def test_pictures_within_a_tick_take_no_more_than_their_share(loop, clock):
    took_s = 0.04
    output = committing(loop, clock, 20.0, took_s=took_s)
    within = [item for item in output if output.count(item) == 1]
    pauses = [after - before for before, after in pairwise(within)]
    assert min(pauses) >= took_s / PUBLICATION_SHARE_MAX
    assert len(within) > 10


def test_nothing_is_shown_within_a_tick_that_brought_no_records(loop, clock):
    loop.step(clock.now(), build_batch(clock))
    first = loop.snapshot
    loop.put((InputSucceeded(REST, clock.now()),))
    loop.run(waits_until(clock, 0.9))
    assert loop.snapshot is first


def test_what_has_come_is_taken_in_before_the_tick_is_over(loop, clock):
    taken = []
    loop._book.apply = lambda observed, now: taken.append(observed)
    loop.put((InputSucceeded(REST, 1.0),))
    loop.run(waits(clock, 1))
    assert len(taken) == 1
    assert loop.snapshot is EMPTY_SNAPSHOT


def test_the_loop_stops_when_ordered(loop, clock):
    waited = []

    def stopped(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 4

    loop.run(stopped)
    assert waited == [1.0 / QUEUE_READS_PER_IDLE_TICK] * 4


def test_what_comes_is_searched_for_often_and_seldom_while_nothing_does(loop, clock):
    waited = []

    def stopped(seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) in {2, 3}:
            loop.put((InputSucceeded(REST, 1.0),))
        clock.advance(seconds)
        return len(waited) == 6

    loop.run(stopped)
    often, seldom = 1.0 / QUEUE_READS_PER_TICK, 1.0 / QUEUE_READS_PER_IDLE_TICK
    remaining = 1.0 - 3 * seldom - 2 * often
    assert waited == [seldom, seldom, often, often, seldom, remaining]


def test_a_flood_does_not_keep_a_snapshot_from_being_published(loop, clock):
    """A producer refills the queue as fast as it is drained; the tick ends all the same."""
    batches = 0
    get = loop._queue.get_nowait

    def refilled() -> tuple:
        nonlocal batches
        batches += 1
        loop.put(())
        return get()

    loop._queue.get_nowait = refilled
    loop.run(waits(clock, QUEUE_READS_PER_TICK))
    assert batches == QUEUE_READS_PER_TICK * BATCHES_AT_ONCE_MAX
    assert loop.snapshot is not EMPTY_SNAPSHOT


def test_a_loop_that_ticks_is_alive_and_one_that_does_not_is_not(loop, clock):
    assert loop.alive()
    clock.advance(9.9)
    assert loop.alive()
    clock.advance(0.2)
    assert not loop.alive()
    loop.step(clock.now(), ())
    assert loop.alive()


def test_a_picture_is_fresh_for_three_ticks_and_at_least_three_seconds(loop, clock):
    loop.step(clock.now(), ())
    clock.advance(2.9)
    assert loop.fresh()
    clock.advance(0.2)
    assert not loop.fresh()
    loop.step(clock.now(), ())
    assert loop.fresh()
    slow = Loop(loop._book, loop._judge, clock, tick_s=5.0, steady=clock)
    clock.advance(14)
    assert slow.fresh()
    clock.advance(2)
    assert not slow.fresh()


def test_a_picture_that_is_shown_late_is_as_old_as_what_it_shows(loop, clock):
    before = clock.now()
    clock.advance(60)
    loop.step(before, ())
    assert not loop.fresh()


def test_a_slow_loop_is_given_ten_ticks(clock, loop):
    slow = Loop(loop._book, loop._judge, clock, tick_s=5.0, steady=clock)
    clock.advance(49)
    assert slow.alive()
    clock.advance(2)
    assert not slow.alive()


def test_a_clock_set_back_does_not_keep_a_dead_loop_alive(loop, clock):
    loop.step(clock.now(), ())
    clock.advance(-3600)
    assert not loop.alive()
    loop.step(clock.now(), ())
    assert loop.alive()


# --- over a restart -------------------------------------------------------------------------------


class Counting:
    """A part of the state that counts."""

    def __init__(self) -> None:
        self.urgent = False
        self.document: bytes | None = b"0"

    def remembered(self) -> bytes | None:
        document, self.document, self.urgent = self.document, None, False
        return document

    def recall(self, remembered: bytes) -> None:
        self.document = remembered

    def count(self, document: bytes) -> None:
        self.document, self.urgent = document, True


@pytest.fixture
def part(loop) -> Counting:
    part = Counting()
    loop._parts = {"replication": part}
    return part


def test_what_was_counted_is_saved_before_it_is_shown(loop, clock, part):
    rows = []
    loop.save_with(lambda name, document: rows.append((name, document, loop.snapshot.at)) or True)
    before = loop.step(clock.now(), ())
    clock.advance(1)
    part.count(b"1")
    after = loop.step(clock.now(), ())
    assert rows == [("replication", b"1", before.at)]
    assert after.saved_at == clock.now()


def test_the_regular_save_does_not_hold_up_what_is_shown(loop, clock, part):
    rows = []
    loop.save_with(lambda *_: rows.append(loop.snapshot.at) or True)
    loop.step(clock.now(), ())
    clock.advance(SAVE_EVERY_S)
    part.document = b"1"
    after = loop.step(clock.now(), ())
    assert rows[-1] == after.saved_at == clock.now()


def test_the_rest_is_saved_now_and_then_and_only_if_it_is_new(loop, clock, part):
    saved = []
    loop.save_with(lambda _, document: saved.append(document) or True)
    for _ in range(3):
        loop.step(clock.now(), ())
        clock.advance(SAVE_EVERY_S)
    assert saved == [b"0"]


def test_after_a_save_that_failed_the_time_of_the_last_good_one_stays(loop, clock, part):
    loop.save_with(lambda *_: False)
    part.count(b"1")
    assert loop.step(clock.now(), ()).saved_at is None


def test_what_could_not_be_saved_is_tried_again(loop, clock, part):
    saved = []
    loop.save_with(lambda _, document: saved.append(document) or len(saved) > 1)
    part.count(b"1")
    loop.step(clock.now(), ())
    clock.advance(SAVE_EVERY_S)
    assert loop.step(clock.now(), ()).saved_at == clock.now()
    assert saved == [b"1", b"1"]


def test_a_loop_that_ends_saves_a_last_time(loop, part):
    saved = []
    loop.save_with(lambda _, document: saved.append(document) or True)
    loop.run(lambda _: True)
    assert saved == [b"0"]


def test_the_ends_of_sources_are_a_document_of_their_own(clock):
    book = Book(
        clusters=(ConnectClusterSettings("lab", "east"),),
        kafkas={"east": frozenset({"east:9092"})},
        stale_after_s={CONNECT_REST: 30.0},
        source_partitions_max=10,
    )
    book.watch_sources([SourceSettings("shop", SourceKind.SQL, {})])
    loop = Loop(book, SnapshotJudge(JudgeSettings()), clock, tick_s=1.0, steady=clock)
    saved = {}
    loop.save_with(lambda name, document: saved.update({name: document}) or True)
    loop.step(clock.now(), (SourceEndRead("shop", SqlEnd({}), clock.now()),))
    clock.advance(SAVE_EVERY_S)
    loop.step(clock.now(), ())
    assert json.loads(saved["sources"])["sources"]["shop"]["at"] == clock.now() - SAVE_EVERY_S


def test_a_loop_begins_with_what_another_remembered(loop, part):
    loop.recall_with(lambda name, into: into(name.encode()))
    assert part.document == b"replication"
