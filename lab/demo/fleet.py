"""
The demonstration: a lab with load flowing, the daemon and the pipeline, and what they see of it;
and in the end two connectors that cannot get past a record, and what is done about that.

`make demo` keeps a live table, and has the plans for both approved in the terminal, then the table
again until Ctrl-C; `make demo ARGS=--once` needs no terminal, compares daemon, pipeline, REST and
brokers, agrees to both plans, and exits non-zero if anything differs or nothing was compared.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lab.check import compare
from lab.cluster.lab import Lab
from lab.cluster.load import Load
from lab.cluster.options import LabOptions
from lab.demo import poison
from lab.demo.tables import make_table
from lab.moments import seconds
from lab.processes.jars import jars
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from offsetwatch.errors import HistoryError
from offsetwatch.history.queries import asof
from offsetwatch.history.spark.jars import spark_jars
from offsetwatch.history.tables import reader

RATE_PER_S = 20.0
DAEMON_PORT = 9640
REFRESH_S = 1.0
FLOWING_S_MAX = 60.0
SETTLED_S_MAX = 60.0
WATCH_S_MAX = 12 * 3600.0

# Quicker than the defaults, so that one can watch: a demonstration has nobody to be gentle with.
EXTRA = """\
ends_s: 1.0
judge: {interval_s: 5.0}
history: {cadence_s: 15.0, refine_s: 15.0, heap: 700m}
"""
CONNECT_EXTRA = "poll: {state_s: 2.0, groups_s: 2.0}"
# So long for a look at what is well.
WELL_S = 40.0


@contextmanager
def staged(*, kafka_version: str, free_ports: bool) -> Iterator[tuple[Lab, Load, Product]]:
    """Everything up: lab, load, daemon. Ends it all, whatever happens."""
    click.echo("getting Kafka and Spark jars (the first time takes a minute) ...")
    jars(kafka_version)
    spark_jars()
    with tempfile.TemporaryDirectory(prefix="offsetwatch-demo-") as directory:
        options = LabOptions(kafka_version=kafka_version, ports="free" if free_ports else "fixed")
        click.echo("starting two brokers, Connect, FileStream connectors and MirrorMaker 2 ...")
        with Lab(options) as lab, Load(lab, rate_per_s=RATE_PER_S, duration_s_max=3600) as load:
            click.echo(f"lab up in {lab.started_in_s:.1f} s; starting the daemon ...")
            port = free_port() if free_ports else DAEMON_PORT
            product = Product(
                lab,
                directory=Path(directory),
                port=port,
                extra=EXTRA + poison.configuration(),
                connect_extra=CONNECT_EXTRA,
            )
            try:
                product.start_daemon()
                _urls(lab, product)
                yield lab, load, product
            finally:
                product.stop()


def _urls(lab: Lab, product: Product) -> None:
    click.echo(f"metrics       {product.url}/metrics")
    click.echo(f"connectors    {product.url}/api/v1/connectors")
    click.echo(f"flows         {product.url}/api/v1/flows")
    click.echo(f"Connect REST  {lab.connect_urls[0]}")
    click.echo(f"brokers       east {lab.east}, west {lab.west}")
    click.echo(f"configuration {product.config}")
    for line in poison.describe_shortened():
        click.echo(line)
    sys.stdout.flush()


def once(*, kafka_version: str, free_ports: bool) -> int:
    """The demonstration without a terminal; the exit status."""
    began = time.monotonic()
    with staged(kafka_version=kafka_version, free_ports=free_ports) as (lab, load, product):
        _await_flow(product)
        moment = time.time()
        Console(width=150).print(_tables(product))
        click.echo("running the pipeline up to the daemon's log end, while traffic goes on ...")
        sys.stdout.flush()
        tallies = [compare.with_pipeline(product)]
        load.pause()
        _await_committed(product)
        Console(width=150).print(_tables(product))
        tallies += [compare.with_rest(product, lab), compare.with_brokers(product, lab)]
        answered = _as_of(product, moment)
        with poison.staged(product, lab) as poisoned:
            Console(width=150).print(_tables(product))
            wrong = poison.remedied(product, lab, poisoned, by_hand=False)
            poison.well(product, poisoned)
            Console(width=150).print(_tables(product))
    for tally in tallies:
        click.echo(tally.line)
        for mismatch in tally.mismatches[: compare.MISMATCHES_PRINTED_MAX]:
            click.echo(f"  {mismatch}")
    compared = sum(tally.compared for tally in tallies)
    mismatched = sum(len(tally.mismatches) for tally in tallies)
    click.echo(f"compared {compared}, mismatched {mismatched}, in {time.monotonic() - began:.0f} s")
    nothing = [tally.what for tally in tallies if tally.compared == 0]
    nothing += [] if answered else ["the offsets of a moment ago"]
    if nothing:
        click.echo(f"nothing was compared with {', '.join(nothing)}")
    for name in wrong:
        click.echo(f"not as it should be: {name}")
    return 1 if mismatched or nothing or wrong else 0


def _as_of(product: Product, moment: float) -> bool:
    """What to bring the connectors back to, had anything gone wrong a moment ago: from the tables,
    without a JVM.
    """
    began = time.monotonic()
    answer = asof.read_as_of(product.history, asof.AsOfQuery(at=moment, with_now=True))
    table = make_table("connector", "source partition", "then", "newest in the tables")
    for connector in answer.connectors:
        now = {entry.source_partition: entry.source_offset for entry in connector.now}
        for entry in connector.then:
            name = entry.source_partition
            table.add_row(connector.connector, name, entry.source_offset or "-", now[name] or "-")
    click.echo(f"offsets as of {asof.format_iso(moment)}, in {time.monotonic() - began:.1f} s:")
    Console(width=150).print(table)
    for name, reason in answer.unknown:
        click.echo(f"  {name}: {reason}")
    return bool(answer.connectors)


def run_demo(*, kafka_version: str, free_ports: bool) -> int:
    """The live table, the two plans, and the table again, until Ctrl-C."""
    with staged(kafka_version=kafka_version, free_ports=free_ports) as (lab, load, product):
        product.start_pipeline()
        _print_live(product, load, WELL_S, "soon two connectors fail; Ctrl-C stops everything")
        with poison.staged(product, lab) as poisoned:
            Console().print(_tables(product))
            by_hand = sys.stdin.isatty()
            for name in poison.remedied(product, lab, poisoned, by_hand=by_hand):
                click.echo(f"not as it should be: {name}")
            _print_live(product, load, WATCH_S_MAX, "Ctrl-C stops everything")
    return 0


def _print_live(product: Product, load: Load, seconds: float, hint: str) -> None:
    deadline = time.monotonic() + seconds
    with Live(Text(""), console=Console(), auto_refresh=False) as live:
        while time.monotonic() < deadline:
            group = Group(*_tables(product).renderables, _footer(product, load, hint))
            live.update(group, refresh=True)
            time.sleep(REFRESH_S)


def _await_flow(product: Product) -> None:
    """Every connector's partitions have moved since the daemon caught up."""

    def flowing() -> None:
        document = product.get("/api/v1/connectors")
        counts = [
            entry["advances"]
            for connector in document["connectors"]
            if connector["name"] in {"mm2-source", "file-source"}
            for entry in connector["source_partitions"]
        ]
        if not counts or min(counts) < 2:
            raise NotYet(f"commits that moved, per source partition: {counts}")

    until("traffic", flowing, timeout_s=FLOWING_S_MAX, evidence=product.evidence)


def _await_committed(product: Product) -> None:
    """All that was produced is replicated and committed, on both sides of Connect.

    Committed too: lag is 0 as soon as the syncs say so, and REST still moves at the next flush.
    """

    def check() -> None:
        flows = product.get("/api/v1/flows")["flows"]
        lags = [partition["lag_records"] for flow in flows for partition in flow["partitions"]]
        connectors = product.get("/api/v1/connectors")["connectors"]
        lags += [
            partition["lag_records"]
            for entry in connectors
            for partition in entry["sink_partitions"]
        ]
        partitions = [partition for flow in flows for partition in flow["partitions"]]
        unflushed = [
            partition
            for partition in partitions
            if partition["committed"] + 1 != partition["log_end"]
        ]
        if not lags or any(lags) or None in lags or unflushed:
            raise NotYet(f"lags {lags}, {len(unflushed)} partitions not committed to the end")

    until("lag 0", check, timeout_s=SETTLED_S_MAX, evidence=product.evidence)


def _tables(product: Product) -> Group:
    try:
        connectors = product.get("/api/v1/connectors")
        flows = product.get("/api/v1/flows")
        judged = product.get("/api/v1/findings")
    except httpx.HTTPError as exc:
        return Group(Text(f"the daemon does not answer: {exc}", style="red"))
    results = [
        Text(
            f"{finding['severity']}  {finding['name']}  {_format_connector(finding)}"
            f"{finding['summary']}",
            style="red",
        )
        for finding in judged["findings"]
    ]
    return Group(
        _connector_table(connectors, judged), Text(""), _flow_table(flows), Text(""), *results
    )


def _format_connector(finding: dict[str, Any]) -> str:
    return f"{finding['connector']}: " if finding["connector"] else ""


def _connector_table(document: dict[str, Any], judged: dict[str, Any]) -> Table:
    table = make_table(
        *("connector", "state", "verdict", "tasks", "partition", "position#", "lag#"),
        "last commit#",
    )
    verdicts = {
        judgement["connector"]: judgement["verdict"]
        for judgement in judged["judgements"]
        if judgement["scope"] == "connector"
    }
    for connector in document["connectors"]:
        tasks = " ".join(task["state"] for task in connector["tasks"]) or "none"
        head = [connector["name"], connector["state"], verdicts.get(connector["name"], "-"), tasks]
        rows = [
            [
                Path(entry["label"]).name
                if entry["label"].startswith("filename")
                else entry["label"],
                _position(entry["offset"]),
                "",
                _format_age(document["at"], entry["committed_at"]),
            ]
            for entry in connector["source_partitions"]
        ] + [
            [f"{entry['topic']}-{entry['partition']}", entry["committed"], entry["lag_records"], ""]
            for entry in connector["sink_partitions"]
        ]
        for number, row in enumerate(rows or [["", "", "", ""]]):
            table.add_row(
                *(str(cell) for cell in [*(head if number == 0 else [""] * len(head)), *row])
            )
    return table


def _flow_table(document: dict[str, Any]) -> Table:
    table = make_table(
        *("flow", "topic", "partition#", "committed#", "replicated#", "log end#", "lag#"),
        "oldest waits#",
    )
    for flow in document["flows"]:
        for partition in flow["partitions"]:
            cells = (
                f"{flow['source']} -> {flow['target']}",
                partition["topic"],
                partition["partition"],
                partition["committed"],
                partition["replicated"]
                if partition["lag_position"] is None
                else partition["lag_position"],
                partition["log_end"],
                partition["lag_records"],
                None if partition["lag_seconds"] is None else f"{partition['lag_seconds']:.1f} s",
            )
            table.add_row(*("-" if cell is None else str(cell) for cell in cells))
    return table


def _position(offset: dict[str, Any] | None) -> str:
    if offset is None:
        return "-"
    return " ".join(f"{name}={value}" for name, value in offset.items())


def _format_age(now: str, name: str | None) -> str:
    return "-" if name is None else f"{max(0.0, seconds(now) - seconds(name)):.0f} s ago"


def _footer(product: Product, load: Load, hint: str) -> Text:
    now = datetime.now(tz=UTC).strftime("%H:%M:%SZ")
    return Text(
        f"\n{now}  load: {load.lines} lines, {load.records} records   {_history(product)}\n"
        f"{product.url}/metrics   {hint}",
        style="dim",
    )


def _history(product: Product) -> str:
    """What the pipeline has in its tables, or why not."""
    if not product.pipeline_running:
        return "pipeline: ended; see its log"
    try:
        bronze = sum(topic.rows for topic in reader.summarize_bronze(product.history))
        gold = len(reader.read_progress(product.history))
    except HistoryError:
        return "pipeline: starting Spark"
    return f"pipeline: {bronze} commits in bronze, {gold} source partitions in gold"
