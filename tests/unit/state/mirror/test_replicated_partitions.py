"""Replicated partitions: positions, syncs and log ends brought together."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import Task
from offsetwatch.model.observations import (
    LOG_ENDS,
    TAIL,
    ConnectorsListed,
    FirstRecord,
    LogBounds,
    NoRecordBefore,
    ProbeResult,
    ProbeRoundRead,
)
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.loss.accounting import NOTHING_LOST
from offsetwatch.state.mirror import offset_syncs
from offsetwatch.state.mirror.lag import RECHECK_S
from offsetwatch.state.mirror.replicated_partitions import OPEN_REQUESTS_MAX
from tests.changed import replace
from tests.unit.state.worlds import NOW, STALE_S, SYNCS, World, mirror, mirrors, orders, record

ORDERS = TopicPartition("orders", 0)


def replicating(offset: int = 100) -> World:
    world = mirrors()
    world.commit("mm2", orders(), {"offset": offset})
    return world


def test_a_flow_that_is_at_the_last_record_has_no_lag():
    world = replicating(99)
    world.ends(100)
    view = world.mirrored()
    assert (view.lag, view.ahead) == (0, 0)
    assert (view.log_start, view.log_end) == (0, 100)
    assert (view.committed, view.synced, view.replicated) == (99, None, 99)


def test_a_stall_makes_the_lag_grow_with_every_answer():
    world = replicating(99)
    lags = []
    for end in (100, 150, 900):
        world.ends(end)
        lags.append(world.mirrored().lag)
    assert lags == [0, 50, 800]


def test_an_answer_that_reports_nothing_new_leaves_the_very_pictures():
    world = replicating(99)
    world.ends(100)
    before = world.snapshot().mirror_partitions
    world.now += 5
    world.ends(100)
    assert world.snapshot().mirror_partitions is before


def test_a_partition_of_which_nothing_was_ever_replicated_waits_at_every_answer():
    world = mirrors()
    world.assigned(0)
    for _ in range(2):
        world.ends(100)
        assert (world.mirrored().lag_position, world.mirrored().lag) == (None, 100)


def _retention(world: World) -> None:
    world.ends({ORDERS: LogBounds(50, 100, 100)})


def _growth(world: World) -> None:
    world.ends(101)


def _fall(world: World) -> None:
    world.ends(99)


def _no_such_partition(world: World) -> None:
    world.ends({})


def _loss(world: World) -> None:
    reports = (("retention", 7), ("recreated", 0), ("altered", 0)), None
    accounting = world.book._replication.losses
    accounting.find_losses, accounting.pop_changed = (
        (lambda _flow, _where: reports),
        lambda _flow: {ORDERS},
    )
    world.ends(100)


def _nearer_retention(world: World) -> None:
    reports = NOTHING_LOST, 60.0
    accounting = world.book._replication.losses
    accounting.find_losses, accounting.pop_changed = (
        (lambda _flow, _where: reports),
        lambda _flow: {ORDERS},
    )
    world.ends(100)


@pytest.mark.parametrize(
    ("happens", "output"),
    [
        (_retention, {"log_start": 50, "headroom": 50}),
        (_growth, {"log_end": 101, "lag": 1, "caught_up": None}),
        (_fall, {"log_end": 99, "lag": 0, "ahead": 1, "caught_up": None}),
        (_no_such_partition, {"log_end": None, "lag": None, "caught_up": None}),
        (_loss, {"lost": (("retention", 7), ("recreated", 0), ("altered", 0))}),
        (_nearer_retention, {"headroom_s": 60.0}),
    ],
)
def test_whatever_is_new_in_an_answer_is_shown_of_a_flow_that_has_read_all(happens, output):
    world = replicating(99)
    world.ends(100)
    assert world.mirrored().caught_up is True
    happens(world)
    assert {name: getattr(world.mirrored(), name) for name in output} == output


def test_a_position_that_comes_to_the_end_of_what_was_known_to_be_empty_is_shown():
    world = replicating(97)
    world.ends(100)
    world.probed(98, NoRecordBefore(100))
    assert (world.mirrored().caught_up, world.mirrored().lag) == (True, 2)
    world.commit("mm2", orders(), {"offset": 99})
    assert world.mirrored().lag == 2
    world.ends(100)
    assert (world.mirrored().lag_position, world.mirrored().lag) == (99, 0)


def test_a_position_beyond_the_end_is_ahead_and_no_negative_lag():
    world = replicating(99)
    world.ends(40)
    assert (world.mirrored().lag, world.mirrored().ahead) == (0, 60)


def test_there_is_no_lag_without_an_answer():
    world = replicating()
    assert (world.mirrored().lag, world.mirrored().log_end) == (None, None)


def test_a_commit_after_the_query_is_not_paired_with_that_answer():
    world = replicating(10)
    request = world.request_ends()
    world.commit("mm2", orders(), {"offset": 500})  # the log grew since, and so did the position
    world.ends(400, number=request)
    view = world.mirrored()
    assert (view.lag, view.ahead, view.lag_position) == (389, 0, 10)
    assert view.replicated == 500
    world.ends(600)
    assert world.mirrored().lag == 99


def test_a_sync_after_the_query_is_not_paired_with_that_answer():
    world = replicating(10)
    request = world.request_ends()
    world.synced(500)
    world.ends(400, number=request)
    assert (world.mirrored().lag, world.mirrored().ahead) == (389, 0)


def test_a_rewind_after_the_query_counts_at_once():
    world = replicating(99)
    world.ends(100)
    assert world.mirrored().lag == 0
    world.commit("mm2", orders(), {"offset": 9})
    view = world.mirrored()
    assert (view.lag, view.lag_position, view.replicated) == (90, 9, 9)


def test_two_askings_at_once_are_each_paired_with_their_own_answer():
    """A round of its own follows the discovery of a flow, while the regular one is under way."""
    world = replicating(10)
    first = world.request_ends()
    world.commit("mm2", orders(), {"offset": 500})
    second = world.request_ends()
    world.ends(400, number=first)
    assert (world.mirrored().lag, world.mirrored().ahead) == (389, 0)
    world.ends(600, number=second)
    assert (world.mirrored().lag, world.mirrored().ahead) == (99, 0)


def test_an_answer_that_comes_late_does_not_replace_a_later_one():
    world = replicating(10)
    first = world.request_ends()
    second = world.request_ends()
    world.ends(600, number=second)
    world.ends(400, number=first)
    assert (world.mirrored().log_end, world.mirrored().lag) == (600, 589)


def test_an_answer_to_no_known_question_is_not_believed():
    world = replicating(10)
    world.ends(600, number=77)
    assert world.mirrored().lag is None


def test_askings_that_are_never_answered_do_not_pile_up():
    world = replicating(10)
    first = world.request_ends()
    for _ in range(50):
        last = world.request_ends()
    world.ends(600, number=first)
    assert world.mirrored().lag is None
    world.ends(600, number=last)
    assert world.mirrored().lag == 589


@pytest.mark.parametrize(
    ("askings", "believed"), [(OPEN_REQUESTS_MAX, True), (OPEN_REQUESTS_MAX + 1, False)]
)
def test_so_many_askings_may_be_under_way_and_no_more(askings, believed):
    world = replicating(10)
    first = world.request_ends()
    for _ in range(askings - 1):
        world.request_ends()
    world.ends(600, number=first)
    assert world.mirrored().lag == (589 if believed else None)


def test_a_position_that_was_not_shown_when_the_ends_were_requested_has_no_lag_yet():
    """Its tail was away: what the book still held was as old as the outage."""
    world = replicating(10)
    world.now += 300
    request = world.request_ends()
    world.commit("mm2", orders(), {"offset": 5000})
    world.tail(topic=SYNCS)
    world.ends(5001, number=request)
    assert world.mirrored().lag is None
    world.ends(5001)
    assert world.mirrored().lag == 0


def committing(offset: int = 100) -> World:
    """It was seen to commit, so what syncs say from now on is in its order."""
    world = replicating(offset - 1)
    commits(world, offset)
    return world


def commits(world: World, offset: int, connector: str = "mm2", partition: int = 0) -> None:
    world.snapshot()
    world.now += 1
    world.commit(connector, orders(partition), {"offset": offset})
    world.snapshot()
    world.now += 4


def test_a_sync_after_a_commit_is_better_progress_than_it():
    world = committing(100)
    world.synced(150)
    view = world.mirrored()
    assert (view.committed, view.synced, view.replicated) == (100, 150, 150)


def test_of_what_both_topics_held_when_we_came_the_commit_counts():
    world = replicating(100)
    world.synced(150, at=NOW + 500)
    assert (world.mirrored().synced, world.mirrored().replicated) == (150, 100)
    world.now += 5
    world.synced(160)
    assert world.mirrored().replicated == 100  # no commit followed one that we saw
    commits(world, 155)
    world.synced(170)
    assert world.mirrored().replicated == 170


def test_after_a_rewind_the_old_syncs_are_ignored_and_the_new_ones_used():
    world = committing(100)
    world.synced(150, at=NOW + 600)
    assert world.mirrored().replicated == 150
    commits(world, 9)
    assert (world.mirrored().synced, world.mirrored().replicated) == (150, 9)
    world.synced(12)
    assert world.mirrored().replicated == 9
    commits(world, 14)
    world.synced(20)
    assert world.mirrored().replicated == 20


def test_a_sync_of_before_a_rewind_that_is_read_after_it_does_not_count():
    world = committing(100)
    world.synced(110)
    assert world.mirrored().replicated == 110
    commits(world, 9)
    world.synced(150, at=NOW + 600)
    assert world.mirrored().replicated == 9
    commits(world, 12)
    assert world.mirrored().replicated == 12


class Copying:
    """A MirrorMaker that copies without end; its worker flushes only when it is told to."""

    def __init__(self, flush_s: float = 60.0, flushes: int = 0) -> None:
        self.world = committing(0)
        self.copied = 0
        for _ in range(flushes):
            self.copy(flush_s)
            self.flush()

    def copy(self, for_s: float, *, every_s: float = 30.0) -> list[float | None]:
        """Return since when its syncs are told to lack a commit, at each of them."""
        reports, until = [], self.world.now + for_s
        while self.world.now < until:
            self.copied += 1
            self.world.listed(mirror())
            self.world.synced(self.copied)
            reports.append(self.world.mirrored().uncommitted_since)
            for _ in range(round(every_s / 10)):
                self.world.now += 10
                self.world.tail()
                self.world.tail(topic=SYNCS)
        return reports

    def flush(self) -> None:
        commits(self.world, self.copied)


def test_syncs_that_go_on_without_a_commit_stop_counting_and_are_reported():
    mm2 = Copying(flushes=5)
    committed, hung_at = mm2.copied, mm2.world.now
    reports = []
    for _ in range(9):
        reports += mm2.copy(30.0)
        assert mm2.world.mirrored().replicated == (mm2.copied if len(reports) < 5 else committed)
    assert reports == [None] * 7 + [hung_at] * 2
    mm2.flush()
    assert (mm2.world.mirrored().replicated, mm2.world.mirrored().uncommitted_since) == (
        9 + committed,
        None,
    )


def test_another_configuration_of_a_mirror_vouches_for_none_of_its_syncs():
    mm2 = Copying(flushes=5)
    committed, hung_at = mm2.copied, mm2.world.now
    mm2.copy(270.0)
    mm2.world.listed(mirror(refresh_s=30.0))
    view = mm2.world.mirrored()
    assert (view.replicated, view.uncommitted_since) == (committed, hung_at)


@pytest.mark.parametrize("flush_s", [60.0, 600.0, 3600.0])
def test_a_worker_that_flushes_rarely_is_reported_by_its_own_interval_only(flush_s):
    mm2 = Copying()
    for _ in range(6):
        assert not any(mm2.copy(flush_s))
        mm2.flush()
    hung_at = mm2.world.now
    assert not any(mm2.copy(2 * flush_s))  # one flush failed
    assert mm2.copy(2 * flush_s)[-1] == hung_at


def test_until_its_interval_is_known_an_hour_is_allowed_for():
    mm2 = Copying()
    assert not any(mm2.copy(3 * 3600.0))
    assert any(mm2.copy(120.0))


def test_syncs_that_come_rarely_without_a_commit_are_reported_too():
    mm2 = Copying(flushes=5)
    hung_at = mm2.world.now
    # The second may be of a task that died after the first.
    assert mm2.copy(900.0, every_s=400.0) == [None, None, hung_at + 400]


def test_syncs_that_begin_again_after_a_pause_may_well_be_those_of_a_task_that_hung():
    world = committing(100)
    world.synced(110)
    assert world.mirrored().replicated == 110
    world.now += 1800
    world.tail()
    world.synced(120)
    view = world.mirrored()
    assert (view.replicated, view.uncommitted_since) == (100, None)


def test_a_sync_is_believed_for_two_flushes_though_nothing_else_comes():
    world = committing(100)
    world.synced(150)
    assert world.mirrored().replicated == 150
    world.now += 119
    world.tail()
    world.tail(topic=SYNCS)
    assert world.mirrored().replicated == 150
    world.now += 1
    assert (world.mirrored().replicated, world.mirrored().uncommitted_since) == (100, None)


def test_no_sync_counts_beyond_the_commit_of_a_task_that_failed():
    world = committing(100)
    world.synced(150)
    assert world.mirrored().replicated == 150
    world.listed(replace(mirror(), tasks=(Task(0, "failed"),)))
    assert world.mirrored().replicated == 100
    world.listed(mirror())
    world.synced(160)
    assert world.mirrored().replicated == 100
    commits(world, 155)
    world.synced(170)
    assert world.mirrored().replicated == 170


def test_a_tombstoned_partition_has_no_position_whatever_its_syncs_say():
    world = replicating(100)
    world.now += 5
    world.synced(150)
    world.commit("mm2", orders(), None)
    assert world.mirrored() is None


def test_a_read_committed_flow_ends_at_the_last_stable_offset():
    world = mirrors(mirror(read_committed=True), mirror("plain", syncs_topic=None))
    bounds = {ORDERS: LogBounds(start=0, end=200, stable_end=150)}
    for name in ("mm2", "plain"):
        world.commit(name, orders(), {"offset": 99})
    world.ends(bounds)
    assert (world.mirrored("mm2").log_end, world.mirrored("mm2").lag) == (150, 50)
    assert (world.mirrored("plain").log_end, world.mirrored("plain").lag) == (200, 100)


def test_a_flow_of_unknown_isolation_has_lag_where_both_ends_are_the_same():
    world = mirrors(mirror(read_committed=None))
    world.commit("mm2", orders(), {"offset": 99})
    world.ends({ORDERS: LogBounds(start=0, end=200, stable_end=150)})
    assert (world.mirrored("mm2").log_end, world.mirrored("mm2").lag) == (None, None)
    world.ends({ORDERS: LogBounds(start=0, end=200, stable_end=200)})
    assert (world.mirrored("mm2").log_end, world.mirrored("mm2").lag) == (200, 100)


def test_a_log_start_above_zero_is_shown_and_does_not_change_the_lag():
    world = replicating(10)
    world.ends({ORDERS: LogBounds(start=50, end=60, stable_end=60)})
    assert (world.mirrored().log_start, world.mirrored().lag) == (50, 49)


def test_an_upstream_topic_that_vanishes_takes_its_lag_with_it():
    world = replicating(10)
    world.ends(100)
    world.ends({})
    view = world.mirrored()
    assert (view.lag, view.log_end, view.replicated) == (None, None, 10)


def test_an_entry_under_another_alias_is_dead_and_no_position():
    world = mirrors()
    world.commit("mm2", orders(cluster="north"), {"offset": 100})
    assert world.mirrored() is None
    assert len(world.partitions()) == 1


def test_the_constant_zeros_of_the_other_mm2_connectors_are_no_positions():
    world = mirrors()
    world.commit("mm2", {"group": "g", "partition": 0, "topic": "west.orders"}, {"offset": 0})
    world.commit("mm2", {"sourceClusterAlias": "west", "targetClusterAlias": "east"}, {"offset": 0})
    assert world.snapshot().mirror_partitions == ()


def test_a_missing_syncs_topic_leaves_the_committed_offset():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.commit("mm2", orders(), {"offset": 100})
    assert world.mirrored() is None
    world.tail_failed("not_found", SYNCS)
    assert world.mirrored().replicated == 100


def test_a_syncs_topic_that_is_created_later_is_used_from_then_on():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.commit("mm2", orders(), {"offset": 100})
    world.tail_failed("not_found", SYNCS)
    world.now += 5
    world.tail(topic=SYNCS, whole=True)
    commits(world, 101)
    world.synced(150)
    assert world.mirrored().replicated == 150
    assert len(world.snapshot().syncs) == 1
    world.now += STALE_S[TAIL] + 1
    world.tail()
    assert world.mirrored() is None  # it is there, and not read: that is another matter


def test_a_syncs_topic_that_we_may_not_read_hides_the_flow():
    world = World()
    world.listed(mirror())
    world.find_topic()
    world.commit("mm2", orders(), {"offset": 100})
    world.tail_failed("denied", SYNCS)
    assert world.mirrored() is None


def test_a_flow_without_syncs_needs_none():
    world = World()
    world.listed(mirror(syncs_topic=None))
    world.find_topic()
    world.commit("mm2", orders(), {"offset": 100})
    assert world.mirrored().replicated == 100


def test_two_flows_from_one_upstream_have_each_their_own_position_and_the_same_end():
    world = mirrors(mirror("a", target="x"), mirror("b", target="y"))
    world.commit("a", orders(), {"offset": 10})
    world.commit("b", orders(), {"offset": 70})
    world.ends(100)
    assert [world.mirrored(name).lag for name in ("a", "b")] == [89, 29]


def test_where_two_flows_share_a_syncs_topic_one_flows_progress_does_not_hide_the_others_stall():
    world = mirrors(mirror("stalled"), mirror("running"))
    world.commit("stalled", orders(), {"offset": 10})
    world.commit("running", orders(), {"offset": 70})
    world.now += 5
    world.synced(95)  # whose it is, it does not say
    world.ends(100)
    assert [world.mirrored(name).replicated for name in ("stalled", "running")] == [10, 70]
    assert [world.mirrored(name).lag for name in ("stalled", "running")] == [89, 29]


def test_two_flows_that_share_a_syncs_topic_but_no_partition_use_their_syncs():
    world = mirrors(mirror("a"), mirror("b"))
    world.commit("a", orders(0), {"offset": 10})
    world.commit("b", orders(1), {"offset": 20})
    commits(world, 11, "a", 0)
    commits(world, 21, "b", 1)
    world.synced(15, partition=0)
    world.synced(25, partition=1)
    assert world.mirrored("a", 0).replicated == 15
    assert world.mirrored("b", 1).replicated == 25


def test_flows_of_two_connect_clusters_are_kept_apart():
    world = World(sites=("lab", "prod"))
    other = KafkaTopic("east", "prod-offsets")
    for cluster, topic in (("lab", None), ("prod", other)):
        world.see(ConnectorsListed(cluster, (mirror(syncs_topic=None),)))
        world.find_topic(*(() if topic is None else (topic,)), cluster=cluster)
    world.commit("mm2", orders(), {"offset": 10})
    world.commit("mm2", orders(), {"offset": 70}, topic=other)
    world.ends(100)
    lags = {
        partition.connect_cluster: partition.lag for partition in world.snapshot().mirror_partitions
    }
    assert lags == {"lab": 89, "prod": 29}


def test_the_newest_sync_shows_both_sides_and_its_time():
    world = mirrors()
    world.synced(10, downstream=12, at=NOW)
    world.synced(20, downstream=25, at=NOW + 1)
    (view,) = world.snapshot().syncs
    assert (view.upstream_offset, view.downstream_offset, view.at) == (20, 25, NOW + 1)
    assert (view.source, view.target, view.topic, view.partition) == ("west", "east", "orders", 0)


def test_flows_under_one_pair_of_aliases_show_a_sync_once():
    world = mirrors(mirror("a"), mirror("b"))
    world.synced(10)
    assert len(world.snapshot().syncs) == 1


def test_an_unknown_upstream_shows_the_position_and_no_lag():
    world = mirrors(mirror(source_addresses=frozenset({"elsewhere:9092"}), syncs_topic=None))
    world.commit("mm2", orders(), {"offset": 10})
    world.ends(100)
    assert (world.mirrored().replicated, world.mirrored().lag) == (10, None)


def test_a_deleted_flow_is_gone_although_its_positions_stay_in_the_topic():
    world = replicating(10)
    world.ends(100)
    world.listed()
    snapshot = world.snapshot()
    assert (snapshot.mirror_partitions, snapshot.syncs, snapshot.topology.flows) == ((), (), ())


def test_a_variant_key_moves_no_replicated_position():
    world = replicating(10)
    raw_key = b'["mm2",{"topic":"orders","partition":0,"cluster":"west"}]'
    world.tail(record("mm2", orders(), {"offset": 999}, log_offset=50, raw_key=raw_key))
    assert world.mirrored().replicated == 10


# --- what stays from one answer to the next ------------------------------------------------------


def two(*, end: int = 6) -> World:
    """Both partitions of orders replicated up to 5, seen, and asked for with these positions."""
    world = mirrors()
    for partition in (0, 1):
        world.commit("mm2", orders(partition), {"offset": 5})
    answer_ends(world, end, end)
    world.snapshot()
    return world


def answer_ends(world: World, *ends: int, number: int | None = None) -> None:
    """The answer to a question of now, or to the one of this number."""
    bounds = {
        TopicPartition("orders", offset): LogBounds(0, end, end) for offset, end in enumerate(ends)
    }
    world.ends(bounds, number=number)


def log_ends(world: World) -> list[int]:
    return [view.log_end for view in world.snapshot().mirror_partitions]


def test_of_two_answers_between_two_polls_both_are_observed():
    world = two()
    answer_ends(world, 7, 6)
    answer_ends(world, 7, 9)
    assert log_ends(world) == [7, 9]


def test_one_that_moves_is_observed_beside_one_that_stands():
    world = two()
    before = world.mirrored(partition=0)
    answer_ends(world, 6, 9)
    assert log_ends(world) == [6, 9]
    assert world.mirrored(partition=0) is before
    answer_ends(world, 8, 9)
    assert log_ends(world) == [8, 9]


def test_while_both_stand_the_same_views_are_reported():
    world = two()
    before = world.snapshot().mirror_partitions
    answer_ends(world, 6, 6)
    assert world.snapshot().mirror_partitions is before


def test_single_reads_of_two_partitions_of_one_flow_are_both_observed():
    world = two(end=9)
    reads = tuple(
        ProbeResult(
            ("lab", "mm2", MirrorPartition("west", "orders", number)), 6, FirstRecord(7, world.now)
        )
        for number in (0, 1)
    )
    world.see(ProbeRoundRead(kafka="west", at=world.now, answers=reads))
    assert [view.caught_up for view in world.snapshot().mirror_partitions] == [False, False]


def test_an_answer_to_the_same_question_pairs_the_position_that_it_was_queried_with():
    world = two()
    request = world.request_ends()
    world.commit("mm2", orders(0), {"offset": 20})
    answer_ends(world, 6, 6, number=request)
    assert (world.mirrored().lag_position, world.mirrored().ahead) == (5, 0)
    answer_ends(world, 6, 6)
    assert (world.mirrored().lag_position, world.mirrored().ahead) == (20, 15)


def test_so_do_the_answers_to_two_questions_that_were_under_way_at_once():
    world = two()
    requests = []
    for position in (20, 30):
        requests.append(world.request_ends())
        world.commit("mm2", orders(0), {"offset": position})
    for number, position in zip(requests, (5, 20), strict=True):
        answer_ends(world, 6, 6, number=number)
        assert world.mirrored().lag_position == position


def test_a_record_that_has_waited_for_long_is_inspected_again_though_nothing_moves():
    """Compaction may have taken it meanwhile."""
    world = two(end=7)
    world.probed(6, FirstRecord(6, at=world.now))
    assert world.mirrored().probe_from is None
    for _ in range(round(RECHECK_S / 10) + 1):
        world.now += 10
        world.tail()
        world.tail(topic=SYNCS)
        answer_ends(world, 7, 7)
        world.snapshot()
    assert world.mirrored().probe_from == 6


def test_how_many_partitions_a_topic_has_is_not_known_for_longer_than_its_answer_counts():
    world = replicating(100)
    world.assigned(0)
    world.ends({ORDERS: LogBounds(0, 200, 200)}, partitions={"orders": 2})
    results = {view.partition: view.unassigned_since for view in world.snapshot().mirror_partitions}
    assert results == {0: None, 1: world.now}
    first_at = world.now
    world.now += STALE_S[LOG_ENDS] + 1
    world.tail()
    world.tail(topic=SYNCS)
    world.listed(mirror())
    assert [view.partition for view in world.snapshot().mirror_partitions] == [0]
    world.ends({ORDERS: LogBounds(0, 200, 200)}, partitions={"orders": 2})
    results = {view.partition: view.unassigned_since for view in world.snapshot().mirror_partitions}
    assert results == {0: None, 1: first_at}


def test_another_configuration_of_a_mirror_is_no_task_for_a_partition():
    world = replicating(100)
    world.assigned(0)
    world.ends({ORDERS: LogBounds(0, 200, 200)}, partitions={"orders": 2})
    world.snapshot()
    first_at = world.now
    world.now += 5
    world.listed(mirror(refresh_s=30.0))
    world.assigned(0)
    results = {view.partition: view.unassigned_since for view in world.snapshot().mirror_partitions}
    assert results == {0: None, 1: first_at}


def test_syncs_whose_topics_take_too_many_bytes_are_counted(monkeypatch):
    monkeypatch.setattr(offset_syncs, "SYNCS_MAX", 100)
    world = mirrors()
    for letter in "abcdef":
        world.synced(1, topic=letter * 300_000)
    world.synced(5)
    snapshot = world.snapshot()
    assert [sync.upstream_offset for sync in snapshot.syncs] == [1, 1, 1, 5]
    assert dict(snapshot.dropped)["syncs"] == 3


def test_more_syncs_than_can_be_kept_are_counted_and_those_that_are_kept_go_on(monkeypatch):
    monkeypatch.setattr(offset_syncs, "SYNCS_MAX", 1)
    world = mirrors()
    for upstream in (1, 2):
        for partition in (0, 1):
            world.synced(upstream, partition=partition)
    snapshot = world.snapshot()
    assert [(sync.partition, sync.upstream_offset) for sync in snapshot.syncs] == [(0, 2)]
    assert dict(snapshot.dropped)["syncs"] == 2
