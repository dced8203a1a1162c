"""From a request to a plan: what is in it, and what speaks against it once the connector stands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from offsetwatch.model.offsets import Order
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import (
    Alter,
    DeleteTopic,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    PlanSubject,
    RequestedState,
    Reset,
    Settle,
    ToState,
    Watch,
)
from offsetwatch.toolbox.change import (
    Author,
    ChangeSteps,
    ConnectorChangeRequest,
    OffsetChangeKind,
    PreparedChange,
    compute_change,
    compute_changes,
    compute_differences,
    describe_directions,
    prepare_change,
)
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.offset_shapes import Fields, ReadableRange
from offsetwatch.toolbox.store.offset_store import StateBeforeChange
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
)
from tests.unit.toolbox.worlds import mirror

ORDERS = '{"cluster":"west","partition":0,"topic":"orders"}'
EU = '{"cluster":"west","partition":0,"topic":"orders-eu"}'
NAME = "mm2-source"


@dataclass
class MemoryStore:
    """An offset store with one mirror, over REST."""

    state: RequestedState | None = RequestedState.RUNNING
    known: ValidationFacts = field(default_factory=mirror)
    held: tuple[PartitionOffset, ...] = ()
    name: str = "lab"
    can_watch: bool = True

    def pairs(self, connector: str) -> tuple[PartitionOffset, ...]:
        return self.held

    def notes(self, connector: str) -> tuple[str, ...]:
        return ("odd",)

    def lock_name(self, connector: str) -> str:
        return "lab"

    def read_state(self, connector: str) -> StateBeforeChange | ValidationProblem:
        if connector != NAME:
            return ValidationProblem(connector, "is not there", "")
        return StateBeforeChange(
            PlanSubject("rest", "lab", connector, "mirror"), self.state, ("as it is",)
        )

    def gather_facts(
        self,
        connector: str,
        present: tuple[PartitionOffset, ...],
        expected: Collection[TopicPartition],
        source_partitions: Collection[Fields] = (),
    ) -> ValidationFacts:
        logs = {
            partition: log for partition, log in self.known.logs.items() if partition in expected
        }
        return replace(self.known, present=present, logs=logs)

    def plan_steps(
        self, connector: str, pairs: tuple[PartitionOffset, ...], *, whole: bool
    ) -> ChangeSteps:
        return ChangeSteps((Reset() if whole else Alter(pairs),), ("by request",))

    def driver(self, connector: str) -> None:
        return None


def build_store(
    *held: tuple[str, str | None], state: RequestedState | None = RequestedState.RUNNING
) -> MemoryStore:
    return MemoryStore(state=state, held=tuple(PartitionOffset(*pair) for pair in held))


def prepared(at: MemoryStore, *pairs: tuple[str, str | None], **more: object) -> PreparedChange:
    request = OffsetsRequest(
        NAME, tuple(PartitionOffset(*pair) for pair in pairs), DocumentLocation(NAME)
    )
    requested = ConnectorChangeRequest(request, "alter", **more)  # type: ignore[arg-type]
    return prepare_change(at, requested, Author("id", 1.0, "me"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "around"),
    [
        (
            RequestedState.RUNNING,
            (ToState(RequestedState.STOPPED), ToState(RequestedState.RUNNING)),
        ),
        (RequestedState.PAUSED, (ToState(RequestedState.STOPPED), ToState(RequestedState.PAUSED))),
        (RequestedState.STOPPED, (ToState(RequestedState.STOPPED),)),
        (None, ()),
    ],
)
def test_a_connector_is_stopped_and_is_then_what_it_was(
    state: RequestedState | None, around: tuple[ToState, ...]
) -> None:
    plan = prepared(
        build_store((ORDERS, '{"offset":9}'), state=state), (ORDERS, '{"offset":5}')
    ).plan
    assert plan is not None
    between = (Settle(), Freeze(), Alter((PartitionOffset(ORDERS, '{"offset":5}'),)))
    assert plan.steps == (*around[:1], *between, *around[1:])
    assert (plan.original, plan.final) == (state, state)


def test_only_what_differs_is_requested() -> None:
    offsets = build_store((ORDERS, '{"offset":9}'), (EU, '{"offset":3}'))
    change = prepared(offsets, (ORDERS, '{"offset":9}'), (EU, '{"offset":4}'))
    assert change.plan is not None
    assert Alter((PartitionOffset(EU, '{"offset":4}'),)) in change.plan.steps
    forward = "1 partition goes forward: the records in between are skipped for good"
    assert change.notes == ("as it is", "odd", forward, "by request")


def test_what_is_so_already_makes_no_plan() -> None:
    change = prepared(build_store((ORDERS, '{"offset":9}')), (ORDERS, '{"offset":9}'))
    assert (change.problems, change.changes, change.plan) == ((), (), None)


def test_a_problem_makes_no_plan_and_shows_what_was_meant() -> None:
    change = prepared(build_store((ORDERS, '{"offset":9}')), (ORDERS, '{"offset":9999}'))
    assert change.plan is None
    assert [problem.where for problem in change.problems] == [f"{NAME}[0].offset.offset"]
    assert len(change.changes) == 1


def test_a_connector_that_cannot_be_changed_is_not_inspected_any_further() -> None:
    request = OffsetsRequest("other", (), DocumentLocation("other"))
    change = prepare_change(
        build_store(), ConnectorChangeRequest(request, "x"), Author("id", 1.0, "me")
    )  # type: ignore[arg-type]
    assert [str(problem) for problem in change.problems] == ["other: is not there"]


def test_a_whole_reset_removes_what_is_there_whatever_it_is() -> None:
    change = prepared(
        build_store((ORDERS, '{"offset":9}'), ('{"odd":1}', "{}"), (EU, None)), whole=True
    )
    assert [item.partition for item in change.changes] == [ORDERS, '{"odd":1}']
    assert change.plan is not None
    assert Reset() in change.plan.steps
    assert change.recheck is None


def test_what_is_to_be_done_besides_is_done_while_the_connector_is_stopped() -> None:
    besides = DeleteTopic("west", "syncs", "id")
    plan = prepared(
        build_store((ORDERS, '{"offset":9}')), (ORDERS, '{"offset":9}'), also=(besides,)
    ).plan
    assert plan is not None
    assert plan.steps[1:-1] == (Settle(), Freeze(), besides)


def frozen(*pairs: tuple[str, str]) -> FrozenOffsets:
    return FrozenOffsets(tuple(PartitionOffset(*pair) for pair in pairs), "backup", "sha")


def test_what_has_moved_the_same_way_on_is_no_reason_to_go_back() -> None:
    recheck = prepared(build_store((ORDERS, '{"offset":9}')), (ORDERS, '{"offset":5}')).recheck
    assert recheck is not None
    assert recheck(frozen((ORDERS, '{"offset":4000}'))) == ()


def test_a_skip_that_has_become_a_rewind_is_said() -> None:
    recheck = prepared(build_store((ORDERS, '{"offset":9}')), (ORDERS, '{"offset":50}')).recheck
    assert recheck is not None
    assert recheck(frozen((ORDERS, '{"offset":50}'))) == ()
    (answer,) = recheck(frozen((ORDERS, '{"offset":51}')))
    assert answer.endswith("was a step forward and would be one back")


def test_a_log_that_was_cut_meanwhile_is_said() -> None:
    offsets = build_store((ORDERS, '{"offset":9}'))
    recheck = prepared(offsets, (ORDERS, '{"offset":5}')).recheck
    assert recheck is not None
    logs = {TopicPartition("orders", 0): ReadableRange(1000, 5000)}
    offsets.known = replace(offsets.known, logs=logs)
    (answer,) = recheck(frozen((ORDERS, '{"offset":9}')))
    assert "5 is before the first record of orders-0, which is 1000" in answer


# --- differences ---------------------------------------------------------------------------------

A, B, C = '{"filename":"a"}', '{"filename":"b"}', '{"filename":"c"}'

FILES = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def at(position: object) -> str:
    return f'{{"position":{position}}}'


NOW = (PartitionOffset(A, at(5)), PartitionOffset(B, at(6)))


def test_what_is_the_same_or_not_named_is_no_change() -> None:
    assert compute_changes(NOW, (PartitionOffset(A, at(5)), PartitionOffset(C, None))) == ()


def test_what_is_added_changed_and_removed_is_distinguished() -> None:
    changes = compute_changes(
        NOW, (PartitionOffset(C, at(1)), PartitionOffset(A, at(4)), PartitionOffset(B, None))
    )
    assert [(one.partition, one.kind) for one in changes] == [
        (C, OffsetChangeKind.ADDED),
        (A, OffsetChangeKind.CHANGED),
        (B, OffsetChangeKind.REMOVED),
    ]
    assert changes[1].pair == PartitionOffset(A, at(4))


def test_a_number_and_the_same_number_with_a_fraction_differ() -> None:
    assert len(compute_changes((PartitionOffset(A, at(5)),), (PartitionOffset(A, at("5.0")),))) == 1


def test_a_partition_that_is_listed_without_an_offset_has_none() -> None:
    (change,) = compute_changes((PartitionOffset(A, None),), (PartitionOffset(A, at(5)),))
    assert change.kind is OffsetChangeKind.ADDED


def test_between_two_states_what_only_the_first_has_differs_too() -> None:
    assert [one.partition for one in compute_differences(NOW, (PartitionOffset(A, at(5)),))] == [B]
    assert compute_differences(NOW, NOW) == ()


def test_what_going_forward_and_back_means_is_said_where_it_is_known() -> None:
    changes = compute_changes(
        NOW,
        (PartitionOffset(A, at(6)), PartitionOffset(B, at(1)), PartitionOffset(C, at(1))),
        FILES,
    )
    assert describe_directions(changes) == (
        "1 partition goes forward: the records in between are skipped for good",
        "1 partition goes back: the records in between are processed again",
    )
    assert describe_directions(changes[2:]) == ()


@pytest.mark.parametrize(
    ("partition", "before", "after", "order"),
    [
        (A, at(5), at(7), Order.AHEAD),
        (A, at(7), at(5), Order.BEHIND),
        (
            '{"kafka_partition":0,"kafka_topic":"t"}',
            '{"kafka_offset":5}',
            '{"kafka_offset":4}',
            "behind",
        ),
        (
            '{"kafka_partition":0,"kafka_topic":"t"}',
            '{"kafka_offset":5}',
            '{"kafka_offset":9}',
            "ahead",
        ),
        (
            '{"kafka_partition":0,"kafka_topic":"t"}',
            '{"kafka_offset":5,"x":1}',
            '{"kafka_offset":5}',
            "unordered",
        ),
        (
            '{"kafka_partition":0,"kafka_topic":"t"}',
            '{"kafka_offset":"5"}',
            '{"kafka_offset":6}',
            "unordered",
        ),
        ('{"odd":1}', '{"x":5}', '{"x":9}', Order.UNORDERED),
        (A, None, at(5), None),
        (A, at(5), None, None),
    ],
)
def test_a_direction_is_reported_where_the_connector_keeps_one(
    partition: str, before: str | None, after: str | None, order: Order | None
) -> None:
    assert compute_change(partition, before, after, class_name=FILES).order == order


@pytest.mark.parametrize("class_name", ["", "MirrorSourceConnector"])
def test_a_direction_of_mirrormaker_is_reported_by_its_shape(class_name: str) -> None:
    partition = '{"cluster":"w","partition":0,"topic":"t"}'
    change = compute_change(partition, '{"offset":5}', '{"offset":9}', class_name=class_name)
    assert (change.order, change.distance) == (Order.AHEAD, 4)


@pytest.mark.parametrize("class_name", ["", "com.example.CameraSource"])
def test_an_offset_of_another_meaning_has_neither_direction_nor_distance(class_name: str) -> None:
    (difference,) = compute_differences(
        (PartitionOffset(A, at(7)),), (PartitionOffset(A, at(5)),), class_name
    )
    assert difference.order is Order.UNORDERED
    assert difference.distance is None
    (known,) = compute_differences(
        (PartitionOffset(A, at(7)),), (PartitionOffset(A, at(5)),), FILES
    )
    assert (known.order, known.distance) == (Order.BEHIND, -2)


def test_where_the_tasks_can_be_seen_they_have_to_run_afterwards() -> None:
    offsets = build_store((ORDERS, '{"offset":9}'))
    plan = prepared(offsets, (ORDERS, '{"offset":5}'), watch_s=10.0).plan
    assert plan is not None
    assert plan.steps[-2:] == (ToState(RequestedState.RUNNING), Watch(10.0))
    paused = build_store((ORDERS, '{"offset":9}'), state=RequestedState.PAUSED)
    plan = prepared(paused, (ORDERS, '{"offset":5}'), watch_s=10.0).plan
    assert plan is not None
    assert plan.steps[-1] == ToState(RequestedState.PAUSED)
    offsets.can_watch = False
    plan = prepared(offsets, (ORDERS, '{"offset":5}'), watch_s=10.0).plan
    assert plan is not None
    assert plan.steps[-1] == ToState(RequestedState.RUNNING)


def test_a_slot_is_not_said_to_give_again_what_it_has_confirmed() -> None:
    postgres = "io.debezium.connector.postgresql.PostgresConnector"
    back = compute_change(
        '{"server":"shop"}', '{"lsn_commit":9}', '{"lsn_commit":5}', class_name=postgres
    )
    (words,) = describe_directions((back,))
    assert words == (
        "1 partition goes back: a replication slot never goes back behind what it has confirmed, "
        "so only what lies after that is processed again"
    )


def test_a_direction_that_is_unknown_is_said_to_be_so() -> None:
    change = compute_change('{"shard":"eu"}', '{"at":9}', '{"at":5}', class_name="com.example.X")
    (words,) = describe_directions((change,))
    assert words == (
        "the direction of 1 source partition is unknown: their connector has no known order of "
        "offsets"
    )
