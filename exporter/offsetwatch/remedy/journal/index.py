"""Index of the journal: plan histories and fleet state, updated as records are appended.

Plans that are over only increase in number: they stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from offsetwatch.model.moments import Moment
from offsetwatch.remedy.journal.journal import Journal, LinePublisher
from offsetwatch.remedy.model.approval import PlanHistory, build_plan_history
from offsetwatch.remedy.model.fleet_state import FleetState
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    AnyRecord,
    IncidentEnded,
    PlanProposed,
    StepVerified,
)
from offsetwatch.remedy.model.plan import Copy, Plan
from offsetwatch.remedy.model.quarantine import COPY_NOTE_PREFIX
from offsetwatch.remedy.model.service_api import QuarantineRow


class JournalIndex:
    """Index of the journal of one state directory. It belongs to one thread, as its journal does.

    dossiers    histories of the plans that are not over, in the order of their beginnings
    copied      records that were copied to quarantine
    refusals    last refusal of an action for a current incident, by the incident, the action, the
                Connect cluster and the connector; none from before a plan of that action
    """

    def __init__(self, folder: Path, publish: LinePublisher | None = None) -> None:
        self.journal = Journal(folder, publish)
        self.fleet = FleetState()
        self.dossiers = self.fleet.plans
        self.copied: list[QuarantineRow] = []
        self.refusals: dict[tuple[str, str, str, str], ActionRefused] = {}
        self._requests: dict[tuple[str, str], str] = {}
        self._seq = 0

    def read_on(self) -> None:
        """Apply the records that were written since the last call."""
        for entry in self.journal.every(self._seq + 1):
            self._apply(*entry)

    def dossier(self, plan_id: str) -> PlanHistory | None:
        """Return the history of any plan; None if there is no such plan."""
        return self.dossiers.get(plan_id) or build_plan_history(self.journal.records(plan_id))

    def newest(self) -> Iterator[PlanHistory]:
        """Yield the history of every plan, the last begun first.

        Plans that are over are read from the journal one at a time.
        """
        for plan_id in reversed(self.journal.plans()):
            history = self.dossier(plan_id)
            if history is not None:
                yield history

    def find_request(self, key: str, by: str) -> PlanHistory | None:
        """Return the history of the first plan that `by` requested with this key; None if none."""
        plan_id = self._requests.get((key, by))
        return None if plan_id is None else self.dossier(plan_id)

    def refused(self, plan: Plan) -> ActionRefused | None:
        """Return the last refusal for a plan's incident and action; None if there is none."""
        remedy, subject = plan.remedy, plan.subject
        if remedy is None:
            return None
        return self.refusals.get(
            (remedy.incident, remedy.action.value, subject.store, subject.connector)
        )

    def _apply(self, seq: int, plan_id: str, record: AnyRecord) -> None:
        self._seq = seq
        self.fleet.apply(seq, plan_id, record)
        match record:
            case ActionRefused():
                row_key = (record.incident, record.action, record.connect_cluster, record.connector)
                self.refusals[row_key] = record
            case IncidentEnded():
                self.refusals = {
                    key: refusal
                    for key, refusal in self.refusals.items()
                    if key[0] != record.incident
                }
            case PlanProposed(plan=plan):
                self._requests.setdefault((record.key, plan.created_by), plan_id)
                if plan.remedy is not None:
                    subject = plan.subject
                    planned = (plan.remedy.action.value, subject.store, subject.connector)
                    self.refusals = {
                        key: refusal for key, refusal in self.refusals.items() if key[1:] != planned
                    }
            case StepVerified(undoing=False) if plan_id in self.dossiers:
                plan = self.dossiers[plan_id].plan
                step = plan.steps[record.index]
                if isinstance(step, Copy):
                    self.copied.append(_build_quarantine_row(plan, step, record))


def _build_quarantine_row(plan: Plan, step: Copy, step_verified: StepVerified) -> QuarantineRow:
    return QuarantineRow(
        skip_key=step.skip_key,
        plan_id=plan.plan_id,
        connect_cluster=plan.subject.store,
        connector=plan.subject.connector,
        kafka=step.record.kafka,
        topic=step.record.topic,
        partition=step.record.partition,
        offset=step.record.offset,
        sha256=step.sha256,
        size_bytes=step.size_bytes,
        where=step_verified.said.removeprefix(COPY_NOTE_PREFIX)
        if step_verified.said.startswith(COPY_NOTE_PREFIX)
        else step.to,
        at=Moment(step_verified.at),
    )
