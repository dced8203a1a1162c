"""The control listener in the daemon: whom it asks, and what a person's wish is planned with.

Not part of the edge. It is made anew where a configuration changes more than who is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from offsetwatch.clock import Clock
from offsetwatch.config import Config
from offsetwatch.daemon.replicas import Replicas
from offsetwatch.daemon.wiring.remediation import parts_of
from offsetwatch.errors import NotLeader
from offsetwatch.model.observations import Observation
from offsetwatch.remedy.journal.journal import Line
from offsetwatch.remedy.model.service_api import Asked, Hint, Mode, NotFound, Refused
from offsetwatch.remedy.planner import Planner, told
from offsetwatch.remedy.service import Office, Planned, World
from offsetwatch.serve.control.listener_thread import ControlServer
from offsetwatch.serve.metrics.families import WebFile
from offsetwatch.state.snapshot import Snapshot


class ControlDesk:
    """See the module. `wake` has the connector of an alert looked at soon."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        put: Callable[[Observation], object],
        folder: Path,
        clock: Clock,
        wake: Callable[[Hint], None],
        replicas: Replicas | None = None,
    ) -> None:
        self._replicas = replicas
        self._snapshot = snapshot
        self._put = put
        self._folder = folder
        self._clock = clock
        self._wake = wake
        self._config: Config | None = None
        self._server: ControlServer | None = None

    def follow(self, config: Config) -> None:
        """Listen as this configuration says from now on. Raises ConfigError, and Unreachable
        without the address.
        """
        before, self._config = self._config, config
        control, server = config.control, self._server
        same = before is not None and _basis(config) == _basis(before)
        if same and control is not None and server is not None:
            server.follow(control)
            return
        self.stop()
        if config.control is None:
            return
        wishes = Wishes(config, self._snapshot, self._folder, self._clock)
        office = Office(
            self._folder,
            World(plan_for=wishes.plan_for, wake=self._wake, inventory=self._inventory),
            self._clock,
            mode=Mode(config.remedy.mode),
            second_person=config.remedy.second_person,
            cool_down_s=config.remedy.cool_down_s,
            publish=None if config.remedy.journal is None else self._publish,
        )
        server = ControlServer(
            config.control,
            office,
            self._clock,
            snapshot=self._snapshot,
            report=self._put,
            at_end=office.close,
            why_not=lambda: None if self._replicas is None else self._replicas.why_not(),
        )
        server.start()
        self._server = server

    def _publish(self, lines: Sequence[Line]) -> None:
        replica = None if self._replicas is None else self._replicas.now
        if replica is None:
            raise NotLeader("this daemon is stopping: nothing was done")
        replica.publish(lines)

    @property
    def web_file(self) -> WebFile | None:
        """How reading the listener's web config file went; None without one. Any thread."""
        server = self._server
        return None if server is None else server.web_file

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.stop()
        self._server = None

    def _inventory(self) -> frozenset[tuple[str, str]]:
        return frozenset((at.connect_cluster, at.name) for at in self._snapshot().connectors)


class Wishes:
    """Plans what people ask for, in the thread that it is asked in."""

    def __init__(
        self, config: Config, snapshot: Callable[[], Snapshot], folder: Path, clock: Clock
    ) -> None:
        self._config = config
        self._snapshot = snapshot
        self._folder = folder
        self._clock = clock

    def plan_for(self, asked: Asked, by: str) -> Planned | Refused | NotFound:
        """See office.World. Connections are made for one wish: there is one in a while."""
        with parts_of(
            self._config, self._snapshot, self._folder, self._clock, pause=lambda _: None
        ) as parts:
            return _planned(parts.planner, asked, by)


def _planned(planner: Planner, asked: Asked, by: str) -> Planned | Refused | NotFound:
    found = planner.for_person(asked, by)
    if isinstance(found, Refused | NotFound):
        return found
    return Planned(found.plan, told(found.answers))


def _basis(config: Config) -> tuple[object, ...]:
    listen = None if config.control is None else config.control.listen
    return (listen, config.remedy, config.connect, config.kafka)
