"""Who is judged: one subject for all that is seen of a partition."""

from __future__ import annotations

from offsetwatch.judge.progress.subjects import JudgedPartitionRegistry
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
)
from tests.changed import replace
from tests.unit.judge.watches import MM2, copied, counted

MIRRORED = '{"cluster":"west","partition":0,"topic":"orders"}'
ORDERS = (*MM2, MIRRORED)
SOURCE = replace(counted("mm2"), identity=MIRRORED)
SINK = SinkPartitionView("lab", "lake", "orders", 3, 10, 20, 10)
LAKE = ("lab", "lake", "orders-3")


def shown(*views: SourcePartitionView | MirrorPartitionView | SinkPartitionView) -> Snapshot:
    return replace(
        EMPTY_SNAPSHOT,
        source_partitions=tuple(view for view in views if isinstance(view, SourcePartitionView)),
        mirror_partitions=tuple(view for view in views if isinstance(view, MirrorPartitionView)),
        sink_partitions=tuple(view for view in views if isinstance(view, SinkPartitionView)),
    )


def test_a_partition_is_one_subject_whatever_shows_it():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    (partition,) = roll.seen(shown(SOURCE, mirror), None, 1)
    assert (partition.key, partition.source, partition.mirror, partition.read) == (
        ORDERS,
        SOURCE,
        mirror,
        None,
    )
    assert (partition.label, partition.number, partition.sink) == ("0", 1, False)
    assert roll.subjects == roll.tracks[MM2].subjects == {ORDERS: partition}
    assert roll.seen(shown(SOURCE, mirror), None, 2) == [partition]
    assert partition.number == 2


def test_a_partition_of_which_nothing_was_ever_committed_is_told_by_its_name():
    roll, mirror = JudgedPartitionRegistry(), copied(None)
    (partition,) = roll.seen(shown(mirror), None, 1)
    assert (partition.key, partition.source, partition.mirror) == (ORDERS, None, mirror)
    assert partition.label == "cluster=west,partition=0,topic=orders"
    (again,) = roll.seen(shown(SOURCE, mirror), None, 2)
    assert again is partition
    assert again.source is SOURCE


def test_of_what_is_shown_no_more_nothing_is_kept():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    roll.seen(shown(SOURCE, mirror), None, 1)
    (partition,) = roll.seen(shown(SOURCE), None, 2)
    assert (partition.source, partition.mirror) == (SOURCE, None)
    roll.seen(shown(SOURCE, mirror), None, 3)
    (partition,) = roll.seen(shown(mirror), None, 4)
    assert (partition.source, partition.mirror) == (None, mirror)


def test_partitions_of_flows_that_read_elsewhere_are_others():
    roll = JudgedPartitionRegistry()
    views = (copied(9), copied(9, source="north"), copied(9, partition=1), copied(9, topic="x"))
    assert len({partition.key for partition in roll.seen(shown(*views), None, 1)}) == 4
    assert len(roll.seen(shown(*views), None, 2)) == 4


def test_what_a_sink_reads_is_a_subject_by_topic_and_partition():
    roll = JudgedPartitionRegistry()
    (partition,) = roll.seen(shown(SINK), None, 1)
    assert (partition.key, partition.label, partition.sink, partition.read) == (
        LAKE,
        "orders-3",
        True,
        SINK,
    )
    assert roll.seen(shown(SINK), None, 2) == [partition]
    assert roll.subjects == roll.tracks["lab", "lake"].subjects == {LAKE: partition}


def test_at_a_glance_only_those_are_seen_that_are_asked_for():
    roll, everything = (
        JudgedPartitionRegistry(),
        shown(SOURCE, copied(9), copied(9, partition=1), SINK),
    )
    roll.seen(everything, None, 1)
    for key in (ORDERS, LAKE):
        (partition,) = roll.seen(everything, {key}, 2)
        assert (partition.key, partition.number) == (key, 2)
        sides = (partition.source, partition.mirror) if key == ORDERS else (partition.read, None)
        assert sides == ((SOURCE, copied(9)) if key == ORDERS else (SINK, None))
    assert sorted(subject.number for subject in roll.subjects.values()) == [1, 2, 2]


def test_a_glance_that_does_not_ask_for_a_partition_leaves_what_was_seen_of_it():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    (partition,) = roll.seen(shown(SOURCE, mirror), None, 1)
    assert roll.seen(shown(SINK, replace(SOURCE, rewinds=1), copied(8)), {LAKE}, 2) != [partition]
    assert (partition.source, partition.mirror) == (SOURCE, mirror)


def test_a_partition_that_was_forgotten_and_comes_back_is_another_subject():
    roll, views = JudgedPartitionRegistry(), (copied(9), copied(9, partition=1))
    before, retained = roll.seen(shown(*views), None, 1)
    roll.seen(shown(views[1]), None, 2)
    assert roll.forget(2, 180.0, 180.0) == {ORDERS}
    after, still = roll.seen(shown(*views), None, 3)
    assert after is not before
    assert still is retained
    assert roll.subjects[ORDERS] is roll.tracks[MM2].subjects[ORDERS] is after
