"""
A bad record from the first alert to the last: a sink meets it, an alert says so, a person restarts
the sink to no avail, has the record skipped from elsewhere, and the alert ends.

Each step waits until what it is about can be seen, where a person would look: Prometheus,
Alertmanager, offsetwatch's commands.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lab.cluster.lab import Lab
from lab.processes.child import finished
from lab.product.alerting import Alert, Alerting
from lab.product.program import EXPORTER
from lab.product.remediating_daemon import ALERTS, COMES_S_MAX, PERSON, Guarded
from lab.stories import cluster_actions, poison, sinks
from lab.stories.flow import failed_again, task_trace
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet, until

FAILED: Final = "ConnectorOrTaskFailed"
POISON: Final = "PoisonRecordSuspected"
OTHER: Final = "SomebodyElses"
GOOD_BEFORE, GOOD_AFTER = 20, 5
# It follows the plan to its end.
VERB_S_MAX: Final = 300.0

# As often as by default; only the time that this has to take is shortened.
REPEAT: Final[Mapping[str, object]] = {"failures": 3, "span_s": 0, "restarts": 2}
REMEDY: Final[Mapping[str, object]] = {
    "mode": "propose",
    "quarantine": {"kafka": "east", "topic": "offsetwatch.quarantine"},
    "stop_on": [],
    "repeat": REPEAT,
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Alerted:
    """Everything there is: a sink, a daemon that may act, and those that watch the daemon."""

    sink: Sink
    daemon: Guarded
    alerting: Alerting
    directory: Path

    @property
    def connector(self) -> str:
        """The sink's name."""
        return self.sink.connector

    # ---- what happens -------------------------------------------------------------------------

    def meets(self) -> int:
        """A record that is no JSON, and good ones behind it; its offset. The task has failed."""
        offset = cluster_actions.bounds(self.sink.lab.east, self.sink.topic)[1]
        after = poison.good(GOOD_BEFORE, GOOD_AFTER)
        cluster_actions.produce_texts(self.sink.lab.east, self.sink.topic, [NOT_JSON, *after])
        task_trace(self.sink.lab, self.connector)
        return offset

    def alarmed(self) -> tuple[Alert, Alert, dict[str, int]]:
        """The alert has reached offsetwatch: as Prometheus and as Alertmanager have it, and what
        became of what was posted.
        """
        firing, active = self.alerting.raised(FAILED, self.connector)
        return firing, active, self.alerting.hooked("new")

    def incident(self) -> Json:
        """What offsetwatch has found by itself, as it stands in its journal."""
        return self.daemon.awaits(
            self.connector, "an incident", lambda entry: entry["record"] == "incident_seen"
        )

    def restarted(self) -> int:
        """What the runbook says first, twice; it fails again. How often it has failed."""
        return failed_again(self.sink.lab, self.connector, restarts=2)

    def misled(self) -> tuple[dict[str, int], dict[str, int]]:
        """Somebody else's alert on the same connector begins, and ends: what had become of all that
        was posted, before and after.

        Counts do not name their alert, so all that are active have to be posted before.
        """
        labels = {"alertname": OTHER, "connect_cluster": "lab", "connector": self.connector}
        active = [alert for alert in self.alerting.active() if alert.connector == self.connector]
        before = self.alerting.hooked("new", len(active))
        self.alerting.say(labels)
        self.alerting.hooked("new", before.get("new", 0) + 1)
        self.alerting.say(labels, ends=datetime.now(tz=UTC))
        return before, self.alerting.hooked("resolved", before.get("resolved", 0) + 1)

    def proposed(self) -> Json:
        """The plan that waits for somebody."""
        return self.daemon.proposed(self.connector, "skip_one")

    def await_recovery(self) -> list[str]:
        """It runs and has committed everything; the lines that it has written."""
        self.sink.lab.wait_running(self.connector)
        sinks.await_commits(self.sink)
        return poison.delivered(self.sink, good())

    def over(self, incident: Json) -> dict[str, int]:
        """Wait until the alert is over, posted as resolved, and the incident is over too. Return
        what became of all that was posted.

        POISON looks back for a quarter of an hour, and alone is left to be resolved.
        """
        self.alerting.over(FAILED, self.connector)

        def probe() -> dict[str, int]:
            result = self.alerting.hooks()
            unresolved = result.get("new", 0) - result.get("resolved", 0)
            remaining = [alert.name for alert in self.alerting.active()]
            if unresolved != remaining.count(POISON) or not self.ended(incident):
                raise NotYet(f"{result}, {remaining}, the incident is over: {self.ended(incident)}")
            return result

        return until("the end of the incident", probe, timeout_s=COMES_S_MAX)

    def ended(self, incident: Json) -> bool:
        """Whether offsetwatch calls an incident over."""
        return any(
            (entry["record"], entry.get("incident")) == ("incident_over", incident["incident"])
            for entry in self.daemon.journal()
        )

    def list_quarantined(self) -> list[Json]:
        """What stands in quarantine for it."""
        document = json.loads(self.daemon.cli("quarantine", "list", "--json"))
        return [item for item in document if item["connector"] == self.connector]

    # ---- a person elsewhere -------------------------------------------------------------------

    def typed(self, *verb: str, by: str = PERSON) -> tuple[str, ...]:
        """A command as it is typed by somebody who has nothing but a token."""
        token = str(self.daemon.token_file(by))
        return (*verb, "--url", self.daemon.control_url, "--token-file", token)

    def run_verb(self, *verb: str, by: str = PERSON) -> subprocess.CompletedProcess[str]:
        """How such a command ends, and what it prints."""
        return finished(
            (*EXPORTER, *self.typed(*verb, by=by)),
            called=" ".join(verb),
            directory=self.directory,
            timeout_s=VERB_S_MAX,
        )

    def in_terminal(self, *verb: str) -> int:
        """The same in this terminal, which it may ask: its exit status."""
        done = subprocess.run(
            (*EXPORTER, *self.typed(*verb)),
            cwd=self.directory,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},  # both outputs in their order
            check=False,
        )
        return done.returncode


def good() -> list[str]:
    """All records that the sink can take, in order."""
    return poison.good(0, GOOD_BEFORE + GOOD_AFTER)


@contextmanager
def alerted(lab: Lab, name: str, directory: Path) -> Iterator[Alerted]:
    """All of it up and well, and a sink that has taken its first records; gone afterwards."""
    sink = sinks.begin(Sink(lab, name), records=GOOD_BEFORE)
    daemon = Guarded(lab, directory=directory, connectors=[sink.connector], remedy=REMEDY)
    try:
        daemon.start()
        alerting = Alerting(
            directory=directory,
            scraped=daemon.product.url,
            control=daemon.control_url,
            token_file=daemon.token_file(ALERTS),
        )
        with alerting:
            yield Alerted(sink, daemon, alerting, directory)
    finally:
        daemon.stop()
        lab.delete(sink.connector)
