"""Somebody who is told what is found, as a webhook is, by a notifier that dies with its daemon."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.findings import Severity
from offsetwatch.notify.delivery_state import (
    DeliveryEntry,
    DeliveryRules,
    DeliveryState,
    NotificationStatus,
)
from offsetwatch.notify.notifier import UnavailableInputIndex
from offsetwatch.state.snapshot import Snapshot
from tests.scenarios.expectation import FOREVER, History, clock
from tests.scenarios.script import BEGINNING

RULES = DeliveryRules(
    Severity.INFO, settle_s=JudgeSettings().patience_s, changes_s=3600.0, successors=True
)


class Listener:
    """`heard` are (when, status) of each finding, in order."""

    def __init__(self) -> None:
        self.heard: dict[tuple[str, ...], list[tuple[float, NotificationStatus]]] = {}
        self.false_deletions: list[tuple[str, ...]] = []
        self._ledger = DeliveryState(RULES)

    def hear(self, snapshot: Snapshot, existing: Collection[tuple[str, str]]) -> None:
        """Every message arrives. `existing`: the connectors that there are."""
        now = snapshot.at
        index = UnavailableInputIndex(snapshot)
        self._ledger.update(
            now,
            snapshot.findings,
            index.to,
            known=snapshot.ready or bool(snapshot.awaited),
            deleted=index.deleted,
        )
        messages = tuple(self._ledger.due(now))
        self._ledger.mark_attempted(messages)
        self._ledger.mark_delivered(messages, now)
        for message in messages:
            report = self.heard.setdefault(message.finding.key, [])
            report.append((now - BEGINNING, message.status))
            of = (message.finding.connect_cluster, message.finding.connector)
            if message.status is NotificationStatus.DELETED and of in existing:
                self.false_deletions.append(message.finding.key)

    def restart(self) -> None:
        """Another process goes on with what was written down."""
        retained = msgspec.json.encode(self._ledger.entries)
        self._ledger = DeliveryState(
            RULES, msgspec.json.decode(retained, type=tuple[DeliveryEntry, ...])
        )


def misheard(heard: Listener, history: History) -> Iterator[str]:
    """Whatever was told twice, too late, or of which no end was told although it had one."""
    end = 0.0 if history.last is None else history.last.at - BEGINNING
    for key in heard.false_deletions:
        yield f"{' '.join(key)}: told as deleted, and the connector is there"
    for key, spans in history.findings.items():
        was = f"{' '.join(key)} ({', '.join(map(str, spans))})"
        answer = heard.heard.get(key, [])
        syncs = [moment for moment, status in answer if status is NotificationStatus.NEW]
        superseded = sum(status is NotificationStatus.SUPERSEDED for _, status in answer)
        if not syncs or syncs[0] != spans[0].since or len(syncs) > len(spans) + superseded:
            yield f"{was}: told as new at {list(map(clock, syncs))}"
        last = [status for _, status in answer if status is not NotificationStatus.CHANGED][-1:]
        over = spans[-1].until != FOREVER and end - spans[-1].until > 2 * RULES.settle_s
        if over and last not in (
            [NotificationStatus.RESOLVED],
            [NotificationStatus.DELETED],
            [NotificationStatus.SUPERSEDED],
        ):
            yield f"{was}: no end was told"
        if spans[-1].until == FOREVER and last not in (
            [NotificationStatus.NEW],
            [NotificationStatus.SUPERSEDED],
        ):
            yield f"{was}: it is so at the end, and somebody thinks that it is over"
