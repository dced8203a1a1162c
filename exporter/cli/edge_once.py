"""One catch-up without a listener: what every read verb without a daemon stands on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from exporter.config import Config
from exporter.daemon import state_dir
from exporter.daemon.edge import Edge
from exporter.errors import TimedOut
from exporter.state.snapshot import Snapshot

CATCH_UP_TICK_S = 0.1  # nobody scrapes: be quick


@contextmanager
def caught_up(config: Config, timeout_s: float) -> Iterator[Snapshot]:
    """A complete snapshot. Raises TimedOut naming what is missing."""
    with looked(config, timeout_s) as snapshot:
        if not snapshot.ready:
            raise TimedOut("catch-up", "; ".join(snapshot.waiting_for))
        yield snapshot


@contextmanager
def looked(config: Config, timeout_s: float) -> Iterator[Snapshot]:
    """What could be seen within `timeout_s`; it may be incomplete, and says so."""
    edge = Edge(config.model_copy(update={"tick_s": min(config.tick_s, CATCH_UP_TICK_S)}))
    edge.recall_with(partial(state_dir.look, Path(config.state_dir).resolve()))
    edge.start()
    try:
        if edge.wait_until_ready(timeout_s):
            edge.wait_for_ages()
        yield edge.snapshot
    finally:
        edge.stop()
