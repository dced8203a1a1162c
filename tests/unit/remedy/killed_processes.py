"""Processes that end where a test says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsetwatch.remedy.journal.journal import Journal, StartCheck
from offsetwatch.remedy.model.journal_records import AnyRecord, PlanOpened
from offsetwatch.remedy.model.plan import Plan


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Fuse:
    """Ends the process at the n-th of the moments that it is told of."""

    at: int | None = None
    count: int = 0

    def burn(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise Killed


class FragileJournal(Journal):
    """Its process may end right before a record is on the disk, and right after."""

    fuse = Fuse()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._db.execute("PRAGMA synchronous = OFF")  # processes end here, machines do not

    def open(self, plan: Plan, record: PlanOpened, against: StartCheck = lambda: None) -> None:
        self.fuse.burn()
        super().open(plan, record, against)
        self.fuse.burn()

    def append(self, plan_id: str, records: tuple[AnyRecord, ...]) -> None:
        if records:
            self.fuse.burn()
        super().append(plan_id, records)
        if records:
            self.fuse.burn()
