"""A tail that begins again: its topic is read as a whole, and nothing counts twice."""

from __future__ import annotations

from offsetwatch.model.observations import InputId

from .worlds import FILE, NOW, OFFSETS, SYNCS, files, mirrors, orders, record, source, sync


def again(world, *records) -> None:
    world.tail(*records, whole=True)


def test_what_was_there_already_is_not_counted_again():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=3)
    before = world.file()
    again(world, record("files", FILE, {"position": 7}, log_offset=3, live=False))
    assert world.file() == before


def test_what_was_written_meanwhile_shows_and_counts_nowhere():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=3)
    again(world, record("files", FILE, {"position": 9}, log_offset=8, at=NOW + 60, live=False))
    view = world.file()
    assert view.offset.number("position") == 9
    assert (view.committed_at, view.log_offset) == (NOW + 60, 8)
    assert (view.commits, view.advances) == (1, 1)


def test_a_key_that_is_no_longer_in_the_topic_is_forgotten():
    """Its tombstone was written while nobody read, and compaction took it away."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    assert world.file().offset is not None
    again(world)
    assert world.file().offset is None
    assert (world.file().commits, world.file().resets) == (1, 0)


def test_a_topic_created_again_shows_its_own_lower_log_offsets():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=5000)
    again(world, record("files", FILE, {"position": 1}, log_offset=0, at=NOW + 60, live=False))
    assert world.file().offset.number("position") == 1
    world.commit("files", FILE, {"position": 2}, log_offset=1, at=NOW + 120)
    view = world.file()
    assert view.offset.number("position") == 2
    assert (view.commits, view.advances, view.rewinds) == (2, 2, 0)


def test_a_topic_created_again_by_a_clock_that_was_set_back_shows_its_own_records():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=5000, kafka_partition=3)
    older = record(
        "files",
        FILE,
        {"position": 1},
        log_offset=0,
        kafka_partition=1,
        at=NOW - 999,
        live=False,
    )
    again(world, older)
    assert world.file().offset.number("position") == 1


def test_a_compacted_topic_does_not_make_an_old_change_look_new():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=1, at=NOW - 3600)
    world.commit("files", FILE, {"position": 7}, log_offset=9, at=NOW)
    last = record("files", FILE, {"position": 7}, log_offset=9, at=NOW, live=False, advanced_at=NOW)
    again(world, last)
    assert world.file().advanced_at == NOW - 3600


def test_a_variant_that_is_no_longer_in_the_topic_is_gone():
    world = files()
    raw_key = b'["files",{"filename": "/data/in.txt"}]'
    world.commit("files", FILE, {"position": 99}, raw_key=raw_key)
    again(world, record("files", FILE, {"position": 1}, log_offset=7, live=False))
    assert world.file().variants == 0


def test_syncs_that_are_no_longer_in_the_topic_are_gone():
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 99})
    world.snapshot()
    world.now += 1
    world.commit("mm2", orders(), {"offset": 100})
    world.snapshot()
    world.now += 1
    world.synced(150)
    assert world.mirrored().replicated == 150
    world.tail(topic=SYNCS, whole=True)
    assert world.snapshot().syncs == ()
    assert (world.mirrored().synced, world.mirrored().replicated) == (None, 100)


def test_syncs_read_again_are_not_counted_again():
    world = mirrors()
    world.synced(150)
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(SYNCS)]
    assert tail.values == 1
    world.tail(sync(150), topic=SYNCS, whole=True)
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(SYNCS)]
    assert tail.values == 1


def test_the_tails_own_place_is_that_in_the_new_topic():
    world = files()
    world.tail(positions=((0, 5000), (1, 70)))
    world.tail(positions=((0, 5001),))
    world.tail(whole=True, positions=((0, 3),))
    tail = {view.id: view.tail for view in world.snapshot().inputs}[InputId.of_tail(OFFSETS)]
    assert tail.positions == ((0, 3),)


def test_a_topic_that_vanishes_takes_its_series_with_it():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.now += 10
    world.tail_failed("not_found")
    assert world.partitions() != {}  # it may be a leader election: three missed attempts decide
    world.now += 15
    world.tail_failed("not_found")
    world.listed(source("files"))
    assert world.partitions() == {}
    assert [view.name for view in world.snapshot().connectors] == ["files"]
