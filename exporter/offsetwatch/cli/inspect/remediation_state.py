"""What remedy has to say of one connector, for `explain`: the trouble it sees, what it would do,
and each guard's answer. From the journal that the daemon keeps; nothing is asked of the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import with_config
from offsetwatch.cli.plans.print import OPEN, document, print_guards
from offsetwatch.cli.plans.switches import MEANS, paused
from offsetwatch.config import Config
from offsetwatch.errors import JournalDamaged
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.journal.index import Ledger
from offsetwatch.remedy.journal.journal import NAME
from offsetwatch.remedy.model.fleet_state import Breaker
from offsetwatch.remedy.model.journal_records import IncidentSeen
from offsetwatch.remedy.model.journal_records import Refused as Held
from offsetwatch.remedy.model.policy import FLEET, scope_of
from offsetwatch.remedy.model.service_api import GuardTold, Mode, Pause, PlanRow, PlanState
from offsetwatch.remedy.service import effective
from offsetwatch.remedy.views import plan_view
from offsetwatch.remedy.views.plan_text import COMMAND

_LIVE = OPEN | {PlanState.PROPOSED, PlanState.APPROVED}


class Looked(NamedTuple):
    """Which guards were against it when the daemon looked last. would: none was, and the mode is to
    observe. recommend: what a person may do instead.
    """

    at: Moment
    incident: str
    action: str
    mode: str
    would: bool
    guards: tuple[GuardTold, ...]
    recommend: tuple[str, ...] = ()


class Remedied(NamedTuple):
    """See the module. plans: those that are not over; stopped_since: by a plan of ours."""

    mode: Mode
    pause: Pause | None
    breakers: tuple[Breaker, ...]
    incidents: tuple[IncidentSeen, ...]
    looked: tuple[Looked, ...]
    plans: tuple[PlanRow, ...]
    stopped_since: float | None


def remedied(config: Config, cluster: str, connector: str, now: float) -> Remedied | None:
    """None where no daemon has kept a journal yet, or it cannot be read, which is said."""
    folder = Path(config.state_dir)
    if not (folder / NAME).exists():
        return None
    try:
        ledger = Ledger(folder)
        with closing(ledger.journal):
            ledger.read_on()
    except JournalDamaged as exc:
        output.error(f"the state of remediation is unknown: {exc}")
        return None
    fleet, whose = ledger.fleet, (cluster, connector)
    held = fleet.paused(now)
    rows = (plan_view.row(at, now) for at in ledger.dossiers.values())
    plans = tuple(
        row for row in rows if (row.connect_cluster, row.connector) == whose and row.state in _LIVE
    )
    approved = {row.action for row in plans if row.state is PlanState.APPROVED}
    return Remedied(
        mode=effective(Mode(config.remedy.mode), fleet.mode.mode if fleet.mode else None),
        pause=None
        if held is None
        else Pause(
            until=moment_of(held.until), by=held.by, at=Moment(held.at), because=held.because
        ),
        breakers=tuple(
            fleet.breakers[scope] for scope in (scope_of(*whose), FLEET) if scope in fleet.breakers
        ),
        incidents=tuple(at for at in fleet.incidents.values() if _whose(at) == whose),
        looked=tuple(
            _looked(at)
            for at in ledger.refusals.values()
            if _whose(at) == whose and (at.incident in fleet.incidents or at.action in approved)
        ),
        plans=plans,
        stopped_since=fleet.stopped_by_us().get(whose),
    )


def _whose(at: IncidentSeen | Held) -> tuple[str, str]:
    return (at.connect_cluster, at.connector)


def _looked(held: Held) -> Looked:
    return Looked(
        at=Moment(held.at),
        incident=held.incident,
        action=held.action,
        mode=held.mode,
        would=held.would,
        guards=tuple(plan_view.guard(at) for at in held.answers),
        recommend=held.recommend,
    )


def as_document(found: Remedied | None) -> Mapping[str, Any] | None:
    """As JSON."""
    if found is None:
        return None
    return {
        "mode": found.mode,
        "pause": found.pause,
        "breakers": [{**asdict(at), "opened_at": Moment(at.opened_at)} for at in found.breakers],
        "stopped_since": moment_of(found.stopped_since),
        "incidents": [
            {**msgspec.structs.asdict(at), "at": Moment(at.at)} for at in found.incidents
        ],
        "looked": [at._asdict() for at in found.looked],
        "plans": [document(row, row.state.value) for row in found.plans],
    }


def print_remedied(found: Remedied | None) -> None:
    """The same, as tables."""
    if found is None:
        return
    facts: list[tuple[str, str | None]] = [
        ("mode", f"{found.mode.value}: {MEANS[found.mode]}"),
        ("pause", None if found.pause is None else paused(found.pause)),
        ("stopped by a plan since", output.moment(found.stopped_since)),
    ]
    facts += [(f"breaker of {at.scope}", _breaker(at)) for at in found.breakers]
    facts += [(f"{at.what} since", _incident(at)) for at in found.incidents]
    facts += [
        (
            f"plan {row.state.value}",
            f"{row.plan_id}: {row.verb or row.action}: "
            + with_config(f"{COMMAND} plan show {row.plan_id}"),
        )
        for row in found.plans
    ]
    if not found.incidents:
        facts.append(("incidents", "none"))
    output.table("Remediation", ("", ""), [at for at in facts if at[1] is not None])
    for at in found.looked:
        print_guards(_title(at), at.guards)
        if at.recommend:
            output.lines("Better than that", [f"  {said}" for said in at.recommend])


def _breaker(at: Breaker) -> str:
    return f"open since {output.moment(at.opened_at)}: {at.said}"


def _incident(at: IncidentSeen) -> str:
    return f"{output.moment(at.at)}: {at.said}"


def _title(at: Looked) -> str:
    what = "every guard lets it" if at.would else "it is not done"
    return f"{at.action}, as of {output.moment(at.at)} in mode {at.mode}: {what}"
