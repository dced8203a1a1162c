"""The verbs `history run`, `maintain`, `baselines` and `package` of the Spark pipeline."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import structlog
from msgspec.structs import asdict

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.own_inspection import read_complete_snapshot
from offsetwatch.cli.history.source_ends import SourceEndsReader
from offsetwatch.clients.kafka.clients import KafkaAdmin, TailReader
from offsetwatch.clients.kafka.inspector import KafkaInspector, TopicShape
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError, ConfigError, HistoryError
from offsetwatch.formatting import format_count, format_extra_installation
from offsetwatch.ingest.internal_topics import read_siblings
from offsetwatch.model.moments import Moment
from offsetwatch.model.topology import (
    AuxiliaryTopic,
    InternalTopicRole,
    KafkaTopic,
    TopicKind,
    Topology,
)
from offsetwatch.serve.documents.api import encode_connectors
from offsetwatch.state.mirror.mm2_names import locate_checkpoints

if TYPE_CHECKING:
    from offsetwatch.history.pipeline.run import RunReport


@contextmanager
def _require_extra() -> Iterator[None]:
    try:
        yield
    except ImportError as exc:
        raise HistoryError(format_extra_installation("history")) from exc


def _load_config(path: Path) -> Config:
    loaded = config.load(path)
    configure_logging(loaded.log.level, loaded.log.format)
    return loaded


def run_pipeline(
    config_path: Path,
    mode: str | None,
    up_to: Path | None,
    *,
    output_format: OutputFormat,
    timeout_s: float,
) -> None:
    """Run the pipeline once or until a signal, and print what it did."""
    if mode is None:
        raise click.UsageError("say --available-now or --continuous")
    if mode == "continuous" and up_to is not None:
        raise click.UsageError("--up-to goes with --available-now")
    loaded = _load_config(config_path)
    cut = None if up_to is None else read_cut(up_to)
    with _require_extra():
        from offsetwatch.history.pipeline import run  # noqa: PLC0415
    with read_complete_snapshot(loaded, timeout_s) as snapshot:
        topology = snapshot.topology
        ends = SourceEndsReader(loaded, encode_connectors(snapshot)) if loaded.sources else tuple
    too = find_readable_topics(loaded, topology)
    topics = (*topology.recorded(), *(each.at for each in too))
    spec = run.PipelineSpec(
        base=Path(loaded.history.path),
        topology=topology,
        kafka={name: kafka.client_properties() for name, kafka in loaded.kafka.items()},
        topic_ids=read_topic_ids(loaded, topics),
        beside=too,
        classes={
            (view.connect_cluster, view.name): view.class_name
            for view in snapshot.connectors
            if view.class_name
        },
        source_ends=ends,
        cadence_s=loaded.history.cadence_s,
        refine_s=loaded.history.refine_s,
        max_offsets_per_trigger=loaded.history.max_offsets_per_trigger,
        master=loaded.history.master,
        heap=loaded.history.heap,
    )
    if mode == "continuous":
        report = run.run_continuous(spec, _stop_on_signal())
    else:
        report = run.run_available_now(spec, cut)
    _print_report(report, output_format=output_format)


def maintain_tables(config_path: Path, *, output_format: OutputFormat) -> int:
    """Maintain the tables and print what was done; return 1 if bronze has duplicate records."""
    loaded = _load_config(config_path)
    with _require_extra():
        from offsetwatch.history.pipeline import maintenance  # noqa: PLC0415
    base = Path(loaded.history.path)
    done = maintenance.maintain(base, master=loaded.history.master, heap=loaded.history.heap)
    output.print_result(
        output_format,
        {
            "tables": {
                table.path: {"files_before": table.files_before, "files": table.files_after}
                for table in done.tables
            },
            "bronze_rows": done.rows,
            "bronze_doubled": done.doubled,
        },
        lambda: output.print_table(
            "Tables",
            ("table", "files before#", "files#"),
            ((table.path, table.files_before, table.files_after) for table in done.tables),
        ),
    )
    if done.doubled:
        output.print_error(
            f"{format_count(done.doubled, 'record is', 'records are')} in bronze more than once, "
            f"of {format_count(done.rows, 'row')}"
        )
    return 1 if done.doubled else 0


def learn_baselines(config_path: Path, *, output_format: OutputFormat) -> None:
    """Learn, publish and print the baselines of connectors."""
    loaded = _load_config(config_path)
    with _require_extra():
        from offsetwatch.history.baselines import job  # noqa: PLC0415
    base = Path(loaded.history.path)
    baselines = job.learn(base, master=loaded.history.master, heap=loaded.history.heap)
    if output_format is not OutputFormat.TABLE:
        rows = [
            {**asdict(row), "since": Moment(row.since), "until": Moment(row.until)}
            for row in baselines.connectors
        ]
        moments = {"made_at": Moment(baselines.made_at), "until": Moment(baselines.until)}
        output.print_document(output_format, {**asdict(baselines), **moments, "connectors": rows})
        return
    output.print_columns(
        f"What is usual, learned from before {output.format_moment(baselines.until)}",
        baselines.connectors,
        {
            "connector": lambda row: row.connector,
            "place": lambda row: row.connect_cluster,
            "from": lambda row: output.format_moment(row.since),
            "a commit every": lambda row: (
                None if row.commit_s is None else output.format_age(row.commit_s[0])
            ),
            "advances#": lambda row: row.advances,
            "pause, median": lambda row: output.format_age(row.interval_s(baselines.until, 0)),
            "too long, from": lambda row: output.format_age(row.pause_s),
            "or missing#": lambda row: (
                None if row.pause_advances is None else f"{row.pause_advances:.1f}"
            ),
        },
    )
    for few in baselines.insufficient:
        output.print_error(
            f"{few.connect_cluster}/{few.connector}: insufficient history, {few.had} of "
            f"{format_count(few.required, 'week')}"
        )


def write_package(folder: Path, *, output_format: OutputFormat) -> None:
    """Write what spark-submit needs, and print the command that uses it."""
    with _require_extra():
        from offsetwatch.history.spark import jars  # noqa: PLC0415

        package = jars.package(folder)
    output.print_result(
        output_format,
        {
            "archive": str(package.archive),
            "main": str(package.main),
            "jars": [str(jar) for jar in package.jars],
            "requirements": str(package.requirements),
        },
        lambda: click.echo(
            f"spark-submit --master MASTER --py-files {package.archive} \\\n"
            f"  --jars {','.join(str(jar) for jar in package.jars)} \\\n"
            f"  {package.main} history run --available-now --config FILE"
        ),
    )


def read_topic_ids(loaded: config.Config, topics: Collection[KafkaTopic]) -> dict[KafkaTopic, str]:
    """Return Kafka's topic id of each topic to be read."""
    topic_ids: dict[KafkaTopic, str] = {}
    for kafka in sorted({topic.kafka for topic in topics}):
        admin = KafkaAdmin(kafka, loaded.kafka[kafka].client_properties())
        names = [topic.topic for topic in topics if topic.kafka == kafka]
        ids = admin.topic_ids(names).items()
        topic_ids |= {KafkaTopic(kafka, name): topic_id for name, topic_id in ids}
    return topic_ids


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
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    return stop


def _print_report(report: RunReport, *, output_format: OutputFormat) -> None:
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
    output.print_error(*report.notices)


_ROLES = {InternalTopicRole.CONFIG: TopicKind.CONFIGS, InternalTopicRole.STATUS: TopicKind.STATUS}
_log = structlog.get_logger()


ReaderFactory = Callable[[str], TailReader]
"""Opens one for a Kafka cluster."""


def find_readable_topics(loaded: Config, topology: Topology) -> tuple[AuxiliaryTopic, ...]:
    """Return the topics that exist and may be read, in a stable order.

    A topic that several Connect clusters could use, or that holds offsets, is left out.
    """
    properties = {name: kafka.client_properties() for name, kafka in loaded.kafka.items()}
    admins = {name: KafkaInspector(name, entry) for name, entry in properties.items()}
    try:
        return choose_topics(
            loaded.connect, topology, admins, lambda name: TailReader(name, properties[name])
        )
    finally:
        for admin in admins.values():
            admin.close()


def choose_topics(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaInspector],
    open_reader: ReaderFactory,
) -> tuple[AuxiliaryTopic, ...]:
    """Return the same as find_readable_topics, with clients that the caller opened."""
    checkpoints = (locate_checkpoints(flow) for flow in topology.flows)
    topics = {
        *(
            AuxiliaryTopic(topic, TopicKind.CHECKPOINTS, None)
            for topic in checkpoints
            if topic is not None
        ),
        *_find_connect_topics(connects, topology, admins, open_reader),
    }
    claims = Counter(each.at for each in topics)
    recorded = set(topology.recorded())
    alone = [each for each in topics if claims[each.at] == 1 and each.at not in recorded]
    readable = _select_readable(admins, {each.at for each in alone})
    return tuple(
        sorted((each for each in alone if each.at in readable), key=lambda topic: topic.at)
    )


def _find_connect_topics(
    connects: Iterable[Connect],
    topology: Topology,
    admins: Mapping[str, KafkaInspector],
    open_reader: ReaderFactory,
) -> Iterator[AuxiliaryTopic]:
    """Yield the config and status topics of Connect clusters.

    They are named in the configuration, or are named like the offsets topic and have keys of their
    kind.
    """
    homes = {
        topic.connect_cluster: topic.at
        for topic in topology.offsets_topics
        if topic.connector is None
    }
    for connect in connects:
        named = {TopicKind.CONFIGS: connect.config_topic, TopicKind.STATUS: connect.status_topic}
        for role, name in named.items():
            if name is not None:
                yield AuxiliaryTopic(KafkaTopic(connect.home, name), role, connect.name)
        home = homes.get(connect.name)
        if home is None or home.kafka != connect.kafka or None not in named.values():
            continue
        for name, role in _find_sibling_topics(home, admins[home.kafka], open_reader).items():
            if named[role] is None:
                yield AuxiliaryTopic(KafkaTopic(home.kafka, name), role, connect.name)


def _find_sibling_topics(
    home: KafkaTopic, admin: KafkaInspector, open_reader: ReaderFactory
) -> dict[str, TopicKind]:
    """Return the topics beside an offsets topic by name, each with its kind.

    Two topics of the same kind are ambiguous and left out.
    """
    try:
        siblings = read_siblings(admin, lambda: open_reader(home.kafka), home.topic, SystemClock())
    except ClientError as exc:
        _log.warning("history_beside", topic=str(home), reason=str(exc))
        return {}
    times = Counter(siblings.values())
    return {name: _ROLES[role] for name, role in siblings.items() if times[role] == 1}


def _select_readable(
    admins: Mapping[str, KafkaInspector], topics: set[KafkaTopic]
) -> set[KafkaTopic]:
    readable_topics: set[KafkaTopic] = set()
    for kafka in sorted({topic.kafka for topic in topics}):
        names = sorted(topic.topic for topic in topics if topic.kafka == kafka)
        try:
            shapes = admins[kafka].shapes(names)
        except ClientError as exc:
            _log.warning("history_beside", kafka=kafka, reason=str(exc))
            continue
        readable_topics |= {
            KafkaTopic(kafka, name)
            for name, shape in shapes.items()
            if isinstance(shape, TopicShape) and shape.may("READ")
        }
    return readable_topics
