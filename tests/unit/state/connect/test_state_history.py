"""What the status topic of a Connect cluster with a REST API tells beside it."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import (
    Condition,
    ConnectorStatus,
    StatusRecord,
    TaskStatus,
    TopicUse,
)
from offsetwatch.model.observations import ListingRecord, TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, StatusTopic, TopicFacts
from offsetwatch.state.connect import state_history
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.connect.state_history import (
    CHANGES_MAX,
    LOST_STATUS_S,
    ConnectorStateHistories,
    find_deletions,
    has_lost_status,
)
from tests.changed import replace
from tests.unit.state.worlds import World, files, source

STATUS = KafkaTopic("east", "connect-status")
BAD = "org.example.Bad in Files.poll"


def build_facts(*topics: KafkaTopic) -> TopicFactsRead:
    return TopicFactsRead(
        kafka="east",
        facts=tuple(
            TopicFacts(
                at=topic,
                role=InternalTopicRole.STATUS,
                policy="compact",
                partitions=5,
                replication=1,
                brokers=1,
            )
            for topic in topics
        ),
        at=0.0,
    )


def task(state: str | None, *, generation: int = 1, failure: str | None = None) -> TaskStatus:
    condition = None if state is None else Condition(state, "w:1", generation, "4.3.1", failure)
    return TaskStatus("files", 0, condition)


def connector(state: str | None, *, generation: int = 1) -> ConnectorStatus:
    condition = None if state is None else Condition(state, "w:1", generation, "4.3.1")
    return ConnectorStatus("files", condition)


def add_statuses(world: World, *says: StatusRecord, whole: bool = False, **changes) -> None:
    records = (ListingRecord(say, at=world.now, live=not whole) for say in says)
    world.tail(*records, topic=STATUS, whole=whole, **changes)


def followed() -> World:
    """Its status topic was found and read, and was empty."""
    world = files()
    world.see(build_facts(STATUS))
    add_statuses(world, whole=True)
    return world


def changes(world: World) -> dict[tuple[str, int | None], list[str]]:
    return {
        (history.connector, history.task): [change.state for change in history.changes]
        for history in world.snapshot().histories
    }


def test_a_status_topic_beside_the_offsets_topic_is_followed():
    world = files()
    world.see(build_facts(STATUS, KafkaTopic("east", "other-status")))
    topology = world.snapshot().topology
    assert topology.statuses == (StatusTopic("lab", STATUS),)
    assert STATUS in topology.tailed()
    assert STATUS not in topology.awaited()
    assert STATUS not in topology.recorded()


@pytest.mark.parametrize(
    "topics",
    [
        pytest.param((), id="none"),
        pytest.param((KafkaTopic("west", "connect-status"),), id="on-another-cluster"),
        pytest.param((STATUS, KafkaTopic("east", "connect-statuses")), id="two-of-them"),
    ],
)
def test_what_is_not_certainly_its_status_topic_is_not_followed(topics):
    world = files()
    world.see(build_facts(*topics))
    assert world.snapshot().topology.statuses == ()


def test_a_status_topic_that_is_named_is_followed_whatever_is_found():
    cluster = ConnectClusterSettings(
        name="lab", kafka="east", status=KafkaTopic("east", "how-they-are")
    )
    world = files(sites=(cluster,))
    world.see(build_facts(STATUS))
    assert [str(status.at) for status in world.snapshot().topology.statuses] == [
        "east/how-they-are"
    ]


def test_a_status_topic_that_went_is_no_longer_followed_and_what_it_reported_is_forgotten():
    world = followed()
    add_statuses(world, task("running"))
    world.see(build_facts())
    assert world.snapshot().topology.statuses == ()
    world.see(build_facts(STATUS))
    assert changes(world) == {}


def test_nothing_waits_for_a_status_topic_and_no_list_depends_on_it():
    world = files()
    assert world.snapshot().ready
    world.see(build_facts(STATUS))
    world.tail_failed("denied", STATUS)
    assert world.snapshot().ready
    assert [any_connector.name for any_connector in world.snapshot().connectors] == ["files"]


def test_every_change_is_kept_that_a_poll_would_miss():
    world = followed()
    add_statuses(world, task("running"), connector("running"))
    for _ in range(2):
        world.now += 1
        add_statuses(world, task("failed", failure=BAD))
        add_statuses(world, task("running"))
    assert changes(world) == {
        ("files", None): ["running"],
        ("files", 0): ["running", "failed", "running", "failed", "running"],
    }
    failed = world.snapshot().histories[1].changes[1]
    assert (failed.at, failed.failure, failed.worker, failed.generation) == (
        world.now - 1,
        BAD,
        "w:1",
        1,
    )


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_deletion_is_the_last_word_although_the_worker_lets_go_after_it(skew_s):
    """As Kafka 4.3.1 wrote it with two workers: the leader deletes, and another lets go."""
    known = ConnectorStateHistories("lab")
    heard(known, connector("running"), connector(None), moment=1000.0)
    for _ in range(2):  # once more where the topic is read again
        states = heard(known, connector("unassigned"), moment=1000.0 + skew_s)
        assert states == [["running", "unassigned", "deleted"]]
    assert find_deletions(known.views()[0].changes) == (2,)
    states = heard(known, connector("running"), moment=1002.0)
    assert states == [["running", "unassigned", "deleted", "running"]]


def test_a_worker_that_lets_go_long_after_a_status_was_lost_is_in_a_rebalance():
    known = ConnectorStateHistories("lab")
    heard(known, connector("running"), connector(None), moment=1000.0)
    states = heard(known, connector("unassigned"), moment=1601.0)
    assert states == [["running", "deleted", "unassigned"]]
    assert find_deletions(known.views()[0].changes) == ()


def test_a_status_that_no_worker_released_is_lost_for_an_hour_and_no_deletion():
    known = ConnectorStateHistories("lab")
    heard(known, connector("running"), connector(None), moment=1000.0)
    (lost,) = known.views()
    assert has_lost_status(lost.changes, 1000.0 + LOST_STATUS_S - 1)
    assert not has_lost_status(lost.changes, 1000.0 + LOST_STATUS_S)
    heard(known, connector("unassigned"), moment=1000.0)
    (deleted,) = known.views()
    assert not has_lost_status(deleted.changes, 1000.0)
    known.cut({deleted.connector})
    (cut,) = known.views()
    assert [change.state for change in cut.changes] == ["unassigned", "deleted"]
    heard(known, connector("running"), moment=1002.0)
    (alive,) = known.views()
    assert not has_lost_status(alive.changes, 1002.0)


def test_a_long_history_ends_with_the_deletion_too():
    known = ConnectorStateHistories("lab")
    for number in range(CHANGES_MAX):
        heard(known, connector("running", generation=number))
    heard(known, connector(None))
    (states,) = heard(known, connector("unassigned"))
    assert states[-3:] == ["running", "unassigned", "deleted"]
    assert len(states) == CHANGES_MAX


def test_what_a_worker_says_late_is_no_change():
    world = followed()
    add_statuses(world, task("running", generation=5), task("unassigned", generation=4))
    assert changes(world) == {("files", 0): ["running"]}


def test_a_topic_read_again_repeats_nothing_and_forgets_who_is_gone():
    world = followed()
    add_statuses(world, task("running"), connector("running"))
    add_statuses(world, task("running"), whole=True)
    assert changes(world) == {("files", 0): ["running"]}


def test_a_history_is_bounded_and_the_newest_is_retained(monkeypatch):
    monkeypatch.setattr(state_history, "HISTORIES_MAX", 1)
    world = followed()
    for number in range(state_history.CHANGES_MAX):
        add_statuses(world, task("running", generation=number))
    add_statuses(world, task("failed"), connector("running"))
    retained = changes(world)["files", 0]
    assert (len(retained), retained[-1]) == (state_history.CHANGES_MAX, "failed")
    assert dict(world.snapshot().dropped)["histories_max"] == 1


@pytest.mark.parametrize("how", ["stale", "held", "starting"])
def test_what_is_not_read_to_its_end_reports_nothing(how):
    world = followed()
    add_statuses(world, task("running"))
    assert changes(world)
    if how == "stale":
        world.now += 21
    elif how == "held":
        add_statuses(world, frozen=(0,))
    else:
        add_statuses(world, caught_up=False)
    assert changes(world) == {}


def test_only_histories_in_a_partition_that_cannot_be_read_are_unknown():
    """Kafka puts each key into one partition, whatever becomes of the others."""
    world = followed()
    running = ListingRecord(task("running"), at=world.now, live=True, partition=4)
    world.tail(replace(running, says=connector("running"), partition=3), running, topic=STATUS)
    add_statuses(world, frozen=(3,))
    assert changes(world) == {("files", 0): ["running"]}
    add_statuses(world, frozen=(4,))
    assert changes(world) == {("files", None): ["running"]}
    add_statuses(world)
    assert changes(world) == {("files", 0): ["running"], ("files", None): ["running"]}


def test_a_connector_may_have_a_status_where_that_cannot_be_read():
    known = ConnectorStateHistories("lab")
    known.apply((ListingRecord(connector("running"), partition=3),), 0.0, whole=True)
    assert not known.may_hide("files")
    assert not known.may_hide("never read")
    known.hide(frozenset({4}))
    assert (known.may_hide("files"), known.may_hide("never read")) == (False, True)
    known.hide(frozenset({3}))
    assert known.may_hide("files")
    assert known.views() == ()


def test_the_same_histories_are_given_while_nothing_changes():
    world = followed()
    add_statuses(world, task("running"))
    before = world.snapshot().histories
    world.listed(source("files"))
    assert world.snapshot().histories is before


# --- by themselves -------------------------------------------------------------------------------


def heard(
    known: ConnectorStateHistories, *says: StatusRecord, whole: bool = False, moment: float = 0.0
) -> list[list[str]]:
    """The states of each, after these records."""
    known.apply(tuple(ListingRecord(record, at=moment) for record in says), 0.0, whole=whole)
    return [[change.state for change in view.changes] for view in known.views()]


def test_a_status_without_a_timestamp_is_of_the_time_when_it_was_read():
    known = ConnectorStateHistories("lab")
    for moment in (1000.0, 1060.0):
        status = ListingRecord(connector("failed"), at=-0.001, live=True)
        known.apply((status,), moment, whole=False)
        known.apply((replace(status, says=connector("running")),), moment + 1, whole=False)
    (view,) = known.views()
    assert [change.at for change in view.changes] == [1000.0, 1001.0, 1060.0, 1061.0]


LATE = task("unassigned", generation=1)


def test_every_read_that_reports_something_is_reported_and_no_other():
    known = ConnectorStateHistories("lab")
    assert heard(known, task("running")) == [["running"]]
    before = known.views()
    assert heard(known, task("failed"), TopicUse("orders", "files", 0, 0.0)) == [
        ["running", "failed"]
    ]
    after = known.views()
    assert after is not before
    assert heard(known, TopicUse("orders", "files", 0, 0.0)) == [["running", "failed"]]
    assert known.views() is after
    assert heard(known, whole=True) == []


def test_a_picture_of_who_has_not_changed_stays():
    known = ConnectorStateHistories("lab")
    heard(known, connector("running"), task("running"))
    first = known.views()[0]
    heard(known, task("failed"))
    assert known.views()[0] is first


@pytest.mark.parametrize("how", ["another topic", "read again without it", "deleted"])
def test_after_what_takes_it_away_no_generation_is_too_old(how):
    known = ConnectorStateHistories("lab")
    assert heard(known, task("running", generation=5), LATE) == [["running"]]
    if how == "another topic":
        known.forget()
        assert known.views() == ()
        assert heard(known, LATE) == [["unassigned"]]
    elif how == "deleted":
        assert heard(known, task(None), LATE) == [["running", "unassigned", "deleted"]]
    else:
        heard(known, whole=True)
        assert heard(known, LATE) == [["unassigned"]]
