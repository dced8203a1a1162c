"""How many series all connectors may have together, and what gives way beyond that."""

from __future__ import annotations

from collections import Counter

from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import FindingName, Severity
from offsetwatch.model.history_documents import HOURS, Baseline
from offsetwatch.model.observations import LogBounds, SinkOffset
from offsetwatch.model.topology import TopicPartition
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.state import series_budget
from offsetwatch.state.history_documents import BaselinesView
from offsetwatch.state.series_budget import (
    PER_CONNECTOR,
    UNLIMITED_SERIES,
    SeriesLimits,
    TotalSeriesBudget,
)
from offsetwatch.state.snapshot import SeriesGroup, Snapshot
from tests.changed import replace
from tests.unit.state.test_failover_groups import answered, checkpoint, checkpointed, readable
from tests.unit.state.worlds import SYNCS, World, mirror, orders, sink, source, sync

PER_TASK = 6
BASELINE = Baseline(
    connect_cluster="lab",
    connector="a",
    since=0.0,
    until=1.0,
    advances=1,
    per_hour=(1.0,) * HOURS,
    pause_advances=None,
    pause_s=None,
    quantiles=(1.0, 1.0, 1.0),
    commit_s=(1.0, 1.0, 1.0),
)
Series = dict[tuple[str, tuple[str, ...]], float]


def tasks(*states: str) -> tuple[Task, ...]:
    return tuple(Task(number, state) for number, state in enumerate(states))


def listed(*connectors, **limits) -> World:
    world = World(**limits)
    world.listed(*connectors)
    return world


def exported(snapshot: Snapshot) -> Series:
    families = collect_families(
        snapshot, BuildInfo("1", "1", "3"), ConfigReloadStatus(successful=True, at=0.0)
    )
    results: Series = {}
    for family in families:
        name = family.spec.name.removeprefix("offsetwatch_")
        for labels, number in zip(family.labels, family.numbers, strict=True):
            assert (name, labels) not in results
            results[name, labels] = number
    return results


def named(snapshot: Snapshot, name: str) -> set[tuple[str, ...]]:
    return {labels for metric, labels in exported(snapshot) if metric == name}


def shown_tasks(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {labels[1:3] for labels in named(snapshot, "task_state")}


def groups_left_out(snapshot: Snapshot) -> list[SeriesGroup]:
    return [series.group for series in snapshot.left_out]


def dropped(world: World) -> int:
    return dict(world.snapshot().dropped).get("series_max", 0)


def room_for(snapshot: Snapshot) -> int:
    """As many series as inputs, connectors and their tasks have at most."""
    of_inputs = {"input_up", "input_last_success_timestamp_seconds", "input_errors_total"}
    result = exported(snapshot)
    inputs = sum(name in of_inputs for name, _ in result)
    of_tasks = sum(name == "task_state" for name, _ in result)
    return inputs + of_tasks + PER_CONNECTOR * len(snapshot.connectors)


# --- tasks -------------------------------------------------------------------------------------


def three_tasks(**limits) -> World:
    return listed(source("a", tasks=tasks("running", "failed", "running")), **limits)


def test_tasks_that_run_give_way_first_and_connector_tasks_counts_them_all():
    whole = exported(three_tasks().snapshot())
    room = room_for(three_tasks().snapshot())
    assert exported(three_tasks(series_max=room).snapshot()) == whole
    snapshot = three_tasks(series_max=room - 1).snapshot()
    assert shown_tasks(snapshot) == {("a", "1")}
    result = exported(snapshot)
    assert result["task_state", ("lab", "a", "1", "failed")] == 1
    assert result["connector_tasks", ("lab", "a", "running")] == 2
    remaining = {item: number for item, number in whole.items() if item not in result}
    assert {labels[2] for _, labels in remaining} == {"0", "2"}
    assert len(remaining) == 2 * PER_TASK


def test_the_connector_with_the_most_of_them_gives_way_first():
    names = {"few": 1, "many": 3, "some": 2}
    connectors = [source(name, tasks=tasks(*["running"] * n)) for name, n in names.items()]
    room = room_for(listed(*connectors).snapshot())
    world = listed(*connectors, series_max=room - 1)
    assert shown_tasks(world.snapshot()) == {("few", "0"), ("some", "0"), ("some", "1")}
    world = listed(*connectors, series_max=room - 3 * PER_TASK - 1)
    assert shown_tasks(world.snapshot()) == {("few", "0")}


def test_tasks_that_do_not_run_give_way_before_connectors_do():
    connectors = [source(name, tasks=tasks("failed")) for name in ("a", "b")]
    room = room_for(listed(*connectors).snapshot())
    assert shown_tasks(listed(*connectors, series_max=room).snapshot()) == {("a", "0"), ("b", "0")}
    snapshot = listed(*connectors, series_max=room - 1).snapshot()
    assert shown_tasks(snapshot) == {("b", "0")}
    assert len(named(snapshot, "connector_state")) == 12


def test_connectors_in_which_all_runs_give_way_before_the_others():
    connectors = [
        source("a", state="failed", tasks=()),
        source("b", tasks=()),
        source("c", tasks=tasks("failed")),
    ]
    room = room_for(listed(*connectors).snapshot())
    snapshot = listed(*connectors, series_max=room - PER_TASK - 1).snapshot()
    assert {labels[1] for labels in named(snapshot, "connector_state")} == {"a", "c"}
    assert {labels[1] for labels in named(snapshot, "connector_info")} == {"a", "c"}
    assert {labels[1] for labels in named(judged(snapshot), "connector_progress")} == {"a", "c"}


def test_a_state_that_is_new_to_us_is_reckoned_with():
    connector = source("a", state="odd", tasks=tasks("odd", "odder"))
    world = listed(connector)
    for room in range(room_for(world.snapshot()) + 10):
        snapshot = judged(limited(world, room))
        of_a = [labels for _, labels in exported(snapshot) if "a" in labels]
        assert len(of_a) <= max(0, room - 2)


def test_what_is_usual_gives_way_with_its_connector():
    world = listed(source("a", tasks=()), source("b", tasks=()), series_max=1)
    baselines = BaselinesView(valid=True, of={("lab", "a"): BASELINE, ("lab", "b"): BASELINE})
    world.book._usual._view = baselines
    snapshot = world.snapshot()
    assert snapshot.left_out_of(SeriesGroup.CONNECTORS) == {("lab", "a"), ("lab", "b")}
    assert named(snapshot, "expected_commit_interval_seconds") == set()


def test_one_connector_may_have_so_many_tasks_alone():
    states = ["running"] * 4 + ["failed"] * 2
    connector = source("a", tasks=tasks(*states))
    for limit, output in ((36, 6), (35, 2), (12, 2), (11, 0)):
        snapshot = listed(connector, series_per_connector_max=limit).snapshot()
        assert len(shown_tasks(snapshot)) == output
        limits = {series.limit for series in snapshot.left_out}
        assert limits == ({"series_per_connector_max"} if output < 6 else set())


# --- partitions --------------------------------------------------------------------------------


SINKS = ("sink-a", "sink-b")


def busy(**limits) -> World:
    """A world with something of every group."""
    world = readable(
        replace(mirror(), tasks=tasks("running", "failed")),
        source("files", tasks=tasks("running")),
        source("other", tasks=tasks("running", "running")),
        *map(sink, SINKS),
        **limits,
    )
    for partition in range(3):
        world.commit("mm2", orders(partition), {"offset": 9})
        world.tail(sync(9, partition=partition), topic=SYNCS)
    checkpointed(world, checkpoint(9))
    answered(world)
    log = LogBounds(0, 100, 100)
    world.ends({TopicPartition("orders", partition): log for partition in range(3)})
    for number in range(4):
        world.commit("files", {"filename": f"/{number}"}, {"position": 1, "line": 2})
    world.commit("other", {"filename": "/x"}, {"position": 1})
    world.sinks(
        *(
            SinkOffset(name, "orders", partition, 5, 10)
            for name in SINKS
            for partition in range(1 + SINKS.index(name))
        )
    )
    return world


def limited(world: World, room: int) -> Snapshot:
    """Its snapshot, with this limit from the beginning."""
    world.book._series = TotalSeriesBudget(SeriesLimits(UNLIMITED_SERIES.per_connector, room))
    return world.snapshot()


def judged(snapshot: Snapshot) -> Snapshot:
    return SnapshotJudge(JudgeSettings()).judged(snapshot)


def owners(result: Series) -> dict[tuple[str, tuple[str, ...]], int]:
    """How many series each connector or flow has of each metric."""
    return Counter((name, labels[:2]) for name, labels in result)


NEVER_LEFT_OUT = {"findings", "series_dropped_total"}
IN_PLACE = {"mm2_topic_replication_lag_records", "mm2_topic_replication_lag_seconds"}


def test_whatever_the_limit_series_stay_below_it_and_none_is_of_a_part():
    world = busy()
    whole = exported(judged(world.snapshot()))
    of_each = owners(whole)
    observed = set()
    for room in range(len(whole) + 60, 0, -7):
        snapshot = judged(limited(world, room))
        observed.update(groups_left_out(snapshot))
        result = exported(snapshot)
        bounded = [
            item for item in result if item[0] not in NEVER_LEFT_OUT and item[1][:1] == ("lab",)
        ]
        assert len(bounded) <= room
        for (name, owner), count in owners(result).items():
            if name in IN_PLACE:
                continue
            if name == "task_state" and count != of_each[name, owner]:
                assert not any(
                    on
                    for (value, labels), on in result.items()
                    if value == name and labels[:2] == owner and labels[3] == "running"
                )
            elif name not in NEVER_LEFT_OUT:
                assert count == of_each[name, owner], (room, name, owner)
        if (
            "mm2_topic_replication_lag_records",
            ("lab", "mm2", "west", "east", "orders"),
        ) in result:
            of_topic = result[
                "mm2_topic_replication_lag_records", ("lab", "mm2", "west", "east", "orders")
            ]
            assert of_topic == sum(
                number
                for (value, _), number in whole.items()
                if value == "mm2_replication_lag_records"
            )
    assert observed == set(SeriesGroup)


def test_groups_give_way_in_their_order():
    world, order = busy(), dict[SeriesGroup, int]()
    for room in range(400, 0, -1):
        for group in groups_left_out(limited(world, room)):
            order.setdefault(group, room)
    assert [group for group, _ in sorted(order.items(), key=lambda item: -item[1])] == list(
        SeriesGroup
    )


def test_the_sink_with_the_most_partitions_gives_way_first():
    world = busy()
    rows = [
        {labels[1] for labels in named(limited(world, room), "sink_lag_records")}
        for room in range(400, 0, -1)
    ]
    assert [at for number, at in enumerate(rows) if at != rows[number - 1]] == [
        {"sink-a", "sink-b"},
        {"sink-a"},
        set(),
    ]


def test_a_sink_of_too_many_partitions_is_left_out_alone():
    snapshot = busy(series_per_connector_max=3).snapshot()
    assert {labels[1] for labels in named(snapshot, "sink_lag_records")} == {"sink-a"}


# --- how it is told ----------------------------------------------------------------------------


def test_what_was_cut_is_counted_once_and_named():
    world = three_tasks(series_max=room_for(three_tasks().snapshot()) - 1)
    judge = SnapshotJudge(JudgeSettings())
    for _ in range(3):
        (finding,) = [
            result
            for result in judge.judged(world.snapshot()).findings
            if result.name == "series_dropped"
        ]
        world.listed()
        world.listed(source("a", tasks=tasks("running", "failed", "running")))
    assert dropped(world) == 2 * PER_TASK
    assert exported(world.snapshot())["series_dropped_total", ("series_max",)] == 12
    assert finding.name is FindingName.SERIES_DROPPED
    assert (finding.severity, finding.subject) == (Severity.INFO, "series_max")
    assert "leave out states of running tasks beyond limits.series_max" in finding.summary
    assert [(item.name, item.value) for item in finding.evidence] == [
        ("states of running tasks", "lab/a"),
        ("states of running tasks, series", 12),
    ]


def test_that_nothing_tells_how_far_a_connector_is_is_a_warning():
    findings = judged(busy(series_max=1).snapshot()).findings
    (severity,) = {
        finding.severity for finding in findings if finding.name is FindingName.SERIES_DROPPED
    }
    assert severity is Severity.WARNING


def test_what_one_connector_has_too_much_of_is_named_too():
    world = busy(series_per_connector_max=20)
    finding = next(
        result
        for result in judged(world.snapshot()).findings
        if result.name is FindingName.SERIES_DROPPED
    )
    assert finding.subject == "series_per_connector_max"
    assert "source partitions beyond limits.series_per_connector_max" in finding.summary


def test_nothing_is_said_while_all_is_shown():
    snapshot = judged(busy().snapshot())
    assert snapshot.left_out == ()
    assert "series_max" not in dict(snapshot.dropped)
    assert FindingName.SERIES_DROPPED not in {finding.name for finding in snapshot.findings}


def test_what_came_and_went_is_counted_again_only_if_too_many_would_have_to_be_remembered(
    monkeypatch,
):
    monkeypatch.setattr(series_budget, "LEFT_OUT_MAX", 0)
    world = three_tasks(series_max=1)
    first = dropped(world)
    world.listed(source("a", tasks=tasks("running", "failed", "running", "running")))
    assert dropped(world) > 2 * first


# --- at the edge -------------------------------------------------------------------------------


def growing(world: World, running: int) -> bool:
    """With so many running tasks of a: are they shown?"""
    world.listed(source("a", tasks=tasks(*["running"] * running)), source("b", tasks=tasks()))
    return bool(shown_tasks(world.snapshot()))


def test_series_return_once_there_is_room_to_spare():
    room = room_for(
        listed(source("a", tasks=tasks(*["running"] * 100)), source("b", tasks=())).snapshot()
    )
    world = World(series_max=room)
    assert growing(world, 100)
    assert not growing(world, 101)
    assert not growing(world, 100)
    assert not growing(world, 92)
    assert growing(world, 85)
    assert growing(world, 100)


def test_what_is_left_out_is_not_reckoned_again_while_nothing_changes():
    world = busy(series_max=100)
    first = world.snapshot().left_out
    world.commit("other", {"filename": "/x"}, {"position": 2})
    assert world.snapshot().left_out is not None
    again = world.snapshot()
    assert again.left_out == first
    assert all(one is other for one, other in zip(again.left_out, first, strict=True))
