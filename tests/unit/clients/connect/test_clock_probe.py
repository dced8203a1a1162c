import httpx
import pytest

from offsetwatch.clients.connect.reader import read_worker_clock


def answering(**headers: str) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(401, headers=headers))


def asked(transport: httpx.MockTransport) -> float | None:
    return read_worker_clock("http://worker:8083/", 1.0, transport=transport)


def test_even_a_refusal_tells_the_time():
    assert asked(answering(Date="Fri, 21 Nov 2025 08:00:00 GMT")) == 1_763_712_000.0


@pytest.mark.parametrize("headers", [{}, {"Date": "soon"}])
def test_a_worker_that_does_not_say_leaves_it_unknown(headers: dict[str, str]):
    assert asked(answering(**headers)) is None


def test_a_worker_that_does_not_answer_leaves_it_unknown():
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert asked(httpx.MockTransport(refuse)) is None
