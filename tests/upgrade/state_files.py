"""What the daemon keeps in state_dir, as the code that it is run with writes it: story.yaml is
acted out, in virtual time, up to the moment when the daemon is replaced, and then to its end.

Run by make.py, and by the tests with what an earlier version has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

from offsetwatch.model.findings import Severity
from offsetwatch.notify.delivery_state import DeliveryRules, Message
from offsetwatch.notify.notifier import Notifier
from offsetwatch.notify.receivers import Receiver
from offsetwatch.state.snapshot import Snapshot
from tests.fakes.clock import VirtualClock
from tests.scenarios import brokers
from tests.scenarios.daemon import Daemon
from tests.scenarios.script import BEGINNING, read, seconds
from tests.scenarios.world import World

STORY = Path(__file__).parent / "story.yaml"
REPLACED = "16m"
AWAY_S = 60.0
LOOKS = ("17m10s", "18m50s", "26m")  # right after it, before a trouble ends, after it
WAIT_S = 120.0
RULES = DeliveryRules(Severity.INFO, settle_s=180.0, changes_s=3600.0)


class NotifiedFindings:
    """Who is told of findings by one process: `heard` is (what, of which finding), and `document`
    what it keeps of that.
    """

    def __init__(self, document: bytes | None = None) -> None:
        self.heard: list[list[str]] = []
        self.document = document
        self._snapshot: Snapshot | None = None
        self._notifier = Notifier(
            (Receiver("hook", RULES, self._noted, lambda body: None),),
            snapshot=self._current,
            save=self._save,
            report=lambda counts: None,
            clock=VirtualClock(),
            failed={},
        )
        if document is not None:
            self.recall(document)

    def recall(self, document: bytes) -> None:
        """Go on from what another one kept."""
        self._notifier.restore(document)

    def hear(self, snapshot: Snapshot) -> None:
        """Look, and wait until what was sent has arrived."""
        self._snapshot = replace(snapshot, notifications_failed=())
        for _ in range(2):
            self._notifier.step(snapshot.at)
            couriers = self._notifier._queues
            under_way = [
                courier._delivery[0] for courier in couriers if courier._delivery is not None
            ]
            assert not wait(under_way, WAIT_S).not_done

    def end(self) -> None:
        """With its process."""
        self._notifier._pool.shutdown(wait=True)

    def _current(self) -> Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def _save(self, document: bytes) -> bool:
        self.document = document
        return True

    def _noted(self, messages: Sequence[Message], now: float) -> bytes:
        self.heard += [
            [message.status.value, " ".join(message.finding.key)] for message in messages
        ]
        return b"{}"


def _until(world: World, daemon: Daemon, report: NotifiedFindings, moment: str) -> Snapshot:
    snapshot = daemon.snapshot
    while world.now - BEGINNING < seconds(moment):
        world.step()
        if daemon.running:
            snapshot = daemon.step()
            report.hear(snapshot)
    return snapshot


def act(memory: dict[str, bytes] | None = None) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What was kept when the daemon was replaced, and what the next one showed. `memory`: what it
    found, if not what the one before it has left; by name.
    """
    brokers._ids = count(1)  # as in a process of its own: what is remembered has ids in it
    world = World(read(STORY))
    daemon, report = Daemon(world), NotifiedFindings()
    before = _until(world, daemon, report, REPLACED)
    daemon.kill()
    report.end()
    assert report.document is not None
    remaining = {**daemon.memory, "notify": report.document}
    result = remaining if memory is None else memory
    observed: dict[str, Any] = {REPLACED: describe(before, report)}
    back = world.now + AWAY_S
    while world.now < back:
        world.step()
    daemon.memory = {name: result[name] for name in result if name != "notify"}
    report = NotifiedFindings(result.get("notify"))
    daemon.start()
    for moment in LOOKS:
        observed[moment] = describe(_until(world, daemon, report, moment), report)
    report.end()
    return remaining, observed


def describe(snapshot: Snapshot, report: NotifiedFindings) -> dict[str, Any]:
    """What a daemon says that it cannot know from what it reads alone, and whom it told."""
    return {
        "findings": {
            " ".join(finding.key): {"since": finding.since, "severity": finding.severity.value}
            for finding in snapshot.findings
        },
        "verdicts": {
            f"{judgement.connect_cluster} {judgement.connector} {judgement.subject} "
            f"{judgement.scope.value}": {
                "verdict": judgement.verdict.value,
                "rule": judgement.rule,
                "since": judgement.since,
            }
            for judgement in snapshot.judgements
        },
        "lost": {
            f"{partition.connector} {partition.topic}-{partition.partition}": dict(partition.lost)
            for partition in snapshot.mirror_partitions
        },
        "losses": sorted(json.dumps(asdict(loss), sort_keys=True) for loss in snapshot.losses),
        "recreations": sorted(
            json.dumps(asdict(recreation), sort_keys=True) for recreation in snapshot.recreations
        ),
        "told": sorted(report.heard),
    }


def parts() -> dict[str, Callable[[bytes], None]]:
    """Who takes up what of a state directory."""
    daemon = Daemon(World(read(STORY)))
    results: dict[str, Callable[[bytes], None]] = {}

    def noted(name: str, into: Callable[[bytes], None]) -> None:
        results[name] = into

    assert daemon.loop is not None
    daemon.loop.recall_with(noted)
    report = NotifiedFindings()
    report.end()
    return results | {"notify": report.recall}
