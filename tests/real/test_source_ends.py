"""Debezium over PostgreSQL and MariaDB: how far behind their databases the connectors are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import debezium_postgresql, find_slot
from lab.databases.postgresql import PostgresqlServer
from lab.databases.server import ARCHIVE, DEBEZIUM
from lab.moments import seconds
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import onlooker
from lab.product.source_ends import find_source_end, find_verdict
from lab.stories.captures import SOURCE_INTERVAL_S, Capture, captures_of, configure_sources
from lab.waiting import NotYet, until
from offsetwatch.history.queries.source_lag import read_newest_samples
from tests.real.conftest import FAST, FAST_CONNECT
from tests.real.daemon_series import WAIT_S_MAX, becomes, eventually
from tests.real.observed_findings import Lookout

pytestmark = [pytest.mark.real, pytest.mark.full]

INTERVAL_S = 5.0
QUIET_INTERVALS = 4
# The server writes some WAL by itself: checkpoints, running transactions.
OWN_WAL_BYTES = 8192
SNAPSHOT_ROWS = 20_000
# The number of the advisory lock that makes a snapshot slow.
SLOW = 7
DATABASES = ("postgres", "mariadb")
RETAINED = ("caught_up", "lag_bytes", "lag_transactions")

each_database = pytest.mark.parametrize("database", DATABASES)


@dataclass(frozen=True, slots=True)
class Watched:
    """A lab with both databases, and a daemon that reads their ends."""

    lab: Lab
    product: Product
    lookout: Lookout

    def capture(self, database: str) -> Capture:
        (found,) = (one for one in captures_of(self.lab) if one.server.name == database)
        return found

    def awaits(
        self, connector: str, what: str, holds: Callable[[dict[str, Any]], object]
    ) -> dict[str, Any]:
        """Wait until what is shown of a source's end fulfils a condition."""

        def probe() -> dict[str, Any]:
            end = find_source_end(self.product, connector)
            if end is None or not holds(end):
                raise NotYet(f"{find_verdict(self.product, connector)}, its end is {end}")
            return end

        return until(
            f"{what} of {connector}",
            probe,
            timeout_s=WAIT_S_MAX,
            evidence=self.product.evidence,
        )

    def await_rest(self, capture: Capture) -> dict[str, Any]:
        """Wait until nothing waits for a connector, and the offset is that of the last row."""
        capture.await_rows()
        return self.awaits(capture.connector, "rest", is_at_rest)

    def stops(self, capture: Capture) -> None:
        """Stop a connector, and wait until the daemon shows it stopped."""
        self.lab.stop_connector(capture.connector)
        eventually(
            self.product,
            "a stopped connector",
            lambda: find_verdict(self.product, capture.connector) == "stopped",
        )

    def await_finding(self, name: str, subject: str) -> dict[str, Any]:
        def probe() -> dict[str, Any]:
            findings = self.product.get("/api/v1/findings")["findings"]
            for finding in findings:
                if finding["name"] == name and subject in {
                    finding["connector"],
                    finding["subject"],
                }:
                    return finding
            raise NotYet(f"found: {findings}")

        return until(name, probe, timeout_s=WAIT_S_MAX, evidence=self.product.evidence)

    def clear(self) -> None:
        def holds() -> bool:
            document = self.product.get("/api/v1/findings")
            return document["ready"] and not document["findings"]

        eventually(self.product, "no finding", holds)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Expect no finding meanwhile."""
        since = len(self.lookout.sights)
        yield
        found = [named for sight in self.lookout.sights[since:] for named in sight.findings]
        assert found == []

    def lasts(self, duration_s: float) -> None:
        """Wait until the daemon has judged for so long."""
        begun = seconds(self.product.get("/api/v1/findings")["at"])

        def holds() -> bool:
            return seconds(self.product.get("/api/v1/findings")["at"]) - begun >= duration_s

        eventually(self.product, f"{duration_s:g} s", holds)


def is_at_rest(end: dict[str, Any]) -> bool:
    return end["caught_up"] is True and end["lag_bytes"] == 0 and end["lag_seconds"] == 0


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    options = LabOptions(
        connectors=False, postgres=True, mariadb=True, offset_flush_interval_ms=1000
    )
    with Lab(options) as lab:
        for capture in captures_of(lab):
            capture.begin()
        extra = f"{FAST}judge: {{interval_s: {INTERVAL_S}}}\n{configure_sources(lab)}"
        directory = tmp_path_factory.mktemp("product")
        with onlooker(lab, directory, extra=extra, connect_extra=FAST_CONNECT) as (product, _):
            lookout = Lookout(product.url)
            yield Watched(lab, product, lookout)
            lookout.stop()


@each_database
def test_rows_flow_and_nothing_waits_after_them(watched: Watched, database: str) -> None:
    capture = watched.capture(database)
    with watched.quiet():
        capture.server.insert(20)
        end = watched.await_rest(capture)
        assert end["connected"] is True
        assert end["ahead"] == 0
        # Each is read from a snapshot of its own: in a moment between two of the server's answers
        # a connection that sends makes the seconds unknown.
        transactions = 0 if database == "mariadb" else None
        for expected, name in (
            (1, "source_caught_up"),
            (0, "source_lag_bytes"),
            (0, "source_lag_seconds"),
            (transactions, "source_lag_transactions"),
        ):
            becomes(watched.product, expected, name, connector=capture.connector)


@each_database
def test_writes_to_another_database_are_no_lag(watched: Watched, database: str) -> None:
    capture = watched.capture(database)
    before = watched.await_rest(capture)
    records = capture.records()
    with watched.quiet():
        capture.server.insert(500, database=ARCHIVE)
        watched.awaits(
            capture.connector,
            "a newer end",
            lambda end: end["end_position"] >= before["end_position"] + 500,
        )
        watched.lasts(QUIET_INTERVALS * INTERVAL_S)
        watched.awaits(capture.connector, "rest", is_at_rest)
        eventually(
            watched.product,
            "idle",
            lambda: find_verdict(watched.product, capture.connector) == "idle",
        )
    assert capture.records() == records


def test_a_frozen_walsender_is_found_while_everything_runs_and_is_over_when_it_goes_on(
    watched: Watched,
) -> None:
    capture = watched.capture("postgres")
    server = watched.lab.postgres
    watched.await_rest(capture)
    with capture.frozen():
        before = server.wal_end()
        server.insert(200)
        after = server.wal_end()
        first = watched.awaits(
            capture.connector,
            "its lag",
            lambda end: end["end_position"] >= after and end["lag_seconds"],
        )
        assert first["caught_up"] is False
        written = after - before
        assert written <= first["lag_bytes"] <= written + OWN_WAL_BYTES
        begun = seconds(first["behind_since"])
        finding = watched.await_finding("connector_silent", capture.connector)
        found_after_s = seconds(watched.product.get("/api/v1/findings")["at"]) - begun
        intervals = found_after_s / INTERVAL_S
        print(f"found after {intervals:.1f} intervals: {finding}")  # noqa: T201 - for people
        server.insert(200)
        second = watched.awaits(
            capture.connector, "more", lambda end: end["lag_bytes"] >= server.wal_end() - before
        )
        assert second["behind_since"] == first["behind_since"]
        elapsed_s = seconds(second["read_at"]) - seconds(first["read_at"])
        grown_s = second["lag_seconds"] - first["lag_seconds"]
        assert abs(grown_s - elapsed_s) <= SOURCE_INTERVAL_S + 1
        assert set(capture.states()) == {"RUNNING"}
    watched.await_rest(capture)
    watched.clear()


@each_database
@pytest.mark.parametrize("rows", [1, 1000, 100_000])
def test_what_is_written_while_a_connector_is_stopped_is_its_lag(
    watched: Watched, database: str, rows: int
) -> None:
    capture = watched.capture(database)
    server = capture.server
    watched.await_rest(capture)
    watched.stops(capture)
    if isinstance(server, PostgresqlServer):
        # What others wrote before these rows is behind the position, too, and counts by then.
        confirmed = server.slot(capture.slot)["confirmed_flush_lsn"]
        before = server.wal_end()
        server.insert(rows)
        after = server.wal_end()
        end = watched.awaits(capture.connector, "its lag", lambda end: end["end_position"] >= after)
        assert after - before <= end["lag_bytes"] <= end["end_position"] - confirmed
    else:
        server.insert(rows)
        end = watched.awaits(
            capture.connector, "its lag", lambda end: end["lag_transactions"] >= rows
        )
        # One more where the last transaction before the stop was handed out within a flush.
        assert rows <= end["lag_transactions"] <= rows + 1
    # All that was there at the read before may be done.
    watched.awaits(capture.connector, "known lag", lambda end: end["caught_up"] is not True)
    watched.lab.resume(capture.connector)
    watched.await_rest(capture)


@pytest.mark.spark
def test_a_run_of_the_pipeline_retains_what_waits(watched: Watched) -> None:
    shown, retained = {}, {}
    for database in DATABASES:
        capture = watched.capture(database)
        watched.await_rest(capture)
        watched.stops(capture)
        capture.server.insert(50)
        watched.awaits(capture.connector, "its lag", lambda end: end["lag_seconds"])
    try:
        watched.product.run_pipeline()
        for database in DATABASES:
            name = watched.capture(database).connector
            (sample,) = read_newest_samples(
                watched.product.history, "lab", name, time.time()
            ).values()
            end = find_source_end(watched.product, name)
            assert end is not None
            shown[database] = [end[field] for field in RETAINED]
            retained[database] = [getattr(sample, field) for field in RETAINED]
            assert sample.problem is None
            assert sample.behind_since == pytest.approx(seconds(end["behind_since"]), abs=0.001)
    finally:
        for database in DATABASES:
            watched.lab.resume(watched.capture(database).connector)
    assert retained == shown
    assert shown["mariadb"][-1] in {50, 51}
    for database in DATABASES:
        watched.await_rest(watched.capture(database))


def test_a_snapshot_in_progress_has_no_number_and_is_ok(watched: Watched) -> None:
    server, name = watched.lab.postgres, "postgres-large"
    numbers = f"generate_series(1, {SNAPSHOT_ROWS})"
    for statement in (
        f"create table large as select n as id, repeat('x', 200) as note from {numbers} n",
        "alter table large add primary key (id)",
        "create publication large for table large",
        f"grant select on large to {DEBEZIUM}",
    ):
        server.query(statement)
    config = {
        **debezium_postgresql(server, name),
        "table.include.list": "public.large",
        "publication.name": "large",
        "max.batch.size": "64",
        "max.queue.size": "128",
        "snapshot.fetch.size": "64",
        # Each row takes 20 ms for as long as the test has the lock: the snapshot outlasts it.
        "snapshot.select.statement.overrides": "public.large",
        "snapshot.select.statement.overrides.public.large": (
            "select * from public.large where pg_sleep(case when "
            f"pg_try_advisory_xact_lock_shared({SLOW}) then 0 else 0.02 end) is not null"
        ),
    }
    try:
        with server.connect() as holder:
            holder.execute(f"select pg_advisory_lock({SLOW})")
            watched.lab.create(name, config)
            becomes(watched.product, 1, "source_snapshot_in_progress", connector=name)
            eventually(watched.product, "ok", lambda: find_verdict(watched.product, name) == "ok")
        verdicts = set()

        def is_over() -> bool:
            verdict, end = (
                find_verdict(watched.product, name),
                find_source_end(watched.product, name),
            )
            if end is None or not end["snapshot_in_progress"]:
                return True
            assert not numbers_of(end)
            verdicts.add(verdict)
            return False

        eventually(watched.product, "the end of the snapshot", is_over)
        assert verdicts <= {"ok"}
        watched.awaits(name, "rest", is_at_rest)
    finally:
        watched.lab.delete(name)
        slot = find_slot(name)
        eventually(watched.product, "a free slot", lambda: not server.slot(slot).get("active"))
        server.query(f"select pg_drop_replication_slot('{slot}')")


def numbers_of(end: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in end.items() if name.startswith("lag_") and value is not None
    }


@each_database
def test_a_stopped_database_is_found_and_is_over_when_it_is_back(
    watched: Watched, database: str
) -> None:
    capture = watched.capture(database)
    watched.await_rest(capture)
    watched.lab.terminate(database)
    try:
        finding = watched.await_finding("source_down", database)
        assert capture.connector in finding["summary"]
    finally:
        watched.lab.start_process(database)
    capture.server.insert(5)
    watched.await_rest(capture)
    watched.clear()
