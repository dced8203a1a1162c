"""What a run refuses to do, because the tables would no longer hold what they promise.

Called by jobs.py; all but the cut is looked at before a JVM starts. Nothing here repairs anything:
a person has to see that history and Kafka have come apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from exporter.errors import HistoryError
from exporter.history.read import BronzeTopic
from exporter.history.records import Role
from exporter.history.tables import BRONZE_RECORDS
from exporter.model.topology import KafkaTopic

Cut = Mapping[KafkaTopic, Mapping[int, int]]
"""The next offset of every partition: a cut includes the records below it and nothing else."""


def refuse_other_topics(
    known: Iterable[BronzeTopic], by_topic: Mapping[KafkaTopic, Role], read_now: frozenset[str]
) -> None:
    """A checkpoint knows its topics by name, and all of them.

    On a topic created again it would skip the first records (silently, once the new log is longer
    than the old one was) and read offsets a second time. And it takes a topic that is no longer
    asked for as deleted, with all that was not read yet.
    """
    for topic in known:
        role = by_topic.get(topic.at)
        if role is None and topic.at.kafka in read_now:
            raise HistoryError(
                f"{topic.at} was read here before and is no longer in the topology: "
                "a history cannot go on without one of its topics"
            )
        if role is not None and role.topic_id != topic.topic_id:
            raise HistoryError(
                f"{topic.at} was created again (id {topic.topic_id or 'unknown'}, now "
                f"{role.topic_id or 'unknown'}): its history cannot go on in this folder"
            )


def refuse_half_a_history(base: Path, kafka: str, *, begun: bool, held: bool) -> None:
    """Rows and the checkpoint that says where they end belong together.

    Without its checkpoint a stream begins again and stores everything a second time; without the
    rows it goes on from where it was, and what it had read before is missing.
    """
    place = checkpoint(base, kafka)
    if held and not place.is_dir():
        raise HistoryError(
            f"{base} holds records of kafka {kafka}, but {place} is gone: "
            "reading on would store every record twice"
        )
    if place.is_dir() and not begun:
        raise HistoryError(
            f"{place} is there, but {BRONZE_RECORDS.at(base)} is gone: "
            "reading on would leave out all that was read before"
        )


def checkpoint(base: Path, kafka: str) -> Path:
    """Where the stream of a Kafka cluster keeps how far it has read; a name may hold a slash."""
    return base / "_ckpt" / quote(kafka, safe="") / "g0"


def refuse_unread(cut: Cut, reached: Cut) -> None:
    """Gold as of a moment that has not been seen yet would be a guess."""
    for at, offsets in cut.items():
        for partition, offset in offsets.items():
            read_to = reached.get(at, {}).get(partition)
            if read_to is None:
                raise HistoryError(f"the cut names {at} partition {partition}, which was not read")
            if offset > read_to:
                raise HistoryError(
                    f"the cut asks for {at} partition {partition} up to {offset}, "
                    f"but it could be read up to {read_to} only"
                )
