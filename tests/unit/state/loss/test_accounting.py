"""Losses and topics made anew, as the book tells of them; and over a restart."""

from __future__ import annotations

import json

import pytest

from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.loss.accounting import (
    LOSSES_MAX,
    NOTHING_LOST,
    SAVE_INTERVAL_MAX_S,
    UNUSED_TOPIC_TTL_S,
    FlowInspection,
    LossAccounting,
)
from offsetwatch.state.mirror.offset_syncs import GAPS_MAX
from offsetwatch.state.snapshot import Loss, TopicRecreation
from tests.changed import replace
from tests.unit.state.worlds import SYNCS, World, mirror, mirrors, orders

FLUSH_S = 60.0
EVERY_S = 10.0


class Flow:
    """MM2 that copies orders-0 and orders-1, looked at every ten seconds."""

    def __init__(self, world: World | None = None, **settings) -> None:
        self.world = mirrors(mirror(**settings)) if world is None else world
        self.settings = settings
        self.state = "running"
        self.id: str | None = "a"
        self.logs = {0: (0, 1000), 1: (0, 1000)}

    def commit(self, offset: int | None, partition: int = 0) -> None:
        value = None if offset is None else {"offset": offset}
        self.world.commit("mm2", orders(partition), value)

    def poll(self, *, start: int | None = None, end: int | None = None, sure: bool = True) -> None:
        """A round; `start` and `end` of orders-0 are as before unless they are given."""
        before = self.logs[0]
        self.logs[0] = (before[0] if start is None else start, before[1] if end is None else end)
        world = self.world
        world.now += EVERY_S
        world.tail()
        world.tail(topic=SYNCS)
        connector = mirror(**self.settings)
        if self.state == "stopped":
            connector = replace(connector, state="stopped", tasks=())
        world.listed(connector)
        bounds = {
            TopicPartition("orders", offset): LogBounds(first, last, last)
            for offset, (first, last) in self.logs.items()
        }
        world.ends(bounds, ids={"orders": self.id} if sure else {})

    def wait(self, seconds: float = FLUSH_S) -> None:
        for _ in range(round(seconds / EVERY_S)):
            self.poll()

    def restart(self, *, away_s: float = 0.0) -> None:
        """Another process, which begins with what this one remembered."""
        remembered = self.world.book.remembered()
        assert remembered is not None
        now = self.world.now + away_s
        old, self.world = self.world, mirrors()
        self.world.now = now
        self.world.book.recall(remembered)
        for view in old.snapshot().mirror_partitions:
            if view.committed is not None:
                self.commit(view.committed, view.partition)

    def lost(self, partition: int = 0) -> dict[str, int]:
        """The causes of which there is anything."""
        view = self.world.mirrored(partition=partition)
        assert view is not None
        return {cause: count for cause, count in view.lost if count}

    def ranges(self) -> list[tuple[str, int, int, int]]:
        return [
            (loss.cause, loss.partition, loss.first, loss.last)
            for loss in self.world.snapshot().losses
        ]

    def recreations(self) -> int:
        return sum(recreation.count for recreation in self.world.snapshot().recreations)


def copying(*positions: int, **settings) -> Flow:
    flow = Flow(**settings)
    for partition, offset in enumerate(positions):
        flow.commit(offset, partition)
    flow.poll()
    return flow


def test_every_cause_is_there_with_nothing_lost_from_the_first_view_on():
    flow = Flow()
    flow.commit(99)
    assert flow.world.mirrored().lost == NOTHING_LOST
    flow.poll()
    assert flow.world.mirrored().lost == NOTHING_LOST
    assert {cause for cause, _ in NOTHING_LOST} == {"retention", "recreated", "altered"}


def test_a_loss_is_reported_with_its_range_and_its_flow():
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    (loss,) = flow.world.snapshot().losses
    assert loss == Loss(
        "lab", "mm2", "west", "east", "orders", 0, "retention", 100, 149, flow.world.now
    )
    assert loss.records == 50
    assert flow.lost() == {"retention": 50}


def test_headroom_is_what_lies_between_the_log_start_and_the_next_record():
    flow = copying(99)
    flow.poll(start=40)
    assert flow.world.mirrored().headroom == 60
    flow.poll(start=150)
    assert flow.world.mirrored().headroom == -50


def test_without_live_log_ends_there_is_no_headroom_and_the_counts_stay():
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    flow.world.now += 100
    flow.world.tail()
    flow.world.tail(topic=SYNCS)
    view = flow.world.mirrored()
    assert (view.headroom, view.headroom_s) == (None, None)
    assert dict(view.lost)["retention"] == 50


def test_a_partition_that_was_never_replicated_loses_nothing():
    flow = copying(99)
    flow.world.assigned(0, 1)
    flow.logs[1] = (500, 1000)
    flow.wait(600)
    assert flow.lost(1) == {}
    assert flow.world.mirrored(partition=1).headroom is None


def test_a_range_that_grows_stays_one():
    flow = copying(99)
    for start in (150, 180, 200):
        flow.poll(start=start)
        flow.wait()
    assert flow.ranges() == [("retention", 0, 100, 199)]
    assert flow.world.snapshot().losses[0].at == flow.world.now  # of its newest part
    assert flow.lost() == {"retention": 100}


def test_a_topic_of_another_id_is_counted_once_and_not_for_each_partition():
    flow = copying(999, 999)
    flow.id = "b"
    flow.logs[1] = (0, 0)
    flow.poll(end=0)
    flow.wait(600)
    assert flow.world.snapshot().recreations == (
        TopicRecreation(
            "lab", "mm2", "west", "east", "orders", 1, flow.world.now - 600, "a", "b", (0, 1)
        ),
    )


def test_a_topic_that_was_never_recreated_is_not_reported():
    assert copying(999).world.snapshot().recreations == ()


def test_a_topic_that_is_gone_is_not_another_one():
    flow = copying(899)
    del flow.logs[0], flow.logs[1]
    flow.logs[0] = (0, 1000)
    for _ in range(10):
        flow.poll(sure=False)
    flow.poll()
    assert (flow.recreations(), flow.lost()) == (0, {})


def test_log_ends_that_may_be_of_another_topic_say_nothing():
    flow = copying(899)
    flow.poll(end=10, sure=False)
    flow.poll(end=1000)
    flow.wait(600)
    assert (flow.recreations(), flow.lost()) == (0, {})


def test_a_partition_that_is_away_hears_of_the_new_topic_when_it_comes_back():
    flow = copying(899, 899)
    flow.id = "b"
    away = flow.logs.pop(1)
    flow.poll(end=0)
    flow.wait()
    flow.logs[1] = away
    flow.wait()
    flow.wait()
    assert flow.lost(0) == {"recreated": 100}
    assert flow.lost(1) == {"recreated": 100}
    assert flow.recreations() == 1


def test_a_broker_that_begins_to_give_ids_has_made_no_topic_again():
    flow = Flow()
    flow.id = None
    flow.commit(899)
    flow.poll()
    flow.id = "b"
    flow.wait(600)
    assert (flow.recreations(), flow.lost()) == (0, {})


def test_without_ids_a_log_end_that_fell_is_a_topic_recreated_counted_once():
    flow = Flow()
    flow.id = None
    flow.commit(899)
    flow.commit(899, 1)
    flow.poll()
    flow.poll(end=10)
    flow.logs[1] = (0, 10)  # the round after
    flow.wait()
    flow.wait()
    assert flow.recreations() == 1
    assert flow.lost(0) == flow.lost(1) == {"recreated": 100}
    flow.commit(5)
    flow.commit(5, 1)
    flow.wait()
    flow.poll(end=2)
    assert flow.recreations() == 2


def test_a_flow_of_committed_records_loses_up_to_its_last_stable_offset():
    flow = Flow(read_committed=True)
    flow.commit(899)
    flow.poll()
    flow.world.now += EVERY_S
    flow.world.tail()
    flow.world.tail(topic=SYNCS)
    flow.world.ends({TopicPartition("orders", 0): LogBounds(0, 1200, 950)}, ids={"orders": "a"})
    flow.id = "b"
    world = flow.world
    for _ in range(8):
        world.now += EVERY_S
        world.tail()
        world.tail(topic=SYNCS)
        world.ends({TopicPartition("orders", 0): LogBounds(0, 0, 0)}, ids={"orders": "b"})
    assert flow.lost() == {"recreated": 50}


def test_syncs_report_what_a_running_connector_jumped_over():
    flow = copying(99)
    flow.world.synced(99, downstream=99)
    flow.poll()
    flow.world.synced(150, downstream=110)  # copied up to 109, then began at the log start
    flow.commit(320)
    flow.world.synced(320, downstream=280)
    flow.poll(start=150)
    assert flow.ranges() == [("retention", 0, 110, 149)]


def test_what_was_passed_over_before_the_last_poll_takes_no_room_from_what_was_since():
    """Of a look's gaps only so many are kept, the largest."""
    flow = copying(99)
    flow.world.synced(99, downstream=99)
    flow.poll()
    upstream, downstream = 99, 99
    for _ in range(GAPS_MAX):  # no record in them was lost: the log start lies before
        upstream, downstream = upstream + 51, downstream + 1
        flow.world.synced(upstream, downstream=downstream)
    flow.commit(upstream)
    flow.poll()
    flow.world.synced(upstream + 21, downstream=downstream + 1)
    flow.commit(upstream + 40)
    flow.poll(start=upstream + 21)
    assert flow.ranges() == [("retention", 0, upstream + 1, upstream + 20)]


def test_what_another_cluster_answers_says_nothing_of_a_flow():
    flow = copying(99)
    for _ in range(12):
        flow.world.now += EVERY_S
        flow.world.tail()
        flow.world.tail(topic=SYNCS)
        flow.world.ends({TopicPartition("orders", 0): LogBounds(150, 1000, 1000)}, kafka="east")
    flow.poll()
    assert flow.lost() == {}


def test_while_nothing_new_is_lost_the_same_is_reported():
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    before = flow.world.snapshot().losses
    flow.poll()
    assert flow.world.snapshot().losses is before


def test_syncs_that_may_be_another_flows_report_nothing():
    world = mirrors(mirror(), mirror("twin"))
    flow = Flow(world)
    for name in ("mm2", "twin"):
        world.commit(name, orders(), {"offset": 99})
    world.synced(99, downstream=99)
    for start in (0, 150):
        world.now += EVERY_S
        world.tail()
        world.tail(topic=SYNCS)
        world.ends({TopicPartition("orders", 0): LogBounds(start, 1000, 1000)})
        world.commit("mm2", orders(), {"offset": 320})
        world.synced(150, downstream=110)
        world.synced(320, downstream=280)
    world.ends({TopicPartition("orders", 0): LogBounds(150, 1000, 1000)})
    assert flow.lost() == {}


def test_a_patch_while_stopped_is_a_loss_when_the_connector_goes_on():
    flow = copying(99)
    flow.state = "stopped"
    flow.wait()
    flow.commit(499)
    flow.poll()
    flow.poll()
    assert flow.lost() == {}
    flow.state = "running"
    flow.poll()
    flow.commit(600)
    flow.poll()
    assert flow.ranges() == [("altered", 0, 100, 499)]


def test_what_is_copied_before_the_list_says_that_it_runs_was_not_passed_over():
    flow = copying(99)
    flow.world.synced(99, downstream=99)
    flow.state = "stopped"
    flow.wait()
    flow.id = "b"
    flow.poll(end=2000)
    flow.wait()
    flow.world.synced(100, downstream=100)  # it was resumed, and the list is a few seconds old
    flow.world.synced(600, downstream=600)
    flow.poll()
    flow.state = "running"
    flow.commit(600)
    flow.wait()
    assert ("recreated", 0, 0, 99) in flow.ranges()


def test_the_last_flush_of_a_connector_that_is_being_stopped_is_no_patch():
    flow = copying(99)
    flow.state = "stopped"
    flow.poll()
    flow.commit(499)
    flow.poll()
    flow.state = "running"
    flow.poll()
    flow.commit(600)
    flow.wait(600)
    assert flow.lost() == {}


def test_a_stopped_connector_whose_list_is_old_is_not_known_to_be_stopped():
    flow = copying(99)
    flow.state = "stopped"
    flow.wait()
    world = flow.world
    for position in (99, 499, 600):
        world.now += 60
        world.commit("mm2", orders(), {"offset": position})
        world.tail()
        world.tail(topic=SYNCS)
        world.ends(1000, ids={"orders": "a"})
    assert flow.lost() == {}


# --- over a restart ------------------------------------------------------------------------------


def test_a_log_start_that_passed_while_polls_stopped_is_found_at_the_next_start():
    flow = copying(99)
    flow.restart(away_s=3600)
    flow.poll(start=150)
    flow.wait()
    flow.restart()
    flow.wait(600)
    assert flow.ranges() == [("retention", 0, 100, 149)]
    assert flow.lost() == {"retention": 50}


def test_a_topic_recreated_while_polls_stopped_is_found_at_the_next_start_once():
    flow = copying(899)
    flow.restart(away_s=3600)
    flow.id = "b"
    flow.poll(end=5000)
    flow.restart()
    flow.wait()
    flow.restart()
    flow.commit(4999)
    flow.wait()
    flow.restart()
    flow.wait(600)
    assert flow.recreations() == 1
    assert flow.ranges() == [("recreated", 0, 900, 999), ("recreated", 0, 0, 899)]
    assert flow.lost() == {"recreated": 1000}


@pytest.mark.parametrize("again", [(), ("c",)], ids=["once", "once more after the restart"])
def test_a_partition_that_had_not_heard_of_the_new_topic_still_has_not(again):
    flow = copying(899, 899)
    flow.id = "b"
    away = flow.logs.pop(1)
    flow.poll(end=0)
    flow.restart()
    for topic_id in again:
        flow.id = topic_id
        flow.poll()
    flow.logs[1] = away
    flow.wait()
    flow.wait()
    assert flow.lost(1) == {"recreated": 100}
    assert flow.recreations() == 1 + len(again)


def test_what_is_recalled_is_reported_though_nothing_was_before():
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    before = flow.world.snapshot().losses
    remembered = flow.world.book.remembered()
    assert remembered is not None
    other = copying(99)
    assert other.world.snapshot().losses == ()
    other.world.book.recall(remembered)
    other.poll()
    assert other.world.snapshot().losses == before


def test_a_loss_of_one_record_is_recalled():
    flow = copying(99)
    flow.poll(start=101)
    flow.wait()
    assert flow.ranges() == [("retention", 0, 100, 100)]
    flow.restart()
    flow.poll()
    assert flow.ranges() == [("retention", 0, 100, 100)]


def test_something_counted_is_urgent_until_it_is_remembered():
    flow = copying(99)
    book = flow.world.book
    assert book.urgent  # the topic's id
    assert book.remembered() is not None
    flow.poll()
    assert not book.urgent
    flow.poll(start=150)
    flow.wait()
    assert flow.world.book.urgent
    assert book.remembered() is not None
    assert not flow.world.book.urgent
    assert book.remembered() is None
    flow.poll()
    assert not flow.world.book.urgent


def test_what_looks_the_same_again_is_remembered_again_once_an_hour():
    flow = copying(99)
    book = flow.world.book
    assert book.remembered() is not None
    flow.poll()
    assert book.remembered() is None
    flow.poll(end=150)
    assert book.remembered() is not None
    flow.world.now += SAVE_INTERVAL_MAX_S
    flow.poll(end=150)
    assert book.remembered() is not None


def test_a_topic_recreated_is_urgent():
    flow = copying(999)
    assert flow.world.book.remembered() is not None
    flow.id = "b"
    flow.poll()
    assert flow.world.book.urgent


def good() -> dict:
    flow = copying(99, 99)
    flow.poll(start=150)
    flow.wait()
    flow.id = "b"
    flow.poll()
    remembered = flow.world.book.remembered()
    assert remembered is not None
    return json.loads(remembered)


def broken(*path: str | int, value: object) -> bytes:
    """A good document with one thing changed."""
    document = entry = good()
    for step in path[:-1]:
        entry = entry[step]
    entry[path[-1]] = value
    return json.dumps(document).encode()


ROW = ("flows", 0, "topics", "orders", "partitions", 0)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"since":[]}',
        json.dumps(good()).encode()[:-20],
        broken("version", value=2),
        broken("version", value="1"),
        broken("flows", value=None),
        broken("flows", 0, "flow", value=["lab", "mm2"]),
        broken(*ROW, 3, value="many"),
        broken(*ROW, 3, value=-5),
        broken(*ROW, 8, 2, value="bad luck"),
        broken(*ROW, value=[0]),
        broken("losses", 0, "cause", value="theft"),
        broken("losses", 0, "first", value=10**6),
        broken("surprise", value=1),
        broken("flows", 0, "surprise", value=1),
        broken("flows", 0, "topics", "orders", "surprise", value=1),
        b'{"flows":' + b"[" * 100_000,
        b'{"flows":[{"flow":["\xff"]}]}',
    ],
)
def test_what_is_no_memory_is_refused_and_changes_nothing(document):
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    with pytest.raises(ValueError):  # noqa: PT011 - the promise of Book.recall
        flow.world.book.recall(document)
    assert flow.ranges() == [("retention", 0, 100, 149)]
    assert flow.lost() == {"retention": 50}


def test_a_topic_that_no_flow_copies_any_more_is_forgotten_after_a_week():
    flow = copying(99)
    flow.world.assigned(0)
    flow.world.commit("mm2", orders(topic="payments"), {"offset": 9})
    flow.world.see_assigned("payments")
    flow.world.now += UNUSED_TOPIC_TTL_S + 100
    flow.world.tail()
    flow.world.tail(topic=SYNCS)
    flow.world.ends({TopicPartition("payments", 0): LogBounds(0, 10, 10)}, ids={"payments": "p"})
    remembered = flow.world.book.remembered()
    assert remembered is not None
    (topics,) = [mirror_flow["topics"] for mirror_flow in json.loads(remembered)["flows"]]
    assert list(topics) == ["payments"]


def test_no_more_ranges_are_kept_than_the_newest_so_many():
    accounting = LossAccounting()
    for number in range(LOSSES_MAX + 5):
        accounting.add(
            Loss("lab", "mm2", "w", "e", "t", 0, "retention", 10 * number, 10 * number, 0)
        )
    assert len(accounting.losses) == LOSSES_MAX
    assert accounting.losses[0].first == 50


def test_losses_of_a_flow_that_is_gone_are_not_shown_and_come_back_with_it():
    flow = copying(99)
    flow.poll(start=150)
    flow.wait()
    flow.world.listed()
    assert flow.ranges() == []
    flow.poll()
    assert flow.ranges() == [("retention", 0, 100, 149)]


def test_two_flows_into_two_targets_are_distinguished():
    accounting = LossAccounting()
    flow = copying(99).world.snapshot().topology.flows[0]
    where = TopicPartition("orders", 0)
    for now, start in ((0.0, 0), (70.0, 150), (140.0, 150)):
        accounting.inspect(
            FlowInspection(
                now=now,
                flow=flow,
                known={where: 99},
                bounds={where: LogBounds(start, 1000, 1000)},
                ids=None,
                doing=None,
                came=(),
                syncs_of=lambda _where: None,
            )
        )
    assert dict(accounting.find_losses(flow, where)[0])["retention"] == 50
    other = mirrors(mirror(target="north")).snapshot().topology.flows[0]
    assert accounting.find_losses(other, where) == (NOTHING_LOST, None)
