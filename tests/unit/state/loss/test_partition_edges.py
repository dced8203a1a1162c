"""Where two rules of an account meet, or what is told and what was seen differ in time."""

from __future__ import annotations

from offsetwatch.state.loss.accounting import ALTERED, RECREATED, RETENTION
from offsetwatch.state.mirror.offset_syncs import SyncsSinceLastPoll
from tests.unit.state.loss.test_partition import Watched, steady, synced

# --- retention, and what was not decided yet -----------------------------------------------------


def test_a_jump_that_waits_for_its_sync_is_no_edit_when_the_connector_is_stopped():
    watched = Watched(99)
    watched.look(position=320, start=150, news=synced(99))
    watched.look(quiet=True, news=SyncsSinceLastPoll(newest=99))
    result = watched.look(quiet=False, news=synced(340, (100, 149)))
    assert result == [(RETENTION, 100, 149)]


# --- a topic that is another one -----------------------------------------------------------------


def test_what_was_committed_of_the_old_topic_is_not_lost_with_it_though_a_sync_was_waited_for():
    watched = Watched(99)
    watched.look(position=320, start=150, news=synced(99))
    watched.look(renewed=True, position=5, start=0, end=10)
    assert watched.lost == [(RECREATED, 321, 999)]


def test_what_the_syncs_told_of_a_topic_made_anew_is_taken_in_look_by_look():
    watched = Watched(899)
    watched.look(renewed=True, end=0)
    watched.look()
    assert not watched.account.waits


def test_a_sync_of_the_old_topic_that_comes_with_the_new_one_hides_nothing_of_that():
    watched = Watched(899, end=900)
    watched.look(runs=True)
    watched.look(renewed=True, end=0, news=synced(899))
    watched.wait()
    watched.look(position=4, end=50)
    watched.look(start=20)
    watched.wait()
    assert watched.lost == [(RETENTION, 5, 19)]


def test_a_log_start_at_the_heels_of_a_topic_that_is_copied_anew_leaves_nothing_open():
    watched = Watched(999)
    watched.look(renewed=True, end=10)
    watched.wait()
    watched.look(position=9, start=10, end=20, news=SyncsSinceLastPoll(newest=9, came=True))
    assert not watched.account.waits


def test_a_commit_of_the_old_topic_that_comes_too_late_is_a_position_in_the_new_one():
    watched = Watched(899)
    watched.look(renewed=True, end=3000)
    watched.wait(50)
    assert watched.look(position=950) == [(RECREATED, 0, 899), (RECREATED, 900, 999)]


def test_what_moves_after_the_connector_was_stopped_is_no_last_commit():
    watched = Watched(899)
    watched.look(renewed=True, end=3000)
    assert watched.look(position=950, quiet=True) == [(RECREATED, 900, 999)]


def test_what_retention_took_beyond_what_was_skipped_is_counted_once():
    watched = Watched(999)
    watched.look(renewed=True, end=3000)
    watched.look(position=2999, start=1500, news=synced(2999, (900, 1100)))
    assert watched.lost == [(RECREATED, 0, 1100)]


# --- edits ---------------------------------------------------------------------------------------


def test_what_retention_takes_of_a_position_that_was_taken_back_is_lost():
    watched = Watched(99)
    watched.look(quiet=True)
    watched.look(position=499, quiet=True)
    watched.look(position=99, quiet=True)
    assert watched.look(start=150, quiet=True) == [(RETENTION, 100, 149)]


def test_what_was_passed_over_by_an_edit_and_then_by_retention_is_told_of_both():
    watched = steady(100)
    watched.look(quiet=True)
    watched.look(position=5000, quiet=True)
    assert watched.look(position=10**6, start=900_000, quiet=False) == [
        (ALTERED, 1201, 5000),
        (RETENTION, 5001, 899_999),
    ]


def test_a_position_moved_to_the_end_of_a_log_that_grew_over_it_has_passed_over_nothing_yet():
    watched = Watched(99)
    watched.look(position=4999)
    assert watched.look(position=6000, end=6000) == []
    watched.look(position=99)
    watched.wait(600)
    assert watched.lost == []


def test_a_sync_of_a_record_that_is_not_in_the_log_yet_ends_no_edit():
    """Syncs are read after the log ends."""
    watched = Watched(99, end=100)
    watched.look(position=100)
    watched.look(news=SyncsSinceLastPoll(newest=100, came=True, lowest=0))
    watched.look(position=101, end=103)
    watched.wait(600)
    assert watched.lost == []


# --- headroom ------------------------------------------------------------------------------------


def test_the_log_start_of_the_old_topic_is_no_jump_that_the_new_one_goes_on_from():
    watched = Watched(5000, end=10**6)
    watched.look(start=1000)
    watched.look(renewed=True, start=0, position=4000)
    watched.wait()
    watched.look(start=2000)
    assert watched.account.headroom_s is None


def test_where_an_edit_put_a_position_nobody_knows_when_retention_arrives():
    watched = Watched(5000, end=10**6)
    watched.wait()
    watched.look(start=1000)
    watched.wait(90)
    watched.look(start=2000, quiet=True)
    assert watched.account.headroom_s is not None
    watched.look(position=6000)
    assert watched.account.headroom_s is None
