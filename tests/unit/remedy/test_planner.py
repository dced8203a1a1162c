from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from offsetwatch.config.schema.remediation import RemedyConfig
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.topology import SinkGroup, Topology
from offsetwatch.remedy.classify import Failure, FailureKind
from offsetwatch.remedy.gather.snapshot_queries import RemediationCase
from offsetwatch.remedy.locate.recommendations import (
    DECLARE_SAFE,
    ERRANT_RECORDS,
    ONE_AT_A_TIME,
    SINK_SETTINGS,
)
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.planner import CaseEvaluation, Planner
from offsetwatch.remedy.policy_settings import build_policy
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView

SINKS = replace(
    EMPTY_SNAPSHOT, topology=Topology((), (), sinks=(SinkGroup("lab", "c", "connect-c", "east"),))
)


def build_planner(*, failures, snapshot):
    return Planner(
        client_of=lambda name: None,
        collector=SimpleNamespace(failures=lambda incident: failures),
        locator=None,
        snapshot=lambda: snapshot,
        policy=build_policy(RemedyConfig()),
        quarantine="q",
        state_dir=Path("/nowhere"),
        clock=lambda: 1.0,
    )


def build_case(kind):
    incident = Incident("key", IncidentKind.FAILED, "lab", "c", "found", "said", 1.0, ())
    failure = Failure(kind, "put", ("java.sql.SQLException",), "0" * 16, "unknown", None)
    return RemediationCase("lab", "c", Action.RESTART_FAILED, incident=incident, failure=failure)


@pytest.mark.parametrize(
    ("kind", "failures", "snapshot", "recommended"),
    [
        pytest.param(FailureKind.UNKNOWN, 3, SINKS, True, id="over-and-over"),
        pytest.param(FailureKind.UNKNOWN, 1, SINKS, False, id="once"),
        pytest.param(FailureKind.CONNECTIVITY, 3, SINKS, False, id="it-passes"),
        pytest.param(FailureKind.UNKNOWN, 3, EMPTY_SNAPSHOT, False, id="no-sink"),
    ],
)
def test_what_may_help_a_sink_is_said_where_its_exception_may_mean_anything(
    monkeypatch, kind, failures, snapshot, recommended
):
    """A driver of a database throws the same class for a bad row and for a broken connection."""
    planner = build_planner(failures=failures, snapshot=snapshot)
    monkeypatch.setattr(planner, "_evaluate", lambda case, **_: CaseEvaluation(case.action, None))
    expected = (ERRANT_RECORDS, ONE_AT_A_TIME, DECLARE_SAFE) if recommended else ()
    assert planner.evaluate_case(build_case(kind)).recommend == expected


def test_a_sink_without_skips_is_not_advised_to_take_one_record_at_a_time(monkeypatch):
    name = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
    view = ConnectorView("lab", "c", ConnectorKind.SINK, name, "1", "failed", ())
    snapshot = replace(SINKS, connectors=(view,))
    planner = build_planner(failures=3, snapshot=snapshot)
    monkeypatch.setattr(planner, "_evaluate", lambda case, **_: CaseEvaluation(case.action, None))
    recommended = planner.evaluate_case(build_case(FailureKind.UNKNOWN)).recommend
    assert recommended == (SINK_SETTINGS[name],)
