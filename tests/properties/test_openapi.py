"""What the control listener's OpenAPI document describes is asked of a real one on loopback, by
schemathesis: what fits the document and what does not, and what the document makes of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.serve.control.routes import build_document
from tests.fakes.remediation_service import MemoryService, plan_row
from tests.unit.serve.control.stage import DEADLINE_S, Stage, serving, token

SCHEMA = schemathesis.openapi.from_dict(build_document())
OPERATIONS = {
    operation.label: operation
    for operation in (all_operation.ok() for all_operation in SCHEMA.get_all_operations())
}
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
STATES = (PlanStatus.PROPOSED, PlanStatus.RUNNING, PlanStatus.PARKED)
KNOWN = {"connect_cluster": "lab", "connector": "orders", "scope": "lab/orders"}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with serving() as built:
        yield built


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as built:
        built.trust_env = False
        yield built


def answered(
    stage: Stage, session: requests.Session, case: schemathesis.Case, role: str | None
) -> requests.Response:
    """By a desk that nobody has asked before; held to the document."""
    stage.clock.advance(60.0)  # so that no failure of before is held against this one
    fresh = MemoryService(stage.clock)
    for number, state in enumerate(STATES, 1):
        fresh.rows[f"p{number}"] = plan_row(f"p{number}", state=state)
    vars(stage.desk).update(vars(fresh))
    headers = {} if role is None else {"Authorization": f"Bearer {token(role)}"}
    answer = case.call(base_url=stage.url, session=session, headers=headers, timeout=DEADLINE_S)
    case.validate_response(answer, checks=CHECKS, headers=headers)
    if role is None:
        assert answer.status_code == 401
    if answer.status_code >= 300:
        assert stage.desk.changed == stage.desk.hints == []
    return answer


def vanishes(value: object) -> bool:
    """Is nothing of it left in a URL, so that the request may be a valid one after all?"""
    return value is None or (
        isinstance(value, list | tuple | dict) and all(item is None for item in value)
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
@settings(  # examples of each operation; making one may take long where much else runs
    max_examples=max(20, settings.default.max_examples // 20),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_what_is_described_is_answered_as_described(stage, session, operation, mode, data):
    role = data.draw(st.sampled_from(["operator", "hook", "viewer", None]), label="role")
    case = data.draw(operation.as_strategy(mode), label="request")
    assume(mode is GenerationMode.POSITIVE or not any(map(vanishes, case.query.values())))
    if mode is GenerationMode.POSITIVE and data.draw(st.booleans(), label="known"):
        if "id" in case.path_parameters:
            case.path_parameters["id"] = data.draw(st.sampled_from(["p1", "p2", "p3"]))
        if isinstance(case.body, dict):
            case.body.update({name: KNOWN[name] for name in KNOWN.keys() & case.body.keys()})
    answered(stage, session, case, role)
