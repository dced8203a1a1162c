"""The daemon's notifier: one thread that sends findings to all receivers and persists their state.

The state is written before a message is sent and after it was delivered. So a crash in between
repeats a message at most. It loses none, neither a finding nor its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec
import structlog

from offsetwatch import errors
from offsetwatch.clock import UnixClock
from offsetwatch.errors import AmbiguousOutcome, ClientError, RemoteRefusal
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.model.findings import Finding, FindingName, ProposedPlan
from offsetwatch.model.observations import CONNECT_REST, InputId
from offsetwatch.model.topology import Topology
from offsetwatch.notify.delivery_state import DeliveryEntry, DeliveryState, FindingIdentity, Message
from offsetwatch.notify.receivers import Receiver
from offsetwatch.state.snapshot import Snapshot

RETRY_S: Final = 5.0
RETRY_S_MAX: Final = 300.0
REFUSED_RETRY_S: Final = 300.0  # then what one receiver does not want is offered once more
TOO_MANY: Final = "too_many"
POLL_INTERVAL_S: Final = 1.0
_VERSION: Final = 1
_DELIVERY_ERRORS: Final = (
    errors.TargetUnreachable,
    errors.ResponseTimeout,
    errors.ServerError,
    errors.IncompleteResponse,
    errors.RemoteRefusal,
    errors.NotFound,
    errors.Conflict,
    errors.TooManyRequests,
    errors.AccessDenied,
    errors.MalformedResponse,
)

FailureCounts = tuple[tuple[str, int], ...]

_log = structlog.get_logger()


def attach_plans(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot, each with the newest proposed plan of its connector."""
    plans: dict[tuple[str, str], ProposedPlan] = {}
    for plan in () if snapshot.remedies is None else snapshot.remedies.open_plans:
        if plan.state == "proposed":
            key = (plan.connect_cluster, plan.connector)
            plans.setdefault(key, ProposedPlan(plan.plan_id, plan.verb))
    if not plans:
        return snapshot.findings
    return tuple(
        finding
        if finding.connector is None
        else replace(finding, plan=plans.get((finding.connect_cluster, finding.connector)))
        for finding in snapshot.findings
    )


class UnavailableInputIndex:
    """Inputs of one snapshot that are not live, or not read yet, by the Connect cluster they serve.

    It also has the connectors whose state or configuration the REST API does not report. A finding
    that is no longer found has ended only if it could have been found.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._visibility = InputVisibility(snapshot)
        self._topology = snapshot.topology
        down = {view.id for view in snapshot.inputs if not view.live}
        self._down = down | snapshot.awaited
        self._by_cluster: dict[str, frozenset[InputId]] = {}

    def to(self, finding: Finding) -> frozenset[InputId]:
        """Return the unavailable inputs that this finding may depend on.

        Rather one too many than one too few. A finding that an input is down depends on no other
        input.
        """
        name = finding.connect_cluster
        if finding.name is FindingName.INPUT_DOWN:
            return frozenset()
        if name not in self._by_cluster:
            self._by_cluster[name] = frozenset(self._list_unavailable(name))
        unavailable = self._by_cluster[name]
        if finding.connector is None:
            return unavailable
        key = (name, finding.connector)
        reported = (
            self._visibility.explain_unknown_state(key) is None
            and self._visibility.explain_missing_configuration(key) is None
        )
        return (
            unavailable if reported else unavailable | {InputId(CONNECT_REST, connect_cluster=name)}
        )

    def deleted(self, finding: Finding) -> bool:
        """Check whether the finding's connector no longer exists."""
        name = finding.connector
        return name is not None and self._visibility.is_deleted((finding.connect_cluster, name))

    def _list_unavailable(self, connect_cluster: str) -> Iterator[InputId]:
        homes = {
            topic.at.kafka
            for topic in self._topology.offsets_topics
            if topic.connect_cluster == connect_cluster
        }
        kafkas = homes | _find_related_kafkas(self._topology, connect_cluster)
        for input_id in self._down:
            # What REST tells of one connector's offsets, the findings of others do not rest on.
            of_cluster = input_id.connect_cluster == connect_cluster and not input_id.connector
            if not homes or of_cluster or input_id.kafka in kafkas:
                yield input_id


def _find_related_kafkas(topology: Topology, connect_cluster: str) -> set[str]:
    """Return the Kafka clusters that a Connect cluster uses, beside that of its offsets topic."""
    kafkas: set[str | None] = set()
    for flow in topology.flows:
        if flow.connect_cluster == connect_cluster:
            kafkas.add(flow.upstream)
            kafkas.add(None if flow.offset_syncs is None else flow.offset_syncs.kafka)
    kafkas |= {sink.kafka for sink in topology.sinks if sink.connect_cluster == connect_cluster}
    for listing in topology.listings:
        if listing.connect_cluster == connect_cluster:
            kafkas |= {topic.kafka for topic in listing.topics()}
    return {name for name in kafkas if name is not None}


class ReceiverQueue:
    """Delivery queue of one receiver.

    `failed` counts by reason the deliveries that failed, and the findings beyond ENTRIES_MAX.
    """

    def __init__(
        self,
        receiver: Receiver,
        entries: Iterable[DeliveryEntry],
        failed: Counter[str],
        pool: Executor,
    ) -> None:
        self.name = receiver.name
        self.state = DeliveryState(receiver.rules, entries)
        self._receiver = receiver
        self._failed = failed
        self._pool = pool
        self._delivery: tuple[Future[None], tuple[Message, ...]] | None = None
        self._batch: tuple[Message, ...] = ()
        self._retry_at = 0.0
        self._retry_s = 0.0
        self._last_failure: str | None = None
        self._refused: dict[FindingIdentity, float] = {}
        self._one_by_one = 0
        self._beyond = 0

    def collect_outcome(self, now: float) -> bool:
        """Record the outcome of a finished delivery; return True if the state must be persisted."""
        if self._delivery is None or not self._delivery[0].done():
            return False
        (outcome, batch), self._delivery = self._delivery, None
        error = outcome.exception()
        if error is None:
            self._delivered()
            return self.state.mark_delivered(batch, now)
        if not isinstance(error, ClientError):  # a bug of one receiver's, which ends no other
            _log.error("unexpected_error", receiver=self.name, exc_info=error)
            error = AmbiguousOutcome(self.name, f"unexpected {type(error).__name__}: see the log")
        self._not_delivered(error, batch, now)
        return False

    def update(self, now: float, snapshot: Snapshot, unavailable: UnavailableInputIndex) -> bool:
        """Compare the delivery state with a snapshot; return True if it must be persisted.

        Does nothing during a delivery: its outcome comes first.
        """
        if self._delivery is not None:
            return False
        self.state.update(
            now,
            attach_plans(snapshot),
            unavailable.to,
            known=snapshot.ready or bool(snapshot.awaited),
            deleted=unavailable.deleted,
        )
        self._failed[TOO_MANY] += max(0, self.state.beyond - self._beyond)
        self._beyond = self.state.beyond
        return self.state.prune(now)

    def prepare(self, now: float) -> bool:
        """Choose the messages to send next; return True if the state must be persisted first."""
        # After a step back of the clock an old moment may lie far in the future.
        if self._delivery is not None or 0 < self._retry_at - now <= self._retry_s:
            return False
        self._refused = {
            identity: moment
            for identity, moment in self._refused.items()
            if 0 < moment - now <= REFUSED_RETRY_S
        }
        messages = (
            message for message in self.state.due(now) if message.identity not in self._refused
        )
        self._batch = tuple(
            islice(messages, 1 if self._one_by_one else self._receiver.messages_max)
        )
        return self.state.mark_attempted(self._batch)

    def send(self, now: float) -> None:
        """Start the delivery of the chosen messages."""
        if self._batch:
            body = self._receiver.body(self._batch, now)
            self._delivery = (self._pool.submit(self._receiver.post, body), self._batch)
            self._batch = ()

    def _delivered(self) -> None:
        self._retry_s = self._retry_at = 0.0
        self._one_by_one = max(0, self._one_by_one - 1)
        if self._last_failure is not None:
            _log.info("notifications_delivered_again", receiver=self.name)
            self._last_failure = None

    def _not_delivered(self, error: ClientError, batch: tuple[Message, ...], now: float) -> None:
        self._failed[error.reason] += 1
        if error.reason != self._last_failure:
            self._last_failure = error.reason
            _log.warning(
                "notification_failed",
                receiver=self.name,
                reason=error.reason,
                detail=error.detail,
                findings=len(batch),
            )
        if type(error) is not RemoteRefusal:
            self._retry_s = min(max(RETRY_S, 2 * self._retry_s), RETRY_S_MAX)
            self._retry_at = now + self._retry_s
        elif len(batch) > 1:  # one of them may be why, and must not hold up the others
            self._one_by_one = len(batch)
        else:
            self._refused[batch[0].identity] = now + REFUSED_RETRY_S
            self._one_by_one = max(0, self._one_by_one - 1)


class _NotifierDocument(msgspec.Struct, frozen=True):
    """Persisted delivery state of all receivers.

    An entry that this version cannot decode is dropped; the others are kept.
    """

    version: int
    receivers: dict[str, tuple[msgspec.Raw, ...]]


class Notifier:
    """Notifier of all configured receivers.

    save      persists the delivery state; False if that failed
    report    receives the number of failed deliveries by reason, while the snapshot has others
    """

    def __init__(
        self,
        receivers: Iterable[Receiver],
        *,
        snapshot: Callable[[], Snapshot],
        save: Callable[[bytes], bool],
        report: Callable[[FailureCounts], object],
        clock: UnixClock,
        failed: Mapping[str, int],
    ) -> None:
        self._receivers = tuple(receivers)
        self._snapshot = snapshot
        self._save = save
        self._report = report
        self._clock = clock
        self._failed = Counter({kind.reason: 0 for kind in _DELIVERY_ERRORS} | {TOO_MANY: 0})
        self._failed.update(failed)
        self._pool = ThreadPoolExecutor(max(1, len(self._receivers)), "notify")
        self._queues = self._build_queues({})
        self._unsaved = False

    @property
    def failed(self) -> dict[str, int]:
        """Return the number of deliveries that failed since this process started, by reason."""
        return dict(self._failed)

    def restore(self, document: bytes) -> None:
        """Restore the state that another process persisted; call it before the first step.

        Raises ValueError for a document of another version or form.
        """
        try:
            notifier = msgspec.json.decode(document, type=_NotifierDocument)
        except RecursionError as exc:
            raise ValueError(str(exc)) from exc
        if notifier.version != _VERSION:
            raise ValueError(f"version {notifier.version}, not {_VERSION}")
        self._queues = self._build_queues(
            {name: _decode_entries(raw) for name, raw in notifier.receivers.items()}
        )

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Run a step each POLL_INTERVAL_S until `stopped(seconds)` returns True.

        `stopped` waits that many seconds for a stop. Deliveries in flight are then waited for,
        without a limit.
        """
        while not stopped(POLL_INTERVAL_S):
            self.step(self._clock.now())
        self._pool.shutdown(wait=True)
        self._collect_outcomes(self._clock.now())
        self._persist()

    def step(self, now: float) -> None:
        """Compare the snapshot with each receiver's state, and start the deliveries due."""
        snapshot = self._snapshot()
        self._collect_outcomes(now)
        unavailable = UnavailableInputIndex(snapshot)
        for queue in self._queues:
            self._unsaved |= queue.update(now, snapshot, unavailable)
        for queue in self._queues:
            self._unsaved |= queue.prepare(now)
        self._persist()  # a failed write does not stop notifications
        for queue in self._queues:
            queue.send(now)
        counts = tuple(sorted(self._failed.items()))
        if snapshot.notifications_failed != counts:
            self._report(counts)

    def _collect_outcomes(self, now: float) -> None:
        for queue in self._queues:
            self._unsaved |= queue.collect_outcome(now)

    def _persist(self) -> None:
        if not self._unsaved:
            return
        receivers = {
            queue.name: tuple(
                msgspec.Raw(msgspec.json.encode(entry)) for entry in queue.state.entries
            )
            for queue in self._queues
        }
        self._unsaved = not self._save(
            msgspec.json.encode(_NotifierDocument(version=_VERSION, receivers=receivers))
        )

    def _build_queues(
        self, entries: Mapping[str, tuple[DeliveryEntry, ...]]
    ) -> tuple[ReceiverQueue, ...]:
        return tuple(
            ReceiverQueue(receiver, entries.get(receiver.name, ()), self._failed, self._pool)
            for receiver in self._receivers
        )


def _decode_entries(documents: tuple[msgspec.Raw, ...]) -> tuple[DeliveryEntry, ...]:
    entries = []
    for document in documents:
        try:
            entries.append(msgspec.json.decode(document, type=DeliveryEntry))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            _log.warning("notice_forgotten", error=str(exc))
    return tuple(entries)
