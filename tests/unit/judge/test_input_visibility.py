"""Gone, or only not seen?"""

from __future__ import annotations

import pytest
from msgspec.structs import replace as replace_struct

from offsetwatch.formatting import format_moment
from offsetwatch.judge.input_visibility import (
    InputVisibility,
    pause_state_of,
)
from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.history_documents import HOURS, Baseline
from offsetwatch.model.observations import CONNECT_REST, GROUPS, LOG_ENDS, TAIL, Frozen, InputId
from offsetwatch.model.topology import (
    KafkaTopic,
    ListingTopics,
    MirrorFlow,
    OffsetsTopic,
    Topology,
)
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.history_documents import BaselinesView
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    ConnectorListView,
    ConnectorView,
    InputView,
    Snapshot,
    SourcePartitionView,
    TailView,
)
from tests.changed import replace

from .observed_rewinds import FLOW, MM2

OFFSETS = KafkaTopic("east", "connect-offsets")
CONFIGS, STATUS = KafkaTopic("east", "configs"), KafkaTopic("east", "status")
FILES = ConnectorView(
    "lab", "files", ConnectorKind.SOURCE, "", "", "running", (Task(0, "running"),)
)


def heard(of: InputId, *, live: bool = True, frozen: bool = False) -> InputView:
    tail = None
    if of.kind == TAIL:
        held = (Frozen(0, 5, "held"),) if frozen else ()
        tail = TailView(OFFSETS, True, 0, 0, 0, 0, (), held)
    return InputView(of, live, live, 0.0, (), None if live else "no route", tail)


REST = heard(InputId(CONNECT_REST, connect_cluster="lab"))
READ = heard(InputId.of_tail(OFFSETS))
GROUPS_INPUT = heard(InputId(GROUPS, connect_cluster="lab"))


def build_snapshot(*inputs: InputView, **changes) -> Snapshot:
    topology = Topology(offsets_topics=(OffsetsTopic("lab", OFFSETS),), flows=())
    fields = {"connectors": (FILES,), "topology": topology, "ready": True, **changes}
    return replace(EMPTY_SNAPSHOT, inputs=inputs, **fields)


def missing(snapshot: Snapshot, connector: str = "files", *, sink: bool = False) -> str | None:
    return InputVisibility(snapshot).explain_absence(("lab", connector), sink=sink)


def test_what_everything_would_show_is_gone():
    assert missing(build_snapshot(REST, READ)) is None
    assert missing(build_snapshot(REST, GROUPS_INPUT), sink=True) is None


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        pytest.param(
            build_snapshot(heard(REST.id, live=False), READ),
            "Connect cluster lab cannot be read: no route",
            id="rest",
        ),
        pytest.param(
            build_snapshot(REST, heard(READ.id, live=False)),
            "topic east/connect-offsets cannot be read: no route",
            id="tail",
        ),
        pytest.param(
            build_snapshot(REST),
            "no successful read yet of topic east/connect-offsets",
            id="unread",
        ),
        pytest.param(
            build_snapshot(REST, heard(READ.id, frozen=True)),
            "topic east/connect-offsets cannot be read: held",
            id="frozen",
        ),
        pytest.param(
            build_snapshot(REST, topology=Topology((), ()), ready=False),
            "the offsets topic of lab has not been found yet",
            id="starting",
        ),
        pytest.param(
            build_snapshot(
                REST,
                topology=Topology((), ()),
                ready=False,
                awaited=frozenset({InputId(TAIL, connect_cluster="lab")}),
            ),
            "the offsets topic of lab has not been found yet",
            id="searched for",
        ),
    ],
)
def test_what_an_input_may_hide_is_not_gone(snapshot, why):
    assert missing(snapshot) == why


def test_an_unread_input_of_another_cluster_hides_no_connector():
    far = frozenset({InputId(CONNECT_REST, connect_cluster="far"), InputId(LOG_ENDS, kafka="west")})
    assert (
        missing(build_snapshot(REST, topology=Topology((), ()), ready=False, awaited=far)) is None
    )


def test_a_connector_that_is_not_listed_is_gone_whatever_its_topic_says():
    assert missing(build_snapshot(REST, heard(READ.id, live=False)), "other") is None


def test_a_sink_may_be_hidden_by_its_groups():
    assert (
        missing(build_snapshot(REST), sink=True)
        == "no successful read yet of consumer groups of Connect cluster lab"
    )


def test_a_cluster_that_is_no_longer_read_is_gone_once_the_rest_is_read():
    assert missing(build_snapshot(topology=Topology((), ()), connectors=())) is None


@pytest.mark.parametrize("dead", [CONFIGS, STATUS])
def test_without_either_topic_states_are_not_known_for_its_reason(dead):
    topics = (CONFIGS, STATUS)
    inputs = [heard(InputId.of_tail(topic), live=topic is not dead) for topic in topics]
    snapshot = build_snapshot(
        *inputs, topology=Topology((), (), listings=(ListingTopics("lab", CONFIGS, STATUS),))
    )
    known, why = InputVisibility(snapshot).states_of("lab")
    assert not known
    assert why is not None
    assert str(dead) in why


@pytest.mark.parametrize(
    ("inputs", "topics", "known"),
    [
        ((REST,), (), True),
        ((heard(REST.id, live=False),), (), False),
        ((), (), False),
        ((heard(InputId.of_tail(CONFIGS)),), (CONFIGS, None), False),
        (
            (heard(InputId.of_tail(CONFIGS)), heard(InputId.of_tail(STATUS))),
            (CONFIGS, STATUS),
            True,
        ),
    ],
    ids=["rest", "rest down", "nothing", "no status topic", "both topics"],
)
def test_states_are_known_where_something_live_reports_them(inputs, topics, known):
    listings = (ListingTopics("lab", *topics),) if topics else ()
    snapshot = build_snapshot(*inputs, topology=Topology((), (), listings=listings))
    assert InputVisibility(snapshot).states_of("lab")[0] is known


def test_only_an_operator_makes_it_rest():
    messages = {
        state: pause_state_of(replace(FILES, state=state))
        for state in ("paused", "stopped", "failed")
    }
    assert messages == {
        "paused": "paused",
        "stopped": "stopped",
        "failed": None,
    }


# --- pauses that history knows nothing like ------------------------------------------------------

NOW = 1_800_000_000.0
HOURLY = Baseline(
    connect_cluster="lab",
    connector="files",
    since=0.0,
    until=NOW,
    advances=8000,
    per_hour=(6.0,) * HOURS,
    pause_advances=3.0,
    pause_s=None,
    quantiles=(1.0, 1.1, 2.0),
)


def advanced(*ago_s: float, baseline: Baseline | None = HOURLY, **changes) -> str | None:
    """What is unusual of `files`, whose partitions advanced so long ago."""
    views = tuple(
        SourcePartitionView(
            connect_cluster="lab",
            connector="files",
            identity=str(number),
            label=str(number),
            dialect="generic",
            offset=None,
            kafka_partition=0,
            log_offset=0,
            committed_at=NOW - ago,
            advanced_at=NOW - ago,
            read_at=NOW - ago,
            commits=1,
            advances=1,
            rewinds=0,
            resets=0,
            variants=0,
        )
        for number, ago in enumerate(ago_s)
    )
    views = tuple(replace(view, **changes) for view in views)
    known = {} if baseline is None else {("lab", "files"): baseline}
    snapshot = build_snapshot(
        REST, READ, at=NOW, source_partitions=views, baselines=BaselinesView(valid=True, of=known)
    )
    return InputVisibility(snapshot).explain_unusual_pause(("lab", "files"))


def test_a_pause_is_unusual_by_the_advances_that_were_to_be_expected_in_it():
    assert advanced(1800.0) is None
    assert advanced(1801.0) == (
        f"nothing advanced since {format_moment(NOW - 1801.0)}, and in its history no pause "
        "missed 3.0 "
        "expected advances"
    )


def test_a_pause_is_unusual_by_its_length_where_history_knows_one():
    timed = replace_struct(HOURLY, pause_s=600.0, pause_advances=None)
    assert advanced(600.0, baseline=timed) is None
    assert advanced(601.0, baseline=timed) == (
        f"nothing advanced since {format_moment(NOW - 601.0)}, and in its history no pause "
        "lasted for "
        "10 min"
    )


def test_the_words_for_an_unusual_pause_are_the_same_when_it_exceeds_the_second_limit_too():
    both = replace_struct(HOURLY, pause_s=7200.0)
    paused = {advanced(ago, baseline=both) for ago in (7200.0, 7201.0, 9000.0)}
    assert {(name or "").partition("history ")[2] for name in paused} == {
        "no pause lasted for 2 h or missed 3.0 expected advances"
    }


def test_a_connector_pauses_since_any_of_its_partitions_advanced():
    assert advanced(9000.0, 60.0, 9000.0) is None


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_a_pause_is_as_long_by_any_clock_of_a_worker(skew_s):
    for ago in (1800.0, 1801.0):
        assert advanced(ago, advanced_at=NOW - ago + skew_s) == advanced(ago)


def test_commits_that_do_not_advance_end_no_pause():
    assert advanced(1801.0, advanced_at=NOW - 2401.0, read_at=NOW) is not None
    assert advanced(1801.0, advanced_at=NOW - 2400.0, read_at=NOW) is None


def test_where_no_advance_is_known_a_commit_is_the_latest_that_it_can_have_been():
    assert advanced(1801.0, advanced_at=None) is not None
    assert advanced(1801.0, advanced_at=None, committed_at=None) is None


def test_without_a_history_no_pause_is_unusual():
    assert advanced(9e6, baseline=None) is None


# --- what a flow's syncs hide --------------------------------------------------------------------

SYNCS = InputId(TAIL, kafka="west", topic="syncs")
COPIES = MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("west", "syncs"))


def unmirrored(*inputs: InputView, flow: MirrorFlow = COPIES) -> str | None:
    snapshot = replace(EMPTY_SNAPSHOT, inputs=inputs, topology=Topology((), (flow,)), ready=True)
    return InputVisibility(snapshot).explain_missing_syncs(("lab", "mm2"))


def test_a_topic_of_syncs_that_is_not_there_hides_nothing_and_one_that_cannot_be_read_does():
    dead = heard(SYNCS, live=False)
    assert unmirrored(heard(SYNCS)) is None
    assert unmirrored(replace(dead, last_reason="not_found")) is None
    assert (
        unmirrored(replace(dead, last_reason="denied"))
        == "topic west/syncs cannot be read: no route"
    )
    assert unmirrored() == "no successful read yet of topic west/syncs"


def test_a_flow_that_emits_no_syncs_has_none_to_be_hidden():
    assert unmirrored(flow=replace(COPIES, offset_syncs=None)) is None


def test_an_offsets_topic_that_is_not_there_hides_what_is_in_it():
    gone = replace(heard(READ.id, live=False), last_reason="not_found")
    assert missing(build_snapshot(REST, gone)) == f"topic {OFFSETS} cannot be read: no route"


def test_who_is_not_listed_where_states_are_not_known_may_be_there():
    snapshot = build_snapshot(heard(READ.id, live=False), connectors=())
    assert missing(snapshot) == f"topic {OFFSETS} cannot be read: no route"


@pytest.mark.parametrize("listings", [False, True])
def test_what_the_configuration_leaves_out_is_not_deleted(listings):
    report = ListingTopics("lab", CONFIGS, STATUS)
    by_topics = (heard(InputId.of_tail(CONFIGS)), heard(InputId.of_tail(STATUS)))
    topology = Topology(
        offsets_topics=(OffsetsTopic("lab", OFFSETS),),
        flows=(),
        listings=(report,) if listings else (),
    )
    lists = () if listings else (ConnectorListView("lab", 0.0, ("ours", None), (), ()),)
    inputs = by_topics if listings else (REST,)
    visibility = InputVisibility(
        build_snapshot(
            *inputs,
            at=100.0,
            topology=topology,
            lists=lists,
            wants_connector={"lab": lambda name: name != "excluded"},
        )
    )
    assert visibility.is_deleted(("lab", "another"))
    assert not visibility.is_deleted(("lab", "excluded"))


# --- who is listed -------------------------------------------------------------------------------


def test_connectors_are_listed_where_their_states_can_be_read():
    other = replace(FILES, connect_cluster="other")
    visibility = InputVisibility(replace(EMPTY_SNAPSHOT, connectors=(FILES, other), inputs=(REST,)))
    assert visibility.listed == {"lab": frozenset({"files"})}
    empty = InputVisibility(replace(EMPTY_SNAPSHOT, inputs=(REST,)))
    assert empty.listed == {"lab": frozenset()}
    dead = InputVisibility(
        replace(EMPTY_SNAPSHOT, connectors=(FILES,), inputs=(heard(REST.id, live=False),))
    )
    assert dead.listed == {}


# --- what cannot be read -------------------------------------------------------------------------

CHECKPOINTS = InputId(TAIL, kafka="east", topic="west.checkpoints.internal")
GROUPS_OF_FLOW = build_groups_input(FLOW.key)


def build_visibility(*inputs: InputView) -> InputVisibility:
    return InputVisibility(replace(EMPTY_SNAPSHOT, inputs=inputs, topology=Topology((), (FLOW,))))


@pytest.mark.parametrize(
    ("inputs", "unavailable"),
    [((), False), ((GROUPS_INPUT,), False), ((heard(GROUPS_INPUT.id, live=False),), True)],
    ids=["not asked", "read", "not read"],
)
def test_groups_that_are_requested_and_not_answered_are_hidden(inputs, unavailable):
    assert build_visibility(*inputs).are_groups_hidden("lab") is unavailable
    assert not build_visibility(*inputs).are_groups_hidden("other")


def test_log_ends_without_a_cluster_are_not_hidden():
    visibility = build_visibility(heard(InputId(LOG_ENDS, kafka="west")))
    assert (visibility.are_log_ends_hidden(None), visibility.are_log_ends_hidden("west")) == (
        False,
        False,
    )
    assert visibility.are_log_ends_hidden("north")


@pytest.mark.parametrize("of", [CHECKPOINTS, SYNCS, GROUPS_OF_FLOW], ids=str)
def test_a_failover_is_not_observed_where_one_thing_that_it_rests_on_is_not(of):
    flow = replace(FLOW, downstream="east")
    assert not build_visibility().is_failover_hidden(flow)
    assert not build_visibility(heard(of)).is_failover_hidden(flow)
    assert build_visibility(heard(of, live=False)).is_failover_hidden(flow)


def test_what_a_flow_does_not_have_does_not_hide_its_failover():
    bare = replace(FLOW, offset_syncs=None, downstream=None)
    assert not build_visibility(heard(SYNCS, live=False)).is_failover_hidden(bare)


def test_a_connector_is_not_observed_where_its_offsets_or_its_syncs_are_not():
    starting = InputVisibility(
        replace(EMPTY_SNAPSHOT, inputs=(REST,), connectors=(replace(FILES, name="mm2"),))
    )
    assert starting.explain_hidden_progress(MM2)
    assert InputVisibility(replace(EMPTY_SNAPSHOT, ready=True)).explain_hidden_progress(MM2) is None
    ready = replace(EMPTY_SNAPSHOT, ready=True, topology=Topology((), (FLOW,)))
    live, late = (replace(ready, inputs=(heard(SYNCS, live=live),)) for live in (True, False))
    assert InputVisibility(live).explain_hidden_progress(MM2) is None
    why = InputVisibility(late).explain_hidden_progress(MM2)
    assert why is not None
    assert why.startswith(f"topic {SYNCS.input} cannot be read: ")
