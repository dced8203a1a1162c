"""Falls that are observed look by look, of views that are given."""

from __future__ import annotations

from offsetwatch.judge.findings.rewinds import RewindTracker
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, Topology
from offsetwatch.state.snapshot import (
    EMPTY_SNAPSHOT,
    MirrorPartitionView,
    SourcePartitionView,
    SyncView,
    TopicRecreation,
)
from tests.changed import replace

INTERVAL_S = 60.0
POLL_S = 5.0
BEGAN = 1_800_000_000.0
MM2 = ("lab", "mm2")
WHERE = (*MM2, "orders", 0)
FLOW = MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("west", "syncs"))


def counted(
    connector: str = "files",
    rewinds: int = 0,
    *,
    resets: int = 0,
    committed_at: float | None = BEGAN,
    cluster: str = "lab",
    label: str = "0",
) -> SourcePartitionView:
    """How often a source partition went back and was reset."""
    return SourcePartitionView(
        connect_cluster=cluster,
        connector=connector,
        identity=label,
        label=label,
        dialect="generic",
        offset=None,
        kafka_partition=0,
        log_offset=0,
        committed_at=committed_at,
        advanced_at=committed_at,
        commits=0,
        advances=0,
        rewinds=rewinds,
        resets=resets,
        variants=0,
    )


def copied(committed: int | None, **changes) -> MirrorPartitionView:
    """A partition that is copied up to here, of a log of two hundred, with some of it left."""
    fields = {
        "connect_cluster": "lab",
        "connector": "mm2",
        "source": "west",
        "target": "east",
        "topic": "orders",
        "partition": 0,
        "committed": committed,
        "committed_at": BEGAN,
        "synced": None,
        "replicated": committed,
        "log_start": 0,
        "log_end": 200,
        "lag": 1,
        "ahead": 0,
    }
    return MirrorPartitionView(**{**fields, **changes})


def sync(upstream: int, downstream: int, partition: int = 0) -> SyncView:
    return SyncView("lab", "west", "east", "orders", partition, upstream, downstream, BEGAN)


def again(*, count: int = 1, moment: float = BEGAN) -> TopicRecreation:
    return TopicRecreation("lab", "mm2", "west", "east", "orders", count, moment, "id-1", "id-2")


class ObservedRewinds:
    """What is given stays so from one look to the next."""

    def __init__(self) -> None:
        self.falls = RewindTracker()
        self.snapshot = replace(EMPTY_SNAPSHOT, at=BEGAN, topology=Topology((), (FLOW,)))
        self.rests: dict[tuple[str, str], float] = {}

    def observe(
        self, *mirrors: MirrorPartitionView, after_s: float = POLL_S, **changes
    ) -> RewindTracker:
        if mirrors:
            changes["mirror_partitions"] = mirrors
        self.snapshot = replace(self.snapshot, at=self.snapshot.at + after_s, **changes)
        self.falls.observe(self.snapshot, INTERVAL_S, dict(self.rests))
        return self.falls

    @property
    def now(self) -> float:
        return self.snapshot.at

    def fall(self, *names: str, cluster: str = "lab", after_s: float = POLL_S) -> RewindTracker:
        """These connectors go back once more."""
        were = self.snapshot.source_partitions
        known = {(partition.connect_cluster, partition.connector) for partition in were}
        assert known >= {(cluster, name) for name in names}
        views = tuple(
            replace(partition, rewinds=partition.rewinds + 1, committed_at=self.now + after_s)
            if partition.connect_cluster == cluster and partition.connector in names
            else partition
            for partition in were
        )
        return self.observe(after_s=after_s, source_partitions=views)


def five(*, cluster: str = "lab") -> tuple[SourcePartitionView, ...]:
    return tuple(counted(name, 3, cluster=cluster) for name in "abcde")


def observe_first(*views: SourcePartitionView) -> ObservedRewinds:
    """Connectors of which a first look was taken."""
    built = ObservedRewinds()
    built.observe(source_partitions=views or five())
    return built


def reset(observed: ObservedRewinds, *mirrors: MirrorPartitionView) -> None:
    """One more tombstone in the offsets of mm2."""
    number = sum(partition.resets for partition in observed.snapshot.source_partitions)
    observed.observe(*mirrors, source_partitions=(counted("mm2", resets=number + 1),))
