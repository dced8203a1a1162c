"""Polls of the daemon that keep something between rounds: failover, record ages, pipeline files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clients.records.probe import ProbeReader
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import pipeline_status
from offsetwatch.ingest.polls import Batch, poll_failover, poll_topics
from offsetwatch.ingest.record_age_poll import ProbeBudget, ProbeMemory, poll_probes
from offsetwatch.model.observations import (
    BaselinesRead,
    InputRetired,
    Observation,
    PipelineStatusRead,
)
from offsetwatch.model.topology import FlowKey
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.mirror.mm2_names import locate_internal_topics
from offsetwatch.state.snapshot import GroupOffsetsRequest, Snapshot

TOPICS_S: Final = 30.0  # MM2 makes its checkpoints topic minutes after a flow's first group
FILE_POLL_S: Final = 5.0

_FileIdentity = tuple[int, int, int]
_INACCESSIBLE_FILE: _FileIdentity = (0, 0, 0)  # there may be one, and we may not look
_UNREADABLE_FILE: _FileIdentity = (-1, -1, -1)  # last reported: it cannot be read
_log = structlog.get_logger()

PutBatch = Callable[[Batch], bool]
"""Hands a batch to the loop and says whether it was taken; what was not is told again."""


class FailoverPolls:
    """Failover polls of all flows.

    `snapshot` returns the newest one; `put` hands a batch to the loop and returns whether it was
    taken.
    """

    def __init__(
        self,
        admins: Mapping[str, KafkaAdmin],
        snapshot: Callable[[], Snapshot],
        put: Callable[[Batch], bool],
        clock: UnixClock,
    ) -> None:
        self._admins = admins
        self._snapshot = snapshot
        self._put = put
        self._clock = clock
        self._polled_topics: set[tuple[str, str]] = set()
        self._polled_flows: set[FlowKey] = set()

    def poll_topics(self) -> None:
        """Poll which of MM2's internal topics exist."""
        for kafka, topics in _list_flow_topics(self._snapshot()).items():
            self._put(poll_topics(self._admins[kafka], topics))

    def poll_groups(self, connect_cluster: str) -> None:
        """Poll the group offsets of a Connect cluster's flows."""
        for request in self._snapshot().groups_to_ask:
            if request.flow[0] == connect_cluster:
                self._poll_flow(request)

    def poll_new(self) -> None:
        """Poll new topics and flows at once, before their next poll; retire removed flows."""
        snapshot = self._snapshot()
        for kafka, topics in _list_flow_topics(snapshot).items():
            new = {(kafka, topic) for topic in topics} - self._polled_topics
            if new and self._put(poll_topics(self._admins[kafka], topics)):
                self._polled_topics |= new
        flows = {request.flow: request for request in snapshot.groups_to_ask}
        for key in flows.keys() - self._polled_flows:
            self._poll_flow(flows[key])
        for key in self._polled_flows - flows.keys():
            if self._put((InputRetired(build_groups_input(key)),)):
                self._polled_flows.discard(key)

    def _poll_flow(self, request: GroupOffsetsRequest) -> None:
        self._polled_flows.add(request.flow)
        upstream, downstream = self._admins[request.upstream], self._admins[request.downstream]
        answer = poll_failover(request, upstream, downstream, self._clock)
        # Or it would revive what was retired meanwhile.
        if any(other.flow == request.flow for other in self._snapshot().groups_to_ask):
            self._put(answer)


def _list_flow_topics(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    """Return Kafka cluster -> MM2's internal topics of its flows, whether they exist or not."""
    topics: dict[str, frozenset[str]] = {}
    for flow in snapshot.topology.flows:
        for topic in locate_internal_topics(flow):
            topics[topic.kafka] = topics.get(topic.kafka, frozenset()) | {topic.topic}
    return topics


class RecordAgeProbes:
    """Reads of record ages on all Kafka clusters; `stopped` is checked while reading.

    There is one reader per Kafka cluster and isolation level, created when it is first needed: a
    cluster without lag gets no connection.
    """

    def __init__(self, config: Config, clock: UnixClock, stopped: Callable[[], bool]) -> None:
        self._config = config
        self._clock = clock
        self._stopped = stopped
        self._memories = {name: ProbeMemory() for name in config.kafka}
        self._due_at = dict.fromkeys(config.kafka, 0.0)
        self._readers: dict[tuple[str, bool], ProbeReader] = {}

    def round(self, kafka: str, snapshot: Snapshot) -> Batch:
        """Return the observations of one poll of this Kafka cluster.

        Empty if there is nothing to read, or before log ends are due again since the last poll.
        """
        config, now = self._config.probes, self._clock.now()
        if not config.enabled or 0 < self._due_at[kafka] - now <= self._config.ends_s:
            return ()
        observations = poll_probes(
            kafka,
            lambda committed: self._reader(kafka, committed=committed),
            snapshot,
            self._memories[kafka],
            ProbeBudget(reads_max=config.reads_per_round, seconds=config.budget_s),
            self._clock,
            self._stopped,
        )
        if observations:
            self._due_at[kafka] = now + self._config.ends_s
        return observations

    def close(self) -> None:
        """Close all readers, after the last poll."""
        for reader in self._readers.values():
            reader.close()

    def _reader(self, kafka: str, *, committed: bool) -> ProbeReader:
        reader = self._readers.get((kafka, committed))
        if reader is None:
            properties = self._config.kafka[kafka].client_properties()
            reader = ProbeReader(kafka, properties, committed=committed)
            self._readers[kafka, committed] = reader
        return reader


# --- files of the history pipeline ---------------------------------------------------------------


class _WatchedFile:
    """Watched file of the pipeline, which is another process, possibly on another host.

    `read` makes an observation of it; `unreadable` is reported if that raises.
    """

    def __init__(
        self,
        path: Path,
        put: PutBatch,
        read: Callable[[], Observation],
        unreadable: Observation,
        event: str,
    ) -> None:
        self._path = path
        self._put = put
        self._read = read
        self._unreadable = unreadable
        self._event = event
        self._reported: _FileIdentity | None = None
        self._refused: _FileIdentity | None = None

    def poll(self) -> None:
        """Report the file if it is new or has changed since the last report."""
        identity = self._read_identity()
        if identity == self._reported:
            return
        try:
            observation = self._read()
        except HistoryError as exc:
            # Once, not at each poll.
            if identity != self._refused and self._put((self._unreadable,)):
                _log.warning(self._event, detail=str(exc))
                self._reported, self._refused = _UNREADABLE_FILE, identity
            return
        if self._put((observation,)):
            self._reported, self._refused = identity, None

    def _read_identity(self) -> _FileIdentity | None:
        """Return a value that changes when the file is replaced; None without a file."""
        try:
            stat = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return _INACCESSIBLE_FILE
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


class PipelineStatusFile(_WatchedFile):
    """Status file of the pipeline, with its progress."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            pipeline_status.path_of(base),
            put,
            lambda: PipelineStatusRead(pipeline_status.read_status(base)),
            PipelineStatusRead(None, unreadable=True),
            "history_status_unreadable",
        )


class BaselinesFile(_WatchedFile):
    """Baselines file of the pipeline."""

    def __init__(self, base: Path, put: PutBatch) -> None:
        super().__init__(
            pipeline_status.find_baselines_path(base),
            put,
            lambda: BaselinesRead(pipeline_status.read_baselines(base)),
            BaselinesRead(None, damaged=True),
            "history_baselines_unreadable",
        )
