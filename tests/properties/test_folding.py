"""A bootstrap folds, live reading does not: both must leave the book with the same facts."""

from __future__ import annotations

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.ingest.topic_readers import (
    OffsetSyncsTopicReader,
    SourceOffsetsTopicReader,
    TopicReader,
)
from offsetwatch.model.observations import SourceRecord
from offsetwatch.state.connect.source_offsets import SourceBook
from offsetwatch.state.mirror.offset_syncs import SyncBook
from offsetwatch.state.snapshot import SourcePartitionView
from tests.changed import replace

KEYS = [
    b'["mm2",{"cluster":"west","partition":0,"topic":"orders"}]',
    b'["mm2",{"cluster":"west","partition":1,"topic":"orders"}]',
    b'["mm2",{"cluster": "west","partition":0,"topic":"orders"}]',
    b'["files",{"filename":"/a"}]',
    b"no key",
    None,
]
VALUES = [b'{"offset":1}', b'{"offset":2}', b'{"position":3}', b"null", b"{", None]
SYNC_KEYS = [bytes.fromhex("00066f726465727300000003"), bytes.fromhex("000161" + "00000000"), b"x"]
SYNC_VALUES = [(number).to_bytes(8, "big") * 2 for number in (1, 2, 3)] + [None, b"short"]
APART_MS = 700_000  # further than the clocks of two writers may be apart: they order partitions
PAIRS = [(1, 1), (2, 2), (3, 3), (9, 4), (10, 5), (40, 70), (41, 71)]
SYNCS = [upstream.to_bytes(8, "big") + offset.to_bytes(8, "big") for upstream, offset in PAIRS]


def topic(keys: list, values: list, *, partitions: int) -> st.SearchStrategy[list[Message]]:
    """A topic as it is read: each partition in its order, timestamps that rise."""
    row = st.tuples(st.sampled_from(keys), st.sampled_from(values), st.integers(0, partitions - 1))
    return st.lists(row, max_size=40).map(_messages)


def _messages(rows: list[tuple]) -> list[Message]:
    ends: dict[int, int] = {}
    messages = []
    for index, (key, value, partition) in enumerate(rows):
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        messages.append(
            Message(
                topic="t",
                partition=partition,
                offset=offset,
                key=key,
                value=value,
                timestamp=(1, 1_000 + index * APART_MS),
            )
        )
    return messages


def folded(role: TopicReader, messages: list[Message], cuts: list[int]) -> tuple:
    """What a bootstrap makes of the messages, read in batches that end at these places."""
    begin = 0
    for end in [*sorted(cuts), len(messages)]:
        role.fold(messages[begin:end])
        begin = max(begin, end)
    return role.folded()[0]


def build_partitions(
    *batches: tuple[SourceRecord, ...],
) -> dict[tuple[str, str], SourcePartitionView]:
    """The source partitions of a book that was told these, without what counts live records."""
    book = SourceBook("lab", partitions_max=100)
    for records in batches:
        book.apply(records, 0.0)
    views = book.views(frozenset({"mm2", "files"}))
    return {
        (view.connector, view.identity): replace(view, commits=0, advances=0, rewinds=0, resets=0)
        for view in views
    }


@given(topic(KEYS, VALUES, partitions=1), st.lists(st.integers(0, 40), max_size=3))
def test_a_folded_offsets_topic_leaves_the_same_facts_as_its_records_one_by_one(messages, cuts):
    live, _ = SourceOffsetsTopicReader().live(messages)
    assert build_partitions(folded(SourceOffsetsTopicReader(), messages, cuts)) == build_partitions(
        *((record,) for record in live)
    )


@given(topic(KEYS[:2], VALUES[:2], partitions=3), st.randoms(use_true_random=False))
def test_a_key_in_several_partitions_ends_at_its_newest_record_in_whatever_order_they_are_read(
    messages, random
):
    in_order, _ = SourceOffsetsTopicReader().live(messages)
    order = sorted(range(3), key=lambda _: random.random())
    read = sorted(messages, key=lambda message: order[message.partition()])
    positions = [
        {
            where: (view.offset, view.committed_at, view.kafka_partition, view.log_offset)
            for where, view in build_partitions(records).items()
        }
        for records in (in_order, folded(SourceOffsetsTopicReader(), read, []))
    ]
    assert positions[0] == positions[1]


@given(topic(KEYS, VALUES, partitions=1), st.integers(0, 40))
def test_a_topic_read_as_a_whole_again_leaves_the_facts_of_a_first_reading(messages, cut):
    first = SourceOffsetsTopicReader().live(messages[:cut])[0]
    again = folded(SourceOffsetsTopicReader(), messages, [])
    book = SourceBook("lab", partitions_max=100)
    book.apply(first, 0.0)
    counted = {view.identity: view.commits for view in book.views(frozenset({"mm2", "files"}))}
    book.apply(again, 0.0, whole=True)
    views = book.views(frozenset({"mm2", "files"}))
    expected = build_partitions(again)
    for view in views:
        known = expected[view.connector, view.identity]
        assert (view.offset, view.committed_at, view.variants) == (
            known.offset,
            known.committed_at,
            known.variants,
        )
        assert view.commits == counted.get(view.identity, 0)


@given(topic(SYNC_KEYS, SYNC_VALUES, partitions=1), st.lists(st.integers(0, 40), max_size=3))
def test_a_folded_syncs_topic_leaves_the_same_facts_as_its_records_one_by_one(messages, cuts):
    bootstrapped, replayed = SyncBook(), SyncBook()
    bootstrapped.apply(folded(OffsetSyncsTopicReader(), messages, cuts), 0.0)
    for record in OffsetSyncsTopicReader().live(messages)[0]:
        replayed.apply((record,), 0.0)
    assert bootstrapped.newest == replayed.newest


@given(topic(SYNC_KEYS[:2], [*SYNCS, None], partitions=1), st.lists(st.integers(0, 40), max_size=3))
def test_what_all_syncs_report_survives_the_folding_of_their_topic(messages, cuts):
    bootstrapped, whole = SyncBook(), SyncBook()
    bootstrapped.apply(folded(OffsetSyncsTopicReader(), messages, cuts), 0.0, whole=True)
    whole.apply(OffsetSyncsTopicReader().live(messages)[0], 0.0, whole=True)
    assert bootstrapped.read.keys() == whole.read.keys()
    for partition, known in whole.read.items():
        assert bootstrapped.read[partition].history.pieces == known.history.pieces
        for offset in range(45):
            assert bootstrapped.read[partition].at_least(offset) == known.at_least(offset)
