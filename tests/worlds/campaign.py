"""Worlds acted out, one after the other; of each kind of fault, as little as shows it again."""

from __future__ import annotations

import multiprocessing
import resource
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog
import yaml

from offsetwatch.notify.delivery_state import DeliveryEntry, DeliveryState
from offsetwatch.notify.notifier import UnavailableInputIndex
from offsetwatch.serve.documents import api
from offsetwatch.serve.metrics.exposition import Encoder
from offsetwatch.serve.metrics.families import BuildInfo, ConfigReloadStatus, collect_families
from tests.scenarios.daemon import Daemon
from tests.scenarios.listener import RULES
from tests.scenarios.script import BEGINNING, ScriptError
from tests.scenarios.world import World
from tests.worlds.generator import random_world
from tests.worlds.truth import Truth, Wrong

MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
SHOWN_MAX: Final = 30
RENDER_S: Final = 300.0  # how often everything is rendered, as for a scrape
_BUILD: Final = BuildInfo(version="1", revision="1", python="3")
_RELOADED: Final = ConfigReloadStatus(successful=True, at=BEGINNING)


@dataclass(frozen=True)
class Fault:
    """The first thing in a world that must not be."""

    wrong: Wrong
    at_s: float

    def __str__(self) -> str:
        return f"{self.wrong.kind} at {self.at_s:.0f} s: {self.wrong.text}"


@dataclass
class Report:
    """`faults`: of each kind, in how many worlds, and the first, with its seed."""

    worlds: int = 0
    steps: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    faults: dict[str, tuple[int, Fault]] = field(default_factory=dict)
    peak_bytes: int = 0

    def add(self, other: Report) -> None:
        self.worlds += other.worlds
        self.steps += other.steps
        self.messages += other.messages
        self.kinds += other.kinds
        self.faults = other.faults | self.faults
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)

    def lines(self) -> Iterator[str]:
        """For people: of each kind of fault, as little of a world as shows it again."""
        text = ", ".join(f"{count} {status}" for status, count in sorted(self.messages.items()))
        yield f"{self.worlds} worlds, {self.steps} ticks, messages: {text or 'none'}"
        yield f"memory: {self.peak_bytes / 2**20:.0f} MiB at most"
        for kind, count in self.kinds.most_common():
            yield f"{count} worlds: {kind}"
        for _, (seed, first) in sorted(self.faults.items()):
            yield f"seed {seed}: {first}"
        for _, (seed, first) in sorted(self.faults.items())[:SHOWN_MAX]:
            fault, world = smallest(random_world(seed), first)
            yield f"\n{fault}\n  python -m tests.worlds --repeat {seed}\nas little as:"
            yield yaml.safe_dump(world, sort_keys=False, allow_unicode=True)
        yield f"{len(self.kinds)} kinds of fault"


class Stage:
    """One world with a daemon in it, and somebody who is notified."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.world = World(deepcopy(report))
        self.truth = Truth(self.world)
        self.daemon = Daemon(self.world)
        self.steps = 0
        self.messages: Counter[str] = Counter()
        self._ledger = DeliveryState(RULES)
        self._encoder = Encoder()
        self._rendered_at = 0.0

    def play(self) -> dict[str, Fault]:
        """Go on until the end, or an exit; the first fault of each kind."""
        world = self.world
        results: dict[str, Fault] = {}
        while world.now - BEGINNING < world.lasts_s:
            world.step()
            self.truth.record()
            at_s = world.now - BEGINNING
            try:
                for wrong in self._step():
                    results.setdefault(wrong.kind, Fault(wrong, at_s))
            except Exception as exc:  # noqa: BLE001 - whatever it is would end the daemon
                wrong = Wrong(f"exit: {type(exc).__name__} in {_origin(exc)}", repr(exc))
                results[wrong.kind] = Fault(wrong, at_s)
                break
        return results

    def _step(self) -> Iterator[Wrong]:
        world, daemon = self.world, self.daemon
        self.steps += 1
        if world.down_until is not None and daemon.running:
            daemon.kill()
        if world.down_until is not None and world.now >= world.down_until:
            world.down_until = None
            daemon.start()
            self._restart_ledger()
        if not daemon.running:
            return
        snapshot = daemon.step()
        yield from self.truth.wrong_values(snapshot)
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
        self.messages.update(message.status.value for message in messages)
        yield from self.truth.false_ends(messages, snapshot)
        if now - self._rendered_at >= RENDER_S:
            self._rendered_at = now
            for _, lines in self._encoder.bodies(collect_families(snapshot, _BUILD, _RELOADED)):
                b"".join(lines).decode()
            api.encode_connectors(snapshot)
            api.encode_flows(snapshot)

    def _restart_ledger(self) -> None:
        retained: tuple[DeliveryEntry, ...] = self._ledger.entries
        self._ledger = DeliveryState(RULES, retained)


def _origin(error: BaseException) -> str:
    """Return the innermost line of the product's."""
    frames = [
        summary
        for summary in traceback.extract_tb(error.__traceback__)
        if "/offsetwatch/" in summary.filename
    ]
    if not frames:
        return "?"
    last = frames[-1]
    return f"{'/'.join(Path(last.filename).parts[-2:])}:{last.name}"


def quiet() -> None:
    """Say nothing of what the daemon logs: a trace with all locals takes longer than a world."""
    structlog.configure(processors=[_drop])


def _drop(_logger: object, _method: str, _event: object) -> NoReturn:
    raise structlog.DropEvent


def faults_of(world: dict[str, Any]) -> dict[str, Fault]:
    """Act a world out."""
    return Stage(world).play()


def smallest(world: dict[str, Any], fault: Fault) -> tuple[Fault, dict[str, Any]]:
    """Leave out what the fault does not need: events first, then connectors and topics."""

    def still(smaller: dict[str, Any]) -> Fault | None:
        try:
            return faults_of(smaller).get(fault.wrong.kind)
        except (ScriptError, KeyError, AssertionError):  # it speaks of what was left out
            return None

    world = {**world, "lasts": f"{fault.at_s + 1:.0f}s"}
    for part in ("happens", "connectors", "topics"):
        for item in reversed(list(world[part])):
            smaller = {**world, part: _without(world[part], item)}
            result = still(smaller)
            if result is not None:
                world = {**smaller, "lasts": f"{result.at_s + 1:.0f}s"}
                fault = result
    return fault, world


def _without(part: Any, at: Any) -> Any:
    if isinstance(part, dict):
        return {name: more for name, more in part.items() if name != at}
    return [event for event in part if event is not at]


def tried(seed: int) -> Report:
    """Act out the world of a seed."""
    stage = Stage(random_world(seed))
    faults = stage.play()
    return Report(
        worlds=1,
        steps=stage.steps,
        messages=stage.messages,
        kinds=Counter(faults.keys()),
        faults={kind: (seed, fault) for kind, fault in faults.items()},
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def campaign(seeds: Iterable[int], *, jobs: int = 1, until: float | None = None) -> Report:
    """Act out the worlds of these seeds, or as many as there is time for: `until` is a monotonic
    time.
    """
    report = Report()
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=quiet) as pool:
        for some in _batches(seeds, jobs * 2):
            for part in pool.imap_unordered(tried, some):
                report.add(part)
            if until is not None and time.monotonic() > until:
                break
    return report


def _batches(seeds: Iterable[int], size: int) -> Iterator[list[int]]:
    """A pool reads an endless iterable to its end, so it is given a few at a time."""
    remaining = iter(seeds)
    while some := list(islice(remaining, size)):
        yield some
