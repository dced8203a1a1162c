"""A snapshot by connector, and until when a person could alter offsets."""

from __future__ import annotations

from math import inf

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE
from offsetwatch.judge.snapshot_index import SnapshotIndex
from offsetwatch.model.connect.connectors import ConnectorKind, StateChange, StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import LOG_ENDS, TAIL, InputId
from offsetwatch.model.topology import Topology
from offsetwatch.state.failover.groups import build_groups_input
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, InputView, SinkPartitionView
from tests.changed import replace
from tests.unit.judge.test_input_visibility import ASKED, FILES, REST, heard

from .watches import FLOW, MM2, copied, counted


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        (((1.0, "running"),), 0.0),
        (((1.0, "paused"), (2.0, "running")), 2.0),
        (((1.0, "paused"), (2.0, "running"), (5.0, "stopped"), (9.0, "running")), 9.0),
        (((1.0, "paused"), (2.0, "stopped"), (7.0, "running")), 7.0),
        (((1.0, "running"), (2.0, "stopped")), inf),
    ],
)
def test_a_person_could_alter_offsets_until_the_last_rest_ended(changes, until):
    told = tuple(StateChange(at, state, None) for at, state in changes)
    histories = (StateHistory("lab", "files", None, told), StateHistory("lab", "files", 0, told))
    look = SnapshotIndex(replace(EMPTY_SNAPSHOT, histories=histories))
    assert look.rests() == {("lab", "files"): until}


def test_who_rests_by_the_last_poll_and_says_nothing_rests_without_an_end():
    views = (replace(FILES, name="a", state="paused"), replace(FILES, name="b", state="stopped"))
    assert SnapshotIndex(replace(EMPTY_SNAPSHOT, connectors=(*views, FILES))).rests() == {
        ("lab", "a"): inf,
        ("lab", "b"): inf,
    }


# --- who is listed -------------------------------------------------------------------------------


def test_connectors_are_listed_where_their_states_can_be_read():
    other = replace(FILES, connect_cluster="other")
    look = SnapshotIndex(replace(EMPTY_SNAPSHOT, connectors=(FILES, other), inputs=(REST,)))
    assert look.listed == {"lab": frozenset({"files"})}
    empty = SnapshotIndex(replace(EMPTY_SNAPSHOT, inputs=(REST,)))
    assert empty.listed == {"lab": frozenset()}
    dead = SnapshotIndex(
        replace(EMPTY_SNAPSHOT, connectors=(FILES,), inputs=(heard(REST.id, live=False),))
    )
    assert dead.listed == {}


# --- judgements ----------------------------------------------------------------------------------


def judged(scope: Scope, rule: int, connector: str = "files") -> Judgement:
    return Judgement(scope, "lab", connector, "", Verdict.UNKNOWN, rule, "so it is", 0.0)


def test_a_connector_is_hidden_by_its_own_verdict_and_not_by_that_of_a_partition():
    told = (judged(Scope.PARTITION, UNAVAILABLE_INPUT_RULE), judged(Scope.CONNECTOR, 12))
    assert SnapshotIndex(replace(EMPTY_SNAPSHOT, judgements=told)).hidden == frozenset()
    look = SnapshotIndex(
        replace(
            EMPTY_SNAPSHOT,
            judgements=(*told, judged(Scope.CONNECTOR, UNAVAILABLE_INPUT_RULE, "mm2")),
        )
    )
    assert look.hidden == {("lab", "mm2")}
    assert len(look.judged(Scope.CONNECTOR, Verdict.UNKNOWN)) == 2
    assert look.judged(Scope.FLOW, Verdict.UNKNOWN) == ()


# --- syncs ---------------------------------------------------------------------------------------


def test_syncs_are_a_flows_own_where_no_other_flow_has_their_topic():
    other = replace(FLOW, connector="other")
    silent = replace(FLOW, offset_syncs=None)
    alone = SnapshotIndex(replace(EMPTY_SNAPSHOT, topology=Topology((), (FLOW, silent))))
    assert (alone.has_own_syncs(FLOW), alone.has_own_syncs(silent)) == (True, False)
    shared = SnapshotIndex(replace(EMPTY_SNAPSHOT, topology=Topology((), (FLOW, other))))
    assert not shared.has_own_syncs(FLOW)


# --- positions -----------------------------------------------------------------------------------

SINK = replace(FILES, name="out", kind=ConnectorKind.SINK)
READ = tuple(
    SinkPartitionView("lab", "out", "orders", number, 10 * number, None, None) for number in (2, 1)
)


def test_what_a_sink_has_committed_is_told_by_topic_and_partition():
    snapshot = replace(
        EMPTY_SNAPSHOT, connectors=(SINK,), inputs=(REST, ASKED), sink_partitions=READ
    )
    look = SnapshotIndex(snapshot)
    assert look.positions([("lab", "out")]) == {
        ("lab", "out"): {"orders-2": "20", "orders-1": "10"}
    }
    blind = replace(snapshot, inputs=(REST, heard(ASKED.id, live=False)))
    assert SnapshotIndex(blind).positions([("lab", "out")]) == {}


def test_what_a_flow_has_copied_is_told_with_what_is_left_most_of_first():
    lags = (None, 0, 1, 5)
    mirrors = tuple(copied(9, partition=n, lag=lag) for n, lag in enumerate(lags))
    look = SnapshotIndex(replace(EMPTY_SNAPSHOT, ready=True, mirror_partitions=mirrors))
    (told,) = look.positions([MM2]).values()
    assert list(told.items()) == [(f"orders-{number}", "9") for number in (3, 2, 0, 1)]


def test_of_any_other_source_what_has_an_offset_is_told():
    views = (counted(label="reset"), replace(counted(label="at"), offset=decode_value(b'{"a":1}')))
    look = SnapshotIndex(replace(EMPTY_SNAPSHOT, ready=True, source_partitions=views))
    assert look.positions([("lab", "files")]) == {("lab", "files"): {"at": '{"a":1}'}}


# --- what cannot be read -------------------------------------------------------------------------

CHECKPOINTS = InputId(TAIL, kafka="east", topic="west.checkpoints.internal")
SYNCS = InputId.of_tail(FLOW.offset_syncs)
GROUPS_OF_FLOW = build_groups_input(FLOW.key)


def looked(*inputs: InputView) -> SnapshotIndex:
    return SnapshotIndex(replace(EMPTY_SNAPSHOT, inputs=inputs, topology=Topology((), (FLOW,))))


@pytest.mark.parametrize(
    ("inputs", "blind"),
    [((), False), ((ASKED,), False), ((heard(ASKED.id, live=False),), True)],
    ids=["not asked", "read", "not read"],
)
def test_groups_are_not_seen_where_they_are_asked_for_and_nobody_answers(inputs, blind):
    assert looked(*inputs).blind_to_groups("lab") is blind
    assert not looked(*inputs).blind_to_groups("other")


def test_log_ends_of_a_cluster_that_nobody_knows_are_not_missed():
    look = looked(heard(InputId(LOG_ENDS, kafka="west")))
    assert (look.blind_to_ends(None), look.blind_to_ends("west")) == (False, False)
    assert look.blind_to_ends("north")


@pytest.mark.parametrize("of", [CHECKPOINTS, SYNCS, GROUPS_OF_FLOW], ids=str)
def test_a_failover_is_not_seen_where_one_thing_that_it_rests_on_is_not(of):
    flow = replace(FLOW, downstream="east")
    assert not looked().blind_to_failover(flow)
    assert not looked(heard(of)).blind_to_failover(flow)
    assert looked(heard(of, live=False)).blind_to_failover(flow)


def test_what_a_flow_does_not_have_does_not_hide_its_failover():
    bare = replace(FLOW, offset_syncs=None, downstream=None)
    assert not looked(heard(SYNCS, live=False)).blind_to_failover(bare)


def test_a_connector_is_not_seen_where_its_offsets_or_its_syncs_are_not():
    starting = SnapshotIndex(
        replace(EMPTY_SNAPSHOT, inputs=(REST,), connectors=(replace(FILES, name="mm2"),))
    )
    assert starting.blind(MM2)
    assert not SnapshotIndex(replace(EMPTY_SNAPSHOT, ready=True)).blind(MM2)
    ready = replace(EMPTY_SNAPSHOT, ready=True, topology=Topology((), (FLOW,)))
    assert not SnapshotIndex(replace(ready, inputs=(heard(SYNCS),))).blind(MM2)
    assert SnapshotIndex(replace(ready, inputs=(heard(SYNCS, live=False),))).blind(MM2)


# --- what is marked ------------------------------------------------------------------------------


def test_what_does_not_come_from_the_connector_is_marked():
    plain = counted()
    offset = decode_value(b'{"a":1}')
    marks = (
        replace(plain, shadow=offset),
        replace(plain, variants=1),
        replace(plain, poisoned=True),
    )
    look = SnapshotIndex(replace(EMPTY_SNAPSHOT, source_partitions=(plain, *marks)))
    assert look.marked == {("lab", "files"): list(marks)}
    assert look.sources == {("lab", "files"): [plain, *marks]}
