"""A finding has a beginning and an end; not to see is neither."""

from __future__ import annotations

import json

import pytest

from offsetwatch.judge.findings import register
from offsetwatch.judge.findings.register import EFFECTS_BY_CAUSE
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.connectors import Condition, Task, TaskStatus
from offsetwatch.model.findings import EvidenceItem, FindingName, Severity, Verdict
from offsetwatch.model.observations import CONNECT_REST, LOG_ENDS, TAIL, InputId, ListingRecord
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.unit.judge.findings.test_finding_rules import (
    a_connector_is_recreated,
    a_flow_copies_again,
    a_flow_has_more_to_copy_than_ever,
    a_flow_is_silent,
    a_position_is_past_the_end,
    a_task_fails_and_gets_on,
    a_task_fails_at_one_position,
    an_input_fails,
    an_offset_is_no_number,
    checkpoints_stop,
    filed,
    mirrored,
    records_are_lost,
    stopped_and_reset,
    the_syncs_are_deleted,
    three_connectors_go_back,
)
from tests.unit.judge.register_runs import (
    BAD,
    INTERVAL_S,
    POLL_S,
    SETTINGS,
    STATUS,
    Play,
    failed,
    task,
)
from tests.unit.state.worlds import FILE, OFFSETS, SYNCS, World, files, mirror, orders, source

REST = InputId(CONNECT_REST, connect_cluster="lab")
OFFSETS_TAIL = InputId.of_tail(OFFSETS)


def task_failed() -> Play:
    play = filed()
    play.world.listed(failed())
    play.evaluate()
    return play


# --- since ---------------------------------------------------------------------------------------


def test_a_finding_is_as_old_as_its_first_poll_however_often_it_is_said():
    play = task_failed()
    since = play.only().since
    play.run(3)
    assert play.only().since == since == play.world.now - 3 * INTERVAL_S


def test_what_is_said_of_a_finding_is_what_is_so_now():
    play = filed()
    play.world.listed(failed(tasks=2))
    play.evaluate()
    before = play.only()
    assert before.summary.startswith("files task 0 FAILED: Bad")
    play.world.listed(source("files", tasks=(Task(0, "failed", BAD), Task(1, "failed", BAD))))
    play.evaluate()
    assert play.only().summary.startswith("files 2 of 2 tasks FAILED: Bad")
    assert play.only().since == before.since


def test_a_second_copy_that_was_reported_for_long_enough_is_forgotten():
    assert copied_as_far_again().register._memory.falls.recopies == {}


def test_what_was_fixed_in_between_is_found_again():
    play = task_failed()
    play.world.listed(source("files", state="stopped", tasks=()))
    play.evaluate()
    assert play.names() == []
    play.world.listed(failed())
    play.evaluate()
    assert play.only().since == play.world.now


def test_a_clock_that_was_set_back_leaves_no_finding_of_the_future():
    play = task_failed()
    play.world.now -= 10 * INTERVAL_S
    play.world.listed(failed())
    play.evaluate()
    assert play.only().since == play.world.now


def test_rules_are_queried_twelve_times_an_interval_and_not_at_every_tick():
    play = filed()
    play.world.listed(failed())
    play.world.now += POLL_S / 2
    assert play.register.found(play.snapshot()) == ()
    play.world.now += POLL_S / 2
    assert [finding.name for finding in play.register.found(play.snapshot())] == [
        FindingName.TASK_FAILED
    ]


# --- order and bounds ----------------------------------------------------------------------------


def test_the_worst_comes_first_and_among_equals_the_oldest():
    play = Play(files())
    listed = [failed("young", tasks=2), failed("old", tasks=2), failed("bad")]
    play.world.listed(listed[1])
    play.evaluate()
    play.world.listed(*listed)
    play.evaluate()
    assert [finding.connector for finding in play.findings] == ["bad", "old", "young"]
    assert [finding.severity for finding in play.findings] == [
        Severity.CRITICAL,
        Severity.WARNING,
        Severity.WARNING,
    ]


def test_what_is_beyond_the_bound_of_a_document_is_counted_once(monkeypatch):
    monkeypatch.setattr(register, "FINDINGS_MAX", 2)
    play = Play(files())
    play.world.listed(*(failed(name, tasks=2) for name in "abc"), failed("worst"))
    play.run(1)
    assert [finding.connector for finding in play.findings] == ["worst", "a", "b", "c"]
    assert play.register.dropped == (("findings_max", 2),)


def test_what_was_cut_is_among_what_the_snapshot_dropped(monkeypatch):
    monkeypatch.setattr(register, "FINDINGS_MAX", 0)
    world = files()
    world.listed(failed())
    judged = SnapshotJudge(SETTINGS).judged(world.snapshot())
    assert [finding.connector for finding in judged.findings] == [failed().name]
    assert dict(judged.dropped) == {"findings_max": 1}


# --- many of one cause ---------------------------------------------------------------------------


def test_many_partitions_of_one_connector_are_one_finding_with_the_first_five():
    play = mirrored()
    for number in range(8):
        play.world.commit("mm2", orders(number), {"offset": "5"})
    play.evaluate()
    assert play.only().summary.startswith("mm2 (west->east) has 8 source partitions ")
    assert len(play.only().evidence) == 6
    assert play.only().evidence[-1] == EvidenceItem("and more", 3, "others")


@pytest.mark.parametrize("cause", list(EFFECTS_BY_CAUSE), ids=str)
def test_a_cause_is_reported_in_place_of_its_effects_and_names_them(cause, monkeypatch):
    def said(name):
        def rule(observed):
            yield observed.found(name, Severity.WARNING, ("lab", "files"), "So it is.")

        return rule

    names = (cause, *sorted(EFFECTS_BY_CAUSE[cause]))
    rules = tuple((number, said(name)) for number, name in enumerate(names))
    monkeypatch.setattr(register, "RULES", rules)
    play = Play(files())
    play.evaluate()
    assert play.names() == [cause.value]
    assert texts(play.only().evidence)["explains"] == ", ".join(
        sorted(name.value for name in EFFECTS_BY_CAUSE[cause])
    )


def test_a_failed_task_is_reported_in_place_of_the_stall_that_it_makes():
    play = task_failed()
    play.judge(Verdict.STALLED, "files")
    play.evaluate()
    assert play.names() == ["task_failed"]
    assert ("explains", "connector_stalled") in pairs(play.only().evidence)


def test_the_stall_of_another_connector_is_reported_all_the_same():
    play = task_failed()
    play.world.listed(failed(), source("other"))
    play.judge(Verdict.STALLED, "other")
    play.evaluate()
    assert sorted(play.names()) == ["connector_stalled", "task_failed"]


def test_connectors_that_went_back_together_are_one_finding():
    play = three_connectors_go_back()
    play.judge(Verdict.REWOUND, "a", "b", subjects=("filename=/data/in.txt",))
    play.evaluate()
    assert play.names() == ["rewinds_at_once"]
    play.run(3)
    assert play.names() == ["rewound", "rewound"]


# --- mended --------------------------------------------------------------------------------------


def poison_is_passed() -> Play:
    play = a_task_fails_at_one_position()
    play.fail()
    play.run(0.2)
    play.add_statuses(task("running"))
    play.world.commit("files", FILE, {"position": 2})
    play.evaluate()
    return play


def loop_is_over() -> Play:
    play = a_task_fails_and_gets_on()
    play.add_statuses(task("running"))
    play.run(10.1)
    return play


def copied_as_far_again() -> Play:
    play = a_flow_copies_again()
    play.world.commit("mm2", orders(), {"offset": 99})
    play.world.synced(99, downstream=199)
    play.run(3.1)
    return play


def first_sync_after_the_reset() -> Play:
    play = stopped_and_reset()
    play.run(3)
    play.world.listed(mirror())
    play.world.synced(0, downstream=100)
    play.world.commit("mm2", orders(), {"offset": 0})
    play.evaluate()
    return play


def syncs_are_back() -> Play:
    play = the_syncs_are_deleted()
    play.world.tail(topic=SYNCS, whole=True)
    play.world.synced(110)
    play.evaluate()
    return play


def remnants_have_moved() -> Play:
    play = a_connector_is_recreated()
    play.world.commit("files", FILE, {"position": 2})
    play.evaluate()
    return play


def position_is_put_back() -> Play:
    play = a_position_is_past_the_end()
    play.world.listed(replace(mirror(), state="stopped", tasks=()))
    play.world.commit("mm2", orders(), {"offset": 99})
    play.world.synced(99)
    play.world.ends(100)
    play.evaluate()
    return play


def loss_was_reported() -> Play:
    play = records_are_lost()
    play.run(3)
    return play


def checkpoints_come_again() -> Play:
    play = checkpoints_stop()
    (group,) = play.more["groups"]
    play.more["groups"] = (replace(group, start_offset=90, checkpoint_at=play.world.now),)
    play.evaluate()
    return play


def input_works_again() -> Play:
    play = an_input_fails()
    play.world.listed(source("files"))
    play.evaluate()
    return play


def offset_is_a_number_again() -> Play:
    play = an_offset_is_no_number()
    play.world.commit("mm2", orders(1), {"offset": 5})
    play.evaluate()
    return play


def workers_are_calm_again() -> Play:
    play = three_connectors_go_back()
    play.run(3)
    return play


@pytest.mark.parametrize(
    "played",
    [
        poison_is_passed,
        loop_is_over,
        copied_as_far_again,
        first_sync_after_the_reset,
        syncs_are_back,
        remnants_have_moved,
        position_is_put_back,
        loss_was_reported,
        checkpoints_come_again,
        input_works_again,
        offset_is_a_number_again,
        workers_are_calm_again,
    ],
    ids=lambda play: play.__name__,
)
def test_what_is_fixed_is_gone(played):
    assert played().names() == []


@pytest.mark.parametrize("played", [a_flow_copies_again, records_are_lost])
def test_what_happened_is_reported_for_a_while(played):
    play = played()
    play.run(2)
    assert len(play.findings) == 1


def test_a_loss_is_reported_as_long_as_the_position_lies_in_the_hole():
    play = records_are_lost()
    views = play.world.snapshot().mirror_partitions
    play.more["mirror_partitions"] = tuple(replace(view, headroom=-5) for view in views)
    play.run(9)
    assert play.names() == ["mm2_records_lost"]


def test_a_loop_that_stands_still_is_a_poison_and_reported_as_one():
    play = a_task_fails_at_one_position()
    play.fail()
    play.evaluate()
    assert play.names() == ["poison_suspected"]
    assert "restart_loop" in texts(play.only().evidence)["explains"]


def test_a_poison_stays_while_its_connector_is_stopped():
    play = a_task_fails_at_one_position()
    play.world.listed(source("files", state="stopped", tasks=()))
    play.run(9)
    assert play.names() == ["poison_suspected"]


def test_a_finding_of_a_connector_that_was_deleted_is_gone():
    play = a_task_fails_at_one_position()
    play.world.listed()
    play.evaluate()
    assert play.names() == []


# --- blind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("played", "hidden"),
    [
        pytest.param(task_failed, REST, id="states"),
        pytest.param(a_task_fails_at_one_position, REST, id="poison-and-states"),
        pytest.param(an_offset_is_no_number, OFFSETS_TAIL, id="offsets"),
        pytest.param(the_syncs_are_deleted, OFFSETS_TAIL, id="half-reset-and-offsets"),
        pytest.param(a_position_is_past_the_end, InputId(LOG_ENDS, kafka="west"), id="log-ends"),
        pytest.param(a_flow_copies_again, InputId.of_tail(SYNCS), id="syncs"),
        pytest.param(
            a_flow_has_more_to_copy_than_ever,
            InputId(LOG_ENDS, kafka="west"),
            id="lag-and-log-ends",
        ),
        pytest.param(checkpoints_stop, InputId.of_tail(SYNCS), id="checkpoints"),
    ],
)
def test_a_finding_with_an_unavailable_input_stays_and_says_when_it_was_last_observed(
    played, hidden
):
    play = played()
    (before,) = play.findings
    with play.hidden(hidden):
        stale = [finding for finding in play.findings if finding.key == before.key]
        assert len(stale) == 1
        assert stale[0].since == before.since
        assert stale[0].evidence[0].name == register.LAST_SEEN
        play.run(1)
        assert "input_down" in play.names()


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(
            InputId(TAIL, kafka="east", topic="west.checkpoints.internal"), id="checkpoints"
        ),
        pytest.param(build_groups_input(("lab", "west", "east")), id="groups"),
    ],
)
def test_stale_checkpoints_are_not_fixed_by_not_being_observed(hidden):
    play = checkpoints_stop()
    play.world.reads(hidden)
    (before,) = play.evaluate()
    with play.hidden(hidden):
        play.more["groups"] = ()  # they go with either input
        play.evaluate()
        (stale,) = [finding for finding in play.findings if finding.key == before.key]
        assert stale.evidence[0].name == register.LAST_SEEN
    play.run(1)
    assert before.key not in {finding.key for finding in play.findings}


@pytest.mark.parametrize("by_s", [5, 3600])
def test_a_clock_set_back_fixes_nothing_that_cannot_be_observed(by_s):
    play = checkpoints_stop()
    hidden = build_groups_input(("lab", "west", "east"))
    play.world.reads(hidden)
    (before,) = play.evaluate()
    with play.hidden(hidden):
        play.more["groups"] = ()
        play.world.now -= by_s
        play.evaluate()
        (stale,) = [finding for finding in play.findings if finding.key == before.key]
        assert stale.since <= play.world.now
        assert stale.evidence[0].name == register.LAST_SEEN


def test_a_stall_of_which_nothing_can_be_said_now_is_not_fixed():
    play = a_flow_is_silent()
    play.judge(
        Verdict.UNKNOWN, "mm2", rule=UNAVAILABLE_INPUT_RULE
    )  # every input is read, and tells too little
    play.run(1)
    assert play.names() == ["mm2_silent_stall"]
    assert play.only().evidence[0].name == register.LAST_SEEN
    play.judge(Verdict.UNKNOWN, "mm2", rule=12)
    play.evaluate()
    assert play.names() == []


def test_a_problem_fixed_between_polls_is_gone_with_the_first_poll():
    play = task_failed()
    with play.hidden(REST):
        pass
    play.world.listed(source("files", state="stopped", tasks=()))
    play.evaluate()
    assert play.names() == []


def test_a_finding_that_was_not_observed_for_a_day_is_forgotten(monkeypatch):
    monkeypatch.setattr(register, "UNAVAILABLE_S_MAX", 5 * INTERVAL_S)
    play = task_failed()
    with play.hidden(REST):
        assert "task_failed" in play.names()
        play.run(5)
        assert play.names() == ["input_down"]


def test_blindness_is_no_break_in_what_a_rule_counts_the_time_of():
    play = mirrored()
    play.world.tail_failed("not_found", SYNCS)
    play.run(1.5)
    with play.hidden(OFFSETS_TAIL):
        pass
    play.run(0.2)
    assert "half_reset" in play.names()


# --- what is over, and what only looks so ---------------------------------------------------------


@pytest.mark.parametrize("state", ["running", "unassigned", "restarting"])
def test_a_failure_is_not_over_while_the_task_may_fail_again(state):
    play = task_failed()
    since = play.only().since
    for _ in range(2):  # it runs, or is nobody's, for two intervals, and fails again
        play.world.listed(source("files", tasks=(Task(0, state),)))
        play.run(2)
        assert [(finding.name, finding.since) for finding in play.findings] == [
            (FindingName.TASK_FAILED, since)
        ]
        assert "until recently" in play.only().summary
        assert play.only().severity is Severity.CRITICAL
        play.world.listed(failed())
        play.evaluate()
        assert "until recently" not in play.only().summary


def test_a_failure_is_over_when_the_task_has_run_for_three_intervals():
    play = task_failed()
    play.world.listed(source("files"))
    play.evaluate()
    play.run(2.8)
    assert play.names() == ["task_failed"]
    play.restart()
    play.run(0.3)
    assert play.names() == []


def test_a_task_that_is_not_listed_may_fail_still():
    play = task_failed()
    play.world.listed(source("files", tasks=()))
    play.evaluate()
    play.run(2.8)
    assert play.names() == ["task_failed"]
    play.run(0.3)
    assert play.names() == []


def test_a_task_that_fails_while_another_is_well_again_is_the_same_trouble():
    play = task_failed()
    since = play.only().since
    play.world.listed(source("files", tasks=(Task(0, "running"), Task(1, "failed", BAD))))
    play.evaluate()
    assert play.only().summary.startswith("files 2 of 2 tasks FAILED")
    play.run(3.2)
    assert (play.only().since, play.only().summary[:19]) == (since, "files task 1 FAILED")


def test_a_failed_connector_is_not_over_while_it_may_fail_again():
    play = filed()
    play.world.listed(source("files", state="failed", tasks=()))
    play.evaluate()
    since = play.only().since
    play.world.listed(source("files"))
    play.run(2)
    assert [(finding.name, finding.since) for finding in play.findings] == [
        (FindingName.CONNECTOR_FAILED, since)
    ]
    play.run(1.2)
    assert play.names() == []


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_how_long_a_task_runs_is_by_our_own_clock(skew_s):
    """Not by that of its worker, which wrote the status topic."""
    play = filed()
    play.status_followed()
    play.world.listed(failed())
    for state in ("failed", "running"):
        status = Condition(state, "worker:8083", 1, "4.3.1", BAD if state == "failed" else None)
        record = ListingRecord(TaskStatus("files", 0, status), play.world.now + skew_s, live=True)
        play.world.tail(record, topic=STATUS)
        play.evaluate()
    play.world.listed(source("files"))
    play.run(2.5)
    assert play.names() == ["task_failed"]
    play.run(1)
    assert play.names() == []


# --- restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "played",
    [
        task_failed,
        a_task_fails_at_one_position,
        a_task_fails_and_gets_on,
        a_flow_copies_again,
        the_syncs_are_deleted,
        a_connector_is_recreated,
        checkpoints_stop,
        a_flow_has_more_to_copy_than_ever,
        three_connectors_go_back,
    ],
    ids=lambda play: play.__name__,
)
def test_a_restart_forgets_nothing_and_makes_nothing_new(played):
    play = played()
    before = [(finding.key, finding.since) for finding in play.findings]
    assert before
    play.restart()
    play.evaluate()
    assert [(finding.key, finding.since) for finding in play.findings] == before


def test_until_everything_was_read_again_nothing_is_said_to_be_fixed():
    play = task_failed()
    since = play.only().since
    play.restart()
    play.world = World(sites=("lab",))
    play.world.now += 100_000_000  # another world: the old one's clock goes on
    play.world.now = since + INTERVAL_S
    play.evaluate()
    assert [(finding.name, finding.since) for finding in play.findings] == [
        (FindingName.TASK_FAILED, since)
    ]
    play.world.listed(source("files", state="stopped", tasks=()))
    play.world.find_topic()
    play.world.tail(whole=True)
    play.evaluate()
    assert play.names() == []


def test_what_is_observed_before_everything_was_read_again_is_reported_as_it_is_observed():
    play = task_failed()
    since = play.only().since
    play.restart()
    play.world = World(sites=("lab",))
    play.world.now = since + INTERVAL_S
    play.world.listed(failed(failure="java.lang.IllegalStateException: of now"))
    play.evaluate()
    assert not play.snapshot().ready
    assert play.only().since == since
    assert register.LAST_SEEN not in texts(play.only().evidence)
    assert "of now" in str(play.only().evidence)


def test_nothing_is_remembered_twice():
    play = filed()
    assert play.register.remembered() is not None
    assert play.register.remembered() is None


def test_a_new_finding_and_a_fixed_one_are_urgent():
    play = filed()
    play.register.remembered()
    assert not play.register.urgent
    play.world.listed(failed())
    play.evaluate()
    assert play.register.urgent
    play.register.remembered()
    assert not play.register.urgent
    play.world.listed(source("files", state="stopped", tasks=()))
    play.evaluate()
    assert play.register.urgent


def test_what_is_remembered_is_small_and_names_what_it_is():
    play = a_task_fails_at_one_position()
    document = json.loads(play.register.remembered() or b"{}")
    (retained,) = document["kept"]
    assert retained["finding"]["name"] == "poison_suspected"
    assert BAD in str(document["memory"]["failures"])


@pytest.mark.parametrize(
    "wrong", [b"{", b"[]", b'{"kept": 7}', b'{"kept": [], "memory": {}, "version": 1}']
)
def test_what_is_no_memory_is_refused(wrong):
    with pytest.raises(ValueError, match=r"."):
        Play(files()).register.recall(wrong)


@pytest.mark.parametrize("version", [{"version": 2}, {}])
def test_a_memory_of_another_version_or_of_none_is_refused(version):
    falls = {"recopies": [], "together": [], "meant": []}
    memory = {"held": [], "failures": [], "lives": [], "falls": falls}
    Play(files()).register.recall(json.dumps({"kept": [], "memory": memory, "version": 1}).encode())
    with pytest.raises(ValueError, match="version"):
        Play(files()).register.recall(
            json.dumps({"kept": [], "memory": memory, **version}).encode()
        )


def test_an_empty_snapshot_has_no_finding():
    empty: Snapshot = World().snapshot()
    assert Play(World()).register.found(empty) == ()
