"""What a verdict is told with: the numbers that it rests on."""

from __future__ import annotations

from collections import Counter

import pytest

from offsetwatch.decode.source_offsets import decode_value
from offsetwatch.formatting import format_moment
from offsetwatch.judge.progress import cases
from offsetwatch.judge.progress.observation_window import ObservationWindow
from offsetwatch.judge.progress.subjects import JudgedPartition
from offsetwatch.judge.progress.verdict_rules import VerdictCase, decide_verdict
from offsetwatch.model.findings import EvidenceItem, Judgement, Scope, Verdict
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
)
from tests.changed import replace
from tests.evidence import pairs, texts
from tests.scenarios.steadiness import APART_S, FIRST, unsteady
from tests.unit.judge.findings.test_finding_rules import FOUND
from tests.unit.judge.judged_snapshots import JudgedSnapshots, connector, read, silent
from tests.unit.judge.observed_rewinds import BEGAN
from tests.unit.judge.progress.test_verdict_rules import TABLE
from tests.unit.judge.test_input_visibility import GROUPS_INPUT, REST, heard

NOW = 1_800_000_000.0

MIRROR = MirrorPartitionView(
    connect_cluster="lab",
    connector="mm2",
    source="west",
    target="east",
    topic="orders",
    partition=0,
    committed=90,
    committed_at=NOW,
    synced=None,
    replicated=90,
    log_start=0,
    log_end=101,
    lag=10,
    ahead=0,
)
SINK = SinkPartitionView(
    connect_cluster="lab",
    connector="out",
    topic="orders",
    partition=0,
    committed=7,
    log_end=12,
    lag=5,
)


def offset(text: bytes) -> SourceOffset:
    value = decode_value(text)
    assert isinstance(value, SourceOffset)
    return value


SOURCE = SourcePartitionView(
    connect_cluster="lab",
    connector="files",
    identity='{"filename":"/data/in.txt"}',
    label="filename=/data/in.txt",
    dialect="unknown",
    offset=offset(b'{"position":3}'),
    kafka_partition=0,
    log_offset=5,
    committed_at=NOW + 30.9,
    advanced_at=NOW + 10.9,
    commits=4,
    advances=2,
    rewinds=0,
    resets=0,
    variants=0,
)


def build_evidence(*, window: ObservationWindow | None = None, **views) -> dict[str, str]:
    """What stands in it, without the states, which always do."""
    looked = ObservationWindow(first_w=0.0, last_w=0.0, still_w=0.0) if window is None else window
    subject = JudgedPartition(key=("lab", "any", "at"), label="at", window=looked, **views)
    *result, states = cases.build_partition_evidence(subject, "1 running")
    assert states == EvidenceItem("states", "1 running")
    return texts(tuple(result))


def test_a_partition_without_observations_has_its_states_alone():
    nothing = JudgedPartition(key=("lab", "files", "at"), label="at", source=SOURCE)
    assert cases.build_partition_evidence(nothing, "1 failed") == (
        EvidenceItem("states", "1 failed"),
    )


def test_a_replicated_partition_is_reported_with_the_position_that_its_lag_is_of():
    assert build_evidence(mirror=MIRROR) == {
        "position": "90",
        "log end": "101",
        "lag": "10 records",
    }
    known = replace(MIRROR, lag_position=91, lag=9)
    assert build_evidence(mirror=known) == {"position": "91", "log end": "101", "lag": "9 records"}


def test_a_replicated_partition_without_a_log_end_is_reported_with_its_position():
    assert build_evidence(mirror=replace(MIRROR, replicated=None, log_end=None, lag=None)) == {
        "position": "none"
    }


def test_a_sinks_partition_is_reported_with_the_next_record_that_it_reads():
    assert build_evidence(sink=True, read=SINK) == {
        "position": "7",
        "log end": "12",
        "lag": "5 records",
    }


@pytest.mark.parametrize(("caught_up", "waits"), [(True, "no"), (False, "yes"), (None, None)])
def test_whether_what_lags_can_be_read_is_reported_where_it_is_known(caught_up, waits):
    assert (
        build_evidence(mirror=replace(MIRROR, caught_up=caught_up)).get("readable records wait")
        == waits
    )


def test_without_lag_the_evidence_has_no_readable_records():
    assert "readable records wait" not in build_evidence(
        mirror=replace(MIRROR, lag=0, caught_up=True)
    )


def test_since_when_the_oldest_record_waits_is_reported():
    waiting = replace(MIRROR, behind_since=NOW)
    assert build_evidence(mirror=waiting)["oldest record waits since"] == format_moment(NOW)


@pytest.mark.parametrize("views", [{"mirror": MIRROR}, {"read": SINK, "sink": True}])
def test_a_position_that_went_back_is_reported_with_the_furthest_one(views):
    window = ObservationWindow(first_w=0.0, last_w=0.0, still_w=0.0, position=90, high=120)
    assert window.behind
    assert build_evidence(window=window, **views)["went back from"] == "120"
    ahead = ObservationWindow(first_w=0.0, last_w=0.0, still_w=0.0, position=120, high=120)
    assert "went back from" not in build_evidence(window=ahead, **views)


def test_a_source_is_reported_with_its_offset_and_the_seconds_of_its_last_commit_and_advance():
    assert build_evidence(source=SOURCE) == {
        "offset": '{"position":3}',
        "last commit": format_moment(NOW + 30),
        "last advance": format_moment(NOW + 10),
    }


def test_a_source_that_has_no_offset_or_went_back_is_reported_so():
    never = replace(SOURCE, offset=None, committed_at=None, advanced_at=None)
    assert build_evidence(source=never) == {}
    window = ObservationWindow(first_w=0.0, last_w=0.0, still_w=0.0, furthest='{"position":9}')
    assert build_evidence(window=window, source=SOURCE)["went back from"] == '{"position":9}'


def test_commits_that_say_the_same_are_counted():
    window = ObservationWindow(first_w=0.0, last_w=0.0, still_w=0.0, repeats=3)
    assert build_evidence(window=window, source=SOURCE)["commits of the same offset"] == "3 times"
    assert "commits of the same offset" not in build_evidence(source=SOURCE)


def test_a_replicated_partition_is_reported_with_its_commits_times_as_well():
    assert build_evidence(mirror=MIRROR, source=SOURCE)["last advance"] == format_moment(NOW + 10)


def test_of_many_partitions_the_worst_verdicts_come_first_and_the_worst_of_them_with_its_own():
    counts = Counter({Verdict.OK: 7, Verdict.STALLED: 2})
    assert pairs(cases.build_summary_evidence(counts, None)) == [
        ("stalled", "2 partitions"),
        ("ok", "7 partitions"),
    ]
    lag = EvidenceItem("lag", 10, "records")
    assert cases.build_summary_evidence(counts, ("orders-0", (lag,)))[2:] == (
        EvidenceItem("for instance", "orders-0"),
        lag,
    )


def test_of_no_partition_it_says_none():
    assert pairs(cases.build_summary_evidence(Counter(), None)) == [("partitions", "0 partitions")]


# --- steady texts --------------------------------------------------------------------------------

LATER_S = 600.0
HIDDEN = {"inputs": (REST, heard(GROUPS_INPUT.id, live=False)), "sink_partitions": ()}
IDS = [play.__name__ for _, play, _ in FOUND]


@pytest.mark.parametrize("played", [play for _, play, _ in FOUND], ids=IDS)
def test_a_finding_says_the_same_ten_minutes_later(played):
    play = played()
    assert play.findings

    def judged(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, findings=play.register.found(snapshot))

    assert unsteady(judged, play.snapshot()) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=words) for _, _, words, case in TABLE])
def test_a_verdict_gives_the_same_reason_ten_minutes_later(case: VerdictCase):
    """Whatever is counted in seconds has gone on, and nothing else has changed."""
    later = case._replace(
        w=case.w + LATER_S,
        clock=lambda w: BEGAN + w,
        **{
            name: length + LATER_S
            for name in LENGTHS
            if (length := getattr(case, name)) is not None
        },
    )
    before, after = decide_verdict(case._replace(clock=later.clock)), decide_verdict(later)
    assert before is not None
    if after is not None and after.rule == before.rule:
        assert after.reason == before.reason


LENGTHS = (
    "why_s",
    "failed_s",
    "watched_s",
    "still_s",
    "moved_s",
    "waiting_s",
    "end_still_s",
    "repeated_s",
)


def test_verdicts_of_what_stands_still_say_the_same_ten_minutes_later():
    bad = connector("pond", state="failed", tasks=())
    judge = JudgedSnapshots(read("lake", 10), read("pond", 10), read("pool", 1000)).judge(9)
    judge.judge(1, connectors=(connector("lake"), bad, connector("pool")))

    def judged(snapshot: Snapshot) -> Snapshot:
        return replace(snapshot, judgements=judge.progress.judgements(snapshot))

    assert {judgement.verdict for judgement in judged(judge.snapshot).judgements} >= {
        Verdict.SILENT,
        Verdict.IDLE,
    }
    assert unsteady(judged, judge.snapshot) == []


def test_a_stall_is_dated_alike_before_and_after_a_restart_a_jump_and_a_clock_set_back():
    judge = silent(read("pond", 1000))
    began = judge.of("lake").reason
    judge.restart()
    for later_s in (60.0, 7200.0, -3600.0, 60.0):
        judge.tick(later_s)
        assert judge.of("lake").reason == began


@pytest.mark.parametrize("polls", [2, 5, 40])
def test_a_stall_is_dated_alike_before_and_after_its_input_was_unavailable(polls):
    judge = silent(read("pond", 1000))
    began = {name: judge.judge(9).of(name) for name in ("lake", "pond")}
    for _ in range(4):
        judge.judge(polls, **HIDDEN)
        assert judge.verdict("lake") is Verdict.UNKNOWN
        judge.tick(60.0, read("lake", 10), read("pond", 1000), inputs=(REST, GROUPS_INPUT))
        for name, before in began.items():
            now = judge.of(name)
            assert (now.verdict, now.reason, now.since) == (
                before.verdict,
                before.reason,
                before.since,
            )
        judge.restart()


def test_what_moved_while_its_input_was_unavailable_stands_still_since_then_at_most():
    judge = silent()
    hidden_at = judge.now
    judge.judge(9, **HIDDEN)
    judge.tick(60.0, read("lake", 20), inputs=(REST, GROUPS_INPUT))
    assert judge.verdict("lake") is Verdict.OK
    judge.judge(4)
    assert judge.verdict("lake") is Verdict.SILENT
    since = judge.of("lake").reason.partition("since ")[2].partition(",")[0]
    assert format_moment(hidden_at) < since <= format_moment(judge.now - 4 * 60.0)


def test_an_age_and_a_count_of_polls_are_observed_to_be_unsteady():
    """So that the other tests here can fail."""

    def aged(snapshot: Snapshot) -> Snapshot:
        judgement = Judgement(
            Scope.CONNECTOR, "lab", "files", "", Verdict.SILENT, 5, f"for {snapshot.at}", BEGAN
        )
        return replace(snapshot, judgements=(judgement,))

    (first, *_) = unsteady(aged, EMPTY_SNAPSHOT)
    assert first.endswith(f"'for {FIRST * APART_S}', 'for {(FIRST + 1) * APART_S}'")
