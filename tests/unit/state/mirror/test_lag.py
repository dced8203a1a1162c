"""The age of lag: single records, and moments at which the log end was seen."""

from __future__ import annotations

import pytest

from offsetwatch.model.observations import FirstRecord, LogBounds, NoRecordBefore, ProbeResult
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.mirror import lag
from offsetwatch.state.mirror.lag import (
    AGE_RATIO_MAX,
    ENDS_MAX,
    LOG_ENDS,
    NO_LATENESS,
    RECHECK_S,
    RECORD,
    UNKNOWN_LATENESS,
    Lag,
    OldestRecordAges,
    UnreadRange,
    compute_lag_seconds,
    compute_replication_lag,
    compute_sink_lag,
)
from tests.unit.state.worlds import NOW, SYNCS, World, mirror, mirrors, orders


@pytest.mark.parametrize(
    ("replicated", "log_end", "expected"),
    [
        pytest.param(99, 100, Lag(0, 0), id="caught-up"),
        pytest.param(98, 100, Lag(1, 0), id="one-behind"),
        pytest.param(0, 1, Lag(0, 0), id="the-first-record"),
        pytest.param(100, 100, Lag(0, 1), id="one-ahead"),
        pytest.param(4999, 0, Lag(0, 5000), id="upstream-re-created"),
    ],
)
def test_mm2_stores_the_last_record_so_one_before_the_end_is_no_lag(replicated, log_end, expected):
    assert compute_replication_lag(replicated, log_end) == expected


@pytest.mark.parametrize(("committed", "log_end", "expected"), [(100, 100, 0), (99, 100, 1)])
def test_a_sink_stores_the_next_record_so_its_end_is_no_lag(committed, log_end, expected):
    assert compute_sink_lag(committed, log_end) == expected


def test_the_lag_of_a_sink_beyond_the_end_is_unknown():
    assert compute_sink_lag(101, 100) is None


def test_the_age_of_the_oldest_that_waits_is_nothing_where_nothing_does():
    assert compute_lag_seconds(70.0, 100.0, caught_up=True) == 0.0
    assert [compute_lag_seconds(70.0, 100.0, caught_up=known) for known in (False, None)] == [
        30.0,
        30.0,
    ]
    assert compute_lag_seconds(130.0, 100.0, caught_up=None) == 0.0  # a record of the future
    assert [compute_lag_seconds(None, 100.0, caught_up=known) for known in (False, None)] == [
        None,
        None,
    ]


# --- oldest record age ---------------------------------------------------------------------------

ORDERS = TopicPartition("orders", 0)
WHO = ("lab", "mm2", ORDERS)
OTHER = ("lab", "mm2", TopicPartition("orders", 1))


def replicating(offset: int = 9, **settings) -> World:
    """A flow that has replicated up to this offset, and was asked for log ends just then."""
    world = mirrors(mirror(**settings))
    world.commit("mm2", orders(), {"offset": offset})
    world.ends(offset + 1)
    return world


def read_lag(world: World) -> tuple[bool | None, float | None, str | None]:
    view = world.mirrored()
    return (view.caught_up, view.behind_since, view.behind_from)


def test_without_lag_nothing_is_behind_and_nothing_is_to_be_read():
    world = replicating()
    assert read_lag(world) == (True, None, None)
    assert world.mirrored().probe_from is None


def test_until_a_record_is_read_the_lag_counts_from_when_the_log_end_was_last_at_the_position():
    world = replicating()
    observed_at = world.now = NOW + 5
    world.ends(10)
    world.now += 5
    world.ends(15)
    assert read_lag(world) == (None, observed_at, LOG_ENDS)
    assert world.mirrored().probe_from == 10


def test_a_record_that_was_read_counts_from_its_own_timestamp():
    world = replicating()
    world.now += 10
    world.ends(15)
    world.probed(10, FirstRecord(offset=12, at=NOW + 7))
    assert read_lag(world) == (False, NOW + 7, RECORD)
    assert world.mirrored().probe_from is None


def test_the_age_grows_with_the_clock_while_nothing_else_is_observed():
    world = replicating()
    world.now += 10
    world.ends(15)
    world.probed(10, FirstRecord(offset=10, at=NOW + 7))
    view = world.mirrored()
    ages = [
        compute_lag_seconds(view.behind_since, NOW + number, caught_up=view.caught_up)
        for number in (10, 130)
    ]
    assert ages == [3, 123]


def test_a_back_dated_record_counts_from_when_it_was_observed_not_to_be_there_yet():
    world = replicating()
    observed_at = world.now = NOW + 5
    world.ends(12)
    world.now += 5
    world.ends(15)
    world.probed(10, FirstRecord(offset=12, at=NOW - 86_400 * 365))
    assert read_lag(world) == (False, observed_at, RECORD)


def test_the_brokers_own_timestamp_counts_as_it_is():
    world = replicating()
    world.now += 10
    world.ends(15)
    world.probed(10, FirstRecord(offset=12, at=NOW - 50, appended=True))
    assert read_lag(world) == (False, NOW - 50, RECORD)


def test_a_record_of_the_future_has_age_0_and_is_still_waiting():
    world = replicating()
    world.now += 10
    world.ends(15)
    world.probed(10, FirstRecord(offset=10, at=NOW + 3600))
    view = world.mirrored()
    assert compute_lag_seconds(view.behind_since, world.now, caught_up=view.caught_up) == 0
    assert view.caught_up is False


def test_a_record_without_a_timestamp_counts_from_when_it_was_observed_not_to_be_there_yet():
    world = replicating()
    world.now += 10
    world.ends(15)
    world.probed(10, FirstRecord(offset=10, at=None))
    assert read_lag(world) == (False, NOW, LOG_ENDS)


def test_nothing_but_markers_before_the_end_is_caught_up_although_there_is_lag():
    world = replicating()
    world.ends(11)
    world.probed(10, NoRecordBefore(11))
    assert read_lag(world) == (True, None, None)
    assert world.mirrored().lag == 1


def test_after_nothing_was_found_only_what_is_new_is_to_be_read():
    world = replicating()
    world.ends(11)
    world.probed(10, NoRecordBefore(11))
    observed_at = world.now = NOW + 5
    world.ends(11)
    world.now += 5
    world.ends(13)
    assert read_lag(world) == (None, observed_at, LOG_ENDS)
    assert world.mirrored().probe_from == 11
    world.probed(11, NoRecordBefore(13))
    assert read_lag(world) == (True, None, None)
    world.ends(14)
    world.probed(13, FirstRecord(offset=13, at=NOW + 9))
    assert read_lag(world) == (False, NOW + 10, RECORD)


def test_a_read_that_comes_late_takes_nothing_back():
    world = replicating()
    world.ends(13)
    world.probed(10, NoRecordBefore(13))
    world.probed(10, NoRecordBefore(11))
    assert read_lag(world) == (True, None, None)


def test_an_answer_lasts_until_the_position_is_past_the_record():
    world = replicating()
    world.ends(15)
    world.probed(10, FirstRecord(offset=12, at=NOW))
    world.commit("mm2", orders(), {"offset": 11})
    world.ends(15)
    assert read_lag(world) == (False, NOW, RECORD)
    world.commit("mm2", orders(), {"offset": 12})
    world.ends(15)
    assert world.mirrored().caught_up is None
    assert world.mirrored().probe_from == 13


def test_a_record_that_compaction_took_while_it_waited_is_found_to_be_gone_after_a_while():
    world = replicating()
    world.ends(20)
    world.probed(10, FirstRecord(offset=12, at=NOW))
    world.now += RECHECK_S
    world.tail()
    world.tail(topic=SYNCS)
    world.ends(20)
    assert world.mirrored().probe_from is None
    world.now += 1
    world.ends(20)
    # Until that is known it counts on.
    assert read_lag(world) == (False, NOW, RECORD)
    assert world.mirrored().probe_from == 12
    world.probed(12, FirstRecord(offset=15, at=NOW + 9))
    assert read_lag(world) == (False, NOW + 9, RECORD)
    assert world.mirrored().probe_from is None
    world.now += RECHECK_S + 1
    world.tail()
    world.tail(topic=SYNCS)
    world.ends(20)
    world.probed(15, NoRecordBefore(20))
    assert read_lag(world) == (True, None, None)


def test_after_a_rewind_what_lies_before_the_old_position_is_not_known():
    world = replicating(99)
    world.ends(110)
    world.probed(100, FirstRecord(offset=100, at=NOW))
    world.commit("mm2", orders(), {"offset": 49})
    assert read_lag(world) == (None, None, None)
    assert world.mirrored().probe_from == 50


def test_what_retention_took_is_not_waited_for():
    world = replicating()
    world.ends({ORDERS: LogBounds(0, 100, 100)})
    world.probed(10, FirstRecord(offset=10, at=NOW))
    world.ends({ORDERS: LogBounds(40, 100, 100)})
    assert world.mirrored().caught_up is None
    assert world.mirrored().probe_from == 40
    world.probed(40, FirstRecord(offset=40, at=NOW + 1))
    assert read_lag(world) == (False, NOW + 1, RECORD)


@pytest.mark.parametrize("bounds", [(0, 90), (0, 14)], ids=["longer", "shorter"])
def test_of_a_log_that_is_another_one_nothing_old_is_believed(bounds):
    """Its end fell, or its start did."""
    world = replicating()
    world.ends({ORDERS: LogBounds(5, 15, 15)})
    world.probed(10, FirstRecord(offset=10, at=NOW))
    requested_at = world.now
    world.now += 5
    start, end = bounds
    world.ends({ORDERS: LogBounds(start, end, end)})
    assert world.mirrored().caught_up is None
    # A read that began before that was seen may still be of the old one.
    world.probed(10, FirstRecord(offset=11, at=NOW), requested_at=requested_at)
    assert world.mirrored().caught_up is None
    world.probed(10, FirstRecord(offset=11, at=NOW), requested_at=world.now + 1)
    assert world.mirrored().caught_up is False


def test_a_position_beyond_the_end_is_not_called_caught_up():
    world = replicating(99)
    world.ends(40)
    assert read_lag(world) == (None, None, None)


def test_where_nothing_was_replicated_yet_the_whole_log_waits():
    world = mirrors()
    world.assigned(0)
    world.ends({ORDERS: LogBounds(3, 8, 8)})
    assert world.mirrored().probe_from == 3
    world.probed(3, FirstRecord(offset=4, at=NOW - 7))
    assert read_lag(world) == (False, NOW - 7, RECORD)


def test_where_a_flow_begins_elsewhere_without_an_offset_nothing_is_known():
    world = mirrors(mirror(from_start=False))
    world.assigned(0)
    world.ends({ORDERS: LogBounds(3, 8, 8)})
    assert read_lag(world) == (None, None, None)
    assert world.mirrored().probe_from is None


def test_a_reader_of_committed_records_waits_for_no_open_transaction():
    world = replicating(read_committed=True)
    world.ends({ORDERS: LogBounds(0, 50, 10)})
    assert read_lag(world) == (True, None, None)


def test_an_answer_for_another_isolation_level_is_not_believed():
    world = replicating()
    world.ends({ORDERS: LogBounds(0, 15, 15)})
    world.probed(10, FirstRecord(offset=10, at=NOW))
    world.listed(mirror(read_committed=True))
    world.ends({ORDERS: LogBounds(0, 15, 15)})
    assert world.mirrored().caught_up is None


def test_without_live_ends_nothing_is_known_and_nothing_is_to_be_read():
    world = replicating()
    world.ends(15)
    world.now += 300
    world.tail()
    world.tail(topic=SYNCS)
    assert read_lag(world) == (None, None, None)
    assert world.mirrored().probe_from is None


# --- the samples by themselves -------------------------------------------------------------------


def saw(ages: OldestRecordAges, end: int, moment: float, *, following: int = 0) -> None:
    observed = UnreadRange(following=following, start=0, end=end)
    ages.apply_bounds("west", [(WHO, observed)], at=moment, now=moment)


def since(ages: OldestRecordAges, following: int, end: int) -> float | None:
    return ages.compute_lateness(
        "west", WHO, UnreadRange(following=following, start=0, end=end)
    ).since


def test_a_clock_that_is_set_back_takes_what_was_observed_in_the_future_with_it():
    ages = OldestRecordAges()
    saw(ages, 10, NOW + 3600)
    saw(ages, 20, NOW)
    assert since(ages, 10, 20) is None
    assert since(ages, 19, 21) is None
    assert since(ages, 20, 21) == NOW


def test_a_long_standstill_keeps_few_samples_and_stays_on_the_safe_side():
    ages = OldestRecordAges()
    for step in range(20_000):
        saw(ages, 10 + step, NOW + step, following=10)
        (age,) = ages._groups["west"].ages.values()
        assert len(age.ends) <= ENDS_MAX
    assert since(ages, 10, 99_999) == NOW
    for offset in (11, 500, 5000, 19_000, 19_990, 20_009):
        exact, known = NOW + offset - 10, since(ages, offset, 99_999)
        assert known <= exact
        assert NOW + 20_000 - known <= AGE_RATIO_MAX * (NOW + 20_000 - exact) + 1


@pytest.mark.parametrize(
    ("observed", "retained"),
    [
        ((0, 1, 2, 3, 4), [0, 2, 3, 4]),
        ((0, 8, 12, 14, 15), [0, 8, 12, 15]),  # none is near enough: then the oldest stay
        ((0, 1, 2, 3), [0, 1, 2, 3]),
    ],
)
def test_beyond_the_limit_samples_with_the_nearest_neighbours_are_dropped(
    observed, retained, monkeypatch
):
    monkeypatch.setattr(lag, "ENDS_MAX", 4)
    ages = OldestRecordAges()
    for moment in observed:
        saw(ages, 10 + moment, NOW + moment)
    (age,) = ages._groups["west"].ages.values()
    assert [when - NOW for _, when in age.ends] == retained


def test_an_end_that_stands_is_one_sample():
    ages = OldestRecordAges()
    for moment in range(4):
        saw(ages, 10, NOW + moment, following=5)
    (age,) = ages._groups["west"].ages.values()
    assert len(age.ends) == 1


def test_who_is_no_longer_among_the_followers_is_forgotten():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    ages.apply_bounds("west", [], at=NOW + 1, now=NOW + 1)
    assert ages._groups["west"].ages == {}
    ages.apply_probes([], NOW)


def test_a_log_that_could_not_be_requested_once_keeps_what_is_known():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    ages.apply_bounds("west", [(WHO, None)], at=NOW + 1, now=NOW + 1)
    assert since(ages, 10, 20) == NOW


def test_a_log_that_cannot_be_requested_is_not_taken_to_be_where_it_stood():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    for later in (1, 2, 3):
        ages.apply_bounds("west", [(WHO, None)], at=NOW + later, now=NOW + later)
    assert since(ages, 10, 20) == NOW


def test_of_what_a_follower_has_passed_only_the_newest_end_is_retained():
    ages = OldestRecordAges()
    for step in range(4):
        saw(ages, 10 + step, NOW + step, following=10 + step)
    (age,) = ages._groups["west"].ages.values()
    assert age.ends == [(13, NOW + 3)]


def test_an_answer_counts_though_its_follower_could_not_be_requested_at_first():
    ages = OldestRecordAges()
    ages.apply_bounds("west", [(WHO, None)], at=NOW, now=NOW)
    saw(ages, 20, NOW + 2)
    assert ages.apply_probes([answer(10, 12)], NOW + 1) == [WHO]


def test_lateness_without_bounds_is_unknown_only_where_records_are_unread():
    ages = OldestRecordAges()
    for _ in range(2):
        assert ages.compute_lateness("west", WHO, UnreadRange(10, 0, 20)) == UNKNOWN_LATENESS
        assert ages.compute_lateness("west", WHO, UnreadRange(20, 0, 20)) == NO_LATENESS
        ages.apply_bounds("west", [(OTHER, UnreadRange(10, 0, 20))], at=NOW, now=NOW)


# --- the answers by themselves -------------------------------------------------------------------


def answer(start: int, offset: int, moment: float = NOW) -> ProbeResult:
    return ProbeResult(WHO, start, FirstRecord(offset, moment))


def waits(ages: OldestRecordAges, following: int) -> tuple[bool | None, float | None]:
    lateness = ages.compute_lateness("west", WHO, UnreadRange(following, 0, 99))
    return (lateness.caught_up, lateness.since)


def build_ages() -> OldestRecordAges:
    """Asked ten seconds ago, while the log ended where it began."""
    ages = OldestRecordAges()
    saw(ages, 0, NOW - 10)
    saw(ages, 99, NOW)
    return ages


def test_an_answer_that_begins_earlier_says_something_new():
    ages = build_ages()
    assert ages.apply_probes([answer(10, 12)], NOW) == [WHO]
    assert ages.apply_probes([answer(5, 6, NOW - 1)], NOW) == [WHO]
    assert waits(ages, 5) == (False, NOW - 1)


def test_an_answer_from_beyond_the_last_one_says_nothing_of_what_lies_between():
    ages = build_ages()
    ages.apply_probes([answer(10, 12)], NOW)
    ages.apply_probes([ProbeResult(WHO, 20, NoRecordBefore(30))], NOW)
    assert waits(ages, 15)[0] is None


def test_an_answer_that_reaches_less_far_is_no_news():
    ages = build_ages()
    ages.apply_probes([answer(10, 12)], NOW)
    assert ages.apply_probes([answer(10, 11)], NOW) == []
    assert ages.apply_probes([answer(10, 12)], NOW) == [WHO]  # looked at again: it still stands


def test_what_was_read_of_a_log_before_it_was_cut_is_no_news():
    ages = build_ages()
    saw(ages, 50, NOW + 5)
    assert ages.apply_probes([answer(10, 12)], NOW + 5) == []
    assert ages.apply_probes([answer(10, 12)], NOW + 6) == [WHO]


def test_an_answer_for_an_unknown_member_is_no_news():
    ages = build_ages()
    assert ages.apply_probes([ProbeResult(OTHER, 10, NoRecordBefore(20))], NOW) == []


# --- all but a few as the last time --------------------------------------------------------------


def apply_changed_bounds(ages: OldestRecordAges, at: float, *changed: tuple) -> bool:
    return ages.apply_changed_bounds("west", changed, at=at, now=at)


def test_what_is_not_reported_again_stood_where_it_stood():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    assert apply_changed_bounds(ages, NOW + 7)
    assert since(ages, 10, 20) == NOW + 7


def test_of_what_is_reported_again_the_last_time_counts_up_to_then():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    assert apply_changed_bounds(ages, NOW + 5)
    assert apply_changed_bounds(ages, NOW + 7, (WHO, UnreadRange(0, 0, 20)))
    assert (since(ages, 10, 30), since(ages, 20, 30)) == (NOW + 5, NOW + 7)
    assert apply_changed_bounds(ages, NOW + 9, (WHO, None))
    assert since(ages, 20, 30) == NOW + 7


def test_where_the_clock_was_set_back_or_nothing_was_reported_all_has_to_be():
    ages = OldestRecordAges()
    assert not apply_changed_bounds(ages, NOW)
    saw(ages, 10, NOW)
    assert apply_changed_bounds(ages, NOW)
    assert not apply_changed_bounds(ages, NOW - 1)
    assert since(ages, 10, 20) == NOW


# --- other logs ----------------------------------------------------------------------------------


def test_a_topic_of_another_id_takes_its_samples_and_answers_with_it():
    ages = OldestRecordAges()
    ages.identify("west", {"orders": "first"}, NOW)
    saw(ages, 10, NOW)
    ages.identify("west", {"orders": None, "payments": "other"}, NOW + 1)
    ages.identify("west", {"orders": "first"}, NOW + 1)
    assert since(ages, 10, 20) == NOW
    ages.identify("west", {"orders": "second"}, NOW + 1)
    assert since(ages, 10, 20) is None


def test_ids_of_topics_that_are_no_longer_followed_do_not_accumulate():
    ages = OldestRecordAges()
    saw(ages, 10, NOW)
    ages.identify("west", {"orders": "first"}, NOW)
    for number in range(100):
        ages.identify("west", {f"t{number}-{index}": "id" for index in range(5)}, NOW)
    assert len(ages._ids["west"]) <= 3 * (1 + 5)
    ages.identify("west", {"orders": "second"}, NOW + 1)
    assert since(ages, 10, 20) is None


def test_of_a_topic_that_was_recreated_and_has_outgrown_the_position_nothing_old_is_reported():
    world = replicating()
    bounds = {ORDERS: LogBounds(0, 15, 15)}
    world.ends(bounds, ids={"orders": "first"})
    world.probed(10, FirstRecord(offset=10, at=NOW))
    world.now += 5
    world.ends({ORDERS: LogBounds(0, 99, 99)}, ids={"orders": "second"})
    assert world.mirrored().caught_up is None
    assert world.mirrored().behind_since is None
