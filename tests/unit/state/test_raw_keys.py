"""Source partitions whose map is no HashMap, in the book: what is shown, counted and checked."""

from __future__ import annotations

import pytest

from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.state.connect.source_offsets import SourceBook
from tests.unit.state.connect.test_rest_consistency import settled

from .worlds import NOW, OFFSETS, World, files, orders, record, source

PARTITION = {"name": "a.csv", "path": "/data/in"}
REST = build_connect_key("files", PARTITION)
OWN = b'["files",{%s}]' % b",".join(
    b'"%s":"%s"' % (name.encode(), PARTITION[name].encode())
    for name in reversed(compute_hash_map_order(tuple(PARTITION)))
)
IDENTITY = '{"name":"a.csv","path":"/data/in"}'
FILES = frozenset({"files"})


def commit(world, raw_key: bytes, *positions: int | None):
    for position in positions:
        world.now += 60
        offset = None if position is None else {"position": position}
        world.commit("files", PARTITION, offset, raw_key=raw_key)
        world.reads(*(view.id for view in world.snapshot().inputs))
    return only(world)


def only(world):
    (view,) = world.snapshot().source_partitions
    return view


def counters(view):
    return (view.commits, view.advances, view.rewinds, view.resets)


@pytest.mark.parametrize("raw_key", [OWN, REST])
def test_the_only_raw_key_moves_the_position_whatever_its_order(raw_key):
    view = commit(files(), raw_key, 7, 8)
    assert view.offset.text == '{"position":8}'
    assert counters(view) == (2, 2, 0, 0)
    assert (view.raw_key, view.variants, view.strays, view.unsure) == (raw_key, 0, 0, ())


def test_of_several_raw_keys_only_a_tombstone_that_took_an_offset_back_is_a_reset():
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 5)
    commit(world, OWN, 81, 82)
    assert counters(commit(world, OWN, None))[3] == 1
    assert counters(commit(world, OWN, None, None))[3] == 1


def test_what_rest_altered_without_effect_is_a_stray_once_the_connector_went_on():
    world = files()
    commit(world, OWN, 79, 80)
    view = commit(world, REST, 5)
    assert view.offset is None
    assert [at for at, _ in view.unsure] == [REST, OWN]
    assert (view.raw_key, view.variants, view.strays) == (None, 2, 0)
    view = commit(world, OWN, 81)
    assert view.offset.text == '{"position":81}'
    assert counters(view) == (3, 3, 0, 0)
    assert (view.raw_key, view.variants, view.strays) == (OWN, 1, 1)
    assert commit(world, REST, None).variants == 0


@pytest.mark.parametrize(("before", "after"), [(OWN, REST), (REST, OWN)])
def test_a_raw_key_that_changes_with_the_jvm_is_a_rewind(before, after):
    world = files()
    commit(world, before, 150, 159)
    view = commit(world, after, 9, 18, 27)
    assert view.offset.text == '{"position":27}'
    assert view.rewinds == 1
    assert (view.restarted.before, view.restarted.after) == (before, after)
    assert view.restarted.offset.text == '{"position":159}'
    assert (view.raw_key, view.variants, view.strays) == (after, 1, 0)
    assert commit(world, after, 158).restarted is not None
    assert commit(world, after, 159).restarted is None
    assert only(world).rewinds == 1


def test_a_bootstrap_reads_all_before_it_decides():
    older = record("files", PARTITION, {"position": 1}, log_offset=3, at=NOW - 900, raw_key=REST)
    newer = record("files", PARTITION, {"position": 2}, log_offset=1, at=NOW - 5, raw_key=OWN)
    for records in ((older, newer), (newer, older)):
        book = SourceBook("lab", 10)
        book.apply(
            tuple(
                record(
                    "files",
                    PARTITION,
                    {"position": stored_record.offset.number("position")},
                    log_offset=stored_record.log_offset,
                    kafka_partition=stored_record.log_offset,
                    at=stored_record.at,
                    raw_key=stored_record.raw_key,
                    live=False,
                )
                for stored_record in records
            ),
            NOW,
            whole=True,
        )
        (view,) = book.views(FILES)
        assert view.offset.text == '{"position":2}'
        assert (view.raw_key, view.kafka_partition, view.committed_at) == (OWN, 1, NOW - 5)
        assert (view.variants, view.strays, view.restarted) == (1, 0, None)


def test_what_a_new_reading_of_the_topic_does_not_show_is_forgotten():
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 1, 2, 3)
    world.tail(
        record("files", PARTITION, {"position": 9}, log_offset=0, raw_key=OWN, live=False),
        whole=True,
    )
    view = only(world)
    assert (view.offset.text, view.raw_key, view.variants) == ('{"position":9}', OWN, 0)
    world.tail(whole=True)
    assert only(world).offset is None
    assert only(world).raw_key == REST


def test_rest_has_null_of_a_map_of_another_order_and_does_not_disagree():
    world = files()
    commit(world, OWN, 79, 80)
    world.rest_offsets("files", {IDENTITY: None})
    assert settled(world) == 0
    world.rest_offsets("files", {IDENTITY: '{"position":80}'})
    assert settled(world) == 1


def test_rest_has_what_was_altered_over_rest_and_does_not_disagree():
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 5)
    commit(world, OWN, 81)
    world.rest_offsets("files", {IDENTITY: '{"position":5}'})
    assert settled(world) == 0
    world.rest_offsets("files", {IDENTITY: '{"position":81}'})
    assert settled(world) == 1


def test_mirror_maker_looks_up_a_hash_map_whatever_else_is_written():
    other = b'["mm2",{"topic":"orders","partition":0,"cluster":"west"}]'
    book = SourceBook("lab", 10)
    for number in range(5):
        book.apply(
            (record("mm2", orders(), {"offset": 99}, log_offset=number, raw_key=other),), NOW
        )
    (view,) = book.views(frozenset({"mm2"}))
    assert (view.offset, view.variants, view.strays) == (None, 1, 1)


def test_what_rest_cannot_reach_is_no_hash_map():
    world = files()
    assert commit(world, REST, 7).is_hash_map
    assert not commit(files(), OWN, 7).is_hash_map
    assert not commit(world, OWN, 8).is_hash_map
    assert commit(world, REST, 9).is_hash_map


# --- over a restart ------------------------------------------------------------------------------


def restarted(world, *newest: tuple[bytes, int, float], times: int = 1):
    """Another process with what this one remembered, which reads (raw key, position, when). It is
    restarted so many times before it has read anything.
    """
    remembered = world.book.remembered()
    assert remembered is not None
    for _ in range(times):
        other = World()
        other.book.recall(remembered)
        other.found()
        remembered = other.book.remembered() or remembered
    other.now = world.now
    other.listed(source("files"))
    records = [
        record(
            "files",
            PARTITION,
            {"position": position},
            log_offset=number,
            at=moment,
            raw_key=raw_key,
            live=False,
        )
        for number, (raw_key, position, moment) in enumerate(newest)
    ]
    other.tail(*records, whole=True)
    other._log_ends[OFFSETS, 0] = len(records)
    return other


@pytest.mark.parametrize("times", [1, 2])
def test_a_stray_is_a_stray_after_a_restart(times):
    """Each raw key has one record by then: their ages alone tell nothing."""
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 5)
    commit(world, OWN, 81)
    newest = ((REST, 5, world.now - 60), (OWN, 81, world.now))
    view = only(restarted(world, *newest, times=times))
    assert view.offset.text == '{"position":81}'
    assert (view.raw_key, view.variants, view.strays, view.unsure) == (OWN, 1, 1, ())


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("own", "stray"), [(OWN, REST), (REST, OWN)])
def test_what_appeared_beside_the_only_one_while_the_daemon_was_down_is_a_stray(own, stray, times):
    """A request over REST that no task will look up, or a key that no connector of its wrote."""
    world = files()
    commit(world, own, 79, 80)
    world.now += 7200
    newest = ((own, 80, world.now - 7200), (stray, 7, world.now - 60))
    other = restarted(world, *newest, times=times)
    assert only(other).offset is None
    view = commit(other, own, 81)
    assert (view.offset.text, view.raw_key, view.strays) == ('{"position":81}', own, 1)


def test_a_connector_that_changed_its_order_while_the_daemon_was_down_is_believed_as_it_goes_on():
    world = files()
    commit(world, OWN, 79, 80)
    world.now += 7200
    other = restarted(world, (OWN, 80, world.now - 7200), (REST, 7, world.now - 60))
    view = commit(other, REST, 8, 9)
    assert (view.offset.text, view.raw_key) == ('{"position":9}', REST)


def test_what_appeared_beside_the_one_in_use_while_the_daemon_was_down_is_a_stray():
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 5)
    commit(world, OWN, 81)
    third = OWN.replace(b":", b": ")
    newest = ((REST, 5, world.now), (third, 7, world.now + 60), (OWN, 99, world.now + 120))
    view = only(restarted(world, *newest))
    assert view.offset.text == '{"position":99}'
    assert (view.raw_key, view.strays) == (OWN, 2)


def test_what_began_again_under_another_raw_key_goes_on_to_be_told_after_a_restart():
    world = files()
    commit(world, OWN, 150, 159)
    commit(world, REST, 9, 18, 27)
    newest = ((OWN, 159, world.now - 180), (REST, 27, world.now))
    other = restarted(world, *newest)
    view = only(other)
    assert view.restarted == only(world).restarted
    assert view.raw_key == REST
    assert commit(other, REST, 160).restarted is None


def test_what_was_remembered_is_forgotten_once_the_topic_does_not_hold_it():
    world = files()
    commit(world, OWN, 79, 80)
    commit(world, REST, 5)
    commit(world, OWN, 81)
    other = restarted(world, (REST, 5, world.now))
    assert only(other).strays == 0
    assert b"used" not in other.book.remembered()
