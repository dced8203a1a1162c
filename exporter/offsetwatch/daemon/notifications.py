"""Notification thread of the daemon, and the state that it keeps between configurations.

It is no part of the ClusterMonitor: during a reload there are two of those, and nothing must be
notified twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from offsetwatch.addresses import format_address
from offsetwatch.clock import UnixClock
from offsetwatch.config import Config, JudgeConfig, NotifyConfig
from offsetwatch.config.schema import web
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.daemon.supervisor import start_supervised_thread
from offsetwatch.judge.settings import INTERVALS_OF_EVIDENCE
from offsetwatch.model.observations import NotificationsFailed, Observation
from offsetwatch.notify.notifier import Notifier
from offsetwatch.notify.receivers import build_receivers
from offsetwatch.state.snapshot import Snapshot

STATE_NAME: Final = "notify"
STOP_S: Final = 5.0  # and as long as one delivery may take

_log = structlog.get_logger()


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
        self._notifier = self._made(config, failed)
        if self._notifier is not None:
            self._start(self._notifier)

    def stop(self) -> None:
        """Stop notifications once current deliveries have ended."""
        self._stop.set()
        if self._thread is not None and self._settings is not None:
            self._thread.join(self._settings[0].timeout_s + STOP_S)
        self._thread = None

    def _made(self, config: Config, failed: Mapping[str, int]) -> Notifier | None:
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
        self._state.recall(STATE_NAME, notifier.recall)
        return notifier

    def _start(self, notifier: Notifier) -> None:
        self._stop = threading.Event()
        stopped = self._stop
        self._thread = start_supervised_thread(
            STATE_NAME, lambda: notifier.run(stopped.wait), stopped
        )
