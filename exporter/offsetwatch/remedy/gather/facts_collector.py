"""Facts for the guards about a connector and an action: facts.GuardFacts, read now.

Every fact is read again for each case; only those that need two observations are remembered. A fact
that cannot be read is None, and the guard denies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from offsetwatch.clock import UnixClock
from offsetwatch.model.findings import FailureRun
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.classify import FailureKind
from offsetwatch.remedy.gather import snapshot_queries as queries
from offsetwatch.remedy.gather.live_queries import (
    Brokers,
    ConnectClient,
    QueryRound,
    call_or_none,
    compute_config_sha256,
)
from offsetwatch.remedy.gather.snapshot_queries import LiveConnectorState, RemediationCase
from offsetwatch.remedy.locate.search import IdentifiedRecord
from offsetwatch.remedy.model import facts, fleet_state
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.plan import (
    Action,
    PartitionOffset,
    RecordLocation,
    parse_next_offset,
    parse_position,
)
from offsetwatch.remedy.model.policy import MassFailure, Policy, update_mass_failure
from offsetwatch.state.snapshot import Snapshot

SETTLED_S: Final = 15.0  # after a restart a task's state is what it is by then
MEMBERS_APART_S: Final = 5.0  # a group that forms shows within so long
TAIL_S_MAX: Final = 10.0  # for what others wrote to the offsets topic up to just now
TAIL_AGAIN_S: Final = 0.2
# Ways to find a record that meet the trouble themselves, in its bytes.
REPRODUCING_METHODS: Final = frozenset({"decode", "checksum", "size"})
ROUNDING_S: Final = 2.0  # a Date header has whole seconds, of a moment before it was read
CLOCK_DRIFT_S_MAX: Final = 2.0  # of drift since the start: more is a clock that was set


class TimeSources(NamedTuple):
    """The machine's clock, a steady clock that is never set, and a function that waits."""

    clock: UnixClock
    steady: UnixClock
    pause: Callable[[float], None]


class FactsCollector:
    """Collector of the facts for the guards. For one thread.

    `find_resource_problem` is that of remedy/drivers/strimzi/resources.py.
    """

    def __init__(
        self,
        *,
        client_of: Callable[[str], ConnectClient],
        brokers: Brokers,
        snapshot: Callable[[], Snapshot],
        fleet: fleet_state.FleetState,
        policy: Policy,
        state_dir: Path,
        time: TimeSources,
        find_resource_problem: Callable[[str, str], str],
    ) -> None:
        self._client_of = client_of
        self._find_resource_problem = find_resource_problem
        self._brokers = brokers
        self._snapshot = snapshot
        self._fleet = fleet
        self._policy = policy
        self._state_dir = state_dir
        self._clock, self._pause, self._steady = time.clock, time.pause, time.steady
        self._started_at = self._clock.now()
        self._drift = self._steady.now() - self._clock.now()
        self._mass_failure = MassFailure()
        self._lags: dict[str, dict[TopicPartition | str, queries.PartitionLag]] = {}

    def observe_mass_failure(self) -> None:
        """Update whether a mass failure is going on, which needs several observations."""
        snapshot = self._snapshot()
        unwell = snapshot.index.unhealthy | self._fleet.at_work()
        self._mass_failure = update_mass_failure(
            self._mass_failure,
            connectors=len(snapshot.connectors),
            unhealthy=len(unwell),
            now=self._clock.now(),
        )

    def observe_lags(self, incident: Incident) -> None:
        """Remember the lags at the first inspection of an incident, until it is over."""
        if incident.key in self._lags:
            return
        open_keys = self._fleet.incidents
        self._lags = {key: lags for key, lags in self._lags.items() if key in open_keys}
        self._lags[incident.key] = dict(queries.list_lags(self._snapshot(), incident.connector_key))

    def now(
        self, connect: str, connector: str, query_round: QueryRound | None = None
    ) -> LiveConnectorState:
        """Read a connector's state, configuration and offsets from Connect."""
        client, query_round = self._client_of(connect), query_round or QueryRound()
        return LiveConnectorState(
            root=query_round.query(connect, client.root),
            connector=query_round.query(connect, client.read_state, connector),
            config=query_round.query(connect, client.config, connector),
            pairs=query_round.query(connect, client.pairs, connector),
            at=self._clock.now(),
        )

    def gather(
        self, case: RemediationCase, now: LiveConnectorState | None = None
    ) -> facts.GuardFacts:
        """Collect all facts about the case.

        now     the connector as the plan was made from it; None to read it again
        """
        unread = self._count_unread(case)  # may wait: everything else is read afterwards
        snapshot = self._snapshot()
        view = snapshot.index.connectors.get(case.key)
        now = now or self.now(case.connect, case.connector)
        # What takes time first: nothing may be older than it says when guards evaluate it.
        connector = self._connector(snapshot, case, now)
        offsets = self._offsets(snapshot, case, now, unread)
        return facts.GuardFacts(
            target=facts.ActionTarget(
                connect=case.connect,
                connector=case.connector,
                kind=queries.kind_of(view),
                action=case.action,
            ),
            ourselves=self._daemon_facts(case),
            others=self._fleet_facts(snapshot, case),
            past=collect_journal_facts(self._fleet, case, now.pairs),
            evidence=self._evidence(snapshot, case),
            connector=connector,
            offsets=offsets,
            plan=queries.collect_plan_facts(case),
            now=self._clock.now(),
        )

    # --- of all ----------------------------------------------------------------------------------

    def _daemon_facts(self, case: RemediationCase) -> facts.DaemonFacts:
        now = self._clock.now()
        server = self._client_of(case.connect).server_time
        skew_s = None if server is None else now - server
        if skew_s is not None and abs(skew_s) <= ROUNDING_S:
            skew_s = 0.0
        drift_s = abs(self._steady.now() - now - self._drift)
        return facts.DaemonFacts(
            kill_switch=self.stop_file(),
            paused=self._fleet.paused(now) is not None,
            mode_lowered=self._fleet.lowered_mode,
            journal_ok=True,  # who gathers has just read it, and JournalDamaged ends everything
            disk_free_bytes=self._free(),
            clock_skew_s=skew_s,
            clock_steady=drift_s < CLOCK_DRIFT_S_MAX,
            started_at=self._started_at,
        )

    def failures(self, incident: Incident) -> int:
        """Return how often the connector failed in the same way at the same position."""
        run, now = incident.worst, self._clock.now()
        if run is None:
            return 0
        return run.count + count_ineffective_restarts(self._fleet, incident, now)

    def stop_file(self) -> bool | None:
        """Return whether the kill-switch file exists; None if that cannot be read."""
        try:
            return bool(self._policy.stop_file) and Path(self._policy.stop_file).exists()
        except OSError:
            return None

    def _free(self) -> int | None:
        try:
            return shutil.disk_usage(self._state_dir).free
        except OSError:
            return None

    def _fleet_facts(self, snapshot: Snapshot, case: RemediationCase) -> facts.FleetFacts:
        at_work = self._fleet.at_work()
        begun = case.altering or case.plan is not None
        return facts.FleetFacts(
            connectors=len(snapshot.connectors),
            unhealthy=snapshot.index.unhealthy,
            in_remedy=at_work - {case.key} if begun else at_work,
            mass_failure_before=self._mass_failure,
            similar=queries.find_similar_failures(snapshot, case, self._clock.now()),
        )

    # --- of the incident -------------------------------------------------------------------------

    def _evidence(self, snapshot: Snapshot, case: RemediationCase) -> facts.EvidenceFacts:
        incident, failure, found = case.incident, case.failure, case.identified
        if incident is None:
            return facts.EvidenceFacts()
        run = incident.worst
        incident_detected = self._fleet.incidents.get(incident.key)
        silent = incident.what is IncidentKind.FROZEN
        now = self._clock.now()
        more = count_ineffective_restarts(self._fleet, incident, now)
        begun_by = incident.since if run is None else run.first_at
        if run is not None and run.begun_by is not None:
            begun_by = run.begun_by
        kind = FailureKind.CORRUPT.value if silent and found is not None else None
        return facts.EvidenceFacts(
            findings=frozenset(
                finding.name.value
                for finding in snapshot.findings
                if (finding.connect_cluster, finding.connector) == case.key
            ),
            reported_since=None if incident_detected is None else incident_detected.at,
            failure_kind=kind if failure is None else failure.kind.value,
            veto="" if silent else None if failure is None else failure.veto or "",
            failures=None if run is None else run.count + more,
            failing_s=None if run is None else now - begun_by if more else run.lasted_s,
            restarts=None if run is None else run.restarts + more,
            silent=silent,
            frozen_s=now - begun_by,
            definitive=None if found is None else frozenset({found.method, *found.also}),
            conflicting=None if found is None else frozenset(),
            signals=self._signals(snapshot, case, run),
        )

    def _signals(
        self, snapshot: Snapshot, case: RemediationCase, run: FailureRun | None
    ) -> frozenset[facts.PoisonSignal]:
        assert case.incident is not None
        signals: set[facts.PoisonSignal] = set()
        if case.failure is not None:
            signals.add(facts.PoisonSignal.STATUS_TRACE)
        if case.identified is None:
            return frozenset(signals)
        location = case.identified.record
        view = queries.find_source_partition(snapshot, case.key, case.identified.frm.partition)
        source_label = None if view is None else view.label
        if run is None or queries.has_failed_at(
            run, location.topic, location.partition, source_label
        ):
            signals.add(facts.PoisonSignal.FROZEN_OFFSET)
        if run is not None and run.moved:
            signals.add(facts.PoisonSignal.SIBLINGS_PROGRESS)
        if REPRODUCING_METHODS & {case.identified.method, *case.identified.also}:
            signals.add(facts.PoisonSignal.PROBE_REPRODUCES)
        if self._is_lag_growing(snapshot, case, case.identified):
            signals.add(facts.PoisonSignal.LAG_GROWING)
        if queries.has_healthy_sibling(snapshot, case.key):
            signals.add(facts.PoisonSignal.TARGET_HEALTHY)
        return frozenset(signals)

    def _is_lag_growing(
        self, snapshot: Snapshot, case: RemediationCase, identified: IdentifiedRecord
    ) -> bool:
        """Check whether the lag of the record's partition is larger than when it was first known.

        After a move of the position it is compared with the lag after that: a position that was
        set back is no growth.
        """
        assert case.incident is not None
        first, location = self._lags.setdefault(case.incident.key, {}), identified.record
        names = (TopicPartition(location.topic, location.partition), identified.frm.partition)
        for partition, known in queries.list_lags(snapshot, case.key):
            if partition in names:
                if partition not in first or first[partition].position != known.position:
                    first[partition] = known
                return known.lag > first[partition].lag
        return False

    # --- of the connector ------------------------------------------------------------------------

    def _connector(
        self, snapshot: Snapshot, case: RemediationCase, now: LiveConnectorState
    ) -> facts.ConnectorFacts:
        view = snapshot.index.connectors.get(case.key)
        config = None if now.config is None else compute_config_sha256(case.connector, now.config)
        planned = None if case.plan is None else case.plan.remedy
        connector = now.connector
        state = None if connector is None else connector.status.state
        incarnation: str | None = None
        token: str | None = None
        if planned is None or case.plan is None:
            incarnation = queries.compute_incarnation(snapshot, case.key)
        else:
            incarnation, token = queries.compare_pins(
                snapshot,
                case.plan,
                state,
                stopped_at=case.stopped_at or None,
                altering=case.altering,
            )
        tasks = (
            None if connector is None else max(connector.configured, len(connector.status.tasks))
        )
        owned, resource_problem = self._client_of(case.connect).operator_managed, None
        # Once it is stopped it is ourselves who hold the resource.
        if owned and not case.altering and case.action is not Action.RESTART_FAILED:
            resource_problem = call_or_none(
                self._find_resource_problem, case.connect, case.connector
            )
        return facts.ConnectorFacts(
            connect_version=None if now.root is None else queries.parse_version(now.root.version),
            offsets_api=now.pairs is not None or None,
            operator_managed=owned or None,
            resource_problem=resource_problem,
            class_name=None if view is None else view.class_name,
            tasks=tasks if not case.altering else None if view is None else len(view.tasks),
            partitions=None if now.pairs is None else len(now.pairs),
            state=state,
            tasks_now=tasks,
            group_members=self._count_members(snapshot, case),
            identity_planned=None if case.plan is None else case.plan.subject.identity,
            identity_now=None if now.root is None else now.root.kafka_cluster_id,
            config_planned=None if planned is None else planned.config_sha256,
            config_now=config,
            incarnation_planned=None if planned is None else planned.incarnation,
            incarnation_now=incarnation,
            token_planned=None if planned is None else planned.token,
            token_now=token,
            read_at=now.at,
        )

    def _count_members(self, snapshot: Snapshot, case: RemediationCase) -> int | None:
        """Return the larger of two member counts, MEMBERS_APART_S apart; None if unknown.

        A group that is about to form shows members at the second.
        """
        sink = snapshot.index.sink_groups.get(case.key)
        if not case.altering or sink is None or sink.kafka is None:
            return None
        first = call_or_none(self._brokers.members, sink.kafka, sink.group)
        self._pause(MEMBERS_APART_S)
        second = call_or_none(self._brokers.members, sink.kafka, sink.group)
        return None if first is None or second is None else max(first, second)

    # --- of its offsets --------------------------------------------------------------------------

    def _offsets(
        self,
        snapshot: Snapshot,
        case: RemediationCase,
        now: LiveConnectorState,
        unread: int | None,
    ) -> facts.OffsetFacts:
        skipped = queries.find_skipped_record(case)
        quiet_s = None
        if case.altering:
            # By the daemon's clock, from the newest commit or the stop, whichever is later.
            views = snapshot.index.source_partitions.get(case.key, ())
            moments = (case.stopped_at, *(view.read_at for view in views))
            since = max((moment for moment in moments if moment is not None), default=None)
            quiet_s = None if since is None else self._clock.now() - since
        if skipped is None or now.pairs is None:
            keys, canonical = queries.find_altered_keys(snapshot, case)
            return facts.OffsetFacts(raw_keys=keys, key_canonical=canonical, quiet_s=quiet_s)
        record, frm, to = skipped
        mine = next((pair for pair in now.pairs if pair.partition == frm.partition), None)
        next_now = parse_next_offset(mine)
        partition = TopicPartition(record.topic, record.partition)
        bounds = call_or_none(self._brokers.bounds, record.kafka, partition)
        source = queries.find_source_partition(snapshot, case.key, frm.partition)
        return facts.OffsetFacts(
            fence_planned=None if case.plan is None else frm.offset,
            fence_now=None if mine is None else mine.offset,
            next_now=next_now,
            next_after=parse_next_offset(to),
            poison=record.offset,
            first_existing=self._find_first_record(snapshot, case, record, next_now),
            earliest=None if bounds is None else bounds.start,
            log_end=None if bounds is None else bounds.end,
            readable_end=None if bounds is None else bounds.stable_end,
            topic_id_planned=record.topic_id,
            topic_id_now=call_or_none(self._brokers.topic_id, record.kafka, record.topic),
            bounds_read_at=self._clock.now(),
            raw_keys=None if source is None else 1 + source.variants,
            key_canonical=None if source is None else queries.has_canonical_key(source),
            tail_behind=unread,
            views_agree=self._compare_views(snapshot, case, record, mine),
            quiet_s=quiet_s,
        )

    def _find_first_record(
        self,
        snapshot: Snapshot,
        case: RemediationCase,
        record: RecordLocation,
        start: int | None,
    ) -> int | None:
        if start is None:
            return None
        partition = TopicPartition(record.topic, record.partition)
        index = snapshot.index
        reader = index.flows.get(case.key) or index.sink_groups.get(case.key)
        # None where the worker decides: then as if it reads committed records only.
        committed = reader is None or reader.read_committed is not False
        return call_or_none(
            self._brokers.first, record.kafka, partition, start, committed=committed
        )

    def _count_unread(self, case: RemediationCase) -> int | None:
        """Count the offsets topic's records up to its end that the tail has not read; else None.

        The count is 0 for a connector whose offsets are not in that topic, and None if it is
        unknown.
        """
        skipped = queries.find_skipped_record(case)
        if skipped is None or queries.is_sink_offset(skipped[1]):
            return 0
        topic = self._snapshot().index.offsets_topic_of(case.key)
        if topic is None:
            return None
        ends = call_or_none(self._brokers.ends, topic.kafka, topic.topic)
        if ends is None:
            return None
        # Others commit all the time: before offsets are set that is no reason to turn back.
        until = self._steady.now() + (TAIL_S_MAX if case.altering else 0.0)
        while (
            unread := queries.count_unread_records(self._snapshot(), topic, ends)
        ) and self._steady.now() < until:
            self._pause(TAIL_AGAIN_S)
        return unread

    def _compare_views(
        self,
        snapshot: Snapshot,
        case: RemediationCase,
        record: RecordLocation,
        mine: PartitionOffset | None,
    ) -> bool | None:
        """Return whether the followed offset equals the one from Connect; None if unknown."""
        if mine is None:
            return None
        if not queries.is_sink_offset(mine):
            view = queries.find_source_partition(snapshot, case.key, mine.partition)
            followed = None if view is None else view.offset
            return None if followed is None else followed.text == mine.offset
        sink = snapshot.index.sink_groups.get(case.key)
        if sink is None:
            return None
        partition = TopicPartition(record.topic, record.partition)
        committed = call_or_none(self._brokers.committed, record.kafka, sink.group, partition)
        return None if committed is None else committed == parse_position(mine)


def collect_journal_facts(
    past: fleet_state.FleetState,
    case: RemediationCase,
    pairs: tuple[PartitionOffset, ...] | None,
) -> facts.JournalFacts:
    """Build the facts that the journal has about this connector and about all."""
    own = case.key
    mine = None if case.plan is None else case.plan.plan_id
    skips = [skip for skip in past.skips if skip.plan_id != mine]
    ended = past.ended_at.get(own)
    key = None if case.incident is None else case.incident.key
    return facts.JournalFacts(
        skips=tuple(skips),
        remedied_at=() if ended is None else (ended,),
        breakers=tuple(past.breakers.values()),
        approved_successes=past.successes[own, case.action],
        restarted_at=tuple(
            restart.at for restart in past.restarts if key is None or restart.incident == key
        ),
        records_since_skip=_count_records_since_skip(skips, own, pairs),
    )


def count_ineffective_restarts(past: fleet_state.FleetState, incident: Incident, now: float) -> int:
    """Count restarts after which the connector still fails and that its run of failures lacks.

    The journal has them: restarts by this daemon for the incident, or by an operator. Where no
    status topic is followed, the run misses the restart of a task that failed again at once or
    while no daemon ran.
    """
    run = incident.worst
    if run is None or not incident.shows:
        return 0
    reported_at = run.last_at if run.read_at is None else run.read_at
    own = (incident.connect_cluster, incident.connector)
    return sum(
        restart.connector_key == own
        and restart.incident in {incident.key, ""}
        and reported_at < restart.at <= now - SETTLED_S
        for restart in past.restarts
    )


def _count_records_since_skip(
    skips: list[fleet_state.RecordSkip],
    own: tuple[str, str],
    pairs: tuple[PartitionOffset, ...] | None,
) -> int | None:
    """Return at least how many records followed the last skip in its partition; None if unknown."""
    mine = [skip for skip in skips if skip.connector_key == own]
    if not mine or pairs is None:
        return None
    last = max(mine, key=lambda skip: skip.at).record
    for pair in pairs:
        if queries.is_same_partition(pair.partition, last.topic, last.partition):
            position = parse_position(pair)
            return None if position is None else max(0, position - last.offset - 1)
    return None
