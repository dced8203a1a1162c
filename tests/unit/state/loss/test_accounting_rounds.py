"""What becomes of records, one round after the other: what is new, what is urgent, what is kept."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import Task
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.loss.accounting import (
    GRACE_S,
    NOTHING_LOST,
    SAVE_INTERVAL_MAX_S,
    UNUSED_TOPIC_TTL_S,
    WINDOW_S,
    ConnectorActivity,
    FlowInspection,
    LossAccounting,
    classify_activity,
)
from offsetwatch.state.mirror.offset_syncs import SyncsSinceLastPoll
from offsetwatch.state.snapshot import Loss
from tests.changed import replace
from tests.unit.state.worlds import NOW, World, mirror

FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("west", "syncs"))
ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
DAY_S = 86_400.0
PATIENCE_S = 60.0


class FlowRounds:
    """Rounds of one flow, ten seconds apart unless it is said otherwise."""

    def __init__(self, flow: MirrorFlow = FLOW) -> None:
        self.fates = LossAccounting()
        self.flow = flow
        self.now = NOW

    def __call__(
        self,
        known: dict[TopicPartition, int | None],
        *ends: int,
        ids: dict[str, str | None] | None = None,
        bounds: dict[TopicPartition, LogBounds] | None = None,
        doing: str | None = None,
        news: SyncsSinceLastPoll | None = None,
        later_s: float = 10.0,
    ) -> frozenset[TopicPartition]:
        """`ends` are those of orders-0, orders-1 and so on."""
        self.now += later_s
        logs = {
            TopicPartition("orders", offset): LogBounds(0, end, end)
            for offset, end in enumerate(ends)
        }
        return self.fates.inspect(
            FlowInspection(
                now=self.now,
                flow=self.flow,
                known=known,
                bounds=logs if bounds is None else bounds,
                ids=ids,
                doing=doing,
                came=() if news is None or not news.came else set(known),
                syncs_of=lambda _where: news,
                patience_s=PATIENCE_S,
            )
        )

    def remembered(self) -> None:
        self.fates.changed = self.fates.urgent = False

    def lost(self, where: TopicPartition = ZERO) -> dict[str, int]:
        """The causes of which there is anything."""
        return {
            cause: count for cause, count in self.fates.find_losses(self.flow, where)[0] if count
        }

    def recreations(self) -> int:
        return sum(recreation.count for recreation in self.fates.recreations_of([self.flow]))


def at_rest() -> FlowRounds:
    """All of orders-0 is copied, which is remembered."""
    poll = FlowRounds()
    poll({ZERO: 99}, 100)
    poll.remembered()
    return poll


# --- what has to be remembered -------------------------------------------------------------------


def test_before_anything_is_inspected_there_is_nothing_to_remember():
    book = World().book
    assert (book.urgent, book.remembered()) == (False, None)


@pytest.mark.parametrize(
    ("later_s", "changed"),
    [
        (0.0, False),
        (0.5, False),
        (SAVE_INTERVAL_MAX_S - 1, False),
        (SAVE_INTERVAL_MAX_S, True),
        (-1.0, True),
    ],
)
def test_that_all_is_as_it_was_is_reported_once_an_hour_and_when_the_clock_goes_back(
    later_s, changed
):
    poll = FlowRounds()
    poll({ZERO: 99})  # and its log cannot be read
    poll.remembered()
    poll({ZERO: 99}, later_s=later_s)
    assert (poll.fates.changed, poll.fates.urgent) == (changed, False)


def test_another_id_has_to_be_remembered_though_no_log_was_read_with_it():
    poll = FlowRounds()
    poll({ZERO: 99}, 100, ids={"orders": "a"})
    poll.remembered()
    poll({ZERO: 99}, ids={"orders": "b"})
    assert (poll.fates.changed, poll.fates.urgent) == (True, True)


def test_where_the_rate_of_what_stands_still_is_measured_from_is_reported_once_a_window():
    poll = at_rest()
    poll({ZERO: 99}, 100, later_s=WINDOW_S / 2)  # another moment takes the place of the first
    assert not poll.fates.changed
    poll({ZERO: 99}, 100, later_s=WINDOW_S / 2 - 1)
    assert not poll.fates.changed
    poll({ZERO: 99}, 100, later_s=1.0)
    assert poll.fates.changed
    poll.remembered()
    poll({ZERO: 99}, 100, later_s=1.0)
    assert not poll.fates.changed


def test_where_the_rate_is_measured_from_is_not_reported_again_beside_something_else():
    poll = at_rest()
    poll({ZERO: 99}, 100, later_s=WINDOW_S / 2)
    poll({ZERO: 100}, 101)
    assert poll.fates.changed
    poll.remembered()
    poll({ZERO: 100}, 101, later_s=WINDOW_S / 2 - 1)
    assert not poll.fates.changed
    poll({ZERO: 100}, 101, later_s=WINDOW_S / 2 + 1)
    assert poll.fates.changed


def test_the_rate_of_what_moves_is_reported_at_once():
    poll = at_rest()
    poll({ZERO: 99}, 110, later_s=WINDOW_S / 2)  # nothing else is new but its end
    poll.remembered()
    poll({ZERO: 99}, 110, later_s=WINDOW_S / 2)
    assert poll.fates.changed


def test_a_log_end_that_fell_is_urgent():
    poll = at_rest()
    poll({ZERO: 99}, 10)
    assert poll.fates.urgent


# --- what is new ---------------------------------------------------------------------------------


def test_of_whom_something_else_is_reported_is_said_once():
    poll = FlowRounds()
    poll({ZERO: 99, ONE: 99}, 100, 100)
    assert poll.fates.pop_changed(FLOW) == set()
    begins = {ZERO: LogBounds(150, 200, 200), ONE: LogBounds(0, 100, 100)}
    for _ in range(8):
        poll({ZERO: 99, ONE: 99}, bounds=begins)
    assert poll.lost() == {"retention": 50}
    assert poll.fates.pop_changed(FLOW) == {ZERO}
    assert poll.fates.pop_changed(FLOW) == set()


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "all"])
def test_of_what_rests_only_what_came_is_inspected(committed):
    flow = replace(FLOW, read_committed=committed)
    poll, log = FlowRounds(flow), {ZERO: LogBounds(0, 120, 100)}
    copied = {ZERO: 99 if committed else 119}
    assert poll(copied, bounds=log) == {ZERO}
    assert poll(copied, bounds=log) == frozenset()
    assert poll(copied, bounds=log, news=SyncsSinceLastPoll(newest=119, came=True)) == {ZERO}


def test_what_came_is_needed_while_it_is_open_what_became_of_records():
    poll, syncs = FlowRounds(), SyncsSinceLastPoll(newest=50, came=True)
    poll({ZERO: 99}, 200)
    begins = {ZERO: LogBounds(150, 200, 200)}
    assert poll({ZERO: 180}, bounds=begins, news=syncs) == frozenset()
    assert poll({ZERO: 190}, bounds=begins, news=SyncsSinceLastPoll(newest=190, came=True)) == {
        ZERO
    }


def test_a_topic_whose_id_is_not_certain_waits_for_the_next_poll():
    poll = at_rest()
    assert poll({ZERO: 99}, 10, ids={"payments": "p"}) == frozenset()
    assert poll.recreations() == 0


# --- topics made anew ----------------------------------------------------------------------------


def test_a_topic_recreated_with_as_many_records_does_not_rest():
    poll = FlowRounds()
    poll({ZERO: 99}, 100, ids={"orders": "a"})
    poll({ZERO: 99}, 100, ids={"orders": "b"})
    for _ in range(7):
        poll({ZERO: 99}, 100, ids={"orders": "b"})
    poll({ZERO: 150}, 200, ids={"orders": "b"})
    assert (poll.recreations(), poll.lost()) == (1, {"recreated": 100})


def test_an_id_that_is_not_given_any_more_is_no_other_one():
    poll = FlowRounds()
    poll({ZERO: 99}, 100, ids={"orders": "a"})
    poll({ZERO: 99}, 100, ids={"orders": None})
    poll({ZERO: 99}, 100, ids={"orders": "a"})
    assert poll.recreations() == 0


def test_a_topic_is_recreated_once_though_its_partitions_fall_one_after_the_other():
    poll = FlowRounds()
    ends = [100, 100, 100]
    for number in range(3):
        poll({ZERO: 99, ONE: 99, TWO: 99}, *ends)
        ends[number] = 0
        poll({ZERO: 99, ONE: 99, TWO: 99}, *ends)
        assert poll.recreations() == 1


def test_a_topic_recreated_after_its_offset_was_reset_has_lost_nothing_of_itself():
    poll = FlowRounds()
    poll({ZERO: 99}, 100, ids={"orders": "id-1"})
    poll({ZERO: None}, 0, ids={"orders": "id-2"})
    poll({ZERO: 40}, 50, ids={"orders": "id-2"})
    poll({ZERO: 90}, 100, ids={"orders": "id-2"}, later_s=PATIENCE_S)
    assert poll.lost() == {}
    assert poll.recreations() == 1


def test_an_edit_of_another_partition_does_not_hide_that_a_topic_was_recreated():
    poll = FlowRounds()
    poll({ZERO: 99, ONE: 500}, 100, 100)
    poll({ZERO: 99, ONE: 500}, 10, 100)
    assert poll.recreations() == 1


def test_topics_recreated_are_reported_by_name():
    poll = FlowRounds()
    known = {TopicPartition(topic, 0): 9 for topic in ("b", "a")}
    for new in ("1", "2"):
        poll(known, ids={"a": new, "b": new})
    assert [recreation.topic for recreation in poll.fates.recreations_of([FLOW])] == ["a", "b"]


# --- what the connector does ---------------------------------------------------------------------


def edited(*states: str | None) -> dict[str, int]:
    """What is lost when a position beyond the end was waited with for a minute at a time, in these
    states of its connector, and goes on from there.
    """
    poll = FlowRounds()
    for state in states:
        poll({ZERO: 200}, 100, doing=state, later_s=PATIENCE_S)
    poll({ZERO: 250}, 300, doing=states[-1])
    return poll.lost()


def test_who_runs_and_meets_the_end_of_the_log_begins_at_its_start_and_loses_nothing():
    assert edited("running", "running") == {}
    assert edited(None, None) == {"altered": 101}


def test_who_has_only_begun_to_run_has_met_no_end_yet():
    assert edited(None, "running") == {"altered": 101}


def test_old_syncs_do_not_hide_a_patch_while_it_is_stopped():
    poll, old = FlowRounds(), SyncsSinceLastPoll(newest=99)
    for _ in range(4):
        poll({ZERO: 99}, 1000, doing="stopped", news=old)
    for _ in range(2):
        poll({ZERO: 499}, 1000, doing="stopped", news=old)
    for position in (499, 600):
        poll({ZERO: position}, 1000, doing="running", news=old)
    assert poll.lost() == {"altered": 400}


def test_a_reset_ends_what_an_edit_began():
    poll = FlowRounds()
    poll({ZERO: 200}, 100)
    poll({ZERO: None}, 100)
    poll({ZERO: 250}, 300)
    assert poll.lost() == {}


def test_what_lasted_was_so_at_the_last_poll_and_for_so_long():
    assert ConnectorActivity("running", since=NOW, inspected_at=NOW).lasted("running", 0.0)
    stopped = ConnectorActivity("stopped", since=NOW, inspected_at=NOW + GRACE_S)
    assert stopped.lasted("stopped", GRACE_S)
    assert not stopped.lasted("stopped", GRACE_S + 1)
    assert not stopped.lasted("running", 0.0)


RUNS, FAILED = Task(0, "running"), Task(1, "failed")


@pytest.mark.parametrize(
    ("state", "tasks", "report"),
    [
        pytest.param("running", (RUNS, FAILED), "running", id="one task runs"),
        pytest.param("running", (FAILED,), None, id="no task runs"),
        pytest.param("running", (), None, id="no task yet"),
        pytest.param("failed", (RUNS,), None, id="failed"),
        pytest.param("paused", (RUNS,), None, id="paused"),
        pytest.param("paused", (), None, id="paused without tasks"),
        pytest.param("stopped", (), "stopped", id="stopped"),
        pytest.param("stopped", (RUNS,), None, id="being stopped"),
    ],
)
def test_a_connector_runs_or_is_stopped_if_that_is_certain(state, tasks, report):
    connector = replace(mirror(), state=state, tasks=tasks)
    assert classify_activity(connector, live=True) == report
    assert classify_activity(connector, live=False) is None


def test_of_a_connector_that_is_not_listed_nothing_is_known():
    assert classify_activity(None, live=True) is None


# --- what is kept --------------------------------------------------------------------------------


def test_a_topic_that_is_copied_is_kept_however_long_ago_it_was_first_observed():
    poll = at_rest()
    poll({ZERO: 99}, 100, later_s=UNUSED_TOPIC_TTL_S + 1)
    poll.fates.forget_unused_topics()
    assert poll.fates.find_losses(FLOW, ZERO) == (NOTHING_LOST, None)
    assert set(poll.fates.flows) == {("lab", "mm2", "west", "east")}


def test_a_topic_that_was_not_observed_for_a_day_is_retained_and_after_a_week_goes_with_its_flow():
    poll = at_rest()
    poll.flow = replace(FLOW, connector="other")
    for later_s, retained in ((DAY_S, {"mm2", "other"}), (UNUSED_TOPIC_TTL_S, {"other"})):
        poll({ZERO: 99}, 100, later_s=later_s)
        poll.fates.forget_unused_topics()
        assert {connector for _, connector, _, _ in poll.fates.flows} == retained


def test_the_oldest_range_makes_room_for_the_newest(monkeypatch):
    monkeypatch.setattr("offsetwatch.state.loss.accounting.LOSSES_MAX", 2)
    accounting = LossAccounting()
    for first in (10, 20, 30):
        accounting.add(
            Loss("lab", "mm2", "west", "east", "orders", 0, "retention", first, first, NOW)
        )
    assert [loss.first for loss in accounting.losses] == [20, 30]
