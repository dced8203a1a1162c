"""Planner: makes a plan from an incident or a request, and evaluates every guard for it.

Evidence is read again each time: an alert or a finding is only a reason to inspect. Nothing here
changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from offsetwatch.model.findings import TIMES, Evidence, EvidenceItem
from offsetwatch.remedy.classify import SKIPPABLE, Failure, FailureKind, classify
from offsetwatch.remedy.gather import snapshot_queries as queries
from offsetwatch.remedy.gather.facts_collector import FactsCollector
from offsetwatch.remedy.gather.live_queries import (
    ConnectClient,
    QueryRound,
    compute_config_sha256,
)
from offsetwatch.remedy.gather.poison_locator import PoisonLocator
from offsetwatch.remedy.gather.snapshot_queries import (
    LiveConnectorState,
    RemediationCase,
    pin_state,
    requested_state_of,
)
from offsetwatch.remedy.guards import evaluate, find_tripped_breakers
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import create_plan_id
from offsetwatch.remedy.locate.recommendations import recommend_for_sink
from offsetwatch.remedy.locate.search import IdentifiedRecord, NoIdentification
from offsetwatch.remedy.model import plan_templates, service_api
from offsetwatch.remedy.model.facts import PlanApproval
from offsetwatch.remedy.model.guard_answer import GuardAnswer, Stage, select_denying
from offsetwatch.remedy.model.incidents import Incident, IncidentKind
from offsetwatch.remedy.model.plan import Action, PartitionOffset, Plan, PlanSubject, RequestedState
from offsetwatch.remedy.model.policy import Policy, classify_sink
from offsetwatch.state.snapshot import Snapshot

NOTHING_FAILED: Final = "no task is failed: there is nothing to restart"
_RestoredOffsets = tuple[tuple[PartitionOffset, ...], str]  # with the name of their backup


class AdmissionAnswer(NamedTuple):
    """Guard answers right before a plan begins, and the breakers that they open."""

    answers: tuple[GuardAnswer, ...]
    tripped: tuple[tuple[str, str], ...]


class CaseEvaluation(NamedTuple):
    """Result of evaluating one action for an incident or a request.

    plan        None if none can be made; `said` is then the reason
    answers     of every guard that was evaluated
    """

    action: Action
    plan: Plan | None
    answers: tuple[GuardAnswer, ...] = ()
    said: str = ""
    recommend: tuple[str, ...] = ()


class Planner:
    """Maker of remediation plans, which evaluates the guards of each.

    quarantine  where copies of skipped records go, as plans name it
    """

    def __init__(
        self,
        *,
        client_of: Callable[[str], ConnectClient],
        collector: FactsCollector,
        locator: PoisonLocator,
        snapshot: Callable[[], Snapshot],
        policy: Policy,
        quarantine: str,
        state_dir: Path,
        clock: Callable[[], float],
    ) -> None:
        self._client_of = client_of
        self._collector = collector
        self._locator = locator
        self._snapshot = snapshot
        self._policy = policy
        self._quarantine = quarantine
        self._state_dir = state_dir
        self._clock = clock

    def choose_action(
        self, incident: Incident, query_round: QueryRound | None = None
    ) -> RemediationCase:
        """Choose the least action that may help with the incident.

        A restart comes first: most of what fails once does not fail twice. A record may be skipped
        if a failure that it causes repeats, or if the connector does not advance although it never
        fails.
        """
        case = RemediationCase(
            incident.connect_cluster, incident.connector, Action.NOTIFY, incident=incident
        )
        self._collector.observe_lags(incident)
        match incident.what:
            case IncidentKind.HARMFUL:
                return replace(case, action=Action.STOP)
            case IncidentKind.FROZEN:
                return replace(case, action=Action.SKIP_ONE)
        failure = self._failure(incident, query_round or QueryRound())
        over_and_over = self._collector.failures(incident) >= self._policy.failures
        skippable = failure is not None and failure.kind in SKIPPABLE and failure.veto is None
        action = Action.SKIP_ONE if over_and_over and skippable else Action.RESTART_FAILED
        return replace(case, action=action, failure=failure)

    def evaluate_case(
        self, case: RemediationCase, query_round: QueryRound | None = None
    ) -> CaseEvaluation:
        """Plan the action of a case, and evaluate every guard for it."""
        query_round = query_round or QueryRound()
        if case.action is not Action.SKIP_ONE:
            evaluation = self._evaluate(case, query_round=query_round)
            return evaluation._replace(recommend=self._recommend(case))
        identification = self._find_record(case, query_round)
        if isinstance(identification, NoIdentification):
            said = f"{identification.reason}: {identification.said}"
            return CaseEvaluation(case.action, None, said=said, recommend=identification.recommend)
        return self._evaluate(replace(case, identified=identification), query_round=query_round)

    def _recommend(self, case: RemediationCase) -> tuple[str, ...]:
        """Return what may help a sink that fails over and over by an exception of unknown meaning.

        Drivers of databases throw the same class for a bad row and for a broken connection, so that
        nothing is skipped without a person.
        """
        failure, incident = case.failure, case.incident
        if incident is None or failure is None or failure.kind is not FailureKind.UNKNOWN:
            return ()
        index = self._snapshot().index
        repeated = self._collector.failures(incident) >= self._policy.failures
        if case.key not in index.sink_groups or not repeated:
            return ()
        view = index.connectors.get(case.key)
        class_name = "" if view is None else view.class_name
        profile = classify_sink(self._policy, class_name)
        return recommend_for_sink(failure.stage, class_name, profile)

    def observe_mass_failure(self) -> None:
        """Update whether a mass failure is going on; once a round, as that needs several polls."""
        self._collector.observe_mass_failure()

    def observe_failures(
        self, incident: Incident, query_round: QueryRound, *, missed: bool
    ) -> bool:
        """Read the configuration under which a sink may fail again.

        A failure after which it was not read at once does not count: it may have been another one
        in between. Return False if it has to be read later.

        missed   earlier failures were not observed
        """
        key = incident.connector_key
        silent = query_round.is_silent(key[0])
        is_sink = key in self._snapshot().index.sink_groups
        if missed or silent or not is_sink:
            self._locator.forget_config(key)
        if not is_sink:
            return True  # what identifies records of others does not depend on their configuration
        if silent:
            return False
        config = None
        try:
            config = query_round.query(key[0], self._client_of(key[0]).config, key[1])
        finally:
            if config is None:
                self._locator.forget_config(key)
        if config is None:
            return not query_round.is_silent(key[0])
        # It may have failed during the read.
        run = queries.find_longest_run_of(self._snapshot(), key)
        if run is not None:
            self._locator.observe_config(key, config, run)
        return True

    def is_stop_requested(self) -> bool:
        """Check whether the stop file exists; True also if that is unknown."""
        return self._collector.stop_file() is not False

    def admit(
        self, plan: Plan, incident: Incident | None, approval: PlanApproval | None
    ) -> AdmissionAnswer:
        """Evaluate the guards again right before a plan begins, against the plan's pins."""
        case = self._case_of_plan(plan, incident, approval)
        if incident is not None and case.action is Action.SKIP_ONE and not case.by_person:
            case = replace(case, failure=self._failure(incident, QueryRound()))
        facts = self._collector.gather(case)
        answers = evaluate(facts, self._policy, Stage.ADMIT, by_person=case.by_person)
        return AdmissionAnswer(answers, find_tripped_breakers(answers, facts))

    def find_outdated_pin(self, plan: Plan, query_round: QueryRound) -> str | None:
        """Return why a plan can never begin any more; None if it may begin, or that is unknown.

        One of its pins has changed for good: configuration, incarnation or requested state.
        """
        assert plan.remedy is not None
        case, pins = self._case_of_plan(plan, None, None), plan.remedy
        client, snapshot = self._client_of(case.connect), self._snapshot()
        connector = query_round.query(case.connect, client.read_state, case.connector)
        config = query_round.query(case.connect, client.config, case.connector)
        if connector is None or config is None:
            return None
        incarnation, token = queries.compare_pins(snapshot, plan, connector.status.state)
        config_sha256 = compute_config_sha256(case.connector, config)
        pinned = (
            ("its configuration has changed", pins.config_sha256, config_sha256),
            ("it was deleted and created again", pins.incarnation, incarnation),
            ("another client has changed its state since", pins.token, token),
        )
        known_pins = (key for key in pinned if None not in key[1:])
        return next((said for said, was, is_ in known_pins if was != is_), None)

    def recheck(
        self,
        plan: Plan,
        incident: Incident | None,
        approval: PlanApproval | None,
        *,
        stopped_at: float,
        receipt_sha256: str | None,
    ) -> tuple[str, ...]:
        """Return the guards that do not pass before offsets are altered; empty if all pass.

        By then the connector is stopped and all its offsets are backed up.
        """
        case = replace(
            self._case_of_plan(plan, incident, approval),
            altering=True,
            backed_up=True,
            stopped_at=stopped_at,
            receipt_sha256=receipt_sha256,
        )
        facts = self._collector.gather(case)
        denying = select_denying(
            evaluate(facts, self._policy, Stage.ALTER, by_person=case.by_person)
        )
        return tuple(f"{answer.guard}: {answer.said}" for answer in denying)

    def for_person(self, request: service_api.PlanRequest, by: str) -> service_api.PlanningAnswer:
        """Return the plan of an operator's request with its guard answers, or why there is none."""
        if (request.connect_cluster, request.connector) not in self._snapshot().index.connectors:
            return service_api.RequestTargetNotFound()
        action = Action(request.action.value)
        case = RemediationCase(request.connect_cluster, request.connector, action, by_person=True)
        restored: _RestoredOffsets | None = None
        if action is Action.RESTORE:
            backup = self._read_backup(request)
            if not isinstance(backup, tuple):
                return backup
            restored = backup
        elif action is Action.SKIP_ONE:
            identification = self._find_named_record(case, request.pair)
            if isinstance(identification, NoIdentification):
                return service_api.ProposalRefused(
                    said=f"{identification.reason}: {identification.said}"
                )
            case = replace(case, identified=identification)
        evaluation = self._evaluate(case, by=by, because=request.because, restored=restored)
        if evaluation.plan is None:
            return service_api.ProposalRefused(said=evaluation.said)
        return service_api.RequestedPlan(evaluation.plan, evaluation.answers)

    # --- plans -----------------------------------------------------------------------------------

    def _failure(self, incident: Incident, query_round: QueryRound) -> Failure | None:
        """Return the failure that the current stack traces of the connector's tasks show.

        If tasks fail differently, one that vetoes a skip counts. None if there is no trace, or it
        cannot be read.
        """
        view = self._snapshot().index.connectors.get(incident.connector_key)
        sink_data = frozenset() if view is None else self._policy.data_errors(view.class_name)
        connect = incident.connect_cluster
        traces = query_round.query(connect, self._client_of(connect).traces, incident.connector)
        if traces is None:
            return None
        classified = [classify(trace, sink_data) for trace in traces.values()]
        failures = [failure for failure in classified if failure is not None]
        # Tasks that died of different things have no one cause: the one that vetoes counts.
        vetoed = [
            failure
            for failure in failures
            if failure.veto is not None or failure.kind not in SKIPPABLE
        ]
        return next(iter((*vetoed, *failures)), None)

    def _find_record(
        self, case: RemediationCase, query_round: QueryRound
    ) -> IdentifiedRecord | NoIdentification:
        """Return the record to skip.

        This may read for minutes: what is known of the connector afterwards is read again.
        """
        now = self._collector.now(case.connect, case.connector, query_round)
        return self._locator.find(case, now, self._snapshot())

    def _find_named_record(
        self, case: RemediationCase, to: PartitionOffset | None
    ) -> IdentifiedRecord | NoIdentification:
        """Return the record that an operator names; see PlanRequest.pair."""
        now = self._collector.now(case.connect, case.connector)
        return self._locator.named(case, now, self._snapshot(), to)

    def _read_backup(
        self, request: service_api.PlanRequest
    ) -> _RestoredOffsets | service_api.ProposalRefused | service_api.RequestTargetNotFound:
        if request.backup is None:
            return service_api.ProposalRefused(said="a restore needs the name of a backup")
        if request.backup not in {row.name for row in backups.list_backups(self._state_dir)}:
            return service_api.RequestTargetNotFound()
        path = backups.resolve_backup_path(self._state_dir, request.backup)
        pairs = tuple(
            PartitionOffset(partition, offset)
            for name, partition, offset in backups.parse_entries(path.read_bytes())
            if name == request.connector
        )
        if not pairs:
            return service_api.ProposalRefused(
                said=f"{request.backup} holds no offset of {request.connector}"
            )
        return pairs, request.backup

    def _evaluate(
        self,
        case: RemediationCase,
        *,
        query_round: QueryRound | None = None,
        by: str = plan_templates.DETECTOR,
        because: str = "",
        restored: _RestoredOffsets | None = None,
    ) -> CaseEvaluation:
        """Make the plan, and evaluate every guard for it, from one reading of the connector."""
        now = self._collector.now(case.connect, case.connector, query_round)
        header = self._build_header(case, now, by=by, because=because)
        if header is None:
            return CaseEvaluation(
                case.action, None, said="Connect does not return what a plan needs"
            )
        if case.action is Action.RESTART_FAILED:
            if case.by_person and now.connector is not None:
                status = now.connector.status
                if "failed" not in {status.state, *status.tasks}:
                    return CaseEvaluation(case.action, None, said=NOTHING_FAILED)
            self._locator.observe(case, now, self._snapshot())
        plan = self._build_plan(case, header, restored)
        facts = self._collector.gather(replace(case, plan=plan), now)
        answers = evaluate(facts, self._policy, Stage.PLAN, by_person=case.by_person)
        return CaseEvaluation(case.action, plan, answers)

    def _build_plan(
        self,
        case: RemediationCase,
        header: plan_templates.PlanHeader,
        restored: _RestoredOffsets | None,
    ) -> Plan:
        match case.action:
            case Action.STOP:
                return plan_templates.build_stop_plan(header)
            case Action.RESTART_FAILED:
                return plan_templates.build_restart_plan(header)
            case Action.RESTORE:
                assert restored is not None
                return plan_templates.build_restore_plan(header, *restored)
        identified = case.identified
        assert identified is not None
        return plan_templates.build_skip_plan(
            header,
            plan_templates.RecordToSkip(
                identified.record,
                identified.sha256,
                identified.size_bytes,
                identified.frm,
                identified.to,
            ),
            quarantine=self._quarantine,
            stop_total_s=self._policy.stop_total_s,
            quiet_s=self._policy.probation_s,
        )

    def _build_header(
        self,
        case: RemediationCase,
        now: LiveConnectorState,
        *,
        by: str,
        because: str,
    ) -> plan_templates.PlanHeader | None:
        snapshot = self._snapshot()
        if now.root is None or now.connector is None or now.config is None:
            return None
        changes = queries.find_state_changes(snapshot, case.key)
        moment = self._clock()
        state = now.connector.status.state
        # A restart changes nothing declared that the operator would revert.
        owned = self._client_of(case.connect).operator_managed
        reconciled = owned and case.action is not Action.RESTART_FAILED
        incident = case.incident
        failures = 0 if incident is None else self._collector.failures(incident)
        return plan_templates.PlanHeader(
            plan_id=create_plan_id(moment),
            at=moment,
            by=by,
            subject=PlanSubject(
                driver="strimzi" if reconciled else "rest",
                store=case.connect,
                connector=case.connector,
                kind=queries.kind_of(snapshot.index.connectors.get(case.key)).value,
                identity=now.root.kafka_cluster_id,
            ),
            original=RequestedState(requested_state_of(state)),
            incident="" if incident is None else incident.key,
            config_sha256=compute_config_sha256(case.connector, now.config),
            evidence=_build_evidence(case, because, failures),
            signature=None if case.failure is None else case.failure.signature,
            incarnation=queries.compute_incarnation(snapshot, case.key),
            token=pin_state(state, changes).text,
            policy_sha256=self._policy.sha256,
        )

    def _case_of_plan(
        self, plan: Plan, incident: Incident | None, approval: PlanApproval | None
    ) -> RemediationCase:
        assert plan.remedy is not None
        return RemediationCase(
            plan.subject.store,
            plan.subject.connector,
            plan.remedy.action,
            incident=incident,
            plan=plan,
            approval=approval,
            by_person=plan.created_by != plan_templates.DETECTOR,
        )


def _build_evidence(case: RemediationCase, because: str, failures: int) -> Evidence:
    items: list[EvidenceItem] = []
    if because:
        items.append(EvidenceItem("because", because))
    if case.incident is not None:
        items.append(EvidenceItem(case.incident.finding, case.incident.said))
    if failures:
        items.append(EvidenceItem("failed in a row", failures, TIMES))
    if case.failure is not None:
        said = f"{case.failure.kind.value}: {case.failure.chain[-1]}"
        items.append(EvidenceItem(plan_templates.FAILURE_EVIDENCE, said))
    if case.identified is not None:
        items.append(
            EvidenceItem("found by", ", ".join((case.identified.method, *case.identified.also)))
        )
        items += case.identified.evidence
    return tuple(items)
