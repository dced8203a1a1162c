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
from tests.unit.judge.test_input_visibility import ASKED, FILES, READ, REST, heard

SETTINGS = JudgeSettings(interval_s=60.0)
ILL = replace(FILES, tasks=(Task(0, "failed"),))
STOPPED = replace(FILES, state="stopped", tasks=())  # which ends a failure at once
DEAD = (heard(REST.id, live=False),)


class Asked:
    """`files` has failed, until it is told otherwise."""

    def __init__(self) -> None:
        self.register = FindingsRegister(SETTINGS)
        self.snapshot: Snapshot = replace(
            EMPTY_SNAPSHOT, at=BEGAN, ready=True, inputs=(REST,), connectors=(ILL,)
        )

    def look(self, after_s: float = 5.0, **changes) -> tuple[Finding, ...]:
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
def asked() -> Asked:
    return Asked()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Asked:
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
    return Asked()


def test_nobody_was_asked_before_the_first_snapshot(asked):
    register = asked.register
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
def test_rules_are_asked_again_after_a_twelfth_of_an_interval_or_when_a_clock_was_set_back(
    asked, after_s, asks
):
    asked.look(0.0)
    asked.look(after_s, connectors=(STOPPED,))
    assert asked.names() == ([] if asks else ["task_failed"])


def test_rules_are_asked_as_soon_as_another_input_is_read(asked):
    asked.look(0.0, ready=False, awaited=frozenset({READ.id, ASKED.id}))
    asked.look(0.1, connectors=(STOPPED,))
    assert asked.names() == ["task_failed"]
    asked.look(0.1, awaited=frozenset({ASKED.id}))
    assert asked.names() == []


def test_until_everything_is_read_what_was_just_seen_is_not_mended(asked):
    asked.look(0.0)
    asked.look(0.0, ready=False, connectors=(STOPPED,))
    assert asked.names() == ["task_failed"]


# --- not seen ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_s", "retained"), [(UNAVAILABLE_S_MAX - 1, True), (UNAVAILABLE_S_MAX, False)]
)
def test_what_cannot_be_seen_is_kept_for_less_than_a_day(asked, after_s, retained):
    asked.look(0.0)
    asked.look(after_s, inputs=DEAD, connectors=())
    newests = [item for item in asked.register.newest if item.name is FindingName.TASK_FAILED]
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
def test_what_is_said_from_memory_alone_is_as_it_was_last_seen(said, after_s, now):
    (first,) = said.look(0.0)
    assert first.evidence == (EvidenceItem("now", "0.0, 1 live"),)
    (later,) = said.look(after_s, inputs=DEAD, ready=False)
    assert later.evidence[-1] == EvidenceItem("now", now)
    assert (later.evidence[0].name == LAST_SEEN) is (after_s in {UNAVAILABLE_S_MAX - 1, -1.0})
    assert later.since == min(BEGAN, said.snapshot.at)


def test_what_is_seen_and_said_again_is_as_old_as_it_was_and_says_what_is_so_now(said):
    said.look(0.0)
    (later,) = said.look(60.0)
    assert (later.since, later.evidence) == (BEGAN, (EvidenceItem("now", "60.0, 1 live"),))


def test_blindness_begins_anew_whenever_it_was_seen_in_between(asked):
    asked.look(0.0)
    for _ in range(3):
        asked.look(UNAVAILABLE_S_MAX - 1, inputs=DEAD, connectors=())
        asked.look(5.0, inputs=(REST,), connectors=(ILL,))
    assert [item.since for item in asked.register.newest] == [BEGAN]


@pytest.mark.parametrize(("inputs", "lasts_s"), [((REST,), 0.0), (DEAD, 120.0)])
def test_what_a_rule_times_is_timed_anew_if_it_was_not_so_in_between(inputs, lasts_s, monkeypatch):
    lasted = []

    def rule(context: RuleContext) -> Iterator[Finding]:
        if ILL in context.snapshot.connectors:
            lasted.append(context.lasts("ahead", ("lab", "files")))
        yield from ()

    monkeypatch.setattr(register, "RULES", ((6, rule),))
    request = Asked()
    request.look(0.0)
    request.look(60.0, inputs=inputs, connectors=(STOPPED,))
    request.look(60.0, inputs=(REST,), connectors=(ILL,))
    assert lasted == [0.0, lasts_s]


# --- kept ----------------------------------------------------------------------------------------


def test_what_is_new_is_urgent_until_it_is_remembered(asked):
    asked.look(0.0)
    asked.look()
    assert asked.register.urgent
    asked.register.remembered()
    assert not asked.register.urgent
    asked.look()
    assert not asked.register.urgent
    asked.look(connectors=(STOPPED,))
    asked.look()
    assert asked.register.urgent
    asked.register.remembered()
    asked.look(connectors=(ILL,))
    asked.register.remembered()
    for again in (replace(FILES, tasks=(Task(0, "running"),)), ILL):  # the finding stays the same
        asked.look(connectors=(again,))
        assert asked.register.urgent
        asked.register.remembered()


def test_after_a_restart_there_is_nothing_new_until_something_is(asked):
    asked.look(0.0)
    asked.restart()
    assert asked.register.remembered() is None
    asked.look(0.0)
    assert (asked.register.urgent, asked.register.remembered()) == (False, None)
    asked.look(60.0, connectors=(STOPPED,))
    assert asked.names() == []
    assert asked.register.urgent
    assert asked.register.remembered() is not None


def test_what_is_cut_is_counted_each_time_it_comes(monkeypatch, asked):
    monkeypatch.setattr(register, "FINDINGS_MAX", 1)
    other = replace(ILL, name="other")
    for number in (1, 2):
        asked.look(connectors=(ILL, other))
        asked.look()
        assert asked.register.dropped == (("findings_max", number),)
        asked.look(connectors=(ILL,))
        assert asked.register.dropped == (("findings_max", number),)
