"""Registry of the partitions that are judged: those in the snapshot, and those hidden for now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.source_offsets import format_partition_label
from offsetwatch.judge.progress.subjects import JudgedConnector, JudgedPartition, JudgedPartitionKey
from offsetwatch.model.offsets import Scalar
from offsetwatch.state.snapshot import MirrorPartitionView, SinkPartitionView, Snapshot

# Whoever was not seen for a day begins anew: what it was is no use to anybody by then.
HIDDEN_RETENTION_S: Final = 86_400.0


class JudgedPartitionRegistry:
    """Registry of judged partitions: by key in `subjects`, by connector in `tracks`."""

    def __init__(self) -> None:
        self.subjects: dict[JudgedPartitionKey, JudgedPartition] = {}
        self.tracks: dict[tuple[str, str], JudgedConnector] = {}
        self._of_mirror: dict[tuple[str, str, str, str, int], JudgedPartition] = {}

    def add(self, subject: JudgedPartition) -> JudgedPartition:
        """Add a partition and return it."""
        self.subjects[subject.key] = subject
        self.track(subject.key[:2]).subjects[subject.key] = subject
        return subject

    def track(self, of: tuple[str, str]) -> JudgedConnector:
        """Return the track of a connector; create it on first use."""
        found = self.tracks.get(of)
        if found is None:
            found = self.tracks[of] = JudgedConnector()
        return found

    def seen(
        self, snapshot: Snapshot, only: set[JudgedPartitionKey] | None, number: int
    ) -> list[JudgedPartition]:
        """Return the partitions that the snapshot shows, or those of them in `only`; add new ones.

        Set their `number` to that of the present pass.
        """
        found: list[JudgedPartition] = []
        for view in snapshot.source_partitions:
            key = (view.connect_cluster, view.connector, view.identity)
            if only is None or key in only:
                subject = self.subjects.get(key) or self.add(
                    JudgedPartition(key=key, label=view.label)
                )
                subject.source, subject.mirror = view, None
                subject.number = number
                found.append(subject)
        for mirror in snapshot.mirror_partitions:
            subject = self._mirrored(mirror)
            if only is not None and subject.key not in only:
                continue
            if subject.number != number:  # nothing was ever committed for it
                subject.source = None
                subject.number = number
                found.append(subject)
            subject.mirror = mirror
        found.extend(self._sinks(snapshot.sink_partitions, only, number))
        return found

    def _sinks(
        self,
        views: tuple[SinkPartitionView, ...],
        only: set[JudgedPartitionKey] | None,
        number: int,
    ) -> Iterator[JudgedPartition]:
        for view in views:
            label = f"{view.topic}-{view.partition}"
            key = (view.connect_cluster, view.connector, label)
            if only is None or key in only:
                found = self.subjects.get(key)
                subject = found or self.add(JudgedPartition(key=key, label=label, sink=True))
                subject.read = view
                subject.number = number
                yield subject

    def _mirrored(self, view: MirrorPartitionView) -> JudgedPartition:
        of = (view.connect_cluster, view.connector, view.source, view.topic, view.partition)
        subject = self._of_mirror.get(of)
        if subject is None:
            partition: dict[str, Scalar] = {
                "cluster": view.source,
                "partition": view.partition,
                "topic": view.topic,
            }
            key = (view.connect_cluster, view.connector, encode_sorted(partition).decode())
            found = self.subjects.get(key)
            subject = found or self.add(
                JudgedPartition(key=key, label=format_partition_label(partition))
            )
            self._of_mirror[of] = subject
        return subject

    def forget(self, number: int, w: float, patience_s: float) -> set[JudgedPartitionKey]:
        """Remove partitions that are no longer in snapshots, and return their keys.

        A partition that is gone is removed after `patience_s`, because a connector may be unlisted
        for a moment. A hidden one is removed after a day (HIDDEN_RETENTION_S).
        """
        over = {
            key
            for key, judged_partition in self.subjects.items()
            if judged_partition.number != number
            and w - _find_last_seen_w(judged_partition)
            >= (patience_s if judged_partition.hidden is None else HIDDEN_RETENTION_S)
        }
        for key in over:
            del self.subjects[key]
            del self.tracks[key[:2]].subjects[key]
        if over:
            self._of_mirror = {
                row_key: of for row_key, of in self._of_mirror.items() if of.key not in over
            }
        return over

    def drop_tracks(self, listed: frozenset[tuple[str, str]]) -> None:
        """Remove the tracks of connectors that are not listed and have no partitions."""
        for of in [
            of
            for of, judged_connector in self.tracks.items()
            if not judged_connector.subjects and of not in listed
        ]:
            del self.tracks[of]


def _find_last_seen_w(subject: JudgedPartition) -> float:
    return 0.0 if subject.window is None else subject.window.seen_w
