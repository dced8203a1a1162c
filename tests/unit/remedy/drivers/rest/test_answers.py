"""What a real worker's answers are worth: those that were recorded (Kafka 4.3.1), one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from offsetwatch.clients.write.connect import Reply
from offsetwatch.remedy.drivers.rest.answers import of_offsets, of_request
from offsetwatch.remedy.model.driver import Answer

GOLDEN = Path(__file__).parents[4] / "golden" / "connect-alter.json"
RECORDED = json.loads(GOLDEN.read_text())
HALF = ("Failed to modify offsets", "Failed to alter consumer group offsets")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["case"])
def test_only_what_may_have_half_applied_is_a_failure(case):
    outcome = of_offsets(Reply(case["status"], case["message"]))
    if case["status"] == 200:
        assert (outcome.answer, outcome.definite) == (Answer.ACK, True)
    elif case["message"].startswith(HALF):
        assert outcome.answer is Answer.FAILED
    else:
        assert outcome.answer is Answer.NACK


def test_a_yes_in_other_words_than_connects_own_is_not_vouched_for():
    said = "The offsets for this connector have been altered successfully, maybe"
    assert of_offsets(Reply(200, said)).definite is False


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(204), Answer.ACK),
        (Reply(200), Answer.IN_DOUBT),
        (Reply(409, "Cannot complete request momentarily"), Answer.RETRY),
        (Reply(409, "Connector c already exists"), Answer.IN_DOUBT),
        (Reply(429), Answer.RETRY),
        (Reply(404, "HTTP 404 Not Found"), Answer.RETRY),
        (Reply(404), Answer.NACK),
        (Reply(302), Answer.NACK),
        (Reply(503), Answer.IN_DOUBT),
        (Reply(500, 'Unrecognized field "initial_state"'), Answer.NACK),
        (Reply(500, "Request timed out. It must be polled"), Answer.IN_DOUBT),
    ],
)
def test_a_request_is_done_by_its_own_code_alone(reply, expected):
    assert of_request(reply, done=frozenset({204})).answer is expected
