"""Who went back together with others, and whom a person set back."""

from __future__ import annotations

from math import inf

import pytest

from offsetwatch.judge.findings.rewinds import (
    MANUAL_REWIND_INTERVALS,
    SharedRewind,
    find_pause_ends,
)
from offsetwatch.model.connectors import StateChange, StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.judge.test_input_visibility import FILES
from tests.unit.judge.watches import (
    BEGAN,
    INTERVAL_S,
    LOOK_S,
    MM2,
    Watch,
    counted,
    five,
    reset,
    watch,
)

# --- who went back together ----------------------------------------------------------------------


def test_what_went_back_before_we_looked_is_not_told():
    assert watch().falls.together == {}


def test_two_may_be_chance_and_three_within_an_interval_share_a_cause():
    observed = watch()
    assert observed.fall("c", "b").together == {}
    tracker = observed.fall("a", after_s=INTERVAL_S)
    assert tracker.together == {"lab": SharedRewind("lab", ("a", "b", "c"), observed.now)}
    observed = watch()
    observed.fall("c", "b")
    assert observed.fall("a", after_s=INTERVAL_S + 1).together == {}


def test_one_connector_that_goes_back_three_times_is_one():
    observed = watch()
    for _ in range(3):
        observed.fall("a")
    assert observed.falls.together == {}


def test_connectors_of_different_connect_clusters_do_not_share_a_worker():
    observed = watch(*five(), *five(cluster="other"))
    observed.fall("a", "b")
    observed.fall("a", cluster="other")
    assert observed.falls.together == {}
    observed.fall("b", "c", cluster="other")
    assert set(observed.falls.together) == {"other"}


def test_each_connect_cluster_is_told_with_the_time_of_its_own():
    observed = watch(*five(), *five(cluster="other"))
    observed.fall("a", "b", "c")
    first = observed.now
    observed.fall("a", "b", "c", cluster="other")
    assert {
        shared_rewind.connect_cluster: shared_rewind.at
        for shared_rewind in observed.falls.together.values()
    } == {
        "lab": first,
        "other": observed.now,
    }


def test_who_follows_within_an_interval_joins_those_who_went_back_before():
    observed = watch()
    observed.fall("a", "b", "c")
    observed.fall("d", "e", after_s=INTERVAL_S)
    assert observed.falls.together["lab"].connectors == ("a", "b", "c", "d", "e")
    observed.fall("a", after_s=INTERVAL_S)  # d and e are of an interval ago
    assert observed.falls.together["lab"] == SharedRewind(
        "lab", ("a", "b", "c", "d", "e"), observed.now
    )
    observed.look(after_s=INTERVAL_S + 1)
    observed.fall("c", "d", "e")
    assert observed.falls.together["lab"].connectors == ("c", "d", "e")


def test_a_fall_that_a_clock_set_back_puts_into_the_future_is_forgotten():
    observed = watch()
    observed.fall("a", "b")
    observed.look(after_s=-1.0)
    assert observed.fall("c").together == {}


def test_falls_are_counted_over_all_partitions_of_a_connector():
    one, other = counted("a", 5, label="0"), counted("a", 1, label="1")
    observed = watch(one, other, *five()[1:])
    observed.fall("b", "c")
    observed.look(
        source_partitions=(one, replace(other, rewinds=2), *observed.snapshot.source_partitions[2:])
    )
    assert observed.falls.together["lab"].connectors == ("a", "b", "c")


def test_a_partition_that_is_gone_makes_no_fall():
    gone = counted("a", 5, label="1")
    observed = watch(gone, *five())
    observed.fall("b", "c")
    observed.look(source_partitions=observed.snapshot.source_partitions[1:])
    assert observed.falls.together == {}
    observed.fall("a")  # and counts from what it is now
    assert observed.falls.together["lab"].connectors == ("a", "b", "c")


# --- what a person meant -------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("polls", [0, 1])
def test_what_went_back_since_a_rest_was_seen_a_person_may_have_written(polls, skew_s):
    """By whatever clock that rest ended, and others committed; a look later nobody meant it."""
    observed = watch()
    names = [("lab", name) for name in "abc"]
    observed.rests = dict.fromkeys(names, inf)
    observed.look()
    observed.rests = dict.fromkeys(names, observed.now + skew_s)
    for _ in range(2 * polls):
        observed.look()
    observed.fall("a", "b", "c")
    assert bool(observed.falls.meant) is not bool(polls)
    assert bool(observed.falls.together) is bool(polls)
    assert set(observed.falls.meant.values()) <= {observed.now}


def test_a_rest_that_began_and_ended_between_two_looks_was_one():
    observed = watch()
    observed.rests = {("lab", "a"): BEGAN - 900}
    observed.look()
    observed.look()
    observed.fall("a")
    assert observed.falls.meant == {}
    observed.rests = {("lab", "a"): BEGAN - 300}
    observed.fall("a")
    assert set(observed.falls.meant) == {("lab", "a")}


def test_a_rest_of_before_the_first_look_excuses_nothing():
    observed = Watch()
    observed.rests = {("lab", "a"): BEGAN + 600}
    observed.look(source_partitions=five())
    observed.fall("a")
    assert observed.falls.meant == {}


def test_a_person_is_waited_for_until_three_intervals_after_the_resume():
    observed = watch()
    observed.rests = {("lab", "a"): inf}
    observed.fall("a")
    observed.look(after_s=9 * INTERVAL_S)
    assert observed.falls.meant == {("lab", "a"): observed.now}
    observed.rests = {("lab", "a"): observed.now}
    observed.look(after_s=MANUAL_REWIND_INTERVALS * INTERVAL_S)
    assert set(observed.falls.meant) == {("lab", "a")}
    observed.look(after_s=1.0)
    assert observed.falls.meant == {}


def test_a_person_is_waited_for_while_it_is_rewound_and_others_who_rest_or_are_rewound_are_not():
    observed = watch()
    observed.rests = {("lab", "a"): observed.now + LOOK_S, ("lab", "b"): inf}
    judged = tuple(
        Judgement(Scope.CONNECTOR, "lab", name, "", Verdict.REWOUND, 6, "so it is", BEGAN)
        for name in "ac"
    )
    observed.fall("a", after_s=LOOK_S)
    observed.look(after_s=9 * INTERVAL_S, judgements=judged)
    assert observed.falls.meant == {("lab", "a"): observed.now}


def test_what_was_meant_in_a_future_that_a_clock_left_is_not():
    observed = watch()
    observed.rests = {("lab", "a"): observed.now + LOOK_S}
    observed.fall("a")
    observed.look(after_s=-1.0)
    assert observed.falls.meant == {}


@pytest.mark.parametrize(
    ("ago_s", "meant"), [pytest.param(59.0, True, id="less"), pytest.param(60.0, False, id="more")]
)
def test_a_reset_is_a_persons_if_its_connector_rested_less_than_an_interval_ago(ago_s, meant):
    observed = watch(counted("mm2"))
    observed.rests = {MM2: inf}
    observed.look()
    observed.rests = {MM2: BEGAN - 600}
    observed.look(after_s=0.0)
    observed.look(after_s=ago_s - LOOK_S)
    reset(observed)
    assert set(observed.falls.meant) == ({MM2} if meant else set())


def test_a_reset_that_was_seen_before_the_stop_that_allowed_it_is_a_persons_as_well():
    observed = watch(counted("mm2"))
    reset(observed)
    observed.rests = {MM2: inf}
    observed.look()
    assert set(observed.falls.meant) == {MM2}


def test_a_reset_is_a_persons_once_and_not_at_each_stop_that_follows():
    observed = watch(counted("mm2"))
    observed.rests = {MM2: inf}
    reset(observed)
    observed.rests = {MM2: observed.now}
    observed.look(after_s=9 * INTERVAL_S)
    observed.rests = {MM2: inf}
    assert observed.look().meant == {}


def test_resets_before_we_looked_are_nobodys():
    observed = watch(counted("mm2", resets=3))
    observed.rests = {MM2: inf}
    assert observed.look().meant == {}


# --- until when a person could alter offsets -----------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        (((1.0, "running"),), 0.0),
        (((1.0, "paused"), (2.0, "running")), 2.0),
        (((1.0, "paused"), (2.0, "running"), (5.0, "stopped"), (9.0, "running")), 9.0),
        (((1.0, "paused"), (2.0, "stopped"), (7.0, "running")), 7.0),
        (((1.0, "running"), (2.0, "stopped")), inf),
    ],
)
def test_a_person_could_alter_offsets_until_the_last_rest_ended(changes, until):
    reports = tuple(StateChange(at, state, None) for at, state in changes)
    histories = (
        StateHistory("lab", "files", None, reports),
        StateHistory("lab", "files", 0, reports),
    )
    assert find_pause_ends(replace(EMPTY_SNAPSHOT, histories=histories)) == {
        ("lab", "files"): until
    }


def test_who_rests_by_the_last_poll_and_says_nothing_rests_without_an_end():
    views = (replace(FILES, name="a", state="paused"), replace(FILES, name="b", state="stopped"))
    assert find_pause_ends(replace(EMPTY_SNAPSHOT, connectors=(*views, FILES))) == {
        ("lab", "a"): inf,
        ("lab", "b"): inf,
    }
