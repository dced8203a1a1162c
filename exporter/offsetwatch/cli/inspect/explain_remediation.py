"""Remediation in `explain`: as of the daemon's journal, and as of now.

The journal has incidents, plans and the last answers of the guards. A preview asks the clusters
for the plan as of now and every guard's answer. The process has only just started: what takes two
observations to detect, only the daemon reports, and the guard against a fresh start is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import add_config_option
from offsetwatch.cli.plans.print import build_plan_document, print_guards
from offsetwatch.cli.plans.switches import MODE_MEANINGS, describe_pause
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config
from offsetwatch.errors import ClientError, JournalDamaged
from offsetwatch.model.moments import Moment, moment_of
from offsetwatch.remedy.guards import Permission, derive_permission
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.incidents import Incident, find_incidents
from offsetwatch.remedy.model.journal_records import ActionRefused, IncidentDetected
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.policy import FLEET_SCOPE, scope_of
from offsetwatch.remedy.model.service_api import (
    Breaker,
    GuardAnswerRow,
    Mode,
    PlanRow,
    RemediationPause,
    lowest_mode,
)
from offsetwatch.remedy.views import plan_view
from offsetwatch.remedy.views.plan_text import COMMAND

if TYPE_CHECKING:
    from offsetwatch.remedy.planner import Planner
    from offsetwatch.state.snapshot import Snapshot


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
        print_previews(self.previews)


def read_remediation(
    config: Config, snapshot: Snapshot | None, cluster: str, connector: str
) -> RemediationReport:
    """Return what is known of a connector's remediation.

    snapshot    of an own inspection that is still open; None if there was none
    """
    previews = () if snapshot is None else preview_remediation(config, snapshot, cluster, connector)
    journal = read_connector_remediation(config, cluster, connector, SystemClock().now())
    return RemediationReport(journal, previews)


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
    config: Config, cluster: str, connector: str, now: float
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
        _print_recommendations(refusal.recommend)


def _print_recommendations(recommend: tuple[str, ...]) -> None:
    if recommend:
        output.print_lines("Better than that", [f"  {said}" for said in recommend])


_STARTUP_GUARDS: Final = frozenset({"start_grace"})
_OUTCOME_WORDS: Final = {
    Permission.NO: "it is not done",
    Permission.WOULD: "it would be done; the mode is to observe",
    Permission.PROPOSE: "it is proposed to people",
    Permission.ACT: "it is done without asking",
}


class RemediationPreview(NamedTuple):
    """Preview for one incident, with the fields of its JSON document.

    plan    in words; None if none can be made, for the reason in `said`
    """

    incident: str
    what: str
    since: Moment
    action: str
    comes_to: Permission
    plan: str | None
    said: str
    guards: tuple[GuardAnswerRow, ...]
    recommend: tuple[str, ...]


def preview_remediation(
    config: Config, snapshot: Snapshot, cluster: str, connector: str
) -> tuple[RemediationPreview, ...]:
    """Return one preview for each incident; none if no daemon has written a journal yet."""
    folder = Path(config.state_dir)
    stop_on = frozenset(config.remedy.stop_on)
    incidents = [
        incident
        for incident in find_incidents(snapshot, stop_on)
        if (incident.connect_cluster, incident.connector) == (cluster, connector)
    ]
    if not incidents or not (folder / FILE_NAME).exists():
        return ()
    from offsetwatch.daemon.remediation import open_remediation_parts  # noqa: PLC0415 - clients

    try:
        with open_remediation_parts(
            config, lambda: snapshot, folder, SystemClock(), pause=lambda _: None
        ) as parts:
            return tuple(_preview_incident(parts.planner, incident) for incident in incidents)
    except ClientError as exc:
        output.print_error(f"remediation was not evaluated: {output.format_client_error(exc)}")
        return ()


def _preview_incident(planner: Planner, incident: Incident) -> RemediationPreview:
    evaluation = planner.evaluate_case(planner.choose_action(incident))
    answers = tuple(answer for answer in evaluation.answers if answer.guard not in _STARTUP_GUARDS)
    return RemediationPreview(
        incident=incident.key,
        what=incident.said,
        since=Moment(incident.since),
        action=evaluation.action.value,
        comes_to=derive_permission(answers),
        plan=None if evaluation.plan is None else evaluation.plan.verb,
        said=evaluation.said,
        guards=tuple(map(plan_view.build_guard_row, answers)),
        recommend=evaluation.recommend,
    )


def print_previews(previews: tuple[RemediationPreview, ...]) -> None:
    """Print the previews as tables."""
    for preview in previews:
        title = f"{preview.action}, asked just now"
        if preview.plan is None:
            output.print_lines(f"{title}: no plan can be made: {preview.said}", ())
        else:
            outcome = _OUTCOME_WORDS[preview.comes_to]
            print_guards(f"{title}: {preview.plan}: {outcome}", preview.guards)
        _print_recommendations(preview.recommend)
