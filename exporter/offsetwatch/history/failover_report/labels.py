"""Labels of a report's curves, figures and reasons, for the terminal and the page. Pure."""

from __future__ import annotations

from typing import Final

from offsetwatch.clock import to_utc
from offsetwatch.history.failover_report.replay import FailoverUnknownReason
from offsetwatch.history.failover_report.summary import RECORD_CURVES

# By the names of moves_told.Curves.
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
    FailoverUnknownReason.NO_LANDING: (
        "it had neither a commit of its own nor a checkpoint on the target"
    ),
    FailoverUnknownReason.CHECKPOINT_HIDDEN: (
        "compaction may have taken a checkpoint before it was read"
    ),
    FailoverUnknownReason.OUTSIDE_THE_LOG: "it would have started outside the downstream log",
}
REASON_LABELS: Final = {reason.value: label for reason, label in _LABELS_BY_REASON.items()}


def format_figure(name: str, value: float | None) -> str | None:
    """Return a value of a curve: exact records, or a duration in its two largest units."""
    if value is None:
        return None
    return f"{value:,}".replace(",", " ") if name in RECORD_CURVES else format_duration(value)


def format_duration(seconds: float) -> str:
    """Return a duration, rounded to the second, below ten to a tenth."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def format_time(moment: float) -> str:
    """Return a time as operators write it: date, time to the second, Z."""
    return to_utc(moment).strftime("%Y-%m-%d %H:%M:%SZ")
