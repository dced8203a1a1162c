"""Preview of remediation for one connector: the plan as of now, and every guard's answer.

The process has only just started. What takes two observations to detect, only the daemon reports;
the guard against a fresh start is left out. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from offsetwatch.cli.common import output
from offsetwatch.cli.plans.print import print_guards
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config
from offsetwatch.daemon.wiring.remediation import open_remediation_parts
from offsetwatch.errors import ClientError
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.guards import Permission, derive_permission
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.incidents import Incident, find_incidents
from offsetwatch.remedy.model.service_api import GuardAnswerRow
from offsetwatch.remedy.planner import Planner
from offsetwatch.remedy.views import plan_view
from offsetwatch.state.snapshot import Snapshot

_STARTUP_GUARDS: Final = frozenset({"start_grace"})
_OUTCOME_WORDS: Final = {
    Permission.NO: "it is not done",
    Permission.WOULD: "it would be done; the mode is to observe",
    Permission.PROPOSE: "it is proposed to people",
    Permission.ACT: "it is done without asking",
}


class RemediationPreview(NamedTuple):
    """Preview for one incident.

    plan    in words; None if none can be made, for the reason in `said`
    """

    incident: Incident
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
    found = [
        incident
        for incident in find_incidents(snapshot, stop_on)
        if (incident.connect_cluster, incident.connector) == (cluster, connector)
    ]
    if not found or not (folder / FILE_NAME).exists():
        return ()
    try:
        with open_remediation_parts(
            config, lambda: snapshot, folder, SystemClock(), pause=lambda _: None
        ) as parts:
            return tuple(_preview_incident(parts.planner, incident) for incident in found)
    except ClientError as exc:
        output.print_error(f"remediation was not evaluated: {output.format_client_error(exc)}")
        return ()


def _preview_incident(planner: Planner, incident: Incident) -> RemediationPreview:
    found = planner.consider(planner.case_of(incident))
    answers = tuple(answer for answer in found.answers if answer.guard not in _STARTUP_GUARDS)
    return RemediationPreview(
        incident=incident,
        action=found.action.value,
        comes_to=derive_permission(answers),
        plan=None if found.plan is None else found.plan.verb,
        said=found.said,
        guards=tuple(map(plan_view.build_guard_row, answers)),
        recommend=found.recommend,
    )


def build_preview_documents(found: tuple[RemediationPreview, ...]) -> list[Mapping[str, Any]]:
    """Return the previews as JSON documents."""
    return [
        {
            "incident": preview.incident.key,
            "what": preview.incident.said,
            "since": Moment(preview.incident.since),
            "action": preview.action,
            "comes_to": preview.comes_to.value,
            "plan": preview.plan,
            "said": preview.said,
            "guards": preview.guards,
            "recommend": preview.recommend,
        }
        for preview in found
    ]


def print_previews(found: tuple[RemediationPreview, ...]) -> None:
    """Print the previews as tables."""
    for preview in found:
        if preview.plan is None:
            output.print_lines(
                f"{preview.action}, asked just now: no plan can be made: {preview.said}", ()
            )
        else:
            title = (
                f"{preview.action}, asked just now: {preview.plan}: "
                f"{_OUTCOME_WORDS[preview.comes_to]}"
            )
            print_guards(title, preview.guards)
        if preview.recommend:
            output.print_lines("Better than that", [f"  {said}" for said in preview.recommend])
