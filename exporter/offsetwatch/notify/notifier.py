"""The daemon's notifier: one thread that sends findings to all receivers and persists their state.

The state is written before a message is sent and after it was delivered. So a crash in between
repeats a message at most. It loses none, neither a finding nor its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import structlog

from offsetwatch import errors
from offsetwatch.clock import UnixClock
from offsetwatch.notify.delivery_state import DeliveryEntry
from offsetwatch.notify.receiver_queue import TOO_MANY, ReceiverQueue
from offsetwatch.notify.receivers import Receiver
from offsetwatch.notify.visibility import UnavailableInputIndex
from offsetwatch.state.snapshot import Snapshot

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
        self._couriers = self._hire({})
        self._unsaved = False

    @property
    def failed(self) -> dict[str, int]:
        """Return the number of deliveries that failed since this process started, by reason."""
        return dict(self._failed)

    def recall(self, document: bytes) -> None:
        """Restore the state that another process persisted; call it before the first step.

        Raises ValueError for a document of another version or form.
        """
        try:
            notifier = msgspec.json.decode(document, type=_NotifierDocument)
        except RecursionError as exc:
            raise ValueError(str(exc)) from exc
        if notifier.version != _VERSION:
            raise ValueError(f"version {notifier.version}, not {_VERSION}")
        self._couriers = self._hire(
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
        self._harvest(self._clock.now())
        self._write_down()

    def step(self, now: float) -> None:
        """Compare the snapshot with each receiver's state, and start the deliveries due."""
        snapshot = self._snapshot()
        self._harvest(now)
        blind = UnavailableInputIndex(snapshot)
        for receiver_queue in self._couriers:
            self._unsaved |= receiver_queue.look(now, snapshot, blind)
        for receiver_queue in self._couriers:
            self._unsaved |= receiver_queue.prepare(now)
        self._write_down()  # if it cannot be written, people are told all the same
        for receiver_queue in self._couriers:
            receiver_queue.send(now)
        counts = tuple(sorted(self._failed.items()))
        if snapshot.notifications_failed != counts:
            self._report(counts)

    def _harvest(self, now: float) -> None:
        for receiver_queue in self._couriers:
            self._unsaved |= receiver_queue.harvest(now)

    def _write_down(self) -> None:
        if not self._unsaved:
            return
        receivers = {
            receiver_queue.name: tuple(
                msgspec.Raw(msgspec.json.encode(entry)) for entry in receiver_queue.ledger.entries
            )
            for receiver_queue in self._couriers
        }
        self._unsaved = not self._save(
            msgspec.json.encode(_NotifierDocument(version=_VERSION, receivers=receivers))
        )

    def _hire(self, entries: Mapping[str, tuple[DeliveryEntry, ...]]) -> tuple[ReceiverQueue, ...]:
        return tuple(
            ReceiverQueue(receiver, entries.get(receiver.name, ()), self._failed, self._pool)
            for receiver in self._receivers
        )


def _decode_entries(documents: tuple[msgspec.Raw, ...]) -> tuple[DeliveryEntry, ...]:
    found = []
    for document in documents:
        try:
            found.append(msgspec.json.decode(document, type=DeliveryEntry))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            _log.warning("notice_forgotten", error=str(exc))
    return tuple(found)
