"""What may want a remedy, out of what was judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.findings import (
    FailureRun,
    Finding,
    FindingName,
    Judgement,
    Scope,
    Severity,
    Verdict,
)
from offsetwatch.remedy.model.incidents import (
    Incident,
    IncidentKind,
    find_incidents,
    is_target,
)
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, Snapshot

FAILED, RUNNING = "failed", "running"
STALL = FindingName.MM2_SILENT_STALL
HARM = FindingName.REWOUND


def run(task: int | None = 0, count: int = 3, first_at: float = 50.0, **more: object) -> FailureRun:
    messages = {
        "connect_cluster": "lab",
        "connector": "orders",
        "kind": "org.example.Bad",
        "failure": "org.example.Bad in Row.of",
        "last_at": 90.0,
        "restarts": 1,
        "same": (),
        "moved": False,
        **more,
    }
    return FailureRun(task=task, count=count, first_at=first_at, **messages)  # type: ignore[arg-type]


def view(*tasks: str, state: str = RUNNING, name: str = "orders") -> ConnectorView:
    results = tuple(Task(number, answer) for number, answer in enumerate(tasks))
    return ConnectorView("lab", name, ConnectorKind.SINK, "org.example.Sink", "1", state, results)


def finding(name: FindingName, since: float = 10.0, connector: str | None = "orders") -> Finding:
    return Finding(name, Severity.CRITICAL, "lab", connector, "orders-0", "it stands", since)


def build_snapshot(
    *views: ConnectorView, runs: tuple[FailureRun, ...] = (), findings: tuple[Finding, ...] = ()
) -> Snapshot:
    return replace(EMPTY_SNAPSHOT, connectors=views, failure_runs=runs, findings=findings)


def only(snapshot: Snapshot, *stop_on: str) -> Incident:
    (incident,) = find_incidents(snapshot, frozenset(stop_on))
    return incident


def test_of_a_connector_that_fails_the_longest_run_is_reported_and_the_earliest_since_when():
    runs = (run(0, 2, 50.0), run(1, 5, 70.0, failure="worse"), run(2, 3, 60.0))
    incident = only(build_snapshot(view(FAILED, FAILED, FAILED), runs=runs))
    assert (incident.what, incident.finding) == (IncidentKind.FAILED, "task_failed")
    assert (incident.since, incident.worst, incident.runs) == (50.0, runs[1], runs)
    assert incident.said == "worse"


def test_a_connector_that_fails_itself_is_distinguished_from_its_tasks():
    incident = only(build_snapshot(view(state=FAILED), runs=(run(None, failure=""),)))
    assert incident.finding == "connector_failed"
    assert incident.said == "no reason was given"


@pytest.mark.parametrize(
    ("connector", "shows"),
    [
        pytest.param(view(RUNNING, FAILED), True, id="a-task-of-several"),
        pytest.param(view(RUNNING, RUNNING, state=FAILED), True, id="the-connector"),
        pytest.param(view(RUNNING, RUNNING), False, id="just-started-again"),
        pytest.param(view(), False, id="without-tasks"),
    ],
)
def test_what_was_just_started_again_shows_nothing_and_is_in_the_same_trouble(
    connector: ConnectorView, *, shows: bool
) -> None:
    incident = only(build_snapshot(connector, runs=(run(),)))
    assert incident.shows is shows
    assert incident.key == only(build_snapshot(view(FAILED), runs=(run(),))).key
    assert build_snapshot(connector).index.unhealthy == (
        frozenset({("lab", "orders")}) if shows else frozenset()
    )


def test_who_is_unhealthy_is_reported_by_the_connectors_and_by_the_verdicts_of_now():
    well = build_snapshot(view(RUNNING))
    assert well.index.unhealthy == frozenset()
    failed = replace(well, connectors=build_snapshot(view(FAILED)).connectors)
    assert failed.index.unhealthy == {("lab", "orders")}
    assert replace(failed, at=failed.at + 1).index.unhealthy == {("lab", "orders")}
    assert well.index.unhealthy == frozenset()
    silent = Judgement(Scope.CONNECTOR, "lab", "files", "", Verdict.SILENT, 5, "so it is", 1.0)
    assert replace(well, judgements=(silent,)).index.unhealthy == {("lab", "files")}
    fine = replace(silent, connector="more", verdict=Verdict.OK)
    both = replace(failed, judgements=(silent, fine))
    assert both.index.unhealthy == {("lab", "files"), ("lab", "orders")}


def test_trouble_keeps_its_key_while_it_is_the_same():
    key = only(build_snapshot(view(FAILED), runs=(run(),))).key
    assert len(key) == 24
    assert only(build_snapshot(view(FAILED), runs=(run(count=9, last_at=99.0),))).key == key
    assert only(build_snapshot(view(FAILED), runs=(run(first_at=51.0),))).key != key
    assert only(build_snapshot(view(FAILED), runs=(run(kind="org.example.Other"),))).key != key


def test_a_run_of_a_connector_that_is_not_there_any_more_is_nothing():
    assert (
        find_incidents(build_snapshot(view(FAILED, name="other"), runs=(run(),)), frozenset()) == ()
    )


def test_a_stall_is_one_and_another_finding_where_configuration_has_it_stop():
    results = [only(build_snapshot(findings=(finding(STALL),)))]
    results.append(only(build_snapshot(findings=(finding(STALL),)), STALL.value))
    results.append(only(build_snapshot(findings=(finding(HARM),)), HARM.value))
    assert [incident.what for incident in results] == [
        IncidentKind.FROZEN,
        IncidentKind.HARMFUL,
        IncidentKind.HARMFUL,
    ]
    assert all(incident.shows for incident in results)
    assert [incident.finding for incident in results] == [STALL.value, STALL.value, HARM.value]
    assert {(incident.connector, incident.said, incident.since) for incident in results} == {
        ("orders", "it stands", 10.0)
    }
    assert find_incidents(build_snapshot(findings=(finding(HARM),)), frozenset()) == ()


def test_what_is_no_connectors_is_none():
    assert (
        find_incidents(build_snapshot(findings=(finding(STALL, connector=None),)), frozenset())
        == ()
    )


def test_the_oldest_is_reported_first():
    findings = (finding(STALL, 80.0), finding(STALL, 20.0, "m"))
    incidents = find_incidents(
        build_snapshot(view(FAILED), runs=(run(),), findings=findings), frozenset()
    )
    assert [incident.since for incident in incidents] == [20.0, 50.0, 80.0]


def test_trouble_without_a_failure_has_no_longest_run():
    assert only(build_snapshot(findings=(finding(STALL),))).worst is None


@pytest.mark.parametrize(
    ("kind", "class_name", "expected"),
    [
        (ConnectorKind.SINK, "org.example.Sink", True),
        (ConnectorKind.MIRROR, "org.apache.kafka.connect.mirror.MirrorSourceConnector", True),
        (ConnectorKind.MIRROR, "org.apache.kafka.connect.mirror.MirrorCheckpointConnector", False),
        (ConnectorKind.MIRROR, "MirrorHeartbeatConnector", False),
        (ConnectorKind.UNKNOWN, "org.example.Sink", False),
    ],
)
def test_a_remedy_is_for_connectors_with_progress_of_their_own(
    kind: ConnectorKind, class_name: str, *, expected: bool
) -> None:
    assert is_target(kind, class_name) is expected
