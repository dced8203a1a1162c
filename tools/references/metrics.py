"""docs/reference/metrics.md: the catalogue, what each metric rests on, and where it is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from offsetwatch.daemon.monitor import MISSED_POLLS, TAIL_STALE_S
from offsetwatch.serve.metrics.catalog import CATALOG
from offsetwatch.serve.metrics.metric import MetricSpec
from tools.references.markdown import MADE, code, flowing
from tools.references.metric_facts import FACTS, Facts

ROOT: Final = Path(__file__).parents[2]
_KNOWN: Final = frozenset(spec.name for spec in CATALOG)
_NAME: Final = re.compile(r"\boffsetwatch_\w+\b(?!:)")

_HEAD: Final = """\
# Metrics

<MADE> `offsetwatch metrics` prints the same
names, types, labels and meanings.

- **Disappears** says without which inputs a metric is not shown. An input is *stale* when no read
  of it has worked for a while: `log_ends` for <MISSED> times `ends_s` and a time-out,
  `connect_rest` and `groups` for <MISSED> times their interval (`connect[].poll`) and a time-out,
  `source_end` for <MISSED> times `sources[].interval` and a time-out.
  A `tail` is stale until it has read to an end that its topic had less than <TAIL> s ago: not
  caught up yet, back after an outage, or slower than what is written. A subject that is gone (a
  connector that was deleted, a topic that is not copied any more) takes its series with it. Nothing
  is frozen at an old value.
- A partition that an open transaction holds on an internal topic is not shown until it ends.
- **Used by** names the alerts, recording rules and panels that this repository ships.
- Counters start at 0 with the daemon and after a reload, except `mm2_lost_records_total` and
  `mm2_topic_recreations_total`, which `state_dir` keeps.
- `source_partition` is the partition map as `k=v` pairs, sorted, with commas; over 120 bytes it is
  cut and ends in `~` and eight hex digits of its hash.
- A number above 2^53 is never exported rounded: it is left out and counted in
  `offsetwatch_series_dropped_total{reason="inexact"}`; the API and the command line show it.

`process_*` of the daemon's own process stand beside these, as Prometheus' clients name them.
"""

_UNITS: Final = (
    ("_timestamp_seconds", "Unix time in seconds"),
    ("_seconds", "seconds"),
    ("_records", "records"),
    ("_bytes", "bytes"),
    ("_transactions", "transactions"),
    ("_rows", "rows"),
    ("_ahead", "in the unit of the lag"),
    ("_active", "1 or 0"),
    ("_in_progress", "1 or 0"),
    ("_records_total", "records"),
    ("_offset", "offset in a log"),
    ("_position", "as the connector counts"),
    ("_commits_total", "commits"),
    ("_advances_total", "commits"),
    ("_rewinds_total", "commits"),
    ("_resets_total", "tombstones"),
    ("_errors_total", "failures"),
    ("_reads_total", "reads"),
    ("_reads_skipped_total", "reads"),
    ("_recreations_total", "times"),
    ("_failed_total", "notifications"),
    ("_failures_total", "changes of files"),
    ("_received_total", "alerts and requests"),
    ("_refused_total", "requests and connections"),
    ("_dropped_total", "series and subjects"),
    ("_actions_total", "plans"),
    ("_blocked_total", "times"),
    ("_tasks", "tasks"),
    ("_plans", "plans"),
    ("_findings", "findings"),
    ("_gaps", "ranges of offsets"),
    ("_info", "always 1"),
    ("_state", "1 or 0 (state set)"),
    ("_progress", "1 or 0 (state set)"),
    ("_mode", "1 or 0 (state set)"),
    ("_up", "1 or 0"),
    ("_from_rest", "1 for each"),
    ("_leader", "1 or 0"),
    ("_seq", "records"),
    ("_successful", "1 or 0"),
    ("_valid", "1 or 0"),
    ("_problem", "1 for each"),
)


def render() -> str:
    """The whole page."""
    used = uses()
    head = _HEAD
    for mark, text in (("MADE", MADE), ("TAIL", f"{TAIL_STALE_S:.0f}"), ("MISSED", MISSED_POLLS)):
        head = head.replace(f"<{mark}>", str(text))
    parts = [head, _contents()]
    for title, group in FACTS.items():
        parts.append(f"## {title}\n")
        parts += [_metric(spec, facts, used.get(spec.name, ())) for spec, facts in group.items()]
    return "\n".join(parts)


def unit(spec: MetricSpec) -> str:
    """By the end of the name. Raises StopIteration for a name that does not tell it."""
    return next(words for end, words in _UNITS if spec.name.endswith(end))


def uses() -> dict[str, tuple[str, ...]]:
    """Metric -> rules and panels that name it, in the order of the files."""
    results: dict[str, list[str]] = {}
    for text, where in _rules():
        for name in set(_NAME.findall(text)) & _KNOWN:
            results.setdefault(name, []).append(where)
    for title, panels in _boards():
        named: dict[str, list[str]] = {}
        for text, panel in panels:
            for name in set(_NAME.findall(text)) & _KNOWN:
                named.setdefault(name, []).append(panel)
        for name, locations in named.items():
            where = f"board *{title}*: {', '.join(dict.fromkeys(locations))}"
            results.setdefault(name, []).append(where)
    return {name: tuple(places) for name, places in results.items()}


def _contents() -> str:
    lines = [f"- [{title}](#{title.lower().replace(' ', '-')})" for title in FACTS]
    return "\n".join(lines) + "\n"


def _metric(spec: MetricSpec, facts: Facts, used: tuple[str, ...]) -> str:
    labels = ", ".join(map(code, spec.labels)) or "none"
    lines = [
        f"### {code(spec.name)}\n",
        f"{spec.kind} · labels: {labels} · unit: {unit(spec)}\n",
        f"{flowing(spec.help)}\n",
        f"- **Disappears:** {_disappears(facts)}",
    ]
    if used:
        lines.append(f"- **Used by:** {'; '.join(used)}.")
    if facts.purpose:
        lines.append(f"- **For:** {facts.purpose}")
    return "\n".join(lines) + "\n"


def _disappears(facts: Facts) -> str:
    if not facts.needs:
        return facts.besides
    return f"without {', '.join(facts.needs)}. {facts.besides}".strip()


def _rules() -> Iterator[tuple[str, str]]:
    """(expression, whose)."""
    for path in sorted((ROOT / "alerts").rglob("*.rules.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                kind = "alert" if "alert" in rule else "record"
                yield str(rule["expr"]), f"{kind} {code(rule[kind])}"


def _boards() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(title, (expression, panel) of each query)."""
    for path in sorted((ROOT / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        queries = [
            (str(target.get("expr", "")), panel["title"])
            for panel in _flat(board["panels"])
            for target in panel.get("targets", ())
        ]
        chosen = [(json.dumps(item), "its variables") for item in board["templating"]["list"]]
        yield board["title"], [*queries, *chosen]


def _flat(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Panels of rows that are folded up stand inside the row."""
    for panel in panels:
        yield panel
        yield from _flat(panel.get("panels", []))
