"""Which way a position is known: the word in the API, in `status` and in `explain`."""

from __future__ import annotations

from typing import Final, Literal

from offsetwatch.state.snapshot import MirrorPartitionView, SinkPartitionView, SourcePartitionView

Origin = Literal["rest", "group", "topic"]
REST: Final = "rest"


def origin_of(view: SourcePartitionView | MirrorPartitionView | SinkPartitionView) -> Origin:
    """Return `rest` where it was polled over REST, `group` or `topic` where Kafka was read."""
    if view.from_rest:
        return REST
    return "group" if isinstance(view, SinkPartitionView) else "topic"
