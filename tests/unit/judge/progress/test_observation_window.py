"""What a window makes of what is seen, in seconds of watching."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.progress.observation_window import (
    MARKS_MAX,
    ObservationWindow,
    Sample,
    Stopwatch,
)
from offsetwatch.judge.settings import JudgeSettings

RHYTHM = JudgeSettings(interval_s=60.0)
AT = 1_800_000_000.0


def copied(position: int, end: int, w: float, **changes) -> Sample:
    """A mirrored partition that is at `position`, `w` seconds later, with what is left readable."""
    lag = max(0, end - position - 1)
    fields = {
        "at": AT + w,
        "text": f'{{"offset":{position}}}',
        "position": position,
        "best": position,
        "commits": 0,
        "end": end,
        "lag": lag,
        "caught_up": lag == 0,
    }
    return Sample(**{**fields, **changes})


def build_window(*samples: tuple[int, int], every_s: float = 60.0, **changes) -> ObservationWindow:
    """Positions and log ends, one interval apart."""
    window = ObservationWindow.opened(copied(*samples[0], 0.0, **changes), 0.0)
    for number, (position, end) in enumerate(samples[1:], start=1):
        w = number * every_s
        window.take(copied(position, end, w, **changes), w, RHYTHM)
    return window


def test_a_move_counts_from_its_commit_as_far_as_that_lies_between_two_polls():
    window = ObservationWindow.opened(copied(1, 9, 0.0), 0.0)
    window.take(copied(2, 9, 60.0, changed_at=AT + 45.0), 60.0, RHYTHM)
    assert (window.moved_w, window.still_w, window.waiting_w) == (45.0, 45.0, 60.0)
    window.take(copied(3, 9, 120.0, changed_at=AT + 45.0), 120.0, RHYTHM)
    assert window.moved_w == 60.0  # a broker's clock cannot move it before the last look
    window.take(copied(4, 9, 180.0, changed_at=AT + 9999.0), 180.0, RHYTHM)
    assert window.moved_w == 180.0


def test_work_waits_since_the_oldest_record_that_waits():
    window = ObservationWindow.opened(copied(4, 5, 0.0), 0.0)
    assert window.waiting_w is None
    window.take(copied(4, 9, 60.0, behind_since=AT + 10.0), 60.0, RHYTHM)
    assert (window.waiting_w, window.sure) == (10.0, True)
    window.take(copied(8, 9, 120.0), 120.0, RHYTHM)
    assert (window.waiting_w, window.sure) == (None, False)


def test_what_may_be_markers_is_sure_once_the_log_end_moved_in_three_intervals():
    window = build_window((4, 5), (4, 6), (4, 6), (4, 6), caught_up=None)
    assert (window.waiting_w, window.sure) == (60.0, False)
    window = build_window((4, 5), (4, 6), (4, 7), (4, 8), caught_up=None)
    assert window.sure


def test_looks_closer_than_an_interval_do_not_count_a_log_end_more_often():
    window = build_window(*((4, 5 + n) for n in range(10)), every_s=5.0, caught_up=None)
    assert not window.sure


def test_time_without_polls_is_left_out():
    window = build_window((4, 9), (4, 10), (4, 11))
    before = (120.0 - window.still_w, 120.0 - window.waiting_w)
    window.take(copied(4, 12, 7200.0), 7200.0, RHYTHM)
    after = (7200.0 - window.still_w, 7200.0 - window.waiting_w)
    assert after == pytest.approx(tuple(moment + 60.0 for moment in before))


def test_a_step_back_is_behind_until_it_is_made_good_or_nothing_is_left():
    window = build_window((500, 900), (100, 900), (400, 900))
    assert (window.behind, window.high) == (True, 500)
    window.take(copied(500, 900, 240.0), 240.0, RHYTHM)
    assert not window.behind
    window = build_window(
        (500, 900), (100, 900), (399, 400)
    )  # the topic is another one, and shorter
    assert (window.behind, window.high) == (False, 399)


def test_a_position_that_is_gone_is_behind_all_others():
    window = build_window((500, 900))
    gone = copied(0, 900, 60.0)._replace(position=None, best=None, text=None)
    window.take(gone, 60.0, RHYTHM)
    assert window.behind


def test_what_is_newer_than_the_commit_is_progress_and_its_end_no_step_back():
    """After a restart a worker goes on from its last commit, behind what syncs have shown."""
    window = build_window((500, 900))
    window.take(copied(500, 900, 60.0, best=600), 60.0, RHYTHM)
    assert window.moved_w == 60.0
    window.take(copied(510, 900, 120.0), 120.0, RHYTHM)
    assert not window.behind


def rows(number: int, w: float, *, commits: int = 0) -> Sample:
    text = f'{{"incrementing":{number}}}'
    offset = decode_value(text.encode())
    return Sample(
        at=AT + w, text=text, dialect="jdbc", offset=offset, commits=commits, changed_at=AT + w
    )


def test_a_source_goes_back_as_far_as_its_dialect_knows_an_order():
    window = ObservationWindow.opened(rows(500, 0.0), 0.0)
    for w, (number, lag) in enumerate(((100, True), (400, True), (500, False)), start=1):
        window.take(rows(number, w * 60.0), w * 60.0, RHYTHM)
        assert window.behind is lag
    window.take(rows(1, 240.0)._replace(dialect="generic"), 240.0, RHYTHM)
    assert not window.behind


def test_a_number_orders_no_source_and_an_offset_no_log():
    window = build_window((500, 900), (600, 900))
    window.take(rows(650, 120.0)._replace(dialect="unknown"), 120.0, RHYTHM)
    assert not window.behind
    window = ObservationWindow.opened(rows(500, 0.0), 0.0)
    window.take(rows(100, 60.0), 60.0, RHYTHM)
    assert window.behind
    window.take(copied(100, 900, 120.0), 120.0, RHYTHM)
    assert not window.behind


def test_commits_of_one_offset_are_counted_until_it_moves():
    window = ObservationWindow.opened(rows(1, 0.0, commits=7), 0.0)
    window.take(rows(1, 60.0, commits=9), 60.0, RHYTHM)
    assert (window.repeats, window.repeated_w) == (2, 60.0)
    window.take(rows(2, 120.0, commits=10), 120.0, RHYTHM)
    assert (window.repeats, window.repeated_w) == (0, None)


def test_after_a_restart_the_first_count_is_only_where_to_count_from():
    window = ObservationWindow.opened(rows(1, 0.0, commits=7), 0.0)
    window.commits = None
    window.take(rows(1, 60.0, commits=900), 60.0, RHYTHM)
    assert window.repeats == 0


def growing(*lags: int, arrived: int = 100) -> ObservationWindow:
    ends = [1000 + arrived * n for n in range(len(lags))]
    return build_window(*((end - lag - 1, end) for end, lag in zip(ends, lags, strict=True)))


@pytest.mark.parametrize(
    ("lags", "slow"),
    [
        pytest.param(tuple(range(50, 50 + 12 * 40, 40)), True, id="falls behind steadily"),
        pytest.param(tuple(range(50, 50 + 12 * 5, 5)), False, id="within one flush's traffic"),
        pytest.param((50,) * 11 + (400,), False, id="a single pause"),
        pytest.param((50,) * 6 + (200, 250, 300, 350, 400, 450), False, id="of late only"),
        pytest.param((900, 700, 500, 300, 200, 100, 90, 80, 70, 60, 50, 40), False, id="gains"),
        pytest.param(tuple(range(50, 50 + 8 * 40, 40)), False, id="not a whole window"),
    ],
)
def test_it_falls_behind_if_what_is_left_grew_steadily_over_the_whole_window(lags, slow):
    assert growing(*lags).falls_behind(RHYTHM) is slow


def test_what_stood_still_all_the_time_does_not_fall_behind_as_it_moves_again():
    window = build_window(*((4, 1000 + 100 * n) for n in range(12)))
    window.take(copied(2000, 2200, 720.0), 720.0, RHYTHM)
    assert not window.falls_behind(RHYTHM)


def test_a_restart_of_its_connector_gives_patience_once():
    window = build_window((4, 9), (4, 9))
    window.grace(50.0)
    assert window.still_w == 50.0
    window.grace(55.0)
    assert window.still_w == 50.0
    window.take(copied(5, 9, 120.0), 120.0, RHYTHM)
    window.grace(130.0)
    assert window.still_w == 130.0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30))
def test_a_window_is_bounded_and_comes_back_from_disk_as_it_was(steps):
    position, end, samples = 0, 1, []
    for moved, arrived in steps:
        position, end = position + moved, end + moved + arrived
        samples.append((position, end))
    window = build_window(*samples)
    assert len(window.samples) <= RHYTHM.window + 1
    assert len(window.moves) <= 2 * RHYTHM.window
    assert msgspec.json.decode(msgspec.json.encode(window), type=ObservationWindow) == window


# --- to the second, and one by one ----------------------------------------------------------------


def test_the_first_poll_knows_where_it_is_and_what_waits():
    window = ObservationWindow.opened(copied(4, 9, 0.0, behind_since=AT - 500.0), 0.0)
    assert (window.high, window.waiting_w, window.sure) == (4, 0.0, True)
    window.take(copied(4, 9, 60.0), 60.0, RHYTHM)
    assert (window.moved_w, window.end_w) == (None, 0.0)


def test_what_waits_waits_at_most_since_the_poll_or_the_move_before():
    window = ObservationWindow.opened(copied(8, 9, 0.0), 0.0)
    window.take(copied(8, 9, 60.0), 60.0, RHYTHM)
    window.take(copied(8, 12, 120.0, behind_since=AT + 10.0), 120.0, RHYTHM)
    assert window.waiting_w == 60.0
    window.take(copied(9, 13, 180.0, changed_at=AT + 150.0, behind_since=AT + 10.0), 180.0, RHYTHM)
    assert (window.still_w, window.waiting_w) == (150.0, 150.0)


def test_a_poll_of_one_and_a_half_intervals_ago_is_no_absence_and_one_of_a_second_more_is():
    retained = build_window((4, 9), (4, 10))
    retained.take(copied(4, 10, 150.0), 150.0, RHYTHM)
    assert (retained.first_w, retained.waiting_w, len(retained.samples)) == (0.0, 0.0, 2)
    away = build_window((4, 9), (4, 10))
    away.take(copied(4, 10, 150.5), 150.5, RHYTHM)
    assert (away.first_w, away.waiting_w, len(away.samples)) == (30.5, 30.5, 1)


def test_every_timed_field_is_put_off_by_the_time_without_polls():
    window = ObservationWindow(
        first_w=10.0,
        last_w=300.0,
        still_w=120.0,
        text='{"offset":4}',
        best=4,
        high=4,
        position=4,
        commits=0,
        moved_w=120.0,
        waiting_w=150.0,
        end=9,
        end_w=180.0,
        ends_moved=2,
        counted_w=190.0,
        repeats=1,
        repeated_w=200.0,
        moves=(60.0, 120.0),
        samples=((240.0, 9, 4), (300.0, 9, 4)),
    )
    window.take(copied(4, 9, 1360.0), 1360.0, RHYTHM)  # a thousand more than an interval
    assert (window.first_w, window.last_w, window.still_w) == (1010.0, 1360.0, 1120.0)
    assert (window.moved_w, window.waiting_w, window.repeated_w) == (1120.0, 1150.0, 1200.0)
    assert (window.end_w, window.counted_w) == (1180.0, 1190.0)
    assert window.moves == (1060.0, 1120.0)
    assert window.samples == ((1360.0, 9, 4),)


def test_after_an_absence_it_moved_no_earlier_than_the_last_poll_in_watching():
    window = build_window((4, 9), (4, 9))
    window.take(copied(5, 9, 1120.0, changed_at=AT + 70.0), 1120.0, RHYTHM)
    assert window.moved_w == pytest.approx(1060.0)


def test_of_what_rests_nothing_is_expected_and_nothing_held_against_it():
    window = build_window((4, 9), (4, 10), (4, 11), (4, 12))
    window.grace(100.0)
    assert (window.sure, window.graced, window.ends_moved) == (True, True, 3)
    window.rest(200.0)
    assert (window.still_w, window.waiting_w, window.samples) == (200.0, None, ())
    assert (window.sure, window.graced, window.ends_moved) == (False, False, 0)


def test_a_poll_that_is_passed_by_is_no_absence_and_leaves_no_hole_in_the_samples():
    window = build_window((4, 9), (4, 9))
    window.pass_by(120.0, RHYTHM)
    assert (window.last_w, window.samples) == (120.0, ((60.0, 9, 4), (120.0, 9, 4)))
    window.take(copied(4, 9, 180.0), 180.0, RHYTHM)
    assert window.first_w == 0.0
    assert [sample[0] for sample in window.samples] == [60.0, 120.0, 180.0]


def test_of_what_was_not_observed_for_a_while_before_it_is_passed_by_growth_says_nothing():
    for later, samples in ((150.0, 2), (151.0, 0)):
        window = build_window((4, 9), (4, 9))
        window.pass_by(later, RHYTHM)
        assert (window.last_w, len(window.samples)) == (later, samples)


def test_of_what_has_no_lag_none_is_sampled():
    window = build_window((4, 9), (4, 9))
    window.lag = None
    window.pass_by(120.0, RHYTHM)
    assert window.samples == ()


def test_what_never_moved_is_passed_by_at_no_cost_and_what_comes_to_rest_is_in_the_end():
    window = build_window((4, 9))
    window.pass_by(60.0, RHYTHM)
    assert window.samples == ()
    window = build_window((4, 9), (5, 9))
    for number in range(2, 11):
        window.pass_by(60.0 * number, RHYTHM)
        assert len(window.samples) == number
    window.pass_by(660.0, RHYTHM)
    assert window.samples == ()


def test_a_restart_at_the_moment_of_a_move_leaves_its_grace_for_later():
    window = build_window((4, 9), (5, 9))
    window.grace(60.0)
    window.grace(90.0)
    assert window.still_w == 90.0


def test_an_interval_is_the_longest_time_between_two_moves_of_the_window():
    window = build_window((1, 9), (2, 9))
    assert (window.move_interval_s, window.longest_s) == (0.0, 0.0)
    window = build_window((1, 9), (2, 9), (2, 9), (3, 9), (4, 9))
    assert window.moves == (60.0, 180.0, 240.0)
    assert (window.move_interval_s, window.longest_s) == (120.0, 120.0)


@pytest.mark.parametrize(("later_s", "rhythm_s"), [(0.0, 600.0), (1.0, 0.0)])
def test_a_move_is_of_the_window_for_ten_intervals(later_s, rhythm_s):
    window = build_window((1, 9), (2, 9), *[(2, 9)] * 9)
    w = 660.0 + later_s
    window.take(copied(3, 9, w), w, RHYTHM)
    assert (window.move_interval_s, window.longest_s) == (rhythm_s, w - 60.0)


def test_of_many_moves_two_an_interval_are_retained():
    window = build_window(*((n, 100) for n in range(25)), every_s=5.0)
    assert window.moves == tuple(5.0 * n for n in range(5, 25))


def test_a_log_end_counts_as_moved_again_when_it_moves_nearly_half_an_interval_later():
    three = ((4, 5), (4, 6), (4, 7), (4, 8))
    assert build_window(*three, every_s=27.0, caught_up=None).sure
    assert not build_window(*three, every_s=26.0, caught_up=None).sure
    assert not build_window(*three[:3], every_s=60.0, caught_up=None).sure


def test_what_arrived_with_a_move_is_no_evidence_that_something_waits():
    window = build_window((4, 5), (5, 9), (5, 10), (5, 11), caught_up=None)
    assert (window.ends_moved, window.sure, window.end_w) == (2, False, 180.0)
    window.take(copied(5, 12, 240.0, caught_up=None), 240.0, RHYTHM)
    assert window.sure


def test_a_log_end_that_was_not_read_has_neither_moved_nor_is_it_forgotten():
    window = build_window((4, 9), (4, 10))
    unread = {"end": None, "lag": None, "caught_up": None}
    window.take(copied(4, 0, 120.0)._replace(**unread), 120.0, RHYTHM)
    window.take(copied(4, 10, 180.0), 180.0, RHYTHM)
    assert (window.end_w, window.ends_moved) == (60.0, 1)
    assert [moment for moment, _, _ in window.samples] == [60.0, 180.0]


def test_what_a_probe_knew_of_is_not_sure_of_what_comes_after():
    window = build_window((4, 9))
    assert window.sure
    window.take(copied(4, 9, 60.0, caught_up=True), 60.0, RHYTHM)
    assert (window.waiting_w, window.sure) == (None, False)
    window.take(copied(4, 9, 120.0, caught_up=None), 120.0, RHYTHM)
    assert (window.waiting_w, window.sure) == (120.0, False)


def test_what_began_without_a_position_goes_back_as_well():
    nothing = copied(0, 900, 0.0)._replace(position=None, best=None, text=None)
    window = ObservationWindow.opened(nothing, 0.0)
    assert not window.behind
    window.take(copied(500, 900, 60.0), 60.0, RHYTHM)
    window.take(copied(100, 900, 120.0), 120.0, RHYTHM)
    assert (window.behind, window.high) == (True, 500)


def test_a_position_that_is_gone_of_a_log_of_which_nothing_is_left_is_not_behind():
    window = build_window((500, 900))
    gone = copied(0, 900, 60.0, caught_up=True)._replace(position=None, best=None, text=None)
    window.take(gone, 60.0, RHYTHM)
    assert (window.behind, window.high) == (False, None)


def test_the_first_offset_of_a_source_is_no_step_back():
    window = ObservationWindow.opened(rows(0, 0.0)._replace(text=None, offset=None), 0.0)
    window.take(rows(7, 60.0), 60.0, RHYTHM)
    assert not window.behind


def test_a_poll_without_a_commit_counts_none():
    window = ObservationWindow.opened(rows(1, 0.0, commits=7), 0.0)
    window.take(rows(1, 60.0, commits=7), 60.0, RHYTHM)
    assert (window.repeats, window.repeated_w) == (0, None)
    window.take(rows(1, 120.0, commits=8), 120.0, RHYTHM)
    window.take(rows(1, 180.0, commits=8), 180.0, RHYTHM)
    assert (window.repeats, window.repeated_w) == (1, 120.0)
    window.take(rows(1, 240.0, commits=2), 240.0, RHYTHM)  # counted anew
    assert (window.repeats, window.repeated_w) == (1, 120.0)


@pytest.mark.parametrize(("every_s", "count"), [(54.0, 6), (53.0, 3)])
def test_a_sample_is_taken_once_an_interval_give_or_take_a_tenth(every_s, count):
    window = build_window(*[(4, 9)] * 7, every_s=every_s)
    assert len(window.samples) == count


WRONG = 5000  # of the samples between the thirds, which do not count


def falling(
    *thirds: int,
    arrived: int = 100,
    burst: int = 0,
    moves: tuple[float, ...] = (0.0, 300.0, 600.0),
    lag: int | None = 1300,
) -> ObservationWindow:
    """What is left at the beginning, at each third of ten intervals and at their end; `lag` now."""
    lags = [WRONG] * 11
    lags[0], lags[3], lags[6], lags[10] = thirds
    ends = [10**6 + arrived * n + (burst if n > 4 else 0) for n in range(11)]
    samples = tuple((60.0 * n, ends[n], lags[n]) for n in range(11))
    return ObservationWindow(
        first_w=0.0, last_w=600.0, still_w=600.0, moves=moves, samples=samples, lag=lag
    )


STEADY = (100, 500, 900, 1300)


@pytest.mark.parametrize(
    ("window", "slow"),
    [
        pytest.param(falling(*STEADY), True, id="steadily"),
        pytest.param(falling(100, 300, 900, 1300), True, id="half its share in the first third"),
        pytest.param(falling(100, 299, 900, 1300), False, id="less than that"),
        pytest.param(falling(100, 900, 1100, 1300), True, id="just that in the last"),
        pytest.param(falling(100, 900, 1101, 1300), False, id="less than that in the last"),
        pytest.param(falling(*STEADY, arrived=1199), True, id="by more than comes at once"),
        pytest.param(falling(*STEADY, arrived=1200), False, id="by as much as comes at once"),
        pytest.param(falling(*STEADY, arrived=0, burst=1200), False, id="as came at once, once"),
        pytest.param(falling(*STEADY, lag=1299), False, id="and gains since"),
        pytest.param(falling(*STEADY, lag=1301), True, id="and loses since"),
        pytest.param(falling(*STEADY, lag=None), False, id="and is not known now"),
        pytest.param(falling(*STEADY, moves=(300.0, 600.0)), False, id="moved twice"),
        pytest.param(falling(*STEADY, moves=(-1.0, 300.0, 600.0)), False, id="thrice, once before"),
        pytest.param(falling(50, 50, 50, 50, arrived=-10), False, id="of a recreated log"),
    ],
)
def test_each_condition_of_falling_behind_is_one(window, slow):
    assert window.falls_behind(RHYTHM) is slow


def test_a_window_of_ten_intervals_has_eleven_samples():
    whole = falling(*STEADY)
    whole.samples = whole.samples[1:]
    assert not whole.falls_behind(RHYTHM)


def test_of_a_shorter_window_the_thirds_are_shorter():
    window = falling(*STEADY)
    lags = (100, WRONG, 500, WRONG, 900, WRONG, 1300)
    window.samples = tuple((60.0 * n, 10**6, lag) for n, lag in enumerate(lags))
    window.moves = (0.0, 120.0, 360.0)
    assert window.falls_behind(JudgeSettings(interval_s=60.0, window=6))


# --- watch time ----------------------------------------------------------------------------------

INTERVAL_S = 60.0
BEGAN = 1_800_000_000.0


def watching(*moments: float) -> Stopwatch:
    """Advance to these, in seconds since the beginning."""
    built = Stopwatch(INTERVAL_S)
    for moment in moments:
        built.advance(BEGAN + moment)
    return built


@pytest.mark.parametrize(
    ("moments", "watched"),
    [
        pytest.param((0,), 0.0, id="the first moment"),
        pytest.param((0, 30, 90), 90.0, id="no more than an interval apart"),
        pytest.param((0, 10, 7210), 70.0, id="a leap counts as an interval"),
        pytest.param((0, 10, -3590, -3580), 20.0, id="a step back counts as nothing"),
    ],
)
def test_what_is_counted_is_what_was_watched(moments, watched):
    assert watching(*moments).w == watched


@pytest.mark.parametrize(
    ("moments", "w", "moment"),
    [
        pytest.param((0, 30, 90), 40.0, 40.0, id="both run alike"),
        pytest.param((0, 10, 7210, 7220), 9.0, 9.0, id="before a leap"),
        pytest.param((0, 10, 7210, 7220), 75.0, 7215.0, id="after a leap"),
        pytest.param((0, 10, -3590, -3580), 9.0, 9.0, id="before a step back"),
        pytest.param((0, 10, -3590, -3580), 15.0, -3585.0, id="after a step back"),
        pytest.param((0,), -5.0, -5.0, id="before the first moment"),
    ],
)
def test_a_second_of_watching_has_one_moment(moments, w, moment):
    assert watching(*moments).clock(w) == BEGAN + moment


@pytest.mark.parametrize(
    ("after_s", "watched"), [(1.0, 11.0), (120.0, 70.0), (120.5, 10.0), (-5.0, 10.0)]
)
def test_a_restart_is_no_interruption_and_a_daemon_that_was_down_is(after_s, watched):
    before = watching(0, 10)
    after = Stopwatch(INTERVAL_S)
    after.recall(BEGAN + 10, before.w, before.marks)
    after.advance(BEGAN + 10 + after_s)
    assert after.w == watched
    assert after.clock(5.0) == BEGAN + 5


def test_what_was_remembered_without_marks_begins_where_it_ended():
    after = Stopwatch(INTERVAL_S)
    after.recall(BEGAN, 100.0, ())
    assert after.clock(90.0) == BEGAN - 10


def test_of_many_marks_the_newest_are_retained():
    built = watching(*(100.0 * number for number in range(MARKS_MAX + 10)))
    assert len(built.marks) == MARKS_MAX
    assert built.clock(built.w) == BEGAN + 100.0 * (MARKS_MAX + 9)
