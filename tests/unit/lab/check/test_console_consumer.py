"""What is made of the lines that Kafka's own tools print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.check import console_consumer
from lab.check.console_consumer import CommittedRecord
from lab.errors import LabError


def line(key: str, value: str, *, partition: int = 3, offset: int = 0) -> str:
    return f"CreateTime:1795266947773\tPartition:{partition}\tOffset:{offset}\t{key}\t{value}"


def test_the_last_record_of_a_key_wins_and_a_tombstone_has_no_value():
    offsets = console_consumer.read_offsets(
        [
            line('["file",{"filename":"/a b"}]', '{"position":1}', offset=0),
            line('["mm2",{"cluster":"w","partition":0,"topic":"t"}]', '{"offset":7}', offset=1),
            line('["file",{"filename":"/a b"}]', '{"position":2}', offset=4),
            line('["mm2",{"partition":0, "topic":"t","cluster":"w"}]', "\\N", offset=5),
        ]
    )
    assert offsets == {
        ("file", '{"filename":"/a b"}'): CommittedRecord(3, 4, '{"position":2}'),
        ("mm2", '{"cluster":"w","partition":0,"topic":"t"}'): CommittedRecord(3, 5, None),
    }


def test_the_last_sync_of_a_partition_wins_whatever_its_topic_is_called():
    syncs = console_consumer.read_syncs(
        [
            "OffsetSync{topicPartition=a-b-0, upstreamOffset=1, downstreamOffset=2}",
            "OffsetSync{topicPartition=a-b-12, upstreamOffset=3, downstreamOffset=4}",
            "OffsetSync{topicPartition=a-b-0, upstreamOffset=5, downstreamOffset=6}",
        ]
    )
    assert syncs == {("a-b", 0): (5, 6), ("a-b", 12): (3, 4)}


def test_a_line_that_is_no_record_is_not_passed_over():
    with pytest.raises(LabError):
        console_consumer.read_offsets(["Option --property is deprecated"])
    with pytest.raises(LabError):
        console_consumer.read_syncs(["Checkpoint{consumerGroupId=g}"])


SYNC = "OffsetSync{topicPartition=a-0, upstreamOffset=1, downstreamOffset=2}"


@pytest.mark.parametrize(
    ("read", "printed"),
    [
        (console_consumer.newest_offsets, line('["file",{"filename":"/a"}]', '{"position":1}')),
        (console_consumer.newest_syncs, SYNC),
    ],
)
def test_a_console_that_went_quiet_before_the_last_record_has_not_printed_all(
    read: Callable[..., dict], printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends then by itself, and calls that no error."""
    lab = SimpleNamespace(
        west="unused:1", east="unused:2", options=SimpleNamespace(kafka_version="4.3.1")
    )
    monkeypatch.setattr(console_consumer, "jars", Path)
    monkeypatch.setattr(console_consumer, "java", lambda *_, **__: ("printf", "%s\n", printed))
    held = [{3: [0, 1]}, {3: [0, 1]}]
    monkeypatch.setattr(console_consumer, "_list_committed_offsets", lambda *_: held.pop(0))
    with pytest.raises(LabError, match="printed 1 of 2, and nothing more within 20 s"):
        read(lab, "east", "offsets")
    compacted_meanwhile = [{3: [0, 1]}, {3: [0]}]
    held[:] = compacted_meanwhile
    assert len(read(lab, "east", "offsets")) == 1
    held[:] = [{}]
    assert read(lab, "east", "offsets") == {}
