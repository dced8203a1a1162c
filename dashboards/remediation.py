"""Guarded remediation: what waits for a person, what is held, what guards refuse, what was done."""

from __future__ import annotations

from typing import Final

from dashboards import thresholds
from dashboards.grafana import dashboard
from dashboards.panels import Column, Json, Panel, Query, lines, note, stat, states, table, word
from dashboards.queries import CLUSTER, Choice, Scope, found, greatest, total
from dashboards.words import CELL_CONNECTOR, MODES, ONE_CONNECTOR
from exporter.serve import catalog as m
from exporter.serve import catalog_remedy as remedy
from exporter.serve.spec import CONNECTOR

HERE: Final = Scope((CLUSTER, Choice("connector", "Connector", m.CONNECTOR_INFO)))
LEGEND: Final = "{{connect_cluster}} {{connector}}"

# Findings of which plans are made, and the guards by which everything is held at once.
INCIDENTS: Final = "poison_suspected|connector_failed|task_failed|mm2_silent_stall"
HALTS: Final = "kill_switch|pause|breaker|journal|storm|mode"
SAFETY: Final = "receipt|backup|fence|settled|stands_still|group_empty"

ELSEWHERE: Final = """\
These are no metrics, because each is a list that a person reads before acting:

| what | command |
|---|---|
| plans, and what speaks against each | `offsetwatch plan list`, `offsetwatch plan show ID` |
| open breakers; only a person closes one | `offsetwatch breaker list`, then `breaker ack` |
| whether everything is held, and by whom | `offsetwatch mode`; to hold it: `pause` |
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
        rows={
            "Now": [*_numbers(), *_held()],
            "Incidents and plans": _plans(),
            "Guards": _guards(),
            "What is asked of it": _asked(),
        },
    )


def _numbers() -> list[Panel]:
    def plans(state: str) -> str:
        return total(HERE.of(remedy.REMEDIATION_PLANS, state=state))

    return [
        word(
            "Mode",
            "How far it goes by itself: observe does nothing, propose waits for an approval, auto "
            "acts where it is allowed to. To hold everything: `offsetwatch pause`.",
            greatest(HERE.of(remedy.REMEDIATION_MODE), "mode"),
            "{{mode}}",
            MODES,
        ),
        stat(
            "Parked",
            "Plans that wait for a decision and hold their connector. First of all: `offsetwatch "
            "plan list`.",
            plans("parked"),
            bad={1: "red"},
        ),
        stat(
            "Proposed",
            "Plans that wait for an approval; they expire an hour after they were made. "
            "`offsetwatch plan show ID`, then approve or reject.",
            plans("proposed"),
            bad={1: "orange"},
        ),
        stat(
            "Approved or running",
            "Plans that are being carried out, or will be as soon as their guards let them. Leave "
            "those connectors alone meanwhile.",
            plans("approved|running"),
        ),
        stat(
            "Connectors held stopped",
            "By remediation, while it skips a record or until a person acts. The table below says "
            "which and since when.",
            f"count({greatest(HERE.of(remedy.REMEDIATION_STOPPED_SINCE), *CONNECTOR)}) or "
            f"0 * max({HERE.of(remedy.REMEDIATION_HEARTBEAT)})",
            bad={1: "orange"},
        ),
        stat(
            "Newest round of the loop",
            "Time since remediation last came round. Above the threshold it hangs: nothing is "
            "proposed, carried out or taken back. See the daemon's log.",
            HERE.age(remedy.REMEDIATION_HEARTBEAT),
            unit="s",
            bad={thresholds.REMEDIATION_SILENCE_SECONDS: "red"},
        ),
        stat(
            "Replicas that lead",
            "Where several share a journal: 1, but for the moments of a takeover. Nothing where a "
            "daemon acts alone.",
            f"sum({HERE.of(remedy.REMEDIATION_LEADER)})",
        ),
        stat(
            "Records between replicas",
            "By how many records of the journal the last replica is behind the first.",
            f"max({HERE.of(remedy.REMEDIATION_JOURNAL_SEQ)}) - "
            f"min({HERE.of(remedy.REMEDIATION_JOURNAL_SEQ)})",
        ),
    ]


def _held() -> list[Panel]:
    return [
        table(
            "Held stopped",
            "Connectors that remediation holds stopped, and for how long. Do not resume them by "
            "hand: their plan would take that for another client's change.",
            [Column("held for", HERE.age(remedy.REMEDIATION_STOPPED_SINCE, *CONNECTOR), "s")],
            labels=CONNECTOR,
            links=(CELL_CONNECTOR,),
            width=12,
        ),
        lines(
            "Held stopped for",
            "Beyond the dashed line a person has to look: its plan does not get on, or waits.",
            [Query(HERE.age(remedy.REMEDIATION_STOPPED_SINCE, *CONNECTOR), LEGEND)],
            unit="s",
            bad=thresholds.REMEDIATION_HOLD_SECONDS,
            link=ONE_CONNECTOR,
        ),
        note(
            "What is asked for by hand",
            "Breakers, the pause, quarantine and the journal, with the commands that show them.",
            ELSEWHERE,
        ),
    ]


def _plans() -> list[Panel]:
    return [
        lines(
            "Incidents for remediation",
            "Findings of the kinds that it looks into by itself, by Connect cluster (without those "
            "for which configuration wants a stop). Findings and no plan: see below which guard "
            "refuses.",
            [
                Query(
                    total(HERE.of(m.FINDINGS, finding=INCIDENTS), "connect_cluster", "finding"),
                    "{{connect_cluster}} {{finding}}",
                ),
                Query(found(HERE, finding=INCIDENTS), "all"),
            ],
        ),
        lines(
            "Plans",
            "Plans by status. Proposed ones that pile up: they are not approved, or everything "
            "fails at once.",
            [Query(total(HERE.of(remedy.REMEDIATION_PLANS), "state"), "{{state}}")],
            stacked=True,
        ),
        lines(
            "Plans that ended",
            "By action and by how they ended. Ineffective ones open a breaker: do not repeat by "
            "hand what did not help.",
            [
                Query(
                    HERE.increase(remedy.REMEDIATION_ACTIONS, *CONNECTOR, "action", "result"),
                    f"{LEGEND} {{{{action}}}} {{{{result}}}}",
                )
            ],
            link=ONE_CONNECTOR,
        ),
        states(
            "Mode over time",
            "When an operator changed the mode. The journal says who, and why.",
            greatest(HERE.of(remedy.REMEDIATION_MODE), "mode"),
            "{{mode}}",
            MODES,
        ),
    ]


def _guards() -> list[Panel]:
    blocked = remedy.REMEDIATION_BLOCKED
    return [
        lines(
            "Refusals by guard",
            "How often each guard began to deny an action. `offsetwatch explain` says why; "
            "docs/guards.md has every guard's rule.",
            [Query(HERE.increase(blocked, "guard"), "{{guard}}")],
        ),
        lines(
            "Refusals by connector",
            "Connectors for which an action is denied, and by what.",
            [
                Query(
                    HERE.increase(blocked, *CONNECTOR, "action", "guard"),
                    f"{LEGEND} {{{{action}}}} {{{{guard}}}}",
                )
            ],
            link=ONE_CONNECTOR,
        ),
        lines(
            "Kill switch / pause / breakers / journal",
            "Refusals by the guards that hold a connector or everything: a stop file, a pause, an "
            "open breaker, a journal that cannot be written, too many at once. The journal first.",
            [Query(HERE.increase(blocked, "guard", guard=HALTS), "{{guard}}")],
        ),
        lines(
            "Quarantine / backup / fence",
            "Refusals by the guards that stand between a stop and a change of offsets. Any of "
            "them: nothing was changed; read the plan before you go on.",
            [Query(HERE.increase(blocked, "guard", guard=SAFETY), "{{guard}}")],
        ),
    ]


def _asked() -> list[Panel]:
    return [
        lines(
            "Alerts received",
            "Alerts that reached the control listener, by what became of them. Unauthorised or "
            "malformed: correct Alertmanager's receiver.",
            [Query(HERE.increase(m.HOOKS_RECEIVED, "reason"), "{{reason}}")],
        ),
        lines(
            "Other requests that were refused",
            "Approvals and other requests to the control listener, by reason. Unauthorised and "
            "throttled: a client guesses tokens, or has a wrong one.",
            [Query(HERE.increase(m.CONTROL_REFUSED, "reason"), "{{reason}}")],
        ),
    ]
