"""Kafka clusters that do not answer: inputs that fail together for one cause."""

from __future__ import annotations

from typing import Final

from offsetwatch.judge.time_words import format_moment
from offsetwatch.model.observations import GROUPS, LOG_ENDS, InputId
from offsetwatch.model.topology import Topology
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.snapshot import InputView, Snapshot

NO_ANSWER_REASONS: Final = frozenset({"unreachable", "timeout"})


class KafkaInputs:
    """Inputs of a snapshot by the Kafka cluster that they are read from."""

    def __init__(self, snapshot: Snapshot, without: frozenset[InputId]) -> None:
        self._of: dict[str, list[InputView]] = {}
        self._groups = [
            (view, _find_group_clusters(view.id, snapshot.topology))
            for view in snapshot.inputs
            if view.id.kind == GROUPS and view.last_reason in NO_ANSWER_REASONS and not view.up
        ]
        for view in snapshot.inputs:
            if view.id.kafka and view.id not in without:
                self._of.setdefault(view.id.kafka, []).append(view)

    def silent(self) -> dict[str, list[InputView]]:
        """Return the clusters of which no input answers, log ends first.

        A single topic may time out on a healthy cluster: without log ends, every input has to fail
        to connect. Consumer groups are read from several clusters, so they are listed under one of
        them.
        """
        found = {
            kafka: sorted(views, key=lambda view: view.id.kind != LOG_ENDS)
            for kafka, views in self._of.items()
            if _is_silent(views)
        }
        for view, kafkas in self._groups:
            for kafka in sorted(kafkas & found.keys())[:1]:
                found[kafka].append(view)
        return found


def describe_silence(views: list[InputView]) -> str:
    """Return since when inputs do not answer, in words."""
    read_at = [view.last_success_at for view in views if view.last_success_at is not None]
    return (
        f"has not answered since {format_moment(max(read_at))}" if read_at else "has never answered"
    )


def find_affected_flows(topology: Topology, kafka: str) -> list[str]:
    """Return the flows that cannot be judged without a Kafka cluster, as `source->target`."""
    homes = {topic.connect_cluster for topic in topology.offsets_topics if topic.at.kafka == kafka}
    return sorted(
        {
            f"{flow.source}->{flow.target}"
            for flow in topology.flows
            if kafka in {flow.upstream, flow.downstream}
            or flow.connect_cluster in homes
            or (flow.offset_syncs is not None and flow.offset_syncs.kafka == kafka)
        }
    )


def _is_silent(views: list[InputView]) -> bool:
    failing = [view for view in views if not (view.up and view.live)]
    reasons = {view.last_reason for view in failing} - {None}
    enough = (
        NO_ANSWER_REASONS if any(view.id.kind == LOG_ENDS for view in views) else {"unreachable"}
    )
    return len(failing) == len(views) and bool(reasons) and reasons <= enough


def _find_group_clusters(input_id: InputId, topology: Topology) -> set[str]:
    """Return the clusters on which an input reads groups: those of sinks, or of a flow."""
    found: set[str | None] = set()
    if not input_id.source:
        found |= {
            sink.kafka
            for sink in topology.sinks
            if sink.connect_cluster == input_id.connect_cluster
        }
    for flow in topology.flows:
        if build_groups_input(flow.key) == input_id:
            found |= {flow.upstream, flow.downstream}
    return {kafka for kafka in found if kafka is not None}
