"""How many partitions one tick judges, and when the next passes are due."""

from __future__ import annotations

from collections import deque

import pytest

from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress import tracker
from offsetwatch.judge.progress.subjects import JudgedPartition
from offsetwatch.judge.progress.tracker import (
    JUDGED_PER_TICK_MAX,
    TROUBLED_PER_INTERVAL_MAX,
    JudgingPass,
    PassSchedule,
    ProgressTracker,
    compute_tick_share,
)
from offsetwatch.model.findings import Verdict
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.evidence import pairs
from tests.unit.judge.judged_snapshots import SETTINGS, JudgedSnapshots, connector, read, silent
from tests.unit.judge.test_input_visibility import GROUPS_INPUT, REST, heard


def begun(*, partitions: int, share: int, whole: bool = True, next_w: float = 160.0) -> JudgingPass:
    remaining = deque(
        JudgedPartition(key=("lab", "files", str(number)), label=str(number))
        for number in range(partitions)
    )
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, at=7.0))
    return JudgingPass(
        visibility, w=100.0, whole=whole, pending=remaining, share=share, next_w=next_w
    )


@pytest.mark.parametrize(
    ("partitions", "share"),
    [
        (0, 1_000),
        (10, 1_000),
        (16_000, 1_000),
        (16_001, 1_001),
        (100_000, 6_250),
        (1_000_000, 10_000),
    ],
)
def test_a_full_pass_is_spread_over_sixteen_ticks_unless_that_is_too_little_or_too_much(
    partitions, share
):
    assert compute_tick_share(partitions, leisurely=True) == share


def test_a_pass_that_must_not_wait_takes_all_that_a_tick_may_take():
    assert compute_tick_share(10, leisurely=False) == JUDGED_PER_TICK_MAX


def test_a_tick_takes_its_share_in_order_and_the_last_one_what_is_left():
    judging_pass = begun(partitions=5, share=2)
    taken = [[subject.label for subject in judging_pass.take()] for _ in range(4)]
    assert taken == [["0", "1"], ["2", "3"], ["4"], []]
    assert judging_pass.at == 7.0


def test_a_pass_that_is_hurried_ends_with_the_next_tick():
    judging_pass = begun(partitions=5, share=2)
    assert len(list(judging_pass.take())) == 2
    judging_pass.hurry()
    assert len(list(judging_pass.take())) == 3


def test_a_partial_pass_does_not_put_off_the_full_one():
    schedule = PassSchedule(full_w=130.0)
    schedule.end(begun(partitions=0, share=1, whole=False), 0, 60.0)
    assert (schedule.full_w, schedule.partial_w) == (130.0, 100.0)
    schedule.end(begun(partitions=0, share=1, whole=False, next_w=120.0), 0, 60.0)
    assert schedule.full_w == 120.0
    schedule.end(begun(partitions=0, share=1), 0, 60.0)
    assert schedule.full_w == 160.0


def test_the_more_partitions_are_in_trouble_the_fewer_partial_passes_there_are():
    schedule = PassSchedule()
    schedule.end(begun(partitions=0, share=1), TROUBLED_PER_INTERVAL_MAX // 2, 60.0)
    assert schedule.partial_w == 130.0


# --- glances -------------------------------------------------------------------------------------

# --- when ----------------------------------------------------------------------------------------


def test_before_the_first_poll_there_is_nothing_to_remember():
    progress = ProgressTracker(SETTINGS)
    assert progress.remembered() is None
    assert not progress.urgent
    assert progress.newest == ()


def test_everything_is_inspected_once_an_interval_and_not_before_it_is_over():
    judge = JudgedSnapshots(read("lake", 10))
    judge.tick(59.0, read("lake", 11))
    assert judge.verdict("lake") is Verdict.UNKNOWN
    assert judge.tick(1.0).verdict("lake") is Verdict.OK
    assert judge.progress.newest is judge.judgements


def test_an_input_that_goes_blind_or_sees_again_is_not_waited_with():
    judge = JudgedSnapshots(read("lake", 10)).judge(1)
    observed = judge.snapshot
    assert judge.progress.sees_as_before(observed)
    for live in (False, True):  # one that never told anything is not missed
        more = heard(InputId(LOG_ENDS, kafka="west"), live=live)
        assert (
            judge.progress.sees_as_before(replace(observed, inputs=(*observed.inputs, more)))
            is not live
        )
    snapshot = replace(
        observed, inputs=(REST, heard(GROUPS_INPUT.id, live=False)), at=observed.at + 1
    )
    assert not judge.progress.sees_as_before(snapshot)
    assert not judge.progress.sees_as_before(
        replace(observed, ready=False, awaited=frozenset({GROUPS_INPUT.id}))
    )
    judge.has_judged()
    judge.tick(1.0, inputs=snapshot.inputs)
    assert judge.has_judged()
    assert judge.progress.sees_as_before(snapshot)


def test_what_is_in_trouble_is_well_again_as_soon_as_it_moves():
    judge = silent(read("pond", 1000))
    pond = judge.of("pond")
    judge.tick(1.0, read("lake", 11), read("pond", 1001, 1001))
    assert judge.verdict("lake") is Verdict.OK
    assert judge.of("pond") is pond
    judge.has_judged()
    judge.tick(1.0, read("lake", 12), read("pond", 1002, 1002))
    assert not judge.has_judged()  # at what is well again, as little as at what always was


def test_what_is_not_in_trouble_is_not_inspected_in_between():
    judge = JudgedSnapshots(read("lake", 10)).tick(60.0, read("lake", 11))
    judge.has_judged()
    reports = judge.judgements
    assert judge.tick(1.0, read("lake", 12)).judgements is reports
    assert not judge.has_judged()


def test_of_what_is_in_trouble_nothing_new_is_observed_while_it_is_the_same():
    judge = silent()
    judge.has_judged()
    judge.tick(1.0)
    assert not judge.has_judged()
    judge.tick(1.0, read("lake", 10, 1001))
    assert judge.has_judged()


def test_all_that_is_in_trouble_is_inspected_in_one_tick(monkeypatch):
    monkeypatch.setattr(tracker, "JUDGED_PER_TICK_MIN", 1)
    monkeypatch.setattr(tracker, "FULL_PASS_TICKS", 100)
    judge = JudgedSnapshots(read("lake", 10), read("lake", 10, number=1))
    for _ in range(3):
        judge.tick(59.0).tick(1.0).tick(0.0)
    assert judge.verdict("lake") is Verdict.SILENT
    judge.tick(1.0, read("lake", 11), read("lake", 11, number=1))
    assert judge.verdict("lake") is Verdict.OK


def test_many_in_trouble_are_inspected_less_often(monkeypatch):
    monkeypatch.setattr(tracker, "TROUBLED_PER_INTERVAL_MAX", 4)
    judge = JudgedSnapshots(read("lake", 10), read("lake", 10, number=1)).judge(3)
    moved = (read("lake", 11), read("lake", 11, number=1))
    assert judge.tick(29.0, *moved).verdict("lake") is Verdict.SILENT
    moved = (read("lake", 12), read("lake", 12, number=1))
    assert judge.tick(1.0, *moved).verdict("lake") is Verdict.OK


def test_a_glance_does_not_put_off_the_poll_of_everything():
    judge = silent(read("pond", 1000))
    judge.tick(50.0, read("lake", 10, 1001), read("pond", 1001, 1001))
    assert ("position", "1000") in pairs(judge.of("pond").evidence)
    assert ("position", "1001") in pairs(judge.tick(10.0).of("pond").evidence)


def test_the_next_poll_comes_when_patience_ends_if_that_is_before_the_interval_is_over():
    """What waits since the middle of an interval is silent three intervals after that."""
    judge = JudgedSnapshots(read("lake", 1000)).tick(60.0)
    waits = replace(read("lake", 1000, 1001), behind_since=judge.now + 20)
    judge.tick(60.0, waits).judge(2)
    assert judge.tick(19.0).verdict("lake") is not Verdict.SILENT
    assert judge.tick(1.0).verdict("lake") is Verdict.SILENT


def test_what_was_in_trouble_and_is_forgotten_is_not_searched_for():
    judge = silent(read("pond", 1000))
    judge.tick(60.0, read("pond", 1001, 1001), connectors=(connector("pond"),))
    assert {judgement.connector for judgement in judge.judgements} == {"pond"}
    judge.judge(3)
    judge.has_judged()
    judge.tick(1.0, read("pond", 1002, 1002))
    assert not judge.has_judged()


def test_what_begins_to_wait_is_what_it_was_until_patience_ends():
    judge = JudgedSnapshots(read("lake", 999, 999)).tick(60.0, read("lake", 1000)).judge(3)
    assert judge.verdict("lake") is Verdict.IDLE
    waits = read("lake", 1000, 1001)
    assert judge.tick(60.0, waits).verdict("lake") is Verdict.IDLE
    assert judge.judge(2).verdict("lake") is Verdict.IDLE
    assert judge.judge(1).verdict("lake") is Verdict.SILENT


# --- how much at once ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leisure", "ticks", "at_once", "remaining"),
    [
        pytest.param(1, 2, 100, 2, id="a part of all, rounded up"),
        pytest.param(4, 2, 100, 1, id="so many at least"),
        pytest.param(4, 2, 2, 3, id="and no more than are ever judged at once"),
    ],
)
def test_at_leisure_so_many_are_judged_in_a_tick(leisure, ticks, at_once, remaining, monkeypatch):
    monkeypatch.setattr(tracker, "JUDGED_PER_TICK_MIN", leisure)
    monkeypatch.setattr(tracker, "FULL_PASS_TICKS", ticks)
    judge = JudgedSnapshots(*(read("lake", 10, number=n) for n in range(5)))
    monkeypatch.setattr(tracker, "JUDGED_PER_TICK_MAX", at_once)
    judge.tick(60.0)
    assert judge.progress._pass is not None
    assert len(judge.progress._pass.pending) == remaining


def test_a_poll_in_several_ticks_is_of_the_moment_at_which_it_began(monkeypatch):
    monkeypatch.setattr(tracker, "JUDGED_PER_TICK_MIN", 1)
    monkeypatch.setattr(tracker, "FULL_PASS_TICKS", 100)
    judge = JudgedSnapshots(read("lake", 10), read("pond", 10))
    before = judge.judgements
    moved = (read("lake", 11), read("pond", 11))
    assert judge.tick(60.0, *moved).judgements is before
    began = judge.now
    judge.tick(5.0, read("lake", 12), read("pond", 12))
    assert [(judgement.verdict, judgement.since) for judgement in judge.judgements] == [
        (Verdict.OK, began)
    ] * 2
    progress = judge.progress.remembered()
    assert progress is not None
    assert (progress.at, progress.watched) == (began, 60.0)
    assert {retained.window.position for retained in progress.subjects} == {11}
    assert judge.tick(54.0).progress._pass is None
    assert judge.tick(1.0).progress._pass is not None  # an interval after it began


def test_what_moved_before_a_glance_was_due_is_observed_by_it(monkeypatch):
    monkeypatch.setattr(tracker, "TROUBLED_PER_INTERVAL_MAX", 4)
    judge = JudgedSnapshots(read("lake", 10), read("lake", 10, number=1)).judge(3)
    judge.tick(29.0, read("lake", 11), read("lake", 11, number=1))
    assert judge.verdict("lake") is not Verdict.OK
    assert judge.tick(1.0).verdict("lake") is Verdict.OK
