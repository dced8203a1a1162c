"""An own inspection of the clusters, for verbs that find no daemon; it opens no listener.

An inspection is incomplete until the clients of a silent cluster give up. A probe asks every
cluster one question at once and names those that do not answer within seconds, so that a verb does
not wait for what depends on them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import (
    CONNECT,
    KAFKA,
    ClusterName,
    UnreadCluster,
    collect_unread_clusters,
    find_awaited_clusters,
    parse_waiting_line,
)
from offsetwatch.cli.common.light_imports import block_drawing_imports
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.common.parallel import record_remaining_threads
from offsetwatch.cli.remote.read_client import find_daemon_address
from offsetwatch.config import Config, Connect
from offsetwatch.errors import (
    ClientError,
    IncompleteResponse,
    NoReadableCluster,
    ResponseTimeout,
    TargetUnreachable,
)

with block_drawing_imports():
    from offsetwatch.cli.common.logging import configure_logging
    from offsetwatch.clients.connect.reader import reader_of
    from offsetwatch.clients.kafka.inspector import KafkaInspector
    from offsetwatch.daemon import state_dir

if TYPE_CHECKING:
    from offsetwatch.daemon.monitor import ClusterMonitor
    from offsetwatch.state.snapshot import Snapshot
    from offsetwatch.state.snapshot_index import ConnectorKey

SILENT_S: Final = 1.5


class ReachabilityProbe:
    """Requests to all clusters, one each, sent on construction.

    `silent` returns the clusters without an answer, and why.
    """

    def __init__(self, config: Config) -> None:
        self._began = time.monotonic()
        self._errors: dict[ClusterName, str | None] = {}  # None: it answered, or denied access
        self._kafkas: dict[ClusterName, KafkaInspector] = {}
        self._troubles: dict[ClusterName, str] = {}
        self._clusters: list[ClusterName] = []
        for name, kafka in config.kafka.items():
            inspector = KafkaInspector(name, kafka.client_properties())
            self._kafkas[ClusterName(KAFKA, name)] = inspector
            self._send(ClusterName(KAFKA, name), inspector.cluster)
        for connect in config.connect:
            if connect.worker_urls:
                self._send(ClusterName(CONNECT, connect.name), partial(_read_root, connect))

    def answered(self, clusters: Collection[ClusterName]) -> bool:
        """Return whether all of these clusters have answered or failed."""
        return self._errors.keys() >= set(clusters)

    @property
    def is_settled(self) -> bool:
        """Return whether all clusters have answered or failed, or SILENT_S is over."""
        return self.answered(self._clusters) or time.monotonic() - self._began >= SILENT_S

    def wait(self, clusters: Collection[ClusterName], deadline: float) -> None:
        """Wait until all of these clusters have answered or failed, or the deadline."""
        while not self.answered(clusters) and time.monotonic() < deadline:
            time.sleep(ANSWER_POLL_S)

    def silent(self, after_s: float = SILENT_S) -> dict[ClusterName, str]:
        """Return the clusters that failed or have not answered for `after_s` s, with the reason."""
        late = time.monotonic() - self._began
        errors: dict[ClusterName, str | None] = {}
        for cluster in self._clusters:
            if cluster in self._errors:
                errors[cluster] = self._errors[cluster]
            elif late >= after_s:
                errors[cluster] = self._trouble(cluster) or f"no answer within {late:.1f} s"
        return {cluster: error for cluster, error in errors.items() if error is not None}

    def _trouble(self, cluster: ClusterName) -> str | None:
        """Return why a Kafka cluster has not answered; None if its client has reported no error."""
        kafka = self._kafkas.get(cluster)
        error = None if kafka is None or cluster in self._troubles else kafka.trouble()
        if error is not None:
            self._troubles[cluster] = error.detail
        return self._troubles.get(cluster)

    def _send(self, cluster: ClusterName, request: Callable[[], object]) -> None:
        def answer() -> None:
            error = None
            try:
                request()
            except (TargetUnreachable, ResponseTimeout, IncompleteResponse) as exc:
                error = exc.detail
            except ClientError:
                pass  # it said no, which is an answer
            self._errors[cluster] = error

        self._clusters.append(cluster)
        threading.Thread(target=answer, name=f"reach-{cluster.name}", daemon=True).start()


def find_silent_connects(
    config: Config, connects: list[Connect], timeout_s: float
) -> dict[ClusterName, str]:
    """Return those of the Connect clusters that do not answer a first request, and why."""
    timeout_s = min(SILENT_S, timeout_s)
    probe = ReachabilityProbe(config.model_copy(update={"kafka": {}, "connect": connects}))
    names = {ClusterName(CONNECT, cluster.name) for cluster in connects if cluster.worker_urls}
    probe.wait(names, time.monotonic() + timeout_s)
    return probe.silent(timeout_s)


def _read_root(connect: Connect) -> None:
    with closing(reader_of(connect, connect.poll.timeout_s)) as reader:
        reader.root()


ANSWER_POLL_S: Final = 0.05
CATCH_UP_TICK_S = 0.1  # nobody scrapes: be quick
FETCH_WAIT_MS: Final = "50"
QUIET_S: Final = 2.0  # without progress, where a cluster does not answer
# The same, where all that is waited for is asked of such a cluster: what was found is read from the
# next reconciliation on.
UNANSWERED_TIMEOUT_S: Final = 0.5
READING_S: Final = 5.0  # a busy machine may take longer than QUIET_S to open a topic
STOP_S: Final = 3.0  # a poll that runs then may wait longer for its answer
STATUS_TOPIC_S: Final = 8.0  # topics that nothing waits for are found within so long


@dataclass(frozen=True, slots=True)
class OwnInspection:
    """Result of an own inspection: the snapshot, and the clusters that could not be read."""

    snapshot: Snapshot
    unread: tuple[UnreadCluster, ...]

    @property
    def empty(self) -> bool:
        """Return whether nothing at all could be read."""
        snapshot = self.snapshot
        known = snapshot.connectors or snapshot.source_partitions or snapshot.mirror_partitions
        return not (snapshot.ready or known)

    def failure(self) -> ResponseTimeout:
        """Return an error that names what is missing."""
        lines = tuple(cluster.text for cluster in self.unread)
        if self.empty:
            return NoReadableCluster(lines, add_config_option("offsetwatch doctor"))
        return ResponseTimeout("the clusters could not be read whole", "; ".join(lines))


class RecalledTopic(NamedTuple):
    """An offsets topic that a daemon found; `found_at` in Unix seconds."""

    name: str
    found_at: float


def recall_offsets_topics(config: Config) -> dict[str, RecalledTopic]:
    """Return the offsets topics that a daemon left in `state_dir`, by Connect cluster.

    One that was found with other addresses of its Kafka cluster is left out.
    """
    document = state_dir.read_document(Path(config.state_dir), "replication")
    from offsetwatch.state.loss.persistence import decode_clusters  # noqa: PLC0415 - the state

    try:
        clusters = {} if document is None else decode_clusters(document)
    except ValueError:
        return {}
    return {
        connect.name: RecalledTopic(found.offsets_topic, found.offsets_topic_found_at)
        for connect in config.connect
        if (found := clusters.get(connect.name)) is not None
        and found.offsets_topic is not None
        and connect.kafka is not None
        and found.kafka == tuple(sorted(config.kafka[connect.kafka].addresses))
    }


def describe_topic_origin(connect: Connect, recalled: Mapping[str, RecalledTopic]) -> str:
    """Return which topic is read in place of a Connect cluster that does not answer, for people.

    The text is empty if its Kafka cluster is not configured.
    """
    if connect.kafka is None:
        return ""
    if connect.offsets_topic is not None:
        return f"; in its place topic {connect.offsets_topic} is read"
    topic = recalled.get(connect.name)
    if topic is None:
        return "; set its offsets_topic under connect to see positions from that topic"
    found_at = output.format_moment(topic.found_at)
    return f"; in its place topic {topic.name} is read, which a daemon found {found_at}"


@contextmanager
def read_complete_snapshot(config: Config, timeout_s: float) -> Iterator[Snapshot]:
    """Yield a complete snapshot. Raises ResponseTimeout that names what is missing."""
    with _inspect_clusters(config, timeout_s) as inspection:
        yield inspection.snapshot


def inspect_for_connector(
    config: Config, timeout_s: float, key: ConnectorKey
) -> AbstractContextManager[OwnInspection]:
    """Yield a snapshot that is complete in all that one connector depends on.

    It has the state changes from the status topic of the connector's cluster, if that topic is
    found. Other clusters may be unread. Raises ResponseTimeout that names what is missing.
    """
    return _inspect_clusters(config, timeout_s, needed_by=key)


def inspect_clusters(config: Config, timeout_s: float) -> AbstractContextManager[OwnInspection]:
    """Yield what could be read within `timeout_s`.

    A cluster that does not answer is not waited for. Others are, as long as they make progress.
    """
    return _inspect_clusters(config, timeout_s, partly=True)


@contextmanager
def _inspect_clusters(
    config: Config,
    timeout_s: float,
    *,
    partly: bool = False,
    needed_by: ConnectorKey | None = None,
) -> Iterator[OwnInspection]:
    configure_logging("error", "console")
    deadline = time.monotonic() + timeout_s
    probe = ReachabilityProbe(config)
    # Loading what reads the clusters takes as long as most of them take to answer the probe.
    from offsetwatch.daemon.monitor import ClusterMonitor  # noqa: PLC0415
    from offsetwatch.serve.documents.status import list_unread_inputs  # noqa: PLC0415

    reduced, without = _drop_silent_rest(config, probe, deadline) if partly else (config, {})
    monitor = ClusterMonitor(_hasten(reduced), reconcile_s=CATCH_UP_TICK_S)
    monitor.recall_with(partial(state_dir.load_document, Path(config.state_dir)))
    monitor.start()
    try:
        _wait_until_settled(monitor, probe, config, deadline)
        complete = _is_complete(monitor.snapshot, probe.silent(), config, needed_by)
        if complete:
            monitor.wait_for_source_ends(max(0.0, deadline - time.monotonic()))
            monitor.wait_for_ages(max(0.0, deadline - time.monotonic()))
            if needed_by is not None:
                _wait_for_state_changes(monitor, config, needed_by[0], deadline)
        snapshot = monitor.snapshot
        silent = _name_topics(without if snapshot.ready else probe.silent(), config)
        unread = collect_unread_clusters(
            list_unread_inputs(snapshot), snapshot.waiting_for, config=config, silent=silent
        )
        inspection = OwnInspection(snapshot, unread)
        if not (complete or partly):
            raise inspection.failure()
        yield inspection
    finally:
        whole = monitor.snapshot.ready and not without and not probe.silent()
        remaining_s = max(0.0, deadline - time.monotonic()) if whole else 0.0
        if not monitor.stop(min(STOP_S, remaining_s)):
            record_remaining_threads("an inspection of the clusters")


def _hasten(config: Config) -> Config:
    """Return the configuration with short ticks, and fetches that end soon after the last record.

    A fetch at the end of a topic waits for 500 ms by default, of three topics one after another.
    """
    return config.model_copy(
        update={
            "tick_s": min(config.tick_s, CATCH_UP_TICK_S),
            "kafka": {
                name: kafka.model_copy(
                    update={"properties": {"fetch.wait.max.ms": FETCH_WAIT_MS, **kafka.properties}}
                )
                for name, kafka in config.kafka.items()
            },
        }
    )


def _name_topics(silent: dict[ClusterName, str], config: Config) -> dict[ClusterName, str]:
    """Return the reasons, of Connect clusters with the topic that is read in their place."""
    recalled = recall_offsets_topics(config)
    origins = {
        ClusterName(CONNECT, connect.name): describe_topic_origin(connect, recalled)
        for connect in config.connect
    }
    return {cluster: why + origins.get(cluster, "") for cluster, why in silent.items()}


def _drop_silent_rest(
    config: Config, probe: ReachabilityProbe, deadline: float
) -> tuple[Config, dict[ClusterName, str]]:
    """Return the configuration without the URLs of silent Connect clusters, and these clusters.

    Only clusters whose offsets topic is configured, or was found by a daemon, are concerned. Their
    topics are then read as those of a dedicated MirrorMaker: nothing else tells which connectors
    there are.
    """
    recalled = recall_offsets_topics(config)
    known = {
        ClusterName(CONNECT, cluster.name): cluster
        for cluster in config.connect
        if cluster.worker_urls
        and cluster.kafka is not None
        and (cluster.offsets_topic is not None or cluster.name in recalled)
    }
    probe.wait(known, min(deadline, time.monotonic() + SILENT_S))
    without = {name: why for name, why in probe.silent().items() if name in known}
    connects = []
    for cluster in config.connect:
        replaced = cluster
        if ClusterName(CONNECT, cluster.name) in without:
            topic = cluster.offsets_topic or recalled[cluster.name].name
            replaced = cluster.model_copy(
                update={"url": None, "urls": None, "offsets_topic": topic}
            )
        connects.append(replaced)
    return config.model_copy(update={"connect": connects}), without


def _wait_until_settled(
    monitor: ClusterMonitor, probe: ReachabilityProbe, config: Config, deadline: float
) -> None:
    progress: Hashable = None
    since = time.monotonic()
    while not monitor.failed and time.monotonic() < deadline:
        snapshot, silent = monitor.snapshot, probe.silent()
        if snapshot.ready:
            return
        before, progress = progress, _read_progress(snapshot)
        if progress != before:
            since = time.monotonic()
        quiet_s = time.monotonic() - since
        if silent and probe.is_settled and _is_wait_over(snapshot, silent, config, quiet_s):
            return
        time.sleep(CATCH_UP_TICK_S)


def _is_wait_over(
    snapshot: Snapshot, silent: dict[ClusterName, str], config: Config, quiet_s: float
) -> bool:
    """Return whether no progress can be expected any more.

    `quiet_s` is the time without progress. The limit is UNANSWERED_TIMEOUT_S if every input waits
    for a silent cluster, READING_S if one of a cluster that answers has not failed, and QUIET_S
    otherwise.
    """
    waiting = [parse_waiting_line(text) for text in snapshot.waiting_for]
    answered = [
        unread_input
        for unread_input in waiting
        if silent.keys().isdisjoint(find_awaited_clusters(unread_input, config))
    ]
    if snapshot.at and waiting and not answered:
        return quiet_s >= UNANSWERED_TIMEOUT_S
    reading = any(unread_input.last_error is None for unread_input in answered)
    return quiet_s >= (READING_S if reading else QUIET_S)


def _read_progress(snapshot: Snapshot) -> Hashable:
    return (
        tuple(text.partition(" (")[0] for text in snapshot.waiting_for),
        len(snapshot.connectors),
        tuple((view.id, view.tail.behind) for view in snapshot.inputs if view.tail is not None),
    )


def _is_complete(
    snapshot: Snapshot,
    silent: Collection[ClusterName],
    config: Config,
    needed_by: ConnectorKey | None,
) -> bool:
    """Return whether the only missing inputs are of silent clusters that are not needed."""
    if snapshot.ready or needed_by is None or not snapshot.at:
        return snapshot.ready
    waiting = map(parse_waiting_line, snapshot.waiting_for)
    awaited = [find_awaited_clusters(unread_input, config) & {*silent} for unread_input in waiting]
    needed = _find_needed_clusters(snapshot, config, needed_by)
    return all(clusters and clusters.isdisjoint(needed) for clusters in awaited)


def _find_needed_clusters(
    snapshot: Snapshot, config: Config, key: ConnectorKey
) -> set[ClusterName]:
    """Return the clusters that a plan for a connector depends on.

    These are its Connect cluster, the Kafka clusters of that cluster's topics, and those that the
    connector reads from and writes to.
    """
    cluster, _ = key
    topology = snapshot.topology
    kafka = {
        *(connect.kafka for connect in config.connect if connect.name == cluster),
        *(topic.at.kafka for topic in topology.offsets_topics if topic.connect_cluster == cluster),
        *(sink.kafka for sink in topology.sinks if (sink.connect_cluster, sink.connector) == key),
    }
    for flow in topology.flows:
        if (flow.connect_cluster, flow.connector) == key:
            kafka |= {flow.upstream, flow.downstream}
    named = {ClusterName(KAFKA, name) for name in kafka if name is not None}
    return {ClusterName(CONNECT, cluster), *named}


def _wait_for_state_changes(
    monitor: ClusterMonitor, config: Config, cluster: str, deadline: float
) -> None:
    """Wait until the status topic of a Connect cluster has been read.

    It is found soon, if topics of the cluster can be read.
    """
    if not any(connect.name == cluster and connect.kafka is not None for connect in config.connect):
        return
    until = min(deadline, time.monotonic() + STATUS_TOPIC_S)
    while not monitor.failed and time.monotonic() < until:
        if any(history.connect_cluster == cluster for history in monitor.snapshot.histories):
            return
        time.sleep(CATCH_UP_TICK_S)


def describe_own_source(config: Config) -> str:
    """Return what an own inspection read, for people."""
    folder = Path(config.state_dir)
    if state_dir.read_document(folder, "judge") is not None:
        return f"this command, from the clusters and from the state of a daemon in {folder}"
    where = find_daemon_address(config)
    return (
        f"this command alone: no daemon answers on {where}, and none left its state in {folder}. "
        "A verdict needs three intervals of watching"
    )
