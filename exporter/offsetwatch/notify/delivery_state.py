"""Delivery state of one receiver: what was reported to it, and what is due. Pure: no clock, no I/O.

There is no queue of messages. An entry holds the newest state of a finding and the state last
reported; their difference is due. So nothing accumulates while a receiver is unavailable, and it
gets the current state when it is available again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from offsetwatch.model.findings import Finding, Severity
from offsetwatch.model.observations import InputId

ENTRIES_MAX: Final = 5_000  # what is wrong with more than this is one thing, and is reported
# As long as Prometheus does. An Alertmanager whose clock is behind ours does not believe an end
# that lies ahead of it, and would let the alert stand.
RESOLVED_RESEND_S: Final = 900.0

_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}  # the worst first

# What takes over under another severity is reported before its predecessor ends.
_STATUS_ORDER: Final = {
    "new": 0,
    "resolved": 1,
    "superseded": 1,
    "connector_deleted": 1,
    "changed": 2,
    "active": 3,
}

FindingIdentity = tuple[str, ...]
UnavailableInputsLookup = Callable[
    [Finding], frozenset[InputId]
]  # the inputs that a finding rests on and are unavailable


class NotificationStatus(StrEnum):
    """Status of a finding in a message.

    ACTIVE repeats what was reported, if the receiver wants that.

    DELETED ends a finding as RESOLVED does: nothing was repaired, the connector no longer exists.
    SUPERSEDED ends it as well: it still holds, and another finding reports it from now on.
    """

    NEW = "new"
    CHANGED = "changed"
    RESOLVED = "resolved"
    SUPERSEDED = "superseded"
    DELETED = "connector_deleted"
    ACTIVE = "active"


_END_STATUSES: Final = frozenset(
    {NotificationStatus.RESOLVED, NotificationStatus.SUPERSEDED, NotificationStatus.DELETED}
)


@dataclass(frozen=True, slots=True)
class DeliveryRules:
    """Rules of delivery to one kind of receiver.

    least         findings of a lower severity are ignored, until their severity was not lower once
    by_severity   another severity is another finding: it is part of the receiver's key
    resend_s      interval for repeating active findings, and ended ones for RESOLVED_RESEND_S;
                  None: never
    changes_s     shortest interval between two reports of a change; None: changes are not reported
    settle_s      how long all inputs of a finding must have been available without the finding
                  being found, before it ends: after a restart windows have to fill first
    successors    a finding ends as superseded while another one explains it; else it stays active
    """

    least: Severity
    settle_s: float
    by_severity: bool = False
    resend_s: float | None = None
    changes_s: float | None = None
    successors: bool = False


class DeliveryEntry(
    msgspec.Struct,
    frozen=True,
    rename={"reported": "told", "reported_at": "told_at", "end_reported": "end_told"},
):
    """Delivery state of one finding for one receiver.

    finding      its newest state; `since` is the first one
    excused      inputs that were unavailable when it was found: they do not delay its end
    attempted    it may have been reported, so its end must be
    reported     its state as last reported; None if it was certainly not reported
    resolved_at  when it ended; None while it is active
    deleted      it ended because its connector was deleted
    superseded_by    the finding that replaces it, or itself under another severity
    """

    finding: Finding
    excused: frozenset[InputId] = frozenset()
    attempted: bool = False
    reported: Finding | None = None
    reported_at: float = 0.0
    resolved_at: float | None = None
    end_attempted: bool = False
    end_reported: bool = False
    deleted: bool = False
    superseded_by: Finding | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Notification about one finding.

    `resolved_at` is None while the finding is active. `superseded_by` is the finding that replaces
    it, or itself under another severity; None without one.
    """

    identity: FindingIdentity
    status: NotificationStatus
    finding: Finding
    resolved_at: float | None
    superseded_by: Finding | None = None


class DeliveryState:
    """Findings that one receiver was notified of, and those that it must still be notified of."""

    def __init__(self, rules: DeliveryRules, entries: Iterable[DeliveryEntry] = ()) -> None:
        self._rules = rules
        self._entries = {self._identity(entry.finding): entry for entry in entries}
        self._unchanged_since: dict[FindingIdentity, float] = {}
        self.beyond = 0  # findings that there was no room for when we last looked

    @property
    def entries(self) -> tuple[DeliveryEntry, ...]:
        """Return the entries to persist."""
        return tuple(self._entries.values())

    def update(
        self,
        now: float,
        findings: Iterable[Finding],
        unavailable: UnavailableInputsLookup,
        *,
        known: bool = True,
        deleted: Callable[[Finding], bool] = lambda _: False,
    ) -> None:
        """Compare the entries with the findings of a snapshot.

        No finding ends while the inputs are not `known`, which is before the first tick. `deleted`
        tells whether the connector of a finding no longer exists.
        """
        findings = tuple(findings)
        current = {
            self._identity(finding): finding for finding in findings if self._is_reported(finding)
        }
        others = {finding.key: finding for finding in current.values()}
        # Under a severity that is not reported it still holds, so it ends nothing.
        unreported = {finding.key: finding for finding in findings if finding.key not in others}
        # The findings of a connector that another one explains, by the first three fields of a key.
        explained = {
            (name.value, *finding.key[1:3]): finding
            for finding in findings
            for name in finding.explains
        }
        self.beyond = 0
        for identity, finding in current.items():
            self._update_active(identity, finding, now, unavailable)
        for identity, entry in tuple(self._entries.items()):
            if identity not in current and entry.resolved_at is None:
                key = entry.finding.key
                # Under another severity it still stands, so this one is over whatever is in sight.
                other = others.get(key) if self._rules.by_severity else None
                cause = explained.get(key[:3]) or unreported.get(key)
                ends = other is not None
                if other is None and cause is not None:  # it is not over
                    ends = self._rules.successors and cause.key in others
                elif other is None:
                    ends = self._is_over(identity, entry, now, unavailable, known=known)
                self._entries[identity] = msgspec.structs.replace(
                    entry,
                    resolved_at=now if ends else None,
                    deleted=ends and deleted(entry.finding),
                    superseded_by=other or cause,
                )

    def due(self, now: float) -> Iterator[Message]:
        """Yield the messages to send: new findings, then ends, then changes, then repetitions.

        Within each of these the most severe come first.
        """
        messages = [
            Message(identity, status, entry.finding, entry.resolved_at, entry.superseded_by)
            for identity, entry in self._entries.items()
            if (status := self._status(entry, now)) is not None
        ]
        messages.sort(key=lambda item: (_STATUS_ORDER[item.status], _RANK[item.finding.severity]))
        return iter(messages)

    def mark_attempted(self, messages: Iterable[Message]) -> bool:
        """Record that messages are about to be sent; return True if that must be persisted first.

        The end of a finding that may have been reported must be reported. A finding whose end may
        have been reported is new if it comes back.
        """
        fresh = False
        for message in messages:
            entry = self._entries[message.identity]
            ending = entry.end_attempted or message.status in _END_STATUSES
            noted = msgspec.structs.replace(entry, attempted=True, end_attempted=ending)
            fresh |= noted != entry
            self._entries[message.identity] = noted
        return fresh

    def mark_delivered(self, messages: Iterable[Message], now: float) -> bool:
        """Record that these messages were delivered; return True if that must be persisted.

        A repetition need not be.
        """
        changed = False
        for message in messages:
            entry = self._entries[message.identity]
            changed |= message.status is not NotificationStatus.ACTIVE
            if message.status not in _END_STATUSES:
                delivery_entry = msgspec.structs.replace(
                    entry, reported=message.finding, reported_at=now
                )
                self._entries[message.identity] = delivery_entry
            elif self._rules.resend_s is None:
                self._forget(message.identity)
            else:
                changed &= not entry.end_reported
                self._entries[message.identity] = msgspec.structs.replace(
                    entry, end_reported=True, reported_at=now
                )
        return changed

    def prune(self, now: float) -> bool:
        """Remove reported ends older than RESOLVED_RESEND_S; return True if there were any."""
        old = [
            identity
            for identity, entry in self._entries.items()
            if entry.end_reported
            and entry.resolved_at is not None
            and not 0 <= now - entry.resolved_at < RESOLVED_RESEND_S
        ]
        for identity in old:
            self._forget(identity)
        return bool(old)

    def _identity(self, finding: Finding) -> FindingIdentity:
        if self._rules.by_severity:
            return (*finding.key, finding.severity.value)
        return finding.key

    def _is_reported(self, finding: Finding) -> bool:
        """Check whether the receiver is notified of a finding, or was before its severity fell."""
        if _RANK[finding.severity] <= _RANK[self._rules.least]:
            return True
        entry = self._entries.get(self._identity(finding))
        return entry is not None and entry.resolved_at is None

    def _update_active(
        self,
        identity: FindingIdentity,
        finding: Finding,
        now: float,
        unavailable: UnavailableInputsLookup,
    ) -> None:
        entry = self._entries.get(identity)
        if entry is not None and not entry.end_attempted:
            # It may never have been over. Whatever `since` says now, this is when we heard of it.
            updated = replace(finding, since=entry.finding.since)
            self._entries[identity] = msgspec.structs.replace(
                entry, finding=updated, resolved_at=None, deleted=False, superseded_by=None
            )
            return
        if entry is None and len(self._entries) >= ENTRIES_MAX:
            self.beyond += 1
            return
        self._entries[identity] = DeliveryEntry(
            finding, excused=unavailable(finding), attempted=entry is not None and entry.attempted
        )
        self._unchanged_since[identity] = now

    def _is_over(
        self,
        identity: FindingIdentity,
        entry: DeliveryEntry,
        now: float,
        unavailable: UnavailableInputsLookup,
        *,
        known: bool,
    ) -> bool:
        if not known or unavailable(entry.finding) - entry.excused:
            self._unchanged_since.pop(identity, None)
            return False
        return now - self._unchanged_since.setdefault(identity, now) >= self._rules.settle_s

    def _status(self, entry: DeliveryEntry, now: float) -> NotificationStatus | None:
        since_report_s = abs(now - entry.reported_at)  # a clock set back must not silence anything
        resend_s = self._rules.resend_s
        again = resend_s is not None and since_report_s >= resend_s
        if entry.resolved_at is not None:
            if entry.end_reported and not again:
                return None
            if entry.superseded_by is not None:
                return NotificationStatus.SUPERSEDED
            return NotificationStatus.DELETED if entry.deleted else NotificationStatus.RESOLVED
        if entry.reported is None:
            return NotificationStatus.NEW
        if self._changed(entry.reported, entry.finding, since_report_s):
            return NotificationStatus.CHANGED
        return NotificationStatus.ACTIVE if again else None

    def _changed(self, finding: Finding, now: Finding, since_report_s: float) -> bool:
        changes_s = self._rules.changes_s
        if changes_s is None:
            return False
        if _RANK[now.severity] < _RANK[finding.severity] or _proposes_more(finding, now):
            return True
        # That a plan is not proposed any more is no news of the finding.
        same = (now.severity, now.summary) == (finding.severity, finding.summary) and (
            now.plan is None or now.plan == finding.plan
        )
        return not same and since_report_s >= changes_s

    def _forget(self, identity: FindingIdentity) -> None:
        del self._entries[identity]
        self._unchanged_since.pop(identity, None)


def _proposes_more(finding: Finding, now: Finding) -> bool:
    """Return whether a plan is proposed now that does something else than the notified one.

    The same change proposed again, under another plan ID, is no news: it comes with every state
    of the connector.
    """
    return now.plan is not None and (finding.plan is None or now.plan.what != finding.plan.what)
