"""Side effects of the daemon: notifications, replicas, remediation and the control listener.

A first answer on /metrics needs none of them: run.py imports this module, and with it the clients
that change clusters, once the inputs have been started.
"""

from __future__ import annotations

from collections.abc import Callable

from offsetwatch.clock import UnixClock
from offsetwatch.config import Config
from offsetwatch.daemon.control import ControlService
from offsetwatch.daemon.notifications import NotificationThread
from offsetwatch.daemon.remediation import Remediation
from offsetwatch.daemon.replicas import DaemonReplica
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.model.observations import Observation
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.state.snapshot import Snapshot


class SideEffects:
    """Side effects in the order in which they depend on each other: `follow`, then `stop`."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        tell: Callable[[Observation], None],
        state: StateDir,
        clock: UnixClock,
    ) -> None:
        replicas = DaemonReplica(tell, state.folder, clock)
        self._replicas = replicas
        self._notices = NotificationThread(snapshot, tell, state, clock)
        self._remediation = Remediation(snapshot, tell, state.folder, clock, lambda: replicas.now)
        self._control = ControlService(
            snapshot, tell, state.folder, clock, self._remediation.wake, replicas
        )

    def follow(self, config: Config) -> None:
        """Start with this configuration, or switch to it."""
        for part in (self._notices, self._replicas, self._remediation, self._control):
            part.follow(config)

    @property
    def web_file(self) -> WebConfigStatus | None:
        """Return the status of the control listener's web config file; None without one."""
        return self._control.web_file

    def stop(self) -> None:
        """Stop notifications and actions; a current plan is brought to a safe point."""
        for part in (self._control, self._remediation, self._replicas, self._notices):
            part.stop()
