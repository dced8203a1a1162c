"""Monitor of all configured clusters: polls, tails, discovery and the event loop, in threads.

It is everything of the daemon but its HTTP listener, so a command can catch up once and print. An
unexpected exception suspends one input (daemon/supervisor.py). In the loop it ends the process,
because the state may be half changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from offsetwatch.clients.connect.offsets_sweep import sweep_of
from offsetwatch.clients.connect.reader import ConnectReader, reader_of
from offsetwatch.clients.databases import build_source_reader
from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.config.identity import format_source_address
from offsetwatch.daemon.discovery import Discovery, Tails
from offsetwatch.daemon.polls import (
    FILE_POLL_S,
    TOPICS_S,
    BaselinesFile,
    FailoverPolls,
    PipelineStatusFile,
    RecordAgeProbes,
)
from offsetwatch.daemon.supervisor import Inputs, JobScheduler, Supervisor
from offsetwatch.daemon.tuning import GC_PERIOD_S, PeriodicGarbageCollector
from offsetwatch.ingest.connect_rest import (
    AssignmentsPoll,
    ConnectorsPoll,
    RestOffsetsPoll,
    poll_assignment,
    poll_connectors,
    poll_rest_offsets,
)
from offsetwatch.ingest.internal_topics import TopicMemory, poll_topic_facts
from offsetwatch.ingest.log_ends_poll import LogEndsPoll
from offsetwatch.ingest.polls import Batch, poll_brokers, poll_groups
from offsetwatch.ingest.source_ends import SourceEndPoll, find_request
from offsetwatch.ingest.tail import Tail
from offsetwatch.ingest.topic_readers import TopicReader
from offsetwatch.ingest.unreadable_partitions import OpenTransactions
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.loop import DocumentLoader, DocumentSaver, Loop
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    REST_OFFSETS,
    SOURCE_END,
    TAIL,
    InputId,
    InputRetired,
    Observation,
    build_rest_offsets_input,
    build_source_end_input,
)
from offsetwatch.model.source_ends import SourceEndRequest, SourceKind
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, SinkGroup, TopicPartition
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.series_budget import SeriesLimits
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.sources.source_ends import SourceSettings

RECONCILE_S = 1.0  # how soon what was just discovered is tailed, polled or probed
BROKERS_S = 60.0
ASSIGNMENTS_S = 30.0  # MM2 itself looks for new topics every ten minutes; asking waits for a worker
FACTS_DUE_S = 5.0  # how soon a topic that was just found is described; then it is rarely
RECORD_AGES_S_MAX = 3.0  # a catch-up is one without them
PUT_TIMEOUT_S = 5.0  # a poll drops its batch rather than wait longer for the loop
STOP_TIMEOUT_S = 15.0
SOURCE_ENDS_S_MAX = 3.0  # the same; a database that does not answer is not waited for
SOURCE_END_STALE_S = 60.0  # where a success does not say how long it lasts
TAIL_STALE_S = 20.0  # ten of its own checks
MISSED_POLLS = 3  # how many attempts in a row may fail before the result of a poll is withdrawn
MISSED_BATCHES = 3
BATCH_S = 300.0  # for a batch or a computation that is under way
_log = structlog.get_logger()


class ClusterMonitor:
    """Monitor of all configured clusters: `start` it, read `snapshot`, `stop` it.

    reconcile_s    how often each input checks what others have discovered: five such steps
                   follow each other before everything is known
    """

    def __init__(
        self, config: Config, clock: UnixClock | None = None, *, reconcile_s: float = RECONCILE_S
    ) -> None:
        self._config = config
        self._reconcile_s = reconcile_s
        self._clock = clock if clock is not None else SystemClock()
        self._stop = threading.Event()
        self._failed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._supervisor = Supervisor(self._put)
        self._polls: dict[tuple[str, str], Callable[[], None]] = {}
        self._tails = Tails(self._start_tail, self._put)
        self._polled_early: set[tuple[str, str]] = set()
        self._assigned_early: set[tuple[str, str]] = set()
        self._admins = {
            name: KafkaInspector(name, kafka.client_properties())
            for name, kafka in config.kafka.items()
        }
        self._homes = {
            connect.name: connect.kafka for connect in config.connect if connect.kafka is not None
        }
        with_rest = [connect for connect in config.connect if connect.worker_urls]
        self._readers = {
            connect.name: reader_of(connect, connect.poll.timeout_s) for connect in with_rest
        }
        self._assignments = {
            name: AssignmentsPoll(reader) for name, reader in self._readers.items()
        }
        self._sweeps = {
            connect.name: sweep_of(connect, connect.poll.timeout_s) for connect in with_rest
        }
        self._ends = {
            name: LogEndsPoll(admin, self._put, self._clock) for name, admin in self._admins.items()
        }
        self._discovery = Discovery(config, self._admins, self._open_reader, self._put, self._clock)
        self._probes = RecordAgeProbes(config, self._clock, self._stop.is_set)
        self._failover = FailoverPolls(self._admins, lambda: self.snapshot, self._put, self._clock)
        self._source_polls = [
            SourceEndPoll(source.name, build_source_reader(source), source.interval, self._clock)
            for source in config.sources
        ]
        self._run_source_soon: dict[str, Callable[[], None]] = {}
        self._requested: dict[str, SourceEndRequest] = {}
        base = Path(config.history.path)
        self._pipeline = PipelineStatusFile(base, self._put)
        self._baselines = BaselinesFile(base, self._put)
        self._loop = Loop(build_book(config), build_judge(config), self._clock, config.tick_s)
        # A thread for each poll that can block, so that one slow input does not delay the others.
        threads = 4 + 6 * len(config.connect) + 4 * len(config.kafka) + len(config.sources)
        self._scheduler = JobScheduler(self._clock, threads, self._job_failed)

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self._loop.snapshot

    def alive(self) -> bool:
        """Check whether the loop ticks and no thread has died."""
        return self._loop.alive() and not self._failed.is_set()

    def fresh(self) -> bool:
        """Check whether the newest snapshot is from the last few ticks."""
        return self._loop.fresh()

    @property
    def failed(self) -> bool:
        """Return True if the loop died of a bug."""
        return self._failed.is_set()

    def recall_with(self, recall: DocumentLoader) -> None:
        """Load the state that an earlier process saved; call it before `start`."""
        self._loop.recall_with(recall)

    def save_with(self, save: DocumentSaver | None) -> None:
        """Save with this function what must survive a restart; None stops saving."""
        self._loop.save_with(save)

    def report(self, observation: Observation) -> None:
        """Enqueue an observation from elsewhere in the process; it may be dropped. Thread-safe."""
        self._put((observation,))

    def start(self) -> None:
        """Start the loop, the polls and, as they are discovered, the tails."""
        self._spawn("loop", lambda: self._loop.run(self._stop.wait))
        self._spawn(
            "clock",
            lambda: self._supervisor.keep(
                "clock", lambda: self._scheduler.watch_clock(self._stop.wait), self._stop.wait
            ),
        )
        for connect in self._config.connect:
            self._schedule_connect(connect)
        for admin in self._admins.values():
            self._schedule_kafka(admin)
        for poll in self._source_polls:
            self._schedule_source(poll)
        self._schedule_rest()
        self._scheduler.start()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop everything that was started; return whether it ended within the timeout.

        The default is STOP_TIMEOUT_S. If False is returned, the caller must end the process next:
        clients may hang on a cluster that does not answer.
        """
        deadline = time.monotonic() + (STOP_TIMEOUT_S if timeout_s is None else timeout_s)
        self._stop.set()
        self._tails.stop()
        ended = self._scheduler.stop(max(0.0, deadline - time.monotonic()))
        self._tails.stop()  # and what was started in the meantime
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not ended or any(thread.is_alive() for thread in self._threads):
            return False
        for reader in self._readers.values():
            reader.close()
        self._probes.close()
        for poll in self._source_polls:
            poll.close()
        for admin in self._admins.values():
            admin.close()
        return True

    def wait_until_ready(
        self, timeout_s: float, *, give_up: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait for one catch-up: every tail at its end, every poll tried once, then a tick."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not self._failed.is_set() and not give_up():
            if self.snapshot.ready:
                return True
            self._stop.wait(min(0.1, self._config.tick_s))
        return self.snapshot.ready

    def wait_for_ages(self, timeout_s: float = RECORD_AGES_S_MAX) -> None:
        """Wait after a catch-up until record ages are read, up to the timeout."""
        deadline = time.monotonic() + min(timeout_s, RECORD_AGES_S_MAX)
        while self._config.probes.enabled and time.monotonic() < deadline:
            snapshot = self.snapshot
            waits = any(
                view.probe_from is not None
                for views in (snapshot.mirror_partitions, snapshot.sink_partitions)
                for view in views
            )
            if not waits or snapshot.probes_skipped:
                return
            self._stop.wait(min(0.1, self._config.tick_s))

    def wait_for_source_ends(self, timeout_s: float = SOURCE_ENDS_S_MAX) -> None:
        """Wait after a catch-up until each source has answered or failed, up to the timeout."""
        deadline = time.monotonic() + min(timeout_s, SOURCE_ENDS_S_MAX)
        while time.monotonic() < deadline:
            requests = self.snapshot.source_requests
            if all(
                poll.answered == find_request(requests, poll.name) for poll in self._source_polls
            ):
                return
            self._stop.wait(min(0.1, self._config.tick_s))

    # --- polls -----------------------------------------------------------------------------------

    def _every(
        self,
        seconds: float,
        name: str,
        job: Callable[[], object],
        inputs: Inputs = tuple,
        *,
        partial: bool = False,
        retires: bool = False,
        delayed: bool = False,
    ) -> Callable[[], None]:
        """Schedule a job every so many seconds, guarded by the supervisor; return that job."""
        guarded = self._supervisor.guard(name, job, inputs, partial=partial, retires=retires)
        self._scheduler.every(seconds, guarded, delayed=delayed)
        return guarded

    def _schedule_source(self, poll: SourceEndPoll) -> None:
        input_id = build_source_end_input(poll.name)
        guarded = self._supervisor.guard(
            f"end of {poll.name}", lambda: self._poll_source(poll), lambda: [input_id]
        )
        self._run_source_soon[poll.name] = self._scheduler.every(poll.interval_s, guarded)

    def _poll_source(self, poll: SourceEndPoll) -> None:
        self._put(poll.read(find_request(self.snapshot.source_requests, poll.name)))

    def _schedule_connect(self, connect: Connect) -> None:
        name, poll = connect.name, connect.poll
        self._polls[GROUPS, name] = self._every(
            poll.groups_s,
            f"groups of {name}",
            lambda: self._poll_groups(connect),
            lambda: [InputId(GROUPS, connect_cluster=name)] if self._sinks(connect) else [],
        )
        self._every(
            poll.groups_s,
            f"failover of {name}",
            lambda: self._failover.poll_groups(name),
            lambda: [
                build_groups_input(request.flow)
                for request in self.snapshot.groups_to_ask
                if request.flow[0] == name
            ],
        )
        reader = self._readers.get(name)
        if reader is None:
            return
        states, rest = ConnectorsPoll(reader), InputId(CONNECT_REST, connect_cluster=name)
        self._every(
            poll.state_s,
            f"connectors of {name}",
            lambda: self._put(poll_connectors(states, self._clock)),
            lambda: [rest],
        )
        self._every(
            poll.offsets_s,
            f"REST offsets of {name}",
            lambda: self._compare_offsets(connect),
            lambda: [rest],
            partial=True,
            delayed=True,
        )
        self._schedule_rest_offsets(connect, reader)
        self._every(
            ASSIGNMENTS_S,
            f"assignments of {name}",
            lambda: self._poll_assignments(name),
            lambda: [rest],
            partial=True,
            delayed=True,
        )

    def _schedule_rest_offsets(self, connect: Connect, reader: ConnectReader) -> None:
        poll = RestOffsetsPoll(
            reader,
            every_s=min(connect.poll.rest_offsets_s, self._config.judge.interval_s),
            timeout_s=connect.poll.timeout_s * len(connect.worker_urls),
            put=self._put,
            clock=self._clock,
            guard=lambda job, name, input_id: self._supervisor.guard(name, job, lambda: [input_id]),
        )
        self._every(
            self._reconcile_s,
            f"polled offsets of {connect.name}",
            lambda: poll.step(self._polled(connect), self._stop.is_set),
            lambda: [
                build_rest_offsets_input(connect.name, name) for name in self._polled(connect)
            ],
            partial=True,
        )

    def _polled(self, connect: Connect) -> list[str]:
        """Return the connectors whose offsets only REST has."""
        polled = self.snapshot.by_rest
        return [view.connector for view in polled if view.connect_cluster == connect.name]

    def _schedule_kafka(self, admin: KafkaInspector) -> None:
        name, memory, ends = admin.name, TopicMemory(), InputId(LOG_ENDS, kafka=admin.name)
        self._polls[LOG_ENDS, name] = self._every(
            self._config.ends_s,
            f"log ends of {name}",
            lambda: self._ends[name].poll(self.snapshot),
            lambda: [ends],
        )
        for seconds, what, job in (
            (BROKERS_S, "brokers", lambda: self._put(poll_brokers(admin))),
            (
                self._reconcile_s,
                "probes",
                lambda: self._put(self._probes.round(name, self.snapshot)),
            ),
            (
                FACTS_DUE_S,
                "topics",
                lambda: self._put(
                    poll_topic_facts(
                        admin,
                        lambda: self._open_reader(name),
                        self.snapshot,
                        self._homes,
                        memory,
                        self._clock,
                        self._stop.is_set,
                    )
                ),
            ),
        ):
            self._every(seconds, f"{what} of {name}", job, lambda: [ends], partial=True)

    def _schedule_rest(self) -> None:
        """Schedule the jobs that belong to no single cluster.

        Discovery and tails are two jobs: a failed discovery must not delay the tails of known
        topics.
        """
        self._every(FILE_POLL_S, "pipeline", self._pipeline.poll)
        self._every(FILE_POLL_S, "baselines", self._baselines.poll)
        self._every(TOPICS_S, "failover topics", self._failover.poll_topics)
        searches = [InputId(TAIL, connect_cluster=connect.name) for connect in self._config.connect]
        discoveries = [self._guard_discovery(connect) for connect in self._config.connect]
        self._every(
            self._reconcile_s, "discovery", lambda: [discover() for discover in discoveries]
        )
        for name, job in (
            ("tails", lambda: self._tails.follow(self.snapshot.topology)),
            ("first polls", self._poll_early),
        ):
            self._every(self._reconcile_s, name, job, lambda: searches, retires=True)
        self._every(GC_PERIOD_S, "memory", PeriodicGarbageCollector().collect, delayed=True)

    def _guard_discovery(self, connect: Connect) -> Callable[[], None]:
        return self._supervisor.guard(
            f"discovery of {connect.name}",
            lambda: self._discovery.inspect(connect, self.snapshot),
            lambda: [InputId(TAIL, connect_cluster=connect.name)],
            retires=True,
        )

    def _poll_groups(self, connect: Connect) -> None:
        sinks = self._sinks(connect)
        if sinks:
            polled: dict[str, dict[TopicPartition, int | None]] = {}
            for view in self.snapshot.sink_partitions:
                if view.connect_cluster == connect.name and view.from_rest:
                    partition = TopicPartition(view.topic, view.partition)
                    polled.setdefault(view.connector, {})[partition] = view.committed
            answer = poll_groups(connect.name, self._admins, sinks, self._clock, polled)
            if self._sinks(connect):  # or it would revive what was retired meanwhile
                self._put(answer)

    def _poll_assignments(self, connect_cluster: str) -> None:
        all_flows = self.snapshot.topology.flows
        flows = [flow for flow in all_flows if flow.connect_cluster == connect_cluster]
        self._assignments[connect_cluster].keep({flow.connector for flow in flows})
        for flow in flows:
            if not self._stop.is_set():
                self._poll_assignment(flow)

    def _poll_assignment(self, flow: MirrorFlow) -> None:
        """Poll one connector, guarded on its own so that its failure does not stop the others."""
        poll, connector = self._assignments.get(flow.connect_cluster), flow.connector
        if poll is None:
            return
        key = (f"assignment of {connector}", flow.connect_cluster)
        if key not in self._polls:
            self._polls[key] = self._supervisor.guard(
                " in ".join(key),
                lambda: self._put(poll_assignment(poll, connector)),
                lambda: [InputId(CONNECT_REST, connect_cluster=poll.name)],
                partial=True,
            )
        self._polls[key]()

    def _compare_offsets(self, connect: Connect) -> None:
        polled = set(self._polled(connect))
        connectors = [
            view.name
            for view in self.snapshot.connectors
            if view.connect_cluster == connect.name
            and view.kind is not ConnectorKind.SINK
            and view.name not in polled
        ]
        sweep = self._sweeps[connect.name]
        poll_rest_offsets(sweep, connectors, self._put, self._stop.is_set)

    # --- what there is to read -------------------------------------------------------------------

    def _poll_early(self) -> None:
        """Poll a new sink, flow, table or file at once, before its next scheduled poll."""
        snapshot = self.snapshot
        for request in snapshot.source_requests:
            if self._requested.get(request.source) != request:
                self._requested[request.source] = request
                self._run_source_soon[request.source]()
        self._failover.poll_new()
        for connect in self._config.connect:
            key = (GROUPS, connect.name)
            has_sinks, polled = bool(self._sinks(connect)), key in self._polled_early
            if has_sinks and not polled:
                self._polled_early.add(key)
                self._polls[key]()
            # The last sink is gone: there is nothing left to go stale.
            elif (
                polled
                and not has_sinks
                and self._put((InputRetired(InputId(GROUPS, connect_cluster=connect.name)),))
            ):
                self._polled_early.discard(key)
        flows = snapshot.index.flows
        for key in flows.keys() - self._assigned_early:
            self._poll_assignment(flows[key])
        self._assigned_early = set(flows)
        for key in flows.keys() & snapshot.index.mirror_partitions.keys() - self._polled_early:
            upstream = flows[key].upstream
            if upstream is not None:
                self._polled_early.add(key)
                self._polls[LOG_ENDS, upstream]()

    def _sinks(self, connect: Connect) -> list[SinkGroup]:
        sinks = self.snapshot.topology.sinks
        return [sink for sink in sinks if sink.connect_cluster == connect.name]

    def _start_tail(
        self, topic: KafkaTopic, role_of: Callable[[], TopicReader], stopped: threading.Event
    ) -> threading.Thread:
        tail = Tail(
            topic,
            admin=self._admins[topic.kafka],
            open_reader=lambda: self._open_reader(topic.kafka),
            transactions=OpenTransactions(
                lambda: self._open_reader(topic.kafka, committed=False), self._clock
            ),
            role_of=role_of,
            put=self._loop.put,
            stopped=stopped.wait,
            clock=self._clock,
        )
        return self._spawn(
            f"tail-{topic}",
            lambda: self._supervisor.keep(
                f"tail of {topic}", tail.run, stopped.wait, lambda: [tail.input_id]
            ),
        )

    def _open_reader(self, kafka: str, *, committed: bool = True) -> TailReader:
        properties = self._config.kafka[kafka].client_properties()
        return TailReader(kafka, properties, committed=committed)

    # --- threads ---------------------------------------------------------------------------------

    def _put(self, batch: Batch) -> bool:
        """Enqueue a poll's batch; drop it if the loop is too slow: the next poll repeats it."""
        if not batch:
            return True
        taken = self._loop.put(batch, PUT_TIMEOUT_S)
        if not taken:
            _log.warning("poll_dropped", observations=len(batch))
        return taken

    def _spawn(self, name: str, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._supervise, args=(name, target), name=name)
        thread.daemon = True
        thread.start()
        self._threads = [*(started for started in self._threads if started.is_alive()), thread]
        return thread

    def _supervise(self, name: str, target: Callable[[], None]) -> None:
        """Run a thread; an exception that escapes the loop or the supervisor ends the process."""
        try:
            target()
        except Exception:  # noqa: BLE001 - see the docstring
            _log.exception("thread_died", thread=name)
            self._failed.set()

    def _job_failed(self, error: BaseException, trace: str) -> None:
        _log.error("job_died", error=repr(error), trace=trace)
        self._failed.set()


def build_book(config: Config) -> Book:
    """Build the state, with the age in seconds at which each kind of input becomes stale.

    That is a few missed attempts.
    """
    slowest_state_s = max(connect.poll.state_s for connect in config.connect)
    slowest_offsets_s = max(connect.poll.rest_offsets_s for connect in config.connect)
    slowest_groups_s = max(connect.poll.groups_s for connect in config.connect)
    # Where one worker does not answer the next is asked, each for so long.
    timeout_s = max(
        cluster.poll.timeout_s * max(1, len(cluster.worker_urls)) for cluster in config.connect
    )
    book = Book(
        clusters=tuple(
            ConnectClusterSettings(
                name=cluster.name,
                kafka=cluster.kafka,
                rest=bool(cluster.worker_urls),
                wants_connector=cluster.connectors.allows,
                wants_topic=cluster.topics.allows,
                by_topic=cluster.granularity == "topic",
                status=None
                if cluster.kafka is None or cluster.status_topic is None
                else KafkaTopic(cluster.kafka, cluster.status_topic),
            )
            for cluster in config.connect
        ),
        kafkas={name: kafka.addresses for name, kafka in config.kafka.items()},
        flows=tuple(
            MirrorFlow(
                connect_cluster=config.connect_of(flow),
                connector=flow.connector,
                source=flow.source,
                target=flow.target,
                upstream=flow.upstream,
                downstream=flow.downstream,
                offset_syncs=None
                if flow.offset_syncs is None
                else KafkaTopic(flow.offset_syncs.kafka, flow.offset_syncs.topic),
                copies=tuple(flow.copies.items()),
            )
            for flow in config.flows
        ),
        stale_after_s={
            TAIL: TAIL_STALE_S,
            CONNECT_REST: MISSED_POLLS * slowest_state_s + timeout_s,
            REST_OFFSETS: MISSED_POLLS * slowest_offsets_s + timeout_s,
            GROUPS: MISSED_POLLS * slowest_groups_s + timeout_s,
            LOG_ENDS: MISSED_POLLS * config.ends_s + timeout_s,
            SOURCE_END: SOURCE_END_STALE_S,
        },
        source_partitions_max=config.limits.source_partitions_max,
        series=SeriesLimits(config.limits.series_per_connector_max, config.limits.series_max),
        interval_s=config.judge.interval_s,
        pipeline_fresh_s=MISSED_BATCHES * config.history.cadence_s + BATCH_S,
    )
    book.watch_sources(
        SourceSettings(
            name=source.name,
            kind=SourceKind(source.kind),
            wants={members.connect: members.allows for members in source.connectors},
            columns=frozenset(column.table for column in source.columns),
            address=format_source_address(source),
        )
        for source in config.sources
    )
    return book


def build_judge(config: Config) -> SnapshotJudge:
    """Build the judge of verdicts and findings, with the configured interval."""
    return SnapshotJudge(
        JudgeSettings(
            interval_s=config.judge.interval_s,
            runbooks_url=config.notify.runbooks_url,
            addresses={
                **{("kafka", name): kafka.bootstrap for name, kafka in config.kafka.items()},
                **{
                    ("connect", cluster.name): cluster.url
                    for cluster in config.connect
                    if cluster.url is not None
                },
            },
        )
    )
