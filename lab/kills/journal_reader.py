"""
What a daemon's journal says of its plans, read beside it by a plain reader of SQLite.

It shares nothing with the exporter and changes nothing: it is how a moment inside a plan is met,
and how it is known afterwards which one it was.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError

OPEN, PARKED, ENDED = "open", "parked", "ended"
WAITS, APPROVED, GONE = "proposed", "approved", "gone"
BUSY_S_MAX = 10.0


@dataclass(slots=True)
class Plan:
    """
    One, as far as it is.

    index       of the step that is next; is_requested: the journal has its intent and no result yet
    starts      how often a process began with it or went on with it
    """

    plan_id: str
    connector: str
    action: str
    steps: list[dict[str, Any]]
    status: str = WAITS
    index: int = 0
    is_requested: bool = False
    undoing: bool = False
    starts: int = 0
    ending: str = ""
    said: list[str] = field(default_factory=list)

    @property
    def phase(self) -> str:
        """Return the step in words, with its direction, and whether it may have happened."""
        name = "prove" if self.index >= len(self.steps) else _name(self.steps[self.index])
        prefix = "back: " if self.undoing else ""
        return f"{prefix}{name}{', requested' if self.is_requested else ''}"


def _name(step: dict[str, Any]) -> str:
    return str(step["state"] if step["step"] == "to_state" else step["step"])


class JournalReader:
    """See the module. For one thread; `refresh()` takes in what is new."""

    def __init__(self, state: Path) -> None:
        self._path = state / "journal.sqlite"
        self._seq = 0
        self.plans: dict[str, Plan] = {}

    def refresh(self) -> None:
        """Take in all that was written since."""
        if not self._path.exists():
            return
        for seq, plan_id, body in self._rows():
            self._seq = seq
            self._take(plan_id, json.loads(body))

    def running(self) -> Plan | None:
        """The plan that is between its beginning and its end."""
        return next((plan for plan in self.plans.values() if plan.status == OPEN), None)

    def of(self, connector: str, *statuses: str) -> Iterator[Plan]:
        """The plans of a connector that stand so."""
        return (
            plan
            for plan in self.plans.values()
            if (plan.connector, plan.status in statuses) == (connector, True)
        )

    def _rows(self) -> list[tuple[int, str, bytes]]:
        request = "SELECT seq, plan_id, body FROM records WHERE seq > ? ORDER BY seq"
        try:
            where = f"file:{self._path}?mode=ro"
            with closing(sqlite3.connect(where, uri=True, timeout=BUSY_S_MAX)) as db:
                return db.execute(request, (self._seq,)).fetchall()
        except sqlite3.OperationalError as exc:
            # Just made: the file is there, and its table not yet.
            if "no such table" in str(exc):
                return []
            raise LabError(f"{self._path}: {exc}") from exc

    def _take(self, plan_id: str, record: dict[str, Any]) -> None:
        kind = record["record"]
        if kind in ("proposed", "opened") and plan_id not in self.plans:
            plan = record["plan"]
            self.plans[plan_id] = Plan(
                plan_id,
                connector=plan["subject"]["connector"],
                action=plan["remedy"]["action"],
                steps=plan["steps"],
            )
        answer = self.plans.get(plan_id)
        if answer is None:
            return
        if kind == "approved":
            answer.status = APPROVED
        elif kind in ("rejected", "lapsed"):
            answer.status = GONE
        elif kind in ("opened", "resumed"):
            answer.status, answer.starts = OPEN, answer.starts + 1
        elif kind == "parked":
            answer.status = PARKED
        elif kind == "ended":
            answer.status, answer.ending = ENDED, record["ending"]
        else:
            _step(answer, record)
        if record.get("said"):
            answer.said.append(f"{kind}: {record['said']}")


def _step(plan: Plan, record: dict[str, Any]) -> None:
    match record["record"]:
        case "intended":
            plan.is_requested = True
        case "answered" if record["answer"] in ("retry", "nack"):
            plan.is_requested = False
        case "verified":
            plan.index, plan.is_requested = record["index"] + 1, False
        case "turned":
            plan.steps, plan.index = record["steps"], 0
            plan.is_requested, plan.undoing = False, True
