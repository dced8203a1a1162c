"""The verb `doctor`: check everything that the configuration names, read-only, and print results.

Nothing is written, no group is joined, no topic is created. Facts are read here and judged by
diagnosis.py, line by line. Every request has a time limit. One that fails becomes a line of its own
and hides no other.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Final

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.common.document_source import SOURCE, ClusterName, collect_unread_clusters
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.own_inspection import inspect_clusters
from offsetwatch.cli.common.parallel import ask_all
from offsetwatch.cli.inspect import diagnosis
from offsetwatch.cli.inspect.diagnosis import CheckVerdict, DoctorCheck, report_failed_check
from offsetwatch.cli.inspect.source_diagnosis import check_source_connectors, check_source_end
from offsetwatch.clients.connect.reader import ConnectReader, read_worker_clock, reader_of
from offsetwatch.clients.databases import build_source_reader, find_user
from offsetwatch.clients.http.auth import TlsContext, UnusableCredentials
from offsetwatch.clients.kafka.clients import TailReader
from offsetwatch.clients.kafka.inspector import ClusterFacts, KafkaInspector, detect_release
from offsetwatch.clients.kafka.journal_topic import find_unmet_requirements, read_journal_topic
from offsetwatch.clients.kubernetes.reader import STRIMZI, KubeReader
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Connect
from offsetwatch.config.schema.sources import Source
from offsetwatch.daemon.remediation import build_replica_settings
from offsetwatch.decode.rest_answers import ConnectRoot, decode_root
from offsetwatch.errors import ClientError, MalformedResponse, NotFound, SettingsRefused
from offsetwatch.formatting import format_count
from offsetwatch.ingest import connect_rest
from offsetwatch.ingest.internal_topics import TopicMemory, read_topic_facts
from offsetwatch.ingest.source_ends import find_request
from offsetwatch.model.connectors import Connector
from offsetwatch.model.observations import TAIL
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import InternalTopicRole
from offsetwatch.remedy.drivers.quarantine.stores import (
    CombinedQuarantine,
    build_configured_quarantine,
)
from offsetwatch.remedy.drivers.strimzi.resources import (
    KAFKA_CONNECTORS,
    KAFKA_MIRROR_MAKERS,
    KINDS,
    build_kube_reader,
    find_gitops_tool,
    list_connector_resources,
    read_cluster_resource,
)
from offsetwatch.remedy.replicas.replica import ReplicaSettings
from offsetwatch.serve.documents.status import list_unread_inputs
from offsetwatch.state.internal_topics import SHARED, find_internal_topics, find_topic_problems
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, Snapshot

OK, FINDINGS, UNREACHABLE = 0, 1, 7
WIDTH: Final = 100
_VERDICT_ORDER: Final = ("fail", "warn", "unknown", "ok")
_BAD_VERDICTS: Final = {"fail", "warn"}
_PHASE_PART: Final = 0.5  # of the time that is left, for clusters and workers
_INSPECTION_PART: Final = 0.7
LEAST_S: Final = 0.1

_CATCH_UP: Final = "catch-up"
_WAITING_ADVICE: Final = (
    "see what fails above for its cluster; nothing of it is shown until it answers"
)

_REPLACED_ADVICE: Final = (
    "see what fails above for that topic; without it there is no time of a commit"
)

CheckFunction = Callable[[], Iterable[DoctorCheck]]


def run_doctor(config_path: Path, output_format: OutputFormat, timeout_s: float) -> int:
    """Check everything, and print the report; return the exit code."""
    loaded = config.load(config_path)
    configure_logging("error", "console")
    with _show_spinner():
        lines = Doctor(loaded, timeout_s).lines()
    output.print_result(
        output_format,
        {"verdict": find_worst_verdict(lines), "checks": [asdict(line) for line in lines]},
        lambda: sys.stdout.write(format_report(config_path.name, lines)),
    )
    return compute_exit_code(lines)


def _urgency(line: DoctorCheck) -> tuple[int, bool]:
    """Return the sort key of a line: failures first, and causes before what follows from them."""
    return _VERDICT_ORDER.index(line.verdict), line.about == _CATCH_UP


def format_report(title: str, lines: Collection[DoctorCheck]) -> str:
    """Return the checks as text of at most WIDTH columns, failures first."""
    counts = Counter(line.verdict for line in lines)
    counted = ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in _VERDICT_ORDER if counts[verdict]
    )
    text = [f"{output.escape_controls(title)}: {find_worst_verdict(lines)} ({counted})"]
    wrap = partial(textwrap.wrap, width=WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)
    for line in sorted(lines, key=_urgency):
        bad = line.verdict in _BAD_VERDICTS
        head = output.escape_controls(f"{line.about}, {line.check}: {line.found}")
        verdict = line.verdict.upper() if bad else line.verdict
        text += wrap(head, initial_indent=f"{verdict:<8}")
        if line.advice is not None and bad:
            advice = output.escape_controls(line.advice)
            text += wrap(f"-> {advice}", initial_indent=" " * 8)
    return "\n".join(text) + "\n"


def find_worst_verdict(lines: Collection[DoctorCheck]) -> str:
    """Return "fail", "warn" or "ok" for all lines; `unknown` counts as ok."""
    verdicts = {line.verdict for line in lines}
    return "fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "ok"


def compute_exit_code(lines: Collection[DoctorCheck]) -> int:
    """Return the exit code; a system that did not answer outweighs all findings."""
    if any(line.unreachable for line in lines):
        return UNREACHABLE
    return OK if find_worst_verdict(lines) == "ok" else FINDINGS


def _show_spinner() -> AbstractContextManager[object]:
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console  # noqa: PLC0415 - a third of a verb's start

    return Console(stderr=True).status("asking clusters and workers")


class Doctor:
    """A run of all checks; facts are retained for checks that need those of several systems."""

    def __init__(self, loaded: Config, timeout_s: float) -> None:
        self._config = loaded
        self._deadline = time.monotonic() + timeout_s
        self._clock = SystemClock()
        self._admins: dict[str, KafkaInspector] = {}
        self._clusters: dict[str, ClusterFacts] = {}
        self._workers: dict[tuple[str, str], ConnectRoot] = {}
        self._listed: dict[str, tuple[Connector, ...]] = {}
        self._homes = {
            cluster.name: cluster.kafka for cluster in loaded.connect if cluster.kafka is not None
        }

    def lines(self) -> tuple[DoctorCheck, ...]:
        """Return all lines in the order of the configuration: clusters, workers, the rest."""
        kafkas, connects = self._config.kafka, self._config.connect
        result = f"{len(kafkas)} Kafka and {format_count(len(connects), 'Connect cluster')}"
        checks = [(f"kafka {name}", partial(self._check_kafka, name)) for name in kafkas]
        checks += [(f"connect {one.name}", partial(self._check_connect, one)) for one in connects]
        return (
            DoctorCheck("configuration", "loads", "ok", result),
            *self._all(checks),
            *self._all(self._list_remediation_checks()),
            *self._check_mappings(),
            *self._check_addresses(),
            *self._inspect_clusters(),
            _check_disk(Path(self._config.history.path)),
            diagnosis.check_history_extra(
                # Looked up and not imported, which would take a second.
                spark=importlib.util.find_spec("pyspark") is not None,
                java=_has_java(),
            ),
        )

    def _inspect_clusters(self) -> list[DoctorCheck]:
        """Return the lines on what the daemon would read.

        The daemon does not start if librdkafka refuses a property.
        """
        try:
            with inspect_clusters(self._config, self._left_s(_INSPECTION_PART)) as inspection:
                snapshot = inspection.snapshot
                lines = list(self._check_inputs(snapshot))
        except SettingsRefused as exc:
            refused = report_failed_check(_CATCH_UP, "inputs", exc)
            return [refused, *self._all(self._list_source_checks(EMPTY_SNAPSHOT), 1.0)]
        topics = [
            (f"kafka {name}", partial(self._check_topics, name, snapshot))
            for name in self._clusters
        ]
        lines += self._all([*self._list_source_checks(snapshot), *topics], 1.0)
        times = (partition.committed_at for partition in snapshot.source_partitions)
        newest = [time for time in times if time is not None]
        newest += (sync.at for sync in snapshot.syncs)
        lines.append(diagnosis.check_record_clock(max(newest, default=None), snapshot.at))
        return lines

    def _list_source_checks(self, snapshot: Snapshot) -> Iterator[tuple[str, CheckFunction]]:
        for source in self._config.sources:
            yield f"source {source.name}", partial(self._check_source, source, snapshot)

    def _check_source(self, source: Source, snapshot: Snapshot) -> Iterator[DoctorCheck]:
        end, error = None, None
        with closing(build_source_reader(source)) as reader:
            try:
                end = reader.read(find_request(snapshot.source_requests, source.name))
            except ClientError as exc:
                error = exc
        if end is not None:
            yield from check_source_end(source, find_user(source), end)
        yield from check_source_connectors(source, self._listed, end, snapshot.source_ends)
        if error is not None:
            raise error

    def _all(
        self, checks: Iterable[tuple[str, CheckFunction]], part: float = _PHASE_PART
    ) -> Iterator[DoctorCheck]:
        """Run checks in parallel, each within a part of the time, and yield their lines."""
        for about, outcome in ask_all(
            ((about, partial(_run_check, about, check)) for about, check in checks),
            self._left_s(part),
        ):
            if not isinstance(outcome, ClientError):
                yield from outcome
                continue
            admin = self._admins.get(about.removeprefix("kafka "))
            trouble = None if admin is None else admin.trouble()
            line = report_failed_check(about, "reachable", trouble or outcome)
            yield line if trouble else replace(line, found=outcome.detail)

    def _left_s(self, part: float) -> float:
        """Return a part of the remaining time in seconds: other checks follow."""
        return max(LEAST_S, part * (self._deadline - time.monotonic()))

    def _list_remediation_checks(self) -> Iterator[tuple[str, CheckFunction]]:
        """Yield the checks of what only remediation depends on."""
        settings = build_replica_settings(self._config)
        if settings is not None:
            about = f"journal {settings.kafka}/{settings.requirements.topic}"
            yield about, partial(check_journal, settings)
        acts = self._config.remedy.mode != "observe"
        if acts and self._config.remedy.quarantine.kafka is not None:
            quarantine = build_configured_quarantine(self._config, Path(self._config.state_dir))
            yield f"quarantine {quarantine.name}", partial(check_quarantine, quarantine)
        for cluster in self._config.connect:
            if cluster.strimzi is not None:
                yield f"connect {cluster.name}", partial(check_strimzi, cluster, acts=acts)

    # --- Kafka -----------------------------------------------------------------------------------

    def _check_kafka(self, name: str) -> Iterator[DoctorCheck]:
        about = f"kafka {name}"
        properties = self._config.kafka[name].client_properties()
        self._admins[name] = admin = KafkaInspector(name, properties)
        self._clusters[name] = facts = admin.cluster()
        there = (
            f"{format_count(facts.brokers, 'broker')}, {format_count(len(facts.topics), 'topic')}"
        )
        cluster_id = facts.cluster_id or "cluster id unknown"
        yield DoctorCheck(about, "reachable", "ok", f"{there}, cluster id {cluster_id}")
        line = partial(DoctorCheck, about, "version")
        try:
            release = detect_release(name, properties)
        except ClientError as exc:
            yield line("unknown", f"{exc.reason}: {exc.detail}", exc.advice)
            return
        if release is None:
            yield line("unknown", "cannot be asked with these TLS settings")
        else:
            yield line("ok", f"Kafka {release}, by its protocol")

    def _check_topics(self, name: str, snapshot: Snapshot) -> Iterator[DoctorCheck]:
        about, admin = f"kafka {name}", self._admins[name]
        named = {
            kafka_topic.topic: role
            for kafka_topic, role in find_internal_topics(snapshot.topology, self._homes).items()
            if kafka_topic.kafka == name
        }
        needed = [
            topic for topic, role in named.items() if role is not InternalTopicRole.CHECKPOINTS
        ]
        there = self._clusters[name].topics
        shapes = admin.shapes(needed or sorted(there)[:1])
        yield diagnosis.check_topic_ids(about, shapes)
        groups = sorted({sink.group for sink in snapshot.topology.sinks if sink.kafka == name})
        allowed = admin.group_operations(groups)
        yield from diagnosis.check_permissions(about, shapes if needed else {}, allowed, there)
        properties = self._config.kafka[name].client_properties()
        facts = read_topic_facts(
            admin, lambda: TailReader(name, properties), named, TopicMemory(), self._clock
        )
        sharing = [
            topic_problem
            for topic_problem in snapshot.topic_problems
            if topic_problem.problem == SHARED and topic_problem.at.kafka == name
        ]
        yield from diagnosis.check_internal_topics(
            about, facts, [*find_topic_problems(facts), *sharing]
        )

    # --- Connect ---------------------------------------------------------------------------------

    def _check_connect(self, connect: Connect) -> Iterator[DoctorCheck]:
        about = f"connect {connect.name}"
        if not connect.worker_urls:
            yield DoctorCheck(about, "REST", "ok", "no url: its topics are all there is")
            return
        for url in connect.worker_urls:
            yield from self._check_worker(connect, url)
        try:
            with closing(reader_of(connect, connect.poll.timeout_s)) as reader:
                listed = connect_rest.list_connectors(reader)
                self._listed[connect.name] = listed
                if listed:
                    counts = sorted(Counter(each.kind.value for each in listed).items())
                    kinds = ", ".join(f"{count} {kind}" for kind, count in counts)
                    yield DoctorCheck(about, "connectors", "ok", kinds)
                else:
                    advice = "there is nothing to watch"
                    yield DoctorCheck(about, "connectors", "warn", "it has none", advice)
                for connector in listed[:1]:
                    yield diagnosis.check_offsets_endpoint(
                        about, _find_offsets_error(reader, connector.name)
                    )
        except ClientError as exc:
            yield report_failed_check(about, "connectors", exc)

    def _check_worker(self, connect: Connect, url: str) -> Iterator[DoctorCheck]:
        about, timeout_s = f"worker {url}", connect.poll.timeout_s
        one = connect.model_copy(update={"url": url, "urls": None})
        try:
            with closing(reader_of(one, timeout_s)) as reader:
                root = decode_root(reader.root())
            if isinstance(root, Undecodable):
                raise MalformedResponse(connect.name, "GET /: this is no Connect worker")
        except ClientError as exc:
            advice = _WORKER_URL_ADVICE if isinstance(exc, MalformedResponse | NotFound) else None
            yield report_failed_check(about, "reachable", exc, advice)
            return
        self._workers[connect.name, url] = root
        yield DoctorCheck(about, "reachable", "ok", f"Connect {root.version}")
        before, theirs = self._clock.now(), None
        with suppress(UnusableCredentials):
            verify = TlsContext(connect.tls).get() if url.startswith("https:") else True
            theirs = read_worker_clock(url, timeout_s, verify=verify)
        yield diagnosis.check_worker_clock(about, theirs, before, self._clock.now())

    def _check_mappings(self) -> Iterator[DoctorCheck]:
        ids = {
            name: self._clusters[name].cluster_id if name in self._clusters else None
            for name in self._config.kafka
        }
        for (name, url), root in sorted(self._workers.items()):
            if name in self._homes:
                yield diagnosis.check_mapping(
                    f"worker {url}", self._homes[name], root.kafka_cluster_id, ids
                )

    def _check_addresses(self) -> Iterator[DoctorCheck]:
        """Check the addresses that connectors name against the known ones.

        Known are the configured bootstrap servers and the addresses that brokers advertise. A flow
        of the configuration needs no such match.
        """
        spelt_out = {(self._config.connect_of(flow), flow.connector) for flow in self._config.flows}
        known = {
            name: kafka.addresses
            | (self._clusters[name].addresses if name in self._clusters else frozenset())
            for name, kafka in self._config.kafka.items()
        }
        for connect in self._config.connect:
            for connector in self._listed.get(connect.name, ()):
                if (connect.name, connector.name) in spelt_out:
                    continue
                line = diagnosis.check_addresses(f"connect {connect.name}", connector, known)
                if line is not None and connect.connectors.allows(connector.name):
                    yield line

    # --- what the daemon would see ---------------------------------------------------------------

    def _check_inputs(self, snapshot: Snapshot) -> Iterator[DoctorCheck]:
        configured = {cluster.name: cluster.offsets_topic for cluster in self._config.connect}
        for topic in snapshot.topology.offsets_topics:
            how = "configured" if configured[topic.connect_cluster] else "found"
            result = f"{topic.at}, {how if topic.connector is None else f'of {topic.connector}'}"
            cluster = self._clusters.get(topic.at.kafka)
            if cluster is not None and topic.at.topic in cluster.topics:  # else reported there
                yield DoctorCheck(f"connect {topic.connect_cluster}", "offsets topic", "ok", result)
        for connect in self._config.connect:
            if self._listed.get(connect.name) and connect.kafka is not None:
                yield from diagnosis.check_status_topic(connect.name, snapshot.topology)
        for flow in snapshot.topology.flows:
            target = self._clusters.get(flow.downstream or "")
            partitions = snapshot.index.mirror_partitions.get(flow.connector_key, ())
            copied = {partition.topic for partition in partitions}
            yield from diagnosis.check_copies(flow, copied, () if target is None else target.topics)
        unread_inputs = list_unread_inputs(snapshot)
        unread_clusters = collect_unread_clusters(
            unread_inputs, snapshot.waiting_for, config=self._config
        )
        for unread in unread_clusters:
            if unread.kind == SOURCE:
                continue  # it has a check of its own
            about = ClusterName(unread.kind, unread.cluster).text
            result = f"not read: {unread.missing}: {unread.why}"
            yield DoctorCheck(_CATCH_UP, about, "fail", result, _WAITING_ADVICE)
        named = {(unread.kind, unread.input) for unread in unread_inputs}
        replaced = sorted(
            view.id.in_words
            for view in snapshot.inputs
            if view.id.kind == TAIL and not view.up and (TAIL, view.id.input) not in named
        )
        if replaced:
            result = f"not read: {', '.join(replaced)}; its offsets are read over REST"
            yield DoctorCheck(_CATCH_UP, "inputs", "warn", result, _REPLACED_ADVICE)
        elif snapshot.ready:
            yield DoctorCheck(_CATCH_UP, "inputs", "ok", "every topic was read to its end")


def _run_check(about: str, check: CheckFunction) -> list[DoctorCheck]:
    """Return the lines up to the request that failed, and one for the failure."""
    lines: list[DoctorCheck] = []
    try:
        for line in check():
            lines.append(line)  # noqa: PERF402 - what came before a failure is kept
    except ClientError as exc:
        lines.append(report_failed_check(about, "reachable", exc))
    except Exception as exc:  # noqa: BLE001 - one surprise must not hide the others
        result = f"unexpected {type(exc).__name__}"
        lines.append(DoctorCheck(about, "reachable", "fail", result, "a bug: please report it"))
    return lines


def _find_offsets_error(reader: ConnectReader, connector: str) -> ClientError | None:
    try:
        body = reader.offsets(connector)
        return connect_rest.parse_readable_offsets(reader.name, connector, body)[1]
    except ClientError as exc:
        return exc


_WORKER_URL_ADVICE: Final = (  # if what answers is no worker
    "let url lead to the REST API of a worker, with the path that a proxy puts before it: "
    "GET / there is answered with version and kafka_cluster_id"
)


def _check_disk(path: Path) -> DoctorCheck:
    """Check the nearest existing folder above the tables."""
    folder = path.resolve()
    while not folder.exists():
        folder = folder.parent
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    free_bytes = shutil.disk_usage(folder).free
    return diagnosis.check_disk(str(path), writable=writable, free_bytes=free_bytes)


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


def check_journal(settings: ReplicaSettings) -> Iterator[DoctorCheck]:
    """Check whether the journal topic exists and meets the requirements."""
    line = partial(DoctorCheck, f"journal {settings.kafka}/{settings.requirements.topic}", "topic")
    topic = read_journal_topic(settings.kafka, settings.properties, settings.requirements.topic)
    if topic is None:
        said = "there is no such topic: no replica leads, and remediation does nothing"
        yield line("fail", said, "offsetwatch journal create")
        return
    wrong = list(find_unmet_requirements(topic, settings.requirements))
    for said in wrong:
        yield line("fail", said, "docs/high-availability.md says how it must be")
    if not wrong:
        yield line("ok", f"{format_count(topic.replication, 'replica')}, kept for ever")


def check_quarantine(quarantine: CombinedQuarantine) -> Iterator[DoctorCheck]:
    """Check whether the quarantine would take a copy. A topic that is missing is created then."""
    line = partial(DoctorCheck, f"quarantine {quarantine.name}", "topic")
    problems = quarantine.problems()
    for problem in problems:
        yield line(
            "fail", f"no record is skipped: {problem}", "docs/remediation.md says how it must be"
        )
    if not problems:
        yield line("ok", "it takes copies, or is created for the first")


def check_strimzi(connect: Connect, *, acts: bool) -> Iterator[DoctorCheck]:
    """Check whether connectors can be changed through their Strimzi resources.

    `acts`: remediation is configured to change connectors.
    """
    assert connect.strimzi is not None, "only of entries that are linked"
    yield from _check_resource(build_kube_reader(connect.strimzi), connect, acts=acts)


def _check_resource(read: KubeReader, connect: Connect, *, acts: bool) -> Iterator[DoctorCheck]:
    strimzi = connect.strimzi
    assert strimzi is not None
    line = partial(DoctorCheck, f"connect {connect.name}")
    cluster = read_cluster_resource(read, strimzi)
    if cluster.unmanaged is not None:
        advice = "remove strimzi from the entry: its connectors are changed over REST"
        yield line("strimzi", "fail", cluster.unmanaged, advice)
        return
    resources = list_connector_resources(read, cluster, strimzi.namespace, strimzi.name)
    name = f"{KINDS[cluster.plural]} {strimzi.namespace}/{strimzi.name}"
    yield line("strimzi", "ok", f"{name}, {format_count(len(resources), 'connector')}")
    severity: CheckVerdict = "warn" if acts else "ok"
    theirs = sorted(
        connector
        for connector, connector_resource in resources.items()
        if find_gitops_tool(connector_resource.document)
    )
    if theirs:
        said = f"GitOps owns {', '.join(theirs[:5])}{' and more' if len(theirs) > 5 else ''}"
        yield line("strimzi", severity, f"{said}: these are left alone")
    owner = KAFKA_MIRROR_MAKERS if cluster.plural == KAFKA_MIRROR_MAKERS else KAFKA_CONNECTORS
    needed = [("patch", STRIMZI, owner)]
    needed += [(verb, "", "configmaps") for verb in ("get", "create", "patch")]
    missing = [
        f"{verb} {plural}"
        for verb, group, plural in needed
        if not read.may(verb, group, plural, strimzi.namespace)
    ]
    if not missing:
        yield line("strimzi rights", "ok", f"offsets in {strimzi.namespace} may be changed")
        return
    said = f"no right in {strimzi.namespace} to {', '.join(missing)}"
    advice = "docs/strimzi.md has the rights; of the chart: strimzi.offsets.enabled"
    yield line(
        "strimzi rights",
        severity,
        f"{said}: offsets are not listed or changed",
        advice if acts else None,
    )
