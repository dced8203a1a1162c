"""What a daemon that may act does about real trouble: exactly what it says, and no more."""

from __future__ import annotations

import json

import pytest

from lab.stories import cluster_actions
from lab.stories.sinks import NOT_JSON
from tests.real.telling import SKIP, Stories, Told, asked

pytestmark = [pytest.mark.real, pytest.mark.proof]

IN_TOPIC = "east/offsetwatch.quarantine-"


def skipped(told: Told, moment: str, before: int = 0) -> dict:
    """The offsets that a skip has set, once it is clear that it asked for nothing else."""
    changes = told.changes[moment][before:]
    assert asked(changes) == SKIP
    assert {at.reached for at in changes} == {1}
    assert told.ends[moment]["ending"] == "succeeded"
    (pair,) = json.loads(changes[1].body)["offsets"]
    return pair


def test_a_bad_record_is_skipped_exactly_once_a_person_approves_it(remedies: Stories) -> None:
    told = remedies["sink"]
    poison, _ = told.values["poison"]
    assert told.values["first against"] == {"proven"}
    assert skipped(told, "first") == {
        "partition": {"kafka_topic": "act-sink", "kafka_partition": 0},
        "offset": {"kafka_offset": poison + 1},
    }
    lines, expected = told.values["first lines"]
    assert lines == expected


def test_the_next_one_is_skipped_by_itself_where_that_is_allowed(remedies: Stories) -> None:
    told = remedies["sink"]
    _, poison = told.values["poison"]
    assert told.values["second by"] == "policy"
    assert skipped(told, "second", before=3)["offset"] == {"kafka_offset": poison + 1}
    lines, expected = told.values["second lines"]
    assert lines == expected


def test_what_was_skipped_stands_in_quarantine_to_the_byte(remedies: Stories) -> None:
    told = remedies["sink"]
    rows = {at["offset"]: at for at in told.values["quarantine"]}
    assert set(rows) == set(told.values["poison"])
    assert all(at["where"].startswith(IN_TOPIC) for at in rows.values())
    assert told.values["copies"] == [NOT_JSON, NOT_JSON]


def test_nothing_is_skipped_by_itself_where_an_operator_may_set_the_connector_back(
    remedies: Stories,
) -> None:
    told = remedies["sink"]
    assert told.values["third against"] == {"unmanaged"}
    assert told.values["third stands"] == "proposed"
    assert told.changes["third"] == told.changes["second"]


def test_a_record_too_large_for_mm2_is_skipped_and_all_others_are_copied(
    remedies: Stories,
) -> None:
    told = remedies["mirror"]
    poison = told.values["poison"]
    assert skipped(told, "skip")["offset"] == {"offset": poison}
    copied, upstream = told.values["copied"]
    assert copied == upstream
    (row,) = told.values["quarantine"]
    assert row["offset"] == poison
    # That topic takes what others would not; what is too large for it is a file (test_quarantine).
    assert row["where"].startswith(IN_TOPIC)
    assert row["size_bytes"] > cluster_actions.LARGE_BYTES


def test_a_connector_is_stopped_for_what_we_found_and_never_for_what_an_alert_says(
    remedies: Stories,
) -> None:
    told = remedies["stop"]
    assert told.values["alert alone"] == (202, [])
    assert told.values["alert"] == 202
    assert told.ends["stop"]["ending"] == "succeeded"
    assert "recopy" in told.values["evidence"]


def test_what_was_stopped_stays_so_until_a_person_has_it_run_again(remedies: Stories) -> None:
    told = remedies["stop"]
    assert told.values["states"] == ("STOPPED",)
    assert told.values["held"] is not None
    assert told.values["states later"] == ("RUNNING", "RUNNING")
    assert asked(told.changes["all"]) == ["PUT /stop"]


def test_what_failed_for_something_that_is_back_is_restarted_and_delivers_all(
    remedies: Stories,
) -> None:
    told = remedies["away"]
    assert told.ends["restart"]["ending"] == "succeeded"
    (change,) = told.changes["put"]
    assert asked([change]) == ["POST /restart"]
    assert "onlyFailed=true" in change.path
    rows, expected = told.values["rows"]
    assert rows == expected
