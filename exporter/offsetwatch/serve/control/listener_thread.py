"""The control listener's thread: sockets are accepted, counted and bounded here.

The daemon starts it where the configuration has a section `control`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from offsetwatch.clock import UnixClock
from offsetwatch.config import Control, WebConfig
from offsetwatch.model.observations import ControlRequestsCounted
from offsetwatch.remedy.model.service_api import RemediationApi
from offsetwatch.serve.control.connection import ControlConnectionBounds, ControlHttpServer
from offsetwatch.serve.control.dispatcher import ControlDispatcher
from offsetwatch.serve.control.request_counters import ControlRequestCounters
from offsetwatch.serve.control.tls import ServerTls
from offsetwatch.serve.control.workers import ControlWorkers
from offsetwatch.serve.http.accept_loop import AcceptLoop
from offsetwatch.serve.http.listener_thread import STOP_S_MAX, ListenerThread
from offsetwatch.serve.metrics.families import WebConfigStatus
from offsetwatch.state.snapshot import Snapshot

REPORT_INTERVAL_S: Final = 1.0

log = structlog.get_logger()


class ControlServer:
    """See the package. Raises ConfigError where the files of TLS cannot be used.

    desk        who is asked; see there by which threads
    snapshot    the newest picture
    report      takes what was counted, for the picture; it may drop it
    at_end      called by each thread that asked the desk, when it asks no more
    why_not     why nothing can be changed here, and who may be asked; None where it can
    """

    def __init__(
        self,
        control: Control,
        remediation_api: RemediationApi,
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
        self._tls = ServerTls(control)
        self._listener = ControlDispatcher(
            control,
            remediation_api,
            clock,
            self._counts,
            self._workers,
            web=self._web,
            why_not=why_not,
        )
        self._listening = ListenerThread("control-listener", control.listen, self._serve)

    def start(self) -> None:
        """Listen, once. Raises TargetUnreachable without the address."""
        self._listening.start()

    def stop(self) -> None:
        """Let the requests in flight end, for at most STOP_S_MAX, and close. Safe to repeat."""
        self._listening.stop()
        self._workers.end(self._at_end)
        self._listener.end()

    def follow(self, control: Control) -> None:
        """Let in whom this configuration names, from the next request on; the address stays. Any
        thread. Raises ConfigError, and changes nothing then.
        """
        self._tls = self._tls.following(control)
        self._listener.follow(control)

    @property
    def web_file(self) -> WebConfigStatus | None:
        """How reading its web config file went; None without one. Any thread."""
        return self._tls.web_file

    @property
    def port(self) -> int:
        """The port that was bound; 0 before start()."""
        return self._listening.port

    async def _serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        server = ControlHttpServer(
            self._listener.answer, self._bounds, headers=self._listener.headers
        )
        telling = asyncio.create_task(self._tell(stopping))
        self._accepting = AcceptLoop(
            listener,
            lambda connection: self._take(connection, server),
            full=lambda taken: taken >= self._bounds.connections_max,
            refused=self._refused,
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
            await asyncio.gather(telling, return_exceptions=True)

    def _web(self) -> WebConfig | None:
        """The web config file of now, if there is one; which one it is may change."""
        return self._tls.web()

    def _refused(self) -> None:
        self._counts.refused["overload"] += 1

    async def _take(self, connection: socket.socket, server: ControlHttpServer) -> bool:
        """One connection to its end, whatever that is."""
        made = server()
        tls = self._tls.get()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: made,
                connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._bounds.handshake_s,
            )
            await made.closed
        except (OSError, TimeoutError):  # a certificate that is not trusted among them
            self._counts.refused["handshake"] += 1
        finally:
            await made.cut()
        return False

    async def _tell(self, stopping: asyncio.Event) -> None:
        """What was counted, until the picture has it: on its way there it may be dropped."""
        while not stopping.is_set():
            control_requests_counted = self._counts.seen()
            snapshot = self._snapshot()
            if (snapshot.hooks_received, snapshot.control_refused) != (
                control_requests_counted.hooks,
                control_requests_counted.refused,
            ):
                self._report(control_requests_counted)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), REPORT_INTERVAL_S)
