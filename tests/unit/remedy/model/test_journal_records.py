"""What the journal says of plans: written in the same bytes each time, and never changed."""

from __future__ import annotations

import msgspec
import pytest

from offsetwatch.remedy.model import journal_records
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    ModeSet,
    PlanApproved,
    PlanEnded,
    PlanFailureCause,
    PlanParked,
    PlanProposed,
    StepAnswered,
    decode_record,
    encode_record,
)
from offsetwatch.remedy.model.plan import PlanStatus
from tests.unit.remedy.plans import plan_of

NOUNS = [
    noun
    for noun in vars(journal_records).values()
    if isinstance(noun, type) and issubclass(noun, msgspec.Struct)
]


def test_nothing_that_was_written_down_is_changed() -> None:
    led = journal_records.LeadershipTaken(at=1.0, name="one")
    assert decode_record(encode_record(led)) == led
    assert [noun.__name__ for noun in NOUNS if not noun.__struct_config__.frozen] == []


def test_a_record_is_written_in_the_bytes_that_it_always_had() -> None:
    assert encode_record(ModeSet(at=1.0, mode=None, by="ada", because="x")) == (
        b'{"record":"mode_set","mode":null,"by":"ada","because":"x","at":1.0}'
    )


def test_what_a_record_may_leave_out_is_empty_or_not_known() -> None:
    plan = plan_of()
    messages = {"plan": msgspec.to_builtins(plan, enc_hook=float), "at": 1.0}
    proposed = {"record": "proposed", "mode": "propose", "expires_at": 2.0, **messages}
    assert decode_record(msgspec.json.encode(proposed)) == PlanProposed(
        at=1.0,
        plan=plan,
        mode="propose",
        expires_at=2.0,
        answers=(),
        because="",
        key="",
        request_sha256="",
    )
    refused = {
        "record": "refused",
        "at": 1.0,
        "incident": "i",
        "connect_cluster": "lab",
        "connector": "orders",
        "action": "stop",
        "mode": "auto",
        "answers": [],
    }
    record = decode_record(msgspec.json.encode(refused))
    assert isinstance(record, ActionRefused)
    assert (record.would, record.recommend) == (False, ())
    assert StepAnswered(at=1.0, answer="ack", said="ok").definite is None  # type: ignore[arg-type]
    assert PlanApproved(at=1.0, by="ada", plan_sha256="s").because == ""
    assert PlanEnded(at=1.0, ending=PlanStatus.SUCCEEDED, said="done").cause is None


@pytest.mark.parametrize("status", PlanStatus)
def test_a_plan_is_ended_and_parked_with_statuses_of_their_own(status: PlanStatus) -> None:
    ended = PlanEnded(at=1.0, ending=PlanStatus.RESOLVED, said="done")
    parked = PlanParked(
        at=1.0, ending=PlanStatus.IN_DOUBT, cause=PlanFailureCause.TIMED_OUT, said="late"
    )
    is_end = status.is_over and status.has_begun
    for record, is_allowed in ((ended, is_end), (parked, status.is_parked)):
        changed = encode_record(record).replace(record.ending.encode(), status.encode())
        if is_allowed:
            assert decode_record(changed) == msgspec.structs.replace(record, ending=status)
            continue
        with pytest.raises(msgspec.DecodeError):
            decode_record(changed)
