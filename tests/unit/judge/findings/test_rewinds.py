"""Who went back together with others, and whom a person set back."""

from __future__ import annotations

from math import inf

import pytest

from offsetwatch.judge.findings import rewinds
from offsetwatch.judge.findings.rewinds import (
    MANUAL_REWIND_INTERVALS,
    Recopy,
    RewindState,
    RewindTracker,
    SharedRewind,
    find_pause_ends,
)
from offsetwatch.model.connectors import StateChange, StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.topology import Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.judge.observed_rewinds import (
    BEGAN,
    FLOW,
    INTERVAL_S,
    MM2,
    POLL_S,
    WHERE,
    ObservedRewinds,
    again,
    copied,
    counted,
    five,
    observe_first,
    reset,
    sync,
)
from tests.unit.judge.test_input_visibility import FILES

# --- who went back together ----------------------------------------------------------------------


def test_what_went_back_before_we_looked_is_not_reported():
    assert observe_first().falls.shared == {}


def test_two_may_be_chance_and_three_within_an_interval_share_a_cause():
    observed = observe_first()
    assert observed.fall("c", "b").shared == {}
    tracker = observed.fall("a", after_s=INTERVAL_S)
    assert tracker.shared == {"lab": SharedRewind("lab", ("a", "b", "c"), observed.now)}
    observed = observe_first()
    observed.fall("c", "b")
    assert observed.fall("a", after_s=INTERVAL_S + 1).shared == {}


def test_one_connector_that_goes_back_three_times_is_one():
    observed = observe_first()
    for _ in range(3):
        observed.fall("a")
    assert observed.falls.shared == {}


def test_connectors_of_different_connect_clusters_do_not_share_a_worker():
    observed = observe_first(*five(), *five(cluster="other"))
    observed.fall("a", "b")
    observed.fall("a", cluster="other")
    assert observed.falls.shared == {}
    observed.fall("b", "c", cluster="other")
    assert set(observed.falls.shared) == {"other"}


def test_each_connect_cluster_is_reported_with_the_time_of_its_own():
    observed = observe_first(*five(), *five(cluster="other"))
    observed.fall("a", "b", "c")
    first = observed.now
    observed.fall("a", "b", "c", cluster="other")
    assert {
        shared_rewind.connect_cluster: shared_rewind.at
        for shared_rewind in observed.falls.shared.values()
    } == {
        "lab": first,
        "other": observed.now,
    }


def test_who_follows_within_an_interval_joins_those_who_went_back_before():
    observed = observe_first()
    observed.fall("a", "b", "c")
    observed.fall("d", "e", after_s=INTERVAL_S)
    assert observed.falls.shared["lab"].connectors == ("a", "b", "c", "d", "e")
    observed.fall("a", after_s=INTERVAL_S)  # d and e are of an interval ago
    assert observed.falls.shared["lab"] == SharedRewind(
        "lab", ("a", "b", "c", "d", "e"), observed.now
    )
    observed.observe(after_s=INTERVAL_S + 1)
    observed.fall("c", "d", "e")
    assert observed.falls.shared["lab"].connectors == ("c", "d", "e")


def test_a_fall_that_a_clock_set_back_puts_into_the_future_is_forgotten():
    observed = observe_first()
    observed.fall("a", "b")
    observed.observe(after_s=-1.0)
    assert observed.fall("c").shared == {}


def test_falls_are_counted_over_all_partitions_of_a_connector():
    one, other = counted("a", 5, label="0"), counted("a", 1, label="1")
    observed = observe_first(one, other, *five()[1:])
    observed.fall("b", "c")
    observed.observe(
        source_partitions=(one, replace(other, rewinds=2), *observed.snapshot.source_partitions[2:])
    )
    assert observed.falls.shared["lab"].connectors == ("a", "b", "c")


def test_a_partition_that_is_gone_makes_no_fall():
    gone = counted("a", 5, label="1")
    observed = observe_first(gone, *five())
    observed.fall("b", "c")
    observed.observe(source_partitions=observed.snapshot.source_partitions[1:])
    assert observed.falls.shared == {}
    observed.fall("a")  # and counts from what it is now
    assert observed.falls.shared["lab"].connectors == ("a", "b", "c")


# --- what a person meant -------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("polls", [0, 1])
def test_what_went_back_since_a_rest_was_observed_an_operator_may_have_written(polls, skew_s):
    """By whatever clock that rest ended, and others committed; a look later nobody meant it."""
    observed = observe_first()
    names = [("lab", name) for name in "abc"]
    observed.rests = dict.fromkeys(names, inf)
    observed.observe()
    observed.rests = dict.fromkeys(names, observed.now + skew_s)
    for _ in range(2 * polls):
        observed.observe()
    observed.fall("a", "b", "c")
    assert bool(observed.falls.meant) is not bool(polls)
    assert bool(observed.falls.shared) is bool(polls)
    assert set(observed.falls.meant.values()) <= {observed.now}


def test_a_rest_that_began_and_ended_between_two_polls_was_one():
    observed = observe_first()
    observed.rests = {("lab", "a"): BEGAN - 900}
    observed.observe()
    observed.observe()
    observed.fall("a")
    assert observed.falls.meant == {}
    observed.rests = {("lab", "a"): BEGAN - 300}
    observed.fall("a")
    assert set(observed.falls.meant) == {("lab", "a")}


def test_a_rest_of_before_the_first_poll_excuses_nothing():
    observed = ObservedRewinds()
    observed.rests = {("lab", "a"): BEGAN + 600}
    observed.observe(source_partitions=five())
    observed.fall("a")
    assert observed.falls.meant == {}


def test_an_operator_is_waited_for_until_three_intervals_after_the_resume():
    observed = observe_first()
    observed.rests = {("lab", "a"): inf}
    observed.fall("a")
    observed.observe(after_s=9 * INTERVAL_S)
    assert observed.falls.meant == {("lab", "a"): observed.now}
    observed.rests = {("lab", "a"): observed.now}
    observed.observe(after_s=MANUAL_REWIND_INTERVALS * INTERVAL_S)
    assert set(observed.falls.meant) == {("lab", "a")}
    observed.observe(after_s=1.0)
    assert observed.falls.meant == {}


def test_an_operator_is_waited_for_while_it_is_rewound_and_others_who_rest_or_are_rewound_are_not():
    observed = observe_first()
    observed.rests = {("lab", "a"): observed.now + POLL_S, ("lab", "b"): inf}
    judged = tuple(
        Judgement(Scope.CONNECTOR, "lab", name, "", Verdict.REWOUND, 6, "so it is", BEGAN)
        for name in "ac"
    )
    observed.fall("a", after_s=POLL_S)
    observed.observe(after_s=9 * INTERVAL_S, judgements=judged)
    assert observed.falls.meant == {("lab", "a"): observed.now}


def test_what_was_meant_in_a_future_that_a_clock_left_is_not():
    observed = observe_first()
    observed.rests = {("lab", "a"): observed.now + POLL_S}
    observed.fall("a")
    observed.observe(after_s=-1.0)
    assert observed.falls.meant == {}


@pytest.mark.parametrize(
    ("ago_s", "meant"), [pytest.param(59.0, True, id="less"), pytest.param(60.0, False, id="more")]
)
def test_a_reset_is_an_operators_if_its_connector_rested_less_than_an_interval_ago(ago_s, meant):
    observed = observe_first(counted("mm2"))
    observed.rests = {MM2: inf}
    observed.observe()
    observed.rests = {MM2: BEGAN - 600}
    observed.observe(after_s=0.0)
    observed.observe(after_s=ago_s - POLL_S)
    reset(observed)
    assert set(observed.falls.meant) == ({MM2} if meant else set())


def test_a_reset_that_was_observed_before_the_stop_that_allowed_it_is_an_operators_as_well():
    observed = observe_first(counted("mm2"))
    reset(observed)
    observed.rests = {MM2: inf}
    observed.observe()
    assert set(observed.falls.meant) == {MM2}


def test_a_reset_is_an_operators_once_and_not_at_each_stop_that_follows():
    observed = observe_first(counted("mm2"))
    observed.rests = {MM2: inf}
    reset(observed)
    observed.rests = {MM2: observed.now}
    observed.observe(after_s=9 * INTERVAL_S)
    observed.rests = {MM2: inf}
    assert observed.observe().meant == {}


def test_resets_before_the_first_snapshot_belong_to_no_change():
    observed = observe_first(counted("mm2", resets=3))
    observed.rests = {MM2: inf}
    assert observed.observe().meant == {}


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
def test_an_operator_could_alter_offsets_until_the_last_rest_ended(changes, until):
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


# --- recopies ------------------------------------------------------------------------------------

# --- what is copied a second time ----------------------------------------------------------------


def copies(*commits: int | None, log_start: int = 0, **changes) -> Recopy | None:
    """What is told of a partition with these commits, the changes being of the last."""
    observed = ObservedRewinds()
    for number, committed in enumerate(commits, start=1):
        last = changes if number == len(commits) else {}
        observed.observe(copied(committed, **{"log_start": log_start, **last}))
    return observed.falls.recopies.get(WHERE)


@pytest.mark.parametrize(
    ("log_start", "committed", "report"),
    [(0, 50, True), (0, 51, False), (20, 60, True), (20, 61, False)],
)
def test_a_second_copy_begins_where_half_of_what_there_is_is_copied_again(
    log_start, committed, report
):
    assert (copies(100, committed, log_start=log_start) is not None) is report


def test_a_second_copy_is_reported_with_where_it_was_and_since_when():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    recopies = observed.observe(copied(None)).recopies
    assert recopies == {}
    recopies = observed.observe(copied(10)).recopies
    assert recopies == {WHERE: Recopy(WHERE, peak=100, again_from=10, at=observed.now)}


def test_what_is_copied_on_is_no_second_copy_and_neither_is_what_stands_still():
    assert copies(0, 0) is None
    assert copies(0, 100, 100, 150) is None


@pytest.mark.parametrize("unread", ["log_start", "log_end"])
def test_without_both_ends_of_the_log_a_rewind_is_unknown(unread):
    assert copies(100, 10, **{unread: None}) is None


@pytest.mark.parametrize("unread", ["log_start", "log_end"])
def test_a_second_copy_is_found_once_both_ends_of_the_log_are_known_again(unread):
    observed = ObservedRewinds()
    observed.observe(copied(99), syncs=(sync(99, 99),))
    unknown = replace(copied(None), **{unread: None})
    assert observed.observe(unknown, syncs=(sync(50, 150),)).recopies == {}
    recopy = observed.observe(copied(99), syncs=(sync(99, 199),)).recopies[WHERE]
    assert (recopy.again_from, recopy.peak) == (0, 99)


def test_what_an_operator_alters_while_the_log_is_unknown_is_no_second_copy():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.rests = {MM2: inf}
    observed.observe(replace(copied(10), log_end=None))
    observed.rests = {MM2: observed.now}
    observed.observe(replace(copied(10), log_end=None))
    observed.observe(replace(copied(10), log_end=None))
    assert observed.observe(copied(10)).recopies == {}


def test_a_second_copy_is_found_once_syncs_are_shown_again():
    observed = ObservedRewinds()
    observed.observe(copied(100), syncs=(sync(99, 99),))
    assert observed.observe(copied(100), syncs=()).recopies == {}
    assert WHERE in observed.observe(copied(100), syncs=(sync(99, 199),)).recopies


@pytest.mark.parametrize("committed", [10, None], ids=["altered", "reset"])
def test_while_a_connector_rests_nothing_is_copied(committed):
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.rests = {MM2: inf}
    assert observed.observe(copied(committed)).recopies == {}


def test_what_an_operator_set_back_before_the_resume_was_never_copied_further():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.rests = {MM2: BEGAN}
    assert observed.observe(copied(10, committed_at=BEGAN)).recopies == {}
    observed.observe(copied(100))
    assert observed.observe(copied(10, committed_at=BEGAN + 1)).recopies != {}
    observed = ObservedRewinds()
    observed.observe(copied(100))
    assert observed.observe(copied(10, committed_at=None)).recopies != {}


def test_what_was_beyond_the_end_of_the_log_was_copied_to_its_end_at_most():
    recopy = copies(500, 10)
    assert recopy is not None
    assert recopy.peak == 199


SYNCED = [
    pytest.param(sync(99, 299), 0, id="all of it"),
    pytest.param(sync(10, 111), 0, id="from the start to here"),
    pytest.param(sync(0, 101), 0, id="its first record"),
    pytest.param(sync(0, 100), 0, id="its first record, the last one gone by compaction"),
    pytest.param(sync(30, 111), 20, id="from its twenty on"),
    pytest.param(sync(100, 201), 1, id="to where it was"),
    pytest.param(sync(101, 400), None, id="further than it was"),
    pytest.param(sync(99, 99), None, id="nothing new"),
    pytest.param(sync(50, 98), None, id="less downstream than there was"),
]


@pytest.mark.parametrize(("newer", "began"), SYNCED)
def test_a_second_copy_between_two_flushes_shows_in_the_syncs(newer, began):
    observed = ObservedRewinds()
    observed.observe(copied(100), syncs=(sync(99, 99),))
    recopy = observed.observe(copied(100), syncs=(newer,)).recopies.get(WHERE)
    assert (recopy and recopy.again_from) == began


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(sync(410, 410), id="each record once"),
        pytest.param(sync(410, 656), id="each in a transaction of its own"),
        pytest.param(sync(410, 424), id="some twice, after a worker died"),
    ],
)
def test_a_sync_that_comes_after_its_commit_is_of_what_was_copied_once(newer):
    observed = ObservedRewinds()
    observed.observe(copied(410, log_end=411), syncs=(sync(164, 164),))
    assert observed.observe(copied(410, log_end=411), syncs=(newer,)).recopies == {}


@pytest.mark.parametrize(
    ("newer", "result"),
    [
        pytest.param(sync(150, 206), None, id="seven records"),
        pytest.param(sync(50, 250), (0, 199), id="all"),
        pytest.param(sync(160, 300), (60, 199), id="from sixty to beyond that sync"),
        pytest.param(sync(160, 250), None, id="less than half"),
    ],
)
def test_what_was_committed_beyond_the_last_sync_is_no_part_of_a_second_copy(newer, result):
    observed = ObservedRewinds()
    observed.observe(copied(199), syncs=(sync(150, 150),))
    recopy = observed.observe(copied(199), syncs=(newer,)).recopies.get(WHERE)
    assert (recopy and (recopy.again_from, recopy.peak)) == result


@pytest.mark.parametrize("committed", [40, None], ids=["older commit", "no commit seen"])
@pytest.mark.parametrize("was_reset", [True, False])
def test_a_copy_that_was_lost_with_its_last_commit_shows_in_the_syncs(committed, was_reset):
    observed = ObservedRewinds()
    none = (counted("mm2", resets=0),)
    observed.observe(copied(committed), syncs=(sync(99, 99),), source_partitions=none)
    if was_reset:
        reset(observed, copied(None))
    recopy = observed.observe(copied(None), syncs=(sync(99, 199),)).recopies.get(WHERE)
    # A task that died copies again what it had not committed; only a reset copies all again.
    assert (recopy and (recopy.again_from, recopy.peak)) == ((0, 99) if was_reset else None)


def test_a_first_commit_that_was_lost_between_two_polls_was_a_reset():
    observed = ObservedRewinds()
    observed.observe(copied(None), syncs=(sync(99, 99),))
    observed.observe(copied(None), source_partitions=(counted("mm2", resets=1),))
    recopy = observed.observe(copied(99), syncs=(sync(99, 199),)).recopies.get(WHERE)
    assert (recopy and (recopy.again_from, recopy.peak)) == (0, 99)


def test_a_sync_that_lies_far_behind_the_commits_and_is_no_newer_one_reports_nothing():
    observed = ObservedRewinds()
    observed.observe(copied(100), syncs=(sync(40, 40),))
    assert observed.observe(copied(110)).recopies == {}


def test_a_first_sync_reports_no_second_copy():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    assert observed.observe(copied(100), syncs=(sync(50, 500),)).recopies == {}
    assert observed.observe(copied(100), syncs=()).recopies == {}


def test_a_second_copy_begins_no_earlier_than_the_log():
    observed = ObservedRewinds()
    observed.observe(copied(100, log_start=40), syncs=(sync(99, 99),))
    observed.observe(copied(100, log_start=40), syncs=(sync(99, 400),))
    assert observed.falls.recopies[WHERE].again_from == 40


def test_syncs_that_another_flow_may_have_written_are_not_queried():
    observed = ObservedRewinds()
    other = replace(FLOW, connector="other", source="north")
    observed.observe(copied(100), syncs=(sync(99, 99),), topology=Topology((), (FLOW, other)))
    assert observed.observe(copied(100), syncs=(sync(99, 299),)).recopies == {}
    observed.observe(topology=Topology((), ()))
    assert observed.observe(copied(100), syncs=(sync(99, 499),)).recopies == {}
    observed.observe(topology=Topology((), (FLOW,)))  # from here on they are its own
    assert observed.observe(copied(100), syncs=(sync(99, 699),)).recopies != {}


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        pytest.param({"replicated": 100}, True, id="as far"),
        pytest.param({"replicated": 99}, False, id="not as far"),
        pytest.param({"replicated": None}, False, id="not known"),
        pytest.param({"replicated": 60, "lag": 0}, True, id="nothing is left"),
        pytest.param({"replicated": 60, "caught_up": True}, True, id="nothing readable is left"),
    ],
)
def test_a_second_copy_is_over_when_it_is_as_far_again_or_at_the_end(changes, done):
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.observe(copied(10))
    began = observed.now
    recopy = observed.observe(copied(60, **changes)).recopies[WHERE]
    assert (recopy.at, recopy.done_at) == (began, observed.now if done else None)
    ended = recopy.done_at or observed.now + POLL_S
    for lag in (1, 0):
        assert observed.observe(copied(180, lag=lag)).recopies[WHERE].done_at == ended


def test_a_second_copy_that_is_under_way_is_one_and_one_after_it_another():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.observe(copied(40))
    first = observed.now
    recopy = observed.observe(copied(5)).recopies[WHERE]
    assert (recopy.peak, recopy.at) == (100, first)
    observed.observe(copied(150))
    recopy = observed.observe(copied(5)).recopies[WHERE]
    assert (recopy.peak, recopy.at, recopy.done_at) == (150, observed.now, None)


def test_what_an_operator_reset_is_followed_again_and_other_flows_as_before():
    observed = ObservedRewinds()
    other = replace(FLOW, connector="other", source="north")
    theirs = copied(100, connector="other", source="north")
    observed.observe(
        copied(100),
        theirs,
        source_partitions=(counted("mm2"),),
        topology=Topology((), (FLOW, other)),
    )
    observed.rests = {MM2: observed.now}
    reset(observed, copied(None), theirs)
    of_now = copied(10, committed_at=BEGAN + 99)
    assert observed.observe(of_now, theirs).recopies == {}
    observed.observe(of_now, replace(theirs, committed=10))
    assert set(observed.falls.recopies) == {("lab", "other", "orders", 0)}
    observed.observe(replace(of_now, committed=2), replace(theirs, committed=10))
    assert set(observed.falls.recopies) == {WHERE, ("lab", "other", "orders", 0)}
    observed.observe()  # those of two flows do not hide each other
    assert len(observed.falls.recopies) == 2


def test_a_reset_of_what_is_not_copied_any_more_leaves_no_gap_in_what_is_followed():
    """By hand, under another alias; then a worker loses what is copied."""
    observed = ObservedRewinds()
    observed.rests = {MM2: inf}
    observed.observe(copied(100, committed_at=BEGAN + 2), source_partitions=(counted("mm2"),))
    observed.rests = {MM2: BEGAN + 1}
    reset(observed)
    assert observed.falls.meant
    observed.observe(copied(100, committed_at=BEGAN + 2))
    assert set(observed.observe(copied(10, committed_at=BEGAN + 9)).recopies) == {WHERE}


# --- a topic that is another one -----------------------------------------------------------------


def test_what_is_known_of_a_topic_that_is_no_more_is_forgotten():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.observe(copied(10))
    assert observed.falls.recopies
    renewed = observed.now + 1
    observed.observe(copied(10, committed_at=renewed), recreations=(again(moment=renewed),))
    assert observed.falls.recopies == {}
    assert (
        observed.observe(copied(2, committed_at=renewed + 1)).recopies == {}
    )  # nothing was before
    assert observed.observe(copied(0, committed_at=renewed + 2)).recopies != {}


def test_that_a_topic_is_another_one_counts_from_when_it_is_known():
    """Whether or not anything was committed of it by then."""
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.observe(recreations=(again(moment=observed.now),))
    assert observed.observe(copied(10, committed_at=observed.now)).recopies == {}


def test_a_position_without_a_time_is_not_known_to_be_of_the_new_topic():
    observed = ObservedRewinds()
    observed.observe(copied(100), recreations=(again(),))
    observed.observe(copied(100, committed_at=None))
    assert observed.observe(copied(10, committed_at=BEGAN + 9)).recopies == {}


def test_a_topic_that_was_only_ever_one_is_the_one_it_was():
    observed = ObservedRewinds()
    observed.observe(copied(100), recreations=(again(count=0, moment=BEGAN + 99),))
    assert set(observed.observe(copied(10)).recopies) == {WHERE}


def test_another_topic_of_the_flow_is_followed_on():
    observed = ObservedRewinds()
    other = (*MM2, "returns", 0)
    observed.observe(
        copied(100), copied(100, topic="returns"), recreations=(again(moment=BEGAN + 99),)
    )
    observed.observe(copied(10), copied(10, topic="returns"))
    assert set(observed.falls.recopies) == {other}


@pytest.mark.parametrize("skew_s", [-600.0, -10.0, 10.0, 600.0])
def test_what_was_committed_when_a_topic_became_another_one_is_of_the_old_by_any_clock(skew_s):
    observed = ObservedRewinds()
    old = copied(100, committed_at=BEGAN + skew_s)
    observed.observe(old)
    observed.observe(old, recreations=(again(moment=observed.now),))
    assert observed.observe(copied(3, committed_at=BEGAN + 60 + skew_s)).recopies == {}
    assert set(observed.observe(copied(1, committed_at=BEGAN + 120 + skew_s)).recopies) == {WHERE}


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_an_operator_altered_is_not_copied_again_by_any_clock(skew_s):
    observed = ObservedRewinds()
    observed.observe(copied(100, committed_at=BEGAN + skew_s))
    observed.rests = {MM2: inf}
    observed.observe()
    observed.observe(copied(0, committed_at=BEGAN + 5 + skew_s))
    observed.rests = {MM2: BEGAN + 6}
    observed.observe()
    assert observed.observe(copied(2, committed_at=BEGAN + 60 + skew_s)).recopies == {}


# --- how long it is remembered -------------------------------------------------------------------


def test_it_is_unclear_for_an_interval_whether_it_copies_again():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    moment, falls = observed.now + POLL_S, observed.observe(copied(10))
    assert falls.unclear(moment, INTERVAL_S) == {MM2}
    assert falls.unclear(moment + 59, INTERVAL_S) == falls.unclear(moment - 59, INTERVAL_S) == {MM2}
    assert falls.unclear(moment + 60, INTERVAL_S) == falls.unclear(moment - 60, INTERVAL_S) == set()


def test_a_partition_that_is_copied_no_more_is_reported_no_more():
    observed = ObservedRewinds()
    observed.observe(copied(100), copied(100, partition=1))
    observed.observe(copied(10), copied(10, partition=1))
    observed.observe(copied(10))
    assert set(observed.falls.recopies) == {WHERE}


def test_a_flow_that_is_not_observed_keeps_its_second_copies():
    observed = ObservedRewinds()
    observed.observe(copied(100))
    observed.observe(copied(10))
    observed.observe(mirror_partitions=())
    assert set(observed.falls.recopies) == {WHERE}


def test_second_copies_are_bounded_and_those_that_are_reported_may_begin_again(monkeypatch):
    monkeypatch.setattr(rewinds, "RECOPIES_MAX", 1)
    observed = ObservedRewinds()
    both = (copied(100), copied(100, partition=1))
    observed.observe(*both)
    observed.observe(copied(10), copied(10, partition=1))
    assert set(observed.falls.recopies) == {WHERE}
    observed.observe(*both)
    observed.observe(copied(10), copied(100, partition=1))
    assert observed.falls.recopies[WHERE].at == observed.now


@pytest.mark.parametrize(
    ("gone", "polls", "report"),
    [
        pytest.param(4, 0, True, id="not too much"),
        pytest.param(5, 0, False, id="too much"),
        pytest.param(5, 1, True, id="too much, and what there is was looked at again"),
    ],
)
def test_where_partitions_stood_that_are_gone_is_forgotten_once_it_is_too_much(
    gone, polls, report, monkeypatch
):
    monkeypatch.setattr(rewinds, "RECOPIES_MAX", 3)
    observed = ObservedRewinds()
    for number in range(1, gone + 1):
        observed.observe(copied(100, partition=number))
    observed.observe(copied(100))  # the only one now: five are allowed
    for _ in range(polls):
        observed.observe()
    assert bool(observed.observe(copied(10)).recopies) is report


def test_what_is_under_way_is_remembered():
    observed = observe_first()
    observed.fall("a", "b", "c")
    observed.rests = {("lab", "d"): observed.now + POLL_S}
    observed.fall("d")
    observed.observe(copied(100))
    rewind = observed.observe(copied(10)).remembered()
    assert rewind == RewindState(
        recopies=(Recopy(WHERE, 100, 10, observed.now),),
        shared=(SharedRewind("lab", ("a", "b", "c"), observed.now - 3 * POLL_S),),
        meant=((("lab", "d"), observed.now - 2 * POLL_S),),
    )
    other = RewindTracker()
    other.recall(rewind)
    assert other.remembered() == rewind
    other.end(WHERE)
    other.end(WHERE)
    assert other.recopies == {}
