"""Which raw key of a source partition its task looks up, by what is committed under each."""

import itertools

import pytest
from msgspec.structs import replace

from offsetwatch.decode.java.hash_map import compute_hash_map_order
from offsetwatch.state.connect.raw_keys import KeySpellings, collect_spellings
from tests.unit.state.worlds import record

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


def test_a_tombstone_ends_what_somebody_else_wrote():
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
