"""What syncs tell of the way between two looks."""

from __future__ import annotations

from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.mirror.offset_syncs import (
    GAPS_MAX,
    SyncBook,
    SyncGapTracker,
    SyncsSinceLastPoll,
)
from tests.unit.state.worlds import sync

ORDERS = TopicPartition("orders", 0)


class Syncs:
    def __init__(self, *pairs: tuple[int, int]) -> None:
        self.book, self.trail = SyncBook(), SyncGapTracker()
        self.see(*pairs, whole=True)

    def see(self, *pairs: tuple[int, int], whole: bool = False) -> None:
        records = tuple(sync(upstream, downstream=down) for upstream, down in pairs)
        self.trail.apply(self.book.newest, records, whole=whole)
        self.book.apply(records, 0.0, whole=whole)

    def since_last_poll(self) -> SyncsSinceLastPoll | None:
        newest = self.book.newest_position(ORDERS)
        return self.trail.since(ORDERS, None if newest is None else newest.offset)


def test_records_copied_one_after_the_other_leave_no_gap():
    syncs = Syncs((10, 10))
    syncs.see((110, 110), (210, 210))
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=210, came=True, lowest=110)


def test_a_gap_lies_directly_before_the_record_that_came_after_it():
    syncs = Syncs((10, 5))
    syncs.see((200, 20))  # 14 more were copied, 11 to 24
    assert syncs.since_last_poll() == SyncsSinceLastPoll(
        newest=200, came=True, gaps=((25, 199),), lowest=200
    )


def test_two_gaps_in_one_batch_are_two():
    syncs = Syncs((10, 10))
    syncs.see((20, 11), (40, 12))
    assert syncs.since_last_poll().gaps == ((11, 19), (21, 39))


def test_a_sync_further_back_says_that_records_are_copied_again():
    syncs = Syncs((1000, 1000))
    syncs.see((0, 1001), (100, 1101))
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=100, came=True, lowest=0, back_to=0)


def test_a_sync_of_the_same_offset_again_is_of_another_topic():
    syncs = Syncs((0, 0))
    syncs.see((0, 1))
    assert syncs.since_last_poll().back_to == 0


def test_a_target_that_begins_again_leaves_no_gap():
    syncs = Syncs((10, 10))
    syncs.see((20, 0))
    assert syncs.since_last_poll().gaps == ()


def test_the_first_sync_of_all_has_nothing_before_it():
    syncs = Syncs()
    assert syncs.since_last_poll() is None
    syncs.see((500, 3))
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=500, came=True, lowest=500)


def test_a_topic_read_from_its_start_reports_no_way():
    syncs = Syncs((10, 10))
    syncs.see((500, 20), whole=True)
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=500)


def test_what_was_inspected_is_forgotten_and_the_newest_is_not():
    syncs = Syncs((10, 10))
    syncs.see((500, 20))
    syncs.trail.forget([ORDERS])
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=500)
    syncs.see((600, 120))
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=600, came=True, lowest=600)


def test_of_many_gaps_the_largest_are_retained():
    syncs = Syncs((0, 0))
    syncs.see((5000, 1))
    offset = 5000
    for down in range(2, 40):
        offset += 2
        syncs.see((offset, down))
    gaps = syncs.since_last_poll().gaps
    assert len(gaps) == GAPS_MAX
    assert (1, 4999) in gaps


def test_a_sync_that_did_not_move_downstream_reports_no_gap():
    syncs = Syncs((10, 10))
    syncs.see((110, 10))
    assert syncs.since_last_poll().gaps == ()


def test_of_a_topic_that_is_read_again_what_came_before_is_not_reported_again():
    syncs = Syncs((10, 10))
    syncs.see((200, 20))
    assert ORDERS in syncs.trail.came
    syncs.see((10, 10), (200, 20), whole=True)
    assert ORDERS not in syncs.trail.came
    assert syncs.since_last_poll() == SyncsSinceLastPoll(newest=200)
