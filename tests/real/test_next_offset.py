"""`offsets next` and the command that it prints, run against Debezium's connectors: exactly the
transactions that it passes over are missing from the topic.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from lab import Lab, LabOptions
from lab.databases.postgresql import PostgresqlServer
from lab.databases.server import ADMINISTRATOR, ORDERS, WATCHER
from lab.product.toolbox import Toolbox
from lab.stories import cluster_actions
from lab.stories.captures import Capture, captures_of, configure_sources
from lab.waiting import NotYet, until
from offsetwatch.cli.offsets.execute import UNAUTHORISED

pytestmark = [pytest.mark.real, pytest.mark.full]

DELIVERED_S_MAX = 150.0


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
        lab.postgres.query(f"alter role {WATCHER} replication")
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


@pytest.mark.parametrize("concurrent", [False, True])
def test_exactly_the_next_transaction_of_postgresql_is_missing(
    subjects: dict[str, Subject], concurrent: bool
) -> None:
    subject, prefix = subjects["postgres"], "concurrent" if concurrent else "alone"
    before = (f"{prefix} before 1", f"{prefix} before 2")
    subject.deliver(*before)
    subject.stop()
    after = tuple(f"{prefix} {number}" for number in ("second 1", "second 2", "third"))
    if concurrent:
        insert_concurrently(subject.capture.lab.postgres, f"{prefix} first", *after)
    else:
        for notes in ((f"{prefix} first",), after[:2], after[2:]):
            subject.insert(*notes)

    document = subject.next()
    (passed,) = document["passes_over"]
    assert (passed["changes"], passed["tables"]) == ({"INSERT": 1}, ["public.orders"])
    both = subject.next("--transactions", "2")
    assert [each["changes"]["INSERT"] for each in both["passes_over"]] == [1, 2]
    subject.set(document)
    assert subject.next()["passes_over"] == both["passes_over"][1:]
    subject.resume()

    subject.await_notes((*before, *after))
    subject.deliver(f"{prefix} after")
    assert subject.notes()[-6:] == [*before, *after, f"{prefix} after"]


def test_a_slot_that_is_in_use_is_not_read(subjects: dict[str, Subject]) -> None:
    subject = subjects["postgres"]
    arguments = ("offsets", "next", subject.capture.connector)
    refused = subject.toolbox.read(*arguments, status=3)
    assert "its slot postgres_shop is in use" in refused.err


def test_without_the_right_to_replicate_it_says_so(subjects: dict[str, Subject]) -> None:
    subject = subjects["postgres"]
    server = subject.capture.lab.postgres
    subject.stop()
    try:
        server.query(f"alter role {WATCHER} noreplication")
        refused = subject.toolbox.read(
            "offsets", "next", subject.capture.connector, status=UNAUTHORISED
        )
        assert "docs/acls.md" in refused.err
    finally:
        server.query(f"alter role {WATCHER} replication")
        subject.resume()


def insert_concurrently(server: PostgresqlServer, first: str, *notes: str) -> None:
    """Insert a row in a transaction; two in one that began before its commit and whose second
    change is right after that; and one more.
    """
    statement = f"insert into {ORDERS} (note) values (%s)"
    with (
        psycopg.connect(server.url(ADMINISTRATOR)) as one,
        psycopg.connect(server.url(ADMINISTRATOR)) as other,
    ):
        one.execute(statement, [first])
        other.execute(statement, [notes[0]])
        one.commit()
        other.execute(statement, [notes[1]])
        other.commit()
        one.execute(statement, [notes[2]])
