"""What nobody can say to be mended, because what it was seen in cannot be read."""

from __future__ import annotations

import pytest

from offsetwatch.judge.findings.register import FindingVisibility
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.model.findings import FindingName, Judgement, Scope, Verdict
from offsetwatch.model.observations import CONNECT_REST, LOG_ENDS, TAIL, InputId
from offsetwatch.model.topology import KafkaTopic, OffsetsTopic, Topology
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.judge.observed_rewinds import FLOW
from tests.unit.judge.test_input_visibility import (
    FILES,
    GROUPS_INPUT,
    OFFSETS,
    READ,
    REST,
    build_snapshot,
    heard,
)

SYNCS = InputId(TAIL, kafka="west", topic="syncs")
ENDS = InputId(LOG_ENDS, kafka="west")
# Another flow beside it, of which all can be read.
NORTH = replace(FLOW, connector="mm3", source="north", offset_syncs=KafkaTopic("north", "syncs"))


ALL = (
    REST.id,
    GROUPS_INPUT.id,
    ENDS,
    InputId(LOG_ENDS, kafka="east"),
    SYNCS,
    build_groups_input(FLOW.key),
)


def blinds(key: tuple[str, str, str, str], *dead: InputId) -> bool:
    """With these inputs dead and all others read."""
    inputs = tuple(heard(of, live=of not in dead) for of in ALL)
    flows = Topology(offsets_topics=(), flows=(FLOW, NORTH))
    snapshot = replace(EMPTY_SNAPSHOT, ready=True, inputs=inputs, topology=flows)
    return FindingVisibility(InputVisibility(snapshot)).lacks_input(key)


@pytest.mark.parametrize(
    ("name", "connector_key", "subject", "of"),
    [
        (FindingName.TASK_FAILED, ("lab", "files"), "", REST.id),
        (FindingName.SINK_BELOW_LOG_START, ("lab", "out"), "", GROUPS_INPUT.id),
        (FindingName.MM2_RETENTION_NEAR, ("lab", "mm2"), "", ENDS),
        (FindingName.INTERNAL_TOPIC_PROBLEM, ("lab", ""), "west/syncs", ENDS),
        (FindingName.HANGING_TRANSACTION, ("lab", ""), "west/syncs", SYNCS),
        (FindingName.CHECKPOINTS_STALE, ("lab", ""), "west->east", build_groups_input(FLOW.key)),
        (FindingName.CHECKPOINTS_STALE, ("lab", ""), "west->east", SYNCS),
        ("ahead", ("lab", "mm2"), "orders-0", ENDS),
        ("checkpoints", ("lab", ""), "west->east g orders-0", SYNCS),
        ("below", ("lab", "out"), "orders-0 9", GROUPS_INPUT.id),
    ],
)
def test_what_is_observed_in_an_input_cannot_be_fixed_while_that_cannot_be_read(
    name, connector_key, subject, of
):
    key = (str(name), *connector_key, subject)
    assert not blinds(key)
    assert blinds(key, of)


def test_another_topics_tail_hides_nothing_of_this_one():
    key = (FindingName.HANGING_TRANSACTION, "lab", "", "west/other")
    assert not blinds(key, SYNCS)


def test_another_kafka_clusters_log_ends_hide_nothing_of_a_topic_of_this_one():
    key = (FindingName.INTERNAL_TOPIC_PROBLEM, "lab", "", "east/syncs")
    assert not blinds(key, ENDS)


def test_what_offsets_report_is_hidden_with_their_topic():
    key = (FindingName.DUPLICATE_KEYS, "lab", "files", "")
    observed = build_snapshot(REST, READ, connectors=(FILES,))
    assert not FindingVisibility(InputVisibility(observed)).lacks_input(key)
    snapshot = build_snapshot(
        REST, heard(InputId.of_tail(OFFSETS), live=False), connectors=(FILES,)
    )
    assert FindingVisibility(InputVisibility(snapshot)).lacks_input(key)


@pytest.mark.parametrize("name", [FindingName.INPUT_DOWN, FindingName.REWINDS_AT_ONCE])
def test_what_is_observed_in_no_input_is_hidden_by_none_not_even_at_the_start(name):
    dead = (heard(REST.id, live=False), heard(ENDS, live=False), heard(SYNCS, live=False))
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, ready=False, inputs=dead))
    assert not FindingVisibility(visibility).hides((name, "lab", "", ""))


def test_until_all_was_read_once_nothing_that_is_observed_in_an_input_is_fixed():
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, ready=False, inputs=(REST,)))
    key = (FindingName.TASK_FAILED, "lab", "files", "")
    assert FindingVisibility(visibility).hides(key)
    assert not FindingVisibility(visibility).lacks_input(key)
    assert not FindingVisibility(
        InputVisibility(replace(EMPTY_SNAPSHOT, ready=True, inputs=(REST,)))
    ).hides(key)


def hides_awaiting(key: tuple[str, str, str, str], *awaited: InputId) -> bool:
    """With these inputs never read since the start, and all others read."""
    inputs = tuple(heard(of) for of in (*ALL, READ.id) if of not in awaited)
    topology = Topology(offsets_topics=(OffsetsTopic("lab", OFFSETS),), flows=(FLOW, NORTH))
    snapshot = replace(
        EMPTY_SNAPSHOT,
        inputs=inputs,
        connectors=(FILES,),
        topology=topology,
        awaited=frozenset(awaited),
    )
    return FindingVisibility(InputVisibility(snapshot)).hides(key)


NORTH_SYNCS, NORTH_ENDS = (
    InputId(TAIL, kafka="north", topic="syncs"),
    InputId(LOG_ENDS, kafka="north"),
)


@pytest.mark.parametrize(
    ("key", "awaited"),
    [
        ((FindingName.TASK_FAILED, "lab", "files", ""), (SYNCS, ENDS)),
        ((FindingName.DUPLICATE_KEYS, "lab", "files", ""), (SYNCS, ENDS)),
        ((FindingName.SINK_BELOW_LOG_START, "lab", "out", ""), (SYNCS, ENDS)),
        ((FindingName.MM2_RETENTION_NEAR, "lab", "mm2", ""), (NORTH_SYNCS, NORTH_ENDS)),
        (("ahead", "lab", "mm2", "orders-0"), (NORTH_SYNCS, NORTH_ENDS)),
        ((FindingName.INTERNAL_TOPIC_PROBLEM, "lab", "", "east/syncs"), (SYNCS, ENDS)),
        ((FindingName.CONNECTOR_NOT_LISTED, "lab", "files", ""), (SYNCS, ENDS)),
        (
            (FindingName.TASK_FAILED, "lab", "files", ""),
            (InputId(CONNECT_REST, connect_cluster="far"), InputId(TAIL, connect_cluster="far")),
        ),
    ],
)
def test_an_unread_input_of_another_cluster_hides_nothing(key, awaited):
    assert not hides_awaiting(key, *awaited)


@pytest.mark.parametrize(
    ("key", "awaited"),
    [
        ((FindingName.TASK_FAILED, "lab", "files", ""), REST.id),
        ((FindingName.INTERNAL_TOPIC_PROBLEM, "lab", "", "east/syncs"), REST.id),
        ((FindingName.INTERNAL_TOPIC_PROBLEM, "", "", "east/syncs"), SYNCS),
        ((FindingName.DUPLICATE_KEYS, "lab", "files", ""), READ.id),
        ((FindingName.SINK_BELOW_LOG_START, "lab", "out", ""), GROUPS_INPUT.id),
        ((FindingName.MM2_RETENTION_NEAR, "lab", "mm2", ""), SYNCS),
        ((FindingName.MM2_RETENTION_NEAR, "lab", "mm2", ""), ENDS),
        ((FindingName.CHECKPOINTS_STALE, "lab", "", "west->east"), build_groups_input(FLOW.key)),
        ((FindingName.HANGING_TRANSACTION, "lab", "", "west/syncs"), SYNCS),
        ((FindingName.INTERNAL_TOPIC_PROBLEM, "lab", "", "west/syncs"), ENDS),
    ],
)
def test_an_input_that_was_never_read_hides_what_depends_on_it(key, awaited):
    assert hides_awaiting(key, awaited)
    assert not hides_awaiting(key, InputId(CONNECT_REST, connect_cluster="far")) or not key[1]


def judged(scope: Scope, rule: int, connector: str = "files") -> Judgement:
    return Judgement(scope, "lab", connector, "", Verdict.UNKNOWN, rule, "so it is", 0.0)


def test_a_connector_is_hidden_by_its_own_verdict_and_not_by_that_of_a_partition():
    reports = (
        judged(Scope.PARTITION, UNAVAILABLE_INPUT_RULE),
        judged(Scope.CONNECTOR, 12),
        judged(Scope.CONNECTOR, UNAVAILABLE_INPUT_RULE, "mm2"),
    )
    snapshot = build_snapshot(REST, READ, connectors=(FILES,), judgements=reports)
    visibility = FindingVisibility(InputVisibility(snapshot))
    assert not visibility.lacks_input((FindingName.CONNECTOR_SILENT, "lab", "files", ""))
    assert visibility.lacks_input((FindingName.CONNECTOR_SILENT, "lab", "mm2", ""))
