"""What is said of a connector and of a flow, and how that outlives the process."""

from __future__ import annotations

import json

import msgspec
import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.progress.cases import NO_LOG_END
from offsetwatch.judge.progress.tracker import ProgressState
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.connectors import StateChange, StateHistory, Task
from offsetwatch.model.findings import Scope, Verdict
from offsetwatch.model.observations import LOG_ENDS, InputId
from tests.evidence import pairs, texts
from tests.unit.judge.judged_snapshots import (
    JudgedSnapshots,
    connector,
    fails,
    mirrored,
    read,
    silent,
)
from tests.unit.judge.observed_rewinds import BEGAN, counted
from tests.unit.judge.test_input_visibility import GROUPS_INPUT, REST, heard

# --- the sum -------------------------------------------------------------------------------------


def test_what_was_wrong_and_is_hidden_now_does_not_look_well():
    judge = silent(read("lake", 10, number=1))
    judge.tick(60.0, read("lake", 10, None), read("lake", 11, number=1))
    judgement = judge.of("lake")
    assert (judgement.verdict, judgement.rule, judgement.reason) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
        NO_LOG_END,
    )
    assert texts(judgement.evidence)["for instance"] == "orders-0"
    judge.tick(60.0, read("lake", 11), read("lake", 12, number=1))
    assert judge.verdict("lake") is Verdict.OK


def test_what_was_well_and_is_hidden_now_leaves_the_others_as_they_are():
    judge = JudgedSnapshots(read("lake", 10), read("lake", 10, number=1))
    judge.tick(60.0, read("lake", 11), read("lake", 11, number=1))
    judge.tick(60.0, read("lake", 11, None), read("lake", 12, number=1))
    assert judge.verdict("lake") is Verdict.OK
    assert pairs(judge.of("lake").evidence)[:2] == [
        ("ok", "1 partition"),
        ("unknown", "1 partition"),
    ]


def test_what_is_wrong_now_is_reported_before_what_is_hidden():
    judge = silent(read("lake", 10, number=1))
    judge.tick(60.0, read("lake", 10, None), read("lake", 10, number=1))
    assert judge.verdict("lake") is Verdict.SILENT
    assert texts(judge.of("lake").evidence)["for instance"] == "orders-1"


def test_the_partition_that_has_been_so_for_longest_is_reported_as_the_instance():
    judge = JudgedSnapshots(read("lake", 10), read("lake", 10, number=1))
    judge.tick(60.0, read("lake", 11), read("lake", 10, number=1)).judge(3)
    assert texts(judge.of("lake").evidence)["for instance"] == "orders-1"
    judge = JudgedSnapshots(read("lake", 10, number=1), read("lake", 10)).judge(3)
    assert texts(judge.of("lake").evidence)["for instance"] == "orders-0"


def test_a_connector_that_is_gone_is_reported_no_more_and_begins_again_when_it_comes_back():
    judge = JudgedSnapshots(connectors=(connector("idle"),))
    judge.judge(2)
    assert (judge.verdict("idle"), judge.of("idle").since) == (Verdict.UNKNOWN, BEGAN)
    assert judge.judge(1, connectors=()).judgements == ()
    progress = judge.progress.remembered()
    assert progress is not None
    assert (progress.wholes, progress.tracks) == ([], [])
    judge.judge(1, connectors=(connector("idle"),))
    assert judge.of("idle").since == judge.now


def test_a_partition_that_comes_back_before_patience_ends_goes_on_as_it_was():
    judge = silent()
    since = judge.of("lake").since
    lake = judge.snapshot.connectors
    assert judge.judge(2, sink_partitions=(), connectors=()).judgements == ()
    judge.tick(60.0, read("lake", 10), connectors=lake)
    assert judge.verdict("lake") is Verdict.SILENT
    progress = judge.progress.remembered()
    assert progress is not None
    assert [retained.verdict_state.since for retained in progress.subjects] == [since]


def test_of_a_flow_only_what_it_copies_counts():
    judge = mirrored(source_partitions=(counted("mm2"),))
    assert texts(judge.of("mm2").evidence)["unknown"] == "2 partitions"
    flow = judge.of("mm2", Scope.FLOW)
    assert (flow.subject, texts(flow.evidence)["unknown"]) == ("west->east", "1 partition")
    assert "orders" in texts(flow.evidence)["for instance"]


def test_a_partition_that_is_gone_for_as_long_as_patience_lasts_is_forgotten():
    """Also one that stood still for good, which is passed by while it is there."""
    judge = JudgedSnapshots(read("lake", 1000)).judge(4).judge(4, sink_partitions=(), connectors=())
    progress = judge.progress.remembered()
    assert progress is not None
    assert (progress.subjects, progress.tracks) == ([], [])


def test_what_was_hidden_at_its_first_poll_is_not_remembered():
    inputs = (REST, heard(InputId(LOG_ENDS, kafka="west"), live=False))
    judge = mirrored(inputs=inputs)
    assert judge.of("mm2", Scope.PARTITION).rule == UNAVAILABLE_INPUT_RULE
    progress = judge.progress.remembered()
    assert progress is not None
    assert progress.subjects == []


def test_only_a_trouble_and_its_end_are_urgent():
    judge = JudgedSnapshots(read("lake", 10))
    judge.tick(60.0, read("lake", 11))
    assert judge.verdict("lake") is Verdict.OK
    assert not judge.progress.urgent
    judge.judge(3)
    assert judge.verdict("lake") is Verdict.SILENT
    assert judge.progress.urgent
    judge.judge(1)
    assert judge.progress.urgent  # until it is remembered
    judge.has_judged()
    assert not judge.progress.urgent
    judge.tick(1.0, read("lake", 12))
    assert judge.progress.urgent


def test_a_connector_that_nothing_lists_is_summed_up_by_what_it_commits():
    judge = JudgedSnapshots(read("lake", 10), connectors=(), inputs=(GROUPS_INPUT,))
    judge.tick(60.0, read("lake", 11))
    assert judge.verdict("lake") is Verdict.OK


def test_what_stood_still_for_good_is_unknown_all_the_same_once_it_is_hidden():
    judge = JudgedSnapshots(read("lake", 1000)).judge(4)
    assert judge.verdict("lake") is Verdict.IDLE
    judge.judge(1, sink_partitions=(), inputs=(REST, heard(GROUPS_INPUT.id, live=False)))
    assert (judge.verdict("lake"), judge.of("lake").rule) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
    )


def test_what_stands_still_while_no_states_are_read_is_unknown():
    judge = silent().judge(1, inputs=(heard(REST.id, live=False), GROUPS_INPUT))
    assert (judge.verdict("lake"), judge.of("lake").rule) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
    )


# --- what shows why ------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("task", [None, 0], ids=["connector", "task"])
def test_what_failed_between_two_polls_is_known_by_its_newest_failure(task, skew_s):
    began = BEGAN + skew_s  # by the worker's clock
    runs = StateHistory("lab", "pond", task, (StateChange(began, "running", None),))
    before = (fails(began - 50, task=task), runs)
    judge = JudgedSnapshots(read("lake", 10), read("pond", 10), histories=before).judge(2)
    judge.judge(1, histories=(fails(began - 50, began + 20, began + 150, task=task), runs))
    assert judge.verdict("lake") is Verdict.STALLED
    assert f"it failed at {format_moment(BEGAN + 180)}, and runs again" in judge.of("lake").reason
    assert judge.verdict("pond") is Verdict.SILENT


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_a_failure_that_another_worker_reports_is_newer_by_any_clock(skew_s):
    judge = JudgedSnapshots(read("lake", 10), histories=(fails(BEGAN - 50),))
    judge.judge(1, histories=(fails(BEGAN - 50, BEGAN + 50 + max(0.0, skew_s)),))
    judge.judge(1, sink_partitions=(read("lake", 11),))
    reports = (BEGAN - 50, BEGAN + 50 + max(0.0, skew_s), BEGAN + 130 + min(0.0, skew_s))
    judge.judge(3, histories=(fails(*reports),))
    assert judge.verdict("lake") is Verdict.STALLED
    assert f"it failed at {format_moment(BEGAN + 180)}, and runs again" in judge.of("lake").reason


def test_of_a_history_that_was_not_followed_no_failure_is_news():
    judge = JudgedSnapshots(read("lake", 10)).judge(2)
    judge.judge(1, histories=(fails(BEGAN + 150),))
    assert judge.verdict("lake") is Verdict.SILENT


def test_a_failed_task_or_connector_does_not_mark_other_connectors_as_failed():
    bad = connector("lake", tasks=(Task(0, "running"), Task(1, "failed")))
    worse = connector("pond", state="failed", tasks=())
    judge = JudgedSnapshots(read("lake", 10), read("pond", 10), read("pool", 10))
    judge.judge(3, connectors=(bad, worse, connector("pool")))
    assert [(judgement.connector, judgement.verdict) for judgement in judge.judgements] == [
        ("lake", Verdict.STALLED),
        ("pond", Verdict.STALLED),
        ("pool", Verdict.SILENT),
    ]
    tracks = judge.progress._registry.tracks
    assert [tracks["lab", name].failed_at for name in ("lake", "pond", "pool")] == [
        judge.now,
        judge.now,
        0.0,
    ]


def test_a_restart_forgets_nothing_of_a_connector():
    judge = JudgedSnapshots(
        read("lake", 10), connectors=(connector("lake", tasks=(Task(0, "failed"),)),)
    )
    judge.judge(1).judge(1, connectors=(connector("lake"),))
    before = judge.progress._registry.tracks["lab", "lake"]
    known = (before.why_w, before.restarted_w, before.failed_w, before.failed_at)
    assert known == (120.0, 120.0, 60.0, BEGAN + 60)
    after = judge.restart().progress._registry.tracks["lab", "lake"]
    assert (after.why_w, after.restarted_w, after.failed_w, after.failed_at) == known
    assert after.why is None


def test_a_document_of_before_failures_had_a_time_is_gone_on_with():
    judge = silent()
    progress = judge.progress.remembered()
    assert progress is not None
    (track,) = progress.tracks
    judge.restart(
        ProgressState(
            progress.at, progress.watched, progress.subjects, progress.wholes, [(*track[:6], None)]
        )
    )
    judge.judge(1, histories=(fails(judge.now - 90),))
    judge.judge(1, histories=(fails(judge.now - 150, judge.now + 30),))
    assert judge.progress._registry.tracks["lab", "lake"].failed_at == judge.now


def test_a_restart_goes_on_with_the_verdicts_and_the_patience_that_there_were():
    judge = JudgedSnapshots(read("lake", 10)).judge(2)
    judge.restart().judge(1)
    assert judge.verdict("lake") is Verdict.SILENT
    since = judge.of("lake").since
    judge.restart().judge(1)
    assert (judge.verdict("lake"), judge.of("lake").since) == (Verdict.SILENT, since)


def test_partitions_are_lists_on_disk_as_they_always_were():
    progress = silent().progress.remembered()
    (retained,) = json.loads(msgspec.json.encode(progress))["subjects"]
    assert retained[:3] == [["lab", "lake", "orders-0"], "orders-0", True]


# --- what is slow --------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_comes_in_batches_and_is_not_kept_up_with_is_slow(every):
    """There are looks at which nothing has moved, and which are passed by."""
    judge, names = JudgedSnapshots(read("lake", 0, 1000)), set()
    for number in range(1, 41):
        batches = number // every
        judge.tick(60.0, read("lake", 50 * batches, 1000 + 300 * batches))
        names.add(judge.verdict("lake"))
    assert Verdict.SLOW in names


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_comes_in_batches_and_is_kept_up_with_is_not_slow(every):
    judge, names = JudgedSnapshots(read("lake", 0, 1000)), set()
    for number in range(1, 41):
        batches = number // every
        judge.tick(60.0, read("lake", 300 * batches, 1000 + 300 * batches))
        names.add(judge.verdict("lake"))
    assert Verdict.SLOW not in names
