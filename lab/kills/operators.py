"""
Who stands around a daemon of guarded remediation that is killed: people who produce what cannot be
read, approve what is proposed, and start again what has failed.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.kills import journal_reader
from lab.kills.journal_reader import JournalReader, Plan
from lab.kills.poisoned_connectors import Poisoned
from lab.product.offsetwatch import Product
from lab.waiting import NotYet

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

    def __init__(
        self, lab: Lab, product: Product, state: Path, poisoned: Mapping[str, Poisoned]
    ) -> None:
        self.bad: set[tuple[str, int]] = set()
        self.good: Counter[str] = Counter()
        self.helped: dict[str, str] = {}
        self.more = True
        self._lab = lab
        self._product = product
        self._journal = JournalReader(state)
        self._restarted: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lab-person", daemon=True)
        self.broken: str | None = None
        self.poisoned = poisoned

    def start(self) -> None:
        """All have taken their first records when this returns."""
        for name, poisoned in self.poisoned.items():
            poisoned.begin(BEHIND)
            self.good[name] = BEHIND
        self._thread.start()

    def stop(self) -> None:
        """When what is at hand is done."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(VERB_S_MAX)

    def _grow(self, name: str, n: int) -> None:
        first = self.good[name]
        self.good[name] += n
        self.poisoned[name].grow(first, n)

    def _work(self) -> None:
        try:
            while not self._over.wait(0.5):
                self._journal.refresh()
                for name, poisoned in self.poisoned.items():
                    # No worker answers, or one that has just started does not know it all yet.
                    with suppress(LabError, NotYet):
                        self._see_to(name, poisoned)
        except Exception as exc:
            self.broken = f"{type(exc).__name__}: {exc}"
            raise

    def _see_to(self, key: str, poisoned: Poisoned) -> None:
        name = poisoned.connector
        for plan in self._journal.of(name, journal_reader.PARKED, journal_reader.ENDED):
            if plan.status == journal_reader.PARKED or plan.ending == INEFFECTIVE:
                self._decide(plan)
        if any(self._journal.of(name, journal_reader.OPEN, journal_reader.APPROVED)):
            return
        for plan in self._journal.of(name, journal_reader.WAITS):
            if plan.action == "skip_one":
                with suppress(LabError):  # it may have been taken back just now
                    self._verb("plan", "approve", plan.plan_id, "--yes", "--no-wait")
                return
        status = self._lab.status(name)
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        if "FAILED" in states and time.monotonic() - self._restarted.get(name, 0.0) > RESTARTS_S:
            self._restarted[name] = time.monotonic()
            self._lab.restart(name)
            self._grow(key, 1)  # what waits grows, as it does in earnest
        running = states == ["RUNNING", "RUNNING"]
        if self.more and running and poisoned.committed() == poisoned.end():
            self.bad.add(poisoned.poison())
            self._grow(key, BEHIND)

    def _decide(self, plan: Plan) -> None:
        """What the daemon leaves to a person: have it gone on with once, and close the breaker."""
        if plan.plan_id in self.helped:
            return
        self.helped[plan.plan_id] = f"{plan.connector}, {plan.plan_id}: {plan.said[-1]}"
        if plan.status == journal_reader.PARKED:
            with suppress(LabError):  # it says by its exit status that it did not succeed
                self._product.cli("plan", "recover", plan.plan_id, timeout_s=RECOVER_S_MAX)
        self._verb("breaker", "ack", f"lab/{plan.connector}")

    def _verb(self, *arguments: str) -> None:
        self._product.cli(*arguments, "--because", "looked at it", timeout_s=VERB_S_MAX)
        self._journal.refresh()
