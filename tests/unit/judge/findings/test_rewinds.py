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
    seen = watch()
    assert seen.fall("c", "b").together == {}
    found = seen.fall("a", after_s=INTERVAL_S)
    assert found.together == {"lab": SharedRewind("lab", ("a", "b", "c"), seen.now)}
    seen = watch()
    seen.fall("c", "b")
    assert seen.fall("a", after_s=INTERVAL_S + 1).together == {}


def test_one_connector_that_goes_back_three_times_is_one():
    seen = watch()
    for _ in range(3):
        seen.fall("a")
    assert seen.falls.together == {}


def test_connectors_of_different_connect_clusters_do_not_share_a_worker():
    seen = watch(*five(), *five(cluster="other"))
    seen.fall("a", "b")
    seen.fall("a", cluster="other")
    assert seen.falls.together == {}
    seen.fall("b", "c", cluster="other")
    assert set(seen.falls.together) == {"other"}


def test_each_connect_cluster_is_told_with_the_time_of_its_own():
    seen = watch(*five(), *five(cluster="other"))
    seen.fall("a", "b", "c")
    first = seen.now
    seen.fall("a", "b", "c", cluster="other")
    assert {at.connect_cluster: at.at for at in seen.falls.together.values()} == {
        "lab": first,
        "other": seen.now,
    }


def test_who_follows_within_an_interval_joins_those_who_went_back_before():
    seen = watch()
    seen.fall("a", "b", "c")
    seen.fall("d", "e", after_s=INTERVAL_S)
    assert seen.falls.together["lab"].connectors == ("a", "b", "c", "d", "e")
    seen.fall("a", after_s=INTERVAL_S)  # d and e are of an interval ago
    assert seen.falls.together["lab"] == SharedRewind("lab", ("a", "b", "c", "d", "e"), seen.now)
    seen.look(after_s=INTERVAL_S + 1)
    seen.fall("c", "d", "e")
    assert seen.falls.together["lab"].connectors == ("c", "d", "e")


def test_a_fall_that_a_clock_set_back_puts_into_the_future_is_forgotten():
    seen = watch()
    seen.fall("a", "b")
    seen.look(after_s=-1.0)
    assert seen.fall("c").together == {}


def test_falls_are_counted_over_all_partitions_of_a_connector():
    one, other = counted("a", 5, label="0"), counted("a", 1, label="1")
    seen = watch(one, other, *five()[1:])
    seen.fall("b", "c")
    seen.look(
        source_partitions=(one, replace(other, rewinds=2), *seen.snapshot.source_partitions[2:])
    )
    assert seen.falls.together["lab"].connectors == ("a", "b", "c")


def test_a_partition_that_is_gone_makes_no_fall():
    gone = counted("a", 5, label="1")
    seen = watch(gone, *five())
    seen.fall("b", "c")
    seen.look(source_partitions=seen.snapshot.source_partitions[1:])
    assert seen.falls.together == {}
    seen.fall("a")  # and counts from what it is now
    assert seen.falls.together["lab"].connectors == ("a", "b", "c")


# --- what a person meant -------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("looks", [0, 1])
def test_what_went_back_since_a_rest_was_seen_a_person_may_have_written(looks, skew_s):
    """By whatever clock that rest ended, and others committed; a look later nobody meant it."""
    seen = watch()
    names = [("lab", name) for name in "abc"]
    seen.rests = dict.fromkeys(names, inf)
    seen.look()
    seen.rests = dict.fromkeys(names, seen.now + skew_s)
    for _ in range(2 * looks):
        seen.look()
    seen.fall("a", "b", "c")
    assert bool(seen.falls.meant) is not bool(looks)
    assert bool(seen.falls.together) is bool(looks)
    assert set(seen.falls.meant.values()) <= {seen.now}


def test_a_rest_that_began_and_ended_between_two_looks_was_one():
    seen = watch()
    seen.rests = {("lab", "a"): BEGAN - 900}
    seen.look()
    seen.look()
    seen.fall("a")
    assert seen.falls.meant == {}
    seen.rests = {("lab", "a"): BEGAN - 300}
    seen.fall("a")
    assert set(seen.falls.meant) == {("lab", "a")}


def test_a_rest_of_before_the_first_look_excuses_nothing():
    seen = Watch()
    seen.rests = {("lab", "a"): BEGAN + 600}
    seen.look(source_partitions=five())
    seen.fall("a")
    assert seen.falls.meant == {}


def test_a_person_is_waited_for_until_three_intervals_after_the_resume():
    seen = watch()
    seen.rests = {("lab", "a"): inf}
    seen.fall("a")
    seen.look(after_s=9 * INTERVAL_S)
    assert seen.falls.meant == {("lab", "a"): seen.now}
    seen.rests = {("lab", "a"): seen.now}
    seen.look(after_s=MANUAL_REWIND_INTERVALS * INTERVAL_S)
    assert set(seen.falls.meant) == {("lab", "a")}
    seen.look(after_s=1.0)
    assert seen.falls.meant == {}


def test_a_person_is_waited_for_while_it_is_rewound_and_others_who_rest_or_are_rewound_are_not():
    seen = watch()
    seen.rests = {("lab", "a"): seen.now + LOOK_S, ("lab", "b"): inf}
    judged = tuple(
        Judgement(Scope.CONNECTOR, "lab", name, "", Verdict.REWOUND, 6, "so it is", BEGAN)
        for name in "ac"
    )
    seen.fall("a", after_s=LOOK_S)
    seen.look(after_s=9 * INTERVAL_S, judgements=judged)
    assert seen.falls.meant == {("lab", "a"): seen.now}


def test_what_was_meant_in_a_future_that_a_clock_left_is_not():
    seen = watch()
    seen.rests = {("lab", "a"): seen.now + LOOK_S}
    seen.fall("a")
    seen.look(after_s=-1.0)
    assert seen.falls.meant == {}


@pytest.mark.parametrize(
    ("ago_s", "meant"), [pytest.param(59.0, True, id="less"), pytest.param(60.0, False, id="more")]
)
def test_a_reset_is_a_persons_if_its_connector_rested_less_than_an_interval_ago(ago_s, meant):
    seen = watch(counted("mm2"))
    seen.rests = {MM2: inf}
    seen.look()
    seen.rests = {MM2: BEGAN - 600}
    seen.look(after_s=0.0)
    seen.look(after_s=ago_s - LOOK_S)
    reset(seen)
    assert set(seen.falls.meant) == ({MM2} if meant else set())


def test_a_reset_that_was_seen_before_the_stop_that_allowed_it_is_a_persons_as_well():
    seen = watch(counted("mm2"))
    reset(seen)
    seen.rests = {MM2: inf}
    seen.look()
    assert set(seen.falls.meant) == {MM2}


def test_a_reset_is_a_persons_once_and_not_at_each_stop_that_follows():
    seen = watch(counted("mm2"))
    seen.rests = {MM2: inf}
    reset(seen)
    seen.rests = {MM2: seen.now}
    seen.look(after_s=9 * INTERVAL_S)
    seen.rests = {MM2: inf}
    assert seen.look().meant == {}


def test_resets_before_we_looked_are_nobodys():
    seen = watch(counted("mm2", resets=3))
    seen.rests = {MM2: inf}
    assert seen.look().meant == {}


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
    told = tuple(StateChange(at, state, None) for at, state in changes)
    histories = (StateHistory("lab", "files", None, told), StateHistory("lab", "files", 0, told))
    assert find_pause_ends(replace(EMPTY_SNAPSHOT, histories=histories)) == {
        ("lab", "files"): until
    }


def test_who_rests_by_the_last_poll_and_says_nothing_rests_without_an_end():
    views = (replace(FILES, name="a", state="paused"), replace(FILES, name="b", state="stopped"))
    assert find_pause_ends(replace(EMPTY_SNAPSHOT, connectors=(*views, FILES))) == {
        ("lab", "a"): inf,
        ("lab", "b"): inf,
    }
