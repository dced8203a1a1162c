from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

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
from offsetwatch.toolbox.mirror.flow_reset import (
    FlowChange,
    FlowResetRequest,
    FlowResetTarget,
    SyncTopicDeletion,
    prepare_flow_reset,
)
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.store.offset_store import ChangeSteps, StateBeforeChange
from offsetwatch.toolbox.validation import ValidationFacts, ValidationProblem
from tests.unit.toolbox import worlds
from tests.unit.toolbox.mirror.test_copy_costs import pair

AUTHOR = Author(plan_id="p1", at=1000.0, by="somebody")
SUBJECT = PlanSubject(driver="rest", place="lab", connector="mm2-source", kind="mirror")
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


def test_a_move_forward_is_refused_unless_it_was_asked_for_by_name():
    world = World(worlds.mirror(present=(pair(99, ORDERS),)))
    (problem,) = prepared(world, FlowResetTarget(offset=200)).prepared.problems
    assert "100 record(s)" in problem.wrong
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


def test_somebody_else_at_work_on_the_syncs_stops_the_whole_change():
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
def test_once_it_has_stopped_it_is_looked_at_again(stored, log, holds):
    world = World(worlds.mirror(present=(pair(4999, ORDERS),)))
    change = prepared(world, FlowResetTarget(offset=100)).prepared
    assert change.recheck is not None
    world.facts_now = worlds.mirror(
        present=(pair(stored, ORDERS),), logs={TopicPartition("orders", 0): log}
    )
    messages = change.recheck(FrozenOffsets((pair(stored, ORDERS),), backup="b", backup_sha256="0"))
    assert (messages == ()) is holds, messages
