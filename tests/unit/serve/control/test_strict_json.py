"""JSON in one reading."""

from __future__ import annotations

import json

import pytest

from offsetwatch.serve.control.request_bodies import DEPTH_MAX, MalformedRequest, parse_json


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "x",
        7,
        -(2**63) + 1,
        2**63 - 1,
        1.5,
        None,
        True,
        {"a": [{"b": "}{]["}, '\\"', "\\"], "é": "\U0001f600"},
    ],
    ids=repr,
)
def test_what_is_plain_is_read(value):
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@pytest.mark.parametrize("kind", ["[{}]", '{{"a":{}}}'])
def test_nesting_is_bounded_and_brackets_in_text_do_not_count(kind):
    def nested(depth: int) -> bytes:
        text = '"' + "[{" * 1000 + '\\"' + "[" * 1000 + '"'
        for _ in range(depth):
            text = kind.format(text)
        return text.encode()

    parse_json(nested(DEPTH_MAX))
    with pytest.raises(MalformedRequest, match="nested deeper"):
        parse_json(nested(DEPTH_MAX + 1))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "not JSON"),
        ("{} {}", "not JSON"),
        ("{'a':1}", "not JSON"),
        ('{"a":1,}', "not JSON"),
        ('{"a":01}', "not JSON"),
        ('{"a":1 /* x */}', "not JSON"),
        ('"a\nb"', "not JSON"),
        ("[" * 20, "not JSON"),
        ("]" * 20, "not JSON"),
        ('{"a":1,"a":1}', "given twice"),
        ('{"a":1,"\\u0061":2}', "given twice"),
        ('[{"b":{"a":1,"a":2}}]', "given twice"),
        ("NaN", "not finite"),
        ('{"a":-Infinity}', "not finite"),
        ("1e400", "not finite"),
        (str(2**63), "64 bits"),
        ("[" + "1" * 5000 + "]", "64 bits"),
        ('"\\ud800"', "no Unicode"),
        ('["\\udc00"]', "no Unicode"),
        ('[["a",["\\udc00"]]]', "no Unicode"),
        ('{"a":[["\\udc00"]]}', "no Unicode"),
        ('{"\\ud800":1}', "no Unicode"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text, answer):
    with pytest.raises(MalformedRequest, match=answer):
        parse_json(text.encode())
