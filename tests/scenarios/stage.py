"""Acts a story out in virtual time: a world, a daemon that looks at it, and what it found."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.daemon import Daemon
from tests.scenarios.expectation import History, mistakes
from tests.scenarios.listener import Listener, misheard
from tests.scenarios.script import BEGINNING, ScriptError, read
from tests.scenarios.steadiness import Steadiness
from tests.scenarios.world import World


def act_out(folder: Path) -> tuple[History, Listener, Steadiness]:
    """From the beginning to the end of a story."""
    world = World(read(folder / "world.yaml"))
    daemon, history, listener, steadiness = Daemon(world), History(), Listener(), Steadiness()
    while world.now - BEGINNING < world.lasts_s:
        world.step()
        if world.down_until is not None and daemon.running:
            daemon.kill()
        if world.down_until is not None and world.now >= world.down_until:
            world.down_until = None
            daemon.start()
            listener.restart()
        if daemon.running:
            snapshot = daemon.step()
            history.record(snapshot)
            listener.hear(snapshot, world.existing())
            steadiness.compare(daemon.judge, snapshot)
    if world.events:
        raise ScriptError(f"{folder.name}: {len(world.events)} events after the end")
    return history, listener, steadiness


def run_scenario(folder: Path) -> tuple[list[str], History]:
    """What went otherwise than expected, and all that was found."""
    history, listener, steadiness = act_out(folder)
    expected = mistakes(read(folder / "expectation.yaml"), history)
    return [*expected, *misheard(listener, history), *steadiness.mistakes], history
