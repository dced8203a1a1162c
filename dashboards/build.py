"""What is on the boards. `python -m dashboards.build` writes the JSON beside this file; `--check`
only says whether that would change anything.

Metric names and labels come from the catalogue, so a board cannot name what is not exported. Where
several replicas of the exporter say the same, queries merge them. Where nothing is known a panel is
empty: a 0 would be a claim.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dashboards.grafana import Json, Panel, Query, dashboard, lines, stat, table, variable
from exporter.serve import catalog as m
from exporter.serve import catalog_mm2 as mm2
from exporter.serve.spec import CONNECTOR, INPUT, Spec

FOLDER = Path(__file__).parent
CHOSEN = ("connect_cluster", "connector")  # labels that the variables on top of the board choose

# The thresholds of alerts/thresholds.rules.yaml; a test compares the two.
LAG_RECORDS_HIGH = 10_000
BEHIND_RECORDS_HIGH = 10_000
INPUT_SILENCE_S = 300
HISTORY_AGE_S = 3600

FLOW = ("source", "target", "topic")
TOPIC = ("connect_cluster", *FLOW)
OURS = 'job=~"$job"'


def _of(spec: Spec, **matchers: str) -> str:
    """Series of a metric, as far as the variables choose them."""
    chosen = [f'{name}=~"${name}"' for name in CHOSEN if name in spec.labels]
    more = [f'{name}{"=" if at.isalnum() else "=~"}"{at}"' for name, at in matchers.items()]
    return f"{spec.name}{{{', '.join([OURS, *chosen, *more])}}}"


def _one(expr: str) -> str:
    return f"max without (instance, pod) ({expr})"


def _sum(expr: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) ({_one(expr)})" if by else f"sum({_one(expr)})"


def _max(expr: str, *by: str) -> str:
    return f"max by ({', '.join(by)}) ({expr})"


def _min(expr: str, *by: str) -> str:
    return f"min by ({', '.join(by)}) ({expr})"


def _zeros(expr: str) -> str:
    """How many of these 0-or-1 series are 0; nothing, not 0, if there are no series."""
    return f"sum(1 - min without (instance, pod) ({expr}))"


def _rate(spec: Spec, *by: str) -> str:
    return _sum(f"rate({_of(spec)}[$__rate_interval])", *by)


def _now() -> list[Panel]:
    red, orange, lag = {1.0: "red"}, {1.0: "orange"}, {float(LAG_RECORDS_HIGH): "orange"}
    return [
        stat(
            "Connectors failed",
            "Connectors whose own state is failed. Connect does not restart them by itself.",
            _sum(_of(m.CONNECTOR_STATE, state="failed")),
            bad=red,
        ),
        stat(
            "Tasks failed",
            "Tasks in state failed; what they should copy does not move.",
            _sum(_of(m.CONNECTOR_TASKS, state="failed")),
            bad=red,
        ),
        stat(
            "Inputs down",
            "Topics, Connect clusters and Kafka clusters that cannot be read. What depends on them "
            "is missing from this board.",
            _zeros(_of(m.INPUT_UP)),
            bad=red,
        ),
        stat(
            "Tails not caught up",
            "Internal topics that have not been read to their end since the exporter started. "
            "Until then nothing of them is shown.",
            _zeros(_of(m.TAIL_CAUGHT_UP)),
            bad=orange,
        ),
        stat(
            "MM2 lag",
            "Upstream records that are not replicated yet, at most, over all flows and topics.",
            _sum(_of(mm2.LAG)),
            bad=lag,
        ),
        stat(
            "MM2 beyond the log end",
            "Replicated partitions whose position lies beyond the upstream log end: the topic was "
            "re-created or cut, or the offset altered by hand.",
            f"sum({_one(_of(mm2.AHEAD))} > bool 0)",
            bad=red,
        ),
        stat(
            "Sink lag",
            "Records that sink connectors have not committed.",
            _sum(_of(m.SINK_LAG)),
            bad=lag,
        ),
        stat(
            "Exporters",
            "Instances of offsetwatch that answer Prometheus.",
            f"count({_of(m.BUILD_INFO)})",
            bad={},
        ),
        table(
            "What is wrong now",
            "One line per problem. Empty is good, as long as no input is down.",
            "\nor\n".join(
                f'label_replace({expr}, "problem", "{name}", "", "")'
                for name, expr in _problems().items()
            ),
            columns=("problem", *CONNECTOR, "task", "state", *FLOW, "partition", *INPUT, "table"),
        ),
    ]


def _problems() -> dict[str, str]:
    """What is wrong, by name, with the thresholds of the alerts."""
    state = m.CONNECTOR_STATE
    without_tasks = " and ".join(
        (
            f"{_max(f'sum without (state) ({_of(m.CONNECTOR_TASKS)})', *CONNECTOR)} == 0",
            f"{_max(_of(state, state='running'), *CONNECTOR)} == 1",
            _max(_of(m.CONNECTOR_INFO, kind="source|sink"), *CONNECTOR),
        )
    )
    last_read = _max(_of(m.INPUT_LAST_SUCCESS), *INPUT)
    sources, read = _of(m.CONNECTOR_INFO, kind="source|mirror"), f"{_of(m.TAIL_CAUGHT_UP)} == 1"
    unread = f"count by (connect_cluster) ({sources} unless on (job, instance) {read})"
    flows = _of(m.CONNECTOR_INFO, **{"class": ".*[.]MirrorSourceConnector"})
    no_lag = (
        f"{_max(flows, *CONNECTOR)} and {_max(_of(m.LAST_COMMIT), *CONNECTOR)} "
        f"unless {_max(_of(mm2.LAG), *CONNECTOR)}"
    )
    held = _max(_of(state, state="paused|stopped"), *CONNECTOR, "state")
    return {
        "input down": f"{_min(_of(m.INPUT_UP), *INPUT)} == 0",
        "input silent": f"time() - {last_read} > {INPUT_SILENCE_S}",
        "tail not caught up": f"{_min(_of(m.TAIL_CAUGHT_UP), 'input')} == 0",
        "tail behind": f"{_max(_of(m.TAIL_BEHIND), 'input')} > {BEHIND_RECORDS_HIGH}",
        "no offsets topic read": unread,
        "lag not known": no_lag,
        "connector failed": f"{_max(_of(state, state='failed'), *CONNECTOR)} == 1",
        "task failed": f"{_max(_of(m.TASK_STATE, state='failed'), *CONNECTOR, 'task')} == 1",
        "running without a task": without_tasks,
        "beyond the log end": f"{_max(_of(mm2.AHEAD), *CONNECTOR, *FLOW, 'partition')} > 0",
        "MM2 lag high": f"{_sum(_of(mm2.LAG), *CONNECTOR, *FLOW)} > {LAG_RECORDS_HIGH}",
        "history stands still": f"{_history_age()} > {HISTORY_AGE_S}",
        "paused or stopped": f"{held} == 1",
    }


def _history_age() -> str:
    return f"time() - {_max(_of(m.HISTORY_TABLE_AT), 'table')}"


def _replication() -> list[Panel]:
    legend = "{{source}} -> {{target}} {{topic}}"
    return [
        lines(
            "MM2 lag by topic",
            "Upstream records not replicated yet, at most. Between two flushes it rises with the "
            "traffic (a saw-tooth): read the low points.",
            [Query(_sum(_of(mm2.LAG), *TOPIC), legend)],
            unit="short",
        ),
        lines(
            "Written upstream and replicated",
            "Records a second that arrive at the upstream log end, and that are known to be "
            "replicated. Over five minutes, because positions move once per flush.",
            [
                Query(_sum(f"deriv({_of(mm2.LOG_END)}[5m])", *TOPIC), f"{legend} written"),
                Query(_sum(f"deriv({_of(mm2.REPLICATED)}[5m])", *TOPIC), f"{legend} replicated"),
            ],
            unit="cps",
        ),
    ]


def _sources() -> list[Panel]:
    legend = "{{connect_cluster}} {{connector}}"

    def age(spec: Spec) -> list[Query]:
        return [Query(f"time() - {_max(_of(spec), *CONNECTOR)}", legend)]

    def increase(spec: Spec) -> str:
        return _sum(f"increase({_of(spec)}[$__rate_interval])", *CONNECTOR)

    return [
        lines(
            "Age of the newest commit",
            "Time since the connector last wrote a source offset. Idle connectors commit nothing, "
            "so a rising line alone is no fault.",
            age(m.LAST_COMMIT),
            unit="s",
        ),
        lines(
            "Age of the newest change",
            "Time since a commit last differed from the one before it. Commits that go on without "
            "a change: the connector is stuck, or has nothing to read.",
            age(m.LAST_ADVANCE),
            unit="s",
        ),
        lines(
            "Commits",
            "Source offsets written a second.",
            [Query(_rate(m.COMMITS, *CONNECTOR), legend)],
            unit="cps",
        ),
        lines(
            "Rewinds and resets",
            "Commits that moved a position back, and tombstones that removed it. Either means that "
            "records are read again.",
            [
                Query(increase(m.REWINDS), f"{legend} rewound"),
                Query(increase(m.RESETS), f"{legend} reset"),
            ],
            unit="short",
        ),
    ]


def _connectors() -> list[Panel]:
    return [
        lines(
            "Connectors by state",
            "As Connect's REST API gives it.",
            [Query(_sum(_of(m.CONNECTOR_STATE), "state"), "{{state}}")],
            unit="short",
            stacked=True,
        ),
        lines(
            "Tasks by state",
            "As Connect's REST API gives it.",
            [Query(_sum(_of(m.CONNECTOR_TASKS), "state"), "{{state}}")],
            unit="short",
            stacked=True,
        ),
        lines(
            "Sink lag by topic",
            "Log end minus the committed offset of the sink connector's consumer group.",
            [
                Query(
                    _sum(_of(m.SINK_LAG), *CONNECTOR, "topic"),
                    "{{connect_cluster}} {{connector}} {{topic}}",
                )
            ],
            unit="short",
        ),
    ]


def _exporter() -> list[Panel]:
    return [
        lines(
            "Time since an input was last read",
            "By the exporter's own clock. A line that rises is an input that fails or hangs.",
            [Query(f"time() - {_max(_of(m.INPUT_LAST_SUCCESS), *INPUT)}", "{{kind}} {{input}}")],
            unit="s",
        ),
        lines(
            "Input errors",
            "Failed attempts a second, by reason.",
            [Query(_rate(m.INPUT_ERRORS, *INPUT, "reason"), "{{kind}} {{input}} {{reason}}")],
            unit="cps",
        ),
        lines(
            "Records read",
            "Records of internal topics read a second, after the tails caught up.",
            [Query(_rate(m.TAIL_RECORDS, "input", "record"), "{{input}} {{record}}")],
            unit="cps",
        ),
        lines(
            "Behind the internal topics",
            "Records between the exporter's own position and the end of the topic.",
            [Query(_max(_of(m.TAIL_BEHIND), "input"), "{{input}}")],
            unit="short",
        ),
        lines(
            "Age of the history",
            "Time since the newest batch of the pipeline that is in its tables, by layer.",
            [Query(_history_age(), "{{table}}")],
            unit="s",
        ),
        lines(
            "Left out",
            "Series or source partitions that a bound cut, a second, by reason.",
            [Query(_rate(m.SERIES_DROPPED, "reason"), "{{reason}}")],
            unit="cps",
        ),
        lines(
            "Processor time",
            "Cores used by each exporter process.",
            [Query(f"rate(process_cpu_seconds_total{{{OURS}}}[$__rate_interval])", "{{instance}}")],
            unit="short",
        ),
        lines(
            "Memory",
            "Resident memory of each exporter process.",
            [Query(f"process_resident_memory_bytes{{{OURS}}}", "{{instance}}")],
            unit="bytes",
        ),
    ]


def fleet() -> Json:
    """Everything at a glance: what is wrong now, then how it came to be."""
    info = m.CONNECTOR_INFO.name
    cluster = 'connect_cluster=~"$connect_cluster"'
    return dashboard(
        "offsetwatch-fleet",
        "offsetwatch / Fleet",
        "Progress and lag of Kafka Connect source connectors and MirrorMaker 2.",
        variables=[
            variable("job", "Job", f"label_values({m.BUILD_INFO.name}, job)"),
            variable(
                "connect_cluster",
                "Connect cluster",
                f"label_values({info}{{{OURS}}}, connect_cluster)",
            ),
            variable(
                "connector", "Connector", f"label_values({info}{{{OURS}, {cluster}}}, connector)"
            ),
        ],
        rows={
            "Now": _now(),
            "MirrorMaker 2": _replication(),
            "Source offsets": _sources(),
            "Connectors and sinks": _connectors(),
            "Exporter": _exporter(),
        },
    )


def boards() -> dict[Path, str]:
    """Every file and what it should hold."""
    return {FOLDER / "fleet.json": json.dumps(fleet(), indent=2) + "\n"}


def main(arguments: Sequence[str]) -> int:
    """Write the files, or say which of them are out of date."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.build")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    check = parser.parse_args(arguments).check
    stale = {
        path: text
        for path, text in boards().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {'out of date' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
