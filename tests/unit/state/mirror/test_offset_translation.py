"""Where an upstream offset is downstream, told from syncs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from offsetwatch.state.mirror.offset_translation import (
    SEGMENTS_MAX,
    SYNCS_PER_PARTITION,
    TOO_FAR_BACK,
    OffsetSyncStore,
    PartitionSyncs,
    SyncHistory,
)

END = 10**9


def history(*syncs: tuple[int, int], joined: bool = True) -> SyncHistory:
    built = SyncHistory()
    for upstream, downstream in syncs:
        built.add(upstream, downstream, joined=joined)
    return built


# Upstream 0-99 without a gap, then 100-109 are missing: 110 is record 100 downstream.
GAP = ((0, 0), (99, 99), (110, 100), (150, 140))


@pytest.mark.parametrize(
    ("upstream", "best"),
    [
        pytest.param(0, 0, id="the-first-sync"),
        pytest.param(50, 50, id="between-two-on-one-line"),
        pytest.param(99, 99, id="a-sync"),
        pytest.param(100, 100, id="the-first-missing-record"),
        pytest.param(105, 100, id="in-the-gap"),
        pytest.param(110, 100, id="after-the-gap"),
        pytest.param(111, 101, id="on-the-next-line"),
        pytest.param(160, 150, id="after-the-newest"),
    ],
)
def test_a_gap_upstream_ends_where_the_next_sync_is(upstream, best):
    assert history(*GAP).best(upstream, END) == best


def test_where_a_gap_was_that_compaction_may_have_moved_is_not_known():
    result = history((0, 0), (100, 50), joined=False)
    assert result.best(60, END) is None
    assert result.best(100, END) == 50
    # Whatever was missing: from the last record before a sync there is one way on.
    assert history((0, 0), (100, 1), joined=False).best(60, END) == 1


def test_in_a_gap_of_a_line_that_goes_on_a_record_is_where_the_line_before_has_it():
    gap = ((0, 0), (10, 10), (30, 25))
    assert history(*gap).best(15, END) == 15
    assert history(*gap, joined=False).best(15, END) is None


def test_in_a_gap_a_record_is_no_further_than_the_next_sync_wherever_its_log_began():
    gap = ((0, 100), (10, 110), (30, 125))
    assert [history(*gap).best(upstream, END) for upstream in (15, 28)] == [115, 125]
    assert history(*gap, joined=False).best(15, END) is None


def test_a_gap_that_may_lie_elsewhere_is_known_where_every_place_of_it_comes_to_the_same():
    one_missing = history((0, 0), (10, 10), (30, 29), joined=False)
    assert [one_missing.best(upstream, END) for upstream in (11, 12, 29)] == [11, None, None]
    # More came downstream than upstream: what is no record of this flow lies in between.
    assert history((0, 0), (10, 10), (30, 40), joined=False).best(15, END) == 15


def test_a_sync_says_whether_it_begins_a_piece():
    result = SyncHistory()
    reports = [
        result.add(*pair, joined=True)
        for pair in ((0, 0), (0, 0), (10, 10), (30, 25), (30, 25), (35, 30), (5, 5))
    ]
    assert reports == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("shift", [-500, 500])
def test_an_older_task_may_go_back_four_times_as_far_as_the_group_is_behind_and_no_further(shift):
    syncs = PartitionSyncs()
    for upstream in range(500, 1001, 10):
        syncs.read(upstream, upstream + shift, live=True)
    store = syncs.store.translate(985)
    assert store == 981 + shift  # of a task that remembers the sync at 980
    assert syncs.at_least(985) == 927 + shift  # 985 - 4 * 15, the record after it, and one more
    assert syncs.at_least(1000) == 1000 + shift
    assert syncs.at_least(1200) == 1001 + shift


def test_nothing_is_beyond_the_end_of_the_downstream_log():
    assert history((0, 0), (99, 99)).best(5000, 100) == 100


def test_before_the_first_sync_nothing_reports():
    assert history((10, 10)).best(9, END) is None
    assert SyncHistory().best(9, END) is None


@pytest.mark.parametrize(
    "back",
    [
        pytest.param((40, 500), id="copied-again"),
        pytest.param((99, 500), id="the-same-record-again"),
        pytest.param((300, 5), id="the-target-recreated"),
        pytest.param((300, 99), id="two-records-at-one-place"),
    ],
)
def test_what_goes_back_makes_the_old_mapping_void(back):
    result = history((0, 0), (99, 99), back)
    assert result.best(back[0], END) == back[1]
    assert result.best(back[0] - 1, END) is None


def test_a_sync_that_comes_twice_changes_nothing():
    assert history((0, 0), (99, 99), (99, 99)).corners() == ((0, 0), (99, 99))


def test_what_is_forgotten_is_the_oldest():
    syncs = [(10 * n, n) for n in range(SEGMENTS_MAX + 5)]
    result = history(*syncs)
    assert len(result.pieces) == SEGMENTS_MAX
    assert result.best(49, END) is None
    assert result.best(50, END) == 5


def test_a_line_takes_no_more_room_however_many_syncs_it_has():
    assert history(*((n, n + 7) for n in range(1000))).corners() == ((0, 7), (999, 1006))


def test_the_corners_report_as_much_as_all_syncs():
    dice = random.Random(3)
    for _ in range(50):
        built, upstream, downstream = SyncHistory(), 0, 0
        for _ in range(40):
            upstream += dice.choice((1, 1, 5, 100))
            downstream += dice.choice((1, 1, 5, 100))
            built.add(upstream, downstream, joined=False)
        again = history(*built.corners(), joined=False)
        assert again.pieces == built.pieces


def test_a_record_is_where_a_copy_without_its_gaps_says():
    """Upstream with gaps, a sync at each and now and then between: the truth is counted."""
    dice = random.Random(7)
    for _ in range(100):
        upstream = downstream = dice.randrange(50)
        where: dict[int, int] = {}
        result = SyncHistory()
        result.add(upstream, downstream, joined=True)
        where[upstream] = downstream
        for _ in range(60):
            gap = dice.choice((0, 0, 0, 0, 3, 17))
            upstream += 1 + gap
            downstream += 1
            where[upstream] = downstream
            if gap or dice.random() < 0.1:
                result.add(upstream, downstream, joined=True)
        for offset in range(min(where), upstream + 1):
            first = min(number for number in where if number >= offset)
            if result.best(offset, END) is not None:
                assert result.best(offset, downstream + 1) == where[first]


def test_records_between_two_places_are_counted_without_what_syncs_show_to_be_none():
    """MM2 copies in transactions of five records: every sixth offset downstream is a marker."""
    where = [offset for offset in range(600) if offset % 6 != 5]  # of each record, downstream
    syncs = [(number, offset) for number, offset in enumerate(where) if number % 10 == 0]
    result = history(*syncs)
    for group in range(3, len(where), 7):
        best = result.best(group, END)
        assert best is not None
        for synced, downstream in syncs:
            for failover_cost, read in ((downstream, synced), (downstream + 1, synced + 1)):
                counted = result.record_number(best) - result.record_number(failover_cost)
                assert counted == group - read


@pytest.mark.parametrize("downstream", [0, 1, 45, 99, 100, 120, 150, 400])
def test_without_anything_beside_the_records_every_offset_counts(downstream):
    result = history(*GAP)
    assert result.record_number(downstream) - result.record_number(7) == downstream - 7


def test_before_what_is_known_every_offset_counts():
    result = history((50, 50), (60, 70))
    assert result.record_number(50) - result.record_number(20) == 30


def test_after_the_newest_sync_mm2_translates_to_the_record_after_it():
    syncs = PartitionSyncs()
    syncs.read(100, 40, live=False)
    assert syncs.at_least(100) == 40
    assert syncs.at_least(5000) == 41


def test_what_came_before_we_looked_is_not_taken_for_remembered():
    """MM2's task may have started when we did, or may have read far more."""
    syncs = PartitionSyncs()
    syncs.read(0, 0, live=False)
    syncs.read(100, 100, live=False)
    assert syncs.at_least(50) is None


def test_a_task_that_begins_again_may_know_the_newest_sync_only():
    syncs = PartitionSyncs()
    for upstream in range(0, 1001, 10):
        syncs.read(upstream, upstream, live=True)
    assert syncs.at_least(900) is not None
    syncs.emptied()
    assert syncs.at_least(900) is None
    assert syncs.at_least(1000) == 1000
    assert syncs.history.best(900, END) == 900


def test_no_task_translates_to_less_than_is_said_whenever_it_started():
    dice = random.Random(5)
    compared = 0
    for _ in range(100):
        steps = dice.choice(((100, 101), (1, 100, 3000), (1, 2), (500, 50, 7)))
        count = dice.randrange(2, 300)
        start = dice.randrange(count)
        older, own, upstream = OffsetSyncStore(), PartitionSyncs(), 0
        older.started()
        for number in range(count):
            upstream += dice.choice(steps)
            older.read(upstream, upstream)
            own.read(upstream, upstream, live=number > start)
        for _ in range(20):
            group = dice.randrange(upstream + 50)
            result, least = older.translate(group), own.at_least(group)
            if least is not None:
                assert result is not None
                assert result != TOO_FAR_BACK
                assert result >= least
                compared += 1
    assert compared > 300


# --- offset sync store ---------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[3] / "golden" / "offset-sync-store.txt"


def started(*syncs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    store.started()
    for upstream, downstream in syncs:
        store.read(upstream, downstream)
    return store


@pytest.mark.parametrize(
    ("upstream", "downstream"),
    [
        pytest.param(99, TOO_FAR_BACK, id="before the first sync"),
        pytest.param(100, 50, id="at a sync"),
        pytest.param(101, 51, id="after it"),
        pytest.param(199, 51, id="long after it"),
        pytest.param(200, 90, id="at the next"),
        pytest.param(10_000, 91, id="after the last"),
    ],
)
def test_a_group_lands_on_the_synced_record_or_on_the_one_after_it(upstream, downstream):
    assert started((100, 50), (200, 90)).translate(upstream) == downstream


def test_nothing_is_translated_before_the_topic_was_read_to_its_end():
    store = OffsetSyncStore()
    store.read(100, 50)
    assert store.translate(200) is None
    store.started()
    assert store.translate(200) == 51


def test_nothing_is_translated_without_a_sync():
    assert started().translate(5) is None


def test_of_what_it_finds_at_its_start_only_the_last_sync_counts():
    store = OffsetSyncStore()
    store.read(100, 50)
    store.read(200, 90)
    store.started()
    assert store.translate(150) == TOO_FAR_BACK


def test_of_what_it_finds_at_its_start_all_counts_if_it_could_read_its_checkpoints():
    store = OffsetSyncStore(loads_all=True)
    store.read(100, 50)
    store.read(200, 90)
    store.started()
    assert store.translate(150) == 51


def test_an_upstream_offset_that_goes_back_voids_all_that_was_known():
    store = started((100, 50), (200, 90), (120, 300))
    assert store.translate(110) == TOO_FAR_BACK
    assert store.translate(250) == 301


def test_a_group_between_an_early_and_the_last_sync_goes_back_to_the_early_one():
    assert started((0, 0), (3000, 3000)).translate(2700) == 1


def test_what_it_remembers_is_never_farther_from_a_group_than_four_times_its_lag():
    dice = random.Random(11)
    for _ in range(60):
        store, upstream, first = started(), dice.randrange(1000), None
        steps = dice.choice([(100,), (1, 100, 3000), (1, 2)])
        for _ in range(dice.randrange(300)):
            store.read(upstream, upstream)
            first = upstream if first is None else first
            upstream += dice.choice(steps)
        syncs = store.syncs()
        assert len(syncs) in {0, SYNCS_PER_PARTITION}
        if first is None:
            continue
        newest = syncs[0][0]
        group = dice.randrange(first, newest + 1)
        result = store.translate(group)
        assert result is not None
        # With the syncs this far apart, no nearer one can be had.
        assert result > group - 4 * (newest - group) - max(steps)


def test_it_answers_what_kafkas_own_answered():
    store = OffsetSyncStore()
    for number, line in enumerate(GOLDEN.read_text().splitlines(), 1):
        match line.split():
            case ["start", must_read_to_end]:
                store = OffsetSyncStore(loads_all=must_read_to_end == "false")
            case ["end"]:
                store.started()
            case ["sync", upstream, downstream]:
                store.read(int(upstream), int(downstream))
            case ["translate", upstream, answer]:
                result = store.translate(int(upstream))
                assert answer == ("none" if result is None else str(result)), f"line {number}"
            case _:
                pytest.fail(f"line {number}: {line}")
