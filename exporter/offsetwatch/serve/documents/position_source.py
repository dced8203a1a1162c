"""The source of a position, as the API, `status` and `explain` name it."""

from __future__ import annotations

from typing import Final, Literal

from offsetwatch.state.snapshot import MirrorPartitionView, SinkPartitionView, SourcePartitionView

Origin = Literal["rest", "group", "topic"]
REST: Final = "rest"


def origin_of(view: SourcePartitionView | MirrorPartitionView | SinkPartitionView) -> Origin:
    """Return `rest` for a position polled over REST, `group` or `topic` for one read from Kafka."""
    if view.from_rest:
        return REST
    return "group" if isinstance(view, SinkPartitionView) else "topic"
