"""What others do meanwhile: people, the cluster itself, the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import httpx

from tests.fakes.connect_model import OutsideClient
from tests.sim.schedules import Happening
from tests.sim.world import NAME, TOPIC, World

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
            "truncate": lambda _: world.log_broker.truncate(TOPIC, 0, max(world.numbers.to, 1)),
            "new topic": self._new_topic,
            "rebalance": lambda _: self._connect.rebalance(),
            "no leader": self._connect.forget_leader,
            "worker dies": self._worker_dies,
            "held": self._connect.workers[0].hold,
            "slow job": lambda seconds: self._connect.slow_jobs.update({NAME: seconds}),
            "half stop": lambda _: self._connect.half_stops.update({NAME: "fail"}),
            "zombie": lambda seconds: self._connect.hang(
                NAME, "poll" if world.mirror else "put", seconds
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
        pair = self._world.pair(self._world.numbers.frm + int(by))
        assert pair.offset is not None
        self._person.stop(NAME)
        self._person.alter(NAME, (json.loads(pair.partition), json.loads(pair.offset)))

    def _new_topic(self, _: float) -> None:
        self._world.log_broker.recreate_topic(TOPIC)
        self._world.log_broker.produce(TOPIC, b"anew")

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
