import gzip
import random
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import httpx
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from structlog.testing import capture_logs

from lab.http import NO_AUTHORITIES
from offsetwatch.errors import ConfigError, TargetUnreachable
from offsetwatch.serve.http.read_listener import LoopHeartbeat, ReadServer
from offsetwatch.serve.metrics.exposition import RENDERS_MAX
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot
from tests.changed import replace
from tests.unit.serve.worlds import BUILD, RELOADED, expected, full
from tests.waiting import DEADLINE_S, until

DOCUMENTS = ("/api/v1/connectors", "/api/v1/flows", "/api/v1/findings")
OF_THE_PAGE = ("/api/v1/overview", "/api/v1/trends")
OPENAPI = "/api/v1/openapi.json"
ROUTES = ("/", "/metrics", "/-/healthy", "/-/ready", *DOCUMENTS, *OF_THE_PAGE)


def free_port() -> int:
    """Below 32768, where no outgoing connection can take it between our look and our use."""
    for _ in range(200):
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    pytest.fail("no free port")


class World:
    """What a server is given: the snapshot of the moment, and whether the loop turns."""

    def __init__(self) -> None:
        self.now = full()
        self.alive = True
        self.fresh = True
        self.requests = 0
        self.mistakes: tuple[str, ...] = ()

    def snapshot(self) -> Snapshot:
        self.requests += 1
        return self.now

    def is_alive(self) -> bool:
        return self.alive

    def is_fresh(self) -> bool:
        return self.fresh

    def heartbeat(self) -> LoopHeartbeat:
        return LoopHeartbeat(self.is_alive, self.is_fresh)

    def reload(self) -> Future[tuple[str, ...]]:
        done: Future[tuple[str, ...]] = Future()
        done.set_result(self.mistakes)
        return done


RELOADING = {"reload": World.reload, "reloaded": lambda: RELOADED}


@contextmanager
def serving(world: World) -> Iterator[httpx.Client]:
    server = ReadServer(
        f"127.0.0.1:{free_port()}",
        world.snapshot,
        world.heartbeat(),
        build=BUILD,
        reload=world.reload,
        reloaded=lambda: RELOADED,
    )
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(
            base_url=url, timeout=DEADLINE_S, trust_env=False, verify=NO_AUTHORITIES
        ) as client:
            yield client
    finally:
        server.stop()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world):
    with serving(world) as client:
        yield client


def samples(text: str, parse=parse_text):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def expected_here(snapshot):
    """`expected`, with the Python that really runs, and nothing refused: it counts that itself."""
    python = "{}.{}.{}".format(*sys.version_info[:3])
    info = {"version": BUILD.version, "revision": BUILD.revision, "python": python}
    known = {"offsetwatch_build_info", "offsetwatch_read_refused_total"}
    results = {key: value for key, value in expected(snapshot).items() if key[0] not in known}
    return {**results, ("offsetwatch_build_info", frozenset(info.items())): 1.0}


def without_process(result):
    return {key: value for key, value in result.items() if not key[0].startswith("process_")}


# --- metrics --------------------------------------------------------------------------------------


def test_a_scrape_gets_the_snapshot_as_text(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert without_process(samples(answer.text)) == expected_here(full())


def test_a_scrape_gets_openmetrics_when_it_requests_it(client):
    accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*;q=0.1"
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == (
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
    )
    assert without_process(samples(answer.text, parse_openmetrics)) == expected_here(full())


def test_an_unknown_version_is_not_echoed(client):
    accept = "application/openmetrics-text;version=2.0.0"
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_two_accept_headers_count_as_one_list(client):
    headers = [
        ("Accept", "text/plain;version=0.0.4;q=0.1"),
        ("Accept", "application/openmetrics-text;version=1.0.0;q=0.2"),
    ]
    answer = client.get("/metrics", headers=headers)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")


@pytest.mark.parametrize("path", ["/metrics", *DOCUMENTS])
def test_gzip_is_sent_if_it_is_accepted_and_only_then(client, path):
    with client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["Content-Encoding"] == "gzip"
    plain = client.get(path, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in plain.headers
    assert len(raw) < len(plain.content)
    if path == "/metrics":
        zipped = samples(gzip.decompress(raw).decode())
        assert without_process(zipped) == without_process(samples(plain.text))
    else:
        assert gzip.decompress(raw) == plain.content
    assert plain.headers["Vary"] == answer.headers["Vary"] == "Accept, Accept-Encoding"


def test_name_filters_add_up(client):
    names = ["offsetwatch_input_up", "offsetwatch_sink_lag_records"]
    result = samples(client.get("/metrics", params={"name[]": names}).text)
    assert {name for name, _ in result} == set(names)


def test_a_new_snapshot_is_observed_by_the_next_scrape(client, world):
    client.get("/metrics")
    world.now = replace(full(), source_partitions=(), syncs=())
    result = samples(client.get("/metrics").text)
    assert without_process(result) == expected_here(world.now)


@pytest.mark.parametrize("path", ["/metrics", *DOCUMENTS])
def test_what_was_shown_before_the_process_stood_still_is_no_answer(world, path):
    stale, now = world.now, replace(full(), at=world.now.at + 600, source_partitions=(), syncs=())
    polls = []

    def fresh() -> bool:
        polls.append(world.now)
        if len(polls) == 3:
            world.now = now
        return world.now is now

    world.is_fresh = fresh
    with serving(world) as served:
        body = served.get(path).text
    assert polls == [stale, stale, stale]
    world.is_fresh = lambda: True
    with serving(world) as served:
        again = served.get(path).text
    if path == "/metrics":
        assert without_process(samples(body)) == expected_here(now)
    else:
        assert body == again


def test_whether_the_loop_turns_is_queried_once_the_snapshot_is_fresh(world):
    world.alive = False

    def fresh() -> bool:
        was, world.alive = world.alive, True
        return was

    world.is_fresh = fresh
    with serving(world) as served:
        assert served.get("/api/v1/overview").json()["alive"] is True


def test_a_loop_that_never_ticks_again_does_not_keep_requests_for_good(client, world, monkeypatch):
    monkeypatch.setattr("offsetwatch.serve.http.read_listener.SNAPSHOT_POLLS_MAX", 3)
    world.fresh = False
    assert without_process(samples(client.get("/metrics").text)) == expected_here(world.now)


# --- health ---------------------------------------------------------------------------------------


def test_healthy_reports_whether_the_loop_turns(client, world):
    assert client.get("/-/healthy").status_code == 200
    world.alive = False
    assert client.get("/-/healthy").status_code == 503


def test_healthy_has_nothing_to_do_with_readiness(client, world):
    world.now = EMPTY_SNAPSHOT
    assert client.get("/-/healthy").status_code == 200


def test_ready_reports_line_by_line_what_is_waited_for(client, world):
    assert client.get("/-/ready").status_code == 200
    lines = (
        "tail east/offsets: waiting for the end of the topic",
        "groups lab/west->east: waiting for a first attempt (Local: Timed out)",
    )
    world.now = replace(full(), ready=False, waiting_for=lines)
    answer = client.get("/-/ready")
    assert answer.status_code == 503
    assert answer.text == (
        "topic east/offsets: waiting for the end of the topic\n"
        "consumer groups of flow west->east of Connect cluster lab: "
        "waiting for a first attempt (Local: Timed out)\n"
    )
    world.now = EMPTY_SNAPSHOT
    assert client.get("/-/ready").text == "nothing has been read yet\n"


def test_metrics_and_api_answer_before_anything_is_ready(client, world):
    world.now = replace(EMPTY_SNAPSHOT, at=1.0)
    assert all(client.get(path).status_code == 200 for path in ROUTES if path != "/-/ready")


# --- the rest -------------------------------------------------------------------------------------


def test_the_api_answers_with_json_of_the_snapshot(client):
    for path in DOCUMENTS:
        key = path.rpartition("/")[2]
        answer = client.get(path)
        assert answer.headers["Content-Type"] == "application/json"
        assert datetime.fromisoformat(answer.json()["at"]).timestamp() == full().at
        assert answer.json()[key]


@pytest.mark.parametrize("path", ROUTES)
def test_a_request_takes_one_snapshot_at_most(client, world, path):
    client.get(path)
    assert world.requests <= 1


def test_the_landing_page_links_to_pages_that_answer(client):
    page = client.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert BUILD.version in page.text
    links = [part.split('"')[0] for part in page.text.split('<a href="')[1:]]
    assert {"/" + link for link in links} == set(ROUTES) - {"/"}
    assert all(client.get("/" + link).status_code == 200 for link in links)


def test_a_version_with_markup_does_not_reach_the_page():
    listen = f"127.0.0.1:{free_port()}"
    server = ReadServer(
        listen,
        lambda: EMPTY_SNAPSHOT,
        LoopHeartbeat(lambda: True),
        build=replace(BUILD, version="<script>"),
        **RELOADING,
    )
    server.start()
    try:
        text = httpx.get(
            f"http://127.0.0.1:{server.port}/", trust_env=False, verify=NO_AUTHORITIES
        ).text
    finally:
        server.stop()
    assert "<script>" not in text


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_that_does_not_read_is_refused(client, path, method):
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET,HEAD"


@pytest.mark.parametrize(
    "path",
    [
        *ROUTES,
        *("/api/v1/", "/api/v1/status", "/api/v1/explain?connector=files", "/api/v1/explain"),
        *("/api/v1/nope", "/static/page.js", "/static/nope.js", "/nowhere"),
    ],
)
def test_head_answers_as_get_without_a_body(client, path):
    head, full_answer = client.head(path), client.get(path)
    assert head.status_code == full_answer.status_code
    assert head.content == b""
    reports = ("Content-Type", "Content-Encoding", "ETag", "Vary", "Cache-Control")
    assert [head.headers.get(name) for name in reports] == [
        full_answer.headers.get(name) for name in reports
    ]


def test_an_unknown_path_is_not_found(client):
    assert client.get("/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/nope", "/api/v1", "/api/v1/flows/", "/api/v1/a/b"])
def test_an_unknown_path_of_the_api_is_not_found_in_json(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["error"] == "not_found"


def test_the_api_has_an_index_of_documents_that_are_there(client):
    documents = client.get("/api/v1/").json()["documents"]
    assert {*DOCUMENTS, *OF_THE_PAGE, "/api/v1/status", "/api/v1/explain", OPENAPI} == {*documents}
    assert all(client.get(path).status_code != 404 for path in documents)


@pytest.mark.parametrize("path", [*ROUTES, "/nowhere", "/api/v1/nope", "/-/reload"])
def test_no_answer_reports_a_version_of_the_server(client, path):
    assert client.get(path).headers["Server"] == "offsetwatch"


@pytest.mark.parametrize("path", ["/metrics", "/-/ready", *DOCUMENTS])
def test_a_bug_gives_500_without_a_stack_trace_and_is_logged(client, world, path):
    world.now = "no snapshot at all"
    with capture_logs() as events:
        answer = client.get(path)
    assert answer.status_code == 500
    assert answer.text == "internal error\n"
    (event,) = (event for event in events if event["log_level"] == "error")
    assert (event["event"], event["path"]) == ("request_failed", path)
    world.now = full()
    assert client.get(path).status_code == 200


# --- many at once ---------------------------------------------------------------------------------


class Gate(tuple):
    """A snapshot's `dropped` that counts how often it is read, and lets nobody in until opened."""

    __slots__ = ()
    opened = threading.Event()
    reads = 0

    def __iter__(self):
        type(self).reads += 1
        assert self.opened.wait(DEADLINE_S)
        return super().__iter__()


@pytest.fixture
def gate():
    Gate.opened.clear()
    Gate.reads = 0
    yield Gate((("inexact", 1),))
    Gate.opened.set()


def test_concurrent_scrapes_of_one_snapshot_share_one_render(client, world, gate):
    Gate.opened.set()
    world.now = replace(full(), dropped=gate)
    client.get("/metrics")
    reads_of_one, Gate.reads = Gate.reads, 0
    Gate.opened.clear()
    world.requests = 0
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(client.get, "/metrics") for _ in range(20)]
        until(lambda: world.requests == 20, "twenty requests have arrived")
        Gate.opened.set()
        bodies = {answer.result().text for answer in answers}
    assert Gate.reads == reads_of_one
    assert len(bodies) == 1


def test_a_new_snapshot_is_not_answered_with_the_render_of_the_old(client, world, gate):
    world.now = replace(full(), dropped=gate)
    with ThreadPoolExecutor(2) as pool:
        old = pool.submit(client.get, "/metrics")
        until(lambda: world.requests == 1, "the first request has arrived")
        world.now = replace(full(), dropped=(("inexact", 2),))
        new = pool.submit(client.get, "/metrics")
        until(lambda: world.requests == 2, "the second request has arrived")
        Gate.opened.set()
    key = ("offsetwatch_series_dropped_total", frozenset({("reason", "inexact")}))
    assert samples(old.result().text)[key] == 1
    assert samples(new.result().text)[key] == 2


def test_concurrent_scrapes_in_two_formats_get_each_their_own(client, world, gate):
    world.now = replace(full(), dropped=gate)
    with ThreadPoolExecutor(2) as pool:
        text = pool.submit(client.get, "/metrics")
        until(lambda: world.requests == 1, "the first request has arrived")
        accept = {"Accept": "application/openmetrics-text"}
        openmetrics = pool.submit(client.get, "/metrics", headers=accept)
        until(lambda: world.requests == 2, "the second request has arrived")
        Gate.opened.set()
    assert not text.result().text.endswith("# EOF\n")
    assert openmetrics.result().text.endswith("# EOF\n")


def test_health_is_answered_while_a_render_takes_its_time(client, world, gate):
    world.now = replace(full(), dropped=gate)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.get, "/metrics")
        until(lambda: Gate.reads == 1, "the render has begun")
        assert client.get("/-/healthy").status_code == 200
        assert not slow.done()
        Gate.opened.set()
    assert slow.result().status_code == 200


def test_more_renders_than_the_bound_are_refused_and_then_served_again(client, world, gate):
    world.now = replace(full(), dropped=gate)
    with ThreadPoolExecutor(RENDERS_MAX) as pool:
        waiting = [
            pool.submit(client.get, "/metrics", params={"name[]": f"name_{n}"})
            for n in range(RENDERS_MAX)
        ]
        until(lambda: world.requests == RENDERS_MAX, "the bound is reached")
        with capture_logs() as events:
            refused = client.get("/metrics", params={"name[]": "one_more"})
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert [event["event"] for event in events] == ["request_refused"]
        Gate.opened.set()
        assert {answer.result().status_code for answer in waiting} == {200}
    assert client.get("/metrics").status_code == 200


def test_a_client_that_hangs_up_does_not_take_the_body_from_the_others(client, world, gate):
    world.now = replace(full(), dropped=gate)
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(httpx.ReadTimeout):
            client.get("/metrics", timeout=0.2)
        patient = pool.submit(client.get, "/metrics")
        until(lambda: world.requests == 2, "both have asked")
        Gate.opened.set()
        assert patient.result().status_code == 200


# --- a scrape goes nowhere ------------------------------------------------------------------------

OUTWARD = {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"}
outward_calls: list[tuple[str, str]] = []
watching = threading.Event()
installed: list[object] = []


def _audit(event, _arguments):
    if event in OUTWARD and watching.is_set():
        outward_calls.append((event, threading.current_thread().name))


@pytest.fixture
def outward():
    if _audit not in installed:
        sys.addaudithook(_audit)  # for the rest of the process; there is no way to take it back
        installed.append(_audit)
    outward_calls.clear()
    watching.set()
    yield outward_calls
    watching.clear()


def test_no_request_opens_a_connection_of_its_own(client, outward):
    accept = {"Accept": "application/openmetrics-text"}
    for path in ROUTES:
        assert client.get(path, headers=accept).status_code == 200
    assert {name for event, name in outward if event == "socket.connect"} == {"MainThread"}
    assert not [call for call in outward if call[1] != "MainThread"]


def test_a_connection_out_of_a_server_thread_would_have_been_noticed(world, outward):
    target = socket.create_server(("127.0.0.1", free_port()))

    def snapshot():
        socket.create_connection(target.getsockname()).close()
        return full()

    world.snapshot = snapshot
    with target, serving(world) as client:
        client.get("/metrics")
    assert ("socket.connect", "read-listener") in outward


# --- coming and going -----------------------------------------------------------------------------


def test_port_0_takes_any_free_port(world):
    server = ReadServer("127.0.0.1:0", world.snapshot, world.heartbeat(), **RELOADING)
    server.start()
    try:
        assert server.port > 0
        url = f"http://127.0.0.1:{server.port}/-/healthy"
        assert httpx.get(url, trust_env=False, verify=NO_AUTHORITIES).status_code == 200
    finally:
        server.stop()


def test_a_stopped_server_answers_no_more_and_leaves_no_thread(world):
    with serving(world) as client:
        client.get("/metrics")
    with pytest.raises(httpx.ConnectError):
        httpx.get(str(client.base_url), trust_env=False, verify=NO_AUTHORITIES)
    assert not [one for one in threading.enumerate() if one.name.startswith("read-listener")]


def test_stop_may_be_called_before_start_and_twice(world):
    server = ReadServer(f"127.0.0.1:{free_port()}", world.snapshot, world.heartbeat(), **RELOADING)
    server.stop()
    server.start()
    server.stop()
    server.stop()


def test_stop_right_after_start_does_stop(world):
    for _ in range(20):
        server = ReadServer(
            f"127.0.0.1:{free_port()}", world.snapshot, world.heartbeat(), **RELOADING
        )
        server.start()
        server.stop()
    assert not [one for one in threading.enumerate() if one.name.startswith("read-listener")]


def test_a_taken_port_is_named_with_what_to_change(world):
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        listen = f"127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=f"^listen {listen}: another process .* port$"):
            ReadServer(listen, world.snapshot, world.heartbeat(), **RELOADING).start()


def test_an_address_of_another_machine_is_unreachable(world):
    with pytest.raises(TargetUnreachable):
        ReadServer("192.0.2.1:0", world.snapshot, world.heartbeat(), **RELOADING).start()


def test_a_host_with_an_empty_label_is_a_mistake_of_the_configuration(world):
    with pytest.raises(ConfigError, match=r"listen a\.\.test:0: no host name"):
        ReadServer("a..test:0", world.snapshot, world.heartbeat(), **RELOADING).start()


@pytest.mark.parametrize("listen", ["", "9640", "localhost", "host:", "host:http", "h:65536"])
def test_an_address_without_host_and_port_is_a_mistake_of_the_configuration(world, listen):
    with pytest.raises(ConfigError, match="listen: expected host:port"):
        ReadServer(listen, world.snapshot, world.heartbeat(), **RELOADING).start()


@pytest.mark.parametrize(
    "listen",
    [
        pytest.param(
            "[::1]:0",
            marks=pytest.mark.skipif(
                not socket.has_dualstack_ipv6(),
                reason="nobody can listen on an IPv6 address where the kernel has no IPv6",
            ),
        ),
        ":0",
    ],
)
def test_other_spellings_of_an_address_work(world, listen):
    server = ReadServer(listen, world.snapshot, world.heartbeat(), **RELOADING)
    server.start()
    try:
        host = "[::1]" if "::1" in listen else "127.0.0.1"
        url = f"http://{host}:{server.port}/-/healthy"
        assert httpx.get(url, trust_env=False, verify=NO_AUTHORITIES).status_code == 200
    finally:
        server.stop()


def test_a_reload_is_requested_with_post_alone():
    world = World()
    with serving(world) as client:
        assert client.get("/-/reload").status_code == 405
        answer = client.post("/-/reload")
        assert (answer.status_code, answer.text) == (200, "reloaded\n")


def test_no_web_page_has_the_configuration_read_again(client, world):
    world.mistakes = ("it was read",)
    for origin in ("https://attacker.example.com", "null", str(client.base_url)):
        answer = client.post("/-/reload", headers={"Origin": origin})
        assert (answer.status_code, answer.text) == (403, "not for web pages\n")
    assert client.post("/-/reload").text == "it was read\n"


def test_a_refused_configuration_is_answered_with_its_mistakes():
    world = World()
    world.mistakes = ("a.yaml: kafka: field required", "a.yaml: listen: no port")
    with serving(world) as client:
        answer = client.post("/-/reload")
        assert answer.status_code == 400
        assert answer.text == "a.yaml: kafka: field required\na.yaml: listen: no port\n"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_before_the_first_tick_there_is_no_document(path):
    world = World()
    world.now = EMPTY_SNAPSHOT
    with serving(world) as client:
        assert client.get(path).status_code == 503
