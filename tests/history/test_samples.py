"""Log ends and groups' positions, as they are put into the tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from offsetwatch.errors import AccessDenied, TargetUnreachable
from offsetwatch.history.pipeline import commits, offset_sampler
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.pipeline.offset_sampler import Sampler
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    CHECKPOINTS,
    GOLD_FLOW_PROGRESS,
    SILVER_NEWEST,
)
from offsetwatch.model.topology import MirrorFlow, TopicPartition, TopicRouter
from offsetwatch.state.mirror.mm2_names import DEFAULT_POLICY, IDENTITY_POLICY
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka
from tests.history.delta import stored, write
from tests.history.rows import Raw, checkpoint_key, checkpoint_value, decoded

TOPIC = "west.checkpoints.internal"
AT = 1_795_243_200.5  # 2026-11-21T06:40:00.5Z


def flow(**changes: Any) -> MirrorFlow:
    result = MirrorFlow(
        "lab", "mm2", "west", "east", "west", None, downstream="east", policy=DEFAULT_POLICY
    )
    return replace(result, **changes)


class Site:
    """Two clusters, tables that name one mirrored topic, and a group with a checkpoint."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.clock = VirtualClock(AT)
        self.west, self.east = FakeKafka("west", self.clock), FakeKafka("east", self.clock)
        for table in (BRONZE_LOG_ENDS, BRONZE_GROUP_OFFSETS):
            commits.create(base, table)
        self.mirrored("orders", 0)
        self.checkpoints(("billing", "west.orders", 0))
        self.west.create("orders", compacted=False)
        self.east.create("west.orders", compacted=False)
        for _ in range(7):
            self.west.produce("orders", b"k", b"v")
        for _ in range(5):
            self.east.produce("west.orders", b"k", b"v")
        self.west.groups["billing"] = {TopicPartition("orders", 0): 6}
        self.east.groups["billing"] = {TopicPartition("west.orders", 0): 4}

    def mirrored(self, topic: str, *partitions: int, connector: str = "mm2") -> None:
        rows = [
            {
                "connect_cluster": "lab",
                "connector": connector,
                "source": "west",
                "target": "east",
                "topic": topic,
                "partition": partition,
                "committed": 1,
                "replicated": 1,
            }
            for partition in partitions
        ]
        write(self.base, GOLD_FLOW_PROGRESS, *rows)

    def checkpoints(self, *locations: tuple[str, str, int], topic: str = TOPIC) -> None:
        raws = [
            Raw(
                key=checkpoint_key(*location),
                value=checkpoint_value(1, 1),
                topic=topic,
                offset=number,
                ms=number,
            )
            for number, location in enumerate(locations)
        ]
        rows = decoded(*raws, roles={topic: RecordedTopic(CHECKPOINTS, None, "id")})
        write(self.base, SILVER_NEWEST, *({**row, "kafka": "east"} for row in rows))

    def sampler(self, *flows: MirrorFlow, without: str = "") -> Sampler:
        admins: Any = {
            kafka.name: FakeAdmin(kafka)
            for kafka in (self.west, self.east)
            if kafka.name != without
        }
        return Sampler(self.base, flows or (flow(),), admins, self.clock)

    def sampled(self, sampler: Sampler) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """(log ends, groups), once taken and written."""
        sampler.take()
        sampler.write()
        return self.ends(), self.groups()

    def ends(self) -> list[tuple[Any, ...]]:
        names = ("kafka", "topic", "partition", "log_start", "log_end")
        return sorted(
            tuple(row[name] for name in names) for row in stored(self.base, BRONZE_LOG_ENDS)
        )

    def groups(self) -> list[tuple[Any, ...]]:
        names = ("kafka", "group_id", "topic", "partition", "committed")
        rows = stored(self.base, BRONZE_GROUP_OFFSETS)
        return sorted(tuple(row[name] for name in names) for row in rows)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_both_sides_of_what_is_mirrored_are_sampled(site: Site) -> None:
    ends, groups = site.sampled(site.sampler())
    assert ends == [("east", "west.orders", 0, 0, 5), ("west", "orders", 0, 0, 7)]
    assert groups == [("east", "billing", "west.orders", 0, 4), ("west", "billing", "orders", 0, 6)]
    (first, *_) = stored(site.base, BRONZE_LOG_ENDS)
    assert first["at"].timestamp() == AT
    assert first["day"].isoformat() == "2026-11-21"


def test_copies_are_sampled_under_the_name_that_a_router_gives_them(site: Site) -> None:
    site.east.create("copy-orders", compacted=False)
    site.east.produce("copy-orders", b"k", b"v")
    site.east.groups["billing"] = {TopicPartition("copy-orders", 0): 1}
    router = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")
    ends, groups = site.sampled(site.sampler(flow(routers=(router,))))
    assert ends == [("east", "copy-orders", 0, 0, 1), ("west", "orders", 0, 0, 7)]
    assert groups == [("east", "billing", "copy-orders", 0, 1), ("west", "billing", "orders", 0, 6)]


def test_copies_are_sampled_under_the_name_that_the_configuration_states(site: Site) -> None:
    site.east.create("copy-orders", compacted=False)
    site.east.produce("copy-orders", b"k", b"v")
    routers, copies = (TopicRouter("TimestampRouter"),), (("*", "copy-{topic}"),)
    ends, groups = site.sampled(site.sampler(flow(routers=routers, copies=copies)))
    assert ends == [("east", "copy-orders", 0, 0, 1), ("west", "orders", 0, 0, 7)]
    assert groups == [("west", "billing", "orders", 0, 6)]


def test_copies_whose_name_cannot_be_told_are_not_sampled(site: Site) -> None:
    ends, groups = site.sampled(site.sampler(flow(routers=(TopicRouter("TimestampRouter"),))))
    assert ends == [("west", "orders", 0, 0, 7)]
    assert groups == []


def test_rows_wait_until_they_are_written_and_are_written_once(site: Site) -> None:
    sampler = site.sampler()
    for _ in range(3):
        sampler.take()
        site.clock.advance(60)
    assert site.ends() == []
    sampler.write()
    sampler.write()
    assert len(site.ends()) == 6
    assert len({row["at"] for row in stored(site.base, BRONZE_LOG_ENDS)}) == 3


def test_under_the_identity_policy_both_sides_have_one_name(site: Site) -> None:
    site.east.create("orders", compacted=False)
    ends, _ = site.sampled(site.sampler(flow(policy=IDENTITY_POLICY)))
    assert ends[0][:2] == ("east", "orders")


def test_a_policy_that_nobody_knows_is_not_guessed_at(site: Site) -> None:
    """A checkpoint names the topic on the target, and what it may be upstream is known from what
    the flow mirrors.
    """
    ends, groups = site.sampled(site.sampler(flow(policy=None)))
    assert [end[:2] for end in ends] == [("east", "west.orders"), ("west", "orders")]
    assert len(groups) == 2
    site.checkpoints(("audit", "strange.orders", 0))
    site.east.groups["audit"] = {TopicPartition("strange.orders", 0): 4}
    assert {item[1] for item in site.sampled(site.sampler(flow(policy=None)))[1]} == {"billing"}


def test_a_cluster_that_is_not_configured_is_left_out(site: Site) -> None:
    ends, groups = site.sampled(site.sampler(without="west"))
    assert ([end[0] for end in ends], groups) == (["east"], [])
    assert site.sampled(site.sampler(flow(upstream=None)))[1] == []


def test_a_connector_that_is_no_flow_any_more_is_not_asked_about(site: Site) -> None:
    site.mirrored("payments", 0, connector="gone")
    site.west.create("payments")
    assert {item[1] for item in site.sampled(site.sampler())[0]} == {"orders", "west.orders"}


def test_a_group_that_has_committed_nothing_has_no_row(site: Site) -> None:
    del site.east.groups["billing"]
    assert site.sampled(site.sampler())[1] == [("west", "billing", "orders", 0, 6)]


def test_a_group_that_could_be_asked_on_one_side_only_has_no_row_on_the_other(site: Site) -> None:
    """No row on the target says that the group has committed nothing there."""
    site.east.down = TargetUnreachable("east", "no broker answers")
    assert site.sampled(site.sampler())[1] == []


def test_a_round_that_fails_is_a_hole_and_the_next_one_is_not(site: Site) -> None:
    sampler = site.sampler()
    site.west.down = TargetUnreachable("west", "no broker answers")
    with capture_logs() as logs:
        ends, groups = site.sampled(sampler)
    assert ([end[0] for end in ends], groups) == (["east"], [])
    assert {log["event"] for log in logs} == {"history_sample_failed"}
    site.west.down = None
    assert len(site.sampled(sampler)[0]) == 3


def test_what_is_denied_is_told_once(site: Site) -> None:
    sampler = site.sampler()
    site.west.down = AccessDenied("west", "Group authorization failed")
    with capture_logs() as logs:
        sampler.take()
        sampler.take()
    assert [log["what"] for log in logs] == ["west/billing", "west"]


def test_the_newest_groups_are_asked_about_where_there_are_too_many(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sampler, "GROUPS_MAX", 1)
    site.checkpoints(("old", "west.orders", 0), ("new", "west.orders", 0))
    for kafka, topic in ((site.west, "orders"), (site.east, "west.orders")):
        for group in ("old", "new"):
            kafka.groups[group] = {TopicPartition(topic, 0): 1}
    assert {item[1] for item in site.sampled(site.sampler())[1]} == {"new"}


def test_what_cannot_be_written_does_not_grow_for_ever(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sampler, "_PENDING_ROWS_MAX", 5)
    sampler = site.sampler()
    for _ in range(4):
        sampler.take()
    sampler.write()
    assert len(site.ends()) + len(site.groups()) == 8  # the round that went beyond it, and no more
