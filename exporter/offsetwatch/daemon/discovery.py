"""Discovery of each Connect cluster's offsets topic, and the tails of all discovered topics.

Config and status topics are needed if a cluster has no REST API. A topic that is not configured is
searched for, and searched for again after it was deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import (
    AmbiguousOutcome,
    ClientError,
    Conflict,
    LeaderNotAvailable,
    OffsetsTopicNotIdentified,
    SeveralOffsetsTopics,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.ingest.internal_topics import (
    derive_listing_topic_names,
    find_offsets_topic,
    is_copy,
)
from offsetwatch.ingest.polls import Batch, build_failure
from offsetwatch.ingest.topic_readers import TopicReader, choose_topic_reader
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.observations import (
    TAIL,
    InputId,
    InputRetired,
    ListingTopicsFound,
    OffsetsTopicCompared,
    OffsetsTopicFound,
    OffsetsTopicLost,
)
from offsetwatch.model.topology import KafkaTopic, ListingTopics, Topology
from offsetwatch.state.mirror.mm2_names import find_remote_topic
from offsetwatch.state.snapshot import ConnectorView, Snapshot

RETRY_S = 5.0
RETRY_MAX_S = 300.0  # a sample of every compacted topic, where the answer has not changed for long
# Errors that are over by themselves.
_TRANSIENT_ERRORS: Final = (
    TargetUnreachable,
    AmbiguousOutcome,
    LeaderNotAvailable,
    Conflict,
    TooManyRequests,
)
COMPARE_S = 300.0  # how soon a topic that was found is doubted; a sample of every compacted topic

JOIN_S_MAX: Final = 15.0

StartTail = Callable[[KafkaTopic, Callable[[], TopicReader], threading.Event], threading.Thread]

_log = structlog.get_logger()


class Discovery:
    """Discovery for all Connect clusters.

    `put` hands a batch to the loop and returns whether it was taken.
    """

    def __init__(
        self,
        config: Config,
        admins: Mapping[str, KafkaAdmin],
        open_reader: Callable[[str], TailReader],
        put: Callable[[Batch], bool],
        clock: UnixClock,
    ) -> None:
        self._config = config
        self._admins = admins
        self._open_reader = open_reader
        self._put = put
        self._clock = clock
        self._decided: dict[str, KafkaTopic] = {}
        self._listing: set[str] = set()
        self._retry_at: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}
        self._evidence: dict[str, object] = {}

    def step(self, snapshot: Snapshot) -> None:
        """Search for missing topics and notice deleted ones, for all Connect clusters."""
        for connect in self._config.connect:
            self.inspect(connect, snapshot)

    def inspect(self, connect: Connect, snapshot: Snapshot) -> None:
        """Search for missing topics of one Connect cluster and notice deleted ones.

        Not thread-safe.
        """
        if connect.kafka is None:
            return  # REST is all there is
        if connect.name in self._decided:
            self._notice_loss(connect, snapshot)
        elif connect.offsets_topic is not None:
            self._settle(connect.name, KafkaTopic(connect.home, connect.offsets_topic))
            self._put((OffsetsTopicCompared(connect.name, doubt=None),))
        else:
            self._find(connect, snapshot)
        if not connect.worker_urls and connect.name not in self._listing:
            self._find_listing(connect)

    def _due(self, what: str, every_s: float = RETRY_S) -> bool:
        now = self._clock.now()
        # After a step back of the clock an old moment may lie far in the future.
        if 0 < self._retry_at.get(what, 0.0) - now <= every_s:
            return False
        self._retry_at[what] = now + every_s
        return True

    # --- offsets topics --------------------------------------------------------------------------

    def _find(self, connect: Connect, snapshot: Snapshot) -> None:
        sources = _list_source_connectors(connect, snapshot)
        if not any(view.dedicated_offsets_topic is None for view in sources):
            return
        if not self._due(f"offsets {connect.name}", self._pause_of(connect, sources, snapshot)):
            return
        search = InputId(TAIL, connect_cluster=connect.name)
        try:
            topic = self._search(connect, sources, _list_copy_prefixes(connect, snapshot))
        except ClientError as exc:
            _log.warning("offsets_topic_not_found", connect_cluster=connect.name, detail=exc.detail)
            self._put((build_failure(search, exc),))
            self._put_off(connect.name, exc)
            return
        self._settle(connect.name, topic, InputRetired(search))
        doubt = _describe_copying_flow(topic, snapshot)
        if doubt is not None:
            self._put((OffsetsTopicCompared(connect.name, doubt),))

    def _pause_of(
        self, connect: Connect, sources: list[ConnectorView], snapshot: Snapshot
    ) -> float:
        """Return how many seconds to wait before the next search.

        The pause is reset to the shortest if the connectors change, or if REST reports offsets of
        others: a connector has committed.
        """
        polled = {
            polled.connector
            for polled in snapshot.by_rest
            if polled.connect_cluster == connect.name
        }
        committed = frozenset(
            view.connector
            for view in (snapshot.source_partitions if polled else ())
            if view.connect_cluster == connect.name and view.connector in polled
        )
        evidence = (frozenset(view.name for view in sources), committed)
        if self._evidence.get(connect.name) != evidence:
            self._evidence[connect.name] = evidence
            self._pause_s.pop(connect.name, None)
        return self._pause_s.get(connect.name, RETRY_S)

    def _put_off(self, connect_cluster: str, error: ClientError) -> None:
        """Double the pause between searches, unless the error is transient.

        Only other evidence changes these answers: no topic has the offsets if no connector has
        committed, or if a standalone worker keeps them in a file.
        """
        pause_s = self._pause_s.get(connect_cluster, RETRY_S)
        self._retry_at[f"offsets {connect_cluster}"] = self._clock.now() + pause_s
        transient = isinstance(error, _TRANSIENT_ERRORS)
        self._pause_s[connect_cluster] = RETRY_S if transient else min(2 * pause_s, RETRY_MAX_S)

    def _compare(self, connect: Connect, snapshot: Snapshot) -> None:
        """Search again for a topic that was found, and report doubt if another one matches.

        It may have been the only match just because the right topic had no offsets yet.
        """
        topic, sources = self._decided[connect.name], _list_source_connectors(connect, snapshot)
        if connect.offsets_topic is not None or not sources:
            return
        if not self._due(f"compare {connect.name}", COMPARE_S):
            return
        copied_as, doubt = _list_copy_prefixes(connect, snapshot), None
        try:
            existing, _ = self._admins[connect.home].topics()
            if is_copy(topic.topic, existing, copied_as):
                self._lose(
                    connect, topic, "by its name it is MirrorMaker 2's copy of another topic"
                )
                return
            found_topic = self._search(connect, sources, copied_as)
        except SeveralOffsetsTopics as exc:
            doubt = exc.detail
        except OffsetsTopicNotIdentified:
            pass  # a sample without its offsets is no second witness
        except ClientError:
            return
        else:
            if found_topic != topic:
                doubt = (
                    f"{found_topic} holds offsets of these connectors, and a sample of {topic} none"
                )
        doubt = _describe_copying_flow(topic, snapshot) or doubt
        self._put((OffsetsTopicCompared(connect.name, doubt),))

    def _search(
        self, connect: Connect, sources: list[ConnectorView], copied_as: frozenset[str]
    ) -> KafkaTopic:
        topic = find_offsets_topic(
            connect.name,
            admin=self._admins[connect.home],
            open_reader=lambda: self._open_reader(connect.home),
            connectors=frozenset(
                view.name for view in sources if view.dedicated_offsets_topic is None
            ),
            dedicated=frozenset(
                view.dedicated_offsets_topic
                for view in sources
                if view.dedicated_offsets_topic is not None
            ),
            clock=self._clock,
            copied_as=copied_as,
        )
        for owner, theirs in self._decided.items():
            # Two Connect clusters must not share an offsets topic; if the one found is another's, a
            # connector of the same name led us there.
            if theirs == topic and owner != connect.name:
                raise OffsetsTopicNotIdentified(
                    connect.name,
                    f"{topic} is {owner}'s: name this cluster's own in connect[].offsets_topic",
                )
        return topic

    def _settle(self, connect_cluster: str, topic: KafkaTopic, *before: InputRetired) -> None:
        observation = OffsetsTopicFound(connect_cluster=connect_cluster, topic=topic)
        if self._put((*before, observation)):
            self._decided[connect_cluster] = topic
            self._pause_s.pop(connect_cluster, None)
            self._retry_at[f"compare {connect_cluster}"] = self._clock.now() + COMPARE_S
            _log.info("offsets_topic_found", connect_cluster=connect_cluster, topic=str(topic))

    def _notice_loss(self, connect: Connect, snapshot: Snapshot) -> None:
        """Notice a deleted topic that was found, not configured; it may be found elsewhere."""
        topic = self._decided[connect.name]
        if connect.offsets_topic is not None:
            return
        # While it is live this may be a leader election: three missed attempts decide.
        gone = any(
            view.id == InputId.of_tail(topic) and view.last_reason == "not_found" and not view.live
            for view in snapshot.inputs
        )
        if gone:
            self._lose(connect, topic, "it is not there any more")
        else:
            self._compare(connect, snapshot)

    def _lose(self, connect: Connect, topic: KafkaTopic, detail: str) -> None:
        if self._put((OffsetsTopicLost(connect_cluster=connect.name),)):
            del self._decided[connect.name]
            _log.warning(
                "offsets_topic_lost", connect_cluster=connect.name, topic=str(topic), detail=detail
            )

    # --- without a REST API ----------------------------------------------------------------------

    def _find_listing(self, connect: Connect) -> None:
        """Find the config and status topics: configured, or by convention.

        By convention their names follow that of the offsets topic.
        """
        if not self._due(f"listing {connect.name}"):
            return
        names = (connect.config_topic, connect.status_topic)
        if names == (None, None):
            listing = self._by_convention(connect)
            if listing is None:
                return
            names = listing
        configs, status = names
        topics = ListingTopics(
            connect_cluster=connect.name,
            configs=None if configs is None else KafkaTopic(connect.home, configs),
            status=None if status is None else KafkaTopic(connect.home, status),
        )
        if self._put((ListingTopicsFound(topics),)):
            self._listing.add(connect.name)
            _log.info("listing_topics_found", connect_cluster=connect.name, topics=names)

    def _by_convention(self, connect: Connect) -> tuple[str, str] | None:
        assert connect.offsets_topic is not None  # config: nothing else is known of such a cluster
        names = derive_listing_topic_names(connect.offsets_topic)
        if names is None:
            return None
        try:
            existing, _ = self._admins[connect.home].topics()
        except ClientError:
            return None  # the tail of the offsets topic, on the same cluster, reports it
        return names if existing.keys() >= set(names) else None


def _list_source_connectors(connect: Connect, snapshot: Snapshot) -> list[ConnectorView]:
    """Return the connectors of a Connect cluster that may have source offsets."""
    return [
        view
        for view in snapshot.connectors
        if view.connect_cluster == connect.name and view.kind is not ConnectorKind.SINK
    ]


def _list_copy_prefixes(connect: Connect, snapshot: Snapshot) -> frozenset[str]:
    """Return the prefixes of topics that known flows replicate to the cluster's Kafka cluster."""
    return frozenset(
        flow.source + (flow.known_separator or "")
        for flow in snapshot.topology.flows
        if flow.downstream == connect.home and flow.policy != "IdentityReplicationPolicy"
    )


def _describe_copying_flow(topic: KafkaTopic, snapshot: Snapshot) -> str | None:
    """Describe the known flow that replicates an upstream topic into this topic; None without one.

    Names do not matter. IdentityReplicationPolicy gives a replicated topic the name of another
    Connect cluster's offsets topic. Then one topic holds offsets of both clusters, possibly of
    connectors with the same name.
    """
    flows = {
        (flow.connect_cluster, flow.connector, flow.source): flow
        for flow in snapshot.topology.flows
        if flow.downstream == topic.kafka
    }
    for view in snapshot.mirror_partitions:
        flow = flows.get((view.connect_cluster, view.connector, view.source))
        if flow is None or view.committed is None:
            continue
        if find_remote_topic(flow, view.topic) == topic.topic:
            return (
                f"{view.connector} of {view.connect_cluster} copies {view.topic} of "
                f"{flow.upstream or view.source} into {topic}: offsets of another Connect cluster "
                "may be among them. Exclude it there (topics.exclude)"
            )
    return None


# --- tails ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RunningTail:
    """Running tail, and the Connect clusters whose offsets it was started for."""

    readers: frozenset[str]
    stopped: threading.Event
    thread: threading.Thread


class Tails:
    """Running tails of the topology's topics.

    `start` starts one; `put` hands a batch to the loop and returns whether it was taken.
    """

    def __init__(self, start: StartTail, put: Callable[[Batch], bool]) -> None:
        self._start = start
        self._put = put
        self._running: dict[KafkaTopic, _RunningTail] = {}
        self._retiring: set[InputId] = set()

    def follow(self, topology: Topology) -> None:
        """Start the tails of new topics and stop those of topics that are no longer named.

        A topic is read from its beginning again if another Connect cluster starts to use it for
        offsets: what was read went to the first one alone.
        """
        clusters = {
            topic: frozenset(
                offsets_topic.connect_cluster
                for offsets_topic in topology.offsets_topics
                if offsets_topic.at == topic
            )
            for topic in topology.tailed()
        }
        for topic, tail in sorted(self._running.items(), key=lambda item: item[0]):
            if topic not in clusters or not clusters[topic] <= tail.readers:
                self._stop(topic)
        # A retired input is forgotten before its tail is reported again, or it would seem alive.
        self._retiring = {
            input_id for input_id in self._retiring if not self._put((InputRetired(input_id),))
        }
        for topic in sorted(clusters.keys() - self._running.keys()):
            if InputId.of_tail(topic) not in self._retiring:
                stopped = threading.Event()
                thread = self._start(topic, choose_topic_reader(topology, topic), stopped)
                self._running[topic] = _RunningTail(clusters[topic], stopped, thread)

    def stop(self) -> None:
        """Signal all tails to stop; do not wait."""
        for tail in tuple(self._running.values()):
            tail.stopped.set()

    def _stop(self, topic: KafkaTopic) -> None:
        tail = self._running.pop(topic)
        tail.stopped.set()
        tail.thread.join(JOIN_S_MAX)  # its last batch must not revive what is retired next
        self._retiring.add(InputId.of_tail(topic))
