"""What a daemon that may act does about real trouble: exactly what it says, and no more."""

from __future__ import annotations

import json

import pytest

from lab.stories import cluster_actions
from lab.stories.sinks import NOT_JSON
from tests.real.remediation_stories import SKIP, Stories, StoryResult, list_requests

pytestmark = [pytest.mark.real, pytest.mark.proof]

IN_TOPIC = "east/offsetwatch.quarantine-"


def skipped(report: StoryResult, moment: str, before: int = 0) -> dict:
    """The offsets that a skip has set, once it is clear that it asked for nothing else."""
    changes = report.changes[moment][before:]
    assert list_requests(changes) == SKIP
    assert {change.reached for change in changes} == {1}
    assert report.ends[moment]["ending"] == "succeeded"
    (pair,) = json.loads(changes[1].body)["offsets"]
    return pair


def test_a_bad_record_is_skipped_exactly_once_an_operator_approves_it(remedies: Stories) -> None:
    sink = remedies["sink"]
    poison, _ = sink.values["poison"]
    assert sink.values["first against"] == {"proven"}
    assert skipped(sink, "first") == {
        "partition": {"kafka_topic": "act-sink", "kafka_partition": 0},
        "offset": {"kafka_offset": poison + 1},
    }
    lines, expected = sink.values["first lines"]
    assert lines == expected


def test_the_next_one_is_skipped_by_itself_where_that_is_allowed(remedies: Stories) -> None:
    sink = remedies["sink"]
    _, poison = sink.values["poison"]
    assert sink.values["second by"] == "policy"
    assert skipped(sink, "second", before=3)["offset"] == {"kafka_offset": poison + 1}
    lines, expected = sink.values["second lines"]
    assert lines == expected


def test_what_was_skipped_is_in_quarantine_to_the_byte(remedies: Stories) -> None:
    sink = remedies["sink"]
    rows = {item["offset"]: item for item in sink.values["quarantine"]}
    assert set(rows) == set(sink.values["poison"])
    assert all(item["where"].startswith(IN_TOPIC) for item in rows.values())
    assert sink.values["copies"] == [NOT_JSON, NOT_JSON]


def test_nothing_is_skipped_by_itself_where_an_operator_may_set_the_connector_back(
    remedies: Stories,
) -> None:
    sink = remedies["sink"]
    assert sink.values["third against"] == {"unmanaged"}
    assert sink.values["third stands"] == "proposed"
    assert sink.changes["third"] == sink.changes["second"]


def test_a_record_too_large_for_mm2_is_skipped_and_all_others_are_copied(
    remedies: Stories,
) -> None:
    mirror = remedies["mirror"]
    poison = mirror.values["poison"]
    assert skipped(mirror, "skip")["offset"] == {"offset": poison}
    copied, upstream = mirror.values["copied"]
    assert copied == upstream
    (row,) = mirror.values["quarantine"]
    assert row["offset"] == poison
    # That topic takes what others would not; what is too large for it is a file (test_quarantine).
    assert row["where"].startswith(IN_TOPIC)
    assert row["size_bytes"] > cluster_actions.LARGE_BYTES


def test_a_connector_is_stopped_for_what_we_found_and_never_for_what_an_alert_says(
    remedies: Stories,
) -> None:
    stop = remedies["stop"]
    assert stop.values["alert alone"] == (202, [])
    assert stop.values["alert"] == 202
    assert stop.ends["stop"]["ending"] == "succeeded"
    assert "recopy" in stop.values["evidence"]


def test_what_was_stopped_stays_so_until_an_operator_has_it_run_again(remedies: Stories) -> None:
    stop = remedies["stop"]
    assert stop.values["states"] == ("STOPPED",)
    assert stop.values["held"] is not None
    assert stop.values["states later"] == ("RUNNING", "RUNNING")
    assert list_requests(stop.changes["all"]) == ["PUT /stop"]


def test_what_failed_for_something_that_is_back_is_restarted_and_delivers_all(
    remedies: Stories,
) -> None:
    report = remedies["away"]
    assert report.ends["restart"]["ending"] == "succeeded"
    (change,) = report.changes["put"]
    assert list_requests([change]) == ["POST /restart"]
    assert "onlyFailed=true" in change.path
    rows, expected = report.values["rows"]
    assert rows == expected


def test_a_line_that_a_source_cannot_process_is_skipped_and_all_others_are_delivered(
    remedies: Stories,
) -> None:
    lines = remedies["lines"]
    assert lines.values["evidence"]["found by"] == "next_record"
    assert skipped(lines, "first")["offset"] == {"position": len("1\n2\nthree\n")}
    assert skipped(lines, "all", before=3)["offset"] == {"position": len("1\n2\nthree\n4\nfive\n")}
    assert lines.values["delivered"] == ["1", "2", "4", "6"]
    assert lines.values["copies"] == ["three\n", "five\n"]
    assert all(item["where"].startswith(IN_TOPIC) for item in lines.values["quarantine"])
