"""What the control listener's OpenAPI document describes is asked and answered as it says: requests
that are made from it have one of the statuses, and a body of the shape, that it names.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.serve.control.openapi import document
from tests.fuzz.listener import ask
from tests.unit.serve.control.stage import token

DOCUMENT = document()
OPERATIONS = [
    (method, path, operation)
    for path, by_method in DOCUMENT["paths"].items()
    for method, operation in by_method.items()
]
KNOWN = {"connect_cluster": "lab", "connector": "orders", "id": "p1", "scope": "lab/orders"}


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def values(schema: dict[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """What fits this schema; names often such as are known here."""
    schema = schema_of(schema)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(at, name) for at in schema["anyOf"]])
    found = OF_TYPE[schema["type"]](schema)
    return st.just(KNOWN[name]) | found if name in KNOWN else found


def strings(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1_000)
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda at: f"{at.isoformat(timespec='seconds')}Z")
    if "pattern" in schema:
        fitting = st.from_regex(re.compile(schema["pattern"]), fullmatch=False)
        return fitting.filter(lambda text: least <= len(text) <= most)
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=least, max_size=min(most, 20))


def integers(schema: dict[str, Any]) -> st.SearchStrategy[int]:
    return st.integers(schema.get("minimum", -(2**63) + 1), schema.get("maximum", 2**63 - 1))


def objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: values(at, name) for name, at in schema.get("properties", {}).items()}
    if not fields and isinstance(schema.get("additionalProperties"), dict):
        names = strings(schema.get("propertyNames", {"minLength": 1}))
        return st.dictionaries(
            names,
            values(schema["additionalProperties"]),
            min_size=schema.get("minProperties", 0),
            max_size=4,
        )
    needed = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: at for name, at in fields.items() if name in needed},
        optional={name: at for name, at in fields.items() if name not in needed},
    )


OF_TYPE = {
    "string": strings,
    "integer": integers,
    "object": objects,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
    "array": lambda schema: st.lists(values(schema["items"]), max_size=3),
}


def conforms(answer: dict[str, Any], schema: dict[str, Any]) -> None:
    """As far as the document goes: objects, with the fields that must be there."""
    schema = schema_of(schema)
    assert isinstance(answer, dict)
    assert set(schema.get("required", ())) <= answer.keys()
    for name, at in schema.get("properties", {}).items():
        if name in answer:
            assert isinstance(answer[name], str)
            assert re.search(at.get("pattern", ""), answer[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[f"{at[0]} {at[1]}" for at in OPERATIONS]
)
@settings(max_examples=max(20, settings.default.max_examples // 5))  # of each operation
@given(data=st.data())
def test_what_is_described_is_answered_as_described(method, path, operation, data):
    headers, query = {"Host": "localhost"}, []
    role = data.draw(st.sampled_from(["operator", "hook", "viewer", None]), label="role")
    if role is not None:
        headers["Authorization"] = f"Bearer {token(role)}"
    for at in operation.get("parameters", ()):
        value = data.draw(values(at["schema"], at["name"]), label=at["name"])
        if at["in"] == "path":
            path = path.replace("{%s}" % at["name"], quote(value, safe=""))  # noqa: UP031 - braces
        elif at["in"] == "header":
            headers[at["name"]] = value
        elif data.draw(st.booleans()):
            query.append(f"{at['name']}={quote(str(value), safe='')}")
    body = b""
    if "requestBody" in operation:
        headers["Content-Type"] = "application/json"
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = json.dumps(data.draw(values(schema), label="body")).encode()
    answer = ask(method.upper(), path + "?" * bool(query) + "&".join(query), headers, body)
    described = operation["responses"]
    assert str(answer.status) in described, (answer.status, answer.body)
    if role is None:
        assert answer.status == 401
    content = described[str(answer.status)]["content"]
    assert set(content) == {answer.content_type}
    if answer.content_type == "application/json":
        conforms(json.loads(answer.body), content["application/json"].get("schema", {}))
