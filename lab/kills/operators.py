"""
Who stands around a daemon of guarded remediation that is killed: people who produce what cannot be
read, approve what is proposed, and start again what has failed.
"""

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.kills import journal_reader
from lab.kills.journal_reader import JournalReader, Plan
from lab.product.offsetwatch import Product
from lab.stories import cluster_actions, sinks
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet

# Two: where a third fails alike within ten minutes, or goes down with its worker, nothing is
# skipped for a while, and that is as it should be.
POISONED: Final = ("kills-a", "kills-b")
# So far apart two bad records are two accidents; closer they would open the breaker.
BEHIND: Final = 120
RESTARTS_S: Final = 4.0
VERB_S_MAX: Final = 120.0
RECOVER_S_MAX: Final = 400.0
INEFFECTIVE: Final = "ineffective"


class Operator:
    """
    Produces, approves, and starts what has failed again, as people with a runbook do: never while a
    plan is carried out. A thread of its own, so that none of it waits for a kill.
    """

    def __init__(self, lab: Lab, product: Product, state: Path) -> None:
        self.bad: set[tuple[str, int]] = set()
        self.good: Counter[str] = Counter()
        self.helped: dict[str, str] = {}
        self.more = True
        self._lab = lab
        self._product = product
        self._told = JournalReader(state)
        self._restarted: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lab-person", daemon=True)
        self.broken: str | None = None
        self.sinks = {name: Sink(lab, name) for name in POISONED}

    def start(self) -> None:
        """All sinks have taken their first records when this returns."""
        for name, sink in self.sinks.items():
            sinks.begin(sink, records=BEHIND)
            self.good[name] = BEHIND
        self._thread.start()

    def stop(self) -> None:
        """When what is at hand is done."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(VERB_S_MAX)

    def _produce(self, sink: Sink) -> None:
        """One that cannot be read, and good ones behind it."""
        first = self.good[sink.name]
        good = [json.dumps({"n": number}) for number in range(first, first + BEHIND)]
        self.bad.add((sink.topic, cluster_actions.bounds(sink.lab.east, sink.topic)[1]))
        self.good[sink.name] += BEHIND
        cluster_actions.produce_texts(sink.lab.east, sink.topic, [NOT_JSON, *good])

    def _work(self) -> None:
        try:
            while not self._over.wait(0.5):
                self._told.refresh()
                for name in POISONED:
                    # No worker answers, or one that has just started does not know it all yet.
                    with suppress(LabError, NotYet):
                        self._see_to(self.sinks[name])
        except Exception as exc:
            self.broken = f"{type(exc).__name__}: {exc}"
            raise

    def _see_to(self, sink: Sink) -> None:
        name = sink.connector
        for plan in self._told.of(name, journal_reader.PARKED, journal_reader.ENDED):
            if plan.stands == journal_reader.PARKED or plan.ending == INEFFECTIVE:
                self._decide(plan)
        if any(self._told.of(name, journal_reader.OPEN, journal_reader.APPROVED)):
            return
        for plan in self._told.of(name, journal_reader.WAITS):
            if plan.action == "skip_one":
                with suppress(LabError):  # it may have been taken back just now
                    self._verb("plan", "approve", plan.plan_id, "--yes", "--no-wait")
                return
        status = self._lab.status(name)
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        if "FAILED" in states and time.monotonic() - self._restarted.get(name, 0.0) > RESTARTS_S:
            self._restarted[name] = time.monotonic()
            self._lab.restart(name)
        end = cluster_actions.bounds(sink.lab.east, sink.topic)[1]
        if self.more and states == ["RUNNING", "RUNNING"] and sink.committed() == end:
            self._produce(sink)

    def _decide(self, plan: Plan) -> None:
        """What the daemon leaves to a person: have it gone on with once, and close the breaker."""
        if plan.plan_id in self.helped:
            return
        self.helped[plan.plan_id] = f"{plan.connector}, {plan.plan_id}: {plan.said[-1]}"
        if plan.stands == journal_reader.PARKED:
            with suppress(LabError):  # it says by its exit status that it did not succeed
                self._product.cli("plan", "recover", plan.plan_id, timeout_s=RECOVER_S_MAX)
        self._verb("breaker", "ack", f"lab/{plan.connector}")

    def _verb(self, *arguments: str) -> None:
        self._product.cli(*arguments, "--because", "looked at it", timeout_s=VERB_S_MAX)
        self._told.refresh()
