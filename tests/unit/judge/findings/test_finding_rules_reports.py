"""Rules 15 and 18 to 23 in detail: what they leave alone, and with what they are told."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.model.findings import Finding, FindingName, Severity
from offsetwatch.model.observations import CONNECT_REST, Frozen, InputFailed, InputId, LogBounds
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.internal_topics import NOT_COMPACTED, OVERSIZE
from offsetwatch.state.snapshot import GroupView, TopicProblem
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.unit.judge.register_runs import Play
from tests.unit.state.connect.test_topic_listing import CONFIGS, listing
from tests.unit.state.test_failover import CHECKPOINTS, answered, early_and_last
from tests.unit.state.worlds import (
    FILE,
    OFFSETS,
    SYNCS,
    World,
    files,
    mirror,
    mirrors,
    orders,
    source,
    sync,
)

REST = InputId(CONNECT_REST, connect_cluster="lab")


def filed() -> Play:
    play = Play(files())
    play.world.commit("files", FILE, {"position": 1})
    play.evaluate()
    return play


def mirrored(*partitions: int) -> Play:
    """These partitions of orders are copied up to 99, with a sync of each."""
    play = Play(mirrors())
    play.world.assigned(*partitions)
    for partition in partitions:
        play.world.commit("mm2", orders(partition), {"offset": 99})
        play.world.synced(99, partition=partition)
    play.world.ends({TopicPartition("orders", item): LogBounds(0, 100, 100) for item in partitions})
    play.evaluate()
    return play


def stopped(*partitions: int) -> Play:
    play = mirrored(*partitions)
    play.world.listed(replace(mirror(), state="stopped", tasks=()))
    return play


def select_finding(play: Play, name: FindingName) -> Finding:
    (report,) = [finding for finding in play.findings if finding.name is name]
    return report


# --- half_reset ----------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_sync_is_as_old_as_its_reading_whatever_its_writers_clock_says(skew_s):
    """A task begins again after a reset: its sync comes a flush before its commit."""
    play = stopped(0)
    play.world.commit("mm2", orders(), None)
    play.run(0.5)
    play.world.synced(120, downstream=200, at=play.world.now + skew_s)
    play.run(0.5)
    assert "half_reset" not in play.names()
    play.run(4)
    assert "half_reset" in play.names()


def test_a_sync_without_a_timestamp_is_not_older_than_a_commit():
    play = stopped(0)
    play.world.tail(sync(150, at=-0.001), topic=SYNCS)
    play.run(4)
    assert "half_reset" not in play.names()


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_sync_that_was_there_when_we_came_is_as_old_as_its_first_reading(skew_s):
    play = stopped(0)
    written = sync(99, at=play.world.now + skew_s)
    play.world.tail(written, topic=SYNCS, whole=True)
    play.world.commit("mm2", orders(), None)
    play.run(0.5)
    assert "half_reset" not in play.names()
    play.run(3)
    assert "half_reset" in play.names()


@pytest.mark.parametrize("offset", [None, {"offset": -1}, {}])
def test_every_partition_whose_offset_was_reset_is_reported_with_what_its_sync_says(offset):
    play = stopped(0, 1)
    synced = play.world.now
    for number in (0, 1):
        play.world.commit("mm2", orders(number), offset)
    play.run(4)
    finding = select_finding(play, FindingName.HALF_RESET)
    assert finding.summary.startswith("mm2 (west->east) is half reset in 2 partitions: ")
    evidence = texts(finding.evidence)
    assert (evidence["orders-0 offset"], evidence["orders-0 sync"]) == ("none", "99")
    assert evidence["orders-0 sync written"] == format_moment(synced - 5)
    assert evidence["offset syncs"] == str(SYNCS)


def test_a_partition_that_is_copied_no_longer_may_well_be_reset_and_have_a_sync():
    play = stopped(0, 1)
    play.world.assigned(0)
    play.world.commit("mm2", orders(1), None)
    play.run(4)
    assert play.names() == []


def test_a_partition_that_is_known_by_another_spelling_of_its_key_alone_was_not_reset():
    play = mirrored(0)
    play.world.synced(99, partition=1)
    play.world.assigned(0, 1)
    spelled = b'["mm2", {"cluster": "west", "partition": 1, "topic": "orders"}]'
    play.world.commit("mm2", orders(1), {"offset": 7}, raw_key=spelled)
    play.run(4)
    assert "half_reset" not in play.names()


def test_a_sync_of_this_interval_is_the_word_of_a_task_that_begins_again():
    play = mirrored(0)
    play.world.commit("mm2", orders(), None)

    def synced() -> None:
        play.world.synced(100, downstream=200)

    play.run(6, each=synced)
    assert "half_reset" not in play.names()


def test_an_offset_that_was_observed_to_go_back_behind_its_sync_is_set_back_whatever_clocks_say():
    for skew in (-600.0, 0.0, 600.0):
        play = stopped(0)
        play.run(1)
        play.world.commit("mm2", orders(), {"offset": 60}, at=play.world.now + skew)
        play.run(3)
        assert play.names() == ["half_reset"], skew


def test_an_offset_that_was_behind_its_sync_when_we_came_may_be_so_by_two_clocks():
    for skew, expected in ((600.0, []), (700.0, ["half_reset"])):
        play = Play(mirrors())
        play.world.assigned(0)
        play.world.synced(120, downstream=120)
        play.world.commit("mm2", orders(), {"offset": 60}, at=play.world.now + skew)
        play.run(3)
        assert play.names() == expected, skew


def test_an_offset_that_is_further_than_its_sync_is_what_an_offset_usually_is():
    play = stopped(0)
    play.run(2)
    play.world.commit("mm2", orders(), {"offset": 150})
    play.run(3)
    assert "half_reset" not in play.names()


def test_of_syncs_that_are_there_but_cannot_be_read_none_is_missing():
    """A transaction hides them, or the tail has failed."""
    play = Play(mirrors())
    play.world.assigned(0)
    play.world.commit("mm2", orders(), {"offset": 5})
    play.world.tail(topic=SYNCS, frozen=(Frozen(0, 3, "producer 7 since noon", 5),))
    play.run(1)
    play.world.commit("mm2", orders(), {"offset": 8})
    play.run(4)
    assert "half_reset" not in play.names()


def test_when_the_topic_of_syncs_is_gone_all_that_was_read_of_it_is():
    play = mirrored(0)
    play.world.tail_failed("not_found", SYNCS)
    play.run(3, each=lambda: play.world.tail_failed("not_found", SYNCS))
    evidence = texts(select_finding(play, FindingName.HALF_RESET).evidence)
    assert (evidence["orders-0 offset"], evidence["orders-0 sync"]) == ("99", "none")


def test_half_reset_is_not_reported_where_two_flows_share_a_syncs_topic():
    both = (mirror(), mirror("mm3", target="south", target_addresses=frozenset({"south:9092"})))
    play = Play(mirrors(*both))
    play.world.assigned(0)
    play.world.commit("mm2", orders(), {"offset": 99})
    play.world.synced(99)
    play.world.ends({TopicPartition("orders", 0): LogBounds(0, 100, 100)})
    play.run(1)
    play.world.commit("mm2", orders(), None)
    play.run(4)
    assert len(play.world.snapshot().topology.flows) == 2
    assert "half_reset" not in play.names()


def test_without_an_assignment_a_reset_partition_with_a_sync_is_half_reset():
    play = Play(mirrors())
    play.world.commit("mm2", orders(), {"offset": 99})
    play.world.synced(99)
    play.run(1)
    play.world.commit("mm2", orders(), None)
    play.run(4)
    assert texts(select_finding(play, FindingName.HALF_RESET).evidence)["orders-0 offset"] == "none"


def test_an_offset_that_never_had_a_sync_and_stands_still_is_no_half():
    """Syncs are emitted with what is copied, and nothing is."""
    play = Play(mirrors())
    play.world.assigned(0)
    play.world.commit("mm2", orders(), {"offset": 5})
    play.run(5)
    assert "half_reset" not in play.names()


# --- the offsets themselves ----------------------------------------------------------------------


def test_other_keys_are_counted():
    play = filed()
    for key in (
        b'["files", {"filename": "/data/in.txt"}]',
        b'[ "files",{"filename":"/data/in.txt"}]',
    ):
        play.world.commit("files", FILE, {"position": 7}, raw_key=key)
    play.evaluate()
    finding = select_finding(play, FindingName.DUPLICATE_KEYS)
    assert ("filename=/data/in.txt", "2 other raw keys") in pairs(finding.evidence)
    assert finding.summary.startswith("files has 1 source partition with offsets under keys ")


def test_what_was_reset_has_no_offset_that_a_task_could_fail_on():
    play = mirrored(0, 1)
    for text in ({"offset": "5"}, None):
        play.world.commit("mm2", orders(1), text)
    play.evaluate()
    assert "unusable_offset" not in play.names()


def test_of_a_topics_problems_the_worst_is_reported_and_the_others_with_it():
    play = filed()
    small = TopicProblem(OFFSETS, OVERSIZE, "it is large")
    other = TopicProblem(OFFSETS, "retention", "it is cut")
    bad = TopicProblem(OFFSETS, NOT_COMPACTED, "it is not compacted")
    play.more["topic_problems"] = (small, other, bad)
    play.evaluate()
    finding = select_finding(play, FindingName.INTERNAL_TOPIC_PROBLEM)
    assert finding.severity is Severity.CRITICAL
    assert (finding.connect_cluster, finding.subject) == ("lab", str(OFFSETS))
    assert finding.summary == f"Topic {OFFSETS}: it is not compacted."
    assert [what for what, _ in pairs(finding.evidence)] == [NOT_COMPACTED, "retention", OVERSIZE]


# --- checkpoints_stale ---------------------------------------------------------------------------


def grouped(*views: dict[str, Any], synced: bool = True) -> Play:
    """Groups whose checkpoints, old by then, are worse than they could be for six intervals."""
    play = mirrored(0)
    now = play.world.now
    group = GroupView(
        connect_cluster="lab",
        source="west",
        target="east",
        group="g",
        topic="orders",
        partition=0,
        upstream=90,
        best=90,
        start_offset=40,
        start_offset_from="checkpoint",
        translated=90,
        reread=50,
        skip=0,
        checkpoint_at=now,
        checkpoint_read_at=now,
    )
    play.more["groups"] = tuple(replace(group, **view) for view in views)
    if synced:
        play.world.now += 1
        play.world.synced(200)
    play.run(6)
    return play


def test_groups_whose_checkpoints_are_stale_are_reported_worst_first_and_counted_once():
    play = grouped(
        {"group": "near", "start_offset": 10, "translated": 20},
        {"group": "far", "start_offset": 10, "translated": 90},
        {"group": "far", "partition": 1, "start_offset": 30, "translated": 90},
    )
    finding = select_finding(play, FindingName.CHECKPOINTS_STALE)
    assert "after a failover they would start too far back" in finding.summary
    assert (finding.connect_cluster, finding.connector, finding.subject) == (
        "lab",
        None,
        "west->east",
    )
    failover_costs = [
        (name, value) for name, value in pairs(finding.evidence) if "start at" in name
    ]
    assert [name.partition(" would")[0] for name, _ in failover_costs[::2]] == [
        "far orders-0",
        "far orders-1",
        "near orders-0",
    ]
    assert failover_costs[-2:] == [
        ("near orders-0 would start at", "10"),
        ("near orders-0 could start at", "20"),
    ]


@pytest.mark.parametrize("unknown", ["checkpoint_at", "start_offset", "translated"])
def test_of_a_group_without_a_checkpoint_none_is_stale(unknown):
    assert "checkpoints_stale" not in grouped({unknown: None}).names()


def test_where_no_sync_has_come_since_no_better_checkpoint_could_be_written():
    assert "checkpoints_stale" not in grouped({}, synced=False).names()


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_checkpoint_is_as_old_as_its_reading_whatever_its_writers_clock_says(skew_s):
    began = grouped({}).world.now
    fresh = {"checkpoint_at": began + skew_s, "checkpoint_read_at": began - 1.0}
    assert "checkpoints_stale" not in grouped(fresh).names()
    assert "checkpoints_stale" in grouped({"checkpoint_at": began + skew_s}).names()


def test_a_checkpoint_of_before_is_held_against_syncs_that_are_read_since():
    assert "checkpoints_stale" in grouped({"checkpoint_read_at": None}).names()


def test_a_checkpoint_that_is_as_good_as_it_can_be_is_not_stale():
    assert "checkpoints_stale" not in grouped({"start_offset": 90}).names()


# --- hanging_transaction, input_down -------------------------------------------------------------


def test_a_hanging_transaction_is_reported_with_five_partitions_and_all_that_it_hides():
    play = filed()
    play.world.tail(
        frozen=tuple(Frozen(number, 10, f"producer {number}", 2) for number in range(7))
    )
    play.evaluate()
    finding = select_finding(play, FindingName.HANGING_TRANSACTION)
    assert finding.connect_cluster == "lab"
    assert [what for what, _ in pairs(finding.evidence)] == [
        *(f"partition {number}" for number in range(5)),
        "hidden",
    ]
    assert texts(finding.evidence)["partition 3"] == "producer 3"
    assert texts(finding.evidence)["hidden"] == "14 records"


def test_a_transaction_that_hangs_still_hangs_while_its_broker_is_away():
    play = filed()
    held = Frozen(0, 5, "held", 1)
    play.world.tail(frozen=(held,), behind=1)
    (before,) = play.evaluate()
    assert before.name is FindingName.HANGING_TRANSACTION
    for _ in range(6):
        play.world.tail_failed("unreachable")
        (still,) = play.evaluate()
        assert (still.name, still.since) == (before.name, before.since)


def test_partitions_that_cannot_be_read_are_reported_and_no_transaction_is_made_of_them():
    play = filed()
    sick = tuple(
        Frozen(number, 10, f"partition {number}: it has no leader", 0, "unsettled")
        for number in (3, 4)
    )
    play.run(1.2, each=lambda: play.world.tail(frozen=sick))
    finding = select_finding(play, FindingName.INPUT_DOWN)
    assert FindingName.HANGING_TRANSACTION not in play.names()
    assert finding.subject == "tail east/connect-offsets"
    assert "has 2 partitions that cannot be read; the others can" in finding.summary
    assert texts(finding.evidence)["partition 4"] == "partition 4: it has no leader"


def failing(play: Play, *, intervals: float = 1.2) -> Play:
    fails = InputFailed(REST, "timeout", "no luck")
    play.run(intervals, each=lambda: play.world.see(fails))
    return play


def test_an_input_that_fails_is_reported_with_its_cluster_the_reason_and_when_it_was_last_read():
    play = filed()
    read = play.world.now
    failing(play)
    finding = select_finding(play, FindingName.INPUT_DOWN)
    assert finding.connect_cluster == "lab"
    assert finding.summary == (
        f"Connect cluster lab has not answered since {format_moment(read)}; the states of its "
        "connectors "
        "are unknown."
    )
    assert finding.severity is Severity.CRITICAL
    evidence = {"reason": "timeout", "last read": format_moment(read), "error": "no luck"}
    assert texts(finding.evidence) == evidence


def test_a_silent_connect_says_from_when_the_topics_of_failover_costs_are_known():
    play = Play(early_and_last())
    answered(play.world)
    assert play.world.snapshot().groups
    read = play.world.now
    fails = InputFailed(REST, "timeout", "no luck")

    def poll() -> None:
        play.world.see(fails)
        for topic in (CHECKPOINTS, SYNCS):
            play.world.tail(topic=topic)
        answered(play.world)

    play.run(1.2, each=poll)
    assert select_finding(play, FindingName.INPUT_DOWN).summary.endswith(
        " Failover costs are for the topics that MirrorMaker's configuration of "
        f"{format_moment(read)} names."
    )


def test_an_input_that_was_never_read_says_so():
    world = World()
    world.listed(source("files"))
    world.find_topic()
    play = Play(world)
    denied = InputFailed(InputId.of_tail(OFFSETS), "denied", "not for you")
    play.run(1.2, each=lambda: world.see(denied))
    assert texts(select_finding(play, FindingName.INPUT_DOWN).evidence)["last read"] == "never"


def unread(*failures: int) -> list[bool]:
    """Of a topic that never was read: is it down, a bit more than an interval after each of these
    times that it failed?
    """
    world = World()
    world.listed(source("files"))
    world.find_topic()
    play, reports = Play(world), []
    denied = InputFailed(InputId.of_tail(OFFSETS), "denied", "not for you")
    for times in failures:
        for _ in range(times):
            world.see(denied)
        play.run(1.2)
        reports.append("input_down" in play.names())
    return reports


def test_what_never_was_read_is_down_once_it_has_failed_three_times():
    assert unread(1, 1, 1) == [False, False, True]
    assert unread(2, 1, 1) == [False, False, True]  # the first two were one trouble
    assert unread(2, 2) == [False, True]


def test_a_cluster_that_never_answered_is_down_once_it_has_failed_three_times():
    world = World()
    play = Play(world)
    for down in (False, False, True):
        world.see(InputFailed(REST, "timeout", "no luck"))
        play.run(1.2)
        assert ("input_down" in play.names()) is down


def test_a_tails_trouble_is_of_no_connect_cluster():
    play = filed()
    play.run(2, each=lambda: play.world.tail_failed("denied"))
    finding = select_finding(play, FindingName.INPUT_DOWN)
    assert (finding.connect_cluster, finding.subject) == ("", f"tail {OFFSETS}")


def test_two_failures_in_an_interval_are_not_three():
    play = filed()
    play.world.see(InputFailed(REST, "timeout", "no luck"))
    play.blind.add(REST)
    play.run(0.3)
    play.world.see(InputFailed(REST, "timeout", "no luck"))
    play.run(0.1)
    assert play.names() == []


def test_what_is_out_of_date_is_down_though_the_last_attempt_was_good():
    """Nobody asks any more: its thread hangs."""
    play = filed()
    play.blind.add(REST)
    play.run(2)
    assert texts(select_finding(play, FindingName.INPUT_DOWN).evidence)["reason"] == "stale"


def test_a_tail_that_does_not_come_to_the_end_is_said_to_read_too_slowly():
    play, read = filed(), count(1)
    play.blind.add(InputId.of_tail(OFFSETS))
    play.run(2, each=lambda: play.world.tail(behind=70, positions=((0, next(read)),)))
    finding = select_finding(play, FindingName.INPUT_DOWN)
    assert finding.summary == f"Topic {OFFSETS} is written faster than offsetwatch reads it."
    evidence = texts(finding.evidence)
    assert (evidence["reason"], evidence["left to read"]) == ("stale", "70 records")


def test_a_tail_that_lies_behind_and_fails_is_said_to_fail():
    play, tail = filed(), InputId.of_tail(OFFSETS)
    play.blind.add(tail)
    play.world.tail(behind=70, positions=((0, 1),))
    play.run(1.2, each=lambda: play.world.tail_failed("timeout"))
    (view,) = (item for item in play.world.snapshot().inputs if item.id == tail)
    assert view.tail is not None
    for lag in (None, 70):  # whether or not it was heard of lately
        play.more["inputs"] = (replace(view, tail=replace(view.tail, behind=lag)),)
        play.evaluate()
        assert (
            select_finding(play, FindingName.INPUT_DOWN).summary
            == f"Topic {OFFSETS} cannot be read: no luck."
        )


def test_a_tail_of_which_nothing_is_heard_is_said_not_to_answer():
    play = filed()
    play.blind.add(InputId.of_tail(OFFSETS))
    play.run(2)
    assert (
        select_finding(play, FindingName.INPUT_DOWN).summary
        == f"Topic {OFFSETS} cannot be read: no answer."
    )


def test_an_offsets_topic_that_is_not_settled_yet_has_three_intervals_as_well():
    play = filed()
    unsettled = InputFailed(
        InputId("tail", connect_cluster="lab"), "topic_not_settled", "name the topic"
    )
    play.run(2.8, each=lambda: play.world.see(unsettled))
    assert "input_down" not in play.names()
    play.run(0.6, each=lambda: play.world.see(unsettled))
    assert "input_down" in play.names()


@pytest.mark.parametrize(
    ("reason", "severity"), [("denied", Severity.INFO), ("timeout", Severity.WARNING)]
)
def test_what_may_not_be_read_of_a_cluster_without_rest_is_done_without(reason, severity):
    """Its offsets topic is read all the same, and its keys tell the connectors."""
    play, tail = Play(listing()), InputId.of_tail(CONFIGS)
    play.blind.add(tail)
    failed = InputFailed(tail, reason, "no luck")
    play.run(1.2, each=lambda: play.world.see(failed))
    assert select_finding(play, FindingName.INPUT_DOWN).severity is severity


def test_a_topic_that_is_not_there_has_three_intervals_to_come():
    topic = KafkaTopic("east", "own-offsets")
    play = filed()
    play.world.listed(source("files", dedicated_offsets_topic="own-offsets"))
    play.run(2.8, each=lambda: play.world.tail_failed("not_found", topic))
    assert "input_down" not in play.names()
    play.run(0.6, each=lambda: play.world.tail_failed("not_found", topic))
    assert "input_down" in play.names()


# --- another topic of offset syncs ---------------------------------------------------------------

ON_TARGET = KafkaTopic("east", "mm2-offset-syncs.west.internal")
BY_TARGET = mirror(syncs_topic=ON_TARGET.topic, syncs_on_source=False)


def test_a_topic_of_syncs_that_two_workers_report_by_turns_is_no_half_reset():
    """The one that the flow writes to is never read to its end before the other has its turn."""
    play = mirrored(0)
    offset, by_turns = 99, [mirror(), BY_TARGET]

    def answer() -> None:
        nonlocal offset
        offset += 1
        by_turns.reverse()
        play.world.listed(by_turns[0])
        play.world.commit("mm2", orders(), {"offset": offset})
        play.world.ends(offset + 1)
        if by_turns[0] is BY_TARGET:
            play.world.tail_ended(SYNCS)
            play.world.tail(topic=ON_TARGET, whole=True)
        else:
            play.world.tail_ended(ON_TARGET)

    for _ in range(60):
        play.run(1 / 12, each=answer)
        assert "half_reset" not in play.names()


def test_a_flow_that_begins_to_write_its_syncs_elsewhere_has_none_there_of_an_idle_partition():
    play = mirrored(0)
    play.world.tail(topic=ON_TARGET, whole=True)
    play.world.listed(BY_TARGET)
    play.run(10)
    assert play.names() == []
    play.world.commit("mm2", orders(), {"offset": 100})
    play.world.ends(101)
    play.run(3)
    assert play.names() == ["half_reset"]
