"""Where a group would land, at the edges of the log on the target."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import Condition, ConnectorKind, Task, TaskStatus
from offsetwatch.model.observations import (
    GROUPS,
    CheckpointRecord,
    GroupOffset,
    GroupOffsetsRead,
    HeartbeatRecord,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    ListingRecord,
    LogBounds,
    TopicsChecked,
)
from offsetwatch.model.offsets import Checkpoint, Heartbeat
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition, TopicRouter
from offsetwatch.state import failover
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.failover import (
    OWN_COMMIT,
    FailoverCost,
    GroupPosition,
    build_groups_input,
    compute_failover_cost,
)
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from offsetwatch.state.snapshot import GroupView
from tests.changed import replace
from tests.unit.state.worlds import NOW, SYNCS, World, mirror, mirrors, source, sync


def syncs(*pairs: tuple[int, int]) -> PartitionSyncs:
    built = PartitionSyncs()
    for upstream, downstream in pairs:
        built.read(upstream, downstream, live=True)
    return built


# A hundred records upstream, of which ten are not on the target any more.
HERE = LogBounds(0, 100, 100)
STANDING = GroupPosition(
    upstream=100,
    own=60,
    checkpoint=None,
    syncs=syncs((0, 0), (99, 99)),
    here=HERE,
    there=LogBounds(10, 100, 100),
    synced_before=True,
    had_start_offset_before=True,
)


def test_where_no_sync_was_read_nothing_is_known():
    assert compute_failover_cost(replace(STANDING, syncs=PartitionSyncs())) == FailoverCost()


@pytest.mark.parametrize(("end", "best"), [(100, 100), (99, None)])
def test_a_log_that_ends_at_its_newest_sync_was_cut(end, best):
    """The record of the sync lies at its offset, so the log ends after it at least."""
    assert compute_failover_cost(replace(STANDING, there=LogBounds(10, end, end))).best == best


@pytest.mark.parametrize(
    ("own", "reread"),
    [(9, None), (10, 90), (100, 0), (101, None)],
    ids=["before the start", "at the start", "at the end", "after the end"],
)
def test_a_consumer_can_start_at_either_end_of_a_log_and_nowhere_else(own, reread):
    position = replace(STANDING, own=own)
    assert position.start_offset_from == OWN_COMMIT
    at_the_end = replace(position, synced_before=False)
    assert compute_failover_cost(at_the_end).reread == reread


# --- failover groups -----------------------------------------------------------------------------

CHECKPOINTS = KafkaTopic("east", "west.checkpoints.internal")
HEARTBEATS = KafkaTopic("east", "heartbeats")
FLOW = ("lab", "west", "east")
LOG = LogBounds(0, 3000, 3000)


def checkpoint(
    downstream: int, *, group: str = "billing", topic: str = "west.orders", moment: float = NOW
) -> CheckpointRecord:
    return CheckpointRecord(Checkpoint(group, topic, 0, downstream, downstream, ""), at=moment)


def readable(*connectors, **changes) -> World:
    """A world whose flow has a checkpoints topic, which was read and was empty."""
    world = mirrors(*connectors, **changes)
    world.see(TopicsChecked("east", frozenset({CHECKPOINTS.topic, HEARTBEATS.topic})))
    world.tail(topic=CHECKPOINTS, whole=True)
    return world


def checkpointed(world: World, *records: CheckpointRecord) -> None:
    world.tail(*records, topic=CHECKPOINTS)


def answered(
    world: World,
    upstream: int | None = 2700,
    downstream: int | None = None,
    *,
    up: LogBounds | None = LOG,
    down: LogBounds | None = LOG,
    group: str = "billing",
    remote: str = "west.orders",
) -> None:
    """One poll of the group in orders-0."""
    world.see(
        GroupOffsetsRead(
            flow=FLOW,
            offsets=(GroupOffset(group, "orders", remote, 0, upstream, downstream),),
            upstream={} if up is None else {TopicPartition("orders", 0): up},
            downstream={} if down is None else {TopicPartition(remote, 0): down},
        ),
        InputSucceeded(build_groups_input(FLOW), world.now),
    )


def read_group(world: World) -> GroupView:
    (group,) = world.snapshot().groups
    return group


def early_and_last() -> World:
    """Only the first and the last of 3,000 records have a sync; the group has read 2,700."""
    world = readable()
    world.synced(0)
    world.synced(2999)
    checkpointed(world, checkpoint(1))
    return world


def test_a_group_that_only_an_early_sync_translates_reads_nearly_everything_again():
    world = early_and_last()
    answered(world)
    group = read_group(world)
    assert (group.best, group.start_offset, group.start_offset_from) == (2700, 1, "checkpoint")
    assert (group.reread, group.skip) == (2699, 0)
    assert group.checkpoint_at == NOW


def test_its_own_commit_at_the_target_comes_before_the_checkpoint():
    world = early_and_last()
    answered(world, downstream=2695)
    group = read_group(world)
    assert (group.start_offset, group.start_offset_from, group.reread) == (2695, "group", 5)


def test_a_landing_after_the_best_one_skips_records():
    world = early_and_last()
    answered(world, downstream=2800)
    assert (read_group(world).reread, read_group(world).skip) == (0, 100)


def test_without_a_commit_and_a_checkpoint_there_is_no_landing():
    world = early_and_last()
    for _ in range(2):
        answered(world, group="reports")
        group = read_group(world)
        assert (group.best, group.start_offset, group.start_offset_from) == (2700, None, None)
        assert (group.reread, group.skip) == (None, None)


def test_of_a_group_without_an_offset_upstream_there_is_nothing_to_say():
    world = early_and_last()
    answered(world, upstream=None)
    assert world.snapshot().groups == ()


def test_a_group_that_is_gone_upstream_has_no_checkpoint_to_wait_for():
    world = early_and_last()
    assert [item.group for item in world.snapshot().checkpoints] == ["billing"]
    answered(world, upstream=None)
    assert world.snapshot().checkpoints == ()


def test_the_newest_checkpoint_of_a_group_is_that_of_any_partition():
    world = early_and_last()
    checkpointed(world, checkpoint(5, topic="west.payments", moment=NOW + 9))
    (view,) = world.snapshot().checkpoints
    assert view.at == NOW + 9


@pytest.mark.parametrize(
    ("changes", "upstream"),
    [
        pytest.param({"up": LogBounds(0, 2000, 2000)}, 2700, id="beyond-the-upstream-end"),
        pytest.param({"up": None}, 2700, id="no-such-partition-upstream"),
        pytest.param({"down": None}, 2700, id="no-such-partition-downstream"),
    ],
)
def test_an_offset_that_names_no_record_has_no_best_place(changes, upstream):
    world = early_and_last()
    answered(world, upstream, **changes)
    group = read_group(world)
    assert (group.best, group.reread, group.skip) == (None, None, None)
    assert group.start_offset == 1


def test_an_offset_before_the_upstream_log_start_may_still_be_there_downstream():
    world = early_and_last()
    answered(world, 2700, up=LogBounds(2900, 3000, 3000))
    assert read_group(world).reread == 2699


def test_a_group_ahead_of_what_was_replicated_goes_on_at_the_end_of_the_copy():
    world = readable()
    world.synced(2999)
    checkpointed(world, checkpoint(3000))
    answered(world, 3500, up=LogBounds(0, 4000, 4000))
    assert (read_group(world).best, read_group(world).reread) == (3000, 0)


def test_what_the_downstream_log_no_longer_has_is_neither_read_again_nor_skipped():
    world = early_and_last()
    answered(world, 100, downstream=2950, down=LogBounds(2900, 3000, 3000))
    assert (read_group(world).best, read_group(world).skip) == (2900, 50)


@pytest.mark.parametrize("downstream", [2000, 3001])
def test_the_failover_cost_of_a_commit_outside_the_downstream_log_is_unknown(downstream):
    world = early_and_last()
    answered(world, downstream=downstream, down=LogBounds(2100, 3000, 3000))
    assert read_group(world).start_offset == downstream
    assert (read_group(world).reread, read_group(world).skip) == (None, None)


def test_a_checkpoint_beyond_the_end_counts_until_that_end_is_certainly_the_newer_one():
    world = readable()
    world.synced(0)
    checkpointed(world, checkpoint(150))
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert read_group(world).reread == 0  # it was written after that end was read
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert read_group(world).reread is None


def test_a_target_that_ends_before_an_acknowledged_record_is_another_topic_now():
    world = readable()
    world.synced(2999)
    checkpointed(world, checkpoint(1))
    answered(world, 3000, down=LogBounds(0, 10, 10))
    assert read_group(world).best == 3000  # the sync may be the newer of the two
    answered(world, 3000, down=LogBounds(0, 10, 10))
    assert read_group(world).best is None


def test_a_sync_that_came_with_the_answer_may_be_newer_than_its_log_ends():
    world = readable()
    world.synced(5)
    checkpointed(world, checkpoint(1))
    answered(world, 3000, down=LogBounds(0, 10, 10))
    assert read_group(world).best is not None
    world.synced(2999)
    answered(world, 3000, down=LogBounds(0, 10, 10))
    assert read_group(world).best == 3000
    answered(world, 3000, down=LogBounds(0, 10, 10))
    assert read_group(world).best is None


def test_what_was_known_before_an_answer_is_what_the_one_before_it_found():
    """And not one that nobody looked at, which found nothing."""
    world = readable()
    world.synced(0)
    checkpointed(world, checkpoint(150))
    answered(world, 150, down=LogBounds(0, 100, 100))
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert read_group(world).reread == 0
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert read_group(world).reread is None


def test_a_checkpoint_was_known_before_though_it_had_nothing_to_be_compared_with():
    world = readable()
    checkpointed(world, checkpoint(150))
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert (read_group(world).best, read_group(world).start_offset) == (None, 150)
    world.synced(0)
    answered(world, 150, down=LogBounds(0, 100, 100))
    assert read_group(world).reread is None


def test_a_group_without_syncs_has_no_best_place():
    world = readable()
    checkpointed(world, checkpoint(1))
    answered(world)
    assert (read_group(world).best, read_group(world).translated) == (None, None)


def test_syncs_that_may_be_another_flows_report_nothing():
    world = readable(mirror("mm2"), mirror("twin"))
    for connector in ("mm2", "twin"):
        world.commit(
            connector, {"cluster": "west", "partition": 0, "topic": "orders"}, {"offset": 1}
        )
    world.synced(0)
    checkpointed(world, checkpoint(1))
    answered(world)
    assert read_group(world).best is None


def test_what_was_made_of_an_answer_remains_until_the_next_one():
    world = early_and_last()
    answered(world)
    before = read_group(world)
    checkpointed(world, checkpoint(2500))
    assert read_group(world) is before
    answered(world)
    assert read_group(world).start_offset == 2500


# --- inputs that go stale -------------------------------------------------------------------------


@pytest.mark.parametrize("stale", [SYNCS, CHECKPOINTS, None])
def test_any_stale_input_takes_the_numbers_down(stale):
    world = early_and_last()
    answered(world)
    assert world.snapshot().groups
    world.now += 31
    for topic in {SYNCS, CHECKPOINTS} - {stale}:
        world.tail(topic=topic)
    if stale is not None:
        world.see(InputSucceeded(build_groups_input(FLOW), world.now))
    assert world.snapshot().groups == ()


def test_checkpoints_go_with_their_tail_and_stay_without_the_groups():
    world = early_and_last()
    world.see(InputFailed(build_groups_input(FLOW), "unreachable", "away"))
    assert world.snapshot().checkpoints
    world.now += 31
    assert world.snapshot().checkpoints == ()


def test_a_checkpoints_topic_that_is_read_again_is_known_from_that_alone():
    world = early_and_last()
    checkpointed(world, checkpoint(7, group="reports"))
    world.tail(checkpoint(9), topic=CHECKPOINTS, whole=True)
    assert [item.group for item in world.snapshot().checkpoints] == ["billing"]
    answered(world)
    assert read_group(world).start_offset == 9


def test_a_flow_that_is_gone_takes_its_groups_with_it():
    world = early_and_last()
    answered(world)
    world.listed(source("files"))
    snapshot = world.snapshot()
    assert (snapshot.groups, snapshot.checkpoints, snapshot.groups_to_ask) == ((), (), ())
    assert snapshot.topology.checkpoints == ()


# --- what to read and whom to ask -----------------------------------------------------------------


def test_only_topics_that_exist_are_followed():
    world = mirrors()
    assert CHECKPOINTS not in world.snapshot().topology.tailed()
    world.see(TopicsChecked("east", frozenset({CHECKPOINTS.topic, "orders"})))
    topology = world.snapshot().topology
    assert (topology.checkpoints, topology.heartbeats) == ((CHECKPOINTS,), ())
    assert CHECKPOINTS in topology.tailed()
    assert CHECKPOINTS not in topology.recorded()


def test_a_missing_checkpoints_topic_does_not_delay_readiness():
    world = mirrors()
    world.ends(10)
    world.see(TopicsChecked("east", frozenset()))
    assert world.snapshot().ready
    world.see(TopicsChecked("east", frozenset({CHECKPOINTS.topic})))
    assert not world.snapshot().ready
    world.tail_failed("not_found", CHECKPOINTS)
    assert world.snapshot().ready


def test_ready_means_that_the_groups_were_queried_once():
    world = early_and_last()
    world.ends(10)
    world.tail(topic=HEARTBEATS, whole=True)
    assert world.snapshot().waiting_for == ("groups lab/west->east: waiting for a first attempt",)
    world.see(InputFailed(build_groups_input(FLOW), "unreachable", "away"))
    assert world.snapshot().ready


def test_groups_with_a_checkpoint_are_requested_under_both_names_of_the_topic():
    world = early_and_last()
    (group,) = world.snapshot().groups_to_ask
    assert (group.upstream, group.downstream) == ("west", "east")
    (row,) = group.partitions
    assert (row.group, row.topic, row.remote, row.partition) == (
        "billing",
        "orders",
        "west.orders",
        0,
    )
    assert world.snapshot().groups_to_ask[0] is group


@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        pytest.param({}, "west.orders", id="default"),
        pytest.param(
            {
                "separator": "_",
                "internal_separator": "_",
                "syncs_topic": "mm2-offset-syncs_east_internal",
            },
            "west_orders",
            id="another-separator",
        ),
        pytest.param({"policy": "IdentityReplicationPolicy"}, "orders", id="the-same-name"),
        pytest.param({"policy": "OurOwnPolicy"}, "orders", id="unknown-policy-same-name"),
        pytest.param({"policy": "OurOwnPolicy"}, "west.orders", id="unknown-policy-with-alias"),
    ],
)
def test_a_checkpoints_topic_name_leads_back_to_the_upstream_topic(settings, remote):
    world = World()
    connector = mirror(**settings)
    world.listed(connector)
    syncs = KafkaTopic("west", connector.mirror.syncs_topic)
    topic = CHECKPOINTS
    if "separator" in settings:
        topic = KafkaTopic("east", "west_checkpoints_internal")
    world.tail(sync(0), topic=syncs, whole=True)
    world.see(TopicsChecked("east", frozenset({topic.topic})))
    world.tail(checkpoint(1, topic=remote), topic=topic, whole=True)
    (group,) = world.snapshot().groups_to_ask
    assert [(partition.topic, partition.remote) for partition in group.partitions] == [
        ("orders", remote)
    ]


def copied_by(*routers: TopicRouter, copies: tuple[tuple[str, str], ...] = ()) -> World:
    """A world whose connector has these transforms; the group has read 2,700 of 3,000 records.

    copies    what the configuration calls the copies, if it names the flow
    """
    named = MirrorFlow("lab", "mm2", "west", "east", "west", None, downstream="east", copies=copies)
    world = readable(mirror(routers=routers), flows=(named,) if copies else ())
    world.synced(0)
    world.synced(2999)
    checkpointed(world, checkpoint(1))
    return world


def test_a_group_is_requested_where_a_router_has_the_copies_written():
    world = copied_by(TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1"))
    (group,) = world.snapshot().groups_to_ask
    (row,) = group.partitions
    assert (row.topic, row.remote, row.checkpointed) == ("orders", "copy-orders", "west.orders")
    # The topic that MM2 created is empty; the start offset comes from the checkpoint that names it.
    offset = GroupOffset("billing", "orders", row.remote, 0, 2700, None, row.checkpointed)
    world.see(
        GroupOffsetsRead(
            flow=FLOW,
            offsets=(offset,),
            upstream={TopicPartition("orders", 0): LOG},
            downstream={TopicPartition("copy-orders", 0): LOG},
        ),
        InputSucceeded(build_groups_input(FLOW), world.now),
    )
    result = read_group(world)
    assert (result.best, result.start_offset, result.start_offset_from) == (2700, 1, "checkpoint")


def test_where_a_router_cannot_be_followed_no_group_is_requested():
    assert copied_by(TopicRouter("TimestampRouter")).snapshot().groups_to_ask == ()


def test_a_group_is_requested_where_the_configuration_says_that_the_copies_are():
    router = TopicRouter("TimestampRouter")
    (group,) = copied_by(router, copies=(("*", "copy-{topic}"),)).snapshot().groups_to_ask
    (row,) = group.partitions
    assert (row.topic, row.remote, row.checkpointed) == ("orders", "copy-orders", "west.orders")


def test_groups_of_topics_that_are_copied_to_one_topic_are_not_requested():
    world = copied_by(TopicRouter("RegexRouter", r"west\..*", "everything"))
    assert world.snapshot().groups_to_ask != ()
    world.tail(sync(0, topic="lines"), topic=SYNCS)
    checkpointed(world, checkpoint(1, group="reports", topic="west.lines"))
    assert world.snapshot().groups_to_ask == ()


@pytest.mark.parametrize(
    ("policy", "remote"),
    [
        pytest.param("DefaultReplicationPolicy", "orders", id="no-alias"),
        pytest.param("OurOwnPolicy", "orders-copy", id="no-such-topic-upstream"),
    ],
)
def test_a_name_that_leads_nowhere_is_not_guessed_at(policy, remote):
    world = readable(mirror(policy=policy))
    world.synced(0)
    checkpointed(world, checkpoint(1, topic=remote))
    assert world.snapshot().groups_to_ask == ()


def test_without_the_upstream_cluster_no_group_is_requested():
    world = readable(mirror(source_addresses=frozenset({"far:9092"}), syncs_on_source=False))
    checkpointed(world, checkpoint(1))
    assert world.snapshot().groups_to_ask == ()


def test_more_groups_than_can_be_queried_are_cut_and_counted_the_stalest_first(monkeypatch):
    monkeypatch.setattr(failover, "GROUPS_MAX", 2)
    world = readable()
    checkpointed(world, *(checkpoint(1, group=f"g{n}", moment=NOW + n) for n in range(4)))
    snapshot = world.snapshot()
    (group,) = snapshot.groups_to_ask
    assert [partition.group for partition in group.partitions] == ["g3", "g2"]
    assert dict(world.snapshot().dropped)["groups"] == 2


def test_more_checkpoints_than_can_be_kept_are_counted_and_those_that_are_kept_go_on(monkeypatch):
    monkeypatch.setattr(failover, "CHECKPOINTS_MAX", 1)
    world = readable()
    late = checkpoint(2, moment=NOW + 5)
    checkpointed(world, checkpoint(1), checkpoint(1, group="one"), checkpoint(1, group="two"), late)
    snapshot = world.snapshot()
    assert [(view.group, view.at) for view in snapshot.checkpoints] == [("billing", NOW + 5)]
    assert dict(snapshot.dropped)["checkpoints"] == 2


def test_checkpoints_and_heartbeats_whose_names_take_too_many_bytes_are_counted(monkeypatch):
    monkeypatch.setattr(failover, "CHECKPOINTS_MAX", 100)
    monkeypatch.setattr(failover, "HEARTBEATS_MAX", 100)
    names = [f"{number:02}" * 15_000 for number in range(40)]
    world = readable()
    checkpointed(world, *(checkpoint(1, group=name) for name in names))
    assert dict(world.snapshot().dropped)["checkpoints"] == 6
    world.tail(*(beat(name, "y", NOW) for name in names), topic=HEARTBEATS, whole=True)
    assert dict(world.snapshot().dropped)["heartbeats"] == 6


def test_more_heartbeats_than_can_be_kept_are_counted(monkeypatch):
    monkeypatch.setattr(failover, "HEARTBEATS_MAX", 1)
    world = readable()
    beats = (beat("west", "east", NOW), beat("x", "y", NOW), beat("west", "east", NOW + 1))
    world.tail(*beats, topic=HEARTBEATS, whole=True)
    snapshot = world.snapshot()
    assert [heartbeat.at for heartbeat in snapshot.heartbeats] == [NOW + 1]
    assert dict(snapshot.dropped)["heartbeats"] == 1


def test_groups_that_were_cut_are_counted_once_until_they_are_requested(monkeypatch):
    monkeypatch.setattr(failover, "GROUPS_MAX", 1)
    world = readable()
    checkpointed(world, checkpoint(1, group="a", moment=NOW + 1), checkpoint(1, group="b"))
    assert dict(world.snapshot().dropped)["groups"] == 1
    checkpointed(world, checkpoint(1, group="c"))
    assert dict(world.snapshot().dropped)["groups"] == 2


def test_a_tail_that_has_ended_leaves_no_checkpoints_heartbeats_or_syncs():
    world = early_and_last()
    world.tail(beat("west", "east", NOW), topic=HEARTBEATS, whole=True)
    assert world.snapshot().checkpoints
    assert world.snapshot().heartbeats
    assert world.snapshot().syncs
    for topic in (CHECKPOINTS, HEARTBEATS, SYNCS):
        world.see(InputRetired(InputId.of_tail(topic)))
        world.tail(topic=topic)
    snapshot = world.snapshot()
    assert (snapshot.checkpoints, snapshot.heartbeats, snapshot.syncs) == ((), (), ())


def test_more_partitions_than_can_be_queried_are_cut_by_whole_groups(monkeypatch):
    monkeypatch.setattr(failover, "GROUP_PARTITIONS_MAX", 2)
    world = readable()
    newest = [checkpoint(1, topic=f"west.t{n}", group="newest", moment=NOW + 2) for n in range(2)]
    checkpointed(world, *newest, checkpoint(1, group="older", moment=NOW + 1))
    (group,) = world.snapshot().groups_to_ask
    assert [partition.group for partition in group.partitions] == ["newest", "newest"]
    assert dict(world.snapshot().dropped)["groups"] == 1


def test_a_group_that_has_its_first_checkpoint_is_requested_too():
    world = readable()
    for groups in (["billing"], ["billing", "reports"]):
        checkpointed(world, *(checkpoint(1, group=group) for group in groups))
        (request,) = world.snapshot().groups_to_ask
        assert sorted(partition.group for partition in request.partitions) == groups


def test_groups_are_reported_by_name_whichever_had_a_checkpoint_first():
    world = readable()
    checkpointed(world, *(checkpoint(1, group=group) for group in ("reports", "billing")))
    assert [view.group for view in world.snapshot().checkpoints] == ["billing", "reports"]


def test_no_group_of_a_deleted_checkpoints_topic_is_reported_or_requested():
    world = early_and_last()
    answered(world)
    assert world.snapshot().groups
    world.see(TopicsChecked("east", frozenset()))
    snapshot = world.snapshot()
    assert (snapshot.groups, snapshot.checkpoints, snapshot.groups_to_ask) == ((), (), ())


def test_groups_of_topics_that_configuration_excludes_are_not_requested():
    cluster = ConnectClusterSettings(
        name="lab", kafka="east", wants_topic=lambda topic: topic != "orders"
    )
    world = readable(sites=(cluster,))
    checkpointed(world, checkpoint(1), checkpoint(1, topic="west.payments"))
    (group,) = world.snapshot().groups_to_ask
    assert [partition.topic for partition in group.partitions] == ["payments"]


def test_a_flow_that_comes_back_has_not_been_answered_for_yet():
    world = early_and_last()
    answered(world)
    world.listed(source("files"))
    world.snapshot()
    world.listed(mirror())
    assert world.snapshot().groups == ()


# --- what MM2 would write next --------------------------------------------------------------------


def test_what_mm2_would_write_is_certain_after_the_newest_sync():
    world = early_and_last()
    answered(world, 3000)
    assert read_group(world).translated == 3000


TASK = source(
    "ckpt",
    kind=ConnectorKind.MIRROR,
    class_name="org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
)


def followed(**changes) -> World:
    """Syncs, the group behind the newest of them, and a checkpoint task that was there before."""
    world = readable(mirror(), TASK, **changes)
    for upstream in range(0, 3000, 100):
        world.synced(upstream)
    checkpointed(world, checkpoint(1))
    answered(world)
    return world


def test_a_checkpoint_task_that_may_have_begun_again_has_nothing_to_be_held_against():
    world = followed()
    before = read_group(world)
    assert before.translated is not None
    world.listed(mirror(), TASK)
    answered(world)
    assert read_group(world).translated == before.translated
    world.listed(mirror(), replace(TASK, tasks=(Task(0, "unassigned"),)))
    answered(world)
    assert read_group(world).translated is None
    assert read_group(world).reread == before.reread


def test_a_restart_that_only_the_status_topic_reports_counts_too():
    status = KafkaTopic("east", "how-they-are")
    world = followed(sites=(ConnectClusterSettings(name="lab", kafka="east", status=status),))
    for connector, expected in (("mm2", True), ("ckpt", False)):
        running = TaskStatus(connector, 0, Condition("running", "worker:8083", 7, ""))
        world.tail(ListingRecord(running, at=world.now, live=True), topic=status)
        answered(world)
        assert (read_group(world).translated is not None) is expected


def test_failover_costs_outlive_a_silent_connect_until_a_task_was_started_again():
    """Another configuration may name another topic of copies, and tasks start with it."""
    status = KafkaTopic("east", "connect-status")
    site = ConnectClusterSettings(name="lab", kafka="east", status=status)
    world = readable(sites=(site,))

    def start(task: int, generation: int) -> None:
        condition = Condition("running", "w:1", generation, "4.3.1")
        task_status = TaskStatus("mm2", task, condition)
        written = ListingRecord(task_status, at=NOW + generation, live=True)
        world.tail(written, topic=status, whole=generation == 1)

    def poll() -> GroupView:
        for topic in (CHECKPOINTS, SYNCS, status):
            world.tail(topic=topic)
        answered(world)
        return read_group(world)

    start(0, 1)
    world.listed(mirror())
    world.synced(0)
    world.synced(2999)
    checkpointed(world, checkpoint(1))
    assert poll().reread == 2699
    world.now += 600
    assert poll().reread == 2699
    start(0, 2)
    world.snapshot()
    assert poll().reread is None
    world.listed(mirror())
    world.synced(2999)
    poll()
    answered(world, 3000)
    assert read_group(world).reread == 2999  # by syncs since then: earlier ones may name either


# --- heartbeats -----------------------------------------------------------------------------------


def beat(source: str, target: str, moment: float) -> HeartbeatRecord:
    return HeartbeatRecord(Heartbeat(source, target, moment))


def test_a_heartbeat_is_of_the_flow_that_its_key_names_wherever_it_is_found():
    world = mirrors()
    replicated = KafkaTopic("east", "west.heartbeats")
    world.see(TopicsChecked("east", frozenset({HEARTBEATS.topic, replicated.topic})))
    world.tail(beat("east", "west", NOW + 9), topic=HEARTBEATS, whole=True)
    assert world.snapshot().heartbeats == ()
    world.tail(beat("west", "east", NOW + 1), topic=HEARTBEATS)
    world.tail(beat("west", "east", NOW), beat("far", "west", NOW + 5), topic=replicated)
    (view,) = world.snapshot().heartbeats
    assert (view.source, view.target, view.at) == ("west", "east", NOW + 1)


def test_a_heartbeats_topic_that_is_read_again_is_known_from_that_alone():
    world = readable()
    world.tail(beat("west", "east", NOW), topic=HEARTBEATS, whole=True)
    assert world.snapshot().heartbeats
    world.tail(topic=HEARTBEATS, whole=True)
    assert world.snapshot().heartbeats == ()


def test_heartbeats_go_with_their_tail():
    world = mirrors()
    world.see(TopicsChecked("east", frozenset({HEARTBEATS.topic})))
    world.tail(beat("west", "east", NOW), topic=HEARTBEATS, whole=True)
    assert world.snapshot().heartbeats
    world.now += 21
    assert world.snapshot().heartbeats == ()


def test_a_named_flow_knows_its_target():
    named = MirrorFlow("lab", "mm2", "west", "east", "west", SYNCS, downstream="east")
    world = readable(flows=(named,))
    world.synced(0)
    checkpointed(world, checkpoint(1))
    (group,) = world.snapshot().groups_to_ask
    assert group.downstream == "east"


def test_groups_are_an_input_of_their_own():
    assert build_groups_input(FLOW) == InputId(
        GROUPS, connect_cluster="lab", source="west", target="east"
    )
    assert InputId.of_tail(CHECKPOINTS) != build_groups_input(FLOW)
