"""
The demonstration of source ends: rows of a database flow into a topic, replication is frozen while
everything reports RUNNING, and how far behind is seen to grow; the finding comes, and ends.

PostgreSQL and MariaDB are real ones, and so are Debezium's connectors. Only PostgreSQL is frozen.
"""

import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console

from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.databases.row_load import RowLoad
from lab.demo.tables import make_table
from lab.processes.jars import jars
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.product.source_ends import find_source_end, find_verdict
from lab.stories.captures import Capture, captures_of, configure_sources
from lab.waiting import NotYet, until

DAEMON_PORT: Final = 9640
RATE_PER_S: Final = 5.0
PRINTS: Final = 4
PRINT_INTERVAL_S: Final = 4.0
# Three intervals find it; the rest is what a busy machine takes.
FINDING_S_MAX: Final = 120.0
UP_S_MAX: Final = 12 * 3600.0
FINDING: Final = "connector_silent"

EXTRA: Final = """\
ends_s: 1.0
judge: {interval_s: 5.0}
"""
CONNECT_EXTRA: Final = "poll: {state_s: 1.0, groups_s: 2.0}"

T = TypeVar("T")


def run_demo(*, kafka_version: str, free_ports: bool, once: bool) -> int:
    """All of it; the exit status. Unless `once` all stays up in the end."""
    click.echo("getting Kafka's jars and Debezium's (the first time takes a minute) ...")
    jars(kafka_version)
    options = LabOptions(
        kafka_version=kafka_version,
        ports="free" if free_ports else "fixed",
        connectors=False,
        postgres=True,
        mariadb=True,
        offset_flush_interval_ms=1000,
    )
    click.echo("starting two brokers, Connect, PostgreSQL and MariaDB ...")
    with tempfile.TemporaryDirectory(prefix="offsetwatch-demo-") as directory, Lab(options) as lab:
        click.echo(f"lab up in {lab.started_in_s:.1f} s; starting Debezium and the daemon ...")
        for capture in captures_of(lab):
            capture.begin()
        product = Product(
            lab,
            directory=Path(directory),
            port=free_port() if free_ports else DAEMON_PORT,
            extra=EXTRA + configure_sources(lab),
            connect_extra=CONNECT_EXTRA,
        )
        try:
            product.start_daemon()
            click.echo(f"metrics       {product.url}/metrics")
            click.echo(f"status page   {product.url}/")
            click.echo(f"configuration {product.config}")
            wrong = _act(lab, product)
            for name in wrong:
                click.echo(f"not as it should be: {name}")
            if not once:
                click.echo("\nall of it stays up; Ctrl-C stops everything")
                _keep_up()
        finally:
            product.stop()
    return 1 if wrong else 0


def _act(lab: Lab, product: Product) -> list[str]:
    """Every step; what is not as it should be."""
    captures = captures_of(lab)
    postgres = Capture(lab, lab.postgres)
    loads = [RowLoad(capture.server, rate_per_s=RATE_PER_S) for capture in captures]
    for load in loads:
        load.start()
    try:
        _step(f"{RATE_PER_S:g} rows a second flow from each database into its topic")
        for capture in captures:
            _await(product, f"{capture.connector} to keep up", partial(_flows, product, capture))
        _show(product, captures)
        _step(f"the process that streams {postgres.slot} is stopped (SIGSTOP); rows go on")
        with postgres.frozen():
            wrong = _grow(product, postgres, captures)
            _step(f"offsetwatch finds it within three intervals: {FINDING}")
            finding = _await(product, FINDING, partial(_find, product, postgres.connector))
            click.echo(f"{finding['severity']}  {finding['name']}  {finding['summary']}")
            click.echo(f"Connect REST says of {postgres.connector}: {' '.join(postgres.states())}")
            _type(product, "explain", postgres.connector)
    finally:
        for load in loads:
            load.stop()
    _step("the process goes on, and no more rows are written")
    for capture in captures:
        capture.await_rows()
        _await(product, f"{capture.connector} caught up", partial(_check_rest, product, capture))
    _await(product, "no finding", partial(_check_clear, product))
    _show(product, captures)
    click.echo("every row is in its topic; nothing waits, and nothing is found wrong")
    return wrong


def _grow(product: Product, frozen: Capture, captures: tuple[Capture, ...]) -> list[str]:
    """Show the lag of a frozen connector some times: what does not grow."""
    ends: list[dict[str, Any]] = []
    for _ in range(PRINTS):
        since = time.monotonic()
        ends.append(
            _await(product, "a lag that grows", partial(_grown, product, frozen, ends[-1:]))
        )
        _show(product, captures)
        while time.monotonic() - since < PRINT_INTERVAL_S:
            time.sleep(0.1)
    return [
        f"{name} went from {first[name]} to {last[name]}"
        for first, last in pairwise(ends)
        for name in ("lag_bytes", "lag_seconds")
        if not first[name] < last[name]
    ]


def _grown(product: Product, capture: Capture, before: list[dict[str, Any]]) -> dict[str, Any]:
    end = find_source_end(product, capture.connector)
    reads = [earlier["read_at"] for earlier in before]
    if end is None or not end["lag_bytes"] or not end["lag_seconds"] or end["read_at"] in reads:
        raise NotYet(f"its end is {end}")
    return end


def _flows(product: Product, capture: Capture) -> None:
    end, verdict = (
        find_source_end(product, capture.connector),
        find_verdict(product, capture.connector),
    )
    if end is None or end["caught_up"] is not True or verdict != "ok":
        raise NotYet(f"{verdict}, its end is {end}")


def _check_rest(product: Product, capture: Capture) -> None:
    end = find_source_end(product, capture.connector)
    if end is None or not end["caught_up"] or end["lag_bytes"] or end["lag_seconds"]:
        raise NotYet(f"its end is {end}")


def _find(product: Product, connector: str) -> dict[str, Any]:
    findings: list[dict[str, Any]] = product.get("/api/v1/findings")["findings"]
    for finding in findings:
        if (finding["name"], finding["connector"]) == (FINDING, connector):
            return finding
    raise NotYet(f"found: {[finding['name'] for finding in findings]}")


def _check_clear(product: Product) -> None:
    if names := [finding["name"] for finding in product.get("/api/v1/findings")["findings"]]:
        raise NotYet(f"found: {names}")


def _show(product: Product, captures: tuple[Capture, ...]) -> None:
    table = make_table(
        *("connector", "REST", "verdict", "end of the source"),
        *("behind in bytes#", "transactions#", "seconds#", "caught up"),
    )
    for capture in captures:
        end = find_source_end(product, capture.connector) or {}
        seconds = end.get("lag_seconds")
        cells = (
            capture.connector,
            " ".join(capture.states()),
            find_verdict(product, capture.connector),
            end.get("end"),
            end.get("lag_bytes"),
            end.get("lag_transactions"),
            None if seconds is None else f"{seconds:.1f}",
            {True: "yes", False: "no", None: "unknown"}[end.get("caught_up")],
        )
        table.add_row(*("-" if cell is None else str(cell) for cell in cells))
    Console(width=150).print(table)
    sys.stdout.flush()


def _await(product: Product, what: str, probe: Callable[[], T]) -> T:
    return until(what, probe, timeout_s=FINDING_S_MAX, evidence=product.evidence)


def _step(what: str) -> None:
    moment = datetime.now(tz=UTC).strftime("%H:%M:%SZ")
    click.echo(f"\n{moment}  {what}")
    sys.stdout.flush()


def _type(product: Product, *verb: str) -> None:
    command = shlex.join((*verb, "--config", str(product.config)))
    click.echo(f"\n$ offsetwatch {command}")
    sys.stdout.flush()
    product.in_terminal(*verb)


def _keep_up() -> None:
    deadline = time.monotonic() + UP_S_MAX
    while time.monotonic() < deadline:
        time.sleep(1.0)
