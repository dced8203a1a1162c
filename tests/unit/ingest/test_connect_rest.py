"""How REST is asked for offsets: slowly, one request at a time, and each connector on its own."""

from __future__ import annotations

import json

import httpx
import pytest

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.daemon.supervisor import Supervisor
from offsetwatch.ingest.connect_rest import REQUESTS_PER_STEP, RestOffsetsPoll
from offsetwatch.model.observations import (
    InputFailed,
    InputRetired,
    InputSucceeded,
    OffsetsPolled,
    build_rest_offsets_input,
)
from tests.fakes.clock import VirtualClock

EVERY_S = 60.0
FOUND = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 7}}]}
NO_PATH = {"error_code": 404, "message": "HTTP 404 Not Found"}


class PolledWorker:
    """A poll of a worker that answers as `answers` say, by connector; `batches` are what came."""

    def __init__(self, **answers: httpx.Response | Exception) -> None:
        self.answers = answers
        self.clock = VirtualClock()
        self.requests: list[str] = []
        self.batches: list[tuple] = []
        self.taken = True
        transport = httpx.MockTransport(self._answer)
        reader = ConnectReader("solo", ("http://worker:8083",), 1.0, transport=transport)
        supervisor = Supervisor(self._put)
        self.poll = RestOffsetsPoll(
            reader,
            every_s=EVERY_S,
            timeout_s=10.0,
            put=self._put,
            clock=self.clock,
            guard=lambda job, name, input_id: supervisor.guard(name, job, lambda: [input_id]),
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.split("/")[2]
        self.requests.append(name)
        answer = self.answers.get(name, httpx.Response(200, text=json.dumps(FOUND)))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _put(self, batch: tuple) -> bool:
        self.batches.append(batch)
        return self.taken

    def step(self, *connectors: str) -> list[str]:
        """Those that were asked for in this step."""
        self.requests.clear()
        self.batches.clear()
        self.poll.step(connectors, lambda: False)
        return self.requests


def test_an_answer_is_what_the_task_would_load_as_of_the_question():
    request = PolledWorker()
    request.step("files")
    ((polled, succeeded),) = request.batches
    offsets = (('{"filename":"in.txt"}', '{"position":7}'),)
    assert polled == OffsetsPolled("solo", "files", offsets, request.clock.at)
    assert succeeded == InputSucceeded(
        build_rest_offsets_input("solo", "files"), request.clock.at, 3 * EVERY_S + 10.0
    )


def test_an_entry_that_cannot_be_read_is_reported_and_the_others_are_taken():
    odd = {"offsets": [*FOUND["offsets"], {"offset": {}}]}
    request = PolledWorker(files=httpx.Response(200, json=odd))
    request.step("files")
    ((polled, succeeded, failed),) = request.batches
    assert (len(polled.offsets), polled.whole) == (1, False)
    assert isinstance(succeeded, InputSucceeded)
    assert (failed.reason, failed.partial) == ("malformed", True)
    assert "of another shape, or that contradict another: 1" in failed.detail


def test_each_is_requested_once_an_interval():
    request = PolledWorker()
    assert request.step("a", "b") == ["a", "b"]
    request.clock.advance(EVERY_S - 1)
    assert request.step("a", "b", "c") == ["c"]
    request.clock.advance(1)
    assert request.step("a", "b", "c") == ["a", "b"]


def test_no_more_than_so_many_in_a_step_and_the_others_come_first_in_the_next():
    request = PolledWorker()
    names = [f"c{number:02}" for number in range(2 * REQUESTS_PER_STEP + 1)]
    rounds = [list(request.step(*names)) for _ in range(4)]
    assert [len(result) for result in rounds] == [REQUESTS_PER_STEP, REQUESTS_PER_STEP, 1, 0]
    assert sorted(name for result in rounds for name in result) == names


def test_answers_of_many_connectors_are_believed_for_as_long_as_a_few_rounds_take():
    request = PolledWorker()
    request.step(*(f"c{number}" for number in range(1000)))
    (_, succeeded) = request.batches[0]
    assert succeeded.lasts_s == 3 * 1000 / REQUESTS_PER_STEP + 10.0


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (httpx.Response(404, json=NO_PATH), "not_found", "workers return offsets since Kafka 3.5"),
        (httpx.Response(404, text="<html>"), "not_found", "workers return offsets since Kafka 3.5"),
        (httpx.Response(405), "refused", "workers return offsets since Kafka 3.5"),
        (httpx.Response(500), "server_error", "HTTP 500"),
        (httpx.ConnectError("refused"), "unreachable", "refused"),
        (httpx.Response(200, text="[]"), "malformed", "offsets_shape"),
        (ZeroDivisionError("a bug"), "unexpected", "ZeroDivisionError"),
    ],
)
def test_a_failure_is_one_of_that_connector_alone(answer, reason, words):
    request = PolledWorker(odd=answer)
    assert request.step("odd", "files") == ["files", "odd"]
    _, (failed,) = request.batches
    assert isinstance(failed, InputFailed)
    assert (failed.input, failed.reason) == (build_rest_offsets_input("solo", "odd"), reason)
    assert words in failed.detail
    assert request.step("files", "odd") == []  # nor is it asked for sooner


def test_what_is_no_longer_polled_is_retired():
    request = PolledWorker()
    request.step("a", "b")
    assert request.step("b") == []
    assert request.batches == [(InputRetired(build_rest_offsets_input("solo", "a")),)]
    request.step("b")
    assert request.batches == []


def test_what_the_loop_did_not_take_is_requested_again():
    request = PolledWorker()
    request.taken = False
    request.step("a")
    request.taken = True
    assert request.step("a") == ["a"]


def test_a_clock_that_is_set_back_delays_nothing():
    request = PolledWorker()
    request.step("a")
    request.clock.advance(-86_400)
    assert request.step("a") == ["a"]


def test_a_daemon_that_stops_queries_no_more():
    request = PolledWorker()
    request.poll.step(["a"], lambda: True)
    assert request.requests == []
