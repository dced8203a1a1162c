"""Which raw key of a source partition its task looks up, by what is committed under each."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.state.connect.raw_keys import KeySpellings, collect_spellings
from offsetwatch.state.connect.source_offsets import SourceBook
from tests.unit.state.connect.test_rest_consistency import count_differences
from tests.unit.state.worlds import NOW, OFFSETS, World, files, orders, record, source

FIELDS = ("name", "path")
REST = compute_hash_map_order(FIELDS)
OWN = REST[::-1]


def raw(order, name="a.csv", connector="files"):
    values = {"name": name, "path": "/data/in"}
    fields = ",".join(f'"{field}":"{values[field]}"' for field in order)
    return f'["{connector}",{{{fields}}}]'.encode()


class Log:
    """An offsets topic of one Kafka partition, and what is known of it."""

    def __init__(self):
        self.offsets = itertools.count()
        self.at = 1000.0
        self.records = []
        self.known = KeySpellings()

    def write(self, order, *positions, name="a.csv", ours=False, live=True, after_s=60.0):
        for position in positions:
            self.at += after_s
            offset = None if position is None else {"position": position}
            raw_key = order if isinstance(order, bytes) else raw(order, name)
            result = record(
                "files",
                {},
                offset,
                log_offset=next(self.offsets),
                at=self.at,
                raw_key=raw_key,
                live=live,
            )
            result = replace(result, ours=ours) if ours else result
            self.records.append(result)
            self.known.add(result)
        return self

    def use(self, name="a.csv"):
        identity = record("files", {}, None, log_offset=0, raw_key=raw(OWN, name)).key.identity
        return self.known.in_use(identity)

    def position(self, name="a.csv"):
        spelling = self.use(name).spelling
        value = None if spelling is None else spelling.value
        return None if value is None else value.number("position")


@pytest.mark.parametrize("order", [OWN, REST])
def test_a_single_spelling_is_the_one_in_use_whatever_its_order(order):
    log = Log().write(order, 17)
    assert log.position() == 17
    assert log.use()[1:] == ((), frozenset(), None, 0)


def test_what_rest_writes_once_is_not_vouched_for_until_the_connector_goes_on():
    log = Log().write(OWN, 70, 75, 80).write(REST, 5)
    assert log.position() is None
    assert [item.raw_key for item in log.use().unsure] == [raw(REST), raw(OWN)]
    log.write(OWN, 81)
    assert log.position() == 81
    assert log.use().strays == {raw(REST)}
    assert log.use().change is None


def test_a_second_attempt_over_rest_has_no_effect_either():
    log = Log().write(OWN, 70, 80).write(REST, 5, 5)
    assert log.position() is None
    assert log.write(OWN, 81).position() == 81


def test_a_tombstone_ends_what_another_client_wrote():
    log = Log().write(OWN, 70, 80).write(REST, 5).write(OWN, 81).write(REST, None)
    assert log.position() == 81
    assert not log.use().strays


@pytest.mark.parametrize(("before", "after"), [(OWN, REST), (REST, OWN)])
def test_a_map_of_another_order_in_each_jvm_is_a_restart_from_scratch(before, after):
    log = Log().write(before, 100, 159).write(after, 9, 18, 27)
    assert log.position() == 27
    change = log.use().change
    assert (change.before, change.after, change.restarted) == (raw(before), raw(after), True)
    assert not log.use().strays


def test_a_third_jvm_goes_back_to_the_first_spelling():
    log = Log().write(OWN, 100, 159).write(REST, 9, 18, 27).write(OWN, 160, 161)
    assert log.position() == 161
    assert log.use().change.after == raw(OWN)
    assert not log.use().strays


def test_a_spelling_that_goes_on_from_the_old_offset_is_no_restart():
    log = Log().write(REST, 100, 159).write(OWN, 160, 161)
    assert log.position() == 161
    assert not log.use().change.restarted


def test_a_tool_that_writes_once_in_another_order_does_not_win():
    log = Log().write(REST, 70, 80).write(OWN, 5)
    assert log.position() is None
    assert log.write(REST, 81).position() == 81
    assert log.use().strays == {raw(OWN)}


def test_what_offsetwatch_wrote_is_no_evidence():
    log = Log().write(OWN, 70, 80).write(REST, 5, 6, 7, 8, ours=True)
    assert log.position() == 80
    assert log.write(OWN, 81).use().strays == {raw(REST)}
    assert log.write(OWN, 3, ours=True).position() == 3


def test_bytes_that_no_worker_writes_are_never_in_use():
    blanks = raw(OWN).replace(b":", b": ")
    log = Log().write(blanks, 5, 6, 7)
    assert log.position() is None
    assert log.use().strays == {blanks}
    assert log.write(OWN, 1).write(blanks, 9, 10, 11).position() == 1


def test_a_reset_over_rest_leaves_the_own_spelling_alone():
    log = Log().write(OWN, 70, 80).write(REST, None)
    assert log.position() == 80


def test_a_tombstone_under_the_spelling_in_use_ends_the_position():
    log = Log().write(OWN, 70, 80).write(REST, 1, 2, 3).write(REST, None)
    assert log.use().spelling.raw_key == raw(REST)
    assert log.position() is None


def test_all_spellings_that_say_the_same_are_as_good_as_one():
    log = Log().write(OWN, 5, ours=True, live=False).write(REST, 5, ours=True, live=False)
    assert log.position() == 5


@pytest.mark.parametrize(("older", "newer", "position"), [(REST, OWN, 27), (OWN, REST, None)])
def test_after_a_start_the_newer_one_counts_unless_rest_may_have_written_it(older, newer, position):
    log = Log().write(older, 159, live=False).write(newer, 27, live=False)
    assert log.position() == position
    assert log.use().change is None
    assert not log.use().strays
    later = Log().write(older, 159, live=False).write(newer, 27, live=False)
    assert later.write(newer, 28, 29).position() == 29


def test_at_a_start_one_commit_does_not_replace_a_spelling_that_was_committed_again():
    log = Log().write(REST, 70, 80, live=False).write(OWN, 5, live=False)
    assert log.position() is None
    assert [item.raw_key for item in log.use().unsure] == [raw(OWN), raw(REST)]
    assert log.write(OWN, 6, live=False).position() == 6


def test_of_a_connector_that_is_known_a_hash_map_is_believed_at_a_start():
    partition = {"protocol": "1", "table": "orders"}
    stray = b'["jdbc",{"table":"orders","protocol":"1"}]'
    older = record("jdbc", partition, {"incrementing": 5}, log_offset=1, at=1.0, raw_key=stray)
    newer = record("jdbc", partition, {"incrementing": 9}, log_offset=2, at=2.0)
    known = collect_spellings(
        replace(stored_record, live=False) for stored_record in (older, newer)
    )
    assert known.in_use(newer.key.identity).spelling.raw_key == newer.raw_key
    known = collect_spellings(
        replace(stored_record, live=False)
        for stored_record in (newer, replace(older, log_offset=3, at=3.0))
    )
    assert known.in_use(newer.key.identity).spelling is None


def test_the_order_in_which_a_topic_is_read_does_not_matter():
    log = Log().write(OWN, 159, live=False).write(REST, 27, live=False).write(OWN, 28, live=False)
    retained = [log.records[1], log.records[2]]
    for records in itertools.permutations(retained):
        change = collect_spellings(records).in_use(retained[0].key.identity)
        assert change.spelling.value.text == '{"position":28}'


def test_other_partitions_confirm_the_own_spelling_of_a_quiet_one():
    log = Log().write(OWN, 70, 80).write(OWN, 1, 2, name="b.csv").write(REST, 5)
    assert log.position() is None
    assert log.write(OWN, 3, name="b.csv").position() == 80
    assert log.use().strays == {raw(REST)}


def test_other_partitions_confirm_a_new_spelling_of_one_that_was_committed_once():
    log = Log().write(OWN, 70, 80).write(OWN, 1, 2, name="b.csv").write(REST, 27)
    assert log.write(REST, 1, name="b.csv").position() is None
    assert log.write(REST, 2, name="c.csv").position() == 27


def test_one_request_over_rest_for_many_partitions_confirms_nothing():
    log = Log()
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        log.write(OWN, 70, 80, name=name)
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        log.write(REST, 5, name=name, after_s=0.01)
    assert [log.position(name) for name in ("a.csv", "d.csv")] == [None, None]


def test_workers_that_disagree_about_the_order_leave_each_partition_to_its_own_commits():
    log = Log().write(OWN, 70, 80).write(REST, 1, 2, 3, name="b.csv").write(REST, 5)
    assert log.write(OWN, 9, name="c.csv").position() is None
    assert log.write(REST, 6, 7).position() == 7


def test_what_is_not_in_the_topic_any_more_is_forgotten():
    log = Log().write(OWN, 70, 80).write(REST, 1, 2, 3)
    log.known.begin_whole()
    log.write(OWN, 4, live=False)
    log.known.end_whole()
    assert log.position() == 4
    assert [spelling.raw_key for spelling in log.known.spellings(log.records[0].key.identity)] == [
        raw(OWN)
    ]


def test_the_newest_commit_across_kafka_partitions_goes_by_timestamps_far_apart():
    first = record(
        "f", {}, {"position": 1}, log_offset=900, at=10.0, raw_key=raw(OWN, connector="f")
    )
    second = record(
        "f",
        {},
        {"position": 2},
        log_offset=3,
        at=700.0,
        kafka_partition=7,
        raw_key=raw(REST, connector="f"),
        live=False,
    )
    first = replace(first, live=False)
    third = replace(second, log_offset=4, at=730.0)
    last = replace(third, log_offset=5, at=740.0)
    at_once = [
        replace(stored_record, at=stored_record.at - 150.0)
        for stored_record in (second, third, last)
    ]
    assert collect_spellings([*at_once, first]).in_use(first.key.identity).spelling is None
    known = collect_spellings([second, third, last, first])
    assert known.in_use(first.key.identity).spelling.raw_key == second.raw_key


# --- raw keys ------------------------------------------------------------------------------------

PARTITION = {"name": "a.csv", "path": "/data/in"}
AS_REST = build_connect_key("files", PARTITION)
AS_IS = b'["files",{%s}]' % b",".join(
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
        world.reads_all()
    return only(world)


def only(world):
    (view,) = world.snapshot().source_partitions
    return view


def counters(view):
    return (view.commits, view.advances, view.rewinds, view.resets)


@pytest.mark.parametrize("raw_key", [AS_IS, AS_REST])
def test_the_only_raw_key_moves_the_position_whatever_its_order(raw_key):
    view = commit(files(), raw_key, 7, 8)
    assert view.offset.text == '{"position":8}'
    assert counters(view) == (2, 2, 0, 0)
    assert (view.raw_key, view.variants, view.strays, view.unsure) == (raw_key, 0, 0, ())


def test_of_several_raw_keys_only_a_tombstone_that_took_an_offset_back_is_a_reset():
    world = files()
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 5)
    commit(world, AS_IS, 81, 82)
    assert counters(commit(world, AS_IS, None))[3] == 1
    assert counters(commit(world, AS_IS, None, None))[3] == 1


def test_what_rest_altered_without_effect_is_a_stray_once_the_connector_went_on():
    world = files()
    commit(world, AS_IS, 79, 80)
    view = commit(world, AS_REST, 5)
    assert view.offset is None
    assert [at for at, _ in view.unsure] == [AS_REST, AS_IS]
    assert (view.raw_key, view.variants, view.strays) == (None, 2, 0)
    view = commit(world, AS_IS, 81)
    assert view.offset.text == '{"position":81}'
    assert counters(view) == (3, 3, 0, 0)
    assert (view.raw_key, view.variants, view.strays) == (AS_IS, 1, 1)
    assert commit(world, AS_REST, None).variants == 0


@pytest.mark.parametrize(("before", "after"), [(AS_IS, AS_REST), (AS_REST, AS_IS)])
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
    older = record("files", PARTITION, {"position": 1}, log_offset=3, at=NOW - 900, raw_key=AS_REST)
    newer = record("files", PARTITION, {"position": 2}, log_offset=1, at=NOW - 5, raw_key=AS_IS)
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
        assert (view.raw_key, view.kafka_partition, view.committed_at) == (AS_IS, 1, NOW - 5)
        assert (view.variants, view.strays, view.restarted) == (1, 0, None)


def test_what_a_new_reading_of_the_topic_does_not_show_is_forgotten():
    world = files()
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 1, 2, 3)
    world.tail(
        record("files", PARTITION, {"position": 9}, log_offset=0, raw_key=AS_IS, live=False),
        whole=True,
    )
    view = only(world)
    assert (view.offset.text, view.raw_key, view.variants) == ('{"position":9}', AS_IS, 0)
    world.tail(whole=True)
    assert only(world).offset is None
    assert only(world).raw_key == AS_REST


def test_rest_has_null_of_a_map_of_another_order_and_does_not_disagree():
    world = files()
    commit(world, AS_IS, 79, 80)
    world.rest_offsets("files", {IDENTITY: None})
    assert count_differences(world) == 0
    world.rest_offsets("files", {IDENTITY: '{"position":80}'})
    assert count_differences(world) == 1


def test_rest_has_what_was_altered_over_rest_and_does_not_disagree():
    world = files()
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 5)
    commit(world, AS_IS, 81)
    world.rest_offsets("files", {IDENTITY: '{"position":5}'})
    assert count_differences(world) == 0
    world.rest_offsets("files", {IDENTITY: '{"position":81}'})
    assert count_differences(world) == 1


def test_mirror_maker_looks_up_a_hash_map_whatever_else_is_written():
    other = b'["mm2",{"topic":"orders","partition":0,"cluster":"west"}]'
    book = SourceBook("lab", 10)
    for number in range(5):
        book.apply(
            (record("mm2", orders(), {"offset": 99}, log_offset=number, raw_key=other),), NOW
        )
    (view,) = book.views(frozenset({"mm2"}))
    assert (view.offset, view.strays, len(view.unsure)) == (None, 0, 1)  # of no known class
    book.classify({"mm2": MM2})
    (view,) = book.views(frozenset({"mm2"}))
    assert (view.offset, view.variants, view.strays) == (None, 1, 1)


def test_what_rest_cannot_reach_is_no_hash_map():
    world = files()
    assert commit(world, AS_REST, 7).is_hash_map
    assert not commit(files(), AS_IS, 7).is_hash_map
    assert not commit(world, AS_IS, 8).is_hash_map
    assert commit(world, AS_REST, 9).is_hash_map


TABLE_FIRST = b'["files",{"table":"orders","db":"shop"}]'
DB_FIRST = b'["files",{"db":"shop","table":"orders"}]'


def test_hash_maps_that_were_filled_in_another_order_are_other_keys():
    """`db` and `table` share a bucket, so a PATCH with its fields in another order misses."""
    world = files()
    view = commit(world, TABLE_FIRST, 79, 80)
    assert (view.raw_key, view.is_hash_map) == (TABLE_FIRST, False)
    view = commit(world, DB_FIRST, 5)
    assert (view.offset, {raw_key for raw_key, _ in view.unsure}) == (None, {DB_FIRST, TABLE_FIRST})
    view = commit(world, TABLE_FIRST, 81)
    assert (view.offset.text, view.raw_key, view.strays) == ('{"position":81}', TABLE_FIRST, 1)


@pytest.mark.parametrize("told", ['{"position":5}', '{"position":81}'])
def test_of_two_hash_map_keys_rest_shows_either_and_does_not_disagree(told):
    world = files()
    commit(world, TABLE_FIRST, 79, 80)
    world.rest_offsets("files", {'{"db":"shop","table":"orders"}': '{"position":80}'})
    assert count_differences(world) == 0
    commit(world, DB_FIRST, 5)
    commit(world, TABLE_FIRST, 81)
    world.rest_offsets("files", {'{"db":"shop","table":"orders"}': told})
    assert count_differences(world) == 0


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
        other.find_topic()
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
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 5)
    commit(world, AS_IS, 81)
    newest = ((AS_REST, 5, world.now - 60), (AS_IS, 81, world.now))
    view = only(restarted(world, *newest, times=times))
    assert view.offset.text == '{"position":81}'
    assert (view.raw_key, view.variants, view.strays, view.unsure) == (AS_IS, 1, 1, ())


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("own", "stray"), [(AS_IS, AS_REST), (AS_REST, AS_IS)])
def test_what_appeared_beside_the_only_one_while_the_daemon_was_down_is_a_stray(own, stray, times):
    """A request over AS_REST that no task will look up, or a key that no connector of its wrote."""
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
    commit(world, AS_IS, 79, 80)
    world.now += 7200
    other = restarted(world, (AS_IS, 80, world.now - 7200), (AS_REST, 7, world.now - 60))
    view = commit(other, AS_REST, 8, 9)
    assert (view.offset.text, view.raw_key) == ('{"position":9}', AS_REST)


def test_what_appeared_beside_the_one_in_use_while_the_daemon_was_down_is_a_stray():
    world = files()
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 5)
    commit(world, AS_IS, 81)
    third = AS_IS.replace(b":", b": ")
    newest = ((AS_REST, 5, world.now), (third, 7, world.now + 60), (AS_IS, 99, world.now + 120))
    view = only(restarted(world, *newest))
    assert view.offset.text == '{"position":99}'
    assert (view.raw_key, view.strays) == (AS_IS, 2)


def test_what_began_again_under_another_raw_key_goes_on_to_be_reported_after_a_restart():
    world = files()
    commit(world, AS_IS, 150, 159)
    commit(world, AS_REST, 9, 18, 27)
    newest = ((AS_IS, 159, world.now - 180), (AS_REST, 27, world.now))
    other = restarted(world, *newest)
    view = only(other)
    assert view.restarted == only(world).restarted
    assert view.raw_key == AS_REST
    assert commit(other, AS_REST, 160).restarted is None


def test_what_was_remembered_is_forgotten_once_the_topic_does_not_hold_it():
    world = files()
    commit(world, AS_IS, 79, 80)
    commit(world, AS_REST, 5)
    commit(world, AS_IS, 81)
    other = restarted(world, (AS_REST, 5, world.now))
    assert only(other).strays == 0
    assert b"used" not in other.book.remembered()


MIRROR_SHAPE = {"cluster": "west", "topic": "orders", "partition": 0}
IN_OWN_ORDER = b'["files",{"topic":"orders","partition":0,"cluster":"west"}]'
MM2 = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def listed_as(class_name: str, *raw_keys: bytes, world: World | None = None) -> World:
    """A world where the topic was read before the class was known, unless `world` is given."""
    if world is None:
        world = World()
        world.listed()
        world.find_topic()
        found = [
            record("files", {}, {"offset": 7 + n}, log_offset=n, live=False, raw_key=raw_key)
            for n, raw_key in enumerate(raw_keys)
        ]
        world.tail(*found, whole=True)
    world.listed(source("files", class_name=class_name))
    return world


def test_fields_of_mirror_maker_in_another_order_are_the_own_key_of_another_class():
    world = listed_as("org.example.Replicator", IN_OWN_ORDER)
    view = only(world)
    assert view.offset.text == '{"offset":7}'
    assert (view.dialect, view.raw_key, view.variants, view.strays) == (
        "generic",
        IN_OWN_ORDER,
        0,
        0,
    )
    world.commit("files", {}, {"offset": 8}, raw_key=IN_OWN_ORDER)
    assert only(world).offset.text == '{"offset":8}'
    assert counters(only(world)) == (1, 1, 0, 0)


def test_where_no_class_is_known_the_shape_decides_and_nothing_is_remembered_of_it():
    """As of a flow that the configuration names, where nothing lists the connectors."""
    book, rest = SourceBook("lab", 10), build_connect_key("files", MIRROR_SHAPE)
    records = [
        record("files", {}, {"offset": 7 + n}, log_offset=n, live=False, raw_key=raw_key)
        for n, raw_key in enumerate((rest, IN_OWN_ORDER))
    ]
    book.apply(tuple(records), NOW, whole=True)
    (view,) = book.views(FILES)
    assert (view.offset.text, view.variants, view.strays) == ('{"offset":7}', 1, 0)
    assert not book.remembered()
    book.apply((replace(records[0], log_offset=2, live=True, offset=records[1].offset),), NOW)
    (view,) = book.views(FILES)
    assert (view.offset.text, counters(view)) == ('{"offset":8}', (1, 1, 0, 0))
    book.classify({"files": "org.example.Replicator"})
    (view,) = book.views(FILES)
    assert (view.offset.text, view.restarted) == ('{"offset":8}', None)  # the same under both


def test_what_rest_wrote_beside_them_is_not_preferred_for_another_class():
    rest = build_connect_key("files", MIRROR_SHAPE)
    view = only(listed_as("org.example.Replicator", IN_OWN_ORDER, rest))
    assert view.offset is None
    assert {raw_key for raw_key, _ in view.unsure} == {IN_OWN_ORDER, rest}


def test_fields_of_mirror_maker_in_another_order_are_strays_of_mirror_maker():
    world = listed_as(MM2, IN_OWN_ORDER)
    view = only(world)
    assert (view.offset, view.variants, view.strays) == (None, 1, 1)
    assert (view.log_offset, view.unsure) == (None, ())
    world.commit("files", MIRROR_SHAPE, {"offset": 3})
    world.commit("files", {}, {"offset": 99}, raw_key=IN_OWN_ORDER)
    view = only(world)
    assert (view.offset.text, view.variants, view.strays) == ('{"offset":3}', 1, 1)
    assert counters(view) == (1, 1, 0, 0)
    world.commit("files", {}, None, raw_key=IN_OWN_ORDER)
    assert (only(world).variants, only(world).strays) == (0, 0)


def test_strays_of_mirror_maker_are_forgotten_with_their_topic():
    world = listed_as(MM2, IN_OWN_ORDER)
    world.tail(whole=True)
    assert (only(world).variants, only(world).strays) == (0, 0)


def test_keys_are_judged_again_by_the_class_of_a_connector_that_was_created_again():
    world = listed_as(MM2, IN_OWN_ORDER)
    assert only(world).offset is None
    listed_as("org.example.Replicator", world=world)
    assert only(world).offset.text == '{"offset":7}'
    listed_as(MM2, world=world)
    assert (only(world).offset, only(world).strays) == (None, 1)
