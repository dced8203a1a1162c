"""Log ends and groups' positions, as they are put into the tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from offsetwatch.errors import AccessDenied, ConfigError, TargetUnreachable
from offsetwatch.history.pipeline import commits, offset_sampler
from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.pipeline.offset_sampler import Sampler
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_SOURCE_ENDS,
    CHECKPOINTS,
    GOLD_FLOW_PROGRESS,
    SILVER_NEWEST,
)
from offsetwatch.model.source_ends import SourceEndSample
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


class SampledClusters:
    """Two clusters, tables that name one mirrored topic, and a group with a checkpoint."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.clock = VirtualClock(AT)
        self.west, self.east = FakeKafka("west", self.clock), FakeKafka("east", self.clock)
        for table in (BRONZE_LOG_ENDS, BRONZE_GROUP_OFFSETS, BRONZE_SOURCE_ENDS):
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
def clusters(tmp_path: Path) -> SampledClusters:
    return SampledClusters(tmp_path)


def test_both_sides_of_what_is_mirrored_are_sampled(clusters: SampledClusters) -> None:
    ends, groups = clusters.sampled(clusters.sampler())
    assert ends == [("east", "west.orders", 0, 0, 5), ("west", "orders", 0, 0, 7)]
    assert groups == [("east", "billing", "west.orders", 0, 4), ("west", "billing", "orders", 0, 6)]
    (first, *_) = stored(clusters.base, BRONZE_LOG_ENDS)
    assert first["at"].timestamp() == AT
    assert first["day"].isoformat() == "2026-11-21"


def test_copies_are_sampled_under_the_name_that_a_router_gives_them(
    clusters: SampledClusters,
) -> None:
    clusters.east.create("copy-orders", compacted=False)
    clusters.east.produce("copy-orders", b"k", b"v")
    clusters.east.groups["billing"] = {TopicPartition("copy-orders", 0): 1}
    router = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")
    ends, groups = clusters.sampled(clusters.sampler(flow(routers=(router,))))
    assert ends == [("east", "copy-orders", 0, 0, 1), ("west", "orders", 0, 0, 7)]
    assert groups == [("east", "billing", "copy-orders", 0, 1), ("west", "billing", "orders", 0, 6)]


def test_copies_are_sampled_under_the_name_that_the_configuration_states(
    clusters: SampledClusters,
) -> None:
    clusters.east.create("copy-orders", compacted=False)
    clusters.east.produce("copy-orders", b"k", b"v")
    routers, copies = (TopicRouter("TimestampRouter"),), (("*", "copy-{topic}"),)
    ends, groups = clusters.sampled(clusters.sampler(flow(routers=routers, copies=copies)))
    assert ends == [("east", "copy-orders", 0, 0, 1), ("west", "orders", 0, 0, 7)]
    assert groups == [("west", "billing", "orders", 0, 6)]


def test_copies_of_unknown_name_are_not_sampled(clusters: SampledClusters) -> None:
    ends, groups = clusters.sampled(
        clusters.sampler(flow(routers=(TopicRouter("TimestampRouter"),)))
    )
    assert ends == [("west", "orders", 0, 0, 7)]
    assert groups == []


def test_rows_wait_until_they_are_written_and_are_written_once(clusters: SampledClusters) -> None:
    sampler = clusters.sampler()
    for _ in range(3):
        sampler.take()
        clusters.clock.advance(60)
    assert clusters.ends() == []
    sampler.write()
    sampler.write()
    assert len(clusters.ends()) == 6
    assert len({row["at"] for row in stored(clusters.base, BRONZE_LOG_ENDS)}) == 3


def test_under_the_identity_policy_both_sides_have_one_name(clusters: SampledClusters) -> None:
    clusters.east.create("orders", compacted=False)
    ends, _ = clusters.sampled(clusters.sampler(flow(policy=IDENTITY_POLICY)))
    assert ends[0][:2] == ("east", "orders")


def test_under_an_unknown_policy_only_topics_of_the_flow_are_sampled(
    clusters: SampledClusters,
) -> None:
    """A checkpoint names the topic on the target, and what it may be upstream is known from what
    the flow mirrors.
    """
    ends, groups = clusters.sampled(clusters.sampler(flow(policy=None)))
    assert [end[:2] for end in ends] == [("east", "west.orders"), ("west", "orders")]
    assert len(groups) == 2
    clusters.checkpoints(("audit", "strange.orders", 0))
    clusters.east.groups["audit"] = {TopicPartition("strange.orders", 0): 4}
    assert {item[1] for item in clusters.sampled(clusters.sampler(flow(policy=None)))[1]} == {
        "billing"
    }


def test_a_cluster_that_is_not_configured_is_left_out(clusters: SampledClusters) -> None:
    ends, groups = clusters.sampled(clusters.sampler(without="west"))
    assert ([end[0] for end in ends], groups) == (["east"], [])
    assert clusters.sampled(clusters.sampler(flow(upstream=None)))[1] == []


def test_a_connector_that_is_no_flow_any_more_is_not_queried_about(
    clusters: SampledClusters,
) -> None:
    clusters.mirrored("payments", 0, connector="gone")
    clusters.west.create("payments")
    assert {item[1] for item in clusters.sampled(clusters.sampler())[0]} == {
        "orders",
        "west.orders",
    }


def test_a_group_that_has_committed_nothing_has_no_row(clusters: SampledClusters) -> None:
    del clusters.east.groups["billing"]
    assert clusters.sampled(clusters.sampler())[1] == [("west", "billing", "orders", 0, 6)]


def test_a_group_that_could_be_queried_on_one_side_only_has_no_row_on_the_other(
    clusters: SampledClusters,
) -> None:
    """No row on the target says that the group has committed nothing there."""
    clusters.east.down = TargetUnreachable("east", "no broker answers")
    assert clusters.sampled(clusters.sampler())[1] == []


def test_a_round_that_fails_is_a_hole_and_the_next_one_is_not(clusters: SampledClusters) -> None:
    sampler = clusters.sampler()
    clusters.west.down = TargetUnreachable("west", "no broker answers")
    with capture_logs() as logs:
        ends, groups = clusters.sampled(sampler)
    assert ([end[0] for end in ends], groups) == (["east"], [])
    assert {log["event"] for log in logs} == {"history_sample_failed"}
    clusters.west.down = None
    assert len(clusters.sampled(sampler)[0]) == 3


def test_what_is_denied_is_reported_once(clusters: SampledClusters) -> None:
    sampler = clusters.sampler()
    clusters.west.down = AccessDenied("west", "Group authorization failed")
    with capture_logs() as logs:
        sampler.take()
        sampler.take()
    assert [log["what"] for log in logs] == ["west/billing", "west"]


def test_the_newest_groups_are_queried_about_where_there_are_too_many(
    clusters: SampledClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sampler, "GROUPS_MAX", 1)
    clusters.checkpoints(("old", "west.orders", 0), ("new", "west.orders", 0))
    for kafka, topic in ((clusters.west, "orders"), (clusters.east, "west.orders")):
        for group in ("old", "new"):
            kafka.groups[group] = {TopicPartition(topic, 0): 1}
    assert {item[1] for item in clusters.sampled(clusters.sampler())[1]} == {"new"}


def test_what_cannot_be_written_does_not_grow_for_ever(
    clusters: SampledClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sampler, "_PENDING_ROWS_MAX", 5)
    sampler = clusters.sampler()
    for _ in range(4):
        sampler.take()
    sampler.write()
    assert (
        len(clusters.ends()) + len(clusters.groups()) == 8
    )  # the round that went beyond it, and no more


# --- ends of sources -----------------------------------------------------------------------------

END = SourceEndSample(
    read_at=AT,
    connect_cluster="lab",
    connector="shop",
    source_partition='{"server":"shop"}',
    source="db",
    kind="postgresql",
    server="7/1",
    end="0/400",
    position=100,
    end_position=1024,
    lag_bytes=924,
    behind_since=AT - 40.0,
    caught_up=False,
)


class SampledSources:
    """A daemon that has read one source."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.answer: Any = (END,)
        for table in (BRONZE_LOG_ENDS, BRONZE_GROUP_OFFSETS, BRONZE_SOURCE_ENDS):
            commits.create(base, table)
        write(base, GOLD_FLOW_PROGRESS)
        self.sampler = Sampler(base, (), {}, VirtualClock(AT), self.query)

    def query(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def sampled(self) -> list[dict[str, Any]]:
        self.sampler.take()
        self.sampler.write()
        return stored(self.base, BRONZE_SOURCE_ENDS, by="at")


@pytest.fixture
def sources(tmp_path: Path) -> SampledSources:
    return SampledSources(tmp_path)


def test_what_the_daemon_has_read_of_a_source_is_a_row(sources: SampledSources) -> None:
    (row,) = sources.sampled()
    assert row["at"].timestamp() == AT
    assert row["behind_since"].timestamp() == AT - 40.0
    assert row["day"].isoformat() == "2026-11-21"
    known = {name: value for name, value in row.items() if value is not None}
    assert {
        "connector": "shop",
        "source_partition": '{"server":"shop"}',
        "source": "db",
        "server": "7/1",
        "source_end": "0/400",
        "end_position": 1024,
        "lag_bytes": 924,
        "caught_up": False,
    }.items() <= known.items()
    assert row["lag_rows"] is row["problem"] is None


def test_an_end_that_was_not_read_again_is_no_other_sample(sources: SampledSources) -> None:
    sources.sampled()
    assert len(sources.sampled()) == 1
    sources.answer = (msgspec.structs.replace(END, read_at=AT + 15, position=2**70),)
    first, second = sources.sampled()
    assert (first["position"], second["position"]) == (100, None)


@pytest.mark.parametrize(
    "failure", [TargetUnreachable("daemon", "no answer"), ConfigError(("own_access: no file",))]
)
def test_a_daemon_that_cannot_be_asked_is_a_hole(
    sources: SampledSources, failure: Exception
) -> None:
    sources.answer = failure
    with capture_logs() as logs:
        assert sources.sampled() == []
    assert [(log["event"], log["what"]) for log in logs] == [
        ("history_sample_failed", "ends of sources")
    ]
    sources.answer = (END,)
    assert len(sources.sampled()) == 1
