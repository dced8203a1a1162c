"""The parts of a chaos run: the seed decides, the sampler keeps lies, a report can fail."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time

import pytest

from lab.check import verdicts
from lab.check.process_memory import MIB, ProcessLifetime, Vitals, vitals
from lab.check.sampler import Sampler
from lab.faults import chaos
from lab.faults import kinds as faults
from lab.faults.kinds import Kind
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until

NOW = round(time(), 3)
TRUE = 20


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, tz=UTC).isoformat()


def served(position: int) -> dict[str, str]:
    """What a daemon answers that knows one position of one connector."""
    entry = {
        "source_partition": {"filename": "/in"},
        "offset": {"position": position},
        "kafka_partition": 3,
        "log_offset": 2,
        "committed_at": rfc3339(NOW),
        "from": "topic",
    }
    head = {"at": rfc3339(time()), "inputs": []}
    connector = {"name": "file", "source_partitions": [entry], "sink_partitions": []}
    name = '{connector="file",source_partition="filename=/in",field="position"}'
    return {
        "/api/v1/connectors": json.dumps({**head, "connectors": [connector]}),
        "/api/v1/flows": json.dumps({**head, "flows": []}),
        "/metrics": f"offsetwatch_source_offset_position{name} {position}\n",
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
    when = {"at": NOW, "observed_at": NOW}
    location = (f'{{"position":{TRUE}}}', 3, 2, NOW)
    truth.add(verdicts.POSITION, ("file", '{"filename":"/in"}'), location, **when)
    truth.add(verdicts.FIELD, ("file", "filename=/in", "position"), TRUE, **when)
    ages = verdicts.compute_age_limits(ends_s=1.0, groups_s=1.0, timeout_s=1.0)
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


def test_the_same_seed_gives_the_same_rounds_and_more_of_them_do_not_change_the_first():
    assert faults.schedule(seed=5, rounds=50)[:10] == faults.schedule(seed=5, rounds=10)
    assert faults.schedule(seed=5, rounds=10) != faults.schedule(seed=6, rounds=10)


@pytest.mark.parametrize("seed", range(20))
def test_twenty_rounds_meet_every_kind_and_later_ones_let_the_daemon_live(seed: int):
    kinds = [fault_round.kind for fault_round in faults.schedule(seed=seed, rounds=200)]
    assert set(kinds[:20]) == set(Kind)
    assert kinds.count(Kind.DAEMON) < kinds.count(Kind.BROKER) / 2


def test_some_rounds_last_longer_than_anything_is_believed():
    held = [fault_round.held_s for fault_round in faults.schedule(seed=1, rounds=200)]
    assert 5 <= sum(seconds > verdicts.TAIL_STALE_S for seconds in held) <= 40


@pytest.mark.parametrize(("choice", "chosen"), [(0.0, "a"), (0.34, "b"), (0.999999, "c")])
def test_one_number_chooses_among_any(choice: float, chosen: str):
    assert faults.one_of("abc", choice) == chosen


def test_every_kind_can_be_done():
    assert set(Kind) == {*faults.FAULTS, Kind.MASS_CREATION}


def test_a_run_passes_only_if_enough_was_compared_and_nothing_was_wrong():
    report = chaos.Report(seed=1, commit="abc")
    report.outcome.compared["lag"] = chaos.COMPARED_MIN - 1
    assert not report.sound
    report.outcome.compared["lag"] = chaos.COMPARED_MIN
    assert report.sound
    for result in (report.outcome.wrong, report.unsound, report.unrecovered):
        result.append("a sentence")
        assert not report.sound
        assert "a sentence" in "\n".join(report.lines())
        result.clear()
    report.processes.append(lived([100] * 100 + [150] * 100))
    assert not report.sound
    assert "grown: process 1" in "\n".join(report.lines())


def lived(rss_mib: Sequence[float], descriptors: int = 50) -> ProcessLifetime:
    samples = [
        Vitals(float(offset), int(rss * MIB), descriptors) for offset, rss in enumerate(rss_mib)
    ]
    return ProcessLifetime(pid=1, samples=samples)


@pytest.mark.parametrize(
    ("rss_mib", "grows"),
    [
        pytest.param([60 + number for number in range(50)] + [110] * 150, False, id="it begins"),
        pytest.param([100] * 150 + [160] + [100] * 49, False, id="a large answer"),
        pytest.param([100 + number / 4 for number in range(200)], True, id="a little every second"),
        pytest.param([100 + number for number in range(119)], False, id="too short to say"),
    ],
)
def test_memory_that_is_not_given_back_is_found(rss_mib: list[float], *, grows: bool):
    assert bool(lived(rss_mib).grown()) == grows


def test_descriptors_that_are_not_closed_are_found():
    incarnation = lived([100] * 200)
    incarnation.samples = [
        replace(sample, descriptors=50 + int(sample.at) // 2) for sample in incarnation.samples
    ]
    assert [line.partition(": ")[2] for line in incarnation.grown()] == [
        "descriptors from 87 to 137"
    ]


def test_a_process_has_memory_and_descriptors_until_it_has_ended():
    with subprocess.Popen(["sleep", "300"]) as first, subprocess.Popen(["sleep", "300"]) as second:
        try:
            for process in (first, second):
                result = vitals(process.pid, NOW)
                assert result is not None
                assert result.rss_bytes > 0
                assert result.descriptors >= 3
        finally:
            first.kill()
            second.kill()
    assert vitals(first.pid, NOW) is None
