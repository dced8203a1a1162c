"""Guarded remediation in the daemon: its thread, its listener, and what they are made of.

Not part of the edge, and started anew with each configuration that changes what it rests on. A
journal that cannot be trusted ends it, and not the daemon: what watches must go on watching.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from exporter.clock import Clock, SteadyClock
from exporter.config import Config
from exporter.daemon.remedy_parts import Drivers, parts_of
from exporter.errors import JournalDamaged
from exporter.model.observations import Observation
from exporter.model.remedies import RemedySeen
from exporter.remedy.agent import LOOK_S, Agent
from exporter.remedy.conductor import Conductor, Life
from exporter.remedy.decisions import Stands
from exporter.remedy.desk import Hint
from exporter.state.snapshot import Snapshot

STOP_S: Final = (
    20.0  # for a plan at hand to come to a safe place; then it is left to the next start
)
AGAIN_S: Final = 60.0  # after a journal that could not be used
HURRIED_S: Final = 0.5
NAME: Final = "remediation"
# Those that are over are told by remediation_actions_total.
_STATES: Final = tuple(
    at.value for at in (Stands.PROPOSED, Stands.APPROVED, Stands.RUNNING, Stands.PARKED)
)

_log = structlog.get_logger()


class Remediation:
    """See the module. `snapshot` is the newest picture, `put` hands an observation to its loop."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        put: Callable[[Observation], object],
        folder: Path,
        clock: Clock,
    ) -> None:
        self._snapshot = snapshot
        self._put = put
        self._folder = folder
        self._clock = clock
        self._config: Config | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._deadline: float | None = None
        self._failed = threading.Event()
        self._agent: Agent | None = None

    @property
    def failed(self) -> bool:
        """The thread died of a bug."""
        return self._failed.is_set()

    def follow(self, config: Config) -> None:
        """Act by this configuration from now on."""
        if self._config is not None and _basis(config) == _basis(self._config):
            self._config = config
            return
        self.stop()
        self._config = config
        self._stop = threading.Event()
        self._deadline = None
        self._thread = threading.Thread(
            target=self._run, args=(config, self._stop), name=NAME, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is under way comes to a safe place, or is left as it is."""
        self._deadline = time.monotonic() + STOP_S
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * STOP_S)
        self._thread = None

    def wake(self, hint: Hint) -> None:
        """Look there soon. Any thread."""
        agent = self._agent
        if agent is not None:
            agent.wake(hint.connect_cluster, hint.connector)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self, config: Config, stop: threading.Event) -> None:
        """A broad except, as in the edge: whatever escapes is a bug and ends the process."""
        try:
            while not stop.is_set():
                try:
                    self._work(config, stop)
                except JournalDamaged as exc:
                    _log.error("remedy_without_journal", error=str(exc))
                    stop.wait(AGAIN_S)
        except Exception:  # noqa: BLE001 - see the docstring
            _log.exception("thread_died", thread=NAME)
            self._failed.set()

    def _work(self, config: Config, stop: threading.Event) -> None:
        def pause(seconds: float) -> None:
            _wait(stop, seconds)

        with parts_of(config, self._snapshot, self._folder, self._clock, pause) as parts:
            conductor = Conductor(
                ledger=parts.ledger,
                planner=parts.planner,
                drivers=Drivers(config, self._folder),
                clock=self._clock,
                life=Life(SteadyClock(), pause, stop.is_set, self._hurry),
            )
            agent = Agent(
                ledger=parts.ledger,
                planner=parts.planner,
                conductor=conductor,
                policy=parts.policy,
                snapshot=self._snapshot,
                clock=self._clock,
                stopping=stop.is_set,
            )
            self._agent = agent
            try:
                while not stop.wait(LOOK_S):
                    agent.step()
                    self._put(_seen(agent, self._clock.now()))
            finally:
                self._agent = None

    def _hurry(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline


def _basis(config: Config) -> tuple[object, ...]:
    return (config.remedy, config.connect, config.kafka)


def _wait(stop: threading.Event, seconds: float) -> None:
    """A plan that is carried out comes to its safe place while the process ends: it still waits."""
    if stop.wait(seconds):
        time.sleep(min(seconds, HURRIED_S))


def _seen(agent: Agent, now: float) -> RemedySeen:
    fleet, counts = agent.fleet, agent.counts
    states = Counter(dict.fromkeys(_STATES, 0))
    states.update(at.stands.value for at in agent.dossiers() if at.plan.remedy is not None)
    return RemedySeen(
        at=now,
        mode=agent.mode.value,
        plans=tuple((state, states[state]) for state in _STATES),
        actions=tuple((*key, count) for key, count in sorted(counts.actions.items())),
        blocked=tuple((*key, count) for key, count in sorted(counts.blocked.items())),
        stopped_by_us=tuple(
            (connect, connector, since)
            for (connect, connector), since in sorted(fleet.stopped_by_us().items())
        ),
    )
