from __future__ import annotations

import pytest

from exporter.decode.dialects import DIALECTS, dialect_of, mirror_partition, position
from exporter.decode.source_offsets import decode_value
from exporter.model.offsets import MirrorPartition


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ({"cluster": "a", "topic": "t", "partition": 0}, "mirror_source"),
        ({"filename": "/x"}, "file_stream"),
        ({"filename": None}, "generic"),
        ({"filename": "/x", "more": 1}, "generic"),
        ({"group": "g", "topic": "t", "partition": 0}, "generic"),
        ({"cluster": "a", "topic": "t", "partition": 0, "x": 1}, "generic"),
        ({"server": "db"}, "generic"),
        ({}, "generic"),
    ],
    ids=str,
)
def test_a_dialect_is_recognised_by_the_shape_of_its_source_partition(partition, expected):
    assert dialect_of(partition).name == expected


def test_a_mirror_partition_needs_a_real_integer():
    good = {"cluster": "a", "topic": "t", "partition": 2**31 - 1}
    assert mirror_partition(good) == MirrorPartition("a", "t", 2**31 - 1)
    for bad in (True, 1.0, "1", None, -1, 2**31):
        assert mirror_partition({**good, "partition": bad}) is None
    assert mirror_partition({**good, "topic": 1}) is None
    assert mirror_partition({**good, "cluster": None}) is None


@pytest.mark.parametrize(
    ("dialect", "value", "expected"),
    [
        pytest.param("mirror_source", b'{"offset":5}', 5, id="mm2"),
        pytest.param("mirror_source", b'{"offset":5.0}', None, id="a-double-is-no-position"),
        pytest.param("mirror_source", b'{"offset":true}', None, id="nor-is-a-bool"),
        pytest.param("mirror_source", b'{"position":5}', None, id="nor-another-field"),
        pytest.param("mirror_source", b"null", None, id="nor-null"),
        pytest.param("mirror_source", None, None, id="nor-a-tombstone"),
        pytest.param("file_stream", b'{"position":7}', 7, id="file"),
        pytest.param("generic", b'{"lsn":9,"offset":3}', None, id="no-order-is-vouched-for"),
    ],
)
def test_a_position_is_an_integer_whose_order_the_connector_guarantees(dialect, value, expected):
    assert position(dialect, decode_value(value)) == expected


def test_every_dialect_is_found_under_its_own_name():
    assert all(dialect.name == name for name, dialect in DIALECTS.items())
