"""What the guards want to know, looked up now: facts.Facts, of a connector and an action.

Everything is asked anew each time; only what takes two moments to tell is remembered between them.
A question without an answer leaves a None, which denies. Called by planner.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from offsetwatch.clock import Clock
from offsetwatch.model.findings import FailureRun
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.classify import FailureKind
from offsetwatch.remedy.drivers.probation import position
from offsetwatch.remedy.drivers.rest.connect_state import Sight, config_sha256
from offsetwatch.remedy.execute.incarnation_pins import (
    compare_incarnation,
    compare_state,
    parse_pin,
)
from offsetwatch.remedy.gather.broker_queries import Brokers, known
from offsetwatch.remedy.gather.journal_facts import in_vain, past_of
from offsetwatch.remedy.gather.snapshot_queries import (
    Case,
    Ill,
    Now,
    alike,
    beyond_a_second,
    changes_of,
    committed_by,
    home_of,
    incarnation,
    is_mirror,
    keys_of,
    kind_of,
    labels,
    lag_of,
    numbers,
    offset_of,
    others_work,
    planned,
    reads_committed,
    sink_of,
    skipped_of,
    source_of,
    unlisted_at,
    unread,
    veto_of,
    view_of,
)
from offsetwatch.remedy.model import facts, fleet_state
from offsetwatch.remedy.model.incidents import Incident, What
from offsetwatch.remedy.model.plan import Action, Pair, RecordAt
from offsetwatch.remedy.model.policy import Policy, Storm, storm_after
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.state.snapshot import Snapshot

MEMBERS_APART_S: Final = 5.0  # a group that forms shows within so long
TAIL_S_MAX: Final = 10.0  # for what others wrote to the offsets topic up to just now
TAIL_AGAIN_S: Final = 0.2
# Ways to find a record that meet the trouble themselves, in its bytes.
REPRODUCES: Final = frozenset({"decode", "checksum", "size"})
STEADY_S: Final = 2.0  # of drift since the start: more is a clock that was set


class Time(NamedTuple):
    """The machine's clock, one that nobody sets, and how to wait."""

    clock: Clock
    steady: Clock
    pause: Callable[[float], None]


class Gatherer:
    """See the module. For one thread. `resource_problem`: see Resources (strimzi_owners.py)."""

    def __init__(
        self,
        *,
        sight_of: Callable[[str], Sight],
        brokers: Brokers,
        snapshot: Callable[[], Snapshot],
        past: fleet_state.Fleet,
        policy: Policy,
        state_dir: Path,
        time: Time,
        resource_problem: Callable[[str, str], str],
    ) -> None:
        self._sight_of = sight_of
        self._resource_problem_of = resource_problem
        self._brokers = brokers
        self._snapshot = snapshot
        self._past = past
        self._policy = policy
        self._state_dir = state_dir
        self._clock, self._pause, self._steady = time.clock, time.pause, time.steady
        self._started_at = self._clock.now()
        self._drift = self._steady.now() - self._clock.now()
        self._storm = Storm()
        self._ill = Ill()
        self._lags: dict[str, int] = {}

    def look_around(self) -> None:
        """What takes more than one moment to tell: whether too much is ill at once."""
        snapshot = self._snapshot()
        unwell = self._ill.of(snapshot) | self._past.at_work()
        self._storm = storm_after(
            self._storm,
            connectors=len(snapshot.connectors),
            unhealthy=len(unwell),
            now=self._clock.now(),
        )

    def now(self, connect: str, connector: str) -> Now:
        """What Connect shows of a connector."""
        sight = self._sight_of(connect)
        return Now(
            root=known(sight.root),
            seen=known(sight.seen, connector),
            config=known(sight.config, connector),
            pairs=known(sight.pairs, connector),
            at=self._clock.now(),
        )

    def gather(self, case: Case) -> facts.Facts:
        """Everything that can be known of the case."""
        behind = self._behind(case)  # may wait: all that is looked at is looked at afterwards
        snapshot = self._snapshot()
        view = view_of(snapshot, case.connect, case.connector)
        now = self.now(case.connect, case.connector)
        # What takes time first: nothing is to be older than it says when guards look at it.
        connector = self._connector(snapshot, case, now)
        offsets = self._offsets(snapshot, case, now, behind)
        return facts.Facts(
            target=facts.Target(
                connect=case.connect,
                connector=case.connector,
                kind=kind_of(view),
                action=case.action,
            ),
            ourselves=self._ourselves(case),
            others=self._others(snapshot, case),
            past=past_of(self._past, case, now.pairs),
            evidence=self._evidence(snapshot, case),
            connector=connector,
            offsets=offsets,
            plan=planned(case),
            now=self._clock.now(),
        )

    # --- of all ----------------------------------------------------------------------------------

    def _ourselves(self, case: Case) -> facts.Ourselves:
        now = self._clock.now()
        server = self._sight_of(case.connect).server_time
        mode = self._past.mode
        drifted = abs(self._steady.now() - now - self._drift)
        return facts.Ourselves(
            kill_switch=self.stop_file(),
            paused=self._past.paused(now) is not None,
            mode_lowered=_lowered(None if mode is None else mode.mode),
            journal_ok=True,  # who gathers has just read it, and JournalDamaged ends everything
            disk_free_bytes=self._free(),
            clock_skew_s=None if server is None else beyond_a_second(now - server),
            clock_steady=drifted < STEADY_S,
            started_at=self._started_at,
        )

    def failures(self, incident: Incident) -> int:
        """How often it failed in the same way at the same place."""
        run = incident.worst
        return 0 if run is None else run.count + in_vain(self._past, incident, self._clock.now())

    def stop_file(self) -> bool | None:
        """Whether it is there; None where nobody can tell."""
        try:
            return bool(self._policy.stop_file) and Path(self._policy.stop_file).exists()
        except OSError:
            return None

    def _free(self) -> int | None:
        try:
            return shutil.disk_usage(self._state_dir).free
        except OSError:
            return None

    def _others(self, snapshot: Snapshot, case: Case) -> facts.Others:
        own = (case.connect, case.connector)
        begun = case.altering or (case.plan is not None and own in self._past.at_work())
        return facts.Others(
            connectors=len(snapshot.connectors),
            unhealthy=self._ill.of(snapshot),
            in_remedy=self._past.at_work() - ({own} if begun else set()),
            storm_before=self._storm,
            alike=alike(snapshot, case, self._clock.now()),
        )

    # --- of the incident -------------------------------------------------------------------------

    def _evidence(self, snapshot: Snapshot, case: Case) -> facts.Evidence:
        incident, failure, found = case.incident, case.failure, case.found
        if incident is None:
            return facts.Evidence()
        own = (case.connect, case.connector)
        run = incident.worst
        seen = self._past.incidents.get(incident.key)
        silent = incident.what is What.FROZEN
        now = self._clock.now()
        more = in_vain(self._past, incident, now)
        begun_by = incident.since if run is None else _begun_by(run)
        kind = FailureKind.CORRUPT.value if silent and found is not None else None
        return facts.Evidence(
            findings=frozenset(
                at.name.value
                for at in snapshot.findings
                if (at.connect_cluster, at.connector) == own
            ),
            shown_since=None if seen is None else seen.at,
            failure_kind=kind if failure is None else failure.kind.value,
            veto="" if silent else veto_of(failure),
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
        self, snapshot: Snapshot, case: Case, run: FailureRun | None
    ) -> frozenset[facts.Signal]:
        assert case.incident is not None
        signals: set[facts.Signal] = set()
        if case.failure is not None:
            signals.add(facts.Signal.STATUS_TRACE)
        if case.found is None:
            return frozenset(signals)
        at = case.found.record
        label = f"{at.topic}-{at.partition}"
        if run is None or any(labels(of, at.topic, at.partition) for of, _ in run.same):
            signals.add(facts.Signal.FROZEN_OFFSET)
        if run is not None and run.moved:
            signals.add(facts.Signal.SIBLINGS_PROGRESS)
        if REPRODUCES & {case.found.method, *case.found.also}:
            signals.add(facts.Signal.PROBE_REPRODUCES)
        lag = lag_of(snapshot, case, at.topic, at.partition)
        if lag is not None:
            first = self._lags.setdefault(f"{case.incident.key} {label}", lag)
            if lag > first:
                signals.add(facts.Signal.LAG_GROWING)
        if others_work(snapshot, case):
            signals.add(facts.Signal.TARGET_HEALTHY)
        return frozenset(signals)

    # --- of the connector ------------------------------------------------------------------------

    def _connector(self, snapshot: Snapshot, case: Case, now: Now) -> facts.Connector:
        view = view_of(snapshot, case.connect, case.connector)
        config = None if now.config is None else config_sha256(case.connector, now.config)
        planned = None if case.plan is None else case.plan.remedy
        seen, state, life = now.seen, None, None
        changes = changes_of(snapshot, case.connect, case.connector)
        pin = None if planned is None else parse_pin(planned.token)
        if planned is None:
            life = incarnation(snapshot, case.connect, case.connector)
        else:
            assert case.plan is not None
            life = compare_incarnation(
                planned.incarnation,
                pin,
                changes,
                unlisted_at=unlisted_at(snapshot, case.connect, case.connector),
                created_at=case.plan.created_at,
            )
        if seen is not None and pin is not None:
            state = compare_state(
                pin,
                seen.standing.state,
                changes,
                stopped_at=case.stopped_at or None,
                altering=case.altering,
            )
        tasks = None if seen is None else max(seen.configured, len(seen.standing.tasks))
        return facts.Connector(
            connect_version=None if now.root is None else numbers(now.root.version),
            offsets_api=now.pairs is not None or None,
            operator_managed=self._sight_of(case.connect).operator_managed or None,
            resource_problem=self._resource_problem(case),
            class_name=None if view is None else view.class_name,
            tasks=tasks if not case.altering else None if view is None else len(view.tasks),
            partitions=None if now.pairs is None else len(now.pairs),
            state=None if now.seen is None else now.seen.standing.state,
            tasks_now=tasks,
            group_members=self._members(snapshot, case),
            identity_planned=None if case.plan is None else case.plan.subject.identity,
            identity_now=None if now.root is None else now.root.kafka_cluster_id,
            config_planned=None if planned is None else planned.config_sha256,
            config_now=config,
            incarnation_planned=None if planned is None else planned.incarnation,
            incarnation_now=life,
            token_planned=None if planned is None else planned.token,
            token_now=None if state is None else state.text,
            read_at=now.at,
        )

    def _resource_problem(self, case: Case) -> str | None:
        owned = self._sight_of(case.connect).operator_managed
        if not owned or case.altering or case.action is Action.RESTART_FAILED:
            return None  # once it is stopped it is ourselves who hold the resource
        return known(self._resource_problem_of, case.connect, case.connector)

    def _members(self, snapshot: Snapshot, case: Case) -> int | None:
        """Asked twice: a group that is about to form shows at the second."""
        sink = sink_of(snapshot, case)
        if not case.altering or sink is None or sink.kafka is None:
            return None
        first = known(self._brokers.members, sink.kafka, sink.group)
        self._pause(MEMBERS_APART_S)
        second = known(self._brokers.members, sink.kafka, sink.group)
        return None if first is None or second is None else max(first, second)

    # --- of its offsets --------------------------------------------------------------------------

    def _offsets(
        self, snapshot: Snapshot, case: Case, now: Now, behind: int | None
    ) -> facts.Offsets:
        skipped = skipped_of(case)
        quiet_s = self._quiet_s(snapshot, case) if case.altering else None
        if skipped is None or now.pairs is None:
            keys, canonical = keys_of(snapshot, case)
            return facts.Offsets(raw_keys=keys, key_canonical=canonical, quiet_s=quiet_s)
        record, frm, to = skipped
        mine = next((at for at in now.pairs if at.partition == frm.partition), None)
        stored, wanted = position(mine), position(to)
        plus = 1 if is_mirror(frm) else 0
        next_now = None if stored is None else stored + plus
        at = TopicPartition(record.topic, record.partition)
        bounds = known(self._brokers.bounds, record.kafka, at)
        source = source_of(snapshot, case, frm.partition)
        return facts.Offsets(
            fence_planned=None if case.plan is None else frm.offset,
            fence_now=None if mine is None else mine.offset,
            next_now=next_now,
            next_wanted=None if wanted is None else wanted + plus,
            poison=record.offset,
            first_existing=self._first(snapshot, case, record, next_now),
            earliest=None if bounds is None else bounds.start,
            log_end=None if bounds is None else bounds.end,
            readable_end=None if bounds is None else bounds.stable_end,
            topic_id_planned=record.topic_id,
            topic_id_now=known(self._brokers.topic_id, record.kafka, record.topic),
            bounds_read_at=self._clock.now(),
            raw_keys=None if source is None else 1 + source[0],
            key_canonical=None if source is None else source[1],
            tail_behind=behind,
            views_agree=self._agree(snapshot, case, record, mine),
            quiet_s=quiet_s,
        )

    def _first(
        self, snapshot: Snapshot, case: Case, record: RecordAt, start: int | None
    ) -> int | None:
        if start is None:
            return None
        at = TopicPartition(record.topic, record.partition)
        committed = reads_committed(snapshot, case.connect, case.connector) is not False
        found = known(self._brokers.first, record.kafka, at, start, committed=committed)
        return None if found is None else found.offset

    def _behind(self, case: Case) -> int | None:
        """Records of the offsets topic up to its end of now that the tail has not read; none matter
        to what is not kept there.
        """
        skipped = skipped_of(case)
        if skipped is None or not is_mirror(skipped[1]):
            return 0
        topic = home_of(self._snapshot(), case)
        if topic is None or (ends := known(self._brokers.ends, topic.kafka, topic.topic)) is None:
            return None
        # Others commit all the time: before offsets are set that is no reason to turn back.
        until = self._steady.now() + (TAIL_S_MAX if case.altering else 0.0)
        while (behind := unread(self._snapshot(), topic, ends)) and self._steady.now() < until:
            self._pause(TAIL_AGAIN_S)
        return behind

    def _agree(
        self, snapshot: Snapshot, case: Case, record: RecordAt, mine: Pair | None
    ) -> bool | None:
        """Whether what we follow says what Connect says."""
        if mine is None:
            return None
        if is_mirror(mine):
            followed = offset_of(snapshot, case, mine.partition)
            return None if followed is None else followed == mine.offset
        sink = sink_of(snapshot, case)
        if sink is None:
            return None
        at = TopicPartition(record.topic, record.partition)
        committed = known(self._brokers.committed, record.kafka, sink.group, at)
        return None if committed is None else committed == position(mine)

    def _quiet_s(self, snapshot: Snapshot, case: Case) -> float | None:
        """Return for how long its offsets stand still, by our clock: since the newest commit was
        read, or since it was asked to stop, whichever is later.
        """
        since = [at for at in (committed_by(snapshot, case), case.stopped_at) if at is not None]
        return self._clock.now() - max(since) if since else None


def _begun_by(run: FailureRun) -> float:
    return run.first_at if run.begun_by is None else run.begun_by


def _lowered(mode: str | None) -> Mode:
    return Mode.AUTO if mode is None else Mode(mode)
