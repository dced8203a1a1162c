"""The source partitions of one offsets topic by themselves: what is kept, and told apart."""

from __future__ import annotations

import pytest

from offsetwatch.model.offsets import FLOAT_EXACT_MAX, MirrorPartition
from offsetwatch.state.connect.source_offsets import SourceBook

from .worlds import NOW, orders, record

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


@pytest.mark.parametrize("skew_s", [-600.0, -1.0, 0.0, 600.0])
def test_of_two_kafka_partitions_that_were_there_before_nothing_tells_the_newer(skew_s):
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
    assert book.vague("mm2", "west")
    assert book.mirrored("mm2", "west") == {}


# --- when it advanced ----------------------------------------------------------------------------


def test_one_that_advanced_and_came_back_while_nobody_looked_did_advance():
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


def test_a_position_that_was_forgotten_is_no_vague_one():
    book = book_of(mirrored(7), mirrored(None, 2))
    assert not book.vague("mm2", "west")
    assert book.uncommitted("mm2", ORDERS)


@pytest.mark.parametrize(
    ("offset", "begins_anew"),
    [(b'{"offset":-1}', True), (b"{}", True), (b'{"offset":0}', False), (b'{"offset":"7"}', False)],
)
def test_a_partition_that_mirrormaker_begins_anew_is_neither_claimed_nor_vague(offset, begins_anew):
    book = book_of(record("mm2", orders(), offset, log_offset=0))
    assert book.uncommitted("mm2", ORDERS) is begins_anew
    assert (book.claimed("mm2", "west") == ()) is begins_anew
    assert not (begins_anew and book.vague("mm2", "west"))


def test_upstream_topics_that_nobody_asked_for_are_not_told():
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
