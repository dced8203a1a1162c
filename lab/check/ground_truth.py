"""All the witnesses of one lab, and the truth that is made of what they saw."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lab.check import ground_truth_recorder, verdicts
from lab.cluster.connector_configs import FILE_SINK, FILE_SOURCE, MM2_SOURCE
from lab.cluster.lab import Lab
from lab.cluster.load import TOPICS
from lab.json_text import text

OFFSETS, GROUPS = "connect-offsets", "__consumer_offsets"
SYNCS = "mm2-offset-syncs.east.internal"
MIRRORED = tuple((topic, number) for topic, count in TOPICS.items() for number in range(count))


@dataclass(slots=True)
class Witnesses:
    """All that is witnessed of one lab."""

    east: ground_truth_recorder.Topics
    west: ground_truth_recorder.Topics
    ends: dict[str, ground_truth_recorder.LogEnds]
    rest: ground_truth_recorder.Rest

    def truth(self) -> verdicts.Truth:
        """What was seen, ready to be asked; after everything was stopped."""
        ends = {
            name: verdicts.EndsHistory(log_ends.samples) for name, log_ends in self.ends.items()
        }
        truth = verdicts.Truth(ends=ends)
        for record in self.east.records[OFFSETS]:
            add_commit(truth, record)
        for record in self.east.records[GROUPS]:
            offset = ground_truth_recorder.group_offset(record)
            if offset is not None:
                _add(truth, verdicts.SINK_POSITION, offset[0], offset[1], record)
                group, topic, partition = offset[0]
                named = text({"kafka_partition": partition, "kafka_topic": topic})
                sink = (group.removeprefix("connect-"), named)
                _add(truth, verdicts.REST, sink, text({"kafka_offset": offset[1]}), record)
        for record in self.west.records[SYNCS]:
            synced = ground_truth_recorder.sync(record)
            if synced is not None:
                subject = ("west", *synced[0])
                _add(truth, verdicts.SYNC, subject, (*synced[1], record.at), record)
                _add(truth, verdicts.SYNCED, subject, synced[1][0], record)
        return truth

    def rest_claims(self) -> list[verdicts.Claim]:
        """What REST said: it must be in the truth too, or that is none."""
        return [
            verdicts.Claim(
                verdicts.REST,
                (answer.connector, partition),
                offset,
                requested_at=answer.requested_at,
                answered_at=answer.answered_at,
            )
            for answer in self.rest.answers
            for partition, offset in answer.offsets.items()
        ]

    def unsound(self) -> list[str]:
        """Why nothing may be concluded from them."""
        requests = [
            self.east.failure,
            self.west.failure,
            *(one.failure for one in self.ends.values()),
        ]
        failures = [failure for failure in requests if failure is not None]
        ends = [verdicts.EndsHistory(one.samples) for one in self.ends.values()]
        return failures + [line for history in ends for line in history.fallen()]


def add_commit(truth: verdicts.Truth, record: ground_truth_recorder.Record) -> None:
    """One record of an offsets topic, as everything that the daemon may say of it."""
    assert record.key is not None
    connector, partition = json.loads(record.key)
    subject = (connector, text(partition))
    if record.value is None:
        _add(truth, verdicts.POSITION, subject, None, record)
        return
    offset = json.loads(record.value)
    location = (record.partition, record.offset, record.at)
    _add(truth, verdicts.POSITION, subject, (text(offset), *location), record)
    _add(truth, verdicts.REST, subject, text(offset), record)
    for name, number in offset.items():
        named = (connector, verdicts.label(partition), name)
        _add(truth, verdicts.FIELD, named, number, record)
    if "cluster" in partition:
        mirrored = (partition["cluster"], partition["topic"], partition["partition"])
        _add(truth, verdicts.COMMITTED, mirrored, offset["offset"], record)


def _add(
    truth: verdicts.Truth,
    kind: str,
    subject: verdicts.Subject,
    value: object,
    record: ground_truth_recorder.Record,
) -> None:
    assert value is None or isinstance(value, (int, str, tuple))
    truth.add(kind, subject, value, at=record.at, observed_at=record.observed_at)


@contextmanager
def witnessed(lab: Lab) -> Iterator[Witnesses]:
    """Witnesses of everything, from now on to the end of the block; their truth is for after it."""
    witnesses = Witnesses(
        east=ground_truth_recorder.Topics(lab.east, (OFFSETS, GROUPS)),
        west=ground_truth_recorder.Topics(lab.west, (SYNCS,)),
        ends={
            "east": ground_truth_recorder.LogEnds(lab.east, (("lines", 0),)),
            "west": ground_truth_recorder.LogEnds(lab.west, MIRRORED),
        },
        rest=ground_truth_recorder.Rest(lab.connect_urls, (FILE_SOURCE, FILE_SINK, MM2_SOURCE)),
    )
    with ExitStack() as stopping:
        for topics in (witnesses.east, witnesses.west):
            stopping.callback(topics.stop)
            topics.start()
        for ends in witnesses.ends.values():
            stopping.callback(ends.stop)
            ends.start()
        stopping.callback(witnesses.rest.stop)
        witnesses.rest.start()
        yield witnesses
