"""Two writers of one offsets topic whose clocks differ by up to ten minutes: what is shown of a
source partition is what was committed last, or nothing.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.decode.java.hash_map import compute_hash_map_order
from offsetwatch.model.observations import SourceRecord
from offsetwatch.state.connect.source_offsets import SourceBook
from tests.unit.state.worlds import NOW, record

SKEW_S = st.floats(-600, 600)
# (writer, seconds since the commit before)
COMMITS = st.lists(st.tuples(st.integers(0, 1), st.floats(0.001, 1500)), min_size=1, max_size=12)
FIELDS = compute_hash_map_order(("name", "path"))


def raw_key(order: tuple[str, ...]) -> bytes:
    return b'["files",{%s}]' % b",".join(b'"%s":"x"' % name.encode() for name in order)


def written(
    commits: list[tuple[int, float]], skew_s: float, keys: tuple[bytes, bytes]
) -> list[SourceRecord]:
    """Each writer has a Kafka partition of its own; the first one's clock is right."""
    records, now = [], NOW
    for number, (writer, after_s) in enumerate(commits):
        now += after_s
        records.append(
            record(
                "files",
                {},
                {"position": number},
                log_offset=number,
                kafka_partition=writer,
                at=now + skew_s * writer,
                raw_key=keys[writer],
            )
        )
    return records


def positions(book: SourceBook) -> set[int | float | None]:
    (view,) = book.views(frozenset({"files"}))
    return set() if view.offset is None else {view.offset.number("position")}


@settings(max_examples=200, deadline=None)
@given(COMMITS, SKEW_S)
def test_of_one_key_in_two_kafka_partitions_the_last_that_is_read_live_is_shown(commits, skew_s):
    book = SourceBook("lab", 10)
    for number, live in enumerate(written(commits, skew_s, (raw_key(FIELDS), raw_key(FIELDS)))):
        book.apply((live,), NOW)
        assert positions(book) == {number}


@settings(max_examples=200, deadline=None)
@given(COMMITS, SKEW_S, st.booleans())
def test_of_one_key_in_two_kafka_partitions_no_older_one_is_shown_at_first(
    commits, skew_s, reverse
):
    newest: dict[int, SourceRecord] = {}
    for result in written(commits, skew_s, (raw_key(FIELDS), raw_key(FIELDS))):
        newest[result.partition] = record(
            "files",
            {},
            {"position": result.offset.number("position")},
            log_offset=result.log_offset,
            kafka_partition=result.partition,
            at=result.at,
            raw_key=result.raw_key,
            live=False,
        )
    book = SourceBook("lab", 10)
    book.apply(
        tuple(
            sorted(
                newest.values(), reverse=reverse, key=lambda stored_record: stored_record.partition
            )
        ),
        NOW,
        whole=True,
    )
    assert positions(book) <= {len(commits) - 1}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.001, 1500), min_size=4, max_size=8), SKEW_S, st.booleans())
def test_another_raw_key_that_the_task_goes_on_with_is_followed_by_any_clock(gaps, skew_s, by_rest):
    """The raw keys of two JVMs lie in two Kafka partitions."""
    keys = (raw_key(FIELDS), raw_key(FIELDS[::-1]))
    before, after = (keys[1], keys[0]) if by_rest else keys
    book = SourceBook("lab", 10)
    commits = [(0, 60.0), (0, 60.0)] + [(1, 1.0 + gap) for gap in gaps]
    for live in written(commits, skew_s, (before, after)):
        book.apply((live,), NOW)
        number = live.offset.number("position")
        assert positions(book) <= {number}
    assert positions(book) == {len(commits) - 1}
