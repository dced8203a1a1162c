"""Lookups of records by hash or key in the whole of both logs, for an audit.

They read only the partitions concerned, and only if the differing records leave a question open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from offsetwatch.history.audit.differences import (
    AlignmentResult,
    HashedRecord,
    MirrorDifference,
    MirrorDifferenceKind,
    find_unknown_hashes,
)
from offsetwatch.history.audit.explanations import CompactionFacts
from offsetwatch.history.audit.scope import AuditScope
from offsetwatch.history.audit.spark_reader import (
    DOWNSTREAM,
    UPSTREAM,
    AuditReadRange,
    SparkReadOptions,
    find_by_hash,
    find_newest_by_key,
)
from offsetwatch.model.topology import TopicPartition


@dataclass(frozen=True, slots=True)
class Lookups:
    """Lookups in both logs. `remotes`: upstream partition -> its downstream topic."""

    spark: SparkSession
    clusters: SparkReadOptions
    pinned: AuditScope
    remotes: Mapping[TopicPartition, str]
    progress: Callable[[str], None]

    def elsewhere(
        self, left: Mapping[TopicPartition, Sequence[AlignmentResult]]
    ) -> dict[TopicPartition, dict[int, HashedRecord | None]]:
        """Return, by partition and hash, the origin of downstream records that the windows lack.

        It is an upstream record outside of the windows; None for a record that is downstream at an
        earlier offset too, and no longer upstream. Raises HistoryError.
        """
        asked = {
            partition: frozenset().union(*map(find_unknown_hashes, of))
            for partition, of in left.items()
        }
        wanted = {partition: hashes for partition, hashes in sorted(asked.items()) if hashes}
        if not wanted:
            return {}
        hashes = frozenset().union(*wanted.values())
        self.progress(f"  {len(hashes)} records of unknown origin are looked for in both logs")
        places = tuple(wanted)
        firsts = {partition: _find_first_offsets(left[partition]) for partition in places}
        found: dict[TopicPartition, dict[int, HashedRecord | None]] = defaultdict(dict)
        for one in find_by_hash(self.spark, self.clusters, self._logs(places), hashes):
            topic_partition, digest = places[one.number], one.record.digest
            if digest not in wanted[topic_partition]:
                continue
            if one.side == UPSTREAM:
                found[topic_partition][digest] = one.record
            elif one.record.offset < firsts[topic_partition][digest]:
                found[topic_partition].setdefault(digest, None)
        return found

    def newest(
        self, found: Mapping[TopicPartition, Sequence[MirrorDifference]]
    ) -> dict[TopicPartition, CompactionFacts]:
        """Return the facts that the explanation by compaction needs. Raises HistoryError."""
        up, down = self.pinned.compacted
        made = {
            partition: CompactionFacts(up=partition.topic in up, down=partition.topic in down)
            for partition in found
        }
        topic_partition = {
            partition: frozenset(_keys(of, made[partition]))
            for partition, of in sorted(found.items())
        }
        wanted = {partition: keys for partition, keys in topic_partition.items() if keys}
        if not wanted:
            return made
        places = tuple(wanted)
        parts = [part for part in self._logs(places) if part.side == UPSTREAM]
        keys = frozenset().union(*wanted.values())
        newest: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
        for (number, key), offset in find_newest_by_key(
            self.spark, self.clusters, parts, keys
        ).items():
            newest[places[number]][key] = offset
        for partition in places:
            made[partition] = CompactionFacts(
                up=made[partition].up, down=made[partition].down, upstream=newest[partition]
            )
        return made

    def _logs(self, places: Sequence[TopicPartition]) -> list[AuditReadRange]:
        """Return the ranges of both whole logs, with their ends when the audit was pinned."""
        parts = []
        for number, partition in enumerate(places):
            up, down = self.pinned.up[partition], self.pinned.down[partition]
            end = up.stable_end if self.pinned.flow.read_committed else up.end
            parts.append(
                AuditReadRange(
                    number, UPSTREAM, partition.topic, partition.partition, up.start, end
                )
            )
            remote = self.remotes[partition]
            parts.append(
                AuditReadRange(
                    number, DOWNSTREAM, remote, partition.partition, down.start, down.stable_end
                )
            )
        return parts


def _find_first_offsets(left: Iterable[AlignmentResult]) -> dict[int, int]:
    """Return hash -> offset of the first unmatched downstream record with it."""
    found: dict[int, int] = {}
    for record in (record for of in left for gap in of.gaps for record in gap.down):
        found[record.digest] = min(record.offset, found.get(record.digest, record.offset))
    return found


def _keys(found: Iterable[MirrorDifference], of: CompactionFacts) -> Iterator[int]:
    for item in found:
        if item.kind is MirrorDifferenceKind.LOST and item.up is not None and of.down:
            yield item.up.key
        elif item.kind is MirrorDifferenceKind.ADDED and item.down is not None and of.up:
            yield item.down.key
