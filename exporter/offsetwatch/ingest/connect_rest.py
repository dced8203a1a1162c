"""Polls of the Connect REST API: connectors, assignments of MirrorMaker 2, offsets.

An answer of an unexpected shape is a MalformedResponse. A poll returns the observations of one
attempt, its failures included.

The offsets of some connectors are known over REST alone. Most workers read their offsets topic to
its end for each answer. So that load is limited twice: by the pause between two requests for one
connector, and by the number of requests in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from offsetwatch.clients.connect.offsets_sweep import (
    ConnectSweep,
    OffsetsAnswer,
    OffsetsSweepListener,
)
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.http.exchange import forget_locals
from offsetwatch.clock import UnixClock
from offsetwatch.decode.connector_config import has_shortened_text
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.rest_answers import (
    ConnectorNames,
    decode_assignment,
    decode_connectors,
    decode_names,
    decode_readable_offsets,
    decode_rest_status,
    decode_root,
    decode_task_numbers,
)
from offsetwatch.decode.text_limits import TEXT_CHARS_MAX, is_shortened
from offsetwatch.errors import ClientError, MalformedResponse, NotFound, RemoteRefusal
from offsetwatch.formatting import format_count
from offsetwatch.ingest.polls import Batch, build_failure, build_partial_failures
from offsetwatch.model.connectors import UNKNOWN_STATE, Connector
from offsetwatch.model.observations import (
    CONNECT_REST,
    AssignmentConfirmed,
    ConnectorsListed,
    InputFailed,
    InputId,
    InputRetired,
    InputSucceeded,
    Observation,
    OffsetsPolled,
    PartitionsAssigned,
    RestOffsetsRead,
    RestOffsetsRequested,
    build_rest_offsets_input,
)
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition

CROSS_CHECK_S: Final = 60.0  # two more requests a minute, answered from a worker's memory
MISSING_S: Final = 900.0  # what is not listed for so long is gone, or told by other witnesses
SINGLE_REQUESTS_MAX: Final = 20  # connectors that are asked for one by one, in one poll
REQUESTS_PER_STEP: Final = 5  # a step is made once a second
MISSED_POLLS: Final = 3  # how many polls may fail before the last answer is taken down
_UNSUPPORTED_DETAIL: Final = "cannot be read ({detail}): workers return offsets since Kafka 3.5"

T = TypeVar("T")
GuardJob = Callable[[Callable[[], object], str, InputId], Callable[[], object]]


def list_connectors(reader: ConnectReader) -> tuple[Connector, ...]:
    """Return every connector with its state."""
    return parse_connectors(reader.name, reader.connectors())


def parse_connectors(connect_cluster: str, body: bytes) -> tuple[Connector, ...]:
    """Return every connector with its state from the body of an answer."""
    return _require_decoded(connect_cluster, "GET /connectors", decode_connectors(body))


def _require_decoded(connect_cluster: str, request: str, decoded: T | Undecodable) -> T:
    if isinstance(decoded, Undecodable):
        raise MalformedResponse(connect_cluster, f"{request}: {decoded.reason}")
    return decoded


class _DecodedAnswerCache(Generic[T]):
    """Cache of the last decoded answer to one repeated request, by digest.

    Most answers equal the one before byte by byte. Their bytes, possibly megabytes, are not kept.
    """

    def __init__(self) -> None:
        self._known: tuple[bytes, T] | None = None

    def of(self, body: bytes, decode: Callable[[bytes], T]) -> T:
        """Return the decoded body, the same object while the bytes are the same.

        Raises the errors of `decode`.
        """
        digest, known = blake2b(body).digest(), self._known
        if known is None or known[0] != digest:
            self._known = known = (digest, decode(body))
        return known[1]


class ConnectorsWithConfigs(NamedTuple):
    """Connectors with the configurations that their list lacked, as far as other answers had them.

    error       why all configurations could not be requested; None if they were, or need not be
    failures    errors of the requests for single connectors
    """

    connectors: tuple[Connector, ...]
    error: ClientError | None
    failures: dict[str, ClientError]


class ConnectorsPoll:
    """Poll of the connectors of one Connect cluster; not thread-safe.

    Returns the same object while the answer is the same.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answer: _DecodedAnswerCache[tuple[Connector, ...]] = _DecodedAnswerCache()
        self._infos: dict[str, Connector] = {}
        self._sought_at: dict[str, float] = {}
        self._alone_at: dict[str, float] = {}
        self._listed_at: dict[str, float] = {}
        self._requested_at: float | None = None
        self._before: tuple[Connector, ...] | None = None

    def poll(self) -> tuple[Connector, ...]:
        """Return every connector with its state."""
        return self._answer.of(self._reader.connectors(), partial(parse_connectors, self.name))

    def wants_witnesses(self, listed: tuple[Connector, ...], now: float) -> bool:
        """Check whether it is time to request the names of the connectors and the Kafka cluster id.

        It is once a minute, after a changed answer (it may be another cluster's), and while a
        connector that was listed within 15 minutes is missing or is listed without a state.
        """
        changed, self._before = listed is not self._before, listed
        known = {connector.name for connector in listed if connector.state != UNKNOWN_STATE}
        self._listed_at = {
            name: moment
            for name, moment in self._listed_at.items()
            if name not in known and abs(now - moment) < MISSING_S
        }
        missing = bool(self._listed_at) or len(known) < len(listed)
        self._listed_at |= dict.fromkeys(known, now)
        due = self._requested_at is None or not 0 <= now - self._requested_at < CROSS_CHECK_S
        if due:
            self._requested_at = now
        return changed or missing or due

    def names(self) -> ConnectorNames:
        """Return the names of all connectors, including those without a status."""
        names = decode_names(self._reader.connector_names())
        return _require_decoded(self.name, "GET /connectors (names)", names)

    def kafka_cluster_id(self) -> str | None:
        """Return the Kafka cluster id that the worker reports; None from a worker before 1.1."""
        return _require_decoded(
            self.name, "GET /", decode_root(self._reader.root())
        ).kafka_cluster_id

    def complete(
        self, listed: tuple[Connector, ...], names: frozenset[str], now: float
    ) -> ConnectorsWithConfigs:
        """Request the configurations of connectors that are listed without one, or only by name.

        Requests are sent at once for a new connector, otherwise once a minute: one request for all,
        then single requests for up to 20 connectors that are not in its answer, least recently
        requested first.
        """
        lacking = names.union(connector.name for connector in listed) - {
            connector.name for connector in listed if connector.configured
        }
        if not lacking:
            return ConnectorsWithConfigs(listed, None, {})
        sought_at = (self._sought_at.get(name, -inf) for name in lacking)
        error, failures = None, dict[str, ClientError]()
        if any(not 0 <= now - moment < CROSS_CHECK_S for moment in sought_at):
            self._sought_at = dict.fromkeys(lacking, now)
            error, failures = self._seek(lacking, now)
        infos = {name: self._infos[name] for name in sorted(lacking & self._infos.keys())}
        here = tuple(
            _merge_configuration(connector, infos.pop(connector.name, None)) for connector in listed
        )
        return ConnectorsWithConfigs(here + tuple(infos.values()), error, failures)

    def _seek(
        self, lacking: frozenset[str], now: float
    ) -> tuple[ClientError | None, dict[str, ClientError]]:
        self._infos, error, failures = {}, None, dict[str, ClientError]()
        try:
            connectors = parse_connectors(self.name, self._reader.connector_infos())
        except ClientError as exc:
            error, connectors = exc, ()
        self._infos = {
            connector.name: connector
            for connector in connectors
            if connector.name in lacking and connector.configured
        }
        missing = sorted(lacking - self._infos.keys())
        alone = sorted(missing, key=lambda name: self._alone_at.get(name, -inf))[
            :SINGLE_REQUESTS_MAX
        ]
        self._alone_at = {name: self._alone_at.get(name, -inf) for name in missing}
        self._alone_at |= dict.fromkeys(alone, now)
        for name in alone:
            try:
                info = self._reader.connector(name)
                # In the format of the answer about all.
                connectors = parse_connectors(
                    self.name, b'{%b:{"info":%b}}' % (encode_sorted(name), info)
                )
            except NotFound:
                continue  # this worker has none
            except ClientError as exc:
                failures[name] = exc.with_traceback(None)  # it leads to this frame
            else:
                self._infos |= {
                    connector.name: connector for connector in connectors if connector.configured
                }
        return error, failures


def _merge_configuration(listed: Connector, info: Connector | None) -> Connector:
    """Return a listed connector with the configuration that another answer had."""
    if info is None:
        return listed
    return replace(
        info,
        state=listed.state,
        tasks=listed.tasks,
        version=listed.version,
        failure=listed.failure,
    )


def poll_connectors(poll: ConnectorsPoll, clock: UnixClock) -> Batch:
    """Return the connectors, their tasks and the settings that name their topics.

    Once a minute, and while something is missing, other requests complete the answer: the identity
    of the Kafka cluster, the names of the connectors, configurations. If one of these fails, the
    failure is reported and the value is absent.
    """
    input_id = InputId(CONNECT_REST, connect_cluster=poll.name)
    try:
        listed = poll.poll()
    except ClientError as exc:
        return (build_failure(input_id, exc),)
    failed: list[Observation] = []
    names: frozenset[str] | None = None
    odd_names: dict[str, ClientError] = {}
    kafka_cluster_id: str | None = None
    if poll.wants_witnesses(listed, clock.now()):
        try:
            kafka_cluster_id = poll.kafka_cluster_id()
        except ClientError as exc:
            failed.append(build_failure(input_id, exc))
        try:
            names, odd = poll.names()
            if odd.count:
                why = f"GET /connectors (names): members that are no name: {odd.count}"
                odd_names = {str(odd): MalformedResponse(poll.name, why)}
        except ClientError as exc:
            failed.append(build_failure(input_id, exc))
        listed, error, failures = poll.complete(listed, names or frozenset(), clock.now())
        if error is not None:
            failed.append(build_failure(input_id, error))
        shortened = _find_shortened_texts(poll.name, listed)
        failed += build_partial_failures(input_id, shortened | failures | odd_names)
    return (
        *failed,
        ConnectorsListed(poll.name, listed, names, kafka_cluster_id, names_whole=not odd_names),
        InputSucceeded(input=input_id, at=clock.now()),
    )


def _find_shortened_texts(
    connect_cluster: str, listed: Iterable[Connector]
) -> dict[str, ClientError]:
    """Return an error for each connector with a text that was too long and has been shortened."""
    why = f"GET /connectors: class, version or alias of more than {TEXT_CHARS_MAX} characters"
    return {
        connector.name: MalformedResponse(connect_cluster, why)
        for connector in listed
        if is_shortened(connector.version) or has_shortened_text(connector)
    }


class AssignmentsPoll:
    """Poll of the task assignments of MirrorSourceConnectors, for one Connect cluster; thread-safe.

    Returns the same object while the answer is the same.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answers: dict[str, _DecodedAnswerCache[tuple[frozenset[TopicPartition], int]]] = {}

    def poll(self, connector: str) -> tuple[frozenset[TopicPartition], int]:
        """Return all partitions that the tasks of a connector replicate, and how many tasks."""
        body = self._reader.tasks(connector)
        request = f"GET tasks of {connector}"

        def decode(raw: bytes) -> tuple[frozenset[TopicPartition], int]:
            partitions = _require_decoded(self.name, request, decode_assignment(raw))
            return partitions, len(_require_decoded(self.name, request, decode_task_numbers(raw)))

        return self._answers.setdefault(connector, _DecodedAnswerCache()).of(body, decode)

    def runs_without_tasks(self, connector: str) -> bool:
        """Check whether a connector without configured tasks runs.

        Raises MalformedResponse if the status has tasks that work: two answers contradict each
        other, as after a gap in the config topic (ClusterConfigState.inconsistentConnectors).
        """
        request = f"GET status of {connector}"
        body = self._reader.status(connector)
        status = _require_decoded(self.name, request, decode_rest_status(body, ()))
        if status.state == "running" and status.tasks:
            working = format_count(len(status.tasks), "working task")
            raise MalformedResponse(self.name, f"GET tasks: none, but its status has {working}")
        return status.state == "running"

    def keep(self, connectors: Collection[str]) -> None:
        """Remove the cached assignments of all other connectors."""
        for gone in self._answers.keys() - set(connectors):
            self._answers.pop(gone, None)


def poll_assignment(poll: AssignmentsPoll, connector: str) -> Batch:
    """Return the partitions that a MirrorSourceConnector assigned to its tasks.

    A stopped connector has no tasks, and its last assignment remains valid: AssignmentConfirmed. To
    distinguish this, the poll asks for the connector's status after an empty answer. A failed
    request is a partial failure, and the last answer ages. The poll reports no success of the list
    of connectors, which the other polls request.
    """
    try:
        assigned, tasks = poll.poll(connector)
        if not (assigned or poll.runs_without_tasks(connector)):
            return (AssignmentConfirmed(poll.name, connector),)
    except ClientError as exc:
        return build_partial_failures(
            InputId(CONNECT_REST, connect_cluster=poll.name), {connector: exc}
        )
    return (PartitionsAssigned(poll.name, connector, assigned, tasks),)


# --- offsets --------------------------------------------------------------------------------------


def parse_readable_offsets(
    connect_cluster: str, connector: str, body: bytes
) -> tuple[tuple[tuple[str, str | None], ...], MalformedResponse | None]:
    """Return the offsets that Connect would hand to a task, as (source partition, offset) pairs.

    Both are JSON; an offset may be None. The second value is an error that counts the entries that
    could not be read; None if all could.
    """
    request = f"GET offsets of {connector}"
    pairs, unread = _require_decoded(connect_cluster, request, decode_readable_offsets(body))
    why = f"{request}: entries of another shape, or that contradict another: {unread}"
    return pairs, MalformedResponse(connect_cluster, why) if unread else None


def poll_rest_offsets(
    sweep: ConnectSweep,
    connectors: Sequence[str],
    put: Callable[[Batch], bool],
    stopped: Callable[[], bool],
) -> None:
    """Read the offsets of all connectors over REST, to compare them with the tail.

    A failure is reported as partial: it does not affect the state polls, and the failure of one
    connector does not affect the others.

    RestOffsetsRequested enters the queue before the request is sent: records that the tail reads
    from then on may be in the answer.
    """

    def announce(names: Sequence[str]) -> bool:
        return put(tuple(RestOffsetsRequested(sweep.name, name) for name in names))

    failures: dict[str, ClientError] = {}

    def take(answers: Sequence[OffsetsAnswer]) -> None:
        batch: list[Observation] = []
        for connector, body in answers:
            try:
                offsets, odd = parse_readable_offsets(sweep.name, connector, body)
            except ClientError as exc:
                # Its trace leads to this frame, which knows the answer and `failures`.
                failures[connector] = exc.with_traceback(None)
            else:
                batch.append(RestOffsetsRead(sweep.name, connector, offsets, whole=odd is None))
                if odd is not None:
                    failures[connector] = odd
        put(tuple(batch))

    input_id = InputId(CONNECT_REST, connect_cluster=sweep.name)
    try:
        failures |= sweep.offsets(connectors, OffsetsSweepListener(announce, take, stopped))
    except ClientError as exc:
        put((replace(build_failure(input_id, exc), partial=True),))
    else:
        if failures:
            put(build_partial_failures(input_id, failures))


class RestOffsetsPoll:
    """Polls of one Connect cluster.

    `put` hands a batch to the loop and returns whether it was taken.

    guard        isolates errors of a connector's job from the other connectors, and reports them
                 as failures of this input
    every_s      pause between two requests for one connector
    timeout_s    timeout of one request, over all workers
    """

    def __init__(
        self,
        reader: ConnectReader,
        *,
        every_s: float,
        timeout_s: float,
        put: Callable[[Batch], bool],
        clock: UnixClock,
        guard: GuardJob,
    ) -> None:
        self._reader = reader
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._put = put
        self._clock = clock
        self._guard = guard
        self._jobs: dict[str, Callable[[], object]] = {}
        self._connectors = 0
        self._requested_at: dict[str, float] = {}

    def step(self, connectors: Iterable[str], stopped: Callable[[], bool]) -> None:
        """Poll the connectors that are due, longest waiting first; forget all others."""
        connectors_to_poll = set(connectors)
        for name in self._requested_at.keys() - connectors_to_poll:
            if self._put((InputRetired(build_rest_offsets_input(self._reader.name, name)),)):
                del self._requested_at[name]
                self._jobs.pop(name, None)
        self._connectors = len(connectors_to_poll)
        now = self._clock.now()
        due = sorted(
            (moment, name)
            for name in connectors_to_poll
            if (moment := self._due_at(name, now)) <= now
        )
        for _, name in due[:REQUESTS_PER_STEP]:
            if stopped():
                return
            self._requested_at[name] = (
                self._clock.now()
            )  # whatever comes of it, others have their turn
            if name not in self._jobs:
                input_id = build_rest_offsets_input(self._reader.name, name)
                job = partial(self._poll, name)
                self._jobs[name] = self._guard(job, f"offsets of {input_id.input}", input_id)
            self._jobs[name]()

    def _poll(self, connector: str) -> None:
        if not self._put(self._request(connector, self._requested_at[connector])):
            del self._requested_at[connector]

    def _due_at(self, connector: str, now: float) -> float:
        requested_at = self._requested_at.get(connector)
        if requested_at is None or requested_at > now:  # never, or the clock was set back
            return 0.0
        return requested_at + self._every_s

    def _lasts_s(self) -> float:
        """Return how many seconds an answer remains valid: three rounds and a timeout."""
        round_s = max(self._every_s, self._connectors / REQUESTS_PER_STEP)
        return MISSED_POLLS * round_s + self._timeout_s

    def _request(self, connector: str, requested_at: float) -> Batch:
        input_id = build_rest_offsets_input(self._reader.name, connector)
        try:
            body = self._reader.offsets(connector)
            offsets, odd = parse_readable_offsets(self._reader.name, connector, body)
        except ClientError as exc:
            return (_build_failure(input_id, exc),)
        return (
            OffsetsPolled(self._reader.name, connector, offsets, requested_at, whole=odd is None),
            InputSucceeded(input_id, requested_at, self._lasts_s()),
            *(() if odd is None else (replace(_build_failure(input_id, odd), partial=True),)),
        )


def _build_failure(input_id: InputId, error: ClientError) -> InputFailed:
    forget_locals(error)
    detail = error.detail
    if isinstance(error, NotFound) or type(error) is RemoteRefusal:  # 404 by the path, or 405
        detail = _UNSUPPORTED_DETAIL.format(detail=detail)
    return InputFailed(input=input_id, reason=error.reason, detail=detail)
