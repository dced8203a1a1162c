"""Rules 10 to 14 and 24 in detail: to their boundaries, and with what they are told."""

from __future__ import annotations

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.findings.rewinds import Recopy
from offsetwatch.judge.findings.rule_context import REPORT_INTERVALS
from offsetwatch.judge.findings.rules.replication import NEAR_INTERVALS
from offsetwatch.model.findings import EvidenceItem, Finding, FindingName
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.snapshot import Loss, TopicRecreation
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.unit.judge.findings.test_finding_rules import add_baseline
from tests.unit.judge.register_runs import INTERVAL_S, POLL_S, Play
from tests.unit.state.worlds import mirrors, orders

REPORTED_S = REPORT_INTERVALS * INTERVAL_S


def flow(*partitions: dict) -> Play:
    """Of mm2: orders-0 and so on, at 49 of 100, with these changes to what is shown of each."""
    play = Play(mirrors())
    play.world.assigned(*range(len(partitions)))
    bounds = {}
    for number in range(len(partitions)):
        play.world.commit("mm2", orders(number), {"offset": 49})
        play.world.synced(49, partition=number)
        bounds[TopicPartition("orders", number)] = LogBounds(0, 100, 100)
    play.world.ends(bounds)
    changes = dict(enumerate(partitions))
    play.more["mirror_partitions"] = tuple(
        replace(view, **changes[view.partition]) for view in play.world.snapshot().mirror_partitions
    )
    play.evaluate()
    return play


def select_finding(play: Play, name: FindingName) -> Finding:
    (report,) = [finding for finding in play.findings if finding.name is name]
    return report


# --- retention_near ------------------------------------------------------------------------------

NEAR = {"headroom": 49, "headroom_s": 20 * INTERVAL_S}


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({"headroom": 0}, True),
        ({"headroom": 49}, True),
        ({"headroom": 50}, False),  # as much lies before it as waits
        ({"headroom": -1}, False),  # a loss
        ({"headroom_s": 0.0}, True),
        ({"headroom_s": NEAR_INTERVALS * INTERVAL_S}, False),
        ({"headroom_s": None}, False),
        ({"headroom": None}, False),
        ({"lag": 0, "headroom": 0}, False),
        ({"lag": None}, False),
        ({"caught_up": True}, False),
    ],
)
def test_retention_is_near_where_more_waits_than_lies_before_the_position(changes, near):
    play = flow({**NEAR, **changes})
    assert ("mm2_retention_near" in play.names()) is near


def test_retention_is_reported_of_the_partition_that_it_reaches_first():
    play = flow({**NEAR, "headroom_s": 1500.0}, {**NEAR, "headroom": 1, "headroom_s": 900.0})
    finding = select_finding(play, FindingName.MM2_RETENTION_NEAR)
    assert "within 1 h retention reaches" in finding.summary
    assert finding.summary.endswith("in 2 partitions, first in orders-1.")
    assert pairs(finding.evidence) == [
        ("orders-1 headroom", "1 record"),
        ("orders-0 headroom", "49 records"),
    ]


# --- records_lost --------------------------------------------------------------------------------


def lost(play: Play, *, first: int = 50, last: int = 74, partition: int = 0, **more) -> Loss:
    fields = {"cause": "retention", "at": play.world.now + POLL_S, **more}
    return Loss(
        "lab",
        "mm2",
        "west",
        "east",
        "orders",
        partition,
        fields["cause"],
        first,
        last,
        fields["at"],
    )


def test_losses_are_summed_by_cause_and_the_largest_is_reported_first():
    play = flow({}, {})
    small = lost(play, first=50, last=50, cause="altered")
    play.more["losses"] = (small, lost(play, last=59), lost(play, partition=1, last=149))
    play.evaluate()
    finding = select_finding(play, FindingName.MM2_RECORDS_LOST)
    assert finding.summary == (
        "mm2 (west->east) can no longer replicate up to 111 upstream records "
        "(retention: 110, altered: 1)."
    )
    assert pairs(finding.evidence)[:5] == [
        ("orders-1 first offset lost", "50"),
        ("orders-1 last offset lost", "149"),
        ("orders-1 cause", "retention"),
        ("orders-1 found", format_moment(small.at)),
        ("orders-0 first offset lost", "50"),
    ]


@pytest.mark.parametrize(
    ("age_s", "report"), [(0.0, True), (REPORTED_S - 1, True), (REPORTED_S, False), (-1.0, False)]
)
def test_a_loss_is_reported_for_three_intervals(age_s, report):
    play = flow({})
    play.more["losses"] = (lost(play, at=play.world.now + POLL_S - age_s),)
    play.evaluate()
    assert ("mm2_records_lost" in play.names()) is report


@pytest.mark.parametrize(
    ("headroom", "report"), [((-1, 5), True), ((0, 5), False), ((5, -1), False), ((None, 5), False)]
)
def test_a_loss_is_reported_for_as_long_as_its_partition_lies_in_the_hole(headroom, report):
    play = flow(*({"headroom": item} for item in headroom))
    play.more["losses"] = (lost(play, at=play.world.now - 2 * REPORTED_S),)
    play.evaluate()
    assert ("mm2_records_lost" in play.names()) is report


def test_a_loss_of_a_partition_that_is_not_copied_any_more_lies_in_no_hole():
    play = flow({})
    play.more["losses"] = (lost(play, partition=1, at=play.world.now - 2 * REPORTED_S),)
    play.evaluate()
    assert play.names() == []


# --- topic_recreated -----------------------------------------------------------------------------


def recreated(play: Play, age_s: float = 0.0, connector: str = "mm2", **ids) -> TopicRecreation:
    fields = {"before": "id-1", "after": "id-2", **ids}
    moment = play.world.now + POLL_S - age_s
    return TopicRecreation(
        "lab", connector, "west", "east", "orders", 2, moment, fields["before"], fields["after"]
    )


@pytest.mark.parametrize("known", ["id-9", None])
def test_a_topic_recreated_is_reported_with_its_ids_as_far_as_they_are_known(known):
    play = flow({})
    play.more["recreations"] = (recreated(play, before=known, after=known),)
    play.evaluate()
    finding = select_finding(play, FindingName.MM2_TOPIC_RECREATED)
    evidence = texts(finding.evidence)
    assert evidence["topic id before"] == evidence["topic id now"] == (known or "unknown")
    assert (evidence["flow"], evidence["recreated"]) == ("west->east", "2 times")
    assert (finding.connector, finding.subject) == ("mm2", "orders")


@pytest.mark.parametrize(
    ("age_s", "report"), [(0.0, True), (REPORTED_S - 1, True), (REPORTED_S, False), (-1.0, False)]
)
def test_a_topic_recreated_is_reported_for_three_intervals(age_s, report):
    play = flow({})
    play.more["recreations"] = (recreated(play, age_s),)
    play.evaluate()
    assert ("mm2_topic_recreated" in play.names()) is report


def test_a_topic_recreated_is_reported_for_as_long_as_one_position_lies_beyond_its_end():
    play = flow({"ahead": 0}, {"ahead": 7})
    play.more["recreations"] = (recreated(play, 2 * REPORTED_S),)
    play.evaluate()
    assert "mm2_topic_recreated" in play.names()


@pytest.mark.parametrize(("partition", "report"), [(1, True), (2, False)])
def test_a_topic_recreated_is_reported_for_as_long_as_a_position_is_of_the_old_one(
    partition, report
):
    play = flow({}, {})
    again = replace(recreated(play, 2 * REPORTED_S), undecided=(partition,))
    play.more["recreations"] = (again,)
    play.evaluate()
    assert ("mm2_topic_recreated" in play.names()) is report


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("id-1", "id-2", "deleted and created again"),
        (None, "id-2", "deleted and created again"),
        (None, None, "deleted and created again"),
        ("id-2", "id-2", "whose log was truncated"),
    ],
)
def test_a_topic_that_is_the_same_was_not_created_again(before, after, words):
    play = flow({})
    play.more["recreations"] = (recreated(play, before=before, after=after),)
    play.evaluate()
    assert words in select_finding(play, FindingName.MM2_TOPIC_RECREATED).summary


# --- position_ahead ------------------------------------------------------------------------------


def test_positions_beyond_the_end_are_reported_furthest_first_after_an_interval():
    play = flow({"ahead": 7, "lag_position": 106}, {"ahead": 0}, {"ahead": 9, "lag_position": 108})
    assert play.names() == []
    play.run(0.9)
    assert play.names() == []
    play.run(0.2)
    finding = select_finding(play, FindingName.MM2_POSITION_AHEAD)
    assert finding.summary.startswith("mm2 (west->east) has 2 positions beyond the end")
    assert pairs(finding.evidence) == [
        ("orders-2 position", "108"),
        ("orders-2 log end", "100"),
        ("orders-2 beyond", "9 records"),
        ("orders-0 position", "106"),
        ("orders-0 log end", "100"),
        ("orders-0 beyond", "7 records"),
    ]


@pytest.mark.parametrize(("connector", "explained"), [("mm2", True), ("other", False)])
def test_a_topic_recreated_explains_the_positions_of_its_own_flow_alone(connector, explained):
    play = flow({"ahead": 7})
    play.more["recreations"] = (recreated(play, connector=connector),)
    play.run(1.2)
    assert ("mm2_position_ahead" not in play.names()) is explained


# --- recopy --------------------------------------------------------------------------------------


def test_what_is_copied_again_is_reported_with_where_it_was_the_largest_part_first():
    play = Play(mirrors())
    play.world.assigned(0, 1)
    far = {0: 300, 1: 900}
    for number, offset in far.items():
        play.world.commit("mm2", orders(number), {"offset": offset})
        play.world.synced(offset, partition=number)
    ends = {TopicPartition("orders", index): LogBounds(0, 1000, 1000) for index in far}
    play.world.ends(ends)
    play.evaluate()
    for number in far:
        play.world.commit("mm2", orders(number), None)
    play.run(0.2)
    began = play.world.now + POLL_S
    for number in far:
        play.world.commit("mm2", orders(number), {"offset": 10})
    play.world.ends(ends)
    play.evaluate()
    play.run(0.9)
    assert "recopy" not in play.names()
    play.run(0.2)
    finding = select_finding(play, FindingName.RECOPY)
    assert "copies 2 partitions a second time" in finding.summary
    assert pairs(finding.evidence)[:4] == [
        ("orders-1 copied again from", "10"),
        ("orders-1 was at", "900"),
        ("orders-1 since", format_moment(began)),
        ("orders-0 copied again from", "10"),
    ]


def test_what_is_copied_again_is_one_trouble_of_a_flow_whatever_its_topics():
    play = flow({})
    recopies = play.register._memory.falls.recopies
    for topic in ("orders", "returns"):
        where = ("lab", "mm2", topic, 0)
        recopies[where] = Recopy(where, 100, 10, play.world.now)
    (bounds,) = play.world.snapshot().mirror_partitions
    play.more["mirror_partitions"] = (bounds, replace(bounds, topic="returns"))
    play.run(1.2)
    assert "copies 2 partitions a second time" in select_finding(play, FindingName.RECOPY).summary


def test_what_is_copied_of_a_topic_that_is_known_to_be_another_by_the_same_look_is_no_second_copy():
    play = flow({"committed": 49, "committed_at": 0.0})
    (view,) = play.world.snapshot().mirror_partitions
    play.more["recreations"] = (recreated(play, age_s=POLL_S),)
    again = replace(view, committed=9, committed_at=play.world.now + 1)
    play.more["mirror_partitions"] = (again,)
    play.run(1.2)
    assert play.names() == ["mm2_topic_recreated"]
    assert play.register._memory.falls.recopies == {}


# --- lag_unusual: see test_rules.py as well -------------------------------------------------------


def waiting(*partitions: dict) -> Play:
    """A flow of which a hundred and fifty is as much as there ever is to copy."""
    play = flow(*partitions)
    add_baseline(play)
    play.run(3.5)
    return play


def test_the_most_of_what_waits_is_reported_first():
    finding = select_finding(
        waiting({"lag": 30}, {"lag": 500}, {"lag": 40}), FindingName.MM2_LAG_UNUSUAL
    )
    assert finding.summary.startswith("mm2 (west->east) has more records left to copy")
    assert finding.evidence == (
        EvidenceItem("left to copy", 570, "records"),
        EvidenceItem("usually at most", 50, "records"),
        EvidenceItem("orders-1", 500, "records"),
        EvidenceItem("orders-2", 40, "records"),
        EvidenceItem("orders-0", 30, "records"),
    )


def test_where_nothing_readable_is_left_nothing_waits():
    assert waiting({"lag": 500, "caught_up": True}, {"lag": 30}).names() == []
