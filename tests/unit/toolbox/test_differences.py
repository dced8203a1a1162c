"""What a request would change."""

from __future__ import annotations

import pytest

from offsetwatch.model.offsets import Order
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.change import (
    OffsetChangeKind,
    compute_change,
    compute_changes,
    compute_differences,
    describe_directions,
)

A, B, C = '{"filename":"a"}', '{"filename":"b"}', '{"filename":"c"}'

FILES = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def at(position: object) -> str:
    return f'{{"position":{position}}}'


NOW = (PartitionOffset(A, at(5)), PartitionOffset(B, at(6)))


def test_what_is_the_same_or_not_named_is_no_change() -> None:
    assert compute_changes(NOW, (PartitionOffset(A, at(5)), PartitionOffset(C, None))) == ()


def test_what_is_added_changed_and_removed_is_told_apart() -> None:
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
        "1 partition(s) go forward: the records in between are skipped for good",
        "1 partition(s) go back: the records in between are processed again",
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
def test_a_direction_is_told_where_the_connector_keeps_one(
    partition: str, before: str | None, after: str | None, order: Order | None
) -> None:
    assert compute_change(partition, before, after, class_name=FILES).order == order


@pytest.mark.parametrize("class_name", ["", "MirrorSourceConnector"])
def test_a_direction_of_mirrormaker_is_told_by_its_shape(class_name: str) -> None:
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
