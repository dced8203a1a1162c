"""Status of the history pipeline: its progress, its tables and its errors.

The pipeline writes it (history/tables/pipeline_status.py), and the daemon exports it. Times are
Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """Status of the stream of one Kafka cluster.

    decoded, undecodable    rows in bronze
    behind  records between the position and the log ends of the newest batch; None if not reported
    gaps    ranges of offsets that are missing for ever
    """

    kafka: str
    decoded: int = 0
    undecodable: int = 0
    behind: int | None = None
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Status of the pipeline.

    batch_at    time by which every stream had ended a batch, or found nothing new; None before the
                first
    errors      failed runs, and streams that were restarted, by reason
    tables      the newest batch_at that is in the tables of a layer
    """

    batch_at: float | None = None
    feeds: tuple[FeedStatus, ...] = ()
    errors: tuple[tuple[str, int], ...] = ()
    tables: tuple[tuple[str, float], ...] = ()
