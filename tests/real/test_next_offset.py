"""`offsets next` and the command that it prints, run against Debezium's connectors: exactly the
transactions that it passes over are missing from the topic.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.databases.server import ORDERS
from lab.product.toolbox import Toolbox
from lab.stories import cluster_actions
from lab.stories.captures import Capture, captures_of, configure_sources
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.full]

DELIVERED_S_MAX = 90.0


@dataclass(frozen=True, slots=True)
class Subject:
    """A connector, and the verbs beside it."""

    capture: Capture
    toolbox: Toolbox

    def insert(self, *notes: str) -> None:
        """Insert rows in one transaction."""
        rows = ", ".join(f"('{note}')" for note in notes)
        self.capture.server.query(f"insert into {ORDERS} (note) values {rows}")

    def deliver(self, *notes: str) -> None:
        """Insert rows in one transaction, and wait until the stored offset is after them."""
        before = self.capture.offset()
        self.insert(*notes)
        self.await_notes(notes)

        def check() -> None:
            if self.capture.offset() == before:
                raise NotYet(f"its offset is {before}")

        until("a commit", check, timeout_s=DELIVERED_S_MAX)

    def notes(self) -> list[str]:
        """Return the notes of all rows in the topic, in order."""
        records = cluster_actions.records(self.capture.lab.east, self.capture.topic)
        values = [json.loads(record.value) for record in records if record.value is not None]
        return [value["after"]["note"] for value in values]

    def await_notes(self, notes: tuple[str, ...]) -> None:
        """Wait until the last rows in the topic are these."""

        def check() -> None:
            there = self.notes()[-len(notes) :]
            if there != [*notes]:
                raise NotYet(f"{self.capture.states()}, and the topic ends with {there}")

        until(f"{notes} in {self.capture.topic}", check, timeout_s=DELIVERED_S_MAX)

    def stop(self) -> None:
        self.capture.lab.stop_connector(self.capture.connector)

    def resume(self) -> None:
        self.capture.lab.resume(self.capture.connector)
        self.capture.lab.wait_running(self.capture.connector)

    def next(self, *options: str) -> dict[str, Any]:
        """Return the document that the verb prints."""
        document: dict[str, Any] = self.toolbox.read(
            "offsets", "next", self.capture.connector, *options, "--json"
        ).json
        return document

    def set(self, document: dict[str, Any]) -> None:
        """Run the command of a document."""
        words = shlex.split(document["command"])
        assert words[0] == "offsetwatch"
        self.toolbox.run(*words[1:], "--yes")
        assert self.capture.offset() == document["next"]


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Subject]]:
    options = LabOptions(
        connectors=False, postgres=True, mariadb=True, offset_flush_interval_ms=1000
    )
    with Lab(options) as lab:
        toolbox = Toolbox(lab, directory=tmp_path_factory.mktemp("toolbox"))
        with toolbox.config.open("a") as config:
            config.write(configure_sources(lab))
        found = {capture.server.name: Subject(capture, toolbox) for capture in captures_of(lab)}
        for subject in found.values():
            subject.capture.begin()
        yield found


def test_exactly_the_next_transaction_of_mariadb_is_missing(subjects: dict[str, Subject]) -> None:
    subject = subjects["mariadb"]
    subject.deliver("before 1", "before 2")
    subject.stop()
    for note in ("first", "second", "third"):
        subject.insert(note)

    delivered = subject.next()
    assert any("2 rows of the next event were delivered" in note for note in delivered["notes"])
    both = subject.next("--transactions", "2")
    subject.set(delivered)
    first = subject.next()
    assert both["next"] == first["next"]
    assert both["passes_over"] == [*delivered["passes_over"], *first["passes_over"]]
    subject.set(first)
    subject.resume()

    subject.await_notes(("before 1", "before 2", "second", "third"))
    subject.deliver("after")
    assert subject.notes()[-5:] == ["before 1", "before 2", "second", "third", "after"]
