"""What holds for every document and every request, whoever wrote them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.change import compute_changes, compute_differences
from offsetwatch.toolbox.documents import OffsetsDocument, format_kip199, parse_document
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationProblem,
    collect_notes,
    find_problems,
)
from tests.unit.toolbox.worlds import file_source, mirror, sink, unknown_type

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
MAPS = st.dictionaries(TEXTS, SCALARS, max_size=4)
PAIRS = st.lists(
    st.builds(
        PartitionOffset,
        partition=MAPS.map(lambda fields: encode_sorted(fields).decode()),
        offset=st.none() | MAPS.map(lambda fields: encode_sorted(fields).decode()),
    ),
    unique_by=lambda pair: pair.partition,
    max_size=5,
)
WORLDS = st.sampled_from([mirror(), sink(), file_source(), unknown_type()])

# Near enough to what is meant that most of it gets past the first check.
NAMES = st.sampled_from(
    [
        "cluster",
        "topic",
        "partition",
        "offset",
        "filename",
        "position",
        "kafka_topic",
        "kafka_offset",
    ]
)
VALUES = st.sampled_from(
    ["west", "orders", "tlines", "/data/t.txt", 0, 1, -1, 5, 2**40, 2**63, 1.0, True, None, "0", {}]
)
NEARLY = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, PAIRS, max_size=3))
def test_what_is_written_is_read_as_it_was(sections):
    document = parse_document(format_kip199(sections.items()).encode())
    assert isinstance(document, OffsetsDocument)
    assert {one.connector: [*one.pairs] for one in document.sections} == sections


@given(st.binary(max_size=60) | NEARLY.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_a_document_or_is_notified_what_is_wrong(raw):
    for patch_of in (None, "c"):
        document = parse_document(raw, patch_of=patch_of)
        assert isinstance(document, OffsetsDocument) or all(problem.wrong for problem in document)


@given(WORLDS, st.lists(st.tuples(NEARLY, NEARLY), max_size=3), st.booleans())
def test_every_request_is_sound_or_reported_where_it_is_not(facts, entries, allow_new):
    body = {"c": [{"partition": partition, "offset": offset} for partition, offset in entries]}
    document = parse_document(json.dumps(body).encode())
    if not isinstance(document, OffsetsDocument):
        return
    (section,) = document.sections
    request = OffsetsRequest(facts.connector, section.pairs, section.where, allow_new=allow_new)
    problems = find_problems(request, facts)
    assert all(
        isinstance(problem, ValidationProblem) and problem.where.startswith("c") and problem.wrong
        for problem in problems
    )
    assert all(collect_notes(request, facts))


@given(WORLDS, st.booleans())
def test_what_is_there_can_be_requested_again_and_changes_nothing(facts, allow_new):
    request = OffsetsRequest(
        facts.connector, facts.present, DocumentLocation("c"), allow_new=allow_new
    )
    assert find_problems(request, facts) == ()
    assert compute_changes(facts.present, facts.present) == ()


@given(PAIRS, PAIRS)
def test_requesting_the_changes_makes_of_one_state_the_other(now, expected):
    def state(pairs: list[PartitionOffset]) -> dict[str, str]:
        return {pair.partition: pair.offset for pair in pairs if pair.offset is not None}

    after = state(now)
    for change in compute_differences(tuple(now), tuple(expected)):
        if change.after is None:
            del after[change.partition]
        else:
            after[change.partition] = change.after
    assert after == state(expected)
