"""Settings of the remediation policy: a Policy, built from the configuration.

Time zones are looked up only here: a Policy holds each as a table.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

from offsetwatch.config.schema import remediation as shape
from offsetwatch.config.schema.remediation import (
    SAFE_SINK_CLASSES,
    SINK_DATA_ERRORS,
    UNSAFE_SINK_NAMES,
    is_unsafe_sink,
)
from offsetwatch.remedy.classify import may_be_listed
from offsetwatch.remedy.model.policy import Budgets, Clock, Policy, Rule, Window
from offsetwatch.remedy.model.service_api import Mode

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FROM_YEAR, _TO_YEAR = 2020, 2060  # before and after them a zone stays as it was
_DAY_S: Final = 86_400


def build_policy(remedy: shape.RemedyConfig) -> Policy:
    """Build the policy from the configuration and the sink classes known to be safe or unsafe."""
    return Policy(
        mode=Mode(remedy.mode),
        second_person=remedy.second_person,
        auto=tuple(
            Rule(
                connect=rule.connect,
                connectors=tuple(rule.connectors),
                actions=tuple(sorted(rule.actions)),
                unmanaged=rule.unmanaged,
            )
            for rule in remedy.auto
        ),
        skip_safe=(*SAFE_SINK_CLASSES, *remedy.skip_safe_sinks),
        skip_unsafe=UNSAFE_SINK_NAMES,
        sink_data_errors=(
            *SINK_DATA_ERRORS.items(),
            *((name, tuple(errors)) for name, errors in sorted(remedy.sink_data_errors.items())),
        ),
        failures=remedy.repeat.failures,
        failures_span_s=remedy.repeat.span_s,
        restarts=remedy.repeat.restarts,
        alert_before_s=remedy.alert_before_s,
        start_grace_s=remedy.start_grace_s,
        cool_down_s=remedy.cool_down_s,
        budgets=Budgets(**remedy.budgets.model_dump()),
        per_connect=remedy.blast.per_connect,
        total=remedy.blast.total,
        stop_total_s=remedy.stop_total_s,
        probation_s=remedy.probation_s,
        deny=tuple(_build_window(window) for window in remedy.maintenance.deny),
        only_in=tuple(_build_window(window) for window in remedy.maintenance.only_in),
        stop_file=remedy.kill_switch,
        stop_on=tuple(remedy.stop_on),
    )


def find_ineffective_data_errors(remedy: shape.RemedyConfig) -> tuple[str, ...]:
    """Return mistakes of sink_data_errors: exceptions that never mean a bad record alone, and sinks
    of which no record is skipped.
    """
    mistakes = []
    for sink, names in sorted(remedy.sink_data_errors.items()):
        path = f"remedy.sink_data_errors.{sink}"
        if is_unsafe_sink(sink):
            mistakes.append(
                f"{path} has no effect: this sink does not resume at its group's offset, so no "
                "record of it is skipped; use its own settings for bad records"
            )
            continue
        mistakes.extend(
            f"{path}[{number}]: {name} has no effect: it also stands for a target that is not "
            "available, or wraps another cause; name the exception that only a bad record causes"
            for number, name in enumerate(names)
            if not may_be_listed(name)
        )
    return tuple(mistakes)


def _build_window(window: shape.MaintenanceWindowConfig) -> Window:
    return Window(
        days=tuple(_DAYS.index(day) for day in window.days),
        start_s=_parse_seconds(window.start),
        end_s=_parse_seconds(window.end),
        clock=_build_clock(window.zone),
    )


def _parse_seconds(time_of_day: str) -> int:
    hour, minute = time_of_day.split(":")
    return int(hour) * 3_600 + int(minute) * 60


@cache
def _build_clock(name: str) -> Clock:
    """Build the table of a zone's offset changes from 2020 to 2060, each exact to the second.

    Each change is searched for between two days whose offsets differ.
    """
    zone = ZoneInfo(name)
    start = int(datetime(_FROM_YEAR, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(_TO_YEAR, 1, 1, tzinfo=UTC).timestamp())
    offsets = [(float(start), _compute_utc_offset(zone, start))]

    def has_changed(moment: int) -> bool:
        return _compute_utc_offset(zone, moment) != offsets[-1][1]

    for day in range(start, end, _DAY_S):
        if has_changed(day + _DAY_S):
            moment = day + bisect_left(range(day, day + _DAY_S), True, key=has_changed)
            offsets.append((float(moment), _compute_utc_offset(zone, moment)))
    return Clock(tuple(offsets))


def _compute_utc_offset(zone: ZoneInfo, position: int) -> int:
    offset = datetime.fromtimestamp(position, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
