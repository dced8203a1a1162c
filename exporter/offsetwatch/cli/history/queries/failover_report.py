"""The verb `history report`: the cost of a failover to a flow's target over a past window.

The summary goes to standard output, notes to standard error, and all of it to an HTML page and a
Parquet file if requested. Exit code 1 if nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.formatting import format_count, format_extra_installation
from offsetwatch.model.moments import Moment

OK, NOTHING_KNOWN = 0, 1

try:
    from offsetwatch.history.failover_report import files, inputs
    from offsetwatch.history.failover_report.html import render_page
    from offsetwatch.history.failover_report.replay import replay_samples
    from offsetwatch.history.failover_report.summary import (
        CURVE_LABELS,
        REASON_LABELS,
        FailoverSummary,
        Report,
        build_report,
        format_figure,
        list_minutes,
    )
    from offsetwatch.history.tables import reader
except ImportError as exc:  # the extra
    raise HistoryError(format_extra_installation("history")) from exc


@dataclass(frozen=True, slots=True)
class FailoverReportOptions:
    """The options of `history report` as they were given."""

    config_path: Path
    flow: str
    connect_cluster: str | None
    groups: tuple[str, ...]
    since: str
    until: str | None
    html: Path | None
    parquet: Path | None
    output_format: OutputFormat


def print_report(**arguments: Any) -> int:
    """Print the report on standard output and return the exit code."""
    options = FailoverReportOptions(**arguments)
    loaded = config.load(options.config_path)
    now = SystemClock().now()
    since = parse_time(options.since, now, "--from")
    until = now if options.until is None else parse_time(options.until, now, "--to")
    if since > until:
        raise ConfigError((f"--from {options.since}: is after the end",))
    report = _build_report(Path(loaded.history.path), options, since, min(until, now))
    if options.html is not None:
        files.write_page(options.html, render_page(report))
    if options.parquet is not None:
        files.write_rows(options.parquet, report)
    for note in (
        *report.notes,
        *_describe_absent_groups(options, report),
        *_describe_unknown(report),
    ):
        output.print_error(note)
    output.print_result(
        options.output_format, _build_document(report), lambda: _print_table(report)
    )
    known = (
        figure.known
        for summary in (report.flow, *report.groups)
        for figure in summary.figures.values()
    )
    return OK if any(known) else NOTHING_KNOWN


def _build_report(base: Path, options: FailoverReportOptions, since: float, until: float) -> Report:
    minutes = list_minutes(since, until)
    flow = reader.find_flow(base, options.flow, options.connect_cluster)
    window = inputs.ReportWindow(minutes[0], minutes[-1], frozenset(options.groups))
    known = inputs.load_inputs(base, flow, window)
    return build_report(known, minutes, *replay_samples(known, window.since, window.until))


def _describe_absent_groups(options: FailoverReportOptions, report: Report) -> Iterator[str]:
    for group in sorted(set(options.groups) - {summary.group for summary in report.groups}):
        yield f"{group}: no position of it was sampled in a topic that the flow copies"


def _describe_unknown(report: Report) -> Iterator[str]:
    for group in report.groups:
        for reason, count in sorted(group.unknown.items()):
            yield (
                f"{group.group}: not known: {REASON_LABELS[reason]} ({format_count(count, 'time')})"
            )


def _build_document(report: Report) -> dict[str, Any]:
    return {
        "connect_cluster": report.connect_cluster,
        "source": report.source,
        "target": report.target,
        "from": Moment(report.minutes[0]),
        "to": Moment(report.minutes[-1]),
        "minutes": len(report.minutes),
        "flow": _build_group_document(report.flow),
        "groups": [_build_group_document(group) for group in report.groups],
        "notes": report.notes,
    }


def _build_group_document(summary: FailoverSummary) -> dict[str, Any]:
    return {
        "group": summary.group,
        "partitions": summary.partitions,
        "figures": {
            name: {
                "known": figures.known,
                "of": figures.of,
                "median": figures.median,
                "p95": figures.p95,
                "max": figures.most,
            }
            for name, figures in summary.figures.items()
        },
        "worst": {
            name: [{"at": Moment(one.at), "value": one.value} for one in worst]
            for name, worst in summary.worst.items()
        },
        "unknown": summary.unknown,
    }


def _print_table(report: Report) -> None:
    begin, end = output.format_moment(report.minutes[0]), output.format_moment(report.minutes[-1])
    output.print_table(
        f"{report.source}->{report.target} of {report.connect_cluster}, {begin} to {end}",
        ("group", "at a failover", "minutes known", "median#", "95 %#", "most#", "worst at"),
        (
            (
                group.group or "(the flow)",
                CURVE_LABELS[name],
                f"{figures.known} of {figures.of}",
                *(
                    format_figure(name, value)
                    for value in (figures.median, figures.p95, figures.most)
                ),
                ", ".join(str(output.format_moment(one.at)) for one in group.worst[name]) or None,
            )
            for group in (*report.groups, report.flow)
            for name, figures in group.figures.items()
        ),
    )
