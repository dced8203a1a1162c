"""Kafka clients of confluent-kafka: KafkaAdmin for requests, TailReader to follow a topic.

Nothing here writes to a cluster, joins a group or commits an offset.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import confluent_kafka as ck
from confluent_kafka import admin as ck_admin

from offsetwatch.addresses import format_address
from offsetwatch.clients.kafka.errors import (
    DENIED_CODES,
    ConnectionErrors,
    build_no_brokers_error,
    client_error_from,
    translate_kafka_errors,
)
from offsetwatch.clients.kafka.groups import GroupReaders
from offsetwatch.clients.kafka.log_bounds import EARLIEST, LATEST, LogBoundsReader
from offsetwatch.clients.kafka.settings import explain_refusal
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    LeaderNotAvailable,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    SettingsRefused,
    TargetUnreachable,
)
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import Headers
from offsetwatch.model.topology import TopicPartition

C = TypeVar("C")
# The one type of the library that callers see: a record of a tail, or the end of a partition.
Message: TypeAlias = ck.Message

REQUEST_TIMEOUT_S: Final = 10.0
RESULT_S_MAX: Final = REQUEST_TIMEOUT_S + 5  # of librdkafka, to say that there is no answer

# librdkafka prints to standard error by itself; its lines may name hosts but say nothing our own
# events do not, so they are dropped.
silent_logger = logging.getLogger("offsetwatch.clients.librdkafka")
silent_logger.addHandler(logging.NullHandler())
silent_logger.propagate = False


class ReadableEnd(NamedTuple):
    """End of a partition: `stable` is the last stable offset, `high` the high watermark.

    Between them are open transactions, and whatever was written after they began.
    """

    stable: int
    high: int


def create_client(name: str, client: Callable[[dict[str, Any]], C], settings: dict[str, Any]) -> C:
    """Create a client of librdkafka; raise ClientError if it refuses the settings.

    It refuses unknown settings. For an `oauth_cb`, which it calls from a thread of its own, it
    waits up to ten seconds for the first token.
    """
    try:
        return client(settings)
    except ck.KafkaException as exc:
        code, detail = exc.args[0].code(), exc.args[0].str().strip()
        kind: type[ClientError] = AccessDenied if code in DENIED_CODES else TargetUnreachable
        refused = None
        if code == ck.KafkaError._INVALID_ARG:  # noqa: SLF001
            kind, refused = SettingsRefused, explain_refusal(settings, detail)
        missing = _find_missing_file(settings, detail)
        if missing is None and refused is not None:
            detail = f"{refused.name}: {refused.detail}"
        raise kind(name, missing or detail) from exc
    except (TypeError, ValueError) as exc:  # of a property that is a function elsewhere
        named = next((key for key in settings if key in str(exc)), None)
        why = f"{named}: a function of programs, which no text can be; leave it out"
        raise SettingsRefused(name, str(exc) if named is None else why) from exc


def _find_missing_file(settings: Mapping[str, Any], detail: str) -> str | None:
    """Describe the missing file of an error, for which OpenSSL gives only an error number."""
    for key, value in settings.items():
        if key in detail and key.endswith(".location") and not Path(str(value)).exists():
            return f"{key}: there is no file {value}"
    return None


def find_refused_settings(name: str, properties: Mapping[str, str]) -> tuple[SettingsRefused, ...]:
    """Return everything that librdkafka refuses, one error per property.

    Nothing is sent: the clients know no server, and need no token.
    """
    remaining = {key: value for key, value in properties.items() if key != "bootstrap.servers"}
    errors: list[SettingsRefused] = []
    while (error := _find_first_refusal(name, remaining)) is not None:
        refused = error.detail.partition(": ")[0]
        missing = refused not in remaining or "must be set" in error.detail
        if missing:  # perhaps since a wrong one was left out
            return tuple(errors) or (error,)
        errors.append(error)
        del remaining[refused]
    return tuple(errors)


def _find_first_refusal(name: str, properties: Mapping[str, str]) -> SettingsRefused | None:
    settings: dict[str, Any] = {**properties, "logger": silent_logger}
    mechanisms = (properties.get(name, "") for name in ("sasl.mechanism", "sasl.mechanisms"))
    if "OAUTHBEARER" in {mechanism.strip().upper() for mechanism in mechanisms}:
        # Without a token, or with a callback that no mechanism calls, it would wait ten seconds.
        settings["oauth_cb"] = lambda _: ("none", time.time() + 3600.0)
    try:
        create_client(name, ck_admin.AdminClient, settings)
        create_client(name, ck.Consumer, {**settings, "group.id": "offsetwatch"}).close()
    except SettingsRefused as exc:
        return exc
    except ClientError:
        return None  # of what only a server can say
    return None


def list_broker_addresses(metadata: ck_admin.ClusterMetadata) -> frozenset[str]:
    """Return the `host:port` addresses of all brokers."""
    return frozenset(
        format_address(str(broker.host), broker.port) for broker in metadata.brokers.values()
    )


class KafkaAdmin:
    """Admin client of one Kafka cluster. Thread-safe, as librdkafka's handle is."""

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self._errors = ConnectionErrors()
        settings: dict[str, Any] = {
            **properties,
            "client.id": properties.get("client.id", "offsetwatch"),
            **self._errors.settings,
        }
        self._settings = settings
        self._groups = GroupReaders(settings)
        self._logs = LogBoundsReader(name, settings, partial(create_client, name, ck.Consumer))
        self._opened: ck_admin.AdminClient | None = None
        # A hook that has no token now may have one later: each question asks it again.
        with suppress(AccessDenied):
            self._opened = create_client(name, ck_admin.AdminClient, settings)

    @property
    def _client(self) -> ck_admin.AdminClient:
        """Return the client. Raises AccessDenied while there is no token to create it with."""
        if self._opened is None:
            self._opened = create_client(self.name, ck_admin.AdminClient, self._settings)
        return self._opened

    def topics(self) -> tuple[dict[str, int], frozenset[str]]:
        """Return (topic -> number of partitions, the brokers' `host:port` addresses)."""
        metadata = self._list_topics()
        topics = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
        return topics, list_broker_addresses(metadata)

    def list_brokers(self) -> tuple[frozenset[str], str | None]:
        """Return the brokers' `host:port` addresses, and the id of their cluster, if it has one.

        Raises LeaderNotAvailable while the answering broker knows none. `describe_cluster` is not
        used: librdkafka 2.16.1 aborts the process when such a broker answers it
        (rd_kafka_DescribeClusterResponse_parse gives neither a result nor an error).
        """
        with self._translated():
            metadata = self._logs.metadata(REQUEST_TIMEOUT_S)
        if not metadata.brokers:
            raise build_no_brokers_error(self.name)
        return list_broker_addresses(metadata), metadata.cluster_id

    def compacted(
        self, topics: Collection[str], *, refused: dict[str, ClientError]
    ) -> frozenset[str]:
        """Return those of `topics` whose cleanup.policy includes compact.

        `refused` receives the errors of those whose configuration may not be read.
        """
        compacted = set()
        for name, future in self._describe_configs(topics).items():
            try:
                policy = read_cleanup_policy(self._result(future))
            except NotFound:  # deleted since it was listed
                continue
            except AccessDenied as exc:
                detail = f"DescribeConfigs of topic {name}: {exc.detail}"
                refused[name] = AccessDenied(self.name, detail)
                continue
            if "compact" in str(policy).split(","):
                compacted.add(name)
        return frozenset(compacted)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return topic -> topic id (KIP-516), which distinguishes a recreated topic."""
        futures = self._describe_topics(topics)
        return {name: extract_topic_id(self._result(future)) for name, future in futures.items()}

    def shape(self, topic: str) -> tuple[str, int]:
        """Return (topic id, number of partitions): a topic is the same while both are.

        Raises NotFound for a missing topic; the request does not create it.
        """
        try:
            description = self._result(self._describe_topics([topic])[topic])
        except NotFound as exc:
            raise NotFound(self.name, f"topic {topic}: {exc.detail}") from exc
        return extract_topic_id(description), len(description.partitions)

    def bounds(
        self,
        partitions: Collection[TopicPartition],
        *,
        stable: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, LogBounds]:
        """Return log start and ends of many partitions, batched: one request per broker and kind.

        Partitions that do not exist, have no leader or are refused are left out: one of them must
        not hide the lag of the others. `refused` works as in log_offsets. Without `stable` the last
        stable offset is not requested and `stable_end` repeats the high watermark.
        """
        ordered = tuple(partitions)
        starts = self.log_offsets(ordered, EARLIEST, committed=False, refused=refused)
        ends = self.log_offsets(ordered, LATEST, committed=False, refused=refused)
        stable_ends = ends
        if stable:
            stable_ends = self.log_offsets(ordered, LATEST, committed=True, refused=refused)
        return {
            partition: LogBounds(start=start, end=end, stable_end=last)
            for partition, start, end, last in zip(ordered, starts, ends, stable_ends, strict=True)
            if start is not None and end is not None and last is not None
        }

    def log_offsets(
        self,
        partitions: Sequence[TopicPartition],
        offset: int,
        *,
        committed: bool,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> list[int | None]:
        """Return the log start (EARLIEST) or end (LATEST) of each partition.

        With `committed` the end is the last stable offset. None for a partition without one.
        `refused` receives the errors of those that exist and have a leader. Without `refused` such
        an error is raised if no partition has an offset.
        """
        answers = self._request_offsets(partitions, offset, committed=committed)
        offsets = [answer if isinstance(answer, int) else None for answer in answers]
        if None in offsets:
            errors = {
                partition: error
                for partition, error in zip(partitions, answers, strict=True)
                if not isinstance(error, int | NotFound | LeaderNotAvailable)
            }
            if refused is not None:
                refused |= errors
            elif errors and all(offset is None for offset in offsets):
                raise next(iter(errors.values()))
        return offsets

    def _request_offsets(
        self, partitions: Sequence[TopicPartition], offset: int, *, committed: bool
    ) -> list[int | ClientError]:
        with self._translated():
            return self._logs.request(partitions, offset, committed=committed)

    def readable_ends(
        self,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, ReadableEnd]:
        """Return how far readers of committed records, and of all records, can read.

        `refused` receives the errors of partitions without an end; without it the first is raised.
        """
        ordered = tuple(partitions)
        stable_ends = self._request_offsets(ordered, LATEST, committed=True)
        # Requested second, so that it is never the lower of the two.
        ends = self._request_offsets(ordered, LATEST, committed=False)
        readable: dict[TopicPartition, ReadableEnd] = {}
        for partition, stable, high in zip(ordered, stable_ends, ends, strict=True):
            if isinstance(stable, int) and isinstance(high, int):
                readable[partition] = ReadableEnd(stable=stable, high=max(stable, high))
                continue
            error = stable if isinstance(stable, ClientError) else high
            assert isinstance(error, ClientError)
            if refused is None:
                raise error
            refused[partition] = error
        return readable

    def group_offsets(
        self,
        group: str,
        partitions: Collection[TopicPartition],
        *,
        refused: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, int]:
        """Return the offsets (NEXT record) that a consumer group has committed in these partitions.

        A missing partition has no committed offset, unless it failed. `refused` receives the errors
        of those that failed; without it the first is raised.
        """
        if not partitions:
            return {}
        with self._translated():
            offsets = self._groups.committed(group, partitions, REQUEST_TIMEOUT_S)
        errors = {
            partition: client_error_from(self.name, offset)
            for partition, offset in offsets.items()
            if isinstance(offset, ck.KafkaError)
        }
        if refused is not None:
            refused |= errors
        elif errors:
            raise next(iter(errors.values()))
        return {
            partition: offset for partition, offset in offsets.items() if isinstance(offset, int)
        }

    def close(self) -> None:
        """Close every client; librdkafka's admin client ends with the object.

        Otherwise its threads connect to the brokers until the garbage collector finds them.
        """
        self._groups.close()
        self._logs.close()
        self._opened = None

    def _list_topics(self) -> ck_admin.ClusterMetadata:
        with self._translated():
            return self._client.list_topics(timeout=REQUEST_TIMEOUT_S)

    def _describe_topics(self, topics: Collection[str], **options: bool) -> dict[str, Future[Any]]:
        if not topics:
            return {}
        with self._translated():
            return self._client.describe_topics(
                ck.TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT_S, **options
            )

    def _describe_configs(self, topics: Collection[str]) -> dict[str, Future[Any]]:
        resources = [ck_admin.ConfigResource(ck_admin.ResourceType.TOPIC, name) for name in topics]
        if not resources:
            return {}
        with self._translated():
            futures = self._client.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
        return {resource.name: future for resource, future in futures.items()}

    def _result(self, future: Future[Any], limit_s: float = RESULT_S_MAX) -> Any:
        try:
            return future.result(timeout=limit_s)
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc
        except TimeoutError as exc:
            raise self._reason(ResponseTimeout(self.name, "librdkafka gave no answer")) from exc

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate exceptions that librdkafka raises while a request is sent or answered."""
        try:
            yield
        except ck.KafkaException as exc:
            raise self._why(exc.args[0]) from exc

    def trouble(self) -> ClientError | None:
        """Return why there is no connection, as far as librdkafka has reported it, and forget it.

        It is for callers that do not wait for a pending answer: a refused connection is known at
        once, but librdkafka retries until the request's own timeout.
        """
        if self._opened is None:
            return None
        self._opened.poll(0)
        self._logs.poll()
        return self._errors.pop(self.name)

    def _why(self, error: ck.KafkaError) -> ClientError:
        return self._reason(client_error_from(self.name, error))

    def _reason(self, error: ClientError) -> ClientError:
        """Return the error of a request, or of the connection if that is its cause.

        A wrong password or certificate fails a request just like an unavailable broker. librdkafka
        reports the cause apart from it, and only to callers of poll. The newest counts.
        """
        if not isinstance(error, ResponseTimeout | TargetUnreachable):
            return error
        self._client.poll(0)
        self._logs.poll()
        return self._errors.pop(self.name) or error


def extract_topic_id(description: ck_admin.TopicDescription) -> str:
    """Return a topic's id and release the reference that the binding leaks, if it does.

    confluent-kafka (2.16) creates the id of every description with one reference too many, so that
    none is ever freed: fifty megabytes a day for a thousand topics requested once in three minutes.
    """
    text = str(description.topic_id)
    # Counted, not presumed: a later binding may be fixed.
    expected = _count_references(SimpleNamespace(topic_id=ck.Uuid(0, 1)))
    if _count_references(description) == expected + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(description.topic_id))
    return text


def _count_references(holder: ck_admin.TopicDescription | SimpleNamespace) -> int:
    return sys.getrefcount(holder.topic_id)


def read_cleanup_policy(config: Mapping[str, Any]) -> str | None:
    """Return the cleanup.policy in a topic's configuration; None if the broker omitted it."""
    entry = config.get("cleanup.policy")
    return None if entry is None or entry.value is None else str(entry.value)


BEGINNING: Final = int(ck.OFFSET_BEGINNING)
CONSUME_WAIT_S: Final = 0.01  # consume() waits all of its time unless it gets as many as requested


def build_reader_settings(
    properties: Mapping[str, Any], errors: ConnectionErrors, *, committed: bool
) -> dict[str, Any]:
    """Return the client properties of a consumer that reads assigned partitions without a group."""
    return {
        **properties,
        # Required by the API; never joined and never committed to.
        "group.id": f"offsetwatch-{uuid.uuid4()}",
        "client.id": properties.get("client.id", "offsetwatch"),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A log that does not reach our position was cut by retention or recreated: say so.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "enable.partition.eof": True,
        # The default of 1000 ms throttles a single partition to a seventh of its speed.
        "fetch.queue.backoff.ms": 10,
        **errors.settings,
    }


def build_positions(positions: Mapping[TopicPartition, int]) -> list[ck.TopicPartition]:
    """Return partitions with offsets as arguments of librdkafka."""
    return [
        ck.TopicPartition(partition.topic, partition.partition, offset)
        for partition, offset in positions.items()
    ]


class TailReader:
    """Reader of partitions without a group; of committed records only unless `committed=False`."""

    def __init__(self, name: str, properties: Mapping[str, Any], *, committed: bool = True) -> None:
        self.name = name
        self._errors = ConnectionErrors()
        settings = build_reader_settings(properties, self._errors, committed=committed)
        settings["queued.min.messages"] = 100_000
        self._consumer = create_client(name, ck.Consumer, settings)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets."""
        with translate_kafka_errors(self.name):
            self._consumer.assign(build_positions(starts))

    def read(self, records_max: int, timeout_s: float) -> list[ck.Message]:
        """Return up to `records_max` messages, end-of-partition events included.

        Waits `timeout_s` for the first message, and CONSUME_WAIT_S for the others. Raises the error
        that librdkafka reported since the last call, if no message came.
        """
        with translate_kafka_errors(self.name):
            first = self._consumer.poll(timeout_s)
            records: list[ck.Message] = [] if first is None else [first]
            if records and records_max > 1:
                records += self._consumer.consume(records_max - 1, CONSUME_WAIT_S)
        # Of a group without members: that we may not see it keeps no record from us.
        messages = [
            message
            for message in records
            if (error := message.error()) is None
            or error.code() != ck.KafkaError.GROUP_AUTHORIZATION_FAILED
        ]
        if self._errors and not messages:
            raise self._errors.pop(self.name) or TargetUnreachable(self.name, "no broker answers")
        self._errors.clear()
        return messages

    def reopen(self, starts: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions again from these offsets; the others continue.

        librdkafka stops fetching a partition after an error that is not about the log, such as a
        failed request for its start.
        """
        positions = build_positions(starts)
        with translate_kafka_errors(self.name):
            self._consumer.incremental_unassign(positions)
            self._consumer.incremental_assign(positions)

    def positions(self, partitions: Collection[TopicPartition]) -> dict[int, int]:
        """Return partition -> offset after the last record that `read` returned.

        Markers of transactions that follow the record are passed. Partitions that were never read
        are missing.
        """
        requested = build_positions(dict.fromkeys(partitions, int(ck.OFFSET_INVALID)))
        with translate_kafka_errors(self.name):
            positions = self._consumer.position(requested)
        return {
            partition.partition: partition.offset
            for partition in positions
            if partition.offset >= 0
        }

    def close(self) -> None:
        """Close the consumer; nothing is committed."""
        self._consumer.close()


# Names that are no UTF-8 leave an exception behind beside a list with holes in it, which must not
# be touched: to iterate over it ends the process. This way of calling looks for the exception every
# time, Python's own shortcut for methods that are called often does not.
_call_headers: Final = methodcaller("headers")


def read_headers(message: ck.Message, target: str) -> Headers:
    """Return the headers of a record. Raises MalformedResponse if a name is no UTF-8.

    Call it once for each message: a second call would get the list with holes.
    """
    try:
        headers: Any = _call_headers(message)
    except (SystemError, UnicodeDecodeError) as exc:
        raise MalformedResponse(
            target, "the name of a header is no UTF-8, and cannot be read here"
        ) from exc
    return tuple((name, bytes_or_none(value)) for name, value in headers or ())


def timestamp_of(message: ck.Message) -> float | None:
    """Return a record's timestamp in Unix seconds; None without one.

    Kafka writes -1 for none, and librdkafka reports that as a creation time.
    """
    kind, stamp = message.timestamp()
    return None if kind == ck.TIMESTAMP_NOT_AVAILABLE or stamp < 0 else stamp / 1000


def bytes_or_none(part: object) -> bytes | None:
    """Return the key or value of a message as bytes; None if it has none."""
    return part if isinstance(part, bytes) else None


def parse_end_of_partition(message: ck.Message) -> int | None:
    """Return the position that an end-of-partition event reports; None for a record.

    At the event all control batches are passed, so it, and not the last record, shows that the end
    is reached. Raises ClientError for any other event.
    """
    error = message.error()
    if error is None:
        return None
    if error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001
        offset = message.offset()
        if offset is None:
            raise MalformedResponse(str(message.topic()), "end of partition without an offset")
        return offset
    raise client_error_from(str(message.topic()), error)
