"""Documents for the verbs that read: the daemon's, or built from an own inspection of the clusters.

The daemon is asked first: it answers at once, and its verdicts rest on a longer time of watching.
The clusters are inspected if no daemon answers, or if it watches other clusters, or if its document
is older than STALE_S. The inspection starts from the state that a daemon left in `state_dir`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from offsetwatch import config as configuration
from offsetwatch import documents
from offsetwatch.cli.common import output
from offsetwatch.cli.common.unread_clusters import UnreadCluster, collect_unread_clusters
from offsetwatch.cli.remote.read_client import (
    REQUEST_TIMEOUT_S,
    DaemonResponse,
    ReadListener,
    fetch_document,
)
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config
from offsetwatch.config.identity import describe_differences, format_cluster_hashes
from offsetwatch.daemon import state_dir
from offsetwatch.errors import AccessDenied, ClientError, ConfigError, MalformedResponse
from offsetwatch.model.moments import Moment
from offsetwatch.serve.documents.status import UnreadInput
from offsetwatch.state.snapshot import Snapshot

if TYPE_CHECKING:
    from offsetwatch.cli.common.own_inspection import OwnInspection

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
        return None if self.config_path is None else configuration.load(self.config_path)

    def required(self) -> Config:
        """Return the configuration, for an own inspection. Raises ConfigError if none is named."""
        found = self.loaded()
        if found is None:
            raise ConfigError(("--config: no daemon answers, and without it nothing can be read",))
        return found


@dataclass(frozen=True, slots=True)
class SourcedDocument:
    """A document and its source.

    inspection  the own inspection that it was built from; None if a daemon answered
    """

    body: bytes
    by: str
    unread: tuple[UnreadCluster, ...]
    config: Config | None
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
    from offsetwatch.cli.common.own_inspection import inspect_clusters  # noqa: PLC0415 - the clients, which take longest to load

    with inspect_clusters(loaded, remaining_s) as inspection:
        if inspection.empty:
            raise inspection.failure()
        body, by = make(inspection.snapshot), _describe_own_source(loaded)
        yield SourcedDocument(body, by, inspection.unread, loaded, inspection)


def read_daemon_document(reading: ReadOptions, path: str) -> SourcedDocument | None:
    """Return the daemon's document at `path`; None if the clusters should be inspected instead.

    Raises ConfigError, and ClientError if a daemon was named by its address and does not answer.
    """
    if reading.direct:
        return None
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
    old_s = max(0.0, SystemClock().now() - head.at)
    if own is not None and not _may_serve(head, own, old_s):
        return None
    missing = (*head.unread, *(input_status for input_status in head.inputs if not input_status.up))
    return SourcedDocument(
        body=answer.body,
        by=f"the daemon on {listener.where}, {output.format_age(old_s)} old",
        unread=collect_unread_clusters(missing, head.waiting_for, config=loaded),
        config=loaded,
    )


def _is_other_daemon(
    answer: DaemonResponse, config: Config, reading: ReadOptions, listener: ReadListener
) -> bool:
    """Return whether the daemon watches other clusters than the file names; print differences."""
    if answer.clusters is None:
        return False  # of a version that does not say
    other = describe_differences(format_cluster_hashes(config), answer.clusters)
    if other:
        more = f", and {len(other) - DIFFERENCES_MAX} more" if len(other) > DIFFERENCES_MAX else ""
        output.print_error(
            f"the daemon on {listener.where} has another configuration than {reading.config_path} "
            f"({'; '.join(other[:DIFFERENCES_MAX])}{more}): reading without it. If it is this "
            "file's daemon, let it read the file again (SIGHUP)"
        )
    return bool(other)


def _may_serve(head: _DocumentHead, config: Config, old_s: float) -> bool:
    """Return whether the daemon's document can be used.

    It must be about the clusters of this configuration only, as another daemon may listen at the
    address, be at most STALE_S old, and have a complete snapshot or any verdict.
    """
    there = {judgement.connect_cluster for judgement in head.judgements}
    if head.connect_cluster is not None:
        there.add(head.connect_cluster)
    knows = head.ready is not False or bool(head.judgements)
    return old_s <= STALE_S and knows and there <= {cluster.name for cluster in config.connect}


def _describe_own_source(config: Config) -> str:
    folder = Path(config.state_dir)
    if state_dir.read_document(folder, "judge") is not None:
        return f"this command, from the clusters and from the state of a daemon in {folder}"
    where = ReadListener(config).where
    return (
        f"this command alone: no daemon answers on {where}, and none left its state in {folder}. "
        "A verdict needs three intervals of watching"
    )
