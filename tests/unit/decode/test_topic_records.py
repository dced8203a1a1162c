from __future__ import annotations

import json
from typing import get_args

import pytest

from offsetwatch.decode import topic_records
from offsetwatch.decode.topic_records import DecodedRecord, decode_record, format_record
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicKind

from .golden import records

KEY = b'["mm2",{"cluster":"a","partition":3,"topic":"orders"}]'
GOLDEN = {
    "east.connect-offsets": TopicKind.CONNECT_OFFSETS,
    "east.mm2-offsets.a.internal": TopicKind.CONNECT_OFFSETS,
    "west.mm2-offset-syncs.east.internal": TopicKind.OFFSET_SYNCS,
    "east.west.checkpoints.internal": TopicKind.CHECKPOINTS,
    "east.heartbeats": TopicKind.HEARTBEATS,
    "east.a.heartbeats": TopicKind.HEARTBEATS,
    "east.connect-status": TopicKind.STATUS,
}


def decode(role: TopicKind, key: bytes | None, value: bytes | None) -> dict:
    noun = decode_record(role, key, value)
    assert not isinstance(noun, Undecodable), noun
    return json.loads(format_record(noun))


def offset(value: bytes | None, key: bytes = KEY) -> dict:
    return decode(TopicKind.CONNECT_OFFSETS, key, value)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_record_that_real_clusters_wrote_has_an_observation(name):
    for record in records(name):
        assert decode(GOLDEN[name], record.key, record.value)["kind"]


def test_an_offset_is_rendered_with_everything_known_of_it():
    assert offset(b'{"offset":1234}') == {
        "kind": "source_offset",
        "connector": "mm2",
        "source_partition": {"cluster": "a", "partition": 3, "topic": "orders"},
        "key_form": "canonical",
        "dialect": "mirror_source",
        "value": "map",
        "source_offset": {"offset": 1234},
        "position": 1234,
        "event_at": None,
        "beyond_64_bits": False,
        "poisoned": False,
    }


@pytest.mark.parametrize(
    ("value", "form", "output"),
    [
        (None, "tombstone", None),
        (b"", "no_bytes", None),
        (b"null", "null", None),
        (b"{}", "map", {}),
        (b'{"schema":null,"payload":{"offset":7}}', "legacy_envelope", {"offset": 7}),
    ],
    ids=str,
)
def test_the_ways_to_say_nothing_are_distinguished(value, form, output):
    result = offset(value)
    assert (result["value"], result["source_offset"], result["position"]) == (form, output, None)


def test_what_a_task_cannot_read_is_marked():
    assert offset(b'{"offset":5.0}')["poisoned"] is None  # no record tells the class
    huge = offset(b'{"offset":18446744073709551615}')
    assert huge["beyond_64_bits"]
    assert huge["position"] is None
    assert huge["source_offset"] == {"offset": 18446744073709551615}


def test_an_enveloped_key_says_that_it_is_one():
    result = offset(b'{"offset":1}', b'{"schema":null,"payload":' + KEY + b"}")
    assert result["key_form"] == "legacy_envelope"


def test_no_record_reports_what_an_offset_of_a_shared_shape_means():
    key = b'["db",{"server":"s"}]'
    result = offset(b'{"lsn":5,"lsn_commit":4,"ts_usec":1700000000000000}', key)
    assert (result["dialect"], result["event_at"], result["position"]) == ("unknown", None, None)
    assert offset(None, key)["dialect"] == "unknown"


def test_an_undecodable_value_is_the_records_reason():
    assert decode_record(TopicKind.CONNECT_OFFSETS, KEY, b"[]") == Undecodable("value_shape")
    assert decode_record(TopicKind.CONNECT_OFFSETS, None, b"{}") == Undecodable("key_null")


def test_no_secret_of_the_config_topic_is_rendered():
    secret = "hunter2"
    properties = {"connector.class": "X", "database.password": secret}
    for key, body in (("connector-c", {"properties": properties}), ("session-key", secret)):
        noun = decode_record(TopicKind.CONFIGS, key.encode(), json.dumps(body).encode())
        assert secret not in format_record(noun)


def test_addresses_are_rendered_in_one_order():
    properties = {"producer.override.bootstrap.servers": ",".join(f"h{n}:1" for n in range(20))}
    result = decode(
        TopicKind.CONFIGS, b"connector-c", json.dumps({"properties": properties}).encode()
    )
    addresses = result["settings"]["offsets_addresses"]
    assert addresses == sorted(addresses)


def test_every_role_and_every_noun_is_known():
    assert set(topic_records._DECODERS_BY_ROLE) == set(TopicKind)
    assert set(topic_records._KINDS) == set(get_args(DecodedRecord))
