"""Consistency check of source offsets: the REST API's against those that the tail read.

REST returns what a task would load now. A lasting difference means that we read the wrong topic, or
read it wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.model.observations import RestOffsetsRead, RestOffsetsRequested
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.connect_cluster import ConnectClusterState
from offsetwatch.state.snapshot import RestCheck

ANSWER_MAX_S: Final = 120.0  # Connect itself gives up on the question after 90 s
EXAMPLES_MAX: Final = 5
# That differ in a row: one may be a commit that a tail came too late for.
DIFFERING_ROUNDS_MIN: Final = 3
GRACE_S: Final = 30.0  # how long the tail may take to show what REST showed, before they disagree


@dataclass(frozen=True, slots=True)
class PendingRestOffset:
    """REST offset that the tail has not confirmed yet."""

    connect_cluster: str
    connector: str
    identity: str
    text: str | None
    until: float
    topic: KafkaTopic | None
    round: int = 0


@dataclass(slots=True)
class _Rounds:
    """Rounds of checks of one connector; a round is one response.

    `newest` is the number of the newest, `until` when its checks end, and `check` the result of the
    rounds that have ended.
    """

    newest: int = 0
    until: float = 0.0
    closed: int = 0
    differed: int = 0
    check: RestCheck | None = None


class RestConsistencyChecks:
    """Open checks of all connectors.

    Tail and REST are read at the same time. So every offset that the tail reads between the request
    and the end of the grace period may be the one that REST returned.
    """

    def __init__(self, sources: Mapping[str, ConnectClusterState]) -> None:
        self._sources = sources
        self._open: list[PendingRestOffset] = []
        self._watched: dict[tuple[str, str], float] = {}
        self._rounds: dict[tuple[str, str], _Rounds] = {}
        self.results: Mapping[tuple[str, str], RestCheck] = {}
        """The result of the rounds by connector; the same object until a round ends."""

    def request(self, request: RestOffsetsRequested, now: float) -> None:
        """Record the tail's offsets from now on: REST offsets were requested."""
        self._watch((request.connect_cluster, request.connector), until=now + ANSWER_MAX_S)

    def read(self, offsets: RestOffsetsRead, now: float) -> None:
        """Compare a response in both directions.

        An offset that we have and REST does not list is only a difference if all of the response
        could be decoded.
        """
        key, until = (offsets.connect_cluster, offsets.connector), now + GRACE_S
        self._watch(key, until=until)
        rounds = self._rounds.setdefault(key, _Rounds())
        cluster = self._sources[offsets.connect_cluster]
        rounds.newest += 1
        rounds.until = until
        expected: dict[str, str | None] = {}
        if offsets.whole:
            expected = dict.fromkeys(cluster.held(offsets.connector))
        topic = cluster.topic_of(offsets.connector)
        for identity, text in (expected | dict(offsets.offsets)).items():
            check = PendingRestOffset(*key, identity, text, until, topic, rounds.newest)
            if not self._agrees(check):
                self._open.append(check)

    def settle(self, now: float) -> tuple[PendingRestOffset, ...]:
        """Drop confirmed checks; return those that were not confirmed within their time.

        Checks of a connector whose offsets are not shown are dropped: its tail can confirm nothing.
        """
        waiting = [check for check in self._open if not self._agrees(check)]
        self._open = [check for check in waiting if check.until > now]
        for key in [key for key, until in self._watched.items() if until <= now]:
            del self._watched[key]
            self._sources[key[0]].unwatch(key[1])
        differing = tuple(
            check
            for check in waiting
            if check.until <= now
            and self._sources[check.connect_cluster].is_exported(check.connector, now)
        )
        self._close_rounds(differing, now)
        return differing

    def _close_rounds(self, differing: tuple[PendingRestOffset, ...], now: float) -> None:
        """Close the rounds that have ended; they count while the offsets are shown."""
        by_connector: dict[tuple[str, str], list[PendingRestOffset]] = {}
        for check in differing:
            by_connector.setdefault((check.connect_cluster, check.connector), []).append(check)
        changed = False
        for key, rounds in tuple(self._rounds.items()):
            cluster = self._sources[key[0]]
            if cluster.gone(key[1]):
                del self._rounds[key]
                changed = True
                continue
            checks = by_connector.get(key, [])
            over = rounds.closed < rounds.newest and rounds.until <= now
            if not checks and not (over and cluster.is_exported(key[1], now)):
                continue
            number = checks[-1].round if checks else rounds.newest
            changed = True
            examples = tuple(
                (check.identity, check.text, cluster.offset_text(key[1], check.identity))
                for check in checks[:EXAMPLES_MAX]
            )
            before = rounds.check
            if not checks:
                rounds.check = RestCheck(0, now)
            elif before is None or not before.rounds:
                rounds.check = RestCheck(1, now, examples)
            else:  # the round that was counted last counts once
                count = before.rounds + (number > rounds.differed)
                rounds.check = RestCheck(count, before.since, examples)
            rounds.differed = number if checks else rounds.differed
            rounds.closed = max(rounds.closed, number)
        if changed:
            self.results = {
                key: rounds.check
                for key, rounds in self._rounds.items()
                if rounds.check is not None
            }

    def _watch(self, key: tuple[str, str], *, until: float) -> None:
        self._watched[key] = until
        self._sources[key[0]].watch(key[1])

    def _agrees(self, check: PendingRestOffset) -> bool:
        cluster = self._sources[check.connect_cluster]
        if cluster.topic_of(check.connector) != check.topic:
            return True  # REST may have told of the topic that it used before
        return cluster.agrees(check.connector, check.identity, check.text)
