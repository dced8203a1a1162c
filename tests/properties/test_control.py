"""Whatever is sent to the control listener: refused as Wrong, or read; never anything else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.remedy.model.service_api import RequestedAction
from offsetwatch.serve.control.request_bodies import (
    MalformedRequest,
    WantPlan,
    build_plan_request,
    convert_body,
    parse_json,
    parse_payload,
)
from tests.unit.serve.control.stage import ALERT, SKIP, payload

KNOWN = frozenset({("lab", "orders"), ("lab", "a/b"), ("east", "orders")})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def known(*item: str) -> bool:
    return item in KNOWN


def taken(body: bytes) -> None:
    """As the listener does it."""
    try:
        document = parse_json(body)
        alert_hints = parse_payload(document, known)
    except MalformedRequest:
        return
    assert len(alert_hints.hints) + alert_hints.unknown == len(document["alerts"])
    for hint in alert_hints.hints:
        assert (hint.connect_cluster, hint.connector) in KNOWN
        assert hint.partition is None or 0 <= hint.partition < 2**31
        assert hint.topic is None or (hint.topic.isascii() and len(hint.topic) < 250)
        # What reaches the desk can be written down and read again.
        assert msgspec.json.decode(msgspec.json.encode(hint), type=type(hint)) == hint


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_or_read(body: bytes):
    taken(body)


@given(JSON)
def test_any_json_is_refused_or_read(value: Any):
    taken(json.dumps(value).encode())


@given(st.data())
def test_a_payload_with_anything_anywhere_is_refused_or_read(data: st.DataObject):
    body = json.loads(json.dumps(payload()))
    locations: list[tuple[Any, Any]] = []

    def walk(entry: Any) -> None:
        for key in list(entry) if isinstance(entry, dict) else range(len(entry)):
            locations.append((entry, key))
            if isinstance(entry[key], dict | list):
                walk(entry[key])

    walk(body)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(locations))
        holder[key] = data.draw(JSON)
    taken(json.dumps(body).encode())


@given(st.binary(max_size=20), st.integers(0, 400))
def test_a_payload_with_bytes_in_the_middle_is_refused_or_read(strange: bytes, at: int):
    whole = json.dumps(payload()).encode()
    taken(whole[:at] + strange + whole[at:])
    taken(whole[:at] + strange)


@given(st.dictionaries(st.sampled_from(["connect_cluster", "connector", "topic", "x"]), st.text()))
def test_only_a_name_that_is_known_exactly_is_taken_for_known(labels: dict[str, str]):
    alert_hints = parse_payload(payload({**ALERT, "labels": labels}), known)
    exact = (labels.get("connect_cluster"), labels.get("connector")) in KNOWN
    assert bool(alert_hints.hints) == exact


@given(st.data())
def test_a_request_with_anything_anywhere_is_refused_or_says_what_was_said(data: st.DataObject):
    body: dict[str, Any] = {
        **SKIP,
        "action": data.draw(st.sampled_from([item.value for item in RequestedAction])),
    }
    fields = (*body, "backup", "x")
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.sampled_from(fields))] = data.draw(JSON)
    try:
        request = build_plan_request(
            convert_body(WantPlan, parse_json(json.dumps(body).encode())), "key"
        )
    except MalformedRequest:
        return
    assert (request.connect_cluster, request.connector) == (
        body["connect_cluster"],
        body["connector"],
    )
    assert (request.pair is not None) == (request.action is RequestedAction.SKIP_ONE)
    assert (request.backup is not None) == (request.action is RequestedAction.RESTORE)
    if request.pair is not None:
        assert json.loads(request.pair.partition) == body["partition"]
        assert json.loads(request.pair.offset) == body["offset"]


@given(st.integers() | st.floats() | st.booleans() | st.text(max_size=5) | st.none())
def test_an_offset_of_a_sink_is_an_integer_between_0_and_its_last_but_one(value: Any):
    body = {**SKIP, "offset": {"kafka_offset": value}}
    fits = type(value) is int and 0 <= value < 2**63 - 1
    text = json.dumps(body).encode()
    if fits:
        assert build_plan_request(convert_body(WantPlan, parse_json(text)), "k").pair is not None
    else:
        with pytest.raises(MalformedRequest):
            build_plan_request(convert_body(WantPlan, parse_json(text)), "k")
