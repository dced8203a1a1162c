"""What tells one life of a connector from another, and what others asked of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from offsetwatch.model.connectors import DELETED, ConnectorKind, StateChange, StateHistory
from offsetwatch.model.findings import FailureRun, Judgement, Scope, Verdict
from offsetwatch.remedy.gather.facts_collector import count_ineffective_restarts
from offsetwatch.remedy.gather.snapshot_queries import (
    RemediationCase,
    StatePin,
    compare_state,
    compute_incarnation,
    find_similar_failures,
    find_skipped_record,
    find_state_changes,
    has_healthy_sibling,
    parse_version,
    pin_state,
)
from offsetwatch.remedy.locate.search import IdentifiedRecord
from offsetwatch.remedy.model.fleet_state import ConnectorRestart, FleetState
from offsetwatch.remedy.model.plan import Action, PartitionOffset
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    ConnectorListView,
    ConnectorView,
    Snapshot,
)
from tests.changed import replace
from tests.unit.remedy.plans import PARTITION, POISON, skip_of

RUNS = StateChange(1.0, "running", worker="a:8083", generation=3)
LET_GO = StateChange(2.0, "unassigned", worker="a:8083", generation=3)
GONE = StateChange(3.0, DELETED)
BACK = replace(RUNS, at=4.0)
BEGUN = StateChange(4.0, "unassigned", worker="b:8083", generation=4)


def build_snapshot(*changes: StateChange, deleted_at: dict[str, float] | None = None) -> Snapshot:
    lists = ConnectorListView("lab", 0.0, (None, None), (), (), deleted_at=deleted_at or {})
    history = StateHistory("lab", "files", None, changes)
    return replace(EMPTY_SNAPSHOT, histories=(history,) if changes else (), lists=(lists,))


def read_incarnation(snapshot: Snapshot) -> str:
    return compute_incarnation(snapshot, ("lab", "files"))


def compare_pin(snapshot: Snapshot) -> StatePin | None:
    pin = pin_state("running", (RUNS,))
    return compare_state(pin, "running", find_state_changes(snapshot, ("lab", "files")))


@pytest.mark.parametrize("changes", [(RUNS, GONE), (RUNS, GONE, BACK), (GONE,)])
def test_a_status_that_is_taken_back_alone_ends_no_life(changes):
    assert read_incarnation(build_snapshot(*changes)) == read_incarnation(build_snapshot(RUNS))


def test_a_worker_that_let_go_before_reports_a_deletion():
    incarnations = {
        read_incarnation(build_snapshot(RUNS)),
        read_incarnation(build_snapshot(RUNS, LET_GO, GONE, BEGUN)),
    }
    incarnations.add(
        read_incarnation(build_snapshot(RUNS, LET_GO, GONE, BEGUN, LET_GO, replace(GONE, at=9.0)))
    )
    assert len(incarnations) == 3


def test_lists_that_agree_report_a_deletion():
    assert read_incarnation(build_snapshot(RUNS, deleted_at={"files": 7.0})) != read_incarnation(
        build_snapshot(RUNS)
    )
    assert read_incarnation(build_snapshot(RUNS, deleted_at={"another": 7.0})) == read_incarnation(
        build_snapshot(RUNS)
    )


def test_a_status_lost_and_written_again_is_no_change_by_another_client():
    assert (
        compare_pin(build_snapshot(RUNS, GONE, BACK))
        == compare_pin(build_snapshot(RUNS, GONE))
        == compare_pin(build_snapshot(RUNS))
    )


@pytest.mark.parametrize(
    "later",
    [(BACK,), (GONE, replace(BACK, worker="b:8083")), (LET_GO, GONE, BACK)],
    ids=["restarted", "elsewhere", "created-again"],
)
def test_another_start_is_a_change_by_another_client(later):
    assert compare_pin(build_snapshot(RUNS, *later)) != compare_pin(build_snapshot(RUNS))


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize(("now", "count"), [(1600.0, 1), (1601.0, 0)])
def test_others_failed_lately_by_when_that_was_read(skew_s, now, count):
    other = FailureRun("lab", "b", 0, "E", "E", 2, 1.0, 1000.0 + skew_s, 1, (), False, 1000.0)
    snapshot = replace(EMPTY_SNAPSHOT, failure_runs=(other,))
    own: Any = SimpleNamespace(runs=(replace(other, connector="a"),))
    case = RemediationCase("lab", "a", Action.SKIP_ONE, incident=own)
    assert len(find_similar_failures(snapshot, case, now) or ()) == count


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize(("restarted_at", "count"), [(900.0, 0), (1100.0, 1)])
def test_a_restart_of_ours_is_without_effect_after_the_last_failure_was_read(
    skew_s, restarted_at, count
):
    """A worker's clock says when that failure was; a restart before it is counted with the run."""
    run = FailureRun("lab", "files", 0, "E", "E", 2, 1.0, 1000.0 + skew_s, 1, (), False, 1000.0)
    incident: Any = SimpleNamespace(
        worst=run, shows=True, key="k", connect_cluster="lab", connector="files"
    )
    for answers, by_hand in (("k", 0), ("", 0), ("another", -count)):
        past = FleetState(
            restarts=[
                ConnectorRestart(restarted_at, ("lab", "files"), answers),
                ConnectorRestart(restarted_at, ("lab", "other"), answers),
            ]
        )
        assert count_ineffective_restarts(past, incident, 2000.0) == count + by_hand


@pytest.mark.parametrize(
    ("version", "parsed"),
    [
        ("4.3.1", (4, 3, 1)),
        ("3.6.0-cp1", (3, 6, 0)),
        ("7.8.0-ccs", (7, 8, 0)),
        ("4.0.0.redhat-00007", (4, 0, 0)),
        ("3.10", (3, 10)),
        ("²", None),
        ("unknown", None),
        ("", None),
    ],
)
def test_a_version_is_its_leading_numbers(version, parsed):
    assert parse_version(version) == parsed


def test_the_record_to_skip_is_the_plans_whatever_a_later_search_finds():
    plan = skip_of()
    fresh = replace(POISON, topic_id="topic-2", offset=POISON.offset + 1)
    identified = IdentifiedRecord(
        fresh,
        PartitionOffset(PARTITION, '{"kafka_offset":8}'),
        PartitionOffset(PARTITION, '{"kafka_offset":9}'),
        "decode",
        "1" * 64,
        9,
    )
    case = RemediationCase("lab", "sink", Action.SKIP_ONE, identified=identified)
    assert find_skipped_record(case) == (fresh, identified.frm, identified.to)
    skipped = find_skipped_record(replace(case, plan=plan))
    assert skipped is not None
    assert skipped[0] == POISON
    assert skipped[1:] == find_skipped_record(replace(case, plan=plan, identified=None))[1:]


@pytest.mark.parametrize(("class_name", "expected"), [("org.example.Sink", True), ("", False)])
def test_only_a_connector_of_the_same_known_class_says_anything_of_the_target(class_name, expected):
    """A config provider may know the class, or Connect leave it out."""
    views = tuple(
        ConnectorView("lab", name, ConnectorKind.SINK, class_name, "1", "running", ())
        for name in ("files", "other")
    )
    ok = Judgement(Scope.CONNECTOR, "lab", "other", "", Verdict.OK, 1, "it commits", 1.0, ())
    snapshot = replace(EMPTY_SNAPSHOT, connectors=views, judgements=(ok,))
    assert has_healthy_sibling(snapshot, ("lab", "files")) is expected
    assert not has_healthy_sibling(snapshot, ("lab", "gone"))
