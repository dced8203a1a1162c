"""Views of a snapshot by their keys, built once for all snapshots that have the same."""

from __future__ import annotations

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic, Topology
from offsetwatch.state.book import Book
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.judge.observed_rewinds import FLOW, MM2, copied, counted

OWN, SHARED = KafkaTopic("west", "own"), KafkaTopic("west", "shared")


def test_a_part_is_built_once_for_every_snapshot_with_the_same_views():
    snapshot = replace(EMPTY_SNAPSHOT, mirror_partitions=(copied(1),), index_parts={})
    built = snapshot.index.mirror_partitions
    assert built == {MM2: [copied(1)]}
    assert snapshot.index.mirror_partitions is built
    assert replace(snapshot, at=9.0).index.mirror_partitions is built


def test_other_views_are_indexed_again():
    before = replace(EMPTY_SNAPSHOT, mirror_partitions=(copied(1),), index_parts={})
    assert before.index.mirror_partitions == {MM2: [copied(1)]}
    after = replace(before, mirror_partitions=(copied(2),))
    assert after.index.mirror_partitions == {MM2: [copied(2)]}
    assert before.index.mirror_partitions == {MM2: [copied(1)]}


def test_what_a_reader_of_an_older_snapshot_builds_is_not_the_next_ones():
    book = Book(clusters=(), kafkas={}, stale_after_s={}, source_partitions_max=10)
    first = book.snapshot(1.0)
    built = first.index.connectors
    second = book.snapshot(2.0)
    assert second.index.connectors is built
    assert first.index_parts is not second.index_parts


def test_two_snapshots_are_the_same_whatever_of_them_was_indexed():
    one, other = (replace(EMPTY_SNAPSHOT, index_parts={}) for _ in range(2))
    assert one.index.connectors == {}
    assert one == other
    assert repr(one) == repr(other)


def test_judgements_are_found_by_scope_and_verdict():
    reports = [
        Judgement(scope, "lab", "files", "", Verdict.UNKNOWN, 1, "so it is", 0.0)
        for scope in (Scope.PARTITION, Scope.CONNECTOR)
    ]
    index = replace(EMPTY_SNAPSHOT, judgements=tuple(reports)).index
    assert index.judgements(Scope.CONNECTOR, Verdict.UNKNOWN) == [reports[1]]
    assert index.judgements(Scope.FLOW, Verdict.UNKNOWN) == ()


def test_a_connectors_own_offsets_topic_comes_before_the_shared_one():
    topics = (OffsetsTopic("lab", SHARED), OffsetsTopic("lab", OWN, "mm2"))
    index = replace(EMPTY_SNAPSHOT, topology=Topology(topics, ())).index
    assert index.offsets_topic_of(MM2) == OWN
    assert index.offsets_topic_of(("lab", "files")) == SHARED
    assert index.offsets_topic_of(("other", "files")) is None


def test_syncs_are_a_flows_own_where_no_other_flow_has_their_topic():
    other = replace(FLOW, connector="other")
    silent = replace(FLOW, offset_syncs=None)
    alone = replace(EMPTY_SNAPSHOT, topology=Topology((), (FLOW, silent))).index
    assert (alone.has_own_syncs(FLOW), alone.has_own_syncs(silent)) == (True, False)
    shared = replace(EMPTY_SNAPSHOT, topology=Topology((), (FLOW, other))).index
    assert not shared.has_own_syncs(FLOW)


def test_what_does_not_come_from_the_connector_is_marked():
    plain = counted()
    offset = decode_value(b'{"a":1}')
    marks = (
        replace(plain, shadow=offset),
        replace(plain, variants=1),
        replace(plain, poisoned=True),
    )
    index = replace(EMPTY_SNAPSHOT, source_partitions=(plain, *marks)).index
    assert index.odd_source_partitions == {("lab", "files"): list(marks)}
    assert index.source_partitions == {("lab", "files"): [plain, *marks]}
