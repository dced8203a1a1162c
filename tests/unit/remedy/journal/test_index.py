"""What the fold of the journal keeps in memory: of plans that are over, their number alone."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.journal_records import (
    PlanApproved,
    PlanEnded,
    PlanFailureCause,
    PlanLapsed,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
)
from offsetwatch.remedy.model.plan import PlanStatus
from tests.unit.remedy.plans import skip_of

AT = 1_800_000_000.0


def proposed(plan_id: str, **more: str) -> PlanProposed:
    return PlanProposed(at=AT, plan=skip_of(plan_id), mode="propose", expires_at=AT + 600.0, **more)


PARKED = PlanParked(at=AT, ending=PlanStatus.PARKED, cause=PlanFailureCause.CHANGED, said="look")

LIVES = {
    "waits": (),
    "rejected": (PlanRejected(at=AT, by="ada", because="no"),),
    "expired": (PlanLapsed(at=AT, void=False, said="no operator approved it"),),
    "void": (PlanLapsed(at=AT, void=True, said="its incident is over"),),
    "approved": (PlanApproved(at=AT, by="ada", plan_sha256="s"),),
    "running": (PlanApproved(at=AT, by="ada", plan_sha256="s"), "opened"),
    "parked": ("opened", PARKED),
    "resumed": ("opened", PARKED, PlanResumed(at=AT)),
    "ended": ("opened", PlanEnded(at=AT, ending=PlanStatus.RESTORED, said="as before")),
}
OVER = {"rejected", "expired", "void", "ended"}


def written(folder: Path, incarnations: list[str]) -> JournalIndex:
    """A journal of plans that each led such a life, read on."""
    ledger = JournalIndex(folder)
    for number, incarnation in enumerate(incarnations):
        plan_id, journal = f"p{number}", ledger.journal
        journal.append(plan_id, [proposed(plan_id)])
        for record in LIVES[incarnation]:
            # Nothing here holds a lock on the connector, of which there is one for all plans.
            opened = PlanOpened(at=AT, plan=skip_of(plan_id))
            journal.append(plan_id, [opened if record == "opened" else record])
            if incarnation not in OVER and record == "opened":
                journal._db.execute("DELETE FROM open_plans")
    ledger.read_on()
    return ledger


@given(lives=st.lists(st.sampled_from(sorted(LIVES)), max_size=8))
def test_every_plan_is_reported_and_only_those_not_over_are_retained(lives, tmp_path_factory):
    ledger = written(tmp_path_factory.mktemp("ledger"), lives)
    try:
        whole = [
            build_plan_history(ledger.journal.records(f"p{number}")) for number in range(len(lives))
        ]
        assert list(ledger.newest()) == whole[::-1]
        assert [ledger.dossier(f"p{number}") for number in range(len(lives))] == whole
        retained = [history for history in whole if not history.status.is_over]
        assert list(ledger.dossiers.values()) == retained
        assert len(lives) - len(retained) == sum(item in OVER for item in lives)
    finally:
        ledger.journal.close()


def test_a_hundred_plans_that_are_over_leave_a_fold_as_small_as_none(tmp_path):
    ledger = written(tmp_path, ["rejected", "expired", "void"] * 33)
    assert ledger.dossiers == {}
    assert ledger.fleet == FleetState(seq=ledger.fleet.seq)
    ledger.journal.close()


def test_a_request_is_known_by_its_key_when_its_plan_is_over(tmp_path):
    ledger = JournalIndex(tmp_path)
    by, no = skip_of().created_by, PlanRejected(at=AT, by="ada", because="no")
    ledger.journal.append("p1", [proposed("p1", key="k"), no])
    ledger.journal.append("p2", [proposed("p2", key="k")])
    ledger.read_on()
    history = ledger.find_request("k", by)
    assert history is not None
    assert (history.plan.plan_id, history.status) == ("p1", PlanStatus.REJECTED)
    assert ledger.find_request("k", by + "?") is None
    assert ledger.find_request("other", by) is None
    ledger.journal.close()


def test_there_is_nothing_to_report_a_plan_that_is_none(tmp_path):
    ledger = JournalIndex(tmp_path)
    assert ledger.dossier("p1") is None
    assert list(ledger.newest()) == []
    ledger.journal.close()
