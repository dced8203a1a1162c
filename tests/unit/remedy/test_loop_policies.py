"""The configuration of remedies is edited while there is a plan: the daemon goes on under the new
one, as another process that finds what the one before has left.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsetwatch.remedy.model.journal_records import ActionRefused
from offsetwatch.remedy.model.plan import Action, PlanStatus
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode
from tests.contract.worlds import SINK_NAME, TOPIC, numbers, state
from tests.unit.remedy.loops import ENDED, POLICY, VOID, Agency
from tests.unit.remedy.test_loop import failing, only

STRICTER = replace(POLICY, failures=3)
OBSERVE = replace(POLICY, mode=Mode.OBSERVE)
PATCH = f"PATCH /connectors/{SINK_NAME}/offsets"
PAUSES = 24  # of a skip, in each of which a process may end


class Gone(Exception):
    """The process is."""


@pytest.fixture
def agency(tmp_path: Path) -> Agency:
    return Agency(tmp_path)


def edited(agency: Agency, policy: Policy) -> None:
    agency.ledger.journal.close()
    agency.policy = policy
    agency.hired()


def carry_out_up_to(agency: Agency, last: int) -> None:
    """What is approved, until the process ends in this pause."""
    remaining = iter(range(last))

    def pause(seconds: float) -> None:
        agency.wait(seconds)
        if next(remaining, None) is None:
            raise Gone

    agency.agent._executor._lifetime = agency.agent._executor._lifetime._replace(pause=pause)
    agency.go_on(5)


def committed(agency: Agency) -> int:
    return agency.connect.broker.group(f"connect-{SINK_NAME}").offsets[TOPIC, 0]


def test_what_was_proposed_under_another_policy_is_taken_back_and_planned_again(agency):
    failing(agency, 3)
    agency.go_on(3)
    before = only(agency, PlanStatus.PROPOSED).plan
    edited(agency, STRICTER)
    agency.go_on(3)
    assert only(agency, VOID).plan == before
    after = only(agency, PlanStatus.PROPOSED).plan
    assert after.remedy.policy_sha256 == STRICTER.sha256 != before.remedy.policy_sha256
    assert agency.changes() == []


def test_what_the_new_policy_does_not_allow_is_not_proposed_again(agency):
    failing(agency)
    agency.go_on(3)
    edited(agency, STRICTER)
    agency.go_on(3)
    assert only(agency, VOID).plan.remedy.policy_sha256 == POLICY.sha256
    proposed = [result.plan.remedy.action for result in agency.dossiers(PlanStatus.PROPOSED)]
    assert Action.SKIP_ONE not in proposed


@pytest.mark.parametrize("policy", [STRICTER, OBSERVE], ids=["stricter", "observe"])
def test_what_was_approved_under_another_policy_does_not_begin(agency, policy):
    failing(agency, 3)
    agency.go_on(3)
    approved = only(agency, PlanStatus.PROPOSED).plan
    agency.approve(approved.plan_id)
    edited(agency, policy)
    agency.go_on(30)
    assert only(agency, VOID).plan == approved
    assert agency.changes() == []
    refused = [
        item.record
        for item in agency.ledger.journal.tail(100)
        if type(item.record) is ActionRefused
    ]
    assert any(answer.guard == "same_policy" for item in refused for answer in item.answers)


@pytest.mark.parametrize("pause", range(PAUSES))
def test_what_is_under_way_comes_to_a_safe_end_and_alters_nothing_more(agency, pause):
    bad = failing(agency, 3)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    with pytest.raises(Gone):
        carry_out_up_to(agency, pause)
    altered, count = PATCH in agency.changes(), len(agency.changes())
    edited(agency, OBSERVE)
    agency.go_on(5)
    assert PATCH not in agency.changes()[count:]
    assert agency.dossiers(PlanStatus.RUNNING) == []
    ended = only(agency, ENDED)
    assert ended.ended.ending is (PlanStatus.SUCCEEDED if altered else PlanStatus.RESTORED)
    assert state(agency.connect, SINK_NAME)[0] == "RUNNING"
    if altered:
        assert bad not in numbers(agency.connect, SINK_NAME)
        assert [row.offset for row in agency.ledger.copied] == [bad]
    else:
        assert committed(agency) == bad
    agency.ledger.journal.verify()


def test_a_plan_has_pauses_before_and_after_it_alters(agency):
    """Or the test above would prove nothing."""
    failing(agency, 3)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    observed = []

    def pause(seconds: float) -> None:
        agency.wait(seconds)
        observed.append(PATCH in agency.changes())

    agency.agent._executor._lifetime = agency.agent._executor._lifetime._replace(pause=pause)
    agency.go_on(5)
    assert {False, True} == set(observed)
    assert len(observed) == PAUSES
