"""Source partitions: what is shown, and what counts."""

from __future__ import annotations

from itertools import permutations

import pytest

from offsetwatch.model.observations import TAIL, InputId
from offsetwatch.model.offsets import FLOAT_EXACT_MAX, MirrorPartition
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.raw_keys import collect_spellings
from offsetwatch.state.connect.source_offsets import SourceBook, build_superseded_views
from tests.unit.state.worlds import FILE, NOW, OFFSETS, World, files, mirror, orders, record, source


def counters(view) -> tuple[int, int, int, int]:
    return (view.commits, view.advances, view.rewinds, view.resets)


def test_nothing_is_shown_before_the_tail_caught_up():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    first = record("files", FILE, {"position": 1}, log_offset=0, live=False)
    world.tail(first, caught_up=False)
    assert world.partitions() == {}
    world.tail(caught_up=True)
    assert world.file().offset.number("position") == 1


def test_nothing_is_shown_before_the_connectors_were_listed_once():
    world = World()
    world.find_topic()
    world.tail(record("files", FILE, {"position": 1}, log_offset=0, live=False), whole=True)
    assert world.partitions() == {}
    world.listed(source("files"))
    assert len(world.partitions()) == 1


def test_a_commit_shows_its_offset_its_place_and_its_time():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=41, kafka_partition=3, at=NOW - 5)
    view = world.file()
    assert view.offset.text == '{"position":7}'
    assert (view.kafka_partition, view.log_offset) == (3, 41)
    assert (view.committed_at, view.advanced_at) == (NOW - 5, NOW - 5)
    assert view.dialect == "file_stream"


def test_the_first_record_of_a_topic_has_a_place():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=0)
    assert (world.file().kafka_partition, world.file().log_offset) == (0, 0)


def test_a_commit_that_changes_nothing_is_a_commit_and_no_advance():
    world = files()
    world.commit("files", FILE, {"position": 7}, at=NOW)
    world.commit("files", FILE, {"position": 7}, at=NOW + 60)
    view = world.file()
    assert counters(view) == (2, 1, 0, 0)
    assert (view.committed_at, view.advanced_at) == (NOW + 60, NOW)


def test_an_offset_that_only_changes_the_order_of_its_fields_does_not_advance():
    world = files()
    world.commit("files", FILE, b'{"position":7,"x":1}')
    world.commit("files", FILE, b'{"x":1,"position":7}', at=NOW + 60)
    assert counters(world.file()) == (2, 1, 0, 0)
    assert world.file().advanced_at == NOW


def test_null_after_null_is_no_advance():
    world = files()
    for _ in range(3):
        world.commit("files", FILE, b"null")
    assert counters(world.file()) == (3, 0, 0, 0)


def test_what_a_bootstrap_read_counts_nowhere():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    world.tail(
        record("files", FILE, {"position": 9}, log_offset=5, live=False, advanced_at=NOW - 99),
        whole=True,
    )
    view = world.file()
    assert counters(view) == (0, 0, 0, 0)
    assert (view.committed_at, view.advanced_at) == (NOW, NOW - 99)
    tail = next(item for item in world.snapshot().inputs if item.id.kind == TAIL).tail
    assert (tail.values, tail.tombstones, tail.undecodable) == (0, 0, 0)


def test_the_first_live_commit_is_compared_with_what_the_bootstrap_found():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    result = record("files", FILE, {"position": 9}, log_offset=5, live=False)
    world.tail(result, whole=True)
    world.commit("files", FILE, {"position": 9}, log_offset=6)
    assert counters(world.file()) == (1, 0, 0, 0)
    world.commit("files", FILE, {"position": 4}, log_offset=7)
    assert counters(world.file()) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    ("partition", "fields", "rewinds"),
    [
        pytest.param(FILE, ("position",), 1, id="file-stream-has-an-order"),
        pytest.param({"server": "db"}, ("lsn",), 0, id="an-lsn-has-none-that-we-vouch-for"),
    ],
)
def test_a_rewind_is_counted_only_where_an_order_is_vouched_for(partition, fields, rewinds):
    world = files()
    for number in (10, 3):
        world.commit("files", partition, dict.fromkeys(fields, number))
    (view,) = world.partitions().values()
    assert counters(view) == (2, 2, rewinds, 0)


def listed(*connectors):
    world = files()
    world.listed(*connectors)
    world.snapshot()
    return world


@pytest.mark.parametrize(("field", "rewinds"), [("offset", 1), ("other", 0)])
def test_a_rewind_of_mirrormaker_is_reported_by_its_offset(field, rewinds):
    world = listed(mirror("mm2"))
    for number in (10, 3):
        world.commit("mm2", orders(), {field: number})
    (view,) = world.partitions().values()
    assert counters(view) == (2, 2, rewinds, 0)


@pytest.mark.parametrize("class_name", ["", "org.example.CameraSource"])
def test_a_shape_alone_reports_no_rewind(class_name):
    world = listed(source("files", class_name=class_name))
    for number in (10, 3):
        world.commit("files", FILE, {"position": number})
    (view,) = world.partitions().values()
    assert counters(view) == (2, 2, 0, 0)
    assert (view.offset.text, view.poisoned) == ('{"position":3}', False)
    assert view.dialect == ("generic" if class_name else "unknown")


def test_a_tombstone_forgets_the_source_partition_but_not_its_counters():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, None)
    view = world.file()
    assert (view.offset, view.committed_at, view.advanced_at) == (None, None, None)
    assert counters(view) == (2, 1, 0, 1)


def test_a_commit_after_a_tombstone_advances_and_is_no_rewind():
    world = files()
    for offset in ({"position": 7}, None, {"position": 2}):
        world.commit("files", FILE, offset)
    assert counters(world.file()) == (3, 2, 0, 1)
    assert world.file().offset.number("position") == 2


def test_a_value_that_connect_cannot_read_leaves_no_position_and_is_no_reset():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, b'{"position":{"nested":1}}')
    assert world.file().offset is None
    assert counters(world.file()) == (2, 1, 0, 0)


def test_json_null_leaves_no_position_and_is_no_reset():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, b"null")
    assert world.file().offset is None
    assert counters(world.file()) == (2, 2, 0, 0)


VARIANT = b'["files",{"filename": "/data/in.txt"}]'


def test_a_raw_key_that_connect_does_not_look_up_never_moves_the_position():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, {"position": 99}, raw_key=VARIANT)
    view = world.file()
    assert view.offset.number("position") == 7
    assert view.variants == 1
    assert counters(view) == (1, 1, 0, 0)


def test_a_source_partition_known_by_a_variant_only_has_no_offset():
    world = files()
    world.commit("files", FILE, {"position": 99}, raw_key=VARIANT)
    assert world.file().offset is None
    assert world.file().variants == 1


def test_a_variant_goes_with_its_tombstone_and_leaves_the_position():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.commit("files", FILE, {"position": 99}, raw_key=VARIANT)
    world.commit("files", FILE, None, raw_key=VARIANT)
    assert world.file().variants == 0
    assert world.file().offset.number("position") == 7
    assert world.file().resets == 0


def test_only_a_tombstone_that_takes_an_offset_back_is_a_reset():
    """JDBC in bulk mode commits null with every poll."""
    world = files()
    for offset in (None, None, {"position": 7}, None, None):
        world.commit("files", FILE, offset)
    assert counters(world.file()) == (5, 1, 0, 1)


def test_of_one_key_in_two_kafka_partitions_the_newer_record_counts():
    world = files()
    world.commit("files", FILE, {"position": 7}, kafka_partition=1, at=NOW)
    world.commit("files", FILE, {"position": 3}, kafka_partition=0, at=NOW - 3600)
    assert world.file().offset.number("position") == 7
    world.commit("files", FILE, {"position": 8}, kafka_partition=0, at=NOW + 60)
    assert world.file().offset.number("position") == 8


def test_in_one_kafka_partition_the_log_decides_and_not_the_clock():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=1, at=NOW)
    world.commit("files", FILE, {"position": 8}, log_offset=2, at=NOW - 3600)
    assert world.file().offset.number("position") == 8
    assert world.file().committed_at == NOW - 3600


def test_a_record_that_was_read_before_changes_nothing():
    world = files()
    world.commit("files", FILE, {"position": 7}, log_offset=1)
    world.commit("files", FILE, {"position": 8}, log_offset=2)
    before = world.file()
    world.commit("files", FILE, {"position": 7}, log_offset=1)
    assert world.file() == before


def test_a_deleted_connector_vanishes_while_its_offsets_stay_in_the_topic():
    world = files()
    world.listed(source("files"), source("other"))
    world.commit("files", FILE, {"position": 7})
    world.commit("other", FILE, {"position": 9})
    world.listed(source("other"))
    assert {connector for connector, _ in world.partitions()} == {"other"}
    assert [view.name for view in world.snapshot().connectors] == ["other"]


def test_a_connector_created_again_under_its_name_resumes_from_its_old_offsets():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.listed()
    assert world.partitions() == {}
    world.listed(source("files"))
    assert world.file().offset.number("position") == 7
    assert world.file().commits == 1


def test_a_connector_without_tasks_remains():
    world = files()
    world.listed(source("files", state="stopped", tasks=()))
    (view,) = world.snapshot().connectors
    assert (view.state, view.tasks) == ("stopped", ())


def test_two_partitions_that_print_alike_do_not_share_a_label():
    world = files()
    world.commit("files", orders(), {"offset": 7})
    assert ("files", "cluster=west,partition=0,topic=orders") in world.partitions()
    dead = {"cluster": "west", "partition": "0", "topic": "orders"}
    world.commit("files", dead, {"offset": 1})
    views = world.snapshot().source_partitions
    assert len({view.label for view in views}) == 2
    assert all(view.label.startswith("cluster=west,partition=0,topic=orders~") for view in views)
    assert {view.offset.number("offset") for view in views} == {7, 1}


def test_the_same_label_under_two_connectors_stays_as_it_is():
    world = files()
    world.listed(source("files"), source("other"))
    world.commit("files", FILE, {"position": 7})
    world.commit("other", FILE, {"position": 9})
    assert {label for _, label in world.partitions()} == {"filename=/data/in.txt"}


def test_source_partitions_over_the_bound_are_left_out_and_counted():
    world = files(source_partitions_max=2)
    for number in range(4):
        world.commit("files", {"filename": f"/{number}"}, {"position": number})
    assert len(world.partitions()) == 2
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 2}


def test_keys_that_take_too_many_bytes_are_left_out_and_counted_however_few_they_are():
    world = files(source_partitions_max=100)  # a MiB of keys, at the least
    for number in range(5):
        world.commit("files", {"filename": f"/{number}" + "x" * 300_000}, {"position": number})
    world.commit("files", FILE, {"position": 7})
    assert len(world.partitions()) == 4
    assert world.file().offset.number("position") == 7
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 2}


def test_raw_keys_of_one_partition_that_take_too_many_bytes_are_left_out_and_counted():
    world = files(source_partitions_max=100)
    for number in range(5):
        spaces = b" " * (300_000 + number)
        world.commit("files", FILE, {"position": 9}, raw_key=VARIANT.replace(b",", b"," + spaces))
    world.commit("files", FILE, {"position": 7})
    view = world.file()
    assert (view.variants, view.offset.number("position")) == (3, 7)
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 2}
    world.tail(whole=True)  # the topic was made anew, and room with it
    world.commit("files", {"filename": "x" * 900_000}, {"position": 1})
    assert dict(world.snapshot().dropped) == {"source_partitions_max": 2}


def test_the_bound_does_not_stop_partitions_that_are_known():
    world = files(source_partitions_max=1)
    world.commit("files", FILE, {"position": 1})
    world.commit("files", {"filename": "/other"}, {"position": 1})
    world.commit("files", FILE, {"position": 2})
    assert world.file().offset.number("position") == 2


def test_a_number_that_a_sample_cannot_hold_is_exact_in_the_snapshot_and_counted():
    world = files()
    world.commit("files", FILE, {"position": 2**53 + 1})
    assert world.file().offset.number("position") == 2**53 + 1
    assert dict(world.snapshot().dropped) == {"inexact": 1}


def test_two_connect_clusters_keep_their_offsets_apart():
    world = World(sites=("lab", "prod"))
    other = KafkaTopic("east", "prod-offsets")
    for cluster, topic, position in (("lab", OFFSETS, 1), ("prod", other, 2)):
        world.listed(source("files"), cluster=cluster)
        world.find_topic(topic, cluster=cluster)
        world.tail(
            record("files", FILE, {"position": position}, log_offset=0, live=False),
            topic=topic,
            whole=True,
        )
    assert {
        view.connect_cluster: view.offset.number("position")
        for view in world.snapshot().source_partitions
    } == {"lab": 1, "prod": 2}


def test_a_shared_offsets_topic_shows_each_connect_cluster_its_own_connectors():
    world = World(sites=("lab", "prod"))
    world.find_topic(cluster="lab")
    world.find_topic(cluster="prod")
    world.listed(source("a"), cluster="lab")
    world.listed(source("b"), cluster="prod")
    world.commit("a", FILE, {"position": 1})
    world.commit("b", FILE, {"position": 2})
    text = {
        (partition.connect_cluster, partition.connector)
        for partition in world.snapshot().source_partitions
    }
    assert text == {("lab", "a"), ("prod", "b")}


def test_pictures_are_shared_between_snapshots_while_nothing_changes():
    world = files()
    world.commit("files", FILE, {"position": 7})
    (first,) = world.snapshot().source_partitions
    world.tail()
    assert world.snapshot().source_partitions[0] is first
    world.commit("files", FILE, {"position": 8})
    assert world.snapshot().source_partitions[0] != first


def test_an_observation_of_a_tail_makes_that_tail_an_input():
    world = files()
    assert InputId.of_tail(OFFSETS) in {view.id for view in world.snapshot().inputs}


def positions(world: World) -> dict[tuple[str, str], int]:
    results = {}
    for view in world.snapshot().source_partitions:
        assert view.offset is not None
        results[view.connector, view.label] = view.offset.number("position")
    return results


def test_what_is_pictured_ahead_and_what_is_not_are_shown_in_one_order_with_the_newest():
    world = World()
    world.listed(source("a"), source("b"))
    world.find_topic()
    world.tail(whole=True)
    files_of = [{"filename": f"/{number}"} for number in range(3)]
    for name in ("b", "a"):
        for number in (2, 0):
            world.commit(name, files_of[number], {"position": number})
    assert list(positions(world).values()) == [0, 2, 0, 2]
    world.commit("a", files_of[2], {"position": 12})
    world.book.prepare()
    world.commit("b", files_of[0], {"position": 10})  # not prepared
    assert list(positions(world).values()) == [0, 12, 10, 2]
    world.commit("a", files_of[1], {"position": 1})  # one more in between moves the others
    world.book.prepare()
    world.commit("b", files_of[2], {"position": 22})
    assert list(positions(world).values()) == [0, 1, 12, 10, 22]
    world.listed(source("b"))  # whose pictures move up
    world.commit("a", files_of[2], {"position": 32})
    world.commit("b", files_of[0], {"position": 20})
    world.book.prepare()
    assert list(positions(world).values()) == [20, 22]
    world.commit("a", files_of[0], {"position": 40})
    world.book.prepare()
    assert list(positions(world).values()) == [20, 22]
    world.listed(source("a"), source("b"))
    assert list(positions(world).values()) == [40, 1, 32, 20, 22]


# --- which class it is ---------------------------------------------------------------------------

TABLE = {"protocol": "1", "table": "orders"}
CONFLUENT = "io.confluent.connect.jdbc.JdbcSourceConnector"


def rows(class_name: str) -> World:
    """A connector of this class, whose offset is a text that goes back."""
    world = World()
    world.listed(source("files", class_name=class_name))
    world.find_topic()
    world.tail(whole=True)
    world.commit("files", TABLE, {"incrementing": 9})
    world.commit("files", TABLE, {"incrementing": 4})
    return world


def test_of_a_class_that_only_looks_like_it_nothing_is_said_by_its_rules():
    (view,) = rows("vb.TextSource").partitions().values()
    assert (view.dialect, view.rewinds) == ("generic", 0)
    (view,) = rows(CONFLUENT).partitions().values()
    assert (view.dialect, view.rewinds) == ("jdbc", 1)


def test_another_class_under_the_same_name_is_shown_by_its_own_rules():
    world = rows(CONFLUENT)
    world.commit("files", TABLE, {"incrementing": "4"})
    (view,) = world.partitions().values()
    assert view.poisoned
    world.listed(source("files", class_name="vb.TextSource"))
    (view,) = world.partitions().values()
    assert (view.dialect, view.poisoned) == ("generic", False)


# --- superseded offsets --------------------------------------------------------------------------

A, B = {"filename": "/a"}, {"filename": "/b"}


def book(*commits: tuple[dict, int | None]) -> SourceBook:
    """Commits of `files`, each at the next place of the log; None forgets."""
    built = SourceBook("lab", 100)
    for number, (partition, position) in enumerate(commits):
        value = None if position is None else {"position": position}
        built.apply((record("files", partition, value, log_offset=number),), 0.0)
    return built


def test_a_shadow_has_the_offset_that_its_connector_has_left_and_nothing_else_of_it():
    home = book((A, 1), (A, None), (A, 9), (A, 5))
    (before,) = home.views_of("files")
    assert min(before.commits, before.advances, before.resets) > 0
    (view,) = build_superseded_views((), home.views_of("files"))
    assert view.shadow == before.offset
    assert (view.commits, view.advances, view.rewinds, view.resets) == (0, 0, 0, 0)
    assert (view.offset, view.committed_at, view.advanced_at) == (None, None, None)
    assert (view.kafka_partition, view.log_offset) == (None, None)


def test_what_was_forgotten_leaves_no_shadow():
    home = book((A, 1), (A, None))
    assert build_superseded_views((), home.views_of("files")) == ()


def test_what_its_own_topic_has_is_no_shadow():
    own, home = book((B, 1)), book((A, 1), (B, 2))
    (view,) = build_superseded_views(own.views_of("files"), home.views_of("files"))
    assert view.shadow.number("position") == 1


# --- source book ---------------------------------------------------------------------------------

A, B = {"filename": "/a"}, {"filename": "/b"}
FILES = frozenset({"files"})
ORDERS = MirrorPartition("west", "orders", 0)


def book_of(*records, partitions_max: int = 100, wants_topic=lambda _topic: True) -> SourceBook:
    book = SourceBook("lab", partitions_max, wants_topic)
    book.apply(records, NOW)
    return book


def at(number: int, position: int | None, partition: dict = A, **changes):
    """A commit of `files` at this place in the log; None forgets it."""
    value = None if position is None else {"position": position}
    return record("files", partition, value, log_offset=number, **changes)


def mirrored(position: int | None, number: int = 1):
    value = None if position is None else {"offset": position}
    return record("mm2", orders(), value, log_offset=number)


def identity(partition: dict = A) -> str:
    return at(0, 0, partition).key.identity


def only(book: SourceBook):
    (view,) = book.views(FILES)
    return view


# --- which record counts -------------------------------------------------------------------------


def test_a_record_that_is_given_twice_is_one_commit():
    book = book_of(at(1, 7), at(1, 7))
    assert only(book).commits == 1


def test_of_two_kafka_partitions_the_newer_timestamp_counts_if_no_clock_is_that_wrong():
    book = book_of(at(0, 7), at(5, 8, kafka_partition=1, at=NOW - 601))
    assert only(book).offset.number("position") == 7
    book.apply((at(6, 9, kafka_partition=1, at=NOW + 601),), NOW)
    assert only(book).offset.number("position") == 9


@pytest.mark.parametrize("skew_s", [-600.0, -1.0, 0.0, 600.0])
def test_of_two_kafka_partitions_what_is_read_live_is_newer_by_any_clock(skew_s):
    book = book_of(at(0, 7), at(5, 8, kafka_partition=1, at=NOW + skew_s))
    assert only(book).offset.number("position") == 8
    book.apply((at(1, 9),), NOW)
    assert only(book).offset.number("position") == 9


def test_of_two_kafka_partitions_what_is_read_live_without_a_timestamp_is_newer():
    book = book_of(at(0, 7), at(5, 8, kafka_partition=1, at=-0.001))
    view = only(book)
    assert view.offset.number("position") == 8
    assert (view.committed_at, view.advanced_at) == (None, None)
    assert book.committed_at("files") == NOW
    book.apply((at(1, 9),), NOW)
    assert only(book).offset.number("position") == 9


@pytest.mark.parametrize("skew_s", [-600.0, -1.0, 0.0, 600.0])
def test_of_two_kafka_partitions_that_were_there_before_nothing_reports_the_newer(skew_s):
    book = SourceBook("lab", 10)
    there = (at(0, 7, live=False), at(5, 8, kafka_partition=1, at=NOW + skew_s, live=False))
    book.apply(there, NOW, whole=True)
    view = only(book)
    assert view.offset is None
    assert {offset.text for _, offset in view.unsure} == {'{"position":7}', '{"position":8}'}
    assert book.connectors() == ("files",)
    assert book.held("files") == (identity(),)
    assert book.agrees("files", identity(), '{"position":7}')
    book.apply((at(6, 9, kafka_partition=1),), NOW)
    view = only(book)
    assert (view.offset.text, view.unsure) == ('{"position":9}', ())


def test_two_kafka_partitions_with_the_same_offset_are_no_doubt():
    book = SourceBook("lab", 10)
    book.apply((at(0, 7, live=False), at(5, 7, kafka_partition=1, live=False)), NOW, whole=True)
    assert only(book).offset.text == '{"position":7}'


def find_by_rule(*records) -> tuple[bool, int | None]:
    """Return (is it known?, the position), as history/pipeline/gold.py has it.

    Of each Kafka partition the last record counts, and of those the ones whose timestamps are no
    more than ten minutes before the newest.
    """
    last = {}
    for one in sorted(records, key=lambda one: one.log_offset):
        last[one.partition] = one
    newest = max(one.at for one in last.values())
    found = {
        None if one.offset is None else one.offset.number("position")
        for one in last.values()
        if newest - one.at <= 600
    }
    return len(found) == 1, found.pop() if len(found) == 1 else None


@pytest.mark.parametrize("other_keys", [False, True])
def test_of_several_kafka_partitions_the_same_counts_in_whatever_order_they_are_read(other_keys):
    """Each Kafka partition by itself is read in its order."""
    chain = [(0, 7), (500, 8), (1000, 8)], [(0, 7), (500, 7), (1000, 8)], [(0, 7), (700, 8)]
    ended = (
        [(0, 7), (500, None), (1000, None)],
        [(0, None), (300, 7)],
        [(900, 7), (0, 8), (1000, 7)],
    )
    for moments in (*chain, *ended):
        records = [
            at(0, position, kafka_partition=number, at=NOW + moment, live=False)
            for number, (moment, position) in enumerate(moments)
        ]
        records.append(at(1, 9, kafka_partition=0, at=NOW + 10, live=False))
        for order in permutations(records):
            if order.index(records[0]) > order.index(records[-1]):
                continue
            is_known, expected = find_by_rule(*records)
            if other_keys:  # the same by the class that chooses among several raw keys
                use = collect_spellings(order).in_use(identity())
                found = None if use.spelling is None else use.spelling.value
                assert (use.spelling is not None) is is_known, (moments, order)
            else:
                book = SourceBook("lab", 10)
                book.apply(order, NOW, whole=True)
                found = only(book).offset
                assert bool(only(book).unsure) is not is_known, (moments, order)
            assert (None if found is None else found.number("position")) == expected, order


def test_doubt_of_two_kafka_partitions_remains_beside_another_raw_key():
    """One that an operator wrote later, in another order of the fields."""
    partition = {"name": "a", "path": "/x"}
    other = b'["files",{"name":"a","path":"/x"}]'
    there = [
        at(0, 7 + number, partition, kafka_partition=number, live=False) for number in range(2)
    ]
    assert there[0].raw_key != other
    late = record("files", partition, None, log_offset=9, live=False, raw_key=other)
    for order in permutations([*there, late]):
        book = SourceBook("lab", 10)
        book.apply(order, NOW, whole=True)
        assert only(book).offset is None
        assert only(book).unsure


def test_a_mirrored_partition_in_doubt_is_neither_uncommitted_nor_known():
    book = SourceBook("lab", 10)
    there = [
        record("mm2", orders(), {"offset": 7 + n}, log_offset=0, kafka_partition=n, live=False)
        for n in range(2)
    ]
    book.apply(tuple(there), NOW, whole=True)
    where = MirrorPartition("west", "orders", 0)
    assert not book.uncommitted("mm2", where)
    assert book.claimed("mm2", "west") == (where,)
    assert book.has_unknown_positions("mm2", "west")
    assert book.mirrored("mm2", "west") == {}


# --- when it advanced ----------------------------------------------------------------------------


def test_a_position_that_advanced_and_came_back_between_polls_did_advance():
    book = book_of(at(1, 7, advanced_at=NOW - 50))
    book.apply((at(5, 7, at=NOW + 10, advanced_at=NOW + 5, live=False),), NOW)
    assert only(book).advanced_at == NOW + 5


def test_two_commits_of_one_moment_are_two():
    book = book_of(at(1, 7, advanced_at=NOW - 50), at(2, 8, advanced_at=NOW))
    assert only(book).advanced_at == NOW


def test_a_record_that_is_read_again_says_nothing_new_of_when_it_advanced():
    book = book_of(at(1, 7, advanced_at=NOW - 50))
    book.apply((at(1, 7, advanced_at=NOW, live=False),), NOW, whole=True)
    assert only(book).advanced_at == NOW - 50


# --- what cannot be exported ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [FLOAT_EXACT_MAX, -FLOAT_EXACT_MAX])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_number_is_inexact_beyond_2_to_the_53_on_either_side(number, beyond):
    position = number + (beyond if number > 0 else -beyond)
    assert book_of(at(1, position)).dropped.get("inexact", 0) == beyond


def test_an_offset_of_two_inexact_numbers_is_one():
    both = {"lsn": FLOAT_EXACT_MAX + 1, "txId": FLOAT_EXACT_MAX + 3}
    assert book_of(record("files", A, both, log_offset=1)).dropped == {"inexact": 1}


# --- what it holds, and agrees with --------------------------------------------------------------


def test_what_is_forgotten_is_not_held_and_leaves_its_connector_with_the_rest():
    book = book_of(at(1, 7), at(2, 8, B), at(3, None))
    assert book.held("files") == (identity(B),)
    assert book.connectors() == ("files",)
    book.apply((at(4, None, B),), NOW)
    assert book.held("files") == ()
    assert book.connectors() == ()


def test_at_its_bound_it_still_knows_what_it_knows():
    book = book_of(at(1, 7), at(2, 8, B), partitions_max=1)
    assert book.dropped == {"source_partitions_max": 1}
    assert book.agrees("files", identity(), '{"position":7}')
    assert not book.agrees("files", identity(), '{"position":8}')
    assert book.agrees("files", identity(B), '{"position":9}')


def test_who_committed_at_the_very_moment_has_committed_since():
    book = book_of(at(1, 7))
    assert book.committing(NOW) == {"files"}
    assert book.committing(NOW + 1) == frozenset()


# --- replicated partitions -----------------------------------------------------------------------


def test_a_position_that_was_forgotten_is_no_unreadable_one():
    book = book_of(mirrored(7), mirrored(None, 2))
    assert not book.has_unknown_positions("mm2", "west")
    assert book.uncommitted("mm2", ORDERS)


@pytest.mark.parametrize(
    ("offset", "starts_over"),
    [(b'{"offset":-1}', True), (b"{}", True), (b'{"offset":0}', False), (b'{"offset":"7"}', False)],
)
def test_a_partition_that_mirrormaker_begins_again_is_neither_claimed_nor_unreadable(
    offset, starts_over
):
    book = book_of(record("mm2", orders(), offset, log_offset=0))
    assert book.uncommitted("mm2", ORDERS) is starts_over
    assert (book.claimed("mm2", "west") == ()) is starts_over
    assert not (starts_over and book.has_unknown_positions("mm2", "west"))


def test_upstream_topics_that_configuration_excludes_are_not_reported():
    book = book_of(mirrored(7), wants_topic=lambda topic: topic != "orders")
    assert book.mirrored("mm2", "west") == {}
    assert book.views_of("mm2") == ()
    assert book.views(frozenset({"mm2"})) == ()
    assert book.claimed("mm2", "west") == (ORDERS,)


# --- its pictures --------------------------------------------------------------------------------


def test_while_nothing_changes_the_pictures_are_the_same():
    book = book_of(at(1, 7), at(2, 8, B))
    before = book.views(FILES)
    assert book.views(FILES) is before
    book.apply((at(3, 9),), NOW)
    one, other = book.views(FILES)
    assert (one.offset.number("position"), other) == (9, before[1])
    assert other is before[1]


def test_what_is_frozen_is_another_layout():
    book = book_of(at(1, 7))
    before = book.layout
    book.freeze(frozenset({3}))
    assert book.layout is not before
    before = book.layout
    book.freeze(frozenset({3}))
    assert book.layout is before
