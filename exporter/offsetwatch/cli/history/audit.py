"""The verb `history audit`: compare the copies of a MirrorMaker 2 flow with their upstream topics.

The number of records to read goes to standard error before the audit begins, the findings to
standard output. Exit code 1 if a finding is unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.own_inspection import read_complete_snapshot
from offsetwatch.cli.offsets.execute import find_state_folder
from offsetwatch.clients.connect.reader import reader_of
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ClientError, ConfigError, HistoryError
from offsetwatch.formatting import format_count, format_extra_installation
from offsetwatch.model.topology import MirrorFlow, TopicPartition, Topology
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal

OK, FINDINGS = 0, 1

try:
    from offsetwatch.history.audit.differences import Span
    from offsetwatch.history.audit.explanations import (
        PlannedReposition,
        Transforms,
        find_repositions,
        parse_transforms,
    )
    from offsetwatch.history.audit.job import AuditSpec, PartitionAudit, audit
    from offsetwatch.history.audit.scope import AuditBounds, AuditClients, AuditScope, resolve_scope
    from offsetwatch.history.audit.spark_reader import SparkReadOptions
    from offsetwatch.history.spark.security import kafka_options
except ImportError as exc:  # the extra
    raise HistoryError(format_extra_installation("history")) from exc


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of `history audit` as they were given."""

    config_path: Path
    flow: str | None
    connect_cluster: str | None
    topics: tuple[str, ...]
    copy_topics: tuple[str, ...]
    from_offset: int | None
    to_offset: int | None
    since: str | None
    until: str | None
    sample: float
    seed: int
    accept_transforms: bool
    headers: bool
    report: Path | None
    output_format: OutputFormat
    timeout_s: float


def print_audit(**arguments: Any) -> int:
    """Run the audit, print the findings and return the exit code."""
    options = AuditOptions(**arguments)
    loaded = config.load(options.config_path)
    configure_logging(loaded.log.level, loaded.log.format)
    bounds, named = _parse_bounds(options), _parse_copy_topics(options.copy_topics)
    with read_complete_snapshot(loaded, options.timeout_s) as snapshot:
        flow = _find_flow(snapshot.topology, options)
    key = flow.connector_key
    replicated = {
        TopicPartition(partition.topic, partition.partition): partition.replicated
        for partition in snapshot.index.mirror_partitions.get(key, ())
    }
    sides = AuditClients({name: kafka.client_properties() for name, kafka in loaded.kafka.items()})
    transforms = _read_transforms(loaded, flow)
    scope = resolve_scope(flow, replicated, options.topics, bounds, sides, named)
    if key in snapshot.partial:
        output.print_error(
            f"{flow.connector} may copy partitions that are not known here: not audited"
        )
    output.print_error(*scope.notes, *_describe_cost(scope))
    spec = AuditSpec(
        pinned=scope,
        clusters=_build_clusters(flow, sides, headers=options.headers),
        skips=_read_skips(find_state_folder(None, loaded), snapshot.topology, flow),
        transforms=transforms,
        master=loaded.history.master,
        heap=loaded.history.heap,
    )
    audits = audit(spec, output.print_error)
    document = _build_document(flow, audits, bounds, options)
    if options.report is not None:
        _write_report(options.report, document)
    output.print_result(
        options.output_format, document, lambda: _print_tables(flow, audits, bounds)
    )
    return FINDINGS if document["unexplained"] else OK


def _write_report(path: Path, document: dict[str, object]) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except OSError as exc:
        raise ConfigError((f"--report {path}: {exc.strerror}",)) from exc


def _parse_bounds(options: AuditOptions) -> AuditBounds:
    by_offset = options.from_offset is not None or options.to_offset is not None
    if by_offset and (options.since, options.until) != (None, None):
        raise ConfigError(("--from-offset and --to-offset do not go with --since and --until",))
    now = SystemClock().now()
    return AuditBounds(
        first=options.from_offset,
        end=options.to_offset,
        since=None if options.since is None else parse_time(options.since, now, "--since"),
        until=None if options.until is None else parse_time(options.until, now, "--until"),
        share=options.sample,
        seed=options.seed,
    )


def _parse_copy_topics(options: Sequence[str]) -> dict[str, str]:
    """Return the names of copies by upstream topic, from `TOPIC=COPY`. Raises ConfigError."""
    copies = {}
    for option in options:
        topic, equals, copy = option.partition("=")
        if not (topic and equals and copy):
            raise ConfigError((f"--copy-topic {option}: TOPIC=COPY, as in orders=copy-of-orders",))
        copies[topic] = copy
    return copies


def _find_flow(topology: Topology, options: AuditOptions) -> MirrorFlow:
    flows = [
        flow
        for flow in topology.flows
        if options.flow in {None, f"{flow.source}->{flow.target}", flow.connector}
        and options.connect_cluster in {None, flow.connect_cluster}
    ]
    if len(flows) == 1:
        return flows[0]
    there = ", ".join(f"{flow.source}->{flow.target} ({flow.connector})" for flow in topology.flows)
    wrong = f"several flows could be meant: {there}; name one: --flow, --connect"
    if not flows:
        wrong = f"--flow {options.flow}: there is no such flow; there is: {there or '-'}"
    raise ConfigError((wrong,))


def _build_clusters(flow: MirrorFlow, sides: AuditClients, *, headers: bool) -> SparkReadOptions:
    assert flow.upstream is not None
    assert flow.downstream is not None
    up = kafka_options(flow.upstream, sides.kafka[flow.upstream])
    if not flow.read_committed:
        # What was aborted upstream was copied too.
        up["kafka.isolation.level"] = "read_uncommitted"
    down = kafka_options(flow.downstream, sides.kafka[flow.downstream])
    return SparkReadOptions((up, down), headers=headers)


def _read_transforms(loaded: config.Config, flow: MirrorFlow) -> Transforms:
    """Return the transforms that may explain a difference.

    If the connector's configuration cannot be read, only its routers are known.
    """
    for connect in loaded.connect:
        if connect.name == flow.connect_cluster and connect.worker_urls:
            try:
                with closing(reader_of(connect, connect.poll.timeout_s)) as reader:
                    body = reader.connector_config(flow.connector)
                transforms = parse_transforms(msgspec.json.decode(body))
                return replace(transforms, routes=bool(flow.routers))
            except (ClientError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
                output.print_error(f"{flow.connector}: its transforms are not known: {exc}")
    return Transforms(
        routes=bool(flow.routers), names=tuple(router.class_name for router in flow.routers)
    )


def _read_skips(
    folder: Path, topology: Topology, flow: MirrorFlow
) -> tuple[PlannedReposition, ...]:
    """Return the skips that the journal has for the flow; none without a journal."""
    if not (folder / FILE_NAME).exists():
        return ()
    stores = {flow.connect_cluster} | {
        str(topic.at)
        for topic in topology.offsets_topics
        if topic.connect_cluster == flow.connect_cluster
    }
    with closing(Journal(folder)) as journal:
        return find_repositions(journal.every(), frozenset(stores), flow.connector, flow.source)


def _describe_cost(scope: AuditScope) -> Iterator[str]:
    """Yield how many records will be read, and which cannot be compared."""
    flow = scope.flow
    slices = [part for coverage in scope.reaches for part in coverage.slices]
    up, down = (sum(part.records[side] for part in slices) for side in (0, 1))
    topics = len({coverage.at.topic for coverage in scope.reaches})
    yield (
        f"{flow.source}->{flow.target}: {format_count(len(scope.reaches), 'partition')} of "
        f"{format_count(topics, 'topic')}; reads at most {format_count(up, 'record')} from "
        f"{flow.upstream} and {down} from {flow.downstream} once, and what differs again"
    )
    deleted = sum(coverage.deleted for coverage in scope.reaches)
    if deleted:
        yield f"{deleted} upstream offsets are gone by retention, and cannot be compared"
    pending = sum(coverage.pending for coverage in scope.reaches)
    if pending:
        yield f"{pending} upstream offsets are not replicated yet, and are not missed"


def _compute_share(audits: Sequence[PartitionAudit]) -> float | None:
    """Return the share of requested offsets that was compared; None if there are none.

    Requested offsets that are not replicated yet do not count.
    """
    requested = sum(partition.reach.requested - partition.reach.pending for partition in audits)
    compared = sum(
        part.judged[1] - part.judged[0] for partition in audits for part in partition.reach.slices
    )
    return compared / requested if requested else None


def _build_document(
    flow: MirrorFlow, audits: Sequence[PartitionAudit], bounds: AuditBounds, options: AuditOptions
) -> dict[str, object]:
    unexplained = sum(
        not (one.explained and (one.certain or options.accept_transforms))
        for partition in audits
        for one in partition.findings
    )
    return {
        "flow": f"{flow.source}->{flow.target}",
        "connect_cluster": flow.connect_cluster,
        "connector": flow.connector,
        "sample": bounds.share,
        "seed": bounds.seed,
        "headers": options.headers,
        "looked_at": _compute_share(audits),
        "unexplained": unexplained,
        "partitions": [
            {
                "topic": partition.reach.at.topic,
                "partition": partition.reach.at.partition,
                "downstream_topic": partition.reach.remote,
                "judged": [part.judged for part in partition.reach.slices],
                "upstream_records": partition.up_records,
                "downstream_records": partition.down_records,
                "deleted": partition.reach.deleted,
                "not_comparable": partition.up_unjudged,
                "not_replicated_yet": partition.reach.pending,
                "findings": partition.findings,
            }
            for partition in audits
        ],
    }


def _print_tables(flow: MirrorFlow, audits: Sequence[PartitionAudit], bounds: AuditBounds) -> None:
    output.print_columns(
        f"{flow.source}->{flow.target} ({flow.connector})",
        audits,
        {
            "partition": _format_partition,
            "judged, upstream": _format_judged_range,
            "upstream#": lambda partition: partition.up_records,
            "downstream#": lambda partition: partition.down_records,
            "gone#": lambda partition: partition.reach.deleted,
            "not comparable#": lambda partition: partition.up_unjudged,
            "not replicated yet#": lambda partition: partition.reach.pending,
            "findings#": lambda partition: len(partition.findings),
        },
    )
    rows = [
        (
            _format_partition(partition),
            one.kind.value,
            one.records,
            _format_span(one.up),
            _format_span(one.down),
            one.explained or None,
        )
        for partition in audits
        for one in partition.findings
    ]
    if rows:
        output.print_table(
            "Findings",
            ("partition", "what", "records#", "upstream", "downstream", "explained by"),
            rows,
        )
    share = _compute_share(audits)
    inspected = "nothing" if share is None else f"{share:.1%}"
    where = "" if bounds.share >= 1 else f" in what was inspected, {inspected} of it"
    output.print_lines(
        f"{format_count(len(rows), 'finding') if rows else 'Nothing is wrong'}{where}", ()
    )


def _format_partition(partition: PartitionAudit) -> str:
    return f"{partition.reach.at.topic}-{partition.reach.at.partition}"


def _format_judged_range(partition: PartitionAudit) -> str | None:
    slices = partition.reach.slices
    if not slices:
        return None
    more = f", {len(slices)} pieces" if len(slices) > 1 else ""
    return f"{slices[0].judged[0]}-{slices[-1].judged[1] - 1}{more}"


def _format_span(span: Span | None) -> str | None:
    if span is None:
        return None
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"
