"""A Kafka cluster of which no input answers is one finding."""

from __future__ import annotations

import pytest

from offsetwatch.formatting import format_moment
from offsetwatch.judge.findings.rule_context import RuleContext, RuleMemory
from offsetwatch.judge.findings.rules.missing_inputs import find_down_inputs
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Finding, Severity
from offsetwatch.model.observations import LOG_ENDS, TAIL, InputId
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, Topology
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, InputView
from tests.changed import replace
from tests.evidence import pairs

BEGAN = 1_800_000_000.0
ENDS, SYNCS = InputId(LOG_ENDS, kafka="west"), InputId(TAIL, kafka="west", topic="syncs")
FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("west", "syncs"))
SETTINGS = JudgeSettings(interval_s=60.0, addresses={("kafka", "west"): "127.0.0.1:29192"})


def failing(of: InputId, reason: str, *, times: int = 9) -> InputView:
    return InputView(
        id=of,
        up=False,
        live=False,
        last_success_at=BEGAN - 30.0 if of == ENDS else BEGAN - 40.0,
        errors=((reason, times),),
        last_error="Local: Timed out",
        tail=None,
        last_reason=reason,
    )


def answering(of: InputId) -> InputView:
    return InputView(of, True, True, BEGAN, (), None, None)


def judge_twice(*inputs: InputView) -> list[Finding]:
    """Return the findings of two looks, ninety seconds apart."""
    memory = RuleMemory()
    results: list[Finding] = []
    for now in (BEGAN, BEGAN + 90.0):
        topology = replace(EMPTY_SNAPSHOT.topology, flows=(FLOW,))
        assert isinstance(topology, Topology)
        rows = tuple(
            view
            if view.up or now == BEGAN
            else replace(view, errors=((str(view.last_reason), 20),))
            for view in inputs
        )
        snapshot = replace(EMPTY_SNAPSHOT, at=now, inputs=rows, topology=topology)
        results = list(find_down_inputs(RuleContext(InputVisibility(snapshot), SETTINGS, memory)))
    return results


@pytest.mark.parametrize("reason", ["timeout", "unreachable"])
def test_a_kafka_cluster_that_does_not_answer_is_one_critical_finding(reason):
    (finding,) = judge_twice(failing(SYNCS, reason), failing(ENDS, reason))
    assert finding.severity is Severity.CRITICAL
    assert finding.subject == "log_ends west"
    assert finding.summary == (
        f"Kafka cluster west (127.0.0.1:29192) has not answered since "
        f"{format_moment(BEGAN - 30.0)}; "
        "replication west->east cannot be judged."
    )
    assert [what for what, _ in pairs(finding.evidence)] == [
        "log ends of Kafka cluster west",
        "topic west/syncs",
    ]


def test_inputs_that_fail_beside_one_that_answers_are_reported_one_by_one():
    (finding,) = judge_twice(failing(SYNCS, "timeout"), answering(ENDS))
    assert (finding.severity, finding.subject) == (Severity.WARNING, "tail west/syncs")
    assert finding.summary == "Topic west/syncs cannot be read: Local: Timed out."


def test_one_topic_that_times_out_is_no_silent_cluster_and_one_that_is_denied_neither():
    (alone,) = judge_twice(failing(SYNCS, "timeout"))
    assert alone.summary.startswith("Topic west/syncs ")
    assert len(judge_twice(failing(SYNCS, "denied"), failing(ENDS, "denied"))) == 2


def test_without_log_ends_every_input_has_to_fail_to_connect():
    (alone,) = judge_twice(failing(SYNCS, "unreachable"))
    assert alone.summary.startswith("Kafka cluster west ")
    assert alone.subject == "tail west/syncs"


def test_groups_of_a_flow_that_fail_with_its_cluster_are_no_finding_of_their_own():
    groups = failing(build_groups_input(FLOW.key), "timeout")
    (finding,) = judge_twice(failing(SYNCS, "timeout"), failing(ENDS, "timeout"), groups)
    named = "consumer groups of flow west->east of Connect cluster lab"
    assert (named, "Local: Timed out") in pairs(finding.evidence)
    (alone,) = judge_twice(answering(ENDS), groups)
    assert alone.summary == f"C{named[1:]} cannot be read: Local: Timed out."
