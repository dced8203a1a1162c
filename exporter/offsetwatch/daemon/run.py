"""Daemon process: the HTTP listener, signals, and configuration reload without a restart.

A reload never shows a half-built state: the new inputs run beside the old ones and take over when
they have caught up. A wrong file changes nothing but one gauge.

ClusterMonitor and SideEffects are imported once the listener answers, which needs neither: they are
half of all code to load.
"""

from __future__ import annotations

import queue
import shlex
import signal
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import structlog

from offsetwatch import __version__, config
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.config import Config
from offsetwatch.config.identity import format_cluster_hashes
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.disk import hash_file_stamp
from offsetwatch.errors import ClientError, ConfigError
from offsetwatch.model.observations import Observation
from offsetwatch.serve.http.read_listener import LoopHeartbeat, PageFacts, ReadServer
from offsetwatch.serve.metrics.families import ConfigReloadStatus
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot

if TYPE_CHECKING:  # see the module
    from offsetwatch.daemon.monitor import ClusterMonitor
    from offsetwatch.daemon.side_effects import SideEffects

EXIT_BUG = 70  # sysexits.h EX_SOFTWARE
# Then the new configuration counts, caught up or not: it is what was asked for.
TAKE_OVER_S_MAX = 60.0
RELOAD_POLL_S = 0.5

Mistakes = tuple[str, ...]

STOPPING_MISTAKES: Mistakes = ("offsetwatch is stopping",)

_log = structlog.get_logger()


class Daemon:
    """Daemon process from its first configuration to the signal that ends it."""

    def __init__(
        self, loaded: Config, path: Path, clock: UnixClock | None = None, *, file_stamp: str = ""
    ) -> None:
        """`file_stamp` is that of the file before it was read (disk.hash_file_stamp)."""
        self._config = loaded
        self._file_stamp = file_stamp
        self._path = path
        self._clock = clock if clock is not None else SystemClock()
        self._monitor: ClusterMonitor | None = None
        self._state: StateDir | None = None
        self._side_effects: SideEffects | None = None
        self._stop = threading.Event()
        self._reload_requests: queue.SimpleQueue[Future[Mistakes] | None] = queue.SimpleQueue()
        self._reloaded = ConfigReloadStatus(successful=True, at=self._clock.now())
        self._server = ReadServer(
            loaded.listen,
            snapshot=lambda: self.snapshot,
            heartbeat=LoopHeartbeat(self.alive, self.fresh),
            reload=self.reload,
            reloaded=self._last_reload,
            # Links stay: what a mounted Secret leads to is gone when the Secret changes.
            page_facts=PageFacts(
                options=f"--config {shlex.quote(str(path.absolute()))}",
                boards_url=lambda: self._config.notify.boards_url,
                clusters=lambda: format_cluster_hashes(self._config),
                file_stamp=lambda: self._file_stamp,
            ),
            web_config=loaded.web_config_file,
        )

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; a second signal ends it at once. SIGHUP reloads.

        Call it in the main thread, as signals require.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, lambda *_: self._reload_requests.put(None))
        return self.serve()

    def serve(self) -> int:
        """Serve until `stop`; return an exit code.

        Raises ConfigError if the state_dir cannot be used, ClientError if librdkafka refuses a
        property.
        """
        state = self._state = StateDir(Path(self._config.state_dir))
        try:
            self._server.start()
            return self._run_parts(state)
        finally:
            self._server.stop()
            state.close()

    def _run_parts(self, state: StateDir) -> int:
        monitor = _build_monitor(self._config)
        monitor.recall_with(state.recall)
        monitor.save_with(state.save)
        monitor.start()
        self._monitor = monitor
        from offsetwatch.daemon.side_effects import SideEffects  # noqa: PLC0415 - see the module

        self._side_effects = SideEffects(lambda: self.snapshot, self._report, state, self._clock)
        self._side_effects.follow(self._config)
        _log.info("started", version=__version__, listen=self._config.listen)
        while not self._stop.is_set() and not self._broken:
            self._answer_next()
        _log.info("stopping")
        self.stop()
        self._side_effects.stop()
        self._monitor.stop()
        return EXIT_BUG if self._broken else 0

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot of the current inputs."""
        return EMPTY_SNAPSHOT if self._monitor is None else self._monitor.snapshot

    def _report(self, observation: Observation) -> None:
        if self._monitor is not None:
            self._monitor.report(observation)

    @property
    def _broken(self) -> bool:
        """Return True if the loop or the listener died of a bug. Nothing else ends the process."""
        return self._server.failed or (self._monitor is not None and self._monitor.failed)

    def stop(self) -> None:
        """Stop serving soon, and answer callers that wait for a reload. Thread-safe."""
        self._stop.set()
        self._refuse_reloads()

    def alive(self) -> bool:
        """Check whether the current inputs run; True before there are any."""
        return self._monitor is None or self._monitor.alive()

    def fresh(self) -> bool:
        """Check whether the newest snapshot is from the last few ticks."""
        return self._monitor is None or self._monitor.fresh()

    def reload(self) -> Future[Mistakes]:
        """Request a reload of the file; the Future returns its mistakes. Thread-safe."""
        future: Future[Mistakes] = Future()
        self._reload_requests.put(future)
        if self._stop.is_set():  # then it is never taken out again
            self._refuse_reloads()
        return future

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        if self._stop.is_set():
            raise SystemExit(128 + number)
        self._stop.set()

    def _answer_next(self) -> None:
        try:
            future = self._reload_requests.get(timeout=RELOAD_POLL_S)
        except queue.Empty:
            return
        if self._stop.is_set():
            _resolve_reload(future, STOPPING_MISTAKES)
            return
        mistakes = self._reload()
        self._reloaded = ConfigReloadStatus(
            successful=not mistakes, at=self._reloaded.at if mistakes else self._clock.now()
        )
        _resolve_reload(future, mistakes)

    def _refuse_reloads(self) -> None:
        while True:
            try:
                _resolve_reload(self._reload_requests.get_nowait(), STOPPING_MISTAKES)
            except queue.Empty:
                return

    def _reload(self) -> Mistakes:
        try:
            file_stamp = hash_file_stamp(self._path)  # before it is read: it may change
            loaded = config.load(self._path)
            for name in ("listen", "web_config_file", "log", "state_dir"):
                if getattr(loaded, name) != getattr(self._config, name):
                    raise ConfigError((f"{self._path.name}: {name}: a change needs a restart",))
            if loaded != self._config:
                self._take_over(loaded)
            self._file_stamp = file_stamp
        except ConfigError as exc:
            _log.error("reload_failed", mistakes=exc.mistakes)
            return exc.mistakes
        except ClientError as exc:  # librdkafka refuses a property
            _log.error("reload_failed", mistakes=(str(exc),))
            return (str(exc),)
        except Exception as exc:  # noqa: BLE001 - a bug must not end what runs
            _log.exception("reload_failed")
            return (f"unexpected {type(exc).__name__}: see the log",)
        _log.info("reloaded")
        return ()

    def _last_reload(self) -> ConfigReloadStatus:
        """Return the result of the last reload, with that of the control listener's web file."""
        status = None if self._side_effects is None else self._side_effects.web_file
        return self._reloaded if status is None else replace(self._reloaded, web=(status,))

    def _take_over(self, loaded: Config) -> None:
        monitor = _build_monitor(loaded)
        if self._state is not None:  # what happens from here on, both of them see
            monitor.recall_with(self._state.recall)
        monitor.start()
        monitor.wait_until_ready(TAKE_OVER_S_MAX, give_up=self._stop.is_set)
        if monitor.failed:
            monitor.stop()
            raise ConfigError(("the loop of the new inputs died, see the log",))
        before = self._monitor
        assert before is not None  # nothing is reloaded before there are inputs
        self._monitor = monitor
        self._config = loaded
        before.save_with(None)
        if self._state is not None:
            monitor.save_with(self._state.save)
        if self._side_effects is not None:
            self._side_effects.follow(loaded)
        before.stop()


def _build_monitor(loaded: Config) -> ClusterMonitor:
    """Build the inputs of this configuration, not started."""
    from offsetwatch.daemon.monitor import ClusterMonitor  # noqa: PLC0415 - see the module

    return ClusterMonitor(loaded)


def _resolve_reload(future: Future[Mistakes] | None, mistakes: Mistakes) -> None:
    """Set the result of a reload; a signal waits for none, and a caller may have cancelled."""
    if future is not None and future.set_running_or_notify_cancel():
        future.set_result(mistakes)


def run(loaded: Config, path: Path, file_stamp: str) -> int:
    """Run the daemon; return its exit code."""
    return Daemon(loaded, path, file_stamp=file_stamp).run()
