"""The OpenAPI document of the read API, built from the types of its bodies (types.py)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NamedTuple

from offsetwatch import __version__, documents
from offsetwatch.serve.documents.findings import FindingsDocument
from offsetwatch.serve.documents.status import StatusBody
from offsetwatch.serve.documents.types import (
    ConnectorsBody,
    ExplainBody,
    FlowsBody,
    IndexBody,
    OverviewBody,
    TrendsBody,
)

PREFIX: Final = "/api/v1/"
DOCUMENT_PATH: Final = f"{PREFIX}openapi.json"
_CLUSTER: Final = ("connect_cluster", "Only this Connect cluster.")
_CONNECTOR: Final = ("connector", "Only this connector.")
_NOT_READ: Final = {503: "Nothing has been read yet, or too many requests."}


class ReadPath(NamedTuple):
    """Path of the read API.

    query      optional parameters with their meaning; those in `required` are mandatory
    refusals   statuses with the meaning of a text answer instead of the body
    """

    summary: str
    body: Any
    query: tuple[tuple[str, str], ...] = ()
    required: frozenset[str] = frozenset()
    refusals: dict[int, str] = _NOT_READ


PATHS: Final[dict[str, ReadPath]] = {
    PREFIX: ReadPath("The paths of all documents.", IndexBody, refusals={}),
    f"{PREFIX}connectors": ReadPath(
        "Connectors, their tasks, and the positions of sources and sinks.",
        ConnectorsBody,
        (_CLUSTER, _CONNECTOR),
    ),
    f"{PREFIX}flows": ReadPath(
        "Flows of MirrorMaker 2: positions, lag, offset syncs, consumer groups and losses.",
        FlowsBody,
        (_CLUSTER, _CONNECTOR),
    ),
    f"{PREFIX}findings": ReadPath("Findings, the worst first, and verdicts.", FindingsDocument),
    f"{PREFIX}status": ReadPath(
        "Findings, verdicts, connectors and flows of one moment.", StatusBody
    ),
    f"{PREFIX}explain": ReadPath(
        "Everything known of one connector.",
        ExplainBody,
        (_CLUSTER, ("connector", "Its name.")),
        required=frozenset({"connector"}),
        refusals={
            400: "No connector is named.",
            404: "There is no such connector, or several Connect clusters have one.",
            **_NOT_READ,
        },
    ),
    f"{PREFIX}overview": ReadPath("What the status page shows.", OverviewBody),
    f"{PREFIX}trends": ReadPath(
        "Lag of the last hour, a value for each minute.",
        TrendsBody,
        refusals={304: "Unchanged since the ETag in If-None-Match.", **_NOT_READ},
    ),
}


def build_document() -> dict[str, Any]:
    """Build the document, in OpenAPI 3.1."""
    bodies = {path: read_path.body for path, read_path in PATHS.items()}
    schemas, components = documents.build_schemas(bodies.values())
    of = dict(zip(bodies, schemas, strict=True))
    paths = {
        path: {"get": _build_operation(read_path, of[path])} for path, read_path in PATHS.items()
    }
    itself = ReadPath("This document.", None, refusals={})
    paths[DOCUMENT_PATH] = {"get": _build_operation(itself, {"type": "object"})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "offsetwatch read API",
            "version": __version__,
            "description": "The listener of `listen`. Every number of a document is of the same "
            "moment, `at`. Moments are RFC 3339 in UTC. Durations are in seconds: their names end "
            "in `_s` or `_seconds`. Integers are exact at any size. Fields may be added; none is "
            "removed or changed without an entry in the changelog.",
        },
        "paths": paths,
        "security": [{}, {"basic": []}],
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": _join_description_lines(components),
        },
    }


def _join_description_lines(schema: Any) -> Any:
    """Return a schema whose descriptions have no line breaks of docstrings."""
    if isinstance(schema, list):
        return [_join_description_lines(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: " ".join(value.split())
        if name == "description" and isinstance(value, str)
        else _join_description_lines(value)
        for name, value in schema.items()
    }


def format_document() -> str:
    """Return the document as it is committed and served."""
    return json.dumps(build_document(), indent=2, ensure_ascii=False) + "\n"


@cache
def encode_document() -> bytes:
    """Return the body of /api/v1/openapi.json."""
    return format_document().encode()


def _build_operation(path: ReadPath, schema: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": path.summary}
    if path.query:
        operation["parameters"] = [
            {
                "name": name,
                "in": "query",
                "description": meaning,
                "required": name in path.required,
                "schema": {"type": "string"},
            }
            for name, meaning in path.query
        ]
    refusals = {**path.refusals, 401: "`web_config_file` asks for a user and a password."}
    operation["responses"] = {
        "200": {
            "description": "The document.",
            "content": {"application/json": {"schema": schema}},
        },
        **{str(status): _build_refusal(status, said) for status, said in sorted(refusals.items())},
    }
    return operation


def _build_refusal(status: int, said: str) -> dict[str, Any]:
    response: dict[str, Any] = {"description": said}
    if status >= 400:
        response["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return response
