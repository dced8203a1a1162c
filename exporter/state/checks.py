"""The truth check: what Connect's REST API says of source offsets, held against what the tail saw.

REST answers what a task would load now, so a lasting difference means that we read the wrong topic,
or read it wrongly. Called by the book only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exporter.model.observations import RestOffsetsAsked, RestOffsetsRead
from exporter.model.topology import KafkaTopic
from exporter.state.site import Site

ANSWER_MAX_S: Final = 120.0  # Connect itself gives up on the question after 90 s
GRACE_S: Final = 30.0  # how long the tail may take to show what REST showed, before they disagree


@dataclass(frozen=True, slots=True)
class Check:
    """A REST offset that the tail has not shown yet."""

    connect_cluster: str
    connector: str
    identity: str
    text: str | None
    until: float
    topic: KafkaTopic | None


class Checks:
    """Open checks. Tail and REST are read beside each other, so every offset that the tail shows
    between the asking and the end of the grace may be the one that REST saw.
    """

    def __init__(self, sources: Mapping[str, Site]) -> None:
        self._sources = sources
        self._open: list[Check] = []
        self._watched: dict[tuple[str, str], float] = {}

    def asked(self, seen: RestOffsetsAsked, now: float) -> None:
        """Remember what the tail shows from now on."""
        self._watch(seen.connect_cluster, seen.connector, until=now + ANSWER_MAX_S)

    def read(self, seen: RestOffsetsRead, now: float) -> None:
        """Compare both ways: what REST shows, and what we hold although REST does not list it."""
        until = now + GRACE_S
        self._watch(seen.connect_cluster, seen.connector, until=until)
        held = dict.fromkeys(self._sources[seen.connect_cluster].held(seen.connector))
        for identity, text in (held | dict(seen.offsets)).items():
            check = Check(
                connect_cluster=seen.connect_cluster,
                connector=seen.connector,
                identity=identity,
                text=text,
                until=until,
                topic=self._sources[seen.connect_cluster].topic_of(seen.connector),
            )
            if not self._agrees(check):
                self._open.append(check)

    def settle(self, now: float) -> tuple[Check, ...]:
        """Forget checks that came true; give out those that did not within their time.

        Where the offsets of a connector are not shown, its tail can confirm nothing.
        """
        waiting = [check for check in self._open if not self._agrees(check)]
        self._open = [check for check in waiting if check.until > now]
        for where in [where for where, until in self._watched.items() if until <= now]:
            del self._watched[where]
            self._sources[where[0]].unwatch(where[1])
        return tuple(
            check
            for check in waiting
            if check.until <= now
            and self._sources[check.connect_cluster].shown(check.connector, now)
        )

    def _watch(self, connect_cluster: str, connector: str, *, until: float) -> None:
        self._watched[connect_cluster, connector] = until
        self._sources[connect_cluster].watch(connector)

    def _agrees(self, check: Check) -> bool:
        site = self._sources[check.connect_cluster]
        if site.topic_of(check.connector) != check.topic:
            return True  # REST may have told of the topic that it used before
        return site.agrees(check.connector, check.identity, check.text)
