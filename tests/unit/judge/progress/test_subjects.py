"""What is remembered of a partition and of a connector, from one look to the next."""

from __future__ import annotations

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.progress.observation_window import ObservationWindow
from offsetwatch.judge.progress.subjects import (
    HIDDEN_RETENTION_S,
    JudgedConnector,
    JudgedPartition,
    JudgedPartitionRegistry,
    VerdictState,
    describe_states,
    describe_trouble,
)
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE, Decision
from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.findings import Verdict
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
)
from tests.changed import replace
from tests.unit.judge.observed_rewinds import BEGAN, MM2, copied, counted
from tests.unit.judge.test_input_visibility import FILES

UNSEEN = Decision(Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE, "an input tells nothing")
MOVES = Decision(Verdict.OK, 8, "it advances")
SILENT = Decision(Verdict.SILENT, 5, "no state shows a failure")
KEY = ("lab", "mm2", "orders-0")
SUNK = SinkPartitionView("lab", "out", "orders", 0, committed=7, log_end=12, lag=5)
OFFSET = decode_value(b'{"offset":90}')


# --- a verdict over time -------------------------------------------------------------------------


def test_what_an_input_hides_is_unknown_since_then_and_goes_on_afterwards():
    verdict = VerdictState()
    assert verdict.settle(SILENT, 100.0)
    assert verdict.settle(UNSEEN, 200.0)
    assert (verdict.verdict, verdict.since, verdict.rule) == (
        Verdict.UNKNOWN,
        200.0,
        UNAVAILABLE_INPUT_RULE,
    )
    assert verdict.before is Verdict.SILENT
    assert not verdict.settle(UNSEEN, 300.0)
    assert (verdict.since, verdict.before) == (200.0, Verdict.SILENT)
    assert verdict.settle(None, 400.0)
    assert (verdict.verdict, verdict.since, verdict.held) == (Verdict.SILENT, 100.0, None)


def test_what_was_unknown_already_is_so_for_as_long_as_it_was():
    verdict = VerdictState(since=50.0)
    assert not verdict.settle(UNSEEN, 200.0)
    assert verdict.since == 50.0


def test_a_verdict_that_is_said_again_is_as_old_as_it_was_and_rests_on_the_newer_rule():
    verdict = VerdictState()
    verdict.settle(MOVES, 100.0)
    assert not verdict.settle(MOVES._replace(rule=9), 200.0)
    assert (verdict.since, verdict.rule) == (100.0, 9)
    assert not verdict.settle(None, 300.0)
    assert (verdict.verdict, verdict.since, verdict.rule) == (Verdict.OK, 100.0, 9)


# --- what is seen ---------------------------------------------------------------------------------


def subject(**views) -> JudgedPartition:
    return JudgedPartition(key=KEY, label="orders-0", **views)


@pytest.mark.parametrize(
    ("what", "before", "now"),
    [
        ("source", counted(), counted(rewinds=1)),
        ("mirror", copied(90), copied(91)),
        ("read", SUNK, replace(SUNK, committed=8)),
    ],
)
def test_another_decision_may_come_of_another_view_and_of_news_of_the_connector(what, before, now):
    track, partition = JudgedConnector(), subject(**{what: before})
    partition.until_w = 100.0
    assert partition.changed(track, 10.0)  # for the first time
    assert not partition.changed(track, 20.0)
    setattr(partition, what, now)
    assert partition.changed(track, 20.0)
    assert not partition.changed(track, 20.0)
    track.update("1 failed", None, None)
    assert partition.changed(track, 20.0)
    assert not partition.changed(track, 20.0)


def test_another_decision_may_come_when_the_time_is_over_for_which_one_holds():
    track, partition = JudgedConnector(), subject(source=counted())
    partition.until_w = 100.0
    partition.changed(track, 10.0)
    assert not partition.changed(track, 99.0)
    assert partition.changed(track, 100.0)


def test_a_replicated_partition_is_sampled_with_the_commits_of_its_source_partition():
    mirror = copied(90)
    source = replace(counted(), offset=OFFSET, commits=7, read_at=BEGAN + 9)
    sample = subject(source=source, mirror=mirror).sample(BEGAN)
    assert (sample.text, sample.position, sample.commits) == ('{"offset":90}', 90, 7)
    assert (sample.lag, sample.end, sample.changed_at) == (
        mirror.lag,
        mirror.log_end,
        BEGAN + 9,
    )
    alone = subject(mirror=mirror).sample(BEGAN)
    assert (alone.text, alone.position, alone.commits) == (None, 90, 0)


# --- a connector ---------------------------------------------------------------------------------


def test_a_failure_is_as_old_as_the_clock_says_and_only_a_newer_one_counts():
    track = JudgedConnector()
    track.fail(100.0, 130.0, 500.0)
    assert (track.failed_at, track.failed_w, track.version) == (100.0, 470.0, 1)
    for moment in (100.0, 90.0):
        track.fail(moment, 140.0, 510.0)
        assert (track.failed_at, track.failed_w, track.version) == (100.0, 470.0, 1)
    track.fail(150.0, 150.0, 520.0)
    assert (track.failed_w, track.version) == (520.0, 2)
    track.fail(160.0, 155.0, 525.0)  # a worker's clock is ahead of ours
    assert track.failed_w == 525.0


def test_a_connector_was_restarted_when_it_can_work_again_or_is_resumed():
    track = JudgedConnector()
    track.see(None, "task 0 has failed", why_all=True, w=10.0)
    assert (track.why_w, track.restarted_w, track.version) == (10.0, None, 1)
    track.see(None, "task 1 has failed", why_all=True, w=20.0)
    assert (track.why_w, track.restarted_w, track.version) == (10.0, None, 2)
    track.see(None, None, why_all=False, w=30.0)
    assert (track.why_w, track.restarted_w) == (30.0, 30.0)
    track.see("the connector is paused", None, why_all=False, w=40.0)
    assert (track.why_w, track.restarted_w) == (30.0, 30.0)
    track.see(None, None, why_all=False, w=50.0)
    assert (track.why_w, track.restarted_w, track.version) == (30.0, 50.0, 5)
    track.see(None, None, why_all=False, w=60.0)
    assert (track.restarted_w, track.version) == (50.0, 5)


def test_a_pause_that_gets_longer_is_no_news():
    track = JudgedConnector()
    track.update("connector running", None, None)
    observed = track.version
    track.update("connector running", None, "for an hour")
    assert track.version == observed + 1
    track.update("connector running", None, "for two hours")
    assert (track.version, track.unusual) == (observed + 1, "for two hours")
    track.update("connector running", "rest tells nothing", "for two hours")
    assert (track.version, track.unavailable) == (observed + 2, "rest tells nothing")


# --- who is gone ---------------------------------------------------------------------------------


def rolled(
    *, hidden: str | None = None, window: ObservationWindow | None = None
) -> JudgedPartitionRegistry:
    """One partition that the look before this, the second, saw."""
    roll = JudgedPartitionRegistry()
    roll.add(JudgedPartition(key=KEY, label="orders-0", number=1, hidden=hidden, window=window))
    return roll


LAST_OBSERVED_W = 1000.0
WINDOW = ObservationWindow(first_w=0.0, last_w=LAST_OBSERVED_W, still_w=0.0)


@pytest.mark.parametrize(
    ("hidden", "retention_s"), [(None, 180.0), ("the tail tells nothing", HIDDEN_RETENTION_S)]
)
def test_who_is_not_observed_is_retained_for_as_long_as_patience_or_blindness_lasts(
    hidden, retention_s
):
    roll = rolled(hidden=hidden, window=WINDOW)
    assert roll.forget(2, LAST_OBSERVED_W + retention_s - 1, 180.0) == set()
    assert roll.subjects
    assert roll.forget(2, LAST_OBSERVED_W + retention_s, 180.0) == {KEY}
    assert (roll.subjects, roll.tracks[KEY[:2]].subjects) == ({}, {})


def test_who_is_observed_is_retained():
    assert rolled(window=WINDOW).forget(1, LAST_OBSERVED_W + HIDDEN_RETENTION_S, 180.0) == set()


def test_who_never_had_a_window_is_forgotten_as_one_that_was_observed_at_the_beginning():
    assert rolled().forget(2, 179.0, 180.0) == set()
    assert rolled().forget(2, 180.0, 180.0) == {KEY}


def test_a_connector_is_dropped_that_is_not_listed_and_has_nothing():
    roll = rolled(window=WINDOW)
    roll.track(("lab", "listed"))
    roll.track(("lab", "gone"))
    roll.drop_tracks(frozenset({("lab", "listed")}))
    assert set(roll.tracks) == {KEY[:2], ("lab", "listed")}


# --- states in words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({}, (None, False)),
        ({"state": "failed"}, ("the connector has failed", True)),
        ({"state": "unassigned"}, ("the connector is unassigned", True)),
        ({"tasks": (Task(0, "failed"), Task(1, "running"))}, ("task 0 has failed", False)),
        (
            {"tasks": (Task(0, "failed"), Task(1, "restarting"))},
            ("task 0 has failed, task 1 is restarting", True),
        ),
        ({"tasks": ()}, ("it runs without a single task", True)),
        (
            {"tasks": (), "kind": ConnectorKind.MIRROR},
            ("it runs without a single task", False),
        ),
        ({"tasks": (), "state": "stopped"}, (None, False)),
        (
            {"tasks": (Task(0, "unknown"), Task(1, "unknown"))},
            ("Connect reports no state of its tasks", True),
        ),
        ({"tasks": (Task(0, "unknown"), Task(1, "running"))}, (None, False)),
    ],
)
def test_what_shows_that_it_cannot_work_is_named(changes, result):
    assert describe_trouble(replace(FILES, **changes)) == result


def test_states_are_reported_in_few_words():
    tasks = (Task(0, "running"), Task(1, "failed"), Task(2, "running"))
    assert (
        describe_states(replace(FILES, tasks=tasks))
        == "connector running, tasks: 1 failed, 2 running"
    )
    assert describe_states(replace(FILES, tasks=())) == "connector running, tasks: none"
    assert describe_states(None) == "unknown"


# --- judged subjects -----------------------------------------------------------------------------

MIRRORED = '{"cluster":"west","partition":0,"topic":"orders"}'
ORDERS = (*MM2, MIRRORED)
SOURCE = replace(counted("mm2"), identity=MIRRORED)
SINK = SinkPartitionView("lab", "lake", "orders", 3, 10, 20, 10)
LAKE = ("lab", "lake", "orders-3")


def build_snapshot(
    *views: SourcePartitionView | MirrorPartitionView | SinkPartitionView,
) -> Snapshot:
    return replace(
        EMPTY_SNAPSHOT,
        source_partitions=tuple(view for view in views if isinstance(view, SourcePartitionView)),
        mirror_partitions=tuple(view for view in views if isinstance(view, MirrorPartitionView)),
        sink_partitions=tuple(view for view in views if isinstance(view, SinkPartitionView)),
    )


def test_a_partition_is_one_subject_whatever_shows_it():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    (partition,) = roll.list_judged(build_snapshot(SOURCE, mirror), None, 1)
    assert (partition.key, partition.source, partition.mirror, partition.read) == (
        ORDERS,
        SOURCE,
        mirror,
        None,
    )
    assert (partition.label, partition.number, partition.sink) == ("0", 1, False)
    assert roll.subjects == roll.tracks[MM2].subjects == {ORDERS: partition}
    assert roll.list_judged(build_snapshot(SOURCE, mirror), None, 2) == [partition]
    assert partition.number == 2


def test_a_partition_of_which_nothing_was_ever_committed_is_reported_by_its_name():
    roll, mirror = JudgedPartitionRegistry(), copied(None)
    (partition,) = roll.list_judged(build_snapshot(mirror), None, 1)
    assert (partition.key, partition.source, partition.mirror) == (ORDERS, None, mirror)
    assert partition.label == "cluster=west,partition=0,topic=orders"
    (again,) = roll.list_judged(build_snapshot(SOURCE, mirror), None, 2)
    assert again is partition
    assert again.source is SOURCE


def test_of_what_is_shown_no_more_nothing_is_retained():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    roll.list_judged(build_snapshot(SOURCE, mirror), None, 1)
    (partition,) = roll.list_judged(build_snapshot(SOURCE), None, 2)
    assert (partition.source, partition.mirror) == (SOURCE, None)
    roll.list_judged(build_snapshot(SOURCE, mirror), None, 3)
    (partition,) = roll.list_judged(build_snapshot(mirror), None, 4)
    assert (partition.source, partition.mirror) == (None, mirror)


def test_partitions_of_flows_that_read_elsewhere_are_others():
    roll = JudgedPartitionRegistry()
    views = (copied(9), copied(9, source="north"), copied(9, partition=1), copied(9, topic="x"))
    assert (
        len({partition.key for partition in roll.list_judged(build_snapshot(*views), None, 1)}) == 4
    )
    assert len(roll.list_judged(build_snapshot(*views), None, 2)) == 4


def test_what_a_sink_reads_is_a_subject_by_topic_and_partition():
    roll = JudgedPartitionRegistry()
    (partition,) = roll.list_judged(build_snapshot(SINK), None, 1)
    assert (partition.key, partition.label, partition.sink, partition.read) == (
        LAKE,
        "orders-3",
        True,
        SINK,
    )
    assert roll.list_judged(build_snapshot(SINK), None, 2) == [partition]
    assert roll.subjects == roll.tracks["lab", "lake"].subjects == {LAKE: partition}


def test_in_one_view_only_those_are_observed_that_are_requested():
    roll, everything = (
        JudgedPartitionRegistry(),
        build_snapshot(SOURCE, copied(9), copied(9, partition=1), SINK),
    )
    roll.list_judged(everything, None, 1)
    for key in (ORDERS, LAKE):
        (partition,) = roll.list_judged(everything, {key}, 2)
        assert (partition.key, partition.number) == (key, 2)
        sides = (partition.source, partition.mirror) if key == ORDERS else (partition.read, None)
        assert sides == ((SOURCE, copied(9)) if key == ORDERS else (SINK, None))
    assert sorted(subject.number for subject in roll.subjects.values()) == [1, 2, 2]


def test_a_glance_that_does_not_request_a_partition_leaves_what_was_observed_of_it():
    roll, mirror = JudgedPartitionRegistry(), copied(9)
    (partition,) = roll.list_judged(build_snapshot(SOURCE, mirror), None, 1)
    assert roll.list_judged(
        build_snapshot(SINK, replace(SOURCE, rewinds=1), copied(8)), {LAKE}, 2
    ) != [partition]
    assert (partition.source, partition.mirror) == (SOURCE, mirror)


def test_a_partition_that_was_forgotten_and_comes_back_is_another_subject():
    roll, views = JudgedPartitionRegistry(), (copied(9), copied(9, partition=1))
    before, retained = roll.list_judged(build_snapshot(*views), None, 1)
    roll.list_judged(build_snapshot(views[1]), None, 2)
    assert roll.forget(2, 180.0, 180.0) == {ORDERS}
    after, still = roll.list_judged(build_snapshot(*views), None, 3)
    assert after is not before
    assert still is retained
    assert roll.subjects[ORDERS] is roll.tracks[MM2].subjects[ORDERS] is after
