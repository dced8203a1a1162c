"""The thread of the control listener: it accepts, counts and bounds its connections.

The daemon starts it if the configuration has a section `control`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from offsetwatch.clock import UnixClock
from offsetwatch.config import Control
from offsetwatch.model.observations import ControlRequestsCounted
from offsetwatch.remedy.service import RemediationService
from offsetwatch.serve.control.connection import ControlConnectionBounds, ControlHttpServer
from offsetwatch.serve.control.dispatcher import (
    ControlDispatcher,
    ControlRequestCounters,
    ControlWorkers,
)
from offsetwatch.serve.http.listener import STOP_S_MAX, AcceptLoop, ListenerThread
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.serve.web_config.reloader import WebConfigReloader
from offsetwatch.state.snapshot import Snapshot

REPORT_INTERVAL_S: Final = 1.0

log = structlog.get_logger()


class ControlServer:
    """Server of the control listener, in a thread of its own.

    Raises ConfigError if its web config file cannot be used.

    remediation_api   the API to call, from the threads of ControlWorkers
    snapshot          returns the newest snapshot
    report            receives the counters, for the snapshot; it may drop them
    at_end            called last by each thread of ControlWorkers
    why_not           returns why nothing can be changed here, and which replica to ask; or None
    """

    def __init__(
        self,
        control: Control,
        remediation_api: RemediationService,
        clock: UnixClock,
        *,
        snapshot: Callable[[], Snapshot],
        report: Callable[[ControlRequestsCounted], object],
        at_end: Callable[[], None] = lambda: None,
        why_not: Callable[[], str | None] = lambda: None,
        bounds: ControlConnectionBounds = ControlConnectionBounds(),  # noqa: B008 - frozen
    ) -> None:
        self._bounds = bounds
        self._at_end = at_end
        self._snapshot = snapshot
        self._report = report
        self._counts = ControlRequestCounters()
        self._workers = ControlWorkers()
        self._web_config = _open_web_config(control)
        self._listener = ControlDispatcher(
            control,
            remediation_api,
            clock,
            self._counts,
            self._workers,
            # follow() may replace it.
            web=lambda: None if self._web_config is None else self._web_config.get().web,
            why_not=why_not,
        )
        self._listening = ListenerThread("control-listener", control.listen, self._serve)

    def start(self) -> None:
        """Start listening, once. Raises TargetUnreachable if the address cannot be bound."""
        self._listening.start()

    def stop(self) -> None:
        """Let the requests in flight end, for at most STOP_S_MAX seconds, and close. Idempotent."""
        self._listening.stop()
        self._workers.end(self._at_end)
        self._listener.end()

    def follow(self, control: Control) -> None:
        """Use the principals and web config file of this configuration from the next request on.

        Any thread. The address stays. Raises ConfigError, and then changes nothing.
        """
        old = self._web_config
        # At the same path the reloader stays, with all that it refuses.
        if old is None or control.web_config_file != old.path:
            self._web_config = _open_web_config(control)
        self._listener.follow(control)

    @property
    def web_file(self) -> WebConfigStatus | None:
        """Return the status of its web config file; None without one. Any thread."""
        return None if self._web_config is None else self._web_config.status

    @property
    def port(self) -> int:
        """Return the bound port; 0 before start()."""
        return self._listening.port

    async def _serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        server = ControlHttpServer(
            self._listener.answer, self._bounds, headers=self._listener.headers
        )
        reporting = asyncio.create_task(self._report_counts(stopping))
        self._accepting = AcceptLoop(
            listener,
            lambda connection: self._take(connection, server),
            full=lambda taken: taken >= self._bounds.connections_max,
            refused=lambda: self._counts.refused.update(("overload",)),
            failed=lambda reason: log.warning("control_accept_failed", reason=reason),
        )
        self._accepting.begin()
        try:
            await stopping.wait()
        finally:
            self._accepting.end()
            server.pre_shutdown()  # who has not asked yet need not be waited for
            await server.shutdown(STOP_S_MAX)
            await self._accepting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)

    async def _take(self, connection: socket.socket, server: ControlHttpServer) -> bool:
        """Serve one connection until it is closed."""
        created = server()
        tls = None if self._web_config is None else self._web_config.get().context
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: created,
                connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._bounds.handshake_s,
            )
            await created.closed
        except (OSError, TimeoutError):  # a certificate that is not trusted among them
            self._counts.refused["handshake"] += 1
        finally:
            await created.cut()
        return False

    async def _report_counts(self, stopping: asyncio.Event) -> None:
        """Report the counters until the snapshot has them, as a report may be dropped."""
        while not stopping.is_set():
            counts, snapshot = self._counts.current(), self._snapshot()
            if (snapshot.hooks_received, snapshot.control_refused) != (
                counts.hooks,
                counts.refused,
            ):
                self._report(counts)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), REPORT_INTERVAL_S)


def _open_web_config(control: Control) -> WebConfigReloader | None:
    path = control.web_config_file
    return None if path is None else WebConfigReloader(path, "control")
