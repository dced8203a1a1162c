"""The sweep against real sockets: every connector once, whatever becomes of the workers."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
import ssl
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from lab.cluster.certificates import Authority
from lab.processes.ports import free_port
from offsetwatch.clients.connect import offsets_sweep
from offsetwatch.clients.connect.offsets_sweep import (
    ANNOUNCEMENT_SIZE_MAX,
    FAILURES_IN_A_ROW,
    REFUSALS_MAX,
    REQUESTS_IN_FLIGHT_MAX,
    ConnectSweep,
    OffsetsSweepListener,
)
from offsetwatch.clients.connect.reader import (
    BODY_BYTES_MAX,
    REBALANCE_MESSAGE,
    offsets_path,
    read_response,
)
from offsetwatch.clients.http.bodies import VALUES_MAX
from offsetwatch.clients.http.client import LARGE_BYTES, build_async_client
from offsetwatch.config import Auth, Tls
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    Conflict,
    IncompleteResponse,
    MalformedResponse,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SizeLimitExceeded,
    TargetUnreachable,
    TooManyRequests,
)
from tests.fakes.swept import MISSING, SweptWorker, offsets, swept

NAMES = [f"c{number}" for number in range(120)]
LATE_S = 120.0  # of a test that would hang


class Heard:
    """What a sweep told, in order; each telling checked against what a worker had seen."""

    def __init__(self, stopped=lambda: False) -> None:
        self.announced: list[str] = []
        self.answers: list[tuple[str, bytes]] = []
        self.at_once: list[int] = []
        self.listener = OffsetsSweepListener(self.announce, self.take, stopped)

    def announce(self, names) -> bool:
        self.announced += names
        self.at_once.append(len(names))
        return True

    def take(self, answers) -> None:
        self.answers += answers

    @property
    def names(self) -> list[str]:
        return sorted(name for name, _ in self.answers)


def sweep(*urls: str, timeout_s: float = LATE_S, **access: Any) -> ConnectSweep:
    return ConnectSweep("lab", urls, timeout_s, **access)


def error_of(swept_by: ConnectSweep, names=("a",), heard: Heard | None = None) -> ClientError:
    with pytest.raises(ClientError) as caught:
        swept_by.offsets(list(names), (heard or Heard()).listener)
    return caught.value


def test_every_connector_is_answered_once_over_all_workers():
    heard = Heard()
    with swept(lambda name: (200, f'{{"offsets":"{name}"}}'.encode())) as one, swept() as two:
        two.answer = one.answer
        sweep(one.url, two.url).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)
        assert all(body == f'{{"offsets":"{name}"}}'.encode() for name, body in heard.answers)
        assert one.requests
        assert two.requests


def test_no_worker_is_queried_more_at_once_than_its_share_and_its_connections_are_retained():
    all_at_once = threading.Barrier(REQUESTS_IN_FLIGHT_MAX)

    def together(name: str) -> tuple[int, bytes]:
        all_at_once.wait(LATE_S)
        return 200, offsets()

    with swept(together) as worker:
        sweep(worker.url).offsets(NAMES, Heard().listener)
        assert worker.at_once_max == REQUESTS_IN_FLIGHT_MAX
        assert worker.connections == REQUESTS_IN_FLIGHT_MAX


def test_a_connector_is_announced_before_it_is_requested():
    heard = Heard()
    early = []

    def answer(name: str) -> tuple[int, bytes]:
        if name not in heard.announced:
            early.append(name)
        return 200, offsets()

    with swept(answer) as worker:
        sweep(worker.url).offsets(NAMES, heard.listener)
    assert not early
    assert heard.announced == NAMES
    assert max(heard.at_once) == ANNOUNCEMENT_SIZE_MAX


def test_what_waited_too_long_for_its_turn_is_announced_again(monkeypatch):
    monkeypatch.setattr(offsets_sweep, "ANNOUNCEMENT_TTL_S", 0.0)
    heard = Heard()
    with swept() as worker:
        sweep(worker.url).offsets(NAMES[:20], heard.listener)
    assert heard.names == sorted(NAMES[:20])
    assert Counter(heard.announced)["c19"] > 1


def test_what_could_not_be_announced_is_not_requested():
    heard = Heard()

    def announce(names) -> bool:
        return heard.announce(names) and "c0" not in names

    with swept() as worker:
        sweep(worker.url).offsets(NAMES, OffsetsSweepListener(announce, heard.take, lambda: False))
        assert sorted(worker.requests) == heard.names == sorted(NAMES[ANNOUNCEMENT_SIZE_MAX:])


# --- workers in trouble --------------------------------------------------------------------------


def test_a_worker_that_hangs_delays_its_share_by_one_timeout():
    heard = Heard()
    with swept() as hanging, swept() as other:
        hanging.answer = hanging.hang
        sweep(hanging.url, other.url, timeout_s=3.0).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)
        assert len(hanging.requests) == REQUESTS_IN_FLIGHT_MAX
        assert set(hanging.requests) <= set(other.requests)


def test_two_workers_that_hang_are_no_end_either():
    heard = Heard()
    with swept() as one, swept() as two, swept() as well:
        one.answer, two.answer = one.hang, two.hang
        sweep(one.url, two.url, well.url, timeout_s=3.0).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda _: None, id="cut"),
        pytest.param(lambda _: (500, b""), id="server-error"),
        pytest.param(lambda _: (404, b"<html>"), id="starting"),
        pytest.param(lambda _: (200, b"<html>"), id="not-json"),
        pytest.param(lambda _: (307, b""), id="redirect"),
        pytest.param(lambda _: (500, b'{"error_code":409,"message":"x"}'), id="said-otherwise"),
    ],
)
def test_a_worker_in_trouble_is_left_alone_and_the_others_answer(trouble):
    heard = Heard()
    with swept(trouble) as bad, swept() as well:
        sweep(bad.url, well.url).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)
        # Each of its connections may have been asked once more when the last failure was heard.
        assert len(bad.requests) <= 2 * (FAILURES_IN_A_ROW + REQUESTS_IN_FLIGHT_MAX)


def test_an_unreachable_worker_is_passed_over():
    heard = Heard()
    with swept() as well:
        sweep(f"http://127.0.0.1:{free_port()}", well.url).offsets(NAMES, heard.listener)
    assert heard.names == sorted(NAMES)


def test_a_worker_that_fails_now_and_then_goes_on_being_queried():
    heard = Heard()
    with swept() as moody, swept() as well:
        moody.answer = lambda _: (500, b"") if len(moody.requests) % 7 == 0 else (200, offsets())
        sweep(moody.url, well.url).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)
        assert len(moody.requests) > 2 * (FAILURES_IN_A_ROW + REQUESTS_IN_FLIGHT_MAX)


def test_a_connection_closed_between_two_questions_is_recreated():
    heard = Heard()
    with swept(headers={"Connection": "close"}) as worker:
        sweep(worker.url).offsets(NAMES, heard.listener)
        assert heard.names == sorted(NAMES)
        assert worker.connections == len(NAMES)


def test_a_connector_deleted_meanwhile_has_no_answer():
    heard = Heard()
    gone = set(NAMES[::3])
    with swept(lambda name: (404, MISSING) if name in gone else (200, offsets())) as worker:
        sweep(worker.url).offsets(NAMES, heard.listener)
        assert len(worker.requests) == len(NAMES)
    assert heard.names == sorted(set(NAMES) - gone)


def test_workers_without_such_a_path_are_not_requested_everything_and_it_is_no_error():
    heard = Heard()
    missing = b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    with swept(lambda _: (404, missing)) as old, swept(lambda _: (404, missing)) as older:
        sweep(old.url, older.url).offsets(NAMES, heard.listener)
        assert len(old.requests) + len(older.requests) < len(NAMES)
    assert not heard.answers


# --- what ends it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (409, b"{}", Conflict),
        (500, b'{"error_code":500,"message":"%s"}' % REBALANCE_MESSAGE.encode(), Conflict),
        (401, b"", AccessDenied),
        (403, b"", AccessDenied),
        (400, b"", RemoteRefusal),
    ],
)
def test_a_sweep_ends_where_nothing_but_refusals_come(status, body, expected):
    with swept(lambda _: (status, body)) as no, swept(lambda _: (status, body)) as other:
        error = error_of(sweep(no.url, other.url), NAMES)
        assert type(error) is expected
        assert len(no.requests) + len(other.requests) <= REFUSALS_MAX + 2 * REQUESTS_IN_FLIGHT_MAX


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((400, b""), RemoteRefusal),
        ((403, b""), AccessDenied),
        ((409, b"{}"), Conflict),
        ((500, b""), ServerError),
        ((502, b"<html>"), ServerError),
        ((302, b""), MalformedResponse),
        ((200, b"{"), MalformedResponse),
        ((200, b"[" * 100_000), MalformedResponse),
        ((200, b"x" * (BODY_BYTES_MAX + 1)), SizeLimitExceeded),
        ((200, b'{"offsets":[' + b"{}," * VALUES_MAX + b"{}]}"), SizeLimitExceeded),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_odd_connectors_keep_no_other_from_being_read(answer, expected, workers):
    odd = {"c0", "c1", "c2", "c7", NAMES[-1]}  # the first of all, and three in a row
    heard = Heard()
    with swept() as one, swept() as two:
        one.answer = two.answer = lambda name: answer if name in odd else (200, offsets())
        urls = [one.url, two.url][:workers]
        refused = sweep(*urls).offsets(NAMES, heard.listener)
    assert heard.names == sorted(set(NAMES) - odd)
    assert {name: type(error) for name, error in refused.items()} == dict.fromkeys(odd, expected)
    assert all(f"/connectors/{name}/offsets" in error.detail for name, error in refused.items())


@pytest.mark.parametrize("name", ["a/b", "100%", "..", ".", "a\\b", "%2F", "tab\tname"])
def test_of_a_name_that_no_path_can_carry_the_reason_is_reported(name):
    heard = Heard()
    with swept() as worker:
        worker.answer = lambda _: (400, b"") if not one_segment(worker) else (200, offsets())
        refused = sweep(worker.url).offsets([name, "a,b", "a b", "ü"], heard.listener)
    assert heard.names == ["a b", "a,b", "ü"]
    assert refused[name].detail.endswith("its offsets are in the offsets topic)")


def one_segment(worker: SweptWorker) -> bool:
    """Would Jetty 12 take the path that was asked for last?"""
    segment = worker.paths[-1].split("/")[2]
    return not any(value in segment.upper() for value in ("%2F", "%25", "%5C", "%2E", "%09"))


def test_a_worker_is_left_alone_as_its_retry_after_says(monkeypatch):
    waits: list[float] = []

    def put_off(sweep_: object, worker: int, retry_after: str | None) -> bool:
        waits.append(float(retry_after or -1))
        return True

    monkeypatch.setattr(offsets_sweep._Sweep, "_waits", put_off)
    heard = Heard()
    observed: Counter[str] = Counter()
    with swept(headers={"Retry-After": "7"}) as worker:

        def answer(name: str) -> tuple[int, bytes]:
            observed[name] += 1
            return (429, b"") if observed[name] == 1 and name in {"c3", "c5"} else (200, offsets())

        worker.answer = answer
        assert not sweep(worker.url).offsets(NAMES, heard.listener)
    assert heard.names == sorted(NAMES)
    assert waits == [7.0, 7.0]


@pytest.mark.parametrize("after", ["100000000000000000000", "86400", None])
def test_a_retry_after_beyond_the_bound_is_a_failure_of_that_worker(after, monkeypatch):
    monkeypatch.setattr(offsets_sweep, "RETRY_AFTER_S", offsets_sweep.RETRY_AFTER_S_MAX + 1)
    headers = {} if after is None else {"Retry-After": after}
    with swept(lambda _: (429, b""), headers=headers) as worker:
        assert type(error_of(sweep(worker.url), NAMES)) is TooManyRequests
        assert len(worker.requests) <= REFUSALS_MAX + REQUESTS_IN_FLIGHT_MAX


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: None, IncompleteResponse),
        (lambda _: (500, b""), ServerError),
        (lambda _: (302, b""), MalformedResponse),
        (lambda _: (200, b"{"), MalformedResponse),
    ],
)
def test_a_connector_that_no_worker_answers_for_ends_the_sweep(answer, expected):
    with swept(answer) as one, swept(answer) as two:
        error = error_of(sweep(one.url, two.url))
        assert type(error) is expected
        assert error.target == "lab"
        assert error.detail.startswith("GET /connectors/a/offsets: ")
        assert one.url in error.detail
        assert two.url in error.detail


def test_what_was_answered_before_a_refusal_is_not_lost():
    heard = Heard()
    with swept() as worker:

        def answer(name: str) -> tuple[int, bytes]:
            return (409, b"{}") if name == NAMES[-1] else (200, offsets())

        worker.answer = answer
        assert list(sweep(worker.url).offsets(NAMES, heard.listener)) == [NAMES[-1]]
    assert heard.names == sorted(NAMES[:-1])


def test_workers_that_all_hang_end_it_after_one_deadline():
    with swept() as one, swept() as two:
        one.answer, two.answer = one.hang, two.hang
        result = error_of(sweep(one.url, two.url, timeout_s=0.5), NAMES)
        assert type(result) is ResponseTimeout
        assert "no whole answer within 0.5 s" in result.detail


def test_an_answer_beyond_the_bound_is_not_held():
    body = b'"' + b" " * BODY_BYTES_MAX + b'"'
    with swept(lambda _: (200, body)) as worker:
        assert type(error_of(sweep(worker.url))) is SizeLimitExceeded


def test_of_answers_that_are_large_one_is_read_at_a_time_and_small_ones_pass():
    large = b'"' + b" " * (2 * LARGE_BYTES) + b'"'

    class Turn(asyncio.Lock):
        def __init__(self) -> None:
            super().__init__()
            self.waiters = asyncio.Semaphore(0)

        async def acquire(self) -> Literal[True]:
            self.waiters.release()
            return await super().acquire()

    async def read() -> list[bytes]:
        transaction = Turn()

        async def request(name: str) -> bytes:
            timeout = httpx.Timeout(LATE_S)
            async with build_async_client(
                worker.url, timeout=timeout, headers={}, verify=False
            ) as client:
                return (await read_response(client, "lab", offsets_path(name), large=transaction))[
                    1
                ]

        async with asyncio.timeout(LATE_S), transaction:
            waiting = [asyncio.create_task(request("large")) for _ in range(3)]
            assert await request("small") == offsets()
            for _ in (transaction, *waiting):
                await transaction.waiters.acquire()
            assert not any(task.done() for task in waiting)
        async with asyncio.timeout(LATE_S):
            return list(await asyncio.gather(*waiting))

    with swept(lambda name: (200, large if name == "large" else offsets())) as worker:
        assert asyncio.run(read()) == [large] * 3


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "deflate", "gzip, identity, gzip"])
def test_an_answer_that_is_encoded_otherwise_is_not_believed(coding):
    with swept(lambda _: (200, zipped()), headers={"Content-Encoding": coding}) as worker:
        assert type(error_of(sweep(worker.url))) is MalformedResponse
        assert worker.heads[0]["Accept-Encoding"] == "identity"


def test_a_proxy_that_always_compresses_is_understood():
    heard = Heard()
    with swept(lambda _: (200, zipped()), headers={"Content-Encoding": "gzip"}) as worker:
        assert not sweep(worker.url).offsets(NAMES, heard.listener)
    assert heard.answers[0][1] == offsets()
    assert heard.names == sorted(NAMES)


def test_what_gzip_makes_too_large_is_not_decoded():
    bomb = gzip.compress(bytes(4 * BODY_BYTES_MAX))
    with swept(lambda _: (200, bomb), headers={"Content-Encoding": "gzip"}) as worker:
        assert type(error_of(sweep(worker.url))) is SizeLimitExceeded


def zipped() -> bytes:
    return gzip.compress(offsets())


def test_a_stop_ends_the_sweep_while_a_worker_hangs():
    stop = threading.Event()
    with swept() as worker:

        def answer(name: str) -> tuple[int, bytes] | None:
            stop.set()
            return worker.hang()

        worker.answer = answer
        sweep(worker.url).offsets(NAMES, Heard(stop.is_set).listener)


# --- who we are, and who they are ----------------------------------------------------------------


def test_every_question_says_who_queries():
    auth = Auth.model_validate({"username": "me", "password": "pä:ss"})
    with swept() as worker:
        sweep(worker.url, auth=auth).offsets(NAMES[:8], Heard().listener)
        reports = {head["Authorization"] for head in worker.heads}
        assert reports == {"Basic " + base64.b64encode("me:pä:ss".encode()).decode()}
        assert {head["Accept"] for head in worker.heads} == {"application/json"}
        assert {head["Host"] for head in worker.heads} == {worker.url.removeprefix("http://")}


def test_a_token_that_is_renewed_meanwhile_is_the_new_one(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text("one\n")
    auth = Auth.model_validate({"bearer_token_file": "token"}, context={"folder": tmp_path})
    renewing, renewed = threading.Lock(), tmp_path / "renewed"
    with swept() as worker:

        def answer(name: str) -> tuple[int, bytes]:
            with renewing:
                if not renewed.exists():
                    renewed.write_text("two\n")
                    os.link(renewed, tmp_path / "new")
                    (tmp_path / "new").replace(path)
            return 200, offsets()

        worker.answer = answer
        sweep(worker.url, auth=auth).offsets(NAMES[:20], Heard().listener)
        # Requests overlap: the last one to arrive may have been sent before the token was renewed.
        assert worker.heads[0]["Authorization"] == "Bearer one"
        assert "Bearer two" in {head["Authorization"] for head in worker.heads}


def test_a_secret_that_cannot_be_read_is_reported_and_no_request_is_sent(tmp_path: Path):
    (tmp_path / "token").write_text("one\n")
    auth = Auth.model_validate({"bearer_token_file": "token"}, context={"folder": tmp_path})
    (tmp_path / "token").unlink()
    with swept() as worker:
        result = error_of(sweep(worker.url, auth=auth))
        assert type(result) is TargetUnreachable
        assert "auth.bearer_token_file" in result.detail
        assert not worker.requests


def test_a_path_before_the_api_is_retained_and_any_name_is_one_segment_of_it():
    with swept() as worker:
        sweep(f"{worker.url}/connect-a/").offsets(["a/b ?#é"], Heard().listener)
        assert worker.paths == ["/connect-a/connectors/a%2Fb%20%3F%23%C3%A9/offsets"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def mutual_tls(authority: Authority) -> ssl.SSLContext:
    own = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_client_certificate_opens_the_door(mutual_tls, authority):
    client = authority.issue("client", password="hunter2")
    tls = Tls.model_validate(
        {
            "ca_file": authority.ca,
            "cert_file": client.cert,
            "key_file": client.key,
            "key_password": "hunter2",
        }
    )
    heard = Heard()
    with swept(tls=mutual_tls) as worker:
        sweep(worker.url, tls=tls).offsets(NAMES, heard.listener)
        assert worker.connections == REQUESTS_IN_FLIGHT_MAX
    assert heard.names == sorted(NAMES)


def test_without_a_client_certificate_the_worker_refuses(mutual_tls, authority):
    with swept(tls=mutual_tls) as worker:
        error = error_of(sweep(worker.url, tls=Tls(ca_file=authority.ca)))
        assert type(error) in {AccessDenied, IncompleteResponse}
        assert not worker.requests


def test_a_worker_of_an_unknown_authority_is_not_queried(mutual_tls, tmp_path):
    with swept(tls=mutual_tls) as worker:
        result = error_of(sweep(worker.url, tls=Tls(ca_file=Authority(tmp_path).ca)))
        assert type(result) is TargetUnreachable
        assert "its certificate is not trusted: " in result.detail
        assert not worker.requests


def test_a_worker_with_anothers_name_is_not_queried(mutual_tls, authority):
    with swept(tls=mutual_tls) as worker:
        url = worker.url.replace("127.0.0.1", "127.0.0.2")
        assert type(error_of(sweep(url, tls=Tls(ca_file=authority.ca)))) is TargetUnreachable
        assert not worker.requests
