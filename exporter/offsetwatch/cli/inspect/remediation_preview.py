"""Previews of remediation: the plan for each incident as of now, and the answer of every guard.

The process has only just started: what takes two observations to detect, only the daemon reports,
and the guard against a fresh start is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetwatch.cli.common import output
from offsetwatch.cli.inspect.explain_remediation import print_recommendations
from offsetwatch.cli.plans.print import print_guards
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config
from offsetwatch.errors import ClientError
from offsetwatch.model.moments import Moment
from offsetwatch.remedy.guards import Permission, derive_permission
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.incidents import Incident, find_incidents
from offsetwatch.remedy.model.service_api import GuardAnswerRow
from offsetwatch.remedy.views import plan_view

if TYPE_CHECKING:
    from offsetwatch.remedy.gather.live_queries import QueryRound
    from offsetwatch.remedy.planner import Planner
    from offsetwatch.state.snapshot import Snapshot

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

    def print(self) -> None:
        """Print the preview as tables."""
        title = f"{self.action}, asked just now"
        if self.plan is None:
            output.print_lines(f"{title}: no plan can be made: {self.said}", ())
        else:
            outcome = _OUTCOME_WORDS[self.comes_to]
            print_guards(f"{title}: {self.plan}: {outcome}", self.guards)
        print_recommendations(self.recommend)


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
    from offsetwatch.remedy.gather.live_queries import QueryRound  # noqa: PLC0415 - clients

    try:
        with open_remediation_parts(
            config, lambda: snapshot, folder, SystemClock(), pause=lambda _: None
        ) as parts:
            query_round = QueryRound()
            return tuple(
                _preview_incident(parts.planner, incident, query_round) for incident in incidents
            )
    except ClientError as exc:
        output.print_error(f"remediation was not evaluated: {output.format_client_error(exc)}")
        return ()


def _preview_incident(
    planner: Planner, incident: Incident, query_round: QueryRound
) -> RemediationPreview:
    evaluation = planner.evaluate_case(planner.choose_action(incident, query_round), query_round)
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
