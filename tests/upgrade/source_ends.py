"""Ends of sources as the daemon keeps them (sources.json), by the code that this is run with:
sources.yaml is acted out, in virtual time, up to the moment when the daemon is replaced, and then
to its end.

Run by make.py, and by the tests with what an earlier version has left.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any, Final

from offsetwatch.state.snapshot import Snapshot
from tests.scenarios import brokers
from tests.scenarios.daemon import Daemon
from tests.scenarios.script import BEGINNING, read, seconds
from tests.scenarios.world import World
from tests.upgrade.state_files import AWAY_S, REPLACED

STORY: Final = Path(__file__).parent / "sources.yaml"
NAME: Final = "sources"
LOOKS: Final = ("18m50s", "26m")  # once all is read again, and after a connector went on


def act(document: bytes | None = None) -> tuple[bytes, dict[str, Any]]:
    """Return what was kept when the daemon was replaced, and what the next one showed.

    document   what it found; None: what the one before it has left
    """
    brokers._ids = count(1)  # as in a process of its own
    world = World(read(STORY))
    daemon = Daemon(world)
    observed = {REPLACED: _describe(_until(world, daemon, REPLACED))}
    daemon.kill()
    remaining = daemon.memory[NAME]
    back = world.now + AWAY_S
    while world.now < back:
        world.step()
    daemon.memory = {NAME: remaining if document is None else document}
    daemon.start()
    for moment in LOOKS:
        observed[moment] = _describe(_until(world, daemon, moment))
    return remaining, observed


def _until(world: World, daemon: Daemon, moment: str) -> Snapshot:
    snapshot = daemon.snapshot
    while world.now - BEGINNING < seconds(moment):
        world.step()
        snapshot = daemon.step()
    return snapshot


def _describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return what a daemon shows of sources that it cannot know from one read alone."""
    return {
        f"{view.source} {view.connector}": {
            "behind_since": view.behind_since,
            "caught_up": view.caught_up,
            "mismatch": view.mismatch,
        }
        for view in snapshot.source_ends
    }
