"""Superseded offsets: those in the cluster's offsets topic of connectors with their own topics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from msgspec.structs import replace

from offsetwatch.decode.source_offsets import format_namesake_label
from offsetwatch.state.connect.source_offsets import SourceBook
from offsetwatch.state.snapshot import SourcePartitionView

Views = tuple[SourcePartitionView, ...]


@dataclass(frozen=True, slots=True)
class _CachedViews:
    own: SourceBook
    home: SourceBook
    versions: tuple[int, int]
    views: Views


class SupersededOffsets:
    """Cache of superseded offsets: every snapshot, one a second, needs them."""

    def __init__(self) -> None:
        self._made: dict[str, _CachedViews] = {}

    def keep(self, connectors: Collection[str]) -> None:
        """Forget all other connectors."""
        self._made = {name: made for name, made in self._made.items() if name in connectors}

    def of(self, connector: str, own: SourceBook, home: SourceBook) -> Views:
        """Return the source partitions that only `home` has an offset for."""
        versions = (own.version, home.version)
        made = self._made.get(connector)
        if (
            made is None
            or made.own is not own
            or made.home is not home
            or made.versions != versions
        ):
            views = _build_superseded_views(own.views_of(connector), home.views_of(connector))
            made = self._made[connector] = _CachedViews(own, home, versions, views)
        return made.views


def _build_superseded_views(own: Views, home: Views) -> Views:
    used = {view.identity for view in own}
    labels = {view.label for view in own}
    return tuple(
        replace(
            view,
            label=format_namesake_label(view.label, view.identity)
            if view.label in labels
            else view.label,
            offset=None,
            kafka_partition=None,
            log_offset=None,
            committed_at=None,
            advanced_at=None,
            read_at=None,
            commits=0,
            advances=0,
            rewinds=0,
            resets=0,
            shadow=view.offset,
        )
        for view in home
        if view.offset is not None and view.identity not in used
    )
