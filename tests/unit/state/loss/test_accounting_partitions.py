"""What became of the records of one partition: each rule, look by look."""

from __future__ import annotations

from copy import deepcopy
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.state.loss.accounting import (
    ALTERED,
    JUMPS_MAX,
    NOTHING_LOST,
    RECREATED,
    RETENTION,
    LostRange,
    PartitionInspection,
    PartitionLossAccount,
    PartitionRates,
)
from offsetwatch.state.mirror.offset_syncs import SyncsSinceLastPoll
from tests.changed import replace

FLUSH_S = 60.0
EVERY_S = 10.0


class Watched:
    """An account that is looked at every ten seconds. A look that can say nothing new, as `rests`
    says, is held against one that is taken in as any other; `rested` counts them.
    """

    def __init__(self, position: int, start: int = 0, end: int = 1000, *, now: float = 0.0) -> None:
        self.inspection = PartitionInspection(
            now=now, position=position, start=start, end=end, patience_s=FLUSH_S
        )
        self.account = PartitionLossAccount.opened(self.inspection)
        self.lost: list[LostRange] = list(self.account.inspect(self.inspection))
        self.rested = 0

    def inspect(self, **changes) -> list[LostRange]:
        """What this look found. `syncs` and `renewed` are of one look, the rest stays as it is."""
        plain = replace(
            self.inspection, syncs=None, renewed=False, now=self.inspection.now + EVERY_S
        )
        self.inspection = inspection = replace(plain, **changes)
        rested = deepcopy(self.account)
        rests = rested.rests(inspection.position, inspection.start, inspection.end, inspection.now)
        result = self.account.inspect(inspection)
        if (
            rests
            and not inspection.renewed
            and (inspection.syncs is None or not inspection.syncs.came)
        ):
            assert (rested, result) == (self.account, [])
            self.rested += 1
        self.lost += result
        return result

    def wait(self, seconds: float = FLUSH_S) -> list[LostRange]:
        """Nothing changes for so long."""
        return [item for _ in range(round(seconds / EVERY_S)) for item in self.inspect()]


# --- rule 1 --------------------------------------------------------------------------------------


def test_a_log_start_beyond_the_position_is_a_loss_once_no_commit_can_be_on_its_way():
    watched = Watched(99)
    assert watched.inspect(start=150) == []
    assert watched.wait(50) == []
    assert watched.inspect() == [(RETENTION, 100, 149)]


def test_a_loss_that_is_observed_at_every_poll_is_counted_once():
    watched = Watched(99)
    watched.inspect(start=150)
    watched.wait(600)
    assert watched.lost == [(RETENTION, 100, 149)]
    assert dict(watched.account.lost) == {"retention": 50, "recreated": 0, "altered": 0}


def test_when_the_log_start_moves_further_only_the_new_part_is_lost():
    watched = Watched(99)
    watched.inspect(start=150)
    watched.wait()
    assert watched.inspect(start=180) == []  # the position has had no time to tell since
    watched.wait()
    assert watched.lost == [(RETENTION, 100, 149), (RETENTION, 150, 179)]


def test_a_commit_that_was_on_its_way_reports_what_had_been_copied():
    watched = Watched(99)
    watched.inspect(start=150)
    watched.inspect(position=129)
    watched.wait(100)
    assert watched.lost == [(RETENTION, 130, 149)]


def test_retention_of_records_copied_before_a_rewind_waits_for_nothing():
    watched = Watched(99)
    watched.inspect(position=49)
    watched.inspect(start=100)
    assert not watched.account.waits
    assert watched.lost == []
    watched.inspect(start=101)
    assert watched.account.waits


def test_of_a_stopped_connector_no_commit_is_waited_for():
    watched = Watched(99)
    watched.inspect(quiet=True)
    assert watched.inspect(start=150, quiet=True) == [(RETENTION, 100, 149)]


def test_a_log_start_that_reaches_the_position_takes_nothing_that_was_not_copied():
    watched = Watched(99)
    watched.inspect(start=100)
    watched.wait(600)
    assert watched.lost == []


def test_a_partition_that_is_first_observed_behind_its_log_start_has_lost_what_lies_between():
    watched = Watched(99, start=150)
    watched.wait(70)
    assert watched.lost == [(RETENTION, 100, 149)]


def test_what_was_copied_before_a_rewind_is_not_lost_when_retention_takes_it():
    watched = Watched(499)
    watched.inspect(position=99)  # a person went back
    watched.inspect(start=300)
    watched.wait(600)
    assert watched.lost == []
    watched.inspect(start=520)
    watched.wait()
    assert watched.lost == [(RETENTION, 500, 519)]


def test_after_a_reset_that_is_taken_back_a_loss_is_not_counted_again():
    watched = Watched(99)
    watched.inspect(start=150)
    watched.wait()
    watched.account.position_gone()
    watched.wait(600)
    assert watched.lost == [(RETENTION, 100, 149)]


def test_a_position_that_moved_has_its_patience_again():
    watched = Watched(99)
    watched.inspect(start=150)
    watched.wait(50)
    watched.inspect(position=129)
    watched.wait(50)
    assert watched.lost == []
    watched.inspect()
    assert watched.lost == [(RETENTION, 130, 149)]


# --- rule 2 --------------------------------------------------------------------------------------


def synced(newest: int, *gaps: tuple[int, int], back_to: float = inf) -> SyncsSinceLastPoll:
    return SyncsSinceLastPoll(newest=newest, came=True, back_to=back_to, gaps=gaps)


def test_a_jump_over_the_log_start_is_a_loss_of_what_the_syncs_say_was_passed_over():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(320, (110, 149)))
    watched.wait(600)
    assert watched.lost == [(RETENTION, 110, 149)]


def test_a_jump_to_just_before_the_log_start_is_reported_by_its_syncs_like_any_other():
    watched = Watched(99)
    watched.inspect(position=149, start=150, syncs=synced(150, (100, 119)))
    watched.wait()
    assert watched.lost == [(RETENTION, 100, 119)]


def test_what_was_copied_before_retention_took_it_is_not_lost():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(320))
    watched.wait(600)
    assert watched.lost == []


def test_a_gap_that_retention_has_not_passed_is_a_marker_and_no_loss():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(320, (200, 200), (149, 155)))
    assert watched.lost == [(RETENTION, 149, 149)]


def test_gaps_that_overlap_are_counted_once():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(320, (110, 149), (100, 119)))
    assert dict(watched.account.lost)[RETENTION] == 50


def test_a_jump_waits_for_its_sync():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(99))
    assert watched.lost == []
    watched.inspect(syncs=synced(340, (100, 149)))
    assert watched.lost == [(RETENTION, 100, 149)]


def test_a_jump_that_no_sync_ever_reports_is_not_guessed_at():
    watched = Watched(99)
    watched.inspect(position=320, start=150, syncs=synced(99))
    for _ in range(20):
        watched.inspect(syncs=synced(99))
    assert watched.lost == []
    watched.inspect(start=330, syncs=synced(99))
    for _ in range(20):
        watched.inspect(syncs=synced(99))
    assert watched.lost == [(RETENTION, 321, 329)]


def steady(records: int, *, now: float = 0.0) -> Watched:
    """Copies so many records between two looks, for two minutes, without syncs."""
    watched = Watched(0, end=10**9, now=now)
    for _ in range(12):
        watched.inspect(position=watched.inspection.position + records)
    return watched


@pytest.mark.parametrize("now", [0.0, 1_800_000_000.0])
def test_without_syncs_a_jump_further_than_could_be_copied_is_a_loss(now):
    watched = steady(100, now=now)
    reached = watched.inspection.position + 1
    assert watched.inspect(position=reached + 9000, start=reached + 8000) == [
        (RETENTION, reached, reached + 7999)
    ]


@pytest.mark.parametrize(("passed", "lost"), [(200, False), (300, False), (301, True)])
def test_without_syncs_a_jump_that_may_have_been_copied_is_not_counted(passed, lost):
    watched = steady(100)
    reached = watched.inspection.position + 1
    watched.inspect(position=reached + 350, start=reached + passed)
    watched.wait(600)
    assert bool(watched.lost) is lost


def test_without_syncs_a_jump_over_records_that_were_not_there_a_flush_ago_is_not_counted():
    watched = Watched(99, end=100)
    watched.wait()
    watched.inspect(position=10**6, start=10**6, end=10**6 + 1)
    watched.wait(600)
    assert watched.lost == []


def test_without_syncs_and_without_a_rate_a_jump_is_not_counted():
    watched = Watched(99, end=10**9)
    watched.inspect(position=10**6, start=10**6)
    watched.wait(600)
    assert watched.lost == []


# --- rules 3 and 4 -------------------------------------------------------------------------------


def test_of_a_topic_recreated_what_was_not_copied_of_the_old_one_is_lost():
    watched = Watched(899)
    watched.inspect(renewed=True, end=0)
    assert watched.lost == []  # its last commits may be on their way
    watched.wait()
    assert watched.lost == [(RECREATED, 900, 999)]


def test_the_last_commits_of_the_old_topic_are_waited_for():
    watched = Watched(899)
    watched.inspect(renewed=True, end=0)
    watched.inspect(position=989)
    watched.wait()
    watched.inspect(position=40, end=50)
    watched.wait(600)
    assert watched.lost == [(RECREATED, 990, 999)]


def test_a_topic_recreated_that_is_copied_from_its_start_loses_nothing_of_itself():
    watched = Watched(999)
    watched.inspect(renewed=True, end=0)
    watched.inspect(position=40, end=50)
    watched.inspect(position=5000, end=5001)
    watched.wait(600)
    assert watched.lost == []


def test_a_topic_that_grew_past_the_position_loses_what_the_position_goes_on_from():
    watched = Watched(999)
    watched.inspect(renewed=True, start=20, end=3000)
    assert watched.wait(600) == []  # nobody has gone on from there yet
    assert watched.inspect(position=2999) == [(RECREATED, 20, 999)]
    watched.wait(600)
    assert dict(watched.account.lost)[RECREATED] == 980


def test_a_topic_that_grew_past_the_position_while_mm2_was_away_is_the_same():
    watched = Watched(999)
    watched.inspect(renewed=True, end=10)
    watched.inspect(end=3000)
    assert watched.inspect(position=2999) == [(RECREATED, 0, 999)]


def test_a_position_that_is_fixed_before_mm2_goes_on_loses_nothing():
    watched = Watched(999)
    watched.inspect(quiet=True)
    watched.inspect(renewed=True, end=3000, quiet=True)
    watched.account.position_gone()
    watched.inspect(position=2000, quiet=False)
    watched.wait(600)
    assert watched.lost == []


def test_syncs_that_went_back_report_that_the_new_topic_is_copied_from_its_start():
    watched = Watched(999)
    watched.inspect(renewed=True, end=3000, syncs=synced(10, back_to=0))
    watched.inspect(position=2999, syncs=synced(2999))
    watched.wait(600)
    assert watched.lost == []


def test_mm2_that_runs_beyond_the_end_for_a_flush_begins_at_the_start():
    watched = Watched(999)
    watched.inspect(runs=True)
    watched.inspect(renewed=True, end=10)
    watched.wait(60)
    watched.inspect(end=3000, position=2999)
    watched.wait(600)
    assert watched.lost == []


def test_mm2_that_does_not_run_beyond_the_end_begins_nowhere():
    watched = Watched(999)
    watched.inspect(renewed=True, end=10)
    watched.wait(60)
    watched.inspect(end=3000)
    assert watched.inspect(position=2999) == [(RECREATED, 0, 999)]


def test_a_log_end_that_fell_below_the_position_is_a_topic_recreated():
    watched = Watched(899)
    watched.inspect(end=500)
    watched.wait()
    assert watched.lost == [(RECREATED, 900, 999)]


def test_of_a_log_that_was_cut_what_is_passed_over_begins_at_the_cut():
    watched = Watched(899, start=100)
    watched.inspect(end=500)
    watched.wait()
    watched.inspect(end=2000)
    watched.inspect(position=1500)
    assert watched.lost == [(RECREATED, 900, 999), (RECREATED, 500, 899)]


def test_a_log_end_that_fell_but_not_below_the_position_says_nothing():
    watched = Watched(899)
    watched.inspect(end=950)
    watched.wait(600)
    assert watched.lost == []


def test_a_position_that_is_of_the_new_topic_already_is_not_taken_for_the_old_one():
    watched = Watched(899)
    watched.inspect(renewed=True, position=5, end=10)
    assert watched.lost == [(RECREATED, 900, 999)]
    watched.inspect(position=2000, end=3000)
    watched.wait(600)
    assert watched.lost == [(RECREATED, 900, 999)]


def test_a_topic_recreated_twice_within_a_flush_loses_what_was_not_copied_of_either():
    watched = Watched(899)
    watched.inspect(renewed=True, end=0)
    watched.inspect(renewed=True, end=50)
    assert watched.lost == [(RECREATED, 900, 999)]


def test_what_was_committed_of_the_old_topic_as_the_new_one_is_observed_is_not_lost():
    watched = Watched(899)
    watched.inspect(renewed=True, position=949, end=0)
    watched.wait()
    assert watched.lost == [(RECREATED, 950, 999)]


def test_a_topic_recreated_whose_start_is_copied_as_it_is_observed_loses_nothing_of_that_later():
    watched = Watched(899)
    watched.inspect(renewed=True, position=5, end=10)
    watched.inspect(start=8)
    watched.wait()
    assert watched.lost == [(RECREATED, 900, 999), (RETENTION, 6, 7)]


def test_a_doubt_of_the_old_topic_is_none_of_the_new_one():
    watched = Watched(99)
    watched.inspect(start=150)
    assert watched.account.waits
    watched.inspect(renewed=True, position=5, start=0, end=10)
    assert not watched.account.waits


def test_a_log_end_that_fell_to_the_very_position_fell_below_what_was_copied():
    watched = Watched(899)
    watched.inspect(end=899)
    watched.wait()
    assert watched.lost == [(RECREATED, 900, 999)]


def test_a_position_after_a_reset_is_of_the_new_topic_and_was_copied_from_its_start():
    """The offset was reset, and the topic made anew, before anything was committed again."""
    watched = Watched(899)
    watched.account.position_gone()
    watched.inspect(renewed=True, position=950, end=3000)
    watched.inspect(position=2000)
    watched.wait(600)
    assert watched.lost == [(RECREATED, 900, 999)]


def test_a_position_that_is_set_after_a_reset_while_stopped_passes_over_what_lies_before_it():
    watched = Watched(899)
    watched.account.position_gone()
    watched.inspect(renewed=True, position=950, end=3000, quiet=True)
    watched.inspect(position=2000, quiet=False)
    assert watched.lost == [(RECREATED, 900, 999), (RECREATED, 0, 950)]


def test_a_position_past_the_end_after_a_reset_is_of_neither_topic():
    watched = Watched(899)
    watched.account.position_gone()
    watched.inspect(renewed=True, position=50, end=50)
    watched.inspect(end=3000)
    watched.inspect(position=2999)
    assert (RECREATED, 0, 50) in watched.lost


def test_two_recreations_lose_two_tails():
    watched = Watched(899)
    watched.inspect(renewed=True, position=5, end=10)
    watched.inspect(renewed=True, position=2, end=3)
    assert watched.lost == [(RECREATED, 900, 999), (RECREATED, 6, 9)]


def test_the_log_start_of_the_new_topic_is_not_held_against_the_old_position():
    watched = Watched(999)
    watched.inspect(renewed=True, end=0)
    watched.inspect(position=4, end=50)
    watched.inspect(start=20)
    watched.wait()
    assert watched.lost == [(RETENTION, 5, 19)]


def test_a_topic_recreated_without_an_id_is_known_by_a_log_start_that_fell():
    watched = Watched(899, start=100)
    watched.inspect(start=0, end=500)
    watched.wait()
    watched.inspect(end=2000)
    watched.inspect(position=1500)
    assert watched.lost == [(RECREATED, 900, 999), (RECREATED, 0, 899)]


def test_mm2_that_was_stopped_after_it_met_the_end_is_started_from_its_position():
    watched = Watched(999)
    watched.inspect(runs=True)
    watched.inspect(renewed=True, end=10)
    watched.wait()
    watched.inspect(end=3000, quiet=True, runs=False)
    watched.inspect(position=2999, quiet=False)
    assert watched.lost == [(RECREATED, 0, 999)]


def test_mm2_that_was_observed_beyond_the_end_once_may_not_have_met_it():
    watched = Watched(999)
    watched.inspect(runs=True)
    watched.inspect(renewed=True, end=10)
    watched.inspect()
    watched.inspect(end=3000)
    watched.inspect(position=2999)
    assert watched.lost == [(RECREATED, 0, 999)]


def test_a_last_commit_beyond_what_was_observed_of_the_old_topic_is_beyond_the_end_of_the_new():
    watched = Watched(999)
    watched.inspect(renewed=True, end=10)
    watched.inspect(position=1005)
    watched.inspect(end=3000)
    watched.inspect(position=2999)
    assert watched.lost == [(RECREATED, 0, 1005)]


@pytest.mark.parametrize(
    ("gaps", "last"),
    [
        ([(1000, 1019)], 1019),
        ([(1020, 1029), (1000, 1019)], 1029),
        ([(1001, 1019)], 999),
    ],
)
def test_what_was_skipped_ends_where_the_syncs_say_that_mm2_went_on(gaps, last):
    watched = Watched(999)
    watched.inspect(renewed=True, end=3000)
    watched.inspect(position=2999, syncs=synced(2999, *gaps))
    assert watched.lost == [(RECREATED, 0, last)]


def test_a_sync_that_went_back_to_the_mark_reports_that_the_new_topic_is_copied_from_its_start():
    watched = Watched(999)
    watched.inspect(renewed=True, end=3000)
    watched.inspect(position=1200, syncs=synced(1200, back_to=999))
    watched.wait(600)
    assert watched.lost == []


def test_a_last_commit_that_covers_the_old_topic_leaves_nothing_of_it_to_be_lost():
    watched = Watched(899)
    watched.inspect(renewed=True, end=0)
    watched.inspect(position=999)
    watched.wait()
    assert watched.lost == []


def test_the_last_sync_of_the_old_topic_says_nothing_of_the_new_one():
    watched = Watched(899, end=900)
    watched.inspect(runs=True)
    watched.inspect(renewed=True, end=0)
    watched.wait()
    watched.inspect(syncs=SyncsSinceLastPoll(newest=899))
    watched.inspect(position=4, end=50)
    watched.inspect(start=20)
    watched.wait()
    assert watched.lost == [(RETENTION, 5, 19)]


def test_without_syncs_retention_of_a_topic_that_is_copied_again_is_not_guessed_at():
    watched = Watched(999)
    watched.inspect(renewed=True, end=10)
    watched.wait()
    watched.inspect(position=9, start=5)
    watched.wait(600)
    assert watched.lost == []


def test_what_syncs_say_was_copied_of_a_topic_is_not_lost_with_it():
    watched = Watched(999)
    watched.inspect(renewed=True, end=3000, syncs=synced(10, back_to=0))
    watched.inspect(renewed=True, end=0)
    watched.wait()
    assert watched.lost == [(RECREATED, 11, 2999)]


def test_of_a_connector_that_was_stopped_no_last_commit_is_taken_for_one():
    watched = Watched(899)
    watched.inspect(quiet=True)
    watched.inspect(renewed=True, end=3000)
    watched.inspect(position=950, quiet=False)
    assert watched.lost == [(RECREATED, 900, 999), (RECREATED, 0, 899)]


def test_a_position_in_a_topic_that_is_copied_again_is_no_last_commit_of_the_old_one():
    watched = Watched(899)
    watched.inspect(renewed=True, end=50, syncs=synced(40, back_to=0))
    watched.inspect(position=950, end=960)
    watched.wait(600)
    assert watched.lost == [(RECREATED, 900, 999)]


# --- rule 5 --------------------------------------------------------------------------------------


def test_a_position_past_the_end_from_which_mm2_begins_at_the_start_loses_nothing():
    watched = Watched(99)
    watched.inspect(position=9999)
    watched.wait()
    watched.inspect(position=500)
    watched.wait(600)
    assert watched.lost == []


def test_a_position_past_the_end_that_is_taken_back_loses_nothing():
    watched = Watched(99)
    watched.inspect(position=9999, quiet=True)
    watched.inspect(position=99, quiet=True)
    watched.inspect(position=120, quiet=False)
    watched.wait(600)
    assert watched.lost == []
    watched.inspect(start=150)
    watched.wait()
    assert watched.lost == [(RETENTION, 121, 149)]


def test_a_log_that_grows_over_a_position_past_its_end_loses_what_the_position_passed_over():
    watched = Watched(99)
    watched.inspect(position=4999)
    watched.inspect(end=6000)
    watched.wait(600)
    assert watched.lost == []
    assert watched.inspect(position=5999) == [(ALTERED, 100, 4999)]


@pytest.mark.parametrize("edited", [1000, 4999], ids=["the very end", "far past it"])
def test_mm2_that_met_the_end_of_the_log_does_not_pass_over_anything(edited):
    watched = Watched(99)
    watched.inspect(position=edited, runs=True)
    watched.wait()
    watched.inspect(end=6000)
    watched.inspect(position=5999)
    watched.wait(600)
    assert watched.lost == []


@pytest.mark.parametrize(
    "syncs", [None, SyncsSinceLastPoll(newest=99)], ids=["no syncs", "syncs from before"]
)
@pytest.mark.parametrize("edited", [100, 499])
def test_a_position_moved_forward_while_stopped_is_a_loss_when_mm2_goes_on_from_there(
    edited, syncs
):
    watched = Watched(99)
    watched.inspect(quiet=True)
    watched.inspect(position=edited, quiet=True, syncs=syncs)
    watched.inspect(quiet=True)
    assert watched.lost == []
    assert watched.inspect(position=510, quiet=False) == [(ALTERED, 100, edited)]


@pytest.mark.parametrize("remaining", [100, 299])
def test_a_position_moved_twice_while_stopped_counts_from_where_it_was_left(remaining):
    watched = Watched(99)
    watched.inspect(quiet=True)
    watched.inspect(position=499, quiet=True)
    watched.inspect(position=remaining, quiet=True)
    assert watched.inspect(position=510, quiet=False) == [(ALTERED, 100, remaining)]


def test_a_position_moved_forward_and_taken_back_while_stopped_loses_nothing():
    watched = Watched(99)
    watched.inspect(quiet=True)
    watched.inspect(position=499, quiet=True)
    watched.inspect(position=99, quiet=True)
    watched.inspect(position=700, quiet=False)
    watched.wait(600)
    assert watched.lost == []


def test_a_position_that_moved_with_a_sync_was_copied_although_it_looked_stopped():
    watched = Watched(99)
    watched.inspect(quiet=True)
    watched.inspect(position=499, quiet=True, syncs=synced(499))
    watched.inspect(position=510, quiet=False)
    watched.wait(600)
    assert watched.lost == []


def test_a_position_that_moves_while_it_runs_was_copied():
    watched = Watched(99)
    watched.inspect(position=499)
    watched.inspect(position=510)
    watched.wait(600)
    assert watched.lost == []


def test_moving_forward_again_over_what_was_copied_loses_nothing():
    watched = Watched(499)
    watched.inspect(position=99)
    watched.inspect(quiet=True)
    watched.inspect(position=450, quiet=True)
    watched.inspect(position=700, quiet=False)
    watched.wait(600)
    assert watched.lost == []


@pytest.mark.parametrize("lowest", [400, 1000])
def test_a_sync_of_the_mark_or_before_it_reports_that_mm2_began_before_it(lowest):
    watched = Watched(99)
    watched.inspect(position=1000)
    watched.inspect(
        position=1001, end=1003, syncs=SyncsSinceLastPoll(newest=1001, came=True, lowest=lowest)
    )
    watched.wait(600)
    assert watched.lost == []


def test_moving_forward_over_what_was_copied_does_not_hide_what_retention_takes():
    watched = Watched(499)
    watched.inspect(position=99)
    watched.inspect(quiet=True)
    watched.inspect(position=450)
    watched.inspect(start=520)
    assert watched.lost == [(RETENTION, 500, 519)]


def test_a_position_past_the_end_at_first_sight_passes_over_what_comes_after_the_end():
    watched = Watched(4999)
    watched.inspect(end=6000)
    watched.inspect(position=5999)
    assert watched.lost == [(ALTERED, 1000, 4999)]


def test_a_position_at_the_very_end_at_first_sight_passes_over_one_record():
    watched = Watched(1000)
    watched.inspect(end=6000)
    watched.inspect(position=5999)
    assert watched.lost == [(ALTERED, 1000, 1000)]


def test_a_position_past_the_end_that_is_moved_again_counts_from_where_it_was_left():
    watched = Watched(99)
    watched.inspect(position=4999)
    watched.inspect(position=2999)
    watched.inspect(end=6000)
    watched.inspect(position=5999)
    assert watched.lost == [(ALTERED, 100, 2999)]


def test_a_position_past_the_end_that_is_moved_to_the_very_end_counts_from_there():
    watched = Watched(99)
    watched.inspect(position=4999)
    watched.inspect(position=1000)
    watched.inspect(end=6000)
    watched.inspect(position=5999)
    assert watched.lost == [(ALTERED, 100, 1000)]


@pytest.mark.parametrize(
    "syncs", [SyncsSinceLastPoll(newest=4999), SyncsSinceLastPoll(newest=300, came=True, lowest=0)]
)
def test_an_edit_that_mm2_has_not_come_up_to_hides_nothing_that_retention_takes(syncs):
    """It met the end of the log, and copies from its start."""
    watched = Watched(99)
    watched.inspect(position=4999, runs=True)
    watched.wait()
    watched.inspect(end=6000, syncs=syncs)
    watched.inspect(position=300)
    watched.inspect(start=600)
    watched.wait()
    assert watched.lost == [(RETENTION, 301, 599)]


def test_syncs_from_behind_the_mark_alone_report_that_mm2_passed_over_what_lies_before_it():
    watched = Watched(99)
    watched.inspect(position=4999)
    watched.inspect(end=6000, syncs=SyncsSinceLastPoll(newest=5005, came=True, lowest=5001))
    assert watched.inspect(position=5999) == [(ALTERED, 100, 4999)]


def test_mm2_that_copied_up_to_where_an_edit_had_put_it_is_where_it_says():
    watched = Watched(99, end=100)
    watched.inspect(position=100)
    watched.inspect(end=101, syncs=SyncsSinceLastPoll(newest=100, came=True, lowest=0))
    watched.inspect(renewed=True, end=0)
    watched.wait(600)
    assert watched.lost == []


def test_of_an_edit_what_the_syncs_reported_before_it_is_forgotten():
    watched = Watched(99)
    watched.inspect(position=4999)
    assert not watched.account.waits
    watched.inspect()
    assert watched.account.waits


# --- headroom ------------------------------------------------------------------------------------


def test_the_time_until_retention_arrives_is_distinguished_from_the_second_jump_on():
    watched = Watched(5000, end=10**6)
    watched.wait()
    watched.inspect(start=1000)
    watched.wait(90)
    assert watched.account.headroom_s is None  # one jump tells no pace
    watched.inspect(start=2000)  # 1000 records in 100 seconds
    assert watched.account.headroom_s == pytest.approx((5001 - 2000) / 10)


def test_a_position_that_runs_away_from_retention_has_no_time_until_it_arrives():
    watched = Watched(5000, end=10**6)
    for number in range(1, 21):
        watched.inspect(start=100 * number, position=5000 + 200 * number)
    assert watched.account.headroom_s is None


def test_a_caught_up_position_has_no_time_until_retention_arrives():
    watched = Watched(999)
    for number in range(1, 9):
        watched.inspect(start=100 * number)
    assert watched.account.headroom_s is None


def test_a_position_behind_the_log_start_has_no_time_left():
    watched = Watched(99)
    watched.inspect(start=150)
    assert watched.account.headroom_s == 0.0


def test_a_log_start_that_jumps_no_more_slows_down():
    watched = Watched(5000, end=10**6)
    watched.inspect(start=1000)
    watched.wait(90)
    watched.inspect(start=2000)
    watched.wait(1000)
    assert watched.account.headroom_s == pytest.approx((5001 - 2000) / (1000 / 1000), rel=0.01)


def test_nothing_is_lost_at_first():
    assert Watched(99).account.lost == NOTHING_LOST


def test_the_log_start_of_another_topic_is_no_jump():
    watched = Watched(5000, end=10**6)
    watched.inspect(start=1000)
    watched.inspect(renewed=True, start=0)
    watched.inspect(position=10)
    watched.wait()
    watched.inspect(start=5)
    watched.wait()
    assert watched.account.headroom_s is None


def test_a_position_that_stands_still_no_longer_runs_away_from_retention():
    watched = Watched(5000, end=10**6)
    for number in range(1, 100):
        watched.inspect(start=10 * number, position=5000 + 1000 * number)
    assert watched.account.headroom_s is None
    for number in range(100, 200):
        watched.inspect(start=10 * number)
    assert watched.account.headroom_s == pytest.approx(104_001 - 1990, rel=0.01)


def test_no_more_jumps_of_a_log_start_are_kept_than_so_many():
    watched = Watched(10**5, end=10**6)
    for number in range(1, 500):
        watched.inspect(start=10 * number)
    assert len(watched.account.rates.jumps) <= JUMPS_MAX
    assert watched.account.headroom_s == pytest.approx(10**5 + 1 - 4990, rel=0.01)


@pytest.mark.parametrize("now", [0.0, 1_800_000_000.0])
def test_the_rate_is_what_was_copied_between_two_commits(now):
    watched = steady(100, now=now)
    assert watched.account.rates.best == pytest.approx(100 / EVERY_S)
    watched.wait(50)
    watched.inspect(position=watched.inspection.position + 120)  # in a minute
    assert watched.account.rates.best == pytest.approx(100 / EVERY_S)
    watched.inspect(position=watched.inspection.position + 500)
    assert watched.account.rates.best == pytest.approx(500 / EVERY_S)


def test_neither_a_rewind_nor_an_edit_is_a_rate():
    watched = Watched(500)
    watched.inspect(position=99)
    watched.inspect(position=4999)
    watched.inspect(position=9999)
    assert watched.account.rates.best == 0


def test_one_record_that_waits_has_a_time_until_retention_arrives():
    watched = Watched(998, end=1000)
    for number in range(1, 9):
        watched.inspect(start=100 * number)
    assert watched.account.headroom_s is not None
    watched.inspect(position=999)
    assert watched.account.headroom_s is None


def test_of_an_offset_that_was_reset_nothing_is_remembered_of_its_rate():
    watched = Watched(99)
    watched.inspect(position=150)
    watched.inspect(position=200, start=10)
    assert watched.account.rates.best > 0
    watched.account.position_gone()
    assert (watched.account.position, watched.account.rates) == (None, PartitionRates())


# --- looks that can say nothing new --------------------------------------------------------------

NEWS = st.builds(
    SyncsSinceLastPoll, newest=st.integers(0, 4), came=st.booleans(), lowest=st.integers(0, 4)
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "position": st.integers(-1, 4),
                "start": st.integers(0, 4),
                "end": st.integers(0, 5),
                "renewed": st.booleans(),
                "quiet": st.booleans(),
                "runs": st.booleans(),
                "syncs": NEWS,
            },
        )
    ),
    st.integers(1, 40),
)
def test_a_poll_that_can_say_nothing_new_leaves_the_account_as_any_look_would(changes, looks):
    watched = Watched(2, end=3)
    for change in changes:
        watched.inspect(**change)
        watched.inspect()
    watched.wait(looks * EVERY_S)


def test_what_stands_still_with_all_copied_rests_and_nothing_else():
    watched = Watched(99, end=100)
    watched.wait(FLUSH_S)
    assert watched.rested == 6
    watched.inspect(end=101)
    watched.wait(FLUSH_S)
    assert watched.rested == 6
    watched.inspect(position=100)
    watched.inspect()
    assert watched.rested == 7


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([{"position": 50}], {"position": 99}),
        ([{"end": 150}], {"end": 100}),
        ([{}], {"start": 20}),
        ([{"position": 50}], {}),
    ],
    ids=["a position that came back", "an end that fell", "retention", "a position that went back"],
)
def test_what_is_otherwise_than_at_the_last_poll_does_not_rest(before, now):
    watched = Watched(99, end=100)
    for change in before:
        watched.inspect(**change)
    rested = watched.rested
    watched.inspect(**now)
    assert watched.rested == rested
