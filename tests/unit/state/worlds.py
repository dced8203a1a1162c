"""A book and what it is told: every fact passes through the real decoders, every time is given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import count

from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.model.connectors import (
    Connector,
    ConnectorKind,
    MirrorSettings,
    SinkSettings,
    Task,
)
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    REST_OFFSETS,
    SOURCE_END,
    TAIL,
    ConnectorsListed,
    FilteredTopics,
    FirstRecord,
    Frozen,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    ListingRecord,
    LogBounds,
    LogEndsRead,
    LogEndsRequested,
    NoRecordBefore,
    OffsetsPolled,
    OffsetsTopicFound,
    PartitionsAssigned,
    ProbeResult,
    ProbeRoundRead,
    RestOffsetsRead,
    RestOffsetsRequested,
    SinkOffset,
    SinkOffsetsRead,
    SourceRecord,
    SyncRecord,
    TailRead,
    build_rest_offsets_input,
)
from offsetwatch.model.offsets import MirrorPartition, OffsetSync, SourceKey
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.series_budget import UNLIMITED_SERIES, SeriesLimits
from offsetwatch.state.snapshot import (
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourcePartitionView,
    TailView,
)

NOW = 1_800_000_000.0
STALE_S = {
    TAIL: 20.0,
    CONNECT_REST: 30.0,
    GROUPS: 30.0,
    LOG_ENDS: 30.0,
    REST_OFFSETS: 190.0,
    SOURCE_END: 60.0,
}
OFFSETS = KafkaTopic("east", "connect-offsets")
SYNCS = KafkaTopic("west", "mm2-offset-syncs.east.internal")
FILE = {"filename": "/data/in.txt"}


def orders(partition: int = 0, *, topic: str = "orders", cluster: str = "west") -> dict:
    return {"cluster": cluster, "partition": partition, "topic": topic}


def source(name: str, **changes) -> Connector:
    """A connector that reads FILE."""
    fields = {
        "name": name,
        "kind": ConnectorKind.SOURCE,
        "class_name": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "version": "4.3.1",
        "state": "running",
        "tasks": (Task(0, "running"),),
    }
    return Connector(**{**fields, **changes})


def mirror(name: str = "mm2", **changes) -> Connector:
    """A MirrorSourceConnector that reads west and runs beside east."""
    settings = {
        "source": "west",
        "target": "east",
        "source_addresses": frozenset({"west:9092"}),
        "target_addresses": frozenset({"east:9092"}),
        "syncs_topic": SYNCS.topic,
        "syncs_on_source": True,
        "read_committed": False,
    }
    return source(
        name,
        kind=ConnectorKind.MIRROR,
        class_name="org.apache.kafka.connect.mirror.MirrorSourceConnector",
        mirror=MirrorSettings(**{**settings, **changes}),
    )


def sink(name: str) -> Connector:
    settings = SinkSettings(group=f"connect-{name}", addresses=frozenset())
    return source(name, kind=ConnectorKind.SINK, class_name="", sink=settings)


def record(
    connector: str,
    partition: dict,
    offset: dict | bytes | None,
    *,
    log_offset: int,
    at: float = NOW,
    kafka_partition: int = 0,
    live: bool = True,
    advanced_at: float | None = None,
    raw_key: bytes | None = None,
) -> SourceRecord:
    """A record of an offsets topic. `offset` as a dict is written as JSON, None is a tombstone."""
    raw = raw_key if raw_key is not None else build_connect_key(connector, partition)
    key = decode_key(raw)
    assert isinstance(key, SourceKey), key
    value = json.dumps(offset).encode() if isinstance(offset, dict) else offset
    return SourceRecord(
        key=key,
        raw_key=raw,
        offset=decode_value(value),
        partition=kafka_partition,
        log_offset=log_offset,
        at=at,
        advanced_at=advanced_at if live or advanced_at is not None else at,
        live=live,
    )


def sync(
    upstream: int,
    *,
    downstream: int | None = None,
    topic: str = "orders",
    partition: int = 0,
    at: float = NOW,
) -> SyncRecord:
    pair = OffsetSync(
        topic=topic,
        partition=partition,
        upstream_offset=upstream,
        downstream_offset=upstream if downstream is None else downstream,
    )
    return SyncRecord(sync=pair, log_offset=0, at=at)


class World:
    """Connect cluster `lab` on Kafka cluster east, with west beside it; `now` moves by hand."""

    def __init__(
        self,
        *,
        sites: tuple[str | ConnectClusterSettings, ...] = ("lab",),
        source_partitions_max: int = 1000,
        series_per_connector_max: int = UNLIMITED_SERIES.per_connector,
        series_max: int = UNLIMITED_SERIES.total,
        **more,
    ) -> None:
        self.now = NOW
        self.book = Book(
            clusters=tuple(
                ConnectClusterSettings(name=cluster, kafka="east")
                if isinstance(cluster, str)
                else cluster
                for cluster in sites
            ),
            kafkas={"east": frozenset({"east:9092"}), "west": frozenset({"west:9092"})},
            stale_after_s=STALE_S,
            source_partitions_max=source_partitions_max,
            series=SeriesLimits(series_per_connector_max, series_max),
            **more,
        )
        self.tasks: dict[str, dict[str, PartitionsAssigned]] = {}
        self._names: dict[str, set[str]] = {}
        self._log_ends: Counter[tuple[KafkaTopic, int]] = Counter()
        self._as_of: dict[KafkaTopic, float] = {}
        self._askings = count(1)

    def see(self, *observed) -> None:
        for observation in observed:
            self.book.apply(observation, self.now)

    def snapshot(self) -> Snapshot:
        return self.book.snapshot(self.now)

    # --- REST ------------------------------------------------------------------------------------

    def listed(self, *connectors: Connector, cluster: str = "lab") -> None:
        """The list, for long enough to be believed: who is not in it is not there any more."""
        answer = ConnectorsListed(
            connect_cluster=cluster,
            connectors=connectors,
            names=frozenset(connector.name for connector in connectors),
        )
        names = {connector.name for connector in connectors}
        before = self._names.get(cluster)
        moments = [self.now - 86_400.0] if before is None else []
        if before is not None and before - names:
            moments = [self.now + 86_400.0 * number for number in range(1, 5)]
        self._names[cluster] = names
        for moment in (*moments, self.now):
            self.book.apply(answer, moment)
        self.see(InputSucceeded(InputId(CONNECT_REST, connect_cluster=cluster), self.now))

    def rest_offsets(
        self, connector: str, offsets: dict[str, str | None], *, whole: bool = True
    ) -> None:
        """Ask and be answered, with nothing in between."""
        self.see(
            RestOffsetsRequested("lab", connector),
            RestOffsetsRead("lab", connector, tuple(offsets.items()), whole),
        )

    def polled(
        self,
        connector: str,
        *offsets: tuple[dict, dict | None],
        site: str = "lab",
        whole: bool = True,
    ) -> None:
        """REST tells these (source partition, offset) pairs of a connector, and no others."""
        pairs = tuple(
            (
                encode_sorted(entry).decode(),
                None if offset is None else encode_sorted(offset).decode(),
            )
            for entry, offset in offsets
        )
        self.see(
            OffsetsPolled(site, connector, pairs, self.now, whole),
            InputSucceeded(build_rest_offsets_input(site, connector), self.now),
        )

    def poll_failed(self, connector: str, reason: str = "timeout", *, site: str = "lab") -> None:
        self.see(InputFailed(build_rest_offsets_input(site, connector), reason, "no luck"))

    def offsets_differ(self) -> int:
        views = {view.id: view for view in self.snapshot().inputs}
        return dict(views[InputId(CONNECT_REST, connect_cluster="lab")].errors).get(
            "offsets_differ", 0
        )

    # --- tails -----------------------------------------------------------------------------------

    def find_topic(self, topic: KafkaTopic = OFFSETS, *, cluster: str = "lab") -> None:
        self.see(OffsetsTopicFound(connect_cluster=cluster, topic=topic))

    def tail(
        self,
        *records: SourceRecord | SyncRecord | ListingRecord,
        topic: KafkaTopic = OFFSETS,
        whole: bool = False,
        caught_up: bool = True,
        behind: int | None = 0,
        undecodable: tuple[tuple[str, int], ...] = (),
        positions: tuple[tuple[int, int], ...] = (),
        frozen: tuple[int | Frozen, ...] = (),
        at: float | None = None,
    ) -> None:
        """`frozen` names Kafka partitions that an open transaction holds. `at` None is now. What is
        not behind has read to the end as of then; what is, as of when it last was not.
        """
        requested_at = self.now if at is None else at
        held = sum(one.hidden for one in frozen if isinstance(one, Frozen))
        if behind is not None and behind <= held:
            self._as_of[topic] = requested_at
        self.see(
            TailRead(
                input=InputId.of_tail(topic),
                topic=topic,
                at=requested_at,
                records=records,
                positions=positions or self._positions(topic),
                caught_up=caught_up,
                behind=behind,
                as_of=self._as_of.get(topic),
                undecodable=undecodable,
                whole=whole,
                frozen=tuple(
                    one if isinstance(one, Frozen) else Frozen(one, 0, f"partition {one} is held")
                    for one in frozen
                ),
            )
        )

    def _positions(self, topic: KafkaTopic) -> tuple[tuple[int, int], ...]:
        """After all that was committed here."""
        ends = ((location, end) for (of, location), end in self._log_ends.items() if of == topic)
        return tuple((location, end + 1) for location, end in sorted(ends))

    def reads(self, *inputs: InputId) -> None:
        """Each of them, now, and nothing new."""
        self._read(inputs, {view.id: view.tail for view in self.snapshot().inputs})

    def reads_all(self, *, blind: Collection[InputId] = ()) -> None:
        """Each input that is up and not blind, now, and nothing new."""
        tails = {view.id: view.tail for view in self.snapshot().inputs if view.up}
        self._read([input_id for input_id in tails if input_id not in blind], tails)

    def _read(self, inputs: Iterable[InputId], tails: Mapping[InputId, TailView | None]) -> None:
        for input_id in inputs:
            tail = tails.get(input_id)
            if tail is not None and tail.caught_up:
                self.tail(topic=tail.topic, frozen=tail.frozen)
            else:
                self.see(InputSucceeded(input_id, self.now))
            if input_id.kind == CONNECT_REST:
                self.tasks_reported(input_id.connect_cluster)

    def tail_ended(self, topic: KafkaTopic = OFFSETS) -> None:
        self.see(InputRetired(InputId.of_tail(topic)))

    def tail_failed(self, reason: str, topic: KafkaTopic = OFFSETS) -> None:
        self.see(InputFailed(InputId.of_tail(topic), reason, "no luck"))

    def commit(
        self,
        connector: str,
        partition: dict,
        offset: dict | bytes | None,
        *,
        topic: KafkaTopic = OFFSETS,
        **changes,
    ) -> None:
        """One live record at the end of the topic, written now."""
        location = (topic, changes.get("kafka_partition", 0))
        self._log_ends[location] += 1
        fields = {"log_offset": self._log_ends[location], "at": self.now, **changes}
        self.tail(record(connector, partition, offset, **fields), topic=topic)

    def synced(self, upstream: int, *, syncs_topic: KafkaTopic = SYNCS, **changes) -> None:
        self.tail(sync(upstream, **{"at": self.now, **changes}), topic=syncs_topic)

    def assigned(self, *partitions: int, connector: str = "mm2", site: str = "lab") -> None:
        """These partitions of `orders`."""
        result = frozenset(TopicPartition("orders", partition) for partition in partitions)
        self._assign(PartitionsAssigned(site, connector, result))

    def see_assigned(self, *topics: str) -> None:
        """Partition 0 of each of these topics."""
        partitions = frozenset(TopicPartition(topic, 0) for topic in topics)
        self._assign(PartitionsAssigned("lab", "mm2", partitions))

    def tasks_reported(self, cluster: str = "lab") -> None:
        """Connect reports the tasks of each connector as before."""
        self.see(*self.tasks.get(cluster, {}).values())

    def _assign(self, assigned: PartitionsAssigned) -> None:
        tasks = self.tasks.setdefault(assigned.connect_cluster, {})
        tasks[assigned.connector] = assigned
        self.see(assigned)

    # --- log ends, groups ------------------------------------------------------------------------

    def request_ends(self, kafka: str = "west") -> int:
        number = next(self._askings)
        self.see(LogEndsRequested(kafka=kafka, number=number))
        return number

    def ends(
        self,
        bounds: dict[TopicPartition, LogBounds] | int,
        *,
        number: int | None = None,
        kafka: str = "west",
        ids: dict[str, str | None] | None = None,
        partitions: dict[str, int] | None = None,
        filtered: dict[tuple[str, str], FilteredTopics] | None = None,
    ) -> None:
        """The answer, to a question of now unless `number` names an earlier one. A number as
        `bounds` is the end of orders-0.
        """
        request = self.request_ends(kafka) if number is None else number
        if isinstance(bounds, int):
            bounds = {TopicPartition("orders", 0): LogBounds(0, bounds, bounds)}
        self.see(
            LogEndsRead(
                kafka=kafka,
                number=request,
                bounds=bounds,
                ids=ids,
                partitions=partitions or {},
                filtered=filtered or {},
            ),
            InputSucceeded(InputId(LOG_ENDS, kafka=kafka), self.now),
        )

    def probed(
        self,
        start: int,
        result: FirstRecord | NoRecordBefore,
        *,
        requested_at: float | None = None,
        partition: int = 0,
    ) -> None:
        """What a read of orders found for mm2, from this offset on; begun now, or before."""
        who = ("lab", "mm2", MirrorPartition("west", "orders", partition))
        moment = self.now if requested_at is None else requested_at
        self.see(
            ProbeRoundRead(
                kafka="west", at=moment, answers=(ProbeResult(of=who, start=start, found=result),)
            )
        )

    def sinks(self, *offsets: SinkOffset) -> None:
        self.see(
            SinkOffsetsRead("lab", offsets),
            InputSucceeded(InputId(GROUPS, connect_cluster="lab"), self.now),
        )

    # --- reading ---------------------------------------------------------------------------------

    def partitions(self) -> dict[tuple[str, str], SourcePartitionView]:
        return {
            (partition.connector, partition.label): partition
            for partition in self.snapshot().source_partitions
        }

    def file(self) -> SourcePartitionView:
        """The source partition FILE of connector `files`."""
        return self.partitions()["files", "filename=/data/in.txt"]

    def mirrored(self, connector: str = "mm2", partition: int = 0) -> MirrorPartitionView | None:
        for item in self.snapshot().mirror_partitions:
            if (item.connector, item.partition) == (connector, partition):
                return item
        return None

    def sunk(self) -> tuple[SinkPartitionView, ...]:
        return self.snapshot().sink_partitions


def files(**changes) -> World:
    """A world in which `files` is listed and its offsets topic was read, and was empty."""
    world = World(**changes)
    world.listed(source("files"))
    world.find_topic()
    world.tail(whole=True)
    return world


def mirrors(*connectors: Connector, **changes) -> World:
    """A world in which MM2 is listed, and its offsets and its syncs were read and were empty."""
    world = World(**changes)
    world.listed(*(connectors or (mirror(),)))
    world.find_topic()
    world.tail(whole=True)
    world.tail(topic=SYNCS, whole=True)
    return world
