"""Limits on the series of `/metrics`: groups that are left out, a connector or flow as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SERIES_MAX: Final = "series_max"  # limits of the configuration, and reasons of what is counted
SERIES_PER_CONNECTOR_MAX: Final = "series_per_connector_max"

SeriesOwner = tuple[str, ...]  # (Connect cluster, connector); of FAILOVER a flow's key


class SeriesGroup(StrEnum):
    """Groups of series in the order in which a limit leaves them out.

    RUNNING_TASKS       task_state of tasks that are running: connector_tasks counts them
    FAILOVER            failover cost of consumer groups (records read again and skipped), and their
                        checkpoints
    PARTITIONS          of replicated partitions: lag is shown by topic instead
    SOURCE_PARTITIONS   of other source partitions
    SINK_PARTITIONS     of partitions that a sink reads
    TOPICS              of replicated topics
    TASKS               task_state of all tasks
    CONNECTORS          states, task counts, verdict and baseline of a connector
    """

    RUNNING_TASKS = "states of running tasks"
    FAILOVER = "failover of consumer groups"
    PARTITIONS = "replicated partitions"
    SOURCE_PARTITIONS = "source partitions"
    SINK_PARTITIONS = "partitions of sinks"
    TOPICS = "replicated topics"
    TASKS = "states of tasks"
    CONNECTORS = "states and verdicts of connectors"


@dataclass(frozen=True, slots=True)
class DroppedSeries:
    """Series of one group that a limit leaves out now.

    limit     SERIES_MAX or SERIES_PER_CONNECTOR_MAX
    owners    connectors or flows that they belong to
    series    maximum number of them; None if that is not counted
    partial   only the last partitions of these owners are left out
    """

    group: SeriesGroup
    limit: str
    owners: frozenset[SeriesOwner]
    series: int | None = None
    partial: bool = False
