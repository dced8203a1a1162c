"""What words are on several boards: names of boards, colours of verdicts and states."""

from __future__ import annotations

from typing import Final

from dashboards.grafana import uid
from dashboards.panels import Bad, Link
from dashboards.queries import DIRECTION
from offsetwatch.serve.metrics.metric import CONNECTOR

CONNECTOR_BOARD: Final = uid("connector")
FLOW_BOARD: Final = uid("flow")

ONE_CONNECTOR: Final = Link("This connector", CONNECTOR_BOARD, CONNECTOR)
ONE_FLOW: Final = Link("This flow", FLOW_BOARD, ("connect_cluster", *DIRECTION))
CELL_CONNECTOR: Final = Link("This connector", CONNECTOR_BOARD, CONNECTOR, column="connector")
CELL_FLOW: Final = Link(
    "This flow", FLOW_BOARD, ("connect_cluster", *DIRECTION), column=DIRECTION[0]
)

BLUE_GREY: Final = "#6e7f93"
# Fixed colours, the same on every board: a state or verdict is known by its colour.
VERDICTS: Final = {
    "ok": "green",
    "idle": "blue",
    "slow": "yellow",
    "stalled": "dark-red",
    "silent": "red",
    "rewound": "orange",
    "failed": "red",
    "paused": BLUE_GREY,
    "stopped": BLUE_GREY,
    "unknown": "gray",
}
STATES: Final = {
    "running": "green",
    "paused": BLUE_GREY,
    "stopped": BLUE_GREY,
    "failed": "red",
    "unassigned": "yellow",
    "restarting": "yellow",
}
SEVERITIES: Final = {"critical": "red", "warning": "orange", "info": "blue"}
PLANS: Final = {
    "proposed": "orange",
    "approved": "blue",
    "running": "green",
    "parked": "red",
}
MODES: Final = {"observe": "blue", "propose": "yellow", "auto": "green"}
# Sixty intervals (judge.interval_s) of a minute: when the finding mm2_retention_near is made.
RETENTION_NEAR_SECONDS: Final = 3600
# Sixty intervals of MirrorMaker's default emit.heartbeats.interval.seconds.
OLD_HEARTBEAT: Final = Bad({60: "orange"}, runbooks=("ConnectorSilent",))
UNWELL: Final = "slow|stalled|silent|rewound|failed"
EXPLAIN: Final = "`offsetwatch explain CONNECTOR` has the rule and the evidence."
EMPTY_IS_GOOD: Final = "Empty is good, as long as no input is down."
SAWTOOTH: Final = (
    "Positions move once per flush, so between two flushes it rises with the traffic: read the low "
    "points."
)
