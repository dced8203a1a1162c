from __future__ import annotations

from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import Alter, FrozenOffsets, PartitionOffset, RequestedState
from offsetwatch.toolbox.mirror.flow_reset import FlowChange
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.rewind import prepare_rewind
from offsetwatch.toolbox.validation import OffsetsRequest
from tests.unit.toolbox import worlds
from tests.unit.toolbox.mirror.test_copy_costs import pair
from tests.unit.toolbox.mirror.test_flow_reset import AUTHOR, EU, ORDERS, World

SHARD = '{"shard":"eu-1"}'


def rewound(world: World, *pairs: PartitionOffset, allow_skip: bool = False) -> FlowChange:
    request = OffsetsRequest("mm2-source", pairs, DocumentLocation("mm2-source"))
    return prepare_rewind(world, request, "noon", AUTHOR, allow_skip=allow_skip)


def test_what_goes_back_is_counted_and_planned():
    change = rewound(World(), pair(4000, ORDERS), pair(None, EU))
    assert change.prepared.plan is not None
    assert change.prepared.plan.verb == "set mm2-source back to noon"
    assert Alter((pair(4000, ORDERS), pair(None, EU))) in change.prepared.plan.steps
    assert [count.again for count in change.counts] == [999, 300]
    assert any("1299 records of 2 partitions" in note for note in change.prepared.notes)


def test_what_stood_further_ahead_then_is_no_way_back():
    world = World(worlds.mirror(present=(pair(99, ORDERS),)))
    (problem,) = rewound(world, pair(4000, ORDERS)).prepared.problems
    assert "--allow-skip" in problem.right
    assert rewound(world, pair(4000, ORDERS), allow_skip=True).prepared.plan is not None


def test_what_would_start_over_now_is_no_way_back_either():
    world = World(worlds.mirror(present=()))
    (problem,) = rewound(world, pair(4000, ORDERS)).prepared.problems
    assert "would start over" in problem.wrong


def test_of_an_offset_without_an_order_it_is_said_that_the_direction_is_not_known():
    world = World(worlds.unknown_type())
    change = rewound(world, PartitionOffset(SHARD, '{"at":3,"mark":"b"}'))
    assert change.prepared.plan is not None
    assert change.counts == ()
    assert any("is unknown" in note for note in change.prepared.notes)


def test_what_is_wrong_with_the_offsets_of_that_moment_is_refused_first():
    change = rewound(World(), pair(9999, ORDERS))
    assert change.prepared.problems
    assert change.prepared.plan is None


def test_the_count_is_recreated_once_it_has_stopped():
    world = World(state=RequestedState.PAUSED)
    recheck = rewound(world, pair(4000, ORDERS)).prepared.recheck
    assert recheck is not None
    frozen = FrozenOffsets((pair(4999, ORDERS),), backup="b", backup_sha256="0")
    assert recheck(frozen) == ()
    world.facts_now = worlds.mirror(logs={TopicPartition("orders", 0): ReadableRange(4500, 5000)})
    assert recheck(frozen)
    world.facts_now = worlds.mirror()
    assert recheck(FrozenOffsets((pair(20, ORDERS),), backup="b", backup_sha256="0"))
