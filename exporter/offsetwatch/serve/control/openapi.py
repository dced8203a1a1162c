"""The OpenAPI document of the control API, made from its routes and its bodies."""

from __future__ import annotations

import re
from typing import Any, Final

from offsetwatch import __version__, documents
from offsetwatch.remedy.model.service_api import PlanState
from offsetwatch.serve.control.responses import NDJSON
from offsetwatch.serve.control.routes import PLAN_ID, PREFIX, ROUTES, Route

HOOK_PATH: Final = "/hooks/alertmanager"
DOCUMENT_PATH: Final = "/openapi.json"
IDEMPOTENCY_KEY_PATTERN: Final = r"^[\x21-\x7e]{1,100}$"
_COMMON_STATUSES: Final = (400, 401, 403, 429)
_BODY_STATUSES: Final = (413, 415)
_REASONS: Final = {
    200: "Done; the answer is the requested document.",
    201: "Made.",
    202: "Taken.",
    400: "The request is malformed.",
    401: "The client is not authenticated.",
    403: "The role of the client does not allow it.",
    404: "There is no such path or object.",
    409: "The state has changed in the meantime.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "No plan can be made.",
    429: "Too many requests.",
    503: "The journal cannot be used: nothing is changed.",
}
_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "state": {"type": "string", "enum": [state.value for state in PlanState]},
    "from_seq": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
}


def build_document() -> dict[str, Any]:
    """Build the document, in OpenAPI 3.1."""
    bodies = [route.body for route in ROUTES if route.body is not None]
    _, schemas = documents.build_schemas(dict.fromkeys(bodies))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _build_operation(route)
    paths[PREFIX + HOOK_PATH] = {"post": _build_hook_operation()}
    paths[PREFIX + DOCUMENT_PATH] = {
        "get": {
            "summary": "This document. Needs the role viewer.",
            "responses": _build_responses((200,), body=False, content="application/json"),
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "offsetwatch control", "version": __version__},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {**schemas, "Problem": _build_problem_schema()},
        },
    }


def _build_operation(route: Route) -> dict[str, Any]:
    content = NDJSON if route.path == "/journal" else "application/json"
    found: dict[str, Any] = {
        "summary": f"{route.says} Needs the role {route.role.value}.",
        "responses": _build_responses(route.statuses, body=route.body is not None, content=content),
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": _QUERIES[name]} for name in route.query
    ]
    if re.search(r"\{id\}", route.path):
        schema = {"type": "string", "pattern": f"^{PLAN_ID}$"}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": schema})
    if route.keyed:
        schema = {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN}
        parameters.append(
            {"name": "Idempotency-Key", "in": "header", "required": True, "schema": schema}
        )
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _build_hook_operation() -> dict[str, Any]:
    alert = {
        "type": "object",
        "required": ["status", "labels", "startsAt", "fingerprint"],
        "properties": {
            "status": {"enum": ["firing", "resolved"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "startsAt": {"type": "string", "format": "date-time"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        },
    }
    schema = {
        "type": "object",
        "required": ["version", "alerts"],
        "properties": {
            "version": {"const": "4"},
            "alerts": {"type": "array", "maxItems": 500, "items": alert},
        },
    }
    return {
        "summary": "Alerts, as Alertmanager sends them: hints, never evidence. "
        "Needs the role hook.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _build_responses((202,), body=True, content="application/json"),
    }


def _build_responses(statuses: tuple[int, ...], *, body: bool, content: str) -> dict[str, Any]:
    every = {*statuses, *_COMMON_STATUSES, *(_BODY_STATUSES if body else ()), 503}
    return {str(status): _build_response(status, content) for status in sorted(every)}


def _build_response(status: int, content: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
    if status >= 400:
        return {
            "description": _REASONS[status],
            "content": {"application/json": {"schema": schema}},
        }
    kind = {} if content == NDJSON else {"schema": {"type": "object"}}
    return {"description": _REASONS[status], "content": {content: kind}}


def _build_problem_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string", "pattern": "^[a-z_]+$"},
            "message": {"type": "string"},
        },
    }
