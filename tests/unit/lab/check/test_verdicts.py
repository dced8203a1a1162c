"""The judge of a chaos run can say "wrong": a value never true, no longer true, not yet true."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lab.check import ground_truth, ground_truth_recorder, verdicts
from lab.check.ground_truth_recorder import EndsSample, Record
from lab.check.verdicts import (
    COMMITTED,
    FIELD,
    LAG,
    LAG_POSITION,
    LOG_END,
    LOG_START,
    POLLED,
    POSITION,
    REPLICATED,
    SINK_POSITION,
    SNAPSHOT,
    SYNC,
    SYNCED,
    Claim,
    EndsHistory,
    Step,
    Truth,
    judge,
)

NOW = 1_800_000_000.0
AGES = verdicts.compute_age_limits(ends_s=1.0, groups_s=1.0, timeout_s=2.0)
ORDERS = ("west", "orders", 0)
FILE = ("file-source", '{"filename":"/in"}')
LINES = ("connect-file-sink", "lines", 0)
END = ("orders", 0)


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, tz=UTC).isoformat()


def ends(*known: tuple[float, int]) -> EndsHistory:
    """Answers of a broker: (seconds from NOW, log end), each within a tenth of a second."""
    samples = [
        EndsSample(
            requested_at=NOW + moment,
            answered_at=NOW + moment + 0.1,
            ends={END: end, ("lines", 0): end},
        )
        for moment, end in known
    ]
    return EndsHistory(samples)


def record(key: bytes, value: bytes | None, *, offset: int, moment: float) -> Record:
    """Seen a tenth of a second after it was written, `at` seconds from NOW."""
    return Record(
        partition=3,
        offset=offset,
        key=key,
        value=value,
        at=NOW + moment,
        observed_at=NOW + moment + 0.1,
    )


@pytest.fixture
def truth() -> Truth:
    """Everything moved 100 s ago and 1 s ago, and will have moved again in 5 s."""
    built = Truth(ends={"west": ends((-200, 10), (-100, 40), (-1, 50), (5, 60))})
    built.ends = {**built.ends, "east": ends((-200, 10), (-100, 40), (-1, 50), (5, 60))}
    key = b'["file-source",{"filename":"/in"}]'
    mirror = b'["mm2-source",{"cluster":"west","partition":0,"topic":"orders"}]'
    for number, index in enumerate((-200, -100, -1, 5)):
        position = record(key, b'{"position":%d}' % (10 * number), offset=number, moment=index)
        ground_truth.add_commit(built, position)
        offset = record(mirror, b'{"offset":%d}' % (10 * number), offset=number, moment=index)
        ground_truth.add_commit(built, offset)
        when = {"at": NOW + index, "observed_at": NOW + index + 0.1}
        built.add(SINK_POSITION, LINES, 10 * number, **when)
        built.add(SYNC, ORDERS, (10 * number + 1, number, NOW + index), **when)
        built.add(SYNCED, ORDERS, 10 * number + 1, **when)
    return built


def claimed(kind: str, subject: tuple[object, ...], value: object) -> Claim:
    return Claim(kind, subject, value, requested_at=NOW, answered_at=NOW + 0.01)


def sentences(truth: Truth, *claims: Claim) -> list[str]:
    result = judge(claims, truth, AGES)
    assert result.compared.total() == len(claims)
    return result.wrong


NEWEST = [
    pytest.param(POSITION, FILE, ('{"position":20}', 3, 2, NOW - 1), id="position"),
    pytest.param(FIELD, ("file-source", "filename=/in", "position"), 20, id="field"),
    pytest.param(COMMITTED, ORDERS, 20, id="committed"),
    pytest.param(SYNC, ORDERS, (21, 2, NOW - 1), id="sync"),
    pytest.param(SYNCED, ORDERS, 21, id="synced"),
    pytest.param(REPLICATED, ORDERS, 20, id="replicated as committed"),
    pytest.param(REPLICATED, ORDERS, 21, id="replicated as synced"),
    pytest.param(LAG_POSITION, ORDERS, 20, id="lag position"),
    pytest.param(SINK_POSITION, LINES, 20, id="sink position"),
    pytest.param(LOG_END, ORDERS, 50, id="log end"),
    pytest.param(LOG_END, ORDERS, 40, id="log end of a second ago"),
    pytest.param(LAG, ORDERS, ((7, 0), (7, 0)), id="lag"),
    pytest.param(SNAPSHOT, (), NOW - 0.2, id="snapshot"),
]


@pytest.mark.parametrize(("kind", "subject", "value"), NEWEST)
def test_what_was_true_just_now_is_right(truth, kind, subject, value):
    assert sentences(truth, claimed(kind, subject, value)) == []


NEVER = [
    pytest.param(POSITION, FILE, ('{"position":21}', 3, 2, NOW - 1), id="no such offset"),
    pytest.param(POSITION, FILE, ('{"position":20}', 3, 1, NOW - 1), id="another log offset"),
    pytest.param(POSITION, FILE, ('{"position":20}', 2, 2, NOW - 1), id="another kafka partition"),
    pytest.param(POSITION, FILE, ('{"position":20}', 3, 2, NOW - 2), id="another commit time"),
    pytest.param(POSITION, ("gone", "{}"), ('{"position":20}', 3, 2, NOW), id="unknown subject"),
    pytest.param(FIELD, ("file-source", "filename=/in", "position"), 19, id="field"),
    pytest.param(COMMITTED, ORDERS, 21, id="a sync as commit"),
    pytest.param(SYNC, ORDERS, (21, 1, NOW - 1), id="upstream and downstream of two syncs"),
    pytest.param(SYNCED, ORDERS, 20, id="a commit as sync"),
    pytest.param(REPLICATED, ORDERS, 19, id="replicated"),
    pytest.param(LAG_POSITION, ORDERS, 22, id="lag position"),
    pytest.param(SINK_POSITION, LINES, 21, id="sink position"),
    pytest.param(LOG_END, ORDERS, 61, id="beyond every log end"),
    pytest.param(LOG_END, ("west", "orders", 9), 50, id="log end of no partition"),
    pytest.param(LAG, ORDERS, ((6, 0), (7, 0)), id="a lag that does not add up"),
    pytest.param(LAG, ORDERS, ((0, 3), (-3, 0)), id="a position beyond the log end"),
]


@pytest.mark.parametrize(("kind", "subject", "value"), NEVER)
def test_what_was_never_true_is_wrong(truth, kind, subject, value):
    (sentence,) = sentences(truth, claimed(kind, subject, value))
    assert "was never true" in sentence


OLD = [
    pytest.param(POSITION, FILE, ('{"position":0}', 3, 0, NOW - 200), id="position"),
    pytest.param(FIELD, ("file-source", "filename=/in", "position"), 0, id="field"),
    pytest.param(COMMITTED, ORDERS, 0, id="committed"),
    pytest.param(SYNC, ORDERS, (1, 0, NOW - 200), id="sync"),
    pytest.param(REPLICATED, ORDERS, 0, id="replicated"),
    pytest.param(LAG_POSITION, ORDERS, 0, id="lag position"),
    pytest.param(SINK_POSITION, LINES, 0, id="sink position"),
    pytest.param(LOG_END, ORDERS, 10, id="log end"),
    pytest.param(SNAPSHOT, (), NOW - 100, id="a loop that stands still"),
]


@pytest.mark.parametrize(("kind", "subject", "value"), OLD)
def test_what_was_true_too_long_ago_is_wrong(truth, kind, subject, value):
    (sentence,) = sentences(truth, claimed(kind, subject, value))
    assert "was last true" in sentence


FUTURE = [
    pytest.param(POSITION, FILE, ('{"position":30}', 3, 3, NOW + 5), id="position"),
    pytest.param(COMMITTED, ORDERS, 30, id="committed"),
    pytest.param(SINK_POSITION, LINES, 30, id="sink position"),
    pytest.param(LOG_END, ORDERS, 61, id="log end"),
]


@pytest.mark.parametrize(("kind", "subject", "value"), FUTURE)
def test_what_becomes_true_only_later_is_wrong(truth, kind, subject, value):
    (sentence,) = sentences(truth, claimed(kind, subject, value))
    assert "was never true before" in sentence


def test_a_value_that_was_taken_back_counts_from_its_last_time(truth):
    for number, value in enumerate((7, 8, 7, 9)):
        when = NOW - 300 + number
        truth.add(SINK_POSITION, ("again",), value, at=when, observed_at=when)
    age = truth.compute_age(claimed(SINK_POSITION, ("again",), 7))
    assert age == NOW - (NOW - 297)


HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("steps", "ahead_s", "right"),
    [
        pytest.param([(-100, HOUR_S)], HOUR_S, True, id="by the clock that it has"),
        pytest.param([(-100, HOUR_S)], 0.0, False, id="by a clock that it had long ago"),
        pytest.param([(-2, HOUR_S)], 0.0, True, id="by a clock that it had just now"),
        pytest.param([(-100, HOUR_S), (-2, 0.0)], HOUR_S, True, id="set back just now"),
        pytest.param([(-100, HOUR_S), (-50, 0.0)], HOUR_S, False, id="set back long ago"),
        pytest.param([(-100, -HOUR_S)], -HOUR_S, True, id="behind"),
        pytest.param([(+2, HOUR_S)], HOUR_S, False, id="by a clock that it has only later"),
        pytest.param([(-100, HOUR_S)], HOUR_S - 100, False, id="a loop that stands still"),
    ],
)
def test_a_snapshot_is_of_its_moment_by_a_clock_that_the_daemon_had_then(
    truth: Truth, *, steps: list[tuple[float, float]], ahead_s: float, right: bool
):
    truth.steps = tuple(Step(at=NOW + moment, ahead_s=by) for moment, by in steps)
    assert (sentences(truth, claimed(SNAPSHOT, (), NOW - 0.1 + ahead_s)) == []) == right


def test_a_served_document_with_a_value_that_was_never_true_is_found_out(truth):
    document = {
        "at": rfc3339(NOW),
        "inputs": [],
        "connectors": [
            {
                "name": "file-source",
                "source_partitions": [
                    {
                        "source_partition": {"filename": "/in"},
                        "offset": {"position": 20},
                        "kafka_partition": 3,
                        "log_offset": 2,
                        "committed_at": rfc3339(NOW - 1),
                        "from": "topic",
                    },
                    {
                        "source_partition": {"filename": "/in"},
                        "offset": {"position": 20},
                        "kafka_partition": None,
                        "log_offset": None,
                        "committed_at": None,
                        "from": "rest",
                    },
                    {
                        "source_partition": {"filename": "/forgotten"},
                        "offset": None,
                        "kafka_partition": 3,
                        "log_offset": 1,
                        "committed_at": None,
                    },
                ],
                "sink_partitions": [],
            },
            {
                "name": "file-sink",
                "source_partitions": [],
                "sink_partitions": [
                    {
                        "topic": "lines",
                        "partition": 0,
                        "committed": 20,
                        "log_end": 50,
                        "lag_records": 30,
                    }
                ],
            },
        ],
    }
    right = verdicts.of_connectors(document, NOW, NOW)
    assert sentences(truth, *right) == []
    expected = [SNAPSHOT, POSITION, POLLED, SINK_POSITION, LOG_END, LAG]
    assert [claim.kind for claim in right] == expected
    for partition in document["connectors"][0]["source_partitions"][:2]:
        partition["offset"] = {"position": 25}
    document["connectors"][1]["sink_partitions"][0]["committed"] = 21
    result = sentences(truth, *verdicts.of_connectors(document, NOW, NOW))
    assert [sentence.split()[0] for sentence in result] == [POSITION, POLLED, SINK_POSITION, LAG]


def test_flows_and_metrics_that_were_never_true_are_found_out(truth):
    partition = {
        "topic": "orders",
        "partition": 0,
        "committed": 20,
        "synced": 21,
        "replicated": 21,
        "log_start": 0,
        "log_end": 50,
        "lag_records": 29,
        "ahead_records": 0,
        "lag_position": 20,
    }
    sync = {"topic": "orders", "partition": 0, "upstream_offset": 21, "downstream_offset": 2}
    flow = {
        "source": "west",
        "upstream": "west",
        "partitions": [partition],
        "syncs": [{**sync, "at": rfc3339(NOW - 1)}],
    }
    document = {"at": rfc3339(NOW), "inputs": [], "flows": [flow]}
    right = verdicts.of_flows(document, NOW, NOW)
    assert len(right) == 9
    assert sentences(truth, *right) == []
    partition.update(committed=19, synced=19, replicated=19, lag_position=22, log_end=51)
    partition.update(log_start=-1001)
    wrong = sentences(truth, *verdicts.of_flows(document, NOW, NOW))
    assert {sentence.split()[0] for sentence in wrong} == {
        COMMITTED,
        SYNCED,
        REPLICATED,
        LAG_POSITION,
        LOG_START,
        LAG,
    }
    labels = '{source="west",topic="orders",partition="0"}'
    name = '{connector="file-source",source_partition="filename=/in",field="position"}'
    text = (
        f"offsetwatch_source_offset_position{name} 20\n"
        f"offsetwatch_mm2_source_log_start_offset{labels} 0\n"
        f"offsetwatch_mm2_source_log_end_offset{labels} 50\n"
        f"offsetwatch_mm2_replicated_offset{labels} 20\n"
        f"offsetwatch_mm2_replication_lag_records{labels} %d\n"
        f"offsetwatch_mm2_ahead_records{labels} 0\n"
    )
    assert sentences(truth, *verdicts.of_metrics(text % 29, NOW, NOW)) == []
    (sentence,) = sentences(truth, *verdicts.of_metrics(text % 28, NOW, NOW))
    assert sentence.startswith(LAG)


def test_nothing_replicated_yet_is_right_only_until_the_first_commit():
    truth = Truth()
    claim = claimed(LAG_POSITION, ORDERS, None)
    assert sentences(truth, claim) == []
    truth.add(COMMITTED, ORDERS, 0, at=NOW - 1, observed_at=NOW - 1)
    assert sentences(truth, claim) == []
    truth = Truth()
    truth.add(COMMITTED, ORDERS, 0, at=NOW - 100, observed_at=NOW - 100)
    assert len(sentences(truth, claim)) == 1


def test_a_log_end_that_fell_makes_the_run_unsound():
    assert ends((0, 10), (1, 10), (2, 11)).fallen() == []
    assert ends((0, 10), (1, 9)).fallen() != []


def test_a_log_end_is_right_until_it_was_observed_passed():
    history = ends((0, 10), (10, 20), (20, 30))

    def compute_age(end: int, moment: float) -> float | None:
        return history.compute_age(END, end, requested_at=NOW + moment, answered_at=NOW + moment)

    assert compute_age(10, 5) == 0.0
    assert compute_age(15, 5) == 0.0  # reached at some time before 10 s
    assert compute_age(21, 5) is None
    assert compute_age(10, 15) == pytest.approx(15 - 10.1)
    assert compute_age(30, 20) == 0.0
    assert compute_age(31, 20) is None


def test_a_committed_group_offset_is_read_as_kafka_writes_it():
    key = b"\x00\x01\x00\x03bil\x00\x06orders\x00\x00\x00\x02"
    value = b"\x00\x03" + (77).to_bytes(8, "big") + b"\xff\xff\xff\xff\x00\x00" + bytes(8)
    built = record(key, value, offset=0, moment=0)
    assert ground_truth_recorder.group_offset(built) == (("bil", "orders", 2), 77)
    assert (
        ground_truth_recorder.group_offset(
            record(b"\x00\x02\x00\x03bil", b"\x00\x03", offset=1, moment=0)
        )
        is None
    )
    assert ground_truth_recorder.group_offset(record(key, None, offset=2, moment=0)) is None
