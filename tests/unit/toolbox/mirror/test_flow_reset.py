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
    Frozen,
    Pair,
    Settle,
    State,
    Subject,
    ToState,
)
from offsetwatch.toolbox.change import Author, Effect, Standing
from offsetwatch.toolbox.mirror.flow_request import Target
from offsetwatch.toolbox.mirror.flow_reset import Clearing, FlowChange, Wish, prepare_flow
from offsetwatch.toolbox.validation import Facts, LogBounds, Problem

from tests.unit.toolbox import worlds
from tests.unit.toolbox.mirror.test_copy_costs import pair

AUTHOR = Author(plan_id="p1", at=1000.0, by="somebody")
SUBJECT = Subject(driver="rest", place="lab", connector="mm2-source", kind="mirror")
SYNCS = DeleteTopic(kafka="west", topic="mm2-offset-syncs.east.internal", topic_id="id")
ORDERS, EU = MirrorPartition("west", "orders", 0), MirrorPartition("west", "orders-eu", 0)


class World:
    """One MirrorSourceConnector; it is its place, the way to it and the Kafka it copies from."""

    def __init__(self, facts: Facts | None = None, *, state: State = State.RUNNING) -> None:
        self.facts_now = worlds.mirror() if facts is None else facts
        self.state = state
        self.clusters: Mapping[str, object] = {}
        self.by_moment: dict[float, int] = {}

    name = "lab"
    place = property(lambda self: self)

    def pairs(self, connector: str) -> tuple[Pair, ...]:
        return self.facts_now.present

    def notes(self, connector: str) -> tuple[str, ...]:
        return ()

    def standing(self, connector: str) -> Standing | Problem:
        return Standing(SUBJECT, self.state)

    def facts(
        self, connector: str, present: tuple[Pair, ...], wanted: Collection[TopicPartition]
    ) -> Facts:
        logs = {at: log for at, log in self.facts_now.logs.items() if at in wanted}
        return replace(self.facts_now, present=present, logs=logs)

    def effect(self, connector: str, pairs: tuple[Pair, ...], *, whole: bool) -> Effect:
        return Effect((Alter(pairs),))

    def driver(self, connector: str) -> World:
        return self

    def at(self, kafka: str) -> World:
        assert kafka == "west"
        return self

    def offsets_at(
        self, moments: Mapping[TopicPartition, float]
    ) -> dict[TopicPartition, int | None]:
        return {at: self.by_moment.get(moment) for at, moment in moments.items()}


def prepared(world: World, to: Target, clearing: Clearing | None = None, **more) -> FlowChange:
    wish = Wish(flow="west->east", to=to, **more)
    return prepare_flow(
        world,
        "mm2-source",
        wish,
        AUTHOR,
        kafkas=world,
        upstream="west",
        clearing=clearing,
    )


def steps(change: FlowChange) -> list[object]:
    assert change.prepared.plan is not None, change.prepared.problems
    return list(change.prepared.plan.steps)


def test_a_complete_reset_stops_removes_every_offset_and_starts_again_what_ran():
    found = prepared(World(), Target())
    assert steps(found) == [
        ToState(State.STOPPED),
        Settle(),
        Freeze(),
        Alter((pair(None, ORDERS), pair(None, EU))),
        ToState(State.RUNNING),
    ]
    assert [at.again for at in found.counts] == [5000, 300]
    assert any("5300 records of 2 partitions" in note for note in found.prepared.notes)


def test_nothing_is_planned_where_nothing_would_change():
    stands_there = prepared(World(), Target(offset=300), topics=frozenset({"orders-eu"})).prepared
    assert (stands_there.plan, stands_there.problems, stands_there.changes) == (None, (), ())


def test_a_move_forward_is_refused_unless_it_was_asked_for_by_name():
    behind = World(worlds.mirror(present=(pair(99, ORDERS),)))
    (problem,) = prepared(behind, Target(offset=200)).prepared.problems
    assert "100 record(s)" in problem.wrong
    allowed = prepared(behind, Target(offset=200), allow_skip=True)
    assert Alter((pair(199, ORDERS),)) in steps(allowed)
    assert any("LOST" in note for note in allowed.prepared.notes)


def test_a_moment_is_looked_up_where_the_connector_copies_from():
    world = World()
    world.by_moment = {500.0: 120}
    found = prepared(world, Target(at=500.0))
    assert Alter((pair(119, ORDERS), pair(119, EU))) in steps(found)
    assert found.prepared.plan is not None
    assert "Unix second 500" in found.prepared.plan.verb


def test_where_it_copies_from_must_be_known():
    blind = World(worlds.mirror(topics=None, unknown=("add west:9092 under kafka",)))
    (problem,) = prepared(blind, Target()).prepared.problems
    assert problem.right == "add west:9092 under kafka"
    nameless = World(worlds.mirror(mirror=None, unknown=("go over REST",)))
    (problem,) = prepared(nameless, Target()).prepared.problems
    assert (problem.where, problem.right) == ("--flow west->east", "go over REST")


def test_syncs_are_cleared_while_the_connector_is_stopped_and_after_its_offsets():
    found = prepared(World(), Target(), Clearing(SYNCS, notes=("it will be deleted",)))
    kinds = [type(step).__name__ for step in steps(found)]
    assert kinds == ["ToState", "Settle", "Freeze", "Alter", "DeleteTopic", "ToState"]
    assert "it will be deleted" in found.prepared.notes


def test_syncs_are_cleared_by_themselves_where_the_offsets_are_gone_already():
    reset = World(worlds.mirror(present=(pair(None, ORDERS),)), state=State.STOPPED)
    assert prepared(reset, Target()).prepared.plan is None
    found = prepared(reset, Target(), Clearing(SYNCS))
    assert steps(found) == [ToState(State.STOPPED), Settle(), Freeze(), SYNCS]


def test_somebody_else_at_work_on_the_syncs_stops_the_whole_change():
    inside = Problem("--clear-syncs", "lab/again writes it (NOT stopped)", "stop it first")
    found = prepared(World(), Target(), Clearing(SYNCS, problems=(inside,)))
    assert found.prepared.problems == (inside,)
    assert found.prepared.plan is None


def test_an_offset_that_came_while_it_was_being_stopped_is_not_kept_in_silence():
    world = World(worlds.mirror(present=(pair(4999, ORDERS),)))
    found = prepared(world, Target()).prepared
    assert found.recheck is not None
    frozen = (pair(4999, ORDERS), pair(7, EU))
    assert found.recheck(Frozen(frozen[:1], backup="b", backup_sha256="0")) == ()
    assert "orders-eu-0" in found.recheck(Frozen(frozen, backup="b", backup_sha256="0"))[0]


@pytest.mark.parametrize(
    ("stored", "log", "holds"),
    [
        (4999, LogBounds(0, 5000), True),
        (6000, LogBounds(0, 7000), True),  # it moved on, as it was running
        (50, LogBounds(0, 5000), False),  # somebody set it back meanwhile
        (4999, LogBounds(500, 5000), False),  # retention
    ],
)
def test_once_it_has_stopped_it_is_looked_at_again(stored, log, holds):
    world = World(worlds.mirror(present=(pair(4999, ORDERS),)))
    found = prepared(world, Target(offset=100)).prepared
    assert found.recheck is not None
    world.facts_now = worlds.mirror(
        present=(pair(stored, ORDERS),), logs={TopicPartition("orders", 0): log}
    )
    said = found.recheck(Frozen((pair(stored, ORDERS),), backup="b", backup_sha256="0"))
    assert (said == ()) is holds, said
