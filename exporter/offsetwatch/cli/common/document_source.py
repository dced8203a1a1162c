"""Documents for the verbs that read: the daemon's, or built from an own inspection of the clusters.

The daemon is asked first: it answers at once, and its verdicts rest on a longer time of watching.
The clusters are inspected if no daemon answers, or if it watches other clusters, or if its document
is older than STALE_S. The inspection starts from the state that a daemon left in `state_dir`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from offsetwatch import documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.config_excerpt import ConfigExcerpt, read_config_excerpt
from offsetwatch.cli.remote.plain_request import (
    REQUEST_TIMEOUT_S,
    DaemonResponse,
    find_local_address,
    request_plainly,
)
from offsetwatch.clock import SystemClock
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    MalformedResponse,
    TargetUnreachable,
)
from offsetwatch.model.moments import Moment
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    REST_OFFSETS,
    SOURCE_END,
    TAIL,
)
from offsetwatch.serve.documents.types import UnreadInput

if TYPE_CHECKING:
    from offsetwatch.cli.common.own_inspection import OwnInspection
    from offsetwatch.cli.remote.read_client import ReadListener
    from offsetwatch.config import Config
    from offsetwatch.state.snapshot import Snapshot

# --- clusters that could not be read -------------------------------------------------------------

KAFKA, CONNECT, SOURCE = "Kafka", "Connect", "source"
_INPUT_KINDS: Final = frozenset({CONNECT_REST, GROUPS, LOG_ENDS, REST_OFFSETS, TAIL})


_WAITING: Final = ": waiting for "
_INPUT_WORDS: Final = {
    CONNECT_REST: "connectors and their states",
    GROUPS: "groups of sinks",
    LOG_ENDS: "log ends",
    REST_OFFSETS: "offsets over REST",
    SOURCE_END: "its end",
}


class ClusterName(NamedTuple):
    """Kind (KAFKA, CONNECT or SOURCE) and name of a cluster or a source of the configuration."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        """Return kind and name for people: `Kafka cluster east`, `source shop`."""
        return f"{self.kind}{'' if self.kind == SOURCE else ' cluster'} {self.name}"


class UnreadCluster(msgspec.Struct, frozen=True):
    """A cluster or a source that could not be read at all or not completely.

    address    None if no configuration has it
    since      time of the last read; None: not read yet by the daemon, or by this command
    inputs     the inputs that are missing
    """

    kind: str
    cluster: str
    address: str | None
    why: str
    since: Moment | None
    inputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the cluster, reason, last read and missing inputs in one line."""
        where = "" if self.address is None else f" ({self.address})"
        since = "" if self.since is None else f"; last read {output.format_moment(self.since)}"
        missing = f"; missing: {self.missing}" if self.inputs else ""
        why = self.why.removeprefix(f"{self.cluster}: ")
        of = ClusterName(self.kind, self.cluster).text
        return f"not read: {of}{where}: {why}{since}{missing}"

    @property
    def missing(self) -> str:
        """Return the missing inputs by name; "" if the cluster could not be read at all."""
        split = (input_name.partition(" ") for input_name in self.inputs)
        return ", ".join(_describe_input(kind, name) for kind, _, name in split)


def _describe_input(kind: str, name: str) -> str:
    """Return what is missing, with its name if the cluster has several of the kind."""
    if kind == GROUPS and "/" in name:
        return f"groups of {name.partition('/')[2]}"
    if kind == TAIL:
        return f"topic {name}" if "/" in name else f"offsets topic of {name}"
    return _INPUT_WORDS.get(kind, f"{kind} {name}")


def collect_unread_clusters(
    inputs: Iterable[UnreadInput],
    waiting_for: Iterable[str],
    *,
    config: Config | ConfigExcerpt | None,
    silent: Mapping[ClusterName, str] | None = None,
) -> tuple[UnreadCluster, ...]:
    """Return the clusters of unread inputs, of lines of `waiting_for`, and those in `silent`."""
    silent = silent or {}
    missing: dict[ClusterName, dict[str, UnreadInput]] = {cluster: {} for cluster in silent}
    named = (text for text in waiting_for if _WAITING in text)  # before its first tick it has none
    unread_inputs = (*map(parse_waiting_line, named), *inputs)
    clusters = [find_input_clusters(each.kind, each.input, config) for each in unread_inputs]
    failing = {*silent, *(cluster for cluster, *others in clusters if not others)}
    for unread_input, candidates in zip(unread_inputs, clusters, strict=True):
        cluster = _choose_cluster(candidates, unread_input.last_error, failing, config)
        unread = missing.setdefault(cluster, {})
        name = f"{unread_input.kind} {unread_input.input}"
        if name not in unread or unread_input.last_error is not None:
            unread[name] = unread_input
    return tuple(
        _build_unread_cluster(cluster, unread, silent.get(cluster), config)
        for cluster, unread in sorted(missing.items())
    )


def _choose_cluster(
    candidates: tuple[ClusterName, ...],
    error: str | None,
    failing: Collection[ClusterName],
    config: Config | ConfigExcerpt | None,
) -> ClusterName:
    """Return the cluster that an input is missing for.

    That is the one whose address the error names, or one that fails otherwise, or the first.
    """
    if config is not None and error is not None and len(candidates) > 1:
        for cluster in candidates:
            addresses = (_find_address(config, cluster) or "").replace(",", " ").split()
            if any(address in error for address in addresses):
                return cluster
    return next((cluster for cluster in candidates if cluster in failing), candidates[0])


def _build_unread_cluster(
    cluster: ClusterName,
    unread_inputs: Mapping[str, UnreadInput],
    silent: str | None,
    config: Config | ConfigExcerpt | None,
) -> UnreadCluster:
    errors = (unread_input.last_error for unread_input in unread_inputs.values())
    read = (unread_input.last_success_at for unread_input in unread_inputs.values())
    return UnreadCluster(
        kind=cluster.kind,
        cluster=cluster.name,
        address=None if config is None else _find_address(config, cluster),
        why=silent or next(filter(None, errors), "not read to its end yet"),
        since=max((moment for moment in read if moment is not None), default=None),
        inputs=tuple(unread_inputs),
    )


def find_awaited_clusters(unread_input: UnreadInput, config: Config) -> frozenset[ClusterName]:
    """Return the clusters that must answer before an input is no longer waited for."""
    return frozenset(find_input_clusters(unread_input.kind, unread_input.input, config))


def parse_waiting_line(text: str) -> UnreadInput:
    """Return the input of a line `KIND INPUT: waiting for WHAT (ERROR)` of state/readiness.py."""
    head, _, said = text.partition(_WAITING)
    kind, _, name = head.partition(" ")
    if kind not in _INPUT_KINDS:
        return UnreadInput("", head, last_error=said or None)
    _, bracket, error = said.partition(" (")
    return UnreadInput(kind, name, last_error=error.removesuffix(")") if bracket else None)


def find_input_clusters(
    kind: str, name: str, config: Config | ConfigExcerpt | None
) -> tuple[ClusterName, ...]:
    """Return the clusters that are asked for an input, or the source that is.

    The first is the one that the input belongs to.

    The groups of a flow are read from both of its clusters. The upstream cluster is not known here,
    so every Kafka cluster is returned.
    """
    if kind == SOURCE_END:
        return (ClusterName(SOURCE, name),)
    cluster, slash, _ = name.partition("/")
    homes = {} if config is None else {connect.name: connect.kafka for connect in config.connect}
    home = homes.get(cluster)
    owner = ClusterName(CONNECT, cluster)
    if kind == LOG_ENDS:
        owner = ClusterName(KAFKA, name)
    elif kind == TAIL and slash:
        owner = ClusterName(KAFKA, cluster)
    elif kind in {TAIL, GROUPS} and home is not None:
        owner = ClusterName(KAFKA, home)
    if kind != GROUPS or not slash or config is None:
        return (owner,)
    return tuple(dict.fromkeys((owner, *(ClusterName(KAFKA, kafka) for kafka in config.kafka))))


def _find_address(config: Config | ConfigExcerpt, cluster: ClusterName) -> str | None:
    if cluster.kind == KAFKA:
        kafka = config.kafka.get(cluster.name)
        return None if kafka is None else kafka.bootstrap
    if cluster.kind == SOURCE:  # a dsn has a password
        hosts = [source.host for source in config.sources if source.name == cluster.name]
        return next(iter(hosts), None)
    for connect in config.connect:
        if connect.name == cluster.name:
            return ", ".join(connect.worker_urls) or None
    return None


# --- documents -----------------------------------------------------------------------------------

DocumentType = TypeVar("DocumentType")

STALE_S: Final = 60.0
DIFFERENCES_MAX: Final = 3


class ReadOptions(NamedTuple):
    """Options of a verb that reads.

    config_path    None if only the daemon at `url` is named
    url            the daemon's read listener
    timeout_s      for the whole command
    direct         read the clusters and not the daemon
    """

    config_path: Path | None
    url: str | None = None
    timeout_s: float = 60.0
    direct: bool = False

    def loaded(self) -> Config | None:
        """Return the configuration; None if no file is named. Raises ConfigError."""
        if self.config_path is None:
            return None
        from offsetwatch.config import load  # noqa: PLC0415 - the schema

        return load(self.config_path)

    def read_excerpt(self) -> ConfigExcerpt | None:
        """Return an excerpt of the configuration; None if the whole of it is needed."""
        named = self.url is not None or self.config_path is None
        return None if named or self.direct else read_config_excerpt(Path(str(self.config_path)))

    def required(self) -> Config:
        """Return the configuration, for an own inspection. Raises ConfigError if none is named."""
        config = self.loaded()
        if config is None:
            raise ConfigError(("--config: no daemon answers, and without it nothing can be read",))
        return config


@dataclass(frozen=True, slots=True)
class SourcedDocument:
    """A document and its source.

    inspection  the own inspection that it was built from; None if a daemon answered
    """

    body: bytes
    by: str
    unread: tuple[UnreadCluster, ...]
    config: Config | ConfigExcerpt | None
    inspection: OwnInspection | None = None

    def decode(self, kind: type[DocumentType]) -> DocumentType:
        """Return the parsed document. Raises MalformedResponse."""
        try:
            return documents.decode(self.body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            said = f"this is not a document of offsetwatch: {exc}"
            raise MalformedResponse(self.by, said) from exc


class _InputStatus(UnreadInput, frozen=True):
    up: bool = True


class _JudgementCluster(msgspec.Struct):
    connect_cluster: str = ""


class _DocumentHead(msgspec.Struct):
    """The fields that all documents have in common, as far as they are needed here."""

    at: Moment
    ready: bool | None = None
    waiting_for: tuple[str, ...] = ()
    unread: tuple[UnreadInput, ...] = ()
    inputs: tuple[_InputStatus, ...] = ()
    connect_cluster: str | None = None
    judgements: tuple[_JudgementCluster, ...] = ()


@contextmanager
def open_document(
    reading: ReadOptions, path: str, make: Callable[[Snapshot], bytes]
) -> Iterator[SourcedDocument]:
    """Yield the daemon's document at `path`, or the result of `make` on an own inspection.

    Raises ConfigError; ResponseTimeout if nothing could be read; ClientError if only the daemon
    could be asked and it failed.
    """
    began = time.monotonic()
    sourced = read_daemon_document(reading, path)
    if sourced is not None:
        yield sourced
        return
    loaded = reading.required()
    remaining_s = max(0.1, reading.timeout_s - (time.monotonic() - began))
    from offsetwatch.cli.common.own_inspection import describe_own_source, inspect_clusters  # noqa: PLC0415 - the clients, which take longest to load

    with inspect_clusters(loaded, remaining_s) as inspection:
        if inspection.empty:
            raise inspection.failure()
        body = make(inspection.snapshot)
        by = describe_own_source(loaded)
        yield SourcedDocument(body, by, inspection.unread, loaded, inspection)


def read_daemon_document(reading: ReadOptions, path: str) -> SourcedDocument | None:
    """Return the daemon's document at `path`; None if the clusters should be inspected instead.

    Raises ConfigError, and ClientError if a daemon was named by its address and does not answer.
    """
    if reading.direct:
        return None
    excerpt = reading.read_excerpt()
    if excerpt is not None:
        try:
            sourced = _read_of_same_file(reading, path, excerpt)
        except TargetUnreachable:
            return None
        if sourced is not None:
            return sourced
    from offsetwatch.cli.remote.read_client import ReadListener, fetch_document  # noqa: PLC0415 - the schema

    loaded = reading.loaded()
    named = reading.url is not None  # by its address: there is nobody else to ask
    listener = ReadListener(loaded, reading.url)
    try:
        answer = fetch_document(listener, path, min(REQUEST_TIMEOUT_S, reading.timeout_s))
        if answer is None:
            return None  # of a version that has no such document
        own = None if named else loaded
        if own is not None and _is_other_daemon(answer, own, reading, listener):
            return None
        head = documents.decode(answer.body, _DocumentHead)
    except ClientError as exc:
        if named:
            raise
        if isinstance(exc, AccessDenied):
            output.print_client_error(exc, "asking without the daemon")
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        if named:
            said = "this is not a document of offsetwatch"
            raise MalformedResponse(listener.where, said) from exc
        return None
    if own is not None and not _may_serve(head, own):
        return None
    return _build_sourced_document(answer, head, listener.where, loaded)


def _read_of_same_file(
    reading: ReadOptions, path: str, excerpt: ConfigExcerpt
) -> SourcedDocument | None:
    """Return the document of a daemon that has read this very file, and so has checked it.

    None if that is not certain, or if there is more to say of the answer. Raises TargetUnreachable.
    """
    where = find_local_address(excerpt.listen)
    try:
        answer = request_plainly(where, path, min(REQUEST_TIMEOUT_S, reading.timeout_s))
        if answer.status != HTTPStatus.OK or answer.file_stamp != (excerpt.stamp or None):
            return None
        head = documents.decode(answer.body, _DocumentHead)
    except TargetUnreachable:
        raise
    except (ClientError, ValueError, OverflowError, RecursionError):
        return None
    if not _may_serve(head, excerpt):
        return None
    return _build_sourced_document(answer, head, where, excerpt)


def _build_sourced_document(
    answer: DaemonResponse, head: _DocumentHead, where: str, config: Config | ConfigExcerpt | None
) -> SourcedDocument:
    missing = (*head.unread, *(input_status for input_status in head.inputs if not input_status.up))
    return SourcedDocument(
        body=answer.body,
        by=f"the daemon on {where}, {output.format_age(_compute_age_s(head))} old",
        unread=collect_unread_clusters(missing, head.waiting_for, config=config),
        config=config,
    )


def _compute_age_s(head: _DocumentHead) -> float:
    return max(0.0, SystemClock().now() - head.at)


def _is_other_daemon(
    answer: DaemonResponse, config: Config, reading: ReadOptions, listener: ReadListener
) -> bool:
    """Return whether the daemon watches other clusters than the file names; print differences."""
    if answer.clusters is None:
        return False  # of a version that does not say
    from offsetwatch.config.identity import describe_differences, format_cluster_hashes  # noqa: PLC0415 - the schema

    other = describe_differences(format_cluster_hashes(config), answer.clusters)
    if other:
        more = f", and {len(other) - DIFFERENCES_MAX} more" if len(other) > DIFFERENCES_MAX else ""
        output.print_error(
            f"the daemon on {listener.where} has another configuration than {reading.config_path} "
            f"({'; '.join(other[:DIFFERENCES_MAX])}{more}): reading without it. If it is this "
            "file's daemon, let it read the file again (SIGHUP)"
        )
    return bool(other)


def _may_serve(head: _DocumentHead, config: Config | ConfigExcerpt) -> bool:
    """Return whether the daemon's document can be used.

    It must be about the clusters of this configuration only, as another daemon may listen at the
    address, be at most STALE_S old, and have a complete snapshot or any verdict.
    """
    there = {judgement.connect_cluster for judgement in head.judgements}
    if head.connect_cluster is not None:
        there.add(head.connect_cluster)
    knows = head.ready is not False or bool(head.judgements)
    fresh = _compute_age_s(head) <= STALE_S
    return fresh and knows and there <= {cluster.name for cluster in config.connect}
