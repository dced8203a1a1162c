"""
What a topic says by Kafka's own console consumer: a reading that shares nothing with the exporter.

Each reading is a JVM of its own, about a second long.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from lab.cluster.kafka_client import CALL_S_MAX, settings
from lab.cluster.lab import ClusterName, Lab
from lab.errors import LabError
from lab.json_text import text
from lab.processes.child import RUN_WITH_PARENT
from lab.processes.jars import jars
from lab.processes.java import java

MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SYNC_FORMATTER = "org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter"
HEAP_MB = 128
# Only a topic that was compacted or cut meanwhile makes the console wait this long, or a machine so
# busy that it prints nothing for that time.
QUIET_MS = 20_000
RUN_S_MAX = 120.0
COUNT_S_MAX = 60.0
# KIP-1147; before and after, the other spelling is unknown or warned about in the output.
FORMATTER_PROPERTY_SINCE = (4, 2)

# What the default formatter puts before the key, with tabs between everything.
_RECORD = re.compile(r"CreateTime:\d+\tPartition:(\d+)\tOffset:(\d+)\t[^\t]*\t[^\t]*")
_SYNC = re.compile(
    r"OffsetSync\{topicPartition=(.+)-(\d+), upstreamOffset=(-?\d+), downstreamOffset=(-?\d+)\}"
)
_NULL = "\\N"


@dataclass(frozen=True, slots=True)
class CommittedRecord:
    """A committed record: where it stands in the topic, and its value (JSON text, sorted keys)."""

    kafka_partition: int
    log_offset: int
    value: str | None


def newest_offsets(
    lab: Lab, cluster: ClusterName, topic: str
) -> dict[tuple[str, str], CommittedRecord]:
    """
    An offsets topic by (connector, source partition as JSON text): the newest record of each key.

    A tombstone is a Place without a value. Keys are told apart as JSON, not as bytes, so a variant
    of a key would be one with it: the lab's connectors write none.
    """
    option = "--formatter-property" if _version(lab) >= FORMATTER_PROPERTY_SINCE else "--property"
    printed = [f"print.{what}=true" for what in ("key", "partition", "offset", "timestamp")]
    arguments = [part for what in (*printed, f"null.literal={_NULL}") for part in (option, what)]
    held = _list_committed_offsets(_bootstrap(lab, cluster), topic)
    if not held:
        return {}
    missing = {partition: offsets[-1] for partition, offsets in held.items()}

    def over(line: str) -> bool:
        partition, offset = _parse_position(line)
        if offset >= missing.get(partition, offset + 1):
            del missing[partition]
        return not missing

    return read_offsets(_lines(lab, cluster, topic, arguments, over))


def read_offsets(lines: Iterable[str]) -> dict[tuple[str, str], CommittedRecord]:
    """What newest_offsets makes of the lines that were printed."""
    results: dict[tuple[str, str], CommittedRecord] = {}
    for line in lines:
        partition, offset = _parse_position(line)
        key, value = line.split("\t")[3:]
        connector, source_partition = json.loads(key)
        results[connector, text(source_partition)] = CommittedRecord(
            kafka_partition=partition,
            log_offset=offset,
            value=None if value == _NULL else text(json.loads(value)),
        )
    return results


def newest_syncs(
    lab: Lab, cluster: ClusterName, topic: str
) -> dict[tuple[str, int], tuple[int, int]]:
    """An offset-syncs topic by (topic, partition): the newest (upstream, downstream) of each."""
    held = _list_committed_offsets(_bootstrap(lab, cluster), topic)
    if not held:
        return {}
    # One Kafka partition, so that the number of its records says which is the last.
    missing = itertools.count(sum(len(offsets) for offsets in held.values()) - 1, -1)
    arguments = ("--formatter", SYNC_FORMATTER)
    return read_syncs(_lines(lab, cluster, topic, arguments, lambda _line: next(missing) == 0))


def read_syncs(lines: Iterable[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """What newest_syncs makes of the lines that were printed."""
    results = {}
    for line in lines:
        match = _SYNC.fullmatch(line)
        if match is None:
            raise LabError(f"MirrorMaker's formatter printed: {line[:200]}")
        name, partition, upstream, downstream = match.groups()
        results[name, int(partition)] = (int(upstream), int(downstream))
    return results


def _list_committed_offsets(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """
    The records that a read_committed consumer is given, by partition; empty ones are absent.

    A console consumer has to be told when it has printed all. By itself it ends when nothing has
    come for a while, and heartbeats come all the time. Log ends would not do, as the last offsets
    may be of transaction markers, nor would a number of records: newer ones of one partition may
    come before older ones of another.
    """
    more = {
        "group.id": f"offsetwatch-console-{uuid.uuid4()}",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings(bootstrap, **more))
    try:
        partitions = consumer.list_topics(topic, timeout=CALL_S_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        open_ends, result = set(partitions), dict[int, list[int]]()
        deadline = time.monotonic() + COUNT_S_MAX
        while open_ends:
            if time.monotonic() > deadline:
                raise LabError(f"{topic} could not be read within {COUNT_S_MAX:.0f} s")
            for message in consumer.consume(1000, timeout=0.1):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    result.setdefault(partition, []).append(message.offset() or 0)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - spelt like this
                    open_ends.discard(partition)
        return result
    finally:
        consumer.close()


def _lines(
    lab: Lab,
    cluster: ClusterName,
    topic: str,
    arguments: Sequence[str],
    over: Callable[[str], bool],
) -> list[str]:
    """
    Return what the console consumer prints until one line is the last.

    By itself it ends when nothing has come for QUIET_MS, and calls that no error: then as many
    lines as the topic has records by then were printed, or a LabError says that some are missing.
    """
    command = java(
        jars(lab.options.kafka_version),
        MAIN,
        *("--bootstrap-server", _bootstrap(lab, cluster), "--topic", topic, "--from-beginning"),
        *("--timeout-ms", str(QUIET_MS), "--isolation-level", "read_committed"),
        *arguments,
        heap_mb=HEAP_MB,
    )
    tethered = (sys.executable, "-I", "-S", str(RUN_WITH_PARENT), str(os.getpid()), *command)
    results: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            tethered, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as console,
    ):
        deadline = threading.Timer(RUN_S_MAX, console.kill)
        deadline.start()
        assert console.stdout is not None
        try:
            for line in console.stdout:
                results.append(line.rstrip("\n"))
                if over(results[-1]):
                    console.kill()
                    return results
        finally:
            deadline.cancel()
        if console.wait() != 0:
            errors.seek(0)
            raise LabError(f"the console consumer of {topic} failed\n{errors.read()[-2000:]}")
    there = sum(map(len, _list_committed_offsets(_bootstrap(lab, cluster), topic).values()))
    if len(results) < there:
        quiet = f"and nothing more within {QUIET_MS / 1000:.0f} s"
        raise LabError(
            f"the console consumer of {topic} printed {len(results)} of {there}, {quiet}"
        )
    return results


def _parse_position(line: str) -> tuple[int, int]:
    """The Kafka partition and offset that a line of the default formatter begins with."""
    match = _RECORD.fullmatch(line)
    if match is None:
        raise LabError(f"the console consumer printed: {line[:200]}")
    return int(match[1]), int(match[2])


def _bootstrap(lab: Lab, cluster: ClusterName) -> str:
    return lab.west if cluster == "west" else lab.east


def _version(lab: Lab) -> tuple[int, ...]:
    return tuple(int(part) for part in lab.options.kafka_version.split(".")[:2])
