"""When rules are asked, what of their answers is kept, and for how long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsetwatch.judge.findings import register
from offsetwatch.judge.findings.register import LAST_SEEN, UNAVAILABLE_S_MAX, FindingsRegister
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import EvidenceItem, Finding, FindingName, Severity
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.unit.judge.observed_rewinds import BEGAN
from tests.unit.judge.test_input_visibility import FILES, GROUPS_INPUT, READ, REST, heard

SETTINGS = JudgeSettings(interval_s=60.0)
ILL = replace(FILES, tasks=(Task(0, "failed"),))
STOPPED = replace(FILES, state="stopped", tasks=())  # which ends a failure at once
DEAD = (heard(REST.id, live=False),)


class FailedConnector:
    """`files` has failed, until it is told otherwise."""

    def __init__(self) -> None:
        self.register = FindingsRegister(SETTINGS)
        self.snapshot: Snapshot = replace(
            EMPTY_SNAPSHOT, at=BEGAN, ready=True, inputs=(REST,), connectors=(ILL,)
        )

    def evaluate(self, after_s: float = 5.0, **changes) -> tuple[Finding, ...]:
        self.snapshot = replace(self.snapshot, at=self.snapshot.at + after_s, **changes)
        return self.register.found(self.snapshot)

    def names(self) -> list[str]:
        return [finding.name.value for finding in self.register.newest]

    def restart(self) -> None:
        report = self.register.remembered()
        assert report is not None
        self.register = FindingsRegister(SETTINGS)
        self.register.recall(report)


@pytest.fixture
def failed() -> FailedConnector:
    return FailedConnector()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> FailedConnector:
    """One rule says that a task has failed whatever is seen, and when and in how much."""

    def rule(context: RuleContext) -> Iterator[Finding]:
        yield context.found(
            FindingName.TASK_FAILED,
            Severity.WARNING,
            ("lab", "files"),
            "So it is.",
            evidence=(
                EvidenceItem(
                    "now",
                    f"{context.now - BEGAN}, "
                    f"{sum(view.live for view in context.snapshot.inputs)} live",
                ),
            ),
        )

    monkeypatch.setattr(register, "RULES", ((6, rule),))
    return FailedConnector()


def test_the_register_is_empty_before_the_first_snapshot(failed):
    register = failed.register
    assert (register.urgent, register.newest, register.failure_runs, register.dropped) == (
        False,
        (),
        (),
        (),
    )


@pytest.mark.parametrize(
    ("after_s", "asks"),
    [(0.0, False), (0.5, False), (4.9, False), (5.0, True), (-0.1, True)],
)
def test_rules_are_queried_again_after_a_twelfth_of_an_interval_or_when_a_clock_was_set_back(
    failed, after_s, asks
):
    failed.evaluate(0.0)
    failed.evaluate(after_s, connectors=(STOPPED,))
    assert failed.names() == ([] if asks else ["task_failed"])


def test_rules_are_queried_as_soon_as_another_input_is_read(failed):
    failed.evaluate(0.0, ready=False, awaited=frozenset({READ.id, GROUPS_INPUT.id}))
    failed.evaluate(0.1, connectors=(STOPPED,))
    assert failed.names() == ["task_failed"]
    failed.evaluate(0.1, awaited=frozenset({GROUPS_INPUT.id}))
    assert failed.names() == []


def test_until_everything_is_read_what_was_just_observed_is_not_fixed(failed):
    failed.evaluate(0.0)
    failed.evaluate(0.0, ready=False, connectors=(STOPPED,))
    assert failed.names() == ["task_failed"]


# --- not seen ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_s", "retained"), [(UNAVAILABLE_S_MAX - 1, True), (UNAVAILABLE_S_MAX, False)]
)
def test_what_cannot_be_observed_is_retained_for_less_than_a_day(failed, after_s, retained):
    failed.evaluate(0.0)
    failed.evaluate(after_s, inputs=DEAD, connectors=())
    newests = [item for item in failed.register.newest if item.name is FindingName.TASK_FAILED]
    assert bool(newests) is retained
    assert all((item.since, item.evidence[0].name) == (BEGAN, LAST_SEEN) for item in newests)


@pytest.mark.parametrize(
    ("after_s", "now"),
    [
        pytest.param(0.0, "0.0, 1 live", id="the same moment"),
        pytest.param(UNAVAILABLE_S_MAX - 1, "0.0, 1 live", id="less than a day"),
        pytest.param(UNAVAILABLE_S_MAX, f"{UNAVAILABLE_S_MAX}, 0 live", id="a day"),
        pytest.param(-1.0, "0.0, 1 live", id="a clock set back"),
    ],
)
def test_what_is_said_from_memory_alone_is_as_it_was_last_observed(said, after_s, now):
    (first,) = said.evaluate(0.0)
    assert first.evidence == (EvidenceItem("now", "0.0, 1 live"),)
    (later,) = said.evaluate(after_s, inputs=DEAD, ready=False)
    assert later.evidence[-1] == EvidenceItem("now", now)
    assert (later.evidence[0].name == LAST_SEEN) is (after_s in {UNAVAILABLE_S_MAX - 1, -1.0})
    assert later.since == min(BEGAN, said.snapshot.at)


def test_what_is_observed_and_said_again_is_as_old_as_it_was_and_says_what_is_so_now(said):
    said.evaluate(0.0)
    (later,) = said.evaluate(60.0)
    assert (later.since, later.evidence) == (BEGAN, (EvidenceItem("now", "60.0, 1 live"),))


def test_blindness_begins_again_whenever_it_was_observed_in_between(failed):
    failed.evaluate(0.0)
    for _ in range(3):
        failed.evaluate(UNAVAILABLE_S_MAX - 1, inputs=DEAD, connectors=())
        failed.evaluate(5.0, inputs=(REST,), connectors=(ILL,))
    assert [item.since for item in failed.register.newest] == [BEGAN]


@pytest.mark.parametrize(("inputs", "lasts_s"), [((REST,), 0.0), (DEAD, 120.0)])
def test_what_a_rule_times_is_timed_again_if_it_was_not_so_in_between(inputs, lasts_s, monkeypatch):
    lasted = []

    def rule(context: RuleContext) -> Iterator[Finding]:
        if ILL in context.snapshot.connectors:
            lasted.append(context.lasts("ahead", ("lab", "files")))
        yield from ()

    monkeypatch.setattr(register, "RULES", ((6, rule),))
    request = FailedConnector()
    request.evaluate(0.0)
    request.evaluate(60.0, inputs=inputs, connectors=(STOPPED,))
    request.evaluate(60.0, inputs=(REST,), connectors=(ILL,))
    assert lasted == [0.0, lasts_s]


# --- kept ----------------------------------------------------------------------------------------


def test_what_is_new_is_urgent_until_it_is_remembered(failed):
    failed.evaluate(0.0)
    failed.evaluate()
    assert failed.register.urgent
    failed.register.remembered()
    assert not failed.register.urgent
    failed.evaluate()
    assert not failed.register.urgent
    failed.evaluate(connectors=(STOPPED,))
    failed.evaluate()
    assert failed.register.urgent
    failed.register.remembered()
    failed.evaluate(connectors=(ILL,))
    failed.register.remembered()
    for again in (replace(FILES, tasks=(Task(0, "running"),)), ILL):  # the finding stays the same
        failed.evaluate(connectors=(again,))
        assert failed.register.urgent
        failed.register.remembered()


def test_after_a_restart_there_is_nothing_new_until_something_is(failed):
    failed.evaluate(0.0)
    failed.restart()
    assert failed.register.remembered() is None
    failed.evaluate(0.0)
    assert (failed.register.urgent, failed.register.remembered()) == (False, None)
    failed.evaluate(60.0, connectors=(STOPPED,))
    assert failed.names() == []
    assert failed.register.urgent
    assert failed.register.remembered() is not None


def test_what_is_cut_is_counted_each_time_it_comes(monkeypatch, failed):
    monkeypatch.setattr(register, "FINDINGS_MAX", 1)
    other = replace(ILL, name="other")
    for number in (1, 2):
        failed.evaluate(connectors=(ILL, other))
        failed.evaluate()
        assert failed.register.dropped == (("findings_max", number),)
        failed.evaluate(connectors=(ILL,))
        assert failed.register.dropped == (("findings_max", number),)
