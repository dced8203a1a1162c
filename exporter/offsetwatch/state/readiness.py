"""Readiness of the daemon: what has not been read yet, as text for the user.

Ready means: everything that exists and may be read has been read once. An input that has failed
since is not waited for, nor is an unreadable partition of a topic while others can be read. A
daemon that never becomes ready would show nothing of what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    InputId,
    build_rest_offsets_input,
)
from offsetwatch.model.topology import KafkaTopic, Topology
from offsetwatch.state.connect.connect_cluster import UNREADABLE_REASONS, ConnectClusterState
from offsetwatch.state.connect.sinks import Sinks
from offsetwatch.state.failover import FailoverGroups, build_groups_input
from offsetwatch.state.inputs import Inputs, InputState
from offsetwatch.state.mirror.replication import Replication

DENIALS: Final = 3  # with a growing pause between them: an ACL may be on its way


class Readiness:
    """Readiness of the daemon, by the state of its inputs."""

    def __init__(
        self,
        clusters: Mapping[str, ConnectClusterState],
        inputs: Inputs,
        replication: Replication,
        failover: FailoverGroups,
        sinks: Sinks,
    ) -> None:
        self._clusters = clusters
        self._sinks = sinks
        self._inputs = inputs
        self._replication = replication
        self._failover = failover
        self._was_ready = False

    def find_awaited_inputs(self, topology: Topology, now: float) -> dict[InputId, str]:
        """Return one line for every input that has not been read yet."""
        missing: dict[InputId, str] = {}
        for cluster in self._clusters.values():
            missing |= self._explain_cluster(cluster)
        if not self._was_ready:  # REST that stands in for a topic later on is not waited for
            sources = [
                connector
                for cluster in self._clusters.values()
                for connector in cluster.rest_connectors()
            ]
            for source in (*sources, *self._sinks.by_rest):
                missing |= self._explain_unread(
                    build_rest_offsets_input(source.connect_cluster, source.connector)
                )
        for topic in topology.awaited():
            state = self._inputs.find(InputId.of_tail(topic))
            if state is not None and self._is_hopeless(topic, state, topology):
                continue  # there is nothing to catch up with
            if self._is_not_needed(topic, topology):
                continue
            if state is None or state.tail is None or not state.tail.caught_up:
                missing |= self._explain(InputId.of_tail(topic), "the end of the topic")
        for kafka in self._replication.upstreams():
            missing |= self._explain_log_ends(kafka, now)
        for request in self._failover.requests():
            missing |= self._explain_unread(build_groups_input(request.flow))
        self._was_ready = self._was_ready or not missing
        return missing

    def _is_hopeless(self, topic: KafkaTopic, state: InputState, topology: Topology) -> bool:
        """Return whether a topic does not exist, is too large, or is denied for good.

        What depends on it is not shown, and `input_up` and a finding say why: waiting for it would
        hide the rest for ever. A denied offsets topic is waited for while no other one has been
        read: without any no source connector is known.
        """
        if state.errors["too_large"]:
            return True
        if state.last_reason not in UNREADABLE_REASONS:
            return False
        if state.last_reason == "not_found" or topic not in topology.recorded():
            return True
        offsets = {offsets.at for offsets in topology.offsets_topics}
        if state.errors["denied"] < DENIALS or topic not in offsets:
            return state.errors["denied"] >= DENIALS
        states = (self._inputs.find(InputId.of_tail(other)) for other in offsets)
        return any(state and state.tail and state.tail.caught_up for state in states)

    def _is_not_needed(self, topic: KafkaTopic, topology: Topology) -> bool:
        """Return whether REST is polled for everything that this topic holds."""
        offsets = [
            offsets.connect_cluster for offsets in topology.offsets_topics if offsets.at == topic
        ]
        flows = [flow for flow in topology.flows if flow.offset_syncs == topic]
        return bool(offsets or flows) and (
            all(topic in self._clusters[name].unread for name in offsets)
            and all(self._clusters[flow.connect_cluster].polls(flow.connector) for flow in flows)
        )

    def _explain_cluster(self, cluster: ConnectClusterState) -> dict[InputId, str]:
        if cluster.of.rest and cluster.listed is None:
            rest = InputId(CONNECT_REST, connect_cluster=cluster.name)
            return self._explain(rest, "first answer")
        if cluster.has_sources() and cluster.home is None and not cluster.homeless:
            tail = InputId(TAIL, connect_cluster=cluster.name)
            return self._explain(tail, "its offsets topic")
        if any(connector.sink is not None for connector in cluster.listed or ()):
            return self._explain_unread(InputId(GROUPS, connect_cluster=cluster.name))
        return {}

    def _explain_log_ends(self, kafka: str, now: float) -> dict[InputId, str]:
        """Return what is missing about the log ends of a Kafka cluster.

        They are waited for once there are positions to compare them with; a failed attempt is
        enough.
        """
        ends = InputId(LOG_ENDS, kafka=kafka)
        if not self._replication.waits_for_ends(kafka, now):
            return self._explain_unread(ends)
        state = self._inputs.find(ends)
        if state is not None and state.last_reason is not None:
            return {}
        return self._explain(ends, "the log ends of its mirrored partitions")

    def _explain_unread(self, input_id: InputId) -> dict[InputId, str]:
        if self._inputs.find(input_id) is not None:
            return {}
        return self._explain(input_id, "a first attempt")

    def _explain(self, input_id: InputId, what: str) -> dict[InputId, str]:
        state = self._inputs.find(input_id)
        error = f" ({state.last_error})" if state is not None and state.last_error else ""
        return {input_id: f"{input_id.kind} {input_id.input}: waiting for {what}{error}"}
