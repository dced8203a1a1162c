"""Side effects of the daemon: notifications, replicas, remediation and the control listener.

A first answer on /metrics needs none of them: run.py imports this module, and with it the clients
that change clusters, once the inputs have been started. They are no part of the ClusterMonitor:
during a reload there are two of those, and nothing must be done twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from offsetwatch.addresses import format_address
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, JudgeConfig, NotifyConfig
from offsetwatch.config.schema import web
from offsetwatch.daemon.remediation import DaemonReplica, Remediation, plan_for_person
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.daemon.supervisor import start_supervised_thread
from offsetwatch.errors import NotLeader
from offsetwatch.judge.settings import INTERVALS_OF_EVIDENCE
from offsetwatch.model.observations import NotificationsFailed, Observation
from offsetwatch.notify.notifier import Notifier
from offsetwatch.notify.receivers import build_receivers
from offsetwatch.remedy.journal.journal import ChainLine
from offsetwatch.remedy.model.service_api import AlertHint, Mode
from offsetwatch.remedy.service import RemediationService, ServiceCallbacks
from offsetwatch.serve.control.listener_thread import ControlServer
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.state.snapshot import Snapshot

STATE_NAME: Final = "notify"
STOP_S: Final = 5.0  # and as long as one delivery may take


def resolve_external_url(config: Config) -> str | None:
    """Return the URL of the status page: the configured one, or the listener's own address.

    None if the listener listens on every address of this host.
    """
    if config.notify.external_url is not None:
        return config.notify.external_url
    host, _, port = config.listen.rpartition(":")
    if host.strip("[]") in {"", "0.0.0.0", "*", "::"}:  # noqa: S104 - compared only
        return None
    file = config.web_config_file
    tls = file is not None and web.load_web_config(file).tls_server_config is not None
    return f"http{'s' if tls else ''}://{format_address(host, port)}/"


class NotificationThread:
    """Notification thread of the current configuration.

    `snapshot` returns the newest snapshot, `put` hands an observation to the loop.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        put: Callable[[Observation], object],
        state: StateDir,
        clock: UnixClock,
    ) -> None:
        self._snapshot = snapshot
        self._put = put
        self._state = state
        self._clock = clock
        self._settings: tuple[NotifyConfig, JudgeConfig, str | None] | None = None
        self._notifier: Notifier | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def follow(self, config: Config) -> None:
        """Notify the receivers of this configuration from now on."""
        settings = (config.notify, config.judge, resolve_external_url(config))
        if settings == self._settings:
            return
        self.stop()
        self._settings = settings
        failed = {} if self._notifier is None else self._notifier.failed
        self._notifier = self._build(config, failed)
        if self._notifier is not None:
            self._start(self._notifier)

    def stop(self) -> None:
        """Stop notifications once current deliveries have ended."""
        self._stop.set()
        if self._thread is not None and self._settings is not None:
            self._thread.join(self._settings[0].timeout_s + STOP_S)
        self._thread = None

    def _build(self, config: Config, failed: Mapping[str, int]) -> Notifier | None:
        settle_s = INTERVALS_OF_EVIDENCE * config.judge.interval_s
        named = build_receivers(config.notify, settle_s, resolve_external_url(config))
        if not named:
            return None
        notifier = Notifier(
            named,
            snapshot=self._snapshot,
            save=lambda document: self._state.save(STATE_NAME, document),
            report=lambda counts: self._put(NotificationsFailed(counts)),
            clock=self._clock,
            failed=failed,
        )
        self._state.recall(STATE_NAME, notifier.restore)
        return notifier

    def _start(self, notifier: Notifier) -> None:
        self._stop = threading.Event()
        stopped = self._stop
        self._thread = start_supervised_thread(
            STATE_NAME, lambda: notifier.run(stopped.wait), stopped
        )


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
        plan_for = partial(plan_for_person, config, self._snapshot, self._folder, self._clock)
        service = RemediationService(
            self._folder,
            ServiceCallbacks(plan_for=plan_for, wake=self._wake, inventory=self._inventory),
            self._clock,
            mode=Mode(config.remedy.mode),
            second_person=config.remedy.second_person,
            cool_down_s=config.remedy.cool_down_s,
            publish=None if config.remedy.journal is None else self._publish,
        )
        server = ControlServer(
            config.control,
            service,
            self._clock,
            snapshot=self._snapshot,
            report=self._put,
            at_end=service.close,
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


def _select_restart_settings(config: Config) -> tuple[object, ...]:
    listen = None if config.control is None else config.control.listen
    return (listen, config.remedy, config.connect, config.kafka)


class SideEffects:
    """Side effects in the order in which they depend on each other: `follow`, then `stop`."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        report: Callable[[Observation], None],
        state: StateDir,
        clock: UnixClock,
    ) -> None:
        replicas = DaemonReplica(report, state.folder, clock)
        self._replicas = replicas
        self._notices = NotificationThread(snapshot, report, state, clock)
        self._remediation = Remediation(snapshot, report, state.folder, clock, lambda: replicas.now)
        self._control = ControlService(
            snapshot, report, state.folder, clock, self._remediation.wake, replicas
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
