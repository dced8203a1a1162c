"""Tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from offsetwatch.model.connectors import ConnectorKind, ConnectorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import (
    Alter,
    DeleteTopic,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    PlanSubject,
    RequestedState,
    Settle,
    ToState,
)
from offsetwatch.toolbox.change import Author
from offsetwatch.toolbox.mirror.copy_costs import format_partition, parse_mirror_pairs
from offsetwatch.toolbox.mirror.flow_reset import (
    FlowChange,
    FlowResetRequest,
    FlowResetTarget,
    PartitionSelection,
    SyncTopicDeletion,
    compute_flow_offsets,
    find_flow_connectors,
    prepare_flow_reset,
    select_partitions,
)
from offsetwatch.toolbox.offset_shapes import Fields, ReadableRange
from offsetwatch.toolbox.store.offset_store import ChangeSteps, StateBeforeChange
from offsetwatch.toolbox.validation import ValidationFacts, ValidationProblem
from tests.unit.toolbox import worlds
from tests.unit.toolbox.mirror.test_copy_costs import mirror, pair

AUTHOR = Author(plan_id="p1", at=1000.0, by="somebody")
SUBJECT = PlanSubject(driver="rest", store="lab", connector="mm2-source", kind="mirror")
SYNCS = DeleteTopic(kafka="west", topic="mm2-offset-syncs.east.internal", topic_id="id")
ORDERS, EU = MirrorPartition("west", "orders", 0), MirrorPartition("west", "orders-eu", 0)


class World:
    """One MirrorSourceConnector; it is its place, the way to it and the Kafka it copies from."""

    def __init__(
        self,
        facts: ValidationFacts | None = None,
        *,
        state: RequestedState = RequestedState.RUNNING,
    ) -> None:
        self.facts_now = worlds.mirror() if facts is None else facts
        self.state = state
        self.clusters: Mapping[str, object] = {}
        self.by_moment: dict[float, int] = {}

    name = "lab"
    kafkas = property(lambda self: self)

    def upstream(self, connector: str) -> str:
        return "west"

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        return self.facts_now.present

    def notes(self, connector: str) -> tuple[str, ...]:
        return ()

    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        return StateBeforeChange(SUBJECT, self.state)

    def gather_facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        expected: Collection[TopicPartition],
        source_partitions: Collection[Fields] = (),
    ) -> ValidationFacts:
        logs = {
            partition: log
            for partition, log in self.facts_now.logs.items()
            if partition in expected
        }
        return replace(self.facts_now, present=present, logs=logs)

    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        return ChangeSteps((Alter(pairs),))

    def driver(self, connector: str) -> World:
        return self

    def at(self, kafka: str) -> World:
        assert kafka == "west"
        return self

    def offsets_at(
        self, moments: Mapping[TopicPartition, float]
    ) -> dict[TopicPartition, int | None]:
        return {partition: self.by_moment.get(moment) for partition, moment in moments.items()}


def prepared(
    world: World, to: FlowResetTarget, clearing: SyncTopicDeletion | None = None, **more
) -> FlowChange:
    request = FlowResetRequest(flow="west->east", to=to, **more)
    return prepare_flow_reset(
        world,
        "mm2-source",
        request,
        AUTHOR,
        clearing=clearing,
    )


def steps(change: FlowChange) -> list[object]:
    assert change.prepared.plan is not None, change.prepared.problems
    return list(change.prepared.plan.steps)


def test_a_complete_reset_stops_removes_every_offset_and_starts_again_what_ran():
    change = prepared(World(), FlowResetTarget())
    assert steps(change) == [
        ToState(RequestedState.STOPPED),
        Settle(),
        Freeze(),
        Alter((pair(None, ORDERS), pair(None, EU))),
        ToState(RequestedState.RUNNING),
    ]
    assert [count.again for count in change.counts] == [5000, 300]
    assert any("5300 records of 2 partitions" in note for note in change.prepared.notes)


def test_nothing_is_planned_where_nothing_would_change():
    stands_there = prepared(
        World(), FlowResetTarget(offset=300), topics=frozenset({"orders-eu"})
    ).prepared
    assert (stands_there.plan, stands_there.problems, stands_there.changes) == (None, (), ())


def test_a_move_forward_is_refused_unless_it_was_requested_by_name():
    world = World(worlds.mirror(present=(pair(99, ORDERS),)))
    (problem,) = prepared(world, FlowResetTarget(offset=200)).prepared.problems
    assert "100 records" in problem.wrong
    allowed = prepared(world, FlowResetTarget(offset=200), allow_skip=True)
    assert Alter((pair(199, ORDERS),)) in steps(allowed)
    assert any("LOST" in note for note in allowed.prepared.notes)


def test_a_moment_is_looked_up_where_the_connector_copies_from():
    world = World()
    world.by_moment = {500.0: 120}
    change = prepared(world, FlowResetTarget(at=500.0))
    assert Alter((pair(119, ORDERS), pair(119, EU))) in steps(change)
    assert change.prepared.plan is not None
    assert "Unix second 500" in change.prepared.plan.verb


def test_where_it_copies_from_must_be_known():
    world = World(worlds.mirror(topics=None, unknown=("add west:9092 under kafka",)))
    (problem,) = prepared(world, FlowResetTarget()).prepared.problems
    assert problem.right == "add west:9092 under kafka"
    nameless = World(worlds.mirror(mirror=None, unknown=("go over REST",)))
    (problem,) = prepared(nameless, FlowResetTarget()).prepared.problems
    assert (problem.where, problem.right) == ("--flow west->east", "go over REST")


def test_syncs_are_cleared_while_the_connector_is_stopped_and_after_its_offsets():
    change = prepared(
        World(), FlowResetTarget(), SyncTopicDeletion(SYNCS, notes=("it will be deleted",))
    )
    kinds = [type(step).__name__ for step in steps(change)]
    assert kinds == ["ToState", "Settle", "Freeze", "Alter", "DeleteTopic", "ToState"]
    assert "it will be deleted" in change.prepared.notes


def test_syncs_are_cleared_by_themselves_where_the_offsets_are_gone_already():
    reset = World(worlds.mirror(present=(pair(None, ORDERS),)), state=RequestedState.STOPPED)
    assert prepared(reset, FlowResetTarget()).prepared.plan is None
    change = prepared(reset, FlowResetTarget(), SyncTopicDeletion(SYNCS))
    assert steps(change) == [ToState(RequestedState.STOPPED), Settle(), Freeze(), SYNCS]


def test_another_running_user_of_the_syncs_stops_the_whole_change():
    inside = ValidationProblem(
        "--clear-syncs", "lab/again writes it (NOT stopped)", "stop it first"
    )
    change = prepared(World(), FlowResetTarget(), SyncTopicDeletion(SYNCS, problems=(inside,)))
    assert change.prepared.problems == (inside,)
    assert change.prepared.plan is None


def test_an_offset_that_came_while_it_was_being_stopped_is_not_kept_in_silence():
    world = World(worlds.mirror(present=(pair(4999, ORDERS),)))
    change = prepared(world, FlowResetTarget()).prepared
    assert change.recheck is not None
    frozen = (pair(4999, ORDERS), pair(7, EU))
    assert change.recheck(FrozenOffsets(frozen[:1], backup="b", backup_sha256="0")) == ()
    assert "orders-eu-0" in change.recheck(FrozenOffsets(frozen, backup="b", backup_sha256="0"))[0]


@pytest.mark.parametrize(
    ("stored", "log", "holds"),
    [
        (4999, ReadableRange(0, 5000), True),
        (6000, ReadableRange(0, 7000), True),  # it moved on, as it was running
        (50, ReadableRange(0, 5000), False),  # somebody set it back meanwhile
        (4999, ReadableRange(500, 5000), False),  # retention
    ],
)
def test_once_it_has_stopped_it_is_inspected_again(stored, log, holds):
    world = World(worlds.mirror(present=(pair(4999, ORDERS),)))
    change = prepared(world, FlowResetTarget(offset=100)).prepared
    assert change.recheck is not None
    world.facts_now = worlds.mirror(
        present=(pair(stored, ORDERS),), logs={TopicPartition("orders", 0): log}
    )
    messages = change.recheck(FrozenOffsets((pair(stored, ORDERS),), backup="b", backup_sha256="0"))
    assert (messages == ()) is holds, messages


# --- flow request --------------------------------------------------------------------------------

TOPICS = {"orders": 2, "payments": 1, "audit": 1}
ORDERS_0, ORDERS_1 = MirrorPartition("west", "orders", 0), MirrorPartition("west", "orders", 1)
PAYMENTS = MirrorPartition("west", "payments", 0)
GONE = MirrorPartition("west", "gone", 0)
PRESENT = (pair(59, ORDERS_0), pair(19, ORDERS_1), pair(9, PAYMENTS))
LOGS = {
    TopicPartition("orders", 0): ReadableRange(0, 100),
    TopicPartition("orders", 1): ReadableRange(10, 30),
    TopicPartition("payments", 0): ReadableRange(0, 10),
}


def chosen(present=PRESENT, topics=None, *, complete=False, **more) -> PartitionSelection:
    expected = None if topics is None else frozenset(topics)
    return select_partitions(mirror(), present, TOPICS, expected, complete=complete, **more)


def plan_positions(
    target: FlowResetTarget,
    of: PartitionSelection | None = None,
    *,
    settings=None,
    times=None,
    at=None,
):
    """What to write: times[offset] is when a record was written, at[moment] is its offset."""
    return compute_flow_offsets(
        mirror() if settings is None else settings,
        chosen(complete=target.complete) if of is None else of,
        target,
        LOGS,
        moments=lambda request: {
            where: (at or {}).get(moment) for where, moment in request.items()
        },
        record_times=lambda request: {
            where: times[offset] for where, offset in request.items() if offset in (times or {})
        },
    )


def values(pairs: tuple[PartitionOffset, ...]) -> dict[str, int | None]:
    return {
        f"{partition.topic}-{partition.partition}": stored
        for partition, stored in parse_mirror_pairs(pairs).items()
    }


def test_a_flow_is_its_connectors_and_a_wrong_one_is_answered_with_those_there_are():
    one = ConnectorSettings(kind=ConnectorKind.MIRROR, class_name="M", mirror=mirror())
    other = replace(one, mirror=replace(mirror(), source="north"))
    plain = ConnectorSettings(kind=ConnectorKind.SOURCE, class_name="F")
    listed = {"b": one, "a": one, "n": other, "f": plain}
    assert find_flow_connectors("west", "east", listed) == ("a", "b")
    results = find_flow_connectors("east", "west", listed)
    assert "west->east, north->east" in results.right
    assert "none at all" in find_flow_connectors("west", "east", {"f": plain}).right


# --- which partitions ----------------------------------------------------------------------------


def test_all_partitions_with_an_offset_are_meant_unless_topics_are_named():
    assert list(chosen().stored) == [ORDERS_0, ORDERS_1, PAYMENTS]
    assert list(chosen(topics=["payments"]).stored) == [PAYMENTS]


def test_a_named_topic_is_meant_with_the_partitions_that_have_no_offset_yet():
    selection = chosen(present=(pair(59, ORDERS_0),), topics=["orders"])
    assert selection.stored == {ORDERS_0: 59, ORDERS_1: None}
    assert selection.blank == {ORDERS_1}


def test_beside_another_connector_of_the_flow_only_partitions_with_an_offset_are_meant():
    selection = chosen(present=(pair(59, ORDERS_0),), topics=["orders"], alone=False)
    assert selection.stored == {ORDERS_0: 59}


def test_an_unknown_topic_is_refused():
    (problem,) = chosen(topics=["orders", "west.orders"]).problems
    assert problem.where == "--topics west.orders"


def test_what_no_task_of_the_flow_reads_is_left_alone_and_said():
    other = PartitionOffset(format_partition(MirrorPartition("north", "orders", 0)), '{"offset":1}')
    selection = chosen(present=(*PRESENT, other, PartitionOffset('{"a":1}', '{"b":2}')))
    assert len(selection.stored) == 3
    assert "2 offsets" in selection.notes[0]


def test_offsets_of_topics_that_are_gone_are_only_removed_by_a_complete_reset():
    present = (*PRESENT, pair(5, GONE), pair(5, MirrorPartition("west", "orders", 7)))
    some = chosen(present=present)
    assert GONE not in some.stored
    assert "2 partitions" in some.notes[0]
    result = plan_positions(FlowResetTarget(), chosen(present=present, complete=True))
    assert values(result.pairs) == dict.fromkeys(
        ("orders-0", "orders-1", "orders-7", "payments-0", "gone-0")
    )
    assert len(result.counts) == 3


# --- which offsets -------------------------------------------------------------------------------


def test_a_complete_reset_removes_every_offset_and_copies_from_the_log_starts():
    result = plan_positions(FlowResetTarget())
    assert values(result.pairs) == {"orders-0": None, "orders-1": None, "payments-0": None}
    assert [count.again for count in result.counts] == [60, 10, 10]
    assert result.problems == ()


def test_the_next_record_is_written_as_the_one_before_it_and_the_log_start_as_none():
    result = plan_positions(FlowResetTarget(offset=10))
    assert values(result.pairs) == {"orders-0": 9, "orders-1": None, "payments-0": 9}
    assert [(count.before, count.after) for count in result.counts] == [
        (60, 10),
        (20, 10),
        (10, 10),
    ]


def test_an_offset_below_the_log_start_is_the_log_start():
    assert values(plan_positions(FlowResetTarget(offset=3)).pairs)["orders-1"] is None


def test_the_end_of_a_log_is_the_furthest_that_can_be_next():
    assert [item.where for item in plan_positions(FlowResetTarget(offset=30)).problems] == [
        "payments-0"
    ]
    assert values(plan_positions(FlowResetTarget(offset=30)).pairs) == {
        "orders-0": 29,
        "orders-1": 29,
    }
    (problem,) = plan_positions(FlowResetTarget(offset=11), chosen(topics=["payments"])).problems
    assert "its log ends at 10" in problem.wrong
    assert "at most 10" in problem.right


def test_a_moment_is_its_first_record_and_one_after_the_last_record_is_the_end():
    result = plan_positions(
        FlowResetTarget(at=1000.0), at={1000.0: 40}, of=chosen(topics=["orders"])
    )
    assert values(result.pairs) == {"orders-0": 39, "orders-1": 29}  # the log ends at 30 meanwhile
    result = plan_positions(FlowResetTarget(at=2000.0))
    assert values(result.pairs) == {"orders-0": 99, "orders-1": 29, "payments-0": 9}


def test_a_span_is_measured_from_the_record_that_each_partition_is_at():
    result = plan_positions(
        FlowResetTarget(by_s=-60.0),
        times={59: 1000.0, 19: 500.0, 9: 60.0},
        at={940.0: 50, 440.0: 11, 0.0: 0},
    )
    assert values(result.pairs) == {"orders-0": 49, "orders-1": 10, "payments-0": None}


def test_a_position_whose_record_is_gone_is_as_old_as_the_first_one_that_is_left():
    selection = chosen(present=(pair(3, ORDERS_1),))
    result = plan_positions(
        FlowResetTarget(by_s=60.0), selection, times={10: 500.0}, at={560.0: 12}
    )
    assert values(result.pairs) == {"orders-1": 11}


def test_a_position_of_which_no_record_reports_the_time_cannot_be_moved_by_a_span():
    result = plan_positions(FlowResetTarget(by_s=-60.0), times={59: 1000.0, 19: 500.0})
    assert [problem.where for problem in result.problems] == ["payments-0"]


def test_an_empty_log_has_nowhere_else_to_go():
    logs = {TopicPartition("orders", 0): ReadableRange(7, 7)}
    offsets = compute_flow_offsets(
        mirror(),
        chosen(present=(pair(6, ORDERS_0),)),
        FlowResetTarget(by_s=-60.0),
        logs,
        moments=lambda request: dict.fromkeys(request, None),
        record_times=lambda _asked: {},
    )
    assert values(offsets.pairs) == {"orders-0": 6}


def test_an_offset_that_says_what_is_wanted_already_stays():
    # 9 and none mean the same here, as record 10 is the first of its log.
    result = plan_positions(FlowResetTarget(offset=10), chosen(present=(pair(9, ORDERS_1),)))
    assert values(result.pairs) == {"orders-1": 9}


def test_a_partition_without_an_offset_is_only_given_one_that_differs_from_none():
    result = plan_positions(
        FlowResetTarget(offset=10), chosen(present=(pair(59, ORDERS_0),), topics=["orders"])
    )
    assert values(result.pairs) == {"orders-0": 9}


@pytest.mark.parametrize(
    "target", [FlowResetTarget(), FlowResetTarget(offset=0), FlowResetTarget(at=0.0)]
)
def test_a_connector_that_begins_at_the_end_is_reported_where_the_log_starts(target):
    latest = mirror(from_start=False)
    result = plan_positions(target, settings=latest, of=chosen(topics=["orders"]), at={0.0: 0})
    assert values(result.pairs) == {"orders-1": 9}
    assert [problem.where for problem in result.problems] == ["orders-0"]
    assert "auto.offset.reset" in result.problems[0].right


def test_a_partition_of_an_unknown_log_is_a_problem():
    result = plan_positions(
        FlowResetTarget(), chosen(present=(*PRESENT, pair(1, MirrorPartition("west", "audit", 0))))
    )
    assert [problem.where for problem in result.problems] == ["audit-0"]


@pytest.mark.parametrize(
    ("stored", "answer"),
    [(100, "beyond the end"), (3, "records 4 to 9 are gone"), (9, None), (99, None), (None, None)],
)
def test_what_is_lost_already_is_said(stored, answer):
    logs = {TopicPartition("orders", 0): ReadableRange(10, 100)}
    offsets = compute_flow_offsets(
        mirror(),
        chosen(present=(pair(stored, ORDERS_0),)),
        FlowResetTarget(),
        logs,
        moments=lambda _asked: {},
        record_times=lambda _asked: {},
    )
    assert (offsets.notes == ()) if answer is None else (answer in offsets.notes[0])
