"""Asking where groups stand on both sides of a flow."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from offsetwatch.errors import AccessDenied, ClientError, TargetUnreachable
from offsetwatch.ingest.polls import poll_failover, poll_topics
from offsetwatch.model.observations import GroupOffset, InputSucceeded, LogBounds, TopicsChecked
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import GroupOffsetsRequest, GroupPartition
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka

CLOCK = VirtualClock()
FLOW = ("lab", "west", "east")
HERE, THERE = TopicPartition("orders", 0), TopicPartition("west.orders", 0)


class Shy(FakeAdmin):
    """Shows no group of this name."""

    def group_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, int]:
        if group == "secret":
            raise AccessDenied("west", "no Describe on group secret")
        return super().group_offsets(group, partitions, refused=refused)


def sides() -> tuple[FakeKafka, FakeKafka]:
    west, east = FakeKafka("west"), FakeKafka("east")
    west.create("orders")
    east.create("west.orders")
    for _ in range(3):
        west.produce("orders", b"k", b"v")
        east.produce("west.orders", b"k", b"v")
    west.groups["billing"] = {HERE: 2}
    return west, east


def build_request(*groups: str) -> GroupOffsetsRequest:
    rows = tuple(GroupPartition(group, "orders", "west.orders", 0) for group in groups)
    return GroupOffsetsRequest(FLOW, "west", "east", rows)


def test_a_group_is_requested_on_both_sides_and_the_logs_after_it():
    west, east = sides()
    east.groups["billing"] = {THERE: 1}
    read, succeeded = poll_failover(
        build_request("billing"), FakeAdmin(west), FakeAdmin(east), CLOCK
    )
    assert read.flow == FLOW
    assert read.offsets == (GroupOffset("billing", "orders", "west.orders", 0, 2, 1),)
    assert (read.upstream, read.downstream) == (
        {HERE: LogBounds(0, 3, 3)},
        {THERE: LogBounds(0, 3, 3)},
    )
    assert succeeded.input == build_groups_input(FLOW)


def test_a_group_that_is_nowhere_is_no_failure():
    west, east = sides()
    read, _ = poll_failover(build_request("gone"), FakeAdmin(west), FakeAdmin(east), CLOCK)
    assert read.offsets == (GroupOffset("gone", "orders", "west.orders", 0, None, None),)
    assert (read.upstream, read.downstream) == ({}, {})


def test_a_group_that_we_may_not_see_is_left_out():
    west, east = sides()
    both = build_request("secret", "billing")
    read, succeeded, failed = poll_failover(both, Shy(west), FakeAdmin(east), CLOCK)
    assert [offset.group for offset in read.offsets] == ["billing"]
    assert isinstance(succeeded, InputSucceeded)
    assert (failed.reason, failed.partial) == ("denied", True)
    assert failed.detail.startswith("'secret': ")


def test_that_we_may_see_no_group_at_all_is_a_failure():
    west, east = sides()
    (failed,) = poll_failover(build_request("secret"), Shy(west), FakeAdmin(east), CLOCK)
    assert (failed.input, failed.reason) == (build_groups_input(FLOW), "denied")


@pytest.mark.parametrize("side", [0, 1])
def test_either_side_that_is_away_is_one_failure(side):
    both = sides()
    both[side].down = TargetUnreachable("it", "away")
    (failed,) = poll_failover(build_request("billing"), *map(FakeAdmin, both), CLOCK)
    assert (failed.input, failed.reason) == (build_groups_input(FLOW), "unreachable")


def test_only_what_was_queried_after_is_reported_of_a_clusters_topics():
    _, east = sides()
    east.create("heartbeats")
    (observed,) = poll_topics(FakeAdmin(east), {"heartbeats", "west.heartbeats"})
    assert observed == TopicsChecked("east", frozenset({"heartbeats"}))


def test_a_cluster_that_is_away_says_nothing_of_its_topics():
    _, east = sides()
    east.down = TargetUnreachable("east", "away")
    assert poll_topics(FakeAdmin(east), {"heartbeats"}) == ()


@pytest.mark.parametrize("away", [HERE, THERE])
def test_a_partition_whose_committed_offset_is_refused_is_left_out_and_named(away):
    west, east = sides()
    west.create("payments")
    east.create("west.payments")
    west.groups["billing"] = {HERE: 2, TopicPartition("payments", 0): 0}
    (west if away == HERE else east).unfetched = {away: AccessDenied("west", "not authorized")}
    rows = tuple(
        GroupPartition("billing", value, f"west.{value}", 0) for value in ("orders", "payments")
    )
    read, succeeded, failed = poll_failover(
        GroupOffsetsRequest(FLOW, "west", "east", rows), FakeAdmin(west), FakeAdmin(east), CLOCK
    )
    assert [offset.topic for offset in read.offsets] == ["payments"]
    assert (failed.detail, failed.partial) == (
        f"'billing: {away.topic}-0': not authorized",
        True,
    )
    assert succeeded.input == failed.input
