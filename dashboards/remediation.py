"""Guarded remediation: what waits for a person, what is held, what guards refuse, what was done."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import Row, dashboard
from dashboards.panels import (
    Bad,
    Column,
    Json,
    Panel,
    Query,
    lines,
    note,
    stat,
    states,
    table,
    word,
)
from dashboards.queries import CLUSTER, Choice, Scope, found, greatest, total
from dashboards.words import CELL_CONNECTOR, MODES, ONE_CONNECTOR, PLANS
from offsetwatch.serve.metrics import catalog as m
from offsetwatch.serve.metrics.metric import CONNECTOR

HERE: Final = Scope((CLUSTER, Choice("connector", "Connector", m.CONNECTOR_INFO)))
LEGEND: Final = "{{connect_cluster}} {{connector}}"

HELD: Final = Bad(
    {thresholds.REMEDIATION_HOLD_SECONDS: "orange"}, runbooks=("RemediationHoldsConnector",)
)

# Findings of which plans are made, and the guards by which everything is held at once.
INCIDENTS: Final = "poison_suspected|connector_failed|task_failed|mm2_silent_stall"
HALTS: Final = "kill_switch|pause|breaker|journal|mass_failure|mode"
SAFETY: Final = "receipt|backup|fence|settled|connector_stopped|group_empty"

ELSEWHERE: Final = """\
No metric has these, because each is a list that an operator reads before acting:

| what | command |
|---|---|
| plans, and what the guards refuse | `offsetwatch plan list`, `offsetwatch plan show ID` |
| open breakers; only an operator closes one | `offsetwatch breaker list`, then `breaker ack` |
| whether everything is paused, and by whom | `offsetwatch mode`; to pause it: `pause` |
| copies of records that were skipped | `offsetwatch quarantine list` |
| what was done, refused and decided | `offsetwatch journal tail` |
| whether the journal is whole | `offsetwatch journal verify` |
"""


def board() -> Json:
    """The whole file."""
    return dashboard(
        "remediation",
        "Plans that wait, connectors that are held, guards that refuse, and what was done.",
        scope=HERE,
        now=[*_numbers(), *_held()],
        rows=[
            Row("Replicas and commands", [*_replicas(), _commands()]),
            Row("Findings and plans", _plans()),
            Row("Guards", _guards()),
            Row("Requests to the control listener", _build_request_panels()),
        ],
    )


def _numbers() -> list[Panel]:
    def plans(state: str) -> str:
        return total(HERE.of(m.REMEDIATION_PLANS, state=state))

    return [
        word(
            "Mode",
            "How far it goes by itself: observe does nothing, propose waits for an approval, auto "
            "acts where it is allowed to. To pause all of it: `offsetwatch pause`.",
            greatest(HERE.of(m.REMEDIATION_MODE), "mode"),
            "{{mode}}",
            MODES,
        ),
        stat(
            "Plans parked",
            "Plans that wait for a decision and hold their connector stopped. Act on these "
            "first: `offsetwatch plan list`.",
            plans("parked"),
            bad=Bad({1: "red"}, runbooks=("RemediationPlanParked",)),
            unit="short",
        ),
        stat(
            "Plans proposed",
            "Plans that wait for an approval; they expire an hour after they were made. "
            "`offsetwatch plan show ID`, then approve or reject.",
            plans("proposed"),
            bad=Bad({1: "orange"}, runbooks=("RemediationProposalWaits",)),
            unit="short",
        ),
        stat(
            "Plans approved or running",
            "Plans that are being carried out, or will be as soon as their guards pass. Leave "
            "those connectors alone meanwhile.",
            plans("approved|running"),
            unit="short",
        ),
        stat(
            "Connectors stopped",
            "Stopped while remediation skips a record, or until an operator acts. The table "
            "below has which and since when.",
            f"count({greatest(HERE.of(m.REMEDIATION_STOPPED_SINCE), *CONNECTOR)}) or "
            f"0 * max({HERE.of(m.REMEDIATION_HEARTBEAT)})",
            bad=Bad({1: "orange"}, runbooks=("RemediationHoldsConnector",)),
            unit="short",
        ),
        stat(
            "Age of the last loop heartbeat",
            "Time since remediation last completed a round. Above the threshold it hangs: "
            "nothing is proposed, carried out or rolled back. Read the daemon's log.",
            HERE.age(m.REMEDIATION_HEARTBEAT),
            unit="s",
            bad=Bad(
                {thresholds.REMEDIATION_SILENCE_SECONDS: "red"},
                runbooks=("RemediationLoopStopped",),
            ),
        ),
    ]


def _replicas() -> list[Panel]:
    return [
        stat(
            "Replicas leading",
            "Where several share a journal: 1, but for the moments of a takeover. Unknown "
            "where a daemon acts alone.",
            f"sum({HERE.of(m.REMEDIATION_LEADER)})",
            unit="short",
            bad=Bad(
                {2: "red"},
                below={1: "red"},
                runbooks=("RemediationTwoLeaders", "RemediationWithoutLeader"),
            ),
        ),
        stat(
            "Journal lag of replicas",
            "By how many records of the journal the last replica is behind the first.",
            f"max({HERE.of(m.REMEDIATION_JOURNAL_SEQ)}) - "
            f"min({HERE.of(m.REMEDIATION_JOURNAL_SEQ)})",
            unit="short",
        ),
    ]


def _held() -> list[Panel]:
    return [
        table(
            "Stopped connectors",
            "Connectors that remediation holds stopped. No one else should resume them: the "
            "plan would then stop as overtaken by another change.",
            [Column("held for", HERE.age(m.REMEDIATION_STOPPED_SINCE, *CONNECTOR), "s", HELD)],
            labels=CONNECTOR,
            links=(CELL_CONNECTOR,),
            size=(12, 8),
            bad=HELD,
        ),
        lines(
            "Time stopped by remediation",
            "Beyond the dashed line an operator has to act: the plan does not advance, or waits.",
            [Query(HERE.age(m.REMEDIATION_STOPPED_SINCE, *CONNECTOR), LEGEND)],
            unit="s",
            bad=Bad(
                {thresholds.REMEDIATION_HOLD_SECONDS: "orange"},
                runbooks=("RemediationHoldsConnector",),
            ),
            link=ONE_CONNECTOR,
        ),
    ]


def _commands() -> Panel:
    return note(
        "Commands for plans and breakers",
        "Breakers, the pause, quarantine and the journal, with the commands that list them.",
        ELSEWHERE,
    )


def _plans() -> list[Panel]:
    return [
        lines(
            "Findings that remediation handles",
            "Findings for which remediation can make a plan, by Connect cluster. Findings "
            "and no plan: the guards below have the refusals.",
            [
                Query(
                    total(HERE.of(m.FINDINGS, finding=INCIDENTS), "connect_cluster", "finding"),
                    "{{connect_cluster}} {{finding}}",
                ),
                Query(found(HERE, finding=INCIDENTS), "all"),
            ],
            unit="short",
        ),
        lines(
            "Plans by state",
            "Proposed ones that pile up: they are not approved, or many connectors fail at once.",
            [Query(total(HERE.of(m.REMEDIATION_PLANS), "state"), "{{state}}")],
            stacked=True,
            colours=PLANS,
            unit="short",
            bad=Bad(runbooks=("RemediationPlanParked", "RemediationProposalWaits")),
        ),
        lines(
            "Plans completed by result",
            "By action and by how they ended. Ineffective ones open a breaker: do not repeat by "
            "hand what did not help.",
            [
                Query(
                    HERE.increase(m.REMEDIATION_ACTIONS, *CONNECTOR, "action", "result"),
                    f"{LEGEND} {{{{action}}}} {{{{result}}}}",
                )
            ],
            link=ONE_CONNECTOR,
            unit="short",
            bad=Bad(runbooks=("RemediationIneffective",)),
        ),
        states(
            "Mode over time",
            "When the mode was changed. The journal has who changed it, and why.",
            greatest(HERE.of(m.REMEDIATION_MODE), "mode"),
            "{{mode}}",
            MODES,
        ),
    ]


def _guards() -> list[Panel]:
    blocked = m.REMEDIATION_BLOCKED
    return [
        lines(
            "Refusals by guard",
            "How often each guard began to refuse an action. `offsetwatch explain` has the "
            "reason; docs/guards.md has every guard's rule.",
            [Query(HERE.increase(blocked, "guard"), "{{guard}}")],
            unit="short",
        ),
        lines(
            "Refusals by connector",
            "Connectors whose plans are refused, and by which guard.",
            [
                Query(
                    HERE.increase(blocked, *CONNECTOR, "action", "guard"),
                    f"{LEGEND} {{{{action}}}} {{{{guard}}}}",
                )
            ],
            link=ONE_CONNECTOR,
            unit="short",
        ),
        lines(
            "Refusals by halting guards",
            "Refusals by the guards that stop one connector or all: a stop file, a pause, an "
            "open breaker, a journal that cannot be written, too many at once. The journal first.",
            [Query(HERE.increase(blocked, "guard", guard=HALTS), "{{guard}}")],
            unit="short",
        ),
        lines(
            "Refusals by safety guards",
            "Refusals by the guards between a stop and a change of offsets. Any of "
            "them: nothing was changed; read the plan before you go on.",
            [Query(HERE.increase(blocked, "guard", guard=SAFETY), "{{guard}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("RemediationIneffective",)),
        ),
    ]


def _build_request_panels() -> list[Panel]:
    return [
        lines(
            "Alerts received",
            "Alerts that reached the control listener, by result. Unauthorised or "
            "malformed: fix Alertmanager's receiver.",
            [Query(HERE.increase(m.HOOKS_RECEIVED, "reason"), "{{reason}}")],
            unit="short",
            bad=Bad(runbooks=("OffsetwatchHooksRefused",)),
        ),
        lines(
            "Requests refused by the control listener",
            "Approvals and other requests, by reason. Unauthorised and throttled: a client "
            "tries tokens, or has a wrong one.",
            [Query(HERE.increase(m.CONTROL_REFUSED, "reason"), "{{reason}}")],
            unit="short",
            bad=Bad({1: "orange"}, runbooks=("OffsetwatchHooksRefused",)),
        ),
    ]
