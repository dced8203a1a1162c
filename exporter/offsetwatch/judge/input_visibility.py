"""Visibility of a snapshot's inputs: which reads fail, so that a missing partition is not "gone".

A partition that is not in a snapshot is either deleted or unreadable. Its absence is evidence only
while every input that would show it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from offsetwatch.formatting import format_count, format_moment, format_timespan
from offsetwatch.model.connectors import DELETED, UNKNOWN_STATE, ConnectorKind
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    InputId,
    build_rest_offsets_input,
    build_source_end_input,
)
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, describe_missing_topics
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.connect.state_history import has_lost_status
from offsetwatch.state.failover import build_groups_input
from offsetwatch.state.mirror.mm2_names import locate_checkpoints
from offsetwatch.state.snapshot import ConnectorView, MirrorPartitionView, Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey, PartitionKey
from offsetwatch.state.sources.source_ends import NO_OFFSET

_PAUSE_STATES: Final = frozenset({"paused", "stopped"})
REFRESH_INTERVALS: Final = 2
NO_ANSWER_REASONS: Final = frozenset({"unreachable", "timeout"})


class InputVisibility:
    """Inputs of one snapshot, and the reasons why any of them is unavailable.

    Methods that explain return a reason in words; None means that there is no such reason.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        index = self.index = snapshot.index
        # A pass asks these of every partition.
        self.connectors, self.flows = index.connectors, index.flows
        self._inputs, self._lists = index.inputs, index.lists
        self._rest_connectors, self._sink_groups = index.rest_connectors, index.sink_groups
        self._listings = {
            listing.connect_cluster: listing.topics() for listing in snapshot.topology.listings
        }
        self._states: dict[str, tuple[bool, str | None]] = {}

    # --- connectors ------------------------------------------------------------------------------

    def states_of(self, cluster: str) -> tuple[bool, str | None]:
        """Return whether the states of a cluster's connectors are known, and if not, why.

        The reason is None where no input exists that could report them.
        """
        states = self._states.get(cluster)
        if states is None:
            states = self._states[cluster] = self._find_states(cluster)
        return states

    def _find_states(self, cluster: str) -> tuple[bool, str | None]:
        rest = InputId(CONNECT_REST, connect_cluster=cluster)
        if rest in self._inputs:
            why = self._explain_input(rest)
            return why is None, why
        if cluster not in self._listings:
            return False, None
        topics = self._listings[cluster]
        reasons = [self._explain_input(InputId.of_tail(topic)) for topic in topics]
        why = next((reason for reason in reasons if reason is not None), None)
        return why is None and len(topics) == 2, why

    @cached_property
    def listed(self) -> dict[str, frozenset[str]]:
        """Return the connectors of each Connect cluster that lists them now."""
        clusters = {
            view.id.connect_cluster for view in self.snapshot.inputs if view.id.kind == CONNECT_REST
        }
        names: dict[str, set[str]] = {
            cluster: set()
            for cluster in clusters | self._listings.keys()
            if self.states_of(cluster)[0]
        }
        for cluster, name in self.connectors:
            if cluster in names:
                names[cluster].add(name)
        return {cluster: frozenset(connectors) for cluster, connectors in names.items()}

    def explain_unknown_state(self, key: ConnectorKey) -> str | None:
        """Explain why the state of a connector is unknown; None also if there is no connector.

        A key without a connector stands for the states of the whole Connect cluster.
        """
        _, why = self.states_of(key[0])
        if why is not None or not key[1]:
            return why
        view = self.connectors.get(key)
        if view is None:
            return self._explain_unlisted(key)
        return "Connect reports no state of it" if view.state == UNKNOWN_STATE else None

    def explain_missing_configuration(self, key: ConnectorKey) -> str | None:
        """Explain why the configuration of a connector is unknown."""
        view = self._lists.get(key[0])
        read_at = None if view is None else view.without_configuration.get(key[1])
        if read_at is None:
            return None
        return f"Connect does not report its configuration, last read at {format_moment(read_at)}"

    def explain_outdated_assignment(self, key: ConnectorKey) -> str | None:
        """Explain why it is unknown which partitions a flow copies."""
        read_at = self.snapshot.outdated_assignments.get(key)
        if read_at is None:
            return None
        return f"Connect does not report its tasks, last read at {format_moment(read_at)}"

    def is_deleted(self, key: ConnectorKey) -> bool:
        """Check whether a connector certainly no longer exists.

        A connector that the configuration excludes is in no list, whether it exists or not: False.
        """
        if key[0] not in self._lists and key[0] not in self._listings:
            return False
        if self.excludes(key):
            return False
        known, _ = self.states_of(key[0])
        return known and key not in self.connectors and self._explain_unlisted(key) is None

    def excludes(self, key: ConnectorKey) -> bool:
        """Check whether the configuration excludes a connector; it then gets no findings."""
        is_monitored = self.snapshot.wants_connector.get(key[0])
        return is_monitored is not None and not is_monitored(key[1])

    def believes_list(self, cluster: str) -> bool:
        """Check whether an unlisted connector counts as deleted without contrary evidence."""
        view = self._lists.get(cluster)
        return view is None or (
            view.believed_at is not None and view.believed_at <= self.snapshot.at
        )

    def _explain_unlisted(self, key: ConnectorKey) -> str | None:
        """Explain why an unlisted connector may still exist.

        None if it is deleted, or if the configuration excludes it.
        """
        view = self._lists.get(key[0])
        if view is None or key[1] in view.deleted or self.excludes(key):
            return None
        if not self.believes_list(key[0]):
            return "Connect's list of connectors is in doubt"
        if any(unlisted_connector.connector == key[1] for unlisted_connector in view.unlisted):
            return "Connect does not list it, and it still works"
        history = self.index.histories.get((*key, None))
        if history is not None and history.changes[-1].state != DELETED:
            return "Connect does not list it, and the status topic does"
        if history is not None and has_lost_status(history.changes, self.snapshot.at):
            return "Connect does not list it, and its status is gone without a deletion"
        return None

    def is_sink(self, key: ConnectorKey) -> bool:
        """Check whether a connector is a sink."""
        view = self.connectors.get(key)
        return view is not None and view.kind is ConnectorKind.SINK

    # --- offsets and log ends --------------------------------------------------------------------

    def explain_absence(self, key: ConnectorKey, *, sink: bool) -> str | None:
        """Explain why a partition missing from the snapshot may exist; None if it is gone."""
        why = self._explain_unread_offsets(key, sink=sink)
        return self.explain_outdated_assignment(key) if why is None else why

    def _explain_unread_offsets(self, key: ConnectorKey, *, sink: bool) -> str | None:
        known, why = self.states_of(key[0])
        if why is not None:
            return why
        if known and key not in self.connectors:
            return self._explain_unlisted(key)
        if (unconfigured := self.explain_missing_configuration(key)) is not None:
            return unconfigured
        topic = self.index.offsets_topic_of(key)
        groups = InputId(GROUPS, connect_cluster=key[0])
        rest = self._rest_connectors.get(key)
        if rest is not None:
            why = self._explain_input(build_rest_offsets_input(*key))
            if why is None and rest.missing:
                why = (
                    f"REST listed {format_count(rest.missing, 'source partition')} before that "
                    "its last answer lacks"
                )
            read = groups
            if not sink:
                read = InputId(TAIL, connect_cluster=key[0])
                read = read if topic is None else InputId.of_tail(topic)
            # First the error of the read that REST stands in for.
            first = self._explain_input(read) if why and read in self._inputs else None
            return why if first is None else f"{first}; {why}"
        if sink:
            return self._explain_input(groups)
        if topic is None:
            search = InputId(TAIL, connect_cluster=key[0])
            awaited = self.is_any_awaited((search, *self.list_state_inputs(key[0])))
            return f"the offsets topic of {key[0]} has not been found yet" if awaited else None
        return self._explain_input(InputId.of_tail(topic))

    def explain_hidden_progress(self, key: ConnectorKey) -> str | None:
        """Explain why an input that this connector's progress depends on is unavailable."""
        why = self._explain_unread_offsets(key, sink=self.is_sink(key))
        return self.explain_missing_syncs(key) if why is None else why

    def explain_missing_topics(self, key: ConnectorKey) -> str | None:
        """Explain that topics which the configuration of a sink names were not found."""
        topics = self.snapshot.missing_topics.get(key)
        group = self._sink_groups.get(key)
        if not topics or group is None or group.kafka is None:
            return None
        return describe_missing_topics(topics, group.kafka)

    def has_no_commits(self, key: ConnectorKey) -> bool:
        """Check whether a source connector without partitions here never committed an offset.

        True only if its offsets topic is read to its end and the limit `source_partitions_max` has
        dropped nothing.
        """
        view, topic = self.connectors.get(key), self.index.offsets_topic_of(key)
        if view is None or view.kind is not ConnectorKind.SOURCE or topic is None:
            return False
        if any(reason == "source_partitions_max" for reason, _ in self.snapshot.dropped):
            return False
        return self._explain_input(InputId.of_tail(topic)) is None

    def explain_missing_syncs(self, key: ConnectorKey) -> str | None:
        """Explain why the offset syncs of a source partition are unavailable.

        None if they are readable, or if there are none to read. A source partition without mirrored
        side is then not copied.
        """
        flow = self.flows.get(key)
        if flow is None or flow.offset_syncs is None or key in self._rest_connectors:
            return None
        return self._explain_input(InputId.of_tail(flow.offset_syncs), missing_is_fine=True)

    def explain_missing_log_ends(self, kafka: str) -> str | None:
        """Explain why the log ends of a Kafka cluster are unavailable."""
        return self._explain_input(InputId(LOG_ENDS, kafka=kafka))

    def explain_missing_source_end(self, source: str) -> str | None:
        """Explain why the end of a source is unavailable."""
        return self._explain_input(build_source_end_input(source))

    def are_source_ends_hidden(self, key: ConnectorKey) -> bool:
        """Check whether the end of a source that a connector reads is unavailable."""
        return any(
            self.explain_missing_source_end(name) is not None or self._is_end_unreadable(of)
            for of, name in self._sources.get(key, ())
        )

    def _is_end_unreadable(self, of: PartitionKey) -> bool:
        end = self.index.source_ends.get(of)
        return end is None or (end.problem is not None and end.problem != NO_OFFSET)

    def is_source_silent(self, source: str) -> bool:
        """Check whether a source that is read has not answered since it last did."""
        view = self._inputs.get(build_source_end_input(source))
        return (
            view is not None
            and not view.live
            and (view.last_reason is None or view.last_reason in NO_ANSWER_REASONS)
        )

    def list_source_inputs(self, key: ConnectorKey) -> Iterator[InputId]:
        """Yield the inputs that report the ends of the sources that a connector reads."""
        names = {name for _, name in self._sources.get(key, ())}
        yield from map(build_source_end_input, sorted(names))

    @cached_property
    def _sources(self) -> dict[ConnectorKey, list[tuple[PartitionKey, str]]]:
        """Return the source partitions of each connector that read a configured source."""
        sources: dict[ConnectorKey, list[tuple[PartitionKey, str]]] = {}
        for of, name in self.snapshot.source_names.items():
            sources.setdefault(of[:2], []).append((of, name))
        return sources

    def explain_unread_log_ends(self, key: ConnectorKey) -> str | None:
        """Explain why no input reads the log ends of a sink's topics."""
        sink = self._sink_groups.get(key)
        return None if sink is None else sink.lag_unknown

    def are_log_ends_hidden(self, kafka: str | None) -> bool:
        """Check whether the log ends of a Kafka cluster are unavailable."""
        return kafka is not None and self.explain_missing_log_ends(kafka) is not None

    def are_groups_hidden(self, cluster: str) -> bool:
        """Check whether the groups of this Connect cluster's sinks are unavailable."""
        return any(map(self._is_down, self.list_group_inputs(cluster)))

    def is_failover_hidden(self, flow: MirrorFlow) -> bool:
        """Check whether an input of a flow's failover cost is unavailable."""
        return any(map(self._is_down, self.list_failover_inputs(flow)))

    def is_topic_hidden(self, topic: KafkaTopic) -> bool:
        """Check whether a topic that is followed is unavailable."""
        return self._is_down(InputId.of_tail(topic))

    # --- what has not been read since the start --------------------------------------------------

    def is_any_awaited(self, input_ids: Iterable[InputId]) -> bool:
        """Check whether any of these inputs has not been read since the start."""
        snapshot = self.snapshot
        if snapshot.ready:
            return False
        # Before the first tick it is not known which inputs there are.
        return not snapshot.awaited or not snapshot.awaited.isdisjoint(input_ids)

    def list_state_inputs(self, cluster: str) -> Iterator[InputId]:
        """Yield the inputs that report the connectors of a Connect cluster and their states."""
        yield InputId(CONNECT_REST, connect_cluster=cluster)
        yield from map(InputId.of_tail, self._listings.get(cluster, ()))

    def list_group_inputs(self, cluster: str) -> Iterator[InputId]:
        """Yield the inputs that report the positions of a Connect cluster's sinks."""
        yield InputId(GROUPS, connect_cluster=cluster)
        for rest_connector in self.snapshot.by_rest:
            if rest_connector.sink and rest_connector.connect_cluster == cluster:
                yield build_rest_offsets_input(cluster, rest_connector.connector)

    def list_failover_inputs(self, flow: MirrorFlow) -> Iterator[InputId]:
        """Yield the inputs of a flow's failover cost: its syncs, checkpoints and groups."""
        yield build_groups_input(flow.key)
        topics = (flow.offset_syncs, locate_checkpoints(flow))
        yield from (InputId.of_tail(topic) for topic in topics if topic is not None)

    def list_progress_inputs(self, key: ConnectorKey) -> Iterator[InputId]:
        """Yield the inputs that report the positions of a connector."""
        yield from self.list_state_inputs(key[0])
        yield build_rest_offsets_input(*key)
        if self.is_sink(key):
            yield InputId(GROUPS, connect_cluster=key[0])
            return
        topic, flow = self.index.offsets_topic_of(key), self.flows.get(key)
        yield InputId(TAIL, connect_cluster=key[0]) if topic is None else InputId.of_tail(topic)
        if flow is not None and flow.offset_syncs is not None:
            yield InputId.of_tail(flow.offset_syncs)

    def _is_down(self, input_id: InputId) -> bool:
        view = self._inputs.get(input_id)
        return view is not None and not view.live

    def _explain_input(self, input_id: InputId, *, missing_is_fine: bool = False) -> str | None:
        view = self._inputs.get(input_id)
        if view is None:
            return f"no successful read yet of {input_id.in_words}"
        if missing_is_fine and view.last_reason == "not_found":
            return None
        frozen = () if view.tail is None else view.tail.frozen
        if view.live and not frozen:
            return None
        why = view.last_error or (frozen[0].detail if frozen else "no successful read yet")
        return f"{input_id.in_words} cannot be read: {why}"

    # --- pauses ----------------------------------------------------------------------------------

    def explain_unusual_pause(self, key: ConnectorKey) -> str | None:
        """Describe how a connector's pause exceeds every pause of its baseline."""
        baseline = self.snapshot.baselines.of.get(key)
        since = None if baseline is None else self._last_advances.get(key)
        if (
            baseline is None
            or since is None
            or not baseline.out_of_the_ordinary(since, self.snapshot.at)
        ):
            return None
        limits = []
        if baseline.pause_s is not None:
            limits.append(f"lasted for {format_timespan(baseline.pause_s)}")
        if baseline.pause_advances is not None:
            limits.append(f"missed {baseline.pause_advances:.1f} expected advances")
        return (
            f"nothing advanced since {format_moment(since)}, and in its history no pause "
            f"{' or '.join(limits)}"
        )

    @cached_property
    def _last_advances(self) -> dict[ConnectorKey, float]:
        """Return the latest time, by our clock, at which each connector can have last advanced.

        That is the newest advance of any of its partitions; where no advance is known, the newest
        commit.
        """
        advances: dict[ConnectorKey, float] = {}
        for view in self.snapshot.source_partitions:
            moment = view.committed_at if view.advanced_at is None else view.advanced_at
            if moment is not None:
                key = (view.connect_cluster, view.connector)
                latest = moment + SKEW_S_MAX
                by = latest if view.read_at is None else min(view.read_at, latest)
                advances[key] = max(advances.get(key, by), by)
        return advances


def compute_discovery_deadline(
    flow: MirrorFlow, view: MirrorPartitionView, interval_s: float
) -> float | None:
    """Return the time (Unix seconds) by which MirrorMaker 2 must have discovered a new partition.

    None if the partition is already assigned to a task.
    """
    if view.unassigned_since is None:
        return None
    if flow.refresh_s is None:
        return view.unassigned_since
    # It makes the partition downstream, and then its tasks again.
    return view.unassigned_since + flow.refresh_s + REFRESH_INTERVALS * interval_s


def pause_state_of(view: ConnectorView) -> str | None:
    """Return "paused" or "stopped" if an operator put the connector into that state, else None."""
    return view.state if view.state in _PAUSE_STATES else None
