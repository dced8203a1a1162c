"""An expectation that is not met is told, whichever way it is not met."""

from __future__ import annotations

import pytest

from offsetwatch.model.findings import Judgement, Scope, Severity, Verdict
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.scenarios.expectation import History, mistakes
from tests.scenarios.script import BEGINNING, ScriptError, moments, rate, seconds
from tests.scenarios.world import World
from tests.unit.notify.findings import LOST, STUCK

MINUTE = 60.0


def judged(verdict: Verdict, scope: Scope = Scope.CONNECTOR, subject: str = "") -> Judgement:
    return Judgement(
        scope=scope,
        connect_cluster="lab",
        connector="west->east",
        subject=subject,
        verdict=verdict,
        rule=1,
        reason="",
        since=0.0,
    )


@pytest.fixture
def history() -> History:
    """LOST from 5m to 8m, and for good from 20m; STUCK never."""
    built = History()
    for minute in range(30):
        statuses = (LOST,) if 5 <= minute < 8 or minute >= 20 else ()
        verdict = Verdict.SILENT if 10 <= minute < 12 else Verdict.OK
        built.record(
            replace(
                EMPTY_SNAPSHOT,
                at=BEGINNING + minute * MINUTE,
                findings=statuses,
                judgements=(judged(verdict), judged(Verdict.IDLE, Scope.PARTITION, "orders-3")),
            )
        )
    return built


TWICE = [
    {"finding": "mm2_records_lost", "comes": "4m..6m", "goes": "8m..9m", "subject": "orders-3"},
    {"finding": "mm2_records_lost", "comes": "20m", "severity": "critical", "says": ["100 to 150"]},
]


def test_what_was_found_as_expected_is_no_mistake(history):
    assert list(mistakes({"found": TWICE}, history)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"finding": "sink_stuck"},
        {"comes": "6m..7m"},
        {"goes": "9m..10m"},
        {"subject": "orders-4"},
        {"connector": "another"},
        {"cluster": "another"},
        {"severity": "info"},
        {"says": "what it does not"},
        {"times": 2},
    ],
    ids=str,
)
def test_what_was_not_found_as_expected_is_reported(history, change):
    result = list(mistakes({"found": [{**TWICE[0], **change}, TWICE[1]]}, history))
    assert any(name.startswith("found[0]") for name in result)


def test_a_finding_that_should_have_stayed_or_gone_is_reported(history):
    stays = {key: TWICE[0][key] for key in ("finding", "comes")}
    goes = {**TWICE[1], "goes": "25m..29m"}
    assert len(list(mistakes({"found": [stays, goes]}, history))) == 2


def test_what_was_not_expected_is_reported_unless_it_is_tolerated(history):
    assert len(list(mistakes({"found": TWICE[:1]}, history))) == 1
    assert len(list(mistakes({}, history))) == 2
    assert list(mistakes({"tolerated": ["mm2_records_lost"]}, history)) == []


def test_a_severity_that_it_once_had_counts(history):
    history.record(
        replace(
            EMPTY_SNAPSHOT,
            at=BEGINNING + 30 * MINUTE,
            findings=(replace(LOST, severity=Severity.INFO),),
        )
    )
    assert list(mistakes({"found": TWICE}, history)) == []


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        ({"of": "west->east", "at": "1m..9m", "is": "ok"}, True),
        ({"of": "west->east", "at": "10m..11m", "is": "silent"}, True),
        ({"of": "west->east", "at": "9m..11m", "is": "ok"}, False),
        ({"of": "west->east", "at": "11m..12m1s", "is": "silent"}, False),
        ({"of": "west->east", "at": "9m..11m", "is": ["ok", "silent"]}, True),
        ({"of": "west->east orders-3", "at": "0s..29m", "is": "idle"}, True),
        ({"of": "nobody", "at": "5m", "is": "ok"}, False),
        ({"of": "west->east", "cluster": "other", "at": "5m", "is": "ok"}, False),
    ],
)
def test_a_verdict_is_searched_for_where_it_is_expected(history, expected, right):
    result = list(mistakes({"tolerated": ["mm2_records_lost"], "verdicts": [expected]}, history))
    assert (result == []) == right


def test_a_verdict_that_must_never_be_is_reported(history):
    reports = {"tolerated": ["mm2_records_lost"], "never": [{"verdict": ["silent", "stalled"]}]}
    assert len(list(mistakes(reports, history))) == 1


@pytest.mark.parametrize(
    "report",
    [
        {"finds": []},
        {"found": [{"finding": "sink_stuk", "comes": "1m"}]},
        {"found": [{"finding": "sink_stuck", "comes": "1m", "went": "2m"}]},
        {"found": [{"finding": "sink_stuck", "comes": "2m..1m"}]},
        {"found": [{"finding": "sink_stuck", "comes": "soon"}]},
        {"tolerated": ["sink_stuk"]},
    ],
    ids=str,
)
def test_an_expectation_that_means_nothing_is_refused(history, report):
    with pytest.raises(ScriptError):
        list(mistakes(report, history))


def world(**report) -> World:
    return World({"lasts": "1m", **report})


@pytest.mark.parametrize(
    "report",
    [
        {"topic": {}},
        {"lasts": "soon"},
        {"topics": {"west/a": {"lode": "1/s"}}},
        {"topics": {"west/a": {"load": "fast"}}},
        {"connectors": {"a": {}}},
        {"connectors": {"a": {"reads": {}, "evry": "1s"}}},
        {"happens": [{"at": "1s"}]},
        {"happens": [{"at": "1s", "explode": "a"}]},
    ],
    ids=str,
)
def test_a_world_that_means_nothing_is_refused(report):
    with pytest.raises(ScriptError):
        world(**report)


def test_lengths_rates_and_moments():
    assert [seconds(text) for text in ("30s", "1h30m", "8d", "0.5m")] == [30, 5400, 691_200, 30]
    assert [rate(text) for text in ("20/s", "3/m", "36/h")] == [20, 0.05, 0.01]
    assert moments("1m..2m") == (60, 120)
    assert moments("5m") == (300, 300)
    assert STUCK.severity is Severity.WARNING  # what the findings above are told apart by
