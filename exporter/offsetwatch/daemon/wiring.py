"""Constructors of the monitor's inputs from the configuration; they start and request nothing."""

from __future__ import annotations

from offsetwatch.clients.connect.offsets_sweep import ConnectSweep, sweep_of
from offsetwatch.clients.connect.reader import ConnectReader, reader_of
from offsetwatch.config import Config, Connect
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.observations import CONNECT_REST, GROUPS, LOG_ENDS, REST_OFFSETS, TAIL
from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.book import Book
from offsetwatch.state.connect.connect_cluster import ConnectClusterSettings
from offsetwatch.state.series_budget import SeriesLimits

TAIL_STALE_S = 20.0  # ten of its own checks
MISSED_POLLS = 3  # how many attempts in a row may fail before what a poll told us is taken down

MISSED_BATCHES = 3
BATCH_S = 300.0  # for a batch or a computation that is under way


def build_book(config: Config) -> Book:
    """Build the state, with the age in seconds at which each kind of input becomes stale.

    That is a few missed attempts.
    """
    slowest_state_s = max(connect.poll.state_s for connect in config.connect)
    slowest_offsets_s = max(connect.poll.rest_offsets_s for connect in config.connect)
    slowest_groups_s = max(connect.poll.groups_s for connect in config.connect)
    # Where one worker does not answer the next is asked, each for so long.
    timeout_s = max(
        cluster.poll.timeout_s * max(1, len(cluster.worker_urls)) for cluster in config.connect
    )
    return Book(
        sites=tuple(
            ConnectClusterSettings(
                name=cluster.name,
                kafka=cluster.kafka,
                rest=bool(cluster.worker_urls),
                wants_connector=cluster.connectors.allows,
                wants_topic=cluster.topics.allows,
                by_topic=cluster.granularity == "topic",
                status=_status_topic(cluster),
            )
            for cluster in config.connect
        ),
        kafkas={name: kafka.addresses for name, kafka in config.kafka.items()},
        flows=build_named_flows(config),
        stale_after_s={
            TAIL: TAIL_STALE_S,
            CONNECT_REST: MISSED_POLLS * slowest_state_s + timeout_s,
            REST_OFFSETS: MISSED_POLLS * slowest_offsets_s + timeout_s,
            GROUPS: MISSED_POLLS * slowest_groups_s + timeout_s,
            LOG_ENDS: MISSED_POLLS * config.ends_s + timeout_s,
        },
        source_partitions_max=config.limits.source_partitions_max,
        series=SeriesLimits(config.limits.series_per_connector_max, config.limits.series_max),
        interval_s=config.judge.interval_s,
        pipeline_fresh_s=MISSED_BATCHES * config.history.cadence_s + BATCH_S,
    )


def _status_topic(connect: Connect) -> KafkaTopic | None:
    if connect.kafka is None or connect.status_topic is None:
        return None
    return KafkaTopic(connect.kafka, connect.status_topic)


def build_judge(config: Config) -> SnapshotJudge:
    """Build the judge of verdicts and findings, with the configured interval."""
    return SnapshotJudge(
        JudgeSettings(
            interval_s=config.judge.interval_s,
            runbooks_url=config.notify.runbooks_url,
            addresses={
                **{("kafka", name): kafka.bootstrap for name, kafka in config.kafka.items()},
                **{
                    ("connect", cluster.name): cluster.url
                    for cluster in config.connect
                    if cluster.url is not None
                },
            },
        )
    )


def build_named_flows(config: Config) -> tuple[MirrorFlow, ...]:
    """Build the flows that the configuration file names."""
    return tuple(
        MirrorFlow(
            connect_cluster=config.connect_of(flow),
            connector=flow.connector,
            source=flow.source,
            target=flow.target,
            upstream=flow.upstream,
            downstream=flow.downstream,
            offset_syncs=None
            if flow.offset_syncs is None
            else KafkaTopic(flow.offset_syncs.kafka, flow.offset_syncs.topic),
            copies=tuple(flow.copies.items()),
        )
        for flow in config.flows
    )


def build_connect_readers(config: Config) -> dict[str, ConnectReader]:
    """Build a reader for each Connect cluster that has a REST API."""
    return {
        connect.name: reader_of(connect, connect.poll.timeout_s)
        for connect in config.connect
        if connect.worker_urls
    }


def build_sweeps(config: Config) -> dict[str, ConnectSweep]:
    """Build a sweep of all connectors' offsets for each Connect cluster that has a REST API."""
    return {
        connect.name: sweep_of(connect, connect.poll.timeout_s)
        for connect in config.connect
        if connect.worker_urls
    }


def count_worker_threads(config: Config) -> int:
    """Return the number of poll threads: one for each poll that can block.

    So one slow input does not delay the others.
    """
    return 4 + 6 * len(config.connect) + 4 * len(config.kafka)
