"""What is asked of a partition, when patience with it ends, and until when a decision holds."""

from __future__ import annotations

from math import inf

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.cases import (
    NO_LOG_END,
    NO_POSITION,
    build_case,
    compute_patience_end_w,
    compute_valid_until_w,
)
from offsetwatch.judge.progress.observation_window import ObservationWindow
from offsetwatch.judge.progress.subjects import JudgedConnector, JudgedPartition, VerdictState
from offsetwatch.judge.progress.verdict_rules import VerdictCase, decide_verdict
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Verdict
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.model.topology import KAFKA_NOT_CONFIGURED, SinkGroup, Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, SinkPartitionView
from tests.changed import replace
from tests.unit.judge.observed_rewinds import FLOW, MM2, copied, counted
from tests.unit.judge.test_input_visibility import heard

SETTINGS = JudgeSettings(interval_s=60.0)
CASE = VerdictCase(patience_s=180.0, move_interval_s=100.0)  # late after three times that


def subject(**changes) -> JudgedPartition:
    fields = {"first_w": 0.0, "last_w": 500.0, "still_w": 300.0, "waiting_w": 400.0, "sure": True}
    window = ObservationWindow(**{**fields, **changes})
    return JudgedPartition(key=("lab", "mm2", "orders-0"), label="orders-0", window=window)


UNOBSERVED = JudgedPartition(key=("lab", "mm2", "orders-0"), label="orders-0")


@pytest.mark.parametrize(
    ("kafka", "why"), [(None, KAFKA_NOT_CONFIGURED), ("east", "whether work waits is unknown")]
)
def test_a_sink_that_rest_reports_has_no_lag_and_the_verdict_says_why(kafka, why):
    out = SinkGroup("lab", "out", "connect-out", kafka)
    visibility = InputVisibility(
        replace(EMPTY_SNAPSHOT, topology=replace(Topology((), ()), sinks=(out,)))
    )
    read = SinkPartitionView("lab", "out", "orders", 0, 5, None, None, from_rest=True)
    partition = JudgedPartition(key=("lab", "out", "orders-0"), label="orders-0", sink=True)
    partition.number, partition.read = 1, read
    case: VerdictCase | None = None
    for w in range(0, 301, 30):
        case = build_case(partition, JudgedConnector(), visibility, SETTINGS, number=1, w=w, at=w)
    assert case is not None
    decision = decide_verdict(case)
    assert decision is not None
    assert decision.verdict is Verdict.UNKNOWN
    assert why in decision.reason


@pytest.mark.parametrize(
    ("changes", "w", "due"),
    [
        pytest.param({}, 500.0, 580.0, id="since it waits"),
        pytest.param({"still_w": 450.0}, 500.0, 630.0, id="since it stands still"),
        pytest.param({}, 579.0, 580.0, id="a second before"),
        pytest.param({}, 580.0, None, id="over"),
        pytest.param({"waiting_w": None}, 500.0, None, id="nothing waits"),
        pytest.param(
            {"sure": False, "ends_moved": 2, "counted_w": 560.0}, 500.0, 587.0, id="nearly sure"
        ),
        pytest.param(
            {"sure": False, "ends_moved": 2, "counted_w": 100.0},
            500.0,
            580.0,
            id="long nearly sure",
        ),
        pytest.param(
            {"sure": False, "ends_moved": 1, "counted_w": 560.0}, 500.0, 580.0, id="not sure"
        ),
        pytest.param({"ends_moved": 2, "counted_w": 560.0}, 500.0, 580.0, id="sure"),
    ],
)
def test_patience_ends_three_intervals_after_it_stands_still_with_work(changes, w, due):
    assert compute_patience_end_w(subject(**changes), w, SETTINGS) == due


def test_with_what_was_never_observed_there_is_no_patience():
    assert compute_patience_end_w(UNOBSERVED, 500.0, SETTINGS) is None


@pytest.mark.parametrize(
    ("rule", "changes", "until"),
    [
        pytest.param(8, {"moved_w": 100.0}, 400.0, id="moves"),
        pytest.param(16, {"moved_w": 100.0}, 400.0, id="in rhythm"),
        pytest.param(8, {}, 0.0, id="moves, unobserved"),
        pytest.param(9, {"moved_w": 100.0}, 0.0, id="keeps up, which an end that moves decides"),
        pytest.param(10, {}, inf, id="idle"),
        pytest.param(11, {}, 0.0, id="beyond the end"),
        pytest.param(17, {"repeated_w": 200.0}, 380.0, id="alive"),
        pytest.param(17, {}, 0.0, id="alive, unobserved"),
        pytest.param(18, {"repeated_w": 200.0, "moved_w": 100.0}, 0.0, id="out of character"),
        pytest.param(20, {}, inf, id="nothing tells, and it never moved"),
        pytest.param(20, {"moved_w": 100.0}, inf, id="nothing tells, and it moved once"),
        pytest.param(
            20, {"moved_w": 100.0, "longest_s": 60.0}, 0.0, id="nothing tells, and it has a habit"
        ),
        pytest.param(21, {}, 0.0, id="too soon"),
        pytest.param(5, {"moved_w": 100.0}, 0.0, id="silent"),
    ],
)
def test_a_decision_holds_until_time_alone_may_change_it(rule, changes, until):
    assert compute_valid_until_w(subject(**changes), CASE, rule) == until


def test_a_decision_about_what_was_never_observed_does_not_hold():
    assert compute_valid_until_w(UNOBSERVED, CASE, 10) == 0.0


# --- what is asked -------------------------------------------------------------------------------

W = 500.0
SYNCS = InputId.of_tail(FLOW.offset_syncs)
INPUTS = (heard(InputId(LOG_ENDS, kafka="west")), heard(SYNCS))
REMNANT = replace(counted("mm2"), dialect="mirror_source", offset=decode_value(b'{"offset":9}'))


def sunk(committed: int = 10, log_end: int | None = 20) -> SinkPartitionView:
    lag = None if log_end is None else log_end - committed
    return SinkPartitionView("lab", "mm2", "orders", 0, committed, log_end, lag, caught_up=False)


def build_window(**changes) -> ObservationWindow:
    """Of the sink, an interval ago: it has stood still since, and all is of another second."""
    fields = {
        "first_w": 100.0,
        "last_w": 440.0,
        "still_w": 300.0,
        "text": "10",
        "best": 10,
        "high": 10,
        "position": 10,
        "commits": 0,
        "moved_w": 290.0,
        "waiting_w": 350.0,
        "sure": True,
        "end": 20,
        "end_w": 320.0,
        "lag": 10,
    }
    return ObservationWindow(**{**fields, **changes})


def build_visibility(*inputs, flows=(FLOW,), **changes) -> InputVisibility:
    topology = Topology((), tuple(flows))
    return InputVisibility(
        replace(EMPTY_SNAPSHOT, inputs=inputs or INPUTS, topology=topology, **changes)
    )


def build_verdict_case(
    window: ObservationWindow | None = None,
    track: JudgedConnector | None = None,
    of: InputVisibility | None = None,
    settings: JudgeSettings = SETTINGS,
    **views,
) -> VerdictCase | None:
    """The case of a partition of which this is seen; of the sink, unless views are given."""
    one = JudgedPartition(key=(*MM2, "orders-0"), label="orders-0", window=window, number=1)
    one.verdict_state = VerdictState(verdict=Verdict.SLOW)
    for name, view in (views or {"read": sunk()}).items():
        setattr(one, name, view)
    return build_case(
        one,
        track or JudgedConnector(),
        of or build_visibility(),
        settings,
        number=1,
        w=W,
        at=1000.0,
    )


def test_a_case_says_for_how_long_each_thing_has_been_so():
    case = build_verdict_case(
        build_window(repeats=2, repeated_w=420.0), JudgedConnector(why_w=440.0, failed_w=450.0)
    )
    assert case is not None
    assert (case.watched_s, case.still_s, case.moved_s) == (400.0, 200.0, 210.0)
    assert (case.waiting_s, case.sure, case.end_still_s) == (150.0, True, 180.0)
    assert (case.why_s, case.failed_s) == (60.0, 50.0)
    assert (case.repeats, case.repeated_s) == (2, 80.0)
    assert (case.patience_s, case.before, case.falls_behind) == (180.0, Verdict.SLOW, False)


def test_of_what_is_observed_for_the_first_time_nothing_is_known_to_have_moved():
    case = build_verdict_case()
    assert case is not None
    assert (case.watched_s, case.still_s, case.moved_s) == (0.0, 0.0, None)
    assert (case.repeated_s, case.failed_s) == (None, None)


def test_patience_with_what_rests_begins_again_and_its_failures_are_over():
    case = build_verdict_case(
        build_window(), JudgedConnector(rests="the connector is paused", failed_w=450.0)
    )
    assert case is not None
    assert (case.rests, case.failed_s) == ("the connector is paused", None)
    assert (case.still_s, case.waiting_s, case.sure) == (0.0, None, False)


def test_patience_with_what_is_not_copied_any_more_begins_again():
    case = build_verdict_case(build_window(text='{"offset":9}'), source=REMNANT)
    assert case is not None
    assert (case.unavailable, case.headed, case.copied) == (None, True, False)
    assert (case.still_s, case.waiting_s) == (0.0, None)


def test_states_that_are_not_observed_count_neither_for_nor_against_it():
    hidden = {"rests": "the connector is paused", "why": "a task has failed", "failed_w": 450.0}
    case = build_verdict_case(build_window(), JudgedConnector(unavailable="no route", **hidden))
    assert case is not None
    assert (case.unavailable_states, case.rests, case.why) == ("no route", None, None)
    assert (case.still_s, case.waiting_s, case.failed_s) == (200.0, 150.0, 50.0)


def test_a_connector_that_was_restarted_is_given_time():
    case = build_verdict_case(build_window(), JudgedConnector(restarted_w=430.0))
    assert case is not None
    assert (case.still_s, case.moved_s) == (70.0, 210.0)


@pytest.mark.parametrize(("ahead", "report"), [(3, 3), (0, 0), (None, 0)])
def test_how_far_a_position_lies_beyond_the_end_is_reported_of_mirrored_partitions(ahead, report):
    case = build_verdict_case(mirror=copied(9, ahead=ahead))
    assert case is not None
    assert (case.ahead, case.headed, case.copied) == (report, True, True)


def test_nothing_is_known_to_be_done_by_a_sink_whose_position_is_beyond_the_log_end():
    partition = JudgedPartition(key=("lab", "out", "orders-0"), label="orders-0", sink=True)
    partition.number = 1
    partition.read = SinkPartitionView("lab", "out", "orders", 0, 1000, 100, None, 0)
    visibility = InputVisibility(EMPTY_SNAPSHOT)
    case: VerdictCase | None = None
    for w in range(0, 301, 30):
        case = build_case(partition, JudgedConnector(), visibility, SETTINGS, number=1, w=w, at=w)
    assert case is not None
    decision = decide_verdict(case)
    assert decision is not None
    assert (decision.verdict, case.ahead) == (Verdict.UNKNOWN, 900)
    assert decision.reason == "its position lies 900 records beyond the log end"


@pytest.mark.parametrize(("why", "slow"), [(None, True), ("task 1 has failed", False)])
def test_what_cannot_work_is_not_called_slow(why, slow):
    grows = build_window(
        moves=(320.0, 380.0, 440.0),
        samples=((320.0, 1000, 100), (380.0, 1500, 500), (440.0, 2000, 900)),
    )
    case = build_verdict_case(
        grows, JudgedConnector(why=why), settings=JudgeSettings(window=3), read=sunk(1200, 2500)
    )
    assert case is not None
    assert case.falls_behind is slow


def test_only_what_has_no_log_end_is_judged_by_its_interval():
    moved = {"moves": (100.0, 290.0), "longest_s": 190.0}
    headed = build_verdict_case(build_window(**moved))
    text = '{"position":1}'
    row = replace(counted("mm2"), offset=decode_value(text.encode()))
    headless = build_verdict_case(
        build_window(text=text, best=None, high=None, position=None, **moved), source=row
    )
    assert headed is not None
    assert headless is not None
    assert (headed.headed, headed.move_interval_s, headed.longest_s) == (True, 0.0, 190.0)
    assert (headless.headed, headless.move_interval_s, headless.longest_s) == (False, 190.0, 190.0)
    assert (headed.placed, headless.placed) == (True, True)
    without = build_verdict_case(source=counted("mm2"))
    assert without is not None
    assert not without.placed


NO_ENDS = "log ends of Kafka cluster west cannot be read: no route"
NO_SYNCS = f"topic {SYNCS.input} cannot be read: no route"
DEAD_ENDS = build_visibility(heard(InputId(LOG_ENDS, kafka="west"), live=False), heard(SYNCS))
DEAD_SYNCS = build_visibility(heard(SYNCS, live=False))
NO_UPSTREAM = build_visibility(flows=(replace(FLOW, upstream=None),))


@pytest.mark.parametrize(
    ("view", "of", "unavailable"),
    [
        pytest.param({"read": sunk(log_end=None)}, None, NO_LOG_END, id="the end of a sink's log"),
        pytest.param({"mirror": copied(9, lag=None)}, None, NO_POSITION, id="no position"),
        pytest.param(
            {"mirror": copied(9, lag=None, log_end=None)}, None, NO_LOG_END, id="no end of its log"
        ),
        pytest.param({"mirror": copied(9, lag=None)}, DEAD_ENDS, NO_ENDS, id="no log ends"),
        pytest.param({"mirror": copied(9)}, DEAD_ENDS, NO_ENDS, id="log ends of the past"),
        pytest.param({"source": REMNANT}, DEAD_SYNCS, NO_SYNCS, id="what is mirrored"),
    ],
)
def test_what_is_hidden_is_reported_with_what_hides_it(view, of, unavailable):
    case = build_verdict_case(build_window(), of=of, **view)
    assert case is not None
    assert (case.unavailable, case.before) == (unavailable, Verdict.SLOW)


@pytest.mark.parametrize(
    ("view", "of"),
    [
        pytest.param({"read": sunk(log_end=None)}, None, id="a sink without a log end"),
        pytest.param({"mirror": copied(9)}, NO_UPSTREAM, id="an upstream that is not read"),
        pytest.param(
            {"mirror": copied(9)}, build_visibility(flows=()), id="a flow that is not known yet"
        ),
        pytest.param({"source": REMNANT}, build_visibility(flows=()), id="MM2's, and no flow"),
        pytest.param({"source": counted("mm2")}, None, id="of a flow, and not mirrored"),
    ],
)
def test_without_a_log_end_to_query_it_is_judged_by_its_moves(view, of):
    case = build_verdict_case(of=of, **view)
    assert case is not None
    assert (case.unavailable, case.headed, case.copied) == (None, False, True)


def test_a_sink_whose_log_end_was_never_read_is_not_hidden_by_that():
    case = build_verdict_case(build_window(end=None, lag=None), read=sunk(log_end=None))
    assert case is not None
    assert (case.unavailable, case.headed) == (None, False)


@pytest.mark.parametrize("ready", [True, False])
def test_what_no_poll_sees_is_gone_or_hidden(ready):
    one = JudgedPartition(key=(*MM2, "orders-0"), label="orders-0", number=1)
    visibility = build_visibility(ready=ready)
    case = build_case(one, JudgedConnector(), visibility, SETTINGS, number=2, w=W, at=1000.0)
    assert (case is None) is ready
    assert (one.hidden is None) is ready
    if case is not None:
        assert (case.unavailable, case.patience_s) == (one.hidden, 180.0)
