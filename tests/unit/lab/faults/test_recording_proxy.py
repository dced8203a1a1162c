"""The proxy that real tests take for Connect: it hands on, writes down, and breaks on demand."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from lab.cluster.certificates import Authority
from lab.faults.recording_proxy import Certified, Fault, Recorder, Trouble
from lab.http import NO_AUTHORITIES

TROUBLE_S = 0.05
HELD_S = 10.0


class Worker(ThreadingHTTPServer):
    """Answers everything with what it was asked, and counts."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Worker

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.heard.append(f"{self.command} {self.path}")
        if self.path.endswith("/stop"):
            self.send_response(204)
            self.end_headers()
            return
        text = f"{self.command} {self.path} {self.headers['Authorization']} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - its library's names

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@contextmanager
def working(tls: ssl.SSLContext | None = None) -> Iterator[Worker]:
    with Worker() as built:
        if tls is not None:
            built.socket = tls.wrap_socket(built.socket, server_side=True)
        thread = threading.Thread(target=built.serve_forever, args=(0.01,))
        thread.start()
        yield built
        built.shutdown()
        thread.join()


@pytest.fixture
def worker() -> Iterator[Worker]:
    with working() as built:
        yield built


@pytest.fixture
def recorder(worker: Worker) -> Iterator[Recorder]:
    with Recorder(f"http://127.0.0.1:{worker.server_port}") as built:
        yield built


@pytest.fixture
def client(recorder: Recorder) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=recorder.url, trust_env=False, timeout=10.0, verify=NO_AUTHORITIES
    ) as built:
        yield built


def test_a_request_and_its_answer_pass_as_they_are(client: httpx.Client) -> None:
    headers = {"Authorization": "Basic YTpi"}
    path = "/connectors/a%2Fb/offsets?x=1"
    answer = client.request("PATCH", path, content=b"\xff{}", headers=headers)
    assert answer.content == f"PATCH {path} Basic YTpi ".encode() + b"\xff{}"
    assert answer.headers["Content-Type"] == "text/plain"


def test_an_answer_without_a_body_passes_and_the_connection_goes_on(client: httpx.Client) -> None:
    assert client.put("/connectors/a/stop").status_code == 204
    assert client.get("/").status_code == 200


def test_looks_are_no_changes_and_of_changes_one_connector_s_can_be_reported(
    recorder: Recorder, client: httpx.Client
) -> None:
    client.get("/connectors/a/status")
    client.put("/connectors/a/stop")
    client.delete("/connectors/ab")
    client.patch("/connectors/a/offsets", content=b"{}")
    assert [change.path for change in recorder.changes()] == [
        "/connectors/a/stop",
        "/connectors/ab",
        "/connectors/a/offsets",
    ]
    assert [(change.method, change.body, change.status) for change in recorder.changes("a")] == [
        ("PUT", b"", 204),
        ("PATCH", b"{}", 200),
    ]
    assert len(recorder.exchanges()) == 4


@pytest.mark.parametrize(
    ("fault", "heard"), [(Fault.CUT_BEFORE, []), (Fault.CUT_AFTER, ["PUT /connectors/a/resume"])]
)
def test_a_connection_breaks_before_or_after_the_worker_has_heard(
    recorder: Recorder, worker: Worker, client: httpx.Client, fault: Fault, heard: list[str]
) -> None:
    recorder.trouble(Trouble(fault, "PUT", "/connectors/a/resume"))
    with pytest.raises(httpx.TransportError):
        client.put("/connectors/a/resume")
    assert worker.heard == heard
    assert [(change.status, change.reached) for change in recorder.changes()] == [
        (None, len(heard))
    ]
    assert client.put("/connectors/a/resume").status_code == 200


def test_a_worker_is_queried_twice_and_answers_once(
    recorder: Recorder, worker: Worker, client: httpx.Client
) -> None:
    recorder.trouble(Trouble(Fault.TWICE, "PATCH", "/.*"))
    assert client.patch("/connectors/a/offsets").status_code == 200
    assert len(worker.heard) == 2
    assert [change.reached for change in recorder.changes()] == [2]


def test_a_planned_answer_is_given_so_many_times_and_to_matching_requests_alone(
    recorder: Recorder, worker: Worker, client: httpx.Client
) -> None:
    recorder.trouble(Trouble(Fault.ANSWER, "PUT", "/connectors/a/.*", times=2, status=409))
    assert client.put("/connectors/b/pause").status_code == 200
    assert [client.put("/connectors/a/pause").status_code for _ in range(3)] == [409, 409, 200]
    assert len(worker.heard) == 2


def test_a_delayed_request_is_answered_all_the_same_and_calm_ends_all_trouble(
    recorder: Recorder, client: httpx.Client
) -> None:
    recorder.trouble(Trouble(Fault.DELAY, "GET", "/slow", delay_s=TROUBLE_S))
    recorder.trouble(Trouble(Fault.ANSWER, "GET", "/.*", times=100))
    assert client.get("/slow").status_code == 200
    assert client.get("/slow").status_code == 500
    recorder.calm()
    assert client.get("/slow").status_code == 200


def test_a_held_request_reaches_the_worker_when_it_is_let_go_and_not_before(
    recorder: Recorder, worker: Worker
) -> None:
    held = recorder.hold("PUT", "/connectors/a/.*")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.put, f"{recorder.url}/connectors/a/pause", trust_env=False)
        assert held.come.wait(HELD_S)
        assert (
            httpx.get(f"{recorder.url}/", trust_env=False, verify=NO_AUTHORITIES).status_code == 200
        )
        assert (worker.heard, answer.done()) == (["GET /"], False)
        held.go.set()
        assert answer.result(HELD_S).status_code == 200
    assert worker.heard == ["GET /", "PUT /connectors/a/pause"]
    assert (
        httpx.put(
            f"{recorder.url}/connectors/a/pause", trust_env=False, verify=NO_AUTHORITIES
        ).status_code
        == 200
    )


def test_a_worker_that_is_away_is_an_exchange_without_an_answer(
    recorder: Recorder, worker: Worker, client: httpx.Client
) -> None:
    worker.server_close()
    with pytest.raises(httpx.TransportError):
        client.get("/connectors")
    assert [(exchange.status, exchange.reached) for exchange in recorder.exchanges()] == [(None, 0)]


def test_over_tls_both_ends_are_queried_for_a_certificate_and_what_passes_is_written_down(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    certified = Certified(authority.ca, authority.issue("both"))
    known = certified.context(ssl.Purpose.SERVER_AUTH)
    default_context = ssl.create_default_context(cafile=authority.ca)
    with (
        working(certified.context(ssl.Purpose.CLIENT_AUTH)) as worker,
        Recorder(f"https://127.0.0.1:{worker.server_port}", certified) as recorder,
    ):
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{recorder.url}/", verify=default_context, trust_env=False)
        with httpx.Client(base_url=recorder.url, verify=known, trust_env=False) as client:
            assert client.patch("/connectors/a/offsets", content=b"{}").status_code == 200
        assert worker.heard == ["PATCH /connectors/a/offsets"]
        assert [(exchange.body, exchange.status) for exchange in recorder.exchanges()] == [
            (b"{}", 200)
        ]


def test_weather_meets_all_until_it_is_calm_and_only_what_it_is_for(
    recorder: Recorder, client: httpx.Client
):
    recorder.weather(Trouble(Fault.ANSWER, "GET", "/a.*", status=200, content_type="text/html"))
    for _ in range(3):
        assert client.get("/ab").headers["Content-Type"] == "text/html"
    assert client.get("/b").text.startswith("GET /b")
    recorder.trouble(Trouble(Fault.ANSWER, "GET", "/ab", status=503))
    assert [client.get("/ab").status_code for _ in range(2)] == [503, 200]
    recorder.calm()
    assert client.get("/ab").text.startswith("GET /ab")


def test_half_an_answer_breaks_off_and_a_trickle_comes_whole(
    worker: Worker, recorder: Recorder, client: httpx.Client
):
    recorder.trouble(Trouble(Fault.HALF, "GET", "/a"))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete"):
        client.get("/a")
    recorder.trouble(Trouble(Fault.TRICKLE, "GET", "/a", delay_s=0.01))
    assert client.get("/a").text.startswith("GET /a")
    assert worker.heard == ["GET /a", "GET /a"]


def test_the_gzip_fault_compresses_an_answer(recorder: Recorder, client: httpx.Client) -> None:
    plain = client.get("/connectors").content
    recorder.trouble(Trouble(Fault.GZIP, "GET", "/connectors"))
    with client.stream("GET", "/connectors") as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(raw) == plain


def test_an_answer_of_our_own_has_headers_of_its_own(
    recorder: Recorder, worker: Worker, client: httpx.Client
) -> None:
    elsewhere = (("Location", "/login"), ("Retry-After", "7"))
    recorder.weather(Trouble(Fault.ANSWER, "GET", "/.*", status=307, headers=elsewhere))
    answer = client.get("/connectors")
    assert (answer.status_code, answer.headers["Location"]) == (307, "/login")
    assert answer.headers["Retry-After"] == "7"
    assert worker.heard == []
