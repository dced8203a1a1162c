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
        asked_sha256="",
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
def test_a_record_of_an_ending_has_no_other_status(status: PlanStatus) -> None:
    ended = PlanEnded(at=1.0, ending=PlanStatus.RESOLVED, said="done")
    changed = encode_record(ended).replace(b"resolved", status.encode())
    if (status.is_over and status.has_begun) or status.is_parked:
        assert decode_record(changed) == PlanEnded(at=1.0, ending=status, said="done")
        return
    with pytest.raises(msgspec.DecodeError):
        decode_record(changed)
