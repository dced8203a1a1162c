"""What others do meanwhile: people, the cluster itself, the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import httpx

from offsetwatch.remedy.model.facts import SubjectKind
from tests.fakes.connect_model import OutsideClient
from tests.sim.logs import NAME
from tests.sim.schedules import Happening
from tests.sim.world import World

PERSONS: Final = frozenset(("resume", "restart", "stop", "pause", "delete", "recreate", "reset"))
MOVES: Final = frozenset(("reset", "alter", "truncate", "new topic", "no group"))
FOREIGN: Final = PERSONS | MOVES | {"edit", "another cluster"}


class Others:
    """Everybody but us. What they do to the connector is told to the world."""

    def __init__(self, world: World) -> None:
        self._world, self._connect = world, world.connect
        self._person = OutsideClient(world.connect)
        self._acts: dict[str, Callable[[float], object]] = {
            "edit": lambda _: self._person.edit(NAME, errors_tolerance="none"),
            "alter": self._alter,
            "truncate": lambda _: world.log.truncate(max(world.numbers.to, 1)),
            "new topic": lambda _: world.log.recreate(),
            "rebalance": lambda _: self._connect.rebalance(),
            "no leader": self._connect.forget_leader,
            "worker dies": self._worker_dies,
            "held": self._connect.workers[0].hold,
            "slow job": lambda seconds: self._connect.slow_jobs.update({NAME: seconds}),
            "half stop": lambda _: self._connect.half_stops.update({NAME: "fail"}),
            "zombie": lambda seconds: self._connect.hang(
                NAME, "put" if world.kind is SubjectKind.SINK else "poll", seconds
            ),
            "no group": lambda _: self._connect.broker.groups.pop(f"connect-{NAME}", None),
            "lingering": self._linger,
            "another cluster": lambda _: setattr(self._connect.broker, "cluster_id", "elsewhere"),
            "outage": self._outage,
        }

    def act(self, it: Happening) -> None:
        if it.what in FOREIGN:
            self._world.foreign.append((self._world.line.now(), it.what))
        self._world.moved = self._world.moved or it.what in MOVES
        with suppress(httpx.TransportError):  # no worker is there to be asked
            if it.what in PERSONS:
                getattr(self._person, it.what)(NAME)
            else:
                self._acts[it.what](it.number)

    def _alter(self, by: float) -> None:
        """Stop and alter, as a person would at a keyboard."""
        pair = self._world.log.pair(self._world.numbers.frm + int(by))
        assert pair.offset is not None
        self._person.stop(NAME)
        self._person.alter(NAME, (json.loads(pair.partition), json.loads(pair.offset)))

    def _worker_dies(self, seconds: float) -> None:
        worker = self._connect.workers[0]
        if worker.alive:
            worker.kill()
            self._world.line.call_after(seconds, worker.start)

    def _linger(self, seconds: float) -> None:
        """A consumer that nobody knows of stays in the group."""
        broker, group = self._connect.broker, f"connect-{NAME}"
        broker.join(group, "somebody", frozenset(), lambda: None)
        self._world.line.call_after(seconds, lambda: broker.leave(group, "somebody"))

    def _outage(self, _: float) -> None:
        self._world.troubled = True
        self._connect.behaviour(NAME).broken = "data"
