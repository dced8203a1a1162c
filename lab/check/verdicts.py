"""
Is what the daemon serves true? Its answers as claims, held against all that was ever true.

Pure: what was served and what was witnessed go in, verdicts come out.

A claim is right if its value was true at some moment that the daemon may still speak of. What it
shows may be older than the answer it stands in, by design, and not by more than:

    snapshot    the loop publishes every tick; on a machine whose cores start JVMs, SNAPSHOT_S_MAX
    tail        it is shown until TAIL_STALE_S after the tail last stood at the end of its topic,
                and what it says then was the newest record at that moment
    log ends    until three polls and a time-out after the last answer
    groups      the same, and the log ends are asked for after the offsets, in the same poll
    lag         its position was put aside before the log ends were asked for
    rest        Connect reads its topic to the end before it answers; REST_S_MAX is for our own
                clocks, as it is the truth that is tested here
    polled      an offset that the daemon has from REST, while the topic cannot be read: until three
                polls and a time-out after the last answer

A value younger than the answer, or never true at all, is wrong whatever its age.
"""

import bisect
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lab.check.ground_truth_recorder import EndsSample
from lab.json_text import text
from lab.moments import seconds

Subject = tuple[Hashable, ...]

SNAPSHOT_S_MAX = 5.0
TAIL_STALE_S = 20.0
REQUEST_S_MAX = 10.0
REST_S_MAX = 1.0
POLLED_S = 60.0  # connect[].poll.rest_offsets_s by default
# A document rounds its moments, and a step and what is known of it are not at the same time.
CLOCK_S_MAX = 0.5

POSITION, FIELD, COMMITTED = "position", "field", "committed"
SYNC, SYNCED = "sync", "synced"
REPLICATED, LAG_POSITION = "replicated", "lag_position"
SINK_POSITION, LOG_END, LAG = "sink_position", "log_end", "lag"
LOG_START, SNAPSHOT, REST, POLLED = "log_start", "snapshot", "rest", "polled"


def compute_age_limits(*, ends_s: float, groups_s: float, timeout_s: float) -> dict[str, float]:
    """How old a right value may be, by kind, for a daemon with these settings; see the module."""
    tail = SNAPSHOT_S_MAX + TAIL_STALE_S
    ends = SNAPSHOT_S_MAX + 3 * max(ends_s, groups_s) + timeout_s
    return {
        SNAPSHOT: SNAPSHOT_S_MAX,
        **dict.fromkeys((POSITION, FIELD, COMMITTED, SYNC, SYNCED, REPLICATED), tail),
        LOG_END: ends,
        SINK_POSITION: ends + REQUEST_S_MAX,
        LAG_POSITION: ends + REQUEST_S_MAX + TAIL_STALE_S,
        LAG: 0.0,
        LOG_START: 0.0,
        REST: REST_S_MAX,
        POLLED: SNAPSHOT_S_MAX + 3 * POLLED_S + timeout_s,
    }


@dataclass(frozen=True, slots=True)
class Claim:
    """One served value. The answer it stands in was asked for and received at these moments."""

    kind: str
    subject: Subject
    value: Hashable
    requested_at: float
    answered_at: float


@dataclass(slots=True)
class History:
    """All values one subject ever had, oldest first, each until the next was seen."""

    values: list[tuple[Hashable, float, float]] = field(default_factory=list)
    _places: dict[Hashable, list[int]] = field(default_factory=dict)

    def add(self, value: Hashable, *, at: float, observed_at: float) -> None:
        """A new value: nobody can have seen it before `at`, everybody could by `observed_at`."""
        self._places.setdefault(value, []).append(len(self.values))
        self.values.append((value, at, observed_at))

    def compute_age(
        self, value: Hashable, *, requested_at: float, answered_at: float
    ) -> float | None:
        """How long before `requested_at` this was last true; None if it was not, or only after."""
        best = None
        for location in self._places.get(value, ()):
            _, moment, _ = self.values[location]
            replaced_at = self.values[location + 1][2] if location + 1 < len(self.values) else inf
            if moment <= answered_at:
                age = max(0.0, requested_at - replaced_at)
                best = age if best is None else min(best, age)
        return best


class EndsHistory:
    """Log ends: they never fall, so that two answers of a broker enclose all between them."""

    def __init__(self, samples: Sequence[EndsSample]) -> None:
        """`samples` as one thread took them, one after the other."""
        self._samples = samples
        self._answer_times = [sample.answered_at for sample in samples]
        self._request_times = [sample.requested_at for sample in samples]

    def fallen(self) -> list[str]:
        """Where a log end fell after all: then nothing follows from these answers."""
        return [
            f"{where} fell from {before.ends[where]} to {end}"
            for before, after in zip(self._samples, self._samples[1:], strict=False)
            for where, end in after.ends.items()
            if end < before.ends[where]
        ]

    def compute_age(
        self, where: tuple[str, int], end: int, *, requested_at: float, answered_at: float
    ) -> float | None:
        """As History.age; a little more, as the moment of an end's change is known by two
        answers only.
        """
        after = bisect.bisect_left(self._request_times, answered_at)
        if after < len(self._samples) and end > self._samples[after].ends.get(where, -1):
            return None
        # The last answer at or below it, and the first above: it was passed between the two.
        below = bisect.bisect_right(
            self._samples, end, key=lambda sample: sample.ends.get(where, -1)
        )
        if below == len(self._samples):
            return 0.0 if end == self._samples[-1].ends.get(where) else None
        return max(0.0, requested_at - self._answer_times[below])


# Of claims that are not witnessed under their own name.
_WITNESSED: Mapping[str, Sequence[str]] = {
    REPLICATED: (COMMITTED, SYNCED),
    LAG_POSITION: (COMMITTED, SYNCED),
    POLLED: (REST,),
}


@dataclass(frozen=True, slots=True)
class Step:
    """From this moment on the daemon's clock was so far before ours, or behind it if negative."""

    at: float
    ahead_s: float


@dataclass(slots=True)
class Truth:
    """Everything that was witnessed, by kind and subject."""

    histories: dict[tuple[str, Subject], History] = field(default_factory=dict)
    ends: Mapping[str, EndsHistory] = field(default_factory=dict)
    """By the name of the cluster."""
    steps: Sequence[Step] = ()
    """Before the first of them both clocks showed the same."""

    def add(
        self, kind: str, subject: Subject, value: Hashable, *, at: float, observed_at: float
    ) -> None:
        """Append to a history, which is made on first use."""
        history = self.histories.setdefault((kind, subject), History())
        history.add(value, at=at, observed_at=observed_at)

    def compute_age(self, claim: Claim) -> float | None:
        """How long ago the claim was last true; None if never before it was made."""
        if claim.kind == SNAPSHOT:
            return self._compute_moment_age(claim)
        if claim.kind in (LAG, LOG_START):
            answer, expected = (
                claim.value if isinstance(claim.value, tuple) else (claim.value, None)
            )
            return 0.0 if answer == expected else None
        when = {"requested_at": claim.requested_at, "answered_at": claim.answered_at}
        if claim.kind == LOG_END:
            cluster, topic, partition = claim.subject
            ends = self.ends.get(str(cluster))
            assert isinstance(partition, int)
            if ends is None or not isinstance(claim.value, int):
                return None
            return ends.compute_age((str(topic), partition), claim.value, **when)
        histories = [
            self.histories.get((kind, claim.subject))
            for kind in _WITNESSED.get(claim.kind, (claim.kind,))
        ]
        if claim.value is None:
            return _compute_absence_age(histories[0], claim)
        results = [one.compute_age(claim.value, **when) for one in histories if one is not None]
        return min((age for age in results if age is not None), default=None)

    def _compute_moment_age(self, claim: Claim) -> float | None:
        """Of a snapshot: by a clock that the daemon had at some moment in which it may have been
        made.
        """
        assert isinstance(claim.value, float)
        begin = claim.requested_at - SNAPSHOT_S_MAX
        ends = (*(step.at for step in self.steps[1:]), inf)
        clocks = [0.0] if not self.steps or self.steps[0].at >= begin else []
        clocks += [
            step.ahead_s
            for step, end in zip(self.steps, ends, strict=False)
            if end >= begin and step.at <= claim.answered_at
        ]
        built = [claim.value - ahead_s for ahead_s in clocks]
        past = [moment for moment in built if moment <= claim.answered_at + CLOCK_S_MAX]
        return max(0.0, claim.requested_at - max(past)) if past else None


def _compute_absence_age(committed: History | None, claim: Claim) -> float:
    """Of a claim that there is no value yet: true until the first was seen."""
    if committed is None:
        return 0.0
    _, _, first_observed_at = committed.values[0]
    return max(0.0, claim.requested_at - first_observed_at)


@dataclass(slots=True)
class Verdicts:
    """What came of all claims. `wrong` are sentences, `oldest` seconds, both by kind."""

    compared: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    oldest: dict[str, float] = field(default_factory=dict)


def judge(claims: Iterable[Claim], truth: Truth, oldest: Mapping[str, float]) -> Verdicts:
    """Hold every claim against the truth; `oldest` says how old a right value may be, by kind."""
    verdicts = Verdicts()
    for claim in claims:
        verdicts.compared[claim.kind] += 1
        age = truth.compute_age(claim)
        if age is None or age > oldest[claim.kind]:
            when = "was never true before" if age is None else f"was last true {age:.1f} s before"
            verdicts.wrong.append(
                f"{claim.kind} {claim.subject}: {claim.value} {when} {claim.requested_at:.3f}"
            )
        else:
            verdicts.oldest[claim.kind] = max(age, verdicts.oldest.get(claim.kind, 0.0))
    return verdicts


def label(source_partition: Mapping[str, object]) -> str:
    """A source partition as metrics name it; short ones only, as those of a lab are."""
    return ",".join(f"{key}={value}" for key, value in sorted(source_partition.items()))


def of_connectors(
    document: Mapping[str, Any], requested_at: float, answered_at: float
) -> list[Claim]:
    """The claims of /api/v1/connectors; what is null or absent claims nothing."""
    result = _snapshot(document, requested_at, answered_at)
    for connector in document["connectors"]:
        name = connector["name"]
        for entry in connector["source_partitions"]:
            if entry["offset"] is None:
                continue
            subject = (name, text(entry["source_partition"]))
            if entry["from"] == "rest":
                value = text(entry["offset"])
                result.append(Claim(POLLED, subject, value, requested_at, answered_at))
                continue
            committed_at = entry["committed_at"]
            committed_at = None if committed_at is None else seconds(committed_at)
            location = (entry["kafka_partition"], entry["log_offset"], committed_at)
            messages = (text(entry["offset"]), *location)
            result.append(Claim(POSITION, subject, messages, requested_at, answered_at))
        for partition in connector["sink_partitions"]:
            where = (partition["topic"], partition["partition"])
            sink = (f"connect-{name}", *where)
            if partition["committed"] is None:
                continue
            result.append(
                Claim(SINK_POSITION, sink, partition["committed"], requested_at, answered_at)
            )
            if partition["log_end"] is not None:
                lag = (
                    partition["lag_records"],
                    max(0, partition["log_end"] - partition["committed"]),
                )
                end = ("east", *where)
                result.append(Claim(LOG_END, end, partition["log_end"], requested_at, answered_at))
                result.append(Claim(LAG, sink, lag, requested_at, answered_at))
    return result


def _snapshot(document: Mapping[str, Any], requested_at: float, answered_at: float) -> list[Claim]:
    """The moment it claims to be of. Before the first tick there is none, and nothing in it."""
    moment = seconds(document["at"])
    if moment == 0.0 and not document["inputs"]:
        return []
    return [Claim(SNAPSHOT, (), moment, requested_at, answered_at)]


def of_flows(document: Mapping[str, Any], requested_at: float, answered_at: float) -> list[Claim]:
    """The claims of /api/v1/flows; what is null or absent claims nothing."""
    result = _snapshot(document, requested_at, answered_at)
    for flow in document["flows"]:
        for partition in flow["partitions"]:
            subject = (flow["source"], partition["topic"], partition["partition"])
            messages = {
                COMMITTED: partition["committed"],
                SYNCED: partition["synced"],
                REPLICATED: partition["replicated"],
                LAG_POSITION: partition["lag_position"],
            }
            result += [
                Claim(kind, subject, value, requested_at, answered_at)
                for kind, value in messages.items()
                if value is not None
            ]
            if partition["log_end"] is not None:
                where = (flow["upstream"], partition["topic"], partition["partition"])
                result.append(
                    Claim(LOG_END, where, partition["log_end"], requested_at, answered_at)
                )
                start = (partition["log_start"], 0)  # nothing is ever deleted here
                result.append(Claim(LOG_START, where, start, requested_at, answered_at))
            if partition["lag_records"] is not None:
                distance = _distance(
                    partition["log_start"], partition["log_end"], partition["lag_position"]
                )
                lag = ((partition["lag_records"], partition["ahead_records"]), (distance, 0))
                result.append(Claim(LAG, subject, lag, requested_at, answered_at))
                if partition["lag_position"] is None:
                    result.append(Claim(LAG_POSITION, subject, None, requested_at, answered_at))
        for partition in flow["syncs"]:
            subject = (flow["source"], partition["topic"], partition["partition"])
            pair = (
                partition["upstream_offset"],
                partition["downstream_offset"],
                seconds(partition["at"]),
            )
            result.append(Claim(SYNC, subject, pair, requested_at, answered_at))
    return result


def of_metrics(exposition: str, requested_at: float, answered_at: float) -> list[Claim]:
    """The claims of /metrics: what Prometheus would keep."""
    results: list[Claim] = []
    mirrored: dict[tuple[str, str, int], dict[str, int]] = {}
    for family in text_string_to_metric_families(exposition):
        name = family.name.removeprefix("offsetwatch_")
        for sample in family.samples:
            of = sample.labels
            if name == "source_offset_position":
                named = (of["connector"], of["source_partition"], of["field"])
                results.append(Claim(FIELD, named, int(sample.value), requested_at, answered_at))
            elif name in _MIRROR_SERIES:
                where = (of["source"], of["topic"], int(of["partition"]))
                mirrored.setdefault(where, {})[name] = int(sample.value)
    for subject, values in mirrored.items():
        start, end, position, lag, ahead = (values.get(name) for name in _MIRROR_SERIES)
        if end is not None:
            results.append(Claim(LOG_END, subject, end, requested_at, answered_at))
            results.append(Claim(LOG_START, subject, (start, 0), requested_at, answered_at))
        if position is not None or lag is not None:
            results.append(Claim(LAG_POSITION, subject, position, requested_at, answered_at))
        if lag is not None:
            agrees = ((lag, ahead), (_distance(start, end, position), 0))
            results.append(Claim(LAG, subject, agrees, requested_at, answered_at))
    return results


def _distance(start: int | None, end: int | None, position: int | None) -> int | None:
    """The lag that follows from the rest. Negative, a position beyond the end, is never right here:
    nothing upstream is cut back.
    """
    if end is None or start is None:
        return None
    return end - start if position is None else end - position - 1


_MIRROR_SERIES = (
    "mm2_source_log_start_offset",
    "mm2_source_log_end_offset",
    "mm2_replicated_offset",
    "mm2_replication_lag_records",
    "mm2_ahead_records",
)
