"""Schedule of the failover polls: MM2's internal topics and group offsets of flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.clock import UnixClock
from offsetwatch.ingest.polls import Batch, poll_failover, poll_topics
from offsetwatch.model.observations import InputRetired
from offsetwatch.model.topology import FlowKey
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.mirror.mm2_names import locate_internal_topics
from offsetwatch.state.snapshot import GroupOffsetsRequest, Snapshot

TOPICS_S: Final = 30.0  # MM2 makes its checkpoints topic minutes after a flow's first group


class FailoverPolls:
    """Failover polls of all flows.

    `snapshot` returns the newest one; `put` hands a batch to the loop and returns whether it was
    taken.
    """

    def __init__(
        self,
        admins: Mapping[str, KafkaAdmin],
        snapshot: Callable[[], Snapshot],
        put: Callable[[Batch], bool],
        clock: UnixClock,
    ) -> None:
        self._admins = admins
        self._snapshot = snapshot
        self._put = put
        self._clock = clock
        self._looked: set[tuple[str, str]] = set()
        self._asked: set[FlowKey] = set()

    def look(self) -> None:
        """Poll which of MM2's internal topics exist."""
        for kafka, wanted in _list_flow_topics(self._snapshot()).items():
            self._put(poll_topics(self._admins[kafka], wanted))

    def ask(self, connect_cluster: str) -> None:
        """Poll the group offsets of a Connect cluster's flows."""
        for request in self._snapshot().groups_to_ask:
            if request.flow[0] == connect_cluster:
                self._ask(request)

    def early(self) -> None:
        """Poll new topics and flows at once, before their next poll; retire removed flows."""
        snapshot = self._snapshot()
        for kafka, wanted in _list_flow_topics(snapshot).items():
            new = {(kafka, topic) for topic in wanted} - self._looked
            if new and self._put(poll_topics(self._admins[kafka], wanted)):
                self._looked |= new
        flows = {request.flow: request for request in snapshot.groups_to_ask}
        for key in flows.keys() - self._asked:
            self._ask(flows[key])
        for key in self._asked - flows.keys():
            if self._put((InputRetired(build_groups_input(key)),)):
                self._asked.discard(key)

    def _ask(self, request: GroupOffsetsRequest) -> None:
        self._asked.add(request.flow)
        upstream, downstream = self._admins[request.upstream], self._admins[request.downstream]
        answer = poll_failover(request, upstream, downstream, self._clock)
        # Or it would revive what was retired meanwhile.
        if any(
            group_offsets_request.flow == request.flow
            for group_offsets_request in self._snapshot().groups_to_ask
        ):
            self._put(answer)


def _list_flow_topics(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    """Return Kafka cluster -> MM2's internal topics of its flows, whether they exist or not."""
    found: dict[str, frozenset[str]] = {}
    for flow in snapshot.topology.flows:
        for topic in locate_internal_topics(flow):
            found[topic.kafka] = found.get(topic.kafka, frozenset()) | {topic.topic}
    return found
