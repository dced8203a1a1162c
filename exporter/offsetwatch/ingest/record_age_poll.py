"""Poll of record ages: choose single records to read from the upstream cluster, and read them.

The daemon schedules one job per Kafka cluster. A partition is read where the state sets
`probe_from`: it has offsets left, and it is not known whether they hold a record, or how old that
is. An answer is valid until the position passes it. So an idle partition costs no reads, and an
active one costs one read per commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Final, NamedTuple

from offsetwatch.clients.records.probe import ProbeAnswer, ProbeReader
from offsetwatch.clock import UnixClock
from offsetwatch.errors import ClientError
from offsetwatch.ingest.polls import Batch
from offsetwatch.model.observations import FirstRecord, Follower, ProbeResult, ProbeRoundRead
from offsetwatch.model.offsets import MirrorPartition
from offsetwatch.model.topology import TopicPartition
from offsetwatch.state.snapshot import Snapshot

DENIED_RETRY_S: Final = 300.0  # permissions change by hand
BUDGET, DENIED, TIMEOUT = "budget", "denied", "timeout"
REPLICATION, SINK = "replication", "sink"


class RecordAgeRequest(NamedTuple):
    """Request to read the first record at or after an offset, for one follower.

    `committed`: read committed records only.

    `again`: a record age is known, and this read only checks whether it still holds.
    """

    of: Follower
    reason: str
    start: int
    committed: bool
    again: bool

    @property
    def at(self) -> TopicPartition:
        """Return the partition to read."""
        return TopicPartition(self.of[2].topic, self.of[2].partition)


@dataclass(slots=True)
class ProbeMemory:
    """Memory of one Kafka cluster between polls.

    requested_at  follower -> time of its last request
    denied_until  topic -> time before which it is not read again
    nothing_in    inputs of a poll that had no requests
    """

    requested_at: dict[Follower, float] = field(default_factory=dict)
    denied_until: dict[str, float] = field(default_factory=dict)
    nothing_in: tuple[object, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProbeBudget:
    """Maximum number of reads and of seconds in one poll."""

    reads_max: int
    seconds: float


def poll_probes(
    kafka: str,
    open_reader: Callable[[bool], ProbeReader],
    snapshot: Snapshot,
    memory: ProbeMemory,
    budget: ProbeBudget,
    clock: UnixClock,
    stopped: Callable[[], bool] = lambda: False,
) -> Batch:
    """Read the requested records once; empty if there is nothing to read.

    `open_reader(committed)` may raise, too.
    """
    began = clock.now()
    # As long as these are the same objects nothing can be requested; there may be 100,000 views.
    made_of = (snapshot.mirror_partitions, snapshot.sink_partitions, snapshot.topology)
    if memory.nothing_in is not None and all(map(is_, made_of, memory.nothing_in)):
        return ()
    requests = (*_find_flow_requests(snapshot, kafka), *_find_sink_requests(snapshot, kafka))
    _prune_memory(memory, requests, began)
    memory.nothing_in = None if requests else made_of
    if not requests:
        return ()
    chosen, skipped = _choose_requests(requests, memory, budget.reads_max)
    answers: list[ProbeResult] = []
    probes: Counter[str] = Counter()
    for committed in (False, True):
        part = [request for request in chosen if request.committed is committed]
        left_s = budget.seconds - (clock.now() - began)
        if not part or stopped():
            continue
        if not 0 < left_s <= budget.seconds:  # the clock may be set back, too
            skipped[BUDGET] += len(part)
            continue
        for request in part:
            memory.requested_at[request.of] = began
        probes.update(request.reason for request in part)
        first_records = _read_first_records(open_reader, committed, part, left_s, stopped)
        if isinstance(first_records, ClientError):
            skipped[first_records.reason] += len(part)
            continue
        answers += _build_answers(part, first_records, skipped, memory, began)
    return (
        ProbeRoundRead(
            kafka=kafka,
            at=began,
            answers=tuple(answers),
            made=tuple(sorted(probes.items())),
            skipped=tuple(sorted(skipped.items())),
        ),
    )


def _find_flow_requests(snapshot: Snapshot, kafka: str) -> Iterator[RecordAgeRequest]:
    flows = {
        (flow.connect_cluster, flow.connector, flow.source, flow.target): flow
        for flow in snapshot.topology.flows
        if flow.upstream == kafka
    }
    for view in snapshot.mirror_partitions:
        if view.probe_from is None:
            continue
        flow = flows.get((view.connect_cluster, view.connector, view.source, view.target))
        if flow is not None:
            partition = MirrorPartition(view.source, view.topic, view.partition)
            follower = (view.connect_cluster, view.connector, partition)
            again = view.caught_up is not None
            committed = flow.read_committed is not False
            yield RecordAgeRequest(follower, REPLICATION, view.probe_from, committed, again)


def _find_sink_requests(snapshot: Snapshot, kafka: str) -> Iterator[RecordAgeRequest]:
    """Yield the reads that sinks need.

    If the worker sets a sink's isolation level, the level is unknown and committed records are
    read: they wait for the sink at any level, and an aborted record need not be read.
    """
    groups = {
        (sink.connect_cluster, sink.connector): sink
        for sink in snapshot.topology.sinks
        if sink.kafka == kafka
    }
    for view in snapshot.sink_partitions:
        group = groups.get((view.connect_cluster, view.connector))
        if view.probe_from is not None and group is not None:
            partition = TopicPartition(view.topic, view.partition)
            follower = (view.connect_cluster, view.connector, partition)
            committed, again = group.read_committed is not False, view.caught_up is not None
            yield RecordAgeRequest(follower, SINK, view.probe_from, committed, again)


def _prune_memory(memory: ProbeMemory, requests: tuple[RecordAgeRequest, ...], now: float) -> None:
    """Remove followers that need no read, and denials that have expired or lie in the future."""
    named = {request.of for request in requests}
    memory.requested_at = {of: moment for of, moment in memory.requested_at.items() if of in named}
    memory.denied_until = {
        topic: until
        for topic, until in memory.denied_until.items()
        if 0 < until - now <= DENIED_RETRY_S
    }


def _choose_requests(
    requests: tuple[RecordAgeRequest, ...], memory: ProbeMemory, reads_max: int
) -> tuple[list[RecordAgeRequest], Counter[str]]:
    """Return the reads of this poll, and the number of skipped ones by reason.

    Followers without a known age go first, then those that waited longest.
    """
    allowed = [request for request in requests if request.at.topic not in memory.denied_until]
    allowed.sort(key=lambda request: (request.again, memory.requested_at.get(request.of, 0.0)))
    skipped = Counter({DENIED: len(requests) - len(allowed)})
    skipped[BUDGET] = max(0, len(allowed) - reads_max)
    return allowed[:reads_max], +skipped


def _read_first_records(
    open_reader: Callable[[bool], ProbeReader],
    committed: bool,  # noqa: FBT001 - what it opens is asked for by position, too
    part: list[RecordAgeRequest],
    timeout_s: float,
    stopped: Callable[[], bool],
) -> dict[TopicPartition, ProbeAnswer] | ClientError:
    """Read the first records; followers of one partition share a read from their lowest offset."""
    starts: dict[TopicPartition, int] = {}
    for request in part:
        starts[request.at] = min(request.start, starts.get(request.at, request.start))
    try:
        return open_reader(committed).first(starts, timeout_s, stopped)
    except ClientError as exc:
        return exc


def _build_answers(
    part: list[RecordAgeRequest],
    answers: Mapping[TopicPartition, ProbeAnswer],
    skipped: Counter[str],
    memory: ProbeMemory,
    now: float,
) -> Iterator[ProbeResult]:
    for request in part:
        answer = answers.get(request.at)
        if answer is None:
            skipped[TIMEOUT] += 1
        elif isinstance(answer, ClientError):
            skipped[answer.reason] += 1
            if answer.reason == DENIED:
                memory.denied_until[request.at.topic] = now + DENIED_RETRY_S
        else:
            # What stands before its offset, a partner wanted to know, and says nothing to it.
            until = answer.offset if isinstance(answer, FirstRecord) else answer.end
            if until >= request.start:
                yield ProbeResult(of=request.of, start=request.start, found=answer)
