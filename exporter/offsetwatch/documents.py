"""JSON documents that leave or enter the process: encoding, decoding and JSON Schemas.

They belong to the read API, the control listener, webhooks and `-o json|yaml`. Moments in them are
RFC 3339 in UTC. Documents stored on disk are not encoded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec

from offsetwatch.clock import to_utc
from offsetwatch.model.moments import Moment

# What a daemon sends with each document, for commands to compare with their own file.
CLUSTERS_HEADER: Final = "Offsetwatch-Clusters"  # hashes of its clusters (config/identity.py)
FILE_HEADER: Final = "Offsetwatch-Config-File"  # the stamp of its file (disk.hash_file_stamp)

_ZonedDatetime = Annotated[datetime, msgspec.Meta(tz=True)]
Document = TypeVar("Document")


def encode(document: Any) -> bytes:
    """Return a document as JSON. Integers of any size stay exact."""
    return msgspec.json.encode(document, enc_hook=_encode_moment)


def decode(body: bytes, kind: type[Document]) -> Document:
    """Decode a document from a request or response body.

    Raises msgspec.DecodeError, UnicodeDecodeError and RecursionError.
    """
    return msgspec.json.decode(body, type=kind, dec_hook=_decode_moment)


def convert(plain: Any, kind: type[Document]) -> Document:
    """Convert parsed JSON to a document. Raises msgspec.ValidationError."""
    return msgspec.convert(plain, kind, strict=True, dec_hook=_decode_moment)


def build_schemas(kinds: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return the JSON Schema of each kind of document, and the components that they refer to."""
    return msgspec.json.schema_components(
        kinds, schema_hook=_build_moment_schema, ref_template="#/components/schemas/{name}"
    )


def _encode_moment(value: Any) -> datetime:
    if isinstance(value, Moment):
        return to_utc(value)
    raise NotImplementedError(type(value).__name__)


def _decode_moment(kind: type, value: Any) -> Moment:
    if kind is Moment:
        return Moment(msgspec.convert(value, _ZonedDatetime).timestamp())
    raise NotImplementedError(kind.__name__)


def _build_moment_schema(kind: type) -> dict[str, Any]:
    if kind is Moment:
        return {"type": "string", "format": "date-time"}
    raise NotImplementedError(kind.__name__)
