"""The verb `offsets list`: of Connect clusters from the daemon, else from Connect or its topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from offsetwatch import documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import (
    CONNECT,
    KAFKA,
    ClusterName,
    ReadOptions,
    UnreadCluster,
    read_daemon_document,
)
from offsetwatch.cli.common.options import add_config_option, take_read_options, take_watch_options
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.inspect.status import ConnectorRow, StatusDocument, format_raw_json
from offsetwatch.cli.offsets.offset_rows import OffsetRow, parse_names, print_rows
from offsetwatch.cli.offsets.store_options import (
    OffsetStoreOptions,
    find_connect,
    take_store_options,
)
from offsetwatch.errors import AccessDenied, ClientError, NoReadableCluster, TargetUnreachable
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.suggestions import suggest_name

if TYPE_CHECKING:
    from offsetwatch.cli.common.config_excerpt import ConfigExcerpt
    from offsetwatch.config import Config, Connect

OK, UNREAD, USAGE = 0, 1, 2


def list_offsets(connectors: str | None, *, output_format: OutputFormat, **options: Any) -> int:
    """Print the offsets of one store, or of all Connect clusters; return the exit code."""
    run = take_watch_options(options, output_format)
    reading = take_read_options({**options})
    for name in ("url", "direct", "timeout_s"):
        del options[name]
    if reading.url is not None and options["config_path"] is None:
        options["config_path"] = Path()  # only the daemon is asked
    where, names = take_store_options(options, everywhere=True), parse_names(connectors)
    if where.worker_config is not None or where.strimzi is not None:
        return run(partial(_print_store_offsets, where, names, output_format=output_format))
    return run(
        partial(print_cluster_offsets, where.connect, reading, names, output_format=output_format)
    )


def _print_store_offsets(
    where: OffsetStoreOptions, connectors: frozenset[str] | None, *, output_format: OutputFormat
) -> int:
    """Print the offsets that tasks would receive now from one store.

    Exit code 1 if some of them could not be read.
    """
    from offsetwatch.cli.offsets.export import read_rows  # noqa: PLC0415 - the clients

    unread: list[ClientError] = []
    rows = [*read_rows(where, connectors, unread)]
    if unread and not rows:
        raise unread[0]
    print_rows(rows, "", output_format=output_format)
    return UNREAD if unread else OK


def print_cluster_offsets(
    connect: str | None,
    reading: ReadOptions,
    connectors: frozenset[str] | None,
    *,
    output_format: OutputFormat,
) -> int:
    """Print the offsets of one Connect cluster, or of all.

    Exit code 1 if some could not be read: these are named. Raises ClientError if nothing could be
    read.
    """
    began = time.monotonic()
    listing = _OffsetListing(connect, connectors)
    sourced = read_daemon_document(reading, "/api/v1/status")
    if sourced is not None:
        listing.take(sourced.decode(StatusDocument), sourced.unread, sourced.config)
        listing.by.append(sourced.by)
    if sourced is None or listing.lacks_clusters(sourced.config):
        loaded = reading.required()
        listing.read_connect(loaded, reading)
        listing.read_topics(loaded, max(1.0, reading.timeout_s - (time.monotonic() - began)))
    return listing.print(output_format=output_format)


class _OffsetListing:
    """Offsets by Connect cluster, and what could not be read."""

    def __init__(self, connect: str | None, connectors: frozenset[str] | None) -> None:
        self._connect = connect
        self._connectors = connectors
        self._rows: dict[str, list[OffsetRow]] = {}
        self._partly: dict[str, list[OffsetRow]] = {}
        self._remaining: list[Connect] = []
        self._unread: list[str] = []
        self._failed: list[ClientError] = []
        self._names: set[str] = set()
        self.by: list[str] = []

    def take(
        self,
        status: StatusDocument,
        missing: tuple[UnreadCluster, ...],
        config: Config | ConfigExcerpt | None,
    ) -> None:
        """Take the offsets of clusters that the daemon reads completely.

        Offsets of other clusters may be read later.
        """
        connectors = [
            connector
            for connector in status.connectors.connectors
            if self._connect in {None, connector.connect_cluster}
        ]
        self._names |= {connector.name for connector in connectors}
        for cluster in sorted({connector.connect_cluster for connector in connectors}):
            own = [connector for connector in connectors if connector.connect_cluster == cluster]
            lacking = (self._connectors or frozenset()) - {connector.name for connector in own}
            entries = () if config is None else config.connect
            homes = {(KAFKA, entry.kafka) for entry in entries if entry.name == cluster}
            needed = {(CONNECT, cluster), *homes}
            whole = not any((unread.kind, unread.cluster) in needed for unread in missing)
            rows = list(_read_status_rows(own, self._connectors))
            if whole and not (self._connect is not None and lacking):
                self._rows[cluster] = rows
            else:
                self._partly[cluster] = rows
        if config is None:
            self._rows |= self._partly
            self._unread += (unread.text for unread in missing)

    def lacks_clusters(self, config: Config | ConfigExcerpt | None) -> bool:
        """Return whether offsets of a requested Connect cluster are still to be read over REST."""
        if config is None:  # only the daemon is asked
            return False
        names = {connect.name for connect in config.connect if connect.worker_urls}
        return not (names if self._connect is None else {self._connect}) <= self._rows.keys()

    def read_connect(self, config: Config, reading: ReadOptions) -> None:
        """Read the offsets of the remaining Connect clusters over REST.

        Clusters that do not answer remain.
        """
        if self._connect is not None:
            connects = [find_connect(config, self._connect)]
        else:
            connects = [connect for connect in config.connect if connect.worker_urls]
        connects = [connect for connect in connects if connect.name not in self._rows]
        if not connects:
            return
        from offsetwatch.cli.common.own_inspection import (  # noqa: PLC0415 - the clients
            describe_topic_origin,
            find_silent_connects,
            recall_offsets_topics,
        )
        from offsetwatch.cli.offsets.export import read_rows  # noqa: PLC0415 - the clients

        recalled = recall_offsets_topics(config)
        silent = find_silent_connects(config, connects, reading.timeout_s)
        for connect in connects:
            cluster = ClusterName(CONNECT, connect.name)
            try:
                if cluster in silent or not connect.worker_urls:
                    urls = ", ".join(connect.worker_urls) or "no url"
                    raise TargetUnreachable(
                        f"{connect.name} ({urls})", silent.get(cluster, "not asked")
                    )
                where = OffsetStoreOptions(connect.name, reading.config_path, None)
                self._rows[connect.name] = [
                    *read_rows(where, self._connectors, self._failed, known=self._names)
                ]
                self.by.append(f"{connect.name} itself, just now")
            except ClientError as exc:
                self._failed.append(exc)
                origin = describe_topic_origin(connect, recalled)
                self._unread.append(f"not read: Connect cluster {exc}{origin}")
                if not isinstance(exc, AccessDenied):
                    self._remaining.append(connect)

    def read_topics(self, config: Config, timeout_s: float) -> None:
        """Read the topics of the clusters that remain, unless the daemon has read them."""
        for connect in self._remaining:
            if self._partly.get(connect.name):
                self._rows[connect.name] = self._partly[connect.name]
        names = {
            cluster.name
            for cluster in self._remaining
            if cluster.name not in self._rows and cluster.kafka is not None
        }
        if not names:
            return
        from offsetwatch.cli.common.own_inspection import inspect_clusters  # noqa: PLC0415 - the clients
        from offsetwatch.serve.documents.status import encode_status  # noqa: PLC0415 - the state

        with inspect_clusters(config, timeout_s) as inspection:
            status = documents.decode(encode_status(inspection.snapshot), StatusDocument)
            self._names |= {connector.name for connector in status.connectors.connectors}
            for row in _read_status_rows(status.connectors.connectors, self._connectors):
                if row.store in names:
                    self._rows.setdefault(row.store, []).append(row)
            self._unread += (
                cluster.text
                for cluster in inspection.unread
                if cluster.kind != CONNECT or cluster.cluster not in names
            )
        self.by.append("their topics, just now")

    def print(self, *, output_format: OutputFormat) -> int:
        """Print the offsets and what is missing; return the exit code."""
        rows = [row for offsets in self._rows.values() for row in offsets]
        if self._failed and not self._rows:
            denied = (error for error in self._failed if isinstance(error, AccessDenied))
            doctor = add_config_option("offsetwatch doctor")
            raise next(denied, NoReadableCluster(self._unread, doctor))
        print_rows(rows, "; ".join(self.by), output_format=output_format)
        output.print_error(*self._unread)
        if self._unread or self._failed:  # a name that is missing may be in there
            return UNREAD
        unknown = sorted((self._connectors or frozenset()) - self._names)
        output.print_error(
            *(f"no connector {name} ({suggest_name(name, self._names)})" for name in unknown)
        )
        return USAGE if unknown else OK


def _read_status_rows(
    connectors: Iterable[ConnectorRow], names: frozenset[str] | None
) -> Iterator[OffsetRow]:
    for connector in connectors:
        if names is not None and connector.name not in names:
            continue
        cluster, name = connector.key
        kind = "sink" if connector.kind == "sink" else "source"
        for source in connector.source_partitions:
            offset = format_raw_json(source.offset)
            if offset is None:
                output.print_error(f"{cluster}/{name}: {source.label}: no offset is known")
                continue
            pair = PartitionOffset(bytes(source.source_partition).decode(), offset)
            yield OffsetRow(cluster, name, kind, pair, source.source or "topic")
        for sink in connector.sink_partitions:
            if sink.committed is not None:
                fields = {"kafka_topic": sink.topic, "kafka_partition": sink.partition}
                pair = PartitionOffset(
                    msgspec.json.encode(fields).decode(), f'{{"kafka_offset":{sink.committed}}}'
                )
                yield OffsetRow(cluster, name, "sink", pair, sink.source or "group")
