"""How many series one connector may have, and what gives way beyond that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from offsetwatch.model.observations import TAIL, FirstRecord, LogBounds
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from offsetwatch.serve.metrics.metric import Family
from offsetwatch.state import series_budget
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.series_budget import (
    PER_MIRROR_PARTITION,
    PER_SOURCE_PARTITION,
    ConnectorSeriesBudget,
)
from tests.changed import replace
from tests.unit.state.worlds import (
    FILE,
    STALE_S,
    SYNCS,
    World,
    mirror,
    orders,
    record,
    source,
    sync,
)

ONE_FILE = PER_SOURCE_PARTITION + 1  # an offset of one number
ONE_MIRRORED = ONE_FILE + PER_MIRROR_PARTITION
OWN = KafkaTopic("east", "own")


def world_of(*connectors, series_max: int, by_topic: bool = False) -> World:
    world = World(
        sites=(ConnectClusterSettings(name="lab", kafka="east", by_topic=by_topic),),
        series_per_connector_max=series_max,
    )
    world.listed(*connectors)
    world.found()
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
    world = world_of(source("files", tasks=()), series_max=series_max)
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
    world = world_of(source("files"), series_max=2 * PER_SOURCE_PARTITION + 41)
    world.commit("files", file(0), {f"n{number}": 1 for number in range(40)})
    world.commit("files", file(1), {"position": 1})
    assert exported(world) == {"filename=/0", "filename=/1"}
    world.commit("files", file(1), {"position": 1, "line": 1})
    assert exported(world) == {"filename=/0"}


def test_the_time_of_the_change_at_the_source_is_a_series_too():
    """Two numbers, one of which is the time as well."""
    offset = {"incrementing": 1, "timestamp": 1_700_000_000_000}
    tables = [{"protocol": "1", "table": name} for name in ("a", "b")]
    world = world_of(
        source("jdbc", class_name="JdbcSource"), series_max=2 * (PER_SOURCE_PARTITION + 3) - 1
    )
    world.commit("jdbc", tables[0], offset)
    assert series(world, {}) == PER_SOURCE_PARTITION + 3
    world.commit("jdbc", tables[1], offset)
    assert len(exported(world)) == 1


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


def flows_on(world: World, partitions: int, *, begun_at: int = 0) -> None:
    """For long enough to know that log starts come nearer; then each first record is read."""
    position = 0
    for start in range(begun_at, begun_at + 400):
        world.now += 10
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
    world, known = world_of(mirror(), source("files"), series_max=10_000), Counter()
    flows_on(world, 2)
    assert series(world, known) > 0
    world.commit("files", FILE, {"position": 1})
    assert series(world, known) == ONE_FILE
    flows_on(world, 3, begun_at=400)
    assert series(world, known) == ONE_MIRRORED


def test_one_that_is_known_by_another_spelling_of_its_key_only_counts_as_one_without_an_offset():
    world = three_files(3 * ONE_FILE)
    assert cut(world) == 0
    world.commit("files", file(0), {"position": 1}, raw_key=b'["files", {"filename": "/"}]')
    assert cut(world) == 1


def test_each_connector_has_a_budget_of_its_own():
    world = world_of(source("a"), source("b"), series_max=ONE_FILE)
    for name in ("a", "b"):
        world.commit(name, file(0), {"position": 1})
    assert len(rows(world, "source_offset_commits_total")) == 2
    assert cut(world) == 0


def test_what_stands_in_two_topics_is_one_budget():
    """Its own topic's partitions, and the shadows of the cluster's."""
    world = world_of(source("files", dedicated_offsets_topic="own"), series_max=ONE_FILE)
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
    world = world_of(replace(mirror(), tasks=()), series_max=series_max, by_topic=by_topic)
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


def test_a_flow_that_is_summed_up_by_wish_lost_nothing():
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
    world = world_of(mirror(), source("files"), series_max=ONE_FILE)
    world.commit("mm2", orders(), {"offset": 9})
    world.commit("files", file(0), {"position": 1})
    assert exported(world) == {"filename=/0"}
    assert world.snapshot().by_topic == {("lab", "mm2")}


def test_only_what_a_flow_that_falls_back_holds_is_counted():
    world = world_of(mirror(), mirror("mm3"), series_max=ONE_MIRRORED)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    world.commit("mm3", orders(), {"offset": 9})
    assert world.snapshot().by_topic == {("lab", "mm2")}
    assert cut(world) == 2


def test_offsets_like_a_flows_of_a_connector_that_is_none_are_bounded_as_any():
    world = world_of(source("mm2"), series_max=ONE_FILE)
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 9})
    assert len(exported(world)) == 1
    assert cut(world) == 1


def test_the_budget_is_reckoned_again_when_a_flow_comes_or_goes():
    world = world_of(source("mm2"), series_max=ONE_FILE)
    world.tail(record("mm2", orders(), {"offset": 9}, log_offset=1))
    assert world.snapshot().by_topic == frozenset()
    world.listed(mirror("mm2"))
    assert world.snapshot().by_topic == {("lab", "mm2")}
    world.listed(source("mm2"))
    assert world.snapshot().by_topic == frozenset()


def test_what_is_summed_up_leaves_the_budget_to_the_rest():
    world = world_of(mirror(), series_max=ONE_FILE, by_topic=True)
    world.commit("mm2", orders(), {"offset": 9})
    for number in range(2):
        world.commit("mm2", file(number), {"position": 1})
    assert exported(world) == {"filename=/0"}


def test_a_forgotten_partition_has_no_position_to_pay_for():
    world = world_of(source("files"), series_max=ONE_FILE + PER_SOURCE_PARTITION)
    for number in range(2):
        world.commit("files", file(number), {"position": 1})
    assert exported(world) == {"filename=/0"}
    world.commit("files", file(1), None)
    assert exported(world) == {"filename=/0", "filename=/1"}


def test_a_forgotten_partition_leaves_what_it_does_not_need_to_the_next():
    world = world_of(source("files"), series_max=PER_SOURCE_PARTITION + ONE_FILE)
    for number in range(3):
        world.commit("files", file(number), {"position": 1})
    world.commit("files", file(0), None)
    assert exported(world) == {"filename=/0", "filename=/1"}


@pytest.mark.parametrize(("room", "fits"), [(0, True), (-1, False)])
def test_a_position_that_a_flow_forgot_is_not_paid_for_either(room, fits):
    forgotten = PER_SOURCE_PARTITION + PER_MIRROR_PARTITION
    world = world_of(mirror(), series_max=ONE_MIRRORED + forgotten + room)
    world.commit("mm2", orders(0), {"offset": 9})
    world.commit("mm2", orders(1), {"offset": 9})
    world.commit("mm2", orders(1), None)
    assert (world.snapshot().by_topic == frozenset()) is fits


def test_what_a_flow_copies_and_never_committed_counts_too():
    world = world_of(mirror(), series_max=ONE_MIRRORED + PER_MIRROR_PARTITION)
    world.commit("mm2", orders(0), {"offset": 9})
    world.assigned(0, 1)
    assert world.snapshot().by_topic == frozenset()
    world.assigned(0, 1, 2)
    assert world.snapshot().by_topic == {("lab", "mm2")}
    world.assigned(0)
    assert world.snapshot().by_topic == frozenset()


@pytest.mark.parametrize("by_topic", [True, False])
def test_a_flow_of_which_a_position_cannot_be_told_is_known_in_part(by_topic):
    world = world_of(mirror(), series_max=1000, by_topic=by_topic)
    world.commit("mm2", orders(0), {"offset": 9})
    assert world.snapshot().partial == frozenset()
    world.commit("mm2", orders(1), {"offset": "nine"})
    assert world.snapshot().partial == {("lab", "mm2")}
