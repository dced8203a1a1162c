"""The verbs `history run`, `maintain`, `baselines` and `package` of the Spark pipeline."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Collection
from pathlib import Path
from types import FrameType

import click
from msgspec.structs import asdict

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.own_inspection import read_complete_snapshot
from offsetwatch.cli.history import topics
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.model.moments import Moment
from offsetwatch.model.topology import KafkaTopic


def run_pipeline(
    path: Path,
    *,
    continuous: bool,
    up_to: Path | None,
    output_format: OutputFormat,
    timeout_s: float,
) -> None:
    """Run the pipeline once or until a signal, and print what it did."""
    loaded = config.load(path)
    cut = None if up_to is None else read_cut(up_to)
    configure_logging(loaded.log.level, loaded.log.format)
    try:
        from offsetwatch.history.pipeline import run as jobs  # noqa: PLC0415 - needs the extra
    except ImportError as exc:
        raise HistoryError("pip install 'offsetwatch[history]' first") from exc
    with read_complete_snapshot(loaded, timeout_s) as snapshot:
        topology = snapshot.topology
    too = topics.find_readable_topics(loaded, topology)
    wanted = (*topology.recorded(), *(each.at for each in too))
    spec = jobs.PipelineSpec(
        base=Path(loaded.history.path),
        topology=topology,
        kafka={name: kafka.client_properties() for name, kafka in loaded.kafka.items()},
        topic_ids=read_topic_ids(loaded, wanted),
        beside=too,
        cadence_s=loaded.history.cadence_s,
        refine_s=loaded.history.refine_s,
        max_offsets_per_trigger=loaded.history.max_offsets_per_trigger,
        master=loaded.history.master,
        heap=loaded.history.heap,
    )
    if continuous:
        report = jobs.run_continuous(spec, _stop_on_signal())
    else:
        report = jobs.run_available_now(spec, cut)
    _print_report(report, output_format=output_format)


def maintain_tables(path: Path, *, output_format: OutputFormat) -> int:
    """Maintain the tables and print what was done; return 1 if bronze has duplicate records."""
    loaded = config.load(path)
    configure_logging(loaded.log.level, loaded.log.format)
    try:
        from offsetwatch.history.pipeline import maintenance as upkeep  # noqa: PLC0415 - needs the extra
    except ImportError as exc:
        raise HistoryError("pip install 'offsetwatch[history]' first") from exc
    base = Path(loaded.history.path)
    done = upkeep.maintain(base, master=loaded.history.master, heap=loaded.history.heap)
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            {
                "tables": {
                    table.path: {"files_before": table.files_before, "files": table.files_after}
                    for table in done.tables
                },
                "bronze_rows": done.rows,
                "bronze_doubled": done.doubled,
            },
        )
    else:
        output.print_table(
            "Tables",
            ("table", "files before#", "files#"),
            ((table.path, table.files_before, table.files_after) for table in done.tables),
        )
    if done.doubled:
        output.print_error(
            f"{done.doubled} records are in bronze more than once, of {done.rows} rows"
        )
    return 1 if done.doubled else 0


def learn_baselines(path: Path, *, output_format: OutputFormat) -> None:
    """Learn, publish and print the baselines of connectors."""
    loaded = config.load(path)
    configure_logging(loaded.log.level, loaded.log.format)
    try:
        from offsetwatch.history.baselines import job as learning  # noqa: PLC0415 - needs the extra
    except ImportError as exc:
        raise HistoryError("pip install 'offsetwatch[history]' first") from exc
    base = Path(loaded.history.path)
    found = learning.learn(base, master=loaded.history.master, heap=loaded.history.heap)
    if output_format is not OutputFormat.TABLE:
        of_each = [
            {
                **asdict(connector),
                "since": Moment(connector.since),
                "until": Moment(connector.until),
            }
            for connector in found.connectors
        ]
        moments = {"made_at": Moment(found.made_at), "until": Moment(found.until)}
        output.print_document(output_format, {**asdict(found), **moments, "connectors": of_each})
        return
    output.print_table(
        f"What is usual, learned from before {output.format_moment(found.until)}",
        (
            "connector",
            "place",
            "from",
            "a commit every",
            "advances#",
            "pause, median",
            "too long, from",
            "or missing#",
        ),
        (
            (
                connector.connector,
                connector.connect_cluster,
                output.format_moment(connector.since),
                None if connector.commit_s is None else output.format_age(connector.commit_s[0]),
                connector.advances,
                output.format_age(connector.interval_s(found.until, 0)),
                output.format_age(connector.pause_s),
                None if connector.pause_advances is None else f"{connector.pause_advances:.1f}",
            )
            for connector in found.connectors
        ),
    )
    for few in found.insufficient:
        output.print_error(
            f"{few.connect_cluster}/{few.connector}: insufficient history, {few.had} of "
            f"{few.wanted} weeks"
        )


def write_package(folder: Path, *, output_format: OutputFormat) -> None:
    """Write what spark-submit needs, and print the command that uses it."""
    try:
        from offsetwatch.history.spark import jars  # noqa: PLC0415 - see `run`

        made = jars.package(folder)
    except ImportError as exc:
        raise HistoryError("pip install 'offsetwatch[history]' first") from exc
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            {
                "archive": str(made.archive),
                "main": str(made.main),
                "jars": [str(jar) for jar in made.jars],
                "requirements": str(made.requirements),
            },
        )
        return
    click.echo(
        f"spark-submit --master MASTER --py-files {made.archive} \\\n"
        f"  --jars {','.join(str(jar) for jar in made.jars)} \\\n"
        f"  {made.main} history run --available-now --config FILE"
    )


def read_topic_ids(loaded: config.Config, wanted: Collection[KafkaTopic]) -> dict[KafkaTopic, str]:
    """Return Kafka's topic id of each topic to be read."""
    found: dict[KafkaTopic, str] = {}
    for kafka in sorted({topic.kafka for topic in wanted}):
        admin = KafkaAdmin(kafka, loaded.kafka[kafka].client_properties())
        names = [topic.topic for topic in wanted if topic.kafka == kafka]
        for name, topic_id in admin.topic_ids(names).items():
            found[KafkaTopic(kafka, name)] = topic_id
    return found


def read_cut(path: Path) -> dict[KafkaTopic, dict[int, int]]:
    """Return log ends from a file: `{"kafka/topic": {"partition": next offset}}`.

    Raises ConfigError.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            KafkaTopic(*name.split("/", 1)): {
                int(partition): int(offset) for partition, offset in ends.items()
            }
            for name, ends in document.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise ConfigError((f"--up-to {path.name}: not a log end: {exc}",)) from exc


def _stop_on_signal() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _print_report(report: object, *, output_format: OutputFormat) -> None:
    from offsetwatch.history.pipeline.run import RunReport  # noqa: PLC0415 - needs the extra

    assert isinstance(report, RunReport)
    rows = {str(topic): count for topic, count in report.rows_read.items()}
    if output_format is not OutputFormat.TABLE:
        output.print_document(
            output_format,
            {
                "rows_read": rows,
                "undecodable": report.undecodable,
                "progress_rows": report.progress_rows,
                "flow_rows": report.flow_rows,
                "cut": {
                    str(topic): {str(partition): offset for partition, offset in ends.items()}
                    for topic, ends in report.cut.items()
                },
                "notices": report.notices,
            },
        )
        return
    output.print_table("Read into bronze", ("topic", "new rows#"), rows.items())
    output.print_table(
        "Gold",
        ("table", "rows#"),
        (("progress", report.progress_rows), ("flow_progress", report.flow_rows)),
    )
    for notice in report.notices:
        output.print_error(notice)
