"""Debezium's JDBC sink over PostgreSQL: a record that the database refuses is classified by its
SQLState, not skipped while it is one of a batch, and once the advice is followed the daemon itself
proposes to skip exactly that record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import Config, debezium_jdbc_sink
from lab.databases.server import DEBEZIUM
from lab.product.remediating_daemon import reasons
from lab.stories import cluster_actions, poison, sinks
from lab.stories.flow import DEADLINE_S, STATUS_TOPIC, failed_again, task_trace
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until
from offsetwatch.config.schema.remediation import SINK_DATA_ERRORS
from offsetwatch.remedy.classify import classify
from offsetwatch.remedy.classify.trace_meanings import PUT, FailureKind
from offsetwatch.remedy.locate.recommendations import DECLARE_SAFE, ONE_AT_A_TIME
from tests.real.remediation_stories import QUARANTINE, await_rounds, evidence_of, guarded

pytestmark = [pytest.mark.real, pytest.mark.full]

CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "note", "type": "string", "optional": True},
    ],
}
TOO_LONG = "this is far longer than twenty characters"
ONE_RECORD = {"consumer.override.max.poll.records": "1"}


@dataclass(frozen=True, slots=True)
class TableSink(Sink):
    """A sink whose records become rows of a table of its own."""

    @property
    def table(self) -> str:
        return self.name.replace("-", "_")

    def config(self) -> Config:
        return debezium_jdbc_sink(self.lab.postgres, topic=self.topic, table=self.table)

    def begin(self) -> None:
        """Create table, topic and connector, and let it take the first records."""
        server = self.lab.postgres
        server.query(f"create table {self.table} (id bigint primary key, note varchar(20))")
        server.query(f"grant select, insert on {self.table} to {DEBEZIUM}")
        self.lab.create_topic("east", self.topic)
        self.produce((1, "one"), (2, "two"), (3, None))
        self.lab.create(self.connector, self.config())
        self.lab.wait_running(self.connector)
        sinks.await_commits(self)

    def take_one_at_a_time(self) -> None:
        """Change its configuration, which restarts its task, and wait until that has failed."""
        failures = self.count_failures()
        self.lab.create(self.connector, {**self.config(), **ONE_RECORD})

        def check() -> None:
            if self.count_failures() == failures:
                raise NotYet(f"failed {failures} times")

        until(f"{self.connector} failed again", check, timeout_s=DEADLINE_S)

    def count_failures(self) -> int:
        return cluster_actions.times_failed(self.lab.east, STATUS_TOPIC, self.connector)

    def produce(self, *rows: tuple[int, str | None]) -> None:
        cluster_actions.produce_texts(self.lab.east, self.topic, [format_row(*row) for row in rows])

    def rows(self) -> list[int]:
        return [
            id_ for (id_,) in self.lab.postgres.query(f"select id from {self.table} order by 1")
        ]


def lacks_signals(entry: dict[str, Any]) -> bool:
    return entry["record"] == "refused" and "quorum" in reasons(entry)


def format_row(number: int, note: str | None) -> str:
    return json.dumps({"schema": SCHEMA, "payload": {"id": number, "note": note}})


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    options = LabOptions(
        connectors=False, postgres=True, jdbc_sink=True, offset_flush_interval_ms=1000
    )
    with Lab(options) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "bad"), [("too-long", (5, TOO_LONG)), ("duplicate", (1, "one again"))]
)
def test_a_row_that_postgresql_refuses_is_skipped_once_the_advice_is_followed(
    lab: Lab, tmp_path: Path, name: str, bad: tuple[int, str]
) -> None:
    sink = TableSink(lab, name)
    sink.begin()
    remedy = {"mode": "propose", "quarantine": QUARANTINE, "stop_on": []}
    with guarded(lab, tmp_path, [sink.connector]) as daemon:
        poison.at_once(sink, [format_row(4, "four"), format_row(*bad), format_row(6, "six")])

        failure = classify(task_trace(lab, sink.connector), frozenset(SINK_DATA_ERRORS[CLASS]))
        assert failure is not None
        assert (failure.kind, failure.stage) == (FailureKind.SINK_DATA, PUT)
        daemon.refused(sink.connector, "ambiguous_window")
        explained = daemon.cli("explain", sink.connector, status=1)
        assert ONE_AT_A_TIME in explained
        assert DECLARE_SAFE in explained
        assert "errors.tolerance" not in explained
        assert bad[1] not in explained
        assert "skip_one" not in {plan["action"] for plan in daemon.plans(sink.connector)}
        assert sink.rows() == [1, 2, 3]

        daemon.reconfigure({**remedy, "skip_safe_sinks": [CLASS]})
        sink.take_one_at_a_time()
        assert (sink.committed(), sink.rows()) == (4, [1, 2, 3, 4])
        await_rounds(daemon)
        failed_again(lab, sink.connector, restarts=1)
        # Not by `explain`: a plan of a restart, where one is proposed first, takes its place there.
        refused = daemon.refused(sink.connector, "not_failed_again")
        assert "restart its failed task" in reasons(refused)["not_failed_again"]
        assert ONE_AT_A_TIME not in refused["recommend"]
        failed_again(lab, sink.connector, restarts=1)
        too_few = daemon.awaits(sink.connector, "too few signals", lacks_signals)
        assert "the next record that arrives" in reasons(too_few)["quorum"]
        sink.produce((7, "seven"))
        plan = daemon.proposed(sink.connector, "skip_one")
        assert evidence_of(daemon, plan)["found by"] == "one_at_a_time"
        daemon.approve(plan)
        assert daemon.ended(plan)["ending"] == "succeeded"
        lab.wait_running(sink.connector)
        sinks.await_commits(sink)

        assert sink.rows() == [1, 2, 3, 4, 6, 7]
        copies = json.loads(daemon.cli("quarantine", "list", "--json"))
        (copy,) = (each for each in copies if each["connector"] == sink.connector)
        assert copy["offset"] == 4
        assert daemon.cli("quarantine", "get", copy["id"], "--raw") == format_row(*bad)
