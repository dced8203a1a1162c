"""Configured sources, whose ends are read before an offset is changed. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from offsetwatch.clients.databases import SourceReader, build_source_reader
from offsetwatch.config.schema.sources import Source
from offsetwatch.decode.offset_order import Fields
from offsetwatch.errors import ClientError
from offsetwatch.model.connectors import ConnectorSettings
from offsetwatch.model.source_ends import SourceEndRequest
from offsetwatch.remedy.gather.source_logs import find_reading_sources
from offsetwatch.state.sources.source_ends import find_column_query
from offsetwatch.toolbox.source_bounds import NO_SOURCE, SourceFacts
from offsetwatch.toolbox.suggestions import format_names


class SourcePool:
    """Configured sources, each connected at its first query.

    connect     the Connect cluster whose connectors are asked for; None: any
    """

    def __init__(
        self,
        sources: Iterable[Source] = (),
        connect: str | None = None,
        build: Callable[[Source], SourceReader] = build_source_reader,
    ) -> None:
        self._sources = tuple(sources)
        self._connect = connect
        self._build = build
        self._open: dict[str, SourceReader] = {}

    def read(
        self, connector: str, settings: ConnectorSettings, partitions: Iterable[Fields]
    ) -> SourceFacts:
        """Return the end of the source that a connector reads, or why it is not known."""
        source = self.find(connector, settings)
        if isinstance(source, str):
            return SourceFacts(unknown=source)
        columns = frozenset(column.table for column in source.columns)
        try:
            end = self.open(source).read(_build_request(source.name, settings, partitions, columns))
        except ClientError as exc:
            return SourceFacts(source.name, unknown=str(exc))
        return SourceFacts(source.name, end, columns)

    def find(self, connector: str, settings: ConnectorSettings) -> Source | str:
        """Return the one source that a connector reads, or in words why there is none."""
        class_name = settings.class_name
        sources = find_reading_sources(self._sources, self._connect, connector, class_name)
        if len(sources) == 1:
            return sources[0]
        names = format_names(source.name for source in sources)
        return f"it reads several of sources: {names}" if sources else NO_SOURCE

    def open(self, source: Source) -> SourceReader:
        """Return the reader of a source, the same one at each call."""
        if source.name not in self._open:
            self._open[source.name] = self._build(source)
        return self._open[source.name]

    def close(self) -> None:
        """Close connections."""
        while self._open:
            self._open.popitem()[1].close()


def _build_request(
    name: str,
    settings: ConnectorSettings,
    partitions: Iterable[Fields],
    columns: frozenset[str],
) -> SourceEndRequest:
    partitions = tuple(partitions)
    queries = (find_column_query(each, settings.database, columns) for each in partitions)
    files = (each.get("filename") for each in partitions)
    return SourceEndRequest(
        name,
        tuple(sorted({query for query in queries if query is not None})),
        tuple(sorted({file for file in files if isinstance(file, str)})),
    )
