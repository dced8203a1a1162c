"""What `explain` prints of raw keys, and which clusters it names as not read."""

import msgspec

from offsetwatch.cli.common.document_source import CONNECT, KAFKA, SourcedDocument, UnreadCluster
from offsetwatch.cli.inspect.explain import _find_missing_clusters, _print_raw_keys
from offsetwatch.serve.documents.types import RawKeyRow, SourcePartition
from tests.changed import replace

ROW = SourcePartition(
    source_partition=msgspec.Raw(b'{"name":"a"}'),
    label="name=a",
    offset=msgspec.Raw(b'{"position":7}'),
    kafka_partition=0,
    log_offset=1,
    committed_at=None,
    advanced_at=None,
    commits=1,
    advances=1,
    rewinds=0,
    resets=0,
    variants=0,
    origin="topic",
    dialect="unknown",
    event_at=None,
    poisoned=False,
    shadow=msgspec.Raw(b"null"),
)


def test_the_raw_key_of_a_hash_map_is_not_printed(capsys):
    _print_raw_keys([ROW])
    assert capsys.readouterr().out == ""


def test_another_raw_key_is_printed_and_all_of_which_it_may_be_one(capsys):
    unsure = (RawKeyRow('["c",{"b":1,"a":2}]', msgspec.Raw(b"null")),)
    _print_raw_keys(
        [
            replace(ROW, raw_key='["c",{"a":2,"b":1}]', raw_keys_unsure=()),
            replace(ROW, label="other", raw_key=None, raw_keys_unsure=unsure),
        ]
    )
    printed = capsys.readouterr().out
    assert '["c",{"a":2,"b":1}]' in printed
    assert '{"position":7}' in printed
    assert '["c",{"b":1,"a":2}]' in printed


def test_a_connect_cluster_that_its_topics_replace_is_named_as_not_read():
    unread = [
        UnreadCluster(kind, name, None, "no answer", None, inputs)
        for kind, name, inputs in (
            (CONNECT, "lab", ()),
            (CONNECT, "prod", ()),
            (KAFKA, "east", ("tail east/connect-offsets",)),
            (KAFKA, "west", ("tail west/others",)),
        )
    ]
    document = {
        "connect_cluster": "lab",
        "inputs": [{"kind": "tail", "input": "east/connect-offsets", "up": False}],
    }
    sourced = SourcedDocument(b"", "this command", tuple(unread), None)
    missing = _find_missing_clusters(document, sourced)
    assert [(cluster.kind, cluster.cluster) for cluster in missing] == [
        (CONNECT, "lab"),
        (KAFKA, "east"),
    ]
