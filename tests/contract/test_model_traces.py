"""What tasks of the model say when they fail is taken for what it is meant to be."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.classify import FailureKind, classify
from tests.fakes.connect_model.traces import trace

BAD_ROW = "org.example.sink.BadRowException"


@pytest.mark.parametrize(
    ("stage", "cause", "kind", "where"),
    [
        ("key_converter", "data", FailureKind.DESERIALIZATION, "converter_key"),
        ("value_converter", "data", FailureKind.DESERIALIZATION, "converter_value"),
        ("header_converter", "data", FailureKind.DESERIALIZATION, "converter_header"),
        ("transform", "transform", FailureKind.TRANSFORM, "transform"),
        ("source_transform", "transform", FailureKind.TRANSFORM, "transform"),
        ("put", "sink_data", FailureKind.SINK_DATA, "put"),
        ("put", "connectivity", FailureKind.CONNECTIVITY, "put"),
        ("put", "auth", FailureKind.AUTH, "put"),
        ("put", "resource", FailureKind.RESOURCE, "put"),
        ("value_converter", "registry", FailureKind.REGISTRY_DOWN, "converter_value"),
        ("poll", "connectivity", FailureKind.CONNECTIVITY, "poll"),
        ("start", "connectivity", FailureKind.CONNECTIVITY, "start"),
        ("producer_send", "too_large", FailureKind.PRODUCER_SIZE, "producer_send"),
        ("corrupt", "corrupt", FailureKind.CORRUPT, "poll"),
    ],
)
def test_a_trace_is_taken_for_what_it_is(stage, cause, kind, where):
    facts = {"topic": "t", "partition": 0, "offset": 7, "size": 2_000_000, "limit": 1_048_576}
    failure = classify(trace(stage, cause, **facts), frozenset({BAD_ROW}))
    assert (failure.kind, failure.stage) == (kind, where)
    assert failure.size_bytes == (2_000_000 if cause == "too_large" else None)
