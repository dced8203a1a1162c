"""Samples of source ends for the pipeline, from the daemon of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from offsetwatch import documents
from offsetwatch.cli.remote.read_client import ReadListener, fetch_document
from offsetwatch.config import Config
from offsetwatch.config.identity import describe_differences, format_cluster_hashes
from offsetwatch.errors import MalformedResponse, TargetUnreachable
from offsetwatch.model.source_ends import SourceEndSample
from offsetwatch.serve.documents.types import SourceEndRow

PATH: Final = "/api/v1/connectors"
TIMEOUT_S: Final = 10.0  # of 100,000 partitions it is some megabytes


class _Partition(msgspec.Struct):
    source_partition: msgspec.Raw
    source_end: SourceEndRow | None = None


class _Connector(msgspec.Struct):
    connect_cluster: str
    name: str
    source_partitions: tuple[_Partition, ...] = ()


class _Connectors(msgspec.Struct):
    connectors: tuple[_Connector, ...]


class SourceEndsReader:
    """Reader of the newest ends that the daemon of a configuration has read.

    Where no such daemon has ever answered, these are the ends of `at_start`: the same document of
    the own inspection that a run begins with.
    """

    def __init__(self, config: Config, at_start: bytes) -> None:
        self._config = config
        self._at_start: bytes | None = at_start

    def __call__(self) -> tuple[SourceEndSample, ...]:
        """Return them. Raises ClientError, and ConfigError where `own_access` cannot be used."""
        listener = ReadListener(self._config)
        body = self._fetch(listener)
        if body is not None:
            self._at_start = None
        document_body = self._at_start if body is None else body
        if document_body is None:
            return ()
        try:
            document = documents.decode(document_body, _Connectors)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            why = f"this is not a document of offsetwatch: {exc}"
            raise MalformedResponse(listener.where, why) from exc
        return tuple(_select_samples(document))

    def _fetch(self, listener: ReadListener) -> bytes | None:
        try:
            answer = fetch_document(listener, PATH, TIMEOUT_S)
        except TargetUnreachable:
            return None
        if answer is None or answer.clusters is None:
            return None
        other = describe_differences(format_cluster_hashes(self._config), answer.clusters)
        return None if other else answer.body


def _select_samples(document: _Connectors) -> Iterator[SourceEndSample]:
    for connector in document.connectors:
        for partition in connector.source_partitions:
            end = partition.source_end
            if end is not None:
                identity = bytes(partition.source_partition).decode()
                yield _build_sample(connector, identity, end)


def _build_sample(connector: _Connector, identity: str, end: SourceEndRow) -> SourceEndSample:
    problem = end.mismatch or end.lost or end.problem
    fields = {
        name: getattr(end, name)
        for name in SourceEndSample.__struct_fields__
        if name in SourceEndRow.__struct_fields__
    }
    fields["problem"] = "a snapshot is in progress" if end.snapshot_in_progress else problem
    return SourceEndSample(
        connect_cluster=connector.connect_cluster,
        connector=connector.name,
        source_partition=identity,
        **fields,
    )
