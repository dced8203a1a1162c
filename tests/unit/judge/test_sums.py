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
from tests.unit.judge.test_input_visibility import ASKED, REST, heard

from .desks import Desk, connector, fails, mirrored, read, silent
from .watches import BEGAN, counted

# --- the sum -------------------------------------------------------------------------------------


def test_what_was_wrong_and_is_hidden_now_does_not_look_well():
    desk = silent(read("lake", 10, number=1))
    desk.tick(60.0, read("lake", 10, None), read("lake", 11, number=1))
    found = desk.of("lake")
    assert (found.verdict, found.rule, found.reason) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
        NO_LOG_END,
    )
    assert texts(found.evidence)["for instance"] == "orders-0"
    desk.tick(60.0, read("lake", 11), read("lake", 12, number=1))
    assert desk.verdict("lake") is Verdict.OK


def test_what_was_well_and_is_hidden_now_leaves_the_others_as_they_are():
    desk = Desk(read("lake", 10), read("lake", 10, number=1))
    desk.tick(60.0, read("lake", 11), read("lake", 11, number=1))
    desk.tick(60.0, read("lake", 11, None), read("lake", 12, number=1))
    assert desk.verdict("lake") is Verdict.OK
    assert pairs(desk.of("lake").evidence)[:2] == [
        ("ok", "1 partition"),
        ("unknown", "1 partition"),
    ]


def test_what_is_wrong_now_is_told_before_what_is_hidden():
    desk = silent(read("lake", 10, number=1))
    desk.tick(60.0, read("lake", 10, None), read("lake", 10, number=1))
    assert desk.verdict("lake") is Verdict.SILENT
    assert texts(desk.of("lake").evidence)["for instance"] == "orders-1"


def test_the_partition_that_has_been_so_for_longest_is_told_as_the_instance():
    desk = Desk(read("lake", 10), read("lake", 10, number=1))
    desk.tick(60.0, read("lake", 11), read("lake", 10, number=1)).looks(3)
    assert texts(desk.of("lake").evidence)["for instance"] == "orders-1"
    desk = Desk(read("lake", 10, number=1), read("lake", 10)).looks(3)
    assert texts(desk.of("lake").evidence)["for instance"] == "orders-0"


def test_a_connector_that_is_gone_is_told_no_more_and_begins_anew_when_it_comes_back():
    desk = Desk(connectors=(connector("idle"),))
    desk.looks(2)
    assert (desk.verdict("idle"), desk.of("idle").since) == (Verdict.UNKNOWN, BEGAN)
    assert desk.looks(1, connectors=()).told == ()
    told = desk.progress.remembered()
    assert told is not None
    assert (told.wholes, told.tracks) == ([], [])
    desk.looks(1, connectors=(connector("idle"),))
    assert desk.of("idle").since == desk.now


def test_a_partition_that_comes_back_before_patience_ends_goes_on_as_it_was():
    desk = silent()
    since = desk.of("lake").since
    lake = desk.snapshot.connectors
    assert desk.looks(2, sink_partitions=(), connectors=()).told == ()
    desk.tick(60.0, read("lake", 10), connectors=lake)
    assert desk.verdict("lake") is Verdict.SILENT
    told = desk.progress.remembered()
    assert told is not None
    assert [kept.standing.since for kept in told.subjects] == [since]


def test_of_a_flow_only_what_it_copies_counts():
    desk = mirrored(source_partitions=(counted("mm2"),))
    assert texts(desk.of("mm2").evidence)["unknown"] == "2 partitions"
    flow = desk.of("mm2", Scope.FLOW)
    assert (flow.subject, texts(flow.evidence)["unknown"]) == ("west->east", "1 partition")
    assert "orders" in texts(flow.evidence)["for instance"]


def test_a_partition_that_is_gone_for_as_long_as_patience_lasts_is_forgotten():
    """Also one that stood still for good, which is passed by while it is there."""
    desk = Desk(read("lake", 1000)).looks(4).looks(4, sink_partitions=(), connectors=())
    told = desk.progress.remembered()
    assert told is not None
    assert (told.subjects, told.tracks) == ([], [])


def test_what_was_hidden_at_its_first_look_is_not_remembered():
    inputs = (REST, heard(InputId(LOG_ENDS, kafka="west"), live=False))
    desk = mirrored(inputs=inputs)
    assert desk.of("mm2", Scope.PARTITION).rule == UNAVAILABLE_INPUT_RULE
    told = desk.progress.remembered()
    assert told is not None
    assert told.subjects == []


def test_only_a_trouble_and_its_end_are_urgent():
    desk = Desk(read("lake", 10))
    desk.tick(60.0, read("lake", 11))
    assert desk.verdict("lake") is Verdict.OK
    assert not desk.progress.urgent
    desk.looks(3)
    assert desk.verdict("lake") is Verdict.SILENT
    assert desk.progress.urgent
    desk.looks(1)
    assert desk.progress.urgent  # until it is remembered
    desk.has_looked()
    assert not desk.progress.urgent
    desk.tick(1.0, read("lake", 12))
    assert desk.progress.urgent


def test_a_connector_that_nothing_lists_is_summed_up_by_what_it_commits():
    desk = Desk(read("lake", 10), connectors=(), inputs=(ASKED,))
    desk.tick(60.0, read("lake", 11))
    assert desk.verdict("lake") is Verdict.OK


def test_what_stood_still_for_good_is_unknown_all_the_same_once_it_is_hidden():
    desk = Desk(read("lake", 1000)).looks(4)
    assert desk.verdict("lake") is Verdict.IDLE
    desk.looks(1, sink_partitions=(), inputs=(REST, heard(ASKED.id, live=False)))
    assert (desk.verdict("lake"), desk.of("lake").rule) == (Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE)


def test_what_stands_still_while_no_states_are_read_is_unknown():
    desk = silent().looks(1, inputs=(heard(REST.id, live=False), ASKED))
    assert (desk.verdict("lake"), desk.of("lake").rule) == (Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE)


# --- what shows why ------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("task", [None, 0], ids=["connector", "task"])
def test_what_failed_between_two_polls_is_known_by_its_newest_failure(task, skew_s):
    began = BEGAN + skew_s  # by the worker's clock
    runs = StateHistory("lab", "pond", task, (StateChange(began, "running", None),))
    before = (fails(began - 50, task=task), runs)
    desk = Desk(read("lake", 10), read("pond", 10), histories=before).looks(2)
    desk.looks(1, histories=(fails(began - 50, began + 20, began + 150, task=task), runs))
    assert desk.verdict("lake") is Verdict.STALLED
    assert f"it failed at {format_moment(BEGAN + 180)}, and runs again" in desk.of("lake").reason
    assert desk.verdict("pond") is Verdict.SILENT


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_a_failure_that_another_worker_tells_is_newer_by_any_clock(skew_s):
    desk = Desk(read("lake", 10), histories=(fails(BEGAN - 50),))
    desk.looks(1, histories=(fails(BEGAN - 50, BEGAN + 50 + max(0.0, skew_s)),))
    desk.looks(1, sink_partitions=(read("lake", 11),))
    told = (BEGAN - 50, BEGAN + 50 + max(0.0, skew_s), BEGAN + 130 + min(0.0, skew_s))
    desk.looks(3, histories=(fails(*told),))
    assert desk.verdict("lake") is Verdict.STALLED
    assert f"it failed at {format_moment(BEGAN + 180)}, and runs again" in desk.of("lake").reason


def test_of_a_history_that_was_not_followed_no_failure_is_news():
    desk = Desk(read("lake", 10)).looks(2)
    desk.looks(1, histories=(fails(BEGAN + 150),))
    assert desk.verdict("lake") is Verdict.SILENT


def test_of_a_connector_whose_task_or_itself_has_failed_others_know_nothing():
    bad = connector("lake", tasks=(Task(0, "running"), Task(1, "failed")))
    worse = connector("pond", state="failed", tasks=())
    desk = Desk(read("lake", 10), read("pond", 10), read("pool", 10))
    desk.looks(3, connectors=(bad, worse, connector("pool")))
    assert [(at.connector, at.verdict) for at in desk.told] == [
        ("lake", Verdict.STALLED),
        ("pond", Verdict.STALLED),
        ("pool", Verdict.SILENT),
    ]
    tracks = desk.progress._registry.tracks
    assert [tracks["lab", name].failed_at for name in ("lake", "pond", "pool")] == [
        desk.now,
        desk.now,
        0.0,
    ]


def test_a_restart_forgets_nothing_of_a_connector():
    desk = Desk(read("lake", 10), connectors=(connector("lake", tasks=(Task(0, "failed"),)),))
    desk.looks(1).looks(1, connectors=(connector("lake"),))
    before = desk.progress._registry.tracks["lab", "lake"]
    known = (before.why_w, before.restarted_w, before.failed_w, before.failed_at)
    assert known == (120.0, 120.0, 60.0, BEGAN + 60)
    after = desk.restart().progress._registry.tracks["lab", "lake"]
    assert (after.why_w, after.restarted_w, after.failed_w, after.failed_at) == known
    assert after.why is None


def test_a_document_of_before_failures_had_a_time_is_gone_on_with():
    desk = silent()
    told = desk.progress.remembered()
    assert told is not None
    (track,) = told.tracks
    desk.restart(
        ProgressState(told.at, told.watched, told.subjects, told.wholes, [(*track[:6], None)])
    )
    desk.looks(1, histories=(fails(desk.now - 90),))
    desk.looks(1, histories=(fails(desk.now - 150, desk.now + 30),))
    assert desk.progress._registry.tracks["lab", "lake"].failed_at == desk.now


def test_a_restart_goes_on_with_the_verdicts_and_the_patience_that_there_were():
    desk = Desk(read("lake", 10)).looks(2)
    desk.restart().looks(1)
    assert desk.verdict("lake") is Verdict.SILENT
    since = desk.of("lake").since
    desk.restart().looks(1)
    assert (desk.verdict("lake"), desk.of("lake").since) == (Verdict.SILENT, since)


def test_partitions_are_lists_on_disk_as_they_always_were():
    told = silent().progress.remembered()
    (kept,) = json.loads(msgspec.json.encode(told))["subjects"]
    assert kept[:3] == [["lab", "lake", "orders-0"], "orders-0", True]


# --- what is slow --------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_comes_in_batches_and_is_not_kept_up_with_is_slow(every):
    """There are looks at which nothing has moved, and which are passed by."""
    desk, told = Desk(read("lake", 0, 1000)), set()
    for number in range(1, 41):
        batches = number // every
        desk.tick(60.0, read("lake", 50 * batches, 1000 + 300 * batches))
        told.add(desk.verdict("lake"))
    assert Verdict.SLOW in told


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_comes_in_batches_and_is_kept_up_with_is_not_slow(every):
    desk, told = Desk(read("lake", 0, 1000)), set()
    for number in range(1, 41):
        batches = number // every
        desk.tick(60.0, read("lake", 300 * batches, 1000 + 300 * batches))
        told.add(desk.verdict("lake"))
    assert Verdict.SLOW not in told
