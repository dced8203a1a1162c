"""What is remembered between snapshots never differs from what would be made anew."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.model.observations import FirstRecord, LogBounds, NoRecordBefore, OffsetsTopicLost
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.memo import Memo, TupleMemo
from tests.unit.state.worlds import OFFSETS, SYNCS, World, mirror, orders, source

OWN = KafkaTopic("east", "own")
PARTS = st.lists(st.integers(0, 3), max_size=4)


@given(st.lists(PARTS, max_size=30), st.data())
def test_a_join_is_its_parts_one_after_the_other(steps, data):
    pool = [tuple(range(number, number + number)) for number in range(4)]
    joined: TupleMemo[int] = TupleMemo()
    for step in steps:
        changed = data.draw(st.integers(0, 3))
        pool[changed] = (*pool[changed][1:], changed)
        parts = tuple(pool[item] for item in step)
        whole = joined.of(parts)
        assert whole == tuple(item for part in parts for item in part)
        assert joined.of(parts) is whole


def forget(world: World) -> None:
    """Everything that is remembered only because making it takes time."""
    book = world.book
    book._joined = TupleMemo()
    book._budget._last, book._budget._used = Memo(), Memo()
    book._connectors, book._layout = Memo(), Memo()
    replication = book._replication
    replication._joined = TupleMemo()
    replication._known_positions.clear()
    replication._views._views.clear()
    replication._sync_views_memo, replication._shared_syncs_memo = Memo(), Memo()
    for cluster in book._clusters.values():
        cluster._joined = TupleMemo()
        cluster._homes, cluster._layout, cluster._monitored_histories = Memo(), Memo(), Memo()
        cluster._superseded.clear()
        for source_book in cluster._books.values():
            source_book._shown = Memo()
            source_book._in_order = source_book._views = None
            source_book._unread.clear()
            for partition in source_book._all():
                partition.view = None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("list"), st.integers(0, 7)),
        st.tuples(st.just("home"), st.integers(0, 7)),
        st.tuples(st.just("own"), st.integers(0, 7)),
        st.tuples(st.just("reset"), st.integers(0, 7)),
        st.tuples(st.just("freeze"), st.integers(0, 3)),
        st.tuples(st.just("whole"), st.integers(0, 1)),
        st.tuples(st.just("ends"), st.integers(0, 31)),
        st.tuples(st.just("probe"), st.integers(0, 3)),
        st.tuples(st.just("assign"), st.integers(0, 3)),
        st.tuples(st.just("sync"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(0, 15)),
        st.tuples(st.just("lose"), st.integers(0, 1)),
        st.tuples(st.just("leave"), st.just(0)),
    ),
    max_size=25,
)


def listed(world: World, number: int) -> None:
    own = {"dedicated_offsets_topic": OWN.topic} if number & 1 else {}
    flows = (mirror(), mirror("b")) if number & 2 else ()
    world.listed(source("files", **own), *flows)


def commit(world: World, number: int, offset: dict | None, *, topic: KafkaTopic = OFFSETS) -> None:
    name, key = ("mm2", orders(number % 2)) if number & 4 else ("files", {"file": number % 2})
    world.commit(name, key, offset, topic=topic, kafka_partition=number % 2)


def ends(world: World, number: int) -> None:
    end = 7 if number & 4 else 5  # of the last that is committed, or before
    start = 3 if number & 16 else 0
    partition = {
        TopicPartition("orders", index): LogBounds(start, end, end) for index in range(number & 3)
    }
    world.ends(partition, ids={"orders": "another" if number & 8 else "one"})


def probe(world: World, number: int) -> None:
    result = NoRecordBefore(9) if number & 2 else FirstRecord(offset=8, at=world.now)
    world.probed(number, result, partition=number % 2)


def wait(world: World, seconds: int) -> None:
    world.now += seconds


PLAY = {
    "list": listed,
    "home": lambda world, number: commit(world, number, {"offset": number}),
    "own": lambda world, number: commit(world, number, {"position": number}, topic=OWN),
    "reset": lambda world, number: commit(world, number, None),
    "freeze": lambda world, number: world.tail(
        frozen=tuple(value for value in (0, 1) if number & (1 << value))
    ),
    "whole": lambda world, number: world.tail(topic=OWN if number else SYNCS, whole=True),
    "ends": ends,
    "probe": probe,
    "assign": lambda world, number: world.assigned(*range(number)),
    "sync": lambda world, number: world.synced(number, partition=number % 2),
    "wait": wait,
    "lose": lambda world, number: (
        world.see(OffsetsTopicLost("lab")) if number else world.find_topic()
    ),
    "leave": lambda world, _: world.tail_ended(OWN),
}


def whole() -> World:
    world = World(series_per_connector_max=20)
    world.listed(source("files"), mirror())
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    return world


@given(STEPS)
def test_ages_are_reported_as_much_by_what_has_changed_as_by_everything(steps):
    world, recomputed = whole(), whole()
    recomputed.book._replication._ages.apply_changed_bounds = lambda *_of, **_at: False
    for verb, number in steps:
        PLAY[verb](world, number)
        PLAY[verb](recomputed, number)
        assert world.snapshot() == recomputed.snapshot()


@given(STEPS, st.sets(st.integers(0, 24)))
def test_a_snapshot_is_what_it_would_be_if_nothing_were_remembered(steps, unseen):
    """`unseen` are steps after which nobody looks."""
    world = whole()
    for offset, (verb, number) in enumerate(steps):
        PLAY[verb](world, number)
        if offset in unseen:
            continue
        remembered = world.snapshot()
        assert world.snapshot().source_partitions is remembered.source_partitions
        assert world.snapshot().mirror_partitions is remembered.mirror_partitions
        recreated = deepcopy(world)  # the world itself goes on from what it remembers
        forget(recreated)
        assert recreated.snapshot() == remembered
