import pytest

from offsetwatch.model.connectors import MirrorSettings
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.mirror import copy_costs
from offsetwatch.toolbox.mirror.copy_costs import CopyCost, format_offset, format_partition
from offsetwatch.toolbox.offset_shapes import ReadableRange

ORDERS = MirrorPartition("west", "orders", 0)
AT = TopicPartition("orders", 0)


def mirror(*, from_start: bool = True) -> MirrorSettings:
    return MirrorSettings(
        source="west",
        target="east",
        source_addresses=frozenset({"west:9092"}),
        target_addresses=frozenset({"east:9092"}),
        syncs_topic="mm2-offset-syncs.east.internal",
        syncs_on_source=True,
        read_committed=False,
        from_start=from_start,
    )


def pair(stored: int | None, partition: MirrorPartition = ORDERS) -> PartitionOffset:
    return PartitionOffset(format_partition(partition), format_offset(stored))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, 10),  # auto.offset.reset
        (-1, 10),
        (8, 10),  # record 9 is gone
        (9, 10),
        (10, 11),
        (99, 100),  # all of it is copied
        (100, 10),  # record 101 is none of this log: it was cut, or created again
    ],
)
def test_the_next_record_follows_the_last_one_copied_as_long_as_the_log_holds_it(stored, expected):
    log = ReadableRange(10, 100)
    assert copy_costs.find_next_record(stored, log, from_start=True) == expected


@pytest.mark.parametrize("stored", [None, 8, 100])
def test_a_consumer_that_is_to_begin_at_the_end_does_so_wherever_it_has_to_begin(stored):
    assert copy_costs.find_next_record(stored, ReadableRange(10, 100), from_start=False) == 100


@pytest.mark.parametrize(
    ("before", "after", "again", "skipped"),
    [
        (59, None, 50, 0),  # records 10 to 59
        (59, 49, 10, 0),  # records 50 to 59
        (59, 59, 0, 0),
        (59, 69, 0, 10),  # records 60 to 69
        (None, 19, 0, 10),  # records 10 to 19
        (None, None, 0, 0),
        (3, None, 0, 0),  # retention has taken what it would go on with
    ],
)
def test_records_are_counted_from_next_to_next(before, after, again, skipped):
    log = ReadableRange(10, 100)
    cost = copy_costs.compute_copy_cost(mirror(), ORDERS, log, before=before, after=after)
    assert (cost.again, cost.skipped) == (again, skipped)


def test_no_offset_skips_to_the_end_where_the_consumer_begins_there():
    cost = copy_costs.compute_copy_cost(
        mirror(from_start=False), ORDERS, ReadableRange(10, 100), before=59, after=None
    )
    assert (cost.again, cost.skipped) == (0, 40)


def test_both_sums_are_said_with_what_they_mean_and_that_they_are_upper_bounds():
    costs = copy_costs.describe_costs(
        [CopyCost(ORDERS, 50, 10), CopyCost(ORDERS, 9, 10), CopyCost(ORDERS, 5, 5)]
    )
    assert "40 records of 1 partition will be copied again" in costs[0]
    assert "DUPLICATES" in costs[0]
    assert "1 record of 1 partition will be skipped" in costs[1]
    assert "LOST" in costs[1]
    assert costs[2] == copy_costs.UPPER_BOUND_NOTE


def test_nothing_is_said_of_nothing():
    assert copy_costs.describe_costs([CopyCost(ORDERS, 5, 5)]) == ()


def test_a_move_forward_is_refused_with_how_far_it_may_go():
    (problem,) = copy_costs.find_skips([CopyCost(ORDERS, 50, 10), CopyCost(ORDERS, 50, 62)])
    assert problem.where == "orders-0"
    assert "12 records" in problem.wrong
    assert "at most 50" in problem.right
    assert "--allow-skip" in problem.right


@pytest.mark.parametrize(
    ("planned", "stored_now", "target", "log", "answer"),
    [
        (CopyCost(ORDERS, 60, 40), 70, 39, ReadableRange(0, 100), None),
        (CopyCost(ORDERS, 60, 80), 65, 79, ReadableRange(0, 100), None),
        (CopyCost(ORDERS, 60, 80), 85, 79, ReadableRange(0, 100), "copy 6 records again"),
        (CopyCost(ORDERS, 60, 40), 19, 39, ReadableRange(0, 100), "skip 20 records"),
        (CopyCost(ORDERS, 60, 40), 70, 39, ReadableRange(50, 100), "holds records 50 to 99"),
        (CopyCost(ORDERS, 60, 40), 70, 39, ReadableRange(0, 30), "holds records 0 to 29"),
        (CopyCost(ORDERS, 60, 0), 70, None, ReadableRange(50, 100), None),
    ],
)
def test_a_plan_holds_until_its_direction_or_its_log_has_changed(
    planned, stored_now, target, log, answer
):
    costs = copy_costs.recheck_costs(
        mirror(), [planned], [pair(stored_now)], [pair(target)], {AT: log}, whole=False
    )
    assert (costs == ()) if answer is None else (answer in costs[0])


def test_a_log_that_cannot_be_reported_any_more_ends_a_plan():
    costs = copy_costs.recheck_costs(
        mirror(), [CopyCost(ORDERS, 60, 40)], [pair(59)], [pair(39)], {}, whole=False
    )
    assert "no longer known" in costs[0]


@pytest.mark.parametrize("whole", [True, False])
def test_an_offset_that_came_meanwhile_ends_a_plan_that_was_to_forget_all(whole):
    later = MirrorPartition("west", "later", 0)
    costs = copy_costs.recheck_costs(
        mirror(),
        [CopyCost(ORDERS, 60, 0)],
        [pair(59), pair(3, later)],
        [pair(None)],
        {AT: ReadableRange(0, 100)},
        whole=whole,
    )
    assert [text.partition(":")[0] for text in costs] == (["later-0"] if whole else [])
