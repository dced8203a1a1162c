"""What the history pipeline says of itself: how far it is, what it has stored, what went wrong.

Written by the pipeline (history/status.py) and exported by the daemon. Times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """The stream of one Kafka cluster.

    decoded, undecodable    rows that bronze holds
    behind  records between what was read and the log ends that the newest batch saw; None if it
            did not say
    gaps    ranges of offsets that are missing for ever
    """

    kafka: str
    decoded: int = 0
    undecodable: int = 0
    behind: int | None = None
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One file.

    batch_at    by when every stream had ended a batch, or found nothing new; None before the first
    errors      runs that failed, and streams that had to be started again, by reason
    tables      the newest batch_at that is in the tables of a layer
    """

    batch_at: float | None = None
    feeds: tuple[FeedStatus, ...] = ()
    errors: tuple[tuple[str, int], ...] = ()
    tables: tuple[tuple[str, float], ...] = ()
