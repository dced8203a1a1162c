"""Verdicts of a small estate, and of what is seen of it, from one look to the next."""

from __future__ import annotations

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.progress.cases import NO_LOG_END
from offsetwatch.judge.progress.tracker import ProgressTracker
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import SinkSettings, Task
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    FirstRecord,
    InputFailed,
    InputId,
    InputSucceeded,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.evidence import texts
from tests.scenarios.simulation import FLUSH_S, MINUTE, Estate, Log, Mirror, Rows, steady
from tests.unit.state.worlds import (
    FILE,
    OFFSETS,
    SYNCS,
    World,
    files,
    mirror,
    mirrors,
    orders,
    sink,
    source,
)

SETTINGS = JudgeSettings(interval_s=FLUSH_S)
FOUND_S = 3 * FLUSH_S + FLUSH_S + 20.0


class TrackedWorld:
    """A world that is looked at once an interval, with every input read a moment ago."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.progress = ProgressTracker(SETTINGS)
        self.judgements: tuple[Judgement, ...] = ()

    def track(self, times: int = 1) -> None:
        for _ in range(times):
            self.world.now += FLUSH_S
            self.world.reads_all()
            self.judgements = self.progress.judgements(self.world.snapshot())

    def verdict(self, connector: str, scope: Scope = Scope.CONNECTOR) -> Judgement:
        return next(
            judgement
            for judgement in self.judgements
            if (judgement.connector, judgement.scope) == (connector, scope)
        )


# --- sinks ---------------------------------------------------------------------------------------


def sunk(committed: int, end: int | None, *, watch: TrackedWorld | None = None) -> TrackedWorld:
    if watch is None:
        watch = TrackedWorld(World())
        watch.world.listed(sink("lake"))
    watch.world.sinks(SinkOffset("lake", "orders", 0, committed, end))
    watch.track()
    return watch


def test_a_sink_advances_and_its_partitions_are_summed_up_and_not_reported():
    watch = sunk(10, 20)
    for number in range(1, 4):
        sunk(10 + number, 20 + number, watch=watch)
    assert watch.verdict("lake").verdict is Verdict.OK
    assert [judgement.scope for judgement in watch.judgements] == [Scope.CONNECTOR]
    evidence = texts(watch.verdict("lake").evidence)
    assert (evidence["position"], evidence["log end"]) == ("13", "23")
    assert evidence["lag"] == "10 records"
    assert "readable records wait" not in evidence  # no probe says so


def test_a_sink_whose_log_end_is_no_longer_read_is_unknown():
    watch = sunk(11, None, watch=sunk(10, 20))
    judgement = watch.verdict("lake")
    assert (judgement.verdict, judgement.rule, judgement.reason) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
        NO_LOG_END,
    )
    assert sunk(12, 22, watch=watch).verdict("lake").verdict is Verdict.OK


def test_a_sink_of_which_no_log_end_was_ever_read_is_judged_by_its_moves():
    watch = sunk(11, None, watch=sunk(10, None))
    assert (watch.verdict("lake").verdict, watch.verdict("lake").rule) == (Verdict.OK, 16)


# --- mirrors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_what_commits_within_its_patience_is_never_stuck_whatever_its_workers_clock_says(skew_s):
    watch = TrackedWorld(mirrors())
    world, began = watch.world, watch.world.now
    world.assigned(0)
    verdicts = set()
    for second in range(10, 1200, 10):
        world.now = began + second
        if second % 170 == 70:
            world.commit("mm2", orders(), {"offset": second}, at=world.now + skew_s)
        committed = max(70, second - (second - 70) % 170)
        world.ends(second + 1000)
        world.probed(committed + 1, FirstRecord(committed + 1, began - 1000))  # a backlog
        world.reads_all()
        watch.judgements = watch.progress.judgements(world.snapshot())
        if second > 300:
            verdicts.add(watch.verdict("mm2").verdict)
    assert verdicts == {Verdict.OK}


# --- what is not seen ----------------------------------------------------------------------------


def test_a_flow_without_readable_upstream_is_judged_by_its_position_changes():
    watch = TrackedWorld(mirrors(mirror(source_addresses=frozenset({"elsewhere:9092"}))))
    for number in range(3):
        watch.world.commit("mm2", orders(), {"offset": number})
        watch.world.synced(number)
        watch.track()
    assert (watch.verdict("mm2").verdict, watch.verdict("mm2").rule) == (Verdict.OK, 16)


def test_a_flow_of_which_nothing_is_visible_names_the_input_that_cannot_be_read():
    watch = TrackedWorld(mirrors())
    watch.track()
    watch.world.tail_failed("timeout", SYNCS)
    watch.track(10)
    for scope in (Scope.CONNECTOR, Scope.FLOW):
        judgement = watch.verdict("mm2", scope)
        assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE)
        assert judgement.reason.endswith("cannot be read: no luck")


def test_a_sink_whose_topics_do_not_exist_is_unknown_and_says_which():
    watch = TrackedWorld(World())
    settings = SinkSettings("connect-out", frozenset(), topics=frozenset({"gone"}))
    watch.world.listed(replace(sink("out"), sink=settings))
    watch.world.see(
        SinkOffsetsRead("lab", (), missing=(("out", "gone"),)),
        InputSucceeded(InputId(GROUPS, connect_cluster="lab"), watch.world.now),
    )
    watch.track(2)
    judgement = watch.verdict("out")
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.reason.startswith("topic gone does not exist on Kafka cluster east, or ")


def test_a_connector_that_has_nothing_is_unknown_by_no_rule():
    watch = TrackedWorld(files())
    watch.track(2)
    judgement = watch.verdict("files")
    assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, 0)
    assert judgement.reason == "it has nothing to judge it by"
    watch.world.listed(source("files", state="paused"))
    watch.track()
    assert (watch.verdict("files").verdict, watch.verdict("files").rule) == (Verdict.PAUSED, 2)
    watch.world.listed(source("files", state="stopped", tasks=()))
    watch.track()
    assert (watch.verdict("files").verdict, watch.verdict("files").rule) == (Verdict.STOPPED, 23)


def test_no_moment_of_a_verdict_is_the_year_1970():
    watch = TrackedWorld(files())
    watch.world.commit("files", FILE, {"position": 1})
    watch.world.commit("files", {"filename": "gone"}, None)
    began = watch.world.now
    watch.track(5)
    assert min(judged.since for judged in watch.judgements) >= began


def test_a_source_that_runs_and_never_commits_is_said_to():
    watch = TrackedWorld(files())
    watch.track(3)
    began = format_moment(watch.world.now - 2 * FLUSH_S)
    assert watch.verdict("files").rule == 0  # three intervals of running are not over yet
    watch.track()
    judgement = watch.verdict("files")
    assert (judgement.verdict, judgement.rule) == (Verdict.UNKNOWN, 25)
    assert judgement.reason.startswith(f"it has run since {began} and never committed: ")
    watch.world.commit("files", FILE, {"position": 1})
    watch.track()
    assert watch.verdict("files").rule == 21


def test_what_is_not_read_or_does_not_run_is_not_said_to_commit_nothing():
    hidden, failing, cut = TrackedWorld(files()), TrackedWorld(files()), TrackedWorld(files())
    hidden.world.see(InputFailed(InputId.of_tail(OFFSETS), "unreachable", "no route"))
    failing.world.listed(source("files", tasks=(Task(0, "running"), Task(1, "failed"))))
    for watch in (hidden, failing):
        watch.track(6)
    assert hidden.verdict("files").rule == UNAVAILABLE_INPUT_RULE
    assert (failing.verdict("files").verdict, failing.verdict("files").rule) == (
        Verdict.FAILED,
        24,
    )
    snapshot = replace(cut.world.snapshot(), dropped=(("source_partitions_max", 1),))
    for _ in range(6):
        snapshot = replace(snapshot, at=snapshot.at + FLUSH_S)
        cut.judgements = cut.progress.judgements(snapshot)
    assert cut.verdict("files").rule == 0


def test_what_fails_is_failed_within_a_tick_and_stalled_once_work_waits_for_it():
    watch = TrackedWorld(files())
    watch.world.commit("files", FILE, {"position": 1})
    watch.track(4)
    assert watch.verdict("files").verdict is Verdict.UNKNOWN
    watch.world.listed(source("files", tasks=(Task(0, "running"), Task(7, "failed"))))
    watch.world.now += 1.0
    watch.judgements = watch.progress.judgements(watch.world.snapshot())
    judgement = watch.verdict("files")
    assert (judgement.verdict, judgement.reason) == (Verdict.FAILED, "task 7 has failed")
    watch.world.listed(source("files", state="failed", tasks=()))
    watch.track()
    assert watch.verdict("files").reason == "the connector has failed"
    watch.track(4)
    assert watch.verdict("files").verdict is Verdict.STALLED  # rule 14: all of it has failed
    watch.world.listed(source("files"))
    watch.world.commit("files", FILE, {"position": 2})
    watch.track()
    assert watch.verdict("files").verdict is Verdict.OK


def test_the_state_of_what_cannot_be_observed_any_more_does_not_count():
    watch = TrackedWorld(files())
    watch.world.commit("files", FILE, {"position": 1})
    watch.world.listed(source("files", tasks=(Task(0, "failed"),)))
    watch.track()
    assert watch.verdict("files").verdict is Verdict.FAILED
    watch.world.see(
        InputFailed(InputId(CONNECT_REST, connect_cluster="lab"), "unreachable", "no route")
    )
    watch.track(8)
    assert watch.verdict("files").verdict is Verdict.UNKNOWN


def test_a_partition_of_which_nothing_could_change_is_unknown_all_the_same_once_it_is_hidden():
    idle = Mirror(name="mm2", logs=[Log(steady(0.0), end=5, done=5, committed=0)])
    estate = Estate(idle).go(10 * MINUTE)
    assert estate.verdict("mm2").verdict is Verdict.IDLE
    estate.blind.add(InputId.of_tail(OFFSETS))
    estate.go(3 * MINUTE)
    assert (estate.verdict("mm2").verdict, estate.verdict("mm2").rule) == (
        Verdict.UNKNOWN,
        UNAVAILABLE_INPUT_RULE,
    )


def test_a_partition_that_is_gone_is_reported_no_more_at_once():
    watch = TrackedWorld(files())
    watch.world.commit("files", FILE, {"position": 1})
    watch.track()
    assert watch.verdict("files", Scope.PARTITION).subject == "filename=/data/in.txt"
    watch.world.listed()
    watch.track()
    assert watch.judgements == ()


# --- what a sum says -----------------------------------------------------------------------------


def test_a_verdict_says_which_partition_it_is_of_and_what_it_rests_on():
    watch = TrackedWorld(files())
    for number in range(2):
        watch.world.commit("files", FILE, {"position": number})
        watch.track()
    evidence = texts(watch.verdict("files").evidence)
    assert evidence["ok"] == "1 partition"
    assert evidence["for instance"] == "filename=/data/in.txt"
    assert evidence["offset"] == '{"position":1}'
    assert evidence["states"] == "connector running, tasks: 1 running"
    partition = watch.verdict("files", Scope.PARTITION)
    assert (partition.connect_cluster, partition.connector) == ("lab", "files")
    assert texts(partition.evidence)["states"] == evidence["states"]


# --- over time -----------------------------------------------------------------------------------


def silent(*others: Rows) -> Estate:
    estate = Estate(Mirror(name="mm2", logs=[Log(steady(50.0))]), *others).go(10 * MINUTE)
    estate.actors[0].hangs = True
    estate.until("mm2", Verdict.SILENT, FOUND_S)
    return estate


def test_what_is_silent_is_stalled_only_once_its_task_has_failed_for_three_intervals():
    estate = silent()
    estate.actors[0].fails = True
    for snapshot in estate.run(3 * FLUSH_S - 20):
        assert Verdict.STALLED not in {judgement.verdict for judgement in snapshot.judgements}
    estate.until("mm2", Verdict.STALLED, 2 * FLUSH_S)


def test_one_connector_in_trouble_does_not_keep_the_others_from_being_inspected():
    estate = silent(Rows(name="rows", rate=steady(1.0)))
    estate.actors[1].fails = True
    estate.until("rows", Verdict.STALLED, FOUND_S)
    assert "task 0 has failed" in estate.verdict("rows").reason


def test_a_new_trouble_is_urgent_to_remember_and_so_is_its_end():
    estate = silent()
    progress = estate.judge._progress
    progress.remembered()
    estate.judge.remembered = lambda: None  # nobody saves
    estate.actors[0].hangs = False
    assert not progress.urgent
    estate.until("mm2", Verdict.OK, 2 * FLUSH_S)
    assert progress.urgent


def test_a_failed_connector_keeps_failing_until_its_state_changes():
    """States are looked at where they have changed, and a failure that lasts is a new one."""
    world = World()
    world.listed(source("files", tasks=(Task(0, "failed"),)))
    progress = ProgressTracker(SETTINGS)
    first = world.snapshot()
    for _ in range(3):
        world.now += 1.0
        snapshot = world.snapshot()
        assert snapshot.connectors is first.connectors
        progress.judgements(snapshot)
        assert progress._registry.track(("lab", "files")).failed_at == world.now
    world.listed(source("files"))
    world.now += 1.0
    progress.judgements(world.snapshot())
    assert progress._registry.track(("lab", "files")).failed_at == world.now - 1.0


def test_a_connector_that_came_during_a_poll_is_observed_although_that_look_forgets_it(monkeypatch):
    monkeypatch.setattr("offsetwatch.judge.progress.tracker.JUDGED_PER_TICK_MIN", 1)
    monkeypatch.setattr("offsetwatch.judge.progress.tracker.FULL_PASS_TICKS", 100)
    world = files()
    for number in range(3):
        world.commit("files", {"filename": str(number)}, {"position": 1})
    watch = TrackedWorld(world)
    watch.track(2)
    assert watch.progress._pass is not None
    late = source("late", tasks=(Task(0, "failed"),))
    world.listed(source("files"), late)
    while watch.progress._pass is not None:
        watch.progress.judgements(world.snapshot())
    watch.progress.judgements(world.snapshot())
    assert watch.progress._registry.tracks["lab", "late"].why == "task 0 has failed"


def watched(*steps_s: float, restart: bool = False) -> float:
    """Seconds of watching after these looks, the last one by a daemon that was started again."""
    progress, snapshot = ProgressTracker(SETTINGS), replace(EMPTY_SNAPSHOT, at=1000.0)
    progress.judgements(snapshot)
    for number, step_s in enumerate(steps_s, start=1):
        if restart and number == len(steps_s):
            report = progress.remembered()
            progress = ProgressTracker(SETTINGS)
            progress.recall(report or b"")
        snapshot = replace(snapshot, at=snapshot.at + step_s)
        progress.judgements(snapshot)
    return progress._w


def test_watching_goes_by_the_clock_but_for_its_jumps():
    assert watched(10.0, 20.0) == 30.0
    assert watched(60.0, 61.0) == 120.0
    assert watched(60.0, 121.0) == 120.0
    assert watched(60.0, -10.0, 5.0) == 65.0


def test_a_restart_is_no_interruption_and_a_daemon_that_was_down_is():
    assert watched(60.0, 20.0, restart=True) == 80.0
    assert watched(60.0, 120.0, restart=True) == 120.0
    assert watched(60.0, 120.5, restart=True) == 60.0


def test_a_restart_forgets_neither_why_it_cannot_work_nor_counts_old_commits_again():
    watch = TrackedWorld(files())
    watch.world.commit("files", FILE, {"position": 1})
    watch.world.listed(source("files", state="failed", tasks=()))
    watch.track(5)
    assert watch.verdict("files").verdict is Verdict.STALLED
    progress = watch.progress.remembered()
    watch.progress = ProgressTracker(SETTINGS)
    watch.progress.recall(progress or b"")
    track = watch.progress._registry.tracks["lab", "files"]
    assert track.why is not None
    (subject,) = track.subjects.values()
    assert subject.window is not None
    assert subject.window.commits is None
    since = watch.verdict("files").since
    watch.track()
    assert (watch.verdict("files").verdict, watch.verdict("files").since) == (
        Verdict.STALLED,
        since,
    )
