"""What is refused before Connect is asked, driven by what Connect 4.3.1 answered to each request.

`connect-alter.json` holds requests to alter the offsets of stopped connectors, as they were sent,
with the status and the message that came back. Two hundred is no proof that a request made sense.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox import documents
from offsetwatch.toolbox.offset_locations import DocumentLocation
from offsetwatch.toolbox.offset_shapes import ReadableRange
from offsetwatch.toolbox.validation import (
    OffsetsRequest,
    ValidationFacts,
    ValidationProblem,
    collect_notes,
    find_named_partitions,
    find_problems,
)
from tests.unit.toolbox.worlds import file_source, mirror, mirror_settings, sink, unknown_type

CASES = json.loads((Path(__file__).parents[2] / "golden" / "connect-alter.json").read_text())
WORLDS = {"t-src": file_source(), "t-sink": sink(), "mm2-source": mirror()}

SOUND = {
    "STOPPED source, PATCH: valid patch",
    "STOPPED source, PATCH: same patch again",
    "STOPPED source, PATCH: null offset tombstones one partition",
    "STOPPED sink, PATCH: valid",
    "STOPPED sink, PATCH: null offset",
    "STOPPED mm2, PATCH: valid",
    "STOPPED mm2, PATCH: null offset",
    "STOPPED mm2, PATCH: restore",
}

# What Connect answered 200 to: (where, what is wrong, what would be right).
ACCEPTED_THOUGH_WRONG = {
    "STOPPED source, PATCH: null offset for unknown partition": (
        "offsets[0].partition.filename",
        '"/nowhere" is not the file that it reads',
        '"filename": "/data/t.txt"',
    ),
    "STOPPED source, PATCH: extra offset field": (
        "offsets[0].offset.note",
        "a FileStreamSourceConnector has no such field",
        'leave it out: like {"position":123}',
    ),
    "STOPPED source, PATCH: duplicate partition in one request": (
        "offsets[1]",
        'the same partition as offsets[0]: {"filename":"/data/t.txt"}',
        "give every partition once",
    ),
    "STOPPED source, PATCH: other partition added": (
        "offsets[0].partition.filename",
        '"/other.txt" is not the file that it reads',
        '"filename": "/data/t.txt"',
    ),
    "STOPPED sink, PATCH: string number": (
        "offsets[0].offset.kafka_offset",
        '"12" is no whole number',
        '"kafka_offset": 12',
    ),
    "STOPPED sink, PATCH: partition as string": (
        "offsets[0].partition.kafka_partition",
        '"0" is no whole number',
        '"kafka_partition": 0',
    ),
    "STOPPED sink, PATCH: beyond log end": (
        "offsets[0].offset.kafka_offset",
        "1000000 is past the end: the last record of tlines-0 is 499",
        "0 to 500, the NEXT record to read (500 waits for new ones)",
    ),
    "STOPPED mm2, PATCH: wrong cluster alias": (
        "offsets[0].partition.cluster",
        '"north" is not the alias that it copies from',
        '"cluster": "west"',
    ),
    "STOPPED mm2, PATCH: extra partition key": (
        "offsets[0].partition.x",
        "a MirrorSourceConnector has no such field",
        "leave it out",
    ),
    "STOPPED mm2, PATCH: extra offset key": (
        "offsets[0].offset.x",
        "a MirrorSourceConnector has no such field",
        'leave it out: like {"offset":123}',
    ),
    "STOPPED mm2, PATCH: beyond end": (
        "offsets[0].offset.offset",
        "99999999 is past the end: the last record of orders-0 is 4999",
        "0 to 4999, the LAST record copied (for X to be the next: X-1); null starts at the first",
    ),
    "STOPPED mm2, PATCH: unknown topic": (
        "offsets[0].partition.topic",
        "there is no topic zzz where it reads",
        "name one that exists",
    ),
    "STOPPED mm2, PATCH: null offset wrong alias": (
        "offsets[0].partition.cluster",
        '"north" is not the alias that it copies from',
        '"cluster": "west"',
    ),
}


def validate_patch(
    case: dict[str, object], facts: ValidationFacts
) -> tuple[ValidationProblem, ...]:
    """What we say of a PATCH body, all the way."""
    connector = str(case["connector"])
    document = documents.parse_document(str(case["body"]).encode(), patch_of=connector)
    if not isinstance(document, documents.OffsetsDocument):
        return document
    (section,) = document.sections
    return find_problems(OffsetsRequest(connector, section.pairs, section.where), facts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_every_request_is_refused_unless_it_is_sound(case: dict[str, object]) -> None:
    messages = validate_patch(case, WORLDS[str(case["connector"])])
    assert bool(messages) == (case["case"] not in SOUND)
    assert all(problem.wrong for problem in messages)


@pytest.mark.parametrize("name", ACCEPTED_THOUGH_WRONG)
def test_what_connect_accepts_though_it_is_wrong_is_reported_with_what_would_be_right(
    name: str,
) -> None:
    case = next(case for case in CASES if case["case"] == name)
    assert case["status"] == 200
    where, wrong, right = ACCEPTED_THOUGH_WRONG[name]
    (problem,) = validate_patch(case, WORLDS[str(case["connector"])])
    assert problem.where == where
    assert problem.wrong == wrong
    assert right in problem.right


def test_no_case_that_connect_accepts_is_left_unjudged() -> None:
    accepted = {case["case"] for case in CASES if case["status"] == 200}
    assert accepted == SOUND | set(ACCEPTED_THOUGH_WRONG)


def validate(
    facts: ValidationFacts, *pairs: tuple[str, str | None], allow_new: bool = False
) -> list[str]:
    request = OffsetsRequest(
        facts.connector,
        tuple(PartitionOffset(*pair) for pair in pairs),
        DocumentLocation("c"),
        allow_new=allow_new,
    )
    return [str(problem) for problem in find_problems(request, facts)]


def test_an_entry_without_an_offset_is_no_reset() -> None:
    document = documents.parse_document(b'{"c": [{"partition": {"filename": "/data/t.txt"}}]}')
    (problem,) = document if isinstance(document, tuple) else ()
    assert "take for a reset" in problem.wrong
    assert '"offset": null' in problem.right


ORDERS = '{"cluster":"west","partition":0,"topic":"orders"}'


@pytest.mark.parametrize(
    ("offset", "ends"),
    [
        (98, "c[0].offset.offset: 98 is before the first record of orders-0, which is 100"),
        (99, None),
        (4999, None),
        (5000, "c[0].offset.offset: 5000 is past the end: the last record of orders-0 is 4999"),
    ],
)
def test_a_mirror_has_copied_a_record_that_is_there_or_the_one_before_the_first(
    offset: int, ends: str | None
) -> None:
    facts = mirror(logs={TopicPartition("orders", 0): ReadableRange(100, 5000)})
    answer = validate(facts, (ORDERS, f'{{"offset":{offset}}}'))
    assert [line.split(";")[0] for line in answer] == ([] if ends is None else [ends])


@pytest.mark.parametrize(("offset", "sound"), [(99, False), (100, True), (500, True), (501, False)])
def test_a_sink_reads_a_record_next_that_is_there_or_the_one_to_come(
    offset: int, sound: bool
) -> None:
    facts = sink(logs={TopicPartition("tlines", 0): ReadableRange(100, 500)})
    pair = ('{"kafka_partition":0,"kafka_topic":"tlines"}', f'{{"kafka_offset":{offset}}}')
    assert (validate(facts, pair) == []) is sound


def test_of_an_empty_partition_no_record_can_have_been_copied() -> None:
    facts = mirror(logs={TopicPartition("orders", 0): ReadableRange(0, 0)})
    (answer,) = validate(facts, (ORDERS, '{"offset":0}'))
    assert answer.endswith(
        "orders-0 is empty, its next record will be 0; only null: null starts at the first record"
    )


def test_null_is_not_called_the_first_record_where_it_is_the_end() -> None:
    facts = mirror(mirror=mirror_settings(from_start=False))
    (answer,) = validate(facts, (ORDERS, '{"offset":5000}'))
    assert answer.endswith("null starts at the END")
    (note,) = collect_notes(
        OffsetsRequest("c", (PartitionOffset(ORDERS, None),), DocumentLocation("c")), facts
    )
    assert "starts at the END" in note


def test_zero_is_allowed_and_said_to_skip_record_0() -> None:
    pair = (ORDERS, '{"offset":0}')
    assert validate(mirror(), pair) == []
    (note,) = collect_notes(
        OffsetsRequest("c", (PartitionOffset(*pair),), DocumentLocation("c")), mirror()
    )
    assert "the next is record 1; null starts with record 0" in note


def test_a_file_without_a_configured_name_may_be_one_that_was_read_before() -> None:
    facts = file_source(filename=None)
    pair = ('{"filename":"/other"}', '{"position":0}')
    assert validate(facts, ('{"filename":"/data/t.txt"}', '{"position":0}')) == []
    (answer,) = validate(facts, pair)
    assert "never there before" in answer
    assert validate(facts, pair, allow_new=True) == []
    assert validate(facts, (pair[0], None)) == []


def test_all_problems_are_reported_at_once() -> None:
    answer = validate(
        mirror(),
        ('{"cluster":"north","partition":7,"topic":"orders"}', '{"offset":1}'),
        ('{"cluster":"west","partition":0,"topic":"ordres"}', '{"offset":"1"}'),
    )
    assert [line.split(":")[0] for line in answer] == [
        "c[0].partition.cluster",
        "c[0].partition.partition",
        "c[1].partition.topic",
        "c[1].offset.offset",
    ]
    assert "did you mean orders?" in answer[2]


def test_a_topic_named_as_it_is_called_downstream_is_reported_its_name_upstream() -> None:
    (answer,) = validate(mirror(), ('{"cluster":"west","partition":0,"topic":"west.orders"}', None))
    assert answer.endswith("upstream it is orders")


def test_what_is_not_known_is_refused_once_with_what_to_configure() -> None:
    facts = mirror(topics=None, logs={}, unknown=("add a cluster with 127.0.0.1:29192 to kafka:",))
    (answer,) = validate(
        facts, (ORDERS, '{"offset":1}'), (ORDERS.replace("orders", "x"), '{"offset":1}')
    )
    assert answer.startswith("c: the first and last record of orders-0, x-0 cannot be read")
    assert "add a cluster with 127.0.0.1:29192 to kafka:; --allow-new" in answer


def test_what_is_not_known_is_written_unchecked_only_where_that_is_requested() -> None:
    facts = mirror(topics=None, logs={}, mirror=None)
    assert len(validate(facts, (ORDERS, '{"offset":1}'))) == 2  # neither its alias nor its log
    assert validate(facts, (ORDERS, '{"offset":1}'), allow_new=True) == []
    request = OffsetsRequest(
        "c", (PartitionOffset(ORDERS, '{"offset":1}'),), DocumentLocation("c"), allow_new=True
    )
    (note,) = collect_notes(request, facts)
    assert "orders-0 has records of these offsets could not be read" in note


def test_a_connector_of_unknown_type_may_be_a_mirror() -> None:
    facts = ValidationFacts(
        "c", ConnectorKind.UNKNOWN, "", present=(PartitionOffset(ORDERS, '{"offset":1}'),)
    )
    (answer,) = validate(facts, (ORDERS, '{"offset":2}'))
    assert "orders-0 cannot be read" in answer
    assert validate(facts, (ORDERS, '{"offset":2}'), allow_new=True) == []


def test_a_partition_that_is_removed_needs_no_log() -> None:
    assert validate(mirror(topics=None, logs={}), (ORDERS, None)) == []
    assert find_named_partitions((PartitionOffset(ORDERS, None),)) == frozenset()
    assert find_named_partitions((PartitionOffset(ORDERS, "{}"),)) == {TopicPartition("orders", 0)}


def test_a_dead_entry_can_be_removed_whatever_it_looks_like() -> None:
    dead = '{"cluster":"north","partition":"0","topic":"orders","x":1}'
    facts = mirror(present=(PartitionOffset(dead, '{"offset":4000}'),))
    assert validate(facts, (dead, None)) == []
    assert validate(facts, (dead, '{"offset":3}')) != []


def test_a_topic_that_no_task_copies_is_refused_unless_that_is_about_to_change() -> None:
    facts = mirror(assigned=frozenset({TopicPartition("orders", 0)}))
    pair = ('{"cluster":"west","partition":1,"topic":"payments"}', '{"offset":3}')
    (answer,) = validate(facts, pair)
    assert "none of its tasks copies payments-1; it copies: orders" in answer
    assert validate(facts, pair, allow_new=True) == []
    assert validate(replace(facts, assigned=None), pair) == []


def test_a_topic_that_the_sink_does_not_read_is_refused() -> None:
    pair = ('{"kafka_partition":0,"kafka_topic":"lines"}', '{"kafka_offset":3}')
    (answer,) = validate(sink(), pair)
    assert "it does not read lines; it reads: tlines" in answer


@pytest.mark.parametrize(
    ("partition", "text"),
    [
        ("0", None),
        ("1", "orders has no partition 1; only 0"),
        ("2147483647", "orders has no partition 2147483647; only 0"),
        ("2147483648", "no partition has the number 2147483648; up to 2147483647"),
        ("-1", "-1 is negative; from 0"),
    ],
)
def test_a_partition_is_one_that_the_topic_has(partition: str, text: str | None) -> None:
    where = f'{{"cluster":"west","partition":{partition},"topic":"orders"}}'
    answer = validate(mirror(), (where, '{"offset":1}'))
    assert answer == ([] if text is None else [f"c[0].partition.partition: {text}"])


@pytest.mark.parametrize(("topic", "right"), [("7", '"topic": "7"'), ("null", '"topic": "…"')])
def test_a_topic_is_a_text(topic: str, right: str) -> None:
    (answer,) = validate(mirror(), (f'{{"cluster":"west","partition":0,"topic":{topic}}}', None))
    assert answer == f"c[0].partition.topic: {topic} is no text; {right}"


def test_the_number_of_a_partition_is_no_truth_value() -> None:
    (answer,) = validate(mirror(), ('{"cluster":"west","partition":true,"topic":"orders"}', None))
    assert "true is no whole number" in answer


def test_a_connector_of_an_unknown_type_may_use_the_partitions_that_it_has_used() -> None:
    assert validate(unknown_type(), ('{"shard":"eu-1"}', '{"at":3,"mark":"b"}')) == []
    (answer,) = validate(unknown_type(), ('{"shard":"eu-2"}', '{"at":3}'))
    assert answer == (
        'c[0].partition: never there before; did you mean {"shard":"eu-1"}?; '
        "--allow-new if it is to be made"
    )
    assert validate(unknown_type(), ('{"shard":"eu-2"}', '{"at":3}'), allow_new=True) == []


def test_a_field_of_another_type_than_the_connector_wrote_is_refused() -> None:
    (answer,) = validate(unknown_type(), ('{"shard":"eu-1"}', '{"at":"3","mark":"b"}'))
    assert answer.startswith('c[0].offset.at: "3" is a text, where it has 17; a whole number')


def test_text_where_a_task_expects_a_long_is_refused_even_with_allow_new() -> None:
    pair = ('{"table":"t"}', '{"incrementing":"3"}')
    jdbc = unknown_type(present=(), class_name="io.confluent.connect.jdbc.JdbcSourceConnector")
    (answer,) = validate(jdbc, pair, allow_new=True)
    assert "at which its task would fail" in answer
    assert (
        validate(unknown_type(present=()), pair, allow_new=True) == []
    )  # another class may take it


def test_text_where_a_task_of_this_shape_expects_a_long_is_written_only_if_it_is_requested() -> (
    None
):
    pair = ('{"table":"t"}', '{"incrementing":"3"}')
    nameless = unknown_type(present=(PartitionOffset(*pair),), class_name="")
    (answer,) = validate(nameless, pair)
    assert "at which a task of jdbc would fail" in answer
    assert "--allow-new" in answer
    assert validate(nameless, pair, allow_new=True) == []


def test_a_key_of_unknown_bytes_is_refused() -> None:
    (answer,) = validate(unknown_type(), ('{"shard":1e-7}', '{"at":3}'), allow_new=True)
    assert "the bytes under which" in answer


@pytest.mark.parametrize("kind", ["Checkpoint", "Heartbeat"])
def test_a_change_of_offsets_that_the_connector_never_reads_is_reported(kind: str) -> None:
    partition = {
        "Checkpoint": '{"group":"g","partition":0,"topic":"west.orders"}',
        "Heartbeat": '{"sourceClusterAlias":"west","targetClusterAlias":"east"}',
    }[kind]
    facts = ValidationFacts(
        connector="c",
        kind=ConnectorKind.MIRROR,
        class_name=f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        present=(PartitionOffset(partition, '{"offset":0}'),),
    )
    (answer,) = validate(facts, (partition, '{"offset":5}'))
    assert f'5, where a Mirror{kind}Connector has 0; {{"offset":0}}' in answer
    assert len(validate(facts, (partition, '{"offset":false}'))) == 1
    assert validate(facts, (partition, None)) == []
    assert validate(replace(facts, present=()), (partition, '{"offset":0}')) == []  # put back
    (note,) = collect_notes(
        OffsetsRequest("c", (PartitionOffset(partition, None),), DocumentLocation("c")), facts
    )
    assert "this changes nothing" in note


def test_ten_thousand_wrong_partitions_are_all_reported_and_the_first_with_what_was_meant() -> None:
    count = 10_000
    present = tuple(
        PartitionOffset(f'{{"shard":"eu-{number}"}}', '{"at":1}') for number in range(count)
    )
    facts = unknown_type(present=present)
    answer = validate(
        facts, *((f'{{"shard":"us-{number}"}}', '{"at":1}') for number in range(count))
    )
    assert len(answer) == count
    assert "did you mean" in answer[0]
    assert answer[-1] == "c[9999].partition: never there before; --allow-new if it is to be made"
    request = OffsetsRequest(
        "c",
        tuple(PartitionOffset(f'{{"s":{number}}}', None) for number in range(count)),
        DocumentLocation("c"),
    )
    (note,) = collect_notes(request, facts)
    assert "and 9995 more: has no offset" in note


def test_nothing_to_remove_is_said_and_not_refused() -> None:
    facts = replace(mirror(), present=())
    assert validate(facts, (ORDERS, None)) == []
    (note,) = collect_notes(
        OffsetsRequest("c", (PartitionOffset(ORDERS, None),), DocumentLocation("c")), facts
    )
    assert "nothing to remove" in note
