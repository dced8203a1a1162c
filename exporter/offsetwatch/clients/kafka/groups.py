"""Committed offsets of consumer groups, requested as a consumer would, without joining the group.

The admin API could do it with one client for all groups, but librdkafka may abort the process once
ListConsumerGroupOffsets has timed out, as it does while a coordinator is unavailable
(confluentinc/librdkafka issues 3663 and 4605). OffsetFetch needs a client for each group, so their
number is limited.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import confluent_kafka as ck

from offsetwatch.model.topology import TopicPartition

# A client is a few threads and connections. Beyond this the least recently asked is closed, and
# asking its group again costs another connection.
CLIENTS_MAX: Final = 64
# Groups of connectors that are gone are asked no more, and their clients are half a MiB each.
IDLE_S: Final = 300.0
GROUP_ID_BYTES_MAX: Final = 32_767  # a STRING of Kafka's protocol has an int16 for its length
_GROUP_ID: Final = re.compile("[^\0\ud800-\udfff]+")


def find_group_id_error(group: str) -> ck.KafkaError | None:
    """Return why a group cannot be requested; None if it can.

    librdkafka 2.16 aborts the process when a consumer is created with an empty group id. It reads a
    group id up to the first NUL, which is another group.
    """
    if _GROUP_ID.fullmatch(group) and len(group.encode()) <= GROUP_ID_BYTES_MAX:
        return None
    detail = (
        "its group id is empty"
        if not group
        else f"its group id has a NUL, or more than {GROUP_ID_BYTES_MAX} bytes"
    )
    return ck.KafkaError(ck.KafkaError.INVALID_GROUP_ID, detail)


class GroupReaders:
    """Clients of many groups on one Kafka cluster. Raises KafkaException."""

    def __init__(
        self, settings: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = {**settings, "enable.auto.commit": False}
        self._clock = clock
        # With when each was used last, the least recently used first.
        self._readers: OrderedDict[str, tuple[ck.Consumer, float]] = OrderedDict()
        # Polls of several Connect clusters may share a Kafka cluster, and none may close what
        # another one is using.
        self._lock = threading.Lock()

    def committed(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int | ck.KafkaError]:
        """Return the committed offsets (NEXT record) in these partitions, or the partition's error.

        Partitions without either are left out.
        """
        error = find_group_id_error(group)
        if error is not None:
            raise ck.KafkaException(error)
        requested = [
            ck.TopicPartition(partition.topic, partition.partition) for partition in partitions
        ]
        with self._lock:
            offsets = self._reader(group).committed(requested, timeout=timeout_s)
        return {
            TopicPartition(partition.topic, partition.partition): partition.offset
            if partition.error is None
            else partition.error
            for partition in offsets
            if partition.error is not None or partition.offset >= 0
        }

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            while self._readers:
                self._close_first()

    def _reader(self, group: str) -> ck.Consumer:
        now = self._clock()
        reader, _ = self._readers.pop(group, (None, now))
        while self._readers and next(iter(self._readers.values()))[1] <= now - IDLE_S:
            self._close_first()
        if reader is None:
            if len(self._readers) >= CLIENTS_MAX:
                self._close_first()
            reader = ck.Consumer({**self._settings, "group.id": group})
        self._readers[group] = (reader, now)
        return reader

    def _close_first(self) -> None:
        self._readers.popitem(last=False)[1][0].close()
