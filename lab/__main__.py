"""`python -m lab`: a lab for people. Run it from the root of the repository."""

import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.table import Table

from lab.cluster.lab import Lab
from lab.cluster.load import RATE_MAX, Load
from lab.cluster.options import KAFKA_VERSION, LabOptions
from lab.databases.row_load import RowLoad
from lab.databases.server import ADMINISTRATOR
from lab.errors import LabError
from lab.processes.class_archive import archive_of
from lab.processes.jars import jars as resolve_jars

# A lab left up over a night is a mistake someone pays for in the morning.
UP_S_MAX = 12 * 3600.0
POLL_INTERVAL_S = 1.0

_kafka_version = click.option("--kafka-version", default=KAFKA_VERSION, show_default=True)


class _Ended(BaseException):
    """SIGTERM or SIGINT arrived; like KeyboardInterrupt, nothing on the way up may swallow it."""


@click.group()
def main() -> None:
    """Two brokers, Kafka Connect and MirrorMaker 2 on this machine, on loopback."""


@main.command()
@_kafka_version
def jars(kafka_version: str) -> None:
    """Only resolve the jars, into the cache, and print their folder."""
    try:
        click.echo(resolve_jars(kafka_version))
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc


@main.command()
@_kafka_version
def classes(kafka_version: str) -> None:
    """Lay out Kafka's classes once, in the cache, so that every JVM of a lab starts sooner."""
    try:
        click.echo(archive_of(resolve_jars(kafka_version)))
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc


@main.command()
@_kafka_version
@click.option("--exactly-once", is_flag=True, help="Workers with exactly-once source support.")
@click.option("--workers", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option("--dedicated-mm2", is_flag=True, help="Add a MirrorMaker process, flow w2->e2.")
@click.option("--standalone", is_flag=True, help="Add a standalone worker, offsets in a file.")
@click.option("--postgres", is_flag=True, help="Add PostgreSQL and Debezium, over table orders.")
@click.option("--mariadb", is_flag=True, help="Add MariaDB and Debezium, over table orders.")
@click.option("--load", "rate", type=click.FloatRange(0, RATE_MAX), default=0.0, help="Per second.")
@click.option("--free-ports", is_flag=True, help="Any free ports instead of the usual ones.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep data here and go on with it next time; default: temporary.",
)
def up(  # noqa: PLR0913 - one for each option
    *,
    kafka_version: str,
    exactly_once: bool,
    workers: int,
    dedicated_mm2: bool,
    standalone: bool,
    postgres: bool,
    mariadb: bool,
    rate: float,
    free_ports: bool,
    directory: Path | None,
) -> None:
    """Start a lab and keep it up until Ctrl-C or SIGTERM."""
    try:
        options = LabOptions(
            kafka_version=kafka_version,
            exactly_once=exactly_once,
            workers=workers,
            dedicated_mm2=dedicated_mm2,
            standalone=standalone,
            postgres=postgres,
            mariadb=mariadb,
            directory=directory,
            ports="free" if free_ports else "fixed",
        )
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        with Lab(options) as lab:
            _show(lab)
            _run_until_signalled(lab, rate=rate)
    except _Ended:
        click.echo("stopped")
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc


@main.command()
@_kafka_version
@click.option(
    "--once", is_flag=True, help="No terminal: compare everything, agree to all plans, then end."
)
@click.option(
    "--alerts", is_flag=True, help="Instead: one record, from the first alert to its end."
)
@click.option(
    "--databases", is_flag=True, help="Instead: Debezium over PostgreSQL and MariaDB, frozen once."
)
@click.option("--free-ports", is_flag=True, help="Any free ports instead of the usual ones.")
def demo(
    *, kafka_version: str, once: bool, alerts: bool, databases: bool, free_ports: bool
) -> None:
    """The lab, the daemon and the pipeline, with a live table of what they see; then two records
    that connectors cannot get past, and what is done about them.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        status = _demonstration(alerts=alerts, databases=databases, once=once)(
            kafka_version=kafka_version, free_ports=free_ports
        )
    except _Ended:
        click.echo("stopped")
        status = 0
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc
    sys.exit(status)


def _demonstration(*, alerts: bool, databases: bool, once: bool) -> Callable[..., int]:
    """What is to be shown. None needs what another one imports, and that is slow."""
    if alerts:
        from lab.demo import alerts as demo_alerts  # noqa: PLC0415

        return partial(demo_alerts.run_demo, once=once)
    if databases:
        from lab.demo import databases as demo_databases  # noqa: PLC0415

        return partial(demo_databases.run_demo, once=once)
    from lab.demo import fleet  # noqa: PLC0415

    return fleet.once if once else fleet.run_demo


def _end(_number: int, _frame: FrameType | None) -> None:
    # Once: a second Ctrl-C must not cut short the orderly stop that the first one began. SIG_IGN
    # would not do: the interpreter raises OSError for a signal that was already on its way.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _already_ending)
    raise _Ended


def _already_ending(_number: int, _frame: FrameType | None) -> None:
    click.echo("stopping; please wait", err=True)


def _show(lab: Lab) -> None:
    table = Table(title=f"Kafka {lab.options.kafka_version}, up in {lab.started_in_s:.1f} s")
    table.add_column("What")
    table.add_column("Where", overflow="fold")
    table.add_row("east", lab.east)
    table.add_row("west", lab.west)
    for url in lab.connect_urls:
        table.add_row("Connect REST", url)
    if lab.options.standalone:
        table.add_row("Standalone REST", lab.solo.url)
        table.add_row("its offsets", str(lab.solo.offsets))
    table.add_row("file in", str(lab.lines_path))
    table.add_row("file out", str(lab.sink_path))
    for database in lab.databases:
        table.add_row(f"{database.name}, everything", database.url(ADMINISTRATOR))
        table.add_row(f"{database.name}, for offsetwatch", str(database.watcher_file))
    table.add_row("logs", str(lab.directory))
    for name, pid in lab.pids.items():
        table.add_row(f"pid of {name}", str(pid))
    Console().print(table)
    sys.stdout.flush()


def _run_until_signalled(lab: Lab, *, rate: float) -> None:
    with ExitStack() as stack:
        if rate > 0:
            stack.enter_context(Load(lab, rate_per_s=rate, duration_s_max=UP_S_MAX))
        for database in lab.databases if rate > 0 else ():
            stack.enter_context(RowLoad(database, rate_per_s=rate, duration_s_max=UP_S_MAX))
        _wait_for_signal(lab)


def _wait_for_signal(lab: Lab) -> None:
    """Sleep until a signal; say so, once each, when a process ends by itself."""
    known = set(lab.pids)
    deadline = time.monotonic() + UP_S_MAX
    while time.monotonic() < deadline:
        for name in sorted(known - set(lab.pids)):
            click.echo(f"{name} has ended; its log: {lab.log_path(name)}", err=True)
        known &= set(lab.pids)
        time.sleep(POLL_INTERVAL_S)


if __name__ == "__main__":
    main()
