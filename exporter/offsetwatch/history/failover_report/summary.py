"""Summary of a replay by the minute: curves and figures that are drawn, printed and stored. Pure.

A minute has the newest sample that is no older than STALE_S. A group's figure is that of all its
partitions together, and is unknown where one of them is: a sum of the known ones would look better
than it was. Figures are values of actual minutes: the median and the 95th percentile too (nearest
rank), so integers stay exact.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from offsetwatch.errors import HistoryError
from offsetwatch.formatting import format_count, format_timespan
from offsetwatch.history.failover_report.inputs import FailoverInputs, ReportGroupPartition, Series
from offsetwatch.history.failover_report.replay import (
    FailoverOutcome,
    FailoverUnknownReason,
    UnreplicatedRecords,
)
from offsetwatch.model.topology import TopicPartition

STEP_S: Final = 60
WORST_MAX: Final = 3
WORST_SPACING_S: Final = 600.0  # worst moments that lie closer are one
# Each takes a third of a kilobyte and a ten-thousandth of a second: of a thousand partitions that
# groups read, nearly three days.
MINUTES_MAX: Final = 4_000_000

T = TypeVar("T")
Curve = list[float | None]  # a value for each minute; integers where the figure counts records
SampledMinutes = list[tuple[float, T] | None]

RECORD_CURVES: Final = ("reread", "skip", "missing")  # these curves count; the others are seconds
# By the names of Curves.
CURVE_LABELS: Final = {
    "reread": "records read again",
    "skip": "records never read",
    "reread_s": "time to read them again",
    "missing": "records not on the target",
    "age_min": "age of the oldest, at least",
    "age_max": "age of the oldest, at most",
}
_LABELS_BY_REASON: Final = {
    FailoverUnknownReason.NOT_SAMPLED: "the group's position was not sampled",
    FailoverUnknownReason.NOT_READ: "what MirrorMaker wrote by then may not have been read yet",
    FailoverUnknownReason.NO_LOG_ENDS: "the ends of one of the logs were not sampled",
    FailoverUnknownReason.BEYOND_THE_END: "the group stood beyond the end of the upstream log",
    FailoverUnknownReason.NO_SYNCS: "there was no offset sync, or it may have been another flow's",
    FailoverUnknownReason.NOT_TRANSLATED: (
        "the syncs do not contain the position of its record on the target"
    ),
    FailoverUnknownReason.NO_START_OFFSET: (
        "it had neither a commit of its own nor a checkpoint on the target"
    ),
    FailoverUnknownReason.CHECKPOINT_HIDDEN: (
        "compaction may have taken a checkpoint before it was read"
    ),
    FailoverUnknownReason.OUTSIDE_THE_LOG: "it would have started outside the downstream log",
}
REASON_LABELS: Final = {reason.value: label for reason, label in _LABELS_BY_REASON.items()}


@dataclass(frozen=True, slots=True)
class PartitionMinutes:
    """A partition, minute by minute, each with the time of its sample.

    group        None: the partition alone, whichever group reads it; `moments` is then empty
    begun        the number of minutes at the start before the first commit; none of their values
                 counts as missing
    """

    group: str | None
    topic: str
    remote: str
    partition: int
    begun: int
    moments: SampledMinutes[FailoverOutcome]
    exposures: SampledMinutes[UnreplicatedRecords]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures over `of` minutes, `known` of them with a value; None where none has one."""

    known: int
    of: int
    median: float | None
    p95: float | None
    most: float | None


@dataclass(frozen=True, slots=True)
class WorstMinute:
    """A minute, and the value of the figure."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of a group, or of the flow (which has the last three).

    reread, skip        records that the group would have read again, or never, after a failover
    reread_s            how long reading them again would have taken, each partition at its own rate
    missing             upstream records that the target did not have, at most
    age_min, age_max    bounds on the age of the oldest of them, in seconds
    """

    reread: Curve
    skip: Curve
    reread_s: Curve
    missing: Curve
    age_min: Curve
    age_max: Curve


@dataclass(frozen=True, slots=True)
class FailoverSummary:
    """Summary of a group, or of the flow (`group` is None).

    unknown    the number of minutes of partitions with an unknown re-read, by reason
    worst      minutes by the name of a curve
    """

    group: str | None
    partitions: int
    curves: Curves
    figures: Mapping[str, Figures]
    worst: Mapping[str, tuple[WorstMinute, ...]]
    unknown: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Report:
    """Failover report of a flow. `minutes` are the times that each curve has a value of."""

    connect_cluster: str
    source: str
    target: str
    minutes: Sequence[float]
    flow: FailoverSummary
    groups: tuple[FailoverSummary, ...]
    partitions: tuple[PartitionMinutes, ...]
    notes: tuple[str, ...]


def list_minutes(since: float, until: float) -> list[float]:
    """Return the whole minutes in between. Raises HistoryError if there is none."""
    first, last = math.ceil(since / STEP_S), math.floor(until / STEP_S)
    if last < first:
        raise HistoryError("there is no whole minute in that time")
    return [float(number * STEP_S) for number in range(first, last + 1)]


def build_report(
    known: FailoverInputs,
    minutes: Sequence[float],
    moments: Mapping[ReportGroupPartition, Series[FailoverOutcome]],
    exposures: Mapping[TopicPartition, Series[UnreplicatedRecords]],
) -> Report:
    """Return the report. Raises HistoryError where it would have more than MINUTES_MAX rows."""
    if (len(moments) + len(exposures)) * len(minutes) > MINUTES_MAX:
        raise HistoryError(
            f"{len(moments)} partitions of groups over {len(minutes)} minutes are more than "
            f"{MINUTES_MAX} rows: ask for a shorter time, or name groups"
        )
    exposed = {
        where: [series.newest(minute) for minute in minutes] for where, series in exposures.items()
    }
    nothing: SampledMinutes[UnreplicatedRecords] = [None] * len(minutes)
    alone = [
        PartitionMinutes(
            None, where.topic, known.remote[where.topic], where.partition, 0, [], exposed[where]
        )
        for where in sorted(exposed)
        if any(sample and sample[1].replicated is not None for sample in exposed[where])
    ]
    members = [
        PartitionMinutes(
            group=group,
            topic=topic,
            remote=known.remote[topic],
            partition=partition,
            begun=bisect_left(minutes, known.positions[group, topic, partition].times[0]),
            moments=[moments[group, topic, partition].newest(minute) for minute in minutes],
            exposures=exposed.get(TopicPartition(topic, partition), nothing),
        )
        for group, topic, partition in sorted(moments)
    ]
    return Report(
        connect_cluster=known.flow.connect_cluster,
        source=known.flow.source,
        target=known.flow.target,
        minutes=minutes,
        flow=_summarize_members(None, alone, minutes),
        groups=tuple(
            _summarize_members(group, list(partitions), minutes)
            for group, partitions in groupby(members, key=attrgetter("group"))
        ),
        partitions=(*alone, *members),
        notes=tuple(_notes(known, minutes)),
    )


def _summarize_members(
    group: str | None, members: list[PartitionMinutes], minutes: Sequence[float]
) -> FailoverSummary:
    outcomes = [(member.begun, member.moments) for member in members]
    unreplicated = [(member.begun, member.exposures) for member in members]
    count = len(minutes)
    curves = Curves(
        reread=_combine_partitions(outcomes, count, lambda outcome: outcome.cost.reread, sum),
        skip=_combine_partitions(outcomes, count, lambda outcome: outcome.cost.skip, sum),
        reread_s=_combine_partitions(outcomes, count, compute_reread_s, max),
        missing=_combine_partitions(unreplicated, count, lambda ends: ends.records, sum),
        age_min=_combine_partitions(unreplicated, count, lambda ends: ends.age_s_min, max),
        age_max=_combine_partitions(unreplicated, count, lambda ends: ends.age_s_max, max),
    )
    names = [*CURVE_LABELS] if group else [*CURVE_LABELS][3:]
    drawn = {name: getattr(curves, name) for name in names}
    return FailoverSummary(
        group=group,
        partitions=len(members),
        curves=curves,
        figures={name: _figures(curve) for name, curve in drawn.items()},
        worst={name: _find_worst_minutes(curve, minutes) for name, curve in drawn.items()},
        unknown=Counter(
            (FailoverUnknownReason.NOT_SAMPLED if moment is None else moment[1].why).value  # type: ignore[union-attr]
            for member in members
            for moment in member.moments[member.begun :]
            if moment is None or moment[1].why is not None
        ),
    )


def compute_reread_s(outcome: FailoverOutcome) -> float | None:
    """Return the seconds to read the records again at the group's rate; None if one is unknown."""
    if not outcome.cost.reread:
        return None if outcome.cost.reread is None else 0.0
    return None if outcome.rate is None else outcome.cost.reread / outcome.rate


def _combine_partitions(
    members: list[tuple[int, SampledMinutes[T]]],
    count: int,
    figure: Callable[[T], float | None],
    combine: Callable[[Iterable[float]], float],
) -> Curve:
    """Return the curve over all partitions that had begun; None in minutes where one is unknown."""
    curve: Curve = []
    for minute in range(count):
        samples = [
            series[minute] if series else None for begun, series in members if minute >= begun
        ]
        values = (None if sample is None else figure(sample[1]) for sample in samples)
        known = [value for value in values if value is not None]
        curve.append(combine(known) if known and len(known) == len(samples) else None)
    return curve


def _figures(curve: Curve) -> Figures:
    known = sorted(value for value in curve if value is not None)
    return Figures(
        known=len(known),
        of=len(curve),
        median=_compute_percentile(known, 0.5),
        p95=_compute_percentile(known, 0.95),
        most=known[-1] if known else None,
    )


def _compute_percentile(ordered: list[float], part: float) -> float | None:
    """Return the nearest rank: the least value that this part of the values does not exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else None


def _find_worst_minutes(curve: Curve, minutes: Sequence[float]) -> tuple[WorstMinute, ...]:
    """Return the highest minutes above 0, at most one for each episode."""
    ranked = sorted(
        (WorstMinute(minute, value) for value, minute in zip(curve, minutes, strict=True) if value),
        key=lambda minute: (-minute.value, minute.at),
    )
    worst: list[WorstMinute] = []
    for minute in ranked:
        if len(worst) == WORST_MAX:
            break
        if all(abs(minute.at - other.at) >= WORST_SPACING_S for other in worst):
            worst.append(minute)
    return tuple(worst)


def _notes(known: FailoverInputs, minutes: Sequence[float]) -> Iterable[str]:
    if known.flow.read_committed is not False:
        yield (
            "the flow copies committed records only: what is missing counts to the end of the "
            "upstream log, and so may count records of transactions that were still open"
        )
    if known.not_ours:
        yield (
            f"{len(known.not_ours)} partitions are copied by several flows that share an "
            "offset-syncs topic: of those nothing is known"
        )
    if minutes[-1] > known.read_until:
        late = sum(minute > known.read_until for minute in minutes)
        yield (
            f"of the last {format_count(late, 'minute')} not everything may have been read into "
            "the tables yet"
        )
    if not known.positions:
        yield "no group was sampled in a topic that the flow copies"


def format_figure(name: str, value: float | None) -> str | None:
    """Return a value of a curve: exact records, or a duration in its two largest units."""
    if value is None:
        return None
    return f"{value:,}".replace(",", " ") if name in RECORD_CURVES else format_duration(value)


def format_duration(seconds: float) -> str:
    """Return a duration, rounded to the second, below ten to a tenth."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    return format_timespan(seconds, with_zeros=True, hours_max=48)
