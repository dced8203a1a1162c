"""The parts of a chaos run: the seed decides, the sampler keeps lies, a report can fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time

import pytest

from lab import chaos, verdicts
from lab.ports import LOOPBACK, free_port
from lab.sampler import Sampler
from lab.waiting import NotYet, until

NOW = time()
TRUE = 20


def served(position: int) -> dict[str, str]:
    """What a daemon answers that knows one position of one connector."""
    entry = {
        "source_partition": {"filename": "/in"},
        "offset": {"position": position},
        "kafka_partition": 3,
        "log_offset": 2,
        "committed_at": NOW,
    }
    connector = {"name": "file", "source_partitions": [entry], "sink_partitions": []}
    at = '{connector="file",source_partition="filename=/in",field="position"}'
    return {
        "/api/v1/connectors": json.dumps({"at": time(), "inputs": [], "connectors": [connector]}),
        "/api/v1/flows": json.dumps({"at": time(), "inputs": [], "flows": []}),
        "/metrics": f"offsetwatch_source_offset_position{at} {position}\n",
    }


class Served(BaseHTTPRequestHandler):
    """A daemon of canned answers."""

    position = TRUE

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(served(self.position)[self.path].encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def daemon() -> Iterator[str]:
    Served.position = TRUE
    server = ThreadingHTTPServer((LOOPBACK, 0), Served)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def sampled(url: str) -> Sampler:
    sampler = Sampler(url)

    def check() -> None:
        if sampler.samples + sampler.unanswered == 0:
            raise NotYet("no sample")

    sampler.start()
    until("a sample", check, timeout_s=10.0)
    sampler.stop()
    return sampler


def judged(sampler: Sampler) -> list[str]:
    truth = verdicts.Truth()
    when = {"at": NOW, "seen_at": NOW}
    place = (f'{{"position":{TRUE}}}', 3, 2, NOW)
    truth.add(verdicts.POSITION, ("file", '{"filename":"/in"}'), place, **when)
    truth.add(verdicts.FIELD, ("file", "filename=/in", "position"), TRUE, **when)
    ages = verdicts.ages(ends_s=1.0, groups_s=1.0, timeout_s=1.0)
    return verdicts.judge(sampler.claims, truth, ages).wrong


def test_the_sampler_takes_what_is_true_for_right(daemon):
    sampler = sampled(daemon)
    assert len(sampler.claims) >= 4
    assert judged(sampler) == []


def test_the_sampler_finds_a_served_value_that_was_never_true(daemon):
    Served.position = TRUE + 1
    wrong = judged(sampled(daemon))
    assert {sentence.split()[0] for sentence in wrong} == {verdicts.POSITION, verdicts.FIELD}


def test_a_daemon_that_does_not_answer_says_nothing_and_is_counted():
    sampler = sampled(f"http://{LOOPBACK}:{free_port()}")
    assert sampler.claims == []
    assert sampler.unanswered >= 1


def test_the_same_seed_gives_the_same_blows_and_more_of_them_do_not_change_the_first():
    assert chaos.schedule(seed=5, kills=50)[:10] == chaos.schedule(seed=5, kills=10)
    assert chaos.schedule(seed=5, kills=10) != chaos.schedule(seed=6, kills=10)


def test_fifty_blows_meet_everyone():
    victims = {kill.victim for kill in chaos.schedule(seed=1, kills=50)}
    assert victims == set(chaos.VICTIMS)


def test_a_run_passes_only_if_enough_was_compared_and_nothing_was_wrong():
    report = chaos.Report(seed=1, commit="abc")
    report.outcome.compared["lag"] = chaos.COMPARED_MIN - 1
    assert not report.sound
    report.outcome.compared["lag"] = chaos.COMPARED_MIN
    assert report.sound
    for faults in (report.outcome.wrong, report.unsound, report.unrecovered):
        faults.append("a sentence")
        assert not report.sound
        assert "a sentence" in "\n".join(report.lines())
        faults.clear()
