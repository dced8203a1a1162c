"""How many series one connector may have, and what gives way beyond that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import FindingName, Severity
from offsetwatch.model.history_documents import HOURS, Baseline
from offsetwatch.model.observations import TAIL, FirstRecord, LogBounds, SinkOffset
from offsetwatch.model.source_ends import SourceKind
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.serve.metrics.metric import Family
from offsetwatch.state import series_budget
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.history_documents import BaselinesView
from offsetwatch.state.series_budget import (
    PER_CONNECTOR,
    PER_MIRROR_PARTITION,
    PER_SOURCE_END,
    PER_SOURCE_PARTITION,
    UNLIMITED_SERIES,
    ConnectorSeriesBudget,
    SeriesLimits,
    TotalSeriesBudget,
)
from offsetwatch.state.snapshot import SeriesGroup, Snapshot
from offsetwatch.state.sources.source_ends import SourceSettings
from tests.changed import replace
from tests.unit.state.test_failover import answered, checkpoint, checkpointed, readable
from tests.unit.state.worlds import (
    FILE,
    STALE_S,
    SYNCS,
    World,
    mirror,
    orders,
    record,
    sink,
    source,
    sync,
)

ONE_FILE = PER_SOURCE_PARTITION + 1  # an offset of one number
ONE_MIRRORED = ONE_FILE + PER_MIRROR_PARTITION
OWN = KafkaTopic("east", "own")


def build_world(*connectors, series_max: int, by_topic: bool = False) -> World:
    world = World(
        sites=(ConnectClusterSettings(name="lab", kafka="east", by_topic=by_topic),),
        series_per_connector_max=series_max,
    )
    world.listed(*connectors)
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    return world


def file(number: int) -> dict:
    return {"filename": f"/{number}"}


def served(world: World) -> Iterable[Family]:
    return collect_families(
        world.snapshot(), BuildInfo("1", "1", "3"), ConfigReloadStatus(successful=True, at=0.0)
    )


def rows(world: World, name: str) -> set[tuple[str, ...]]:
    for family in served(world):
        if family.spec.name == f"offsetwatch_{name}":
            return set(family.labels)
    raise AssertionError(name)


def exported(world: World) -> set[str]:
    return {labels[2] for labels in rows(world, "source_offset_commits_total")}


def cut(world: World) -> int:
    return dict(world.snapshot().dropped).get("series_per_connector_max", 0)


def three_files(series_max: int) -> World:
    world = build_world(source("files", tasks=()), series_max=series_max)
    for number in range(3):
        world.commit("files", file(number), {"position": 1})
    return world


@pytest.mark.parametrize(
    ("series_max", "remaining"),
    [(3 * ONE_FILE, 3), (3 * ONE_FILE - 1, 2), (2 * ONE_FILE, 2), (1, 0)],
)
def test_the_partitions_that_come_last_are_not_exported(series_max, remaining):
    world = three_files(series_max)
    assert exported(world) == {f"filename=/{number}" for number in range(remaining)}
    assert len(world.snapshot().source_partitions) == 3
    assert cut(world) == 3 - remaining


def test_every_number_of_an_offset_is_a_series():
    world = build_world(source("files"), series_max=2 * PER_SOURCE_PARTITION + 41)
    world.commit("files", file(0), {f"n{number}": 1 for number in range(40)})
    world.commit("files", file(1), {"position": 1})
    assert exported(world) == {"filename=/0", "filename=/1"}
    world.commit("files", file(1), {"position": 1, "line": 1})
    assert exported(world) == {"filename=/0"}


def test_the_time_of_the_change_at_the_source_is_a_series_too():
    """Two numbers, one of which is the time as well."""
    offset = {"incrementing": 1, "timestamp": 1_700_000_000_000}
    tables = [{"protocol": "1", "table": name} for name in ("a", "b")]
    world = build_world(
        source("jdbc", class_name="JdbcSource"), series_max=2 * (PER_SOURCE_PARTITION + 3) - 1
    )
    world.commit("jdbc", tables[0], offset)
    assert series(world, {}) == PER_SOURCE_PARTITION + 3
    world.commit("jdbc", tables[1], offset)
    assert len(exported(world)) == 1


def test_the_end_of_a_source_has_series_too_whether_or_not_it_is_known():
    one = ONE_FILE + PER_SOURCE_END
    for series_max, remaining in ((3 * one, 3), (3 * one - 1, 2)):
        world = three_files(series_max)
        wants = {"lab": {"files"}.__contains__}
        world.book.watch_sources((SourceSettings("disk", SourceKind.FILE, wants),))
        assert exported(world) == {f"filename=/{number}" for number in range(remaining)}


def series(world: World, before: Counter[str]) -> int:
    """How many series of partitions there are more than before, which is brought up to date."""
    of_partitions = ("source_partition", "partition")
    now = Counter(
        family.spec.name
        for family in served(world)
        if set(family.spec.labels) & set(of_partitions)
        for _ in family.labels
    )
    more = now.total() - Counter(before).total()
    before.clear()
    before.update(now)
    return more


def flows_on(world: World, *connectors, partitions: int, begun_at: int = 0) -> None:
    """For long enough to know that log starts come nearer; then each first record is read."""
    position = 0
    for start in range(begun_at, begun_at + 400):
        world.now += 10
        world.listed(*connectors)
        position = 1000 + start // 2
        for partition in range(partitions):
            world.commit("mm2", orders(partition), {"offset": position})
            world.tail(sync(position, partition=partition, at=world.now), topic=SYNCS)
        bounds = LogBounds(start, 2000 + start, 2000 + start)
        world.ends({TopicPartition("orders", number): bounds for number in range(partitions)})
    first = FirstRecord(position + 1, at=world.now)
    for partition in range(partitions):
        world.probed(position + 1, first, partition=partition)


def test_it_reckons_with_the_series_that_there_are():
    connectors = mirror(), source("files")
    world, known = build_world(*connectors, series_max=10_000), Counter()
    flows_on(world, *connectors, partitions=2)
    assert series(world, known) > 0
    world.commit("files", FILE, {"position": 1})
    assert series(world, known) == ONE_FILE
    flows_on(world, *connectors, partitions=3, begun_at=400)
    assert series(world, known) == ONE_MIRRORED


def test_one_that_is_known_by_another_spelling_of_its_key_only_counts_as_one_without_an_offset():
    world = three_files(3 * ONE_FILE)
    assert cut(world) == 0
    world.commit("files", file(0), {"position": 1}, raw_key=b'["files", {"filename": "/"}]')
    assert cut(world) == 1


def test_each_connector_has_a_budget_of_its_own():
    world = build_world(source("a"), source("b"), series_max=ONE_FILE)
    for name in ("a", "b"):
        world.commit(name, file(0), {"position": 1})
    assert len(rows(world, "source_offset_commits_total")) == 2
    assert cut(world) == 0


def test_what_is_in_two_topics_is_one_budget():
    """Its own topic's partitions, and the shadows of the cluster's."""
    world = build_world(source("files", dedicated_offsets_topic="own"), series_max=ONE_FILE)
    world.tail(topic=OWN, whole=True)
    world.commit("files", file(0), {"position": 1}, topic=OWN)
    world.commit("files", file(1), {"position": 1})
    assert exported(world) == {"filename=/0"}


def test_a_partition_at_the_edge_is_counted_once_however_often_it_crosses_it():
    world = three_files(3 * ONE_FILE)
    for position in range(5):
        world.commit("files", file(0), {"position": position, "line": position})
        assert exported(world) == {"filename=/0", "filename=/1"}
        world.commit("files", file(0), {"position": position})
        assert exported(world) == {"filename=/0", "filename=/1", "filename=/2"}
    assert cut(world) == 1


@pytest.mark.parametrize(("remembered", "counted"), [(1, 1), (0, 5)])
def test_what_came_and_went_is_counted_again_only_if_too_many_would_have_to_be_remembered(
    remembered, counted, monkeypatch
):
    monkeypatch.setattr(series_budget, "LEFT_OUT_MAX", remembered)
    world = three_files(3 * ONE_FILE)
    for position in range(5):
        world.commit("files", file(0), {"position": position, "line": position})
        assert len(exported(world)) == 2
        world.commit("files", file(0), {"position": position})
        assert len(exported(world)) == 3
    assert cut(world) == counted


def test_while_nothing_changes_it_is_answered_from_memory():
    world = three_files(2 * ONE_FILE)
    views = world.snapshot().source_partitions
    known, mirrored, none = ConnectorSeriesBudget(2 * ONE_FILE), (), frozenset()
    first = known.select(views, "one", mirrored, (), none)
    assert len(first.not_exported) == 1
    assert known.select((), "one", mirrored, (), none) is first
    assert known.select(views[:2], "other", mirrored, (), none).not_exported == set()


def test_what_was_cut_is_not_counted_again_after_an_outage():
    world = three_files(ONE_FILE)
    assert cut(world) == 2
    for _ in range(3):
        world.now += STALE_S[TAIL] + 1
        assert exported(world) == set()
        world.tail()
        assert exported(world) == {"filename=/0"}
    assert cut(world) == 2


def two_mirrored(series_max: int, *, by_topic: bool = False) -> World:
    world = build_world(replace(mirror(), tasks=()), series_max=series_max, by_topic=by_topic)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    world.ends({TopicPartition("orders", number): LogBounds(0, 100, 100) for number in (0, 1)})
    return world


def test_a_flow_beyond_its_budget_is_summed_up_by_topic():
    world = two_mirrored(2 * ONE_MIRRORED)
    assert len(rows(world, "mm2_replication_lag_records")) == 2
    assert len(rows(world, "source_offset_commits_total")) == 2
    assert cut(world) == 0
    world = two_mirrored(2 * ONE_MIRRORED - 1)
    assert rows(world, "mm2_replication_lag_records") == set()
    assert rows(world, "source_offset_commits_total") == set()
    assert len(rows(world, "mm2_topic_replication_lag_records")) == 1
    assert cut(world) == 2


def test_a_flow_that_is_summed_up_by_request_lost_nothing():
    world = two_mirrored(1, by_topic=True)
    assert len(rows(world, "mm2_topic_replication_lag_records")) == 1
    assert cut(world) == 0


@pytest.mark.parametrize("by_topic", [True, False])
def test_what_else_a_flows_connector_holds_is_bounded_too(by_topic):
    """Left over from another connector of its name, and in no sum."""
    world = two_mirrored(ONE_FILE, by_topic=by_topic)
    for number in range(3):
        world.commit("mm2", file(number), {"position": 1})
    assert exported(world) == {"filename=/0"}
    assert cut(world) == (2 if by_topic else 4)


def test_a_flow_that_falls_back_does_so_whatever_the_others_do():
    world = build_world(mirror(), source("files"), series_max=ONE_FILE)
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("files", file(0), {"position": 1})
    assert exported(world) == {"filename=/0"}
    assert world.snapshot().by_topic == {("lab", "mm2")}


def test_only_what_a_flow_that_falls_back_holds_is_counted():
    world = build_world(mirror(), mirror("mm3"), series_max=ONE_MIRRORED)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    world.commit("mm3", orders(), {"offset": 9})
    assert world.snapshot().by_topic == {("lab", "mm2")}
    assert cut(world) == 2


def test_offsets_like_a_flows_of_a_connector_that_is_none_are_bounded_as_any():
    world = build_world(source("mm2"), series_max=ONE_FILE)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    assert len(exported(world)) == 1
    assert cut(world) == 1


def test_the_budget_is_reckoned_again_when_a_flow_comes_or_goes():
    world = build_world(source("mm2"), series_max=ONE_FILE)
    world.tail(record("mm2", orders(), {"offset": 9}, log_offset=1))
    assert world.snapshot().by_topic == frozenset()
    world.listed(mirror("mm2"))
    assert world.snapshot().by_topic == {("lab", "mm2")}
    world.listed(source("mm2"))
    assert world.snapshot().by_topic == frozenset()


def test_what_is_summed_up_leaves_the_budget_to_the_rest():
    world = build_world(mirror(), series_max=ONE_FILE, by_topic=True)
    world.commit("mm2", orders(), {"offset": 9})
    for number in range(2):
        world.commit("mm2", file(number), {"position": 1})
    assert exported(world) == {"filename=/0"}


def test_a_forgotten_partition_has_no_position_to_pay_for():
    world = build_world(source("files"), series_max=ONE_FILE + PER_SOURCE_PARTITION)
    for number in range(2):
        world.commit("files", file(number), {"position": 1})
    assert exported(world) == {"filename=/0"}
    world.commit("files", file(1), None)
    assert exported(world) == {"filename=/0", "filename=/1"}


def test_a_forgotten_partition_leaves_what_it_does_not_need_to_the_next():
    world = build_world(source("files"), series_max=PER_SOURCE_PARTITION + ONE_FILE)
    for number in range(3):
        world.commit("files", file(number), {"position": 1})
    world.commit("files", file(0), None)
    assert exported(world) == {"filename=/0", "filename=/1"}


@pytest.mark.parametrize(("room", "fits"), [(0, True), (-1, False)])
def test_a_position_that_a_flow_forgot_is_not_paid_for_either(room, fits):
    forgotten = PER_SOURCE_PARTITION + PER_MIRROR_PARTITION
    world = build_world(mirror(), series_max=ONE_MIRRORED + forgotten + room)
    world.commit("mm2", orders(0), {"offset": 9})
    world.commit("mm2", orders(1), {"offset": 9})
    world.commit("mm2", orders(1), None)
    assert (world.snapshot().by_topic == frozenset()) is fits


def test_what_a_flow_copies_and_never_committed_counts_too():
    world = build_world(mirror(), series_max=ONE_MIRRORED + PER_MIRROR_PARTITION)
    world.commit("mm2", orders(0), {"offset": 9})
    world.assigned(0, 1)
    assert world.snapshot().by_topic == frozenset()
    world.assigned(0, 1, 2)
    assert world.snapshot().by_topic == {("lab", "mm2")}
    world.assigned(0)
    assert world.snapshot().by_topic == frozenset()


@pytest.mark.parametrize("by_topic", [True, False])
def test_a_flow_of_which_a_position_cannot_be_reported_is_known_in_part(by_topic):
    world = build_world(mirror(), series_max=1000, by_topic=by_topic)
    world.commit("mm2", orders(0), {"offset": 9})
    assert world.snapshot().partial == frozenset()
    world.commit("mm2", orders(1), {"offset": "nine"})
    assert world.snapshot().partial == {("lab", "mm2")}


# --- total series budget -------------------------------------------------------------------------

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


def families_of(snapshot: Snapshot) -> Series:
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
    return {labels for metric, labels in families_of(snapshot) if metric == name}


def list_tasks(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {labels[1:3] for labels in named(snapshot, "task_state")}


def list_omitted_groups(snapshot: Snapshot) -> list[SeriesGroup]:
    return [series.group for series in snapshot.left_out]


def dropped(world: World) -> int:
    return dict(world.snapshot().dropped).get("series_max", 0)


def room_for(snapshot: Snapshot) -> int:
    """As many series as inputs, connectors and their tasks have at most."""
    of_inputs = {"input_up", "input_last_success_timestamp_seconds", "input_errors_total"}
    result = families_of(snapshot)
    inputs = sum(name in of_inputs for name, _ in result)
    of_tasks = sum(name == "task_state" for name, _ in result)
    return inputs + of_tasks + PER_CONNECTOR * len(snapshot.connectors)


# --- tasks -------------------------------------------------------------------------------------


def three_tasks(**limits) -> World:
    return listed(source("a", tasks=tasks("running", "failed", "running")), **limits)


def test_tasks_that_run_give_way_first_and_connector_tasks_counts_them_all():
    whole = families_of(three_tasks().snapshot())
    room = room_for(three_tasks().snapshot())
    assert families_of(three_tasks(series_max=room).snapshot()) == whole
    snapshot = three_tasks(series_max=room - 1).snapshot()
    assert list_tasks(snapshot) == {("a", "1")}
    result = families_of(snapshot)
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
    assert list_tasks(world.snapshot()) == {("few", "0"), ("some", "0"), ("some", "1")}
    world = listed(*connectors, series_max=room - 3 * PER_TASK - 1)
    assert list_tasks(world.snapshot()) == {("few", "0")}


def test_tasks_that_do_not_run_give_way_before_connectors_do():
    connectors = [source(name, tasks=tasks("failed")) for name in ("a", "b")]
    room = room_for(listed(*connectors).snapshot())
    assert list_tasks(listed(*connectors, series_max=room).snapshot()) == {("a", "0"), ("b", "0")}
    snapshot = listed(*connectors, series_max=room - 1).snapshot()
    assert list_tasks(snapshot) == {("b", "0")}
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
        of_a = [labels for _, labels in families_of(snapshot) if "a" in labels]
        assert len(of_a) <= max(0, room - 2)


def test_what_is_usual_gives_way_with_its_connector():
    world = listed(source("a", tasks=()), source("b", tasks=()), series_max=1)
    baselines = BaselinesView(valid=True, of={("lab", "a"): BASELINE, ("lab", "b"): BASELINE})
    world.book._baselines._view = baselines
    snapshot = world.snapshot()
    assert snapshot.left_out_of(SeriesGroup.CONNECTORS) == {("lab", "a"), ("lab", "b")}
    assert named(snapshot, "expected_commit_interval_seconds") == set()


def test_one_connector_may_have_so_many_tasks_alone():
    states = ["running"] * 4 + ["failed"] * 2
    connector = source("a", tasks=tasks(*states))
    for limit, output in ((36, 6), (35, 2), (12, 2), (11, 0)):
        snapshot = listed(connector, series_per_connector_max=limit).snapshot()
        assert len(list_tasks(snapshot)) == output
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


ALWAYS_EXPORTED = {"findings", "series_dropped_total"}
IN_PLACE = {"mm2_topic_replication_lag_records", "mm2_topic_replication_lag_seconds"}


def test_whatever_the_limit_series_stay_below_it_and_none_is_of_a_part():
    world = busy()
    whole = families_of(judged(world.snapshot()))
    of_each = owners(whole)
    observed = set()
    for room in range(len(whole) + 60, 0, -7):
        snapshot = judged(limited(world, room))
        observed.update(list_omitted_groups(snapshot))
        result = families_of(snapshot)
        bounded = [
            item for item in result if item[0] not in ALWAYS_EXPORTED and item[1][:1] == ("lab",)
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
            elif name not in ALWAYS_EXPORTED:
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
        for group in list_omitted_groups(limited(world, room)):
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
    assert families_of(world.snapshot())["series_dropped_total", ("series_max",)] == 12
    assert finding.name is FindingName.SERIES_DROPPED
    assert (finding.severity, finding.subject) == (Severity.INFO, "series_max")
    assert "leave out states of running tasks beyond limits.series_max" in finding.summary
    assert [(item.name, item.value) for item in finding.evidence] == [
        ("states of running tasks", "lab/a"),
        ("states of running tasks, series", 12),
    ]


def test_that_nothing_reports_how_far_a_connector_is_is_a_warning():
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


def test_all_that_came_and_went_is_counted_again_only_if_too_many_would_have_to_be_remembered(
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
    return bool(list_tasks(world.snapshot()))


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
