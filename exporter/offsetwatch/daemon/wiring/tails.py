"""Running tails: one for each topic that the topology names, and none for any other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from offsetwatch.ingest.polls import Batch
from offsetwatch.ingest.topic_readers import TopicReader, choose_topic_reader
from offsetwatch.model.observations import InputId, InputRetired
from offsetwatch.model.topology import KafkaTopic, Topology

JOIN_S_MAX: Final = 15.0

StartTail = Callable[[KafkaTopic, Callable[[], TopicReader], threading.Event], threading.Thread]


@dataclass(frozen=True, slots=True)
class _RunningTail:
    """Running tail, and the Connect clusters whose offsets it was started for."""

    readers: frozenset[str]
    stopped: threading.Event
    thread: threading.Thread


class Tails:
    """Running tails of the topology's topics.

    `start` starts one; `put` hands a batch to the loop and returns whether it was taken.
    """

    def __init__(self, start: StartTail, put: Callable[[Batch], bool]) -> None:
        self._start = start
        self._put = put
        self._following: dict[KafkaTopic, _RunningTail] = {}
        self._retiring: set[InputId] = set()

    def follow(self, topology: Topology) -> None:
        """Start the tails of new topics and stop those of topics that are no longer named.

        A topic is read from its beginning again if another Connect cluster starts to use it for
        offsets: what was read went to the first one alone.
        """
        wanted = {topic: _find_reading_clusters(topology, topic) for topic in topology.tailed()}
        for topic, following in sorted(self._following.items(), key=lambda item: item[0]):
            if topic not in wanted or not wanted[topic] <= following.readers:
                self._leave(topic)
        # Before a tail is told of again its old input has to be forgotten, or it would look alive.
        self._retiring = {
            input_id for input_id in self._retiring if not self._put((InputRetired(input_id),))
        }
        for topic in sorted(wanted.keys() - self._following.keys()):
            if InputId.of_tail(topic) not in self._retiring:
                stopped = threading.Event()
                thread = self._start(topic, choose_topic_reader(topology, topic), stopped)
                self._following[topic] = _RunningTail(wanted[topic], stopped, thread)

    def stop(self) -> None:
        """Signal all tails to stop; do not wait."""
        for following in tuple(self._following.values()):
            following.stopped.set()

    def _leave(self, topic: KafkaTopic) -> None:
        following = self._following.pop(topic)
        following.stopped.set()
        following.thread.join(JOIN_S_MAX)  # its last batch must not revive what is retired next
        self._retiring.add(InputId.of_tail(topic))


def _find_reading_clusters(topology: Topology, topic: KafkaTopic) -> frozenset[str]:
    return frozenset(
        offsets_topic.connect_cluster
        for offsets_topic in topology.offsets_topics
        if offsets_topic.at == topic
    )
