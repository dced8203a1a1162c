"""Remediation in `explain`: mode, incidents, plans and answers of the guards.

They are those of the daemon's journal. Without a daemon's answer, previews as of now are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.plans.print import (
    MODE_MEANINGS,
    build_plan_document,
    describe_pause,
    print_guards,
)
from offsetwatch.clock import SystemClock
from offsetwatch.errors import JournalDamaged
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.journal_records import ActionRefused, IncidentDetected
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.policy import FLEET_SCOPE, scope_of
from offsetwatch.remedy.model.service_api import (
    Breaker,
    Mode,
    PlanRow,
    RemediationPause,
    lowest_mode,
)
from offsetwatch.remedy.views import plan_view
from offsetwatch.remedy.views.plan_text import COMMAND

if TYPE_CHECKING:
    from offsetwatch.cli.common.config_excerpt import ConfigExcerpt
    from offsetwatch.cli.inspect.remediation_preview import RemediationPreview
    from offsetwatch.config import Config


class RemediationReport(NamedTuple):
    """Known remediation of a connector.

    journal     as of the daemon's journal; None if there is none
    previews    as of now; none if the clusters were not inspected
    """

    journal: ConnectorRemediation | None
    previews: tuple[RemediationPreview, ...]

    @property
    def document(self) -> Mapping[str, Any] | None:
        """Return the journal's state as a JSON document; None if there is no journal."""
        return build_remediation_document(self.journal)

    def print(self) -> None:
        """Print all of it as tables."""
        print_connector_remediation(self.journal)
        for preview in self.previews:
            preview.print()


def read_remediation(
    config: Config | ConfigExcerpt, cluster: str, connector: str
) -> RemediationReport:
    """Return what the journal has of a connector's remediation."""
    journal = read_connector_remediation(config, cluster, connector, SystemClock().now())
    return RemediationReport(journal, ())


class ConnectorRemediation(NamedTuple):
    """Mode, pause, breakers, incidents, guard answers and plans of one connector.

    refusals         the guards' answers when the daemon last evaluated each action
    plans            those that are not over
    stopped_since    Unix seconds of the stop by one of our plans; None if there is none
    """

    mode: Mode
    pause: RemediationPause | None
    breakers: tuple[Breaker, ...]
    incidents: tuple[IncidentDetected, ...]
    refusals: tuple[ActionRefused, ...]
    plans: tuple[PlanRow, ...]
    stopped_since: float | None


def read_connector_remediation(
    config: Config | ConfigExcerpt, cluster: str, connector: str, now: float
) -> ConnectorRemediation | None:
    """Return the state; None if there is no journal yet, or if it is damaged, which is printed."""
    folder = Path(config.state_dir)
    if not (folder / FILE_NAME).exists():
        return None
    try:
        ledger = JournalIndex(folder)
        with closing(ledger.journal):
            ledger.read_on()
    except JournalDamaged as exc:
        output.print_error(f"the state of remediation is unknown: {exc}")
        return None
    fleet, key = ledger.fleet, (cluster, connector)

    def is_about(record: IncidentDetected | ActionRefused) -> bool:
        return (record.connect_cluster, record.connector) == key

    rows = (plan_view.build_plan_row(history, now) for history in ledger.dossiers.values())
    plans = tuple(
        row for row in rows if (row.connect_cluster, row.connector) == key and not row.state.is_over
    )
    approved = {row.action for row in plans if row.state is PlanStatus.APPROVED}
    return ConnectorRemediation(
        mode=lowest_mode(Mode(config.remedy.mode), fleet.lowered_mode),
        pause=plan_view.build_pause(fleet, now),
        breakers=tuple(
            fleet.breakers[scope]
            for scope in (scope_of(*key), FLEET_SCOPE)
            if scope in fleet.breakers
        ),
        incidents=tuple(filter(is_about, fleet.incidents.values())),
        refusals=tuple(
            refusal
            for refusal in filter(is_about, ledger.refusals.values())
            if refusal.incident in fleet.incidents or refusal.action in approved
        ),
        plans=plans,
        stopped_since=fleet.stopped_by_us().get(key),
    )


def build_remediation_document(
    remediation: ConnectorRemediation | None,
) -> Mapping[str, Any] | None:
    """Return the state as a JSON document; None for None."""
    if remediation is None:
        return None
    return {
        "mode": remediation.mode,
        "pause": remediation.pause,
        "breakers": remediation.breakers,
        "stopped_since": moment_of(remediation.stopped_since),
        "incidents": [
            {**msgspec.structs.asdict(incident), "at": Moment(incident.at)}
            for incident in remediation.incidents
        ],
        "looked": [
            {
                "at": Moment(refusal.at),
                "incident": refusal.incident,
                "action": refusal.action,
                "mode": refusal.mode,
                "would": refusal.would,
                "guards": tuple(map(plan_view.build_guard_row, refusal.answers)),
                "recommend": refusal.recommend,
            }
            for refusal in remediation.refusals
        ],
        "plans": [build_plan_document(row, row.state.value) for row in remediation.plans],
    }


def print_connector_remediation(remediation: ConnectorRemediation | None) -> None:
    """Print the state as tables; nothing for None."""
    if remediation is None:
        return
    facts: list[tuple[str, str | None]] = [
        ("mode", f"{remediation.mode.value}: {MODE_MEANINGS[remediation.mode]}"),
        ("pause", None if remediation.pause is None else describe_pause(remediation.pause)),
        ("stopped by a plan since", output.format_moment(remediation.stopped_since)),
    ]
    facts += [
        (
            f"breaker of {breaker.scope}",
            f"open since {output.format_moment(breaker.opened_at)}: {breaker.said}",
        )
        for breaker in remediation.breakers
    ]
    facts += [
        (f"{incident.what} since", f"{output.format_moment(incident.at)}: {incident.said}")
        for incident in remediation.incidents
    ]
    facts += [
        (
            f"plan {row.state.value}",
            f"{row.plan_id}: {row.verb or row.action}: "
            + add_config_option(f"{COMMAND} plan show {row.plan_id}"),
        )
        for row in remediation.plans
    ]
    if not remediation.incidents:
        facts.append(("incidents", "none"))
    output.print_table("Remediation", ("", ""), [fact for fact in facts if fact[1] is not None])
    for refusal in remediation.refusals:
        outcome = "every guard lets it" if refusal.would else "it is not done"
        print_guards(
            f"{refusal.action}, as of {output.format_moment(refusal.at)} in mode "
            f"{refusal.mode}: {outcome}",
            tuple(map(plan_view.build_guard_row, refusal.answers)),
        )
        print_recommendations(refusal.recommend)


def print_recommendations(recommend: tuple[str, ...]) -> None:
    """Print what would help more than an action; nothing for none."""
    if recommend:
        output.print_lines("Better than that", [f"  {said}" for said in recommend])
