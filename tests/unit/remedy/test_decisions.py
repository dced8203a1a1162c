"""Who may decide what, when: the fold of a plan's records, and what may be added."""

from __future__ import annotations

import pytest
from offsetwatch.remedy.model.approval import (
    Dossier,
    No,
    Stands,
    abortion,
    approval,
    dossier,
    lapse,
    rejection,
)
from offsetwatch.remedy.model.journal_records import (
    AbortAsked,
    AnyRecord,
    Approved,
    Cause,
    Ended,
    Ending,
    Intended,
    Lapsed,
    Opened,
    Parked,
    Proposed,
    Rejected,
    Resumed,
)

from tests.unit.remedy.plans import skip_of

PLAN = skip_of()
PROPOSED = Proposed(at=1.0, plan=PLAN, mode="propose", expires_at=100.0)
APPROVED = Approved(at=2.0, by="ada", plan_sha256=PLAN.sha256)
OPENED = Opened(at=3.0, plan=PLAN)
PARKED = Parked(at=4.0, ending=Ending.PARKED, cause=Cause.CHANGED, said="look")
ENDED = Ended(at=5.0, ending=Ending.SUCCEEDED, said="done")
RUNNING = (PROPOSED, APPROVED, OPENED)
LIVES: dict[Stands, tuple[AnyRecord, ...]] = {
    Stands.PROPOSED: (PROPOSED,),
    Stands.APPROVED: (PROPOSED, APPROVED),
    Stands.REJECTED: (PROPOSED, Rejected(at=2.0, by="ada", because="no")),
    Stands.EXPIRED: (PROPOSED, Lapsed(at=2.0, void=False, said="no operator approved it")),
    Stands.VOID: (PROPOSED, Lapsed(at=2.0, void=True, said="its incident is over")),
    Stands.RUNNING: RUNNING,
    Stands.PARKED: (*RUNNING, PARKED),
    Stands.ENDED: (*RUNNING, ENDED),
}


def known(*records: AnyRecord) -> Dossier:
    found = dossier(records)
    assert found is not None
    return found


def approved(*records: AnyRecord, **more: object) -> Approved | No:
    said = {"by": "bob", "sha256": PLAN.sha256, "because": "seen", "now": 50.0, **more}
    return approval(records, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize("stands", LIVES)
def test_how_a_plan_stands_its_newest_turn_tells(stands: Stands) -> None:
    found = known(*LIVES[stands])
    assert found.stands is stands
    assert found.at == LIVES[stands][-1].at
    assert found.stands.over is (stands in {Stands.REJECTED, Stands.EXPIRED, Stands.VOID, "ended"})
    assert (found.parked is not None) is (stands is Stands.PARKED)
    assert (found.ended is not None) is (stands is Stands.ENDED)


def test_steps_of_a_plan_change_nothing_of_how_it_stands_but_the_time() -> None:
    found = known(*RUNNING, Intended(at=9.0, index=0, undoing=False))
    assert (found.stands, found.at, found.plan) == (Stands.RUNNING, 9.0, PLAN)


def test_a_plan_that_is_taken_up_is_not_parked_any_more() -> None:
    assert known(*RUNNING, PARKED, Resumed(at=6.0)).parked is None
    assert known(*RUNNING, PARKED, ENDED).parked is None
    assert known(*RUNNING, PARKED, Resumed(at=6.0)).stands is Stands.RUNNING


def test_what_was_said_last_is_kept() -> None:
    assert [known(*LIVES[at]).said for at in LIVES] == [
        "",
        "",
        "no",
        "no operator approved it",
        "its incident is over",
        "",
        "look",
        "done",
    ]
    assert (known(*RUNNING).approved_by, known(*LIVES[Stands.REJECTED]).rejected_by) == (
        "ada",
        "ada",
    )


def test_a_plan_of_the_toolbox_runs_without_a_proposal_and_never_lapses() -> None:
    found = known(OPENED)
    assert (found.stands, found.proposed, found.expires_at) == (Stands.RUNNING, None, None)
    assert known(PROPOSED).expires_at == 100.0


def test_of_a_plan_without_a_beginning_nothing_is_known() -> None:
    assert dossier((APPROVED, ENDED)) is None
    assert approved() is No.UNKNOWN
    assert rejection((), by="bob", because="no", now=50.0) is No.UNKNOWN
    assert lapse((), void=False, said="late", now=50.0) is No.UNKNOWN
    assert abortion((), by="bob", because="no", now=50.0) is No.UNKNOWN


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, None, id="in-time"),
        pytest.param({"now": 99.0}, None, id="at-the-last-moment"),
        pytest.param({"now": 100.0}, No.EXPIRED, id="too-late"),
        pytest.param({"sha256": "0" * 64}, No.STALE, id="another-plan"),
        pytest.param({"by": PLAN.created_by}, No.OWN_PROPOSAL, id="its-own-author"),
        pytest.param(
            {"by": PLAN.created_by, "second_person": False}, None, id="one-person-will-do"
        ),
    ],
)
def test_exactly_the_plan_that_was_seen_is_approved_in_time_by_somebody_else(
    more: dict[str, object], expected: No | None
) -> None:
    by, now = str(more.get("by", "bob")), float(str(more.get("now", 50.0)))
    yes = Approved(at=now, by=by, plan_sha256=PLAN.sha256, because="seen")
    assert approved(PROPOSED, **more) == (expected or yes)


@pytest.mark.parametrize("stands", [at for at in LIVES if at is not Stands.PROPOSED])
def test_only_what_is_proposed_is_approved(stands: Stands) -> None:
    expected = No.EXPIRED if stands is Stands.EXPIRED else No.DECIDED
    assert approved(*LIVES[stands]) is expected


@pytest.mark.parametrize("stands", LIVES)
def test_what_has_not_begun_is_rejected_or_lapses(stands: Stands) -> None:
    no = rejection(LIVES[stands], by="bob", because="no", now=50.0)
    late = lapse(LIVES[stands], void=True, said="over", now=50.0)
    if stands in {Stands.PROPOSED, Stands.APPROVED}:
        assert no == Rejected(at=50.0, by="bob", because="no")
        assert late == Lapsed(at=50.0, void=True, said="over")
    else:
        assert (no, late) == (No.DECIDED, No.DECIDED)


@pytest.mark.parametrize("stands", LIVES)
def test_what_runs_is_asked_to_go_back_once(stands: Stands) -> None:
    asked = abortion(LIVES[stands], by="bob", because="no", now=50.0)
    if stands is not Stands.RUNNING:
        assert asked is No.NOT_RUNNING
        return
    assert asked == AbortAsked(at=50.0, by="bob", because="no")
    again = (*LIVES[stands], asked)
    assert known(*again).abort == asked
    assert abortion(again, by="eve", because="no", now=60.0) is No.DECIDED
