"""The OpenAPI document of the read API against the answers of a real listener."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import httpx
import pytest
import schemathesis
from schemathesis.openapi.checks import JsonSchemaError

from offsetwatch.model.connectors import Task
from offsetwatch.serve.documents import openapi
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.serve.http.test_read_listener import World, serving
from tests.unit.serve.worlds import connector, full


def strict(document: Any) -> Any:
    """The document, where no object may have a field that it does not describe."""
    if isinstance(document, list):
        return [strict(item) for item in document]
    if not isinstance(document, dict):
        return document
    results = {name: strict(value) for name, value in document.items()}
    if results.get("type") == "object" and "properties" in results:
        results["additionalProperties"] = False
    return results


SCHEMA = schemathesis.openapi.from_dict(strict(deepcopy(openapi.build_document())))
DOCUMENTS = [path for path in openapi.PATHS if not path.endswith("explain")]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[httpx.Client]:
    with serving(world) as client:
        yield client


def check_documented(answer: httpx.Response, path: str) -> httpx.Response:
    """The answer, once the document describes it to the last field."""
    operation = SCHEMA[path]["GET"]
    assert str(answer.status_code) in operation.definition.raw["responses"]
    operation.validate_response(answer)
    return answer


def test_every_path_is_described_and_no_other(client):
    served = {*client.get(openapi.PREFIX).json()["documents"], openapi.PREFIX}
    described = client.get(openapi.DOCUMENT_PATH).json()
    assert {*described["paths"]} == served
    assert described == json.loads(openapi.format_document())


@pytest.mark.parametrize("path", DOCUMENTS)
def test_what_is_answered_is_what_is_described(client, path):
    assert check_documented(client.get(path), path).status_code == 200


def names() -> list[str]:
    snapshot = full()
    results = {any_connector.name for any_connector in snapshot.connectors}
    results |= {partition.connector for partition in snapshot.source_partitions}
    return sorted(results | {flow.connector for flow in snapshot.topology.flows})


@pytest.mark.parametrize("name", names())
def test_an_explanation_is_what_is_described(client, name):
    path = f"{openapi.PREFIX}explain"
    answer = client.get(path, params={"connector": name, "connect_cluster": "lab"})
    assert check_documented(answer, path).status_code == 200


@pytest.mark.parametrize(
    ("query", "status"), [({}, 400), ({"connector": "nope"}, 404)], ids=["none", "unknown"]
)
def test_a_refusal_is_described(client, query, status):
    path = f"{openapi.PREFIX}explain"
    assert check_documented(client.get(path, params=query), path).status_code == status


@pytest.mark.parametrize("path", [document for document in DOCUMENTS if document != openapi.PREFIX])
def test_that_nothing_has_been_read_yet_is_described(client, world, monkeypatch, path):
    monkeypatch.setattr(world, "now", EMPTY_SNAPSHOT)
    assert check_documented(client.get(path), path).status_code == 503


def test_an_unchanged_document_is_described(client):
    path = f"{openapi.PREFIX}trends"
    etag = client.get(path).headers["ETag"]
    assert (
        check_documented(client.get(path, headers={"If-None-Match": etag}), path).status_code == 304
    )


def test_a_field_that_is_not_described_would_be_found(client, world, monkeypatch):
    path = f"{openapi.PREFIX}connectors"
    answer = client.get(path)
    body = answer.json()
    body["connectors"][0]["surprise"] = 1
    changed = httpx.Response(200, json=body, request=answer.request)
    changed.elapsed = timedelta()
    with pytest.raises(JsonSchemaError, match="surprise"):
        check_documented(changed, path)


def test_a_required_parameter_is_marked():
    parameters = openapi.build_document()["paths"]["/api/v1/explain"]["get"]["parameters"]
    assert {parameter["name"]: parameter["required"] for parameter in parameters} == {
        "connect_cluster": False,
        "connector": True,
    }


def test_a_connector_that_failed_is_described(client, world, monkeypatch):
    failed = connector("failed", "failed", (Task(0, "failed", "java.lang.X at a.B.c"),))
    monkeypatch.setattr(world, "now", replace(full(), connectors=(failed,)))
    for path in (f"{openapi.PREFIX}connectors", f"{openapi.PREFIX}overview"):
        check_documented(client.get(path), path)
    path = f"{openapi.PREFIX}explain"
    check_documented(client.get(path, params={"connector": "failed"}), path)
