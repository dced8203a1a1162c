"""Ages against a slow and plain telling of the same: every log, every moment, remembered whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.model.observations import FirstRecord, NoRecordBefore, ProbeResult
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.mirror.lag import (
    LOG_ENDS,
    RECORD,
    OldestRecordAges,
    UnreadRange,
)

WHO = ("lab", "mm2", TopicPartition("orders", 0))

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 4)),
        st.tuples(st.just("mark"), st.integers(1, 3)),
        st.tuples(st.just("backdate"), st.integers(1, 50)),
        st.tuples(st.just("move"), st.integers(0, 6)),
        st.tuples(st.just("rewind"), st.integers(1, 6)),
        st.tuples(st.just("retain"), st.integers(0, 4)),
        st.tuples(st.just("ends"), st.just(0)),
        st.tuples(st.just("probe"), st.just(0)),
        st.tuples(st.just("recreate"), st.integers(0, 3)),
    ),
    max_size=40,
)


@dataclass
class Log:
    """A partition, a follower of it, and all that was ever seen of this log."""

    now: float = 1000.0
    lives: int = 1
    start: int = 0
    end: int = 0
    records: dict[int, float] = field(default_factory=dict)
    following: int = 0
    shown: tuple[int, int] = (0, 0)
    observations: list[tuple[float, int]] = field(default_factory=list)

    def write(self, moment: float) -> None:
        self.records[self.end] = moment
        self.end += 1

    def first(self, offset: int) -> FirstRecord | NoRecordBefore:
        for number in range(max(offset, self.start), self.end):
            if number in self.records:
                return FirstRecord(number, self.records[number])
        return NoRecordBefore(max(offset, self.end))

    def not_before(self, offset: int) -> float | None:
        return max((moment for moment, end in self.observations if end <= offset), default=None)


def build_unread_range(log: Log) -> UnreadRange:
    start, end = log.shown
    return UnreadRange(following=max(log.following, start), start=start, end=end)


def step(log: Log, ages: OldestRecordAges, verb: str, number: int) -> None:
    log.now += 1
    match verb:
        case "write":
            for _ in range(number):
                log.write(log.now)
        case "mark":
            log.end += number
        case "backdate":
            log.write(log.now - number)
        case "move":
            log.following = min(log.following + number, log.end)
        case "rewind":
            log.following = max(0, log.following - number)
        case "retain":
            log.start = min(log.start + number, log.end)
            log.records = {
                offset: when for offset, when in log.records.items() if offset >= log.start
            }
        case "ends":
            log.shown = (log.start, log.end)
            log.observations.append((log.now, log.end))
            ages.identify("west", {"orders": f"id-{log.lives}"}, log.now)
            ages.apply_bounds("west", [(WHO, build_unread_range(log))], at=log.now, now=log.now)
        case "probe":
            expected = ages.compute_lateness("west", WHO, build_unread_range(log)).probe_from
            if expected is not None and log.start <= expected <= log.end:
                ages.apply_probes([ProbeResult(WHO, expected, log.first(expected))], log.now)
        case "recreate":
            # Its end may be anywhere, and MirrorMaker still stands where it stood in the old one.
            log.start, log.end, log.records, log.observations = 0, 4 * number, {}, []
            log.following = min(log.following, log.end)
            log.lives += 1
            step(log, ages, "ends", 0)


@given(STEPS)
def test_what_is_reported_is_true_and_nothing_older_than_the_truth_is_reported_of_a_record(steps):
    log, ages = Log(), OldestRecordAges()
    step(log, ages, "ends", 0)
    for verb, number in steps:
        step(log, ages, verb, number)
        item = build_unread_range(log)
        lateness = ages.compute_lateness("west", WHO, item)
        truth = log.first(item.following)
        waits = isinstance(truth, FirstRecord)
        if lateness.caught_up:
            assert not waits or truth.offset >= item.end
            assert (lateness.since, lateness.probe_from) == (None, None)
        elif lateness.caught_up is False:
            assert lateness.probe_from is None
            # Retention may have taken the record since, which the next log ends will tell.
            if waits and log.start == item.start:
                floor = log.not_before(truth.offset)
                exact = truth.at if floor is None else max(truth.at, floor)
                assert lateness.known_by == RECORD
                assert truth.at <= lateness.since <= exact
                rewound = log.following < max((end for _, end in log.observations), default=0)
                assert lateness.since == exact or rewound
        else:
            assert item.following <= lateness.probe_from <= item.end
            assert (lateness.known_by == LOG_ENDS) is (lateness.since is not None)
            if lateness.since is not None and waits:
                assert lateness.since <= (log.not_before(truth.offset) or lateness.since)


@given(STEPS)
def test_a_read_of_what_is_wanted_leaves_nothing_to_be_wanted(steps):
    log, ages = Log(), OldestRecordAges()
    for verb, number in steps:
        step(log, ages, verb, number)
        step(log, ages, "ends", 0)
        step(log, ages, "probe", 0)
        assert ages.compute_lateness("west", WHO, build_unread_range(log)).probe_from is None
