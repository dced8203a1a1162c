"""Remediation thread of the daemon, for one configuration and one leadership term, and its parts.

It is no part of the ClusterMonitor and restarts if a configuration changes what it depends on. A
journal that cannot be trusted stops remediation, not the daemon: monitoring must continue. With
several replicas only the leader acts (remedy/replicas/replica.py). Each set of parts (planner,
readers, drivers) belongs to one thread: that of remediation, or one that answers a request.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from offsetwatch.clients.kafka.journal_topic import JournalTopicRequirements
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Config
from offsetwatch.daemon.supervisor import start_supervised_thread
from offsetwatch.errors import JournalDamaged, NotLeader
from offsetwatch.model.observations import Observation
from offsetwatch.model.remediation import FOLLOWER_MODE, RemediationReported, ReplicaReported
from offsetwatch.remedy.drivers.factory import find_connect_cluster, open_remediation_driver
from offsetwatch.remedy.drivers.quarantine.stores import build_configured_quarantine
from offsetwatch.remedy.drivers.strimzi.resources import find_resource_problem
from offsetwatch.remedy.execute.approved_plans import PlanExecutor, ProcessLifetime
from offsetwatch.remedy.gather.facts_collector import FactsCollector, TimeSources
from offsetwatch.remedy.gather.live_queries import Brokers, ConnectClient
from offsetwatch.remedy.gather.poison_locator import PoisonLocator
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import LinePublisher
from offsetwatch.remedy.loop import ROUND_S, RemediationLoop
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import AlertHint, PlanningAnswer, PlanRequest
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.policy_settings import build_policy
from offsetwatch.remedy.replicas.replica import (
    LeadershipTerm,
    Replica,
    ReplicaSettings,
    ReplicaStatus,
)
from offsetwatch.remedy.views import plan_view
from offsetwatch.state.snapshot import Snapshot

STOP_S: Final = 20.0  # for the current plan to reach a safe point; then the next start goes on
JOURNAL_RETRY_S: Final = 60.0  # after a journal that could not be used
STOPPING_PAUSE_S_MAX: Final = 0.5
FOLLOWER_POLL_S: Final = 0.2  # how often one that follows looks whether it leads by now
THREAD_NAME: Final = "remediation"
# Those that are over are told by remediation_actions_total.
_OPEN_STATES: Final = tuple(
    status.value
    for status in (PlanStatus.PROPOSED, PlanStatus.APPROVED, PlanStatus.RUNNING, PlanStatus.PARKED)
)

_log = structlog.get_logger()


class Remediation:
    """Remediation thread of the daemon, restarted for a changed configuration.

    `snapshot` returns the newest snapshot, `put` hands an observation to the loop.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        put: Callable[[Observation], object],
        folder: Path,
        clock: UnixClock,
        replica: Callable[[], Replica | None] = lambda: None,
    ) -> None:
        self._replica = replica
        self._snapshot = snapshot
        self._put = put
        self._folder = folder
        self._clock = clock
        self._config: Config | None = None
        self._current_run: _RemediationRun | None = None

    def follow(self, config: Config) -> None:
        """Use this configuration from now on.

        If it requires a restart, the old thread first brings its current plan to a safe point,
        however long that takes: two must not act at once.
        """
        if self._config is not None and _select_restart_settings(
            config
        ) == _select_restart_settings(self._config):
            self._config = config
            return
        before = self.stop()
        self._config = config
        self._current_run = run = _RemediationRun()
        run.thread = start_supervised_thread(
            THREAD_NAME, lambda: self._run(config, run, before), run.stop
        )

    def stop(self) -> threading.Thread | None:
        """Start no more plans and bring the current one to a safe point, or leave it as it is.

        Returns the thread if it has not ended yet because it still waits for an answer.
        """
        run = self._current_run
        if run is None or run.thread is None:
            return None
        run.deadline = time.monotonic() + STOP_S
        run.stop.set()
        run.thread.join(2 * STOP_S)
        return run.thread if run.thread.is_alive() else None

    def wake(self, hint: AlertHint) -> None:
        """Check the connector of an alert soon. Thread-safe."""
        agent = None if self._current_run is None else self._current_run.agent
        if agent is not None:
            agent.wake(hint.connect_cluster, hint.connector)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self, config: Config, run: _RemediationRun, before: threading.Thread | None) -> None:
        """Act until stopped; restart from the journal alone after a bug, as a new process would."""
        if before is not None and before.is_alive():
            _log.warning("remedy_waits", reason="a request of before the reload has no answer")
            before.join()
        while not run.stop.is_set():
            try:
                self._work(config, run)
            except NotLeader as exc:
                _log.warning("remedy_without_leadership", error=str(exc))
            except JournalDamaged as exc:
                _log.error("remedy_without_journal", error=str(exc))
                run.stop.wait(JOURNAL_RETRY_S)

    def _work(self, config: Config, run: _RemediationRun) -> None:
        """Act for one leadership term; without replicas, until stopped."""
        term = None
        if config.remedy.journal is not None:
            term = self._wait_for_term(run)
            if term is None:
                return
        stop = run.stop

        def over() -> bool:
            return term is not None and term.over

        def pause(seconds: float) -> None:
            _pause_shorter_if_stopping(stop, seconds)

        publish, check = (None, _skip_check) if term is None else (term.publish, term.check)
        with open_remediation_parts(
            config, self._snapshot, self._folder, self._clock, pause, publish
        ) as parts:
            executor = PlanExecutor(
                ledger=parts.ledger,
                planner=parts.planner,
                open_driver=partial(
                    open_remediation_driver, config=config, folder=self._folder, check=check
                ),
                clock=self._clock,
                lifetime=ProcessLifetime(
                    SteadyClock(), pause, stop.is_set, lambda: run.hurry() or over()
                ),
            )
            agent = RemediationLoop(
                ledger=parts.ledger,
                planner=parts.planner,
                executor=executor,
                policy=parts.policy,
                snapshot=self._snapshot,
                clock=self._clock,
                stopping=stop.is_set,
            )
            run.agent = agent
            try:
                while not stop.wait(ROUND_S) and not over():
                    agent.step()
                    parts.brokers.close_idle()
                    self._put(_summarize_agent(agent, self._clock.now()))
            finally:
                run.agent = None

    def _wait_for_term(self, run: _RemediationRun) -> LeadershipTerm | None:
        """Wait until this replica leads; return its term, or None if it is stopped before."""
        while not run.stop.wait(FOLLOWER_POLL_S):
            replica = self._replica()
            term = None if replica is None else replica.term
            if term is not None:
                return term
            # What is in force, counted and held is for the leader to tell.
            self._put(RemediationReported(at=self._clock.now(), mode=FOLLOWER_MODE))
        return None


@dataclass(slots=True)
class _RemediationRun:
    """Run of one thread with one configuration; it keeps its stop request after the next starts."""

    stop: threading.Event = field(default_factory=threading.Event)
    deadline: float | None = None
    thread: threading.Thread | None = None
    agent: RemediationLoop | None = None

    def hurry(self) -> bool:
        """Check whether the time to reach a safe point has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline


def _skip_check() -> None:
    """Accept every write: without replicas no other process may act."""


def _select_restart_settings(config: Config) -> tuple[object, ...]:
    return (config.remedy, config.connect, config.kafka)


def _pause_shorter_if_stopping(stop: threading.Event, seconds: float) -> None:
    """Pause; at most half a second while the process stops, so a plan reaches its safe point."""
    if stop.wait(seconds):
        time.sleep(min(seconds, STOPPING_PAUSE_S_MAX))


def _summarize_agent(agent: RemediationLoop, now: float) -> RemediationReported:
    ledger, fleet, counts = agent.ledger, agent.fleet, agent.counts
    states = Counter(dict.fromkeys(_OPEN_STATES, 0))
    states.update(
        "parked" if history.status.is_parked else history.status.value
        for history in ledger.dossiers.values()
        if history.plan.remedy is not None
    )
    open_plans, more_plans = plan_view.list_open_plans(
        ledger.dossiers.values(), ledger.refused, now
    )
    refusals, more_refusals = plan_view.list_refusals(ledger.refusals.values(), open_plans)
    return RemediationReported(
        at=now,
        mode=agent.mode.value,
        plans=tuple((state, states[state]) for state in _OPEN_STATES),
        actions=tuple((*key, count) for key, count in sorted(counts.actions.items())),
        blocked=tuple((*key, count) for key, count in sorted(counts.blocked.items())),
        stopped_by_us=tuple(
            (connect, connector, since)
            for (connect, connector), since in sorted(fleet.stopped_by_us().items())
        ),
        open_plans=open_plans,
        refusals=refusals,
        untold=more_plans + more_refusals,
    )


class RemediationParts(NamedTuple):
    """Journal, planner, policy and Kafka connections of remediation."""

    ledger: JournalIndex
    planner: Planner
    policy: Policy
    brokers: Brokers


@contextmanager
def open_remediation_parts(
    config: Config,
    snapshot: Callable[[], Snapshot],
    folder: Path,
    clock: UnixClock,
    pause: Callable[[float], None],
    publish: LinePublisher | None = None,
) -> Iterator[RemediationParts]:
    """Open the parts and close them afterwards.

    `publish` writes a journal that replicas share. Raises JournalDamaged.
    """
    policy = build_policy(config.remedy)
    with ExitStack() as stack:
        ledger = JournalIndex(folder, publish)
        stack.enter_context(closing(ledger.journal))
        readers = stack.enter_context(closing(ConnectStateReaders(config)))
        brokers = stack.enter_context(closing(Brokers(config.kafka, sources=config.sources)))
        ledger.read_on()
        collector = FactsCollector(
            client_of=readers.of,
            brokers=brokers,
            snapshot=snapshot,
            fleet=ledger.fleet,
            policy=policy,
            state_dir=folder,
            time=TimeSources(clock, SteadyClock(), pause),
            find_resource_problem=partial(
                find_resource_problem, {cluster.name: cluster for cluster in config.connect}
            ),
        )
        planner = Planner(
            client_of=readers.of,
            collector=collector,
            locator=PoisonLocator(config, brokers, policy, clock),
            snapshot=snapshot,
            policy=policy,
            quarantine=build_configured_quarantine(config, folder).name,
            state_dir=folder,
            clock=clock.now,
        )
        yield RemediationParts(ledger, planner, policy, brokers)


def plan_for_person(
    config: Config,
    snapshot: Callable[[], Snapshot],
    folder: Path,
    clock: UnixClock,
    request: PlanRequest,
    by: str,
) -> PlanningAnswer:
    """Plan what the operator `by` requests, as ServiceCallbacks requires.

    Connections are made for each request, because requests are rare.
    """
    with open_remediation_parts(config, snapshot, folder, clock, pause=lambda _: None) as parts:
        return parts.planner.for_person(request, by)


class ConnectStateReaders:
    """Clients of Connect clusters, one each, created at first use; not thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clients: dict[str, ConnectClient] = {}

    def of(self, connect: str) -> ConnectClient:
        """Return the client of a Connect cluster. Raises RemoteRefusal if it is not configured."""
        if connect not in self._clients:
            self._clients[connect] = ConnectClient(find_connect_cluster(self._config, connect))
        return self._clients[connect]

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()


class DaemonReplica:
    """Replica of this daemon in leader election, if the configuration says that there are several.

    It is created again if a configuration changes the journal's location or how it is reached.
    `put` hands an observation to the loop.
    """

    def __init__(
        self, put: Callable[[Observation], object], folder: Path, clock: UnixClock
    ) -> None:
        self._put = put
        self._folder = folder
        self._clock = clock
        self._settings: ReplicaSettings | None = None
        self._now: Replica | None = None

    @property
    def now(self) -> Replica | None:
        """Return the replica; None if the daemon acts alone. Thread-safe."""
        return self._now

    def follow(self, config: Config) -> None:
        """Use this configuration from now on."""
        settings = build_replica_settings(config)
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        if settings is not None:
            self._now = Replica(settings, self._folder, self._clock, self._report_status)
            self._now.start()

    def stop(self) -> None:
        """Stop leading."""
        replica, self._now = self._now, None
        if replica is not None:
            replica.stop()

    def why_not(self) -> str | None:
        """Return why this daemon may not make changes and which one leads; None if it may.

        Thread-safe.
        """
        replica = self._now
        return None if replica is None or replica.term is not None else replica.describe_leader()

    def _report_status(self, status: ReplicaStatus) -> None:
        leader, since = status.leader or ("", 0.0)
        self._put(
            ReplicaReported(
                leading=status.leading,
                leader=leader,
                since=since,
                seq=status.seq,
                problem=status.problem,
            )
        )


def build_replica_settings(config: Config) -> ReplicaSettings | None:
    """Return the replica settings; None if the journal is a file.

    Raises ClientError if the OAuth hook cannot be loaded.
    """
    journal = config.remedy.journal
    if journal is None:
        return None
    return ReplicaSettings(
        kafka=journal.kafka,
        properties=config.kafka[journal.kafka].client_properties(),
        requirements=JournalTopicRequirements(
            journal.topic, journal.replication_factor, journal.min_insync_replicas
        ),
        name=journal.name or socket.gethostname(),
        session_s=journal.session_timeout_s,
    )
