"""The journal read on: what it says of every plan, and of all of them, without reading it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from exporter.remedy.decisions import Dossier, folded
from exporter.remedy.desk import QuarantineRow
from exporter.remedy.fleet import Fleet
from exporter.remedy.journal import CONTROL, Journal, Publish
from exporter.remedy.plan import Copy, Plan
from exporter.remedy.quarantine import KEPT
from exporter.remedy.records import AnyRecord, IncidentOver, Refused, Verified

_AT_ONCE: Final = 1000  # records read in one go


class Ledger:
    """See the module. Belongs to one thread, as its journal does."""

    def __init__(self, folder: Path, publish: Publish | None = None) -> None:
        self.journal = Journal(folder, publish)
        self.fleet = Fleet()
        self.dossiers: dict[str, Dossier] = {}
        self.copied: list[QuarantineRow] = []
        self.refusals: dict[tuple[str, str, str, str], Refused] = {}
        self._seq = 0

    def read_on(self) -> None:
        """Take in what was written since."""
        while True:
            entries = self.journal.since(self._seq + 1, _AT_ONCE)
            for seq, plan_id, record in entries:
                self._take(seq, plan_id, record)
            if len(entries) < _AT_ONCE:
                return

    def refused(self, plan: Plan) -> Refused | None:
        """Why nothing was done about a plan's incident when that was last looked at."""
        remedy, at = plan.remedy, plan.subject
        if remedy is None:
            return None
        return self.refusals.get((remedy.incident, remedy.action.value, at.place, at.connector))

    def _take(self, seq: int, plan_id: str, record: AnyRecord) -> None:
        self._seq = seq
        self.fleet.take(seq, plan_id, record)
        match record:
            case Refused():
                at = (record.incident, record.action, record.connect_cluster, record.connector)
                self.refusals[at] = record
            case IncidentOver():
                self.refusals = {
                    at: held for at, held in self.refusals.items() if at[0] != record.incident
                }
        if plan_id == CONTROL:
            return
        found = folded(self.dossiers.get(plan_id), record)
        if found is None:
            return
        self.dossiers[plan_id] = found
        if isinstance(record, Verified) and not record.undoing:
            step = found.plan.steps[record.index]
            if isinstance(step, Copy):
                self.copied.append(_copied(found.plan, step, record))


def _copied(plan: Plan, step: Copy, seen: Verified) -> QuarantineRow:
    return QuarantineRow(
        skip_key=step.skip_key,
        plan_id=plan.plan_id,
        connect_cluster=plan.subject.place,
        connector=plan.subject.connector,
        kafka=step.record.kafka,
        topic=step.record.topic,
        partition=step.record.partition,
        offset=step.record.offset,
        sha256=step.sha256,
        size_bytes=step.size_bytes,
        where=seen.said.removeprefix(KEPT) if seen.said.startswith(KEPT) else step.to,
        at=seen.at,
    )
