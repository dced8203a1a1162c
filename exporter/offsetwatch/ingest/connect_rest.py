"""Decoded answers of the Connect REST API: connectors, assignments of MirrorMaker 2, offsets.

An answer of an unexpected shape raises MalformedResponse; errors of the client pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.rest_answers import (
    ConnectorNames,
    decode_assignment,
    decode_connectors,
    decode_names,
    decode_readable_offsets,
)
from offsetwatch.decode.rest_root import decode_root
from offsetwatch.errors import ClientError, MalformedResponse, NotFound
from offsetwatch.model.connectors import UNKNOWN_STATE, Connector
from offsetwatch.model.offsets import Undecodable
from offsetwatch.model.topology import TopicPartition

CROSS_CHECK_S: Final = 60.0  # two more requests a minute, answered from a worker's memory
MISSING_S: Final = 900.0  # what is not listed for so long is gone, or told by other witnesses
SINGLE_REQUESTS_MAX: Final = 20  # connectors that are asked for one by one, in one poll

T = TypeVar("T")


def list_connectors(reader: ConnectReader) -> tuple[Connector, ...]:
    """Return every connector with its state."""
    return parse_connectors(reader.name, reader.connectors())


def parse_connectors(connect_cluster: str, body: bytes) -> tuple[Connector, ...]:
    """Return every connector with its state from the body of an answer."""
    return _require_decoded(connect_cluster, "GET /connectors", decode_connectors(body))


class _DecodedAnswerCache(Generic[T]):
    """Cache of the last decoded answer to one repeated request, by digest.

    Most answers equal the one before byte by byte. Their bytes, possibly megabytes, are not kept.
    """

    def __init__(self) -> None:
        self._known: tuple[bytes, T] | None = None

    def of(self, body: bytes, decode: Callable[[bytes], T]) -> T:
        """Return the decoded body, the same object while the bytes are the same.

        Raises the errors of `decode`.
        """
        digest, known = blake2b(body).digest(), self._known
        if known is None or known[0] != digest:
            self._known = known = (digest, decode(body))
        return known[1]


class ConnectorsWithConfigs(NamedTuple):
    """Connectors with the configurations that their list lacked, as far as other answers had them.

    error       why all configurations could not be requested; None if they were, or need not be
    failures    errors of the requests for single connectors
    """

    connectors: tuple[Connector, ...]
    error: ClientError | None
    failures: dict[str, ClientError]


class ConnectorsPoll:
    """Poll of the connectors of one Connect cluster; not thread-safe.

    Returns the same object while the answer is the same.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answer: _DecodedAnswerCache[tuple[Connector, ...]] = _DecodedAnswerCache()
        self._infos: dict[str, Connector] = {}
        self._sought_at: dict[str, float] = {}
        self._alone_at: dict[str, float] = {}
        self._listed_at: dict[str, float] = {}
        self._asked_at: float | None = None
        self._before: tuple[Connector, ...] | None = None

    def ask(self) -> tuple[Connector, ...]:
        """Return every connector with its state."""
        return self._answer.of(self._reader.connectors(), partial(parse_connectors, self.name))

    def wants_witnesses(self, listed: tuple[Connector, ...], now: float) -> bool:
        """Check whether it is time to request the names of the connectors and the Kafka cluster id.

        It is once a minute, after a changed answer (it may be another cluster's), and while a
        connector that was listed within 15 minutes is missing or is listed without a state.
        """
        changed, self._before = listed is not self._before, listed
        known = {connector.name for connector in listed if connector.state != UNKNOWN_STATE}
        self._listed_at = {
            name: moment
            for name, moment in self._listed_at.items()
            if name not in known and abs(now - moment) < MISSING_S
        }
        missing = bool(self._listed_at) or len(known) < len(listed)
        self._listed_at |= dict.fromkeys(known, now)
        due = self._asked_at is None or not 0 <= now - self._asked_at < CROSS_CHECK_S
        if due:
            self._asked_at = now
        return changed or missing or due

    def names(self) -> ConnectorNames:
        """Return the names of all connectors, including those without a status."""
        names = decode_names(self._reader.connector_names())
        return _require_decoded(self.name, "GET /connectors (names)", names)

    def kafka_cluster_id(self) -> str | None:
        """Return the Kafka cluster id that the worker reports; None from a worker before 1.1."""
        return _require_decoded(
            self.name, "GET /", decode_root(self._reader.root())
        ).kafka_cluster_id

    def complete(
        self, listed: tuple[Connector, ...], names: frozenset[str], now: float
    ) -> ConnectorsWithConfigs:
        """Request the configurations of connectors that are listed without one, or only by name.

        Requests are sent at once for a new connector, otherwise once a minute: one request for all,
        then single requests for up to 20 connectors that are not in its answer, least recently
        requested first.
        """
        lacking = names.union(connector.name for connector in listed) - {
            connector.name for connector in listed if connector.configured
        }
        if not lacking:
            return ConnectorsWithConfigs(listed, None, {})
        sought_at = (self._sought_at.get(name, -inf) for name in lacking)
        error, failures = None, dict[str, ClientError]()
        if any(not 0 <= now - moment < CROSS_CHECK_S for moment in sought_at):
            self._sought_at = dict.fromkeys(lacking, now)
            error, failures = self._seek(lacking, now)
        found = {name: self._infos[name] for name in sorted(lacking & self._infos.keys())}
        here = tuple(
            _merge_configuration(connector, found.pop(connector.name, None)) for connector in listed
        )
        return ConnectorsWithConfigs(here + tuple(found.values()), error, failures)

    def _seek(
        self, lacking: frozenset[str], now: float
    ) -> tuple[ClientError | None, dict[str, ClientError]]:
        self._infos, error, failures = {}, None, dict[str, ClientError]()
        try:
            found = parse_connectors(self.name, self._reader.connector_infos())
        except ClientError as exc:
            error, found = exc, ()
        self._infos = {
            connector.name: connector
            for connector in found
            if connector.name in lacking and connector.configured
        }
        left = sorted(lacking - self._infos.keys())
        alone = sorted(left, key=lambda name: self._alone_at.get(name, -inf))[:SINGLE_REQUESTS_MAX]
        self._alone_at = {name: self._alone_at.get(name, -inf) for name in left}
        self._alone_at |= dict.fromkeys(alone, now)
        for name in alone:
            try:
                found = parse_connectors(
                    self.name, _wrap_as_list_entry(name, self._reader.connector(name))
                )
            except NotFound:
                continue  # this worker has none
            except ClientError as exc:
                failures[name] = exc.with_traceback(None)  # it leads to this frame
            else:
                self._infos |= {
                    connector.name: connector for connector in found if connector.configured
                }
        return error, failures


def _wrap_as_list_entry(connector: str, info: bytes) -> bytes:
    """Return an answer about one connector in the format of the answer about all."""
    return b'{%b:{"info":%b}}' % (encode_sorted(connector), info)


def _merge_configuration(listed: Connector, info: Connector | None) -> Connector:
    """Return a listed connector with the configuration that another answer had."""
    if info is None:
        return listed
    return replace(
        info,
        state=listed.state,
        tasks=listed.tasks,
        version=listed.version,
        failure=listed.failure,
    )


class AssignmentsPoll:
    """Poll of the task assignments of MirrorSourceConnectors, for one Connect cluster; thread-safe.

    Returns the same object while the answer is the same.
    """

    def __init__(self, reader: ConnectReader) -> None:
        self.name = reader.name
        self._reader = reader
        self._answers: dict[str, _DecodedAnswerCache[frozenset[TopicPartition]]] = {}

    def ask(self, connector: str) -> frozenset[TopicPartition]:
        """Return all partitions that the tasks of a connector replicate."""
        body = self._reader.tasks(connector)
        asked = f"GET tasks of {connector}"
        answer = self._answers.setdefault(connector, _DecodedAnswerCache())
        return answer.of(
            body, lambda told: _require_decoded(self.name, asked, decode_assignment(told))
        )

    def runs(self, connector: str) -> bool:
        """Check whether Connect lists the connector as running."""
        return any(
            (at.name, at.state) == (connector, "running") for at in list_connectors(self._reader)
        )

    def keep(self, connectors: Collection[str]) -> None:
        """Remove the cached assignments of all other connectors."""
        for gone in self._answers.keys() - set(connectors):
            self._answers.pop(gone, None)


def parse_readable_offsets(
    connect_cluster: str, connector: str, body: bytes
) -> tuple[tuple[tuple[str, str | None], ...], MalformedResponse | None]:
    """Return the offsets that Connect would hand to a task, as (source partition, offset) pairs.

    Both are JSON; an offset may be None. The second value is an error that counts the entries that
    could not be read; None if all could.
    """
    asked = f"GET offsets of {connector}"
    found, unread = _require_decoded(connect_cluster, asked, decode_readable_offsets(body))
    why = f"{asked}: entries of another shape: {unread}"
    return found, MalformedResponse(connect_cluster, why) if unread else None


def _require_decoded(connect_cluster: str, asked: str, found: T | Undecodable) -> T:
    if isinstance(found, Undecodable):
        raise MalformedResponse(connect_cluster, f"{asked}: {found.reason}")
    return found
