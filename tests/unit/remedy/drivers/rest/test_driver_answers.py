"""What a real worker's answers are worth: those that were recorded (Kafka 4.3.1), one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsetwatch.clients.write.connect import ConnectReply
from offsetwatch.remedy.drivers.rest.driver import classify_offsets_reply, classify_request_reply
from offsetwatch.remedy.model.driver import AttemptResult

GOLDEN = Path(__file__).parents[4] / "golden" / "connect-alter.json"
RECORDED = json.loads(GOLDEN.read_text())
HALF = ("Failed to modify offsets", "Failed to alter consumer group offsets")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["case"])
def test_only_what_may_have_half_applied_is_a_failure(case):
    outcome = classify_offsets_reply(ConnectReply(case["status"], case["message"]))
    if case["status"] == 200:
        assert (outcome.answer, outcome.definite) == (AttemptResult.ACK, True)
    elif case["message"].startswith(HALF):
        assert outcome.answer is AttemptResult.FAILED
    else:
        assert outcome.answer is AttemptResult.NACK


def test_a_yes_in_other_words_than_connects_own_is_not_vouched_for():
    answer = "The offsets for this connector have been altered successfully, maybe"
    assert classify_offsets_reply(ConnectReply(200, answer)).definite is False


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (ConnectReply(204), AttemptResult.ACK),
        (ConnectReply(200), AttemptResult.IN_DOUBT),
        (ConnectReply(409, "Cannot complete request momentarily"), AttemptResult.RETRY),
        (ConnectReply(409, "Connector c already exists"), AttemptResult.IN_DOUBT),
        (ConnectReply(429), AttemptResult.RETRY),
        (ConnectReply(404, "HTTP 404 Not Found"), AttemptResult.RETRY),
        (ConnectReply(404), AttemptResult.NACK),
        (ConnectReply(302), AttemptResult.NACK),
        (ConnectReply(503), AttemptResult.IN_DOUBT),
        (ConnectReply(500, 'Unrecognized field "initial_state"'), AttemptResult.NACK),
        (ConnectReply(500, "Request timed out. It must be polled"), AttemptResult.IN_DOUBT),
    ],
)
def test_a_request_is_done_by_its_own_code_alone(reply, expected):
    assert classify_request_reply(reply, done=frozenset({204})).answer is expected
