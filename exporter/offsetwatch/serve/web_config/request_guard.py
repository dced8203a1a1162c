"""The request guard of the read listener, which applies its web config file to each request.

It checks certificate and password before anything else, and adds headers to the answer. All paths
are alike, /-/healthy included, as in every exporter with such a file.
"""

from __future__ import annotations

from collections import Counter

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from offsetwatch.clock import UnixClock
from offsetwatch.serve.web_config.passwords import (
    CHALLENGE,
    AuthFailureCounter,
    PasswordChecker,
    PasswordRejection,
)
from offsetwatch.serve.web_config.reloader import WebConfigReloader, is_certificate_allowed

log = structlog.get_logger()


class RequestGuard:
    """Guard of the requests to one aiohttp application. For one loop.

    `refused` counts refused requests by reason.
    """

    def __init__(self, current: WebConfigReloader, clock: UnixClock, refused: Counter[str]) -> None:
        self._current = current
        self._clock = clock
        self._passwords = PasswordChecker(AuthFailureCounter(), "read-listener")
        self._refused = refused

    def on(self, app: web.Application) -> None:
        """Install the guard in an application, before all handlers and on all responses."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.insert(0, guarded)
        app.on_response_prepare.append(self._add_headers)

    def end(self) -> None:
        """Shut down the thread that checks passwords."""
        self._passwords.end()

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        web_config = self._current.get().web
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        # Of a connection that was let in, too: who is let in may have changed since.
        if not is_certificate_allowed(certificate, web_config):
            self._refused["certificate"] += 1
            if transport is not None:
                transport.abort()
            return web.Response(status=403)  # it is never sent
        if not web_config.basic_auth_users:
            return await handler(request)
        # No header is used, as a client can forge it.
        peer = None if transport is None else transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        user = await self._passwords.authenticate(
            request.headers.getall("Authorization", []),
            web_config.basic_auth_users,
            address,
            self._clock.now(),
        )
        if not isinstance(user, PasswordRejection):
            return await handler(request)
        return self._refuse(user, address)

    def _refuse(self, why: PasswordRejection, address: str) -> web.Response:
        if why is PasswordRejection.THROTTLED:
            self._refused["throttled"] += 1
            text = "too many wrong passwords\n"
            return web.Response(status=429, text=text, headers={"Retry-After": "60"})
        self._refused["unauthorised"] += 1
        # No browser knows before the first answer that it has to ask for a password.
        if why is PasswordRejection.WRONG:
            log.warning("read_unauthorised", address=address)
        return web.Response(status=401, text="unauthorised\n", headers=dict([CHALLENGE]))

    async def _add_headers(self, _: web.Request, response: web.StreamResponse) -> None:
        for name, value in self._current.get().web.headers:
            response.headers[name] = value
