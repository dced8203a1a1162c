"""Delivery queue of one receiver: its delivery state, and one delivery at a time.

What was not delivered stays due, in its newest state. The interval between attempts doubles, from
RETRY_S to RETRY_S_MAX.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from itertools import islice
from typing import Final

import structlog

from offsetwatch.errors import AmbiguousOutcome, ClientError, RemoteRefusal
from offsetwatch.notify.delivery_state import DeliveryEntry, DeliveryState, FindingIdentity, Message
from offsetwatch.notify.plan_links import attach_plans
from offsetwatch.notify.receivers import Receiver
from offsetwatch.notify.visibility import UnavailableInputIndex
from offsetwatch.state.snapshot import Snapshot

RETRY_S: Final = 5.0
RETRY_S_MAX: Final = 300.0
REFUSED_RETRY_S: Final = 300.0  # then what one receiver does not want is offered once more
TOO_MANY: Final = "too_many"

_log = structlog.get_logger()


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
        self.ledger = DeliveryState(receiver.rules, entries)
        self._receiver = receiver
        self._failed = failed
        self._pool = pool
        self._sending: tuple[Future[None], tuple[Message, ...]] | None = None
        self._batch: tuple[Message, ...] = ()
        self._retry_at = 0.0
        self._retry_s = 0.0
        self._trouble: str | None = None
        self._refused: dict[FindingIdentity, float] = {}
        self._one_by_one = 0
        self._beyond = 0

    def harvest(self, now: float) -> bool:
        """Record the outcome of a finished delivery; return True if the state must be persisted."""
        if self._sending is None or not self._sending[0].done():
            return False
        (outcome, batch), self._sending = self._sending, None
        error = outcome.exception()
        if error is None:
            self._delivered()
            return self.ledger.told(batch, now)
        if not isinstance(error, ClientError):  # a bug of one receiver's, which ends no other
            _log.error("unexpected_error", receiver=self.name, exc_info=error)
            error = AmbiguousOutcome(self.name, f"unexpected {type(error).__name__}: see the log")
        self._not_delivered(error, batch, now)
        return False

    def look(self, now: float, snapshot: Snapshot, blind: UnavailableInputIndex) -> bool:
        """Compare the delivery state with a snapshot; return True if it must be persisted.

        Does nothing during a delivery: its outcome comes first.
        """
        if self._sending is not None:
            return False
        self.ledger.look(
            now,
            attach_plans(snapshot),
            blind.to,
            ready=snapshot.ready,
            deleted=blind.deleted,
        )
        self._failed[TOO_MANY] += max(0, self.ledger.beyond - self._beyond)
        self._beyond = self.ledger.beyond
        return self.ledger.prune(now)

    def prepare(self, now: float) -> bool:
        """Choose the messages to send next; return True if the state must be persisted first."""
        # After a step back of the clock an old moment may lie far in the future.
        if self._sending is not None or 0 < self._retry_at - now <= self._retry_s:
            return False
        self._refused = {
            identity: moment
            for identity, moment in self._refused.items()
            if 0 < moment - now <= REFUSED_RETRY_S
        }
        wanted = (
            message for message in self.ledger.due(now) if message.identity not in self._refused
        )
        self._batch = tuple(islice(wanted, 1 if self._one_by_one else self._receiver.messages_max))
        return self.ledger.attempt(self._batch)

    def send(self, now: float) -> None:
        """Start the delivery of the chosen messages."""
        if self._batch:
            body = self._receiver.body(self._batch, now)
            self._sending = (self._pool.submit(self._receiver.post, body), self._batch)
            self._batch = ()

    def _delivered(self) -> None:
        self._retry_s = self._retry_at = 0.0
        self._one_by_one = max(0, self._one_by_one - 1)
        if self._trouble is not None:
            _log.info("notifications_delivered_again", receiver=self.name)
            self._trouble = None

    def _not_delivered(self, error: ClientError, batch: tuple[Message, ...], now: float) -> None:
        self._failed[error.reason] += 1
        if error.reason != self._trouble:
            self._trouble = error.reason
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
