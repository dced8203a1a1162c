"""The read listener: /metrics, health, the JSON API and the status page, in its own thread.

The daemon starts it. A request is answered from the newest snapshot alone: no network, no lock, no
waiting for the main loop. It keeps answering while every input is down, when it is needed most.
"""

from __future__ import annotations

import asyncio
import platform
import socket
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from offsetwatch import __version__
from offsetwatch.clock import SteadyClock
from offsetwatch.documents import CLUSTERS_HEADER, FILE_HEADER
from offsetwatch.errors import ConfigError
from offsetwatch.model.observations import describe_input
from offsetwatch.serve.documents import api, explain, findings, openapi, overview, status, trends
from offsetwatch.serve.documents.types import UNKNOWN_DOCUMENT
from offsetwatch.serve.http import page_files
from offsetwatch.serve.http.listener import (
    STOP_S_MAX,
    AcceptLoop,
    ListenerThread,
    ReadConnection,
    add_deadlines,
)
from offsetwatch.serve.metrics.exposition import (
    Exposition,
    RenderCache,
    TooManyRenders,
    choose_format,
    is_gzip_accepted,
    merge_small_parts,
)
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus
from offsetwatch.serve.web_config.reloader import WebConfigReloader
from offsetwatch.serve.web_config.request_guard import RequestGuard
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot

CONNECTIONS_MAX: Final = 256  # at once; the daemon needs file descriptors for Kafka, too
HANDSHAKE_S: Final = 5.0  # for TLS
SNAPSHOT_POLL_S: Final = 0.02  # for a fresh snapshot, until there is one
SNAPSHOT_POLLS_MAX: Final = 100
_API: Final = openapi.PREFIX
GZIP_LEVEL = 1  # level 9 costs six times the processor for 15 % less
_GZIP_WBITS: Final = 31  # zlib's largest window, and gzip's header around it

BUILD: Final = BuildInfo(version=__version__, revision="unknown", python=platform.python_version())

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LoopHeartbeat:
    """Heartbeat of the daemon's main loop, for any thread.

    alive   checks whether the loop still runs
    fresh   checks whether the newest snapshot is current; if not, a request waits for one, for at
            most SNAPSHOT_POLLS_MAX times SNAPSHOT_POLL_S
    """

    alive: Callable[[], bool]
    fresh: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts of the configuration that the status page shows, and commands compare.

    options      options by which a command on this host finds this daemon: `--config FILE`
    boards_url   returns the current address of the Grafana boards, or None
    clusters     returns hashes of the current configuration's clusters (config/identity.py)
    file_stamp   returns the stamp of the file that the current configuration was read from
    """

    options: str = ""
    boards_url: Callable[[], str | None] = lambda: None
    clusters: Callable[[], str] = lambda: ""
    file_stamp: Callable[[], str] = lambda: ""


_NO_FACTS: Final = PageFacts()
_NOTHING_READ: Final = "nothing has been read yet\n"


class ReadServer:
    """Server of the read listener, in a thread of its own.

    `listen` is `host:port`; an empty host means every address, port 0 any free one. Raises
    ConfigError if `web_config` cannot be used.

    snapshot   returns the newest snapshot at once, from any thread
    heartbeat  heartbeat of the daemon's main loop
    reload     requests a reload of the configuration; its result is the mistakes found
    reloaded   returns the outcome of the last reload
    page_facts what the status page shows beside the snapshot
    web_config file with TLS, passwords and headers, read again when it changes
    """

    def __init__(
        self,
        listen: str,
        snapshot: Callable[[], Snapshot],
        heartbeat: LoopHeartbeat,
        *,
        reload: Callable[[], Future[tuple[str, ...]]],
        reloaded: Callable[[], ConfigReloadStatus],
        build: BuildInfo = BUILD,
        page_facts: PageFacts = _NO_FACTS,
        web_config: Path | None = None,
    ) -> None:
        self._listening = ListenerThread("read-listener", listen, self._serve)
        self._snapshot = snapshot
        self._alive = heartbeat.alive
        self._fresh = heartbeat.fresh
        self._request_reload = reload
        self._version = build.version
        self._page_facts = page_facts
        self._page_file, self._assets = page_files.load_assets(build.version)
        self._refused: Counter[str] = Counter()
        self._web = None if web_config is None else WebConfigReloader(web_config, "read")
        self._guard = None
        if self._web is not None:
            self._guard = RequestGuard(self._web, SteadyClock(), self._refused)
        self._reloaded = reloaded
        self._exposition = Exposition(build, self._reload_status)
        self._renders = RenderCache()

    def start(self) -> None:
        """Start listening, once; connections queue from here on.

        Raises TargetUnreachable if the address cannot be bound.
        """
        self._listening.start()

    def stop(self) -> None:
        """Let the requests in flight end, for at most STOP_S_MAX seconds, and close. Idempotent."""
        self._listening.stop()

    @property
    def failed(self) -> bool:
        """Return True if the thread ended without stop()."""
        return self._listening.failed

    @property
    def port(self) -> int:
        """Return the bound port; 0 before start()."""
        return self._listening.port

    def _reload_status(self) -> ConfigReloadStatus:
        """Return the outcome of the last reload, with that of this listener's web config file."""
        last = self._reloaded()
        web = last.web if self._web is None else (self._web.status, *last.web)
        return replace(last, web=web, refused=tuple(sorted(self._refused.items())))

    async def _serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        # One worker: the encoder's cache has one user, and a second would only fight for the
        # interpreter lock.
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-listener-render")
        asyncio.get_running_loop().set_default_executor(worker)
        runner = web.AppRunner(self._app(), shutdown_timeout=STOP_S_MAX)
        await runner.setup()
        server = runner.server
        assert server is not None  # it was set up
        accepting = AcceptLoop(
            listener,
            lambda connection: self._take(connection, server),
            full=lambda taken: taken + len(server.connections) >= CONNECTIONS_MAX,
            refused=lambda: self._refused.update(("overload",)),
            failed=lambda reason: log.warning("read_accept_failed", reason=reason),
        )
        accepting.begin()
        try:
            await stopping.wait()
        finally:
            accepting.end()
            await accepting.cancel()
            await runner.cleanup()
            if self._guard is not None:
                self._guard.end()

    async def _take(self, connection: socket.socket, server: web.Server) -> bool:
        """Pass a connection to aiohttp; return False if its handshake failed."""
        tls = None if self._web is None else self._web.get().context
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ReadConnection(server),
                connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
            )
        except (OSError, TimeoutError):  # a certificate that is not trusted among them
            self._refused["handshake"] += 1
            return False
        return True

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[_answer_errors])
        documents = (
            ("/", self._page),
            ("/metrics", self._of_now(self._metrics)),
            ("/-/healthy", self._healthy),
            ("/-/ready", self._ready),
            ("/api/v1/connectors", self._filtered("connectors", api.encode_connectors)),
            ("/api/v1/flows", self._filtered("flows", api.encode_flows)),
            ("/api/v1/findings", self._document("findings", findings.encode_findings)),
            ("/api/v1/status", self._document("status", status.encode_status)),
            ("/api/v1/explain", self._of_now(self._explain)),
            ("/api/v1/overview", self._of_now(self._overview)),
            (
                "/api/v1/trends",
                self._document("trends", trends.encode_trends, trends.compute_version),
            ),
            (openapi.DOCUMENT_PATH, self._openapi),
        )
        index = tuple(path for path, _ in documents if path.startswith(_API))

        async def answer_index(_: web.Request) -> web.Response:
            return _build_json_response(200, {"documents": index})

        for path, handler in (
            *documents,
            (_API, answer_index),
            ("/static/{name}", self._static),
        ):
            app.router.add_get(path, handler)
        app.router.add_post("/-/reload", self._reload)
        if self._guard is not None:
            self._guard.on(app)
        add_deadlines(app)
        return app

    async def _page(self, request: web.Request) -> web.Response:
        return _build_asset_response(request, self._page_file)

    async def _static(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        return _build_asset_response(request, asset)

    async def _healthy(self, _: web.Request) -> web.Response:
        if self._alive():
            return web.Response(text="healthy\n")
        return web.Response(status=503, text="the main loop hangs\n")

    async def _ready(self, _: web.Request) -> web.Response:
        snapshot = self._snapshot()
        if snapshot.ready:
            return web.Response(text="ready\n")
        if snapshot is EMPTY_SNAPSHOT:
            return web.Response(status=503, text=_NOTHING_READ)
        lines = map(_describe_waiting, snapshot.waiting_for)
        return web.Response(status=503, text="".join(f"{line}\n" for line in lines))

    async def _reload(self, request: web.Request) -> web.Response:
        """Reload the configuration; answer once it is in use, or with its mistakes."""
        if "Origin" in request.headers:  # any web page may have a browser post to anybody
            return web.Response(status=403, text="not for web pages\n")
        mistakes = await asyncio.wrap_future(self._request_reload())
        if mistakes:
            return web.Response(status=400, text="".join(f"{line}\n" for line in mistakes))
        return web.Response(text="reloaded\n")

    def _of_now(self, handler: Handler) -> Handler:
        """Wrap a handler so that it waits for a current snapshot.

        A process that was stopped and continues (SIGSTOP, a paused container, a machine moved to
        another host) has requests to answer before its first tick. An old snapshot would be taken
        for the current state.
        """

        async def answer(request: web.Request) -> web.StreamResponse:
            for _ in range(SNAPSHOT_POLLS_MAX):
                if self._fresh():
                    break
                await asyncio.sleep(SNAPSHOT_POLL_S)
            return await handler(request)

        return answer

    async def _metrics(self, request: web.Request) -> web.Response:
        snapshot = self._snapshot()
        choice = choose_format(_join_header(request, "Accept"))
        names = frozenset(request.query.getall("name[]", ()))
        return await self._rendered(
            request,
            snapshot=snapshot,
            form=(choice.format, names),
            make=lambda: self._exposition.parts(snapshot, choice.format, names),
            content_type=choice.content_type,
        )

    def _filtered(
        self, name: str, encode: Callable[[Snapshot, api.ConnectorFilter], bytes]
    ) -> Handler:
        """Return the handler of a document that a request may restrict to some connectors."""

        async def answer(request: web.Request) -> web.Response:
            only = _parse_filter(request)
            return await self._json(request, (name, only), lambda snapshot: encode(snapshot, only))

        return self._of_now(answer)

    def _document(
        self,
        name: str,
        encode: Callable[[Snapshot], bytes],
        version: Callable[[Snapshot], str] | None = None,
    ) -> Handler:
        """Return the handler of a document without parameters."""

        async def answer(request: web.Request) -> web.Response:
            return await self._json(request, name, encode, version=version)

        return self._of_now(answer)

    async def _explain(self, request: web.Request) -> web.Response:
        """Answer for one connector: `?connector=NAME`.

        `connect_cluster=NAME` is needed if several Connect clusters have one of this name.
        """
        only = _parse_filter(request)
        if only.connector is None:
            return web.Response(status=400, text="connector is missing\n")
        name, cluster = only.connector, only.connect_cluster
        snapshot = self._snapshot()
        try:
            explain.find_connector(snapshot, name, cluster)
        except ConfigError as exc:
            return web.Response(status=404, text="".join(f"{line}\n" for line in exc.mistakes))
        return await self._json(
            request,
            ("explain", only),
            lambda snapshot: explain.encode_explain(snapshot, name, cluster),
        )

    async def _overview(self, request: web.Request) -> web.Response:
        alive, boards_url = self._alive(), self._page_facts.boards_url()
        return await self._json(
            request,
            ("overview", alive, boards_url),
            lambda snapshot: overview.encode_overview(
                snapshot,
                version=self._version,
                alive=alive,
                options=self._page_facts.options,
                boards_url=boards_url,
            ),
        )

    async def _openapi(self, _: web.Request) -> web.Response:
        headers = {"Cache-Control": "no-cache"}
        body = openapi.encode_document()
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _json(
        self,
        request: web.Request,
        form: Hashable,
        document: Callable[[Snapshot], bytes],
        *,
        version: Callable[[Snapshot], str] | None = None,
    ) -> web.Response:
        """Answer with a JSON document of the newest snapshot.

        `version` returns a text that changes with the document, for the ETag of one that seldom
        changes.
        """
        snapshot = self._snapshot()
        if snapshot is EMPTY_SNAPSHOT:  # it would look like one in which nothing exists
            return web.Response(status=503, text=_NOTHING_READ)
        headers = {"Cache-Control": "no-cache"}
        if clusters := self._page_facts.clusters():
            headers[CLUSTERS_HEADER] = clusters
        if file_stamp := self._page_facts.file_stamp():
            headers[FILE_HEADER] = file_stamp
        if version is not None:
            headers["ETag"] = f'W/"{version(snapshot)}"'  # weak: it may be sent compressed
            if _has_etag(request, headers["ETag"]):
                return web.Response(status=304, headers=headers)
        answer = await self._rendered(
            request,
            snapshot=snapshot,
            form=form,
            make=lambda: (document(snapshot),),
            content_type="application/json",
        )
        answer.headers.update(headers)
        return answer

    async def _rendered(
        self,
        request: web.Request,
        *,
        snapshot: Snapshot,
        form: Hashable,
        make: Callable[[], Iterable[bytes]],
        content_type: str,
    ) -> web.Response:
        """Answer with a body made outside the loop, once for all simultaneous requests for it."""
        headers = {"Vary": "Accept, Accept-Encoding"}
        zipped = is_gzip_accepted(_join_header(request, "Accept-Encoding"))
        if zipped:
            headers["Content-Encoding"] = "gzip"
        try:
            body = await self._renders.body(
                snapshot,
                (form, zipped),
                lambda: tuple(merge_small_parts(_compress_parts(make()) if zipped else make())),
            )
        except TooManyRenders:
            self._refused["overload"] += 1
            raise
        return web.Response(body=self._renders.answer(body, content_type), headers=headers)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors without a stack trace, so that no bug ends the listener."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        if not f"{request.path}/".startswith(_API):
            raise
        return _build_json_response(404, {"error": "not_found", "message": UNKNOWN_DOCUMENT})
    except web.HTTPException:  # aiohttp's own 405
        raise
    except TooManyRenders:
        log.warning("request_refused", path=request.path, reason="too_many_renders")
        return web.Response(status=503, text="too many requests\n", headers={"Retry-After": "1"})
    except Exception:  # the outermost frame of a request: whatever it is, it ends here
        log.exception("request_failed", path=request.path)
        return web.Response(status=500, text="internal error\n")


def _build_json_response(status: int, document: dict[str, Any]) -> web.Response:
    body = msgspec.json.encode(document) + b"\n"
    headers = {"Cache-Control": "no-cache"}
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def _join_header(request: web.Request, name: str) -> str:
    """Join the values of a header that may be repeated and then means one list."""
    return ",".join(request.headers.getall(name, ()))


def _parse_filter(request: web.Request) -> api.ConnectorFilter:
    """Return the filter of a request: all connectors, unless it names one."""
    return api.ConnectorFilter(request.query.get("connect_cluster"), request.query.get("connector"))


def _has_etag(request: web.Request, etag: str) -> bool:
    """Check whether the client already has this version."""
    known = (tag.strip() for tag in _join_header(request, "If-None-Match").split(","))
    return etag.removeprefix("W/") in {tag.removeprefix("W/") for tag in known}


def _build_asset_response(request: web.Request, asset: page_files.Asset) -> web.Response:
    headers = {**page_files.HEADERS, "ETag": asset.etag}
    if _has_etag(request, asset.etag):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = asset.content_type
    return web.Response(body=asset.body, headers=headers)


def _compress_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the gzip stream part by part, never all at once."""
    writer = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WBITS)
    yield from map(writer.compress, parts)
    yield writer.flush()


def _describe_waiting(line: str) -> str:
    """Return a line of `waiting_for` (state/readiness.py) with its input in words."""
    name, waiting, what = line.partition(": waiting for ")
    kind, _, name = name.partition(" ")
    return f"{describe_input(kind, name)}{waiting}{what}" if waiting else line
