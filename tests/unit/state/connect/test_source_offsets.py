"""Source partitions: what is shown, and what counts."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import TAIL, InputId
from offsetwatch.model.topology import KafkaTopic
from tests.unit.state.worlds import FILE, NOW, OFFSETS, World, files, mirror, orders, record, source


def counters(view) -> tuple[int, int, int, int]:
    return (view.commits, view.advances, view.rewinds, view.resets)


def test_nothing_is_shown_before_the_tail_caught_up():
    world = World()
    world.listed(source("files"))
    world.found()
    first = record("files", FILE, {"position": 1}, log_offset=0, live=False)
    world.tail(first, caught_up=False)
    assert world.partitions() == {}
    world.tail(caught_up=True)
    assert world.file().offset.number("position") == 1


def test_nothing_is_shown_before_the_connectors_were_listed_once():
    world = World()
    world.found()
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
    world.found()
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
    world.found()
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
def test_a_rewind_of_mirrormaker_is_told_by_its_offset(field, rewinds):
    world = listed(mirror("mm2"))
    for number in (10, 3):
        world.commit("mm2", orders(), {field: number})
    (view,) = world.partitions().values()
    assert counters(view) == (2, 2, rewinds, 0)


@pytest.mark.parametrize("class_name", ["", "org.example.CameraSource"])
def test_a_shape_alone_tells_no_rewind(class_name):
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
        world.found(topic, cluster=cluster)
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
    world.found(cluster="lab")
    world.found(cluster="prod")
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
    world.found()
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
    world.found()
    world.tail(whole=True)
    world.commit("files", TABLE, {"incrementing": 9})
    world.commit("files", TABLE, {"incrementing": 4})
    return world


def test_of_a_class_that_only_looks_like_it_nothing_is_said_by_its_laws():
    (view,) = rows("vb.TextSource").partitions().values()
    assert (view.dialect, view.rewinds) == ("generic", 0)
    (view,) = rows(CONFLUENT).partitions().values()
    assert (view.dialect, view.rewinds) == ("jdbc", 1)


def test_another_class_under_the_same_name_is_shown_by_its_own_laws():
    world = rows(CONFLUENT)
    world.commit("files", TABLE, {"incrementing": "4"})
    (view,) = world.partitions().values()
    assert view.poisoned
    world.listed(source("files", class_name="vb.TextSource"))
    (view,) = world.partitions().values()
    assert (view.dialect, view.poisoned) == ("generic", False)
