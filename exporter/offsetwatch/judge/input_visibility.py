"""Visibility of a snapshot's inputs: which reads fail, so that a missing partition is not "gone".

A partition that is not in a snapshot is either deleted or unreadable. Its absence is evidence only
while every input that would show it is read.
"""

from __future__ import annotations

from typing import Final

from offsetwatch.judge.time_words import format_moment, format_timespan
from offsetwatch.model.connect.connectors import DELETED, UNKNOWN_STATE, ConnectorKind
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    TAIL,
    InputId,
    build_rest_offsets_input,
)
from offsetwatch.model.topology import KAFKA_NOT_CONFIGURED, KafkaTopic, MirrorFlow
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.snapshot import ConnectorView, MirrorPartitionView, RestConnector, Snapshot

_PAUSE_STATES: Final = frozenset({"paused", "stopped"})
FAILED_TASKS_NAMED_MAX: Final = 3  # tasks by number: a reason is a line
REFRESH_INTERVALS: Final = 2
_BROKEN_STATES: Final = frozenset({"failed", "unassigned", "restarting"})


class InputVisibility:
    """Inputs of one snapshot, and the reasons why any of them is unavailable.

    Methods that return a reason return it in words. None means that there is no such reason.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        topology = snapshot.topology
        self._ready = snapshot.ready
        self._inputs = {view.id: view for view in snapshot.inputs}
        self._topics = {
            (topic.connect_cluster, topic.connector): topic.at for topic in topology.offsets_topics
        }
        self._by_rest = {
            (rest_connector.connect_cluster, rest_connector.connector): rest_connector
            for rest_connector in snapshot.by_rest
        }
        self._listings = {
            listing.connect_cluster: listing.topics() for listing in topology.listings
        }
        self.connectors = {
            (connector.connect_cluster, connector.name): connector
            for connector in snapshot.connectors
        }
        self.flows: dict[tuple[str, str], MirrorFlow] = {
            (flow.connect_cluster, flow.connector): flow for flow in topology.flows
        }
        self._states: dict[str, tuple[bool, str | None]] = {}
        self._away = {
            (sink.connect_cluster, sink.connector) for sink in topology.sinks if sink.kafka is None
        }
        self._lists = {view.connect_cluster: view for view in snapshot.lists}
        self._wants_connector = snapshot.wants_connector
        self._histories = snapshot.histories
        self._alive: frozenset[tuple[str, str]] | None = None
        self._at = snapshot.at
        self._cut = any(reason == "source_partitions_max" for reason, _ in snapshot.dropped)
        self._usual = snapshot.usual.of
        self._advanced = _find_last_advances(snapshot) if self._usual else {}

    def unusual(self, of: tuple[str, str]) -> str | None:
        """Return in words how a connector's pause exceeds every pause of its baseline, or None."""
        usual, since = self._usual.get(of), self._advanced.get(of)
        if usual is None or since is None or not usual.out_of_the_ordinary(since, self._at):
            return None
        limits = [
            *(
                [f"lasted for {format_timespan(usual.pause_s)}"]
                if usual.pause_s is not None
                else []
            ),
            *(
                [f"missed {usual.pause_advances:.1f} expected advances"]
                if usual.pause_advances is not None
                else []
            ),
        ]
        return (
            f"nothing advanced since {format_moment(since)}, and in its history no pause "
            f"{' or '.join(limits)}"
        )

    def states_of(self, cluster: str) -> tuple[bool, str | None]:
        """Return whether the states of a cluster's connectors are known, and if not, why.

        The reason is None where no input exists that could report them.
        """
        found = self._states.get(cluster)
        if found is None:
            found = self._states[cluster] = self._look_for_states(cluster)
        return found

    def state_of(self, cluster: str, connector: str) -> str | None:
        """Return why the state of a connector is unknown; None if it is known.

        None also if there is no such connector.
        """
        _, blind = self.states_of(cluster)
        if blind is not None:
            return blind
        view = self.connectors.get((cluster, connector))
        if view is None:
            return self._unlisted(cluster, connector)
        return "Connect reports no state of it" if view.state == UNKNOWN_STATE else None

    def without_configuration(self, cluster: str, connector: str) -> str | None:
        """Return why the configuration of a connector is unknown; None if it is known."""
        view = self._lists.get(cluster)
        told_at = None if view is None else view.without_configuration.get(connector)
        if told_at is None:
            return None
        return f"Connect lists it without its configuration, last read at {format_moment(told_at)}"

    def deleted(self, cluster: str, connector: str) -> bool:
        """Check whether a connector certainly no longer exists.

        A connector that the configuration excludes is in no list, whether it exists or not: False.
        """
        if cluster not in self._lists and cluster not in self._listings:
            return False
        if self.excludes(cluster, connector):
            return False
        known, _ = self.states_of(cluster)
        gone = (cluster, connector) not in self.connectors
        return known and gone and self._unlisted(cluster, connector) is None

    def excludes(self, cluster: str, connector: str) -> bool:
        """Check whether the configuration excludes a connector; it then gets no findings."""
        wants = self._wants_connector.get(cluster)
        return wants is not None and not wants(connector)

    def believes_list(self, cluster: str) -> bool:
        """Check whether an unlisted connector counts as deleted without contrary evidence."""
        view = self._lists.get(cluster)
        return view is None or (view.believed_at is not None and view.believed_at <= self._at)

    def _unlisted(self, cluster: str, connector: str) -> str | None:
        """Return why an unlisted connector may still exist.

        None if it is deleted, or if the configuration excludes it.
        """
        view = self._lists.get(cluster)
        if view is None or connector in view.deleted or self.excludes(cluster, connector):
            return None
        if not self.believes_list(cluster):
            return "Connect's list of connectors is in doubt"
        if any(unlisted_connector.connector == connector for unlisted_connector in view.unlisted):
            return "Connect does not list it, and it still works"
        if (cluster, connector) in self._by_status():
            return "Connect does not list it, and the status topic does"
        return None

    def _by_status(self) -> frozenset[tuple[str, str]]:
        """Return the connectors that a status topic holds."""
        if self._alive is None:
            self._alive = frozenset(
                (history.connect_cluster, history.connector)
                for history in self._histories
                if history.task is None and history.changes[-1].state != DELETED
            )
        return self._alive

    def _look_for_states(self, cluster: str) -> tuple[bool, str | None]:
        rest = InputId(CONNECT_REST, connect_cluster=cluster)
        if rest in self._inputs:
            why = self._blind(rest)
            return why is None, why
        if cluster not in self._listings:
            return False, None
        topics = self._listings[cluster]
        reasons = [self._blind(InputId.of_tail(topic)) for topic in topics]
        why = next((reason for reason in reasons if reason is not None), None)
        return why is None and len(topics) == 2, why

    def absent(self, cluster: str, connector: str, *, sink: bool) -> str | None:
        """Return why a partition missing from the snapshot may still exist; None if it is gone."""
        known, blind = self.states_of(cluster)
        if blind is not None:
            return blind
        if known and (cluster, connector) not in self.connectors:
            return self._unlisted(cluster, connector)
        if (unconfigured := self.without_configuration(cluster, connector)) is not None:
            return unconfigured
        rest = self._by_rest.get((cluster, connector))
        if rest is not None:
            why = self._blind(
                build_rest_offsets_input(cluster, connector)
            ) or _describe_missing_partitions(rest)
            return why and self._beside_kafka(cluster, connector, why, sink=sink)
        if sink:
            return self._blind(InputId(GROUPS, connect_cluster=cluster))
        topic = self._offsets_topic(cluster, connector)
        if topic is None:
            return None if self._ready else f"the offsets topic of {cluster} has not been found yet"
        return self._blind(InputId.of_tail(topic))

    def _beside_kafka(self, cluster: str, connector: str, why: str, *, sink: bool) -> str:
        """Return why REST offsets are unavailable, after the error of the read they replace."""
        topic = self._offsets_topic(cluster, connector)
        read = InputId(GROUPS, connect_cluster=cluster)
        if not sink:
            read = (
                InputId(TAIL, connect_cluster=cluster) if topic is None else InputId.of_tail(topic)
            )
        first = self._blind(read) if read in self._inputs else None
        return why if first is None else f"{first}; {why}"

    def offsets_topic(self, of: tuple[str, str]) -> str | None:
        """Return the topic in which Connect looks up this connector's offsets; None if unknown."""
        topic = self._offsets_topic(*of)
        return None if topic is None else str(topic)

    def without_log_ends(self, of: tuple[str, str]) -> str | None:
        """Return why no input reads the log ends of a sink's topics; None if one does."""
        return KAFKA_NOT_CONFIGURED if of in self._away else None

    def commits_nothing(self, of: tuple[str, str]) -> bool:
        """Check whether a source connector without partitions here never committed an offset.

        True only if its offsets topic is read to its end and the limit `source_partitions_max` has
        dropped nothing.
        """
        view, topic = self.connectors.get(of), self._offsets_topic(*of)
        if view is None or view.kind is not ConnectorKind.SOURCE or topic is None or self._cut:
            return False
        return self._blind(InputId.of_tail(topic)) is None

    def unmirrored(self, cluster: str, connector: str) -> str | None:
        """Return why the offset syncs of a source partition are unavailable, or None.

        None if they are readable, or if there are none to read. A source partition without mirrored
        side is then not copied.
        """
        flow = self.flows.get((cluster, connector))
        if flow is None or flow.offset_syncs is None or (cluster, connector) in self._by_rest:
            return None
        return self._blind(InputId.of_tail(flow.offset_syncs), missing_is_fine=True)

    def endless(self, kafka: str) -> str | None:
        """Return why the log ends of a Kafka cluster are unavailable; None if they are read."""
        return self._blind(InputId(LOG_ENDS, kafka=kafka))

    def _offsets_topic(self, cluster: str, connector: str) -> KafkaTopic | None:
        own = self._topics.get((cluster, connector))
        return own if own is not None else self._topics.get((cluster, None))

    def _blind(self, input_id: InputId, *, missing_is_fine: bool = False) -> str | None:
        view = self._inputs.get(input_id)
        if view is None:
            return f"no successful read yet of {input_id.in_words}"
        if missing_is_fine and view.last_reason == "not_found":
            return None
        if view.live and not (view.tail is not None and view.tail.frozen):
            return None
        frozen = () if view.tail is None else view.tail.frozen
        why = view.last_error or (frozen[0].detail if frozen else "no successful read yet")
        return f"{input_id.in_words} cannot be read: {why}"


def _describe_missing_partitions(rest: RestConnector) -> str | None:
    if not rest.missing:
        return None
    return f"{rest.missing} source partition(s) that REST listed are not in its last answer"


def _find_last_advances(snapshot: Snapshot) -> dict[tuple[str, str], float]:
    """Return the latest time, by our clock, at which each connector can have last advanced.

    That is the newest advance of any of its partitions; where no advance is known, the newest
    commit.
    """
    found: dict[tuple[str, str], float] = {}
    for view in snapshot.source_partitions:
        moment = view.committed_at if view.advanced_at is None else view.advanced_at
        if moment is not None:
            of = (view.connect_cluster, view.connector)
            latest = moment + SKEW_S_MAX
            by = latest if view.read_at is None else min(view.read_at, latest)
            found[of] = max(found.get(of, by), by)
    return found


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
    # It makes the partition downstream, and then its tasks anew.
    return view.unassigned_since + flow.refresh_s + REFRESH_INTERVALS * interval_s


def pause_state_of(view: ConnectorView) -> str | None:
    """Return "paused" or "stopped" if an operator put the connector into that state, else None."""
    return view.state if view.state in _PAUSE_STATES else None


def describe_failure(view: ConnectorView) -> str | None:
    """Return in words which part of a connector has failed: itself or tasks; None if none has."""
    if view.state == "failed":
        return "the connector has failed"
    numbers = [task.number for task in view.tasks if task.state == "failed"]
    if not numbers:
        return None
    return ", ".join(f"task {number} has failed" for number in numbers[:FAILED_TASKS_NAMED_MAX]) + (
        f" and {len(numbers) - FAILED_TASKS_NAMED_MAX} more"
        if len(numbers) > FAILED_TASKS_NAMED_MAX
        else ""
    )


def is_fully_running(view: ConnectorView) -> bool:
    """Check whether a connector and all of its tasks are running; False without any task."""
    states = {task.state for task in view.tasks}
    return view.state == "running" and states == {"running"}


def describe_trouble(view: ConnectorView) -> tuple[str | None, bool]:
    """Return in words what shows that a connector cannot work, and whether all of it is affected.

    The words are None if nothing shows it.
    """
    if view.state in _BROKEN_STATES:
        return f"the connector {_describe_state(view.state)}", True
    broken = [task for task in view.tasks if task.state in _BROKEN_STATES]
    if broken:
        words = ", ".join(f"task {task.number} {_describe_state(task.state)}" for task in broken)
        return words, len(broken) == len(view.tasks)
    if view.state == "running" and not view.tasks:
        # MM2's connectors have none while there is nothing to copy.
        return "it runs without a single task", view.kind is not ConnectorKind.MIRROR
    if view.state == "running" and {task.state for task in view.tasks} == {UNKNOWN_STATE}:
        return "Connect reports no state of its tasks", True
    return None, False


def describe_states(view: ConnectorView | None) -> str:
    """Return the states of a connector and its tasks in words, for evidence."""
    if view is None:
        return "unknown"
    counts: dict[str, int] = {}
    for task in view.tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"connector {view.state}, tasks: {tasks or 'none'}"


def _describe_state(state: str) -> str:
    return "has failed" if state == "failed" else f"is {state}"
