"""KIP-199's documents: read strictly, written exactly."""

from __future__ import annotations

import json

import pytest

from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.documents import (
    OffsetsDocument,
    OffsetsSection,
    format_kip199,
    parse_document,
    parse_pairs,
    rename_document,
)
from offsetwatch.toolbox.offset_locations import (
    DocumentLocation,
    StoredPairsLocation,
    TypedPairsLocation,
)

# The sample of KIP-199, with the brace that it forgets.
SAMPLE = b"""{
"MyConnector": [{
"partition": {"file": "a"},
"offset": {"offsetKey1": "offsetValue1", "offsetKey2": "offsetValue2"}
},{
"partition": {"file": "b"},
"offset": null
}]
}"""


def mistakes(raw: bytes, patch_of: str | None = None, *, list_of: str | None = None) -> list[str]:
    document = parse_document(raw, patch_of=patch_of, list_of=list_of)
    assert isinstance(document, tuple), document
    return [f"{problem.where}: {problem.wrong}" for problem in document]


def test_the_sample_of_kip_199_is_read() -> None:
    assert parse_document(SAMPLE) == OffsetsDocument(
        (
            OffsetsSection(
                "MyConnector",
                (
                    PartitionOffset(
                        '{"file":"a"}',
                        '{"offsetKey1":"offsetValue1","offsetKey2":"offsetValue2"}',
                    ),
                    PartitionOffset('{"file":"b"}', None),
                ),
                DocumentLocation("MyConnector"),
            ),
        )
    )


def test_what_is_written_is_read_again_to_the_last_digit() -> None:
    pairs = (
        PartitionOffset(
            '{"a":1,"é😀":"\\u0001"}', '{"big":9223372036854775807,"half":5.0,"none":null}'
        ),
        PartitionOffset("null", "{}"),
        PartitionOffset('{"a":2}', None),
    )
    text = format_kip199([('c "1"', pairs), ("empty", ())])
    assert json.loads(text)['c "1"'][2] == {"partition": {"a": 2}, "offset": None}
    document = parse_document(text.encode())
    assert isinstance(document, OffsetsDocument)
    assert document.sections == (
        OffsetsSection('c "1"', pairs, DocumentLocation('c "1"')),
        OffsetsSection("empty", (), DocumentLocation("empty")),
    )
    assert format_kip199(()) == "{}\n"
    assert parse_document(b"{}") == OffsetsDocument(())


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert parse_document(b"\xef\xbb\xbf{}") == OffsetsDocument(())


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (b"", ["$: empty"]),
        (b"  \n", ["$: empty"]),
        (b"\xff\xfe{", ["$: not UTF-8"]),
        (b"[]", ["$: a list and no object"]),
        (b"null", ["$: null and no object"]),
        (b'{"a": []} {}', ["$: not JSON: extra data, line 1, column 11"]),
        (b'{"a": {"b": []}}', ["a: an object and no list"]),
        (b'{"a": null}', ["a: null and no list"]),
        (b'{"a": [null, 3]}', ["a[0]: null and no entry", "a[1]: the number 3 and no entry"]),
        (b'{"a": [], "a": []}', ["$: `a` stands there 2 times"]),
        (b'{"a": [{"partition": {}, "offset": "x"}]}', ["a[0].offset: a text and no object"]),
        (b'{"a": [{"partition": [], "offset": {}}]}', ["a[0].partition: a list and no object"]),
        (b'{"a": [{"offset": null}]}', ["a[0]: `partition` is missing"]),
        (
            b'{"a": [{"partition": {"x": 1, "x": 2}, "offset": {}}]}',
            ["a[0].partition: `x` stands there 2 times"],
        ),
        (
            b'{"a": [{"partition": {"x": {}}, "offset": {"y": [1]}}]}',
            ["a[0].partition.x: an object inside", "a[0].offset.y: a list inside"],
        ),
        (
            b'{"a": [{"partition": {"x": 9223372036854775808}, "offset": {}}]}',
            ["a[0].partition.x: 9223372036854775808 does not fit into 64 bits"],
        ),
        (
            b'{"a": [{"partition": {"x": 1e999}, "offset": {}}]}',
            ["a[0].partition.x: a number beyond every float"],
        ),
        (
            b'{"a": [{"partition": {"x": "\\ud800"}, "offset": {}}]}',
            ["a[0].partition.x: half of a surrogate pair, which is no text"],
        ),
        (
            b'{"a": [{"partition": {"x": NaN}, "offset": {}}]}',
            ["$: not JSON that Connect can keep: NaN is no JSON"],
        ),
        (b"[" * 100_000, ["$: nested too deeply for an offset"]),
    ],
)
def test_what_is_no_document_is_reported_with_its_place(raw: bytes, answer: list[str]) -> None:
    assert mistakes(raw) == answer


def test_a_number_of_thousands_of_digits_is_a_mistake_and_no_crash() -> None:
    (mistake,) = mistakes(b'{"a": [{"partition": {"x": %s}, "offset": {}}]}' % (b"9" * 5000))
    assert mistake.startswith("$: not JSON that Connect can keep")


def test_all_mistakes_are_reported_at_once_and_a_misspelt_name_with_what_it_meant() -> None:
    document = parse_document(b'{"a": [{"partition": {}, "ofset": {}}], "b": 3}')
    assert isinstance(document, tuple)
    assert [problem.where for problem in document] == ["a[0].ofset", "a[0]", "b"]
    assert document[0].right == "did you mean `offset`?"


def test_the_same_partition_twice_is_a_mistake_whatever_its_order_of_fields() -> None:
    orders = (b'{"x": 1, "y": 2}', b'{"y": 2, "x": 1}')
    raw = b'{"a": [%s]}' % b",".join(b'{"partition": %s, "offset": {}}' % order for order in orders)
    assert mistakes(raw) == ['a[1]: the same partition as a[0]: {"x":1,"y":2}']


def test_numbers_and_texts_and_fractions_are_other_partitions() -> None:
    raw = b'{"a": [%s]}' % b",".join(
        b'{"partition": {"x": %s}, "offset": {}}' % text for text in (b"1", b'"1"', b"1.0", b"true")
    )
    assert isinstance(parse_document(raw), OffsetsDocument)


def test_a_patch_body_is_about_the_connector_that_was_named() -> None:
    body = b'{"offsets": [{"partition": {"x": 1}, "offset": null}]}'
    document = parse_document(body, patch_of="c")
    assert document == OffsetsDocument(
        (OffsetsSection("c", (PartitionOffset('{"x":1}', None),), DocumentLocation("offsets")),)
    )
    unnamed = parse_document(body)
    assert isinstance(unnamed, OffsetsDocument)
    assert unnamed.connectors() == ("offsets",)


def test_a_list_alone_is_about_the_connector_that_was_named_as_kip_995_writes_it() -> None:
    alone = b'[{"partition": {"x": 1}, "offset": {"y": 2}}]'
    expected = OffsetsDocument(
        (OffsetsSection("c", (PartitionOffset('{"x":1}', '{"y":2}'),), DocumentLocation("$")),)
    )
    assert parse_document(alone, list_of="c") == expected
    assert mistakes(alone, patch_of="c") == ["$: a list and no object"]
    assert mistakes(b'[{"partition": {}}]', list_of="c") == [
        "$[0]: `offset` is missing, which Connect would take for a reset of this partition"
    ]


def test_a_document_of_kip_199_is_read_where_a_patch_body_could_be() -> None:
    document = parse_document(SAMPLE, patch_of="MyConnector")
    assert isinstance(document, OffsetsDocument)
    assert document.connectors() == ("MyConnector",)


@pytest.mark.parametrize("raw", [b"{}", b'{"offsets": null}', b'{"offsets": []}'])
def test_an_empty_patch_is_a_mistake(raw: bytes) -> None:
    assert mistakes(raw, patch_of="c") == ["offsets: no partition and no offset in it"]


def test_what_stands_beside_offsets_in_a_patch_is_a_mistake() -> None:
    raw = b'{"offsets": [{"partition": {}, "offset": {}}], "surprise": 1}'
    assert mistakes(raw, patch_of="c") == ["$.surprise: unknown beside `offsets`"]


def test_a_pair_of_a_command_line_is_read_like_one_of_a_document() -> None:
    typed = TypedPairsLocation((('{"b": 1, "a": 2}', "null"),))
    assert parse_pairs(typed) == (PartitionOffset('{"a":2,"b":1}', None),)


def test_an_option_that_is_not_json_says_how_to_write_it() -> None:
    location = TypedPairsLocation((("orders-0", "position=42"),))
    wrong = "not JSON: expecting value, line 1, column 1; write JSON in quotes, as in "
    assert [str(problem) for problem in parse_pairs(location)] == [
        f"""--partition: {wrong}'{{"filename":"orders.txt"}}'""",
        f"""--offset: {wrong}'{{"position":42}}', or null""",
    ]


@pytest.mark.parametrize(
    ("pairs", "messages"),
    [
        ([("{", '{"x": 1}')], ["--partition: not JSON: expecting property name"]),
        ([("{}", '{"x": []}')], ["--offset: x: a list inside"]),
        ([('"x"', "{}")], ["--partition: a text and no object"]),
        ([("{}", "5")], ["--offset: the number 5 and no object"]),
        (
            [('{"a": 1}', "{"), ('{"a": [1]}', "null")],
            ["--offset '{': not JSON", """--partition '{"a": [1]}': a: a list inside"""],
        ),
        (
            [('{"a": 1}', "null"), ('{"a":1}', "{}")],
            ["""--partition '{"a":1}': the same partition as --partition '{"a": 1}': {"a":1}"""],
        ),
    ],
)
def test_a_mistake_of_a_pair_names_the_option_and_what_was_typed(pairs, messages) -> None:
    found = _problems(parse_pairs(TypedPairsLocation(tuple(pairs))))
    assert len(found) == len(messages)
    for problem, message in zip(found, messages, strict=True):
        assert problem.startswith(message)


DOCUMENT = b"""\
{
  "a\\n[": [
    {"partition": {"x": "]"}, "offset": {"y": 1}},

    {"partition": {"x": 2},
     "offset": {"y": []}}
  ],
  "b": 3, "c": [ null
]}"""


def test_a_mistake_of_a_document_names_the_file_the_line_and_the_field() -> None:
    document = parse_document(DOCUMENT, name="kept.json")
    assert isinstance(document, tuple)
    assert [problem.where for problem in document] == [
        "kept.json:5: a\n[[1].offset.y",
        "kept.json: b",
        "kept.json:8: c[0]",
    ]
    (empty,) = parse_document(b"[", name="kept.json") or ()
    assert str(empty).startswith("kept.json: not JSON")
    (other,) = parse_document(b"[]", name="kept.json") or ()
    assert str(other).startswith("kept.json: a list and no object")
    (alone,) = parse_document(b"\n[3]", name="kept.json", list_of="c") or ()
    assert alone.where == "kept.json:2: [0]"
    part = parse_document(b"[3]", name="--config-file: initial_offsets", is_part=True, list_of="c")
    assert isinstance(part, tuple)
    assert part[0].where == "--config-file: initial_offsets: [0]"


def test_offsets_that_no_one_wrote_are_named_by_their_partition() -> None:
    where = StoredPairsLocation("c").locate(0, '{"x":1}', "offset.y")
    assert where == 'c: {"x":1}: offset.y'


def _problems(result: object) -> list[str]:
    assert isinstance(result, tuple)
    return [f"{problem.where}: {problem.wrong}" for problem in result]


# --- rename --------------------------------------------------------------------------------------

SOURCE = '{"cluster":"west","partition":0,"topic":"orders"}'


def document(**sections: list[tuple[str, str]]) -> OffsetsDocument:
    inside = ",".join(
        f'"{name}":[' + ",".join(f'{{"partition":{p},"offset":{o}}}' for p, o in pairs) + "]"
        for name, pairs in sections.items()
    )
    parsed = parse_document(f"{{{inside}}}".encode())
    assert isinstance(parsed, OffsetsDocument)
    return parsed


def said(result: object) -> list[str]:
    assert isinstance(result, tuple), result
    return [str(problem) for problem in result]


def test_a_connector_takes_its_offsets_to_its_new_name() -> None:
    renamed = rename_document(document(old=[(SOURCE, "null")], other=[]), {"old": "new"}, {})
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.connectors() == ("new", "other")
    assert renamed.sections[0].where == DocumentLocation(
        "old"
    )  # its place in the document is what it was


def test_two_connectors_may_change_names() -> None:
    renamed = rename_document(document(a=[(SOURCE, "null")], b=[]), {"a": "b", "b": "a"}, {})
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.connectors() == ("b", "a")


def test_two_connectors_do_not_become_one() -> None:
    assert said(rename_document(document(a=[], b=[]), {"a": "b"}, {})) == [
        "--rename: b would be there twice; one document for each of them"
    ]


def test_a_name_that_is_not_in_the_document_is_reported_with_the_nearest() -> None:
    assert said(rename_document(document(mirror_west=[]), {"miror_west": "x"}, {})) == [
        "--rename: the document has no miror_west; did you mean mirror_west?"
    ]


def test_an_alias_is_renamed_in_the_partitions_of_mirrors_and_nowhere_else() -> None:
    beat = '{"sourceClusterAlias":"west","targetClusterAlias":"east"}'
    other = '{"cluster":"west","shard":"west"}'
    renamed = rename_document(
        document(
            a=[(SOURCE, '{"offset":7}'), (beat, '{"offset":0}'), (other, '{"cluster":"west"}')]
        ),
        {},
        {"west": "north"},
    )
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.sections[0].pairs == (
        PartitionOffset('{"cluster":"north","partition":0,"topic":"orders"}', '{"offset":7}'),
        PartitionOffset(
            '{"sourceClusterAlias":"north","targetClusterAlias":"east"}', '{"offset":0}'
        ),
        PartitionOffset(other, '{"cluster":"west"}'),
    )


def test_an_alias_that_is_nowhere_is_a_mistake() -> None:
    assert said(rename_document(document(a=[(SOURCE, "null")]), {}, {"east": "x"})) == [
        "--rename-alias: the document has no east; did you mean west?"
    ]


def test_two_aliases_do_not_become_one_partition() -> None:
    both = document(a=[(SOURCE, "null"), (SOURCE.replace("west", "north"), "null")])
    (problem,) = said(rename_document(both, {}, {"west": "north"}))
    assert problem.startswith("a[1]: the same partition as a[0]")
