import pytest

from offsetwatch.decode.rest_answers import ConnectRoot, decode_root
from offsetwatch.model.offsets import Undecodable


def test_a_worker_says_its_version_and_its_kafka_cluster():
    body = b'{"version":"4.3.1","commit":"x","kafka_cluster_id":"abc"}'
    assert decode_root(body) == ConnectRoot(version="4.3.1", kafka_cluster_id="abc")


def test_old_workers_do_not_tell_their_kafka_cluster():
    assert decode_root(b'{"version":"1.0.0"}') == ConnectRoot(version="1.0.0")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"version":1}', b"\xff", b"[" * 100_000])
def test_what_is_no_worker_is_undecodable(body: bytes):
    assert isinstance(decode_root(body), Undecodable)


@pytest.mark.parametrize("body", [b"[]", b'{"version":1}'])
def test_what_is_json_and_no_worker_has_a_reason_of_its_own(body: bytes):
    assert decode_root(body) == Undecodable("root_shape")
