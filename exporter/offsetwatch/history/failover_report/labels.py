"""What a report's curves, figures and reasons are called, in the terminal and on the page. Pure."""

from __future__ import annotations

from typing import Final

from offsetwatch.clock import utc
from offsetwatch.history.failover_report.replay import Why
from offsetwatch.history.failover_report.summary import RECORDS

# By the names of moves_told.Curves.
CURVES: Final = {
    "reread": "records read again",
    "skip": "records never read",
    "reread_s": "time to read them again",
    "missing": "records not on the target",
    "age_min": "age of the oldest, at least",
    "age_max": "age of the oldest, at most",
}
REASONS: Final = {
    Why.NOT_SAMPLED.value: "the group's position was not sampled",
    Why.NOT_READ.value: "what MirrorMaker wrote by then may not have been read yet",
    Why.NO_LOG_ENDS.value: "the ends of one of the logs were not sampled",
    Why.BEYOND_THE_END.value: "the group stood beyond the end of the upstream log",
    Why.NO_SYNCS.value: "there was no offset sync, or it may have been another flow's",
    Why.NOT_TRANSLATED.value: "the syncs do not contain the position of its record on the target",
    Why.NO_LANDING.value: "it had neither a commit of its own nor a checkpoint on the target",
    Why.CHECKPOINT_HIDDEN.value: "compaction may have taken a checkpoint before it was read",
    Why.OUTSIDE_THE_LOG.value: "it would have started outside the downstream log",
}


def figure(name: str, value: float | None) -> str | None:
    """A value of a curve: records exactly, or a span of time in its two largest units."""
    if value is None:
        return None
    return f"{value:,}".replace(",", " ") if name in RECORDS else span(value)


def span(seconds: float) -> str:
    """Rounded to the second, below ten to a tenth."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def moment(at: float) -> str:
    """As people on call write it to each other."""
    return utc(at).strftime("%Y-%m-%d %H:%M:%SZ")
