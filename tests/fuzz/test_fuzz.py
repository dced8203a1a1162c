"""A hundredth of what `make proofs` tries (python -m tests.fuzz), and that it would find what is to
be found.
"""

from __future__ import annotations

import json
import sys

import pytest

from offsetwatch.decode import topic_records
from offsetwatch.serve.control import dispatcher
from offsetwatch.serve.control.access import UserRole
from tests.fuzz import campaign as campaigns
from tests.fuzz import rest, topics
from tests.fuzz.campaign import campaign, plan, tried
from tests.fuzz.every import RECORDS as TARGETS
from tests.fuzz.every import bodies, every, files
from tests.fuzz.targets import Target

SEED = 8
RECORDS = 50_000


def format_report(report):
    return "\n".join(report.lines())


@pytest.fixture
def requests(tmp_path):
    return bodies(tmp_path)


@pytest.mark.slow
def test_whatever_bytes_arrive_there_is_a_value_or_the_error_that_is_documented():
    report = campaign(TARGETS, SEED, RECORDS)
    assert not report.first, format_report(report)
    assert report.tried.total() > RECORDS * 0.99
    assert set(report.tried) == set(TARGETS)


@pytest.mark.slow
def test_whatever_is_queried_of_the_listener_nothing_changes_without_a_right(requests):
    report = campaign(requests, SEED, 2_000)
    assert not report.first, format_report(report)
    assert report.tried.total() > 1_900


@pytest.mark.slow
def test_whatever_is_in_a_configuration_it_is_one_or_has_mistakes(tmp_path):
    report = campaign(files(tmp_path), SEED, 200)
    assert not report.first, format_report(report)
    assert report.tried.total() > 190


def test_what_requests_are_made_of_is_answered_in_all_ways(requests):
    statuses = {requests["bodies"].run(*seed) for seed in requests["bodies"].seeds}
    assert statuses >= {200, 201, 202, 403, 404, 409}


def test_a_record_is_found_again_by_its_number(tmp_path):
    for target in every(tmp_path).values():
        results = [target.record(SEED, number) for number in range(200)]
        assert results == [target.record(SEED, number) for number in range(200)]
        assert len(set(results)) > 100
        assert results != [target.record(SEED + 1, number) for number in range(200)]


def test_every_target_is_tried_alike_whenever_it_ends():
    spans = plan(TARGETS.values(), 500_000)
    for name in TARGETS:
        of = [offset for offset, (subject, _) in enumerate(spans) if subject == name]
        assert of[0] < len(TARGETS)
        assert of == sorted(of)
    assert sum(len(numbers) for _, numbers in spans) == pytest.approx(500_000, rel=0.01)


@pytest.mark.parametrize("word", ["x", "password=", "secret ", 'key="', "://me:", "password"])
def test_an_answer_that_repeats_one_word_does_not_take_the_square_of_its_length(monkeypatch, word):
    monkeypatch.setattr(campaigns, "SECONDS_MAX", 0.1)
    body = json.dumps({"message": word * (16_384 // len(word))}).encode()
    target = Target("repeating", [(b"500", body)], rest.decode_answer, often=(0.0, 0.0))
    report = tried(target, SEED, range(1))
    assert not report.first, format_report(report)


def caught(report):
    (finding,) = report.first.values()
    return finding


def offsets(monkeypatch, name, planted, where=topic_records):
    """What is found in an offsets topic with this in place of what the decoders call."""
    monkeypatch.setattr(where, name, planted)
    return tried(TARGETS["connect_offsets"], SEED, range(2_500))


def test_a_decoder_that_raises_on_one_pattern_of_bytes_is_found_and_shown(monkeypatch):
    real = topic_records.decode_value

    def planted(raw):
        if raw is not None and b'":-' in raw:
            raise KeyError("offset")
        return real(raw)

    report = offsets(monkeypatch, "decode_value", planted)
    finding = caught(report)
    assert finding.what == "KeyError: 'offset'"
    assert b'":-' in finding.parts[1]
    assert finding.parts == TARGETS["connect_offsets"].record(SEED, finding.number)
    lines = format_report(report)
    assert finding.parts[1].hex() in lines
    assert f"--repeat connect_offsets:{SEED}:{finding.number}" in lines


def test_a_decoder_that_goes_on_and_on_is_found(monkeypatch):
    monkeypatch.setattr(campaigns, "SECONDS_MAX", 0.05)
    real = topic_records.decode_value

    def planted(raw):
        while raw == b"":
            pass
        return real(raw)

    assert "more than 0.05 s" in caught(offsets(monkeypatch, "decode_value", planted)).what


def test_a_fast_path_that_says_something_else_is_found(monkeypatch):
    real = topics.parse_flat_map

    def planted(raw):
        fields = real(raw)
        return fields and {name: at + 0.0 if at == 7 else at for name, at in fields.items()}

    report = offsets(monkeypatch, "parse_flat_map", planted, topics)
    assert "one_reading" in caught(report).origin


def test_a_decoder_that_takes_what_it_is_reported_for_a_length_is_found(monkeypatch):
    """By what it keeps: the peak of a process may lie in a test before this one."""
    retained = []
    monkeypatch.setattr(campaigns, "GROWTH_BYTES_MAX", 16 * 1024 * 1024)
    monkeypatch.setattr(campaigns, "_peak_bytes", lambda: sum(map(len, retained)))

    def planted(key, value):
        if len(value or b"") > 4:
            retained.append(b"x" * min(2**16, int.from_bytes(value[:4], "big")))

    target = Target("planted", [(b"k", b"\x00\x00\x00\x01" * 2)], planted)
    finding = caught(tried(target, SEED, range(2_000)))
    assert "grown by" in finding.what


def test_a_request_that_ends_in_an_error_of_ours_is_found(monkeypatch, requests):
    def planted(payload, is_known):
        return payload["alerts"][0]["labels"]["connector"]

    monkeypatch.setattr(dispatcher, "parse_payload", planted)
    report = tried(requests["bodies"], SEED, range(300))
    assert any(
        "500" in finding.what and "Error" in finding.what for finding in report.first.values()
    )


def test_a_role_that_may_do_more_than_it_should_is_found(monkeypatch, requests):
    monkeypatch.setattr(UserRole, "allows", lambda role, needed: True)
    for name, check in (("bodies", "in_memory"), ("bodies_journal", "on_a_journal")):
        report = tried(requests[name], SEED, range(200))
        assert any(check in origin for _, origin in report.first), format_report(report)


def test_a_configuration_that_is_read_into_something_else_is_found(monkeypatch, tmp_path):
    module = sys.modules["offsetwatch.config.load"]  # a function of this name hides it
    monkeypatch.setattr(module, "read_yaml", lambda path: {"kafka": path.read_bytes()[40_000]})
    report = tried(files(tmp_path)["configurations"], SEED, range(100))
    assert "IndexError" in caught(report).what
