"""The judge of the pipeline's kills: what is missing, double or invented is found."""

from __future__ import annotations

from typing import Any

import pytest

from lab.check.steady_commits import Bytes, Identity
from lab.kills.history import IN_BATCH, MOMENTS, Report, compare, schedule

HELD: dict[Identity, Bytes] = {
    ("t", 0, 0): (b"key", b"value"),
    ("t", 0, 1): (b"key", None),
    ("t", 1, 0): (None, b"value"),
}


def rows() -> list[dict[str, Any]]:
    return [
        {"kafka": "east", "topic": topic, "topic_id": "id", "kpartition": partition}
        | {"koffset": offset, "key": key, "value": value}
        for (topic, partition, offset), (key, value) in HELD.items()
    ]


def judged(result: list[dict[str, Any]]) -> Report:
    report = Report(seed=1, commit="c")
    compare(report, result, HELD, {"t": "id"})
    return report


def test_the_same_records_are_sound() -> None:
    report = judged(rows())
    assert (report.rows, report.sound) == (3, True)


def test_a_missing_record_is_lost() -> None:
    report = judged(rows()[1:])
    assert report.lost == [("t", 0, 0)]
    assert not report.sound


def test_a_record_stored_twice_is_doubled() -> None:
    report = judged([*rows(), rows()[2]])
    assert report.doubled == 1
    assert not report.sound


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"value": b"other"}, id="other value"),
        pytest.param({"value": b""}, id="empty instead of none"),
        pytest.param({"key": None}, id="no key"),
        pytest.param({"topic_id": "older"}, id="another topic of the name"),
        pytest.param({"kafka": "west"}, id="another cluster"),
        pytest.param({"koffset": 7}, id="another place"),
    ],
)
def test_what_the_topics_do_not_hold_is_strange(change: dict[str, object]) -> None:
    result = rows()
    result[1] |= change
    report = judged(result)
    assert report.strange == [("t", 0, change.get("koffset", 1))]
    assert not report.sound


def test_nothing_read_proves_nothing() -> None:
    report = Report(seed=1, commit="c")
    compare(report, [], {}, {})
    assert not report.sound


def test_the_same_seed_gives_the_same_blows_however_many_follow() -> None:
    assert schedule(7, 20)[:3] == schedule(7, 3)
    assert schedule(7, 20) != schedule(8, 20)


def test_twenty_blows_meet_every_moment_and_most_of_them_a_batch() -> None:
    blows = schedule(7, 20)
    moments = [blow.moment for blow in blows]
    assert set(moments) == set(MOMENTS)
    assert moments.count(IN_BATCH) >= 5
    assert [number for number, blow in enumerate(blows) if blow.outage_s] == [5, 15]
