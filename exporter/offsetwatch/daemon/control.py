"""Control listener in the daemon, and the planner of the remediation requests that it receives.

It is no part of the ClusterMonitor. It restarts if a configuration changes more than who has
access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.daemon.replicas import DaemonReplica
from offsetwatch.daemon.wiring.remediation import open_remediation_parts
from offsetwatch.errors import NotLeader
from offsetwatch.model.observations import Observation
from offsetwatch.remedy.journal.journal import ChainLine
from offsetwatch.remedy.model.guard_answer import RequestedPlan
from offsetwatch.remedy.model.service_api import (
    AlertHint,
    Mode,
    PlanRequest,
    ProposalRefused,
    RequestTargetNotFound,
)
from offsetwatch.remedy.service import RemediationService, ServiceCallbacks
from offsetwatch.serve.control.listener_thread import ControlServer
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.state.snapshot import Snapshot


class ControlService:
    """Control listener of the current configuration; `wake` checks an alert's connector soon."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        put: Callable[[Observation], object],
        folder: Path,
        clock: UnixClock,
        wake: Callable[[AlertHint], None],
        replicas: DaemonReplica | None = None,
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
        """Listen as this configuration says from now on.

        Raises ConfigError, and TargetUnreachable if the address cannot be used.
        """
        before, self._config = self._config, config
        control, server = config.control, self._server
        same = before is not None and _select_restart_settings(config) == _select_restart_settings(
            before
        )
        if same and control is not None and server is not None:
            server.follow(control)
            return
        self.stop()
        if config.control is None:
            return
        wishes = ControlRequestPlanner(config, self._snapshot, self._folder, self._clock)
        remediation_service = RemediationService(
            self._folder,
            ServiceCallbacks(plan_for=wishes.plan_for, wake=self._wake, inventory=self._inventory),
            self._clock,
            mode=Mode(config.remedy.mode),
            second_person=config.remedy.second_person,
            cool_down_s=config.remedy.cool_down_s,
            publish=None if config.remedy.journal is None else self._publish,
        )
        server = ControlServer(
            config.control,
            remediation_service,
            self._clock,
            snapshot=self._snapshot,
            report=self._put,
            at_end=remediation_service.close,
            why_not=lambda: None if self._replicas is None else self._replicas.why_not(),
        )
        server.start()
        self._server = server

    def _publish(self, lines: Sequence[ChainLine]) -> None:
        replica = None if self._replicas is None else self._replicas.now
        if replica is None:
            raise NotLeader("this daemon is stopping: nothing was done")
        replica.publish(lines)

    @property
    def web_file(self) -> WebConfigStatus | None:
        """Return the status of the listener's web config file; None without one. Thread-safe."""
        server = self._server
        return None if server is None else server.web_file

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop()
        self._server = None

    def _inventory(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (connector.connect_cluster, connector.name) for connector in self._snapshot().connectors
        )


class ControlRequestPlanner:
    """Planner of requests, in the thread that calls it."""

    def __init__(
        self, config: Config, snapshot: Callable[[], Snapshot], folder: Path, clock: UnixClock
    ) -> None:
        self._config = config
        self._snapshot = snapshot
        self._folder = folder
        self._clock = clock

    def plan_for(
        self, request: PlanRequest, by: str
    ) -> RequestedPlan | ProposalRefused | RequestTargetNotFound:
        """Plan a request, as ServiceCallbacks requires.

        Connections are made for each request, because requests are rare.
        """
        with open_remediation_parts(
            self._config, self._snapshot, self._folder, self._clock, pause=lambda _: None
        ) as parts:
            return parts.planner.for_person(request, by)


def _select_restart_settings(config: Config) -> tuple[object, ...]:
    listen = None if config.control is None else config.control.listen
    return (listen, config.remedy, config.connect, config.kafka)
